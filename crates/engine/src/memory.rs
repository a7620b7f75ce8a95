//! What takes a database's memory.

/// Memory in use and its limit, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// Bytes in use. They are the sum of the parts, apart from changes while the parts were looked at.
    pub used: u64,
    /// The most that may be in use: a statement that would take more is refused.
    pub limit: u64,
    /// Each table followed by its indexes, the dictionary, and last everything else.
    pub parts: Vec<MemoryPart>,
}

/// What one thing takes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryPart {
    pub kind: MemoryKind,
    /// The table's or index's name.
    pub name: String,
    /// Rows of a table, entries of an index, versions that wait to be collected.
    pub entries: u64,
    pub bytes: u64,
}

/// What a part of the memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryKind {
    Table,
    Index,
    /// A table that describes tables.
    Dictionary,
    /// Old versions, transactions, and what statements hold while they run.
    Versions,
}

impl MemoryKind {
    /// As the view `ondol_memory` has it.
    pub fn name(self) -> &'static str {
        match self {
            MemoryKind::Table => "table",
            MemoryKind::Index => "index",
            MemoryKind::Dictionary => "dictionary",
            MemoryKind::Versions => "versions",
        }
    }
}

impl Memory {
    /// The parts of a kind.
    pub fn of(&self, kind: MemoryKind) -> impl Iterator<Item = &MemoryPart> {
        self.parts.iter().filter(move |p| p.kind == kind)
    }
}
