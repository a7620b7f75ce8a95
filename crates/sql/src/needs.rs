//! What a statement needs to be allowed: found when it is bound, kept beside its plan, and looked at in the
//! dictionary for the role that runs it.
//!
//! - **D1** A need names what it is about by numbers, and whose rights count: those of whoever runs the
//!   statement, or those of the owner of a view or a function in which it stands. Owners are looked up when
//!   the need is, so that a plan outlives a change of owners.
//! - **D2** A plan has the needs of its own text. Those of functions that it calls are theirs: they are
//!   looked at together with the right to call them.
//! - **D3** Needs are looked at once for each role, dictionary and plan, by who takes the plan
//!   (ondol/session/rights).
//! - **D4** Who reads no column of a table needs the right to read some column of it.
use ondol_engine::acl::{self, Privileges};
use ondol_engine::{Catalog, Name, RightsOf, schema_id};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::collections::BTreeSet;

/// Whose rights count (D1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    Caller,
    /// The owner of the view or the function of that number.
    Owner(u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub who: Who,
    pub what: What,
}

/// Columns, by their places; none: some column, whichever (D4).
pub type Columns = Option<BTreeSet<u16>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// All of these of a relation as a whole, and what is said of its columns.
    Relation {
        id: u32,
        whole: Privileges,
        select: Columns,
        insert: Columns,
        update: Columns,
        refer: Columns,
    },
    /// One of these of a relation as a whole.
    AnyOf {
        id: u32,
        privileges: Privileges,
    },
    /// A relation of the catalogue that superusers alone read.
    System(&'static str),
    Function(u32),
    /// By the schema's number.
    Schema {
        id: u32,
        privileges: Privileges,
    },
    Type(u32),
    Database(Privileges),
    /// To be the owner, or that of the schema of this number, which is where it is.
    Owner {
        id: u32,
        word: &'static str,
        name: String,
        schema: Option<u32>,
    },
    /// To be a member of a role.
    Member(u32),
    /// To have the rights of a role, or else the error.
    RightsOf {
        role: u32,
        error: SqlError,
    },
    /// To be a superuser, or else the error.
    Superuser(SqlError),
}

impl Need {
    pub fn of_caller(what: What) -> Need {
        Need { who: Who::Caller, what }
    }
    pub fn owner(id: u32, word: &'static str, name: impl Into<String>) -> Need {
        Need::of_caller(What::Owner { id, word, name: name.into(), schema: None })
    }
    /// To make something in a schema.
    pub fn create_in(schema: u32) -> Need {
        Need::of_caller(What::Schema { id: schema, privileges: acl::CREATE })
    }
    pub fn relation(who: Who, id: u32, whole: Privileges) -> Need {
        let (select, insert, update, refer) = (None, None, None, None);
        Need { who, what: What::Relation { id, whole, select, insert, update, refer } }
    }
}

/// The error of who may not.
pub fn denied(word: &str, name: &str) -> SqlError {
    SqlError::new(sqlstate::INSUFFICIENT_PRIVILEGE, format!("permission denied for {word} {name}"))
}

pub fn not_owner(word: &str, name: &str) -> SqlError {
    SqlError::new(sqlstate::INSUFFICIENT_PRIVILEGE, format!("must be owner of {word} {name}"))
}

/// The names of a relation's columns.
fn column_names(catalog: &Catalog, id: u32) -> Vec<String> {
    if let Some(t) = catalog.table_by_id(id) {
        return t.def.shown().iter().map(|c| c.name.clone()).collect();
    }
    match catalog.view_by_id(id) {
        Some(v) => v.columns.iter().map(|c| c.name.clone()).collect(),
        None => Vec::new(),
    }
}

/// Whether a role has a privilege of these columns of a relation.
fn has_columns(
    catalog: &Catalog,
    role: u32,
    (kind, id): (RightsOf, u32),
    columns: &BTreeSet<u16>,
    privilege: Privileges,
) -> bool {
    if catalog.privileges(role, kind, id, privilege) == privilege {
        return true;
    }
    let has = |name: &str| catalog.column_privileges(role, id, name, privilege) == privilege;
    let names = column_names(catalog, id);
    match columns.is_empty() {
        true => names.iter().any(|n| has(n)),
        // A column that has no name of its own, as `ctid`, is everybody's who may read another.
        false => columns.iter().all(|c| match names.get(usize::from(*c)) {
            Some(n) => has(n),
            None => names.iter().any(|n| has(n)),
        }),
    }
}

