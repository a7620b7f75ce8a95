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
//! - **D6** A change of the draft is made to the dictionary that the draft was last laid over as well, so
//!   that a transaction of many definitions lays its whole draft over only when others have published.
use crate::catalog::{Catalog, FunctionDef, Relation};
use crate::comment::Commented;
use crate::connection::Connection;
use crate::name::{Name, SchemaDef, TEMPORARY};
use crate::relations::Relations;
use crate::rights::ObjectRights;
use crate::role::RoleDef;
use crate::sequence::Sequence;
use crate::settings::{Scope, ScopeSettings};
use crate::shared::SharedMap;
use crate::table::Table;
use crate::temporary::{OnCommit, is_temporary};
use crate::view::{Slot, ViewDef, slots};
use ondol_base::sim::mutated;
use ondol_types::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// `None`: it is removed.
#[derive(Clone, Default)]
pub(crate) struct Draft {
    schemas: SharedMap<String, Option<SchemaDef>>,
    relations: SharedMap<Name, Option<Relation>>,
    functions: SharedMap<u32, Option<Arc<FunctionDef>>>,
    types: SharedMap<Name, Option<TypeId>>,
    views: SharedMap<u32, Option<Arc<ViewDef>>>,
    materials: SharedMap<u32, Option<Arc<ViewDef>>>,
    comments: SharedMap<Commented, Option<Arc<str>>>,
    roles: SharedMap<u32, Option<Arc<RoleDef>>>,
    rights: SharedMap<u32, Option<Arc<ObjectRights>>>,
    settings: SharedMap<Scope, Option<Arc<ScopeSettings>>>,
    /// The dictionary with all this over it (D6). Its own version is that of no dictionary that is seen.
    laid: Option<View>,
    /// What is done to temporary tables when a transaction commits, by their numbers (temporary/E4).
    pub on_commit: BTreeMap<u32, OnCommit>,
}

