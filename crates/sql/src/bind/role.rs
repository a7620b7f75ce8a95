//! Roles, owners and privileges: CREATE, ALTER and DROP ROLE, GRANT and REVOKE, ALTER DEFAULT PRIVILEGES,
//! REASSIGN OWNED, DROP OWNED. What is named is found here; whether it may be done is looked at when it is
//! done, in the dictionary as it is then.
use super::Binder;
use super::names::no_schema;
use super::tree::{at, kind, option_bool, option_text, options, string, strings, unexpected};
use crate::bound::{Dropped, SettingChange, Statement};
use crate::parse::tree::{
    AccessPriv, AlterDatabaseSetStmt, AlterDefaultPrivilegesStmt, AlterRoleSetStmt, AlterRoleStmt,
    CreateRoleStmt, DefElem, DropBehavior, DropOwnedStmt, DropRoleStmt, GrantRoleStmt, GrantStmt,
    GrantTargetType, Node, ObjectType, ReassignOwnedStmt, RoleSpec, RoleSpecType, RoleStmtType,
    node::Node as Kind,
};
use ondol_engine::acl::{self, AclKind, Privileges};
use ondol_engine::rights::DATABASE;
use ondol_engine::role::{PUBLIC_ROLE, is_reserved};
use ondol_engine::settings::Scope;
use ondol_engine::{Catalog, Name, Relation, RightsOf, schema_id};
use ondol_types::func::Context;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, sqlstate, text};

/// A password that is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub String);

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password")
    }
}

/// What CREATE ROLE and ALTER ROLE say; nothing: it stays.
#[derive(Clone, Debug, Default)]
pub struct RoleOptions {
    pub superuser: Option<bool>,
    pub inherit: Option<bool>,
    pub create_role: Option<bool>,
    pub create_db: Option<bool>,
    pub login: Option<bool>,
    pub replication: Option<bool>,
    pub bypass_rls: Option<bool>,
    pub connection_limit: Option<i32>,
    pub valid_until: Option<Option<i64>>,
    pub password: Option<Option<Password>>,
    /// IN ROLE
    pub in_roles: Vec<u32>,
    /// ROLE
    pub members: Vec<u32>,
    /// ADMIN
    pub admins: Vec<u32>,
    /// SYSID was written.
    pub has_number: bool,
}

/// Something that has rights, as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub kind: RightsOf,
    pub id: u32,
    pub name: String,
    pub claimed: Claimed,
}

/// What a definition claims that is about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    Relation(Name),
    Type(Name),
    Function(u32),
    Schema(String),
    Database,
}

impl Holder {
    /// The schema that it is in.
    pub fn schema(&self, catalog: &Catalog) -> Option<u32> {
        match &self.claimed {
            Claimed::Relation(name) | Claimed::Type(name) => Some(name.schema),
            Claimed::Function(id) => catalog.functions.get(id).map(|f| f.schema),
            Claimed::Schema(_) | Claimed::Database => None,
        }
    }
    /// A relation.
    pub fn relation(catalog: &Catalog, name: &Name) -> Option<Holder> {
        let (kind, id) = catalog.rights_number(catalog.relations.get(name)?)?;
        Some(Holder { kind, id, name: name.name.clone(), claimed: Claimed::Relation(name.clone()) })
    }
    pub fn ty(catalog: &Catalog, name: &Name) -> Option<Holder> {
        let user = catalog.ty(name)?.user()?;
        let is_domain = user.kind == ondol_types::user::domain::CODE;
        let kind = if is_domain { RightsOf::Domain } else { RightsOf::Type };
        Some(Holder { kind, id: user.number, name: name.name.clone(), claimed: Claimed::Type(name.clone()) })
    }
    pub fn function(catalog: &Catalog, id: u32) -> Option<Holder> {
        let f = catalog.functions.get(&id)?;
        Some(Holder { kind: RightsOf::Function, id, name: f.name.clone(), claimed: Claimed::Function(id) })
    }
    pub fn schema_of(catalog: &Catalog, name: &str) -> Option<Holder> {
        let id = schema_id(catalog.schema(name)?.number);
        let claimed = Claimed::Schema(name.to_string());
        Some(Holder { kind: RightsOf::Schema, id, name: name.to_string(), claimed })
    }
    pub fn database(name: &str) -> Holder {
        let claimed = Claimed::Database;
        Holder { kind: RightsOf::Database, id: DATABASE, name: name.to_string(), claimed }
    }
    /// All that have rights, temporary ones too.
    pub fn all(catalog: &Catalog) -> Vec<Holder> {
        let mut all = Vec::new();
        for (name, relation) in catalog.relations.iter() {
            if !matches!(relation, Relation::Index { .. }) {
                all.extend(Holder::relation(catalog, name))
            }
        }
        all.extend(catalog.types.keys().filter_map(|n| Holder::ty(catalog, n)));
        all.extend(catalog.functions.keys().filter_map(|id| Holder::function(catalog, *id)));
        let schemas = catalog.schemas.iter().filter(|(_, s)| !s.is_system());
        all.extend(schemas.filter_map(|(n, _)| Holder::schema_of(catalog, n)));
        all.push(Holder::database("postgres"));
        all
    }
}

