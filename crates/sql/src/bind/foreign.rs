//! FOREIGN KEY constraints: what is written, and what it comes to once both tables are there.
//!
//! A constraint is bound in two steps: the statement's text gives names (here), and the statement, when it
//! runs, looks them up in the dictionary as it is then ([`resolve`]): a table may refer to itself, and to a
//! key that it gets by the same statement.
use super::tree::{at, refuse, refuse_at, strings};
use super::{Binder, name_of};
use crate::bound::NewForeign;
use crate::parse::tree::Constraint;
use ondol_engine::name::TEMPORARY;
use ondol_engine::{Catalog, ForeignDef, IndexDef, KeyAction, Name, TableDef, can_name};
use ondol_types::{SqlError, SqlResult, known, sqlstate};

fn action(letter: &str) -> KeyAction {
    match letter {
        "r" => KeyAction::Restrict,
        "c" => KeyAction::Cascade,
        "n" => KeyAction::SetNull,
        "d" => KeyAction::SetDefault,
        _ => KeyAction::NoAction,
    }
}

fn wrong(state: &'static str, message: String) -> SqlError {
    SqlError::new(state, message)
}

impl<'a> Binder<'a> {
    /// A constraint as it is written; that of a column is of that column.
    pub(super) fn new_foreign(
        &mut self,
        table: &Name,
        k: &'a Constraint,
        column: Option<&str>,
    ) -> SqlResult<NewForeign> {
        let relation = self.relation_name(&k.pktable)?;
        refuse_at(k.fk_with_period || k.pk_with_period, "PERIOD", k.location)?;
        refuse_at(!k.is_enforced, "NOT ENFORCED", k.location)?;
        refuse(!matches!(k.fk_matchtype.as_str(), "" | "s" | "f"), "MATCH PARTIAL")?;
        let schema = &relation.schemaname;
        let own = relation.relname == table.name
            && (schema.is_empty() || self.catalog.schema(schema).is_some_and(|s| s.number == table.schema));
        let referenced = match self.table(relation) {
            // Its name comes before all others.
            _ if own && table.schema == TEMPORARY => table.clone(),
            Ok(found) if found.def.is_material() => {
                let message = format!("referenced relation \"{}\" is not a table", found.def.name);
                return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message));
            }
            Ok(found) => found.def.full_name(),
            // It is made by this statement.
            Err(_) if own => table.clone(),
            Err(mut e) => {
                e.0.position = None;
                return Err(e);
            }
        };
        let owned = |list: Vec<&str>| list.into_iter().map(str::to_string).collect();
        let columns = match column {
            Some(c) => vec![c.to_string()],
            None => owned(strings(&k.fk_attrs)?),
        };
        Ok(NewForeign {
            name: (!k.conname.is_empty()).then(|| k.conname.clone()),
            columns,
            table: referenced,
            referenced: owned(strings(&k.pk_attrs)?),
            full: k.fk_matchtype == "f",
            on_delete: action(&k.fk_del_action),
            on_update: action(&k.fk_upd_action),
            set: owned(strings(&k.fk_del_set_cols)?),
            deferrable: k.deferrable || k.initdeferred,
            deferred: k.initdeferred,
            validated: !k.skip_validation,
        })
    }
}

/// DEFERRABLE and its kin behind a constraint of a column.
/// `kept`: NOT DEFERRABLE was said before.
pub(super) fn defer(
    key: Option<&mut NewForeign>,
    what: crate::parse::tree::ConstrType,
    kept: bool,
    here: i32,
) -> SqlResult<()> {
    use crate::parse::tree::ConstrType;
    let clause = match what {
        ConstrType::ConstrAttrDeferrable => "DEFERRABLE",
        ConstrType::ConstrAttrNotDeferrable => "NOT DEFERRABLE",
        ConstrType::ConstrAttrDeferred => "INITIALLY DEFERRED",
        _ => "INITIALLY IMMEDIATE",
    };
    let Some(key) = key else {
        return Err(at(wrong(sqlstate::SYNTAX_ERROR, format!("misplaced {clause} clause")), here));
    };
    match what {
        ConstrType::ConstrAttrDeferrable => key.deferrable = true,
        ConstrType::ConstrAttrNotDeferrable | ConstrType::ConstrAttrDeferred
            if kept && what == ConstrType::ConstrAttrDeferred
                || key.deferred && what == ConstrType::ConstrAttrNotDeferrable =>
        {
            let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
            return Err(at(wrong(sqlstate::SYNTAX_ERROR, message.into()), here));
        }
        ConstrType::ConstrAttrDeferred => (key.deferrable, key.deferred) = (true, true),
        _ => {}
    }
    Ok(())
}

