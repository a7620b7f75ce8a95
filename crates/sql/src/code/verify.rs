//! Checks a program before it may run (code/C2): every number is in range and everything that must agree
//! agrees.
//!
//! - **V1** Registers, jumps, cursors, stores, columns, constants, casts, lists and functions exist.
//! - **V2** Parameters and constants are never written; a row that goes into a store, a table or the result
//!   has its width; a key has as many values as the index has columns, or, for a range, at most as many.
//! - **V3** The row of each cursor lies in the row area; the columns that instructions read at fixed places
//!   do too.
//! - **V4** Execution cannot run past the last instruction.
//! - **V5** What changes data stands only in programs that say so.
use super::op::Op;
use super::operand::{Cur, Hash, List, Pool, Span};
use super::program::Program;
use ondol_engine::Table;

/// More registers than this cannot be told from constants while code is generated.
pub const MAX_REGISTERS: u16 = 0x7fff;

/// Says what is wrong with the program and where.
pub fn verify(p: &Program) -> Result<(), String> {
    let limits = p.limits();
    if limits.fixed_registers > limits.registers || p.registers > MAX_REGISTERS {
        return Err(format!(
            "{} registers for {} parameters and constants",
            p.registers, limits.fixed_registers
        ));
    }
    if p.row_area > 1 << 24 {
        return Err(format!("{} bytes of rows", p.row_area));
    }
    for (n, c) in p.cursors.iter().enumerate() {
        let Some(table) = p.tables.get(c.table as usize) else {
            return Err(format!("cursor {n}: table {} of {}", c.table, p.tables.len()));
        };
        if c.index.is_some_and(|i| i as usize >= table.indexes.len()) {
            return Err(format!("cursor {n}: index {:?} of {}", c.index, table.indexes.len()));
        }
        if c.row_at as usize + table.layout.row_size > p.row_area as usize {
            return Err(format!("cursor {n}: its row ends beyond the row area of {} bytes", p.row_area));
        }
    }
    for (n, h) in p.hashes.iter().enumerate() {
        if h.keys > h.width {
            return Err(format!("hash table {n}: {} keys in {} columns", h.keys, h.width));
        }
    }
    for (n, s) in p.sorts.iter().enumerate() {
        if s.keys.iter().any(|k| k.column >= s.width) {
            return Err(format!("sorter {n}: a key beyond its {} columns", s.width));
        }
    }
    for (n, g) in p.groups.iter().enumerate() {
        for (agg, args) in &g.aggs {
            match ondol_types::agg::find(*agg) {
                Some(def) if def.fed() == *args as usize => {}
                _ => return Err(format!("groups {n}: no aggregate {} of {args} arguments", agg.0)),
            }
        }
    }
    for (n, w) in p.windows.iter().enumerate() {
        w.check().map_err(|e| format!("window {n}: {e}"))?;
    }
    for (at, op) in p.ops.iter().enumerate() {
        op.check(&limits)
            .and_then(|()| together(p, op))
            .map_err(|e| format!("instruction {at}, {}: {e}", op.name()))?;
    }
    match p.ops.last() {
        Some(Op::Halt {} | Op::Jump { .. } | Op::Return { .. } | Op::Raise { .. }) => Ok(()),
        _ => Err("the last instruction lets execution go on".to_string()),
    }
}

fn width(what: &str, found: usize, expected: usize) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what} of {found} values, expected {expected}")) }
}

fn column(c: u16, limit: usize) -> Result<(), String> {
    if (c as usize) < limit { Ok(()) } else { Err(format!("column {c} of {limit}")) }
}

fn indexed(p: &Program, cursor: Cur) -> Result<usize, String> {
    p.index_of(cursor.0).map(|i| i.key.parts.len()).ok_or_else(|| "the cursor has no index".to_string())
}

/// How many columns the cursor's CR-tree has.
fn dimensions(p: &Program, cursor: Cur) -> Result<usize, String> {
    let index = p.index_of(cursor.0).ok_or("the cursor has no index")?;
    match index.def.kind {
        ondol_engine::IndexKind::Crtree { .. } => Ok(index.key.parts.len()),
        _ => Err("a box of an index without points".to_string()),
    }
}

