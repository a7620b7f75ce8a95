//! Types that users define: to add a kind of them is to write a file here and a line in the list below.
//!
//! A definition ([`UserDef`]) is what the dictionary stores. From it a type gets its descriptor, and a
//! [`TypeId`] like any other, so that whoever has the number has everything: nothing is looked up in the
//! database that the type belongs to, and a value can be shown after its database was closed.
//!
//! - **U1** A number holds for the process alone, and is stored nowhere: what is stored names types by the
//!   dictionary's numbers of them. Bytes of values do not tell their type.
//! - **U2** Equal definitions have one number, and a definition's number never means another. So a changed
//!   type is another number, and what was made with the one before keeps its meaning; two databases whose
//!   definitions are equal may share a number without harm.
//! - **U3** Bytes and keys of a value stay what they are however its type is changed.
//!
//! Definitions stay in memory until the process ends; their number is limited ([`MOST`]).
//!
//! Concurrency: the table is filled without a lock, each place once.

use crate::func::{FuncDef, OperatorDef};
use crate::ty::{self, Category, Class, Modifier, TypeDef};
use crate::{SqlError, SqlResult, Type, TypeId, name, sqlstate};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock, OnceLock};

macro_rules! kinds {
    ($($module:ident;)*) => {
        $(pub mod $module;)*
        const KINDS: &[&Kind] = &[$(&$module::KIND,)* &composite::ROW_KIND];
        /// The constants of these kinds' functions.
        #[allow(unused_imports)] // some have none
        pub(crate) mod id {
            $(pub use super::$module::id::*;)*
        }
        pub(crate) const FUNCTIONS: &[&[FuncDef]] = &[$($module::DEFS),*];
        pub(crate) const OPERATORS: &[&[&[OperatorDef]]] = &[$($module::OPERATORS),*];
    };
}

kinds! {
    composite;
    domain;
    enumeration;
}

/// The OID of a type is its number in the dictionary and this: PostgreSQL's own are less.
const FIRST_OID: u32 = 16384;

/// The most definitions that a process can have seen, a changed type being another.
pub const MOST: usize = (ty::USER.end - ty::USER.start) as usize;

/// A type as a user has defined it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UserDef {
    /// Its number in the dictionary.
    pub number: u32,
    /// That of the arrays of it; 0 if there are none.
    pub array: u32,
    /// The number of its schema.
    pub schema: u32,
    pub name: String,
    /// The code of its kind.
    pub kind: &'static str,
    /// The type that it is made of.
    pub base: Option<Type>,
    pub not_null: bool,
    /// An SQL expression.
    pub default: Option<String>,
    /// In the order of their keys.
    pub parts: Vec<Part>,
    /// Those that are not to be used yet; nothing of it is stored.
    pub fresh: Option<Fresh>,
}

/// Parts that an open transaction has added, by their keys (enumeration/G3). It is equal to itself and its
/// clones alone, so that a definition with it is another than any of its kind.
#[derive(Clone, Debug)]
pub struct Fresh {
    pub keys: Vec<i64>,
    /// The transaction is open.
    pub open: Arc<AtomicBool>,
}

impl PartialEq for Fresh {
    fn eq(&self, other: &Fresh) -> bool {
        Arc::ptr_eq(&self.open, &other.open) && self.keys == other.keys
    }
}
impl Eq for Fresh {}
impl Hash for Fresh {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.keys.hash(state)
    }
}

/// A part of a definition; what it means depends on the kind.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    pub key: i64,
    pub name: String,
    pub text: Option<String>,
    pub ty: Option<Type>,
}

/// A kind of types.
pub struct Kind {
    /// How the dictionary names it.
    pub code: &'static str,
    pub shape: fn(&UserDef) -> Shape,
    pub items: Items,
    /// The statement that makes the type, given how it and the type that it is made of are named there.
    pub create: fn(&UserDef, &str, &str) -> String,
}

/// What arrays of a kind's types say of their items (array/A1).
#[derive(Clone, Copy)]
pub enum Items {
    /// This type, which stands for all of the kind.
    Alike(TypeId),
    /// What arrays of the type say that it is made of: they are such arrays. There are none if that has none.
    OfBase,
}

/// What the stages must know of a type, which its kind makes of a definition.
pub struct Shape {
    pub category: Category,
    pub class: Class,
    pub modifier: Modifier,
}

/// A definition with the descriptors made of it.
struct Known {
    user: &'static UserDef,
    item: TypeDef,
    array: Option<TypeDef>,
}

