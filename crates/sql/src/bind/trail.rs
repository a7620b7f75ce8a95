//! SEARCH and CYCLE: columns that a recursion gets beside its own, by which its rows can be sorted, and by
//! which it ends where it comes to rows that it came from.
//!
//! ```text
//! first side:   SELECT own..., ARRAY[ROW(by)], default, ARRAY[ROW(by)] FROM (first side)
//! second side:  SELECT own..., seq || ARRAY[ROW(by)],
//!                      CASE WHEN ROW(by) = ANY (path) THEN mark ELSE default END, path || ARRAY[ROW(by)]
//!               FROM (second side, with seq, mark and path of the row that it reads) WHERE mark <> value
//! ```
//! - **A1** What SEARCH BREADTH FIRST sorts by is a row: how deep, then the columns. How deep, the recursion
//!   has in a column of its own as well, behind all others, that none but its second side sees.
use super::scope::column;
use super::tree::{at, need, strings};
use super::{Binder, coerce, constant, row};
use crate::bound::{Expr, ExprKind, From, Query, Rel, RelEntry, Target};
use crate::parse::tree::CommonTableExpr;
use ondol_types::func::id;
use ondol_types::resolve;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, sqlstate};

/// The name of the column that says how deep (A1).
const DEPTH: &str = "*DEPTH*";

#[derive(Clone, Debug)]
pub struct Search {
    pub breadth: bool,
    pub by: Vec<String>,
    pub column: String,
}

#[derive(Clone, Debug)]
pub struct Cycle {
    pub by: Vec<String>,
    pub mark: String,
    pub path: String,
    /// What the mark is where a row was come to before, and elsewhere.
    pub value: Expr,
    pub default: Expr,
}

/// What a recursion gets beside its own columns.
#[derive(Clone, Debug, Default)]
pub struct Trail {
    pub search: Option<Search>,
    pub cycle: Option<Cycle>,
}

fn rows() -> Type {
    Type::new(TypeId::RECORD.array().unwrap_or(TypeId::RECORD))
}

fn wrong(message: String, location: i32) -> SqlError {
    at(SqlError::new(sqlstate::SYNTAX_ERROR, message), location)
}

impl Trail {
    fn is_none(&self) -> bool {
        self.search.is_none() && self.cycle.is_none()
    }

    /// The columns that who reads the recursion sees.
    pub fn add_columns(&self, columns: &mut Vec<(String, Type)>) {
        if let Some(s) = &self.search {
            columns.push((s.column.clone(), if s.breadth { Type::new(TypeId::RECORD) } else { rows() }));
        }
        if let Some(c) = &self.cycle {
            columns.push((c.mark.clone(), c.value.ty));
            columns.push((c.path.clone(), rows()));
        }
    }

    /// Those that its second side sees.
    pub fn add_seen(&self, columns: &mut Vec<(String, Type)>) {
        self.add_columns(columns);
        if self.search.as_ref().is_some_and(|s| s.breadth) {
            columns.push((DEPTH.into(), Type::INT8));
        }
    }

