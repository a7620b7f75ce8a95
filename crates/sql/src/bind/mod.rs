//! The binder: from a parse tree to a [`Bound`] statement, by PostgreSQL's rules.
//!
//! | file | of what |
//! | --- | --- |
//! | `scope` | what names mean in a query, and at which level |
//! | `expr`, `special`, `call`, `subquery`, `array`, `row`, `json` | expressions |
//! | `coerce` | types: casts, unknown literals, parameters, constants |
//! | `select`, `from`, `order`, `group`, `window`, `setop` | queries |
//! | `dml`, `updatable`, `copy` | statements that change rows |
//! | `ddl`, `like`, `comment`, `alter`, `check`, `sequence`, `routine`, `user_type`, `enumeration`, `domain`, `composite`, `view` | statements that change the dictionary |
//! | `utility` | transactions, settings, EXPLAIN, prepared statements |
//! | `written` | what is left for who writes a query down again |
//! | `names`, `types`, `schema` | what names mean, of types too; schemas
//! | `tree`, `system`, `accepted` | trees, system views, what is accepted without effect |
//!
//! 1. What a statement says is obeyed or refused (0A000, naming the feature). Every field of a parse node is
//!    either read or checked to be empty; [`accepted`] is the one list of exceptions.
//! 2. The output satisfies bound/B1 to bound/B3.
//! 3. Positions in errors are byte offsets into the text that was parsed ([`crate::parse`]).
//! 4. Binding reads nothing but its arguments: a bound statement serves as long as the catalog's version
//!    does, unless it reads a foreign table, which was opened for it alone ([`Bound::foreign`]). So a
//!    literal that names a moment ('now', 'today') is left to be read when the statement runs.
//! 5. Recursion is bounded: expressions by the parser's limit on nesting, queries by [`MAX_QUERIES`].
//!
//! Source: PostgreSQL 15's documentation (chapters 4, 7, 10 and the reference of each statement) and its
//! answers.

pub mod accepted;
mod alter;
mod array;
pub mod system;
pub mod tree;
pub mod types;
pub mod written;

mod call;
pub mod check;
mod coerce;
mod comment;
mod composite;
mod conflict;
mod copy;
mod cursor;
mod ddl;
pub mod declared;
mod dml;
pub mod domain;
mod enumeration;
mod expr;
pub mod foreign;
mod foreign_table;
mod from;
mod group;
pub mod index;
mod json;
mod like;
mod material;
pub mod names;
mod order;
mod owner;
mod recursion;
mod rights;
pub mod role;
pub mod routine;
mod row;
mod schema;
mod scope;
mod select;
pub mod sequence;
mod set;
mod setop;
mod special;
mod subquery;
pub mod trail;
pub(crate) mod updatable;
mod user_type;
mod utility;
mod view;
mod window;

pub use check::row_checks;
pub use coerce::asks_time;
pub use dml::next_value_of;
pub use group::same;
pub use set::is_made_by;
pub use view::view_as_written;

use crate::bound::{Bound, Expr, ExprKind, NewSequence, Opened, Statement};
use crate::foreign::Foreign;
use crate::needs::Need;
use crate::parse::{
    Raw,
    tree::{Node, node::Node as Kind},
};
use names::Found;
use ondol_engine::name::USUAL_PATH;
use ondol_engine::role::BOOTSTRAP;
use ondol_engine::{Catalog, ColumnDef, FunctionDef, Path, Table, TableDef};
use ondol_types::limits::Limits;
use ondol_types::style::Styles;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, sqlstate};
use scope::{Cte, Level};
use std::cell::RefCell;
pub use utility::argument;

/// How many queries one statement may hold once its WITH queries are put in where they are used.
pub const MAX_QUERIES: u32 = 2000;
/// How deep they may be nested.
pub const MAX_LEVELS: usize = 60;

