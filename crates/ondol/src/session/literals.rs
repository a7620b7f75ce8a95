//! Statements that differ in their literals alone have one plan.
//!
//! - **E1** In a SELECT, INSERT, UPDATE or DELETE that came without parameters, a literal gives way to a
//!   parameter where both mean the same: behind a comparison, as an end of BETWEEN, in a list of IN that has
//!   literals alone, and, if it is a number, behind `+` and `-`; and in the rows of INSERT ... VALUES. A
//!   number's parameter has the number's type. A quoted one's has none, so that the binder gives it the type
//!   that it would have given the literal.
//! - **E2** What stands on its other sides says that the literal is all of the operand, and the other
//!   operand none itself: so a cast, a collation, a condition such as 1 = 0 stay as they are, and so do the
//!   literals of LIMIT, LIKE, ORDER BY and of all else.
//! - **E3** The text with parameters is only tried. Where it cannot be planned, where the planner compares
//!   constants (an index on an expression, or on some of the rows), where a parameter would be converted for
//!   each of many rows, where a literal is an interval's, a domain's or a composite type's, where the time of
//!   the statement says what it is ('now'), or where a value is none of its parameter's type, the statement
//!   is planned as it was written, and errors are of that. The session remembers texts with which there is
//!   nothing to be won.
use crate::session::plan::Plan;
use ondol_sql::parse::lexer::{Token, TokenKind, Tokens};
use ondol_types::user::enumeration;
use ondol_types::{Numeric, TypeId, Value};

/// Longer texts are planned as they are.
const LONG: usize = 4096;
/// So are texts with more literals.
const MANY: usize = 64;

/// Words that may follow an operand.
const BEHIND: [&str; 18] = [
    "AND",
    "ELSE",
    "END",
    "EXCEPT",
    "FOR",
    "FROM",
    "GROUP",
    "HAVING",
    "LIMIT",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "RETURNING",
    "THEN",
    "UNION",
    "WHEN",
    "WHERE",
];

/// A text with parameters for literals, and what they stand for.
#[derive(Debug)]
pub(crate) struct Lifted {
    pub text: String,
    pub types: Vec<TypeId>,
    pub values: Vec<Value>,
}

/// `None` where no literal gives way.
pub(crate) fn lift(sql: &str) -> Option<Lifted> {
    if sql.len() > LONG {
        return None;
    }
    let mut tokens = Tokens::new(sql);
    let mut all: Vec<Token> = Vec::with_capacity(sql.len() / 3);
    all.extend(tokens.by_ref());
    if !all.iter().any(|t| matches!(t.kind, TokenKind::Number | TokenKind::String)) {
        return None;
    }
    let first = all.first()?;
    let inserts = first.is_word(sql, "INSERT");
    let others = ["SELECT", "UPDATE", "DELETE"];
    if tokens.unfinished.is_some() || !inserts && !others.iter().any(|w| first.is_word(sql, w)) {
        return None;
    }
    let mut lifted = Lifted { text: String::with_capacity(sql.len() + 8), types: vec![], values: vec![] };
    // Whether it is behind VALUES, and in how many brackets.
    let (mut rows, mut depth) = (false, 0u32);
    // Where the last list of IN ends.
    let mut list = 0;
    let mut copied = 0;
    for (n, t) in all.iter().enumerate() {
        match t.kind {
            TokenKind::Param => return None,
            TokenKind::Mark(b'(' | b'[') => {
                depth += 1;
                if let Some(end) = list_of_in(sql, &all, n) {
                    list = end
                }
            }
            TokenKind::Mark(b')' | b']') => depth = depth.saturating_sub(1),
            TokenKind::Word | TokenKind::Quoted if depth == 0 => rows = inserts && t.is_word(sql, "VALUES"),
            TokenKind::Number | TokenKind::String if ends_operand(sql, all.get(n + 1)) => {
                let before = &all[..n];
                let Some(start) = place(sql, before, t, n < list || rows && depth == 1) else { continue };
                let Some(value) = value(&sql[t.start..t.end], start < t.start) else { continue };
                lifted.text.push_str(&sql[copied..start]);
                lifted.types.push(match value {
                    Value::Text(_) => TypeId::UNKNOWN,
                    _ => value.type_id()?,
                });
                lifted.values.push(value);
                lifted.text.push('$');
                lifted.text.push_str(&lifted.values.len().to_string());
                copied = t.end;
            }
            _ => {}
        }
    }
    if lifted.values.is_empty() || lifted.values.len() > MANY {
        return None;
    }
    lifted.text.push_str(&sql[copied..]);
    Some(lifted)
}

