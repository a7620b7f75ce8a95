//! Rights: whose an object is, and to whom what was given of it.
//!
//! - **H1** What says nothing else is the bootstrap role's and has its kind's usual list (role/R2, acl/L3).
//!   The rights of all else are in one map, by the number of the object, which stays when it is changed.
//! - **H2** What rests on an object has no owner of its own: an index is its table's, a sequence that a
//!   column has is said to be of the table's owner.
//! - **H3** Rights of a column follow its name, as comments do, and go with the object.
//! - **H4** Plans do not know of rights: what one needs is kept beside it, and looked at in the dictionary of
//!   whoever runs it.
use crate::acl::{self, Acl, AclKind, Privileges};
use crate::catalog::{Catalog, Relation};
use crate::comment::schema_id;
use crate::name::PUBLIC;
use crate::role::{BOOTSTRAP, DATABASE_OWNER, READ_ALL_DATA, WRITE_ALL_DATA};
use crate::shared::SharedMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What stands for the database among the numbers of objects.
pub const DATABASE: u32 = (1 << 29) - 1;

#[derive(Clone, Debug, PartialEq)]
pub struct ObjectRights {
    pub owner: u32,
    pub acl: Option<Acl>,
    /// By the columns' names.
    pub columns: BTreeMap<String, Acl>,
}

impl ObjectRights {
    /// H1
    pub fn usual(id: u32) -> ObjectRights {
        let owner = if id == schema_id(PUBLIC) { DATABASE_OWNER } else { BOOTSTRAP };
        let acl = (id == schema_id(PUBLIC)).then(|| {
            let mut acl = Acl::usual(AclKind::Schema, owner);
            acl.items.push(acl::AclItem {
                grantee: crate::role::PUBLIC_ROLE,
                grantor: owner,
                privileges: acl::USAGE,
                options: 0,
            });
            acl
        });
        ObjectRights { owner, acl, columns: BTreeMap::new() }
    }
    /// Whether they say nothing.
    pub fn is_usual(&self, id: u32) -> bool {
        *self == ObjectRights::usual(id)
    }
    /// Whether a role has or is given something.
    pub fn names(&self, role: u32) -> bool {
        self.owner == role || self.acl.iter().chain(self.columns.values()).any(|a| a.names(role))
    }
}

pub type Rights = SharedMap<u32, Arc<ObjectRights>>;

/// Of what kind an object is, and what messages call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RightsOf {
    Table,
    View,
    Material,
    Sequence,
    Function,
    Type,
    Domain,
    Schema,
    Database,
}

impl RightsOf {
    pub fn acl_kind(self) -> AclKind {
        match self {
            RightsOf::Table | RightsOf::View | RightsOf::Material => AclKind::Table,
            RightsOf::Sequence => AclKind::Sequence,
            RightsOf::Function => AclKind::Function,
            RightsOf::Type | RightsOf::Domain => AclKind::Type,
            RightsOf::Schema => AclKind::Schema,
            RightsOf::Database => AclKind::Database,
        }
    }
    pub fn word(self) -> &'static str {
        match self {
            RightsOf::Table => "table",
            RightsOf::View => "view",
            RightsOf::Material => "materialized view",
            RightsOf::Sequence => "sequence",
            RightsOf::Function => "function",
            RightsOf::Type => "type",
            RightsOf::Domain => "domain",
            RightsOf::Schema => "schema",
            RightsOf::Database => "database",
        }
    }
}

impl Catalog {
    /// The rights of an object, with those that say nothing.
    pub fn rights_of(&self, id: u32) -> Arc<ObjectRights> {
        self.rights.get(&id).cloned().unwrap_or_else(|| Arc::new(ObjectRights::usual(id)))
    }
    /// Whose an object is.
    pub fn owner(&self, id: u32) -> u32 {
        match self.rights.get(&id) {
            Some(r) => r.owner,
            None if id == schema_id(PUBLIC) => DATABASE_OWNER,
            None => BOOTSTRAP,
        }
    }
    /// Whether a role may do what the owner of an object may.
    pub fn owns(&self, role: u32, id: u32) -> bool {
        self.has_rights_of(role, self.owner(id))
    }
    /// Which of these a role may do with an object as a whole.
    pub fn privileges(&self, role: u32, kind: RightsOf, id: u32, wanted: Privileges) -> Privileges {
        if self.is_superuser(role) {
            return wanted;
        }
        let rights = self.rights_of(id);
        let usual;
        let acl = match &rights.acl {
            Some(acl) => acl,
            None => {
                usual = Acl::usual(kind.acl_kind(), rights.owner);
                &usual
            }
        };
        let (mut has, _) = acl.mask(self, role, rights.owner, wanted, 0);
        let reads = wanted
            & match kind {
                RightsOf::Schema => acl::USAGE,
                RightsOf::Table | RightsOf::View | RightsOf::Material | RightsOf::Sequence => acl::SELECT,
                _ => 0,
            };
        let writes = wanted
            & match kind {
                RightsOf::Schema => acl::USAGE,
                RightsOf::Table | RightsOf::View | RightsOf::Material => {
                    acl::INSERT | acl::UPDATE | acl::DELETE
                }
                _ => 0,
            };
        if reads & !has != 0 && self.has_rights_of(role, READ_ALL_DATA) {
            has |= reads
        }
        if writes & !has != 0 && self.has_rights_of(role, WRITE_ALL_DATA) {
            has |= writes
        }
        has
    }
    /// Which of these a role may do with a column of a relation by what was given of the column alone.
    pub fn column_privileges(&self, role: u32, id: u32, column: &str, wanted: Privileges) -> Privileges {
        if self.is_superuser(role) {
            return wanted;
        }
        let Some(rights) = self.rights.get(&id) else { return 0 };
        rights.columns.get(column).map_or(0, |acl| acl.mask(self, role, rights.owner, wanted, 0).0)
    }
    /// Whether a role may do all of that with a schema.
    pub fn may_use_schema(&self, role: u32, schema: u32, wanted: Privileges) -> bool {
        use crate::name::{INFORMATION_SCHEMA, PG_CATALOG, TEMPORARY};
        match schema {
            PG_CATALOG | INFORMATION_SCHEMA => wanted & !acl::USAGE == 0 || self.is_superuser(role),
            TEMPORARY => true,
            _ => self.privileges(role, RightsOf::Schema, schema_id(schema), wanted) == wanted,
        }
    }
    /// What kind of relation has the number, and its name.
    pub fn relation_rights(&self, id: u32) -> Option<(RightsOf, crate::name::Name)> {
        if let Some(t) = self.table_by_id(id) {
            let kind = if t.def.is_material() { RightsOf::Material } else { RightsOf::Table };
            return Some((kind, t.def.full_name()));
        }
        if let Some(v) = self.view_by_id(id) {
            return Some((RightsOf::View, v.full_name()));
        }
        self.sequence_by_id(id).map(|s| (RightsOf::Sequence, s.def.full_name()))
    }
    /// The number whose rights a relation has, and its kind (H2).
    pub fn rights_number(&self, relation: &Relation) -> Option<(RightsOf, u32)> {
        match relation {
            Relation::Table(t) if t.def.is_material() => Some((RightsOf::Material, t.def.id)),
            Relation::Table(t) => Some((RightsOf::Table, t.def.id)),
            Relation::View(v) => Some((RightsOf::View, v.id)),
            Relation::Sequence(s) => Some((RightsOf::Sequence, s.def.id)),
            Relation::Index { table } => self.table(table).map(|t| (RightsOf::Table, t.def.id)),
        }
    }
}
