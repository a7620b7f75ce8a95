//! Foreign keys as data definition: added, dropped with what they rest on, and in the way of what is dropped.
use crate::session::Session;
use crate::session::define::no_table;
use ondol_engine::{Catalog, CheckDef, ForeignDef, Name, Origin, Reference, TableDef, claims};
use ondol_sql::bind::foreign::resolve;
use ondol_sql::bound::{Dropped, GoneKey, NewForeign};
use ondol_types::{SqlError, SqlResult, sqlstate};

/// A foreign key by its name, and the table that has it.
type OfTable = (String, Name);

/// The columns stay what they are.
fn as_they_are(def: &TableDef) -> Vec<Origin> {
    (0..def.columns.len()).map(Origin::Column).collect()
}

impl Session {
    /// FOREIGN KEY constraints of a table that is there.
    pub(crate) fn add_foreign_keys(&mut self, table: &Name, keys: &[NewForeign]) -> SqlResult<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let names = || [table].into_iter().chain(keys.iter().map(|k| &k.table));
        let catalog = self
            .connection
            .claim(|c: &Catalog| names().flat_map(|n| claims::change_table(c, n)).collect())?;
        let child = catalog.table(table).ok_or_else(|| no_table(table))?;
        let mut def = child.def.clone();
        for key in keys {
            def.foreign.push(resolve(&catalog, &def, key)?)
        }
        self.connection.add_foreign_keys(table, &def.foreign[child.def.foreign.len()..])
    }

    /// VALIDATE CONSTRAINT: the foreign keys and checks that rows hold by `def`, and were not known to.
    pub(crate) fn validate_constraints(
        &mut self,
        table: &Name,
        was: &TableDef,
        def: &TableDef,
    ) -> SqlResult<()> {
        let known = |f: &ForeignDef| was.foreign.iter().any(|w| w.id == f.id && w.validated);
        let keys = def.foreign.iter().filter(|f| f.validated && !known(f)).map(|f| f.name.clone());
        let known = |c: &CheckDef| was.checks.iter().any(|w| w.name == c.name && w.validated);
        let checks = def.checks.iter().filter(|c| c.validated && !known(c)).map(|c| c.name.clone());
        let (keys, checks): (Vec<_>, Vec<_>) = (keys.collect(), checks.collect());
        self.hold_to_checks(def, &checks)?;
        self.connection.validate(table, &keys, &checks)
    }

    /// The foreign keys that refer to a table, of those that `which` holds of.
    fn keys_on(&self, table: &Name, which: impl Fn(&Reference) -> bool) -> Vec<OfTable> {
        let catalog = self.connection.catalog();
        let Some(table) = catalog.table(table) else { return Vec::new() };
        let named =
            |r: &Reference| Some((r.key.name.clone(), catalog.table_of(r.table, &r.name)?.def.full_name()));
        table.references.iter().filter(|r| which(r)).filter_map(named).collect()
    }

    fn drop_key(&mut self, key: &str, table: &Name) -> SqlResult<()> {
        let catalog = self.connection.claim(|c| claims::change_table(c, table))?;
        let Some(child) = catalog.table(table) else { return Ok(()) };
        let mut def = child.def.clone();
        def.foreign.retain(|f| f.name != key);
        match def == child.def {
            // Another transaction has done so meanwhile.
            true => Ok(()),
            false => self.connection.redefine_table(table, &def, &as_they_are(&def)),
        }
    }

    /// `constraint k on table t`
    fn shown_keys(&self, keys: &[OfTable]) -> Vec<String> {
        let catalog = self.connection.catalog();
        let shown = |(key, of): &OfTable| format!("constraint {key} on table {}", self.shown(&catalog, of));
        keys.iter().map(shown).collect()
    }

    fn tell_dropped(&mut self, keys: &[String]) {
        let lines: Vec<String> = keys.iter().map(|k| format!("drop cascades to {k}")).collect();
        match &lines[..] {
            [] => {}
            [one] => self.notice("00000", one.clone()),
            all => self.notice_with(format!("drop cascades to {} other objects", all.len()), all.join("\n")),
        }
    }

    /// The error of what is not dropped for the sake of foreign keys.
    fn depended_on(&self, what: &str, keys: &[OfTable], rested_on: &str) -> SqlError {
        let lines: Vec<String> =
            self.shown_keys(keys).iter().map(|k| format!("{k} depends on {rested_on}")).collect();
        let message = format!("cannot drop {what} because other objects depend on it");
        SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .detail(lines.join("\n"))
            .hint("Use DROP ... CASCADE to drop the dependent objects too.")
    }

    /// Drops the foreign keys that rest on what goes, or refuses to; `def` is what the table is to be.
    pub(crate) fn drop_keys_on(
        &mut self,
        table: &Name,
        gone: &GoneKey,
        def: Option<&mut TableDef>,
    ) -> SqlResult<()> {
        // Those that the table itself loses by the same statement are gone already.
        let own: Option<Vec<String>> =
            def.as_ref().map(|d| d.foreign.iter().map(|f| f.name.clone()).collect());
        let mut keys = self.keys_on(table, |r| gone.indexes.contains(&r.key.index));
        if let Some(own) = &own {
            keys.retain(|(key, of)| of != table || own.contains(key))
        }
        if keys.is_empty() {
            return Ok(());
        }
        if !gone.cascade {
            return Err(self.depended_on(&gone.what, &keys, &gone.rested_on));
        }
        let shown = self.shown_keys(&keys);
        for (key, of) in keys.iter().filter(|(_, of)| of != table || own.is_none()) {
            self.drop_key(key, of)?
        }
        if let Some(def) = def {
            def.foreign.retain(|f| !keys.iter().any(|(key, of)| of == table && *key == f.name))
        }
        self.tell_dropped(&shown);
        Ok(())
    }

    /// Before tables are dropped: takes away the foreign keys by which others refer to them, with CASCADE,
    /// and those among them.
    pub(crate) fn part_tables(&mut self, names: &[Dropped], cascade: bool) -> SqlResult<()> {
        let names: Vec<&Name> = names.iter().filter_map(Dropped::there).collect();
        for name in &names {
            let mut keys = self.keys_on(name, |_| true);
            keys.retain(|(_, of)| of != *name);
            let (among, others): (Vec<_>, Vec<_>) = keys.into_iter().partition(|(_, of)| names.contains(&of));
            if !others.is_empty() && !cascade {
                let table = format!("table {}", self.shown(&self.connection.catalog(), name));
                return Err(self.depended_on(&table, &others, &table));
            }
            let shown = self.shown_keys(&others);
            for (key, of) in among.iter().chain(&others) {
                self.drop_key(key, of)?
            }
            self.tell_dropped(&shown)
        }
        Ok(())
    }

    /// TRUNCATE, with the tables that refer to those by CASCADE.
    pub(crate) fn truncate(&mut self, names: &[Name], restart: bool, cascade: bool) -> SqlResult<()> {
        let mut names = names.to_vec();
        let mut at = 0;
        while at < names.len() {
            for (_, child) in self.keys_on(&names[at], |_| true) {
                if names.contains(&child) {
                    continue;
                }
                if !cascade {
                    let message = "cannot truncate a table referenced in a foreign key constraint";
                    let (child, name) = (child.name, &names[at].name);
                    return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
                        .detail(format!("Table \"{child}\" references \"{name}\"."))
                        .hint(format!(
                            "Truncate table \"{child}\" at the same time, or use TRUNCATE ... CASCADE."
                        )));
                }
                self.notice("00000", format!("truncate cascades to table \"{}\"", child.name));
                names.push(child)
            }
            at += 1
        }
        self.connection.truncate_tables(&names, restart).map(drop)
    }

    /// SET CONSTRAINTS; `None`: ALL.
    pub(crate) fn set_constraints(&mut self, names: Option<&[String]>, deferred: bool) -> SqlResult<()> {
        if !self.connection.in_transaction() {
            self.warn(
                sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                "SET CONSTRAINTS can only be used in transaction blocks",
            );
        }
        let Some(names) = names else { return self.connection.set_constraints(None, deferred) };
        let catalog = self.connection.catalog();
        let mut keys = Vec::new();
        for name in names {
            let before = keys.len();
            let mut known = false;
            let fixed = || {
                let message = format!("constraint \"{name}\" is not deferrable");
                SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message)
            };
            for table in catalog.tables() {
                known |= table.def.is_constraint(name);
                for key in table.def.foreign.iter().filter(|f| f.name == *name) {
                    match key.deferrable {
                        true => keys.push((table.def.id, name.clone())),
                        // It is immediate already.
                        false if !deferred => {}
                        false => return Err(fixed()),
                    }
                }
            }
            if !known {
                let message = format!("constraint \"{name}\" does not exist");
                return Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, message));
            }
            if keys.len() == before && deferred {
                return Err(fixed());
            }
        }
        self.connection.set_constraints(Some(keys), deferred)
    }
}
