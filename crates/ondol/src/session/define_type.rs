//! Definition of types: what depends on one, and whether what names it still has a meaning.
use crate::session::Session;
use crate::session::define_view::Object;
use crate::session::plan::Plan;
use crate::session::planned::is_stale;
use ondol_engine::{Catalog, FunctionDef, Isolation, Name, Path, Returns, claims};
use ondol_sql::bound::Dropped;
use ondol_sql::interpret::Nowhere;
use ondol_sql::{bind, parse};
use ondol_types::name::quote;
use ondol_types::user::{Part, UserDef, composite, domain, in_order};
use ondol_types::{SqlError, SqlResult, Type, TypeId, sqlstate};
use std::collections::BTreeSet;

/// Something that needs a type.
enum Dependent {
    Column(String),
    Field { of: &'static UserDef, field: String, text: String },
    Type { name: Name, text: String },
    Function { id: u32, text: String },
}

impl Dependent {
    fn text(&self) -> &str {
        match self {
            Dependent::Column(text)
            | Dependent::Field { text, .. }
            | Dependent::Type { text, .. }
            | Dependent::Function { text, .. } => text,
        }
    }
}

fn types_of(f: &FunctionDef) -> impl Iterator<Item = TypeId> {
    let returns: Vec<TypeId> = match &f.returns {
        Returns::Void => Vec::new(),
        Returns::Scalar { ty, .. } => vec![ty.id],
        Returns::Rows { columns, .. } => columns.iter().map(|c| c.1.id).collect(),
    };
    f.args.iter().map(|a| a.1.id).chain(returns)
}

/// What needs one of the types, and is none of them.
fn dependents(catalog: &Catalog, path: &Path, gone: &BTreeSet<TypeId>) -> Vec<Dependent> {
    let shown = |ty: TypeId| catalog.shown_type(path, Type::new(ty));
    let needs = |t: TypeId| gone.contains(&t) || t.element().is_some_and(|e| gone.contains(&e));
    let mut found = Vec::new();
    let mut types: Vec<&'static UserDef> = catalog.types.values().filter_map(|t| t.user()).collect();
    types.sort_by_key(|u| u.number);
    for user in types {
        let of = user.base.filter(|b| needs(b.id));
        let is_gone = gone.iter().any(|t| t.user().is_some_and(|u| u.is_same_type(user)));
        for p in user.parts.iter().rev().filter(|_| !is_gone) {
            if let Some(of) = p.ty.filter(|t| needs(t.id)) {
                let own = user.type_id().map_or(String::new(), shown);
                let text =
                    format!("column {} of composite type {own} depends on type {}", p.name, shown(of.id));
                found.push(Dependent::Field { of: user, field: p.name.clone(), text });
            }
        }
        if let Some(Type { id: of, .. }) = of.filter(|_| !is_gone) {
            let own = user.type_id().map_or(String::new(), shown);
            let text = format!("type {own} depends on type {}", shown(of));
            found.push(Dependent::Type { name: Name::new(user.schema, &*user.name), text });
        }
    }
    let mut tables: Vec<_> = catalog.tables().collect();
    tables.sort_by_key(|t| t.def.id);
    for table in tables {
        for c in table.def.columns.iter().rev() {
            let ty = c.domain.unwrap_or(c.ty.id);
            if needs(ty) {
                let (column, table) = (&c.name, catalog.shown(path, &table.def.full_name()));
                let text = format!("column {column} of table {table} depends on type {}", shown(ty));
                found.push(Dependent::Column(text));
            }
        }
    }
    for f in catalog.functions.values() {
        if let Some(ty) = types_of(f).find(|t| needs(*t)) {
            let args: Vec<&str> = f.args.iter().map(|a| a.1.id.name()).collect();
            let of = shown(ty);
            let text = format!("function {}({}) depends on type {of}", f.name, args.join(","));
            found.push(Dependent::Function { id: f.id, text });
        }
    }
    found
}

/// Whether a type is one of rows, or of arrays of rows, of which a field is of the domain, at any depth.
fn is_within(ty: TypeId, domain: &UserDef) -> bool {
    let item = Type::new(ty.element().unwrap_or(ty)).base().id;
    let fields = composite::fields(item.element().unwrap_or(item)).unwrap_or_default();
    fields.iter().map(|part| part.of().id).any(|field| {
        field.user().is_some_and(|u| u.domains().any(|d| d.is_same_type(domain))) || is_within(field, domain)
    })
}

impl Session {
    /// Changes a type. Defaults and checks are kept as text: where one had a meaning and has none any more,
    /// since it names what now has another name, the change is refused.
    pub(crate) fn alter_type(&mut self, name: &Name, def: &UserDef) -> SqlResult<()> {
        let before = bind::broken_definitions(&self.connection.catalog());
        let old = self.connection.catalog().ty(name).and_then(|t| t.user());
        self.connection.replace_type(name, def.clone())?;
        if let Some(old) = old.filter(|_| def.kind == domain::CODE) {
            self.validate(old, def)?;
        }
        self.refuse_new_broken(&before, &format!("type {}", name.name))
    }

