//! Roles, memberships and privileges: their relations, and what functions say of them.

use super::fixed;
use super::name;
use super::rows::{Char, Each, Name, Oid, Wanted, row};
use super::sight::{DATABASE, Object, Sight, oid_of, schema_oid};
use ondol_engine::acl::{self, Acl, AclItem, AclKind, Privileges, letters};
use ondol_engine::rights;
use ondol_engine::role::{BOOTSTRAP, PUBLIC_ROLE, RoleDef};
use ondol_engine::settings::Scope;
use ondol_engine::{Catalog, RightsOf, schema_id};
use ondol_types::catalog::{name as names, oid};
use ondol_types::func::FuncId;
use ondol_types::func::system::id;
use ondol_types::objects::ObjectKind;
use ondol_types::{SqlError, SqlResult, TypeId, Value, ValueRef, array, sqlstate};

fn until(r: &RoleDef) -> Value {
    r.valid_until.map_or(Value::Null, Value::Timestamptz)
}

pub fn authid(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    sight.catalog.roles.values().try_for_each(|r| {
        each(&row![
            Oid(r.id),
            Name(&r.name),
            r.superuser,
            r.inherit,
            r.create_role,
            r.create_db,
            r.login,
            r.replication,
            r.bypass_rls,
            r.connection_limit,
            r.password.as_deref(),
            until(r),
        ])
    })
}

pub fn roles(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    sight.catalog.roles.values().try_for_each(|r| {
        each(&row![
            Name(&r.name),
            r.superuser,
            r.inherit,
            r.create_role,
            r.create_db,
            r.login,
            r.replication,
            r.connection_limit,
            "********",
            until(r),
            r.bypass_rls,
            config(sight, Scope { role: r.id, in_database: false })?,
            Oid(r.id),
        ])
    })
}

/// What sessions begin with, as `name=value`.
fn config(sight: &Sight<'_>, scope: Scope) -> SqlResult<Value> {
    let Some(all) = sight.catalog.settings.get(&scope) else { return Ok(Value::Null) };
    let texts: Vec<Value> = all.iter().map(|(n, v)| Value::Text(format!("{n}={v}"))).collect();
    array::of_values(TypeId::TEXT, &texts)
}

pub fn settings(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    sight.catalog.settings.keys().try_for_each(|scope| {
        let database = if scope.in_database { DATABASE } else { 0 };
        each(&row![Oid(database), Oid(scope.role), config(sight, *scope)?])
    })
}

pub fn members(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    sight.catalog.roles.values().try_for_each(|r| {
        r.memberships.iter().try_for_each(|m| each(&row![Oid(m.role), Oid(r.id), Oid(m.grantor), m.admin]))
    })
}

pub fn groups(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    sight.catalog.roles.values().filter(|r| !r.login).try_for_each(|r| {
        let members: Vec<Value> = sight.catalog.members_of(r.id).map(|(m, _)| oid::oid(m.id)).collect();
        each(&row![Name(&r.name), Oid(r.id), array::of_values(TypeId::OID, &members)?])
    })
}

pub fn defaults(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    // None has a number in the dictionary: they are counted.
    let mut number = 0;
    for r in sight.catalog.roles.values() {
        for ((schema, letter), acl) in &r.defaults {
            number += 1;
            let of = if *schema == 0 { 0 } else { schema_oid(*schema) };
            let list = list(sight.catalog, acl)?;
            each(&row![Oid(number), Oid(r.id), Oid(of), Char(*letter as u8), list])?
        }
    }
    Ok(())
}

