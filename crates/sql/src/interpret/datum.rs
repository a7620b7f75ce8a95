//! What a register holds: 16 bytes, copied freely.
//!
//! - **D1** Strings, bytea, numeric and opaque values are an offset and a length in the memory that goes with
//!   the datum (a frame's or a store's); all others are in the datum itself.
//!   A numeric of few digits may be in the datum as well: its word ([`Packed`]), and its scale as the length.
//! - **D2** Integers of every width, booleans, dates and timestamps are kept as one sign-extended 64-bit
//!   number, so that one instruction compares them all.
//!   What is beside that number is one word as well: a processor that reads eight bytes which were written as
//!   four, two and one waits until these have left it, in each comparison.
//! - **D3** No datum can name memory that is not there: an offset is looked up, and what it does not name
//!   reads as empty.
use ondol_engine::{Charge, Connection};
use ondol_types::cast::bare;
use ondol_types::limits::Account;
use ondol_types::{Packed, SqlResult, TypeId, Value, ValueRef};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::hash::Hasher;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Tag {
    #[default]
    Null,
    Bool,
    Int2,
    Int4,
    Int8,
    Float8,
    Numeric,
    Text,
    Bytea,
    Date,
    Timestamp,
    Timestamptz,
    /// Of the type in [`Datum::ty`].
    Opaque,
    /// A numeric that is in the datum itself (D1).
    Packed,
}

impl Tag {
    #[inline(always)]
    fn of(byte: u8) -> Tag {
        use Tag::*;
        match byte {
            1 => Bool,
            2 => Int2,
            3 => Int4,
            4 => Int8,
            5 => Float8,
            6 => Numeric,
            7 => Text,
            8 => Bytea,
            9 => Date,
            10 => Timestamp,
            11 => Timestamptz,
            12 => Opaque,
            13 => Packed,
            _ => Null,
        }
    }
    #[inline(always)]
    pub fn in_memory(self) -> bool {
        matches!(self, Tag::Numeric | Tag::Text | Tag::Bytea | Tag::Opaque)
    }
}

#[derive(Clone, Copy, Default)]
pub struct Datum {
    /// Length, type and tag: 32, 16 and 8 bits, from the top.
    head: u64,
    pub bits: u64,
}

impl std::fmt::Debug for Datum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}({:?}, {} bytes, {:#x})", self.tag(), self.ty(), self.len(), self.bits)
    }
}

impl Datum {
    pub const NULL: Datum = Datum::new(Tag::Null, 0, 0);
    pub const TRUE: Datum = Datum::new(Tag::Bool, 0, 1);
    #[inline(always)]
    const fn new(tag: Tag, len: u32, bits: u64) -> Datum {
        Datum { head: tag as u64 | (len as u64) << 32, bits }.with_type(TypeId::UNKNOWN)
    }
    #[inline(always)]
    pub const fn with_type(self, ty: TypeId) -> Datum {
        Datum { head: self.head & !0xffff_ff00 | (ty.number() as u64) << 8, bits: self.bits }
    }
    #[inline(always)]
    pub fn with_tag(self, tag: Tag) -> Datum {
        Datum { head: self.head & !0xff | tag as u64, bits: self.bits }
    }
    #[inline(always)]
    pub fn tag(self) -> Tag {
        Tag::of(self.head as u8)
    }
    /// The type of an opaque value; BPCHAR of a text whose trailing blanks do not count where it is compared
    /// as a datum; else UNKNOWN.
    #[inline(always)]
    pub fn ty(self) -> TypeId {
        TypeId::of_number((self.head >> 8) as u16)
    }
    /// Of the bytes in memory; the scale of a packed numeric.
    #[inline(always)]
    fn len(self) -> u32 {
        (self.head >> 32) as u32
    }
    /// The bytes that it has in memory.
    #[inline(always)]
    pub fn memory_bytes(self) -> usize {
        if self.tag().in_memory() { self.len() as usize } else { 0 }
    }
    #[inline(always)]
    pub fn number(tag: Tag, v: i64) -> Datum {
        Datum::new(tag, 0, v as u64)
    }
    #[inline(always)]
    pub fn bool(b: bool) -> Datum {
        Datum::new(Tag::Bool, 0, b as u64)
    }
    #[inline(always)]
    pub fn int(v: i64) -> Datum {
        Datum::number(Tag::Int8, v)
    }
    #[inline(always)]
    pub fn float(v: f64) -> Datum {
        Datum::new(Tag::Float8, 0, v.to_bits())
    }
    #[inline(always)]
    pub fn string(tag: Tag, offset: usize, len: usize) -> Datum {
        Datum::new(tag, len as u32, offset as u64)
    }
    #[inline(always)]
    pub fn packed(p: Packed) -> Datum {
        Datum::new(Tag::Packed, p.scale().into(), p.word() as u64)
    }
    /// Of a packed numeric.
    #[inline(always)]
    pub fn as_packed(self) -> Packed {
        Packed::new(self.bits as i64, self.len() as u16)
    }
    #[inline]
    pub fn opaque(ty: TypeId, offset: usize, len: usize) -> Datum {
        Datum::string(Tag::Opaque, offset, len).with_type(ty)
    }
    #[inline(always)]
    pub fn is_null(self) -> bool {
        self.head as u8 == Tag::Null as u8
    }
    #[inline(always)]
    pub fn is_true(self) -> bool {
        self.head as u8 == Tag::Bool as u8 && self.bits != 0
    }
    #[inline(always)]
    pub fn is_false(self) -> bool {
        self.head as u8 == Tag::Bool as u8 && self.bits == 0
    }
    #[inline(always)]
    pub fn as_int(self) -> i64 {
        self.bits as i64
    }
    #[inline(always)]
    pub fn as_float(self) -> f64 {
        f64::from_bits(self.bits)
    }
    /// The bytes of what lies in memory; of anything else none (D3).
    #[inline(always)]
    pub fn bytes(self, memory: &[u8]) -> &[u8] {
        if !self.tag().in_memory() {
            return &[];
        }
        let at = self.bits as usize;
        memory.get(at..at.wrapping_add(self.len() as usize)).unwrap_or(&[])
    }