fn pointed(p: &Program, cursor: Cur, values: Span) -> Result<(), String> {
    match p.index_of(cursor.0).and_then(|i| i.point.as_ref()) {
        Some(point) => width("key", values.count as usize, point.columns()),
        None => Err("a point lookup by an index that is not for it".to_string()),
    }
}

fn range(p: &Program, cursor: Cur, values: Span) -> Result<(), String> {
    let index = p.index_of(cursor.0).ok_or("the cursor has no index")?;
    if index.def.kind != ondol_engine::IndexKind::Btree {
        return Err("a range over an index without order".to_string());
    }
    let parts = index.key.parts.len();
    if values.count as usize > parts {
        Err(format!("{} values for {parts} columns", values.count))
    } else {
        Ok(())
    }
}

fn writing(p: &Program) -> Result<(), String> {
    if p.writes { Ok(()) } else { Err("changes data in a program that only reads".to_string()) }
}

/// A row that is inserted unless another has its key in one of these indexes.
fn proposed(p: &Program, table: &Table, values: Span, arbiters: List) -> Result<(), String> {
    writing(p)?;
    width("row", values.count as usize, table.def.columns.len())?;
    p.lists[arbiters.0 as usize].iter().try_for_each(|n| match table.indexes.get(*n as usize) {
        Some(index) if index.def.unique => Ok(()),
        Some(index) => Err(format!("index {} is not unique", index.def.name)),
        None => Err(format!("index {n} of {}", table.indexes.len())),
    })
}

