//! ALTER TABLE, and the renaming of tables, indexes, columns and constraints.
//!
//! The actions of a statement are done to a copy of the table's definition, in PostgreSQL's order: what goes
//! first, then what changes, then what is new. The statement is bound to the definition that comes of it.

use super::ddl::{Key, check_column_name, check_columns, key_columns, upper_words};
use super::dml::default_of;
use super::domain::{declared, default_text};
use super::index::{self, Hiding, sweep};
use super::tree::{kind, need, refuse, unexpected};
use super::types::{any_type, is_taken};
use super::{Binder, accepted, check, coerce};
use crate::bound::{
    AlterTable, AlteredColumn, GoneKey, NewForeign, NewIndex, NewKey, NewSequence, SequenceChanges,
    SequenceOf, Statement,
};
use crate::parse::tree::{
    self, AlterTableCmd, AlterTableType, ConstrType, Constraint, DropBehavior, ObjectType, RangeVar,
    RenameStmt, node::Node as Kind,
};
use ondol_engine::name::TEMPORARY;
use ondol_engine::view::{Slot, slots};
use ondol_engine::{ColumnDef, Generated, IndexDef, IndexKind, Name, Path, Relation, TableDef};
use ondol_types::cast::CastContext;
use ondol_types::func::Volatility;
use ondol_types::name::quote;
use ondol_types::{SqlError, SqlResult, Type, TypeId, known, sqlstate};

/// A table's definition while actions are done to it.
struct Altered<'a> {
    /// As it was.
    old: TableDef,
    def: TableDef,
    columns: Vec<AlteredColumn>,
    keys: Vec<Key<'a>>,
    exclusions: Vec<&'a Constraint>,
    validate: Vec<String>,
    sequences: Vec<NewSequence>,
    changed_sequences: Vec<(u32, SequenceChanges)>,
    foreign: Vec<NewForeign>,
    gone: Vec<GoneKey>,
    dropped: Vec<(usize, bool)>,
}

/// Where PostgreSQL does an action: what has a lower number is done before.
fn pass(c: &AlterTableCmd) -> u8 {
    match c.subtype() {
        AlterTableType::AtDropColumn
        | AlterTableType::AtDropConstraint
        | AlterTableType::AtDropNotNull
        | AlterTableType::AtDropIdentity
        | AlterTableType::AtDropExpression => 0,
        AlterTableType::AtAlterColumnType => 1,
        AlterTableType::AtAddColumn => 4,
        AlterTableType::AtColumnDefault if c.def.is_none() => 0,
        AlterTableType::AtAddConstraint => 5,
        AlterTableType::AtSetNotNull | AlterTableType::AtAddIdentity => 6,
        AlterTableType::AtColumnDefault => 9,
        _ => 10,
    }
}

/// What PostgreSQL's messages call an action.
fn action_name(c: &AlterTableCmd) -> String {
    let words = match c.subtype() {
        AlterTableType::AtColumnDefault => "SET DEFAULT".to_string(),
        other => upper_words(&format!("{other:?}"), "At"),
    };
    match c.subtype() {
        AlterTableType::AtSetUnLogged => "SET UNLOGGED".into(),
        AlterTableType::AtColumnDefault | AlterTableType::AtSetNotNull | AlterTableType::AtDropNotNull => {
            format!("ALTER COLUMN ... {words}")
        }
        _ => words,
    }
}

/// PostgreSQL does not show places in this statement.
fn placeless(mut e: SqlError) -> SqlError {
    e.0.position = None;
    e
}

fn wrong(state: &'static str, message: String) -> SqlError {
    SqlError::new(state, message)
}

/// The column of a name in the table as it is by now.
fn column_of(def: &TableDef, name: &str) -> SqlResult<usize> {
    if let Some(n) = def.column(name) {
        return Ok(n);
    }
    if known::is_system_column(name) {
        let message = format!("cannot alter system column \"{name}\"");
        return Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message));
    }
    let message = format!("column \"{name}\" of relation \"{}\" does not exist", def.name);
    Err(wrong(sqlstate::UNDEFINED_COLUMN, message))
}

fn of_relation(column: &str, def: &TableDef, what: &str) -> String {
    format!("column \"{column}\" of relation \"{}\" {what}", def.name)
}

/// Whether SET GENERATED says ALWAYS, if it is said.
fn said_always(items: &[tree::Node]) -> SqlResult<Option<bool>> {
    let mut said = None;
    for o in super::tree::options(items)?.into_iter().filter(|o| o.defname == "generated") {
        if said.is_some() {
            return Err(wrong(sqlstate::SYNTAX_ERROR, "conflicting or redundant options".into()));
        }
        let Kind::Integer(when) = kind(need(&o.arg)?)? else { return Err(unexpected("SET GENERATED")) };
        said = Some(when.ival == i32::from(b'a'))
    }
    Ok(said)
}

/// Whether a type's values may be long, so that PostgreSQL may keep them elsewhere than in their row.
fn is_long(ty: Type) -> bool {
    let id = ty.base().id;
    id.is_string()
        || id.is_array()
        || [TypeId::BYTEA, TypeId::NUMERIC, TypeId::JSON, TypeId::JSONB].contains(&id)
}

fn no_constraint(def: &TableDef, name: &str) -> String {
    format!("constraint \"{name}\" of relation \"{}\" does not exist", def.name)
}

fn as_it_is(def: &TableDef) -> Vec<AlteredColumn> {
    (0..def.columns.len()).map(AlteredColumn::Kept).collect()
}

