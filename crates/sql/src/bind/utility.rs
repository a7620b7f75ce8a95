//! Transactions, settings, prepared statements, EXPLAIN; and the names of what is not supported.

use super::ddl::upper_words;
use super::scope::Clause;
use super::tree::{
    at, at_expr, const_text, kind, need, option_bool, option_text, options, refuse_at, unexpected, variant,
};
use super::types::bind_type;
use super::{Binder, accepted, coerce, name_of};
use crate::bound::{ExplainOptions, Expr, Modes, SettingChange, Statement};
use crate::level::IsolationLevel;
use crate::parse::Raw;
use crate::parse::lexer::{Token, TokenKind, Tokens};
use crate::parse::tree::{self, DiscardMode, Node, TransactionStmtKind, VariableSetKind, node::Node as Kind};
use ondol_engine::Access;
use ondol_engine::table_lock::TableLock;
use ondol_types::cast::CastContext;
use ondol_types::func::Context;
use ondol_types::{SqlError, SqlResult, Type, TypeId, sqlstate, text};

/// Settings that take several values, with commas between them.
const LISTS: &[&str] = &[
    "datestyle",
    "local_preload_libraries",
    "log_destination",
    "search_path",
    "session_preload_libraries",
    "shared_preload_libraries",
    "synchronous_standby_names",
    "temp_tablespaces",
    "unix_socket_directories",
    "wal_consistency_checking",
];

/// Casts an argument of EXECUTE (the `n`th, from 0) to its parameter's type, once that is known.
pub fn argument(catalog: &ondol_engine::Catalog, e: Expr, n: usize, to: TypeId) -> SqlResult<Expr> {
    if !coerce::can_coerce(e.ty.id, to, CastContext::Assignment) {
        let message = format!(
            "parameter ${} of type {} cannot be coerced to the expected type {}",
            n + 1,
            name_of(e.ty.id),
            name_of(to)
        );
        let error = SqlError::new(sqlstate::DATATYPE_MISMATCH, message)
            .hint("You will need to rewrite or cast the expression.");
        return Err(at_expr(error, e.at));
    }
    Binder::new(catalog, "", &[]).cast(e, Type::new(to), false)
}

impl<'a> Binder<'a> {
    pub(super) fn utility(&mut self, node: &'a Kind, raw: &'a Raw) -> SqlResult<Statement> {
        match node {
            Kind::TransactionStmt(s) => self.transaction(s),
            Kind::VariableSetStmt(s) => self.set(s),
            Kind::AlterSystemStmt(s) => {
                let set = s.setstmt.as_ref().ok_or_else(|| unexpected("ALTER SYSTEM"))?;
                Ok(Statement::AlterSystem(self.setting_change(set)?))
            }
            Kind::VariableShowStmt(s) => Ok(Statement::Show(s.name.clone())),
            Kind::ConstraintsSetStmt(s) => {
                let mut names = Vec::with_capacity(s.constraints.len());
                for node in &s.constraints {
                    let Kind::RangeVar(v) = kind(node)? else { return Err(unexpected("SET CONSTRAINTS")) };
                    names.push(v.relname.clone())
                }
                let names = (!names.is_empty()).then_some(names);
                Ok(Statement::SetConstraints { names, deferred: s.deferred })
            }
            Kind::PrepareStmt(s) => self.prepare(s, raw),
            Kind::ExecuteStmt(s) => {
                let (args, _) = self.nested(Clause::Execute, |b| b.exprs(&s.params))?;
                Ok(Statement::Execute { name: s.name.clone(), args })
            }
            Kind::DeallocateStmt(s) => {
                Ok(Statement::Deallocate((!s.isall && !s.name.is_empty()).then(|| s.name.clone())))
            }
            Kind::ExplainStmt(s) => self.explain(s, raw),
            Kind::DeclareCursorStmt(s) => self.declare_cursor(s),
            Kind::FetchStmt(s) => self.fetch(s),
            Kind::ClosePortalStmt(s) => {
                Ok(Statement::Close((!s.portalname.is_empty()).then(|| s.portalname.clone())))
            }
            Kind::ListenStmt(s) => Ok(Statement::Listen(s.conditionname.clone())),
            Kind::UnlistenStmt(s) => {
                Ok(Statement::Unlisten((!s.conditionname.is_empty()).then(|| s.conditionname.clone())))
            }
            Kind::NotifyStmt(s) => {
                Ok(Statement::Notify { channel: s.conditionname.clone(), payload: s.payload.clone() })
            }
            Kind::CheckPointStmt(_) => Ok(Statement::Checkpoint),
            Kind::DiscardStmt(s) => match s.target() {
                DiscardMode::DiscardAll => Ok(Statement::Discard { all: true }),
                DiscardMode::DiscardPlans => Ok(Statement::Discard { all: false }),
                DiscardMode::DiscardSequences => Ok(Statement::DiscardSequences),
                DiscardMode::DiscardTemp => Ok(Statement::DiscardTemporary),
                DiscardMode::Undefined => Err(unexpected("DISCARD")),
            },
            Kind::LockStmt(s) => self.lock_tables(s),
            Kind::ReindexStmt(s) => self.reindex(s),
            Kind::VacuumStmt(s) => {
                check_vacuum(s)?;
                for r in &s.rels {
                    let Kind::VacuumRelation(r) = kind(r)? else { return Err(unexpected("VACUUM")) };
                    let v = self.relation_name(&r.relation)?;
                    if crate::catalog::relation(&v.schemaname, &v.relname).is_some_and(|r| !r.is_view)
                        && self.relation_of(v).is_none()
                    {
                        // Rows that are made when they are read.
                        continue;
                    }
                    let table = self.any_table(v)?;
                    if table.def.is_foreign() {
                        let what = if s.is_vacuumcmd { "vacuum" } else { "analyze" };
                        let message = format!(
                            "skipping \"{}\" --- cannot {what} non-tables or special system tables",
                            table.def.name
                        );
                        self.notices.push(("01000", message));
                        continue;
                    }
                    for c in &r.va_cols {
                        super::dml::target_column(&table, super::tree::string(c)?, -1)?;
                    }
                }
                Ok(if s.is_vacuumcmd {
                    nothing("VACUUM", accepted::VACUUM)
                } else {
                    nothing("ANALYZE", accepted::ANALYZE)
                })
            }
            other => Err(SqlError::unsupported(statement_name(other))),
        }
    }

