//! CREATE DOMAIN and ALTER DOMAIN, and how a value becomes a domain's.
//!
//! A cast to a domain is a cast to the type that it is made of, and behind it a CASE that ends the statement
//! where a condition is false. It names the value once for each condition: what is more than a name stands in
//! a row of its own, so that it is computed once. A cast to arrays of a domain looks at every item so.
use super::array::unnested;
use super::check::{elsewhere, with_text};
use super::dml::values_query;
use super::scope::{Clause, column};
use super::tree::{at, at_expr, kind, need, refuse, refuse_at, unexpected};
use super::types::bind_type;
use super::written::{Note, Notes};
use super::{Binder, constant};
use crate::bound::{
    Aggregate, Expr, ExprKind, From, Query, Rel, RelEntry, Statement, Target, walk_expr, walk_expr_mut,
};
use crate::parse::parse;
use crate::parse::tree::{AlterDomainStmt, ConstrType, CreateDomainStmt, Node, node::Node as Kind};
use ondol_engine::{Catalog, ColumnDef, Name};
use ondol_types::func::{FuncId, id};
use ondol_types::name::quote;
use ondol_types::user::UserDef;
use ondol_types::user::domain::CODE;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, agg, sqlstate};

/// The domain of a type that is one.
pub fn domain_of(ty: TypeId) -> Option<&'static UserDef> {
    ty.user().filter(|u| u.kind == CODE && !ty.is_array())
}

/// The type that a column was declared with.
pub fn declared(column: &ColumnDef) -> Type {
    column.domain.map_or(column.ty, Type::new)
}

/// The text of the default that a column has, its own or its domain's.
pub fn default_text(column: &ColumnDef) -> Option<&str> {
    let of_domain = || column.domain.and_then(domain_of)?.domains().find_map(|d| d.default.as_deref());
    column.default.as_deref().or_else(of_domain)
}

/// The domain that the items of arrays of a type are of.
fn domain_of_items(ty: TypeId) -> Option<&'static UserDef> {
    ty.element().and_then(domain_of)
}

/// Whether it costs nothing to name the value more than once.
fn is_name(e: &Expr) -> bool {
    matches!(
        e.kind,
        ExprKind::Const(_)
            | ExprKind::Param(_)
            | ExprKind::Column { .. }
            | ExprKind::Group(_)
            | ExprKind::GroupOuter { .. }
            | ExprKind::Aggregate { .. }
            | ExprKind::Window { .. }
    )
}

/// An expression as it stands in a query within the one that it stood in.
pub(super) fn one_level_in(mut e: Expr) -> Expr {
    walk_expr_mut(&mut e, 0, &mut |e, level| {
        match &mut e.kind {
            ExprKind::Column { depth, .. }
            | ExprKind::Aggregate { depth, .. }
            | ExprKind::Window { depth, .. }
            | ExprKind::GroupOuter { depth, .. }
                if *depth >= level =>
            {
                *depth += 1
            }
            ExprKind::Group(n) if level == 0 => e.kind = ExprKind::GroupOuter { depth: 1, index: *n },
            _ => {}
        }
        true
    });
    e
}

fn text(s: &str) -> Expr {
    constant(Value::Text(s.to_string()), Type::TEXT, u32::MAX)
}

fn failing(func: FuncId, arg: &Expr, names: &[&str]) -> Expr {
    let args = std::iter::once(arg.clone()).chain(names.iter().map(|n| text(n))).collect();
    Expr { kind: ExprKind::Call { func, args }, ty: arg.ty, at: u32::MAX }
}

/// Whether it has no conditions.
fn asks_nothing(domain: &UserDef) -> bool {
    domain.domains().all(|d| !d.not_null && d.parts.is_empty())
}

impl<'a> Binder<'a> {
    /// A value of the type that a domain, or arrays of one, are made of, as one of these; of another type the
    /// value itself.
    pub(super) fn in_declared(&mut self, value: Expr, ty: TypeId) -> SqlResult<Expr> {
        match (domain_of(ty), domain_of_items(ty)) {
            (Some(domain), _) => self.in_domain(value, domain),
            (_, Some(domain)) => self.items_in_domain(value, domain),
            _ if super::row::has_domains(ty) => {
                match is_name(&value) || super::row::parts(&value).is_some() {
                    true => self.fields_in_domains(value, ty),
                    false => self.named(value, |b, value| b.fields_in_domains(value, ty)),
                }
            }
            _ => Ok(value),
        }
    }

