//! Schemas: made with what is in them, renamed, dropped with what is in them.
use crate::session::Session;
use crate::session::define::returning;
use crate::session::define_view::Object;
use crate::session::output::Output;
use crate::session::planned::is_stale;
use ondol_engine::{Catalog, Claim, Name, Path, claims};
use ondol_sql::bound::{Bound, Dropped};
use ondol_sql::{bind, parse};
use ondol_types::{SqlError, SqlResult, TypeId, name, sqlstate};
use std::collections::BTreeSet;

/// As many dependents as PostgreSQL lists.
const MOST_LISTED: usize = 100;

/// Something that goes with a schema.
struct Inside {
    shown: String,
    what: What,
    /// What it depends on.
    of: String,
}

#[derive(Clone, PartialEq)]
enum What {
    Table(Name),
    Sequence(u32, Name),
    View(u32, Name),
    Function(u32),
    Type(TypeId),
}

struct NoOutput;
impl Output for NoOutput {}

impl Session {
    pub(crate) fn create_schema(
        &mut self,
        name: &str,
        if_not_exists: bool,
        elements: &[String],
        owner: Option<u32>,
    ) -> SqlResult<()> {
        if self.connection.catalog().schema(name).is_some() {
            let exists = format!("schema \"{name}\" already exists");
            if !if_not_exists {
                return Err(SqlError::new("42P06", exists));
            }
            self.notice("42P06", format!("{exists}, skipping"));
            return Ok(());
        }
        // All of it is made as its owner.
        let role = self.connection.role();
        self.connection.set_role(owner.unwrap_or(role));
        let made = self
            .connection
            .create_schema(name)
            .and_then(|_| elements.iter().try_for_each(|e| self.make_element(name, e)));
        self.connection.set_role(role);
        made
    }

    /// A statement within CREATE SCHEMA: the schema stands first in its path.
    fn make_element(&mut self, schema: &str, text: &str) -> SqlResult<()> {
        let listed = match self.listed().trim() {
            "" => name::quote(schema),
            others => format!("{}, {others}", name::quote(schema)),
        };
        loop {
            let bound = self.bind_element(text, &listed).map_err(|mut e| {
                // Its place is in the element's own text.
                e.0.position = None;
                e
            })?;
            for (state, message) in &bound.notices {
                self.notice(state, message.clone());
            }
            match self.run_utility(text, &bound, &[], &mut NoOutput) {
                Err(e) if is_stale(&e) => continue,
                done => return done,
            }
        }
    }

    fn bind_element(&self, text: &str, listed: &str) -> SqlResult<Bound> {
        let catalog = self.connection.catalog();
        let path = Path::of(&catalog, listed);
        let raws = parse::parse(text)?;
        let raw = raws.first().ok_or_else(|| SqlError::new(sqlstate::INTERNAL_ERROR, "an empty element"))?;
        let binder = bind::Binder::new(&catalog, text, &[]).with_path(&path, listed);
        binder.with_roles(self.connection.role(), self.identity.session).bind(raw)
    }

    /// Texts that name the schema keep the name that they have: where one would lose its meaning, the change
    /// is refused.
    pub(crate) fn rename_schema(&mut self, name: &str, to: &str) -> SqlResult<()> {
        let before = bind::broken_definitions(&self.connection.catalog());
        self.connection.rename_schema(name, to)?;
        self.refuse_new_broken(&before, &format!("schema {name}"))
    }

    pub(crate) fn move_function(&mut self, id: u32, schema: u32) -> SqlResult<()> {
        let catalog = self.connection.catalog();
        let Some(f) = catalog.functions.get(&id).filter(|f| f.schema != schema) else { return Ok(()) };
        let before = bind::broken_definitions(&catalog);
        self.connection.move_function(id, schema)?;
        self.refuse_new_broken(&before, &format!("function {}", f.name))
    }

