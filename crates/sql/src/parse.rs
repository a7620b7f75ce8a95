//! Text to parse trees, by PostgreSQL's own grammar (`libpg_query`).
//!
//! 1. Every position is a byte offset into the text that was given to [`parse`], whatever statement of it is
//!    meant.
//! 2. Threads parse side by side. All that the C library changes is its thread's own, but for one word, which
//!    it writes when it is first called on a thread; [`library`] lets only one thread at a time do that. Its
//!    sources point the process's standard error at a pipe during each call, which side by side would go
//!    wrong, unless DEBUG is defined. In the version that Cargo.toml asks for it is, always. That version
//!    writes nothing to standard error either, and drops warnings: with standard strings the grammar has only
//!    one, of GLOBAL before TEMPORARY, and temporary tables are refused.
//! 3. A text whose tree could be nested more than [`MAX_NESTING`] levels is refused before the C library sees
//!    it: serialising, decoding, binding and planning recurse, and a stack overflow ends the process.
//!
//! 4. The library sees blanks for comments between `/*` and `*/`: its scanner looks through the rest of the
//!    signs that stand together at each `/*` of a nested one, which takes the square of their number.
//!
//! The library gives an error's text but not its place. [`locate`] finds it: the message quotes the offending
//! token, and of several places where that token stands, the right one is the first whose prefix of the text
//! fails in the same way (an LR parser reads no further than the token it objects to). Errors that quote no
//! token have no position.
//!
//! Sources: PostgreSQL's documentation, chapter 4.1 (lexical structure); libpg_query's README.

mod dialect;
pub mod lexer;
pub mod names;

pub use pg_query::protobuf as tree;

use ondol_base::sync::OneAtATime;
use ondol_types::limits::Limits;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::borrow::Cow;
use std::cell::Cell;
use tree::node::Node as Kind;

/// Levels of nesting that a statement may have; see invariant 3.
pub const MAX_NESTING: usize = 150;

/// Calls the C library; see invariant 2.
fn library<R>(call: impl FnOnce() -> R) -> R {
    static FIRST_CALLS: OneAtATime = OneAtATime::new();
    thread_local! {
        static CALLED: Cell<bool> = const { Cell::new(false) };
    }
    if !CALLED.replace(true) {
        // What comes of it is nothing, or an error that comes again.
        FIRST_CALLS.run(|| drop(pg_query::parse("", 0)))
    }
    call()
}

/// One statement of a text.
#[derive(Clone, Debug)]
pub struct Raw {
    /// Where its first token starts.
    pub start: usize,
    /// Where it ends: before its semicolon, or at the end of the text.
    pub end: usize,
    pub node: Kind,
}

/// How much memory parsing and planning a text takes, by its tokens: about, but hardly less. Nothing for a
/// short one, which takes little.
pub fn memory(sql: &str) -> usize {
    const SHORT: usize = 1 << 10;
    // Measured: what the nodes take that a token stands for, most of it in the trees of libpg_query's
    // messages.
    const VALUE: usize = 1160;
    const NAME: usize = 4100;
    const OPERATOR: usize = 3300;
    const LIST: usize = 1600;
    const KEYWORD: usize = 400;
    const STATEMENT: usize = 4000;
    /// The text, and that of each token, are copied on the way.
    const COPIES: usize = 6;
    const KEYWORDS: &[&str] =
        &["and", "or", "not", "null", "in", "when", "then", "else", "end", "as", "default", "true", "false"];
    if sql.len() <= SHORT {
        return 0;
    }
    let mut bytes = 2 * sql.len();
    let (mut after_item, mut may_be_sign) = (false, false);
    for t in lexer::Tokens::new(sql) {
        use lexer::TokenKind as T;
        let text = &sql[t.start..t.end];
        if std::mem::take(&mut may_be_sign) && t.kind == T::Number {
            // The minus is the number's.
            bytes -= OPERATOR;
        }
        bytes += COPIES * text.len();
        bytes += match t.kind {
            T::Word if text.len() <= 7 && KEYWORDS.iter().any(|k| k.eq_ignore_ascii_case(text)) => KEYWORD,
            T::Word | T::Quoted => NAME,
            T::String | T::Number | T::Param => VALUE,
            T::Operator => {
                may_be_sign = after_item && text == "-";
                OPERATOR
            }
            T::Mark(b'(' | b'[') => LIST,
            T::Mark(b';') => STATEMENT,
            T::Mark(_) => 0,
        };
        after_item = matches!(t.kind, T::Mark(b'(' | b','));
    }
    bytes
}

