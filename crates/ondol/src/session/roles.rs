//! Roles, owners and privileges: what CREATE ROLE, GRANT and their like do, with PostgreSQL's rules of who
//! may, its notices and its errors.
use crate::session::Session;
use crate::session::schema::listed;
use ondol_engine::acl::{self, Acl, AclItem, AclKind, Change, Privileges};
use ondol_engine::rights::DATABASE;
use ondol_engine::role::{BOOTSTRAP, DATABASE_OWNER, FIRST_ROLE};
use ondol_engine::settings::{Scope, ScopeSettings};
use ondol_engine::{Catalog, Claim, Membership, ObjectRights, RightsOf, RoleDef, claims, schema_id};
use ondol_sql::bind::role::{
    Claimed, Grant, GrantRole, Holder, Listed, OfColumns, Password, RoleOptions, RoleStatement,
};
use ondol_sql::bound::{Dropped, SettingChange};
use ondol_sql::needs::{denied, not_owner};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::cell::RefCell;
use std::collections::BTreeSet;

type Warnings = RefCell<Vec<(&'static str, String)>>;

fn forbidden(message: impl Into<String>) -> SqlError {
    SqlError::new(sqlstate::INSUFFICIENT_PRIVILEGE, message)
}

/// What is claimed of something whose rights change.
fn claims_of(holder: &Holder, c: &Catalog) -> Vec<Claim> {
    match &holder.claimed {
        Claimed::Relation(name) | Claimed::Type(name) => vec![claims::name(name)],
        Claimed::Function(id) => claims::drop_function(c, *id),
        Claimed::Schema(name) => claims::change_schema(c, name),
        Claimed::Database => vec![claims::database()],
    }
}

fn role_claims<'a>(c: &'a Catalog, ids: &'a [u32], alone: bool) -> impl Iterator<Item = Claim> + 'a {
    ids.iter().filter_map(|id| c.role(*id)).map(move |r| claims::role(&r.name, alone))
}

/// What a statement claims before it looks.
pub(crate) fn wanted(statement: &RoleStatement, c: &Catalog) -> Vec<Claim> {
    match statement {
        RoleStatement::Create { name, options } => {
            let mut all = vec![claims::role(name, true)];
            all.extend(role_claims(c, &options.in_roles, false));
            all.extend(role_claims(c, &options.members, true));
            all.extend(role_claims(c, &options.admins, true));
            all
        }
        RoleStatement::Alter { role, options, .. } => role_claims(c, &[*role], options.members.is_empty())
            .chain(role_claims(c, &options.members, true))
            .collect(),
        RoleStatement::Rename { role, to } => {
            role_claims(c, &[*role], true).chain([claims::role(to, true)]).collect()
        }
        RoleStatement::Drop { roles } => {
            let ids: Vec<u32> = roles.iter().filter_map(Dropped::there).copied().collect();
            role_claims(c, &ids, true).collect()
        }
        RoleStatement::GrantRole(g) => {
            role_claims(c, &g.members, true).chain(role_claims(c, &g.roles, false)).collect()
        }
        RoleStatement::Grant(g) => {
            let holders = g.holders.iter().flat_map(|h| claims_of(h, c));
            holders.chain(role_claims(c, &g.grantees, false)).collect()
        }
        RoleStatement::Defaults { roles, grant, .. } => {
            role_claims(c, roles, true).chain(role_claims(c, &grant.grantees, false)).collect()
        }
        RoleStatement::Owner { holder, to, .. } => {
            claims_of(holder, c).into_iter().chain(role_claims(c, &[*to], false)).collect()
        }
        RoleStatement::Reassign { from, to } => {
            role_claims(c, from, true).chain(role_claims(c, &[*to], false)).collect()
        }
        RoleStatement::DropOwned { of, .. } => role_claims(c, of, true).collect(),
        RoleStatement::Settings { scope, .. } => claims::settings(c, *scope),
    }
}

/// The privileges that are meant of something of a kind.
fn meant(listed: &Listed, kind: AclKind) -> Privileges {
    match listed {
        Listed::All => kind.all(),
        Listed::Some(p) => *p,
    }
}

/// A verifier of the password; a text that is one already is taken as it is.
fn verifier(password: &Password) -> SqlResult<Option<String>> {
    let text = &password.0;
    if text.is_empty() {
        return Ok(None);
    }
    if is_verifier(text) {
        return Ok(Some(text.clone()));
    }
    let is_md5 =
        text.len() == 35 && text.starts_with("md5") && text[3..].bytes().all(|b| b.is_ascii_hexdigit());
    if is_md5 {
        return Err(SqlError::unsupported("an MD5-encrypted password")
            .hint("Give the password itself, or its SCRAM-SHA-256 verifier."));
    }
    made(text)
}
#[cfg(feature = "server")]
fn made(password: &str) -> SqlResult<Option<String>> {
    Ok(Some(verifier_of(password)))
}
/// A new verifier, of the password as clients prepare it.
#[cfg(feature = "server")]
pub(crate) fn verifier_of(password: &str) -> String {
    postgres_protocol::password::scram_sha_256(password.as_bytes())
}
#[cfg(not(feature = "server"))]
fn made(_: &str) -> SqlResult<Option<String>> {
    Err(SqlError::unsupported("making a password's verifier in a build without the server")
        .hint("Give the password's SCRAM-SHA-256 verifier."))
}

/// `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`
fn is_verifier(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("SCRAM-SHA-256$") else { return false };
    let base64 = |s: &str| {
        !s.is_empty() && s.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='))
    };
    let Some((first, keys)) = rest.split_once('$') else { return false };
    let (Some((count, salt)), Some((stored, server))) = (first.split_once(':'), keys.split_once(':')) else {
        return false;
    };
    count.parse::<u32>().is_ok_and(|n| n > 0)
        && base64(salt)
        && [stored, server].iter().all(|k| k.len() == 44 && base64(k))
}

/// Makes a role what the options say.
fn apply(def: &mut RoleDef, options: &RoleOptions, password: &Option<Option<String>>) {
    let set = |to: &mut bool, said: Option<bool>| *to = said.unwrap_or(*to);
    set(&mut def.superuser, options.superuser);
    set(&mut def.inherit, options.inherit);
    set(&mut def.create_role, options.create_role);
    set(&mut def.create_db, options.create_db);
    set(&mut def.login, options.login);
    set(&mut def.replication, options.replication);
    set(&mut def.bypass_rls, options.bypass_rls);
    def.connection_limit = options.connection_limit.unwrap_or(def.connection_limit);
    def.valid_until = options.valid_until.unwrap_or(def.valid_until);
    if let Some(password) = password {
        def.password.clone_from(password)
    }
}

impl Session {
    pub(crate) fn run_role(&mut self, statement: &RoleStatement) -> SqlResult<()> {
        match statement {
            RoleStatement::Create { name, options } => self.create_role(name, options),
            RoleStatement::Alter { role, options, add } => self.alter_role(*role, options, *add),
            RoleStatement::Rename { role, to } => self.rename_role(*role, to),
            RoleStatement::Drop { roles } => self.drop_roles(roles),
            RoleStatement::GrantRole(g) => self.grant_roles(g),
            RoleStatement::Grant(g) => g.holders.iter().try_for_each(|h| self.grant(g, h)),
            RoleStatement::Defaults { roles, schemas, letter, grant } => {
                self.set_defaults(roles, schemas, *letter, grant)
            }
            RoleStatement::Owner { holder, to, .. } => self.change_owner(holder, *to),
            RoleStatement::Reassign { from, to } => self.reassign(from, *to),
            RoleStatement::DropOwned { of, cascade } => self.drop_owned(of, *cascade),
            RoleStatement::Settings { scope, change, .. } => self.keep_setting(*scope, change),
        }?;
        // Who the session is may have another name now.
        let catalog = self.connection.catalog();
        self.identify_by(&catalog);
        Ok(())
    }

    /// Whether the role may make and change roles.
    fn makes_roles(&self, c: &Catalog) -> bool {
        c.is_superuser(self.role()) || c.role(self.role()).is_some_and(|r| r.create_role)
    }

    fn create_role(&mut self, name: &str, options: &RoleOptions) -> SqlResult<()> {
        let c = self.connection.catalog();
        let is_superuser = c.is_superuser(self.role());
        for (said, what) in [
            (options.superuser, "superusers"),
            (options.replication, "replication users"),
            (options.bypass_rls, "bypassrls users"),
        ] {
            if said == Some(true) && !is_superuser {
                return Err(forbidden(format!("must be superuser to create {what}")));
            }
        }
        if !self.makes_roles(&c) {
            return Err(forbidden("permission denied to create role"));
        }
        let mut def = RoleDef::new(name);
        let password = self.new_password(options)?;
        apply(&mut def, options, &password);
        let id = self.connection.create_role(&def)?;
        let grants = [
            (options.in_roles.clone(), vec![id], false),
            (vec![id], options.admins.clone(), true),
            (vec![id], options.members.clone(), false),
        ];
        for (roles, members, admin) in grants {
            let grant = GrantRole { is_grant: true, roles, members, admin, grantor: None };
            self.grant_roles_as(&grant, true)?
        }
        Ok(())
    }

    fn new_password(&mut self, options: &RoleOptions) -> SqlResult<Option<Option<String>>> {
        let Some(said) = &options.password else { return Ok(None) };
        let Some(password) = said else { return Ok(Some(None)) };
        let made = verifier(password)?;
        if made.is_none() {
            self.notice("00000", "empty string is not a valid password, clearing password")
        }
        Ok(Some(made))
    }

    fn alter_role(&mut self, role: u32, options: &RoleOptions, add: bool) -> SqlResult<()> {
        let c = self.connection.catalog();
        let is_superuser = c.is_superuser(self.role());
        let Some(old) = c.role(role).cloned() else { return Ok(()) };
        if (old.superuser || options.superuser.is_some()) && !is_superuser {
            return Err(forbidden(
                "must be superuser to alter superuser roles or change superuser attribute",
            ));
        }
        if (old.replication || options.replication.is_some()) && !is_superuser {
            return Err(forbidden(
                "must be superuser to alter replication roles or change replication attribute",
            ));
        }
        if options.bypass_rls.is_some() && !is_superuser {
            return Err(forbidden("must be superuser to change bypassrls attribute"));
        }
        let only_password = options.inherit.is_none()
            && options.create_role.is_none()
            && options.create_db.is_none()
            && options.login.is_none()
            && options.connection_limit.is_none()
            && options.valid_until.is_none()
            && options.members.is_empty()
            && options.password.is_some();
        let is_own = only_password && role == self.role();
        if !is_own && !self.makes_roles(&c) {
            return Err(forbidden("permission denied"));
        }
        if role == BOOTSTRAP && options.superuser == Some(false) {
            return Err(forbidden("permission denied to alter role")
                .detail("The bootstrap user must have the SUPERUSER attribute."));
        }
        let password = self.new_password(options)?;
        self.connection.alter_role(&old.name, &|_, def| {
            apply(def, options, &password);
            Ok(())
        })?;
        if options.members.is_empty() {
            return Ok(());
        }
        let (roles, members) = (vec![role], options.members.clone());
        self.grant_roles(&GrantRole { is_grant: add, roles, members, admin: false, grantor: None })
    }

    /// ALTER ROLE ... SET and ALTER DATABASE ... SET.
    fn keep_setting(&mut self, scope: Scope, change: &SettingChange) -> SqlResult<()> {
        let c = self.connection.catalog();
        let own = self.role();
        match (c.role(scope.role), scope.in_database) {
            (Some(role), _) if role.superuser && !c.is_superuser(own) => {
                return Err(forbidden("must be superuser to alter superusers"));
            }
            (Some(role), _) if role.id != own && !self.makes_roles(&c) => {
                return Err(forbidden("permission denied"));
            }
            (None, true) if !c.has_rights_of(own, c.owner(DATABASE)) => {
                return Err(not_owner("database", "postgres"));
            }
            (None, false) if !c.is_superuser(own) => {
                return Err(forbidden("must be superuser to alter settings globally"));
            }
            _ => {}
        }
        let kept = match change {
            SettingChange::Set { name, value } => {
                Some((self.settings.keepable(name, Some(value))?, Some(value)))
            }
            SettingChange::Reset(name) => Some((self.settings.keepable(name, None)?, None)),
            SettingChange::ResetAll => None,
        };
        self.connection.change_settings(scope, &|_, all: &mut ScopeSettings| {
            let Some((name, value)) = &kept else {
                all.clear();
                return Ok(());
            };
            let place = all.iter().position(|s| s.0.eq_ignore_ascii_case(name));
            match (value, place) {
                (Some(value), Some(place)) => all[place].1.clone_from(value),
                (Some(value), None) => all.push((name.clone(), (*value).clone())),
                (None, Some(place)) => drop(all.remove(place)),
                (None, None) => {}
            }
            Ok(())
        })
    }

    /// Begins with what the dictionary says of who logs in; what cannot be taken is left out, and told.
    #[cfg(feature = "server")]
    pub(crate) fn begin_with_kept(&mut self) {
        let c = self.connection.catalog();
        let scopes = Scope::of_session(self.identity.authenticated);
        for (scope, source) in scopes.iter().zip(["global", "database", "user", "database user"]) {
            for (name, value) in c.settings.get(scope).iter().flat_map(|s| s.iter()) {
                if let Err(e) = self.settings.begin_with(name, value, source) {
                    self.warn(e.sqlstate(), e.0.message.clone())
                }
            }
        }
    }

    fn rename_role(&mut self, role: u32, to: &str) -> SqlResult<()> {
        let c = self.connection.catalog();
        let refused = |what: &str| {
            let message = format!("{what} cannot be renamed");
            Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message))
        };
        if role == self.identity.session {
            return refused("session user");
        }
        if role == self.role() {
            return refused("current user");
        }
        let Some(old) = c.role(role).cloned() else { return Ok(()) };
        if c.role_named(to).is_some() {
            let message = format!("role \"{to}\" already exists");
            return Err(SqlError::new(sqlstate::DUPLICATE_OBJECT, message));
        }
        if old.superuser && !c.is_superuser(self.role()) {
            return Err(forbidden("must be superuser to rename superusers"));
        }
        if !self.makes_roles(&c) {
            return Err(forbidden("permission denied to rename role"));
        }
        self.connection.rename_role(&old.name, to)
    }

    fn drop_roles(&mut self, roles: &[Dropped<u32>]) -> SqlResult<()> {
        let c = self.connection.catalog();
        if !self.makes_roles(&c) {
            return Err(forbidden("permission denied to drop role"));
        }
        for dropped in roles {
            let role = match dropped {
                Dropped::There(role) => *role,
                Dropped::Missing(notice) => {
                    self.notice("00000", notice.clone());
                    continue;
                }
            };
            // One may be named twice.
            let c = self.connection.catalog();
            let Some(old) = c.role(role).cloned() else {
                let name = c.role_name(role);
                let message = format!("role \"{name}\" does not exist");
                return Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, message));
            };
            let in_use = |what: &str| {
                Err(SqlError::new(sqlstate::OBJECT_IN_USE, format!("{what} user cannot be dropped")))
            };
            if role == self.role() {
                return in_use("current");
            }
            if role == self.identity.session {
                return in_use("session");
            }
            if old.superuser && !c.is_superuser(self.role()) {
                return Err(forbidden("must be superuser to drop superusers"));
            }
            if role < FIRST_ROLE {
                let message =
                    format!("cannot drop role {} because it is required by the database system", old.name);
                return Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message));
            }
            self.connection.drop_role(&old.name, &|c, def| refuse_used(c, def))?
        }
        Ok(())
    }

    fn grant_roles(&mut self, g: &GrantRole) -> SqlResult<()> {
        self.grant_roles_as(g, false)
    }

    /// `made`: one of the roles was just made by this role.
    fn grant_roles_as(&mut self, g: &GrantRole, made: bool) -> SqlResult<()> {
        let me = self.role();
        for role in &g.roles {
            let c = self.connection.catalog();
            let Some(def) = c.role(*role).cloned() else { continue };
            if g.members.is_empty() {
                continue;
            }
            if def.superuser {
                if !c.is_superuser(me) {
                    return Err(forbidden("must be superuser to alter superusers"));
                }
            } else if !self.makes_roles(&c) && !c.is_admin(me, *role) && !made {
                return Err(forbidden(format!("must have admin option on role \"{}\"", def.name)));
            }
            if g.is_grant && *role == DATABASE_OWNER {
                let message = format!("role \"{}\" cannot have explicit members", def.name);
                return Err(SqlError::new(sqlstate::INTERNAL_ERROR, message));
            }
            let grantor = g.grantor.unwrap_or(me);
            if grantor != me && !c.is_superuser(me) {
                return Err(forbidden("must be superuser to set grantor"));
            }
            for member in &g.members {
                let warnings = Warnings::default();
                let name = c.role_name(*member);
                self.connection.alter_role(&name, &|c, to| match g.is_grant {
                    true => add_member(c, to, &def, grantor, g.admin, &warnings),
                    false => {
                        remove_member(to, &def, g.admin, &warnings);
                        Ok(())
                    }
                })?;
                self.tell_all(warnings)
            }
        }
        Ok(())
    }

    fn tell_all(&mut self, warnings: Warnings) {
        for (state, message) in warnings.into_inner() {
            match state.starts_with("01") {
                true => self.warn(state, message),
                false => self.notice(state, message),
            }
        }
    }

    /// GRANT or REVOKE on one thing.
    fn grant(&mut self, g: &Grant, holder: &Holder) -> SqlResult<()> {
        let (me, warnings) = (self.role(), Warnings::default());
        let of = holder.clone();
        self.connection.change_rights(holder.id, |c| claims_of(&of, c), &|c, rights| {
            change_acls(c, me, g, holder, rights, &warnings)
        })?;
        self.tell_all(warnings);
        Ok(())
    }

    fn set_defaults(&mut self, roles: &[u32], schemas: &[u32], letter: char, g: &Grant) -> SqlResult<()> {
        let me = self.role();
        let all = [0];
        let schemas = if schemas.is_empty() { &all[..] } else { schemas };
        for role in roles {
            let c = self.connection.catalog();
            let name = c.role_name(*role);
            if !c.is_member(me, *role) {
                return Err(forbidden(format!("must be member of role \"{name}\"")));
            }
            self.connection.alter_role(&name, &|_, def| {
                for schema in schemas {
                    let usual = Acl::usual(g.kind, *role);
                    let first = if *schema == 0 { usual.clone() } else { Acl::default() };
                    let mut acl = def.defaults.get(&(*schema, letter)).cloned().unwrap_or(first);
                    let wanted = g.listed.as_ref().map_or(0, |l| meant(l, g.kind));
                    for grantee in &g.grantees {
                        change(&mut acl, g, *role, *role, *grantee, wanted)?
                    }
                    let says_nothing = if *schema == 0 { acl.is_as(&usual) } else { acl.items.is_empty() };
                    match says_nothing {
                        true => drop(def.defaults.remove(&(*schema, letter))),
                        false => drop(def.defaults.insert((*schema, letter), acl)),
                    }
                }
                Ok(())
            })?
        }
        Ok(())
    }

    /// OWNER TO
    fn change_owner(&mut self, holder: &Holder, to: u32) -> SqlResult<()> {
        let (c, me) = (self.connection.catalog(), self.role());
        if c.owner(holder.id) == to {
            return Ok(());
        }
        if !c.is_superuser(me) {
            if !c.owns(me, holder.id) {
                return Err(not_owner(holder.kind.word(), &holder.name));
            }
            if !c.is_member(me, to) {
                return Err(forbidden(format!("must be member of role \"{}\"", c.role_name(to))));
            }
            match holder.schema(&c) {
                Some(schema) if !c.may_use_schema(to, schema, acl::CREATE) => {
                    return Err(denied("schema", c.schema_name(schema)));
                }
                None if holder.kind == RightsOf::Schema => {
                    let id = ondol_engine::rights::DATABASE;
                    if c.privileges(me, RightsOf::Database, id, acl::CREATE) == 0 {
                        return Err(denied("database", &self.database.name));
                    }
                }
                _ => {}
            }
        }
        self.give(holder, to)
    }

    /// Makes something another role's, with the sequences of its columns.
    fn give(&mut self, holder: &Holder, to: u32) -> SqlResult<()> {
        let of = holder.clone();
        self.connection.change_rights(holder.id, |c| claims_of(&of, c), &|_, rights| {
            let from = std::mem::replace(&mut rights.owner, to);
            rights.acl.iter_mut().chain(rights.columns.values_mut()).for_each(|a| a.hand_over(from, to));
            Ok(())
        })?;
        let c = self.connection.catalog();
        let sequences: Vec<Holder> = match c.table_by_id(holder.id) {
            Some(t) => {
                let named = t.def.sequences().filter_map(|s| c.sequence_by_id(s));
                named.filter_map(|s| Holder::relation(&c, &s.def.full_name())).collect()
            }
            None => Vec::new(),
        };
        for s in sequences.iter().filter(|s| c.owner(s.id) != to) {
            self.give(s, to)?
        }
        Ok(())
    }

    fn reassign(&mut self, from: &[u32], to: u32) -> SqlResult<()> {
        let (c, me) = (self.connection.catalog(), self.role());
        for role in from {
            if !c.has_rights_of(me, *role) {
                return Err(forbidden("permission denied to reassign objects"));
            }
        }
        if !c.has_rights_of(me, to) {
            return Err(forbidden("permission denied to reassign objects"));
        }
        if let Some(role) = from.iter().find(|r| **r < FIRST_ROLE) {
            let message = format!(
                "cannot reassign ownership of objects owned by role {} because they are required by the database system",
                c.role_name(*role)
            );
            return Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message));
        }
        for holder in Holder::all(&c) {
            if from.contains(&self.connection.catalog().owner(holder.id)) {
                self.give(&holder, to)?
            }
        }
        Ok(())
    }

    fn drop_owned(&mut self, of: &[u32], cascade: bool) -> SqlResult<()> {
        let (c, me) = (self.connection.catalog(), self.role());
        for role in of {
            if !c.has_rights_of(me, *role) {
                return Err(forbidden("permission denied to drop objects"));
            }
            if *role < FIRST_ROLE {
                let message = format!(
                    "cannot drop objects owned by role {} because they are required by the database system",
                    c.role_name(*role)
                );
                return Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message));
            }
        }
        // What was given to them first: it may be of things that go.
        for holder in Holder::all(&c) {
            let rights = c.rights_of(holder.id);
            let named = of.iter().any(|r| rights.owner != *r && rights.names(*r));
            if named {
                let held = holder.clone();
                self.connection.change_rights(holder.id, |c| claims_of(&held, c), &|_, rights| {
                    for role in of {
                        rights.acl.iter_mut().for_each(|a| a.forget(*role));
                        rights.columns.values_mut().for_each(|a| a.forget(*role));
                        rights.columns.retain(|_, a| !a.items.is_empty())
                    }
                    Ok(())
                })?
            }
        }
        for role in c.roles.values().filter(|r| !r.defaults.is_empty()) {
            self.connection.alter_role(&role.name, &|_, def| {
                if of.contains(&def.id) {
                    def.defaults.clear()
                }
                for r in of {
                    def.defaults.values_mut().for_each(|a| a.forget(*r))
                }
                let owner = def.id;
                def.defaults.retain(|(schema, letter), acl| match schema {
                    0 => default_kind(*letter).is_none_or(|k| !acl.is_as(&Acl::usual(k, owner))),
                    _ => !acl.items.is_empty(),
                });
                Ok(())
            })?
        }
        self.drop_of(of, cascade)
    }

    /// Drops what the roles own. What rests on each other goes together.
    fn drop_of(&mut self, of: &[u32], cascade: bool) -> SqlResult<()> {
        loop {
            let c = self.connection.catalog();
            let owned: Vec<Holder> =
                Holder::all(&c).into_iter().filter(|h| of.contains(&c.owner(h.id))).collect();
            if owned.is_empty() {
                return Ok(());
            }
            let mut failed = None;
            let before = owned.len();
            for holder in owned {
                let c = self.connection.catalog();
                // It may have gone with another.
                if !Holder::all(&c).contains(&holder) || holder.kind == RightsOf::Database {
                    continue;
                }
                if let Err(e) = self.drop_one(&c, &holder, cascade) {
                    if e.sqlstate() != sqlstate::DEPENDENT_OBJECTS_STILL_EXIST {
                        return Err(e);
                    }
                    failed = Some(e)
                }
            }
            let c = self.connection.catalog();
            let left = Holder::all(&c).into_iter().filter(|h| of.contains(&c.owner(h.id))).count();
            match failed {
                Some(e) if left == before => return Err(e),
                None if left == before => return Ok(()),
                _ => {}
            }
        }
    }

    fn drop_one(&mut self, c: &Catalog, holder: &Holder, cascade: bool) -> SqlResult<()> {
        match &holder.claimed {
            Claimed::Relation(name) => {
                let there = [Dropped::There(name.clone())];
                match holder.kind {
                    RightsOf::View => self.drop_views(&there, false, cascade, "view"),
                    RightsOf::Material => self.drop_views(&there, false, cascade, "materialized view"),
                    RightsOf::Sequence => match c.owner_of(holder.id) {
                        Some(_) => Ok(()),
                        None => self.drop_sequences(&there, false, cascade),
                    },
                    _ => self.drop_tables(&there, false, cascade),
                }
            }
            Claimed::Type(name) => {
                let what = if holder.kind == RightsOf::Domain { "domain" } else { "type" };
                self.drop_types(&[Dropped::There(name.clone())], false, cascade, what)
            }
            Claimed::Function(id) => self.drop_functions(&[Dropped::There(*id)], false, cascade),
            Claimed::Schema(name) => self.drop_schemas(&[Dropped::There(name.clone())], cascade),
            Claimed::Database => Ok(()),
        }
    }
}

