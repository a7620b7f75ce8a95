//! Equalities between columns, and what follows from those that are known.
//!
//! - **E1** An equality is of two columns of one type by that type's own comparison, which is an equivalence:
//!   so of `a = b` and `b = c` follows `a = c`. Equalities by different comparisons say nothing of each
//!   other.
//! - **E2** What is not NULL is equal to itself, and of a NULL nothing is equal: where equalities hold, what
//!   follows from them holds, and is not NULL.
use super::classify::{Cond, comparison};
use super::logical::{Expr, ExprKind, column_of};
use ondol_types::func::FuncId;

/// A relation and the number of a column of it.
pub type Column = (u16, u16);

/// E1; the columns are of different relations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Equality {
    pub left: Column,
    pub right: Column,
    pub func: FuncId,
}

pub fn equality(e: &Expr) -> Option<Equality> {
    let ExprKind::Call { func, args } = &e.kind else { return None };
    let [a, b] = &args[..] else { return None };
    let by = comparison(*func).filter(|c| c.cond == Cond::Eq && c.left == c.right)?;
    let is_one_type = a.unrelabelled().ty.id == b.unrelabelled().ty.id;
    let (left, right) = (column_of(a)?, column_of(b)?);
    debug_assert_eq!(by.left, by.right);
    (is_one_type && left.0 != right.0).then_some(Equality { left, right, func: *func })
}

/// Columns that equalities put together.
#[derive(Clone, Default, Debug)]
pub struct Classes {
    /// Each column that was named, and the number of its class.
    of: Vec<(Column, FuncId, usize)>,
    made: usize,
}

impl Classes {
    fn class(&mut self, column: Column, func: FuncId) -> usize {
        if let Some((.., class)) = self.of.iter().find(|(c, f, _)| (*c, *f) == (column, func)) {
            return *class;
        }
        self.made += 1;
        self.of.push((column, func, self.made));
        self.made
    }
    /// Takes an equality in; false if it follows from those before.
    pub fn learn(&mut self, e: &Equality) -> bool {
        let (from, to) = (self.class(e.right, e.func), self.class(e.left, e.func));
        self.of.iter_mut().filter(|(.., class)| *class == from).for_each(|(.., class)| *class = to);
        from != to
    }
    /// The classes, each with its comparison and its columns in the order in which they were named.
    pub fn each(&self) -> Vec<(FuncId, Vec<Column>)> {
        let mut seen: Vec<usize> = Vec::new();
        let mut out: Vec<(FuncId, Vec<Column>)> = Vec::new();
        for (column, func, class) in &self.of {
            match seen.iter().position(|c| c == class) {
                Some(n) => out[n].1.push(*column),
                None => {
                    seen.push(*class);
                    out.push((*func, vec![*column]));
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_types::func::id::{INT4_EQ, INT8_EQ};

    #[test]
    fn what_follows_is_no_news() {
        let mut classes = Classes::default();
        let mut learn = |left, right, func| classes.learn(&Equality { left, right, func });
        assert!(learn((0, 1), (1, 1), INT4_EQ));
        assert!(learn((2, 0), (3, 0), INT4_EQ));
        assert!(!learn((1, 1), (0, 1), INT4_EQ));
        assert!(learn((1, 1), (3, 0), INT4_EQ));
        assert!(!learn((0, 1), (2, 0), INT4_EQ));
        // Another column, and another comparison.
        assert!(learn((0, 0), (2, 0), INT4_EQ));
        assert!(learn((0, 1), (2, 0), INT8_EQ));
        let each = classes.each();
        assert_eq!(each.len(), 2);
        assert_eq!((each[0].0, each[0].1.len()), (INT4_EQ, 5));
        assert_eq!(each[1], (INT8_EQ, vec![(2, 0), (0, 1)]));
    }
}