/// Whether the plan of a text with parameters, which were given these types, is as good for the literals
/// (E3).
pub(crate) fn is_served(given: &[TypeId], plan: &Plan) -> bool {
    let is_made = |t: TypeId| t.element().unwrap_or(t).user().is_some_and(|u| u.kind != enumeration::CODE);
    // A column's fields (YEAR TO MONTH) say how such a literal is read, and not how such a value is. Domains
    // and composite types may hold one.
    let is_interval = |(given, is): (&TypeId, &TypeId)| {
        *given == TypeId::UNKNOWN && (*is == TypeId::INTERVAL || is_made(*is))
    };
    !given.iter().zip(&plan.program.params).any(is_interval) && !plan.wants_constants
}

/// Whether what follows leaves the operand as it is (E2).
fn ends_operand(sql: &str, next: Option<&Token>) -> bool {
    match next {
        None => true,
        Some(t) => match t.kind {
            TokenKind::Mark(b',' | b')' | b';') => true,
            TokenKind::Word => BEHIND.iter().any(|w| t.is_word(sql, w)),
            _ => false,
        },
    }
}

/// Where the literal begins, with its sign, if it stands where it may give way.
fn place(sql: &str, before: &[Token], t: &Token, in_list: bool) -> Option<usize> {
    let (last, others) = before.split_last()?;
    let is_number = t.kind == TokenKind::Number;
    if follows(sql, before, is_number, in_list) {
        return Some(t.start);
    }
    (is_number && is_sign(sql, last) && follows(sql, others, true, in_list)).then_some(last.start)
}

fn is_sign(sql: &str, t: &Token) -> bool {
    t.kind == TokenKind::Operator && &sql[t.start..t.end] == "-"
}

/// Whether an operand that follows these tokens may give way, which may be one of a list.
fn follows(sql: &str, before: &[Token], is_number: bool, in_list: bool) -> bool {
    let Some((last, others)) = before.split_last() else { return false };
    match last.kind {
        TokenKind::Mark(b'(' | b',') => in_list,
        TokenKind::Word if last.is_word(sql, "BETWEEN") => is_column(sql, others),
        TokenKind::Word if last.is_word(sql, "AND") => {
            // The first end is a literal, too.
            let (column, low) = match others {
                [column @ .., between, sign, low]
                    if is_sign(sql, sign) && between.is_word(sql, "BETWEEN") =>
                {
                    (column, low)
                }
                [column @ .., between, low] if between.is_word(sql, "BETWEEN") => (column, low),
                _ => return false,
            };
            matches!(low.kind, TokenKind::Number | TokenKind::String) && is_column(sql, column)
        }
        TokenKind::Operator => {
            let Some(left) = others.last() else { return false };
            let word = &sql[left.start..left.end];
            match &sql[last.start..last.end] {
                "=" | "<" | ">" | "<=" | ">=" | "<>" | "!=" => {
                    matches!(left.kind, TokenKind::Word | TokenKind::Quoted | TokenKind::Mark(b')' | b']'))
                }
                // Behind a keyword it would be a sign.
                "+" | "-" if is_number => match left.kind {
                    TokenKind::Quoted | TokenKind::Mark(b')' | b']') => true,
                    TokenKind::Word => !left.is_word(sql, "BY") && !ondol_types::name::is_keyword(word),
                    _ => false,
                },
                _ => false,
            }
        }
        _ => false,
    }
}

/// The place of the bracket that closes the list of IN that this one opens, if all of it are literals.
fn list_of_in(sql: &str, all: &[Token], open: usize) -> Option<usize> {
    let column = match &all[..open] {
        [column @ .., not, word] if word.is_word(sql, "IN") && not.is_word(sql, "NOT") => column,
        [column @ .., word] if word.is_word(sql, "IN") => column,
        _ => return None,
    };
    if !is_column(sql, column) {
        return None;
    }
    let mut at = open;
    loop {
        at += 1;
        if all.get(at).is_some_and(|t| is_sign(sql, t)) {
            at += 1;
        }
        if !matches!(all.get(at)?.kind, TokenKind::Number | TokenKind::String) {
            return None;
        }
        at += 1;
        match all.get(at)?.kind {
            TokenKind::Mark(b',') => {}
            TokenKind::Mark(b')') => return Some(at),
            _ => return None,
        }
    }
}

/// Whether the tokens end with what is no literal.
fn is_column(sql: &str, tokens: &[Token]) -> bool {
    tokens.last().is_some_and(|t| match t.kind {
        TokenKind::Quoted | TokenKind::Mark(b')' | b']') => true,
        TokenKind::Word => !ondol_types::name::is_keyword(&sql[t.start..t.end]),
        _ => false,
    })
}

