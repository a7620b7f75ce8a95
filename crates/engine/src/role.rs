//! Roles: who may do what, and who is one of whom.
//!
//! - **R1** A role has a number for good, which is its OID. Those that are there from the beginning have
//!   PostgreSQL's, below [`FIRST_ROLE`]; a role that was made has its number in the dictionary and that.
//! - **R2** The role [`BOOTSTRAP`] is a superuser and always there. What says nothing else belongs to it, but
//!   schema `public`, which belongs to [`DATABASE_OWNER`].
//! - **R3** A role's memberships are its own: they say which roles it is a member of, who said so, and
//!   whether it may make others members. No role is a member of itself, by whatever way.
//! - **R4** A member may use what a role may do where it inherits, and each role between them does; it may
//!   become the role in any case. A superuser may use and become all.
//! - **R5** The owner of the database, which is [`BOOTSTRAP`], is a member of [`DATABASE_OWNER`], which has
//!   no other members.
use crate::acl::Acl;
use crate::catalog::Catalog;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the numbers of roles that were made begin at (R1).
pub const FIRST_ROLE: u32 = 16384;
/// R2
pub const BOOTSTRAP: u32 = 10;
/// Everybody, where a role could stand.
pub const PUBLIC_ROLE: u32 = 0;
/// R5
pub const DATABASE_OWNER: u32 = 6171;
pub const READ_ALL_DATA: u32 = 6181;
pub const WRITE_ALL_DATA: u32 = 6182;
pub const MONITOR: u32 = 3373;
pub const READ_ALL_SETTINGS: u32 = 3374;
pub const READ_ALL_STATS: u32 = 3375;
pub const STAT_SCAN_TABLES: u32 = 3377;
pub const READ_SERVER_FILES: u32 = 4569;
pub const WRITE_SERVER_FILES: u32 = 4570;
pub const EXECUTE_SERVER_PROGRAM: u32 = 4571;
pub const SIGNAL_BACKEND: u32 = 4200;
pub const CHECKPOINT: u32 = 4544;

/// The roles that are there from the beginning beside [`BOOTSTRAP`]: nobody logs in as one.
const PREDEFINED: [(u32, &str); 12] = [
    (DATABASE_OWNER, "pg_database_owner"),
    (READ_ALL_DATA, "pg_read_all_data"),
    (WRITE_ALL_DATA, "pg_write_all_data"),
    (MONITOR, "pg_monitor"),
    (READ_ALL_SETTINGS, "pg_read_all_settings"),
    (READ_ALL_STATS, "pg_read_all_stats"),
    (STAT_SCAN_TABLES, "pg_stat_scan_tables"),
    (READ_SERVER_FILES, "pg_read_server_files"),
    (WRITE_SERVER_FILES, "pg_write_server_files"),
    (EXECUTE_SERVER_PROGRAM, "pg_execute_server_program"),
    (SIGNAL_BACKEND, "pg_signal_backend"),
    (CHECKPOINT, "pg_checkpoint"),
];

/// What kind of object ALTER DEFAULT PRIVILEGES is about, as `pg_default_acl` has it.
pub const DEFAULT_KINDS: [char; 5] = ['r', 'S', 'f', 'T', 'n'];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The role that it is a member of.
    pub role: u32,
    pub grantor: u32,
    /// WITH ADMIN OPTION
    pub admin: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleDef {
    pub id: u32,
    pub name: String,
    pub superuser: bool,
    pub inherit: bool,
    pub create_role: bool,
    pub create_db: bool,
    pub login: bool,
    pub replication: bool,
    pub bypass_rls: bool,
    /// -1: as many as there may be.
    pub connection_limit: i32,
    /// What tells whether somebody knows the password.
    pub password: Option<String>,
    /// Until when the password is good, in microseconds from 2000-01-01.
    pub valid_until: Option<i64>,
    /// R3
    pub memberships: Vec<Membership>,
    /// ALTER DEFAULT PRIVILEGES: by the number of the schema (0: in all) and the kind of what is made.
    pub defaults: BTreeMap<(u32, char), Acl>,
}