    /// Refuses a change after which a text of the dictionary has no meaning any more; `before`: those that
    /// had none before it.
    pub(crate) fn refuse_new_broken(&mut self, before: &[(String, SqlError)], of: &str) -> SqlResult<()> {
        let after = bind::broken_definitions(&self.connection.catalog());
        // What has lost its meaning without this transaction is not blamed on it: others may have dropped
        // what it names meanwhile.
        let others = bind::broken_definitions(&self.connection.database().catalog());
        let is_ours = |what: &str| !before.iter().chain(&others).any(|b| b.0 == *what);
        match after.into_iter().find(|(what, _)| is_ours(what)) {
            None => Ok(()),
            Some((what, error)) => {
                let feature = format!("a change of {of} that takes the meaning from {what}");
                Err(SqlError::unsupported(feature).detail(error.0.message))
            }
        }
    }

    /// Looks at all rows with values of a domain that asks for more than it did.
    fn validate(&mut self, old: &UserDef, new: &UserDef) -> SqlResult<()> {
        let is_new = |c: &Part| !old.parts.iter().any(|o| o.text == c.text);
        if !new.parts.iter().any(is_new) && (old.not_null || !new.not_null) {
            return Ok(());
        }
        let catalog = self.connection.catalog();
        for table in catalog.tables() {
            for c in &table.def.columns {
                if is_within(c.domain.unwrap_or(c.ty.id), new) {
                    let (of, table, column) = (&new.name, &table.def.name, &c.name);
                    let message =
                        format!("cannot alter type \"{of}\" because column \"{table}.{column}\" uses it");
                    return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
                }
                let domain = c.domain.and_then(|d| d.user());
                if !domain.is_some_and(|d| d.domains().any(|d| d.is_same_type(new))) {
                    continue;
                }
                // Rows that came after the transaction's snapshot must hold, too.
                let level = self.connection.transaction_isolation();
                if !matches!(level, None | Some(Isolation::ReadCommitted)) {
                    return Err(SqlError::unsupported(
                        "a new condition of a domain with columns, in a transaction that is not READ COMMITTED",
                    ));
                }
                let column = quote(&c.name);
                let domain = catalog.qualified(&Name::new(new.schema, &*new.name));
                let from = catalog.qualified(&table.def.full_name());
                let array = if c.domain.is_some_and(TypeId::is_array) { "[]" } else { "" };
                let text = format!("SELECT count({column}::{domain}{array}) FROM {from}");
                let (name, table) = (&c.name, &table.def);
                self.run_over_and_over(&text).map_err(|e| match e.sqlstate() {
                    sqlstate::CHECK_VIOLATION => {
                        let message = format!(
                            "column \"{name}\" of table \"{}\" contains values that violate the new constraint",
                            table.name
                        );
                        SqlError::new(sqlstate::CHECK_VIOLATION, message)
                            .table(table.schema, &table.name)
                            .column(name)
                    }
                    sqlstate::NOT_NULL_VIOLATION => {
                        let message = format!("column \"{name}\" of table \"{}\" contains null values", table.name);
                        SqlError::new(sqlstate::NOT_NULL_VIOLATION, message)
                            .table(table.schema, &table.name)
                            .column(name)
                    }
                    _ => e,
                })?;
            }
        }
        Ok(())
    }

    /// Runs a query of what this transaction has claimed, once more whenever others have changed what is
    /// theirs. Gives the number of rows.
    pub(crate) fn run_over_and_over(&mut self, text: &str) -> SqlResult<u64> {
        loop {
            let raws = parse::parse(text)?;
            let Some(raw) = raws.first() else { return Ok(0) };
            let bound = bind::bind(raw, text, &self.connection.catalog(), &[])?;
            let plan = Plan::new(self.compile(&bound)?);
            match self.run_program(&plan, &[], &mut Nowhere) {
                Err(e) if is_stale(&e) => continue,
                done => return done.map(|d| d.0),
            }
        }
    }