/// What a literal stands for, with a minus before it; `None` where that is not said here.
fn value(literal: &str, negative: bool) -> Option<Value> {
    if let Some(quoted) = literal.strip_prefix('\'') {
        let inner = quoted.strip_suffix('\'')?;
        // Two quotes are one; a single one would be a literal in two parts.
        let is_whole = inner.split("''").all(|part| !part.contains(['\'', '\\']));
        return is_whole.then(|| Value::Text(inner.replace("''", "'")));
    }
    let sign = if negative { -1 } else { 1 };
    if literal.bytes().all(|b| b.is_ascii_digit()) {
        // The grammar takes the sign for a part of the number, which has the type of both.
        let n = literal.parse::<i64>().ok()? * sign;
        return Some(i32::try_from(n).map_or(Value::Int8(n), Value::Int4));
    }
    let is_plain = literal.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number = Numeric::parse(literal).ok().filter(|_| is_plain)?;
    Some(Value::Numeric(if negative { number.neg() } else { number }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifted(sql: &str) -> Option<(String, String)> {
        let l = lift(sql)?;
        let values: Vec<String> = l.values.iter().map(|v| v.to_string()).collect();
        Some((l.text, values.join(" ")))
    }

    #[test]
    fn literals_give_way() {
        for (sql, text, values) in [
            ("select a from t where id = 5", "select a from t where id = $1", "5"),
            ("SELECT a FROM t WHERE id=5;", "SELECT a FROM t WHERE id=$1;", "5"),
            (
                "update t set b = b + -12, c = 'it''s' where id >= -3 returning b",
                "update t set b = b + $1, c = $2 where id >= $3 returning b",
                "-12 it's -3",
            ),
            (
                "insert into t (a, b) values (1, 'x', f(2)), (-3.50, now(), 4) on conflict (a) do update set b = 7",
                "insert into t (a, b) values ($1, $2, f(2)), ($3, now(), $4) on conflict (a) do update set b = $5",
                "1 x -3.50 4 7",
            ),
            (
                "delete from t where a < 3000000000 or b <> ''",
                "delete from t where a < $1 or b <> $2",
                "3000000000 ",
            ),
            (
                "select a from t where (a between 1 and -5 or b.\"c\" BETWEEN -2 AND 'x') and f(a) between '' and 3 and d = 4",
                "select a from t where (a between $1 and $2 or b.\"c\" BETWEEN $3 AND $4) and f(a) between $5 and $6 and d = $7",
                "1 -5 -2 x  3 4",
            ),
            (
                "select a from t where a between 5 and b and c",
                "select a from t where a between $1 and b and c",
                "5",
            ),
            (
                "select a from t where a in (1, -2) and f(b) not in ('x', 3.5) or c in (1, d) or 1 in (2) and e in (7)",
                "select a from t where a in ($1, $2) and f(b) not in ($3, $4) or c in (1, d) or 1 in (2) and e in ($5)",
                "1 -2 x 3.5 7",
            ),
            ("select 1 from t where a = 1 limit 3", "select 1 from t where a = $1 limit 3", "1"),
        ] {
            assert_eq!(lifted(sql), Some((text.to_string(), values.to_string())), "{sql}")
        }
        let types = |sql: &str| lift(sql).map(|l| l.types).unwrap_or_default();
        assert_eq!(
            types("select 1 where a = 1 and b = -2147483648 and c = 1.5 and d = 'x'"),
            [TypeId::INT4, TypeId::INT4, TypeId::NUMERIC, TypeId::UNKNOWN]
        )
    }

    #[test]
    fn others_stay() {
        for sql in [
            "select 1",
            "select a from t where a = $1 and b = 2",
            "select a from t where 1 = 0",
            "select a from t where a = 5::bigint",
            "select a from t where a = 'x' collate \"C\"",
            "select a from t where a = 'x'\n'y'",
            "select a from t where a = E'x'",
            "select a from t where a = 'x\\y'",
            "select a from t where a = 1e5",
            "select a from t where a = date '2020-01-01'",
            "select a from t where a like 'x%' and b in (1, null) and 1 between 1 and 2",
            "select a from t where (a, b) in ((1, 2)) and c in (1 + 1) and d in (5::bigint) and e in ()",
            "select a from t where a in (1, 2",
            "select a from t where a between b and 2 and c between symmetric 1 and 2 and d not between 3 and 4",
            "select a from t where a = 99999999999999999999",
            "select a from t order by -1",
            "select a from t order by a + 1 desc",
            "select a from t limit 1 offset 2",
            "select a from t where a = 5 + 1",
            "values (1)",
            "select * from (values (1)) v",
            "select a -> 'x' from t",
            "create table t (a int default 5, check (a > 5))",
            "with x as (select 1 where a = 5) select 1",
            "explain select a from t where a = 5",
            "select a from t where a = 'x",
            "",
        ] {
            assert_eq!(lifted(sql), None, "{sql}")
        }
    }
}
