//! Definition of sequences: made, changed, dropped, and the columns that they go with.
use crate::session::Session;
use crate::session::define::{choose_name, no_table};
use ondol_engine::{Catalog, Claim, ColumnDef, Generated, Name, Origin, TableDef, claims};
use ondol_sql::bind::next_value_of;
use ondol_sql::bind::sequence::{Owner, SequenceChanges, sequences_of, with_renamed_sequence};
use ondol_sql::bound::{AlterTable, AlteredColumn, Dropped, NewSequence, SequenceOf};
use ondol_types::{SqlError, SqlResult, sqlstate};

/// What a sequence and the table that it is to go with are claimed by.
pub(crate) fn wanted(name: &Name, owner: Option<&Owner>, c: &Catalog) -> Vec<Claim> {
    let mut wanted = claims::change_sequence(c, name);
    if let Some(Owner::Column { table, .. }) = owner {
        wanted.extend(claims::change_table(c, table))
    }
    if owner.is_some()
        && let Some(sequence) = c.sequence(name)
        && let Some((table, _)) = c.owner_of(sequence.def.id)
    {
        wanted.extend(claims::change_table(c, table.def.full_name()))
    }
    wanted
}

/// The columns whose defaults take values of the sequence: the tables and the columns' places.
fn users(catalog: &Catalog, sequence: u32) -> Vec<(TableDef, usize)> {
    let mut tables: Vec<_> = catalog.tables().collect();
    tables.sort_by_key(|t| t.def.id);
    let mut found = Vec::new();
    for t in tables {
        for (n, c) in t.def.columns.iter().enumerate() {
            if c.default.is_some() && sequences_of(catalog, c).contains(&sequence) {
                found.push((t.def.clone(), n))
            }
        }
    }
    found
}

impl Session {
    /// Makes the sequence of a column, which takes its values from it. It is claimed under a name that is
    /// free.
    pub(crate) fn add_sequence(
        &mut self,
        table: &Name,
        column: &mut ColumnDef,
        new: &NewSequence,
        unlogged: bool,
    ) -> SqlResult<()> {
        let choose = |c: &Catalog| match &new.name {
            Some(name) => name.clone(),
            None => Name::new(table.schema, choose_name(c, table, &[&column.name], "seq")),
        };
        self.connection.claim(|c| claims::create_sequence(&choose(c)))?;
        let name = choose(&self.connection.catalog());
        let id = self.create_sequence(&name, &new.changes, None, unlogged)?;
        match new.of {
            SequenceOf::Serial => {
                column.default = Some(next_value_of(&self.connection.catalog(), &name));
                column.owns.push(id)
            }
            SequenceOf::Identity { always } => {
                column.generated = Some(Generated::Identity { always, sequence: id })
            }
        }
        Ok(())
    }

    /// ALTER TABLE's sequences, made and changed; gives what is left to do of it.
    pub(crate) fn alter_sequences_of(&mut self, a: &AlterTable) -> SqlResult<AlterTable> {
        let mut a = a.clone();
        let catalog = self.connection.catalog();
        let was = catalog.table(&a.table).ok_or_else(|| no_table(&a.table))?;
        let mut def = a.def.take().unwrap_or_else(|| was.def.clone());
        for (id, changes) in std::mem::take(&mut a.changed_sequences) {
            let Some(name) = catalog.sequence_by_id(id).map(|s| s.def.full_name()) else { continue };
            self.alter_sequence(&name, &changes, None)?
        }
        let unlogged = def.nature.unlogged;
        for new in std::mem::take(&mut a.sequences) {
            self.add_sequence(&def.full_name(), &mut def.columns[new.column], &new, unlogged)?;
            // Rows that are there get values of it, too.
            if let Some(AlteredColumn::Computed(text)) = a.columns.get_mut(new.column)
                && text.is_empty()
            {
                let sequence = def.columns[new.column].sequences().last().unwrap_or(0);
                *text = format!("nextval({sequence})")
            }
        }
        a.def = (def != was.def).then_some(def);
        Ok(a)
    }

    /// Gives the sequence's number.
    pub(crate) fn create_sequence(
        &mut self,
        name: &Name,
        changes: &SequenceChanges,
        owner: Option<&Owner>,
        unlogged: bool,
    ) -> SqlResult<u32> {
        let (options, initial) = changes.apply(None)?;
        let id = self.connection.create_sequence(name, &options, initial, unlogged)?;
        if let Some(owner) = owner {
            self.own_sequence(id, owner)?
        }
        Ok(id)
    }

    pub(crate) fn alter_sequence(
        &mut self,
        name: &Name,
        changes: &SequenceChanges,
        owner: Option<&Owner>,
    ) -> SqlResult<()> {
        if !changes.is_empty() {
            let apply = |def: &ondol_engine::SequenceDef, given| changes.apply(Some((&def.options, given)));
            self.connection.alter_sequence(name, &apply)?
        }
        let Some(owner) = owner else { return Ok(()) };
        let missing = || no_table(name);
        let id = self.connection.catalog().sequence(name).map(|s| s.def.id).ok_or_else(missing)?;
        self.own_sequence(id, owner)
    }

