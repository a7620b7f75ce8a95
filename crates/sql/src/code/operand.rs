//! What an instruction's operands are: how each is stored, shown, checked and relocated.
//!
//! - **O1** Every operand of every opcode has a kind of its own here, so that encoding, EXPLAIN and
//!   verification follow from the opcode table alone and none of them can forget a field.
//! - **O2** While code is being generated, a register with the highest bit set is a constant, one with the
//!   next is in the scratch area, and a [`Label`] is a label's number; [`Operand::relocate`] turns them into
//!   register numbers and addresses.
use super::program::Limits;
pub use crate::plan::classify::Cond;
use ondol_types::TypeId;
use ondol_types::func::FuncId;

/// Bytes that code is read from; every read says whether there was enough.
pub struct CodeReader<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

impl<'a> CodeReader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        CodeReader { bytes, at: 0 }
    }
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(n)?;
        let out = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(out)
    }
    pub fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }
    pub fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|b| u16::from_le_bytes([b[0], b[1]]))
    }
    pub fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }
    pub fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }
    pub fn blob(&mut self) -> Option<&'a [u8]> {
        let n = self.u32()? as usize;
        self.take(n)
    }
    pub fn text(&mut self) -> Option<String> {
        std::str::from_utf8(self.blob()?).ok().map(str::to_string)
    }
    /// A count of things that take at least one byte each, so that a wild count cannot reserve memory.
    pub fn count(&mut self) -> Option<usize> {
        let n = self.u32()? as usize;
        (n <= self.bytes.len() - self.at).then_some(n)
    }
}

/// How labels and constants of generated code are placed (O2).
pub struct Relocation<'a> {
    /// Address of each label.
    pub labels: &'a [u32],
    /// Number of the first constant's register; also how far working registers move up.
    pub first_const: u16,
    pub consts: u16,
    /// Number of the scratch area's first register.
    pub first_scratch: u16,
}

impl Relocation<'_> {
    /// Parameters stand first, then constants, then working registers, then the scratch area.
    pub fn register(&self, r: u16) -> u16 {
        if r & CONST != 0 {
            self.first_const + (r & !CONST)
        } else if r & SCRATCH != 0 {
            self.first_scratch + (r & !SCRATCH)
        } else if r < self.first_const {
            r
        } else {
            r + self.consts
        }
    }
}

/// Marks a register number as a constant's while code is generated.
pub const CONST: u16 = 0x8000;
/// Marks one of the scratch area, likewise.
pub const SCRATCH: u16 = 0x4000;

pub trait Operand: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn get(r: &mut CodeReader<'_>) -> Option<Self>;
    fn check(&self, limits: &Limits) -> Result<(), String>;
    fn show(&self, out: &mut String);
    fn relocate(&mut self, to: &Relocation<'_>);
    /// The address, of a label.
    fn target(&self) -> Option<u32> {
        None
    }
}

fn below(what: &str, n: usize, limit: usize) -> Result<(), String> {
    if n < limit { Ok(()) } else { Err(format!("{what} {n} of {limit}")) }
}

/// A register that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reg(pub u16);
/// A register that is written: never a parameter's or a constant's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Out(pub u16);
/// Neighbouring registers that are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    pub first: u16,
    pub count: u16,
}
/// Neighbouring registers that are read and written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State(pub Span);
/// Where to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(pub u32);
/// A byte in the frame's row area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct At(pub u32);
/// A column's null bit: byte in the row area and bit, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NullAt(pub u32);
/// Where values begin in the program's pool of constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pool(pub u32);
/// A parameter by its number, whether a register holds it or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Param(pub u16);
/// How many values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count(pub u32);
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Imm(pub i32);
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flag(pub bool);
/// Decimals of a numeric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale(pub u16);
/// A column of a store's row, or of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Col(pub u16);

impl Span {
    pub fn new(first: u16, count: usize) -> Span {
        Span { first, count: count as u16 }
    }
    pub fn range(self) -> std::ops::Range<usize> {
        self.first as usize..self.first as usize + self.count as usize
    }
}

impl NullAt {
    pub const NEVER: NullAt = NullAt(u32::MAX);
    pub fn new(row_at: u32, bit: Option<u16>) -> NullAt {
        bit.map_or(Self::NEVER, |b| NullAt(((row_at + u32::from(b) / 8) << 3) | (u32::from(b) % 8)))
    }
    #[inline(always)]
    pub fn is_null(self, memory: &[u8]) -> bool {
        self.0 != u32::MAX && memory[(self.0 >> 3) as usize] >> (self.0 & 7) & 1 != 0
    }
}