/// A role's name as lists of privileges have it.
fn quoted(name: &str) -> String {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if plain { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn role_text(catalog: &Catalog, role: u32) -> String {
    match catalog.role(role) {
        Some(r) => quoted(&r.name),
        None => role.to_string(),
    }
}

/// An item as text: `grantee=privileges/grantor`.
pub fn item_text(catalog: &Catalog, item: &AclItem) -> String {
    let grantee = match item.grantee {
        PUBLIC_ROLE => String::new(),
        role => role_text(catalog, role),
    };
    let grantor = role_text(catalog, item.grantor);
    format!("{grantee}={}/{grantor}", letters(item.privileges, item.options))
}

fn item_value(catalog: &Catalog, item: &AclItem) -> Value {
    Value::Opaque(TypeId::ACLITEM, item_text(catalog, item).into_bytes().into())
}

/// A list as the value of a column.
pub fn list(catalog: &Catalog, acl: &Acl) -> SqlResult<Value> {
    let items: Vec<Value> = acl.items.iter().map(|i| item_value(catalog, i)).collect();
    array::of_values(TypeId::ACLITEM, &items)
}

/// The list of an object, if it has one of its own.
pub fn list_of(sight: &Sight<'_>, id: u32) -> SqlResult<Value> {
    match sight.catalog.rights.get(&id) {
        Some(r) => r.acl.as_ref().map_or(Ok(Value::Null), |a| list(sight.catalog, a)),
        None if id == schema_id(ondol_engine::name::PUBLIC) => {
            let usual = ondol_engine::ObjectRights::usual(id);
            usual.acl.as_ref().map_or(Ok(Value::Null), |a| list(sight.catalog, a))
        }
        None => Ok(Value::Null),
    }
}

/// That of a schema of PostgreSQL's own.
pub fn list_of_system(sight: &Sight<'_>) -> SqlResult<Value> {
    let mut acl = Acl::usual(AclKind::Schema, BOOTSTRAP);
    let (grantee, grantor) = (PUBLIC_ROLE, BOOTSTRAP);
    acl.items.push(AclItem { grantee, grantor, privileges: acl::USAGE, options: 0 });
    list(sight.catalog, &acl)
}

/// That of a column.
pub fn list_of_column(sight: &Sight<'_>, id: u32, column: &str) -> SqlResult<Value> {
    let rights = sight.catalog.rights.get(&id);
    let acl = rights.and_then(|r| r.columns.get(column));
    acl.map_or(Ok(Value::Null), |a| list(sight.catalog, a))
}

/// The number whose rights a relation has; none of the catalogue's.
pub fn rights_id(object: &Object) -> Option<u32> {
    Some(match object {
        Object::Table(t) | Object::Index(t, _) => t.def.id,
        Object::Sequence(s) => s.def.id,
        Object::View(v) => v.id,
        Object::Composite(u) => u.number,
        Object::System(_) => return None,
    })
}

/// The owner of a relation.
pub fn owner_of(sight: &Sight<'_>, object: &Object) -> u32 {
    rights_id(object).map_or(BOOTSTRAP, |id| sight.catalog.owner(id))
}

fn wrong(message: String) -> SqlError {
    SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

/// Reads an item. What follows a text of which it is the beginning is left to the caller.
pub fn read_item(catalog: &Catalog, text: &str) -> SqlResult<AclItem> {
    let bad = |message: String| SqlError::new("22P02", message);
    let mut rest = text.trim();
    for word in ["group ", "user "] {
        rest = rest.strip_prefix(word).map_or(rest, str::trim_start)
    }
    let take_name = |rest: &mut &str| -> SqlResult<String> {
        let mut name = String::new();
        let mut inside = false;
        let mut chars = rest.char_indices().peekable();
        let mut end = rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' if inside && chars.peek().is_some_and(|n| n.1 == '"') => {
                    chars.next();
                    name.push('"')
                }
                '"' => inside = !inside,
                c if inside || c.is_alphanumeric() || c == '_' => name.push(c),
                _ => {
                    end = at;
                    break;
                }
            }
        }
        *rest = &rest[end..];
        Ok(name)
    };
    let role = |name: &str| {
        let missing = || SqlError::new(sqlstate::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"));
        catalog.role_named(name).map(|r| r.id).ok_or_else(missing)
    };
    let grantee = take_name(&mut rest)?;
    let Some(after) = rest.strip_prefix('=') else {
        return Err(bad("missing \"=\" sign".into()));
    };
    rest = after;
    let (mut privileges, mut options, mut last): (Privileges, Privileges, Privileges) = (0, 0, 0);
    while let Some(c) = rest.chars().next().filter(|c| c.is_ascii_alphabetic() || *c == '*') {
        match c {
            '*' => options |= last,
            c => {
                let known = || bad("invalid mode character: must be one of \"arwdDxtXUCTcsA\"".into());
                last = acl::of_letter(c).ok_or_else(known)?;
                privileges |= last
            }
        }
        rest = &rest[1..]
    }
    let grantee = if grantee.is_empty() { PUBLIC_ROLE } else { role(&grantee)? };
    let grantor = match rest.strip_prefix('/') {
        Some(after) => {
            rest = after;
            let name = take_name(&mut rest)?;
            if name.is_empty() {
                return Err(bad("a name must follow the \"/\" sign".into()));
            }
            role(&name)?
        }
        None => BOOTSTRAP,
    };
    if !rest.trim().is_empty() {
        return Err(bad("extra garbage at the end of the ACL specification".into()));
    }
    Ok(AclItem { grantee, grantor, privileges, options })
}

// ---- functions -------------------------------------------------------------------------------------------

/// A role that an argument names or numbers.
fn role_arg(sight: &Sight<'_>, v: ValueRef<'_>) -> SqlResult<Option<u32>> {
    Ok(match v {
        ValueRef::Opaque(TypeId::NAME, b) => {
            let name = String::from_utf8_lossy(b);
            if name == "public" {
                return Ok(Some(PUBLIC_ROLE));
            }
            match sight.catalog.role_named(&name) {
                Some(r) => Some(r.id),
                None => {
                    let message = format!("role \"{name}\" does not exist");
                    return Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, message));
                }
            }
        }
        ValueRef::Opaque(_, b) => b.first_chunk().map(|b| u32::from_le_bytes(*b)),
        _ => None,
    })
}

