//! The stored form of programs.
//!
//! ```text
//! "OBC" | format u16 | sections in the order of `Program`'s fields, little-endian | CRC-32C of all before
//! ```
//! Reading never trusts a length: each is bounded by the bytes that remain, and the outcome passes
//! [`super::verify::verify`].
use super::FORMAT;
use super::op::Op;
use super::operand::CodeReader;
use super::program::*;
use super::window::WindowDef;
use ondol_engine::name::TEMPORARY;
use ondol_engine::{Catalog, Uses};
use ondol_types::agg::AggId;
use ondol_types::{Numeric, Type, TypeId, Value};

const MAGIC: &[u8; 3] = b"OBC";

fn put16(out: &mut Vec<u8>, v: u16) {
    out.extend_from_slice(&v.to_le_bytes())
}
fn put32(out: &mut Vec<u8>, v: usize) {
    out.extend_from_slice(&(v as u32).to_le_bytes())
}
fn put_bytes(out: &mut Vec<u8>, b: &[u8]) {
    put32(out, b.len());
    out.extend_from_slice(b)
}
fn put_type(out: &mut Vec<u8>, t: Type) {
    put16(out, t.id.number());
    out.extend_from_slice(&t.typmod.to_le_bytes())
}
fn get_type(r: &mut CodeReader<'_>) -> Option<Type> {
    Some(Type { id: TypeId::from_number(r.u16()?)?, typmod: r.u32()? as i32 })
}

pub(super) fn put_value(out: &mut Vec<u8>, v: &Value) {
    put16(out, v.type_id().unwrap_or(TypeId::UNKNOWN).number());
    match v {
        Value::Null => {}
        Value::Bool(b) => out.push(*b as u8),
        Value::Int2(i) => out.extend_from_slice(&i.to_le_bytes()),
        Value::Int4(i) | Value::Date(i) => out.extend_from_slice(&i.to_le_bytes()),
        Value::Int8(i) | Value::Timestamp(i) | Value::Timestamptz(i) => {
            out.extend_from_slice(&i.to_le_bytes())
        }
        Value::Float8(f) => out.extend_from_slice(&f.to_bits().to_le_bytes()),
        Value::Numeric(n) => {
            let mut b = Vec::new();
            n.encode(&mut b);
            put_bytes(out, &b)
        }
        Value::Text(s) => put_bytes(out, s.as_bytes()),
        Value::Bytea(b) => put_bytes(out, b),
        Value::Opaque(_, b) => put_bytes(out, b),
    }
}

fn get_value(r: &mut CodeReader<'_>) -> Option<Value> {
    Some(match TypeId::from_number(r.u16()?)? {
        TypeId::UNKNOWN => Value::Null,
        TypeId::BOOL => Value::Bool(r.u8()? != 0),
        TypeId::INT2 => Value::Int2(r.u16()? as i16),
        TypeId::INT4 => Value::Int4(r.u32()? as i32),
        TypeId::INT8 => Value::Int8(r.u64()? as i64),
        TypeId::FLOAT8 => Value::Float8(f64::from_bits(r.u64()?)),
        TypeId::NUMERIC => Value::Numeric(Numeric::decode(r.blob()?)),
        TypeId::TEXT => Value::Text(r.text()?),
        TypeId::BYTEA => Value::Bytea(r.blob()?.to_vec()),
        TypeId::DATE => Value::Date(r.u32()? as i32),
        TypeId::TIMESTAMP => Value::Timestamp(r.u64()? as i64),
        TypeId::TIMESTAMPTZ => Value::Timestamptz(r.u64()? as i64),
        ty => {
            let bytes = r.blob()?;
            ty.admits(bytes).then(|| Value::Opaque(ty, bytes.into()))?
        }
    })
}

fn list<T>(r: &mut CodeReader<'_>, mut each: impl FnMut(&mut CodeReader<'_>) -> Option<T>) -> Option<Vec<T>> {
    let n = r.count()?;
    let mut out = Vec::with_capacity(n.min(1 << 16));
    for _ in 0..n {
        out.push(each(r)?);
    }
    Some(out)
}

fn put_list<T>(out: &mut Vec<u8>, items: &[T], mut each: impl FnMut(&mut Vec<u8>, &T)) {
    put32(out, items.len());
    for i in items {
        each(out, i)
    }
}

