//! A draft: what a transaction has changed of the dictionary, until it commits.
//!
//! ```text
//! the newest dictionary, which others replace      \
//!                                                    the transaction's view
//! the draft: put and removed, object by object     /
//!                      | savepoint: the draft is kept | ROLLBACK TO: it is the one that was kept
//!                      | commit: it is put into the newest dictionary | rollback: it is forgotten
//! ```
//! - **D1** A draft names only what its transaction has claimed (definers/G1). So drafts of open transactions
//!   have nothing in common, and it does not matter in which order they are put into the dictionary.
//! - **D2** The transaction goes by the newest dictionary with its draft over it, in everything: also what
//!   others commit meanwhile is there at its next statement, as it is for transactions without a draft, and
//!   a statement that was planned before that is stale (connection/N1).
//! - **D3** Such a view has a version that no other dictionary ever has. So plans that are made of it are
//!   nobody else's, and of no use once the draft or what is below it is another.
//! - **D4** At its commit, once that is durable, the draft is put into the dictionary that is the newest
//!   then, which gets its version there. One does so at a time. What others have built on it is later in the
//!   log, since they saw it after that: whoever sees a definition sees all that it rests on. Where the wait
//!   fails with the log, the draft is put there all the same, as the rows are: nothing that is built on it
//!   can be acknowledged any more.
//! - **D5** Going back to a savepoint brings the draft back that was there, and gives the heaps made since up
//!   at the end of the transaction; they are no other's business.
use crate::catalog::{Catalog, FunctionDef, Relation};
use crate::comment::Commented;
use crate::connection::Connection;
use crate::name::{Name, SchemaDef, TEMPORARY};
use crate::sequence::Sequence;
use crate::table::Table;
use crate::temporary::OnCommit;
use crate::view::ViewDef;
use ondol_base::sim::mutated;
use ondol_types::TypeId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// `None`: it is removed.
#[derive(Clone, Default)]
pub(crate) struct Draft {
    schemas: BTreeMap<String, Option<SchemaDef>>,
    relations: BTreeMap<Name, Option<Relation>>,
    functions: BTreeMap<u32, Option<Arc<FunctionDef>>>,
    types: BTreeMap<Name, Option<TypeId>>,
    views: BTreeMap<u32, Option<Arc<ViewDef>>>,
    comments: BTreeMap<Commented, Option<Arc<str>>>,
    /// What is done to temporary tables when a transaction commits, by their numbers (temporary/E4).
    pub on_commit: BTreeMap<u32, OnCommit>,
}