    /// The modes are PostgreSQL's, by number.
    fn lock_tables(&mut self, s: &'a tree::LockStmt) -> SqlResult<Statement> {
        let mode = match s.mode {
            1 => TableLock::AccessShare,
            2 => TableLock::RowShare,
            3 => TableLock::RowExclusive,
            4 => TableLock::ShareUpdateExclusive,
            5 => TableLock::Share,
            6 => TableLock::ShareRowExclusive,
            7 => TableLock::Exclusive,
            8 => TableLock::AccessExclusive,
            _ => return Err(unexpected("LOCK TABLE")),
        };
        let mut names = Vec::with_capacity(s.relations.len());
        for r in &s.relations {
            let Kind::RangeVar(v) = kind(r)? else { return Err(unexpected("LOCK TABLE")) };
            let table = self.table(v).map_err(|mut e| {
                // PostgreSQL tells no place.
                e.0.position = None;
                e
            })?;
            if table.def.is_material() {
                let message = format!("cannot lock relation \"{}\"", table.def.name);
                return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message)
                    .detail("This operation is not supported for materialized views."));
            }
            names.push(table.def.full_name())
        }
        Ok(Statement::LockTables { names, mode, now: s.nowait })
    }

    fn transaction(&mut self, s: &'a tree::TransactionStmt) -> SqlResult<Statement> {
        let name = || s.savepoint_name.clone();
        Ok(match s.kind() {
            TransactionStmtKind::TransStmtBegin | TransactionStmtKind::TransStmtStart => {
                Statement::Begin(transaction_modes(&s.options)?)
            }
            TransactionStmtKind::TransStmtCommit => Statement::Commit { chain: s.chain },
            TransactionStmtKind::TransStmtRollback => Statement::Rollback { chain: s.chain },
            TransactionStmtKind::TransStmtSavepoint => Statement::Savepoint(name()),
            TransactionStmtKind::TransStmtRelease => Statement::Release(name()),
            TransactionStmtKind::TransStmtRollbackTo => Statement::RollbackTo(name()),
            TransactionStmtKind::TransStmtPrepare => {
                return Err(SqlError::unsupported("PREPARE TRANSACTION"));
            }
            TransactionStmtKind::TransStmtCommitPrepared => {
                return Err(SqlError::unsupported("COMMIT PREPARED"));
            }
            TransactionStmtKind::TransStmtRollbackPrepared => {
                return Err(SqlError::unsupported("ROLLBACK PREPARED"));
            }
            TransactionStmtKind::Undefined => return Err(unexpected("a transaction statement")),
        })
    }

    fn set(&mut self, s: &'a tree::VariableSetStmt) -> SqlResult<Statement> {
        let set = |name: &str, value| Statement::Set { name: name.to_string(), value, local: s.is_local };
        Ok(match s.kind() {
            VariableSetKind::VarSetValue => {
                let mut values = Vec::with_capacity(s.args.len());
                for arg in &s.args {
                    values.push(match kind(arg)? {
                        Kind::AConst(c) => const_text(c)?,
                        Kind::ParamRef(p) => {
                            return Err(at(SqlError::unsupported("a parameter as a setting"), p.location));
                        }
                        Kind::TypeCast(c) => self.interval_setting(c)?,
                        other => return Err(unexpected(&variant(other))),
                    });
                }
                if values.len() > 1 && !LISTS.contains(&&*s.name.to_ascii_lowercase()) {
                    let message = format!("SET {} takes only one argument", s.name);
                    return Err(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message));
                }
                if s.name.eq_ignore_ascii_case("search_path") {
                    // Each is a name, whatever is in it.
                    values = values.iter().map(|v| ondol_types::name::quote(v)).collect()
                }
                set(&s.name, Some(values.join(", ")))
            }
            VariableSetKind::VarSetDefault | VariableSetKind::VarReset => set(&s.name, None),
            VariableSetKind::VarResetAll => set("all", None),
            VariableSetKind::VarSetCurrent => return Err(SqlError::unsupported("SET ... FROM CURRENT")),
            VariableSetKind::VarSetMulti => match s.name.as_str() {
                "TRANSACTION" | "SESSION CHARACTERISTICS" => {
                    let session = s.name == "SESSION CHARACTERISTICS";
                    Statement::SetTransaction { modes: transaction_modes(&s.args)?, session }
                }
                other => return Err(SqlError::unsupported(format_args!("SET {other}"))),
            },
            VariableSetKind::Undefined => return Err(unexpected("SET")),
        })
    }

    /// The same in ALTER ROLE, ALTER DATABASE and ALTER SYSTEM.
    pub(super) fn setting_change(&mut self, s: &'a tree::VariableSetStmt) -> SqlResult<SettingChange> {
        match self.set(s)? {
            Statement::Set { name, value: Some(value), .. } => Ok(SettingChange::Set { name, value }),
            Statement::Set { .. } if s.kind() == VariableSetKind::VarResetAll => Ok(SettingChange::ResetAll),
            Statement::Set { name, value: None, .. } => Ok(SettingChange::Reset(name)),
            _ => Err(SqlError::unsupported("a transaction's mode as a setting to begin with")),
        }
    }

    /// An interval as a setting's text has it: `INTERVAL '-08:00:00'`.
    fn interval_setting(&mut self, c: &'a tree::TypeCast) -> SqlResult<String> {
        let (Some(ty), Kind::AConst(literal)) = (&c.type_name, kind(need(&c.arg)?)?) else {
            return Err(unexpected("an interval"));
        };
        let ty = bind_type(self.names(), ty)?;
        let value = text::input(&const_text(literal)?, ty, &Context::EMPTY)?;
        let mut out = String::from("INTERVAL '");
        text::output(value.as_ref(&mut Vec::new()), ty, &mut out);
        Ok(out + "'")
    }

    fn prepare(&mut self, s: &'a tree::PrepareStmt, raw: &'a Raw) -> SqlResult<Statement> {
        let mut types = Vec::with_capacity(s.argtypes.len());
        for t in &s.argtypes {
            let Kind::TypeName(t) = kind(t)? else { return Err(unexpected("a parameter type")) };
            // A modifier of a parameter's type means nothing in PostgreSQL either.
            types.push(bind_type(self.names(), t)?.id);
        }
        let inner = kind(need(&s.query)?)?.clone();
        // PREPARE name [(types)] AS statement
        let mut tokens = self.tokens_of(raw).into_iter().skip(2).peekable();
        if tokens.peek().is_some_and(|t| t.is_mark(b'(')) {
            skip_parentheses(&mut tokens);
        }
        let start = match (tokens.next(), tokens.next()) {
            (Some(word), Some(first)) if word.is_word(self.text, "as") => first.start,
            _ => return Err(unexpected("PREPARE")),
        };
        // Checked now, bound again for each EXECUTE.
        let statement = Raw { start, end: raw.end, node: inner };
        let mut binder = Binder::new(self.catalog, self.text, &types).with_path(self.path, self.listed);
        binder.foreign = self.foreign;
        binder.styles = self.styles;
        binder.bind(&statement)?;
        let text = self.text.get(start..raw.end).unwrap_or_default().to_string();
        Ok(Statement::Prepare { name: s.name.clone(), types, text })
    }

    fn tokens_of(&self, raw: &Raw) -> Vec<Token> {
        Tokens::from(self.text, raw.start).take_while(|t| t.end <= raw.end).collect()
    }

    fn explain(&mut self, s: &'a tree::ExplainStmt, raw: &'a Raw) -> SqlResult<Statement> {
        let mut shown =
            ExplainOptions { analyze: false, verbose: false, costs: true, json: false, summary: true };
        let mut timed = None;
        for o in options(&s.options)? {
            let name = o.defname.as_str();
            match name {
                "analyze" => shown.analyze = option_bool(o)?,
                "verbose" => shown.verbose = option_bool(o)?,
                "costs" => shown.costs = option_bool(o)?,
                "buffers" | "wal" | "settings" | "generic_plan" | "memory" => {
                    let feature = format!("EXPLAIN option {}", name.to_ascii_uppercase());
                    refuse_at(option_bool(o)?, feature, o.location)?;
                }
                // No node tells its own time.
                "timing" => timed = Some(option_bool(o)?),
                "summary" => shown.summary = option_bool(o)?,
                "format" => {
                    let format = option_text(o)?.unwrap_or_default();
                    shown.json = format == "json";
                    let known = shown.json || format == "text";
                    refuse_at(!known, format_args!("EXPLAIN in format {format}"), o.location)?;
                }
                "serialize" => return Err(at(SqlError::unsupported("EXPLAIN option SERIALIZE"), o.location)),
                other => {
                    let message = format!("unrecognized EXPLAIN option \"{other}\"");
                    return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), o.location));
                }
            }
        }
        if timed == Some(true) && !shown.analyze {
            let message = "EXPLAIN option TIMING requires ANALYZE";
            return Err(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message));
        }
        let node = kind(need(&s.query)?)?;
        let statement = match self.statement(node, raw)? {
            // A cursor's plan is its query's.
            Statement::Declare(mut d) => {
                d.query.targets.truncate(d.query.targets.len() - d.rows.len());
                Statement::Query(d.query)
            }
            other => other,
        };
        if !matches!(
            statement,
            Statement::Query(_) | Statement::Insert(_) | Statement::Modify(_) | Statement::Execute { .. }
        ) {
            return Err(SqlError::unsupported(format_args!("EXPLAIN of {}", statement_name(node))));
        }
        let text = self.explained(s, raw);
        Ok(Statement::Explain { options: shown, statement: Box::new(statement), text })
    }

    /// The text behind EXPLAIN and its options.
    fn explained(&self, s: &tree::ExplainStmt, raw: &Raw) -> String {
        let mut tokens = self.tokens_of(raw).into_iter().skip(1).peekable();
        if !s.options.is_empty() {
            if tokens.peek().is_some_and(|t| t.is_mark(b'(')) {
                skip_parentheses(&mut tokens);
            } else {
                let is_option =
                    |t: &Token| ["analyze", "analyse", "verbose"].iter().any(|w| t.is_word(self.text, w));
                while tokens.peek().is_some_and(is_option) {
                    tokens.next();
                }
            }
        }
        let start = tokens.peek().map_or(raw.start, |t| t.start);
        self.text.get(start..raw.end).unwrap_or_default().to_string()
    }
}

