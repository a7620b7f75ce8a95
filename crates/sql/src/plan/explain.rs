//! EXPLAIN: the physical tree in PostgreSQL's words, as text or as JSON.
use super::logical::JoinKind;
use super::logical::{Expr, ExprKind, Inside, OnConflict, Source};
use super::physical::{
    Access, End, KeyRange, KeyValue, Method, Node, Operator, Root, Side, Statement, Subplan, Within,
};
use super::show::{Names, all_of, conjunction, expr};
pub use crate::bound::ExplainOptions as Options;
use crate::bound::{SetOperation, inner_query};
use ondol_engine::Table;
use ondol_types::{Type, TypeId, Value};
use std::collections::{BTreeSet, HashSet};

/// What a node is to the one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Outer,
    Inner,
    Member,
    Query,
    With,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Place::Outer => "Outer",
            Place::Inner => "Inner",
            Place::Member => "Member",
            Place::Query => "SubPlan",
            Place::With => "InitPlan",
        }
    }
}

/// A node as it is shown.
#[derive(Clone, Debug)]
pub struct Shown {
    /// `Seq Scan on t`: the kind, and what it is over.
    kind: String,
    over: String,
    place: Place,
    /// Of a query within an expression: `SubPlan 1`.
    query: Option<String>,
    /// `Filter: (a > 1)`
    properties: Vec<(&'static str, String)>,
    output: Vec<String>,
    cost: (f64, f64),
    rows: f64,
    width: u32,
    /// The node's, for what was counted.
    number: u32,
    /// It reads all of a table, which several threads may.
    scans_all: bool,
    conflicts: Option<Conflicts>,
    /// Nodes of an index are counted, and rows that it gave (`Gen::tally_nodes`, `Gen::tally_met`).
    is_by_box: bool,
    children: Vec<Shown>,
}

/// What is counted of an INSERT ... ON CONFLICT beside its rows.
#[derive(Clone, Copy, Debug)]
struct Conflicts {
    /// Whose starts are the rows inserted, and whose rows those that met another.
    number: u32,
    /// Some of these are left alone.
    filtered: bool,
}

/// What an execution counted.
#[derive(Clone, Copy)]
pub struct Counted<'c> {
    /// For each node: how often it was started, and how many rows it gave.
    pub tallies: &'c [u64],
    pub elapsed_us: u64,
}

/// A statement's plan, to be shown.
pub fn shown(statement: &Statement<'_>, options: Options) -> Shown {
    let mut s = Show {
        statement,
        names: Names::new(statement, options.verbose),
        used: statement.used_columns(),
        queries: HashSet::new(),
        with: HashSet::new(),
    };
    let mut out = match &statement.root {
        Root::Rows(rows) => s.rows(rows, Place::Outer),
        Root::Insert { table, source, on_conflict, rel, number, returning, .. } => {
            let child = s.rows(source, Place::Outer);
            let alias = statement.relations[*rel as usize].alias.clone();
            let mut root = s.change("Insert", &alias, &table.0, *number, child, returning);
            if let Some(c) = on_conflict {
                s.on_conflict(c, &table.0, &mut root);
            }
            root
        }
        Root::Modify { table, rel, input, assign, returning, number, .. } => {
            let child = s.node(input, Place::Outer);
            let kind = if assign.is_some() { "Update" } else { "Delete" };
            let alias = statement.relations[*rel as usize].alias.clone();
            let mut root = s.change(kind, &alias, &table.0, *number, child, returning);
            let values: Vec<&Expr> = assign.iter().flat_map(|l| l.iter()).map(|(_, e)| e).collect();
            s.queries_of(&values, &mut root);
            root
        }
    };
    let with: Vec<u16> = (0..statement.with.len() as u16).collect();
    s.with(&with, &mut out);
    out
}

struct Show<'p, 'a> {
    statement: &'p Statement<'a>,
    names: Names<'p, 'a>,
    used: Vec<BTreeSet<u16>>,
    /// Those that were shown.
    queries: HashSet<u16>,
    with: HashSet<u16>,
}

