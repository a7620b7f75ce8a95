//! What names mean, and where what is made goes (engine/name/A1 to engine/name/A5).
//!
//! A schema that is not there is an error of its own (3F000), but where a query or a change of rows names a
//! relation in it: there the relation does not exist.
use super::Binder;
use super::tree::{at, refuse_at, strings, unexpected};
use crate::parse::tree::{Node, RangeVar};
use crate::parse::{expression_text, parse};
use ondol_engine::name::{PG_CATALOG, TEMPORARY, is_system};
use ondol_engine::{Catalog, FunctionDef, Name, Path, Relation};
use ondol_types::name::quote;
use ondol_types::{SqlError, SqlResult, known, sqlstate};
use std::cell::RefCell;
use std::sync::Arc;

/// Where names without a schema were found, and in which schema.
pub type Found = RefCell<Vec<(i32, u32)>>;

/// The dictionary, and the path by which names are looked up in it.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    pub catalog: &'a Catalog,
    pub path: &'a Path,
    /// Told of each name of a type or a function that was found by the path.
    pub found: Option<&'a Found>,
}

impl<'a> Names<'a> {
    /// As texts of the dictionary are looked up.
    pub fn public(catalog: &'a Catalog) -> Names<'a> {
        Names { catalog, path: Path::public(), found: None }
    }

    pub fn note(&self, location: i32, schema: u32) {
        if let Some(found) = self.found {
            found.borrow_mut().push((location, schema))
        }
    }

    /// The number of a schema that must be there.
    pub fn schema(&self, name: &str, location: i32) -> SqlResult<u32> {
        match self.catalog.schema(name) {
            Some(schema) => Ok(schema.number),
            None if known::is_schema(name) => {
                Err(at(SqlError::unsupported(format_args!("schema {name}")), location))
            }
            None => Err(at(no_schema(name), location)),
        }
    }

    /// Where something of a name is made: in the schema that is given, or by the path.
    pub fn place(&self, schema: &str, name: &str, location: i32) -> SqlResult<Name> {
        let number = match (schema, self.path.makes_in) {
            ("", Some(number)) => number,
            ("", None) => {
                let message = "no schema has been selected to create in";
                return Err(at(SqlError::new("3F000", message), location));
            }
            (schema, _) => self.schema(schema, location)?,
        };
        if number == TEMPORARY {
            let what = "something else than a table, a view or a sequence in pg_temp";
            return Err(at(SqlError::unsupported(what), location));
        }
        if is_system(number) {
            let schema = self.catalog.schema_name(number);
            let message = format!("permission denied to create \"{schema}.{name}\"");
            return Err(SqlError::new("42501", message)
                .detail("System catalog modifications are currently disallowed."));
        }
        Ok(Name::new(number, name))
    }

    /// The same of a list like `schema.name`.
    pub fn place_of(&self, nodes: &[Node]) -> SqlResult<Name> {
        let (schema, name) = parts(nodes)?;
        self.place(schema.unwrap_or_default(), name, -1)
    }
}

/// The error of something temporary that is to be in another schema.
pub fn elsewhere() -> SqlError {
    let message = "cannot create temporary relation in non-temporary schema";
    SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, message)
}

impl Names<'_> {
    /// The name of the relation that a name means.
    pub fn found_relation(&self, nodes: &[Node]) -> Option<Name> {
        let (schema, name) = parts(nodes).ok()?;
        match schema {
            None => self.catalog.find(self.path, name).map(|f| f.0),
            Some(schema) => Some(Name::new(self.catalog.schema(schema)?.number, name)),
        }
    }
}

pub fn no_schema(name: &str) -> SqlError {
    SqlError::new("3F000", format!("schema \"{name}\" does not exist"))
}

/// `schema.name` or `name`.
pub fn parts(nodes: &[Node]) -> SqlResult<(Option<&str>, &str)> {
    let names = strings(nodes)?;
    match names[..] {
        [name] => Ok((None, name)),
        [schema, name] => Ok((Some(schema), name)),
        [_, _, _] => Err(SqlError::unsupported("a database name before a schema")),
        _ => Err(SqlError::new(
            sqlstate::SYNTAX_ERROR,
            format!("improper qualified name (too many dotted names): {}", names.join(".")),
        )),
    }
}

/// A relation's name as it was written.
pub fn written(v: &RangeVar) -> String {
    if v.schemaname.is_empty() { v.relname.clone() } else { format!("{}.{}", v.schemaname, v.relname) }
}

/// The name of a function as it was written, and where it is looked for.
#[derive(Clone, Copy)]
pub struct Called<'a> {
    pub name: &'a str,
    /// `None`: by the path.
    pub schema: Option<u32>,
    /// The schema as it was written.
    pub prefix: Option<&'a str>,
    /// Whether it may be one of a user's functions.
    pub registered: bool,
}

impl Called<'_> {
    /// Whether it may be a function of PostgreSQL's.
    pub fn may_be_builtin(&self) -> bool {
        matches!(self.schema, None | Some(PG_CATALOG))
    }
    /// As messages have it.
    pub fn written(&self) -> String {
        match self.prefix {
            Some(schema) => format!("{schema}.{}", self.name),
            None => self.name.to_string(),
        }
    }
}

