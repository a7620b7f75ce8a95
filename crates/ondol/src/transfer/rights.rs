//! Roles, owners and privileges of a dump: the roles first, since others are named by what follows, the rest
//! last, when all is there (transfer/dump). What is as it is from the beginning is not written.
use crate::transfer::dump::{in_dump, quote};
use ondol_engine::acl::{self, Acl, AclItem, AclKind, Privileges};
use ondol_engine::name::TEMPORARY;
use ondol_engine::role::{BOOTSTRAP, FIRST_ROLE, PUBLIC_ROLE};
use ondol_engine::temporary::is_temporary;
use ondol_engine::{Catalog, Name, ObjectRights, Path, RightsOf, RoleDef};
use ondol_sql::bind::role::{Claimed, Holder};
use ondol_types::{Type, TypeId, ValueRef};

pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The statements that make the roles.
pub fn roles(catalog: &Catalog) -> String {
    let mut out = String::new();
    let mut own: Vec<&RoleDef> =
        catalog.roles.values().map(|r| &**r).filter(|r| r.id >= FIRST_ROLE).collect();
    own.sort_by(|a, b| a.name.cmp(&b.name));
    for role in &own {
        out += &format!(
            "\nCREATE ROLE {};\nALTER ROLE {}{};\n",
            quote(&role.name),
            quote(&role.name),
            with(role)
        )
    }
    let first = Catalog::default();
    if let (Some(now), Some(was)) = (catalog.role(BOOTSTRAP), first.role(BOOTSTRAP))
        && with(now) != with(was)
    {
        out += &format!("\nALTER ROLE {}{};\n", quote(&now.name), with(now))
    }
    out += &settings(catalog);
    let mut all: Vec<&RoleDef> = catalog.roles.values().map(|r| &**r).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let mut grants = Vec::new();
    for member in all {
        for m in &member.memberships {
            let was = first.role(member.id).is_some_and(|r| r.memberships.contains(m));
            if !was {
                let admin = if m.admin { " WITH ADMIN OPTION" } else { "" };
                let [role, grantor] = [m.role, m.grantor].map(|id| quote(&catalog.role_name(id)));
                let by = if catalog.role(m.grantor).is_some() {
                    format!(" GRANTED BY {grantor}")
                } else {
                    String::new()
                };
                grants.push(format!("GRANT {role} TO {}{admin}{by};\n", quote(&member.name)))
            }
        }
    }
    if !grants.is_empty() {
        out += "\n"
    }
    out + &grants.concat()
}

