//! Foreign tables: their definitions, and those of all tables of a place at once.
use super::Binder;
use super::tree::{kind, option_text, options, refuse, unexpected};
use crate::bound::{ImportLimit, Statement};
use crate::foreign::{PATH, SERVERS, no_server};
use crate::parse::tree::{self, Node, node::Node as Kind};
use ondol_engine::ForeignSource;
use ondol_engine::name::{TEMPORARY, is_system};
use ondol_types::{SqlError, SqlResult, sqlstate};

/// Options of foreign tables beside their path.
const OPTIONS: [&str; 7] =
    ["assume_consistent", "history", "keys", "keys_password", "schema", "zero_bytes", "zero_dates"];

/// PostgreSQL's states: a name of an option that there is not, and an option that is missing.
const INVALID_OPTION: &str = "HV00D";
const MISSING_OPTION: &str = "HV00B";

impl<'a> Binder<'a> {
    pub(super) fn create_foreign_table(
        &mut self,
        s: &'a tree::CreateForeignTableStmt,
    ) -> SqlResult<Statement> {
        let source = self.source(&s.servername, &s.options, true)?;
        let base = s.base_stmt.as_ref().ok_or_else(|| unexpected("CREATE FOREIGN TABLE"))?;
        let made = self.create_table(base, Some(source))?;
        let Statement::CreateTable { name, columns, constraints, checks, sequences, foreign, .. } = &made
        else {
            return Err(unexpected("CREATE FOREIGN TABLE"));
        };
        refuse(name.schema == TEMPORARY, "a temporary foreign table")?;
        refuse(!checks.is_empty(), "CHECK of a foreign table")?;
        refuse(!foreign.is_empty(), "a foreign key of a foreign table")?;
        refuse(
            constraints.iter().any(|c| !c.primary),
            "a constraint of a foreign table but its primary key",
        )?;
        let is_made = |c: &ondol_engine::ColumnDef| c.default.is_some() || c.generated.is_some();
        let has_defaults = !sequences.is_empty() || columns.iter().any(is_made);
        refuse(has_defaults, "a default of a foreign table's column")?;
        refuse(columns.iter().any(|c| c.domain.is_some()), "a domain of a foreign table's column")?;
        Ok(made)
    }

    pub(super) fn import_foreign_schema(
        &mut self,
        s: &'a tree::ImportForeignSchemaStmt,
    ) -> SqlResult<Statement> {
        let source = self.source(&s.server_name, &s.options, false)?;
        let into = self.names().schema(&s.local_schema, -1)?;
        refuse(into == TEMPORARY, "temporary foreign tables")?;
        if is_system(into) {
            let message = format!("permission denied to create foreign tables in \"{}\"", s.local_schema);
            return Err(SqlError::new("42501", message)
                .detail("System catalog modifications are currently disallowed."));
        }
        let mut names = Vec::with_capacity(s.table_list.len());
        for node in &s.table_list {
            let Kind::RangeVar(v) = kind(node)? else { return Err(unexpected("IMPORT FOREIGN SCHEMA")) };
            names.push(v.relname.clone())
        }
        use tree::ImportForeignSchemaType::{FdwImportSchemaExcept, FdwImportSchemaLimitTo};
        let limit = match s.list_type() {
            FdwImportSchemaLimitTo => ImportLimit::To(names),
            FdwImportSchemaExcept => ImportLimit::Except(names),
            _ => ImportLimit::All,
        };
        Ok(Statement::ImportForeignSchema { remote: s.remote_schema.clone(), source, into, limit })
    }

    fn source(&mut self, server: &str, nodes: &'a [Node], has_path: bool) -> SqlResult<ForeignSource> {
        if !SERVERS.iter().any(|s| s.0 == server) {
            return Err(no_server(server));
        }
        let mut said: Vec<(String, String)> = Vec::new();
        for o in options(nodes)? {
            if said.iter().any(|(name, _)| *name == o.defname) {
                let message = format!("option \"{}\" provided more than once", o.defname);
                return Err(SqlError::new(sqlstate::DUPLICATE_OBJECT, message));
            }
            if !(OPTIONS.contains(&&*o.defname) || has_path && o.defname == PATH) {
                let message = format!("invalid option \"{}\"", o.defname);
                let path = if has_path { format!("{PATH}, ") } else { String::new() };
                let known = OPTIONS.join(", ");
                return Err(SqlError::new(INVALID_OPTION, message)
                    .hint(format!("Valid options in this context are: {path}{known}")));
            }
            let value = option_text(o)?.unwrap_or_default();
            let known: &[&str] = match &*o.defname {
                "assume_consistent" | "history" => &["true", "false"],
                "zero_bytes" => &["refuse", "remove", "replace"],
                "zero_dates" => &["refuse", "null", "text"],
                _ => &[],
            };
            if !known.is_empty() && !known.contains(&&*value) {
                let message = format!("invalid value for option \"{}\": \"{value}\"", o.defname);
                return Err(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message)
                    .hint(format!("Expected one of: {}.", known.join(", "))));
            }
            said.push((o.defname.clone(), value))
        }
        if has_path && !said.iter().any(|(name, _)| name == PATH) {
            let message = "a foreign table of server innodb needs the option \"path\"";
            return Err(SqlError::new(MISSING_OPTION, message)
                .hint("It is the path of a file TABLE.ibd: OPTIONS (path '/…/shop/orders.ibd')."));
        }
        Ok(ForeignSource { server: server.to_string(), options: said })
    }
}