    #[inline]
    pub fn value<'a>(self, memory: &'a [u8]) -> ValueRef<'a> {
        match self.tag() {
            Tag::Null => ValueRef::Null,
            Tag::Bool => ValueRef::Bool(self.bits != 0),
            Tag::Int2 => ValueRef::Int2(self.bits as i16),
            Tag::Int4 => ValueRef::Int4(self.bits as i32),
            Tag::Int8 => ValueRef::Int8(self.bits as i64),
            Tag::Float8 => ValueRef::Float8(self.as_float()),
            Tag::Numeric => ValueRef::Numeric(self.bytes(memory)),
            Tag::Packed => ValueRef::Packed(self.as_packed()),
            Tag::Text => ValueRef::Text(text(self.bytes(memory))),
            Tag::Bytea => ValueRef::Bytea(self.bytes(memory)),
            Tag::Date => ValueRef::Date(self.bits as i32),
            Tag::Timestamp => ValueRef::Timestamp(self.bits as i64),
            Tag::Timestamptz => ValueRef::Timestamptz(self.bits as i64),
            Tag::Opaque => ValueRef::Opaque(self.ty(), self.bytes(memory)),
        }
    }

    /// The value's datum; what does not fit in it is appended to `memory`.
    #[inline]
    pub fn of(value: ValueRef<'_>, memory: &mut Vec<u8>) -> Datum {
        let mut push = |tag, b: &[u8]| {
            let at = memory.len();
            memory.extend_from_slice(b);
            Datum::string(tag, at, b.len())
        };
        match value {
            ValueRef::Null => Datum::NULL,
            ValueRef::Bool(b) => Datum::bool(b),
            ValueRef::Int2(i) => Datum::number(Tag::Int2, i.into()),
            ValueRef::Int4(i) => Datum::number(Tag::Int4, i.into()),
            ValueRef::Int8(i) => Datum::number(Tag::Int8, i),
            ValueRef::Float8(f) => Datum::float(f),
            ValueRef::Numeric(b) => push(Tag::Numeric, b),
            ValueRef::Packed(p) => Datum::packed(p),
            ValueRef::Text(s) => push(Tag::Text, s.as_bytes()),
            ValueRef::Bytea(b) => push(Tag::Bytea, b),
            ValueRef::Date(d) => Datum::number(Tag::Date, d.into()),
            ValueRef::Timestamp(t) => Datum::number(Tag::Timestamp, t),
            ValueRef::Timestamptz(t) => Datum::number(Tag::Timestamptz, t),
            ValueRef::Opaque(ty, b) => push(Tag::Opaque, b).with_type(ty),
        }
    }

    /// The same for an owned value.
    pub fn of_owned(value: &Value, memory: &mut Vec<u8>) -> Datum {
        match value {
            Value::Null => Datum::NULL,
            Value::Bool(b) => Datum::bool(*b),
            Value::Int2(i) => Datum::number(Tag::Int2, (*i).into()),
            Value::Int4(i) => Datum::number(Tag::Int4, (*i).into()),
            Value::Int8(i) => Datum::number(Tag::Int8, *i),
            Value::Float8(f) => Datum::float(*f),
            Value::Numeric(n) => {
                let at = memory.len();
                n.encode(memory);
                Datum::string(Tag::Numeric, at, memory.len() - at)
            }
            Value::Text(s) => Datum::of(ValueRef::Text(s), memory),
            Value::Bytea(b) => Datum::of(ValueRef::Bytea(b), memory),
            Value::Date(d) => Datum::number(Tag::Date, (*d).into()),
            Value::Timestamp(t) => Datum::number(Tag::Timestamp, *t),
            Value::Timestamptz(t) => Datum::number(Tag::Timestamptz, *t),
            Value::Opaque(ty, b) => Datum::of(ValueRef::Opaque(*ty, b), memory),
        }
    }

    /// How much of an owned value its datum puts into memory, at most.
    pub fn bytes_of(value: &Value) -> usize {
        match value {
            Value::Text(s) => s.len(),
            Value::Bytea(b) => b.len(),
            Value::Opaque(_, b) => b.len(),
            // Four bytes for nine digits, and a head.
            Value::Numeric(n) => n.limbs() * 4 + 32,
            _ => 0,
        }
    }

    /// A copy whose bytes are in `to`.
    #[inline]
    pub fn moved(self, from: &[u8], to: &mut Vec<u8>) -> Datum {
        if !self.tag().in_memory() {
            return self;
        }
        let at = to.len();
        let b = self.bytes(from);
        to.extend_from_slice(b);
        Datum::string(self.tag(), at, b.len()).with_type(self.ty())
    }
}

