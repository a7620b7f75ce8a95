//! Who a session is: the role that it runs statements as, and what follows from that.
//!
//! - **I1** The settings `session_authorization` and `role` hold the numbers of the roles that they were set
//!   to, beside their names, so that they go back with a transaction as all settings do (settings/T2), and a
//!   role that gets another name is the same role.
//! - **I2** Another role has other rights: the session's own plans are forgotten when it changes, and each is
//!   looked at again when it is taken from the database's (rights).
//! - **I3** Names without a schema are looked up by the path of the settings, in which `"$user"` stands for
//!   the role, without schemas that the role may not use. Who is the bootstrap role may use all.
use crate::session::Session;
use ondol_engine::acl::USAGE;
use ondol_engine::name::{USER, USUAL_PATH};
use ondol_engine::role::BOOTSTRAP;
use ondol_engine::{Catalog, Path};
use ondol_types::{SqlError, SqlResult, name, sqlstate};
use std::sync::Arc;

/// What statements are told of who runs them, and where.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub database: String,
    pub user: String,
    pub session_user: String,
}

pub(crate) struct Identity {
    /// The role that the session was opened as.
    pub authenticated: u32,
    /// SET SESSION AUTHORIZATION
    pub session: u32,
    /// SET ROLE
    pub current: u32,
    pub names: Arc<Names>,
    /// The path by which it looks names up (I3).
    pub listed: Arc<str>,
    /// The dictionary that the names and the path are of.
    version: u64,
}

impl Identity {
    pub fn new(database: &str) -> Identity {
        let (user, session_user) = (USER.to_string(), USER.to_string());
        Identity {
            authenticated: BOOTSTRAP,
            session: BOOTSTRAP,
            current: BOOTSTRAP,
            names: Arc::new(Names { database: database.to_string(), user, session_user }),
            listed: USUAL_PATH.into(),
            version: 0,
        }
    }
}

/// The path of a setting as a role has it (I3).
fn path_for(catalog: &Catalog, listed: &str, role: u32) -> Arc<str> {
    if role == BOOTSTRAP {
        return listed.into();
    }
    let own = catalog.role_name(role);
    let mut kept: Vec<String> = Vec::new();
    for word in name::list(listed).unwrap_or_default() {
        let word = if word == "$user" { own.clone() } else { word };
        let usable =
            catalog.schemas.get(&word).is_some_and(|s| catalog.may_use_schema(role, s.number, USAGE));
        if usable {
            kept.push(name::quote(&word).to_string())
        }
    }
    let kept = match kept.is_empty() {
        true => "\"\"".to_string(),
        false => kept.join(", "),
    };
    // The plans of the usual path are everybody's.
    match listed == USUAL_PATH && Path::of(catalog, &kept) == Path::of(catalog, USUAL_PATH) {
        true => USUAL_PATH.into(),
        false => kept.into(),
    }
}

impl Session {
    /// Opens the session as a role that is there. It keeps what this role may do until it ends.
    pub fn set_authenticated(&mut self, role: &str) -> SqlResult<()> {
        let catalog = self.connection.catalog();
        let Some(def) = catalog.role_named(role) else {
            let message = format!("role \"{role}\" does not exist");
            return Err(SqlError::new("28000", message));
        };
        self.identity.authenticated = def.id;
        self.settings.set_authenticated(def.id, role);
        self.settings_changed();
        Ok(())
    }

    /// The role that statements are run as.
    pub(crate) fn role(&self) -> u32 {
        self.identity.current
    }

    /// Takes over what the settings say of roles.
    pub(crate) fn follow_roles(&mut self) {
        let (session, role) = self.settings.roles();
        let session = session.unwrap_or(self.identity.authenticated);
        let current = role.unwrap_or(session);
        if (session, current) != (self.identity.session, self.identity.current) {
            (self.identity.session, self.identity.current) = (session, current);
            self.connection.set_role(current);
            self.plans.set_role(current);
            // I2
            self.plans.forget()
        }
        let catalog = self.connection.catalog();
        self.identify(&catalog)
    }

    /// The same by another dictionary, before names are looked up in it.
    #[cold]
    pub(crate) fn identify_by(&mut self, catalog: &Catalog) {
        if self.identity.version != catalog.version {
            let before = self.identity.listed.clone();
            self.identify(catalog);
            if before != self.identity.listed {
                self.plans.set_path(&self.identity.listed);
                self.connection.set_search_path(&self.identity.listed)
            }
        }
    }

    fn identify(&mut self, catalog: &Catalog) {
        let identity = &mut self.identity;
        identity.version = catalog.version;
        let names = [identity.current, identity.session].map(|id| catalog.role_name(id));
        if [&identity.names.user, &identity.names.session_user] != [&names[0], &names[1]] {
            let [user, session_user] = names;
            identity.names = Arc::new(Names { user, session_user, ..(*identity.names).clone() })
        }
        identity.listed = path_for(catalog, self.settings.search_path(), identity.current)
    }

    /// SET ROLE and SET SESSION AUTHORIZATION: the value as the setting holds it (I1).
    pub(crate) fn role_setting(&self, name: &str, value: Option<&str>) -> SqlResult<Option<String>> {
        let Some(value) = value else { return Ok(None) };
        let is_role = name.eq_ignore_ascii_case("role");
        if is_role && value == "none" {
            return Ok(None);
        }
        let catalog = self.connection.catalog();
        let Some(role) = catalog.role_named(value) else {
            let message = format!("role \"{value}\" does not exist");
            return Err(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message));
        };
        let denied = |message: String| Err(SqlError::new(sqlstate::INSUFFICIENT_PRIVILEGE, message));
        if is_role && !catalog.is_member(self.identity.session, role.id) {
            return denied(format!("permission denied to set role \"{value}\""));
        }
        let own = self.identity.authenticated;
        if !is_role && role.id != own && !catalog.is_superuser(own) {
            return denied("permission denied to set session authorization".into());
        }
        Ok(Some(format!("{}:{value}", role.id)))
    }
}
