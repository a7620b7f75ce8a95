//! Tables that are read from where the engine's are not: what a function in FROM that reads such a one has to
//! give.
//!
//! - **F1** What is found when a statement is bound (columns, types, files that are open) is the statement's
//!   alone: no plan with such a table is kept, and no registered query can have one.
//! - **F2** A range of the key is a wish. Rows outside of it may come, and each row's conditions are
//!   evaluated whatever was wished.
//! - **F3** Rows come one at a time and are not kept here.
//! - **F4** What is read can be cut into parts, which several threads read; one after the other they are the
//!   whole, in its order.
use ondol_engine::{ForeignSource, TableDef};
use ondol_types::{SqlError, SqlResult, Type, Value, ValueRef, sqlstate};
use std::ops::Range;
use std::sync::Arc;

/// The functions in FROM that read such tables.
pub const FUNCTIONS: &[&str] = &["innodb_scan"];

/// The servers of foreign tables, with the functions that read theirs. A table's option [`PATH`] is the
/// function's first argument; its other options are arguments with these names.
pub const SERVERS: &[(&str, &str)] = &[(INNODB, "innodb_scan")];
pub const INNODB: &str = "innodb";
pub const PATH: &str = "path";

/// An argument as it was written: a name, if one was given, and a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    pub name: Option<String>,
    /// `None`: NULL.
    pub value: Option<String>,
}

/// Whoever knows such tables.
pub trait Foreign {
    /// Opens the table that one of [`FUNCTIONS`] reads.
    fn open(&self, function: &str, arguments: &[Argument]) -> SqlResult<Arc<dyn ForeignTable>>;
}

/// A table that is open.
pub trait ForeignTable: Send + Sync {
    /// For EXPLAIN.
    fn name(&self) -> String;
    /// What whoever reads it should know: a NOTICE each time a statement is bound.
    fn notice(&self) -> Option<String> {
        None
    }
    fn columns(&self) -> &[(String, Type)];
    /// A guess.
    fn estimate_rows(&self) -> f64;
    /// How large it is, in pages of 4 KiB.
    fn pages(&self) -> usize;
    /// The column of which a range can be wished.
    fn key(&self) -> Option<u16>;
    /// The columns of the primary key, if it has one.
    fn primary(&self) -> Vec<&str> {
        Vec::new()
    }
    /// What is to be read: the values of `columns`, and of `low` to `high` of the key, both included, NULL
    /// being open. A bound that is of no use is ignored. Cut into so many `parts` at least, if it can be.
    fn range(
        &self,
        columns: &[u16],
        low: &Value,
        high: &Value,
        parts: usize,
    ) -> SqlResult<Arc<dyn ForeignRange>>;
}

/// Opens a foreign table of the dictionary: its columns have to be there, with their types, and its primary
/// key has to be the one there.
pub fn open(foreign: &dyn Foreign, def: &TableDef) -> SqlResult<Arc<dyn ForeignTable>> {
    let Some(source) = &def.nature.source else {
        return Err(SqlError::new(sqlstate::INTERNAL_ERROR, format!("{} is no foreign table", def.name)));
    };
    let (function, arguments) = call(source)?;
    let there = foreign.open(function, &arguments)?;
    let other = |message: String| {
        SqlError::new(
            "55000",
            format!("foreign table \"{}\" is another than {}: {message}", def.name, there.name()),
        )
        .hint("Drop it, and make it anew by IMPORT FOREIGN SCHEMA.")
    };
    let mut places = Vec::with_capacity(def.columns.len());
    for c in &def.columns {
        match there.columns().iter().position(|(name, _)| *name == c.name) {
            None => return Err(other(format!("there is no column \"{}\" there", c.name))),
            Some(n) if there.columns()[n].1 != c.ty => {
                let found = there.columns()[n].1;
                return Err(other(format!("column \"{}\" is {}, and {found} there", c.name, c.ty)));
            }
            Some(n) => places.push(n as u16),
        }
    }
    if let Some(key) = def.indexes.iter().find(|i| i.primary) {
        let own: Vec<&str> = key.keys().iter().map(|k| &*def.columns[k.column].name).collect();
        let theirs = there.primary();
        if own != theirs {
            let list = |names: &[&str]| if names.is_empty() { "none".into() } else { names.join(", ") };
            return Err(other(format!("its primary key is {}, and there {}", list(&own), list(&theirs))));
        }
    }
    let columns = def.columns.iter().map(|c| (c.name.clone(), c.ty)).collect();
    Ok(Arc::new(Named { there, places, columns }))
}

pub fn no_server(name: &str) -> SqlError {
    let known: Vec<&str> = SERVERS.iter().map(|s| s.0).collect();
    SqlError::new(sqlstate::UNDEFINED_OBJECT, format!("server \"{name}\" does not exist"))
        .hint(format!("Those of foreign tables are built in: {}.", known.join(", ")))
}

/// The function that reads a source, and its arguments.
pub fn call(source: &ForeignSource) -> SqlResult<(&'static str, Vec<Argument>)> {
    let Some((_, function)) = SERVERS.iter().find(|(name, _)| *name == source.server) else {
        return Err(no_server(&source.server));
    };
    let is_path = |o: &&(String, String)| o.0 == PATH;
    let path = source.options.iter().find(is_path).map(|o| Argument { name: None, value: Some(o.1.clone()) });
    let others = source.options.iter().filter(|o| !is_path(o));
    let others = others.map(|(n, v)| Argument { name: Some(n.clone()), value: Some(v.clone()) });
    Ok((function, path.into_iter().chain(others).collect()))
}

/// A table that has some of another's columns, by their names.
struct Named {
    there: Arc<dyn ForeignTable>,
    places: Vec<u16>,
    columns: Vec<(String, Type)>,
}

impl ForeignTable for Named {
    fn name(&self) -> String {
        self.there.name()
    }
    fn notice(&self) -> Option<String> {
        self.there.notice()
    }
    fn columns(&self) -> &[(String, Type)] {
        &self.columns
    }
    fn estimate_rows(&self) -> f64 {
        self.there.estimate_rows()
    }
    fn pages(&self) -> usize {
        self.there.pages()
    }
    fn key(&self) -> Option<u16> {
        let key = self.there.key()?;
        self.places.iter().position(|p| *p == key).map(|p| p as u16)
    }
    fn range(
        &self,
        columns: &[u16],
        low: &Value,
        high: &Value,
        parts: usize,
    ) -> SqlResult<Arc<dyn ForeignRange>> {
        let there: Vec<u16> = columns.iter().map(|c| self.places[usize::from(*c)]).collect();
        // Without the key among the columns nobody wishes a range of it.
        self.there.range(&there, low, high, parts)
    }
}

/// What is to be read of such a table.
pub trait ForeignRange: Send + Sync {
    fn parts(&self) -> usize;
    /// Begins to read these parts.
    fn rows(&self, parts: Range<usize>) -> Box<dyn ForeignRows>;
}

/// Asks whether to go on; the error ends the reading.
pub type GoOn<'a> = &'a dyn Fn() -> SqlResult<()>;

/// Rows that are being read. After an error there are none.
pub trait ForeignRows: Send {
    /// Gives the values of the next row to `put`, with the places of their columns in the list that was
    /// wanted. False: there are no more rows.
    fn next(&mut self, go_on: GoOn<'_>, put: &mut dyn FnMut(usize, ValueRef<'_>)) -> SqlResult<bool>;
    /// How many rows are left, which are not looked at; by so many threads beside this one.
    fn count(&mut self, workers: usize, go_on: GoOn<'_>) -> SqlResult<u64>;
}
