//! LIKE in CREATE TABLE: columns as those of a table or a view, and what else of a table is asked for.
use super::Binder;
use super::index::Part;
use super::tree::{at, refuse_at};
use crate::bound::NewIndex;
use crate::parse::tree;
use ondol_engine::{CheckDef, ColumnDef, CommentKind, Commented, IndexColumn, Relation};
use ondol_types::{SqlError, SqlResult, sqlstate};

/// What INCLUDING says, bit by bit.
const COMMENTS: u32 = 1;
const CONSTRAINTS: u32 = 1 << 2;
const DEFAULTS: u32 = 1 << 3;
const GENERATED: u32 = 1 << 4;
const IDENTITY: u32 = 1 << 5;
const INDEXES: u32 = 1 << 6;

/// What a table gets of another.
pub(super) struct Like {
    pub columns: Vec<ColumnDef>,
    pub checks: Vec<CheckDef>,
    /// Without names: they are chosen as those of new ones; each with the parts that its columns are of.
    pub indexes: Vec<(NewIndex, Vec<Part>)>,
    /// On its columns and checks, by their names.
    pub comments: Vec<(CommentKind, String, String)>,
}

impl Binder<'_> {
    /// What LIKE stands for where so many columns stand before it.
    pub(super) fn like(&mut self, l: &tree::TableLikeClause, before: usize) -> SqlResult<Like> {
        let relation = self.relation_name(&l.relation)?;
        let has = |option: u32| l.options & option != 0;
        let name = &relation.relname;
        let found = self.relation_of(relation);
        if let Some((_, Relation::View(view))) = &found {
            let bare = |c: &ColumnDef| ColumnDef {
                domain: c.domain,
                collation: c.collation.clone(),
                ..ColumnDef::new(c.name.clone(), c.ty)
            };
            let columns = view.columns.iter().map(bare).collect();
            let comments = match has(COMMENTS) {
                true => self.comments_like(view.id, false),
                false => Vec::new(),
            };
            return Ok(Like { columns, checks: Vec::new(), indexes: Vec::new(), comments });
        }
        if let Some((_, Relation::Index { .. })) = &found {
            let message = format!("relation \"{name}\" is invalid in LIKE clause");
            let error = SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message);
            return Err(at(error, relation.location).detail("This operation is not supported for indexes."));
        }
        let table = self.any_table(relation)?;
        let def = &table.def;
        refuse_at(
            has(IDENTITY) && def.shown().iter().any(|c| c.identity().is_some()),
            "LIKE ... INCLUDING IDENTITY",
            relation.location,
        )?;
        let column = |c: &ColumnDef| ColumnDef {
            default: c.default.clone().filter(|_| has(DEFAULTS)),
            packed: true,
            generated: c.generated.clone().filter(|_| has(GENERATED) && c.identity().is_none()),
            owns: Vec::new(),
            ..c.clone()
        };
        let index = |i: &ondol_engine::IndexDef| {
            let part = |c: &IndexColumn| {
                let column = &def.columns[c.column];
                match column.computed().filter(|_| column.is_hidden()) {
                    Some(text) => {
                        let data = super::index::versions_of_hidden(self.catalog, def, column);
                        Part::Hidden(column.name.clone(), text.to_string(), column.ty, data)
                    }
                    None => Part::Column(c.column + before),
                }
            };
            let mut options = i.options.clone();
            options.include.iter_mut().for_each(|c| *c += before);
            let index = NewIndex {
                name: None,
                kind: i.kind,
                unique: i.unique,
                primary: i.primary,
                constraint: i.constraint,
                columns: i.columns.clone(),
                options,
            };
            (index, i.columns.iter().map(part).collect())
        };
        let on_index = |i: &ondol_engine::IndexDef| {
            let whole = Commented::whole(CommentKind::Relation, i.id);
            let constraint = Commented::part(CommentKind::Constraint, def.id, &i.name);
            self.catalog.comment(&whole).or(self.catalog.comment(&constraint)).is_some()
        };
        refuse_at(
            has(COMMENTS) && has(INDEXES) && def.indexes.iter().any(on_index),
            "LIKE ... INCLUDING COMMENTS of a table with comments on its indexes",
            relation.location,
        )?;
        let comments = match has(COMMENTS) {
            true => self.comments_like(def.id, has(CONSTRAINTS)),
            false => Vec::new(),
        };
        // A new table has no rows that its checks could be false of.
        let check = |c: &CheckDef| CheckDef { validated: true, ..c.clone() };
        Ok(Like {
            columns: def.shown().iter().map(column).collect(),
            checks: def.checks.iter().filter(|c| has(CONSTRAINTS) && !c.no_inherit).map(check).collect(),
            indexes: def.indexes.iter().filter(|_| has(INDEXES)).map(index).collect(),
            comments,
        })
    }

    /// The comments on the columns of a relation, and on its checks.
    fn comments_like(&self, id: u32, checks: bool) -> Vec<(CommentKind, String, String)> {
        let is_wanted = |k: CommentKind| k == CommentKind::Column || checks && k == CommentKind::Constraint;
        let all = self.catalog.comments_on(id).into_iter().filter(|(on, _)| is_wanted(on.kind));
        all.map(|(on, text)| (on.kind, on.part, text.to_string())).collect()
    }
}