/// Privileges as GRANT and REVOKE list them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// ALL
    All,
    /// Of the object as a whole.
    Some(Privileges),
}

/// Privileges of columns.
#[derive(Clone, Debug)]
pub struct OfColumns {
    pub privileges: Listed,
    pub columns: Vec<String>,
}

/// GRANT or REVOKE of privileges.
#[derive(Clone, Debug)]
pub struct Grant {
    pub is_grant: bool,
    /// What the statement says that it is about.
    pub kind: AclKind,
    pub holders: Vec<Holder>,
    pub listed: Option<Listed>,
    pub columns: Vec<OfColumns>,
    pub grantees: Vec<u32>,
    /// WITH GRANT OPTION, or GRANT OPTION FOR.
    pub option: bool,
    /// GRANTED BY
    pub grantor: Option<u32>,
    pub cascade: bool,
}

/// GRANT or REVOKE of roles.
#[derive(Clone, Debug)]
pub struct GrantRole {
    pub is_grant: bool,
    pub roles: Vec<u32>,
    pub members: Vec<u32>,
    /// WITH ADMIN OPTION, or ADMIN OPTION FOR.
    pub admin: bool,
    pub grantor: Option<u32>,
}

#[derive(Clone, Debug)]
pub enum RoleStatement {
    Create {
        name: String,
        options: RoleOptions,
    },
    /// `add`: ALTER GROUP adds members, or drops them.
    Alter {
        role: u32,
        options: RoleOptions,
        add: bool,
    },
    Rename {
        role: u32,
        to: String,
    },
    Drop {
        roles: Vec<Dropped<u32>>,
    },
    GrantRole(GrantRole),
    Grant(Grant),
    /// ALTER DEFAULT PRIVILEGES: of what these roles make in these schemas (none: in all).
    Defaults {
        roles: Vec<u32>,
        schemas: Vec<u32>,
        letter: char,
        grant: Grant,
    },
    Owner {
        holder: Holder,
        to: u32,
        tag: &'static str,
    },
    /// What sessions begin with.
    Settings {
        scope: Scope,
        change: SettingChange,
        tag: &'static str,
    },
    Reassign {
        from: Vec<u32>,
        to: u32,
    },
    DropOwned {
        of: Vec<u32>,
        cascade: bool,
    },
}

impl RoleStatement {
    pub fn tag(&self) -> &'static str {
        match self {
            RoleStatement::Create { .. } => "CREATE ROLE",
            RoleStatement::Alter { .. } | RoleStatement::Rename { .. } => "ALTER ROLE",
            RoleStatement::Drop { .. } => "DROP ROLE",
            RoleStatement::GrantRole(g) if g.is_grant => "GRANT ROLE",
            RoleStatement::GrantRole(_) => "REVOKE ROLE",
            RoleStatement::Grant(g) if g.is_grant => "GRANT",
            RoleStatement::Grant(_) => "REVOKE",
            RoleStatement::Defaults { .. } => "ALTER DEFAULT PRIVILEGES",
            RoleStatement::Owner { tag, .. } | RoleStatement::Settings { tag, .. } => tag,
            RoleStatement::Reassign { .. } => "REASSIGN OWNED",
            RoleStatement::DropOwned { .. } => "DROP OWNED",
        }
    }
}