/// Looks at one need for a role that is no superuser.
fn look(catalog: &Catalog, role: u32, what: &What) -> SqlResult<()> {
    let is = |ok: bool, error: &dyn Fn() -> SqlError| if ok { Ok(()) } else { Err(error()) };
    match what {
        What::Relation { id, whole, select, insert, update, refer } => {
            let Some((kind, name)) = catalog.relation_rights(*id) else { return Ok(()) };
            if ondol_engine::temporary::is_temporary(*id) && catalog.owner(*id) == role {
                return Ok(());
            }
            let parts = [
                (select, acl::SELECT),
                (insert, acl::INSERT),
                (update, acl::UPDATE),
                (refer, acl::REFERENCES),
            ];
            let has = catalog.privileges(role, kind, *id, *whole) == *whole
                && parts.iter().all(|(columns, privilege)| {
                    columns.as_ref().is_none_or(|c| has_columns(catalog, role, (kind, *id), c, *privilege))
                });
            is(has, &|| denied(kind.word(), &name.name))
        }
        What::AnyOf { id, privileges } => {
            let Some((kind, name)) = catalog.relation_rights(*id) else { return Ok(()) };
            is(catalog.privileges(role, kind, *id, *privileges) != 0, &|| denied(kind.word(), &name.name))
        }
        What::System(name) => {
            let is_view = crate::catalog::relation("pg_catalog", name).is_some_and(|r| r.is_view);
            Err(denied(if is_view { "view" } else { "table" }, name))
        }
        What::Function(id) => {
            let Some(f) = catalog.functions.get(id) else { return Ok(()) };
            let has = catalog.privileges(role, RightsOf::Function, *id, acl::EXECUTE) != 0;
            is(has, &|| denied("function", &f.name))
        }
        What::Schema { id, privileges } => {
            let name = catalog.schema_name(*id);
            is(catalog.may_use_schema(role, *id, *privileges), &|| denied("schema", name))
        }
        What::Type(number) => {
            let has = catalog.privileges(role, RightsOf::Type, *number, acl::USAGE) != 0;
            let of = |t: &ondol_types::TypeId| t.user().filter(|u| u.number == *number);
            let name = catalog.types.values().find_map(of).map_or("", |u| &*u.name);
            is(has, &|| denied("type", name))
        }
        What::Database(privileges) => {
            let id = ondol_engine::rights::DATABASE;
            let has = catalog.privileges(role, RightsOf::Database, id, *privileges) == *privileges;
            is(has, &|| denied("database", "postgres"))
        }
        What::Owner { id, word, name, schema } => {
            let of_schema = |s: &u32| catalog.owns(role, schema_id(*s));
            let has = catalog.owns(role, *id) || schema.as_ref().is_some_and(of_schema);
            is(has, &|| not_owner(word, name))
        }
        What::Member(of) => is(catalog.is_member(role, *of), &|| {
            let message = format!("must be member of role \"{}\"", catalog.role_name(*of));
            SqlError::new(sqlstate::INSUFFICIENT_PRIVILEGE, message)
        }),
        What::RightsOf { role: of, error } => is(catalog.has_rights_of(role, *of), &|| error.clone()),
        What::Superuser(error) => Err(error.clone()),
    }
}

/// Whether all who run statements may do everything: nobody is told apart.
pub fn is_plain(catalog: &Catalog, role: u32) -> bool {
    role == ondol_engine::role::BOOTSTRAP && catalog.rights.is_empty()
}

/// Looks at needs for a role (D3); `function` gives those of a function that is called (D2).
pub fn check(
    catalog: &Catalog,
    role: u32,
    needs: &[Need],
    function: &mut dyn FnMut(u32) -> SqlResult<Vec<Need>>,
) -> SqlResult<()> {
    let mut seen = BTreeSet::new();
    check_within(catalog, role, needs, function, &mut seen)
}

fn check_within(
    catalog: &Catalog,
    role: u32,
    needs: &[Need],
    function: &mut dyn FnMut(u32) -> SqlResult<Vec<Need>>,
    seen: &mut BTreeSet<(u32, u32)>,
) -> SqlResult<()> {
    for need in needs {
        let who = match need.who {
            Who::Caller => role,
            Who::Owner(id) => catalog.owner(id),
        };
        if !catalog.is_superuser(who) {
            look(catalog, who, &need.what)?
        }
        if let What::Function(id) = need.what {
            let definer = catalog.functions.get(&id).is_some_and(|f| f.definer);
            let within = if definer { catalog.owner(id) } else { who };
            if seen.insert((id, within)) {
                let needs = function(id)?;
                check_within(catalog, within, &needs, function, seen)?
            }
        }
    }
    Ok(())
}