    /// An array whose items are looked at as values of the domain: a query counts them, and every item ends
    /// the statement that is none. NULL has no items.
    fn items_in_domain(&mut self, array: Expr, domain: &UserDef) -> SqlResult<Expr> {
        let (ty, place) = (array.ty, array.at);
        let Some(item) = ty.element().filter(|_| !asks_nothing(domain)) else { return Ok(array) };
        if !is_name(&array) {
            return self.named(array, |b, array| b.items_in_domain(array, domain));
        }
        self.count_query()?;
        self.count_query()?;
        let items = unnested(vec![one_level_in(one_level_in(array.clone()))], false);
        let count = agg::resolve_aggregate("count", &[item.id])?;
        let args = vec![self.in_domain(column(0, 0, item), domain)?];
        let counted = Aggregate {
            agg: count.id,
            args,
            distinct: false,
            order: Vec::new(),
            filter: None,
            ty: Type::INT8,
        };
        let number = Expr { kind: ExprKind::Aggregate { depth: 0, index: 0 }, ty: Type::INT8, at: u32::MAX };
        let query = Query {
            rels: vec![RelEntry {
                rel: Rel::Query(Box::new(items)),
                alias: "*ITEMS*".into(),
                columns: vec![("value".into(), item)],
            }],
            from: vec![From::Rel(0)],
            grouped: true,
            aggregates: vec![counted],
            targets: vec![Target { expr: number, name: "count".into(), hidden: false }],
            is_call: true,
            ..Query::default()
        };
        let number = Expr { kind: ExprKind::Scalar(Box::new(query)), ty: Type::INT8, at: u32::MAX };
        // It is never NULL.
        let is_null = ExprKind::IsNull { arg: Box::new(number), negated: false };
        let test = Expr { kind: is_null, ty: Type::BOOL, at: u32::MAX };
        let never = constant(Value::Null, ty, u32::MAX);
        let kind = ExprKind::Case { whens: vec![(test, never)], otherwise: Some(Box::new(array)) };
        Ok(Expr { kind, ty, at: place })
    }

    /// An expression over the value, which is computed once, in a row of its own.
    fn named(
        &mut self,
        value: Expr,
        over: impl FnOnce(&mut Self, Expr) -> SqlResult<Expr>,
    ) -> SqlResult<Expr> {
        self.count_query()?;
        let (ty, place) = (value.ty, value.at);
        let mut query = values_query(vec![vec![one_level_in(value)]], vec![("value".into(), ty)]);
        query.is_call = true;
        let expr = over(self, column(0, 0, ty))?;
        query.targets = vec![Target { expr, name: "value".into(), hidden: false }];
        Ok(Expr { kind: ExprKind::Scalar(Box::new(query)), ty, at: place })
    }

    /// A value of the type that the domain is made of, as one of the domain.
    fn in_domain(&mut self, arg: Expr, domain: &UserDef) -> SqlResult<Expr> {
        if asks_nothing(domain) {
            return Ok(arg);
        }
        if !is_name(&arg) {
            return self.named(arg, |b, arg| b.in_domain(arg, domain));
        }
        let chain: Vec<&UserDef> = domain.domains().collect();
        let shown = self.catalog.shown_user(self.path, domain);
        let schema = self.catalog.schema_name(domain.schema);
        let not_null = chain.iter().any(|d| d.not_null);
        let mut whens = Vec::new();
        if not_null {
            let is_null = ExprKind::IsNull { arg: Box::new(arg.clone()), negated: false };
            let test = Expr { kind: is_null, ty: Type::BOOL, at: u32::MAX };
            whens.push((test, failing(id::NO_NULL_IN_DOMAIN, &arg, &[&shown, schema, &domain.name])));
        }
        for d in chain.iter().rev() {
            let mut checks: Vec<_> = d.parts.iter().collect();
            checks.sort_by(|a, b| a.name.cmp(&b.name));
            for check in checks {
                let condition = check.text.as_deref().unwrap_or("true");
                let condition = bind_check(self.catalog, condition, &arg)?;
                if matches!(condition.kind, ExprKind::Const(Value::Bool(true) | Value::Null)) {
                    continue;
                }
                let test = ExprKind::BoolTest { arg: Box::new(condition), want: Some(false), negated: false };
                let test = Expr { kind: test, ty: Type::BOOL, at: u32::MAX };
                whens.push((
                    test,
                    failing(id::NOT_OF_DOMAIN, &arg, &[&shown, schema, &domain.name, &check.name]),
                ));
            }
        }
        if whens.is_empty() {
            return Ok(arg);
        }
        let (ty, place) = (arg.ty, arg.at);
        Ok(Expr { kind: ExprKind::Case { whens, otherwise: Some(Box::new(arg)) }, ty, at: place })
    }