/// What ties an instruction's operands to each other (V2, V5).
fn together(p: &Program, op: &Op) -> Result<(), String> {
    match *op {
        Op::Once { done, .. } => width("state", done.0.count as usize, 1),
        Op::MatRead { at, .. } => width("state", at.0.count as usize, 1),
        Op::Skip { left, .. } | Op::CountDown { left, .. } => width("state", left.0.count as usize, 1),
        Op::SeriesStart { state } | Op::SeriesNext { state, .. } => width("state", state.0.count as usize, 4),
        Op::SeriesAdd { state, add, .. } => {
            let def = ondol_types::func::find(add).ok_or("no such function")?;
            width("arguments", def.args.len(), 2)?;
            width("state", state.0.count as usize, 5)
        }
        Op::Call { func, args, .. } | Op::CallConnection { func, args, .. } => {
            let def = ondol_types::func::find(func).ok_or("no such function")?;
            let n = args.count as usize;
            if def.takes(n) { Ok(()) } else { Err(format!("{n} arguments for {}", def.name)) }
        }
        Op::AddFloat { func, .. } | Op::SubFloat { func, .. } | Op::MulFloat { func, .. } => {
            let def = ondol_types::func::find(func).ok_or("no such function")?;
            width("arguments", def.args.len(), 2)
        }
        Op::ColChar { cursor, column: c, .. } | Op::ColLater { cursor, column: c, .. } => {
            let layout = &p.table_of(cursor.0).layout;
            column(c.0, layout.columns.len())?;
            match (layout.columns[c.0 as usize].storage, op) {
                (ondol_engine::Storage::Char { .. }, Op::ColChar { .. }) => Ok(()),
                (ondol_engine::Storage::Later { .. }, Op::ColLater { .. }) => Ok(()),
                (other, _) => Err(format!("column {} is stored as {other:?}", c.0)),
            }
        }
        Op::KeyPut { cursor, values, .. } => width("key", values.count as usize, indexed(p, cursor)?),
        Op::Point { cursor, values, .. } => pointed(p, cursor, values),
        Op::PointRow { cursor, values } => {
            pointed(p, cursor, values)?;
            width("row", p.table_of(cursor.0).def.shown().len(), p.columns.len())
        }
        Op::KeyPrefetch { cursor } | Op::KeyProbe { cursor } | Op::Twin { cursor, .. } => {
            indexed(p, cursor).map(|_| ())
        }
        Op::BoxProbe { cursor, values } => width("box", values.count as usize, 2 * dimensions(p, cursor)?),
        Op::Within { cursor, other, values } => {
            indexed(p, cursor)?;
            if p.table_of(cursor.0).def.id != p.table_of(other.0).def.id {
                return Err("rows of one table within a box of another".into());
            }
            width("box", values.count as usize, 2 * dimensions(p, other)?)
        }
        Op::NearStart { cursor, values, counted } => {
            let dimensions = dimensions(p, cursor)?;
            width("box and point", values.count as usize, 3 * dimensions)?;
            match counted.0 >> dimensions {
                0 => Ok(()),
                _ => Err(format!("columns {:b} of {dimensions} count", counted.0)),
            }
        }
        Op::NearNext { cursor, .. }
        | Op::TallyNodes { cursor, .. }
        | Op::BoxesNew { cursor }
        | Op::BoxesEnd { cursor } => dimensions(p, cursor).map(|_| ()),
        Op::RangeLow { cursor, values, .. } | Op::RangeHigh { cursor, values, .. } => {
            range(p, cursor, values)
        }
        Op::RangeStart { cursor, .. }
        | Op::RangesNew { cursor }
        | Op::RangeKeep { cursor }
        | Op::RangesStart { cursor, .. }
        | Op::RangeNext { cursor, .. } => range(p, cursor, Span::new(0, 0)),
        Op::Lock { .. } | Op::Delete { .. } => writing(p),
        Op::Update { cursor, values, columns } | Op::PointUpdate { cursor, values, columns, .. } => {
            writing(p)?;
            if let Op::PointUpdate { key, .. } = *op {
                pointed(p, cursor, key)?
            }
            let list = &p.lists[columns.0 as usize];
            width("row", values.count as usize, list.len())?;
            let n = p.table_of(cursor.0).def.columns.len();
            list.iter().try_for_each(|c| column(*c, n))
        }
        Op::Insert { table, values } => {
            writing(p)?;
            width("row", values.count as usize, p.tables[table.0 as usize].def.columns.len())
        }
        Op::InsertNew { table, values, arbiters, .. } => {
            proposed(p, &p.tables[table.0 as usize], values, arbiters)
        }
        Op::InsertOrLock { cursor, values, arbiters, .. } => {
            if p.lists[arbiters.0 as usize].is_empty() {
                return Err("a row is to be changed, and no index says which".to_string());
            }
            proposed(p, p.table_of(cursor.0), values, arbiters)
        }
        Op::Violated { table, values, check } => {
            let def = &p.tables[table.0 as usize].def;
            column(check.0, def.checks.len())?;
            width("row", values.count as usize, def.columns.len())
        }
        Op::OutOfView { table, values, .. } => {
            width("row", values.count as usize, p.tables[table.0 as usize].def.columns.len())
        }
        Op::Emit { row } => width("row", row.count as usize, p.columns.len()),
        Op::EmitRow { cursor } => width("row", p.table_of(cursor.0).def.shown().len(), p.columns.len()),
        Op::HashPut { hash, row } | Op::HashPutNew { hash, row, .. } => {
            width("row", row.count as usize, p.hashes[hash.0 as usize].width as usize)
        }
        Op::HashFind { hash, key, .. } => {
            width("key", key.count as usize, p.hashes[hash.0 as usize].keys as usize)
        }
        Op::HashCol { hash, column: c, .. } => column(c.0, p.hashes[hash.0 as usize].width as usize),
        Op::MatPut { mat, row } => width("row", row.count as usize, p.mats[mat.0 as usize] as usize),
        Op::MatCol { mat, column: c, .. } => column(c.0, p.mats[mat.0 as usize] as usize),
        Op::MatSwap { a, b } => width("list", p.mats[a.0 as usize] as usize, p.mats[b.0 as usize] as usize),
        Op::FunctionRows { function, args, .. } => {
            width("arguments", args.count as usize, p.functions[function.0 as usize].args.len())
        }
        Op::ForeignStart { bounds, .. } => width("bounds", bounds.count as usize, 2),
        Op::ForeignNext { from, row, .. } => {
            let def = &p.foreigns[from.0 as usize];
            let n = def.table.columns().len();
            width("row", row.0.count as usize, n)?;
            def.columns.iter().try_for_each(|c| column(*c, n))
        }
        Op::SortPut { sort, row } => {
            width("row", row.count as usize, p.sorts[sort.0 as usize].width as usize)
        }
        Op::SortCol { sort, column: c, .. } => column(c.0, p.sorts[sort.0 as usize].width as usize),
        Op::GroupFor { group, key } => {
            width("key", key.count as usize, p.groups[group.0 as usize].keys as usize)
        }
        Op::GroupCol { group, column: c, .. } => column(c.0, p.groups[group.0 as usize].keys as usize),
        Op::AggStep { group, agg, args } => {
            let aggs = &p.groups[group.0 as usize].aggs;
            column(agg.0, aggs.len())?;
            width("arguments", args.count as usize, aggs[agg.0 as usize].1 as usize)
        }
        Op::AggValue { group, agg, .. } => column(agg.0, p.groups[group.0 as usize].aggs.len()),
        Op::WindowStart { window, distances } => {
            width("distances", distances.count as usize, p.windows[window.0 as usize].distances())
        }
        Op::WindowPut { window, row, .. } => {
            width("row", row.count as usize, p.windows[window.0 as usize].width as usize)
        }
        Op::WindowCol { window, column: c, .. } => column(c.0, p.windows[window.0 as usize].width as usize),
        Op::WindowValue { window, call, .. } => column(call.0, p.windows[window.0 as usize].calls.len()),
        Op::Load { from, .. } => pooled(p, from, 1),
        Op::InPool { hash, from, count, .. } => {
            single(p, hash)?;
            pooled(p, from, count.0 as usize)
        }
        Op::HashPool { hash, from, count } => {
            single(p, hash)?;
            pooled(p, from, count.0 as usize)
        }
        Op::SetPut { hash, .. } | Op::InSet { hash, .. } => single(p, hash),
        Op::MatPool { mat, from, rows } => {
            pooled(p, from, (rows.0 as usize).saturating_mul(p.mats[mat.0 as usize].max(1) as usize))
        }
        _ => Ok(()),
    }
}

