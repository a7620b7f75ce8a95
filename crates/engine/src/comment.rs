//! Comments on what the dictionary has. No statement means anything else for them.
use crate::catalog::{Catalog, TableDef};
use crate::rebuild::Origin;
use crate::shared::SharedMap;
use std::sync::Arc;

/// What kind of thing a comment is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommentKind {
    /// A table, a view or an index.
    Relation,
    /// A column of a table or a view, by its name.
    Column,
    /// A constraint of a table, by its name.
    Constraint,
    Function,
    Type,
    /// A constraint of a domain, by its name.
    TypeConstraint,
    /// By [`schema_id`].
    Schema,
}

/// What stands for the number of a schema, which may be that of another object.
pub fn schema_id(number: u32) -> u32 {
    1 << 29 | number
}

impl CommentKind {
    pub const ALL: [CommentKind; 7] = [
        CommentKind::Relation,
        CommentKind::Column,
        CommentKind::Constraint,
        CommentKind::Function,
        CommentKind::Type,
        CommentKind::TypeConstraint,
        CommentKind::Schema,
    ];
    /// How the dictionary names it.
    pub fn code(self) -> &'static str {
        match self {
            CommentKind::Relation => "relation",
            CommentKind::Column => "column",
            CommentKind::Constraint => "constraint",
            CommentKind::Function => "function",
            CommentKind::Type => "type",
            CommentKind::TypeConstraint => "type constraint",
            CommentKind::Schema => "schema",
        }
    }
}

/// What a comment is on: the number of the object that it belongs to, and the name of a part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Commented {
    pub id: u32,
    pub kind: CommentKind,
    pub part: String,
}

impl Commented {
    pub fn whole(kind: CommentKind, id: u32) -> Commented {
        Commented { id, kind, part: String::new() }
    }
    pub fn part(kind: CommentKind, id: u32, part: &str) -> Commented {
        Commented { id, kind, part: part.to_string() }
    }
}

/// The comments of a dictionary.
pub type Comments = SharedMap<Commented, Arc<str>>;

impl Catalog {
    pub fn comment(&self, on: &Commented) -> Option<&str> {
        self.comments.get(on).map(|t| &**t)
    }
    /// The comments on an object and its parts.
    pub fn comments_on(&self, id: u32) -> Vec<(Commented, Arc<str>)> {
        // The first that there can be.
        let first = Commented::whole(CommentKind::Relation, id);
        let of_it = self.comments.from(&first).take_while(|(c, _)| c.id == id);
        of_it.map(|(c, t)| (c.clone(), t.clone())).collect()
    }
}

/// What the comments on a table and its parts are on once it is `now`.
pub(crate) fn followed(
    comments: Vec<(Commented, Arc<str>)>,
    was: &TableDef,
    now: &TableDef,
    origins: &[Origin],
) -> Vec<(Commented, Arc<str>)> {
    let column = |name: &str| {
        let place = was.column(name)?;
        now.columns.get(origins.iter().position(|o| o.was() == Some(place))?).map(|c| c.name.clone())
    };
    let constraint = |name: &str| {
        if let Some(i) = was.indexes.iter().find(|i| i.constraint && i.name == name) {
            return now.indexes.iter().find(|n| n.id == i.id).map(|n| n.name.clone());
        }
        if now.checks.iter().any(|c| c.name == name) {
            return Some(name.to_string());
        }
        // It has another name if one that was not there says the same.
        let old = was.checks.iter().find(|c| c.name == name)?;
        let is_new = |c: &&crate::catalog::CheckDef| !was.checks.iter().any(|o| o.name == c.name);
        now.checks.iter().filter(is_new).find(|c| c.text == old.text).map(|c| c.name.clone())
    };
    let follow = |(on, text): (Commented, Arc<str>)| {
        let part = match on.kind {
            CommentKind::Column => column(&on.part)?,
            CommentKind::Constraint => constraint(&on.part)?,
            _ => on.part.clone(),
        };
        Some((Commented { part, ..on }, text))
    };
    comments.into_iter().filter_map(follow).collect()
}