/// What words like `SELECT, UPDATE WITH GRANT OPTION` ask for, each by itself.
fn asked(words: &str, kind: AclKind) -> SqlResult<Vec<(Privileges, bool)>> {
    let mut all = Vec::new();
    for word in words.split(',') {
        let lower = word.trim().to_ascii_lowercase();
        let (bare, option) = match lower.strip_suffix(" with grant option") {
            Some(bare) => (bare.trim_end(), true),
            None => (&*lower, false),
        };
        match acl::of_word(bare).filter(|p| p & !kind.all() == 0) {
            Some(p) => all.push((p, option)),
            None => return Err(wrong(format!("unrecognized privilege type: \"{}\"", word.trim()))),
        }
    }
    Ok(all)
}

/// Whether a role has some of what is asked for of an object.
fn has(c: &Catalog, role: u32, kind: RightsOf, id: u32, asked: &[(Privileges, bool)]) -> bool {
    asked.iter().any(|(p, option)| match option {
        false => c.privileges(role, kind, id, *p) == *p,
        true => may_give(c, role, kind, id, *p),
    })
}

fn may_give(c: &Catalog, role: u32, kind: RightsOf, id: u32, p: Privileges) -> bool {
    if c.is_superuser(role) {
        return true;
    }
    let rights = c.rights_of(id);
    let acl = rights.acl.clone().unwrap_or_else(|| Acl::usual(kind.acl_kind(), rights.owner));
    acl.mask(c, role, rights.owner, 0, p).1 == p
}

fn column_has(
    c: &Catalog,
    role: u32,
    (kind, id): (RightsOf, u32),
    column: &str,
    asked: &[(Privileges, bool)],
) -> bool {
    has(c, role, kind, id, asked)
        || asked.iter().any(|(p, option)| match option {
            false => c.column_privileges(role, id, column, *p) == *p,
            true => c
                .rights
                .get(&id)
                .and_then(|r| Some((r.owner, r.columns.get(column)?)))
                .is_some_and(|(owner, acl)| acl.mask(c, role, owner, 0, *p).1 == *p),
        })
}