/// What kind of list the letter of `pg_default_acl` stands for.
fn default_kind(letter: char) -> Option<AclKind> {
    AclKind::of_letter(if letter == 'S' { 's' } else { letter })
}

/// A role that is dropped owns nothing, and was given nothing.
fn refuse_used(c: &Catalog, role: &RoleDef) -> SqlResult<()> {
    let mut found: Vec<String> = Vec::new();
    let mut all = Holder::all(c);
    // As they were made.
    all.sort_by_key(|h| h.id & !schema_id(0));
    for holder in all {
        let rights = c.rights_of(holder.id);
        let what = format!("{} {}", holder.kind.word(), shown(c, &holder));
        if rights.owner == role.id {
            found.push(format!("owner of {what}"))
        } else if rights.acl.as_ref().is_some_and(|a| a.names(role.id)) {
            found.push(format!("privileges for {what}"))
        }
        if rights.owner != role.id {
            let given = rights.columns.iter().filter(|(_, a)| a.names(role.id));
            found.extend(given.map(|(name, _)| format!("privileges for column {name} of {what}")))
        }
    }
    for other in c.roles.values() {
        for ((schema, letter), acl) in &other.defaults {
            let of = match letter {
                'r' => "relations",
                'S' => "sequences",
                'f' => "functions",
                'T' => "types",
                _ => "schemas",
            };
            let within = match schema {
                0 => String::new(),
                n => format!(" in schema {}", c.schema_name(*n)),
            };
            let what = format!("default privileges on new {of} belonging to role {}{within}", other.name);
            if other.id == role.id {
                found.push(format!("owner of {what}"))
            } else if acl.names(role.id) {
                found.push(format!("privileges for {what}"))
            }
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let message = format!("role \"{}\" cannot be dropped because some objects depend on it", role.name);
    Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message).detail(listed(&found)))
}