impl<'a> Show<'_, 'a> {
    fn change(
        &mut self,
        kind: &str,
        alias: &str,
        table: &Table,
        number: u32,
        child: Shown,
        returning: &'a [Expr],
    ) -> Shown {
        let rows = if returning.is_empty() { 0.0 } else { child.rows };
        let mut out = Shown {
            kind: kind.to_string(),
            over: named(&table.def.name, alias),
            place: Place::Outer,
            query: None,
            properties: Vec::new(),
            output: returning.iter().map(|e| expr(e, &self.names)).collect(),
            cost: child.cost,
            rows,
            width: returning.iter().map(|e| width(e.ty)).sum(),
            number,
            scans_all: false,
            conflicts: None,
            is_by_box: false,
            children: vec![child],
        };
        let list: Vec<&Expr> = returning.iter().collect();
        self.queries_of(&list, &mut out);
        out
    }

    fn on_conflict(&mut self, c: &'a OnConflict, table: &Table, to: &mut Shown) {
        let resolution = if c.update.is_some() { "UPDATE" } else { "NOTHING" };
        to.properties.push(("Conflict Resolution", resolution.to_string()));
        let arbiters = c.arbiters.iter().filter_map(|n| table.indexes.get(*n as usize));
        let arbiters: Vec<&str> = arbiters.map(|i| i.def.name.as_str()).collect();
        if !arbiters.is_empty() {
            to.properties.push(("Conflict Arbiter Indexes", arbiters.join(", ")));
        }
        let filter: Vec<&Expr> = c.update.iter().flat_map(|u| &u.filter).collect();
        if !filter.is_empty() {
            to.properties.push(("Conflict Filter", conjunction(&filter, &self.names)));
        }
        to.conflicts = Some(Conflicts { number: to.number + 1, filtered: !filter.is_empty() });
        let list: Vec<&Expr> = c.exprs().collect();
        self.queries_of(&list, to);
    }

    fn rows(&mut self, rows: &Subplan<'a>, place: Place) -> Shown {
        let mut out = self.node(&rows.node, place);
        out.output = rows.output.iter().map(|e| expr(e, &self.names)).collect();
        out.width = rows.output.iter().map(|e| width(e.ty)).sum();
        self.queries_of(&rows.output, &mut out);
        out
    }

    /// WITH queries, beneath what they stand before.
    fn with(&mut self, queries: &[u16], to: &mut Shown) {
        let mut children = Vec::new();
        for q in queries {
            if self.with.insert(*q)
                && let Some((name, rows)) = self.statement.with.get(*q as usize)
            {
                let mut child = self.rows(rows, Place::With);
                child.query = Some(format!("CTE {name}"));
                children.push(child);
            }
        }
        to.children.splice(0..0, children);
    }

    /// The queries within expressions, beneath the node that has these.
    fn queries_of(&mut self, list: &[&'a Expr], to: &mut Shown) {
        let mut found: Vec<&'a Inside> = Vec::new();
        list.iter().for_each(|e| insides(e, &mut found));
        for q in found {
            if !self.queries.insert(q.number) {
                continue;
            }
            let Some(rows) = self.statement.inside(q) else { continue };
            let mut child = self.rows(rows, Place::Query);
            child.query = Some(self.names.inside(q));
            to.children.push(child);
        }
    }

    fn node(&mut self, n: &Node<'a>, place: Place) -> Shown {
        let names = &self.names;
        let all = |list: &[&Expr]| list.iter().map(|e| expr(e, names)).collect::<Vec<_>>().join(", ");
        let mut out = Shown {
            kind: String::new(),
            over: String::new(),
            place,
            query: None,
            properties: Vec::new(),
            output: Vec::new(),
            cost: n.cost,
            rows: n.rows,
            width: 0,
            number: n.number,
            scans_all: false,
            conflicts: None,
            is_by_box: n.is_by_box(),
            children: Vec::new(),
        };
        for rel in n.rels() {
            let relation = &self.statement.relations[rel as usize];
            for c in &self.used[rel as usize] {
                if let Some((_, ty)) = relation.columns.get(*c as usize) {
                    out.width += width(*ty);
                    let e = super::logical::column(rel, *c as usize, *ty);
                    out.output.push(expr(&e, names));
                }
            }
        }
        let mut filter = "Filter";
        let mut inputs: Vec<(&Node<'a>, Place)> = Vec::new();
        match &n.operator {
            Operator::Nothing | Operator::Empty { .. } => {
                out.kind = "Result".to_string();
                filter = "One-Time Filter";
            }
            Operator::Scan { rel, source, access, .. } => {
                let alias = &self.statement.relations[*rel as usize].alias;
                self.scan(source, alias, access, &mut out);
                if let Source::Foreign(table) = source {
                    let names: Vec<&str> = self.used[*rel as usize]
                        .iter()
                        .map(|c| table.columns()[*c as usize].0.as_str())
                        .collect();
                    let columns = if names.is_empty() { "none".into() } else { names.join(", ") };
                    let key: Vec<&Expr> = super::access::foreign_bounds(*rel, &**table, &n.filter)
                        .into_iter()
                        .flatten()
                        .map(|b| b.0)
                        .collect();
                    let mut shown: Vec<String> = key.iter().map(|e| expr(e, &self.names)).collect();
                    shown.dedup();
                    if !shown.is_empty() {
                        out.properties.push(("Range of the key", shown.join(" AND ")));
                    }
                    out.properties.push(("Columns", columns));
                }
            }
            Operator::Join { kind, method, outer, inner, on } => {
                out.kind = match (method, kind) {
                    (_, JoinKind::Full) => "Hash Full Join",
                    (Method::Hash(_), JoinKind::Left) => "Hash Left Join",
                    (Method::Hash(_), JoinKind::Semi) => "Hash Semi Join",
                    (Method::Hash(_), JoinKind::Anti) => "Hash Anti Join",
                    (Method::Hash(_), _) => "Hash Join",
                    (_, JoinKind::Left) => "Nested Loop Left Join",
                    (_, JoinKind::Semi) => "Nested Loop Semi Join",
                    (_, JoinKind::Anti) => "Nested Loop Anti Join",
                    (_, _) => "Nested Loop",
                }
                .to_string();
                if let Method::Hash(keys) = method
                    && !keys.is_empty()
                {
                    let one = |(a, b): &(&Expr, &Expr)| format!("({} = {})", expr(a, names), expr(b, names));
                    let text: Vec<String> = keys.iter().map(one).collect();
                    let text =
                        if text.len() == 1 { text.concat() } else { format!("({})", text.join(" AND ")) };
                    out.properties.push(("Hash Cond", text));
                }
                if !on.is_empty() {
                    out.properties.push(("Join Filter", conjunction(on, names)));
                }
                inputs.push((outer, Place::Outer));
                inputs.push((inner, Place::Inner));
            }
            Operator::Project { rel, input, .. } => {
                let alias = &self.statement.relations[*rel as usize].alias;
                if alias.is_empty() && n.filter.is_empty() {
                    // Its values are shown by who uses them.
                    let mut below = self.node(input, place);
                    below.width = out.width;
                    below.output = out.output;
                    let mut list = Vec::new();
                    n.own_exprs(&mut |e| list.push(e));
                    self.queries_of(&list, &mut below);
                    return below;
                }
                out.kind = "Subquery Scan".to_string();
                out.over = alias.clone();
                inputs.push((input, Place::Outer));
            }
            Operator::ProjectSet { input, .. } => {
                out.kind = "ProjectSet".to_string();
                inputs.push((input, Place::Outer));
            }
            Operator::Aggregate { input, keys, .. } => {
                out.kind = if keys.is_empty() { "Aggregate" } else { "HashAggregate" }.to_string();
                if !keys.is_empty() {
                    out.properties.push(("Group Key", all(&keys.iter().collect::<Vec<_>>())));
                }
                inputs.push((input, Place::Outer));
            }
            Operator::Window { input, .. } => {
                out.kind = "WindowAgg".to_string();
                inputs.push((input, Place::Outer));
            }
            Operator::Distinct { input, .. } if matches!(input.operator, Operator::Sort { .. }) => {
                // DISTINCT ON: of rows in order.
                out.kind = "Unique".to_string();
                inputs.push((input, Place::Outer));
            }
            Operator::Distinct { input, by } => {
                out.kind = "HashAggregate".to_string();
                out.properties.push(("Group Key", all(&by.iter().collect::<Vec<_>>())));
                inputs.push((input, Place::Outer));
            }
            Operator::Sort { input, keys, .. } => {
                out.kind = "Sort".to_string();
                let one = |k: &super::logical::SortBy| {
                    let mut text = expr(&k.expr, names);
                    if !is_name(&text) && !text.starts_with('(') {
                        text = format!("({text})");
                    }
                    text += if k.desc { " DESC" } else { "" };
                    text + match (k.desc, k.nulls_first) {
                        (true, false) => " NULLS LAST",
                        (false, true) => " NULLS FIRST",
                        _ => "",
                    }
                };
                out.properties.push(("Sort Key", keys.iter().map(one).collect::<Vec<_>>().join(", ")));
                inputs.push((input, Place::Outer));
            }
            Operator::With { queries, input } => {
                let mut below = self.node(input, place);
                self.with(queries, &mut below);
                return below;
            }
            Operator::Limit { input, .. } => {
                out.kind = "Limit".to_string();
                inputs.push((input, Place::Outer));
            }
            Operator::Lock { input, .. } => {
                out.kind = "LockRows".to_string();
                inputs.push((input, Place::Outer));
            }
            Operator::SetOperation { operation, all, .. } => {
                out.kind = match operation {
                    SetOperation::Union => "Append",
                    SetOperation::Intersect if *all => "HashSetOp Intersect All",
                    SetOperation::Intersect => "HashSetOp Intersect",
                    SetOperation::Except if *all => "HashSetOp Except All",
                    SetOperation::Except => "HashSetOp Except",
                }
                .to_string();
            }
            Operator::Recursion { .. } => out.kind = "Recursive Union".to_string(),
        }
        if !n.filter.is_empty() {
            out.properties.push((filter, conjunction(&n.filter, names)));
        }
        for (input, place) in inputs {
            let child = self.node(input, place);
            out.children.push(match (&n.operator, place) {
                (Operator::Join { method: Method::Hash(_), .. }, Place::Inner) => keeping("Hash", child),
                (Operator::Join { method: Method::Kept, .. }, Place::Inner) => keeping("Materialize", child),
                _ => child,
            });
        }
        let sides = match &n.operator {
            Operator::SetOperation { left, right, .. } => vec![(left, Place::Member), (right, Place::Member)],
            Operator::Recursion { left, right, .. } => vec![(left, Place::Outer), (right, Place::Inner)],
            _ => Vec::new(),
        };
        for (side, place) in &sides {
            let child = self.rows(side, *place);
            out.children.push(child);
        }
        let mut list = Vec::new();
        n.own_exprs(&mut |e| list.push(e));
        if sides.is_empty() {
            self.queries_of(&list, &mut out);
        }
        out
    }

    fn scan(&self, source: &Source, alias: &str, access: &Access<'a>, out: &mut Shown) {
        let names = &self.names;
        match source {
            Source::Table(table) => {
                out.over = named(&table.def.name, alias);
                let using = |index: usize| table.def.indexes[index].name.clone();
                match access {
                    Access::Full => {
                        out.kind = "Seq Scan".to_string();
                        out.scans_all = true;
                    }
                    Access::Tid { by, .. } => {
                        out.kind = "Tid Scan".to_string();
                        out.properties.push(("TID Cond", expr(by, names)));
                    }
                    Access::Lookup { index, .. }
                    | Access::Box { index, .. }
                    | Access::Nearest { index, .. } => {
                        out.kind = format!("Index Scan using {}", using(*index))
                    }
                    Access::Range { index, backward, .. } => {
                        let way = if *backward { " Backward" } else { "" };
                        out.kind = format!("Index Scan{way} using {}", using(*index));
                    }
                }
                let parts = index_conditions(table, access, names);
                if !parts.is_empty() {
                    out.properties.push(("Index Cond", all_of(&parts)))
                }
                if let Access::Lookup { within: Some(Within { index, sides }), .. } = access {
                    let columns = &table.def.indexes[*index].columns;
                    let column = |n: usize| table.def.columns[columns[n].column].label().to_string();
                    let parts = of_sides(&column, sides, names);
                    out.properties.push(("Within", format!("{}: {}", using(*index), all_of(&parts))))
                }
                if let Access::Nearest { by, .. } = access {
                    out.properties.push(("Order By", expr(by, names)))
                }
            }
            Source::Values(_) => (out.kind, out.over) = ("Values Scan".into(), quoted(alias)),
            Source::With { number, .. } => {
                let name = self.statement.with.get(*number as usize).map_or("", |w| w.0);
                (out.kind, out.over) = ("CTE Scan".into(), named(name, alias));
            }
            Source::Working { name, .. } => {
                (out.kind, out.over) = ("WorkTable Scan".into(), named(name, alias));
            }
            Source::Function { function, .. } => {
                (out.kind, out.over) = ("Function Scan".into(), named(&function.name, alias));
            }
            Source::Foreign(table) => {
                (out.kind, out.over) = ("Foreign Scan".into(), named(&table.name(), alias));
                out.scans_all = true;
            }
            Source::Sequence(_, name) => (out.kind, out.over) = ("Seq Scan".into(), named(name, alias)),
            Source::System(name) => (out.kind, out.over) = ("System View Scan".into(), named(name, alias)),
            Source::Series { .. } => {
                (out.kind, out.over) = ("Function Scan".into(), named("generate_series", alias));
            }
        }
    }
}

/// The node that keeps the rows of a join's inner side.
fn keeping(kind: &str, child: Shown) -> Shown {
    Shown {
        kind: kind.to_string(),
        over: String::new(),
        query: None,
        properties: Vec::new(),
        scans_all: false,
        conflicts: None,
        is_by_box: false,
        output: child.output.clone(),
        children: vec![Shown { place: Place::Outer, ..child.clone() }],
        ..child
    }
}

fn insides<'a>(e: &'a Expr, out: &mut Vec<&'a Inside>) {
    out.extend(inner_query(e));
    crate::bound::children(e, &mut |e| insides(e, out));
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'))
}

