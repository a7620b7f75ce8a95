//! What statements took: the rows of `pg_stat_statements`.
//!
//! - **Q1** Statements are one that have the same tokens, constants aside, and were run by the same role. The
//!   text that is shown is that of the first of them, each constant in it replaced by a parameter.
//! - **Q2** Each thread that serves sessions counts its own, under a mutex that hardly anybody else takes.
//!   Who asks adds them up.
//! - **Q3** A thread keeps [`MOST`] statements and [`BYTES`] of their texts at most. When there are more, a
//!   quarter of them goes: those that were called least often.
#![cfg_attr(not(feature = "server"), allow(dead_code))]
use ondol_sql::catalog::StatementRow;
use ondol_sql::parse::lexer::{Token, TokenKind, Tokens};
use std::collections::HashMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

/// Q3
const MOST: usize = 4096;
const BYTES: usize = 4 << 20;
/// Bytes of a text that are kept.
const TEXT: usize = 4096;

/// What a statement is known by (Q1).
#[derive(Debug)]
pub(crate) struct Fingerprint {
    pub id: i64,
    pub text: Arc<str>,
}

impl Fingerprint {
    /// Of one statement's text.
    pub fn of(sql: &str) -> Fingerprint {
        let is_constant = |t: &Token| matches!(t.kind, TokenKind::String | TokenKind::Number);
        let number = |t: &Token| sql[t.start + 1..t.end].parse::<u64>().unwrap_or(0);
        let mut last = 0;
        if sql.contains('$') {
            let params = Tokens::new(sql).filter(|t| t.kind == TokenKind::Param);
            last = params.map(|t| number(&t)).max().unwrap_or(0)
        }
        // Each token behind its kind.
        let mut key: Vec<u8> = Vec::with_capacity(sql.len() + 8);
        let mut text = String::with_capacity(sql.len().min(TEXT) + 8);
        let mut end = None;
        for t in Tokens::new(sql) {
            let word = &sql[t.start..t.end];
            match t.kind {
                _ if is_constant(&t) => key.push(0),
                TokenKind::Word => {
                    key.push(1);
                    key.extend(word.bytes().map(|b| b.to_ascii_lowercase()))
                }
                _ => {
                    key.push(2);
                    key.extend_from_slice(word.as_bytes())
                }
            }
            if text.len() < TEXT {
                text.push_str(end.map_or("", |end| &sql[end..t.start]));
                match is_constant(&t) {
                    true => {
                        last = last.saturating_add(1);
                        let _ = write!(text, "${last}");
                    }
                    false => text.push_str(word),
                }
            }
            end = Some(t.end)
        }
        let mut cut = text.len().min(TEXT);
        while !text.is_char_boundary(cut) {
            cut -= 1
        }
        text.truncate(cut);
        let mut hasher = DefaultHasher::new();
        hasher.write(&key);
        Fingerprint { id: hasher.finish() as i64, text: text.into() }
    }
}

/// What the calls of a statement took, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Took {
    calls: u64,
    total: f64,
    least: f64,
    most: f64,
    /// The squares of the differences from the mean, added up.
    squares: f64,
    rows: u64,
}

impl Took {
    /// So many calls that took as long each.
    pub fn alike(calls: u64, each: f64, rows: u64) -> Took {
        Took { calls, total: each * calls as f64, least: each, most: each, squares: 0.0, rows }
    }
    fn mean(&self) -> f64 {
        self.total / self.calls.max(1) as f64
    }
    pub fn add(&mut self, other: &Took) {
        if self.calls == 0 || other.calls == 0 {
            if self.calls == 0 {
                *self = *other
            }
            return;
        }
        let (n, m) = (self.calls as f64, other.calls as f64);
        let apart = other.mean() - self.mean();
        self.squares += other.squares + apart * apart * n * m / (n + m);
        self.calls += other.calls;
        self.total += other.total;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        self.rows += other.rows
    }
}

/// By the role and the fingerprint.
type Key = (u32, i64);

#[derive(Default)]
pub(crate) struct Statements {
    all: HashMap<Key, (Arc<str>, Took)>,
    bytes: usize,
}