/// The table of all definitions: each stands at the first free place from the one that its hash says on (U2).
static TABLE: LazyLock<Vec<OnceLock<Known>>> =
    LazyLock::new(|| std::iter::repeat_with(OnceLock::new).take(MOST).collect());

/// The descriptor at a place of the table.
pub(crate) fn def_of(slot: u16, array: bool) -> Option<&'static TypeDef> {
    let known = TABLE.get(usize::from(slot))?.get()?;
    if array { known.array.as_ref() } else { Some(&known.item) }
}

/// The code of a kind as the dictionary names it; `None` for a kind that this program does not know.
pub fn kind_code(code: &str) -> Option<&'static str> {
    KINDS.iter().map(|k| k.code).find(|c| *c == code)
}

/// Types in the order of their numbers, but each behind those that it is made of.
pub fn in_order(mut all: Vec<&UserDef>) -> Vec<&UserDef> {
    fn put<'a>(user: &'a UserDef, all: &[&'a UserDef], out: &mut Vec<&'a UserDef>) {
        if out.iter().any(|o| o.is_same_type(user)) {
            return;
        }
        for inner in user.made_of().filter_map(|t| t.id.user()) {
            if let Some(listed) = all.iter().find(|o| o.is_same_type(inner)) {
                put(listed, all, out)
            }
        }
        out.push(user)
    }
    all.sort_by_key(|u| u.number);
    let mut out = Vec::with_capacity(all.len());
    all.iter().for_each(|u| put(u, &all, &mut out));
    out
}

impl UserDef {
    fn kind(&self) -> Option<&'static Kind> {
        KINDS.iter().find(|k| k.code == self.kind).copied()
    }

    pub(crate) fn items(&self) -> Items {
        self.kind().map_or(Items::OfBase, |k| k.items)
    }

    /// The statement that makes the type: `name` and `base` say how it and the type that it is made of are
    /// named there.
    pub fn create(&self, name: &str, base: &str) -> String {
        self.kind().map_or(String::new(), |k| (k.create)(self, name, base))
    }

    /// The types that it is made of.
    pub fn made_of(&self) -> impl Iterator<Item = Type> {
        self.base.into_iter().chain(self.parts.iter().filter_map(|p| p.ty))
    }

    /// Whether values of it have values of a type within them.
    pub fn is_made_of(&self, number: u32) -> bool {
        let mut inner = self.made_of().filter_map(|t| t.id.user());
        inner.any(|u| u.number == number || u.is_made_of(number))
    }

    /// How many types lie in each other, this one the outermost.
    pub fn depth(&self) -> usize {
        1 + self.made_of().filter_map(|t| t.id.user()).map(UserDef::depth).max().unwrap_or(0)
    }

    /// Whether both are the same type of one database, perhaps before and after a change.
    pub fn is_same_type(&self, other: &UserDef) -> bool {
        self.number == other.number
    }

    /// The type of the definition (U2).
    ///
    /// # Errors
    /// 54000 if the process has seen too many, 0A000 for a kind that is not known.
    pub fn type_id(&self) -> SqlResult<TypeId> {
        let kind = self.kind().ok_or_else(|| SqlError::unsupported(format_args!("a {} type", self.kind)))?;
        let mut hash = DefaultHasher::new();
        self.hash(&mut hash);
        let start = (hash.finish() % MOST as u64) as usize;
        for n in 0..MOST {
            let slot = (start + n) % MOST;
            let known = TABLE[slot].get_or_init(|| self.known(slot as u16, kind));
            if known.user == self {
                return Ok(known.item.id);
            }
        }
        let message = format!("more than {MOST} definitions of types since the program began");
        Err(SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message))
    }

    fn known(&self, slot: u16, kind: &Kind) -> Known {
        let user: &'static UserDef = Box::leak(Box::new(self.clone()));
        let shown: &'static str = String::leak(name::quote(&self.name));
        let oid = |n: u32| if n == 0 { 0 } else { FIRST_OID.saturating_add(n) };
        let has_arrays = match kind.items {
            // Items of arrays are not looked at as fields are.
            Items::Alike(_) => !self.has_domains(),
            Items::OfBase => self.base.is_some_and(|b| b.base().array().is_some()),
        };
        let oids = (oid(self.number), if has_arrays { oid(self.array) } else { 0 });
        let (item, array) = TypeDef::of_user(slot, oids, (&user.name, shown), (kind.shape)(user), user);
        Known { user, item, array }
    }
}