    pub(crate) fn drop_schemas(&mut self, dropped: &[Dropped<String>], cascade: bool) -> SqlResult<()> {
        dropped.iter().for_each(|d| self.told_missing(d));
        let names: Vec<&String> = dropped.iter().filter_map(Dropped::there).collect();
        // Nothing comes into a schema that is claimed; what is in it may be renamed or go until it is, too.
        self.connection.claim(|c| names.iter().flat_map(|n| claims::change_schema(c, n)).collect())?;
        let catalog = loop {
            let before = self.connection.catalog();
            let inside = names.iter().flat_map(|n| self.inside(&before, n));
            let wanted: Vec<Claim> = inside.flat_map(|i| claims_of(&before, &i.what)).collect();
            let now = self.connection.claim(|_| wanted.clone())?;
            if now.version == before.version {
                break now;
            }
        };
        if let Some(gone) = names.iter().find(|n| catalog.schema(n).is_none()) {
            return Err(SqlError::new("3F000", format!("schema \"{gone}\" does not exist")));
        }
        // In PostgreSQL's order.
        let mut inside: Vec<Inside> = Vec::new();
        for i in names.iter().rev().flat_map(|n| self.inside(&catalog, n)) {
            if !inside.iter().any(|o| o.what == i.what) {
                inside.push(i)
            }
        }
        if !cascade && !inside.is_empty() {
            let lines: Vec<String> =
                inside.iter().map(|i| format!("{} depends on {}", i.shown, i.of)).collect();
            let message = match &names[..] {
                [one] => format!("cannot drop schema {one} because other objects depend on it"),
                _ => "cannot drop desired object(s) because other objects depend on them".to_string(),
            };
            return Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message)
                .detail(listed(&lines))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        let lines: Vec<String> = inside.iter().map(|i| format!("drop cascades to {}", i.shown)).collect();
        match &lines[..] {
            [] => {}
            [one] => self.notice("00000", one.clone()),
            all => self.notice_with(format!("drop cascades to {} other objects", all.len()), listed(all)),
        }
        let before = bind::broken_definitions(&catalog);
        let views = inside.iter().filter_map(|i| match &i.what {
            What::View(id, name) => Some(Object::View { id: *id, name: name.clone() }),
            _ => None,
        });
        let views: Vec<Object> = views.collect();
        self.drop_in_turn(&views)?;
        // What returns a table's rows before the table, and types when nothing has them any more.
        for i in &inside {
            if let What::Function(id) = i.what {
                self.connection.drop_function(id)?
            }
        }
        let tables = inside.iter().filter_map(|i| match &i.what {
            What::Table(name) => Some(Dropped::There(name.clone())),
            _ => None,
        });
        self.part_tables(&tables.collect::<Vec<_>>(), true)?;
        for i in &inside {
            if let What::Table(name) = &i.what {
                self.connection.drop_table(name)?
            }
        }
        for i in &inside {
            if let What::Sequence(id, _) = i.what {
                self.drop_defaults_of(id, "schema", true, &[])?;
                self.drop_owned_sequence(id)?
            }
        }
        let types: BTreeSet<TypeId> =
            inside.iter().filter_map(|i| if let What::Type(t) = i.what { Some(t) } else { None }).collect();
        if !types.is_empty() {
            self.drop_with_dependents(types, true, "schema")?
        }
        for name in &names {
            self.connection.drop_schema(name)?
        }
        let all: Vec<&str> = names.iter().map(|n| n.as_str()).collect();
        self.refuse_dependents(&before, &format!("schema {}", all.join(", ")))
    }