    /// Whether the clauses fit the query that they stand behind.
    pub fn check(&self, c: &CommonTableExpr, own: &[(String, Type)], query: &Query) -> SqlResult<()> {
        if self.is_none() {
            return Ok(());
        }
        if let Some(set) = &query.set {
            for (side, which) in [(&set.left, "left"), (&set.right, "right")] {
                if side.set.is_some() && side.order_by.is_empty() && side.limit.is_none() {
                    let message = format!(
                        "with a SEARCH or CYCLE clause, the {which} side of the UNION must be a SELECT"
                    );
                    return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
                }
            }
        }
        let has = |name: &str| own.iter().any(|o| o.0 == name);
        let named = |what: &str, state: &'static str, by: &[String], location: i32| {
            for (n, name) in by.iter().enumerate() {
                if !has(name) {
                    let message = format!("{what} column \"{name}\" not in WITH query column list");
                    return Err(at(SqlError::new(state, message), location));
                }
                if by[..n].contains(name) {
                    let message = format!("{what} column \"{name}\" specified more than once");
                    return Err(at(SqlError::new(sqlstate::DUPLICATE_COLUMN, message), location));
                }
            }
            Ok(())
        };
        let used = |what: &str, name: &str, location: i32| match has(name) {
            true => {
                let message = format!("{what} column name \"{name}\" already used in WITH query column list");
                Err(wrong(message, location))
            }
            false => Ok(()),
        };
        let here = |l: Option<i32>| l.unwrap_or(-1);
        let of_search = here(c.search_clause.as_ref().map(|s| s.location));
        let of_cycle = here(c.cycle_clause.as_ref().map(|s| s.location));
        if let Some(s) = &self.search {
            // As PostgreSQL has it, which tells these two apart.
            named("search", sqlstate::SYNTAX_ERROR, &s.by, of_search)?;
            used("search sequence", &s.column, of_search)?;
        }
        if let Some(cycle) = &self.cycle {
            named("cycle", sqlstate::UNDEFINED_COLUMN, &cycle.by, of_cycle)?;
            used("cycle mark", &cycle.mark, of_cycle)?;
            let ty = cycle.value.ty.id;
            for (operator, what) in [("=", "an equality"), ("<>", "an inequality")] {
                if resolve::resolve_operator(operator, Some(ty), ty).is_err() {
                    let message = format!("could not identify {what} operator for type {}", ty.name());
                    return Err(SqlError::new(sqlstate::UNDEFINED_FUNCTION, message));
                }
            }
            used("cycle path", &cycle.path, of_cycle)?;
            if cycle.mark == cycle.path {
                let message = "cycle mark column name and cycle path column name are the same";
                return Err(wrong(message.into(), of_cycle));
            }
        }
        if let (Some(s), Some(cycle)) = (&self.search, &self.cycle) {
            for (name, what) in [(&cycle.mark, "mark"), (&cycle.path, "path")] {
                if s.column == *name {
                    let message =
                        format!("search sequence column name and cycle {what} column name are the same");
                    return Err(wrong(message, of_search));
                }
            }
        }
        Ok(())
    }
}

/// A side of the recursion as a relation: its columns by their names, and what was asked for with them.
struct Side<'s> {
    own: &'s [(String, Type)],
}

impl Side<'_> {
    /// A row of some of the columns, which are there.
    fn row(&self, first: Option<Expr>, by: &[String]) -> Expr {
        let (mut fields, mut values) = (Vec::new(), Vec::new());
        if let Some(e) = first {
            fields.push((DEPTH.to_string(), e.ty));
            values.push(e);
        }
        for name in by {
            if let Some(n) = self.own.iter().position(|o| o.0 == *name) {
                fields.push(self.own[n].clone());
                values.push(column(0, n, self.own[n].1));
            }
        }
        row::row_of(TypeId::RECORD, &fields, values, u32::MAX)
    }
}

impl<'a> Binder<'a> {
    /// What the clauses behind a WITH query say.
    pub(super) fn trail(&mut self, c: &'a CommonTableExpr) -> SqlResult<Trail> {
        let owned = |list: Vec<&str>| list.into_iter().map(String::from).collect::<Vec<_>>();
        let search = match &c.search_clause {
            Some(s) => Some(Search {
                breadth: s.search_breadth_first,
                by: owned(strings(&s.search_col_list)?),
                column: s.search_seq_column.clone(),
            }),
            None => None,
        };
        let cycle = match &c.cycle_clause {
            Some(s) => {
                let value = self.expr(need(&s.cycle_mark_value)?)?;
                let default = self.expr(need(&s.cycle_mark_default)?)?;
                let ty = coerce::common_type(&[&value, &default], "CYCLE")?;
                let mut both = self.cast_all(vec![value, default], ty, "CYCLE")?;
                let (Some(default), Some(value)) = (both.pop(), both.pop()) else {
                    return Err(super::tree::unexpected("CYCLE"));
                };
                Some(Cycle {
                    by: owned(strings(&s.cycle_col_list)?),
                    mark: s.cycle_mark_column.clone(),
                    path: s.cycle_path_column.clone(),
                    value,
                    default,
                })
            }
            None => None,
        };
        Ok(Trail { search, cycle })
    }

    pub(super) fn note_trail(&mut self, number: u16, trail: Trail) {
        if let Some(notes) = self.notes.as_mut().filter(|_| !trail.is_none()) {
            notes.get_mut().trails.insert(number, trail);
        }
    }

