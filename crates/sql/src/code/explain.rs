//! EXPLAIN: the plan as a tree, then the byte code.
use super::program::Program;

/// What the line of a full scan begins with, and of a foreign table's.
pub const SEQ_SCAN: &str = "Seq Scan on ";
pub const FOREIGN_SCAN: &str = "Foreign Scan on ";

/// What EXPLAIN ANALYZE measured.
pub struct Measured<'a> {
    /// The counters that `Tally` counted.
    pub tallies: &'a [u64],
    /// How often each instruction ran.
    pub executed: &'a [u64],
    pub elapsed_us: u64,
}

/// The lines of EXPLAIN of a program whose scan so many `workers` would read in parts, or of EXPLAIN ANALYZE when something was measured.
pub fn lines(p: &Program, measured: Option<Measured<'_>>, workers: usize) -> Vec<String> {
    let mut out = Vec::new();
    let indent = |depth: u16, detail: bool| match (depth as usize, detail) {
        (0, false) => String::new(),
        (0, true) => "  ".to_string(),
        (d, false) => format!("{}->  ", " ".repeat(6 * d - 4)),
        (d, true) => " ".repeat(6 * d + 2),
    };
    for line in &p.plan {
        let before = indent(line.depth, line.detail);
        let is_scan = line.text.starts_with(SEQ_SCAN) || line.text.starts_with(FOREIGN_SCAN);
        if workers > 0 && !line.detail && is_scan {
            out.push(format!("{before}Parallel {}", line.text));
            out.push(format!("{}Workers Planned: {workers}", indent(line.depth, true)));
            continue;
        }
        let mut text = format!("{before}{}", line.text);
        if let (Some(m), false) = (&measured, line.detail) {
            let get = |slot: Option<u16>| slot.and_then(|s| m.tallies.get(s as usize)).copied();
            if let (Some(loops), Some(rows)) = (get(line.loops), get(line.rows)) {
                text += &match loops {
                    0 => " (never executed)".to_string(),
                    n => format!(" (actual rows={} loops={n})", (rows + n / 2) / n),
                }
            }
        }
        out.push(text);
    }
    if let Some(m) = &measured {
        out.push(format!("Execution Time: {}.{:03} ms", m.elapsed_us / 1000, m.elapsed_us % 1000));
    }
    out.push("Byte code:".to_string());
    for (at, op) in p.ops.iter().enumerate() {
        let mut text = format!("{at:5}  {:<14} {}", op.name(), op.operands());
        let comment = comment(p, op);
        if !comment.is_empty() {
            text = format!("{text:<56} ; {comment}");
        }
        if let Some(m) = &measured {
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

/// A constant as SQL would write it, near enough to be read.
pub fn constant(v: &ondol_types::Value) -> String {
    use ondol_types::Value::*;
    match v {
        Null => "NULL".to_string(),
        Bool(b) => b.to_string(),
        Int2(i) => i.to_string(),
        Int4(i) => i.to_string(),
        Int8(i) => i.to_string(),
        Float8(f) => f.to_string(),
        Text(s) => format!("'{}'", s.replace('\'', "''")),
        Bytea(b) => format!("'\\x{}'", b.iter().map(|b| format!("{b:02x}")).collect::<String>()),
        Numeric(n) => {
            let mut s = String::new();
            n.write_to(&mut s);
            s
        }
        Date(d) => format!("date {d}"),
        Timestamp(t) | Timestamptz(t) => format!("timestamp {t}"),
        Opaque(ty, _) => format!("{} '{v}'", ty.def().catalog_name),
    }
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
        | Point { cursor, .. }
        | PointRow { cursor, .. }
        | Twin { cursor, .. }
        | RangeStart { cursor, .. }
        | RangeNext { cursor, .. } => p.index_of(cursor.0).map_or(String::new(), |i| i.def.name.clone()),
        RowNext { cursor, .. } | SetRow { cursor, .. } => p.table_of(cursor.0).def.name.clone(),
        ColChar { cursor, column, .. } => p.table_of(cursor.0).def.columns[column.0 as usize].name.clone(),
        Insert { table, .. } => p.tables[table.0 as usize].def.name.clone(),
        Update { cursor, columns, .. } | PointUpdate { cursor, columns, .. } => {
            let t = p.table_of(cursor.0);
            let names: Vec<&str> = p.lists[columns.0 as usize]
                .iter()
                .map(|c| t.def.columns[*c as usize].name.as_str())
                .collect();
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
        | ColNumeric { at, .. } => column_at(p, at.0),
        Cast { how, .. } => {
            let c = &p.casts[how.0 as usize];
            format!("{:?} to {:?}", c.from, c.to.id).to_lowercase()
        }
        SystemRows { view, .. } => p.names[view.0 as usize].clone(),
        ForeignStart { from, .. } | ForeignNext { from, .. } | ForeignCount { from, .. } => {
            p.foreigns[from.0 as usize].table.name()
        }
        FunctionRows { function, .. } => p.functions[function.0 as usize].name.clone(),
        _ => String::new(),
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
            return format!("{}.{}", t.def.name, t.def.columns[n].name);
        }
    }
    String::new()
}
