//! Roles and rights: made, changed, and gone with what they are of.
use super::{Catalog, Connection, d};
use crate::acl::{Acl, AclKind};
use crate::comment::{CommentKind, Commented};
use crate::definers::{Claim, claims};
use crate::rights::{ObjectRights, RightsOf};
use crate::role::{FIRST_ROLE, PUBLIC_ROLE, RoleDef};
use crate::settings::{Scope, ScopeSettings};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::sync::Arc;

fn missing(name: &str) -> SqlError {
    SqlError::new(sqlstate::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
}

fn free(c: &Catalog, name: &str) -> SqlResult<()> {
    match c.role_named(name) {
        None => Ok(()),
        Some(_) => {
            let message = format!("role \"{name}\" already exists");
            Err(SqlError::new(sqlstate::DUPLICATE_OBJECT, message))
        }
    }
}

impl Connection {
    /// As whom the connection makes objects.
    pub fn set_role(&mut self, role: u32) {
        self.role = role
    }
    pub fn role(&self) -> u32 {
        self.role
    }

    /// Gives its number.
    pub fn create_role(&mut self, def: &RoleDef) -> SqlResult<u32> {
        self.defining(
            |_| vec![claims::role(&def.name, true)],
            |me, c| {
                free(c, &def.name)?;
                let id = FIRST_ROLE + me.db.next_object()?;
                me.put_role(RoleDef { id, ..def.clone() })?;
                Ok(id)
            },
        )
    }

    /// Changes a role as `change` says, by what it is now.
    pub fn alter_role(
        &mut self,
        name: &str,
        change: &dyn Fn(&Catalog, &mut RoleDef) -> SqlResult<()>,
    ) -> SqlResult<()> {
        self.defining(
            |_| vec![claims::role(name, true)],
            |me, c| {
                let mut def = (**c.role_named(name).ok_or_else(|| missing(name))?).clone();
                change(c, &mut def)?;
                me.put_role(def)
            },
        )
    }

    pub fn rename_role(&mut self, name: &str, to: &str) -> SqlResult<()> {
        self.defining(
            |_| vec![claims::role(name, true), claims::role(to, true)],
            |me, c| {
                let old = c.role_named(name).ok_or_else(|| missing(name))?;
                free(c, to)?;
                me.put_role(RoleDef { name: to.to_string(), ..(**old).clone() })
            },
        )
    }

    /// Removes a role that has nothing, and takes it out of what it is a member of.
    pub fn drop_role(
        &mut self,
        name: &str,
        check: &dyn Fn(&Catalog, &RoleDef) -> SqlResult<()>,
    ) -> SqlResult<()> {
        self.defining(
            |c| {
                let mut wanted = vec![claims::role(name, true)];
                if let Some(role) = c.role_named(name) {
                    wanted.extend(c.members_of(role.id).map(|(m, _)| claims::role(&m.name, true)))
                }
                wanted
            },
            |me, c| {
                let old = c.role_named(name).ok_or_else(|| missing(name))?.clone();
                check(c, &old)?;
                let members: Vec<RoleDef> = c.members_of(old.id).map(|(m, _)| (**m).clone()).collect();
                for mut member in members {
                    member.memberships.retain(|m| m.role != old.id);
                    me.put_role(member)?
                }
                let db = me.db.clone();
                d::remove_role(&mut me.session, &db.dictionary, old.id)?;
                me.draft().role(old.id, None);
                for in_database in [false, true] {
                    me.put_settings(c, Scope { role: old.id, in_database }, vec![])?
                }
                Ok(())
            },
        )
    }

    fn put_role(&mut self, def: RoleDef) -> SqlResult<()> {
        let db = self.db.clone();
        d::remove_role(&mut self.session, &db.dictionary, def.id)?;
        d::add_role(&mut self.session, &db.dictionary, &def)?;
        self.draft().role(def.id, Some(Arc::new(def)));
        Ok(())
    }

    /// Changes what sessions begin with, as `change` says.
    pub fn change_settings(
        &mut self,
        scope: Scope,
        change: &dyn Fn(&Catalog, &mut ScopeSettings) -> SqlResult<()>,
    ) -> SqlResult<()> {
        self.defining(
            |c| claims::settings(c, scope),
            |me, c| {
                if scope.role != PUBLIC_ROLE && c.role(scope.role).is_none() {
                    let message = format!("role with OID {} does not exist", scope.role);
                    return Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, message));
                }
                let mut all = c.settings.get(&scope).map_or(vec![], |s| (**s).clone());
                change(c, &mut all)?;
                me.put_settings(c, scope, all)
            },
        )
    }

    fn put_settings(&mut self, c: &Catalog, scope: Scope, all: ScopeSettings) -> SqlResult<()> {
        let before = c.settings.get(&scope);
        if before.map_or(all.is_empty(), |b| **b == all) {
            return Ok(());
        }
        let other = Scope { in_database: !scope.in_database, ..scope };
        let all = Arc::new(all);
        let kept = self.catalog().settings.get(&other).cloned();
        let scopes: Vec<_> = kept.map(|k| (other, k)).into_iter().chain([(scope, all.clone())]).collect();
        let db = self.db.clone();
        d::put_settings(&mut self.session, &db.dictionary, scope.role, &scopes)?;
        self.draft().settings(scope, (!all.is_empty()).then_some(all));
        Ok(())
    }

    /// Changes the rights of an object, which is claimed by what is wanted, as `change` says.
    pub fn change_rights(
        &mut self,
        id: u32,
        wanted: impl Fn(&Catalog) -> Vec<Claim>,
        change: &dyn Fn(&Catalog, &mut ObjectRights) -> SqlResult<()>,
    ) -> SqlResult<()> {
        self.defining(wanted, |me, c| {
            let mut rights = (*c.rights_of(id)).clone();
            change(c, &mut rights)?;
            me.set_rights(c, id, rights)
        })
    }

    /// The object has these rights and no others.
    pub(super) fn set_rights(&mut self, c: &Catalog, id: u32, rights: ObjectRights) -> SqlResult<()> {
        if *c.rights_of(id) == rights {
            return Ok(());
        }
        let db = self.db.clone();
        d::put_rights(&mut self.session, &db.dictionary, id, &rights)?;
        let kept = (!rights.is_usual(id)).then(|| Arc::new(rights));
        self.draft().rights(id, kept);
        Ok(())
    }

    /// What was made is the role's that makes it, and has the list that the role's things have.
    pub(super) fn own(&mut self, c: &Catalog, kind: RightsOf, schema: u32, id: u32) -> SqlResult<()> {
        let owner = self.role;
        if c.role(owner).is_none() {
            let message = format!("role {owner} was concurrently dropped");
            return Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, message));
        }
        let mut rights = ObjectRights::usual(id);
        rights.owner = owner;
        rights.acl = self.first_acl(c, kind, schema);
        if rights.is_usual(id) {
            return Ok(());
        }
        self.set_rights(c, id, rights)
    }

    /// The list that ALTER DEFAULT PRIVILEGES has said, if it is another than the usual one.
    fn first_acl(&self, c: &Catalog, kind: RightsOf, schema: u32) -> Option<Acl> {
        let letter = match kind {
            RightsOf::Table | RightsOf::View | RightsOf::Material => 'r',
            RightsOf::Sequence => 'S',
            RightsOf::Function => 'f',
            RightsOf::Type | RightsOf::Domain => 'T',
            RightsOf::Schema => 'n',
            RightsOf::Database => return None,
        };
        let owner = self.role;
        let defaults = &c.role(owner)?.defaults;
        let of_all = defaults.get(&(0, letter));
        let of_schema = defaults.get(&(schema, letter)).filter(|_| kind != RightsOf::Schema);
        if of_all.is_none() && of_schema.is_none() {
            return None;
        }
        let usual = Acl::usual(kind.acl_kind(), owner);
        let mut acl = of_all.cloned().unwrap_or_else(|| usual.clone());
        for item in of_schema.iter().flat_map(|a| &a.items) {
            let same = |i: &&mut crate::acl::AclItem| i.grantee == item.grantee && i.grantor == item.grantor;
            match acl.items.iter_mut().find(same) {
                Some(i) => {
                    i.privileges |= item.privileges;
                    i.options |= item.options
                }
                None => acl.items.push(*item),
            }
        }
        debug_assert!(kind.acl_kind() != AclKind::Column);
        (!acl.is_as(&usual)).then_some(acl)
    }

    /// Rights go with what they are of.
    pub(super) fn drop_rights(&mut self, c: &Catalog, id: u32) -> SqlResult<()> {
        if c.rights.contains_key(&id) { self.set_rights(c, id, ObjectRights::usual(id)) } else { Ok(()) }
    }

    /// The rights of columns that have other names now, as `followed` says of comments (rights/H3).
    pub(super) fn follow_rights(
        &mut self,
        c: &Catalog,
        id: u32,
        followed: impl Fn(Vec<(Commented, Arc<str>)>) -> Vec<(Commented, Arc<str>)>,
    ) -> SqlResult<()> {
        let rights = c.rights_of(id);
        if rights.columns.is_empty() {
            return Ok(());
        }
        let mut columns = std::collections::BTreeMap::new();
        for (name, acl) in &rights.columns {
            let on = (Commented::part(CommentKind::Column, id, name), Arc::from(""));
            if let [(now, _)] = &followed(vec![on])[..] {
                columns.insert(now.part.clone(), acl.clone());
            }
        }
        self.set_rights(c, id, ObjectRights { columns, ..(*rights).clone() })
    }
}
