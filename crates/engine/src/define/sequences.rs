//! Sequences, made, changed and dropped; what their values are is in [`crate::sequence`].
use super::{Catalog, Connection, claims, d, free_name, there_is_schema};
use crate::name::{Name, TEMPORARY};
use crate::rights::RightsOf;
use crate::sequence::{Sequence, SequenceDef, SequenceOptions};
use ondol_durability::Given;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::sync::Arc;

fn find<'a>(c: &'a Catalog, name: &Name) -> SqlResult<&'a Arc<Sequence>> {
    c.sequence(name).ok_or_else(|| {
        let message = format!("relation \"{}\" does not exist", name.name);
        SqlError::new(sqlstate::UNDEFINED_TABLE, message)
    })
}

impl Connection {
    /// Gives its number.
    pub fn create_sequence(
        &mut self,
        name: &Name,
        options: &SequenceOptions,
        initial: Given,
        unlogged: bool,
    ) -> SqlResult<u32> {
        self.defining(
            |_| claims::create_sequence(name),
            |me, c| {
                there_is_schema(c, name.schema)?;
                free_name(c, name)?;
                let db = me.db.clone();
                let of_counter = if unlogged { TEMPORARY } else { name.schema };
                let (id, counter) = (db.next_object_in(name.schema)?, db.next_object_in(of_counter)?);
                let def = SequenceDef {
                    id,
                    schema: name.schema,
                    name: name.name.clone(),
                    options: *options,
                    counter,
                    initial,
                };
                d::add_sequence(&mut me.session, &db.dictionary, &def)?;
                let sequence = Sequence::new(def, None);
                me.counters.made.push(sequence.counter.clone());
                me.draft().sequence(name, Some(sequence));
                me.own(c, RightsOf::Sequence, name.schema, id)?;
                Ok(id)
            },
        )
    }

    /// Has the sequence go on as `change` says, by what it is and has given out: the transaction's own from
    /// now on, and everybody's when it commits (sequence/S2).
    pub fn alter_sequence(
        &mut self,
        name: &Name,
        change: &dyn Fn(&SequenceDef, Given) -> SqlResult<(SequenceOptions, Given)>,
    ) -> SqlResult<()> {
        self.defining(|c| claims::change_sequence(c, name), |me, _| me.change_sequence(name, change))
    }
    /// SET LOGGED and SET UNLOGGED: it goes on from where it is.
    pub fn log_sequence(&mut self, name: &Name, unlogged: bool) -> SqlResult<()> {
        self.defining(
            |c| claims::change_sequence(c, name),
            |me, _| match find(&me.catalog(), name)?.def.is_unlogged() == unlogged {
                true => Ok(()),
                false => me.change_counter(name, &|def, given| Ok((def.options, given)), unlogged),
            },
        )
    }
    pub(super) fn change_sequence(
        &mut self,
        name: &Name,
        change: &dyn Fn(&SequenceDef, Given) -> SqlResult<(SequenceOptions, Given)>,
    ) -> SqlResult<()> {
        let unlogged = find(&self.catalog(), name)?.def.is_unlogged();
        self.change_counter(name, change, unlogged)
    }
    fn change_counter(
        &mut self,
        name: &Name,
        change: &dyn Fn(&SequenceDef, Given) -> SqlResult<(SequenceOptions, Given)>,
        unlogged: bool,
    ) -> SqlResult<()> {
        // One may be changed twice in a statement.
        let old = find(&self.catalog(), name)?.clone();
        let given = self.hold_counter(&old.counter);
        let (options, initial) = change(&old.def, given)?;
        let db = self.db.clone();
        let counter = db.next_object_in(if unlogged { TEMPORARY } else { old.def.schema })?;
        let def = SequenceDef { options, initial, counter, ..old.def.clone() };
        d::remove_sequence(&mut self.session, &db.dictionary, def.id)?;
        d::add_sequence(&mut self.session, &db.dictionary, &def)?;
        let sequence = Sequence::new(def, None);
        self.counters.dropped.push(old.counter.clone());
        self.counters.made.push(sequence.counter.clone());
        self.draft().sequence(name, Some(sequence));
        Ok(())
    }

    pub fn rename_sequence(&mut self, name: &Name, to: &Name) -> SqlResult<()> {
        self.defining(
            |c| {
                let mut wanted = claims::change_sequence(c, name);
                wanted.extend(claims::create_sequence(to));
                wanted
            },
            |me, c| {
                free_name(c, to)?;
                let old = find(c, name)?.clone();
                let def = SequenceDef { schema: to.schema, name: to.name.clone(), ..old.def.clone() };
                let db = me.db.clone();
                d::remove_sequence(&mut me.session, &db.dictionary, def.id)?;
                d::add_sequence(&mut me.session, &db.dictionary, &def)?;
                let draft = me.draft();
                draft.sequence(name, None);
                draft.sequence(to, Some(old.redefined(def)));
                Ok(())
            },
        )
    }

    pub fn drop_sequence(&mut self, name: &Name) -> SqlResult<()> {
        self.defining(
            |c| claims::change_sequence(c, name),
            |me, c| {
                let id = find(c, name)?.def.id;
                me.remove_sequence(id)
            },
        )
    }
    /// Within a definition that has claimed its name.
    pub(crate) fn remove_sequence(&mut self, id: u32) -> SqlResult<()> {
        let catalog = self.catalog();
        let Some(old) = catalog.sequence_by_id(id) else { return Ok(()) };
        self.hold_counter(&old.counter);
        let db = self.db.clone();
        d::remove_sequence(&mut self.session, &db.dictionary, id)?;
        self.counters.dropped.push(old.counter.clone());
        self.draft().sequence(&old.def.full_name(), None);
        self.drop_rights(&catalog, id)
    }
}