fn named(name: &str, alias: &str) -> String {
    if name == alias || alias.is_empty() {
        quoted(name)
    } else {
        format!("{} {}", quoted(name), quoted(alias))
    }
}

/// A name as SQL would need it to be written, near enough.
fn quoted(name: &str) -> String {
    if name.starts_with('*') { format!("\"{name}\"") } else { name.to_string() }
}

/// About how many bytes a value of the type takes, as PostgreSQL guesses where it knows nothing more.
fn width(ty: Type) -> u32 {
    match ty.id {
        TypeId::BOOL => 1,
        TypeId::INT2 => 2,
        TypeId::INT4 | TypeId::FLOAT4 | TypeId::DATE => 4,
        TypeId::INT8 | TypeId::FLOAT8 | TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ => 8,
        TypeId::UUID | TypeId::INTERVAL => 16,
        _ => 32,
    }
}

fn text_of(text: &str) -> Expr {
    Expr { kind: ExprKind::Const(Value::Text(text.into())), ty: Type::TEXT, at: u32::MAX }
}

fn of_value(column: &str, value: &KeyValue<'_>, names: &Names<'_, '_>) -> String {
    match value {
        KeyValue::One(e) => format!("({column} = {})", expr(e, names)),
        KeyValue::Items(e) => format!("({column} = ANY ({}))", expr(e, names)),
        KeyValue::List(l) => {
            let l: Vec<String> = l.iter().map(|e| expr(e, names)).collect();
            format!("({column} IN ({}))", l.join(", "))
        }
    }
}

