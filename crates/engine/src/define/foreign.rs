//! Foreign keys as parts of definitions: both tables know of each.
//!
//! - **R1** A foreign key is in the definition of the table that has it. The table that it refers to has a
//!   list of those that do. Whoever changes a foreign key, or drops its table, changes the list with it: both
//!   tables are claimed and marked, so that nobody drops one, or its key, beside a new one of the other.
use super::Connection;
use crate::catalog::{Reference, TableDef};
use crate::connection::can_name;
use crate::table::Table;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Connection {
    /// Tells the tables that a table's foreign keys referred to, and those that they refer to (R1).
    pub(crate) fn relink(&mut self, old: &TableDef, new: Option<&TableDef>) -> SqlResult<()> {
        let now = new.map_or(&[][..], |d| &d.foreign);
        let tables: BTreeSet<u32> = old.foreign.iter().chain(now).map(|f| f.table).collect();
        for id in tables {
            // Dropped, it need not know.
            let Some(parent) = self.catalog().table_by_id(id).cloned() else { continue };
            let mut list: Vec<Reference> =
                parent.references.iter().filter(|r| r.table != old.id).cloned().collect();
            list.extend(new.iter().flat_map(|d| {
                let named = d.foreign.iter().filter(|f| f.table == id);
                named.map(|f| Reference { table: d.id, name: d.full_name(), key: f.clone() })
            }));
            list.sort_by_key(|r| r.key.id);
            let plain = |l: &[Reference]| l.iter().map(|r| (r.table, r.key.clone())).collect::<Vec<_>>();
            if plain(&list) == plain(&parent.references) {
                continue;
            }
            self.mark_table(&parent, "ALTER TABLE")?;
            let told = parent.with_references(&self.db.kernel, list.into());
            self.draft().table(&parent.def.full_name(), Some(told))
        }
        Ok(())
    }

    /// Looks at the rows by foreign keys that are new, or whose columns have another type.
    pub(super) fn look_at_keys(&mut self, old: &TableDef, new: &Arc<Table>) -> SqlResult<()> {
        let types = |d: &TableDef, columns: &[usize]| -> Vec<_> {
            columns.iter().map(|c| d.columns.get(*c).map(|c| (c.name.clone(), c.ty))).collect()
        };
        for key in new.def.foreign.iter().filter(|k| k.validated) {
            let same = |k: &&crate::catalog::ForeignDef| {
                k.validated && k.name == key.name && k.table == key.table && k.index == key.index
            };
            let was = old.foreign.iter().find(same);
            if was.is_some_and(|k| types(old, &k.columns) == types(&new.def, &key.columns)) {
                continue;
            }
            self.hold_to_key(new, key)?
        }
        let references: Vec<Reference> = new.references.to_vec();
        for r in references.iter().filter(|r| r.table != new.def.id) {
            let index = |d: &TableDef| d.indexes.iter().find(|i| i.id == r.key.index).cloned();
            let (Some(before), Some(after)) = (index(old), index(&new.def)) else { continue };
            let of = |d: &TableDef, i: &crate::catalog::IndexDef| {
                i.columns.iter().map(|c| d.columns[c.column].ty).collect::<Vec<_>>()
            };
            if of(old, &before) == of(&new.def, &after) {
                continue;
            }
            let Some(child) = self.catalog().table_of(r.table, &r.name).cloned() else { continue };
            self.mark_table(&child, "ALTER TABLE")?;
            for (column, part) in r.key.columns.iter().zip(&r.key.parts) {
                let (c, p) = (&child.def.columns[*column], &new.def.columns[after.columns[*part].column]);
                if !can_name(c.ty.id, p.ty.id) {
                    return Err(incompatible(&r.key.name, (&c.name, c.ty), (&p.name, p.ty)));
                }
            }
            if r.key.validated {
                self.hold_to_key(&child, &r.key)?
            }
        }
        Ok(())
    }
}

/// The error of a foreign key whose column cannot be compared with the one that it names.
pub fn incompatible(name: &str, from: (&str, ondol_types::Type), to: (&str, ondol_types::Type)) -> SqlError {
    let message = format!("foreign key constraint \"{name}\" cannot be implemented");
    let plain = |t: ondol_types::Type| t.id.name();
    SqlError::new(sqlstate::DATATYPE_MISMATCH, message).detail(format!(
        "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
        from.0,
        to.0,
        plain(from.1),
        plain(to.1)
    ))
}
