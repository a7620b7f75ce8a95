//! Views: what CREATE, ALTER and DROP VIEW do, and what depends on a table, a column, a function or a type.
use crate::session::Session;
use crate::session::define::returning;
use crate::session::schema::listed;
use ondol_engine::view::{Slot, slots, uses_relation};
use ondol_engine::{Catalog, CommentKind, Commented, Name, ViewDef, claims};
use ondol_sql::bind;
use ondol_sql::bound::Dropped;
use ondol_types::{SqlError, SqlResult, TypeId, sqlstate};

/// Something that others may depend on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Object {
    Table { id: u32, name: Name },
    View { id: u32, name: Name },
    Column { table: u32, place: usize },
    Function(u32),
    Type(u32),
}

impl Object {
    /// A table, or a materialised view, which is a view here.
    pub fn table(c: &Catalog, name: &Name) -> Option<Object> {
        c.table(name).map(|t| match t.def.is_material() {
            true => Object::View { id: t.def.id, name: name.clone() },
            false => Object::Table { id: t.def.id, name: name.clone() },
        })
    }
    pub fn view(v: &ViewDef) -> Object {
        Object::View { id: v.id, name: v.full_name() }
    }
    fn id(&self) -> u32 {
        match self {
            Object::Table { id, .. } | Object::View { id, .. } => *id,
            Object::Column { table, .. } => *table,
            Object::Function(id) | Object::Type(id) => *id,
        }
    }
}

/// What depends on an object, the newest first.
fn dependents_of(c: &Catalog, of: &Object) -> Vec<Object> {
    let names = |v: &ViewDef, slot: Slot| slots(&v.query).contains(&slot);
    let is_on = |v: &ViewDef| match of {
        Object::Table { id, .. } | Object::View { id, .. } => uses_relation(&v.query, *id),
        Object::Column { table, place } => names(v, Slot::Column { relation: *table, column: *place as u32 }),
        Object::Function(id) => names(v, Slot::Function(*id)),
        Object::Type(number) => {
            let is_it = |t: TypeId| t.user().is_some_and(|u| u.number == *number);
            names(v, Slot::Type(*number)) || v.columns.iter().any(|c| is_it(c.ty.id))
        }
    };
    let mut found: Vec<Object> = c.queries().filter(|v| is_on(v)).map(|v| Object::view(v)).collect();
    if let Object::Table { name, .. } | Object::View { name, .. } = of {
        found.extend(returning(c, name).map(|f| Object::Function(f.id)))
    }
    if let Object::Function(id) = of {
        found.extend(bind::routine::leaning_on(c, *id).into_iter().map(Object::Function))
    }
    found.sort_by_key(|o| std::cmp::Reverse(o.id()));
    found
}

/// All that depends on some objects and is none of them, with what it depends on, in PostgreSQL's order: each
/// behind what it depends on.
fn dependents(c: &Catalog, roots: &[Object]) -> Vec<(Object, Object)> {
    fn visit(c: &Catalog, of: &Object, roots: &[Object], found: &mut Vec<(Object, Object)>) {
        for o in dependents_of(c, of) {
            if o == *of || roots.contains(&o) || found.iter().any(|f| f.0 == o) {
                continue;
            }
            visit(c, &o, roots, found);
            if !found.iter().any(|f| f.0 == o) {
                found.push((o, of.clone()))
            }
        }
    }
    let mut found = Vec::new();
    for root in roots {
        visit(c, root, roots, &mut found)
    }
    found.reverse();
    found
}

impl Session {
    /// An object as messages have it.
    fn shown_object(&self, c: &Catalog, o: &Object) -> String {
        match o {
            Object::Table { name, .. } => format!("table {}", self.shown(c, name)),
            Object::View { id, name } if c.materials.contains_key(id) => {
                format!("materialized view {}", self.shown(c, name))
            }
            Object::View { name, .. } => format!("view {}", self.shown(c, name)),
            Object::Column { table, place } => {
                let Some(t) = c.table_by_id(*table) else { return "column".into() };
                let table = format!("{} {}", t.def.kind_name(), self.shown(c, &t.def.full_name()));
                format!("column {} of {table}", t.def.columns[*place].name)
            }
            Object::Function(id) => {
                let shown = c.functions.get(id).map(|f| self.shown_function(c, f));
                format!("function {}", shown.unwrap_or_default())
            }
            Object::Type(number) => {
                let is_it = |t: &&TypeId| t.user().is_some_and(|u| u.number == *number);
                let ty = c.types.values().find(is_it).copied().unwrap_or(TypeId::UNKNOWN);
                format!("type {}", c.shown_type(&self.path(c), ondol_types::Type::new(ty)))
            }
        }
    }

    /// "view v depends on table t", for each that depends on one of the objects.
    pub(crate) fn shown_dependents(&self, c: &Catalog, roots: &[Object]) -> Vec<String> {
        let line = |(o, on): &(Object, Object)| {
            // Functions depend on the type of a table's rows.
            let on = match (o, on) {
                (Object::Function(_), Object::Table { name, .. } | Object::View { name, .. }) => {
                    format!("type {}", self.shown(c, name))
                }
                _ => self.shown_object(c, on),
            };
            format!("{} depends on {on}", self.shown_object(c, o))
        };
        dependents(c, roots).iter().map(line).collect()
    }

