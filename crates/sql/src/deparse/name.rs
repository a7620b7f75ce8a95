//! What relations and columns are called in a text.
use super::Scribe;
use crate::bind::written::WrittenRel;
use crate::bound::{CTID, Query, Rel};
use ondol_engine::Name;
use ondol_engine::view::{Slot, own_name, stored_name};
use ondol_types::name::quote;
use ondol_types::user::composite;
use ondol_types::{Type, TypeId};
use std::collections::BTreeSet;

/// A relation that has a number.
pub(super) struct Known<'q> {
    pub id: u32,
    pub schema: u32,
    pub name: &'q str,
    pub columns: Vec<&'q str>,
}

impl<'q> Scribe<'q> {
    /// A name of the text's own.
    pub(super) fn name(&self, name: &str) -> String {
        if self.is_stored() { stored_name(name) } else { quote(name) }
    }

    /// The table or view that a relation is.
    pub(super) fn known(&self, query: &'q Query, rel: usize) -> Option<Known<'q>> {
        if let Some(Rel::Table(t)) = query.rels.get(rel).map(|r| &r.rel) {
            let columns = t.def.shown().iter().map(|c| c.name.as_str()).collect();
            return Some(Known { id: t.def.id, schema: t.def.schema, name: &t.def.name, columns });
        }
        let view = self.catalog.view_by_id(written(query, rel)?.view?)?;
        let columns = view.columns.iter().map(|c| c.name.as_str()).collect();
        Some(Known { id: view.id, schema: view.schema, name: &view.name, columns })
    }

    /// Chooses what the relations of a query are called: no name is one of a query around.
    pub(super) fn choose_names(&mut self, query: &'q Query) -> Vec<String> {
        let mut own = BTreeSet::new();
        let mut names = Vec::with_capacity(query.rels.len());
        for (n, entry) in query.rels.iter().enumerate() {
            let has_alias = written(query, n).is_some_and(|w| w.alias);
            let known = self.known(query, n);
            if known.is_some() && !has_alias && self.is_stored() {
                names.push(own_name(self.own_names));
                self.own_names += 1;
                continue;
            }
            let wanted = match &known {
                Some(k) if !has_alias => k.name,
                _ => entry.alias.as_str(),
            };
            if wanted.is_empty() || matches!(entry.rel, Rel::Places { .. }) {
                names.push(String::new());
                continue;
            }
            let taken = |name: &str| own.contains(name) || self.used.iter().any(|u| u.contains(name));
            let mut name = wanted.to_string();
            let mut count = 0;
            while taken(&name) {
                count += 1;
                name = format!("{wanted}_{count}")
            }
            names.push(self.name(&name));
            own.insert(name);
        }
        self.used.push(own);
        names
    }

    /// The name of a column of a relation, without the relation's.
    pub(super) fn column_name(&self, query: &'q Query, rel: usize, column: usize) -> String {
        if column == usize::from(CTID) {
            return "ctid".to_string();
        }
        let own = query.rels.get(rel).and_then(|r| r.columns.get(column)).map_or("", |c| c.0.as_str());
        match self.known(query, rel) {
            Some(k) => match self.is_stored() {
                true => Slot::Column { relation: k.id, column: column as u32 }.to_string(),
                false => quote(k.columns.get(column).copied().unwrap_or(own)),
            },
            None => self.name(own),
        }
    }

    /// The name of a registered query.
    pub(super) fn function_name(&self, id: u32, name: &str) -> String {
        if self.is_stored() {
            return Slot::Function(id).to_string();
        }
        let found = self.catalog.find_functions(self.path, name);
        match self.catalog.functions.get(&id) {
            Some(f) if !found.iter().any(|o| o.id == id) => {
                self.catalog.qualified(&Name::new(f.schema, &*f.name))
            }
            _ => quote(name),
        }
    }

    pub(super) fn type_name(&self, ty: Type) -> String {
        let user = |id: TypeId| id.user().filter(|_| self.is_stored());
        // That of a relation's rows goes by the relation's name.
        let rows =
            user(ty.id).filter(|u| u.kind == composite::ROW).and_then(|u| composite::table_of(u.number));
        match user(ty.id) {
            Some(_) if let Some((table, _)) = rows => {
                let array = if ty.id.is_array() { "[]" } else { "" };
                format!("{}{array}", Slot::Relation(table))
            }
            Some(u) if ty.id.is_array() => format!("{}[]", Slot::Type(u.number)),
            Some(u) => Slot::Type(u.number).to_string(),
            None => self.catalog.shown_type(self.path, ty),
        }
    }
}

/// How a relation was written.
pub(super) fn written(query: &Query, rel: usize) -> Option<&WrittenRel> {
    query.written.as_ref()?.rels.get(&(rel as u16))
}