/// Parses a text of any number of statements.
pub fn parse(sql: &str) -> SqlResult<Vec<Raw>> {
    parse_within(sql, Limits::NONE)
}

/// The same, ended by the limits: between calls of the C library, which themselves cannot be ended.
pub fn parse_within(sql: &str, limits: Limits<'_>) -> SqlResult<Vec<Raw>> {
    if let Some(at) = sql.bytes().position(|b| b == 0) {
        return Err(SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\": 0x00").at(at));
    }
    if sql.len() > i32::MAX as usize / 2 {
        return Err(SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "statement text is too long"));
    }
    if sql.len() > MAX_NESTING && lexer::nesting(sql) > MAX_NESTING {
        return Err(SqlError::new("54001", "stack depth limit exceeded")
            .hint(format!("A statement may be nested {MAX_NESTING} levels deep.")));
    }
    let blanked = without_comments(sql)?;
    let text = dialect::adapt(&blanked).map_err(|junk| first_error(&blanked, &junk, limits))?;
    limits.go_on()?;
    let parsed = library(|| pg_query::parse(&text, 0));
    let tree = match parsed {
        Ok(result) => result.protobuf,
        Err(pg_query::Error::Parse(message)) => return Err(located(&blanked, message, limits)),
        Err(e) => return Err(SqlError::new(sqlstate::INTERNAL_ERROR, e.to_string())),
    };
    let mut statements = Vec::with_capacity(tree.stmts.len());
    for raw in tree.stmts {
        let Some(node) = raw.stmt.and_then(|n| n.node) else { continue };
        let from = usize::try_from(raw.stmt_location).unwrap_or(0).min(sql.len());
        let end = match usize::try_from(raw.stmt_len) {
            Ok(len) if len > 0 => (from + len).min(sql.len()),
            _ => sql.len(),
        };
        let body = sql.get(from..end).unwrap_or_default();
        let (mut first, mut last) = (None, 0);
        for t in lexer::Tokens::new(body) {
            first.get_or_insert(t.start);
            last = t.end;
        }
        let start = from + first.unwrap_or(0);
        statements.push(Raw { start, end: from + last, node });
    }
    Ok(statements)
}

/// The error of a text with a token that is refused: that, unless the grammar objects to something before it.
fn first_error(sql: &str, junk: &dialect::Junk, limits: Limits<'_>) -> SqlError {
    let before = &sql[..junk.start];
    match library(|| pg_query::parse(before, 0)) {
        Err(pg_query::Error::Parse(m)) if !m.ends_with(" at end of input") => located(before, m, limits),
        _ => junk.error(sql),
    }
}

/// The text with blanks for what stands between two tokens with a comment of the long kind (4), newlines too:
/// two strings with such a comment between them are not one.
fn without_comments(sql: &str) -> SqlResult<Cow<'_, str>> {
    /// Of an unfinished comment, bytes that the library may look at.
    const OPEN: usize = 4 << 10;
    if !sql.contains("/*") {
        return Ok(Cow::Borrowed(sql));
    }
    let mut blanked = String::with_capacity(sql.len());
    let mut tokens = lexer::Tokens::new(sql);
    let mut copied = 0;
    let mut pass = |from: usize, to: usize| {
        let gap = &sql[copied..from];
        match gap.contains("/*") {
            true => blanked.extend(std::iter::repeat_n(' ', gap.len())),
            false => blanked.push_str(gap),
        }
        blanked.push_str(&sql[from..to]);
        copied = to
    };
    let mut end = 0;
    for t in &mut tokens {
        pass(t.start, t.end);
        end = t.end
    }
    if matches!(tokens.unfinished, Some((lexer::Unfinished::Comment { .. }, _))) {
        if sql.len() - end > OPEN {
            return Err(SqlError::new(sqlstate::SYNTAX_ERROR, "unterminated /* comment").at(end));
        }
        pass(end, sql.len());
    } else {
        pass(sql.len(), sql.len());
    }
    Ok(Cow::Owned(blanked))
}