impl Operand for Reg {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes())
    }
    fn get(r: &mut CodeReader<'_>) -> Option<Self> {
        r.u16().map(Reg)
    }
    fn check(&self, l: &Limits) -> Result<(), String> {
        below("register", self.0 as usize, l.registers)
    }
    fn show(&self, out: &mut String) {
        *out += &format!("r{}", self.0)
    }
    fn relocate(&mut self, to: &Relocation<'_>) {
        self.0 = to.register(self.0)
    }
}

impl Operand for Out {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes())
    }
    fn get(r: &mut CodeReader<'_>) -> Option<Self> {
        r.u16().map(Out)
    }
    fn check(&self, l: &Limits) -> Result<(), String> {
        if (self.0 as usize) < l.fixed_registers {
            return Err(format!("register {} is a parameter or constant and is written", self.0));
        }
        below("register", self.0 as usize, l.registers)
    }
    fn show(&self, out: &mut String) {
        *out += &format!("r{}", self.0)
    }
    fn relocate(&mut self, to: &Relocation<'_>) {
        self.0 = to.register(self.0)
    }
}

impl Operand for Span {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes())
    }
    fn get(r: &mut CodeReader<'_>) -> Option<Self> {
        Some(Span { first: r.u16()?, count: r.u16()? })
    }
    fn check(&self, l: &Limits) -> Result<(), String> {
        below("end of registers", self.first as usize + self.count as usize, l.registers + 1)
    }
    fn show(&self, out: &mut String) {
        match self.count {
            0 => *out += "-",
            1 => *out += &format!("r{}", self.first),
            n => *out += &format!("r{}..r{}", self.first, self.first + n - 1),
        }
    }
    fn relocate(&mut self, to: &Relocation<'_>) {
        self.first = to.register(self.first)
    }
}

impl Operand for State {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out)
    }
    fn get(r: &mut CodeReader<'_>) -> Option<Self> {
        Span::get(r).map(State)
    }
    fn check(&self, l: &Limits) -> Result<(), String> {
        Out(self.0.first).check(l)?;
        self.0.check(l)
    }
    fn show(&self, out: &mut String) {
        self.0.show(out)
    }
    fn relocate(&mut self, to: &Relocation<'_>) {
        self.0.relocate(to)
    }
}

impl Operand for Label {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes())
    }
    fn get(r: &mut CodeReader<'_>) -> Option<Self> {
        r.u32().map(Label)
    }
    fn check(&self, l: &Limits) -> Result<(), String> {
        below("address", self.0 as usize, l.ops)
    }
    fn show(&self, out: &mut String) {
        *out += &format!("->{}", self.0)
    }
    fn relocate(&mut self, to: &Relocation<'_>) {
        self.0 = to.labels[self.0 as usize]
    }
    fn target(&self) -> Option<u32> {
        Some(self.0)
    }
}

macro_rules! fixed {
    ($(#[$doc:meta])* $name:ident, $get:ident, $ty:ty, |$s:ident, $l:ident| $check:expr, |$s2:ident| $show:expr) => {
        impl Operand for $name {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&(self.0 as $ty).to_le_bytes())
            }
            fn get(r: &mut CodeReader<'_>) -> Option<Self> {
                r.$get().map(|v| $name(v as _))
            }
            fn check(&self, $l: &Limits) -> Result<(), String> {
                let $s = self;
                $check
            }
            fn show(&self, out: &mut String) {
                let $s2 = self;
                *out += &$show
            }
            fn relocate(&mut self, _: &Relocation<'_>) {}
        }
    };
}

fixed!(At, u32, u32, |s, l| below("row byte", s.0 as usize, l.row_area), |s| format!("@{}", s.0));
fixed!(
    NullAt,
    u32,
    u32,
    |s, l| if *s == NullAt::NEVER { Ok(()) } else { below("null byte", (s.0 >> 3) as usize, l.row_area) },
    |s| if *s == NullAt::NEVER { "not null".to_string() } else { format!("null@{}.{}", s.0 >> 3, s.0 & 7) }
);
fixed!(Imm, u32, i32, |_s, _l| Ok(()), |s| s.0.to_string());
fixed!(Pool, u32, u32, |s, l| below("end of pool", s.0 as usize, l.pool + 1), |s| format!("p{}", s.0));
fixed!(Param, u16, u16, |s, l| below("parameter", s.0 as usize, l.params), |s| format!(
    "${}",
    usize::from(s.0) + 1
));
fixed!(Count, u32, u32, |_s, _l| Ok(()), |s| s.0.to_string());
fixed!(Col, u16, u16, |_s, _l| Ok(()), |s| format!("c{}", s.0));
fixed!(Scale, u16, u16, |_s, _l| Ok(()), |s| s.0.to_string());