    /// Adds the columns to both sides of a recursion.
    pub(super) fn follow(
        &mut self,
        c: &CommonTableExpr,
        trail: &Trail,
        query: &mut Query,
        own: &[(String, Type)],
        number: u16,
    ) -> SqlResult<()> {
        let Some(set) = query.set.as_deref_mut().filter(|_| !trail.is_none()) else { return Ok(()) };
        let reads = |r: &RelEntry| matches!(r.rel, Rel::With(n) if n == number);
        let Some(reader) = set.right.rels.iter().position(reads) else {
            let message = format!(
                "with a SEARCH or CYCLE clause, the recursive reference to WITH query \"{}\" must be at the top \
                 level of its right-hand SELECT",
                c.ctename
            );
            return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
        };
        if set.right.grouped || set.right.distinct || !set.right.places.is_empty() {
            let feature = "SEARCH and CYCLE where the right-hand SELECT has groups, DISTINCT or functions that \
                           give rows";
            return Err(SqlError::unsupported(feature));
        }
        let side = Side { own };
        let mut added = own.to_vec();
        trail.add_seen(&mut added);
        let added = &added[own.len()..];
        // What the row that is read has of them.
        for (n, (name, ty)) in added.iter().enumerate() {
            let expr = column(reader as u16, own.len() + n, *ty);
            set.right.targets.push(Target { expr, name: name.clone(), hidden: false });
        }
        let before = |name: &str| {
            let n = added.iter().position(|a| a.0 == name).unwrap_or(0);
            column(0, own.len() + n, added[n].1)
        };
        let (mut first, mut second, mut filter) = (Vec::new(), Vec::new(), None);
        let mut depths = Vec::new();
        if let Some(s) = &trail.search {
            if s.breadth {
                let zero = constant(Value::Int8(0), Type::INT8, u32::MAX);
                let one = constant(Value::Int8(1), Type::INT8, u32::MAX);
                let deeper = self.operator("+", Some(before(DEPTH)), one, u32::MAX)?;
                first.push(side.row(Some(zero.clone()), &s.by));
                second.push(side.row(Some(deeper.clone()), &s.by));
                depths.extend([zero, deeper]);
            } else {
                let row = side.row(None, &s.by);
                let only = self.array_of_items(rows(), vec![row]);
                first.push(only.clone());
                second.push(self.operator("||", Some(before(&s.column)), only, u32::MAX)?);
            }
        }
        if let Some(cycle) = &trail.cycle {
            let row = side.row(None, &cycle.by);
            let only = self.array_of_items(rows(), vec![row.clone()]);
            first.push(cycle.default.clone());
            first.push(only.clone());
            let eq = resolve::resolve_operator("=", Some(TypeId::RECORD), TypeId::RECORD)?;
            let eq = constant(Value::Int4(eq.func.0.into()), Type::INT4, u32::MAX);
            let path = before(&cycle.path);
            let was = self.unnamed(id::ANY_OF_ARRAY, vec![row, path.clone(), eq], Type::BOOL, u32::MAX);
            let otherwise = Some(Box::new(cycle.default.clone()));
            let kind = ExprKind::Case { whens: vec![(was, cycle.value.clone())], otherwise };
            second.push(Expr { kind, ty: cycle.value.ty, at: u32::MAX });
            second.push(self.operator("||", Some(path), only, u32::MAX)?);
            filter = Some(self.operator("<>", Some(before(&cycle.mark)), cycle.value.clone(), u32::MAX)?);
        }
        if let [zero, deeper] = &depths[..] {
            first.push(zero.clone());
            second.push(deeper.clone());
        }
        let wrapped = |mut query: Query, values: Vec<Expr>, alias: &str, filter: Option<Expr>| {
            coerce::deepen(&mut query);
            let columns = query.columns();
            let own_values = (0..).zip(own).map(|(n, o)| column(0, n, o.1));
            let names = own.iter().chain(added).map(|a| a.0.clone());
            let targets = own_values.chain(values).zip(names);
            let targets = targets.map(|(expr, name)| Target { expr, name, hidden: false }).collect();
            let entry = RelEntry { rel: Rel::Query(Box::new(query)), alias: alias.into(), columns };
            Query { rels: vec![entry], from: vec![From::Rel(0)], targets, filter, ..Query::default() }
        };
        set.left = wrapped(std::mem::take(&mut set.left), first, "*TLOCRN*", None);
        set.right = wrapped(std::mem::take(&mut set.right), second, "*TROCRN*", filter);
        let targets = (own.len()..).zip(added).map(|(n, (name, ty))| Target {
            expr: column(0, n, *ty),
            name: name.clone(),
            hidden: false,
        });
        query.targets.extend(targets);
        Ok(())
    }
}
