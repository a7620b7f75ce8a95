//! From a statement's text to something that runs, and running it.
use crate::session::control::ends_failed;
use crate::session::literals::{self, Lifted};
use crate::session::output::{Encode, Output};
use crate::session::params::{are_fitted, with_refs};
use crate::session::plan::{Plan, Ready};
use crate::session::plans::Known;
use crate::session::rows::{Column, Row, Rows, styled};
use crate::session::runtime::program_of;
use crate::session::{Called, QueryId, Session};
use ondol_base::cancel::Cancel;
use ondol_base::fiber::on_thread_stack;
use ondol_base::timer::Alarm;
use ondol_engine::connection::STALE;
use ondol_engine::{Charge, Connection, FunctionDef, Path};
use ondol_sql::bound::{Modes, Statement};
use ondol_sql::code::program::Tag;
use ondol_sql::interpret::rows as raw;
use ondol_sql::interpret::rows::{Nowhere, Sink};
use ondol_sql::parse::lexer::{TokenKind, Tokens};
use ondol_sql::plan::ways::Ways;
use ondol_sql::{bind, parse};
use ondol_types::style::Styles;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, limits, sqlstate};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// Bytes that are much to be taken for planning.
const MUCH: usize = 32 << 20;
/// How often a statement is planned anew because the dictionary changed under it, before giving up.
pub(crate) const STALE_LIMIT: u32 = 100;

/// Passes rows on to an output, the columns before the first.
pub(crate) struct Telling<'a> {
    pub columns: &'a Arc<[Column]>,
    pub out: &'a mut dyn Output,
    told: bool,
}

impl<'a> Telling<'a> {
    pub fn new(columns: &'a Arc<[Column]>, out: &'a mut dyn Output) -> Telling<'a> {
        Telling { columns, out, told: false }
    }
    pub fn tell(&mut self) -> SqlResult<()> {
        if !std::mem::replace(&mut self.told, true) {
            self.out.columns(self.columns)?;
        }
        Ok(())
    }
}

impl Sink for Telling<'_> {
    fn row(&mut self, row: &raw::RowView<'_>) -> SqlResult<bool> {
        self.tell()?;
        self.out.row(Row::new(self.columns, *row))?;
        Ok(true)
    }
}

pub(crate) fn is_stale(e: &SqlError) -> bool {
    e.sqlstate() == STALE
}

/// The error of a statement with parameters, run without any: it names the first.
#[cold]
fn no_parameter(text: &str) -> SqlError {
    let first = Tokens::new(text).find(|t| t.kind == TokenKind::Param);
    let (name, at) = first.map_or(("$1", 0), |t| (&text[t.start..t.end], t.start));
    SqlError::new(sqlstate::UNDEFINED_PARAMETER, format!("there is no parameter {name}")).at(at)
}