/// The number whose rights a relation has, what it is called, and its name.
pub fn relation_owner(
    catalog: &Catalog,
    name: &Name,
    schema: Option<u32>,
    word: Option<&'static str>,
) -> Option<Need> {
    let relation = catalog.relations.get(name)?;
    let (kind, id) = catalog.rights_number(relation)?;
    let word = match relation {
        ondol_engine::Relation::Index { .. } => "index",
        _ => word.unwrap_or(kind.word()),
    };
    Some(Need::of_caller(What::Owner { id, word, name: name.name.clone(), schema }))
}

// ---- stored ----------------------------------------------------------------------------------------------

/// As stored code has them; `None`: it has a need that no stored code has.
pub(crate) fn encode(needs: &[Need]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let word = |out: &mut Vec<u8>, n: u32| out.extend_from_slice(&n.to_le_bytes());
    for need in needs {
        let (kind, id, privileges, columns): (u8, u32, Privileges, Vec<&Columns>) = match &need.what {
            What::Relation { id, whole, select, insert, update, refer } => {
                (0, *id, *whole, vec![select, insert, update, refer])
            }
            What::Function(id) => (1, *id, 0, vec![]),
            What::Schema { id, privileges } => (2, *id, *privileges, vec![]),
            What::AnyOf { id, privileges } => (3, *id, *privileges, vec![]),
            _ => return None,
        };
        out.push(kind);
        word(
            &mut out,
            match need.who {
                Who::Caller => 0,
                Who::Owner(id) => id,
            },
        );
        word(&mut out, id);
        word(&mut out, privileges.into());
        for c in columns {
            match c {
                None => word(&mut out, u32::MAX),
                Some(c) => {
                    word(&mut out, c.len() as u32);
                    c.iter().for_each(|n| word(&mut out, (*n).into()))
                }
            }
        }
    }
    Some(out)
}

pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Need>> {
    let mut rest = bytes;
    fn word(rest: &mut &[u8]) -> Option<u32> {
        let (first, more) = rest.split_first_chunk::<4>()?;
        *rest = more;
        Some(u32::from_le_bytes(*first))
    }
    let mut needs = Vec::new();
    while let Some((kind, more)) = rest.split_first() {
        rest = more;
        let who = match word(&mut rest)? {
            0 => Who::Caller,
            id => Who::Owner(id),
        };
        let id = word(&mut rest)?;
        let privileges = Privileges::try_from(word(&mut rest)?).ok()?;
        let mut columns = || -> Option<Columns> {
            let n = word(&mut rest)?;
            if n == u32::MAX {
                return Some(None);
            }
            let mut all = BTreeSet::new();
            for _ in 0..n {
                all.insert(u16::try_from(word(&mut rest)?).ok()?);
            }
            Some(Some(all))
        };
        let what = match kind {
            0 => {
                let (select, insert, update, refer) = (columns()?, columns()?, columns()?, columns()?);
                What::Relation { id, whole: privileges, select, insert, update, refer }
            }
            1 => What::Function(id),
            2 => What::Schema { id, privileges },
            3 => What::AnyOf { id, privileges },
            _ => return None,
        };
        needs.push(Need { who, what })
    }
    Some(needs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_stored_with_code() {
        let relation = What::Relation {
            id: 7,
            whole: acl::DELETE,
            select: Some(BTreeSet::from([1, 2])),
            insert: None,
            update: Some(BTreeSet::new()),
            refer: None,
        };
        let needs = vec![
            Need { who: Who::Owner(9), what: relation },
            Need::of_caller(What::Function(3)),
            Need::of_caller(What::Schema { id: 2200, privileges: acl::USAGE }),
            Need::of_caller(What::AnyOf { id: 8, privileges: acl::UPDATE }),
        ];
        let bytes = encode(&needs).expect("all can be stored");
        assert_eq!(decode(&bytes), Some(needs));
        assert_eq!(decode(&bytes[..bytes.len() - 1]), None, "cut off");
        let never = Need::of_caller(What::Superuser(denied("table", "t")));
        assert_eq!(encode(&[never]), None);
    }
}