fn no_role(name: &str) -> SqlError {
    SqlError::new(sqlstate::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
}

/// There is one database.
pub(super) fn known_database(name: &str) -> SqlResult<()> {
    match name {
        "postgres" => Ok(()),
        _ => Err(SqlError::new("3D000", format!("database \"{name}\" does not exist"))),
    }
}

fn redundant(o: &DefElem) -> SqlError {
    at(SqlError::new(sqlstate::SYNTAX_ERROR, "conflicting or redundant options"), o.location)
}

fn reserved(name: &str, detail: &str) -> SqlError {
    SqlError::new("42939", format!("role name \"{name}\" is reserved")).detail(detail)
}

/// What an unknown privilege is called in the error.
fn wrong_kind(word: &str, kind: AclKind) -> SqlError {
    let of = match kind {
        AclKind::Table => "relation",
        AclKind::Column => "column",
        AclKind::Sequence => "sequence",
        AclKind::Database => "database",
        AclKind::Function => "function",
        AclKind::Language => "language",
        AclKind::Schema => "schema",
        AclKind::Type => "type",
    };
    SqlError::new("0LP01", format!("invalid privilege type {word} for {of}"))
}

impl<'a> Binder<'a> {
    /// The number of a role that must be there.
    pub(super) fn role_id(&self, spec: &RoleSpec) -> SqlResult<u32> {
        match spec.roletype() {
            RoleSpecType::RolespecCurrentUser | RoleSpecType::RolespecCurrentRole => Ok(self.roles.0),
            RoleSpecType::RolespecSessionUser => Ok(self.roles.1),
            RoleSpecType::RolespecPublic => Err(no_role("public")),
            _ => {
                let found = self.catalog.role_named(&spec.rolename);
                found.map(|r| r.id).ok_or_else(|| no_role(&spec.rolename))
            }
        }
    }
    fn role_ids(&self, nodes: &[Node]) -> SqlResult<Vec<u32>> {
        let id = |n: &Node| match kind(n)? {
            Kind::RoleSpec(r) => self.role_id(r),
            _ => Err(unexpected("a role")),
        };
        nodes.iter().map(id).collect()
    }
    /// The same where everybody may be meant.
    fn grantees(&self, nodes: &[Node]) -> SqlResult<Vec<u32>> {
        let id = |n: &Node| match kind(n)? {
            Kind::RoleSpec(r) if r.roletype() == RoleSpecType::RolespecPublic => Ok(PUBLIC_ROLE),
            Kind::RoleSpec(r) => self.role_id(r),
            _ => Err(unexpected("a role")),
        };
        nodes.iter().map(id).collect()
    }

    fn role_options(&self, nodes: &'a [Node], alters: bool) -> SqlResult<RoleOptions> {
        let mut found = RoleOptions::default();
        let mut seen: Vec<&str> = Vec::new();
        for o in options(nodes)? {
            let name = o.defname.as_str();
            if seen.contains(&name) {
                return Err(redundant(o));
            }
            seen.push(name);
            let roles = || -> SqlResult<Vec<u32>> {
                match o.arg.as_deref().map(kind).transpose()? {
                    Some(Kind::List(l)) => self.role_ids(&l.items),
                    _ => Err(unexpected("a list of roles")),
                }
            };
            match name {
                "superuser" => found.superuser = Some(option_bool(o)?),
                "inherit" => found.inherit = Some(option_bool(o)?),
                "createrole" => found.create_role = Some(option_bool(o)?),
                "createdb" => found.create_db = Some(option_bool(o)?),
                "canlogin" => found.login = Some(option_bool(o)?),
                "isreplication" => found.replication = Some(option_bool(o)?),
                "bypassrls" => found.bypass_rls = Some(option_bool(o)?),
                "connectionlimit" => {
                    let text = option_text(o)?.unwrap_or_default();
                    let limit: i32 = text.parse().map_err(|_| unexpected("a connection limit"))?;
                    if limit < -1 {
                        let message = format!("invalid connection limit: {limit}");
                        return Err(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message));
                    }
                    found.connection_limit = Some(limit)
                }
                "validUntil" => {
                    let written = option_text(o)?.unwrap_or_default();
                    let context = Context { styles: self.styles, ..Context::EMPTY };
                    let value = text::input(&written, Type::new(TypeId::TIMESTAMPTZ), &context)?;
                    found.valid_until = Some(match value {
                        Value::Timestamptz(us) => Some(us),
                        _ => None,
                    })
                }
                "password" => found.password = Some(option_text(o)?.map(Password)),
                "sysid" => found.has_number = true,
                "addroleto" => found.in_roles = roles()?,
                "rolemembers" => found.members = roles()?,
                "adminmembers" => found.admins = roles()?,
                other => return Err(SqlError::unsupported(format_args!("role option {other}"))),
            }
        }
        debug_assert!(!alters || found.in_roles.is_empty());
        Ok(found)
    }

    pub(super) fn create_role(&mut self, s: &'a CreateRoleStmt) -> SqlResult<Statement> {
        let mut options = self.role_options(&s.options, false)?;
        if options.login.is_none() && s.stmt_type() == RoleStmtType::RolestmtUser {
            options.login = Some(true)
        }
        if options.has_number {
            self.notices.push(("00000", "SYSID can no longer be specified".into()))
        }
        if is_reserved(&s.role) {
            return Err(reserved(&s.role, "Role names starting with \"pg_\" are reserved."));
        }
        Ok(role_statement(RoleStatement::Create { name: s.role.clone(), options }))
    }

    pub(super) fn alter_role(&mut self, s: &'a AlterRoleStmt) -> SqlResult<Statement> {
        let spec = s.role.as_ref().ok_or_else(|| unexpected("ALTER ROLE"))?;
        let role = self.role_id(spec)?;
        if self.catalog.role(role).is_some_and(|r| r.is_predefined()) {
            return Err(reserved(&spec.rolename, "Cannot alter reserved roles."));
        }
        let options = self.role_options(&s.options, true)?;
        Ok(role_statement(RoleStatement::Alter { role, options, add: s.action >= 0 }))
    }

    /// ALTER ROLE ... SET: of a role or of all, in the database or in any.
    pub(super) fn alter_role_settings(&mut self, s: &'a AlterRoleSetStmt) -> SqlResult<Statement> {
        let role = s.role.as_ref().map_or(Ok(0), |spec| {
            let role = self.role_id(spec)?;
            match self.catalog.role(role).is_some_and(|r| r.is_predefined()) {
                true => Err(reserved(&spec.rolename, "Cannot alter reserved roles.")),
                false => Ok(role),
            }
        })?;
        if !s.database.is_empty() {
            known_database(&s.database)?
        }
        let scope = Scope { role, in_database: !s.database.is_empty() };
        let change = self.setting_change(s.setstmt.as_ref().ok_or_else(|| unexpected("ALTER ROLE"))?)?;
        Ok(role_statement(RoleStatement::Settings { scope, change, tag: "ALTER ROLE" }))
    }

    pub(super) fn alter_database_settings(&mut self, s: &'a AlterDatabaseSetStmt) -> SqlResult<Statement> {
        known_database(&s.dbname)?;
        let change = self.setting_change(s.setstmt.as_ref().ok_or_else(|| unexpected("ALTER DATABASE"))?)?;
        let scope = Scope { role: 0, in_database: true };
        Ok(role_statement(RoleStatement::Settings { scope, change, tag: "ALTER DATABASE" }))
    }

    pub(super) fn rename_role(&mut self, name: &str, to: &str) -> SqlResult<Statement> {
        let role = self.catalog.role_named(name).ok_or_else(|| no_role(name))?;
        for (name, detail) in [
            (name, "Role names starting with \"pg_\" are reserved."),
            (to, "Role names starting with \"pg_\" are reserved."),
        ] {
            if is_reserved(name) {
                return Err(reserved(name, detail));
            }
        }
        Ok(role_statement(RoleStatement::Rename { role: role.id, to: to.to_string() }))
    }

    pub(super) fn drop_role(&mut self, s: &'a DropRoleStmt) -> SqlResult<Statement> {
        let mut roles: Vec<Dropped<u32>> = Vec::new();
        for node in &s.roles {
            let Kind::RoleSpec(r) = kind(node)? else { return Err(unexpected("DROP ROLE")) };
            if r.roletype() != RoleSpecType::RolespecCstring {
                let message = "cannot use special role specifier in DROP ROLE";
                return Err(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message));
            }
            let name = &r.rolename;
            roles.push(match self.catalog.role_named(name) {
                Some(role) => Dropped::There(role.id),
                None if s.missing_ok => Dropped::Missing(format!("role \"{name}\" does not exist, skipping")),
                None => return Err(no_role(name)),
            })
        }
        Ok(role_statement(RoleStatement::Drop { roles }))
    }

    pub(super) fn grant_role(&mut self, s: &'a GrantRoleStmt) -> SqlResult<Statement> {
        let grantor = s.grantor.as_ref().map(|g| self.role_id(g)).transpose()?;
        let members = self.role_ids(&s.grantee_roles)?;
        let mut roles = Vec::with_capacity(s.granted_roles.len());
        for node in &s.granted_roles {
            let Kind::AccessPriv(p) = kind(node)? else { return Err(unexpected("GRANT")) };
            if p.priv_name.is_empty() || !p.cols.is_empty() {
                let message = "column names cannot be included in GRANT/REVOKE ROLE";
                return Err(SqlError::new("0LP01", message));
            }
            let found = self.catalog.role_named(&p.priv_name).ok_or_else(|| no_role(&p.priv_name))?;
            roles.push(found.id)
        }
        let mut admin = false;
        for o in options(&s.opt)? {
            match o.defname.as_str() {
                // REVOKE ADMIN OPTION FOR says that it is to be false.
                "admin" => admin = option_bool(o)? || !s.is_grant,
                other => {
                    let what = format!("GRANT ... WITH {} of a role", other.to_uppercase());
                    return Err(SqlError::unsupported(what));
                }
            }
        }
        let grant = GrantRole { is_grant: s.is_grant, roles, members, admin, grantor };
        Ok(role_statement(RoleStatement::GrantRole(grant)))
    }

    /// The privileges that are listed, and those of columns.
    fn privileges(&self, nodes: &[Node], kind_of: AclKind) -> SqlResult<(Option<Listed>, Vec<OfColumns>)> {
        if nodes.is_empty() {
            return Ok((Some(Listed::All), Vec::new()));
        }
        let (mut whole, mut columns) = (None, Vec::new());
        for node in nodes {
            let Kind::AccessPriv(p) = kind(node)? else { return Err(unexpected("a privilege")) };
            let p: &AccessPriv = p;
            let listed = match p.priv_name.as_str() {
                "" => Listed::All,
                word => {
                    let unknown = || {
                        SqlError::new(
                            sqlstate::SYNTAX_ERROR,
                            format!("unrecognized privilege type \"{word}\""),
                        )
                    };
                    let found = acl::of_word(word).ok_or_else(unknown)?;
                    let of = if p.cols.is_empty() { kind_of } else { AclKind::Column };
                    // What a sequence has may be said of it as of a table.
                    let extra = if of == AclKind::Table { acl::USAGE } else { 0 };
                    if !p.cols.is_empty() && kind_of != AclKind::Table {
                        let message = "column privileges are only valid for relations";
                        return Err(SqlError::new("0LP01", message));
                    }
                    if found & !(of.all() | extra) != 0 {
                        let shown = acl::ALL.iter().find(|a| a.0 == found).map_or(word, |a| a.1);
                        return Err(wrong_kind(shown, of));
                    }
                    Listed::Some(found)
                }
            };
            if p.cols.is_empty() {
                whole = match (whole, listed) {
                    (Some(Listed::Some(a)), Listed::Some(b)) => Some(Listed::Some(a | b)),
                    (None, listed) => Some(listed),
                    (Some(_), _) => Some(Listed::All),
                }
            } else {
                let names = strings(&p.cols)?.into_iter().map(str::to_string).collect();
                columns.push(OfColumns { privileges: listed, columns: names })
            }
        }
        Ok((whole, columns))
    }

    pub(super) fn grant(&mut self, s: &'a GrantStmt) -> SqlResult<Statement> {
        let grant = self.grant_of(s)?;
        Ok(role_statement(RoleStatement::Grant(grant)))
    }

    fn acl_kind(of: ObjectType) -> SqlResult<AclKind> {
        Ok(match of {
            ObjectType::ObjectTable => AclKind::Table,
            ObjectType::ObjectSequence => AclKind::Sequence,
            ObjectType::ObjectDatabase => AclKind::Database,
            ObjectType::ObjectFunction | ObjectType::ObjectProcedure | ObjectType::ObjectRoutine => {
                AclKind::Function
            }
            ObjectType::ObjectSchema => AclKind::Schema,
            ObjectType::ObjectType | ObjectType::ObjectDomain => AclKind::Type,
            other => {
                let what = super::ddl::upper_words(&format!("{other:?}"), "Object");
                return Err(SqlError::unsupported(format_args!("GRANT ... ON {what}")));
            }
        })
    }

    fn grant_of(&mut self, s: &'a GrantStmt) -> SqlResult<Grant> {
        let kind_of = Self::acl_kind(s.objtype())?;
        let grantor = s.grantor.as_ref().map(|g| self.role_id(g)).transpose()?;
        if grantor.is_some_and(|g| g != self.roles.0) {
            return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, "grantor must be current user"));
        }
        let grantees = self.grantees(&s.grantees)?;
        if s.is_grant && s.grant_option && grantees.contains(&PUBLIC_ROLE) {
            let message = "grant options can only be granted to roles";
            return Err(SqlError::new("0LP01", message));
        }
        let (listed, columns) = self.privileges(&s.privileges, kind_of)?;
        let holders = match s.targtype() {
            GrantTargetType::AclTargetObject => {
                let mut holders = Vec::with_capacity(s.objects.len());
                for node in &s.objects {
                    holders.push(self.holder(s.objtype(), node)?)
                }
                holders
            }
            GrantTargetType::AclTargetAllInSchema => self.all_in_schemas(s)?,
            _ => Vec::new(),
        };
        Ok(Grant {
            is_grant: s.is_grant,
            kind: kind_of,
            holders,
            listed,
            columns,
            grantees,
            option: s.grant_option,
            grantor,
            cascade: s.behavior() == DropBehavior::DropCascade,
        })
    }

    /// What GRANT names.
    fn holder(&mut self, of: ObjectType, node: &'a Node) -> SqlResult<Holder> {
        let wrong = |name: &str, what: &str| {
            Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{name}\" is {what}")))
        };
        Ok(match (of, kind(node)?) {
            (ObjectType::ObjectTable | ObjectType::ObjectSequence, Kind::RangeVar(v)) => {
                self.note_written(&v.schemaname);
                if !v.schemaname.is_empty() && self.catalog.schema(&v.schemaname).is_none() {
                    return Err(no_schema(&v.schemaname));
                }
                let Some((name, relation)) = self.relation_of(v) else {
                    let known = crate::catalog::relation("pg_catalog", &v.relname).is_some();
                    if known && matches!(v.schemaname.as_str(), "" | "pg_catalog") {
                        return Err(SqlError::unsupported("GRANT or REVOKE on a relation of the catalogue"));
                    }
                    let message = format!("relation \"{}\" does not exist", super::names::written(v));
                    return Err(SqlError::new(sqlstate::UNDEFINED_TABLE, message));
                };
                match relation {
                    Relation::Index { .. } => return wrong(&name.name, "an index"),
                    Relation::Sequence(_) => {}
                    _ if of == ObjectType::ObjectSequence => return wrong(&name.name, "not a sequence"),
                    _ => {}
                }
                Holder::relation(self.catalog, &name).ok_or_else(|| unexpected("a relation"))?
            }
            (ObjectType::ObjectSchema, _) => {
                let name = string(node)?;
                match Holder::schema_of(self.catalog, name) {
                    Some(h) if self.catalog.schema(name).is_some_and(|s| s.is_system()) => {
                        return Err(SqlError::unsupported(format_args!(
                            "GRANT or REVOKE on schema {}",
                            h.name
                        )));
                    }
                    Some(h) => h,
                    None => return Err(no_schema(name)),
                }
            }
            (ObjectType::ObjectDatabase, _) => {
                let name = string(node)?;
                if name != "postgres" {
                    let message = format!("database \"{name}\" does not exist");
                    return Err(SqlError::new("3D000", message));
                }
                Holder::database(name)
            }
            (ObjectType::ObjectType | ObjectType::ObjectDomain, Kind::List(l)) => {
                let (user, written) = self.type_named(&l.items)?;
                let Some(user) = user else {
                    if ondol_types::known::is_type(&written) {
                        return Err(SqlError::unsupported(format_args!("GRANT or REVOKE on type {written}")));
                    }
                    let message = format!("type \"{written}\" does not exist");
                    return Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, message));
                };
                let name = Name::new(user.schema, &*user.name);
                let holder = Holder::ty(self.catalog, &name).ok_or_else(|| unexpected("a type"))?;
                if of == ObjectType::ObjectDomain && holder.kind != RightsOf::Domain {
                    return wrong(&holder.name, "not a domain");
                }
                holder
            }
            (
                ObjectType::ObjectFunction | ObjectType::ObjectRoutine | ObjectType::ObjectProcedure,
                Kind::ObjectWithArgs(o),
            ) => {
                let id = self.function_meant(o)?;
                if of == ObjectType::ObjectProcedure {
                    let name = self.catalog.functions.get(&id).map_or("", |f| &*f.name);
                    return wrong(name, "not a procedure");
                }
                Holder::function(self.catalog, id).ok_or_else(|| unexpected("a function"))?
            }
            _ => return Err(unexpected("what GRANT is about")),
        })
    }

    fn all_in_schemas(&mut self, s: &'a GrantStmt) -> SqlResult<Vec<Holder>> {
        let mut holders = Vec::new();
        for node in &s.objects {
            let schema = self.names().schema(string(node)?, -1)?;
            self.note_schema(schema);
            for holder in Holder::all(self.catalog) {
                let fits = match s.objtype() {
                    ObjectType::ObjectTable => {
                        matches!(holder.kind, RightsOf::Table | RightsOf::View | RightsOf::Material)
                    }
                    ObjectType::ObjectSequence => holder.kind == RightsOf::Sequence,
                    ObjectType::ObjectProcedure => false,
                    _ => holder.kind == RightsOf::Function,
                };
                if fits && holder.schema(self.catalog) == Some(schema) {
                    holders.push(holder)
                }
            }
        }
        Ok(holders)
    }

    pub(super) fn default_privileges(&mut self, s: &'a AlterDefaultPrivilegesStmt) -> SqlResult<Statement> {
        let action = s.action.as_ref().ok_or_else(|| unexpected("ALTER DEFAULT PRIVILEGES"))?;
        let (mut roles, mut schemas) = (vec![self.roles.0], Vec::new());
        for o in options(&s.options)? {
            let items = match o.arg.as_deref().map(kind).transpose()? {
                Some(Kind::List(l)) => &l.items,
                _ => return Err(unexpected("ALTER DEFAULT PRIVILEGES")),
            };
            match o.defname.as_str() {
                "roles" => roles = self.role_ids(items)?,
                "schemas" => {
                    for node in items {
                        schemas.push(self.names().schema(string(node)?, -1)?)
                    }
                }
                _ => return Err(redundant(o)),
            }
        }
        let (letter, kind_of) = match action.objtype() {
            ObjectType::ObjectTable => ('r', AclKind::Table),
            ObjectType::ObjectSequence => ('S', AclKind::Sequence),
            ObjectType::ObjectFunction => ('f', AclKind::Function),
            ObjectType::ObjectType => ('T', AclKind::Type),
            ObjectType::ObjectSchema => ('n', AclKind::Schema),
            _ => return Err(SqlError::unsupported("ALTER DEFAULT PRIVILEGES of such objects")),
        };
        if letter == 'n' && !schemas.is_empty() {
            let message = "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS";
            return Err(SqlError::new("0LP01", message));
        }
        let (listed, columns) = self.privileges(&action.privileges, kind_of)?;
        if !columns.is_empty() {
            return Err(SqlError::new("0LP01", "default privileges cannot be set for columns"));
        }
        if let Some(Listed::Some(p)) = listed
            && p & !kind_of.all() != 0
        {
            return Err(wrong_kind("USAGE", kind_of));
        }
        let grantees = self.grantees(&action.grantees)?;
        if action.is_grant && action.grant_option && grantees.contains(&PUBLIC_ROLE) {
            return Err(SqlError::new("0LP01", "grant options can only be granted to roles"));
        }
        let grant = Grant {
            is_grant: action.is_grant,
            kind: kind_of,
            holders: Vec::new(),
            listed,
            columns,
            grantees,
            option: action.grant_option,
            grantor: None,
            cascade: action.behavior() == DropBehavior::DropCascade,
        };
        Ok(role_statement(RoleStatement::Defaults { roles, schemas, letter, grant }))
    }

    pub(super) fn reassign_owned(&mut self, s: &'a ReassignOwnedStmt) -> SqlResult<Statement> {
        let from = self.role_ids(&s.roles)?;
        let to = self.role_id(s.newrole.as_ref().ok_or_else(|| unexpected("REASSIGN OWNED"))?)?;
        Ok(role_statement(RoleStatement::Reassign { from, to }))
    }

    pub(super) fn drop_owned(&mut self, s: &'a DropOwnedStmt) -> SqlResult<Statement> {
        let of = self.role_ids(&s.roles)?;
        let cascade = s.behavior() == DropBehavior::DropCascade;
        Ok(role_statement(RoleStatement::DropOwned { of, cascade }))
    }
}

pub(super) fn role_statement(s: RoleStatement) -> Statement {
    Statement::Role(Box::new(s))
}