/// So many values of the pool.
fn pooled(p: &Program, from: Pool, count: usize) -> Result<(), String> {
    let (from, all) = (from.0 as usize, p.pool.len());
    match from.checked_add(count) {
        Some(end) if end <= all => Ok(()),
        _ => Err(format!("{count} values from {from} on of a pool of {all}")),
    }
}

/// A hash table of single values.
fn single(p: &Program, hash: Hash) -> Result<(), String> {
    let def = &p.hashes[hash.0 as usize];
    width("row", def.width as usize, 1).and_then(|()| width("key", def.keys as usize, 1))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::operand::*;
    use super::super::program::*;
    use super::*;
    use ondol_engine::{Catalog, Uses};
    use ondol_types::{Type, TypeId, Value};

    pub fn sample() -> Program {
        Program {
            ops: vec![
                Op::AddInt { dst: Out(3), a: Reg(0), b: Reg(1), ty: IntTy::Int8 },
                Op::MatClear { mat: Mat(0) },
                Op::MatPut { mat: Mat(0), row: Span { first: 2, count: 2 } },
                Op::MatRewind { mat: Mat(0) },
                Op::MatNext { mat: Mat(0), to: Label(8) },
                Op::MatCol { dst: Out(4), mat: Mat(0), column: Col(1) },
                Op::Emit { row: Span { first: 4, count: 1 } },
                Op::Jump { to: Label(4) },
                Op::Halt {},
            ],
            params: vec![TypeId::INT8],
            consts: vec![Value::Int8(5), Value::Text("five".into())],
            pool: vec![Value::Int4(6), Value::Null],
            registers: 5,
            row_area: 0,
            tables: vec![],
            cursors: vec![],
            hashes: vec![HashDef { width: 2, keys: 1 }],
            mats: vec![2],
            sorts: vec![SortDef {
                width: 1,
                keys: vec![SortKey { column: 0, desc: true, nulls_first: false }],
            }],
            groups: vec![],
            windows: vec![],
            casts: vec![CastDef { from: TypeId::INT4, to: Type::TEXT, explicit: true }],
            lists: vec![vec![1, 2]],
            names: vec!["view".into()],
            functions: vec![],
            foreigns: vec![],
            tallies: 0,
            columns: vec![("sum".into(), Type::INT8)],
            tag: Tag::Select,
            writes: false,
            uses: Uses::READS,
            catalog_version: 0,
            needs: Vec::new(),
            plan: None,
        }
    }

    #[test]
    fn what_is_stored_comes_back() {
        let p = sample();
        verify(&p).unwrap();
        let q = Program::decode(&p.encode(), &Catalog::default()).unwrap();
        assert_eq!((&p.ops, &p.consts, &p.params, p.registers), (&q.ops, &q.consts, &q.params, q.registers));
        assert_eq!(p.pool, q.pool);
        assert_eq!((&p.sorts, &p.casts, &p.lists, &p.columns), (&q.sorts, &q.casts, &q.lists, &q.columns));
    }

    /// Flips, cuts and grows stored code, with and without a right checksum: never a panic, and what is
    /// accepted passes the checks.
    #[test]
    fn broken_code_is_refused() {
        let good = sample().encode();
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let (mut refused, mut accepted) = (0, 0);
        for round in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..1 + next() % 3 {
                let at = (next() % bytes.len() as u64) as usize;
                match next() % 8 {
                    0 => bytes.truncate(at.max(1)),
                    1 => bytes.insert(at, next() as u8),
                    2 => bytes[at] = 0xff,
                    _ => bytes[at] ^= 1 << (next() % 8),
                }
            }
            if round % 2 == 0 && bytes.len() > 4 {
                let n = bytes.len() - 4;
                let crc = ondol_base::crc::crc32c(&bytes[..n]);
                bytes[n..].copy_from_slice(&crc.to_le_bytes());
            }
            match Program::decode(&bytes, &Catalog::default()) {
                Ok(p) => {
                    verify(&p).unwrap();
                    accepted += 1
                }
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 10_000 && accepted > 100, "{refused} refused, {accepted} accepted");
    }

    #[test]
    fn faults_are_found() {
        let spoil: &[fn(&mut Program)] = &[
            |p| p.ops[7] = Op::Jump { to: Label(9) },
            |p| p.ops[0] = Op::Move { dst: Out(1), a: Reg(0) },
            |p| p.ops[0] = Op::Move { dst: Out(5), a: Reg(0) },
            |p| p.ops[2] = Op::MatPut { mat: Mat(0), row: Span { first: 2, count: 3 } },
            |p| p.ops[2] = Op::MatPut { mat: Mat(1), row: Span { first: 2, count: 2 } },
            |p| p.ops[5] = Op::MatCol { dst: Out(4), mat: Mat(0), column: Col(2) },
            |p| p.ops[6] = Op::Emit { row: Span { first: 3, count: 2 } },
            |p| p.ops[8] = Op::Null { dst: Out(4) },
            |p| p.ops[0] = Op::ColInt4 { dst: Out(4), at: At(0), null: NullAt::NEVER },
            |p| {
                p.ops[0] =
                    Op::Call { dst: Out(4), func: ondol_types::func::FuncId(1023), args: Span::new(0, 0) }
            },
            |p| p.ops[0] = Op::Load { dst: Out(4), from: Pool(2) },
            |p| p.ops[0] = Op::LoadParam { dst: Out(4), param: Param(1) },
            |p| p.ops[2] = Op::MatPool { mat: Mat(0), from: Pool(1), rows: Count(1) },
            |p| p.ops[2] = Op::HashPool { hash: Hash(0), from: Pool(0), count: Count(2) },
            |p| p.registers = 2,
        ];
        for (n, f) in spoil.iter().enumerate() {
            let mut p = sample();
            f(&mut p);
            assert!(verify(&p).is_err(), "fault {n} was not found");
        }
    }
}