impl<'a> Binder<'a> {
    pub(super) fn alter_table(&mut self, s: &'a tree::AlterTableStmt) -> SqlResult<Statement> {
        let is_owner = |n: &tree::Node| matches!(kind(n), Ok(Kind::AlterTableCmd(c)) if c.subtype() == AlterTableType::AtChangeOwner);
        if s.cmds.iter().all(is_owner) {
            return self.relation_owner(s);
        }
        if s.objtype() == ObjectType::ObjectView {
            return self.alter_view(s);
        }
        if s.objtype() == ObjectType::ObjectType {
            return self.alter_composite(s);
        }
        let is_parameters = |n: &tree::Node| {
            matches!(kind(n), Ok(Kind::AlterTableCmd(c)) if matches!(c.subtype(),
                AlterTableType::AtSetRelOptions | AlterTableType::AtResetRelOptions))
        };
        if s.objtype() == ObjectType::ObjectIndex && s.cmds.iter().all(is_parameters) {
            return self.alter_index(s);
        }
        let of_material = s.objtype() == ObjectType::ObjectMatview;
        if let Some(done) = self.log_sequence(s)? {
            return Ok(done);
        }
        refuse(
            s.objtype() != ObjectType::ObjectTable && !of_material,
            "ALTER of something else than a table",
        )?;
        let relation = s.relation.as_ref().ok_or_else(|| unexpected("ALTER TABLE"))?;
        let mut actions = Vec::with_capacity(s.cmds.len());
        for node in &s.cmds {
            let Kind::AlterTableCmd(c) = kind(node)? else { return Err(unexpected("ALTER TABLE")) };
            actions.push(&**c);
        }
        let known = |c: &&&AlterTableCmd| {
            matches!(
                c.subtype(),
                AlterTableType::AtAddColumn
                    | AlterTableType::AtDropColumn
                    | AlterTableType::AtAlterColumnType
                    | AlterTableType::AtAddConstraint
                    | AlterTableType::AtDropConstraint
                    | AlterTableType::AtColumnDefault
                    | AlterTableType::AtSetNotNull
                    | AlterTableType::AtDropNotNull
                    | AlterTableType::AtValidateConstraint
                    | AlterTableType::AtAddIdentity
                    | AlterTableType::AtSetIdentity
                    | AlterTableType::AtDropIdentity
                    | AlterTableType::AtDropExpression
                    | AlterTableType::AtAlterConstraint
                    | AlterTableType::AtChangeOwner
                    | AlterTableType::AtSetLogged
                    | AlterTableType::AtSetUnLogged
                    | AlterTableType::AtSetRelOptions
                    | AlterTableType::AtResetRelOptions
                    | AlterTableType::AtSetStorage
                    | AlterTableType::AtSetCompression
                    | AlterTableType::AtSetStatistics
            )
        };
        if let Some(c) = actions.iter().find(|c| !known(c)) {
            let feature = format!("ALTER TABLE ... {}", upper_words(&format!("{:?}", c.subtype()), "At"));
            return Err(SqlError::unsupported(feature));
        }
        let tag = if of_material { "ALTER MATERIALIZED VIEW" } else { "ALTER TABLE" };
        if let Some(skipped) = self.skipped(relation, s.missing_ok, tag) {
            return Ok(skipped);
        }
        self.relation_name(&s.relation)?;
        if of_material {
            self.material_of(relation)?;
        }
        let found = self.relation_of(relation);
        let is_view = matches!(found, Some((_, Relation::View(_))));
        let only_defaults = actions.iter().all(|c| c.subtype() == AlterTableType::AtColumnDefault);
        if is_view && only_defaults {
            return self.alter_view(s);
        }
        let is_material = matches!(found, Some((_, Relation::Table(t))) if t.def.is_material());
        let is_index = matches!(found, Some((_, Relation::Index { .. })));
        if (is_material || is_index) && s.cmds.iter().all(is_parameters) {
            let (known, what): (fn(&str) -> Option<accepted::Parameter>, _) = match is_index {
                true => (accepted::is_index_storage, accepted::INDEX_STORAGE),
                false => (accepted::is_table_storage, accepted::TABLE_STORAGE),
            };
            for c in actions {
                self.storage_parameters(c, known, what)?
            }
            self.notices.retain(|n| n.1 != what.notice);
            let tag = if of_material { "ALTER MATERIALIZED VIEW" } else { "ALTER TABLE" };
            return Ok(Statement::Nothing { tag, notice: what.notice.to_string() });
        }
        if is_view || is_material || matches!(found, Some((_, Relation::Index { .. }))) {
            let action = actions.first().map_or(String::new(), |c| action_name(c));
            let name = &relation.relname;
            let message = format!("ALTER action {action} cannot be performed on relation \"{name}\"");
            let error = wrong(sqlstate::WRONG_OBJECT_TYPE, message);
            let what = match is_view {
                true => "views",
                false if is_material => "materialized views",
                false => "indexes",
            };
            return Err(error.detail(format!("This operation is not supported for {what}.")));
        }
        let table = self.table(relation).map_err(placeless)?;
        let def = table.def.clone();
        let (columns, keys, validate) = (as_it_is(&def), Vec::new(), Vec::new());
        let (sequences, changed_sequences, dropped) = (Vec::new(), Vec::new(), Vec::new());
        let (foreign, gone, exclusions) = (Vec::new(), Vec::new(), Vec::new());
        let old = table.def.clone();
        let mut altered = Altered {
            old,
            columns,
            def,
            keys,
            exclusions,
            validate,
            sequences,
            changed_sequences,
            foreign,
            gone,
            dropped,
        };
        actions.sort_by_key(|c| pass(c));
        let types = actions.iter().any(|c| c.subtype() == AlterTableType::AtAlterColumnType);
        for c in actions {
            self.alter(&mut altered, c)?
        }
        self.follow_hidden(&mut altered)?;
        altered.def.quiet_hidden();
        for check in altered.def.checks.iter().filter(|_| types) {
            check::bind_check(self.catalog, &altered.def, check).map_err(placeless)?;
        }
        self.rests_within(table.def.schema, &altered.def.columns, &altered.sequences)?;
        let mut keys = self.new_keys(&table.def, &altered)?;
        if !altered.exclusions.is_empty() {
            let mut hiding = Hiding::by(altered.def, altered.columns);
            for k in &altered.exclusions {
                let taken = |n: &str| {
                    let has_it = |k: &NewKey| k.index.name.as_deref() == Some(n);
                    hiding.def.is_constraint(n) || keys.iter().any(has_it)
                };
                let name = self.exclusion_name(&hiding.def, k, &taken)?;
                let index = self.exclusion_named(&mut hiding, k, name).map_err(placeless)?;
                keys.push(NewKey { index, using: None })
            }
            (altered.def, altered.columns) = (hiding.def, hiding.columns)
        }
        // A column can be the same and have other values.
        let def =
            (!AlteredColumn::all_stay(&altered.columns) || altered.def != table.def).then_some(altered.def);
        Ok(Statement::AlterTable(AlterTable {
            table: table.def.full_name(),
            def,
            columns: altered.columns,
            keys,
            validate: altered.validate,
            sequences: altered.sequences,
            changed_sequences: altered.changed_sequences,
            foreign: altered.foreign,
            gone: altered.gone,
            dropped: altered.dropped,
            tag: "ALTER TABLE",
        }))
    }

    /// SET LOGGED and SET UNLOGGED of a sequence; `None`: the statement is another.
    fn log_sequence(&mut self, s: &'a tree::AlterTableStmt) -> SqlResult<Option<Statement>> {
        let of_sequence = s.objtype() == ObjectType::ObjectSequence;
        let Some(relation) = &s.relation else { return Ok(None) };
        let found = match self.relation_of(relation) {
            Some((_, Relation::Sequence(found))) => Some(found),
            _ => None,
        };
        if found.is_none() && !of_sequence {
            return Ok(None);
        }
        let [node] = &s.cmds[..] else { return Ok(None) };
        let Kind::AlterTableCmd(c) = kind(node)? else { return Ok(None) };
        let unlogged = match c.subtype() {
            AlterTableType::AtSetLogged => false,
            AlterTableType::AtSetUnLogged => true,
            _ => return Ok(None),
        };
        let tag = if of_sequence { "ALTER SEQUENCE" } else { "ALTER TABLE" };
        if let Some(skipped) = self.skipped(relation, s.missing_ok, tag) {
            return Ok(Some(skipped));
        }
        let Some(found) = found else {
            self.relation_name(&s.relation)?;
            let error = match self.relation_of(relation) {
                Some((name, _)) => {
                    wrong(sqlstate::WRONG_OBJECT_TYPE, format!("\"{}\" is not a sequence", name.name))
                }
                None => placeless(super::from::no_relation(relation)),
            };
            return Err(error);
        };
        let name = found.def.full_name();
        if name.schema == TEMPORARY {
            return Err(logged_for_good(&name.name));
        }
        Ok(Some(Statement::LogSequence { name, unlogged, tag }))
    }