fn of_sides(column: &dyn Fn(usize) -> String, sides: &[Side<'_>], names: &Names<'_, '_>) -> Vec<String> {
    let mut parts = Vec::new();
    for (n, side) in sides.iter().enumerate() {
        let c = column(n);
        if let Some(value) = side.one().map(KeyValue::One).or(side.list) {
            parts.push(of_value(&c, &value, names));
            continue;
        }
        for (end, op) in [(&side.low, ">"), (&side.high, "<")] {
            if let Some((e, inclusive)) = end {
                let eq = if *inclusive { "=" } else { "" };
                parts.push(format!("({c} {op}{eq} {})", expr(e, names)))
            }
        }
    }
    parts
}

fn index_conditions(table: &Table, access: &Access<'_>, names: &Names<'_, '_>) -> Vec<String> {
    let mut parts = Vec::new();
    let column = |index: usize, n: usize| {
        let def = &table.def.indexes[index];
        table.def.columns[def.columns[n].column].label().to_string()
    };
    // Which rows are in a partial index its definition says.
    let known = |index: usize| usize::from(table.def.indexes[index].options.partial);
    match access {
        Access::Full | Access::Tid { .. } => {}
        Access::Lookup { index, keys, .. } => {
            for (n, k) in keys.iter().enumerate().skip(known(*index)) {
                parts.push(of_value(&column(*index, n), k, names))
            }
        }
        Access::Nearest { index, sides, .. } => parts = of_sides(&|n| column(*index, n), sides, names),
        Access::Box { index, boxes } => {
            let of_box = |sides| of_sides(&|n| column(*index, n), sides, names);
            match &boxes[..] {
                [one] => parts = of_box(one),
                many => {
                    let each: Vec<String> = many.iter().map(|sides| all_of(&of_box(sides))).collect();
                    parts.push(format!("({})", each.join(" OR ")));
                }
            }
        }
        Access::Range { index, ranges, .. } => {
            let of_range = |KeyRange { prefix, low, high }: &KeyRange<'_>| {
                let mut parts = Vec::new();
                for (n, e) in prefix.iter().enumerate().skip(known(*index)) {
                    parts.push(format!("({} = {})", column(*index, n), expr(e, names)));
                }
                for (b, op) in [(low, ">"), (high, "<")] {
                    if let Some((e, inclusive)) = b {
                        let eq = if *inclusive { "=" } else { "" };
                        let e = match e {
                            End::Value(e) => expr(e, names),
                            End::Text(text) => expr(&text_of(text), names),
                        };
                        parts.push(format!("({} {op}{eq} {e})", column(*index, prefix.len())));
                    }
                }
                parts
            };
            match &ranges[..] {
                [one] => parts = of_range(one),
                many => {
                    let each: Vec<String> = many.iter().map(|r| all_of(&of_range(r))).collect();
                    parts.push(format!("({})", each.join(" OR ")));
                }
            }
        }
    }
    parts
}