/// What sessions begin with.
fn settings(catalog: &Catalog) -> String {
    let mut all: Vec<(String, String)> = Vec::new();
    for (scope, settings) in catalog.settings.iter() {
        let of = match (catalog.role(scope.role), scope.in_database) {
            (Some(r), false) => format!("ROLE {}", quote(&r.name)),
            (Some(r), true) => format!("ROLE {} IN DATABASE postgres", quote(&r.name)),
            (None, true) => "DATABASE postgres".to_string(),
            (None, false) => "ROLE ALL".to_string(),
        };
        let statement = |(name, value): &(String, String)| {
            // Each of a list's names is a literal of its own.
            let names = match name.as_str() {
                "search_path" => ondol_types::name::list(value).filter(|l| !l.is_empty()),
                _ => None,
            };
            let value = names.unwrap_or_else(|| vec![value.clone()]);
            let value: Vec<String> = value.iter().map(|v| literal(v)).collect();
            let value = value.join(", ");
            let name: Vec<String> = name.split('.').map(|w| quote(w).to_string()).collect();
            format!("ALTER {of} SET {} TO {value};\n", name.join("."))
        };
        all.push((of.clone(), settings.iter().map(statement).collect()))
    }
    all.sort();
    let text: String = all.into_iter().map(|s| s.1).collect();
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// What ALTER ROLE says of a role, all of it.
fn with(role: &RoleDef) -> String {
    let mut out = " WITH".to_string();
    for (is, word) in [
        (role.superuser, "SUPERUSER"),
        (role.inherit, "INHERIT"),
        (role.create_role, "CREATEROLE"),
        (role.create_db, "CREATEDB"),
        (role.login, "LOGIN"),
        (role.replication, "REPLICATION"),
        (role.bypass_rls, "BYPASSRLS"),
    ] {
        out += &format!(" {}{word}", if is { "" } else { "NO" })
    }
    if role.connection_limit != -1 {
        out += &format!(" CONNECTION LIMIT {}", role.connection_limit)
    }
    if let Some(password) = &role.password {
        out += &format!(" PASSWORD {}", literal(password))
    }
    if let Some(us) = role.valid_until {
        let mut text = String::new();
        let ty = Type::new(TypeId::TIMESTAMPTZ);
        ondol_types::text::output(ValueRef::Timestamptz(us), ty, &mut text);
        out += &format!(" VALID UNTIL {}", literal(&text))
    }
    out
}

/// What a holder is called in ALTER ... OWNER TO, and in GRANT.
fn named(catalog: &Catalog, holder: &Holder) -> Option<(String, String)> {
    let by_name = |name: &Name| in_dump(catalog, name);
    Some(match &holder.claimed {
        Claimed::Relation(name) => {
            let name = by_name(name);
            match holder.kind {
                RightsOf::View => (format!("VIEW {name}"), format!("TABLE {name}")),
                RightsOf::Material => (format!("MATERIALIZED VIEW {name}"), format!("TABLE {name}")),
                RightsOf::Sequence => (format!("SEQUENCE {name}"), format!("SEQUENCE {name}")),
                _ => (format!("TABLE {name}"), format!("TABLE {name}")),
            }
        }
        Claimed::Type(name) => {
            let name = by_name(name);
            let word = if holder.kind == RightsOf::Domain { "DOMAIN" } else { "TYPE" };
            (format!("{word} {name}"), format!("TYPE {name}"))
        }
        Claimed::Function(id) => {
            let f = catalog.functions.get(id)?;
            let types: Vec<String> = f.args.iter().map(|a| catalog.shown_type(Path::public(), a.1)).collect();
            let name = by_name(&Name::new(f.schema, &*f.name));
            let text = format!("FUNCTION {name}({})", types.join(", "));
            (text.clone(), text)
        }
        Claimed::Schema(name) => (format!("SCHEMA {}", quote(name)), format!("SCHEMA {}", quote(name))),
        Claimed::Database => ("DATABASE postgres".into(), "DATABASE postgres".into()),
    })
}

/// The statements that give what there is to its owners, and to whom what of it; each holder's together, in
/// an order that no number of an object decides.
pub fn rights(catalog: &Catalog) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for holder in Holder::all(catalog) {
        if is_temporary(holder.id) || holder.schema(catalog) == Some(TEMPORARY) {
            continue;
        }
        let (now, usual) = (catalog.rights_of(holder.id), ObjectRights::usual(holder.id));
        let Some((owned, granted)) = named(catalog, &holder) else { continue };
        let mut out = String::new();
        let with_table = match catalog.owner_of(holder.id) {
            Some((t, _)) if holder.kind == RightsOf::Sequence => catalog.owner(t.def.id) == now.owner,
            _ => false,
        };
        if now.owner != usual.owner && !with_table {
            out += &format!("ALTER {owned} OWNER TO {};\n", quote(&catalog.role_name(now.owner)))
        }
        let kind = holder.kind.acl_kind();
        // What an owner that was changed has left.
        let mut left = usual.acl.clone().unwrap_or_else(|| Acl::usual(kind, usual.owner));
        left.hand_over(usual.owner, now.owner);
        let wanted = now.acl.clone().unwrap_or_else(|| Acl::usual(kind, now.owner));
        if !left.is_as(&wanted) {
            out += &statements(catalog, kind, &granted, &left, &wanted, now.owner, None)
        }
        for (column, acl) in &now.columns {
            let none = Acl::default();
            out += &statements(catalog, AclKind::Column, &granted, &none, acl, now.owner, Some(column))
        }
        if !out.is_empty() {
            all.push(out)
        }
    }
    all.sort();
    all
}