/// What a relation of the catalogue lets a role do.
fn system_has(c: &Catalog, role: u32, asked: &[(Privileges, bool)]) -> bool {
    c.is_superuser(role) || asked.iter().any(|(p, option)| !option && *p == acl::SELECT)
}

/// `has_table_privilege` and its like: the role that is asked for, or that which runs the statement, an
/// object by its name or number, and privileges.
pub fn privilege(sight: &Sight<'_>, function: FuncId, args: &[ValueRef<'_>]) -> SqlResult<Value> {
    let family = FAMILIES.iter().find(|(ids, _)| ids.contains(&function)).map(|f| f.1);
    let Some(family) = family else {
        let message = format!("function number {} tells of nothing", function.0);
        return Err(SqlError::new(sqlstate::INTERNAL_ERROR, message));
    };
    if args.iter().any(|a| matches!(a, ValueRef::Null)) {
        return Ok(Value::Null);
    }
    let Some((words, rest)) = args.split_last() else { return Ok(Value::Null) };
    let ValueRef::Text(words) = words else { return Ok(Value::Null) };
    if family == Family::Role {
        return has_role(sight, rest, words);
    }
    let objects = if family == Family::Column { 2 } else { 1 };
    let (role, objects) = match rest.len() > objects {
        true => (role_arg(sight, rest[0])?.unwrap_or(u32::MAX), &rest[1..]),
        false => (sight.role, rest),
    };
    let c = sight.catalog;
    let by_text = |kind: ObjectKind| -> SqlResult<Option<u32>> {
        match objects[0] {
            ValueRef::Text(text) => match name::find(sight, kind, text)? {
                Some(n) => Ok(Some(n)),
                None => Err(ondol_types::catalog::registered::missing(kind, text)),
            },
            ValueRef::Opaque(_, b) => Ok(b.first_chunk().map(|b| u32::from_le_bytes(*b))),
            _ => Ok(None),
        }
    };
    let answer = |is: bool| Ok(Value::Bool(is));
    match family {
        Family::Table | Family::AnyColumn | Family::Column | Family::Sequence => {
            let Some(number) = by_text(ObjectKind::Relation)? else { return Ok(Value::Null) };
            let Some(object) = sight.relation(number) else { return Ok(Value::Null) };
            let kind = match family {
                Family::Table => AclKind::Table,
                Family::Sequence => AclKind::Sequence,
                _ => AclKind::Column,
            };
            if family == Family::Sequence && !matches!(object, Object::Sequence(_)) {
                let message = format!("\"{}\" is not a sequence", object.name());
                return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message));
            }
            let wanted = asked(words, kind)?;
            let column = match (family, objects.get(1)) {
                (Family::Column, Some(c)) => match column_of(&object, *c)? {
                    Some(name) => Some(name),
                    None => return Ok(Value::Null),
                },
                _ => None,
            };
            let Some(id) = rights_id(&object) else { return answer(system_has(c, role, &wanted)) };
            let kind = match &object {
                Object::Table(_) | Object::Index(..) => RightsOf::Table,
                Object::Sequence(_) => RightsOf::Sequence,
                Object::View(_) => RightsOf::View,
                _ => RightsOf::Type,
            };
            answer(match (family, column) {
                (Family::Column, Some(name)) => column_has(c, role, (kind, id), &name, &wanted),
                (Family::AnyColumn, _) => {
                    has(c, role, kind, id, &wanted)
                        || columns(&object).iter().any(|n| column_has(c, role, (kind, id), n, &wanted))
                }
                _ => has(c, role, kind, id, &wanted),
            })
        }
        Family::Schema => {
            let number = match objects[0] {
                ValueRef::Text(text) => {
                    let quoted = ondol_types::name::quote(text);
                    match name::find(sight, ObjectKind::Schema, &quoted)? {
                        Some(n) => n,
                        None => {
                            return Err(ondol_types::catalog::registered::missing(
                                ObjectKind::Schema,
                                &quoted,
                            ));
                        }
                    }
                }
                ValueRef::Opaque(_, b) => b.first_chunk().map_or(0, |b| u32::from_le_bytes(*b)),
                _ => return Ok(Value::Null),
            };
            let wanted = asked(words, AclKind::Schema)?;
            let schema = c.schemas.values().find(|s| schema_oid(s.number) == number).map(|s| s.number);
            let Some(schema) = schema else { return Ok(Value::Null) };
            let is_system = ondol_engine::name::is_system(schema);
            answer(wanted.iter().any(|(p, option)| match option {
                false => c.may_use_schema(role, schema, *p),
                true => !is_system && may_give(c, role, RightsOf::Schema, schema_id(schema), *p),
            }))
        }
        Family::Function => {
            let Some(number) = by_text(ObjectKind::Procedure)? else { return Ok(Value::Null) };
            let wanted = asked(words, AclKind::Function)?;
            match sight.function(number) {
                Some(f) => answer(has(c, role, RightsOf::Function, f.id, &wanted)),
                None if is_fixed("pg_proc", number) => {
                    answer(c.is_superuser(role) || wanted.iter().any(|w| !w.1))
                }
                None => Ok(Value::Null),
            }
        }
        Family::Type => {
            let Some(number) = by_text(ObjectKind::Type)? else { return Ok(Value::Null) };
            let wanted = asked(words, AclKind::Type)?;
            let own = c.types.values().filter_map(|t| t.user()).find(|u| oid_of(u.number) == number);
            match own {
                Some(u) => answer(has(c, role, RightsOf::Type, u.number, &wanted)),
                None => answer(c.is_superuser(role) || wanted.iter().any(|w| !w.1)),
            }
        }
        Family::Database => {
            let there = match objects[0] {
                ValueRef::Text(text) if text == sight.database => true,
                ValueRef::Text(text) => {
                    return Err(SqlError::new("3D000", format!("database \"{text}\" does not exist")));
                }
                ValueRef::Opaque(_, b) => b.first_chunk().is_some_and(|b| u32::from_le_bytes(*b) == DATABASE),
                _ => false,
            };
            let wanted = asked(words, AclKind::Database)?;
            match there {
                true => answer(has(c, role, RightsOf::Database, rights::DATABASE, &wanted)),
                false => Ok(Value::Null),
            }
        }
        Family::Language => {
            let wanted = asked(words, AclKind::Language)?;
            answer(c.is_superuser(role) || wanted.iter().any(|w| !w.1))
        }
        Family::Tablespace => {
            let only_create = words.split(',').all(|w| {
                let lower = w.trim().to_ascii_lowercase();
                lower.strip_suffix(" with grant option").unwrap_or(&lower) == "create"
            });
            match only_create {
                true => answer(c.is_superuser(role)),
                false => Err(wrong(format!("unrecognized privilege type: \"{}\"", words.trim()))),
            }
        }
        Family::Role => Ok(Value::Null),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Table,
    AnyColumn,
    Column,
    Sequence,
    Schema,
    Function,
    Type,
    Database,
    Language,
    Tablespace,
    Role,
}