fn skip_parentheses(tokens: &mut impl Iterator<Item = Token>) {
    let mut depth = 0;
    for t in tokens {
        match t.kind {
            TokenKind::Mark(b'(') => depth += 1,
            TokenKind::Mark(b')') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return;
        }
    }
}

/// Whether the options of VACUUM or ANALYZE go together.
fn check_vacuum(s: &tree::VacuumStmt) -> SqlResult<()> {
    let command = if s.is_vacuumcmd { "VACUUM" } else { "ANALYZE" };
    let (mut is_full, mut analyzes, mut workers) = (false, !s.is_vacuumcmd, 0);
    let (mut skips_pages, mut processes_toast) = (false, true);
    for o in options(&s.options)? {
        let wrong = |message: String| at(SqlError::new(sqlstate::SYNTAX_ERROR, message), o.location);
        match (o.defname.as_str(), s.is_vacuumcmd) {
            ("verbose" | "skip_locked", _) | ("freeze" | "truncate", true) => drop(option_bool(o)?),
            ("analyze", true) => analyzes = option_bool(o)?,
            ("full", true) => is_full = option_bool(o)?,
            ("disable_page_skipping", true) => skips_pages = option_bool(o)?,
            ("process_toast", true) => processes_toast = option_bool(o)?,
            ("index_cleanup", true) => {
                let word = option_text(o)?.unwrap_or_default();
                if word != "auto" {
                    option_bool(o)?;
                }
            }
            ("parallel", true) => {
                let Some(n) = option_text(o)? else {
                    return Err(wrong("parallel option requires a value between 0 and 1024".into()));
                };
                workers = n.parse::<i64>().unwrap_or(-1);
                if !(0..=1024).contains(&workers) {
                    return Err(wrong("parallel workers for vacuum must be between 0 and 1024".into()));
                }
            }
            (other, _) => return Err(wrong(format!("unrecognized {command} option \"{other}\""))),
        }
    }
    let columns =
        s.rels.iter().any(|r| matches!(kind(r), Ok(Kind::VacuumRelation(r)) if !r.va_cols.is_empty()));
    let refused = match () {
        () if is_full && workers > 0 => "VACUUM FULL cannot be performed in parallel",
        () if columns && !analyzes => "ANALYZE option must be specified when a column list is provided",
        () if is_full && skips_pages => "VACUUM option DISABLE_PAGE_SKIPPING cannot be used with FULL",
        () if is_full && !processes_toast => "PROCESS_TOAST required with VACUUM FULL",
        () => return Ok(()),
    };
    Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, refused))
}

