//! Views that INSERT, UPDATE and DELETE may change: what they change is the table below.
//!
//! The table is relation 0 of the statement, and the view's columns are expressions over it. The view's
//! condition is one more of the statement's; what WITH CHECK OPTION asks of a new row is one more check.
//!
//! Source: PostgreSQL 15's documentation of CREATE VIEW ("Updatable Views"), and its answers.
use super::dml::default_of;
use super::scope::column;
use super::tree::at;
use super::{Binder, constant};
use crate::bound::{COMPUTED, CTID, Expr, ExprKind, From, Query, Rel, RowCheck, walk_expr_mut};
use crate::parse::tree::RangeVar;
use ondol_engine::{Catalog, ColumnDef, Table, ViewCheck, ViewDef};
use ondol_types::{SqlError, SqlResult, Type, Value, sqlstate};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a statement changes.
pub(super) struct Changed {
    pub table: Arc<Table>,
    /// The view that it names in the table's place.
    pub view: Option<ChangedView>,
}

pub(super) struct ChangedView {
    pub name: String,
    /// Its columns, over relation 0.
    pub columns: Vec<(String, Expr)>,
    /// The defaults that it has of its own.
    defaults: Vec<Option<ColumnDef>>,
    /// A column that has a default and cannot be set, and the view that it is of.
    unsettable: Option<(String, String)>,
    /// Which rows it shows, over relation 0.
    pub filter: Option<Expr>,
    /// The views that a new row must be shown by, innermost first, each with its condition.
    checks: Vec<(String, Expr)>,
    /// The conditions of all views, innermost first.
    filters: Vec<(String, Expr)>,
    /// The numbers of the views, outermost first.
    pub chain: Vec<u32>,
    /// The columns that the statement sets, by their places.
    pub named: RefCell<BTreeSet<usize>>,
}

/// A way to change a view, as PostgreSQL's messages tell of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Insert,
    Update,
    Delete,
}

impl Change {
    /// The words of "cannot ... view", and of the hint.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Change::Insert => ("insert into", "inserting into", "INSERT"),
            Change::Update => ("update", "updating", "UPDATE"),
            Change::Delete => ("delete from", "deleting from", "DELETE"),
        }
    }
}

/// The error of a view that cannot be changed.
fn cannot(change: Change, view: &str, why: &str) -> SqlError {
    let (cannot, doing, what) = change.words();
    SqlError::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, format!("cannot {cannot} view \"{view}\""))
        .detail(why)
        .hint(format!(
            "To enable {doing} the view, provide an INSTEAD OF {what} trigger or an unconditional ON {what} DO INSTEAD rule."
        ))
}

fn unsettable(change: Change, column: &str, view: &str) -> SqlError {
    let word = if change == Change::Insert { "insert into" } else { "update" };
    let message = format!("cannot {word} column \"{column}\" of view \"{view}\"");
    SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
        .detail("View columns that are not columns of their base relation are not updatable.")
}

/// The reference that a target is to relation 0's columns.
fn own_column(e: &Expr) -> Option<usize> {
    match e.kind {
        ExprKind::Column { depth: 0, rel: 0, column } if column != CTID => Some(usize::from(column)),
        ExprKind::Call { func: ondol_types::func::id::NAMED, ref args } => own_column(args.first()?),
        _ => None,
    }
}

/// Why rows of a query cannot be changed. `columns`: some column must be one that can be set.
pub(super) fn why_not(q: &Query, columns: bool) -> Option<&'static str> {
    let single = matches!(q.from[..], [From::Rel(0)]) && q.rels.len() == 1 + q.places.len();
    Some(if q.distinct || !q.distinct_on.is_empty() {
        "Views containing DISTINCT are not automatically updatable."
    } else if !q.group_by.is_empty() {
        "Views containing GROUP BY are not automatically updatable."
    } else if q.having.is_some() {
        "Views containing HAVING are not automatically updatable."
    } else if q.set.is_some() {
        "Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable."
    } else if !q.with.is_empty() {
        "Views containing WITH are not automatically updatable."
    } else if q.limit.is_some() || q.offset.is_some() {
        "Views containing LIMIT or OFFSET are not automatically updatable."
    } else if !q.aggregates.is_empty() {
        "Views that return aggregate functions are not automatically updatable."
    } else if !q.window_calls.is_empty() {
        "Views that return window functions are not automatically updatable."
    } else if !q.places.is_empty() {
        "Views that return set-returning functions are not automatically updatable."
    } else if !single || !is_table_or_view(&q.rels[0].rel) {
        "Views that do not select from a single table or view are not automatically updatable."
    } else if columns && !q.visible().any(|t| own_column(&t.expr).is_some()) {
        "Views that have no updatable columns are not automatically updatable."
    } else {
        return None;
    })
}