/// Binds a statement of `text` (the text that [`crate::parse::parse`] was given), names without a schema by
/// [`Path::public`]. The types of $1, $2, ... may be given, as far as they are known; [`TypeId::UNKNOWN`]
/// leaves one to be inferred.
pub fn bind(raw: &Raw, text: &str, catalog: &Catalog, param_types: &[TypeId]) -> SqlResult<Bound> {
    Binder::new(catalog, text, param_types).bind(raw)
}

/// Binds the body of a registered query: its arguments are the parameters. The statement's columns are cast
/// to what the function returns.
pub fn bind_function(function: &FunctionDef, catalog: &Catalog) -> SqlResult<Bound> {
    routine::bind_body(function, catalog, Styles::USUAL)
}

/// A parameter as a value of a column's domain, if the column has one: what is copied into the column is
/// looked at by it.
pub fn domain_value(catalog: &Catalog, column: &ColumnDef) -> SqlResult<Option<Expr>> {
    let of_fields = || row::has_domains(column.ty.id).then_some(column.ty.id);
    let Some(domain) = column.domain.or_else(of_fields) else { return Ok(None) };
    let param = Expr { kind: ExprKind::Param(0), ty: column.ty, at: u32::MAX };
    Binder::new(catalog, "", &[]).in_declared(param, domain).map(Some)
}

/// A column's default, as a value of the column.
pub fn column_default(catalog: &Catalog, column: &ColumnDef) -> SqlResult<Expr> {
    dml::default_of(catalog, column)
}

/// The number of the first of the table's checks that is false of a row, or NULL, as an expression over
/// parameters, and the row's columns that they are. `None` where it has none.
pub fn failed_check(catalog: &Catalog, table: &Table) -> SqlResult<Option<(Expr, Vec<u16>)>> {
    check::failed_check(catalog, table)
}

/// The generated columns of a table with their values, as expressions over parameters, and the row's columns
/// that these are.
#[allow(clippy::type_complexity)]
pub fn computed_values(catalog: &Catalog, table: &Table) -> SqlResult<(Vec<(u16, Expr)>, Vec<u16>)> {
    check::computed_values(catalog, table)
}

/// The value that a text over a row of the table gives a column, likewise; `None` where it depends on more
/// than the row, or asks a query.
pub fn value_of_row(
    catalog: &Catalog,
    def: &TableDef,
    column: &ColumnDef,
    text: &str,
) -> Option<(Expr, Vec<u16>)> {
    check::value_of_row(catalog, def, column, text)
}

/// The texts of the dictionary that have no meaning, each with what it belongs to and why: defaults,
/// conditions of domains and of tables.
pub fn broken_definitions(catalog: &Catalog) -> Vec<(String, SqlError)> {
    let mut broken = Vec::new();
    for user in catalog.types.values().filter_map(|t| domain::domain_of(*t)) {
        for check in &user.parts {
            let base = user.base.map_or(Type::TEXT, Type::base);
            let text = check.text.as_deref().unwrap_or("true");
            if let Err(e) = domain::bind_check(catalog, text, &scope::column(0, 0, base)) {
                let what = format!("constraint \"{}\" of domain \"{}\"", check.name, user.name);
                broken.push((what, e));
            }
        }
    }
    for table in catalog.tables() {
        for c in &table.def.columns {
            if let Err(e) = dml::default_of(catalog, c) {
                let what = format!("the default of column \"{}\" of table \"{}\"", c.name, table.def.name);
                broken.push((what, e));
            }
        }
        for (n, c) in table.def.columns.iter().enumerate() {
            if let Some(text) = c.computed()
                && let Err(e) = check::bind_generation(catalog, &table.def, c, text)
            {
                let of = table.def.indexes.iter().find(|i| i.all_columns().any(|c| c == n));
                let what = match of.filter(|_| c.is_hidden()) {
                    Some(index) => format!("index {}", index.name),
                    None => {
                        format!("the expression of column \"{}\" of table \"{}\"", c.name, table.def.name)
                    }
                };
                broken.push((what, e));
            }
        }
        for check in &table.def.checks {
            if let Err(e) = check::bind_check(catalog, &table.def, check) {
                let what = format!("constraint \"{}\" of table \"{}\"", check.name, table.def.name);
                broken.push((what, e));
            }
        }
    }
    for f in catalog.functions.values() {
        for n in f.args.len().saturating_sub(f.defaults.len())..f.args.len() {
            if let Err(e) = routine::left_out(catalog, f, n) {
                broken.push((format!("a default of function \"{}\"", f.name), e))
            }
        }
    }
    for view in catalog.queries() {
        if let Err(e) = view::bind_view(catalog, view) {
            broken.push((format!("view \"{}\"", view.name), e))
        }
    }
    broken
}

