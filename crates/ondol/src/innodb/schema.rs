//! The tables of a database of MySQL's or MariaDB's as foreign tables: IMPORT FOREIGN SCHEMA.
//!
//! - **S1** Each file is opened, and what shows that it was at rest is looked for: what cannot be read is not
//!   made a table, and told with the reason.
//! - **S2** A table has the columns that `innodb_scan` gives, the primary key if it is of whole columns, and
//!   the comments. What it has not of the table there is told.
use crate::innodb::{failed, open_files};
use crate::session::Session;
use ondol_engine::name::is_system;
use ondol_engine::{
    Access, ColumnDef, CommentKind, Commented, ForeignSource, IndexColumn, IndexKind, Isolation, Name, Nature,
};
use ondol_innodb::error::{Error, Kind};
use ondol_innodb::evidence::OpenFiles;
use ondol_innodb::folder::{Absent, Database, TableFiles};
use ondol_sql::bound::{ImportLimit, NewIndex};
use ondol_sql::foreign::{ForeignTable, INNODB, PATH, call};
use ondol_types::known::is_system_column;
use ondol_types::name::quote;
use ondol_types::{SqlError, SqlResult};
use std::path::{Path, PathBuf};

/// Bytes in a name.
const MAX_NAME: usize = 63;
/// Columns of a table.
const MAX_COLUMNS: usize = 1600;

/// What became of a database's tables.
#[derive(Clone, Debug, Default)]
pub struct ImportedSchema {
    /// The schema here.
    pub name: String,
    pub tables: usize,
    /// Tables that are not there, and parts of some that are: each with its reason.
    pub left_out: Vec<Absent>,
}

impl Session {
    /// Makes foreign tables of all of a server's databases, each in a schema of its name: `folder` is the
    /// data folder of a server that was shut down, a backup or a folder of snapshots. `options` are those of
    /// the tables. What is there before it stays.
    pub fn import_innodb_folder(
        &mut self,
        folder: &Path,
        options: &[(String, String)],
    ) -> SqlResult<Vec<ImportedSchema>> {
        let source = ForeignSource { server: INNODB.into(), options: options.to_vec() };
        let databases = ondol_innodb::folder::databases(folder).map_err(failed)?;
        databases.iter().map(|d| self.import_whole(d, &source)).collect()
    }

    fn import_whole(&mut self, database: &Database, source: &ForeignSource) -> SqlResult<ImportedSchema> {
        let made = self.execute(&format!("CREATE SCHEMA IF NOT EXISTS {}", quote(&database.name)));
        let number = self.connection.catalog().schema(&database.name).map(|s| s.number);
        let number = match (made, number) {
            (Ok(_), Some(number)) if !is_system(number) => number,
            (Err(e), _) if !e.sqlstate().starts_with("42") => return Err(e),
            (made, _) => {
                let why =
                    made.err().map_or("it is one of the catalogue's".to_string(), |e| e.0.message.clone());
                let reason = format!("no schema can have the database's name: {why}");
                let all = database.tables.iter().map(|t| (&t.name, &t.file));
                let all = all.chain(database.absent.iter().map(|a| (&a.name, &a.file)));
                let out = |(name, file): (&String, &PathBuf)| Absent {
                    name: name.clone(),
                    file: file.clone(),
                    reason: reason.clone(),
                };
                let left_out = all.map(out).collect();
                return Ok(ImportedSchema { name: database.name.clone(), tables: 0, left_out });
            }
        };
        self.timed(|s| {
            s.connection.begin(Isolation::ReadCommitted, Access::ReadWrite)?;
            let done = s.import_database(database, source, number, &|_| true, true).and_then(|done| {
                s.connection.commit()?;
                Ok(done)
            });
            done.inspect_err(|_| {
                s.connection.abort_statement();
                s.connection.rollback()
            })
        })
    }

    /// Makes foreign tables of a database's, whose folder is `remote`, in the schema `into`.
    pub(crate) fn import_foreign_schema(
        &mut self,
        remote: &str,
        source: &ForeignSource,
        into: u32,
        limit: &ImportLimit,
    ) -> SqlResult<ImportedSchema> {
        let database = Database::of(Path::new(remote)).map_err(failed)?;
        if database.tables.is_empty() && database.absent.is_empty() {
            let message =
                format!("\"{remote}\" has no tables: expected the folder of a database, with TABLE.ibd");
            return Err(SqlError::new("HV00R", message)
                .hint("IMPORT FOREIGN SCHEMA \"/…/mysql/shop\" FROM SERVER innodb INTO shop"));
        }
        let is_wanted = |name: &str| match limit {
            ImportLimit::All => true,
            ImportLimit::To(names) => names.iter().any(|n| n == name),
            ImportLimit::Except(names) => !names.iter().any(|n| n == name),
        };
        let done = self.import_database(&database, source, into, &is_wanted, false)?;
        for out in &done.left_out {
            self.warn("01000", format!("{}: {}", out.name, out.reason))
        }
        Ok(done)
    }