    /// Whether a table may be logged, or not, as far as foreign keys go.
    fn may_be_logged(&self, def: &TableDef, unlogged: bool) -> SqlResult<()> {
        let of = |id: u32| self.catalog.table_by_id(id).filter(|t| t.def.id != def.id);
        let named = match unlogged {
            false => def.foreign.iter().filter_map(|f| of(f.table)).find(|t| t.def.nature.unlogged),
            true => {
                let own = self.catalog.table_by_id(def.id);
                let references = own.iter().flat_map(|t| t.references.iter());
                references.filter_map(|r| of(r.table)).find(|t| !t.def.nature.unlogged)
            }
        };
        let Some(other) = named else { return Ok(()) };
        let (name, other) = (&def.name, &other.def.name);
        let message = match unlogged {
            false => format!(
                "could not change table \"{name}\" to logged because it references unlogged table \"{other}\""
            ),
            true => format!(
                "could not change table \"{name}\" to unlogged because it references logged table \"{other}\""
            ),
        };
        Err(wrong(sqlstate::INVALID_TABLE_DEFINITION, message))
    }

    /// What is done where the table is not there and need not be.
    pub(super) fn skipped(
        &self,
        relation: &RangeVar,
        missing_ok: bool,
        tag: &'static str,
    ) -> Option<Statement> {
        let name = &relation.relname;
        let is_there = self.relation_of(relation).is_some();
        let notice = format!("relation \"{name}\" does not exist, skipping");
        (missing_ok && !is_there).then_some(Statement::Nothing { tag, notice })
    }

    /// Parameters that are set, or go back to what they were.
    fn storage_parameters(
        &mut self,
        c: &'a AlterTableCmd,
        known: fn(&str) -> Option<accepted::Parameter>,
        what: accepted::Accepted,
    ) -> SqlResult<()> {
        let Kind::List(list) = kind(need(&c.def)?)? else { return Err(unexpected("SET (...)")) };
        if c.subtype() == AlterTableType::AtSetRelOptions {
            return self.storage(&list.items, known, what);
        }
        for o in super::tree::options(&list.items)? {
            if o.arg.is_some() {
                let message = "RESET must not include values for parameters".into();
                return Err(wrong(sqlstate::SYNTAX_ERROR, message));
            }
        }
        self.notice(what);
        Ok(())
    }

    fn alter_index(&mut self, s: &'a tree::AlterTableStmt) -> SqlResult<Statement> {
        let relation = self.relation_name(&s.relation)?;
        if let Some(skipped) = self.skipped(relation, s.missing_ok, "ALTER INDEX") {
            return Ok(skipped);
        }
        let name = &relation.relname;
        match self.relation_of(relation) {
            Some((_, Relation::Index { .. })) => {}
            Some(_) => {
                let message = format!("\"{name}\" is not an index");
                return Err(wrong(sqlstate::WRONG_OBJECT_TYPE, message));
            }
            None => {
                let message = format!("relation \"{name}\" does not exist");
                return Err(wrong(sqlstate::UNDEFINED_TABLE, message));
            }
        }
        for node in &s.cmds {
            let Kind::AlterTableCmd(c) = kind(node)? else { return Err(unexpected("ALTER INDEX")) };
            self.storage_parameters(c, accepted::is_index_storage, accepted::INDEX_STORAGE)?
        }
        self.notices.retain(|n| n.1 != accepted::INDEX_STORAGE.notice);
        Ok(Statement::Nothing { tag: "ALTER INDEX", notice: accepted::INDEX_STORAGE.notice.to_string() })
    }