/// Bytes as text. Strings come in as checked text and are kept as they are; should one not be UTF-8 all the
/// same, its valid beginning is shown.
#[inline(always)]
pub fn text(b: &[u8]) -> &str {
    match ondol_base::ascii::text(b) {
        Some(s) => s,
        None => valid_text(b),
    }
}

#[inline(never)]
fn valid_text(b: &[u8]) -> &str {
    match std::str::from_utf8(b) {
        Ok(s) => s,
        Err(e) => std::str::from_utf8(&b[..e.valid_up_to()]).unwrap_or(""),
    }
}

/// PostgreSQL's order of doubles: NaN last and equal to itself, the zeros equal.
#[inline(always)]
pub fn order_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The order of two values of one kind; NULLs equal each other and follow all else.
#[inline]
pub fn compare(a: Datum, am: &[u8], b: Datum, bm: &[u8]) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    match a.tag() {
        Tag::Float8 => order_floats(a.as_float(), b.as_float()),
        Tag::Text | Tag::Bytea => {
            let (x, y) = (a.bytes(am), b.bytes(bm));
            if a.ty() == TypeId::BPCHAR || b.ty() == TypeId::BPCHAR { bare(x).cmp(bare(y)) } else { x.cmp(y) }
        }
        Tag::Numeric | Tag::Packed | Tag::Opaque => ondol_types::value::compare(a.value(am), b.value(bm)),
        _ => a.as_int().cmp(&b.as_int()),
    }
}

/// A quick hash of 64 bits, good enough in its high and low bits for tables of powers of two.
#[derive(Clone, Copy)]
pub struct Mix(pub u64);