/// A name as PostgreSQL's messages of dependents have it.
fn shown(c: &Catalog, holder: &Holder) -> String {
    let path = ondol_engine::Path::of(c, ondol_engine::name::USUAL_PATH);
    match &holder.claimed {
        Claimed::Relation(name) | Claimed::Type(name) => c.shown(&path, name),
        Claimed::Function(id) => match c.functions.get(id) {
            Some(f) => {
                let types: Vec<&str> = f.arg_types().map(|t| t.name()).collect();
                let name = ondol_engine::Name::new(f.schema, &*f.name);
                let in_sight = path.schemas.contains(&f.schema);
                let name = if in_sight { f.name.clone() } else { c.qualified(&name) };
                format!("{name}({})", types.join(","))
            }
            None => holder.name.clone(),
        },
        Claimed::Schema(_) | Claimed::Database => holder.name.clone(),
    }
}

fn add_member(
    c: &Catalog,
    to: &mut RoleDef,
    role: &RoleDef,
    grantor: u32,
    admin: bool,
    warnings: &Warnings,
) -> SqlResult<()> {
    if to.id == DATABASE_OWNER {
        let message = format!("role \"{}\" cannot be a member of any role", to.name);
        return Err(SqlError::new(sqlstate::INTERNAL_ERROR, message));
    }
    if c.is_real_member(role.id, to.id) {
        let message = format!("role \"{}\" is a member of role \"{}\"", role.name, to.name);
        return Err(SqlError::new("0LP01", message));
    }
    match to.memberships.iter_mut().find(|m| m.role == role.id) {
        Some(m) if m.admin || !admin => {
            let message = format!("role \"{}\" is already a member of role \"{}\"", to.name, role.name);
            warnings.borrow_mut().push((sqlstate::DUPLICATE_OBJECT, message))
        }
        Some(m) => (m.grantor, m.admin) = (grantor, true),
        None => {
            to.memberships.push(Membership { role: role.id, grantor, admin });
            to.memberships.sort_by_key(|m| m.role)
        }
    }
    Ok(())
}