/// The lines of a plan; `workers` threads would read its scan in parts, if any.
pub fn lines(plan: &Shown, options: Options, counted: Option<Counted<'_>>, workers: usize) -> Vec<String> {
    let mut out = Vec::new();
    plan.text(options, counted, workers, 0, true, &mut out);
    if let Some(c) = counted.filter(|_| options.summary) {
        out.push(format!("Execution Time: {} ms", ms(c.elapsed_us)));
    }
    out
}

/// The same as JSON, with the lines of the byte code.
pub fn json(
    plan: &Shown,
    options: Options,
    counted: Option<Counted<'_>>,
    workers: usize,
    code: &[String],
) -> String {
    let mut out = String::from("[\n  {\n    \"Plan\": ");
    plan.json(options, counted, workers, 4, &mut out);
    if let Some(c) = counted.filter(|_| options.summary) {
        out += &format!(",\n    \"Execution Time\": {}", ms(c.elapsed_us));
    }
    let code: Vec<String> = code.iter().map(|l| format!("      {}", string(l))).collect();
    out += &format!(",\n    \"Byte Code\": [\n{}\n    ]\n  }}\n]", code.join(",\n"));
    out
}

fn ms(us: u64) -> String {
    format!("{}.{:03}", us / 1000, us % 1000)
}