impl Program {
    /// Whether it names types that users have defined, whose numbers are not stored (user/U1).
    fn names_user_types(&self) -> bool {
        // A row of no type has the numbers of its fields' types.
        let is_row = |t: TypeId| t.element().unwrap_or(t) == TypeId::RECORD;
        let of = |v: &Value| v.type_id().is_some_and(|t| t.is_user() || is_row(t));
        self.tables.iter().any(|t| t.def.columns.iter().any(|c| c.ty.id.is_user()))
            || self.params.iter().any(|t| t.is_user())
            || self.columns.iter().any(|(_, t)| t.id.is_user())
            || self.casts.iter().any(|c| c.from.is_user() || c.to.id.is_user())
            || self.consts.iter().chain(&self.pool).any(of)
            || self.ops.iter().any(|op| match op {
                Op::Retag { ty, .. } | Op::ColOpaque { ty, .. } => ty.is_user(),
                // Rows have no stored type.
                Op::Call { func, .. } => *func == ondol_types::func::id::EXPANDED,
                _ => false,
            })
    }

    /// Whether it has numbers of sequences, which names may stand for no longer when it is read.
    fn names_sequences(&self) -> bool {
        let shows = |name: &String| name.starts_with(SEQUENCE_VIEW);
        self.ops.iter().any(|op| matches!(op, Op::CallConnection { .. })) || self.names.iter().any(shows)
    }

    /// The stored form; nothing of a program that can be stored only as the text that it is made of.
    pub fn encode(&self) -> Vec<u8> {
        // Nor are those of temporary tables (engine/temporary/E5).
        let is_temporary = self.tables.iter().any(|t| t.def.schema == TEMPORARY);
        // Defaults of arguments that are left out are in the code, which does not tell so.
        let has_defaults = self.functions.iter().any(|f| !f.defaults.is_empty());
        if self.names_user_types() || self.names_sequences() || is_temporary || has_defaults {
            return Vec::new();
        }
        let Some(needs) = crate::needs::encode(&self.needs) else { return Vec::new() };
        let mut o = MAGIC.to_vec();
        put16(&mut o, FORMAT);
        put_list(&mut o, &self.tables, |o, t| {
            put32(o, t.def.id as usize);
            o.extend_from_slice(&fingerprint(t).to_le_bytes())
        });
        put_list(&mut o, &self.functions, |o, f| put32(o, f.id as usize));
        put_list(&mut o, &self.params, |o, t| put16(o, t.number()));
        put_list(&mut o, &self.consts, put_value);
        put_list(&mut o, &self.pool, put_value);
        put16(&mut o, self.registers);
        put32(&mut o, self.row_area as usize);
        put_list(&mut o, &self.cursors, |o, c| {
            put16(o, c.table);
            // The index by id: positions move when another index goes.
            let index = c.index.and_then(|i| self.tables[c.table as usize].def.indexes.get(i as usize));
            put32(o, index.map_or(u32::MAX as usize, |i| i.id as usize));
            put32(o, c.row_at as usize)
        });
        put_list(&mut o, &self.hashes, |o, h| {
            put16(o, h.width);
            put16(o, h.keys)
        });
        put_list(&mut o, &self.mats, |o, w| put16(o, *w));
        put_list(&mut o, &self.sorts, |o, s| {
            put16(o, s.width);
            put_list(o, &s.keys, |o, k| {
                put16(o, k.column);
                o.push(k.desc as u8 | (k.nulls_first as u8) << 1)
            })
        });
        put_list(&mut o, &self.groups, |o, g| {
            put16(o, g.keys);
            put_list(o, &g.aggs, |o, (a, n)| {
                put16(o, a.0);
                put16(o, *n)
            })
        });
        put_list(&mut o, &self.windows, |o, w| w.put(o));
        put_list(&mut o, &self.casts, |o, c| {
            put16(o, c.from.number());
            put_type(o, c.to);
            o.push(c.explicit as u8)
        });
        put_list(&mut o, &self.lists, |o, l| put_list(o, l, |o, c| put16(o, *c)));
        put_list(&mut o, &self.names, |o, n| put_bytes(o, n.as_bytes()));
        put16(&mut o, self.tallies);
        put_list(&mut o, &self.columns, |o, (n, t)| {
            put_bytes(o, n.as_bytes());
            put_type(o, *t)
        });
        o.push(self.tag as u8);
        o.push(self.writes as u8);
        put_bytes(&mut o, &needs);
        put_list(&mut o, &self.ops, |o, op| op.put(o));
        let crc = ondol_base::crc::crc32c(&o);
        o.extend_from_slice(&crc.to_le_bytes());
        o
    }