    /// What is in a schema, by its age, each table with the functions elsewhere that return its rows.
    fn inside(&self, c: &Catalog, schema: &str) -> Vec<Inside> {
        let Some(number) = c.schema(schema).map(|s| s.number) else { return Vec::new() };
        let of = format!("schema {}", name::quote(schema));
        let mut found: Vec<(u32, Inside)> = Vec::new();
        for f in c.functions.values().filter(|f| f.schema == number) {
            let shown = format!("function {}", self.shown_function(c, f));
            found.push((f.id, Inside { shown, what: What::Function(f.id), of: of.clone() }))
        }
        for t in c.tables().filter(|t| t.def.schema == number && !t.def.is_material()) {
            let name = t.def.full_name();
            let shown = format!("{} {}", t.def.kind_name(), self.shown(c, &name));
            found.push((t.def.id, Inside { shown, what: What::Table(name), of: of.clone() }))
        }
        // Those that go with a table here go with it.
        let owned = |id| c.owner_of(id).is_some_and(|(t, _)| t.def.schema == number);
        for s in c.sequences().filter(|s| s.def.schema == number && !owned(s.def.id)) {
            let name = s.def.full_name();
            let shown = format!("sequence {}", self.shown(c, &name));
            found.push((s.def.id, Inside { shown, what: What::Sequence(s.def.id, name), of: of.clone() }))
        }
        for v in c.queries().filter(|v| v.schema == number) {
            let name = v.full_name();
            let kind = if c.materials.contains_key(&v.id) { "materialized view" } else { "view" };
            let shown = format!("{kind} {}", self.shown(c, &name));
            found.push((v.id, Inside { shown, what: What::View(v.id, name), of: of.clone() }))
        }
        let path = self.path(c);
        for (name, ty) in c.types.iter().filter(|(n, _)| n.schema == number) {
            let shown = match c.find_type(&path, &name.name) == Some(*ty) {
                true => name::quote(&name.name),
                false => c.qualified(name),
            };
            let id = ty.user().map_or(0, |u| u.number);
            found.push((id, Inside { shown: format!("type {shown}"), what: What::Type(*ty), of: of.clone() }))
        }
        found.sort_by_key(|f| f.0);
        let mut all: Vec<Inside> = Vec::with_capacity(found.len());
        for (_, i) in found {
            let table = if let What::Table(name) = &i.what { Some(name.clone()) } else { None };
            all.push(i);
            let Some(table) = table else { continue };
            for f in returning(c, &table).filter(|f| f.schema != number) {
                let shown = format!("function {}", self.shown_function(c, f));
                let of = format!("type {}", self.shown(c, &table));
                all.push(Inside { shown, what: What::Function(f.id), of })
            }
        }
        // Views elsewhere that rest on something in it.
        let roots: Vec<Object> = all.iter().filter_map(|i| object_of(c, &i.what)).collect();
        for (object, shown, of) in self.views_on(c, &roots) {
            if let Object::View { id, name } = object {
                all.push(Inside { shown, what: What::View(id, name), of })
            }
        }
        all
    }
}

fn object_of(c: &Catalog, what: &What) -> Option<Object> {
    Some(match what {
        What::Table(name) => Object::table(c, name)?,
        What::View(id, name) => Object::View { id: *id, name: name.clone() },
        What::Function(id) => Object::Function(*id),
        What::Sequence(..) => return None,
        What::Type(ty) => Object::Type(ty.user()?.number),
    })
}

fn claims_of(c: &Catalog, what: &What) -> Vec<Claim> {
    match what {
        What::Table(name) => claims::drop_table(c, name),
        What::Sequence(_, name) => claims::change_sequence(c, name),
        What::View(_, name) => claims::drop_view(c, name),
        What::Function(id) => claims::drop_function(c, *id),
        What::Type(ty) => match ty.user() {
            Some(u) => claims::drop_type(c, Name::new(u.schema, &*u.name)),
            None => Vec::new(),
        },
    }
}

/// Lines of a DETAIL, one for each dependent: as many as PostgreSQL lists.
pub(super) fn listed(lines: &[String]) -> String {
    if lines.len() <= MOST_LISTED {
        return lines.join("\n");
    }
    let more = lines.len() - MOST_LISTED;
    let objects = if more == 1 { "object" } else { "objects" };
    format!("{}\nand {more} other {objects} (see server log for list)", lines[..MOST_LISTED].join("\n"))
}