/// What a constraint that is added to `child` comes to.
pub fn resolve(catalog: &Catalog, child: &TableDef, new: &NewForeign) -> SqlResult<ForeignDef> {
    let missing = |name: &Name| {
        let message = format!("relation \"{}\" does not exist", name.name);
        wrong(sqlstate::UNDEFINED_TABLE, message)
    };
    let parent = catalog.table(&new.table).ok_or_else(|| missing(&new.table))?;
    let parent = if parent.def.id == child.id { child } else { &parent.def };
    // Nothing that stays may rest on what a session has for itself, nor others know of that.
    let kinds = |def: &TableDef| (def.schema == TEMPORARY, def.nature.unlogged);
    let (own, others) = match (kinds(child), kinds(parent)) {
        ((true, _), (false, _)) => ("temporary", "temporary"),
        ((_, true), (true, _)) => ("unlogged", "permanent or unlogged"),
        ((false, false), (true, _) | (_, true)) => ("permanent", "permanent"),
        _ => ("", ""),
    };
    if !own.is_empty() {
        let message = format!("constraints on {own} tables may reference only {others} tables");
        return Err(wrong(sqlstate::INVALID_TABLE_DEFINITION, message));
    }
    let find = |def: &TableDef, names: &[String]| -> SqlResult<Vec<usize>> {
        let mut places = Vec::with_capacity(names.len());
        for name in names {
            let Some(n) = def.column(name) else {
                if known::is_system_column(name) {
                    let message = "system columns cannot be used in foreign keys";
                    return Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message.into()));
                }
                let message =
                    format!("column \"{name}\" referenced in foreign key constraint does not exist");
                return Err(wrong(sqlstate::UNDEFINED_COLUMN, message));
            };
            places.push(n)
        }
        Ok(places)
    };
    let columns = find(child, &new.columns)?;
    if columns.len() > 32 {
        return Err(wrong("54011", "cannot have more than 32 keys in a foreign key".into()));
    }
    let set = new.set.iter().map(|name| {
        let place = child.column(name).ok_or_else(|| {
            let message = format!("column \"{name}\" referenced in foreign key constraint does not exist");
            wrong(sqlstate::UNDEFINED_COLUMN, message)
        })?;
        if !columns.contains(&place) {
            let message =
                format!("column \"{name}\" referenced in ON DELETE SET action must be part of foreign key");
            return Err(wrong("42P10", message));
        }
        Ok(place)
    });
    let set = set.collect::<SqlResult<Vec<usize>>>()?;
    let (index, named): (&IndexDef, Vec<usize>) = if new.referenced.is_empty() {
        let Some(primary) = parent.indexes.iter().find(|i| i.primary) else {
            let message = format!("there is no primary key for referenced table \"{}\"", parent.name);
            return Err(wrong(sqlstate::UNDEFINED_OBJECT, message));
        };
        (primary, primary.columns.iter().map(|c| c.column).collect())
    } else {
        let named = find(parent, &new.referenced)?;
        if named.iter().enumerate().any(|(n, c)| named[..n].contains(c)) {
            let message = "foreign key referenced-columns list must not contain duplicates";
            return Err(wrong(INVALID_FOREIGN_KEY, message.into()));
        }
        let is_key = |i: &&IndexDef| {
            i.unique && i.columns.len() == named.len() && i.columns.iter().all(|c| named.contains(&c.column))
        };
        // The primary key before others.
        let mut keys: Vec<&IndexDef> = parent.indexes.iter().filter(is_key).collect();
        keys.sort_by_key(|i| (!i.primary, i.id));
        let Some(key) = keys.first() else {
            let message = format!(
                "there is no unique constraint matching given keys for referenced table \"{}\"",
                parent.name
            );
            return Err(wrong(INVALID_FOREIGN_KEY, message));
        };
        (key, named)
    };
    if named.len() != columns.len() {
        let message = "number of referencing and referenced columns for foreign key disagree";
        return Err(wrong(INVALID_FOREIGN_KEY, message.into()));
    }
    let parts =
        named.iter().map(|c| index.columns.iter().position(|i| i.column == *c).unwrap_or(0)).collect();
    let name = match &new.name {
        Some(name) if child.is_constraint(name) => {
            let message = format!("constraint \"{name}\" for relation \"{}\" already exists", child.name);
            return Err(wrong(sqlstate::DUPLICATE_OBJECT, message));
        }
        Some(name) => name.clone(),
        None => free_name(catalog, child, &new.columns.join("_")),
    };
    for (c, p) in columns.iter().zip(&named) {
        let (from, to) = (&child.columns[*c], &parent.columns[*p]);
        if !can_name(from.ty.id, to.ty.id) {
            let message = format!("foreign key constraint \"{name}\" cannot be implemented");
            return Err(wrong(sqlstate::DATATYPE_MISMATCH, message).detail(format!(
                "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                from.name,
                to.name,
                name_of(from.ty.id),
                name_of(to.ty.id)
            )));
        }
    }
    Ok(ForeignDef {
        id: 0,
        name,
        columns,
        table: parent.id,
        index: index.id,
        parts,
        full: new.full,
        on_delete: new.on_delete,
        on_update: new.on_update,
        set,
        deferrable: new.deferrable,
        deferred: new.deferred,
        validated: new.validated,
    })
}

/// PostgreSQL's condition invalid_foreign_key.
const INVALID_FOREIGN_KEY: &str = "42830";

/// A name like `t_a_fkey` that no constraint has.
fn free_name(catalog: &Catalog, child: &TableDef, columns: &str) -> String {
    let taken = |name: &str| {
        child.is_constraint(name)
            || catalog.relations.is_constraint(&Name::new(child.schema, name), child.id)
            || (catalog.types.values().filter_map(|t| t.user()).filter(|u| u.schema == child.schema))
                .any(|u| u.parts.iter().any(|p| p.name == name))
    };
    let label = |n: u32| if n == 0 { "fkey".to_string() } else { format!("fkey{n}") };
    let mut names = (0..).map(|n| super::ddl::object_name(&child.name, columns, &label(n)));
    names.find(|n| !taken(n)).unwrap_or_default()
}