    /// Reads stored code and checks it against the dictionary it is to run on.
    pub fn decode(bytes: &[u8], catalog: &Catalog) -> Result<Program, Rejected> {
        let corrupt = |what: &str| Rejected::Corrupt(what.to_string());
        let Some((body, crc)) = bytes.split_last_chunk::<4>() else {
            return Err(corrupt("code is shorter than its checksum"));
        };
        let mut r = CodeReader::new(body);
        if r.take(3) != Some(MAGIC) {
            return Err(corrupt("code does not begin with its mark"));
        }
        match r.u16() {
            Some(FORMAT) => {}
            Some(_) => return Err(Rejected::Stale),
            None => return Err(corrupt("code ends within its header")),
        }
        let found = ondol_base::crc::crc32c(body);
        if found != u32::from_le_bytes(*crc) {
            return Err(corrupt(&format!("checksum {found:08x}, expected {:08x}", u32::from_le_bytes(*crc))));
        }
        let program = Self::read(&mut r, catalog)?;
        if r.at != body.len() {
            return Err(corrupt("bytes after the end of the code"));
        }
        super::verify::verify(&program).map_err(Rejected::Corrupt)?;
        Ok(program)
    }

    fn read(r: &mut CodeReader<'_>, catalog: &Catalog) -> Result<Program, Rejected> {
        let cut = || Rejected::Corrupt("code ends early or holds an unknown value".to_string());
        let mut tables = Vec::new();
        for (id, print) in list(r, |r| Some((r.u32()?, r.u64()?))).ok_or_else(cut)? {
            match catalog.table_by_id(id) {
                // Compiled anew, it fails with what is wrong.
                Some(t) if fingerprint(t) == print && !t.def.is_unpopulated() => tables.push(t.clone()),
                _ => return Err(Rejected::Stale),
            }
        }
        let mut functions = Vec::new();
        for id in list(r, |r| r.u32()).ok_or_else(cut)? {
            functions.push(catalog.functions.get(&id).ok_or(Rejected::Stale)?.clone());
        }
        Self::read_rest(r, catalog.version, tables, functions).ok_or_else(cut)
    }

    fn read_rest(
        r: &mut CodeReader<'_>,
        catalog_version: u64,
        tables: Vec<std::sync::Arc<ondol_engine::Table>>,
        functions: Vec<std::sync::Arc<ondol_engine::FunctionDef>>,
    ) -> Option<Program> {
        let params = list(r, |r| TypeId::from_number(r.u16()?))?;
        let consts = list(r, get_value)?;
        let pool = list(r, get_value)?;
        let registers = r.u16()?;
        let row_area = r.u32()?;
        let cursors = list(r, |r| {
            let table = r.u16()?;
            let id = r.u32()?;
            let index = match id {
                u32::MAX => None,
                id => Some(tables.get(table as usize)?.def.indexes.iter().position(|i| i.id == id)? as u16),
            };
            Some(CursorDef { table, index, row_at: r.u32()? })
        })?;
        let hashes = list(r, |r| Some(HashDef { width: r.u16()?, keys: r.u16()? }))?;
        let mats = list(r, |r| r.u16())?;
        let sorts = list(r, |r| {
            let width = r.u16()?;
            let keys = list(r, |r| {
                let column = r.u16()?;
                let flags = r.u8().filter(|f| *f < 4)?;
                Some(SortKey { column, desc: flags & 1 != 0, nulls_first: flags & 2 != 0 })
            })?;
            Some(SortDef { width, keys })
        })?;
        let groups = list(r, |r| {
            let keys = r.u16()?;
            Some(GroupDef { keys, aggs: list(r, |r| Some((AggId(r.u16()?), r.u16()?)))? })
        })?;
        let windows = list(r, WindowDef::get)?;
        let casts = list(r, |r| {
            let from = TypeId::from_number(r.u16()?)?;
            let to = get_type(r)?;
            Some(CastDef { from, to, explicit: r.u8().filter(|b| *b < 2)? == 1 })
        })?;
        let lists = list(r, |r| list(r, |r| r.u16()))?;
        let names = list(r, |r| r.text())?;
        let tallies = r.u16()?;
        let columns = list(r, |r| Some((r.text()?, get_type(r)?)))?;
        let tag = match r.u8()? {
            0 => Tag::Select,
            1 => Tag::Insert,
            2 => Tag::Update,
            3 => Tag::Delete,
            _ => return None,
        };
        let writes = r.u8().filter(|b| *b < 2)? == 1;
        let needs = crate::needs::decode(r.blob()?)?;
        let ops = list(r, Op::get)?;
        // What functions do to rows is not told here.
        let uses = match uses_of(&ops, &cursors) {
            _ if !writes => Uses::READS,
            uses if functions.is_empty() && uses != Uses::READS => uses,
            _ => Uses::CHANGES,
        };
        Some(Program {
            ops,
            params,
            consts,
            pool,
            registers,
            row_area,
            tables,
            cursors,
            hashes,
            mats,
            sorts,
            groups,
            windows,
            casts,
            lists,
            names,
            functions,
            foreigns: Vec::new(),
            tallies,
            columns,
            tag,
            writes,
            uses,
            catalog_version,
            needs,
            plan: None,
        })
    }
}