/// An expression of a parse tree as text that parses to it again.
pub fn expression_text(expression: &tree::Node) -> SqlResult<String> {
    const HEAD: &str = "SELECT ";
    let target = tree::ResTarget { val: Some(Box::new(expression.clone())), ..tree::ResTarget::default() };
    let select = tree::SelectStmt {
        target_list: vec![tree::Node { node: Some(Kind::ResTarget(Box::new(target))) }],
        limit_option: tree::LimitOption::Default as i32,
        op: tree::SetOperation::SetopNone as i32,
        ..tree::SelectStmt::default()
    };
    let text = statement_text(&tree::Node { node: Some(Kind::SelectStmt(Box::new(select))) })?;
    match text.strip_prefix(HEAD) {
        Some(expression) => Ok(expression.to_string()),
        None => {
            let message = format!("an expression was written as {text:?}");
            Err(SqlError::new(sqlstate::INTERNAL_ERROR, message))
        }
    }
}

/// A statement's parse tree as text that parses to it again.
pub fn statement_text(statement: &tree::Node) -> SqlResult<String> {
    let raw = tree::RawStmt { stmt: Some(Box::new(statement.clone())), stmt_location: 0, stmt_len: 0 };
    let whole = tree::ParseResult { version: 0, stmts: vec![raw] };
    let text = library(|| pg_query::deparse(&whole, pg_query::DeparseOptions::default()));
    text.map_err(|e| SqlError::new(sqlstate::INTERNAL_ERROR, e.to_string()))
}

/// The error of a message, with its SQLSTATE and its place; or that of the limits.
fn located(sql: &str, message: String, limits: Limits<'_>) -> SqlError {
    let state = match message.as_str() {
        "stack depth limit exceeded" | "parse tree is nested too deeply to serialize to protobuf" => "54001",
        "memory exhausted at or near \"\"" => sqlstate::OUT_OF_MEMORY,
        "LIMIT #,# syntax is not supported" => sqlstate::SYNTAX_ERROR,
        "a column list with SET NULL is only supported for ON DELETE actions"
        | "a column list with SET DEFAULT is only supported for ON DELETE actions"
        | "constraints cannot be altered to be NOT VALID"
        | "CREATE SCHEMA IF NOT EXISTS cannot include schema elements" => sqlstate::FEATURE_NOT_SUPPORTED,
        m if m.starts_with("column number must be in range") => sqlstate::INVALID_PARAMETER_VALUE,
        m if m.starts_with("invalid byte sequence for encoding") => "22021",
        m if m.contains("not supported")
            || m.contains("not implemented")
            || m.contains("not yet implemented") =>
        {
            sqlstate::FEATURE_NOT_SUPPORTED
        }
        m if m.starts_with("frame start") || m.starts_with("frame end ") => sqlstate::WINDOWING_ERROR,
        _ => sqlstate::SYNTAX_ERROR,
    };
    if message == "invalid Unicode escape"
        && let Some((at, in_escapes)) = dialect::invalid_escape(sql)
    {
        let (state, forms) = match in_escapes {
            true => ("22025", "\\uXXXX or \\UXXXXXXXX"),
            false => (sqlstate::SYNTAX_ERROR, "\\XXXX or \\+XXXXXX"),
        };
        return SqlError::new(state, message).hint(format!("Unicode escapes must be {forms}.")).at(at);
    }
    let at = match locate(sql, &message, limits) {
        Ok(at) => at,
        Err(ended) => return ended,
    };
    let error = SqlError::new(state, message);
    match at {
        Some(at) => error.at(at),
        None => error,
    }
}