/// How often a node was started, and how many rows it gave.
fn counts_of(number: u32, counted: Option<Counted<'_>>) -> Option<(u64, u64)> {
    let at = 2 * number as usize;
    let t = counted?.tallies;
    Some((*t.get(at)?, *t.get(at + 1)?))
}

impl Shown {
    fn counts(&self, counted: Option<Counted<'_>>) -> Option<(u64, u64)> {
        counts_of(self.number, counted)
    }

    /// What is counted of an INSERT ... ON CONFLICT.
    fn conflict_counts(&self, counted: Option<Counted<'_>>) -> Vec<(&'static str, u64)> {
        let Some(c) = self.conflicts else { return Vec::new() };
        let (Some((_, changed)), Some((inserted, met))) =
            (self.counts(counted), counts_of(c.number, counted))
        else {
            return Vec::new();
        };
        let left = (inserted + met).saturating_sub(changed);
        let mut out = Vec::new();
        if c.filtered && left > 0 {
            out.push(("Rows Removed by Conflict Filter", left));
        }
        out.extend([("Tuples Inserted", inserted), ("Conflicting Tuples", met)]);
        out
    }

    /// What is counted of a CR-tree's rows.
    fn box_counts(&self, counted: Option<Counted<'_>>) -> Vec<(&'static str, u64)> {
        if !self.is_by_box {
            return Vec::new();
        }
        let (nodes, met) = counts_of(self.number + 1, counted).unwrap_or_default();
        let right = counts_of(self.number + 2, counted).map_or(0, |c| c.0);
        let removed = Some(met.saturating_sub(right)).filter(|n| *n > 0);
        let removed = removed.map(|n| ("Rows Removed by Index Recheck", n));
        removed.into_iter().chain(counted.map(|_| ("Index Nodes", nodes))).collect()
    }

