//! How rows look: psql's aligned table, its expanded form, CSV and JSON.
//!
//! - **F1** A table is shown whole, since a column is as wide as its widest cell. CSV and JSON pass rows on
//!   as they come, but keep the first megabyte back, so that a statement that fails early shows no rows.
//! - **F2** CSV: a header line; NULL and the empty string are both empty; a field is quoted when it holds a
//!   comma, a quote or a line end. JSON: an array of objects, a row on each line; integers, numerics and
//!   finite floats are numbers, booleans are booleans, all else is strings.
use ondol::{Column, Row, Rows, TypeId, ValueRef};
use ondol_base::csv::RFC_4180;
use ondol_types::ty::Category;
use std::io::Write;
use std::sync::Arc;
use unicode_width::UnicodeWidthChar;

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Format {
    Table,
    Csv,
    Json,
    /// A line of JSON for each statement, errors too, for programs
    Records,
}

const HELD_BACK: usize = 1 << 20;

/// One result on its way to the output.
pub struct Printer {
    format: Format,
    expanded: bool,
    columns: Arc<[Column]>,
    rows: Rows,
    text: Vec<u8>,
    count: u64,
}

impl Printer {
    pub fn new(format: Format, expanded: bool, columns: Arc<[Column]>) -> Printer {
        let mut p = Printer {
            format,
            expanded,
            rows: Rows::of(columns.clone()),
            columns,
            text: Vec::new(),
            count: 0,
        };
        match format {
            Format::Table => {}
            Format::Csv => {
                for (i, c) in p.columns.iter().enumerate() {
                    if i > 0 {
                        p.text.push(b',')
                    }
                    csv_field(&c.name, &mut p.text)
                }
                p.text.push(b'\n')
            }
            Format::Json => p.text.push(b'['),
            // A record is made by `Record`.
            Format::Records => {}
        }
        p
    }

    pub fn row(&mut self, row: Row<'_>, out: &mut dyn Write) -> ondol::Result<()> {
        self.count += 1;
        match self.format {
            Format::Table | Format::Records => self.rows.append(row)?,
            Format::Csv => {
                let mut cell = String::new();
                for i in 0..row.len() {
                    if i > 0 {
                        self.text.push(b',')
                    }
                    cell.clear();
                    if row.text(i, &mut cell) {
                        csv_field(&cell, &mut self.text)
                    }
                }
                self.text.push(b'\n')
            }
            Format::Json => {
                if self.count > 1 {
                    self.text.extend_from_slice(b",\n ")
                }
                self.text.push(b'{');
                for i in 0..row.len() {
                    if i > 0 {
                        self.text.push(b',')
                    }
                    json_string(&self.columns[i].name, &mut self.text);
                    self.text.push(b':');
                    json_value(row, i, &mut self.text)
                }
                self.text.push(b'}')
            }
        }
        if self.text.len() >= HELD_BACK {
            write(out, &self.text)?;
            self.text.clear();
        }
        Ok(())
    }

    /// The rest of the result.
    pub fn finish(mut self, out: &mut dyn Write) -> ondol::Result<()> {
        match self.format {
            Format::Table if self.expanded => expanded(&self.rows, &mut self.text),
            Format::Table | Format::Records => aligned(&self.rows, None, &mut self.text),
            Format::Csv => {}
            Format::Json => self.text.extend_from_slice(b"]\n"),
        }
        write(out, &self.text)
    }
}

/// Writes to the output; a reader that went away is an error like any other.
pub fn write(out: &mut dyn Write, bytes: &[u8]) -> ondol::Result<()> {
    out.write_all(bytes).map_err(|e| {
        ondol::Error::new(ondol_engine::error::io_state(&e), format!("could not write the output: {e}"))
    })
}

fn csv_field(text: &str, out: &mut Vec<u8>) {
    if text == "\\." || RFC_4180.is_special(text.as_bytes()) {
        RFC_4180.quote(text.as_bytes(), &mut |piece| out.extend_from_slice(piece))
    } else {
        out.extend_from_slice(text.as_bytes())
    }
}

/// A JSON string.
pub fn json_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for c in text.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            c if (c as u32) < 0x20 => out.extend_from_slice(format!("\\u{:04x}", c as u32).as_bytes()),
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"')
}