impl Operand for Flag {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.0 as u8)
    }
    fn get(r: &mut CodeReader<'_>) -> Option<Self> {
        match r.u8()? {
            0 => Some(Flag(false)),
            1 => Some(Flag(true)),
            _ => None,
        }
    }
    fn check(&self, _: &Limits) -> Result<(), String> {
        Ok(())
    }
    fn show(&self, out: &mut String) {
        *out += if self.0 { "true" } else { "false" }
    }
    fn relocate(&mut self, _: &Relocation<'_>) {}
}

/// Numbers of the program's tables of things.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident $limit:ident $prefix:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            pub struct $name(pub u16);
            fixed!($name, u16, u16, |s, l| below(stringify!($name), s.0 as usize, l.$limit), |s| format!(concat!($prefix, "{}"), s.0));
        )*
    };
}
numbers! {
    /// A table cursor.
    Cur cursors "t";
    /// A hash table.
    Hash hashes "h";
    /// A materialised list of rows.
    Mat mats "m";
    /// A sorter.
    Sort sorts "s";
    /// A window, with the rows of one partition.
    Win windows "w";
    /// A table of groups.
    Group groups "g";
    /// A conversion of the program's list.
    Conv casts "cast";
    /// A list of columns.
    List lists "list";
    /// A table of the program's list.
    Tab tables "table";
    /// A name of the program's list.
    Name names "name";
    /// A registered query of the program's list.
    Fun functions "function";
    /// A foreign table of the program's list.
    Outside foreigns "f";
    /// A counter of EXPLAIN ANALYZE.
    Slot tallies "n";
}

/// How operands that are one of a few words are stored and shown.
macro_rules! operand_of_words {
    ($name:ident { $($num:literal $variant:ident $show:literal,)* }) => {
        impl Operand for $name {
            fn put(&self, out: &mut Vec<u8>) {
                out.push(*self as u8)
            }
            fn get(r: &mut CodeReader<'_>) -> Option<Self> {
                match r.u8()? {
                    $($num => Some($name::$variant),)*
                    _ => None,
                }
            }
            fn check(&self, _: &Limits) -> Result<(), String> {
                Ok(())
            }
            fn show(&self, out: &mut String) {
                *out += match self { $($name::$variant => $show,)* }
            }
            fn relocate(&mut self, _: &Relocation<'_>) {}
        }
    };
}
operand_of_words!(Cond { 0 Eq "=", 1 Ne "<>", 2 Lt "<", 3 Le "<=", 4 Gt ">", 5 Ge ">=", });

/// Operands that are one of a few words.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($num:literal $variant:ident $show:literal,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            #[repr(u8)]
            pub enum $name { $($variant = $num,)* }
            operand_of_words!($name { $($num $variant $show,)* });
        )*
    };
}
words! {
    /// An integer type, by its range.
    IntTy { 2 Int2 "int2", 3 Int4 "int4", 4 Int8 "int8", }
    /// Which side of a key a range begins or ends at: before all entries that begin with it, or after them.
    Edge { 0 Before "before", 1 After "after", }
    /// How a row is locked.
    How {
        0 UpdateBlock "update", 1 UpdateNoWait "update nowait", 2 UpdateSkip "update skip locked",
        3 ShareBlock "share", 4 ShareNoWait "share nowait", 5 ShareSkip "share skip locked",
        6 NoKeyBlock "no key update", 7 NoKeyNoWait "no key update nowait",
        8 NoKeySkip "no key update skip locked",
        9 KeyBlock "key share", 10 KeyNoWait "key share nowait", 11 KeySkip "key share skip locked",
    }
    /// Errors that the code itself raises.
    Fault {
        0 MoreThanOneRow "more than one row returned by a subquery used as an expression",
    }
}

impl Operand for FuncId {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes())
    }
    fn get(r: &mut CodeReader<'_>) -> Option<Self> {
        r.u16().map(FuncId)
    }
    fn check(&self, _: &Limits) -> Result<(), String> {
        match ondol_types::func::find(*self) {
            Some(_) => Ok(()),
            None => Err(format!("function {} is not in the catalogue", self.0)),
        }
    }
    fn show(&self, out: &mut String) {
        match ondol_types::func::find(*self) {
            Some(d) => *out += d.name,
            None => *out += &format!("function#{}", self.0),
        }
    }
    fn relocate(&mut self, _: &Relocation<'_>) {}
}

impl Operand for TypeId {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number().to_le_bytes())
    }
    fn get(r: &mut CodeReader<'_>) -> Option<Self> {
        TypeId::from_number(r.u16()?)
    }
    fn check(&self, _: &Limits) -> Result<(), String> {
        Ok(())
    }
    fn show(&self, out: &mut String) {
        *out += self.def().catalog_name
    }
    fn relocate(&mut self, _: &Relocation<'_>) {}
}