fn words(privileges: Privileges, kind: AclKind, column: Option<&str>) -> String {
    let part = column.map_or(String::new(), |c| format!("({})", quote(c)));
    if privileges == kind.all() && column.is_none() {
        return "ALL".into();
    }
    let named = acl::ALL.iter().filter(|p| privileges & p.0 != 0);
    named.map(|p| format!("{}{part}", p.1)).collect::<Vec<_>>().join(", ")
}

fn to(catalog: &Catalog, grantee: u32) -> String {
    if grantee == PUBLIC_ROLE { "PUBLIC".into() } else { quote(&catalog.role_name(grantee)) }
}

/// The statements that make one list of another. Who gave something on does so by himself.
fn statements(
    catalog: &Catalog,
    kind: AclKind,
    what: &str,
    was: &Acl,
    wanted: &Acl,
    owner: u32,
    column: Option<&str>,
) -> String {
    let mut out = String::new();
    // What is not as it is to be goes as a whole.
    let mut gone: Vec<u32> = Vec::new();
    for item in &was.items {
        if !wanted.items.contains(item) {
            out += &format!("REVOKE ALL ON {what} FROM {};\n", to(catalog, item.grantee));
            gone.push(item.grantee)
        }
    }
    let stays = |i: &AclItem| was.items.contains(i) && !gone.contains(&i.grantee);
    let mut left: Vec<AclItem> = wanted.items.iter().filter(|i| !stays(i)).copied().collect();
    let mut given: Vec<AclItem> = wanted.items.iter().filter(|i| stays(i)).copied().collect();
    // Who gives something on was given it before.
    while !left.is_empty() {
        let may = |i: &AclItem| {
            i.grantor == owner
                || given.iter().any(|g| g.grantee == i.grantor && g.options & i.privileges == i.privileges)
        };
        let at = left.iter().position(may).unwrap_or(0);
        let item = left.remove(at);
        let by = (item.grantor != owner).then(|| quote(&catalog.role_name(item.grantor)));
        if let Some(by) = &by {
            out += &format!("SET SESSION AUTHORIZATION {by};\n")
        }
        let plain = item.privileges & !item.options;
        for (privileges, option) in [(plain, ""), (item.options, " WITH GRANT OPTION")] {
            if privileges != 0 {
                let words = words(privileges, kind, column);
                out += &format!("GRANT {words} ON {what} TO {}{option};\n", to(catalog, item.grantee))
            }
        }
        if by.is_some() {
            out += "RESET SESSION AUTHORIZATION;\n"
        }
        given.push(item)
    }
    out
}

/// The statements of what roles have said of what they will make.
pub fn defaults(catalog: &Catalog) -> String {
    let mut all: Vec<String> = Vec::new();
    for role in catalog.roles.values() {
        for ((schema, letter), acl) in &role.defaults {
            let (what, kind) = match letter {
                'r' => ("TABLES", AclKind::Table),
                'S' => ("SEQUENCES", AclKind::Sequence),
                'f' => ("FUNCTIONS", AclKind::Function),
                'T' => ("TYPES", AclKind::Type),
                _ => ("SCHEMAS", AclKind::Schema),
            };
            let within = match schema {
                0 => String::new(),
                n => format!(" IN SCHEMA {}", quote(catalog.schema_name(*n))),
            };
            let was = if *schema == 0 { Acl::usual(kind, role.id) } else { Acl::default() };
            let head = format!("ALTER DEFAULT PRIVILEGES FOR ROLE {}{within} ", quote(&role.name));
            let lines = statements(catalog, kind, what, &was, acl, role.id, None);
            all.extend(lines.lines().map(|l| format!("{head}{l}\n")))
        }
    }
    all.concat()
}