impl Statements {
    pub fn add(&mut self, role: u32, of: &Fingerprint, took: &Took) {
        if let Some(known) = self.all.get_mut(&(role, of.id)) {
            return known.1.add(took);
        }
        while self.all.len() >= MOST || self.bytes + of.text.len() > BYTES {
            self.make_room()
        }
        self.bytes += of.text.len();
        self.all.insert((role, of.id), (of.text.clone(), *took));
    }
    /// Q3
    #[cold]
    fn make_room(&mut self) {
        let mut order: Vec<(u64, Key)> = self.all.iter().map(|(k, s)| (s.1.calls, *k)).collect();
        order.sort_unstable();
        for (_, key) in &order[..order.len().div_ceil(4)] {
            if let Some((text, _)) = self.all.remove(key) {
                self.bytes -= text.len()
            }
        }
    }
    /// Those of the role, the fingerprint or both go; 0 stands for any.
    pub fn forget(&mut self, role: u32, id: i64) {
        let bytes = &mut self.bytes;
        self.all.retain(|key, (text, _)| {
            let goes = (role == 0 || key.0 == role) && (id == 0 || key.1 == id);
            if goes {
                *bytes -= text.len()
            }
            !goes
        })
    }
    fn merge(&mut self, other: &Statements) {
        for (key, (text, took)) in &other.all {
            self.all.entry(*key).or_insert_with(|| (text.clone(), Took::default())).1.add(took)
        }
    }
    /// Of all threads together (Q2).
    pub fn rows(of: impl Iterator<Item = impl std::ops::Deref<Target = Statements>>) -> Vec<StatementRow> {
        let mut whole = Statements::default();
        of.for_each(|s| whole.merge(&s));
        let row = |((role, id), (text, took)): (Key, (Arc<str>, Took))| StatementRow {
            role,
            id,
            text,
            calls: took.calls as i64,
            total_ms: took.total,
            least_ms: took.least,
            most_ms: took.most,
            mean_ms: took.mean(),
            deviation_ms: (took.squares / took.calls.max(1) as f64).sqrt(),
            rows: took.rows as i64,
        };
        whole.all.into_iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_become_parameters() {
        for (text, wanted) in [
            ("select 1", "select $1"),
            (" SELECT a, 'it''s' /* 7 */ FROM t -- no\n", "SELECT a, $1 /* 7 */ FROM t"),
            ("select $2 + 1 + 2.5e3", "select $2 + $3 + $4"),
            ("create role r password 'secret'", "create role r password $1"),
            ("do $$ x $$ 'a'", "do $1 $2"),
            ("ondol.find(int)", "ondol.find(int)"),
            ("", ""),
        ] {
            assert_eq!(&*Fingerprint::of(text).text, wanted, "{text}")
        }
        let id = |text: &str| Fingerprint::of(text).id;
        assert_eq!(id("select 1 from T"), id("SELECT /* x */ 'b'\nfrom t"));
        assert_ne!(id("select a from t"), id("select b from t"));
        assert_ne!(id("select \"A\""), id("select \"a\""));
        assert_ne!(id("select ab"), id("select a b"));
        let long = Fingerprint::of(&format!("select {}", "é, ".repeat(5000)));
        assert!((TEXT - 3..=TEXT).contains(&long.text.len()), "{}", long.text.len());
    }

    #[test]
    fn what_many_took_is_added_up() {
        let values = [1.0, 2.0, 4.0, 4.0, 9.0];
        let (one, mut first, mut second) =
            (Fingerprint::of("select 1"), Statements::default(), Statements::default());
        for v in &values[..2] {
            first.add(10, &one, &Took::alike(1, *v, 1))
        }
        second.add(10, &one, &Took::alike(2, 4.0, 6));
        second.add(10, &one, &Took::alike(1, 9.0, 0));
        second.add(11, &one, &Took::alike(1, 5.0, 0));
        let mut rows = Statements::rows([&first, &second].into_iter());
        rows.sort_by_key(|r| r.role);
        let r = &rows[0];
        assert_eq!(
            (r.calls, r.total_ms, r.least_ms, r.most_ms, r.mean_ms, r.rows),
            (5, 20.0, 1.0, 9.0, 4.0, 8)
        );
        let variance = values.iter().map(|v| (v - 4.0) * (v - 4.0)).sum::<f64>() / 5.0;
        assert!((r.deviation_ms - variance.sqrt()).abs() < 1e-9, "{}", r.deviation_ms);
        assert_eq!(rows.len(), 2);
        second.forget(11, 0);
        second.forget(0, 1);
        assert_eq!(second.all.len(), 1);
        second.forget(0, 0);
        assert_eq!((second.all.len(), second.bytes), (0, 0));
    }

    #[test]
    fn the_rarest_go_when_there_are_many() {
        let mut all = Statements::default();
        let often = Fingerprint::of("select often");
        all.add(10, &often, &Took::alike(100, 1.0, 0));
        for n in 0..3 * MOST {
            all.add(10, &Fingerprint::of(&format!("select a{n}")), &Took::alike(1, 1.0, 0))
        }
        assert!(all.all.len() <= MOST && all.all.contains_key(&(10, often.id)));
        for n in 0..3000 {
            let text = format!("select a{n} {}", "b, ".repeat(TEXT));
            all.add(10, &Fingerprint::of(&text), &Took::alike(1, 1.0, 0))
        }
        let bytes: usize = all.all.values().map(|s| s.0.len()).sum();
        assert!(all.bytes == bytes && bytes <= BYTES && all.all.contains_key(&(10, often.id)));
    }
}