    /// Has the sequence go with a column, or with none.
    fn own_sequence(&mut self, id: u32, owner: &Owner) -> SqlResult<()> {
        let catalog = self.connection.catalog();
        // First the new owner has it, so that it does not go with the former one.
        if let Owner::Column { table, column } = owner {
            let found = catalog.table(table).ok_or_else(|| no_table(table))?;
            let Some(n) = found.def.column(column) else {
                let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
                return Err(SqlError::new(sqlstate::UNDEFINED_COLUMN, message));
            };
            if found.def.columns[n].owns.contains(&id) {
                return Ok(());
            }
        }
        if let Some((table, n)) = catalog.owner_of(id) {
            self.change_column(&table.def, n, |c| c.owns.retain(|s| *s != id), &[id])?
        }
        if let Owner::Column { table, column } = owner {
            let catalog = self.connection.catalog();
            let found = catalog.table(table).ok_or_else(|| no_table(table))?;
            let n = found.def.column(column).unwrap_or(0);
            self.change_column(&found.def, n, |c| c.owns.push(id), &[])?
        }
        Ok(())
    }

    /// Changes what is said of a column, whose rows stay. `kept`: sequences that it gives up and that stay.
    pub(crate) fn change_column(
        &mut self,
        table: &TableDef,
        column: usize,
        change: impl FnOnce(&mut ColumnDef),
        kept: &[u32],
    ) -> SqlResult<()> {
        let mut def = table.clone();
        change(&mut def.columns[column]);
        let origins: Vec<Origin> = (0..def.columns.len()).map(Origin::Column).collect();
        self.connection.redefine_keeping(&table.full_name(), &def, &origins, kept)
    }

    /// Texts that name it follow.
    pub(crate) fn rename_sequence(&mut self, name: &Name, to: &Name) -> SqlResult<()> {
        let catalog = self.connection.catalog();
        let id = catalog.sequence(name).map(|s| s.def.id).ok_or_else(|| no_table(name))?;
        // As they are found while the texts mean something.
        let users = users(&catalog, id);
        self.connection.rename_sequence(name, to)?;
        for (table, n) in users {
            // Another of its columns may have been changed just now.
            let now = self.connection.catalog();
            let now = now.table(table.full_name()).ok_or_else(|| no_table(&table.full_name()))?;
            let renamed = |c: &mut ColumnDef| {
                c.default = c.default.take().map(|text| with_renamed_sequence(&catalog, &text, id, to))
            };
            self.change_column(&now.def, n, renamed, &[])?
        }
        Ok(())
    }

    pub(crate) fn drop_sequences(
        &mut self,
        names: &[Dropped],
        if_exists: bool,
        cascade: bool,
    ) -> SqlResult<()> {
        for name in names {
            let Dropped::There(name) = name else {
                self.told_missing(name);
                continue;
            };
            let catalog = self.connection.claim(|c| claims::change_sequence(c, name))?;
            let Some(sequence) = catalog.sequence(name) else {
                // It has gone meanwhile.
                let missing = format!("sequence \"{}\" does not exist", name.name);
                if !if_exists {
                    return Err(SqlError::new(sqlstate::UNDEFINED_TABLE, missing));
                }
                self.notice("00000", format!("{missing}, skipping"));
                continue;
            };
            let id = sequence.def.id;
            let shown = self.shown(&catalog, name);
            if let Some((table, n)) = catalog.owner_of(id)
                && table.def.columns[n].identity() == Some(id)
            {
                let column = &table.def.columns[n].name;
                let table = self.shown(&catalog, &table.def.full_name());
                let message = format!(
                    "cannot drop sequence {shown} because column {column} of table {table} requires it"
                );
                return Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message)
                    .hint(format!("You can drop column {column} of table {table} instead.")));
            }
            self.drop_defaults_of(id, &format!("sequence {shown}"), cascade, &[])?;
            self.drop_owned_sequence(id)?
        }
        Ok(())
    }

    /// Drops a sequence on which nothing depends; the column that it goes with names it no longer.
    pub(crate) fn drop_owned_sequence(&mut self, id: u32) -> SqlResult<()> {
        let catalog = self.connection.catalog();
        match (catalog.owner_of(id), catalog.sequence_by_id(id)) {
            (Some((table, n)), _) => self.change_column(&table.def, n, |c| c.owns.retain(|s| *s != id), &[]),
            (None, Some(sequence)) => self.connection.drop_sequence(&sequence.def.full_name()),
            (None, None) => Ok(()),
        }
    }

    /// Defaults that take values of a sequence that goes with `what`: with CASCADE they go, too, otherwise it
    /// stays. Those of `tables` go anyway.
    pub(crate) fn drop_defaults_of(
        &mut self,
        id: u32,
        what: &str,
        cascade: bool,
        tables: &[Name],
    ) -> SqlResult<()> {
        let catalog = self.connection.catalog();
        let Some(sequence) = catalog.sequence_by_id(id) else { return Ok(()) };
        let name = self.shown(&catalog, &sequence.def.full_name());
        let mut users = users(&catalog, id);
        users.retain(|(t, _)| !tables.contains(&t.full_name()));
        let of = |(t, n): &(TableDef, usize)| {
            let table = self.shown(&catalog, &t.full_name());
            format!("default value for column {} of table {table}", t.columns[*n].name)
        };
        let lines: Vec<String> = users.iter().map(of).collect();
        if !cascade && !users.is_empty() {
            let lines: Vec<String> =
                lines.iter().map(|l| format!("{l} depends on sequence {name}")).collect();
            let message = format!("cannot drop {what} because other objects depend on it");
            return Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message)
                .detail(lines.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for ((table, n), line) in users.iter().zip(lines) {
            self.notice("00000", format!("drop cascades to {line}"));
            let catalog = self.connection.claim(|c| claims::change_table(c, table.full_name()))?;
            let Some(now) = catalog.table(table.full_name()) else { continue };
            self.change_column(&now.def, *n, |c| c.default = None, &[])?
        }
        Ok(())
    }
}