#[cold]
pub(crate) fn transaction_failed() -> SqlError {
    SqlError::new(
        sqlstate::IN_FAILED_SQL_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}

#[cold]
pub(crate) fn churning() -> SqlError {
    SqlError::new(sqlstate::OBJECT_IN_USE, "the dictionary kept changing while the statement was planned")
        .hint("Try again.")
}

impl Session {
    /// Runs one statement to its end: errors are dealt with (session/N2), stale plans made anew (session/N1).
    pub(crate) fn run_text(
        &mut self,
        text: &str,
        types: &[TypeId],
        params: &[Value],
        out: &mut dyn Output,
    ) -> SqlResult<()> {
        let done = self.timed(|s| s.plan_and_run(text, types, params, out));
        self.give_back();
        done
    }

    /// After a long text was planned: the system gets what that took.
    pub(crate) fn give_back(&mut self) {
        if std::mem::take(&mut self.plans.took_much) {
            ondol_base::heap::give_back()
        }
    }

    /// Runs `f` as a statement does: within statement_timeout, and undone if it fails (session/N2).
    #[inline]
    pub(crate) fn timed<T>(&mut self, f: impl FnOnce(&mut Session) -> SqlResult<T>) -> SqlResult<T> {
        self.cancel.begin();
        let Some(limit) = self.quick.timeout else {
            let done = self.rested(f);
            return self.ended(done);
        };
        self.within(limit, f)
    }

    /// held/H2.
    #[inline]
    fn rested<T>(&mut self, f: impl FnOnce(&mut Session) -> SqlResult<T>) -> SqlResult<T> {
        if self.connection.must_rest() {
            self.connection.rest()?;
            self.look_for_held()
        }
        f(self)
    }

    /// Runs `f`, and breaks it off when the time is up.
    #[inline(never)]
    fn within<T>(&mut self, limit: Duration, f: impl FnOnce(&mut Session) -> SqlResult<T>) -> SqlResult<T> {
        // Not the session's meanwhile: if `f` panics, the alarm goes, and its deadline with it.
        let mut alarm = self
            .alarm
            .take()
            .unwrap_or_else(|| Alarm::new(self.cancel.clone(), self.connection.parker().clone()));
        alarm.arm(limit).map_err(|e| {
            SqlError::new(
                sqlstate::IO_ERROR,
                format!("could not start the thread for statement_timeout: {e}"),
            )
        })?;
        let mut done = self.rested(f);
        alarm.disarm();
        self.alarm = Some(alarm);
        if self.cancel.is_told_by_timer() {
            done = done.map_err(|e| match e.sqlstate() {
                sqlstate::QUERY_CANCELED => {
                    SqlError::new(sqlstate::QUERY_CANCELED, "canceling statement due to statement timeout")
                }
                _ => e,
            });
        }
        self.ended(done)
    }

    /// Plans a text's statement, or finds it planned, and runs it; once more whenever the plan turns out to
    /// be stale (session/N1).
    pub(crate) fn plan_and_run(
        &mut self,
        text: &str,
        types: &[TypeId],
        params: &[Value],
        out: &mut dyn Output,
    ) -> SqlResult<()> {
        for _ in 0..STALE_LIMIT {
            let is_bare = params.is_empty() && types.is_empty();
            let lifted = if is_bare { self.run_lifted(text, out) } else { None };
            let done = match lifted {
                Some(done) => done,
                None => self.run_as_written(text, types, params, out),
            };
            match done {
                Err(e) if is_stale(&e) => self.plans.forget(),
                done => return done,
            }
        }
        Err(churning())
    }

    fn run_as_written(
        &mut self,
        text: &str,
        types: &[TypeId],
        params: &[Value],
        out: &mut dyn Output,
    ) -> SqlResult<()> {
        let ready = self.ready(text, types)?;
        let wanted = ready.params().len();
        if params.len() != wanted {
            return Err(match params {
                [] => no_parameter(text),
                _ => crate::session::params::count_mismatch(params.len(), wanted),
            });
        }
        match ready {
            Ready::Empty => Ok(()),
            Ready::Plan(p) => self.run_with_values(&p, params, out),
            Ready::Other(b) => self.run_utility(text, &b, params, out),
        }
    }

    /// Runs a text by the plan of the one with parameters for its literals; `None` where it is to be planned
    /// as it was written (literals/E3).
    fn run_lifted(&mut self, text: &str, out: &mut dyn Output) -> Option<SqlResult<()>> {
        if self.connection.is_failed() {
            return None;
        }
        let Lifted { text, types, values } = literals::lift(text)?;
        if self.plans.is_unlifted(&text, self.connection.catalog_version()) {
            return None;
        }
        let plan = match self.ready(&text, &types) {
            Ok(Ready::Plan(plan)) if literals::is_served(&types, &plan) => plan,
            // Told to stop, or out of memory.
            Err(e) if e.sqlstate().starts_with("57") || e.sqlstate().starts_with("53") => {
                return Some(Err(e));
            }
            _ => {
                self.plans.keep_unlifted(text);
                return None;
            }
        };
        // Values are read before the statement begins.
        let styles = self.quick.styles;
        let asks_time =
            |(v, ty): (&Value, &TypeId)| matches!(v, Value::Text(t) if bind::asks_time(t, *ty, &styles));
        if values.iter().zip(&plan.program.params).any(asks_time) {
            return None;
        }
        if are_fitted(&values, &plan.program.params) {
            return Some(with_refs(&values, |refs| self.run_statement(&plan, refs, out)));
        }
        let fitted = self.fit(&values, &plan.program.params).ok()?;
        Some(with_refs(&fitted, |refs| self.run_statement(&plan, refs, out)))
    }

    /// Parses, binds and compiles, or finds what was compiled before.
    pub(crate) fn ready(&mut self, text: &str, types: &[TypeId]) -> SqlResult<Ready> {
        self.ready_in(text, types, self.quick.styles.of_reading())
    }

    /// The same for literals that are read in these styles.
    pub(crate) fn ready_in(&mut self, text: &str, types: &[TypeId], styles: Styles) -> SqlResult<Ready> {
        // Types that were changed since they were given are others now (user/U2).
        let now: Vec<TypeId>;
        let types = if types.iter().any(|t| t.is_user()) {
            let catalog = self.connection.catalog();
            now = types.iter().map(|t| catalog.current(*t)).collect();
            &now[..]
        } else {
            types
        };
        if self.connection.is_failed() {
            let _charge = self.charge_planning(text)?;
            if !parse::parse(text)?.is_empty() && !ends_failed(text) {
                return Err(transaction_failed());
            }
        } else {
            let key = key_of(text, styles, self.quick.ways);
            let version = self.connection.catalog_version();
            if let Some(plan) = self.plans.find(&key, types, version) {
                return Ok(Ready::Plan(plan));
            }
            let catalog = self.connection.catalog();
            self.identify_by(&catalog);
            let known = Known { catalog: &catalog, is_own: self.connection.has_own_catalog() };
            if let Some(plan) = self.plans.take(&key, types, known) {
                self.check_plan(&catalog, &plan)?;
                self.plans.own(&key, types, &plan, known);
                return Ok(Ready::Plan(plan));
            }
        }
        on_thread_stack(|| self.make_ready(text, types, styles))
    }

    fn make_ready(&mut self, text: &str, types: &[TypeId], styles: Styles) -> SqlResult<Ready> {
        // Given back when the statement is planned.
        let charge = self.charge_planning(text)?;
        self.plans.took_much |= charge.bytes() > MUCH;
        self.check_cancel()?;
        let raws = parse::parse_within(text, self.limits())?;
        self.check_cancel()?;
        let Some(raw) = raws.first() else { return Ok(Ready::Empty) };
        if raws.len() > 1 {
            return Err(SqlError::new(sqlstate::SYNTAX_ERROR, "one statement at a time can be run here"));
        }
        let catalog = self.connection.catalog();
        self.identify_by(&catalog);
        let listed = self.identity.listed.clone();
        let path = Path::of(&catalog, &listed);
        let binder = bind::Binder::new(&catalog, text, types).with_path(&path, &listed).in_styles(styles);
        let binder = binder.with_roles(self.identity.current, self.identity.session);
        let binder = binder.with_foreign(&crate::session::foreign::Files).limited(self.limits());
        let mut bound = match self.settings.is_on("check_function_bodies") {
            true => binder.bind(raw)?,
            false => binder.without_checking_bodies().bind(raw)?,
        };
        self.check_needs(&catalog, &bound.needs)?;
        // A view is made whether its tables' files are there or not.
        if !matches!(bound.statement, Statement::CreateView { .. }) {
            bound.open_foreign(&crate::session::foreign::Files)?
        }
        for (state, message) in &bound.notices {
            match state.starts_with("01") {
                true => self.warn(state, message.clone()),
                false => self.notice(state, message.clone()),
            }
        }
        if !matches!(bound.statement, Statement::Query(_) | Statement::Insert(_) | Statement::Modify(_)) {
            if is_stored(&bound.statement)
                && let Some(literal) = &bound.otherwise
            {
                return Err(SqlError::unsupported(
                    "a literal in a definition that another DateStyle or TimeZone reads otherwise",
                )
                .detail(format!(
                    "\"{literal}\" means another date, time or interval where the definition is used."
                ))
                .hint("Write dates as 2000-12-31, and times with their zone, as 12:30:00+02."));
            }
            return Ok(Ready::Other(Box::new(bound)));
        }
        let mut plan = Plan::new(self.compile(&bound)?).charged(charge)?;
        plan = plan.with_origins(&bound.statement.origins());
        // A statement with notices is bound each time, so that they are told each time; one with a foreign
        // table, so that the file is looked at.
        plan.once = !bound.notices.is_empty() || bound.foreign.is_any();
        let plan = Arc::new(plan);
        if !plan.once {
            let is_own = self.connection.has_own_catalog();
            self.plans.keep(
                &key_of(text, styles, self.quick.ways),
                types,
                &plan,
                Known { catalog: &catalog, is_own },
            )
        }
        Ok(Ready::Plan(plan))
    }

    /// What parsing and planning a text takes.
    fn charge_planning(&self, text: &str) -> SqlResult<Charge> {
        let mut charge = self.connection.charge();
        let bytes = parse::memory(text);
        if bytes > limits::SMALL {
            charge.grow(bytes).map_err(|e| {
                e.detail(format!("A text of {} bytes takes about {bytes} to be planned.", text.len()))
            })?;
        }
        Ok(charge)
    }

    /// Runs a compiled statement as one statement of the connection and tells its outcome.
    pub(crate) fn run_statement(
        &mut self,
        plan: &Arc<Plan>,
        params: &[ValueRef<'_>],
        out: &mut dyn Output,
    ) -> SqlResult<()> {
        if plan.program.writes && (self.quick.own_transaction || self.in_transaction()) {
            self.refuse_read_only(plan.program.tag.of_writing())?;
        }
        if self.quick.own_transaction && !self.in_transaction() {
            return self.run_in_own_transaction(plan, params, out);
        }
        let has_result = !plan.program.columns.is_empty() || plan.program.tag == Tag::Select;
        if has_result {
            // Told with the first row, or when the statement has succeeded without one.
            let mut own = None;
            let mut telling = Telling::new(styled(&plan.columns, self.quick.styles, &mut own), out);
            let (rows, token) = match self.workers_for_rows(plan) {
                0 => self.run_program(plan, params, &mut telling)?,
                workers => self.tell_parted(plan, workers, params, &mut telling)?,
            };
            telling.tell()?;
            return out.done(&plan.program.tag.text(rows), token);
        }
        let (rows, token) = self.run_program(plan, params, &mut Nowhere)?;
        out.done(&plan.program.tag.text(rows), token)
    }

    /// Runs a statement as a transaction of the session's default level.
    fn run_in_own_transaction(
        &mut self,
        plan: &Arc<Plan>,
        params: &[ValueRef<'_>],
        out: &mut dyn Output,
    ) -> SqlResult<()> {
        struct Held<'a>(&'a mut dyn Output, String);
        impl Output for Held<'_> {
            fn columns(&mut self, columns: &Arc<[Column]>) -> SqlResult<()> {
                self.0.columns(columns)
            }
            fn row(&mut self, row: Row<'_>) -> SqlResult<()> {
                self.0.row(row)
            }
            fn encoder(&mut self, columns: &Arc<[Column]>) -> Option<Arc<dyn Encode>> {
                self.0.encoder(columns)
            }
            fn encoded(&mut self, rows: Vec<u8>) -> SqlResult<()> {
                self.0.encoded(rows)
            }
            fn done(&mut self, tag: &str, _: Option<ondol_engine::Token>) -> SqlResult<()> {
                self.1 = tag.to_string();
                Ok(())
            }
        }
        self.start_transaction(Modes::default())?;
        let mut held = Held(out, String::new());
        let done = self.run_statement(plan, params, &mut held);
        let tag = held.1;
        match done.and_then(|()| self.connection.commit()) {
            Ok(token) => {
                self.settings_committed();
                out.done(&tag, token)
            }
            Err(e) => {
                self.drop_transaction();
                Err(e)
            }
        }
    }

    /// The compiled form of a registered query; the dictionary's, or made from its text when that is stale.
    pub(crate) fn query_plan(&mut self, query: QueryId) -> SqlResult<Arc<Plan>> {
        let catalog = self.connection.catalog();
        self.identify_by(&catalog);
        let known = Known { catalog: &catalog, is_own: self.connection.has_own_catalog() };
        let Some(function) = catalog.functions.get(&query.0) else {
            return Err(SqlError::new(
                sqlstate::UNDEFINED_FUNCTION,
                format!("there is no registered query with the ID {}", query.0),
            ));
        };
        let plan = self
            .plans
            .query(query.0, known, || on_thread_stack(|| Ok(Plan::new(program_of(function, &catalog)?))))?;
        on_thread_stack(|| self.check_query(&catalog, function, &plan))?;
        self.plans.own_query(query.0, &plan);
        Ok(plan)
    }

    /// Byte code for a function that is about to be registered.
    pub(crate) fn compile_function(&mut self, function: &FunctionDef) -> SqlResult<Vec<u8>> {
        let catalog = self.connection.catalog();
        let bound = bind::bind_function(function, &catalog)?;
        for (state, message) in &bound.notices {
            self.notice(state, message.clone());
        }
        let code = match self.compile_for_all(&bound) {
            Ok(program) => program.encode(),
            // A materialised view may be filled before it is called.
            Err(e) if e.sqlstate() == sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        // A domain's conditions are in the code, which does not tell so.
        let is_domain = |t: &TypeId| t.user().is_some_and(|u| u.kind == ondol_types::user::domain::CODE);
        // Nor does it tell of views.
        let catalog = self.connection.catalog();
        let body = function.body.to_lowercase();
        let over_views = catalog.views.values().any(|v| body.contains(&v.name.to_lowercase()));
        let is_kept = !over_views && !catalog.types.values().any(is_domain);
        Ok(if is_kept { code } else { Vec::new() })
    }

    /// The short way of a call that reads one row by its key: whether there is such a row. `None` where that
    /// is not all there is to do: nothing was done, and the long way is to be taken.
    #[inline]
    pub(crate) fn call_point(
        &mut self,
        query: QueryId,
        params: &[ValueRef<'_>],
        rows: &mut Rows,
    ) -> Option<bool> {
        let plan = self.plans.queries.get(query.0 as usize)?.as_ref()?;
        point_of(plan, self.quick.is_plain, &self.cancel, &mut self.connection, params, rows)
    }

    /// The same of a prepared statement's own plan.
    #[inline]
    pub(crate) fn call_point_of(
        &mut self,
        plan: &Plan,
        params: &[ValueRef<'_>],
        rows: &mut Rows,
    ) -> Option<bool> {
        point_of(plan, self.quick.is_plain_text, &self.cancel, &mut self.connection, params, rows)
    }

    #[inline]
    pub(crate) fn call_once(
        &mut self,
        query: QueryId,
        params: &[ValueRef<'_>],
        rows: &mut Rows,
    ) -> SqlResult<Called> {
        self.with_query(query, |s, plan| {
            rows.reset(styled(&plan.columns, s.quick.styles, &mut None));
            s.call_plan(plan, params, rows.sink())
        })
    }

    /// One call, in a transaction of its own if the session's defaults want that.
    #[inline]
    pub(crate) fn call_plan(
        &mut self,
        plan: &Arc<Plan>,
        params: &[ValueRef<'_>],
        sink: &mut dyn Sink,
    ) -> SqlResult<Called> {
        if !self.quick.own_transaction || self.in_transaction() {
            let (rows, token) = self.run_program(plan, params, sink)?;
            return Ok(Called { rows, token });
        }
        self.call_alone(plan, params, sink)
    }

    /// One call as a transaction of the session's default level.
    #[inline(never)]
    fn call_alone(
        &mut self,
        plan: &Arc<Plan>,
        params: &[ValueRef<'_>],
        sink: &mut dyn Sink,
    ) -> SqlResult<Called> {
        self.start_transaction(Modes::default())?;
        match self.run_program(plan, params, sink).and_then(|(rows, _)| Ok((rows, self.connection.commit()?)))
        {
            Ok((rows, token)) => {
                self.settings_committed();
                Ok(Called { rows, token })
            }
            Err(e) => {
                self.drop_transaction();
                Err(e)
            }
        }
    }

    #[inline]
    pub(crate) fn with_query<R>(
        &mut self,
        query: QueryId,
        mut f: impl FnMut(&mut Session, &Arc<Plan>) -> SqlResult<R>,
    ) -> SqlResult<R> {
        if self.connection.is_failed() {
            return Err(transaction_failed());
        }
        for _ in 0..STALE_LIMIT {
            // Taken out meanwhile, which costs less than to share it.
            let kept = self.plans.queries.get_mut(query.0 as usize).and_then(Option::take);
            let plan = match kept {
                Some(p) => p,
                None => self.query_plan(query)?,
            };
            let done = f(self, &plan);
            if let Some(place) = self.plans.queries.get_mut(query.0 as usize) {
                *place = Some(plan);
            }
            if done.as_ref().is_err_and(is_stale) {
                self.plans.forget();
                continue;
            }
            return done;
        }
        Err(churning())
    }
}

/// What plans are kept under: the text, and what its literals are read by.
#[inline]
fn key_of(text: &str, styles: Styles, ways: Ways) -> Cow<'_, str> {
    match styles.is_usual() && ways == Ways::ALL {
        true => Cow::Borrowed(text),
        // No statement begins so.
        false => Cow::Owned(format!(
            "\0{styles} {:?} {:?} {}\0{text}",
            styles.interval,
            styles.zone,
            ways.number()
        )),
    }
}

/// Whether texts of the statement are kept, to be read again later.
fn is_stored(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::CreateTable { .. }
            | Statement::AlterTable(_)
            | Statement::CreateView { .. }
            | Statement::AlterView { .. }
            | Statement::CreateFunction { .. }
            | Statement::CreateType { .. }
            | Statement::AlterType { .. }
    )
}

#[inline]
fn point_of(
    plan: &Plan,
    is_plain: bool,
    cancel: &Cancel,
    connection: &mut Connection,
    params: &[ValueRef<'_>],
    rows: &mut Rows,
) -> Option<bool> {
    if !is_plain || connection.in_transaction() {
        return None;
    }
    let point = plan.point.as_ref()?;
    cancel.begin();
    rows.have(&plan.columns);
    point.call(connection, params, rows.sink())
}

/// A result column of a system view or of SHOW.
pub(crate) fn column(name: &str, id: TypeId) -> Column {
    Column::new(name, Type::new(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, TempFolder};

    /// The plan of a statement without parameters, kept or made: what a renewed one has of the one before.
    fn plan(s: &mut Session, text: &str) -> Arc<[Column]> {
        match s.ready(text, &[]).expect("a statement that can be planned") {
            Ready::Plan(p) => {
                assert_eq!(p.program.catalog_version, s.connection.catalog().version);
                p.columns.clone()
            }
            _ => panic!("{text} has no plan"),
        }
    }

    #[cfg(feature = "server")]
    #[test]
    fn look_ups_are_known() {
        let folder = TempFolder::new().expect("a temporary folder");
        let db = Database::open(folder.path()).expect("a database in it");
        let mut s = db.session();
        s.execute("create table a (id bigint primary key, v int, t text unique)").expect("a table");
        s.execute("create table b (id int, v int); create unique index on b using hash (id)")
            .expect("a table");
        s.execute("create index on a (v)").expect("an index");
        let mut are = |wanted: bool, texts: &[&str]| {
            for text in texts {
                let prepared = s.prepare(text).expect("a statement");
                assert_eq!(prepared.is_look_up(), wanted, "{text}")
            }
        };
        are(
            true,
            &[
                "select * from a where id = $1",
                "select v, t from a where id = $1",
                "select id from a where t = $1",
                "select v, id from b where id = $1",
                "select a.v, b.v from a join b on b.id = a.v where a.id = $1",
            ],
        );
        are(
            false,
            &[
                "select * from a where v = $1",
                "select * from a",
                "select v + 1 from a where id = $1",
                "select upper(t) from a where id = $1",
                "select count(*) from a where id = $1",
                "select 1",
                "select * from a where id > $1",
                "select * from a where id = $1 for update",
                "update a set v = 1 where id = $1",
                "insert into a values ($1)",
                "show timezone",
            ],
        )
    }

    #[test]
    fn plans_go_with_their_own_tables() {
        let folder = TempFolder::new().expect("a temporary folder");
        let db = Database::open(folder.path()).expect("a database in it");
        let (mut s, mut other) = (db.session(), db.session());
        s.execute("create table a (id int primary key, v int)").expect("a table");
        s.execute("create table b (id int primary key, v int)").expect("another");
        let texts = [
            "select v from a where id = 1",
            "update a set v = v + 1 where id = 1",
            "select a.v from a join b using (id)",
            "select 1 from ondol_tables",
            "select 1 + 1",
        ];
        let before: Vec<_> = texts.iter().map(|t| plan(&mut s, t)).collect();
        let kept = |s: &mut Session| -> Vec<bool> {
            texts.iter().zip(&before).map(|(t, b)| Arc::ptr_eq(&plan(s, t), b)).collect()
        };
        other.execute("create table c (id int)").expect("a table that no plan knows");
        other.execute("create index on c (id)").expect("its index");
        assert_eq!(kept(&mut s), [true, true, true, false, true], "a table that no plan has");
        s.execute("begin; drop table c; rollback").expect("a change undone");
        assert_eq!(kept(&mut s), [true, true, true, false, true], "a change that was undone");
        other.execute("create index on b (v)").expect("an index");
        assert_eq!(kept(&mut s), [true, true, false, false, true], "an index of one of the tables");
        other.execute("drop table b; create table b (id int primary key, v int)").expect("a table anew");
        assert_eq!(kept(&mut s), [true, true, false, false, true], "another table by the same name");
        other.execute("truncate a").expect("an empty table");
        assert_eq!(kept(&mut s), [false, false, false, false, true], "another heap");
        let at = plan(&mut s, "select 1 + 1");
        other.execute("create type mood as enum ('sad')").expect("a type");
        assert!(!Arc::ptr_eq(&at, &plan(&mut s, "select 1 + 1")), "a type that a name may mean");
        let at = plan(&mut s, "select 1 + 1");
        other.execute("alter type mood rename value 'sad' to 'blue'").expect("a label");
        assert!(!Arc::ptr_eq(&at, &plan(&mut s, "select 1 + 1")), "a label that a text may mean");
        other.execute("create function f(int) returns int language sql as 'select 1'").expect("a function");
        assert_eq!(kept(&mut s), [false; 5], "a name that may mean something else");
    }
}