fn is_table_or_view(rel: &Rel) -> bool {
    match rel {
        Rel::Table(t) => !t.def.is_material() && !t.def.is_foreign(),
        other => matches!(other, Rel::Query(_)),
    }
}

/// An expression over a view's columns, as one over what these are.
fn in_terms_of(mut e: Expr, columns: &[Expr]) -> Expr {
    walk_expr_mut(&mut e, 0, &mut |e, level| {
        let ExprKind::Column { depth, rel: 0, column } = e.kind else { return true };
        if depth != level || column == CTID {
            return true;
        }
        let place = e.at;
        let mut value = columns[usize::from(column)].clone();
        // It stands so many queries further in.
        walk_expr_mut(&mut value, 0, &mut |e, inner| {
            if let ExprKind::Column { depth, .. } = &mut e.kind
                && *depth >= inner
            {
                *depth += level
            }
            true
        });
        *e = Expr { at: place, ..value };
        false
    });
    e
}

fn and(a: Option<Expr>, b: Option<Expr>) -> Option<Expr> {
    match (a, b) {
        (Some(a), Some(b)) => Some(Expr { kind: ExprKind::And(vec![a, b]), ty: Type::BOOL, at: u32::MAX }),
        (a, b) => a.or(b),
    }
}

impl ChangedView {
    /// The table's column that a column of the view is.
    pub fn base(&self, n: usize) -> Option<usize> {
        own_column(&self.columns[n].1)
    }

    /// The view's columns over another relation than 0.
    pub fn columns_over(&self, rel: u16) -> Vec<(String, Expr)> {
        let moved = |(name, e): &(String, Expr)| {
            let mut e = e.clone();
            walk_expr_mut(&mut e, 0, &mut |e, level| {
                if let ExprKind::Column { depth, rel: r, .. } = &mut e.kind
                    && *depth == level
                {
                    *r = rel
                }
                true
            });
            (name.clone(), e)
        };
        self.columns.iter().map(moved).collect()
    }
}

impl Changed {
    /// What PostgreSQL's messages call it.
    pub fn name(&self) -> &str {
        self.view.as_ref().map_or(&self.table.def.name, |v| &v.name)
    }

    /// A condition with the view's own.
    pub fn with_filter(&self, filter: Option<Expr>) -> Option<Expr> {
        and(self.view.as_ref().and_then(|v| v.filter.clone()), filter)
    }

    pub fn width(&self) -> usize {
        self.view.as_ref().map_or(self.table.def.shown().len(), |v| v.columns.len())
    }

    /// The place of a column that a statement names among the columns that it sees.
    pub fn seen_column(&self, name: &str, location: i32) -> SqlResult<usize> {
        let found = match &self.view {
            None => self.table.def.column(name),
            Some(v) => v.columns.iter().position(|c| c.0 == name),
        };
        if let (Some(n), Some(v)) = (found, &self.view) {
            v.named.borrow_mut().insert(n);
        }
        found.ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", self.name());
            at(SqlError::new(sqlstate::UNDEFINED_COLUMN, message), location)
        })
    }

    /// The table's column that is set where the statement sets the one at this place.
    pub fn set_column(&self, seen: usize, change: Change) -> SqlResult<usize> {
        let Some(view) = &self.view else { return Ok(seen) };
        view.base(seen).ok_or_else(|| unsettable(change, &view.columns[seen].0, &view.name))
    }

    /// Whether the view has a default of its own for a column of the table.
    pub fn has_default(&self, place: usize) -> bool {
        self.view.as_ref().and_then(|v| v.defaults.get(place)).is_some_and(Option::is_some)
    }

    /// A default that a view has is a value given to its column.
    pub fn check_defaults(&self) -> SqlResult<()> {
        match self.view.as_ref().and_then(|v| v.unsettable.as_ref()) {
            Some((column, view)) => Err(unsettable(Change::Insert, column, view)),
            None => Ok(()),
        }
    }

    /// The column as it is declared, with the view's own default.
    pub fn column(&self, place: usize) -> ColumnDef {
        let own = self.view.as_ref().and_then(|v| v.defaults.get(place).cloned().flatten());
        own.unwrap_or_else(|| self.table.def.columns[place].clone())
    }
}