    /// The expression of a condition, in which VALUE is what is given; nothing of a query may stand in it.
    fn check(&mut self, node: &'a Node, value: &Expr) -> SqlResult<Expr> {
        let before = self.value.replace(value.clone());
        let open = std::mem::replace(&mut self.open_params, false);
        let bound = self.nested(Clause::Check, |b| {
            let e = b.expr(node)?;
            b.condition(e, "CHECK")
        });
        (self.value, self.open_params) = (before, open);
        let (e, _) = bound?;
        Ok(e)
    }

    /// The text of a new condition, once it was seen to have a meaning.
    fn new_value_check(&mut self, node: &'a Node, base: Type) -> SqlResult<String> {
        // A value that nothing is known of; it is never computed.
        let value = column(0, 0, base.base());
        let e = self.check(node, &value)?;
        let mut query = None;
        walk_expr(&e, 0, &mut |e, _| {
            if let ExprKind::Exists { .. } | ExprKind::Quantified { .. } = e.kind {
                query.get_or_insert(e.at);
            }
            if let ExprKind::Scalar(q) = &e.kind
                && !q.is_call
            {
                query.get_or_insert(e.at);
            }
            true
        });
        if let Some(here) = query {
            let message = "cannot use subquery in check constraint";
            return Err(at_expr(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), here));
        }
        self.kept_text(node, &|b, node| b.check(node, &value).map(drop))
    }

    pub(super) fn create_domain(&mut self, s: &'a CreateDomainStmt) -> SqlResult<Statement> {
        let place = self.names().place_of(&s.domainname)?;
        self.free_type_name(&place)?;
        refuse(s.coll_clause.is_some(), "COLLATE of a domain")?;
        let base = s.type_name.as_ref().ok_or_else(|| unexpected("a domain without a type"))?;
        let base = bind_type(self.names(), base)?;
        refuse(domain_of_items(base.id).is_some(), "a domain of arrays of a domain")?;
        let mut def = UserDef {
            number: 0,
            array: 0,
            schema: place.schema,
            name: place.name,
            kind: CODE,
            base: Some(base),
            not_null: false,
            default: None,
            parts: Vec::new(),
            fresh: None,
        };
        let mut nullable: Option<bool> = None;
        for node in &s.constraints {
            let Kind::Constraint(k) = kind(node)? else { return Err(unexpected("a domain's constraint")) };
            let wrong = |state, message: &str| Err(at(SqlError::new(state, message), k.location));
            let impossible = |what: &str| {
                wrong(sqlstate::SYNTAX_ERROR, &format!("{what} constraints not possible for domains"))
            };
            match k.contype() {
                ConstrType::ConstrNotnull | ConstrType::ConstrNull => {
                    let allows = k.contype() == ConstrType::ConstrNull;
                    if nullable.is_some_and(|n| n != allows) {
                        return wrong(sqlstate::SYNTAX_ERROR, "conflicting NULL/NOT NULL constraints");
                    }
                    nullable = Some(allows);
                }
                ConstrType::ConstrDefault => {
                    if def.default.is_some() {
                        return wrong(sqlstate::SYNTAX_ERROR, "multiple default expressions");
                    }
                    def.default = self.domain_default(&def, need(&k.raw_expr)?)?;
                }
                ConstrType::ConstrCheck => {
                    refuse_at(k.is_no_inherit, "NO INHERIT", k.location)?;
                    let check = self.new_value_check(need(&k.raw_expr)?, base)?;
                    let name = check_name(&def, &k.conname);
                    def = def.with_check(&name, check)?;
                }
                ConstrType::ConstrPrimary => return impossible("primary key"),
                ConstrType::ConstrUnique => return impossible("unique"),
                ConstrType::ConstrExclusion => return impossible("exclusion"),
                ConstrType::ConstrForeign => return impossible("foreign key"),
                _ => return Err(at(SqlError::unsupported("this constraint of a domain"), k.location)),
            }
        }
        def.not_null = nullable == Some(false);
        Ok(Statement::CreateType { def, tag: "CREATE DOMAIN" })
    }

    /// The text of a domain's default; `None` for NULL, which is none.
    fn domain_default(&mut self, def: &UserDef, value: &'a Node) -> SqlResult<Option<String>> {
        let ty = def.base.map_or(Type::TEXT, Type::base);
        let column = ColumnDef::new(def.name.clone(), ty);
        let bound = self.default_value(value, &column)?;
        Ok(if matches!(bound.kind, ExprKind::Const(Value::Null)) {
            None
        } else {
            Some(self.default_text(value, &column)?)
        })
    }

    pub(super) fn alter_domain(&mut self, s: &'a AlterDomainStmt) -> SqlResult<Statement> {
        let old = self.type_of_kind(&s.type_name, CODE, "a domain")?;
        let name = &old.name;
        let tag = "ALTER DOMAIN";
        let mut def = old.clone();
        match s.subtype.as_str() {
            "T" => {
                def.default = match s.def.as_deref() {
                    Some(value) => self.domain_default(old, value)?,
                    None => None,
                }
            }
            "N" => def.not_null = false,
            "O" => def.not_null = true,
            "C" => {
                let Kind::Constraint(k) = kind(need(&s.def)?)? else {
                    return Err(unexpected("ALTER DOMAIN"));
                };
                refuse_at(
                    k.contype() != ConstrType::ConstrCheck,
                    "adding this constraint to a domain",
                    k.location,
                )?;
                refuse_at(k.skip_validation, "NOT VALID", k.location)?;
                let check = self.new_value_check(need(&k.raw_expr)?, old.base.unwrap_or(Type::TEXT))?;
                let name = check_name(&def, &k.conname);
                def = def.with_check(&name, check)?;
            }
            "X" => {
                let before = def.parts.len();
                def.parts.retain(|c| c.name != s.name);
                if def.parts.len() == before {
                    let missing = format!("constraint \"{}\" of domain \"{name}\" does not exist", s.name);
                    if s.missing_ok {
                        return Ok(Statement::Nothing { tag, notice: format!("{missing}, skipping") });
                    }
                    return Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, missing));
                }
            }
            "V" => return Err(SqlError::unsupported("ALTER DOMAIN ... VALIDATE CONSTRAINT")),
            _ => return Err(unexpected("ALTER DOMAIN")),
        }
        Ok(Statement::AlterType { name: Name::new(old.schema, name), def, tag })
    }

    /// ALTER DOMAIN ... RENAME CONSTRAINT
    pub(super) fn rename_check(&mut self, names: &'a [Node], from: &str, to: &str) -> SqlResult<Statement> {
        let mut def = self.type_of_kind(names, CODE, "a domain")?.clone();
        let name = &def.name.clone();
        let Some(place) = def.parts.iter().position(|c| c.name == from) else {
            let missing = format!("constraint \"{from}\" for domain {} does not exist", quote(name));
            return Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, missing));
        };
        if def.parts.iter().any(|c| c.name == to) {
            let message = format!("constraint \"{to}\" for domain {} already exists", quote(name));
            return Err(SqlError::new(sqlstate::DUPLICATE_OBJECT, message));
        }
        def.parts[place].name = to.to_string();
        Ok(Statement::AlterType { name: Name::new(def.schema, name), def, tag: "ALTER DOMAIN" })
    }
}