impl Draft {
    /// What is the session's own, without what was removed of it; `None`: nothing (temporary/E1).
    pub fn temporary(&self) -> Option<Draft> {
        let relations: SharedMap<_, _> =
            self.own().filter(|(_, r)| r.is_some()).map(|(n, r)| (n.clone(), r.clone())).collect();
        let is_empty = relations.is_empty();
        let is_there = |id: &u32| self.temporary_tables().any(|t| t.def.id == *id);
        let on_commit = self.on_commit.iter().filter(|(id, _)| is_there(id)).map(|(i, a)| (*i, *a)).collect();
        let own = self.views.iter().filter(|(id, v)| is_temporary(**id) && v.is_some());
        let views = own.map(|(id, v)| (*id, v.clone())).collect();
        let own = self.comments.iter().filter(|(on, text)| is_temporary(on.id) && text.is_some());
        let comments = own.map(|(on, text)| (on.clone(), text.clone())).collect();
        let own = self.rights.iter().filter(|(id, r)| is_temporary(**id) && r.is_some());
        let rights = own.map(|(id, r)| (*id, r.clone())).collect();
        let whole = || Draft { relations, views, comments, rights, on_commit, ..Draft::default() };
        (!is_empty).then(whole)
    }
    /// The numbers of what others know and the session's own views rest on (temporary/E7).
    pub fn rested_on(&self) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        for view in self.views.values().flatten().filter(|v| is_temporary(v.id)) {
            let named = slots(&view.query).into_iter().map(|s| match s {
                Slot::Relation(n) | Slot::Function(n) | Slot::Type(n) => n,
                Slot::Column { relation, .. } => relation,
            });
            found.extend(named);
            found.extend(view.columns.iter().filter_map(|c| c.ty.id.user()).map(|u| u.number))
        }
        found.retain(|id| !is_temporary(*id));
        found
    }
    /// What is said of temporary relations.
    fn own(&self) -> impl Iterator<Item = (&Name, &Option<Relation>)> {
        self.relations.from(&Name::new(TEMPORARY, "")).take_while(|(name, _)| name.schema == TEMPORARY)
    }
    /// Whether it changes what others see.
    pub fn concerns_others(&self) -> bool {
        // Whoever adds a kind of object has to think of it here.
        let Draft { schemas, relations, functions, types, views, comments, roles, rights, .. } = self;
        let Draft { settings, .. } = self;
        // A materialised view is among the relations.
        let Draft { materials: _, on_commit: _, laid: _, .. } = self;
        let none = schemas.is_empty()
            && functions.is_empty()
            && types.is_empty()
            && roles.is_empty()
            && settings.is_empty()
            && rights.keys().all(|id| is_temporary(*id))
            && views.keys().all(|id| is_temporary(*id))
            && comments.keys().all(|on| is_temporary(on.id));
        !none || relations.keys().any(|name| name.schema != TEMPORARY)
    }
    /// The session's own tables.
    pub fn temporary_tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.own().filter_map(|(_, r)| r.as_ref()?.table())
    }
    /// Puts what is not the session's own there.
    pub fn publish_into(&self, catalog: &mut Catalog) {
        self.put(catalog, false)
    }
    /// The dictionary that it was last laid over, to be changed with it (D6).
    fn laid(&mut self) -> Option<&mut Catalog> {
        self.laid.as_mut().map(|l| Arc::make_mut(&mut l.catalog))
    }
    pub fn schema(&mut self, name: &str, schema: Option<SchemaDef>) {
        if let Some(c) = self.laid() {
            put(&mut c.schemas, &name.to_string(), &schema)
        }
        self.schemas.insert(name.to_string(), schema);
    }
    fn relation(&mut self, name: Name, relation: Option<Relation>) {
        if let Some(c) = self.laid() {
            put_relation(&mut c.relations, &name, &relation)
        }
        self.relations.insert(name, relation);
    }
    pub fn table(&mut self, name: &Name, table: Option<Arc<Table>>) {
        if let Some(shown) = table.as_ref().and_then(|t| ViewDef::of_material(&t.def)) {
            self.material(shown.id, Some(Arc::new(shown)))
        }
        self.relation(name.clone(), table.map(Relation::Table))
    }
    /// `of`: the index's table.
    pub fn index(&mut self, name: Name, of: Option<&Name>) {
        self.relation(name, of.map(|of| Relation::Index { table: of.clone() }))
    }
    pub fn function(&mut self, id: u32, function: Option<Arc<FunctionDef>>) {
        if let Some(c) = self.laid() {
            put(&mut c.functions, &id, &function)
        }
        self.functions.insert(id, function);
    }
    pub fn ty(&mut self, name: &Name, ty: Option<TypeId>) {
        if let Some(c) = self.laid() {
            put(&mut c.types, name, &ty)
        }
        self.types.insert(name.clone(), ty);
    }
    pub fn sequence(&mut self, name: &Name, sequence: Option<Arc<Sequence>>) {
        self.relation(name.clone(), sequence.map(Relation::Sequence))
    }
    fn view_of(&mut self, id: u32, view: Option<Arc<ViewDef>>) {
        if let Some(c) = self.laid() {
            put(&mut c.views, &id, &view)
        }
        self.views.insert(id, view);
    }
    pub fn view(&mut self, view: &Arc<ViewDef>) {
        self.relation(view.full_name(), Some(Relation::View(view.clone())));
        self.view_of(view.id, Some(view.clone()))
    }
    pub fn drop_view(&mut self, view: &ViewDef) {
        self.relation(view.full_name(), None);
        self.view_of(view.id, None)
    }
    /// Of the table that is dropped.
    pub fn drop_material(&mut self, id: u32) {
        self.material(id, None)
    }
    fn material(&mut self, id: u32, shown: Option<Arc<ViewDef>>) {
        if let Some(c) = self.laid() {
            put(&mut c.materials, &id, &shown)
        }
        self.materials.insert(id, shown);
    }
    pub fn comment(&mut self, on: Commented, text: Option<Arc<str>>) {
        if let Some(c) = self.laid() {
            put(&mut c.comments, &on, &text)
        }
        self.comments.insert(on, text);
    }
    pub fn role(&mut self, id: u32, role: Option<Arc<RoleDef>>) {
        if let Some(c) = self.laid() {
            put(&mut c.roles, &id, &role)
        }
        self.roles.insert(id, role);
    }
    pub fn rights(&mut self, id: u32, rights: Option<Arc<ObjectRights>>) {
        if let Some(c) = self.laid() {
            put(&mut c.rights, &id, &rights)
        }
        self.rights.insert(id, rights);
    }
    pub fn settings(&mut self, scope: Scope, settings: Option<Arc<ScopeSettings>>) {
        if let Some(c) = self.laid() {
            put(&mut c.settings, &scope, &settings)
        }
        self.settings.insert(scope, settings);
    }
    pub fn put_into(&self, catalog: &mut Catalog) {
        self.put(catalog, true)
    }
    /// `own`: with what is the session's own.
    fn put(&self, catalog: &mut Catalog, own: bool) {
        fn all<K: Ord + Clone, V: Clone>(draft: &SharedMap<K, Option<V>>, into: &mut SharedMap<K, V>) {
            draft.iter().for_each(|(k, v)| put(into, k, v))
        }
        // Whoever adds a kind of object to the catalog has to think of it here, and of a method above.
        let Catalog { version: _, schemas, relations, functions, types, views, .. } = catalog;
        let Catalog { materials, comments, roles, rights, settings, data: _, .. } = catalog;
        all(&self.schemas, schemas);
        let wanted = self.relations.iter().filter(|(name, _)| own || name.schema != TEMPORARY);
        wanted.for_each(|(name, r)| put_relation(relations, name, r));
        all(&self.functions, functions);
        all(&self.types, types);
        let wanted = self.views.iter().filter(|(id, _)| own || !is_temporary(**id));
        wanted.for_each(|(id, v)| put(views, id, v));
        all(&self.materials, materials);
        let wanted = self.comments.iter().filter(|(on, _)| own || !is_temporary(on.id));
        wanted.for_each(|(on, text)| put(comments, on, text));
        all(&self.roles, roles);
        all(&self.settings, settings);
        let wanted = self.rights.iter().filter(|(id, _)| own || !is_temporary(**id));
        wanted.for_each(|(id, r)| put(rights, id, r));
    }
}