    /// How values of a column are to be compressed.
    pub(super) fn compression(&mut self, method: &str, ty: Type) -> SqlResult<()> {
        if !is_long(ty) {
            let message = format!("column data type {} does not support compression", super::name_of(ty.id));
            return Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message));
        }
        if !["pglz", "lz4", "default"].contains(&method) {
            let message = format!("invalid compression method \"{method}\"");
            return Err(wrong(sqlstate::INVALID_PARAMETER_VALUE, message));
        }
        self.notice(accepted::COLUMN_STORAGE);
        Ok(())
    }

    fn alter(&mut self, altered: &mut Altered<'a>, c: &'a AlterTableCmd) -> SqlResult<()> {
        let def = &mut altered.def;
        match c.subtype() {
            AlterTableType::AtSetRelOptions | AlterTableType::AtResetRelOptions => {
                self.storage_parameters(c, accepted::is_table_storage, accepted::TABLE_STORAGE)?
            }
            AlterTableType::AtSetCompression => {
                let n = column_of(def, &c.name)?;
                let method = super::tree::string(need(&c.def)?)?;
                let ty = def.columns[n].ty;
                self.compression(method, ty)?
            }
            AlterTableType::AtSetStorage => {
                let n = column_of(def, &c.name)?;
                let storage = super::tree::string(need(&c.def)?)?;
                let lower = storage.to_ascii_lowercase();
                if !["plain", "external", "extended", "main"].contains(&&*lower) {
                    let message = format!("invalid storage type \"{storage}\"");
                    return Err(wrong(sqlstate::INVALID_PARAMETER_VALUE, message));
                }
                let ty = def.columns[n].ty;
                if lower != "plain" && !is_long(ty) {
                    let name = super::name_of(ty.id);
                    let message = format!("column data type {name} can only have storage PLAIN");
                    return Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message));
                }
                self.notice(accepted::COLUMN_STORAGE)
            }
            AlterTableType::AtSetStatistics => {
                if c.name.is_empty() {
                    let message = "cannot refer to non-index column by number".into();
                    return Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message));
                }
                column_of(def, &c.name)?;
                let target = match c.def.as_deref().map(kind).transpose()? {
                    Some(Kind::Integer(n)) => n.ival,
                    _ => -1,
                };
                if target < -1 {
                    let message = format!("statistics target {target} is too low");
                    return Err(wrong(sqlstate::INVALID_PARAMETER_VALUE, message));
                }
                if target > 10_000 {
                    self.notices.push(("01000", "lowering statistics target to 10000".into()))
                }
                self.notice(accepted::STATISTICS)
            }
            AlterTableType::AtColumnDefault => {
                let n = column_of(def, &c.name)?;
                if def.columns[n].identity().is_some() {
                    let error =
                        wrong(sqlstate::SYNTAX_ERROR, of_relation(&c.name, def, "is an identity column"));
                    let hint = "Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.";
                    return Err(if c.def.is_none() { error.hint(hint) } else { error });
                }
                if def.columns[n].computed().is_some() {
                    let error =
                        wrong(sqlstate::SYNTAX_ERROR, of_relation(&c.name, def, "is a generated column"));
                    let hint = "Use ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION instead.";
                    return Err(if c.def.is_none() { error.hint(hint) } else { error });
                }
                def.columns[n].default = match &c.def {
                    None => None,
                    Some(value) => {
                        let bound = self.default_value(value, &def.columns[n]).map_err(placeless)?;
                        if super::ddl::is_no_default(&bound, &def.columns[n]) {
                            None
                        } else {
                            Some(self.default_text(value, &def.columns[n])?)
                        }
                    }
                }
            }
            AlterTableType::AtSetLogged | AlterTableType::AtSetUnLogged => {
                if def.schema == TEMPORARY {
                    return Err(logged_for_good(&def.name));
                }
                let unlogged = c.subtype() == AlterTableType::AtSetUnLogged;
                self.may_be_logged(&altered.old, unlogged)?;
                altered.def.nature.unlogged = unlogged
            }
            AlterTableType::AtSetNotNull => {
                let n = column_of(def, &c.name)?;
                def.columns[n].not_null = true
            }
            AlterTableType::AtDropNotNull => {
                let n = column_of(def, &c.name)?;
                if def.indexes.iter().any(|i| i.primary && i.columns.iter().any(|c| c.column == n)) {
                    let message = format!("column \"{}\" is in a primary key", c.name);
                    return Err(wrong(sqlstate::INVALID_TABLE_DEFINITION, message));
                }
                if def.columns[n].identity().is_some() {
                    let message = of_relation(&c.name, def, "is an identity column");
                    return Err(wrong(sqlstate::SYNTAX_ERROR, message));
                }
                def.columns[n].not_null = false
            }
            AlterTableType::AtDropConstraint => {
                let before = def.indexes.len() + def.checks.len() + def.foreign.len();
                let goes = |i: &&ondol_engine::IndexDef| i.constraint && i.name == c.name;
                let indexes: Vec<u32> = def.indexes.iter().filter(goes).map(|i| i.id).collect();
                if !indexes.is_empty() {
                    let name = &c.name;
                    let what = format!("constraint {name} on table {}", def.name);
                    let cascade = c.behavior() == DropBehavior::DropCascade;
                    let rested_on = format!("index {name}");
                    altered.gone.push(GoneKey { what, rested_on, indexes, cascade })
                }
                def.indexes.retain(|i| !i.constraint || i.name != c.name);
                def.checks.retain(|k| k.name != c.name);
                def.foreign.retain(|k| k.name != c.name);
                if def.indexes.len() + def.checks.len() + def.foreign.len() == before {
                    let missing = no_constraint(def, &c.name);
                    if !c.missing_ok {
                        return Err(wrong(sqlstate::UNDEFINED_OBJECT, missing));
                    }
                    self.notices.push(("00000", format!("{missing}, skipping")))
                }
            }
            AlterTableType::AtAddConstraint => {
                refuse(c.missing_ok, "ADD CONSTRAINT IF NOT EXISTS")?;
                let Kind::Constraint(k) = kind(need(&c.def)?)? else {
                    return Err(unexpected("ADD CONSTRAINT"));
                };
                self.add_constraint(altered, k)?
            }
            AlterTableType::AtAlterConstraint => {
                let Kind::AtalterConstraint(k) = kind(need(&c.def)?)? else {
                    return Err(unexpected("ALTER CONSTRAINT"));
                };
                refuse(k.alter_enforceability || k.alter_inheritability, "this ALTER CONSTRAINT")?;
                let Some(key) = def.foreign.iter_mut().find(|f| f.name == k.conname) else {
                    if !def.is_constraint(&k.conname) {
                        return Err(wrong(sqlstate::UNDEFINED_OBJECT, no_constraint(def, &k.conname)));
                    }
                    let message = format!(
                        "constraint \"{}\" of relation \"{}\" is not a foreign key constraint",
                        k.conname, def.name
                    );
                    return Err(wrong(sqlstate::WRONG_OBJECT_TYPE, message));
                };
                key.deferrable = k.deferrable || k.initdeferred;
                key.deferred = k.initdeferred
            }
            AlterTableType::AtValidateConstraint => {
                if let Some(key) = def.foreign.iter_mut().find(|f| f.name == c.name) {
                    key.validated = true;
                    return Ok(());
                }
                let Some(n) = def.checks.iter().position(|k| k.name == c.name) else {
                    if !def.is_constraint(&c.name) {
                        return Err(wrong(sqlstate::UNDEFINED_OBJECT, no_constraint(def, &c.name)));
                    }
                    let message = format!(
                        "constraint \"{}\" of relation \"{}\" is not a foreign key or check constraint",
                        c.name, def.name
                    );
                    return Err(wrong(sqlstate::WRONG_OBJECT_TYPE, message));
                };
                if !def.checks[n].validated {
                    def.checks[n].validated = true;
                    altered.validate.push(c.name.clone())
                }
            }
            AlterTableType::AtChangeOwner => {
                let to = c.newowner.as_ref().ok_or_else(|| super::tree::unexpected("OWNER TO"))?;
                let is_other = self.role_id(to)? != self.catalog.owner(altered.old.id);
                super::tree::refuse(is_other, "OWNER TO together with other actions")?
            }
            AlterTableType::AtAddIdentity => self.add_identity(altered, c)?,
            AlterTableType::AtSetIdentity => self.set_identity(altered, c)?,
            AlterTableType::AtDropIdentity => self.drop_identity(altered, c)?,
            AlterTableType::AtDropExpression => self.drop_expression(altered, c)?,
            AlterTableType::AtAddColumn => self.add_column(altered, c)?,
            AlterTableType::AtDropColumn => self.drop_column(altered, c)?,
            AlterTableType::AtAlterColumnType => self.column_type(altered, c)?,
            _ => return Err(unexpected("ALTER TABLE")),
        }
        Ok(())
    }

    fn add_column(&mut self, altered: &mut Altered<'a>, c: &'a AlterTableCmd) -> SqlResult<()> {
        let Kind::ColumnDef(column) = kind(need(&c.def)?)? else { return Err(unexpected("ADD COLUMN")) };
        let (mut keys, mut conditions, mut foreign) = (Vec::new(), Vec::new(), Vec::new());
        let def = &mut altered.def;
        if def.column(&column.colname).is_some() {
            let message =
                format!("column \"{}\" of relation \"{}\" already exists", column.colname, def.name);
            if !c.missing_ok {
                return Err(wrong(sqlstate::DUPLICATE_COLUMN, message));
            }
            self.notices.push(("42701", format!("{message}, skipping")));
            return Ok(());
        }
        let made = self.column_def(&def.full_name(), column, &mut keys, &mut conditions, &mut foreign);
        let column = made.map_err(|e| {
            // But that of a type.
            if e.sqlstate() == sqlstate::UNDEFINED_OBJECT { e } else { placeless(e) }
        })?;
        check_columns(def.shown().len() + 1)?;
        altered.foreign.extend(foreign);
        let value = default_of(self.catalog, &column)?;
        let by_row = value.calls(Volatility::Volatile);
        if by_row || self.new_sequence.is_some() || self.new_generation_of.is_some() {
            // The rows are copied.
            sweep(def, &mut altered.columns)
        }
        // Before those that are hidden (index/H4).
        let n = def.shown().len();
        let sequence = self.new_sequence.take().map(|s| NewSequence { column: n, ..s });
        if let Some(node) = self.new_generation_of.take() {
            def.insert_column(n, column);
            let text = self.new_generation(&def.full_name(), def.shown(), n, node).map_err(placeless)?;
            def.columns[n].generated = Some(Generated::Stored(text.clone()));
            altered.columns.insert(n, AlteredColumn::Computed(text));
            altered.keys.extend(keys);
            return conditions.into_iter().try_for_each(|k| self.add_constraint(altered, k));
        }
        if sequence.is_some() {
            // The text names the sequence when it is made.
            altered.sequences.extend(sequence);
            altered.columns.insert(n, AlteredColumn::Computed(String::new()));
            def.insert_column(n, column);
            altered.keys.extend(keys);
            return conditions.into_iter().try_for_each(|k| self.add_constraint(altered, k));
        }
        let new = match default_text(&column).filter(|_| by_row) {
            Some(text) => AlteredColumn::Computed(text.to_string()),
            None => AlteredColumn::New(Box::new(value)),
        };
        altered.columns.insert(n, new);
        def.insert_column(n, column);
        altered.keys.extend(keys);
        conditions.into_iter().try_for_each(|k| self.add_constraint(altered, k))
    }

    /// ALTER COLUMN ... ADD GENERATED ... AS IDENTITY
    fn add_identity(&mut self, altered: &mut Altered<'a>, c: &'a AlterTableCmd) -> SqlResult<()> {
        let Kind::Constraint(k) = kind(need(&c.def)?)? else { return Err(unexpected("ADD GENERATED")) };
        let def = &mut altered.def;
        let n = column_of(def, &c.name)?;
        let column = &def.columns[n];
        let state = |what: &str| wrong("55000", of_relation(&c.name, def, what));
        let sequence = self.identity_sequence(k, declared(column).id).map_err(placeless)?;
        if !column.not_null {
            return Err(state("must be declared NOT NULL before identity can be added"));
        }
        if column.identity().is_some() || altered.sequences.iter().any(|s| s.column == n) {
            return Err(state("is already an identity column"));
        }
        if column.default.is_some() {
            return Err(state("already has a default value"));
        }
        altered.sequences.push(NewSequence { column: n, ..sequence });
        Ok(())
    }

    /// ALTER COLUMN ... SET GENERATED, SET and RESTART with options of its sequence.
    fn set_identity(&mut self, altered: &mut Altered<'a>, c: &'a AlterTableCmd) -> SqlResult<()> {
        let Kind::List(list) = kind(need(&c.def)?)? else { return Err(unexpected("SET GENERATED")) };
        let def = &mut altered.def;
        let n = column_of(def, &c.name)?;
        let made = altered.sequences.iter_mut().find(|s| s.column == n && s.of != SequenceOf::Serial);
        if let Some(made) = made {
            // It is an identity column since an action of this statement.
            if let Some(always) = said_always(&list.items)? {
                made.of = SequenceOf::Identity { always }
            }
            let (changes, _, _) = self.sequence_options(&list.items, true)?;
            made.changes = std::mem::take(&mut made.changes).then(changes);
            return Ok(());
        }
        let Some(Generated::Identity { always, sequence }) = def.columns[n].generated else {
            let what = of_relation(&c.name, def, "is not an identity column");
            return Err(wrong("55000", what));
        };
        let always = said_always(&list.items)?.unwrap_or(always);
        let (changes, _, _) = self.sequence_options(&list.items, true)?;
        def.columns[n].generated = Some(Generated::Identity { always, sequence });
        if !changes.is_empty() {
            altered.changed_sequences.push((sequence, changes))
        }
        Ok(())
    }

    fn drop_identity(&mut self, altered: &mut Altered<'a>, c: &'a AlterTableCmd) -> SqlResult<()> {
        self.drop_generated(altered, c, |d| d.identity().is_some(), "is not an identity column")
    }

    fn drop_expression(&mut self, altered: &mut Altered<'a>, c: &'a AlterTableCmd) -> SqlResult<()> {
        self.drop_generated(altered, c, |d| d.computed().is_some(), "is not a stored generated column")
    }

    /// `is_not`: what is said of a column that is not of the kind.
    fn drop_generated(
        &mut self,
        altered: &mut Altered<'a>,
        c: &'a AlterTableCmd,
        is_of_kind: fn(&ColumnDef) -> bool,
        is_not: &str,
    ) -> SqlResult<()> {
        let def = &mut altered.def;
        let n = column_of(def, &c.name)?;
        if !is_of_kind(&def.columns[n]) {
            let what = of_relation(&c.name, def, is_not);
            if !c.missing_ok {
                return Err(wrong("55000", what));
            }
            self.notices.push(("00000", format!("{what}, skipping")));
            return Ok(());
        }
        def.columns[n].generated = None;
        Ok(())
    }

    /// What is made of the column goes with it: indexes, constraints.
    fn drop_column(&mut self, altered: &mut Altered<'a>, c: &'a AlterTableCmd) -> SqlResult<()> {
        let def = &mut altered.def;
        let Some(n) = def.column(&c.name) else {
            if known::is_system_column(&c.name) {
                let message = format!("cannot drop system column \"{}\"", c.name);
                return Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message));
            }
            let missing = format!("column \"{}\" of relation \"{}\" does not exist", c.name, def.name);
            if !c.missing_ok {
                return Err(wrong(sqlstate::UNDEFINED_COLUMN, missing));
            }
            self.notices.push(("00000", format!("{missing}, skipping")));
            return Ok(());
        };
        let mut computed = Vec::new();
        for (g, column) in def.shown().iter().enumerate() {
            if g != n && check::generated_of(self.catalog, def, column)?.contains(&(n as u16)) {
                computed.push(column.name.clone())
            }
        }
        if !computed.is_empty() {
            let table = def.name.clone();
            if c.behavior() != DropBehavior::DropCascade {
                let message = format!(
                    "cannot drop column {} of table {table} because other objects depend on it",
                    c.name
                );
                let line = |g: &String| {
                    format!("column {g} of table {table} depends on column {} of table {table}", c.name)
                };
                let lines: Vec<String> = computed.iter().map(line).collect();
                return Err(wrong(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message)
                    .detail(lines.join("\n"))
                    .hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            for g in computed {
                self.notices.push(("00000", format!("drop cascades to column {g} of table {table}")));
                self.remove_column(altered, &g, true)?
            }
        }
        self.remove_column(altered, &c.name, c.behavior() == DropBehavior::DropCascade)
    }

    fn remove_column(&mut self, altered: &mut Altered<'a>, name: &str, cascade: bool) -> SqlResult<()> {
        let def = &mut altered.def;
        let n = column_of(def, name)?;
        let mut checks = Vec::with_capacity(def.checks.len());
        for check in &def.checks {
            if !check::names(self.catalog, def, check, n)? {
                checks.push(check.clone())
            }
        }
        def.checks = checks;
        // Indexes that compute something of it go, too.
        let mut gone = vec![n];
        for (g, column) in def.columns.iter().enumerate().filter(|(_, c)| c.is_hidden()) {
            if check::generated_of(self.catalog, def, column)?.contains(&(n as u16)) {
                gone.push(g)
            }
        }
        let named = |i: &ondol_engine::IndexDef| i.all_columns().any(|c| gone.contains(&c));
        let indexes: Vec<u32> = def.indexes.iter().filter(|i| named(i)).map(|i| i.id).collect();
        if !indexes.is_empty() {
            let what = format!("column {name} of table {}", def.name);
            altered.gone.push(GoneKey { what: what.clone(), rested_on: what, indexes, cascade })
        }
        def.indexes.retain(|i| !named(i));
        altered.sequences.retain(|s| s.column != n);
        altered.sequences.iter_mut().filter(|s| s.column > n).for_each(|s| s.column -= 1);
        def.foreign.retain(|f| !f.columns.contains(&n));
        def.remove_column(n);
        if let AlteredColumn::Kept(was) | AlteredColumn::Cast(was) = altered.columns.remove(n) {
            altered.dropped.push((was, cascade))
        }
        sweep(&mut altered.def, &mut altered.columns);
        Ok(())
    }

    /// What indexes compute of columns that have other types, or other values, is computed anew.
    fn follow_hidden(&mut self, altered: &mut Altered<'a>) -> SqlResult<()> {
        let full = altered.def.full_name();
        for g in altered.def.shown().len()..altered.def.columns.len() {
            let column = &altered.def.columns[g];
            let Some(text) = column.computed() else { continue };
            if !matches!(altered.columns[g], AlteredColumn::Kept(_)) {
                continue;
            }
            // It is about columns that were there before.
            let was = altered.old.shown();
            let place = |n: u16| altered.def.column(&was[usize::from(n)].name).unwrap_or(0);
            let named = check::columns_in(self.catalog, &altered.old.full_name(), was, text)?;
            let is_new = |n: &u16| !matches!(altered.columns[place(*n)], AlteredColumn::Kept(_));
            if !named.iter().any(is_new) {
                continue;
            }
            let shown = altered.def.shown();
            let of = |n: u16| {
                let now = &shown[place(n)];
                match &altered.columns[place(n)] {
                    AlteredColumn::Cast(_) => {
                        let ty = self.catalog.shown_type(Path::public(), now.ty);
                        format!("CAST({} AS {ty})", quote(&now.name))
                    }
                    AlteredColumn::Computed(text) => format!("({text})"),
                    AlteredColumn::Kept(_) | AlteredColumn::New(_) => quote(&now.name),
                }
            };
            let value = check::with_texts(self.catalog, &altered.old.full_name(), was, text, &of)?
                .ok_or_else(|| {
                    SqlError::unsupported("another type of a column that an index computes with")
                })?;
            let (over, label) = (index::over_of(column), index::text_of(column).to_string());
            let bound = check::bind_over_row(self.catalog, &full, shown, over, &label)?;
            if !check::is_constant_of(&bound) {
                let message = format!("functions in {} must be marked IMMUTABLE", over.what());
                return Err(wrong("42P17", message));
            }
            let text = crate::deparse::over_row(self.catalog, &full, shown, over, &label)?;
            index::set_hidden(self.catalog, &mut altered.def, g, over, &text, bound.ty)?;
            altered.def.columns[g].data =
                index::versions_of_hidden(self.catalog, &altered.def, &altered.def.columns[g]);
            altered.columns[g] = AlteredColumn::Computed(value)
        }
        Ok(())
    }

    /// ALTER COLUMN ... TYPE, by the cast that an assignment makes, or by what USING says.
    fn column_type(&mut self, altered: &mut Altered<'a>, c: &'a AlterTableCmd) -> SqlResult<()> {
        let Kind::ColumnDef(new) = kind(need(&c.def)?)? else { return Err(unexpected("ALTER COLUMN TYPE")) };
        if let Some(place) = altered.old.column(&c.name) {
            self.no_view_names(&altered.old, place)?
        }
        let def = &mut altered.def;
        let n = column_of(def, &c.name)?;
        let name = new.type_name.as_ref().ok_or_else(|| unexpected("a column without a type"))?;
        let ty = any_type(self.names(), name).map_err(placeless)?;
        let (declared, ty) = (ty, ty.base());
        let old = def.columns[n].clone();
        if old.computed().is_some() && new.raw_default.is_some() {
            let message = "cannot specify USING when altering type of generated column";
            return Err(wrong(sqlstate::INVALID_COLUMN_DEFINITION, message.into())
                .detail(format!("Column \"{}\" is a generated column.", c.name)));
        }
        if matches!(ty.id, TypeId::UNKNOWN | TypeId::VOID) {
            let message = format!("column \"{}\" has pseudo-type {}", c.name, super::name_of(ty.id));
            return Err(wrong(sqlstate::INVALID_TABLE_DEFINITION, message));
        }
        super::types::check_stored(ty.id)?;
        let mut collation = None;
        if let Some(collate) = &new.coll_clause {
            let name = super::expr::collation_name(&collate.collname)?;
            super::expr::check_collation(name, ty.id, -1)?;
            collation = super::expr::kept_collation(name, ty.id)
        }
        let given = match &new.raw_default {
            None => None,
            Some(node) => {
                let e = self.transform(&altered.old, node)?;
                if !coerce::can_coerce(e.ty.id, ty.id, CastContext::Assignment) {
                    let to = super::name_of(ty.id);
                    let message = format!(
                        "result of USING clause for column \"{}\" cannot be cast automatically to type {to}",
                        c.name
                    );
                    let error = wrong(sqlstate::DATATYPE_MISMATCH, message);
                    return Err(error.hint("You might need to add an explicit cast."));
                }
                let old = &altered.old;
                Some(self.kept_text(node, &|b, node| b.transform(old, node).map(drop))?)
            }
        };
        if given.is_none() && !coerce::can_coerce(old.ty.id, ty.id, CastContext::Assignment) {
            let to = super::name_of(ty.id);
            let message = format!("column \"{}\" cannot be cast automatically to type {to}", c.name);
            let error = wrong(sqlstate::DATATYPE_MISMATCH, message);
            return Err(error.hint(format!("You might need to specify \"USING {}::{ty}\".", quote(&c.name))));
        }
        for other in def.shown() {
            if check::generated_of(self.catalog, def, other)?.contains(&(n as u16)) {
                let message = "cannot alter type of a column used by a generated column";
                let (name, other) = (&c.name, &other.name);
                return Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message.into())
                    .detail(format!("Column \"{name}\" is used by generated column \"{other}\".")));
            }
        }
        if let Some(sequence) = old.identity() {
            let changes =
                SequenceChanges { ty: Some(declared.id), identity: true, ..SequenceChanges::default() };
            changes.apply(None)?;
            altered.changed_sequences.push((sequence, changes))
        }
        let is_point = |i: &&IndexDef| matches!(i.kind, IndexKind::Crtree { .. });
        if def.indexes.iter().filter(is_point).any(|i| i.columns.iter().any(|c| c.column == n)) {
            super::index::check_coordinates(ty, &c.name)?
        }
        let column = &mut def.columns[n];
        column.ty = ty;
        column.domain = (declared != ty).then_some(declared.id);
        column.collation = collation;
        // As in a new table.
        column.packed = true;
        // What a quoted literal is depends on what it stands beside: of a type of another category it would
        // be something else. So the default stays a value of the type that the column had.
        let differs = old.ty.id.def().category != ty.id.def().category;
        if let Some(text) = &old.default {
            if differs && check::has_literal(text) || default_of(self.catalog, column).is_err() {
                let was = self.catalog.shown_type(Path::public(), old.ty);
                column.default = Some(format!("CAST(({text}) AS {was})"))
            }
            let to = super::name_of(ty.id);
            if default_of(self.catalog, column).is_err() {
                let message =
                    format!("default for column \"{}\" cannot be cast automatically to type {to}", c.name);
                return Err(wrong(sqlstate::DATATYPE_MISMATCH, message));
            }
        }
        altered.columns[n] = match (given, &altered.columns[n]) {
            (Some(text), _) => AlteredColumn::Computed(text),
            // Its values are to be looked at.
            (None, AlteredColumn::Kept(_)) if declared != ty && old.domain != Some(declared.id) => {
                AlteredColumn::Computed(quote(&old.name))
            }
            (None, AlteredColumn::Kept(from)) if old.ty != ty => AlteredColumn::Cast(*from),
            (None, same) => same.clone(),
        };
        let was = altered.old.column(&c.name).unwrap_or(n);
        for i in 0..def.checks.len() {
            if !check::names(self.catalog, &altered.old, &def.checks[i], was)? {
                continue;
            }
            if differs && check::has_literal(&def.checks[i].text) {
                // A literal stays one of the type that it had.
                let (old, over) = (&altered.old, check::Over::Predicate);
                let text = &def.checks[i].text;
                let shown =
                    crate::deparse::over_row(self.catalog, &old.full_name(), &old.columns, over, text)?;
                check::columns_in(self.catalog, &def.full_name(), &def.columns, &shown).map_err(placeless)?;
                def.checks[i].text = shown
            }
            let check = &def.checks[i];
            // It may say something else of a value of another type.
            if check.validated {
                altered.validate.push(check.name.clone())
            }
        }
        Ok(())
    }

    /// A view's columns have the types that they had when it was made.
    fn no_view_names(&self, def: &TableDef, place: usize) -> SqlResult<()> {
        let slot = Slot::Column { relation: def.id, column: place as u32 };
        let mut views: Vec<_> = self.catalog.views_over(def.id).collect();
        views.sort_by_key(|v| v.id);
        let Some(view) = views.into_iter().find(|v| slots(&v.query).contains(&slot)) else { return Ok(()) };
        let kind = if self.catalog.materials.contains_key(&view.id) { "materialized view" } else { "view" };
        let (view, column) = (&view.name, &def.columns[place].name);
        let message = "cannot alter type of a column used by a view or rule";
        Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message.into())
            .detail(format!("rule _RETURN on {kind} {view} depends on column \"{column}\"")))
    }

    fn add_constraint(&mut self, altered: &mut Altered<'a>, k: &'a Constraint) -> SqlResult<()> {
        if k.contype() == ConstrType::ConstrCheck {
            let check = self.new_check(&altered.def, k).map_err(placeless)?;
            if check.validated {
                altered.validate.push(check.name.clone())
            }
            altered.def.checks.push(check);
            return Ok(());
        }
        if k.contype() == ConstrType::ConstrForeign {
            let key = self.new_foreign(&altered.def.full_name(), k, None)?;
            altered.foreign.push(key);
            return Ok(());
        }
        if k.contype() == ConstrType::ConstrExclusion {
            altered.exclusions.push(k);
            return Ok(());
        }
        altered.keys.push(self.table_key(k)?);
        Ok(())
    }

    /// The indexes of the keys that are added.
    fn new_keys(&mut self, old: &TableDef, altered: &Altered<'a>) -> SqlResult<Vec<NewKey>> {
        let def = &altered.def;
        // The names of what goes are free for what comes.
        let gone =
            |n: &str| old.indexes.iter().any(|i| i.name == n) && !def.indexes.iter().any(|i| i.name == n);
        let mut keys: Vec<NewKey> = Vec::new();
        for key in &altered.keys {
            let k = key.constraint;
            let primary = key.primary;
            let has_one = def.indexes.iter().any(|i| i.primary) || keys.iter().any(|k| k.index.primary);
            if primary && has_one {
                let message = format!("multiple primary keys for table \"{}\" are not allowed", def.name);
                return Err(wrong(sqlstate::INVALID_TABLE_DEFINITION, message));
            }
            let taken =
                |n: &str| def.is_constraint(n) || keys.iter().any(|k| k.index.name.as_deref() == Some(n));
            let check = |name: &str| match taken(name) {
                true if def.checks.iter().any(|c| c.name == name) => {
                    let message =
                        format!("constraint \"{name}\" for relation \"{}\" already exists", def.name);
                    Err(wrong(sqlstate::DUPLICATE_OBJECT, message))
                }
                true => {
                    let message = format!("relation \"{name}\" already exists");
                    Err(wrong(sqlstate::DUPLICATE_TABLE, message))
                }
                false if gone(name) => Ok(()),
                false => self.no_such_relation(&Name::new(def.schema, name)),
            };
            let given = (!k.conname.is_empty()).then(|| k.conname.clone());
            if !k.indexname.is_empty() {
                let index = self.constraint_index(def, k, primary)?;
                if given.as_deref().is_some_and(|g| g != k.indexname) {
                    check(&k.conname)?;
                }
                let index = NewIndex {
                    name: Some(given.unwrap_or_else(|| k.indexname.clone())),
                    kind: index.kind,
                    unique: true,
                    primary,
                    constraint: true,
                    columns: index.columns.clone(),
                    options: index.options.clone(),
                };
                keys.push(NewKey { index, using: Some(k.indexname.clone()) });
                continue;
            }
            let (columns, options) = key_columns(key, &mut |name| def.column(name))?;
            for place in &columns {
                super::json::check_key(def.columns[place.column].ty.base().id, "btree")?;
            }
            let name = match given {
                Some(name) => {
                    check(&name)?;
                    name
                }
                None => {
                    let (middle, label) = match primary {
                        true => (String::new(), "pkey"),
                        false => (key.names(), "key"),
                    };
                    let is_free = |n: &str| !taken(n) && gone(n);
                    self.choose_free_name(&def.full_name(), &middle, label, &is_free, &taken)
                }
            };
            let index = NewIndex {
                name: Some(name),
                kind: IndexKind::Btree,
                unique: true,
                primary,
                constraint: true,
                columns,
                options,
            };
            keys.push(NewKey { index, using: None });
        }
        Ok(keys)
    }

    /// ALTER TABLE ... RENAME and its kin; `None` for what else can be renamed.
    pub(super) fn rename_in_table(&mut self, s: &'a RenameStmt) -> SqlResult<Option<Statement>> {
        if let Some(done) = self.rename_in_view(s)? {
            return Ok(Some(done));
        }
        let what = s.rename_type();
        let is_material = ObjectType::ObjectMatview
            == match what {
                ObjectType::ObjectColumn => s.relation_type(),
                other => other,
            };
        let tag = match what {
            _ if is_material => "ALTER MATERIALIZED VIEW",
            ObjectType::ObjectIndex => "ALTER INDEX",
            ObjectType::ObjectForeignTable => "ALTER FOREIGN TABLE",
            _ => "ALTER TABLE",
        };
        let of_table = s.relation_type() == ObjectType::ObjectTable || is_material;
        let is_ours = match what {
            ObjectType::ObjectMatview | ObjectType::ObjectForeignTable => true,
            ObjectType::ObjectTable | ObjectType::ObjectIndex | ObjectType::ObjectTabconstraint => true,
            ObjectType::ObjectColumn => of_table,
            _ => false,
        };
        if what == ObjectType::ObjectSequence {
            let relation = s.relation.as_ref().ok_or_else(|| unexpected("RENAME"))?;
            return self.rename_sequence(relation, &s.newname, s.missing_ok, "ALTER SEQUENCE").map(Some);
        }
        if !is_ours {
            return Ok(None);
        }
        let relation = s.relation.as_ref().ok_or_else(|| unexpected("RENAME"))?;
        if what == ObjectType::ObjectTable
            && let Some((_, Relation::Sequence(_))) = self.relation_of(relation)
        {
            return self.rename_sequence(relation, &s.newname, s.missing_ok, tag).map(Some);
        }
        if let Some(skipped) = self.skipped(relation, s.missing_ok, tag) {
            return Ok(Some(skipped));
        }
        self.relation_name(&s.relation)?;
        if is_material {
            self.material_of(relation)?;
        }
        let (from, to) = (s.subname.as_str(), s.newname.as_str());
        use ObjectType::{ObjectForeignTable, ObjectIndex, ObjectMatview, ObjectTable};
        if matches!(what, ObjectTable | ObjectIndex | ObjectMatview | ObjectForeignTable) {
            return self.rename_relation(relation, to, tag).map(Some);
        }
        let table = self.table(relation).map_err(placeless)?;
        let def = match what {
            ObjectType::ObjectColumn => self.rename_column(&table.def, from, to)?,
            _ => self.rename_constraint(&table.def, from, to)?,
        };
        Ok(Some(renamed(&table.def, def, tag)))
    }

    fn rename_relation(
        &mut self,
        relation: &'a RangeVar,
        to: &str,
        tag: &'static str,
    ) -> SqlResult<Statement> {
        let name = &relation.relname;
        if let Some((index, Relation::Index { table })) = self.relation_of(relation)
            && let Some(table) = self.catalog.table(table)
        {
            self.no_such_relation(&Name::new(index.schema, to))?;
            if table.def.is_constraint(name) {
                free_constraint(&table.def, to)?
            }
            let def = rename_index(&table.def, name, to);
            return Ok(renamed(&table.def, def, tag));
        }
        let table = self.any_table(relation).map_err(placeless)?;
        if tag == "ALTER FOREIGN TABLE" && !table.def.is_foreign() {
            let message = format!("\"{name}\" is not a foreign table");
            return Err(wrong(sqlstate::WRONG_OBJECT_TYPE, message));
        }
        let place = Name::new(table.def.schema, to);
        self.no_such_relation(&place)?;
        if is_taken(self.catalog, &place) {
            let message = format!("type \"{to}\" already exists");
            return Err(wrong(sqlstate::DUPLICATE_OBJECT, message));
        }
        let def = TableDef { name: to.to_string(), ..table.def.clone() };
        Ok(renamed(&table.def, def, tag))
    }

    fn rename_column(&mut self, old: &TableDef, from: &str, to: &str) -> SqlResult<TableDef> {
        let Some(n) = old.column(from) else {
            if known::is_system_column(from) {
                let message = format!("cannot rename system column \"{from}\"");
                return Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message));
            }
            return Err(wrong(sqlstate::UNDEFINED_COLUMN, format!("column \"{from}\" does not exist")));
        };
        if old.column(to).is_some() {
            let message = format!("column \"{to}\" of relation \"{}\" already exists", old.name);
            return Err(wrong(sqlstate::DUPLICATE_COLUMN, message));
        }
        check_column_name(to)?;
        let mut def = old.clone();
        def.columns[n].name = to.to_string();
        for i in 0..def.columns.len() {
            if let Some(text) = old.columns[i].computed() {
                let text = check::renamed_generation(self.catalog, old, &def, text)?;
                def.columns[i].generated = Some(Generated::Stored(text))
            }
            if old.columns[i].is_hidden() && old.columns[i].computed().is_some() {
                let (over, ty) = (index::over_of(&old.columns[i]), old.columns[i].ty);
                let text = index::text_of(&old.columns[i]);
                let text = check::renamed_generation(self.catalog, old, &def, text)?;
                index::set_hidden(self.catalog, &mut def, i, over, &text, ty)?
            }
        }
        for i in 0..def.checks.len() {
            def.checks[i].text = check::renamed(self.catalog, old, &def, &old.checks[i])?
        }
        Ok(def)
    }

    fn rename_constraint(&mut self, old: &TableDef, from: &str, to: &str) -> SqlResult<TableDef> {
        if let Some(n) = old.checks.iter().position(|c| c.name == from) {
            free_constraint(old, to)?;
            let mut def = old.clone();
            def.checks[n].name = to.to_string();
            return Ok(def);
        }
        if let Some(n) = old.foreign.iter().position(|f| f.name == from) {
            free_constraint(old, to)?;
            let mut def = old.clone();
            def.foreign[n].name = to.to_string();
            return Ok(def);
        }
        if !old.is_constraint(from) {
            let message = format!("constraint \"{from}\" for table \"{}\" does not exist", old.name);
            return Err(wrong(sqlstate::UNDEFINED_OBJECT, message));
        }
        // The constraint's index has its name.
        self.no_such_relation(&Name::new(old.schema, to))?;
        free_constraint(old, to)?;
        Ok(rename_index(old, from, to))
    }
}

fn logged_for_good(name: &str) -> SqlError {
    let message = format!("cannot change logged status of table \"{name}\" because it is temporary");
    wrong(sqlstate::INVALID_TABLE_DEFINITION, message)
}

fn free_constraint(def: &TableDef, name: &str) -> SqlResult<()> {
    if def.is_constraint(name) {
        let message = format!("constraint \"{name}\" for relation \"{}\" already exists", def.name);
        return Err(wrong(sqlstate::DUPLICATE_OBJECT, message));
    }
    Ok(())
}

fn rename_index(old: &TableDef, from: &str, to: &str) -> TableDef {
    let mut def = old.clone();
    def.indexes.iter_mut().filter(|i| i.name == from).for_each(|i| i.name = to.to_string());
    def
}

pub(super) fn renamed(old: &TableDef, def: TableDef, tag: &'static str) -> Statement {
    let columns = as_it_is(&def);
    let def = (def != *old).then_some(def);
    Statement::AlterTable(AlterTable { def, columns, ..AlterTable::new(old.full_name(), tag) })
}