    /// The same of a database that was looked up. `is_whole`: a name that is taken already is a reason to
    /// leave a table out, and no error.
    pub(crate) fn import_database(
        &mut self,
        database: &Database,
        source: &ForeignSource,
        into: u32,
        is_wanted: &dyn Fn(&str) -> bool,
        is_whole: bool,
    ) -> SqlResult<ImportedSchema> {
        let mut done = ImportedSchema { name: database.name.clone(), ..ImportedSchema::default() };
        done.left_out.extend(database.absent.iter().filter(|a| is_wanted(&a.name)).cloned());
        let mut others = OpenFiles::now();
        for table in database.tables.iter().filter(|t| is_wanted(&t.name)) {
            self.check_cancel()?;
            let reason =
                |reason: String| Absent { name: table.name.clone(), file: table.file.clone(), reason };
            others.refresh();
            let is_there =
                is_whole && self.connection.catalog().relations.contains_key(&Name::new(into, &*table.name));
            match described(table, source, &others) {
                Ok(_) if is_there => done.left_out.push(reason("another relation has its name".into())),
                Ok(found) => {
                    self.make_foreign(table, source, into, &found)?;
                    done.tables += 1;
                    done.left_out.extend(found.left_out.into_iter().map(reason))
                }
                // What was cancelled, or has no memory, is no reason of the file's.
                Err(e) if matches!(&e.sqlstate()[..2], "57" | "53") => return Err(e),
                Err(e) => done.left_out.push(reason(e.0.message.clone())),
            }
        }
        Ok(done)
    }

    fn make_foreign(
        &mut self,
        table: &TableFiles,
        source: &ForeignSource,
        into: u32,
        found: &Described,
    ) -> SqlResult<()> {
        let name = Name::new(into, &*table.name);
        let mut options = vec![(PATH.to_string(), table.file.display().to_string())];
        options.extend(found.options.iter().cloned());
        let nature = Nature {
            source: Some(ForeignSource { server: source.server.clone(), options }),
            ..Nature::default()
        };
        let keys = found.key.as_slice();
        self.create_table(&name, &found.columns, (keys, &[], &[]), nature, false)?;
        let catalog = self.connection.catalog();
        let id = catalog.table(&name).map(|t| t.def.id);
        let Some(id) = id else { return Ok(()) };
        let mut comment = |kind, part: &str, text: &str| {
            if text.is_empty() {
                return Ok(());
            }
            let on = Commented::part(kind, id, part);
            self.connection.comment(&on, Some(text), |_| Vec::new())
        };
        comment(CommentKind::Relation, "", &found.comment)?;
        for (column, text) in &found.comments {
            comment(CommentKind::Column, column, text)?
        }
        Ok(())
    }
}

/// What is known of a table.
struct Described {
    options: Vec<(String, String)>,
    columns: Vec<ColumnDef>,
    key: Option<NewIndex>,
    comment: String,
    /// Of columns.
    comments: Vec<(String, String)>,
    left_out: Vec<String>,
}

fn described(table: &TableFiles, source: &ForeignSource, others: &OpenFiles) -> SqlResult<Described> {
    let open = |of_table: &[(String, String)]| {
        let mut options = vec![(PATH.to_string(), table.file.display().to_string())];
        options.extend_from_slice(of_table);
        let (function, arguments) = call(&ForeignSource { server: source.server.clone(), options })?;
        open_files(function, &arguments, others)
    };
    // History is for tables that have one.
    let plain: Vec<_> = source.options.iter().filter(|(name, _)| name != "history").cloned().collect();
    let mut files = open(&plain)?;
    let has_history = files.first().is_some_and(|f| f.scan().definition().table.period.is_some());
    let options = match has_history && plain.len() < source.options.len() {
        true => {
            files = open(&source.options)?;
            source.options.clone()
        }
        false => plain,
    };
    let Some(open) = files.first() else {
        return Err(failed(Error::new(&table.file, Kind::Io, "it has no file")));
    };
    let long = |what: &str, name: &str| {
        let message = format!("{what} \"{name}\" has no name here: expected 1 to {MAX_NAME} bytes");
        Err(SqlError::new("42602", message))
    };
    if table.name.is_empty() || table.name.len() > MAX_NAME {
        return long("the table", &table.name);
    }
    if open.columns().len() > MAX_COLUMNS {
        let message = format!("it has {} columns, {MAX_COLUMNS} are possible", open.columns().len());
        return Err(SqlError::new("54011", message));
    }
    let primary = open.primary();
    let mut columns = Vec::with_capacity(open.columns().len());
    for (name, ty) in open.columns() {
        if name.is_empty() || name.len() > MAX_NAME {
            return long("the column", name);
        }
        if is_system_column(name) {
            let message = format!("its column \"{name}\" has the name of a system column");
            return Err(SqlError::new("42701", message));
        }
        columns.push(ColumnDef::new(name, *ty))
    }
    let place = |name: &&str| columns.iter().position(|c| c.name == *name);
    let places: Option<Vec<usize>> = primary.iter().map(place).collect();
    let key = places.filter(|p| !p.is_empty()).map(|places| NewIndex {
        name: None,
        kind: IndexKind::Btree,
        unique: true,
        primary: true,
        constraint: true,
        columns: places
            .into_iter()
            .map(|column| IndexColumn { column, desc: false, nulls_first: false })
            .collect(),
        options: Default::default(),
    });
    let there = &open.scan().definition().table;
    for (c, own) in columns.iter_mut().zip(open.definitions()) {
        // Where zero dates are NULL they are in no key.
        c.not_null = own.not_null || primary.contains(&&*c.name)
    }
    let is_here = |name: &str| columns.iter().any(|c| c.name == name);
    let told = there.columns.iter().filter(|c| !c.comment.is_empty() && is_here(&c.name));
    let comments = told.map(|c| (c.name.clone(), c.comment.clone())).collect();
    let comment = there.comment.clone();
    let virtual_columns = ondol_innodb::export::virtual_columns(open.scan());
    let why = |name: &&str| format!("its column {name} is virtual: no file holds it");
    let virtual_columns = virtual_columns.iter().map(why).collect();
    Ok(Described { options, left_out: virtual_columns, columns, key, comment, comments })
}