impl Mix {
    #[inline(always)]
    pub fn number(&mut self, n: u64) {
        let p = u128::from(self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        self.0 = (p >> 64) as u64 ^ p as u64;
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (chunks, rest) = bytes.as_chunks::<8>();
        for c in chunks {
            self.number(u64::from_le_bytes(*c));
        }
        let mut last = [0u8; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.number(u64::from_le_bytes(last));
        self.number(bytes.len() as u64 + 1);
    }
}

/// Consistent with [`compare`]: equal values hash alike, also integers of different widths.
#[inline]
pub fn hash(d: Datum, memory: &[u8], h: &mut Mix) {
    match d.tag() {
        Tag::Null => h.number(0x6e75_6c6c),
        Tag::Float8 => {
            let f = d.as_float();
            h.number(if f == 0.0 {
                0
            } else if f.is_nan() {
                1
            } else {
                f.to_bits()
            })
        }
        Tag::Text if d.ty() == TypeId::BPCHAR => h.write(bare(d.bytes(memory))),
        Tag::Text | Tag::Bytea => h.write(d.bytes(memory)),
        Tag::Numeric | Tag::Packed | Tag::Opaque => ondol_types::value::hash_value(d.value(memory), h),
        _ => h.number(d.bits),
    }
}

/// Runs `f` with the values of some registers, without allocating for the usual numbers of them.
#[inline]
pub fn with_values<R>(regs: &[Datum], memory: &[u8], f: impl FnOnce(&[ValueRef<'_>]) -> R) -> R {
    const FEW: usize = 16;
    if let [a] = regs {
        f(&[a.value(memory)])
    } else if let [a, b] = regs {
        f(&[a.value(memory), b.value(memory)])
    } else if regs.len() <= FEW {
        let mut few = [ValueRef::Null; FEW];
        for (v, d) in few.iter_mut().zip(regs) {
            *v = d.value(memory);
        }
        f(&few[..regs.len()])
    } else {
        let all: Vec<ValueRef<'_>> = regs.iter().map(|d| d.value(memory)).collect();
        f(&all)
    }
}

/// The error for memory that a statement's intermediate rows may not take.
#[cold]
pub fn too_large(limit: usize) -> ondol_types::SqlError {
    ondol_types::SqlError::new(ondol_types::sqlstate::OUT_OF_MEMORY, "out of memory")
        .detail(format!("The statement's intermediate rows and values take more than {limit} bytes."))
}

/// What the functions of an execution take for the length of a call.
#[derive(Debug)]
pub struct Purse {
    limit: usize,
    taken: Cell<usize>,
    charge: RefCell<Option<Charge>>,
}

impl Purse {
    pub fn new(charge: Option<Charge>, limit: usize) -> Purse {
        Purse { limit, taken: Cell::new(0), charge: RefCell::new(charge) }
    }
    /// The call is over.
    #[inline]
    pub fn settle(&self) {
        if self.taken.get() > 0 {
            self.give_back()
        }
    }
    #[cold]
    fn give_back(&self) {
        self.taken.set(0);
        if let Some(c) = self.charge.borrow_mut().as_mut() {
            c.clear()
        }
    }
    /// The charge, for the next execution.
    pub fn close(self) -> Option<Charge> {
        self.settle();
        self.charge.into_inner()
    }
}

impl Account for Purse {
    fn take(&self, bytes: usize) -> SqlResult<()> {
        let taken = self.taken.get().saturating_add(bytes);
        if taken > self.limit {
            return Err(too_large(self.limit));
        }
        if let Some(c) = self.charge.borrow_mut().as_mut() {
            c.grow(bytes)?
        }
        self.taken.set(taken);
        Ok(())
    }
}

/// Bytes that a statement's stores may take together. What goes beyond [`FREE`] is charged to the database's
/// memory limit in steps of [`STEP`].
#[derive(Debug, Default)]
pub struct Allowance {
    pub used: usize,
    pub limit: usize,
    /// Up to here it is free or charged.
    covered: usize,
    charge: Option<Charge>,
}

/// So little that charging it would cost more than it tells.
const FREE: usize = 64 << 10;
const STEP: usize = 512 << 10;

impl Allowance {
    #[inline]
    pub fn take(&mut self, bytes: usize) -> SqlResult<()> {
        self.used += bytes;
        if self.used > self.covered { self.cover() } else { Ok(()) }
    }
    #[cold]
    fn cover(&mut self) -> SqlResult<()> {
        if self.used > self.limit {
            return Err(too_large(self.limit));
        }
        let more = (self.used - self.covered).next_multiple_of(STEP);
        if let Some(c) = &mut self.charge {
            c.grow(more)?
        }
        self.covered = self.limit.min(self.covered + more);
        Ok(())
    }
    /// Gives back what was taken for a moment; it stays charged to the end, for the next to take.
    #[inline]
    pub fn give_back(&mut self, bytes: usize) {
        self.used -= bytes.min(self.used)
    }
    /// Another charge against the same limit, if there is one to be charged.
    pub fn another(&self) -> Option<Charge> {
        self.charge.as_ref().map(Charge::another)
    }
    /// A new execution begins.
    #[inline]
    pub fn start(&mut self, limit: usize) {
        self.used = 0;
        self.limit = limit;
        self.covered = limit.min(FREE);
    }
    /// What is taken from now on is charged to the connection's database.
    #[inline]
    pub fn attach(&mut self, connection: &Connection) {
        if self.charge.is_none() {
            self.charge = Some(connection.charge())
        }
    }
    /// Whether something is charged.
    #[inline]
    pub fn is_charged(&self) -> bool {
        self.covered > FREE
    }
    /// Gives back what is charged, and tells how much that was.
    pub fn clear(&mut self) -> usize {
        self.covered = self.limit.min(FREE);
        self.charge.as_mut().map_or(0, |c| {
            let bytes = c.bytes();
            c.clear();
            bytes
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Tag;

    #[test]
    fn a_tag_is_what_its_byte_says() {
        use Tag::*;
        let all = [
            Null,
            Bool,
            Int2,
            Int4,
            Int8,
            Float8,
            Numeric,
            Text,
            Bytea,
            Date,
            Timestamp,
            Timestamptz,
            Opaque,
            Packed,
        ];
        for (n, tag) in all.into_iter().enumerate() {
            assert_eq!((tag as usize, Tag::of(n as u8)), (n, tag))
        }
        assert_eq!(Tag::of(all.len() as u8), Null)
    }
}
