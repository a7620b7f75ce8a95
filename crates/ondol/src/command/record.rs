//! `--format records`: what programs read. One line of JSON for each statement, made of some of these, in
//! this order:
//!
//! | key | value |
//! | --- | --- |
//! | `session` | the name of its session |
//! | `columns`, `types` | of a result: names, and types as PostgreSQL writes them |
//! | `rows` | arrays of texts; null is NULL |
//! | `copied` | what COPY TO STDOUT gave |
//! | `tag` | the command tag; a statement that has it succeeded |
//! | `sqlstate`, `message` | of a statement that failed; its rows are not told |
//! | `waits` | true: the statement waits for another session; the line of its end comes later |
use super::format::json_string;
use ondol::{Column, Row};

/// The line of one statement, as it grows.
pub struct Record {
    head: Vec<u8>,
    rows: Option<Vec<u8>>,
    tail: Vec<u8>,
    pub copied: Vec<u8>,
    cell: String,
}

impl Record {
    pub fn new(session: &str) -> Record {
        let mut head = b"{\"session\":".to_vec();
        json_string(session, &mut head);
        Record { head, rows: None, tail: Vec::new(), copied: Vec::new(), cell: String::new() }
    }
    fn member(&mut self, key: &str, value: &str) {
        self.tail.extend_from_slice(format!(",\"{key}\":").as_bytes());
        json_string(value, &mut self.tail)
    }
    pub fn columns(&mut self, columns: &[Column]) {
        let mut rows = b",\"columns\":".to_vec();
        array(columns.iter().map(|c| c.name.clone()), &mut rows);
        rows.extend_from_slice(b",\"types\":");
        array(columns.iter().map(|c| c.ty.to_string()), &mut rows);
        rows.extend_from_slice(b",\"rows\":[");
        self.rows = Some(rows)
    }
    pub fn row(&mut self, row: Row<'_>) {
        let Some(rows) = &mut self.rows else { return };
        if !rows.ends_with(b"[") {
            rows.push(b',')
        }
        rows.push(b'[');
        for i in 0..row.len() {
            if i > 0 {
                rows.push(b',')
            }
            self.cell.clear();
            if row.text(i, &mut self.cell) {
                json_string(&self.cell, rows)
            } else {
                rows.extend_from_slice(b"null")
            }
        }
        rows.push(b']')
    }
    pub fn done(&mut self, tag: &str) {
        if let Some(rows) = self.rows.take() {
            self.head.extend(rows);
            self.head.push(b']')
        }
        if !self.copied.is_empty() {
            let text = String::from_utf8_lossy(&self.copied).into_owned();
            self.member("copied", &text)
        }
        self.member("tag", tag)
    }
    pub fn failed(&mut self, error: &ondol::Error) {
        self.tail.clear();
        self.member("sqlstate", error.sqlstate());
        self.member("message", &error.0.message)
    }
    pub fn waits(&mut self) {
        self.tail.extend_from_slice(b",\"waits\":true")
    }
    /// The whole line.
    pub fn text(mut self) -> Vec<u8> {
        self.head.extend(self.tail);
        self.head.extend_from_slice(b"}\n");
        self.head
    }
}

fn array(of: impl Iterator<Item = String>, out: &mut Vec<u8>) {
    out.push(b'[');
    for (i, text) in of.enumerate() {
        if i > 0 {
            out.push(b',')
        }
        json_string(&text, out)
    }
    out.push(b']')
}