impl Draft {
    /// What is the session's own, without what was removed of it; `None`: nothing (temporary/E1).
    pub fn temporary(&self) -> Option<Draft> {
        let own = self.relations.iter().filter(|(name, r)| name.schema == TEMPORARY && r.is_some());
        let relations: BTreeMap<_, _> = own.map(|(n, r)| (n.clone(), r.clone())).collect();
        let is_there = |id: &u32| self.temporary_tables().any(|t| t.def.id == *id);
        let on_commit = self.on_commit.iter().filter(|(id, _)| is_there(id)).map(|(i, a)| (*i, *a)).collect();
        (!relations.is_empty()).then(|| Draft { relations, on_commit, ..Draft::default() })
    }
    /// Whether it changes what others see.
    pub fn concerns_others(&self) -> bool {
        // Whoever adds a kind of object has to think of it here.
        let Draft { schemas, relations, functions, types, views, comments, on_commit: _ } = self;
        let none = schemas.is_empty()
            && functions.is_empty()
            && types.is_empty()
            && views.is_empty()
            && comments.is_empty();
        !none || relations.keys().any(|name| name.schema != TEMPORARY)
    }
    /// The session's own tables.
    pub fn temporary_tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        let own = self.relations.iter().filter(|(name, _)| name.schema == TEMPORARY);
        own.filter_map(|(_, r)| r.as_ref()?.table())
    }
    /// Puts what is not the session's own there.
    pub fn publish_into(&self, catalog: &mut Catalog) {
        let mut others = self.clone();
        others.relations.retain(|name, _| name.schema != TEMPORARY);
        others.put_into(catalog)
    }
    pub fn schema(&mut self, name: &str, schema: Option<SchemaDef>) {
        self.schemas.insert(name.to_string(), schema);
    }
    pub fn table(&mut self, name: &Name, table: Option<Arc<Table>>) {
        self.relations.insert(name.clone(), table.map(Relation::Table));
    }
    /// `of`: the index's table.
    pub fn index(&mut self, name: Name, of: Option<&Name>) {
        self.relations.insert(name, of.map(|of| Relation::Index { table: of.clone() }));
    }
    pub fn function(&mut self, id: u32, function: Option<Arc<FunctionDef>>) {
        self.functions.insert(id, function);
    }
    pub fn ty(&mut self, name: &Name, ty: Option<TypeId>) {
        self.types.insert(name.clone(), ty);
    }
    pub fn sequence(&mut self, name: &Name, sequence: Option<Arc<Sequence>>) {
        self.relations.insert(name.clone(), sequence.map(Relation::Sequence));
    }
    pub fn view(&mut self, view: &Arc<ViewDef>) {
        self.relations.insert(view.full_name(), Some(Relation::View(view.clone())));
        self.views.insert(view.id, Some(view.clone()));
    }
    pub fn drop_view(&mut self, view: &ViewDef) {
        self.relations.insert(view.full_name(), None);
        self.views.insert(view.id, None);
    }
    pub fn comment(&mut self, on: Commented, text: Option<Arc<str>>) {
        self.comments.insert(on, text);
    }
    pub fn put_into(&self, catalog: &mut Catalog) {
        fn put<K: Ord + Clone, V: Clone>(draft: &BTreeMap<K, Option<V>>, into: &mut BTreeMap<K, V>) {
            for (k, v) in draft {
                match v {
                    Some(v) => into.insert(k.clone(), v.clone()),
                    None => into.remove(k),
                };
            }
        }
        // Whoever adds a kind of object to the catalog has to think of it here.
        let Catalog { version: _, schemas, relations, functions, types, views, comments } = catalog;
        put(&self.schemas, schemas);
        put(&self.relations, relations);
        put(&self.functions, functions);
        put(&self.types, types);
        put(&self.views, views);
        put(&self.comments, comments);
    }
}

/// A dictionary with a draft over it.
pub(crate) struct View {
    /// The version of the dictionary below.
    pub base: u64,
    pub catalog: Arc<Catalog>,
}

impl Connection {
    /// The draft, to be changed.
    pub(crate) fn draft(&mut self) -> &mut Draft {
        self.defining = true;
        *self.view.get_mut() = None;
        Arc::make_mut(self.draft.get_or_insert_default())
    }
    pub(crate) fn set_draft(&mut self, draft: Option<Arc<Draft>>) {
        *self.view.get_mut() = None;
        self.draft = draft
    }
    /// The newest dictionary with the draft over it, and the version of what is below (D2, D3).
    #[cold]
    pub(crate) fn view_with(&self, draft: &Draft) -> (u64, Arc<Catalog>) {
        let mut view = self.view.borrow_mut();
        if let Some(v) = view.as_ref().filter(|v| self.is_newest(v)) {
            return (v.base, v.catalog.clone());
        }
        let below = self.db.catalog();
        let mut catalog = (*below).clone();
        draft.put_into(&mut catalog);
        catalog.version = self.db.next_version();
        let made = View { base: below.version, catalog: Arc::new(catalog) };
        let known = (made.base, made.catalog.clone());
        *view = Some(made);
        known
    }
    fn is_newest(&self, view: &View) -> bool {
        view.base == self.db.version() || mutated("draft_stands_still")
    }
    /// Whether the version is that of the view, and the view still what there is to see.
    #[cold]
    pub(crate) fn is_view_current(&self, version: u64) -> bool {
        self.view.borrow().as_ref().is_some_and(|v| v.catalog.version == version && self.is_newest(v))
    }
}