fn remove_member(to: &mut RoleDef, role: &RoleDef, admin_only: bool, warnings: &Warnings) {
    match to.memberships.iter_mut().find(|m| m.role == role.id) {
        None => {
            let message = format!("role \"{}\" is not a member of role \"{}\"", to.name, role.name);
            warnings.borrow_mut().push(("01000", message))
        }
        Some(m) if admin_only => m.admin = false,
        Some(_) => to.memberships.retain(|m| m.role != role.id),
    }
}

/// Changes what a role has in a list.
fn change(
    acl: &mut Acl,
    g: &Grant,
    owner: u32,
    grantor: u32,
    grantee: u32,
    wanted: Privileges,
) -> SqlResult<()> {
    let privileges = if g.is_grant || !g.option { wanted } else { 0 };
    let options = if !g.is_grant || g.option { wanted } else { 0 };
    let item = AclItem { grantee, grantor, privileges, options };
    acl.change(Change { item, adds: g.is_grant, cascade: g.cascade }, owner)
}

/// Which of the privileges a role may give or take, as whom; what PostgreSQL says where it is not all.
fn allowed(
    c: &Catalog,
    me: u32,
    (acl, owner, kind): (&Acl, u32, AclKind),
    g: &Grant,
    (wanted, is_all): (Privileges, bool),
    (word, name, label): (&str, &str, &str),
    warnings: &Warnings,
) -> SqlResult<(u32, Privileges)> {
    let (grantor, may) = acl.grantor(c, me, owner, wanted);
    if may == 0 {
        let (has, gives) = acl.mask(c, me, owner, kind.all(), kind.all());
        if has == 0 && gives == 0 {
            return Err(denied(word, name));
        }
    }
    let what = match g.is_grant {
        true => ("01007", "privileges were granted"),
        false => ("01006", "privileges could be revoked"),
    };
    if may == 0 {
        warnings.borrow_mut().push((what.0, format!("no {} for {label}", what.1)))
    } else if !is_all && may != wanted {
        warnings.borrow_mut().push((what.0, format!("not all {} for {label}", what.1)))
    }
    Ok((grantor, may))
}