/// Which changes a view takes, as the bits of PostgreSQL's `pg_relation_is_updatable`; or those that one of
/// its columns takes. None of a view that has lost its meaning.
pub(crate) fn events(catalog: &Catalog, def: &Arc<ViewDef>, column: Option<usize>) -> i32 {
    let mut taken = 0;
    for (change, bit) in [(Change::Update, UPDATES), (Change::Insert, INSERTS), (Change::Delete, DELETES)] {
        let Ok((_, view)) = Binder::new(catalog, "", &[]).changed_view(def, change) else { continue };
        let takes = match (column, change) {
            (_, Change::Delete) => true,
            (Some(n), _) => view.columns.get(n).is_some_and(|c| own_column(&c.1).is_some()),
            (None, _) => view.columns.iter().any(|c| own_column(&c.1).is_some()),
        };
        taken |= if takes { bit } else { 0 }
    }
    taken
}

/// Bits of changes, as PostgreSQL has them.
const UPDATES: i32 = 1 << 2;
const INSERTS: i32 = 1 << 3;
const DELETES: i32 = 1 << 4;
/// Of a table, which takes all.
pub(crate) const ALL_EVENTS: i32 = UPDATES | INSERTS | DELETES;
/// What a column that is updatable takes.
pub(crate) const OF_UPDATABLE: i32 = UPDATES | DELETES;

