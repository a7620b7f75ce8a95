//! Rights to run statements: a plan is looked at when it is taken from the database's plans, or made, for the
//! role that takes it (sql/needs/D3). So a plan that a session finds among its own was looked at before, for
//! the same role and dictionary, and running it asks nothing.
use crate::session::Session;
use crate::session::plan::Plan;
use crate::session::runtime::program_of;
use ondol_engine::acl::EXECUTE;
use ondol_engine::role::PUBLIC_ROLE;
use ondol_engine::{Catalog, FunctionDef, RightsOf};
use ondol_sql::needs::{self, Need, denied};
use ondol_types::SqlResult;

/// The needs of a function that is called.
fn needs_of(catalog: &Catalog, id: u32) -> SqlResult<Vec<Need>> {
    match catalog.functions.get(&id) {
        Some(f) => Ok(program_of(f, catalog)?.needs),
        None => Ok(Vec::new()),
    }
}

impl Session {
    pub(crate) fn check_needs(&self, catalog: &Catalog, needs: &[Need]) -> SqlResult<()> {
        let role = self.role();
        if needs.is_empty() || needs::is_plain(catalog, role) {
            return Ok(());
        }
        needs::check(catalog, role, needs, &mut |id| needs_of(catalog, id))
    }

    pub(crate) fn check_plan(&self, catalog: &Catalog, plan: &Plan) -> SqlResult<()> {
        self.check_needs(catalog, &plan.program.needs)
    }

    /// What a registered query needs that is called by its number or by EXECUTE. It runs with the rights of
    /// its owner where these are lent: SECURITY DEFINER lends them to all who may call it, other queries lend
    /// them to roles that EXECUTE was granted to by their names, and not to those that have it as everybody.
    pub(crate) fn check_query(&self, catalog: &Catalog, f: &FunctionDef, plan: &Plan) -> SqlResult<()> {
        let role = self.role();
        if needs::is_plain(catalog, role) {
            return Ok(());
        }
        if catalog.privileges(role, RightsOf::Function, f.id, EXECUTE) == 0 {
            return Err(denied("function", &f.name));
        }
        let owner = catalog.owner(f.id);
        let named = || {
            let rights = catalog.rights_of(f.id);
            let used = catalog.roles_used_by(role);
            let items = rights.acl.iter().flat_map(|a| a.items.clone());
            let mut own = items.filter(|i| i.grantee != PUBLIC_ROLE && used.contains(&i.grantee));
            own.any(|i| i.privileges & EXECUTE != 0)
        };
        let lent = f.definer || catalog.has_rights_of(role, owner) || named();
        let with = if lent { owner } else { role };
        needs::check(catalog, with, &plan.program.needs, &mut |id| needs_of(catalog, id))
    }
}