    fn text(
        &self,
        options: Options,
        counted: Option<Counted<'_>>,
        workers: usize,
        indent: usize,
        is_first: bool,
        out: &mut Vec<String>,
    ) {
        let mut indent = indent;
        let spaces = |n: usize| " ".repeat(n);
        if let Some(query) = &self.query {
            out.push(format!("{}{query}", spaces(indent)));
            indent += 2;
        }
        let parallel = if workers > 0 && self.scans_all { "Parallel " } else { "" };
        let mut line = format!("{parallel}{}", self.kind);
        if !self.over.is_empty() {
            line += &format!(" on {}", self.over);
        }
        if options.costs {
            let (start, total) = self.cost;
            let rows = self.rows.round().max(1.0);
            line += &format!("  (cost={start:.2}..{total:.2} rows={rows:.0} width={})", self.width);
        }
        if let Some((loops, rows)) = self.counts(counted) {
            line += &match loops {
                0 => " (never executed)".to_string(),
                n => format!(" (actual rows={} loops={n})", (rows + n / 2) / n),
            }
        }
        // What is beneath a line stands two places further in, behind an arrow six.
        let own = match is_first {
            true => {
                out.push(line);
                2
            }
            false => {
                out.push(format!("{}->  {line}", spaces(indent)));
                indent + 6
            }
        };
        if !parallel.is_empty() {
            out.push(format!("{}Workers Planned: {workers}", spaces(own)));
        }
        if options.verbose && !self.output.is_empty() {
            out.push(format!("{}Output: {}", spaces(own), self.output.join(", ")));
        }
        for (name, value) in &self.properties {
            out.push(format!("{}{name}: {value}", spaces(own)));
        }
        for (name, value) in self.conflict_counts(counted).into_iter().chain(self.box_counts(counted)) {
            out.push(format!("{}{name}: {value}", spaces(own)));
        }
        for c in &self.children {
            c.text(options, counted, workers, own, false, out);
        }
    }

    fn json(
        &self,
        options: Options,
        counted: Option<Counted<'_>>,
        workers: usize,
        indent: usize,
        out: &mut String,
    ) {
        let mut fields: Vec<(&str, String)> = vec![("Node Type", string(&self.kind))];
        if indent > 4 {
            fields.push(("Parent Relationship", string(self.place.name())));
        }
        if let Some(q) = &self.query {
            fields.push(("Subplan Name", string(q)));
        }
        if !self.over.is_empty() {
            fields.push(("Relation Name", string(&self.over)));
        }
        if options.costs {
            fields.push(("Startup Cost", format!("{:.2}", self.cost.0)));
            fields.push(("Total Cost", format!("{:.2}", self.cost.1)));
            fields.push(("Plan Rows", format!("{:.0}", self.rows.round().max(1.0))));
            fields.push(("Plan Width", self.width.to_string()));
        }
        if let Some((loops, rows)) = self.counts(counted) {
            fields.push(("Actual Rows", (rows + loops / 2).checked_div(loops).unwrap_or(0).to_string()));
            fields.push(("Actual Loops", loops.to_string()));
        }
        if workers > 0 && self.scans_all {
            fields.push(("Workers Planned", workers.to_string()));
        }
        if options.verbose && !self.output.is_empty() {
            let list: Vec<String> = self.output.iter().map(|o| string(o)).collect();
            fields.push(("Output", format!("[{}]", list.join(", "))));
        }
        fields.extend(self.properties.iter().map(|(n, v)| (*n, string(v))));
        fields.extend(self.conflict_counts(counted).into_iter().map(|(n, v)| (n, v.to_string())));
        fields.extend(self.box_counts(counted).into_iter().map(|(n, v)| (n, v.to_string())));
        let spaces = " ".repeat(indent + 2);
        *out += "{\n";
        let lines: Vec<String> = fields.iter().map(|(n, v)| format!("{spaces}{}: {v}", string(n))).collect();
        *out += &lines.join(",\n");
        if !self.children.is_empty() {
            *out += &format!(",\n{spaces}\"Plans\": [\n");
            for (n, c) in self.children.iter().enumerate() {
                *out += if n == 0 { "" } else { ",\n" };
                *out += &format!("{spaces}  ");
                c.json(options, counted, workers, indent + 4, out);
            }
            *out += &format!("\n{spaces}]");
        }
        *out += &format!("\n{}}}", " ".repeat(indent));
    }
}

/// A text as JSON has it.
fn string(s: &str) -> String {
    let mut out = String::from("\"");
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
