//! Views: made, changed, dropped; and what becomes of them when what they rest on changes.
use super::{Catalog, Connection, claims, d, free_name, there_is_schema};
use crate::comment::CommentKind;
use crate::name::Name;
use crate::view::{Slot, ViewDef, renumbered, slots};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::sync::Arc;

fn missing(name: &Name) -> SqlError {
    SqlError::new(sqlstate::UNDEFINED_TABLE, format!("view \"{}\" does not exist", name.name))
}

fn depended_on(what: &str, view: &str) -> SqlError {
    let message = format!("cannot drop {what} because other objects depend on it");
    let error = SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message);
    error.detail(format!("view {view} depends on {what}"))
}

/// Who drops something has dropped the views over it before.
pub(super) fn refuse_views_over(c: &Catalog, relation: u32, what: &str) -> SqlResult<()> {
    c.views_over(relation).next().map_or(Ok(()), |v| Err(depended_on(what, &v.name)))
}

pub(super) fn refuse_views_of(c: &Catalog, slot: Slot, what: &str) -> SqlResult<()> {
    let names_it = |v: &&Arc<ViewDef>| slots(&v.query).contains(&slot);
    c.views.values().find(names_it).map_or(Ok(()), |v| Err(depended_on(what, &v.name)))
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
                def.id = db.next_object()?;
                d::add_view(&mut me.session, &db.dictionary, &def)?;
                me.draft().view(&Arc::new(def));
                Ok(())
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
                let mut comments = c.comments_on(def.id);
                for (on, _) in comments.iter_mut().filter(|(on, _)| on.kind == CommentKind::Column) {
                    if let Some(now) = old.column(&on.part).and_then(|n| def.columns.get(n)) {
                        on.part.clone_from(&now.name)
                    }
                }
                comments.sort();
                me.set_comments(c, def.id, &comments)?;
                d::add_view(&mut me.session, &db.dictionary, &def)?;
                let draft = me.draft();
                draft.drop_view(old);
                draft.view(&Arc::new(def));
                Ok(())
            },
        )
    }

    /// Removes a view over which there are no others.
    pub fn drop_view(&mut self, name: impl Into<Name>) -> SqlResult<()> {
        let name = &name.into();
        self.defining(
            |c| claims::drop_view(c, name),
            |me, c| {
                let view = c.view(name).ok_or_else(|| missing(name))?;
                refuse_views_over(c, view.id, &format!("view {}", view.name))?;
                let db = me.db.clone();
                d::remove_view(&mut me.session, &db.dictionary, view.id)?;
                me.drop_comments(c, [view.id])?;
                me.draft().drop_view(view);
                Ok(())
            },
        )
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
                return Err(depended_on("a column", &view.name));
            };
            if query == view.query {
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