fn json_value(row: Row<'_>, i: usize, out: &mut Vec<u8>) {
    let mut text = String::new();
    if !row.text(i, &mut text) {
        return out.extend_from_slice(b"null");
    }
    match row.value(i) {
        ValueRef::Bool(b) => out.extend_from_slice(if b { b"true" } else { b"false" }),
        ValueRef::Int2(_) | ValueRef::Int4(_) | ValueRef::Int8(_) => out.extend_from_slice(text.as_bytes()),
        // NaN and the infinities have no JSON number.
        ValueRef::Float8(_) | ValueRef::Numeric(_) | ValueRef::Packed(_) if ends_in_digit(&text) => {
            out.extend_from_slice(text.as_bytes())
        }
        ValueRef::Opaque(ty, _) if right_aligned(ty) && ends_in_digit(&text) => {
            out.extend_from_slice(text.as_bytes())
        }
        _ => json_string(&text, out),
    }
}

fn ends_in_digit(text: &str) -> bool {
    text.ends_with(|c: char| c.is_ascii_digit())
}

/// Whether psql puts the type's values to the right.
fn right_aligned(ty: TypeId) -> bool {
    ty.category() == Category::Numeric && ondol_types::catalog::registered::kind(ty).is_none()
}

/// A cell's lines as shown, with their widths.
fn lines_of(text: &str) -> Vec<(String, usize)> {
    text.split('\n')
        .map(|line| {
            if line.bytes().all(|b| (0x20..0x7f).contains(&b)) {
                return (line.to_string(), line.len());
            }
            let (mut shown, mut width) = (String::new(), 0);
            for c in line.chars() {
                match c {
                    '\t' => {
                        let n = 8 - width % 8;
                        shown.extend(std::iter::repeat_n(' ', n));
                        width += n;
                    }
                    '\r' => {
                        shown.push_str("\\r");
                        width += 2;
                    }
                    c if c.is_control() && (c as u32) < 0x80 => {
                        shown.push_str(&format!("\\x{:02X}", c as u32));
                        width += 4;
                    }
                    c if c.is_control() => {
                        shown.push_str(&format!("\\u{:04X}", c as u32));
                        width += 6;
                    }
                    c => {
                        shown.push(c);
                        width += c.width().unwrap_or(0);
                    }
                }
            }
            (shown, width)
        })
        .collect()
}

type Cell = Vec<(String, usize)>;

fn cells_of(rows: &Rows) -> Vec<Vec<Cell>> {
    let mut text = String::new();
    rows.iter()
        .map(|row| {
            (0..row.len())
                .map(|i| {
                    text.clear();
                    row.text(i, &mut text);
                    lines_of(&text)
                })
                .collect()
        })
        .collect()
}

fn spaces(n: usize, out: &mut Vec<u8>) {
    out.extend(std::iter::repeat_n(b' ', n))
}

/// psql's aligned table with its footer and the empty line behind it.
pub fn aligned(rows: &Rows, title: Option<&str>, out: &mut Vec<u8>) {
    let columns = rows.columns();
    let heads: Vec<Cell> = columns.iter().map(|c| lines_of(&c.name)).collect();
    let cells = cells_of(rows);
    let mut widths: Vec<usize> = heads.iter().map(|h| h.iter().map(|l| l.1).max().unwrap_or(0)).collect();
    for row in &cells {
        for (w, cell) in widths.iter_mut().zip(row) {
            *w = cell.iter().map(|l| l.1).max().unwrap_or(0).max(*w);
        }
    }
    if let Some(t) = title {
        let total: usize = widths.iter().sum::<usize>() + 3 * columns.len().saturating_sub(1) + 2;
        spaces(total.saturating_sub(t.len()) / 2, out);
        out.extend_from_slice(t.as_bytes());
        out.push(b'\n');
    }
    let last = columns.len().wrapping_sub(1);
    let head_lines = heads.iter().map(Vec::len).max().unwrap_or(0);
    for line in 0..head_lines {
        for (i, head) in heads.iter().enumerate() {
            out.push(b' ');
            let blank = (String::new(), 0);
            let (text, width) = head.get(line).unwrap_or(&blank);
            let room = widths[i] - width;
            spaces(room / 2, out);
            out.extend_from_slice(text.as_bytes());
            spaces(room.div_ceil(2), out);
            out.push(if line + 1 < head.len() { b'+' } else { b' ' });
            if i != last {
                out.push(b'|')
            }
        }
        out.push(b'\n');
    }
    for (i, w) in widths.iter().enumerate() {
        out.extend(std::iter::repeat_n(b'-', w + 2));
        if i != last {
            out.push(b'+')
        }
    }
    if columns.is_empty() {
        out.extend_from_slice(b"--")
    }
    out.push(b'\n');
    for row in &cells {
        let lines = row.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..lines {
            for (i, cell) in row.iter().enumerate() {
                out.push(b' ');
                match cell.get(line) {
                    Some((text, width)) => {
                        let more = line + 1 < cell.len();
                        let right = right_aligned(columns[i].ty.id);
                        if right {
                            spaces(widths[i] - width, out)
                        }
                        out.extend_from_slice(text.as_bytes());
                        if !right && (i != last || more) {
                            spaces(widths[i] - width, out)
                        }
                        if more {
                            out.push(b'+')
                        } else if i != last {
                            out.push(b' ')
                        }
                    }
                    None if i != last => spaces(widths[i] + 1, out),
                    None => {}
                }
                if i != last {
                    out.push(b'|')
                }
            }
            out.push(b'\n');
        }
    }
    let n = rows.len();
    out.extend_from_slice(format!("({n} row{})\n\n", if n == 1 { "" } else { "s" }).as_bytes());
}