/// Where the token stands that a message complains of.
fn locate(sql: &str, message: &str, limits: Limits<'_>) -> SqlResult<Option<usize>> {
    if message.ends_with(" at end of input") {
        return Ok(Some(sql.len()));
    }
    let quoted = message.split_once(" at or near \"").and_then(|(_, rest)| rest.strip_suffix('"'));
    let Some(token) = quoted else { return Ok(None) };
    let places: Vec<usize> =
        lexer::Tokens::new(sql).map(|t| t.start).filter(|s| sql[*s..].starts_with(token)).collect();
    if places.len() < 2 {
        // The scanner's own complaints quote the text up to the end, or from the middle of what is a token
        // here.
        return Ok(places.first().copied().or_else(|| sql.find(token)));
    }
    // Once the limits are reached, the search is led to its end, not to the place.
    let fails_alike = |place: usize| {
        limits.go_on().is_err() || {
            let prefix = &sql[..place + token.len()];
            let parsed = library(|| pg_query::parse(prefix, 0));
            matches!(parsed, Err(pg_query::Error::Parse(m)) if m == message)
        }
    };
    let first = places.partition_point(|p| !fails_alike(*p));
    limits.go_on()?;
    Ok(places.get(first).or(places.last()).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_at(sql: &str) -> (String, Option<usize>, &'static str) {
        let e = parse(sql).expect_err(sql);
        (e.0.message.clone(), e.0.position, e.sqlstate())
    }

    #[test]
    fn statements_have_byte_ranges() {
        let sql = " select 1 ; /* é */ select 'é;'  ; -- end\n";
        let raws = parse(sql).unwrap();
        let texts: Vec<&str> = raws.iter().map(|r| &sql[r.start..r.end]).collect();
        assert_eq!(texts, ["select 1", "select 'é;'"]);
        assert!(parse("  ; -- nothing\n ;").unwrap().is_empty());
    }

    #[test]
    fn comments_are_blanks() {
        let sql = "select /* é /* ; */ */ 1 + /*+/*+*/*/-2 -- /* no\n , 'a /* b */'";
        let blanked = without_comments(sql).unwrap();
        assert_eq!(blanked, "select                  1 +           -2           , 'a /* b */'");
        assert_eq!(blanked.len(), sql.len());
        assert_eq!(error_at("select /* x */ 1 /* ) */ ) ").1, Some(25));
        assert_eq!(error_at("select 'a' /* x */\n 'b'").2, "42601");
        assert_eq!(error_at("select 1 /* x").0, "unterminated /* comment at or near \"/* x\"");
        // These took hours.
        let many = 1_000_000;
        assert_eq!(parse(&format!("select 1 {}{}", "/*".repeat(many), "*/".repeat(many))).unwrap().len(), 1);
        let open = error_at(&format!("select 1 {}", "/*".repeat(many)));
        assert_eq!((open.0.as_str(), open.1), ("unterminated /* comment", Some(8)));
        assert_eq!(error_at(&format!("select 1 {}1", "+-".repeat(many))).2, "54001");
    }

    #[test]
    fn errors_have_byte_positions() {
        assert_eq!(
            error_at("select 'é', from t"),
            ("syntax error at or near \"from\"".into(), Some("select 'é', ".len()), "42601")
        );
        assert_eq!(error_at("select 1 +"), ("syntax error at end of input".into(), Some(10), "42601"));
        assert_eq!(error_at("select a a a from t").1, Some(11));
        assert_eq!(error_at("select ',,', 1,,2 , 3").1, Some(15));
        assert_eq!(error_at("select 'abc").1, Some(7));
        assert_eq!(error_at("select 1a").1, Some(7));
        assert_eq!(error_at("select 1; select ) ; select )").1, Some(17));
    }

    #[test]
    fn expressions_are_written_back() {
        let raws = parse("select (1 + 2) * f('a''b', x.y)::numeric(10, 2)").unwrap();
        let Kind::SelectStmt(s) = &raws[0].node else { panic!("no SELECT") };
        let Some(Kind::ResTarget(t)) = &s.target_list[0].node else { panic!("no target") };
        let text = expression_text(t.val.as_ref().unwrap()).unwrap();
        assert_eq!(text, "(1 + 2) * f('a''b', x.y)::numeric(10, 2)");
    }

    #[test]
    fn deep_nesting_is_refused() {
        for (open, close) in
            [("(", ")"), ("abs(", ")"), ("1+", ""), ("(select ", ")"), ("not ", ""), ("case when ", "")]
        {
            let sql = format!("select {}1{}", open.repeat(5000), close.repeat(5000));
            assert_eq!(error_at(&sql).2, "54001", "{open}");
        }
        let union = format!("select 1{}", " union select 1".repeat(5000));
        assert_eq!(error_at(&union).2, "54001");
    }

    #[test]
    fn wide_statements_are_taken() {
        let rows = "(1, -2, 'a' || 'b', 2 * 3),".repeat(2000);
        assert!(parse(&format!("insert into t values {}(1,2,3,4)", rows)).is_ok());
        assert!(
            parse(&format!("select * from t where {} a = 1", "a = 1 and b = 2 or ".repeat(1000))).is_ok()
        );
        assert!(parse(&format!("select {} 1", "(a + 1) * 2, ".repeat(1000))).is_ok());
    }

    #[test]
    fn the_deepest_allowed_tree_fits_a_small_stack() {
        let sql = format!("select {}1{}", "abs(".repeat(140), ")".repeat(140));
        assert_eq!(parse(&sql).unwrap().len(), 1);
        let sql = format!("select {}1", "1+".repeat(140));
        assert_eq!(parse(&sql).unwrap().len(), 1);
    }
}