impl<'a> Binder<'a> {
    /// What a statement that names a table or a view changes.
    pub(super) fn changed(&mut self, v: &RangeVar, change: Change) -> SqlResult<Changed> {
        let view = self.relation_of(v).and_then(|f| f.1.view()).cloned();
        match view {
            None => {
                let table = self.table(v)?;
                if table.def.is_material() {
                    let message = format!("cannot change materialized view \"{}\"", table.def.name);
                    return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message));
                }
                Ok(Changed { table, view: None })
            }
            Some(view) => {
                let (table, view) = self.changed_view(&view, change)?;
                Ok(Changed { table, view: Some(view) })
            }
        }
    }

    fn changed_view(&mut self, def: &Arc<ViewDef>, change: Change) -> SqlResult<(Arc<Table>, ChangedView)> {
        let is_fenced = def.is_barrier();
        super::tree::refuse(is_fenced, "changing rows through a view with security_barrier")?;
        let mut query = self.view_query(def)?;
        if let Some(why) = why_not(&query, change != Change::Delete) {
            return Err(cannot(change, &def.name, why));
        }
        let names = def.columns.iter().map(|c| c.name.clone());
        let own: Vec<Expr> = query.visible().map(|t| t.expr.clone()).collect();
        let filter = query.filter.take();
        let (table, inner) = match &query.rels[0].rel {
            Rel::Table(table) => (table.clone(), None),
            _ => {
                let below = self.view_below(def);
                let Some(below) = below else {
                    let why = "Views that do not select from a single table or view are not automatically updatable.";
                    return Err(cannot(change, &def.name, why));
                };
                let (table, view) = self.changed_view(&below, change)?;
                (table, Some(view))
            }
        };
        let below: Vec<Expr> = match &inner {
            Some(v) => v.columns.iter().map(|c| c.1.clone()).collect(),
            None => (table.def.shown().iter().enumerate()).map(|(n, c)| column(0, n, c.ty)).collect(),
        };
        let over = |e: Expr| in_terms_of(e, &below);
        let columns: Vec<(String, Expr)> = names.zip(own.into_iter().map(over)).collect();
        let own_filter = filter.map(over);
        let mut defaults = vec![None; table.def.columns.len()];
        if let Some(v) = &inner {
            defaults.clone_from(&v.defaults)
        }
        let mut unsettable = inner.as_ref().and_then(|v| v.unsettable.clone());
        for (n, c) in def.columns.iter().enumerate().filter(|(_, c)| c.default.is_some()) {
            match own_column(&columns[n].1) {
                Some(base) => {
                    defaults[base] =
                        Some(ColumnDef { default: c.default.clone(), ..table.def.columns[base].clone() })
                }
                None => unsettable = Some((c.name.clone(), def.name.clone())),
            }
        }
        let mut chain = vec![def.id];
        chain.extend(inner.iter().flat_map(|v| v.chain.iter().copied()));
        let named = RefCell::default();
        let checks = self.view_checks(def, own_filter.as_ref(), inner.as_ref());
        let (mut filters, around) = inner.map_or((Vec::new(), None), |v| (v.filters, v.filter));
        filters.extend(own_filter.clone().map(|f| (def.name.clone(), f)));
        let filter = and(around, own_filter);
        Ok((
            table,
            ChangedView {
                name: def.name.clone(),
                columns,
                defaults,
                unsettable,
                filter,
                checks,
                filters,
                chain,
                named,
            },
        ))
    }

    /// The view that a view selects from.
    fn view_below(&self, def: &ViewDef) -> Option<Arc<ViewDef>> {
        use ondol_engine::view::{Slot, slots};
        let written = super::view::view_as_written(self.catalog, def).ok()?;
        let how = written.query.written.as_ref()?.rels.get(&0)?.view?;
        debug_assert!(slots(&def.query).contains(&Slot::Relation(how)));
        self.catalog.view_by_id(how).cloned()
    }

    /// The views that hold a new row to what they show, where the outermost is this one.
    fn view_checks(
        &self,
        def: &ViewDef,
        filter: Option<&Expr>,
        inner: Option<&ChangedView>,
    ) -> Vec<(String, Expr)> {
        let mut checks = inner.map_or(Vec::new(), |v| v.checks.clone());
        if def.check == Some(ViewCheck::Cascaded)
            && let Some(v) = inner
        {
            // Whatever the views below ask for by themselves, each is looked at.
            checks.clone_from(&v.filters)
        }
        if def.check.is_some() {
            checks.extend(filter.map(|f| (def.name.clone(), f.clone())))
        }
        checks
    }

    /// The checks of the views that a row is put into.
    pub(super) fn view_row_checks(&self, changed: &Changed) -> SqlResult<Vec<RowCheck>> {
        let Some(view) = &changed.view else { return Ok(Vec::new()) };
        let mut checks = Vec::with_capacity(view.checks.len());
        for (name, condition) in &view.checks {
            if super::dml::subquery_in(condition).is_some() {
                let what = format!("WITH CHECK OPTION of view \"{name}\", whose condition has a subquery");
                return Err(SqlError::unsupported(what));
            }
            checks.push(RowCheck::of_view(name, condition.clone()))
        }
        Ok(checks)
    }

    /// The default of a column of what is changed.
    pub(super) fn default_in(&self, changed: &Changed, place: usize) -> SqlResult<Expr> {
        default_of(self.catalog, &changed.column(place))
    }
}

impl RowCheck {
    /// The number of a check that is a view's: its condition is a text, the name of the view whose condition
    /// does not hold of the row, or NULL.
    pub const OF_VIEW: u16 = COMPUTED - 1;

    fn of_view(name: &str, condition: Expr) -> RowCheck {
        let holds = ExprKind::BoolTest { arg: Box::new(condition), want: Some(true), negated: false };
        let holds = Expr { kind: holds, ty: Type::BOOL, at: u32::MAX };
        let none = constant(Value::Null, Type::TEXT, u32::MAX);
        let name = constant(Value::Text(name.to_string()), Type::TEXT, u32::MAX);
        let kind = ExprKind::Case { whens: vec![(holds, none)], otherwise: Some(Box::new(name)) };
        RowCheck { number: RowCheck::OF_VIEW, condition: Expr { kind, ty: Type::TEXT, at: u32::MAX } }
    }
}