/// psql's expanded form: a line for each column.
fn expanded(rows: &Rows, out: &mut Vec<u8>) {
    if rows.is_empty() {
        return out.extend_from_slice(b"(0 rows)\n\n");
    }
    let heads: Vec<Cell> = rows.columns().iter().map(|c| lines_of(&c.name)).collect();
    let cells = cells_of(rows);
    let widest = |cell: &Cell| cell.iter().map(|l| l.1).max().unwrap_or(0);
    let head_width = heads.iter().map(widest).max().unwrap_or(0);
    let data_width = cells.iter().flatten().map(widest).max().unwrap_or(0);
    for (n, row) in cells.iter().enumerate() {
        let label = format!("-[ RECORD {} ]", n + 1);
        let mut rule = label.clone();
        // The rule is as wide as the widest line, with a crossing where the divider stands, if it shows.
        for at in label.len()..head_width + 3 + data_width {
            rule.push(if at == head_width + 1 { '+' } else { '-' });
        }
        out.extend_from_slice(rule.as_bytes());
        out.push(b'\n');
        for (head, cell) in heads.iter().zip(row) {
            for line in 0..head.len().max(cell.len()) {
                let blank = (String::new(), 0);
                let (h, hw) = head.get(line).unwrap_or(&blank);
                let (d, dw) = cell.get(line).unwrap_or(&blank);
                out.extend_from_slice(h.as_bytes());
                spaces(head_width - hw, out);
                out.push(if line + 1 < head.len() { b'+' } else { b' ' });
                out.push(b'|');
                let more = line + 1 < cell.len();
                if !d.is_empty() || more || line < cell.len() {
                    out.push(b' ');
                    out.extend_from_slice(d.as_bytes());
                }
                if more {
                    spaces(data_width - dw, out);
                    out.push(b'+');
                }
                out.push(b'\n');
            }
        }
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol::Type;

    fn print(format: Format, expanded: bool, rows: &[[ValueRef<'_>; 3]]) -> String {
        let column = |name: &str, id| Column::new(name, Type::new(id));
        let columns: Arc<[Column]> = Arc::new([
            column("id", TypeId::INT4),
            column("the name", TypeId::TEXT),
            column("b", TypeId::BOOL),
        ]);
        let mut all = Rows::of(columns.clone());
        rows.iter().for_each(|r| all.push(r).unwrap());
        let mut p = Printer::new(format, expanded, columns);
        let mut out = Vec::new();
        all.iter().for_each(|r| p.row(r, &mut out).unwrap());
        p.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    const ROWS: [[ValueRef<'static>; 3]; 2] = [
        [ValueRef::Int4(1), ValueRef::Text("a,\"b\"\nc"), ValueRef::Bool(true)],
        [ValueRef::Int4(-22), ValueRef::Null, ValueRef::Null],
    ];

    #[test]
    fn table() {
        assert_eq!(
            print(Format::Table, false, &ROWS),
            " id  | the name | b \n-----+----------+---\n   1 | a,\"b\"   +| t\n     | c        | \n -22 |          | \n(2 rows)\n\n"
        );
        assert_eq!(
            print(Format::Table, false, &[]),
            " id | the name | b \n----+----------+---\n(0 rows)\n\n"
        );
    }

    #[test]
    fn expanded_table() {
        assert_eq!(
            print(Format::Table, true, &ROWS[1..]),
            "-[ RECORD 1 ]-\nid       | -22\nthe name | \nb        | \n\n"
        );
        assert_eq!(print(Format::Table, true, &[]), "(0 rows)\n\n");
    }

    #[test]
    fn csv() {
        assert_eq!(print(Format::Csv, false, &ROWS), "id,the name,b\n1,\"a,\"\"b\"\"\nc\",t\n-22,,\n");
    }

    #[test]
    fn json() {
        assert_eq!(
            print(Format::Json, false, &ROWS),
            "[{\"id\":1,\"the name\":\"a,\\\"b\\\"\\nc\",\"b\":true},\n {\"id\":-22,\"the name\":null,\"b\":null}]\n"
        );
        assert_eq!(print(Format::Json, false, &[]), "[]\n");
    }
}