/// An argument of a registered query: its name, if it has one, and its type.
type Argument = (Option<String>, Type);

/// The state of binding one statement.
pub struct Binder<'a> {
    catalog: &'a Catalog,
    /// Where names without a schema are looked for, and the setting that says so.
    path: &'a Path,
    listed: &'a str,
    found: Option<&'a Found>,
    text: &'a str,
    /// Types of the parameters; unknown until something tells.
    params: Vec<TypeId>,
    /// The types that were given for the first of them: of one that is a domain's the value is looked at.
    declared: Vec<TypeId>,
    /// In a condition of a domain: what VALUE is.
    value: Option<Expr>,
    /// Whether more parameters may appear than were given.
    open_params: bool,
    /// A parameter's use was bound while its type was not known.
    untyped_params: bool,
    /// In the body of a function: its name and arguments.
    function: Option<(&'a str, &'a [Argument])>,
    levels: Vec<Level>,
    /// The collation that an operand bound so far was given by COLLATE, of the expression at hand, and its
    /// place.
    collation: Option<(&'a str, i32)>,
    ctes: Vec<Cte>,
    /// The names of WITH queries that cannot be seen yet.
    later_ctes: Vec<&'a str>,
    /// The recursions whose second sides are being bound.
    recursions: Vec<u16>,
    /// How many WITH queries have a number.
    withs: u16,
    queries: u32,
    notices: Vec<(&'static str, String)>,
    /// Whether the body of a function that is made must have a meaning now.
    check_bodies: bool,
    /// The source of foreign tables; none in the body of a function.
    foreign: Option<&'a dyn Foreign>,
    opened: Opened,
    /// That of the column that was bound last.
    new_sequence: Option<NewSequence>,
    /// What it is generated by.
    new_generation_of: Option<&'a Node>,
    /// Looked at with each expression.
    limits: Limits<'a>,
    /// How literals are read.
    styles: Styles,
    /// A literal that the usual styles would read as another value.
    otherwise: Option<String>,
    /// What is to be known of how it was written, if that is wanted ([`written`]).
    notes: Option<RefCell<written::Notes>>,
    /// The text is a view's, with its slots filled in (view/V1).
    is_view: bool,
    /// How many levels of queries are around the view.
    around: usize,
    /// The relations of a view's text that have no alias there (view::own_name), each with its number in its
    /// query.
    own_named: Vec<(&'a str, u16)>,
    /// The query whose INTO is obeyed.
    into_of: Option<&'a crate::parse::tree::SelectStmt>,
    /// The current role, and the session's.
    roles: (u32, u32),
    /// What is found on the way of what the statement needs ([`rights`]).
    needs: RefCell<Vec<Need>>,
}

impl<'a> Binder<'a> {
    pub fn new(catalog: &'a Catalog, text: &'a str, param_types: &[TypeId]) -> Binder<'a> {
        Binder {
            catalog,
            path: Path::public(),
            listed: USUAL_PATH,
            found: None,
            text,
            params: param_types.iter().map(|t| Type::new(*t).base().id).collect(),
            declared: param_types.to_vec(),
            value: None,
            open_params: true,
            untyped_params: false,
            function: None,
            levels: Vec::new(),
            collation: None,
            ctes: Vec::new(),
            later_ctes: Vec::new(),
            recursions: Vec::new(),
            withs: 0,
            queries: 0,
            notices: Vec::new(),
            check_bodies: true,
            foreign: None,
            opened: Opened::default(),
            new_sequence: None,
            new_generation_of: None,
            limits: Limits::NONE,
            styles: Styles::USUAL,
            otherwise: None,
            notes: None,
            is_view: false,
            around: 0,
            own_named: Vec::new(),
            into_of: None,
            roles: (BOOTSTRAP, BOOTSTRAP),
            needs: RefCell::default(),
        }
    }

    /// Names without a schema are looked for by this path, which the setting `listed` gives.
    pub fn with_path(mut self, path: &'a Path, listed: &'a str) -> Binder<'a> {
        (self.path, self.listed) = (path, listed);
        self
    }

    /// The statement is that of the current role; the other is the session's.
    pub fn with_roles(mut self, current: u32, session: u32) -> Binder<'a> {
        self.roles = (current, session);
        self
    }

    /// Literals are read as a session in these styles does.
    pub fn in_styles(mut self, styles: Styles) -> Binder<'a> {
        self.styles = styles;
        self
    }

    /// Binding ends when the limits say so.
    pub fn limited(mut self, limits: Limits<'a>) -> Binder<'a> {
        self.limits = limits;
        self
    }

    /// Functions in FROM may read foreign tables.
    pub fn with_foreign(mut self, foreign: &'a dyn Foreign) -> Binder<'a> {
        self.foreign = Some(foreign);
        self
    }

    /// A function may be made whose body has no meaning (yet).
    pub fn without_checking_bodies(mut self) -> Binder<'a> {
        self.check_bodies = false;
        self
    }

    /// Binds one statement.
    pub fn bind(mut self, raw: &'a Raw) -> SqlResult<Bound> {
        let mut statement = self.statement(&raw.node, raw)?;
        self.finish_params(&mut statement)?;
        let needs = self.take_needs(&statement);
        Ok(Bound {
            needs,
            statement,
            params: self.params,
            catalog_version: self.catalog.version,
            notices: self.notices,
            foreign: self.opened,
            otherwise: self.otherwise,
        })
    }

    fn statement(&mut self, node: &'a Kind, raw: &'a Raw) -> SqlResult<Statement> {
        match node {
            Kind::SelectStmt(s) => {
                if let Some(into) = self.select_into(s)? {
                    return Ok(into);
                }
                let mut query = self.select(s)?;
                coerce::settle_targets(self, &mut query)?;
                Ok(Statement::Query(query))
            }
            Kind::InsertStmt(s) => self.insert(s),
            Kind::UpdateStmt(s) => self.update(s),
            Kind::DeleteStmt(s) => self.delete(s),
            Kind::CopyStmt(s) => self.copy(s),
            Kind::CreateStmt(s) => self.create_table(s, None),
            Kind::CreateForeignTableStmt(s) => self.create_foreign_table(s),
            Kind::ImportForeignSchemaStmt(s) => self.import_foreign_schema(s),
            Kind::CreateTableAsStmt(s) => self.create_table_as(s),
            Kind::RefreshMatViewStmt(s) => self.refresh(s),
            Kind::DropStmt(s) => self.drop(s),
            Kind::TruncateStmt(s) => self.truncate(s),
            Kind::IndexStmt(s) => self.create_index(s),
            Kind::AlterTableStmt(s) => self.alter_table(s),
            Kind::CommentStmt(s) => self.comment(s),
            Kind::ViewStmt(s) => self.create_view(s),
            Kind::CreateFunctionStmt(s) => self.create_function(s, raw),
            Kind::RenameStmt(s) => self.rename(s),
            Kind::CreateSeqStmt(s) => self.create_sequence(s),
            Kind::AlterSeqStmt(s) => self.alter_sequence(s),
            Kind::CreateEnumStmt(s) => self.create_enum(s),
            Kind::AlterEnumStmt(s) => self.alter_enum(s),
            Kind::CreateDomainStmt(s) => self.create_domain(s),
            Kind::CompositeTypeStmt(s) => self.create_composite(s),
            Kind::AlterDomainStmt(s) => self.alter_domain(s),
            Kind::CreateSchemaStmt(s) => self.create_schema(s),
            Kind::AlterObjectSchemaStmt(s) => self.set_schema(s),
            Kind::AlterOwnerStmt(s) => self.change_owner(s),
            Kind::CreateRoleStmt(s) => self.create_role(s),
            Kind::AlterRoleStmt(s) => self.alter_role(s),
            Kind::AlterRoleSetStmt(s) => self.alter_role_settings(s),
            Kind::AlterDatabaseSetStmt(s) => self.alter_database_settings(s),
            Kind::DropRoleStmt(s) => self.drop_role(s),
            Kind::GrantRoleStmt(s) => self.grant_role(s),
            Kind::GrantStmt(s) => self.grant(s),
            Kind::AlterDefaultPrivilegesStmt(s) => self.default_privileges(s),
            Kind::ReassignOwnedStmt(s) => self.reassign_owned(s),
            Kind::DropOwnedStmt(s) => self.drop_owned(s),
            other => self.utility(other, raw),
        }
    }

    /// Parameters whose type something told after they were bound get it now; those that nothing told are an
    /// error.
    fn finish_params(&mut self, statement: &mut Statement) -> SqlResult<()> {
        if let Some(n) = self.params.iter().position(|t| *t == TypeId::UNKNOWN) {
            let message = format!("could not determine data type of parameter ${}", n + 1);
            return Err(SqlError::new(sqlstate::INDETERMINATE_DATATYPE, message));
        }
        if self.untyped_params {
            let params = &self.params;
            statement.walk_mut(&mut |e, _| {
                if let ExprKind::Param(n) = e.kind
                    && e.ty.id == TypeId::UNKNOWN
                    && let Some(t) = params.get(n as usize)
                {
                    e.ty = Type::new(*t);
                }
                true
            });
        }
        Ok(())
    }

    /// What the statement needs.
    fn take_needs(&self, statement: &Statement) -> Vec<Need> {
        let mut needs = self.needs.take();
        needs.extend(rights::of_statement(self.catalog, statement));
        needs
    }

    fn notice(&mut self, accepted: accepted::Accepted) {
        if !self.notices.iter().any(|n| n.1 == accepted.notice) {
            self.notices.push(("00000", accepted.notice.into()));
        }
    }

    /// One more query; see invariant 5.
    fn count_query(&mut self) -> SqlResult<()> {
        self.queries += 1;
        if self.queries > MAX_QUERIES || self.levels.len() + self.around > MAX_LEVELS {
            return Err(too_complex());
        }
        Ok(())
    }
}

/// Queries are too many, or too deep in each other (invariant 5).
#[cold]
pub fn too_complex() -> SqlError {
    SqlError::new("54001", "statement is too complex")
        .detail("Its subqueries are too many or too deep, with each WITH query counted where it is used.")
}

/// A constant of a type.
fn constant(value: Value, ty: Type, at: u32) -> Expr {
    Expr { kind: ExprKind::Const(value), ty, at }
}

/// The one expression of a parsed SELECT.
fn only_target(raws: &[Raw]) -> Option<&crate::parse::tree::Node> {
    let [Raw { node: Kind::SelectStmt(select), .. }] = raws else { return None };
    match select.target_list.as_slice() {
        [one] => match &one.node {
            Some(Kind::ResTarget(target)) => target.val.as_deref().filter(|v| v.node.is_some()),
            _ => None,
        },
        _ => None,
    }
}

/// "integer": for messages.
fn name_of(t: TypeId) -> &'static str {
    t.name()
}