impl<'a> Binder<'a> {
    pub(super) fn names(&self) -> Names<'a> {
        Names { catalog: self.catalog, path: self.path, found: self.found }
    }

    /// What the name of a relation means, if anything.
    pub(super) fn relation_of(&self, v: &RangeVar) -> Option<(Name, &'a Relation)> {
        if v.schemaname.is_empty() {
            return self.catalog.find(self.path, &v.relname);
        }
        let name = Name::new(self.catalog.schema(&v.schemaname)?.number, &*v.relname);
        self.catalog.relations.get(&name).map(|r| (name, r))
    }

    /// The name of a relation that is changed, dropped or read by a statement that has an error for its
    /// schema.
    pub(super) fn relation_name<'r>(&self, relation: &'r Option<RangeVar>) -> SqlResult<&'r RangeVar> {
        let v = relation.as_ref().ok_or_else(|| unexpected("a missing relation"))?;
        refuse_at(!v.catalogname.is_empty(), "a database name before a schema", v.location)?;
        if !v.schemaname.is_empty() && self.catalog.schema(&v.schemaname).is_none() {
            self.names().schema(&v.schemaname, -1)?;
        }
        self.note_written(&v.schemaname);
        Ok(v)
    }

    /// Where a relation is made.
    pub(super) fn new_relation(&self, relation: &Option<RangeVar>) -> SqlResult<Name> {
        let v = relation.as_ref().ok_or_else(|| unexpected("a missing relation"))?;
        refuse_at(!v.catalogname.is_empty(), "a database name before a schema", v.location)?;
        self.names().place(&v.schemaname, &v.relname, v.location)
    }

    /// Where a relation is made that may be temporary.
    pub(super) fn new_place(&self, relation: &Option<RangeVar>) -> SqlResult<Name> {
        let v = relation.as_ref().ok_or_else(|| unexpected("a missing relation"))?;
        let is_own = match (v.relpersistence.as_str(), v.schemaname.as_str()) {
            ("t", "") | (_, "pg_temp") => true,
            ("t", _) => return Err(at(elsewhere(), v.location)),
            (_, "") => self.path.makes_in == Some(TEMPORARY),
            _ => false,
        };
        if is_own && v.relpersistence == "u" {
            let message = "only temporary relations may be created in temporary schemas";
            return Err(at(SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, message), v.location));
        }
        if is_own { Ok(Name::new(TEMPORARY, &*v.relname)) } else { self.new_relation(relation) }
    }

    /// The users' functions that a name may mean.
    pub(super) fn functions(&self, schema: Option<u32>, name: &str) -> Vec<&'a Arc<FunctionDef>> {
        match schema {
            None => self.catalog.find_functions(self.path, name),
            Some(s) => {
                let all = self.catalog.functions.values();
                all.filter(|f| f.schema == s && f.name == name).collect()
            }
        }
    }

    /// The name of a function: `f`, `schema.f`.
    pub(super) fn function_name(&self, nodes: &'a [Node], location: i32) -> SqlResult<Called<'a>> {
        let (prefix, name) = parts(nodes).map_err(|e| at(e, location))?;
        if let (Some("information_schema"), "_pg_expandarray") = (prefix, name) {
            let (name, schema) = (super::set::EXPAND, Some(PG_CATALOG));
            return Ok(Called { name, schema, prefix, registered: false });
        }
        let schema = prefix.map(|s| self.names().schema(s, location)).transpose()?;
        schema.into_iter().for_each(|s| self.note_schema(s));
        let registered = !self.functions(schema, name).is_empty();
        Ok(Called { name, schema, prefix, registered })
    }

    /// The text of an expression as the dictionary keeps it (engine/name/A5); `bind` gives it its meaning.
    pub(super) fn kept_text(
        &self,
        node: &Node,
        bind: &dyn for<'b> Fn(&mut Binder<'b>, &'b Node) -> SqlResult<()>,
    ) -> SqlResult<String> {
        const HEAD: &str = "SELECT ";
        let text = expression_text(node)?;
        if self.path == Path::public() {
            return Ok(text);
        }
        let sql = format!("{HEAD}{text}");
        let raws = parse(&sql)?;
        let target = super::only_target(&raws).ok_or_else(|| unexpected("an expression's text"))?;
        let found = Found::default();
        let mut binder = Binder::new(self.catalog, &sql, &[]).with_path(self.path, self.listed);
        binder.found = Some(&found);
        bind(&mut binder, target)?;
        drop(binder);
        let mut places = found.into_inner();
        // Some is bound more than once.
        places.sort_unstable();
        places.dedup();
        let mut out = text;
        for (location, schema) in places.into_iter().rev() {
            let place = usize::try_from(location).ok().and_then(|p| p.checked_sub(HEAD.len()));
            let Some(place) = place.filter(|p| out.is_char_boundary(*p)) else { continue };
            if schema != ondol_engine::name::PUBLIC {
                out.insert_str(place, &format!("{}.", quote(self.catalog.schema_name(schema))))
            }
        }
        Ok(out)
    }
}
