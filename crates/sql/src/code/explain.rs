//! EXPLAIN: the plan, and the byte code beneath it.
use super::operand::List;
use super::program::Program;
use crate::plan::explain::{self, Counted, Options};
use crate::plan::show::constant;
use ondol_engine::Table;

/// What EXPLAIN ANALYZE measured.
pub struct Measured<'a> {
    /// The counters that `Tally` counted.
    pub tallies: &'a [u64],
    /// How often each instruction ran.
    pub executed: &'a [u64],
    pub elapsed_us: u64,
}

/// The lines of EXPLAIN of a program whose scan so many `workers` would read in parts, or of EXPLAIN ANALYZE
/// when something was measured. As JSON they are one text.
pub fn lines(p: &Program, options: Options, measured: Option<&Measured<'_>>, workers: usize) -> Vec<String> {
    let counted = measured.map(|m| Counted { tallies: m.tallies, elapsed_us: m.elapsed_us });
    let code = byte_code(p, measured);
    if options.json {
        return match &p.plan {
            Some(plan) => vec![explain::json(plan, options, counted, workers, &code)],
            None => Vec::new(),
        };
    }
    let mut out = Vec::new();
    if let Some(plan) = &p.plan {
        out = explain::lines(plan, options, counted, workers);
    }
    out.push("Byte code:".to_string());
    out.extend(code);
    out
}

/// A line for each instruction, and what its operands are; with how often each ran, when that was measured.
pub fn byte_code(p: &Program, measured: Option<&Measured<'_>>) -> Vec<String> {
    let mut out = Vec::new();
    for (at, op) in p.ops.iter().enumerate() {
        let mut text = format!("{at:5}  {:<14} {}", op.name(), op.operands());
        let comment = comment(p, op);
        if !comment.is_empty() {
            text = format!("{text:<56} ; {comment}");
        }
        if let Some(m) = measured {
            text = format!("{text:<80} x{}", m.executed.get(at).copied().unwrap_or(0));
        }
        out.push(text.trim_end().to_string());
    }
    for (n, c) in p.consts.iter().enumerate() {
        out.push(format!("       r{} = {}", p.param_registers() + n, constant(c)));
    }
    for (n, c) in p.pool.iter().enumerate() {
        out.push(format!("       p{n} = {}", constant(c)));
    }
    for (n, t) in p.params.iter().enumerate().take(p.param_registers()) {
        out.push(format!("       r{n} = ${} ({t:?})", n + 1));
    }
    out
}

fn comment(p: &Program, op: &super::Op) -> String {
    use super::Op::*;
    match *op {
        ScanStart { cursor }
        | ScanNext { cursor, .. }
        | Lock { cursor, .. }
        | Delete { cursor }
        | EmitRow { cursor } => p.table_of(cursor.0).def.name.clone(),
        KeyPut { cursor, .. }
        | KeyProbe { cursor }
        | BoxProbe { cursor, .. }
        | BoxesNew { cursor }
        | BoxesEnd { cursor }
        | Within { other: cursor, .. }
        | NearStart { cursor, .. }
        | NearNext { cursor, .. }
        | TallyNodes { cursor, .. }
        | Point { cursor, .. }
        | PointRow { cursor, .. }
        | Twin { cursor, .. }
        | RangeStart { cursor, .. }
        | RangesStart { cursor, .. }
        | RangeNext { cursor, .. } => p.index_of(cursor.0).map_or(String::new(), |i| i.def.name.clone()),
        RowNext { cursor, .. } | SetRow { cursor, .. } | TidRow { cursor, .. } | RowTid { cursor, .. } => {
            p.table_of(cursor.0).def.name.clone()
        }
        ColChar { cursor, column, .. } | ColLater { cursor, column, .. } => {
            p.table_of(cursor.0).def.columns[column.0 as usize].label().to_string()
        }
        Insert { table, .. } | Violated { table, .. } | OutOfView { table, .. } => {
            p.tables[table.0 as usize].def.name.clone()
        }
        InsertNew { table, arbiters, .. } => proposed(p, &p.tables[table.0 as usize], arbiters),
        InsertOrLock { cursor, arbiters, .. } => proposed(p, p.table_of(cursor.0), arbiters),
        Update { cursor, columns, .. } | PointUpdate { cursor, columns, .. } => {
            let t = p.table_of(cursor.0);
            let names: Vec<&str> =
                p.lists[columns.0 as usize].iter().map(|c| t.def.columns[*c as usize].label()).collect();
            let by = match (*op, p.index_of(cursor.0)) {
                (PointUpdate { .. }, Some(index)) => format!("{}, ", index.def.name),
                _ => String::new(),
            };
            format!("{by}{}: {}", t.def.name, names.join(", "))
        }
        ColBool { at, .. }
        | ColInt2 { at, .. }
        | ColInt4 { at, .. }
        | ColInt8 { at, .. }
        | ColFloat8 { at, .. }
        | ColDate { at, .. }
        | ColTimestamp { at, .. }
        | ColTimestamptz { at, .. }
        | ColText { at, .. }
        | ColBytea { at, .. }
        | ColOpaque { at, .. }
        | ColNumeric { at, .. }
        | ColPacked { at, .. } => column_at(p, at.0),
        Cast { how, .. } => {
            let c = &p.casts[how.0 as usize];
            format!("{:?} to {:?}", c.from, c.to.id).to_lowercase()
        }
        SystemRows { view, .. } | SystemRowsOf { view, .. } => p.names[view.0 as usize].clone(),
        ForeignStart { from, .. } | ForeignNext { from, .. } | ForeignCount { from, .. } => {
            p.foreigns[from.0 as usize].table.name()
        }
        FunctionRows { function, .. } => p.functions[function.0 as usize].name.clone(),
        _ => String::new(),
    }
}

/// A table and the indexes that are looked at before a row is inserted.
fn proposed(p: &Program, table: &Table, arbiters: List) -> String {
    let names: Vec<&str> = (p.lists[arbiters.0 as usize].iter())
        .filter_map(|n| table.indexes.get(*n as usize))
        .map(|i| i.def.name.as_str())
        .collect();
    if names.is_empty() {
        table.def.name.clone()
    } else {
        format!("{}: {}", table.def.name, names.join(", "))
    }
}

/// The name of the column whose bytes begin there.
fn column_at(p: &Program, at: u32) -> String {
    for c in &p.cursors {
        let t = &p.tables[c.table as usize];
        if at >= c.row_at
            && at < c.row_at + t.layout.row_size as u32
            && let Some(n) = t.layout.columns.iter().position(|l| c.row_at + u32::from(l.offset) == at)
        {
            return format!("{}.{}", t.def.name, t.def.columns[n].label());
        }
    }
    String::new()
}