const FAMILIES: &[(&[FuncId], Family)] = &[
    (
        &[
            id::HAS_TABLE_PRIVILEGE,
            id::HAS_TABLE_PRIVILEGE_NAME,
            id::HAS_TABLE_PRIVILEGE_USER,
            id::HAS_TABLE_PRIVILEGE_USER_NAME,
            id::HAS_TABLE_PRIVILEGE_ROLE,
            id::HAS_TABLE_PRIVILEGE_ROLE_NAME,
        ],
        Family::Table,
    ),
    (
        &[
            id::HAS_ANY_COLUMN_PRIVILEGE,
            id::HAS_ANY_COLUMN_PRIVILEGE_NAME,
            id::HAS_ANY_COLUMN_PRIVILEGE_USER,
            id::HAS_ANY_COLUMN_PRIVILEGE_USER_NAME,
        ],
        Family::AnyColumn,
    ),
    (
        &[
            id::HAS_COLUMN_PRIVILEGE_NAMES,
            id::HAS_COLUMN_PRIVILEGE_NUMBER,
            id::HAS_COLUMN_PRIVILEGE_NAME,
            id::HAS_COLUMN_PRIVILEGE_USER_NAMES,
            id::HAS_COLUMN_PRIVILEGE_USER_NUMBER,
        ],
        Family::Column,
    ),
    (
        &[
            id::HAS_SEQUENCE_PRIVILEGE,
            id::HAS_SEQUENCE_PRIVILEGE_NAME,
            id::HAS_SEQUENCE_PRIVILEGE_USER,
            id::HAS_SEQUENCE_PRIVILEGE_USER_NAME,
        ],
        Family::Sequence,
    ),
    (
        &[
            id::HAS_SCHEMA_PRIVILEGE,
            id::HAS_SCHEMA_PRIVILEGE_NAME,
            id::HAS_SCHEMA_PRIVILEGE_USER,
            id::HAS_SCHEMA_PRIVILEGE_USER_NAME,
        ],
        Family::Schema,
    ),
    (
        &[
            id::HAS_FUNCTION_PRIVILEGE,
            id::HAS_FUNCTION_PRIVILEGE_NAME,
            id::HAS_FUNCTION_PRIVILEGE_USER,
            id::HAS_FUNCTION_PRIVILEGE_USER_NAME,
        ],
        Family::Function,
    ),
    (
        &[
            id::HAS_TYPE_PRIVILEGE,
            id::HAS_TYPE_PRIVILEGE_NAME,
            id::HAS_TYPE_PRIVILEGE_USER,
            id::HAS_TYPE_PRIVILEGE_USER_NAME,
        ],
        Family::Type,
    ),
    (
        &[
            id::HAS_DATABASE_PRIVILEGE,
            id::HAS_DATABASE_PRIVILEGE_NAME,
            id::HAS_DATABASE_PRIVILEGE_USER,
            id::HAS_DATABASE_PRIVILEGE_USER_NAME,
        ],
        Family::Database,
    ),
    (&[id::HAS_LANGUAGE_PRIVILEGE, id::HAS_LANGUAGE_PRIVILEGE_NAME], Family::Language),
    (&[id::HAS_TABLESPACE_PRIVILEGE, id::HAS_TABLESPACE_PRIVILEGE_NAME], Family::Tablespace),
    (
        &[
            id::PG_HAS_ROLE,
            id::PG_HAS_ROLE_NAME,
            id::PG_HAS_ROLE_USER,
            id::PG_HAS_ROLE_NAMES,
            id::PG_HAS_ROLE_ROLE,
            id::PG_HAS_ROLE_ROLE_NAME,
        ],
        Family::Role,
    ),
];

