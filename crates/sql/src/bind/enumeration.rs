//! CREATE TYPE ... AS ENUM, ALTER TYPE ... ADD VALUE and RENAME VALUE.
use super::Binder;
use super::tree::strings;
use crate::bound::Statement;
use crate::parse::tree::{AlterEnumStmt, CreateEnumStmt};
use ondol_engine::Name;
use ondol_types::SqlResult;
use ondol_types::user::enumeration::{self, CODE, Place};

impl<'a> Binder<'a> {
    pub(super) fn create_enum(&mut self, s: &'a CreateEnumStmt) -> SqlResult<Statement> {
        let place = self.names().place_of(&s.type_name)?;
        self.free_type_name(&place)?;
        let def = enumeration::define(place.schema, &place.name, &strings(&s.vals)?)?;
        Ok(Statement::CreateType { def, tag: "CREATE TYPE" })
    }

    pub(super) fn alter_enum(&mut self, s: &'a AlterEnumStmt) -> SqlResult<Statement> {
        let old = self.type_of_kind(&s.type_name, CODE, "an enum")?;
        let tag = "ALTER TYPE";
        if s.skip_if_new_val_exists && old.parts.iter().any(|l| l.name == s.new_val) {
            let notice = format!("enum label \"{}\" already exists, skipping", s.new_val);
            return Ok(Statement::Nothing { tag, notice });
        }
        let def = if !s.old_val.is_empty() {
            enumeration::renamed(old, &s.old_val, &s.new_val)?
        } else {
            let place = match (s.new_val_neighbor.as_str(), s.new_val_is_after) {
                ("", _) => Place::Last,
                (label, false) => Place::Before(label),
                (label, true) => Place::After(label),
            };
            enumeration::with_label(old, &s.new_val, place)?
        };
        Ok(Statement::AlterType { name: Name::new(old.schema, &*old.name), def, tag })
    }
}
