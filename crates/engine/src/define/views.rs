//! Views: made, changed, dropped; and what becomes of them when what they rest on changes.
use super::{Catalog, Connection, claims, d, free_name, there_is_schema};
use crate::catalog::Material;
use crate::comment::{CommentKind, Commented};
use crate::name::Name;
use crate::rights::RightsOf;
use crate::table::Table;
use crate::view::{Slot, ViewDef, renumbered, slots};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::sync::Arc;

fn missing(name: &Name) -> SqlError {
    SqlError::new(sqlstate::UNDEFINED_TABLE, format!("view \"{}\" does not exist", name.name))
}

fn depended_on(c: &Catalog, what: &str, view: &ViewDef) -> SqlError {
    let message = format!("cannot drop {what} because other objects depend on it");
    let error = SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message);
    let kind = if c.materials.contains_key(&view.id) { "materialized view" } else { "view" };
    error.detail(format!("{kind} {} depends on {what}", view.name))
}

/// Who drops something has dropped the views over it before.
pub(super) fn refuse_views_over(c: &Catalog, relation: u32, what: &str) -> SqlResult<()> {
    c.views_over(relation).next().map_or(Ok(()), |v| Err(depended_on(c, what, v)))
}

pub(super) fn refuse_views_of(c: &Catalog, slot: Slot, what: &str) -> SqlResult<()> {
    let names_it = |v: &&Arc<ViewDef>| slots(&v.query).contains(&slot);
    c.queries().find(names_it).map_or(Ok(()), |v| Err(depended_on(c, what, v)))
}

impl Connection {
    /// Adds a view; its number is given here.
    pub fn create_view(&mut self, mut def: ViewDef) -> SqlResult<()> {
        let (name, query) = (def.full_name(), def.query.clone());
        self.defining(
            |c| claims::create_view(c, &name, &query),
            |me, c| {
                there_is_schema(c, name.schema)?;
                free_name(c, &name)?;
                let db = me.db.clone();
                def.id = db.next_object_in(name.schema)?;
                d::add_view(&mut me.session, &db.dictionary, &def)?;
                let id = def.id;
                me.draft().view(&Arc::new(def));
                me.own(c, RightsOf::View, name.schema, id)
            },
        )
    }

    /// Puts another definition of the same number into a view's place, perhaps under another name. Its
    /// columns are where they were; there may be more behind them.
    pub fn replace_view(&mut self, name: impl Into<Name>, def: ViewDef) -> SqlResult<()> {
        let (name, wanted) = (&name.into(), def.clone());
        self.defining(
            |c| claims::replace_view(c, name, &wanted),
            |me, c| {
                let old = c.view(name).ok_or_else(|| missing(name))?;
                let now = def.full_name();
                if now != *name {
                    there_is_schema(c, now.schema)?;
                    free_name(c, &now)?;
                }
                let db = me.db.clone();
                d::remove_view(&mut me.session, &db.dictionary, old.id)?;
                let def = ViewDef { id: old.id, ..def };
                let followed = |mut all: Vec<(Commented, Arc<str>)>| {
                    for (on, _) in all.iter_mut().filter(|(on, _)| on.kind == CommentKind::Column) {
                        if let Some(now) = old.column(&on.part).and_then(|n| def.columns.get(n)) {
                            on.part.clone_from(&now.name)
                        }
                    }
                    all.sort();
                    all
                };
                me.set_comments(c, def.id, &followed(c.comments_on(def.id)))?;
                me.follow_rights(c, def.id, followed)?;
                d::add_view(&mut me.session, &db.dictionary, &def)?;
                let draft = me.draft();
                draft.drop_view(old);
                draft.view(&Arc::new(def));
                Ok(())
            },
        )
    }

    /// Removes a view, or a materialised view, over which there are no others.
    pub fn drop_view(&mut self, name: impl Into<Name>) -> SqlResult<()> {
        let name = &name.into();
        if self.catalog().table(name).is_some_and(|t| t.def.is_material()) {
            return self.drop_table(name);
        }
        self.defining(
            |c| claims::drop_view(c, name),
            |me, c| {
                let view = c.view(name).ok_or_else(|| missing(name))?;
                refuse_views_over(c, view.id, &format!("view {}", view.name))?;
                me.refuse_rested(view.id, &format!("view {}", view.name))?;
                let db = me.db.clone();
                d::remove_view(&mut me.session, &db.dictionary, view.id)?;
                me.drop_comments(c, [view.id])?;
                me.drop_rights(c, view.id)?;
                me.draft().drop_view(view);
                Ok(())
            },
        )
    }

    /// Says whether a materialised view is to be read.
    pub fn set_populated(&mut self, name: &Name, populated: bool) -> SqlResult<()> {
        self.defining(
            |c| claims::change_table(c, name),
            |me, c| {
                let table = c.table(name).ok_or_else(|| missing(name))?;
                match &table.def.nature.material {
                    Some(m) if m.populated != populated => {
                        let query = m.query.clone();
                        me.put_material(table, Material { query, populated })
                    }
                    _ => Ok(()),
                }
            },
        )
    }

    /// The rows of a materialised view are where they are.
    fn put_material(&mut self, old: &Arc<Table>, material: Material) -> SqlResult<()> {
        let db = self.db.clone();
        let mut def = old.def.clone();
        def.nature.material = Some(material);
        d::put_material(&mut self.session, &db.dictionary, &def)?;
        let new = Table::new(&db.kernel, def, old.heaps, old.indexes.clone(), Some(old));
        self.draft().table(&old.def.full_name(), Some(new));
        Ok(())
    }

    /// Columns of a relation have other numbers: the views over it name them by these (view/V2).
    pub(super) fn follow_columns(
        &mut self,
        c: &Catalog,
        relation: u32,
        number: &dyn Fn(u32) -> Option<u32>,
    ) -> SqlResult<()> {
        for view in c.views_over(relation) {
            let Some(query) = renumbered(&view.query, relation, number) else {
                return Err(depended_on(c, "a column", view));
            };
            if query == view.query {
                continue;
            }
            if let Some(table) = c.materials.get(&view.id).and_then(|v| c.table(v.full_name())) {
                let populated = !table.def.is_unpopulated();
                self.put_material(table, Material { query, populated })?;
                continue;
            }
            let db = self.db.clone();
            let def = ViewDef { query, ..(**view).clone() };
            d::remove_view(&mut self.session, &db.dictionary, def.id)?;
            d::add_view(&mut self.session, &db.dictionary, &def)?;
            self.draft().view(&Arc::new(def));
        }
        Ok(())
    }
}