fn is_fixed(relation: &str, number: u32) -> bool {
    fixed::rows(relation).iter().any(|r| r.first() == Some(&oid::oid(number)))
}

fn columns(object: &Object) -> Vec<String> {
    match object {
        Object::Table(t) | Object::Index(t, _) => t.def.shown().iter().map(|c| c.name.clone()).collect(),
        Object::View(v) => v.columns.iter().map(|c| c.name.clone()).collect(),
        _ => Vec::new(),
    }
}

/// The column that an argument names or numbers.
fn column_of(object: &Object, v: ValueRef<'_>) -> SqlResult<Option<String>> {
    let all = match object {
        Object::System(r) => r.columns.iter().map(|c| c.name.to_string()).collect(),
        other => columns(other),
    };
    match v {
        ValueRef::Text(text) => match all.iter().any(|n| n == text) {
            true => Ok(Some(text.to_string())),
            false => {
                let message = format!("column \"{text}\" of relation \"{}\" does not exist", object.name());
                Err(SqlError::new(sqlstate::UNDEFINED_COLUMN, message))
            }
        },
        ValueRef::Int2(n) => Ok(usize::try_from(n - 1).ok().and_then(|n| all.get(n).cloned())),
        _ => Ok(None),
    }
}

/// `pg_has_role`
fn has_role(sight: &Sight<'_>, roles: &[ValueRef<'_>], words: &str) -> SqlResult<Value> {
    let (who, of) = match roles {
        [of] => (sight.role, role_arg(sight, *of)?),
        [who, of] => (role_arg(sight, *who)?.unwrap_or(u32::MAX), role_arg(sight, *of)?),
        _ => return Ok(Value::Null),
    };
    let Some(of) = of else { return Ok(Value::Null) };
    let c = sight.catalog;
    let mut is = false;
    for word in words.split(',') {
        is |= match word.trim().to_ascii_lowercase().as_str() {
            "usage" => c.has_rights_of(who, of),
            "member" => c.is_member(who, of),
            "usage with grant option"
            | "usage with admin option"
            | "member with grant option"
            | "member with admin option" => c.is_admin(who, of),
            _ => return Err(wrong(format!("unrecognized privilege type: \"{}\"", word.trim()))),
        }
    }
    Ok(Value::Bool(is))
}