impl RoleDef {
    /// A role as CREATE ROLE makes it that says nothing.
    pub fn new(name: &str) -> RoleDef {
        RoleDef {
            id: 0,
            name: name.to_string(),
            superuser: false,
            inherit: true,
            create_role: false,
            create_db: false,
            login: false,
            replication: false,
            bypass_rls: false,
            connection_limit: -1,
            password: None,
            valid_until: None,
            memberships: Vec::new(),
            defaults: BTreeMap::new(),
        }
    }
    /// Whether it is there from the beginning, and is not to be changed.
    pub fn is_predefined(&self) -> bool {
        self.id < FIRST_ROLE && self.id != BOOTSTRAP
    }
}

/// Whether a role that is made may have the name.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with("pg_")
}

/// The roles that are there from the beginning.
pub(crate) fn first() -> impl Iterator<Item = RoleDef> {
    let own = RoleDef {
        id: BOOTSTRAP,
        superuser: true,
        create_role: true,
        create_db: true,
        login: true,
        replication: true,
        bypass_rls: true,
        ..RoleDef::new(crate::name::USER)
    };
    let others = PREDEFINED.into_iter().map(|(id, name)| {
        let of = match id {
            MONITOR => vec![READ_ALL_SETTINGS, READ_ALL_STATS, STAT_SCAN_TABLES],
            _ => vec![],
        };
        let memberships =
            of.into_iter().map(|role| Membership { role, grantor: BOOTSTRAP, admin: false }).collect();
        RoleDef { id, memberships, ..RoleDef::new(name) }
    });
    [own].into_iter().chain(others)
}

impl Catalog {
    pub fn role(&self, id: u32) -> Option<&Arc<RoleDef>> {
        self.roles.get(&id)
    }
    pub fn role_named(&self, name: &str) -> Option<&Arc<RoleDef>> {
        self.roles.values().find(|r| r.name == name)
    }
    /// What messages call a role.
    pub fn role_name(&self, id: u32) -> String {
        match self.role(id) {
            Some(r) => r.name.clone(),
            None => format!("unknown (OID={id})"),
        }
    }
    pub fn is_superuser(&self, role: u32) -> bool {
        role == BOOTSTRAP || self.role(role).is_some_and(|r| r.superuser)
    }
    /// The role and all that it is a member of; `inherited`: whose rights it may use (R4).
    fn reached(&self, role: u32, inherited: bool) -> BTreeSet<u32> {
        let mut found = BTreeSet::from([role]);
        let mut open = vec![role];
        while let Some(id) = open.pop() {
            let Some(def) = self.role(id) else { continue };
            if inherited && !def.inherit {
                continue;
            }
            let implied = (id == BOOTSTRAP).then_some(DATABASE_OWNER);
            for of in def.memberships.iter().map(|m| m.role).chain(implied) {
                if found.insert(of) {
                    open.push(of)
                }
            }
        }
        found
    }
    /// The roles whose rights a role may use.
    pub fn roles_used_by(&self, role: u32) -> BTreeSet<u32> {
        self.reached(role, true)
    }
    /// Whether a role may use what another may do (R4).
    pub fn has_rights_of(&self, role: u32, of: u32) -> bool {
        role == of || self.is_superuser(role) || self.reached(role, true).contains(&of)
    }
    /// Whether a role may become another (R4).
    pub fn is_member(&self, role: u32, of: u32) -> bool {
        self.is_superuser(role) || self.is_real_member(role, of)
    }
    /// The same, but a superuser is a member of those alone that it was made a member of.
    pub fn is_real_member(&self, role: u32, of: u32) -> bool {
        role == of || self.reached(role, false).contains(&of)
    }
    /// Whether a role may say who is a member of another.
    pub fn is_admin(&self, role: u32, of: u32) -> bool {
        if self.is_superuser(role) {
            return true;
        }
        let admits =
            |r: &u32| self.role(*r).is_some_and(|d| d.memberships.iter().any(|m| m.admin && m.role == of));
        self.reached(role, false).iter().any(admits)
    }
    /// The members of a role, by their numbers.
    pub fn members_of(&self, role: u32) -> impl Iterator<Item = (&Arc<RoleDef>, &Membership)> {
        self.roles
            .values()
            .flat_map(move |r| r.memberships.iter().filter(move |m| m.role == role).map(move |m| (r, m)))
    }
}