fn put<K: Ord + Clone, V: Clone>(into: &mut SharedMap<K, V>, key: &K, value: &Option<V>) {
    match value {
        Some(v) => into.insert(key.clone(), v.clone()),
        None => into.remove(key),
    };
}
fn put_relation(into: &mut Relations, name: &Name, relation: &Option<Relation>) {
    match relation {
        Some(r) => into.insert(name.clone(), r.clone()),
        None => into.remove(name),
    };
}

/// A dictionary with a draft over it.
#[derive(Clone)]
pub(crate) struct View {
    /// The version of the dictionary below.
    pub base: u64,
    pub catalog: Arc<Catalog>,
}

impl Connection {
    /// The draft, to be changed.
    pub(crate) fn draft(&mut self) -> &mut Draft {
        self.defining = true;
        let view = self.view.get_mut().take();
        let draft = Arc::make_mut(self.draft.get_or_insert_default());
        // What was seen is what the draft says so far.
        let laid = view.or_else(|| draft.laid.take());
        draft.laid = laid;
        draft
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
        let (base, mut catalog) = match draft.laid.as_ref().filter(|v| self.is_newest(v)) {
            Some(laid) => (laid.base, (*laid.catalog).clone()),
            None => {
                let below = self.db.catalog();
                let mut catalog = (*below).clone();
                draft.put_into(&mut catalog);
                (below.version, catalog)
            }
        };
        catalog.version = self.db.next_version();
        let made = View { base, catalog: Arc::new(catalog) };
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