/// `acldefault`: the list that a thing of a kind has anyway.
pub fn default_list(sight: &Sight<'_>, letter: u8, owner: u32) -> SqlResult<Value> {
    match AclKind::of_letter(letter.into()) {
        Some(kind) => list(sight.catalog, &Acl::usual(kind, owner)),
        None => Err(SqlError::new(
            sqlstate::INTERNAL_ERROR,
            format!("unrecognized object type abbreviation: {}", char::from(letter)),
        )),
    }
}

/// `makeaclitem`
pub fn make_item(
    sight: &Sight<'_>,
    (grantee, grantor): (u32, u32),
    words: &str,
    option: bool,
) -> SqlResult<Value> {
    let mut privileges = 0;
    for word in words.split(',') {
        match acl::of_word(word.trim()) {
            Some(p) => privileges |= p,
            None => return Err(wrong(format!("unrecognized privilege type: \"{}\"", word.trim()))),
        }
    }
    let options = if option { privileges } else { 0 };
    Ok(item_value(sight.catalog, &AclItem { grantee, grantor, privileges, options }))
}

/// What `aclexplode` gives of a list, a column of it: one value for each privilege of each item.
pub fn exploded(sight: &Sight<'_>, function: FuncId, args: &[ValueRef<'_>]) -> SqlResult<Value> {
    let Some(ValueRef::Opaque(ty, bytes)) = args.first() else { return Ok(Value::Null) };
    let mut items: Vec<Value> = Vec::new();
    for v in array::Array::of_type(*ty, bytes).items() {
        let Value::Opaque(_, text) = v.to_owned() else { continue };
        let item = read_item(sight.catalog, &String::from_utf8_lossy(&text))?;
        for (privilege, word, _) in acl::ALL {
            if item.privileges & privilege != 0 {
                items.push(match function {
                    id::ACL_GRANTORS => oid::oid(item.grantor),
                    id::ACL_GRANTEES => oid::oid(item.grantee),
                    id::ACL_WORDS => Value::Text(word.into()),
                    _ => Value::Bool(item.options & privilege != 0),
                })
            }
        }
    }
    let of = match function {
        id::ACL_GRANTORS | id::ACL_GRANTEES => TypeId::OID,
        id::ACL_WORDS => TypeId::TEXT,
        _ => TypeId::BOOL,
    };
    array::of_values(of, &items)
}

/// The name of a role, by its number.
pub fn user_by_id(sight: &Sight<'_>, number: u32) -> Value {
    names::name(&sight.catalog.role_name(number))
}