/// What GRANT or REVOKE makes of an object's rights.
fn change_acls(
    c: &Catalog,
    me: u32,
    g: &Grant,
    holder: &Holder,
    rights: &mut ObjectRights,
    warnings: &Warnings,
) -> SqlResult<()> {
    let kind = holder.kind.acl_kind();
    let owner = rights.owner;
    let before = rights.acl.clone().unwrap_or_else(|| Acl::usual(kind, owner));
    let names = column_names(c, holder.id);
    if let Some(listed) = &g.listed {
        let mut wanted = meant(listed, kind);
        if kind == AclKind::Sequence && wanted & !kind.all() != 0 {
            let message =
                format!("sequence \"{}\" only supports USAGE, SELECT, and UPDATE privileges", holder.name);
            warnings.borrow_mut().push(("01000", message));
            wanted &= kind.all()
        }
        if kind == AclKind::Table && wanted & acl::USAGE != 0 {
            return Err(SqlError::new("0LP01", "invalid privilege type USAGE for table"));
        }
        let of = (&before, owner, kind);
        let label = format!("\"{}\"", holder.name);
        let shown = (holder.kind.word(), &*holder.name, &*label);
        let is_all = *listed == Listed::All;
        let (grantor, may) = allowed(c, me, of, g, (wanted, is_all), shown, warnings)?;
        let mut after = before.clone();
        for grantee in &g.grantees {
            change(&mut after, g, owner, grantor, *grantee, may)?
        }
        if after != before {
            rights.acl = Some(after)
        }
        // What is taken away of the whole is taken away of each column.
        if !g.is_grant && kind == AclKind::Table {
            let privileges = Listed::Some(wanted & AclKind::Column.all());
            let columns = rights.columns.keys().cloned().collect();
            let of_all = OfColumns { privileges, columns };
            change_columns(c, me, g, holder, rights, &before, &of_all, &Warnings::default())?
        }
    }
    for of in &g.columns {
        if kind != AclKind::Table {
            let message = format!("sequence \"{}\" only supports SELECT column privileges", holder.name);
            return Err(SqlError::new("0LP01", message));
        }
        if let Some(missing) = of.columns.iter().find(|n| !names.contains(n.as_str())) {
            let message = format!("column \"{missing}\" of relation \"{}\" does not exist", holder.name);
            return Err(SqlError::new(sqlstate::UNDEFINED_COLUMN, message));
        }
        change_columns(c, me, g, holder, rights, &before, of, warnings)?
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)] // two calls
fn change_columns(
    c: &Catalog,
    me: u32,
    g: &Grant,
    holder: &Holder,
    rights: &mut ObjectRights,
    whole: &Acl,
    of: &OfColumns,
    warnings: &Warnings,
) -> SqlResult<()> {
    let (owner, wanted) = (rights.owner, meant(&of.privileges, AclKind::Column));
    if wanted == 0 {
        return Ok(());
    }
    for name in &of.columns {
        let old = rights.columns.get(name).cloned().unwrap_or_default();
        let mut merged = whole.clone();
        merged.items.extend(old.items.iter().copied());
        let is_all = of.privileges == Listed::All;
        let label = format!("column \"{name}\" of relation \"{}\"", holder.name);
        let shown = (holder.kind.word(), &*holder.name, &*label);
        let found = allowed(c, me, (&merged, owner, AclKind::Column), g, (wanted, is_all), shown, warnings)?;
        let (grantor, may) = found;
        let mut after = old;
        for grantee in &g.grantees {
            change(&mut after, g, owner, grantor, *grantee, may)?
        }
        match after.items.is_empty() {
            true => drop(rights.columns.remove(name)),
            false => drop(rights.columns.insert(name.clone(), after)),
        }
    }
    Ok(())
}

fn column_names(c: &Catalog, id: u32) -> BTreeSet<String> {
    if let Some(t) = c.table_by_id(id) {
        return t.def.shown().iter().map(|c| c.name.clone()).collect();
    }
    let view = c.view_by_id(id);
    view.iter().flat_map(|v| v.columns.iter()).map(|c| c.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "server")]
    fn passwords_are_kept_as_verifiers() {
        let made = verifier(&Password("secret".into())).expect("a password").expect("not empty");
        assert!(is_verifier(&made) && !made.contains("secret"), "{made}");
        assert_eq!(verifier(&Password(made.clone())).expect("taken"), Some(made));
        assert_eq!(verifier(&Password(String::new())).expect("cleared"), None);
        assert!(verifier(&Password(format!("md5{}", "0".repeat(32)))).is_err());
        assert_eq!(format!("{:?}", Password("secret".into())), "Password");
    }
}