    pub(crate) fn drop_types(
        &mut self,
        dropped: &[Dropped],
        if_exists: bool,
        cascade: bool,
        what: &str,
    ) -> SqlResult<()> {
        dropped.iter().for_each(|d| self.told_missing(d));
        let names: Vec<&Name> = dropped.iter().filter_map(Dropped::there).collect();
        let wanted = |c: &Catalog| names.iter().flat_map(|n| claims::drop_type(c, *n)).collect();
        let catalog = self.connection.claim(wanted)?;
        let gone: BTreeSet<TypeId> = names.iter().filter_map(|n| catalog.ty(*n)).collect();
        for name in names.iter().filter(|n| !catalog.types.contains_key(**n)) {
            let missing = format!("type \"{}\" does not exist", name.name);
            if !if_exists {
                return Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, missing));
            }
            self.notice("00000", format!("{missing}, skipping"));
        }
        let before = bind::broken_definitions(&self.connection.catalog());
        self.drop_with_dependents(gone, cascade, what)?;
        let shown: Vec<&str> = names.iter().map(|n| &*n.name).collect();
        self.refuse_dependents(&before, &format!("type {}", shown.join(", ")))
    }

    /// Refuses that something was dropped which a text of the dictionary needs, of those that had a meaning
    /// before: a default, or a check.
    pub(crate) fn refuse_dependents(&mut self, before: &[(String, SqlError)], of: &str) -> SqlResult<()> {
        let after = bind::broken_definitions(&self.connection.catalog());
        let lost = after.iter().filter(|(what, _)| !before.iter().any(|b| b.0 == *what));
        let lines: Vec<String> = lost.map(|(what, _)| format!("{what} depends on {of}")).collect();
        if lines.is_empty() {
            return Ok(());
        }
        let message = format!("cannot drop {of} because other objects depend on it");
        Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message).detail(lines.join("\n")))
    }

    pub(crate) fn drop_with_dependents(
        &mut self,
        gone: BTreeSet<TypeId>,
        cascade: bool,
        what: &str,
    ) -> SqlResult<()> {
        // With them claimed, nothing more can come to depend on them.
        let full_name = |u: &UserDef| Name::new(u.schema, &*u.name);
        let names: Vec<Name> = gone.iter().filter_map(|t| t.user()).map(full_name).collect();
        let wanted = |c: &Catalog| names.iter().flat_map(|n| claims::drop_type(c, n)).collect();
        let catalog = self.connection.claim(wanted)?;
        let path = self.path(&catalog);
        let found = dependents(&catalog, &path, &gone);
        let shown: Vec<String> = gone.iter().map(|t| catalog.shown_type(&path, Type::new(*t))).collect();
        let roots: Vec<Object> =
            gone.iter().filter_map(|t| t.user()).map(|u| Object::Type(u.number)).collect();
        let views = self.shown_dependents(&catalog, &roots);
        if !(cascade || found.is_empty() && views.is_empty()) {
            let lines: Vec<String> = found.iter().map(|d| d.text().to_string()).chain(views).collect();
            let message = match &shown[..] {
                [one] => format!("cannot drop type {one} because other objects depend on it"),
                _ => "cannot drop desired object(s) because other objects depend on them".to_string(),
            };
            return Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message)
                .detail(lines.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        if let Some(Dependent::Column(text)) = found.iter().find(|d| matches!(d, Dependent::Column(_))) {
            let feature = format!("DROP {} ... CASCADE of a type of columns", what.to_uppercase());
            return Err(SqlError::unsupported(feature).detail(text.clone()));
        }
        for d in &found {
            let Dependent::Field { of, text, .. } = d else { continue };
            let has = |u: &UserDef| u.is_same_type(of) || u.is_made_of(of.number);
            let mut columns = catalog.tables().flat_map(|t| &t.def.columns);
            if columns.any(|c| c.domain.unwrap_or(c.ty.id).user().is_some_and(has)) {
                let feature =
                    format!("DROP {} ... CASCADE of a type within those of columns", what.to_uppercase());
                return Err(SqlError::unsupported(feature).detail(text.clone()));
            }
        }
        self.drop_all_on(&roots, cascade)?;
        let mut more = BTreeSet::new();
        for d in &found {
            let text = d.text().split(" depends on ").next().unwrap_or_default();
            match d {
                Dependent::Function { id, .. } => {
                    self.drop_dependent(*id, text.trim_start_matches("function "))?;
                    continue;
                }
                Dependent::Type { name, .. } => more.extend(catalog.ty(name)),
                Dependent::Field { of, field, .. } => {
                    let name = Name::new(of.schema, &*of.name);
                    // Of several fields, some may be gone.
                    let now = self.connection.catalog().ty(&name).and_then(|t| t.user());
                    let def = now.unwrap_or(of).clone().without_field(field)?;
                    self.connection.replace_type(name, def)?
                }
                Dependent::Column(_) => {}
            }
            self.notice("00000", format!("drop cascades to {text}"));
        }
        if !more.is_empty() {
            self.drop_with_dependents(more, cascade, what)?;
        }
        // Types made of others first.
        let all = in_order(gone.iter().filter_map(|t| t.user()).collect());
        all.into_iter().rev().try_for_each(|u| self.connection.drop_type(full_name(u)))
    }
}