    /// The views that depend on one of the objects and are none of them: each as messages have it, and what
    /// it depends on.
    pub(crate) fn views_on(&self, c: &Catalog, roots: &[Object]) -> Vec<(Object, String, String)> {
        let all = dependents(c, roots).into_iter().filter(|(o, _)| matches!(o, Object::View { .. }));
        all.map(|(o, on)| {
            let (shown, on) = (self.shown_object(c, &o), self.shown_object(c, &on));
            (o, shown, on)
        })
        .collect()
    }

    /// Comments on parts of a table that was just made.
    pub(crate) fn comment_parts(
        &mut self,
        table: &Name,
        comments: &[(CommentKind, String, String)],
    ) -> SqlResult<()> {
        for (kind, part, text) in comments {
            let catalog = self.connection.catalog();
            let Some(table) = catalog.table(table) else { break };
            let (on, name) = (Commented::part(*kind, table.def.id, part), table.def.full_name());
            self.connection.comment(&on, Some(text), |_| vec![claims::name(&name)])?
        }
        Ok(())
    }

    pub(crate) fn create_view(&mut self, def: &ViewDef, replace: bool) -> SqlResult<()> {
        let catalog = self.connection.catalog();
        let name = def.full_name();
        if replace && catalog.view(&name).is_some() {
            return self.connection.replace_view(&name, def.clone());
        }
        if catalog.relations.contains_key(&name) {
            let message = format!("relation \"{}\" already exists", def.name);
            return Err(SqlError::new(sqlstate::DUPLICATE_TABLE, message));
        }
        self.connection.create_view(def.clone())
    }

    pub(crate) fn alter_view(&mut self, name: &Name, def: &ViewDef) -> SqlResult<()> {
        let catalog = self.connection.catalog();
        if catalog.view(name).is_none() {
            return Err(crate::session::define::no_table(name));
        }
        let mut before = bind::broken_definitions(&catalog);
        let (was, now) = (format!("view \"{}\"", name.name), format!("view \"{}\"", def.name));
        before.iter_mut().filter(|b| b.0 == was).for_each(|b| b.0.clone_from(&now));
        self.connection.replace_view(name, def.clone())?;
        self.refuse_new_broken(&before, &format!("view {}", name.name))
    }

    /// `what`: they are views, or materialised views.
    pub(crate) fn drop_views(
        &mut self,
        names: &[Dropped],
        if_exists: bool,
        cascade: bool,
        what: &str,
    ) -> SqlResult<()> {
        let there = || names.iter().filter_map(Dropped::there);
        let wanted = |c: &Catalog| there().flat_map(|n| claims::drop_view(c, n)).collect();
        let catalog = self.connection.claim(wanted)?;
        let mut roots = Vec::new();
        for name in names {
            let Dropped::There(name) = name else {
                self.told_missing(name);
                continue;
            };
            let found = catalog.view(name).map(|v| Object::view(v));
            match found.or_else(|| Object::table(&catalog, name)) {
                Some(view) => roots.push(view),
                None => {
                    // It has gone meanwhile.
                    let missing = format!("{what} \"{}\" does not exist", name.name);
                    if !if_exists {
                        return Err(SqlError::new(sqlstate::UNDEFINED_TABLE, missing));
                    }
                    self.notice("00000", format!("{missing}, skipping"));
                }
            }
        }
        self.drop_all_on(&roots, cascade)?;
        self.drop_in_turn(&roots)
    }

    /// Drops what depends on the objects, which are claimed, or refuses to.
    pub(crate) fn drop_all_on(&mut self, roots: &[Object], cascade: bool) -> SqlResult<()> {
        // What depends on them is claimed as well, until nothing more is found.
        let wanted = |c: &Catalog| {
            let claimed = |(o, _): (Object, Object)| match o {
                Object::View { name, .. } => claims::drop_view(c, &name),
                Object::Function(id) => claims::drop_function(c, id),
                _ => Vec::new(),
            };
            dependents(c, roots).into_iter().flat_map(claimed).collect()
        };
        let mut catalog = self.connection.catalog();
        if cascade && !dependents(&catalog, roots).is_empty() {
            catalog = self.connection.claim(wanted)?;
        }
        let found = dependents(&catalog, roots);
        if found.is_empty() {
            return Ok(());
        }
        if !cascade {
            let message = match roots {
                [one] => {
                    let one = self.shown_object(&catalog, one);
                    format!("cannot drop {one} because other objects depend on it")
                }
                _ => "cannot drop desired object(s) because other objects depend on them".to_string(),
            };
            return Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message)
                .detail(listed(&self.shown_dependents(&catalog, roots)))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        let line = |(o, _): &(Object, Object)| format!("drop cascades to {}", self.shown_object(&catalog, o));
        let lines: Vec<String> = found.iter().map(line).collect();
        match &lines[..] {
            [one] => self.notice("00000", one.clone()),
            many => {
                let message = format!("drop cascades to {} other objects", many.len());
                self.notice_with(message, listed(&lines))
            }
        }
        let objects: Vec<Object> = found.into_iter().map(|f| f.0).collect();
        self.drop_in_turn(&objects)
    }

    /// Drops views and functions, those that depend on others first.
    pub(crate) fn drop_in_turn(&mut self, objects: &[Object]) -> SqlResult<()> {
        let mut left = objects.to_vec();
        while !left.is_empty() {
            let catalog = self.connection.catalog();
            let is_free = |o: &Object| !dependents_of(&catalog, o).iter().any(|d| left.contains(d));
            let n = left.iter().rposition(is_free).unwrap_or(left.len() - 1);
            match left.remove(n) {
                Object::View { name, .. } => self.connection.drop_view(&name)?,
                Object::Function(id) => self.connection.drop_function(id)?,
                _ => {}
            }
        }
        Ok(())
    }
}