/// The name of a condition: the one given, or one made of the domain's.
fn check_name(def: &UserDef, given: &str) -> String {
    if !given.is_empty() {
        return given.to_string();
    }
    let taken = |name: &String| def.parts.iter().any(|c| c.name == *name);
    let numbered = (1..).map(|n| format!("{}_check{n}", def.name));
    let mut names = std::iter::once(format!("{}_check", def.name)).chain(numbered);
    names.find(|n| !taken(n)).unwrap_or_default()
}

/// What a text of a domain is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DomainText<'t> {
    Condition(&'t str),
    Default(&'t str),
}

/// It as it is written ([`super::written`]).
pub fn text_as_written(catalog: &Catalog, def: &UserDef, what: DomainText<'_>) -> SqlResult<(Expr, Notes)> {
    let base = def.base.map_or(Type::TEXT, Type::base);
    let (DomainText::Condition(text) | DomainText::Default(text)) = what;
    let bound = with_text(catalog, text, true, |b, node| match what {
        DomainText::Condition(_) => {
            let of = def.base.unwrap_or(base);
            let value = b.noted(column(0, 0, base), || Note::DomainValue(of));
            b.check(node, &value)
        }
        DomainText::Default(_) => b.default_value(node, &ColumnDef::new(def.name.clone(), base)),
    });
    bound.map_err(elsewhere)
}

/// Binds the text of a condition.
pub fn bind_check(catalog: &Catalog, condition: &str, value: &Expr) -> SqlResult<Expr> {
    let sql = format!("SELECT {condition}");
    let raws = parse(&sql)?;
    let bad = || SqlError::new(sqlstate::SYNTAX_ERROR, format!("not one expression: {condition}"));
    let target = super::only_target(&raws).ok_or_else(bad)?;
    let mut e = Binder::new(catalog, &sql, &[]).check(target, value).map_err(|mut e| {
        // Its place is in the condition's text, not in the statement's.
        e.0.position = None;
        e
    })?;
    walk_expr_mut(&mut e, 0, &mut |e, _| {
        e.at = u32::MAX;
        true
    });
    Ok(e)
}