fn nothing(tag: &'static str, what: accepted::Accepted) -> Statement {
    Statement::Nothing { tag, notice: what.notice.to_string() }
}

/// ISOLATION LEVEL, READ ONLY and READ WRITE, DEFERRABLE; the last of a kind counts.
fn transaction_modes(nodes: &[Node]) -> SqlResult<Modes> {
    let mut modes = Modes::default();
    for o in options(nodes)? {
        match o.defname.as_str() {
            "transaction_isolation" => {
                let name = option_text(o)?.unwrap_or_default();
                let level = IsolationLevel::of_name(&name);
                modes.isolation = Some(level.ok_or_else(|| unexpected("an isolation level"))?);
            }
            "transaction_read_only" => {
                modes.access = Some(if option_bool(o)? { Access::ReadOnly } else { Access::ReadWrite });
            }
            "transaction_deferrable" => modes.deferrable = Some(option_bool(o)?),
            other => return Err(SqlError::unsupported(format_args!("transaction mode {other}"))),
        }
    }
    Ok(modes)
}

/// What a statement is called.
pub fn statement_name(node: &Kind) -> String {
    let name = variant(node);
    let known = match name.as_str() {
        "MergeStmt" => "MERGE",
        "CreateTableAsStmt" => "CREATE TABLE AS",
        "ViewStmt" => "CREATE VIEW",
        "CreateSeqStmt" => "CREATE SEQUENCE",
        "AlterSeqStmt" => "ALTER SEQUENCE",
        "CreateTrigStmt" => "CREATE TRIGGER",
        "CreateEventTrigStmt" => "CREATE EVENT TRIGGER",
        "CreateSchemaStmt" => "CREATE SCHEMA",
        "CreateEnumStmt" | "CompositeTypeStmt" | "CreateRangeStmt" => "CREATE TYPE",
        "DefineStmt" => "CREATE AGGREGATE, OPERATOR or TYPE",
        "CreateDomainStmt" => "CREATE DOMAIN",
        "RuleStmt" => "CREATE RULE",
        "CreatedbStmt" => "CREATE DATABASE",
        "DropdbStmt" => "DROP DATABASE",
        "CreatePlangStmt" => "CREATE LANGUAGE",
        "CreateStatsStmt" => "CREATE STATISTICS",
        "GrantRoleStmt" | "GrantStmt" => "GRANT or REVOKE",
        "DeclareCursorStmt" => "DECLARE CURSOR",
        "ClosePortalStmt" => "CLOSE",
        "RefreshMatViewStmt" => "REFRESH MATERIALIZED VIEW",
        "LockStmt" => "LOCK TABLE",
        "SelectStmt" => "SELECT",
        "RenameStmt" => "ALTER ... RENAME",
        "AlterObjectSchemaStmt" => "ALTER ... SET SCHEMA",
        "SecLabelStmt" => "SECURITY LABEL",
        _ => "",
    };
    if known.is_empty() { upper_words(name.trim_end_matches("Stmt"), "") } else { known.to_string() }
}
