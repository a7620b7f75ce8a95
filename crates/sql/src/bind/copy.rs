//! COPY: what is copied where, and in which format.

use super::dml::{default_of, target_column};
use super::tree::{at, kind, option_bool, option_text, options, refuse, string, unexpected};
use super::{Binder, accepted, coerce};
use crate::bound::{
    Copy, CopyEnd, CopyFormat, CopyOptions, From, Query, Rel, RelEntry, Statement, TableRef, Target,
    Unrepresentable,
};
use crate::parse::tree::{self, CopyStmt, DefElem, node::Node as Kind};
use ondol_types::{SqlError, SqlResult, sqlstate};

fn bad(option: &DefElem, message: impl Into<String>) -> SqlError {
    at(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message), option.location)
}

/// Whether a query, or the first of several, makes a table.
fn has_into(q: &tree::SelectStmt) -> bool {
    q.into_clause.is_some() || q.larg.as_deref().is_some_and(has_into)
}

impl<'a> Binder<'a> {
    pub(super) fn copy(&mut self, s: &'a CopyStmt) -> SqlResult<Statement> {
        refuse(s.is_program, "COPY from or to a program")?;
        refuse(s.where_clause.is_some(), "COPY ... WHERE")?;
        let format = self.copy_format(s)?;
        let end = if s.filename.is_empty() { CopyEnd::Client } else { CopyEnd::File(s.filename.clone()) };
        if let Some(query) = s.query.as_deref() {
            if let Kind::SelectStmt(q) = kind(query)?
                && has_into(q)
            {
                let message = "COPY (SELECT INTO) is not supported";
                return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
            }
            let Kind::SelectStmt(q) = kind(query)? else {
                return Err(SqlError::unsupported("COPY of a statement that changes rows"));
            };
            if s.is_from {
                return Err(unexpected("COPY (query) FROM"));
            }
            let query = self.settled_select(q)?;
            return Ok(Statement::Copy(Copy::To { query, end, format }));
        }
        let relation = self.relation_name(&s.relation)?;
        self.refuse_view(relation, |name| {
            let error = |what: &str| {
                SqlError::new(sqlstate::WRONG_OBJECT_TYPE, format!("cannot copy {what} view \"{name}\""))
            };
            match s.is_from {
                true => {
                    error("to").hint("To enable copying to a view, provide an INSTEAD OF INSERT trigger.")
                }
                false => error("from").hint("Try the COPY (SELECT ...) TO variant."),
            }
        })?;
        let table = match s.is_from {
            true => self.table(relation)?,
            false => self.any_table(relation)?,
        };
        self.name_foreign(&table);
        if table.def.is_material() {
            let error = |what: &str| {
                let message = format!("cannot copy {what} materialized view \"{}\"", table.def.name);
                SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message)
            };
            return Err(match s.is_from {
                true => error("to"),
                false => error("from").hint("Try the COPY (SELECT ...) TO variant."),
            });
        }
        let mut columns: Vec<u16> = Vec::with_capacity(s.attlist.len());
        for node in &s.attlist {
            let name = string(node)?;
            let column = target_column(&table, name, -1)? as u16;
            if columns.contains(&column) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new(sqlstate::DUPLICATE_COLUMN, message));
            }
            if table.def.columns[usize::from(column)].computed().is_some() {
                let message = format!("column \"{name}\" is a generated column");
                let error = SqlError::new(sqlstate::INVALID_COLUMN_REFERENCE, message);
                return Err(error.detail("Generated columns cannot be used in COPY."));
            }
            columns.push(column);
        }
        if s.attlist.is_empty() {
            let all = table.def.shown().iter().enumerate();
            columns = all.filter(|(_, c)| c.computed().is_none()).map(|(n, _)| n as u16).collect();
        }
        if s.is_from {
            let mut defaults = Vec::new();
            for (i, c) in table.def.shown().iter().enumerate() {
                // Which columns a Parquet file has is not known yet.
                let unknown = s.attlist.is_empty() && matches!(format, CopyFormat::Parquet(_));
                if c.computed().is_none() && (unknown || !columns.contains(&(i as u16))) {
                    defaults.push((i as u16, default_of(self.catalog, c)?));
                }
            }
            return Ok(Statement::Copy(Copy::From {
                table: TableRef(table),
                columns,
                defaults,
                end,
                format,
            }));
        }
        let all: Vec<_> = table.def.shown().iter().map(|c| (c.name.clone(), c.ty)).collect();
        let rel = Rel::Table(table.clone());
        let targets = columns
            .iter()
            .map(|c| {
                let (name, ty) = &all[usize::from(*c)];
                let expr = super::scope::shown_column(&rel, 0, usize::from(*c), *ty);
                Target { expr, name: name.clone(), hidden: false }
            })
            .collect();
        let entry = RelEntry { alias: table.def.name.clone(), rel, columns: all };
        let mut query = Query { rels: vec![entry], from: vec![From::Rel(0)], targets, ..Query::default() };
        coerce::settle_targets(self, &mut query)?;
        Ok(Statement::Copy(Copy::To { query, end, format }))
    }

    fn copy_format(&mut self, s: &'a CopyStmt) -> SqlResult<CopyFormat> {
        let given = options(&s.options)?;
        for (i, o) in given.iter().enumerate() {
            if given[..i].iter().any(|p| p.defname == o.defname) {
                let message = "conflicting or redundant options";
                return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), o.location));
            }
            refuse(!o.defnamespace.is_empty(), "an option of another namespace")?;
        }
        let find = |name: &str| given.iter().copied().find(|o| o.defname == name);
        let text = |name: &str| -> SqlResult<Option<(&DefElem, String)>> {
            let Some(o) = find(name) else { return Ok(None) };
            match option_text(o)? {
                Some(t) => Ok(Some((o, t))),
                None => {
                    let message = format!("{name} requires a parameter");
                    Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), o.location))
                }
            }
        };
        let (csv, binary) = match text("format")? {
            None => (false, false),
            Some((o, f)) => match f.as_str() {
                "text" => (false, false),
                "csv" => (true, false),
                "parquet" => return self.copy_parquet(s, &given),
                "binary" => (false, true),
                other => return Err(bad(o, format!("COPY format \"{other}\" not recognized"))),
            },
        };
        let needs_csv = |o: &DefElem, name: &str| {
            if csv {
                return Ok(());
            }
            let message = format!("COPY {name} available only in CSV mode");
            Err(at(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), o.location))
        };
        let one_byte = |o: &DefElem, name: &str, t: &str| match t.as_bytes() {
            [b] => Ok(*b),
            _ => {
                let message = format!("COPY {name} must be a single one-byte character");
                Err(at(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), o.location))
            }
        };
        let mut c = CopyOptions {
            binary,
            csv,
            header: false,
            delimiter: if csv { b',' } else { b'\t' },
            null: if csv { String::new() } else { "\\N".into() },
            quote: b'"',
            escape: b'"',
            force_quote_all: false,
        };
        for o in &given {
            match o.defname.as_str() {
                "format" => {}
                "freeze" => {
                    if option_bool(o)? {
                        if !s.is_from {
                            let message = "COPY FREEZE cannot be used with COPY TO";
                            return Err(at(
                                SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message),
                                o.location,
                            ));
                        }
                        self.notice(accepted::COPY_FREEZE);
                    }
                }
                "header" => {
                    if option_text(o)?.is_some_and(|t| t.eq_ignore_ascii_case("match")) {
                        return Err(at(SqlError::unsupported("COPY ... HEADER MATCH"), o.location));
                    }
                    c.header = option_bool(o)?;
                }
                "encoding" => {
                    let name = text("encoding")?.map(|t| t.1).unwrap_or_default();
                    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
                    if !matches!(plain.to_ascii_lowercase().as_str(), "utf8" | "unicode") {
                        let feature = format!("COPY in encoding \"{name}\"");
                        return Err(at(SqlError::unsupported(feature), o.location));
                    }
                }
                "delimiter" | "null" | "quote" | "escape" => {}
                "force_quote" => {
                    needs_csv(o, "force quote")?;
                    if s.is_from {
                        let message = "COPY force quote only available using COPY TO";
                        return Err(at(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), o.location));
                    }
                    match o.arg.as_deref().map(kind).transpose()? {
                        Some(Kind::AStar(_)) => c.force_quote_all = true,
                        _ => {
                            return Err(at(SqlError::unsupported("FORCE_QUOTE of some columns"), o.location));
                        }
                    }
                }
                "unrepresentable" => {
                    let message = "COPY unrepresentable available only in Parquet";
                    return Err(at(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), o.location));
                }
                "force_not_null"
                | "force_null"
                | "on_error"
                | "log_verbosity"
                | "reject_limit"
                | "default"
                | "convert_selectively" => {
                    let feature = format!("COPY option {}", o.defname.to_ascii_uppercase());
                    return Err(at(SqlError::unsupported(feature), o.location));
                }
                other => {
                    let message = format!("option \"{other}\" not recognized");
                    return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), o.location));
                }
            }
        }
        for (name, shown) in [("delimiter", "DELIMITER"), ("null", "NULL")] {
            if let Some(o) = find(name).filter(|_| binary) {
                let message = format!("cannot specify {shown} in BINARY mode");
                return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), o.location));
            }
        }
        if binary && c.header {
            let message = "cannot specify HEADER in BINARY mode";
            return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
        }
        let delimiter = text("delimiter")?;
        if let Some((o, t)) = &delimiter {
            c.delimiter = one_byte(o, "delimiter", t)?;
            if matches!(c.delimiter, b'\n' | b'\r') {
                return Err(bad(o, "COPY delimiter cannot be newline or carriage return"));
            }
            if !csv && b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&c.delimiter) {
                return Err(bad(o, format!("COPY delimiter cannot be \"{t}\"")));
            }
        }
        if let Some((o, t)) = text("null")? {
            if t.contains(['\n', '\r']) {
                return Err(bad(o, "COPY null representation cannot use newline or carriage return"));
            }
            if t.as_bytes().contains(&c.delimiter) {
                let message = "COPY delimiter must not appear in the NULL specification";
                return Err(at(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), o.location));
            }
            c.null = t;
        }
        if let Some((o, t)) = text("quote")? {
            needs_csv(o, "quote")?;
            c.quote = one_byte(o, "quote", &t)?;
            c.escape = c.quote;
        }
        if csv && c.delimiter == c.quote {
            let message = "COPY delimiter and quote must be different";
            return Err(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message));
        }
        if let Some((o, t)) = text("escape")? {
            needs_csv(o, "escape")?;
            c.escape = one_byte(o, "escape", &t)?;
        }
        if csv && c.null.as_bytes().contains(&c.quote) {
            let message = "CSV quote character must not appear in the NULL specification";
            return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
        }
        Ok(CopyFormat::Text(c))
    }

    /// FORMAT parquet, which PostgreSQL does not have.
    fn copy_parquet(&mut self, s: &CopyStmt, given: &[&DefElem]) -> SqlResult<CopyFormat> {
        let mut unrepresentable = Unrepresentable::Error;
        for o in given {
            match o.defname.as_str() {
                "format" => {}
                "freeze" if s.is_from => {
                    if option_bool(o)? {
                        self.notice(accepted::COPY_FREEZE);
                    }
                }
                "unrepresentable" if s.is_from => {
                    return Err(bad(o, "COPY unrepresentable only available using COPY TO"));
                }
                "unrepresentable" => {
                    unrepresentable = match option_text(o)?.unwrap_or_default().to_ascii_lowercase().as_str()
                    {
                        "error" => Unrepresentable::Error,
                        "null" => Unrepresentable::Null,
                        "text" => Unrepresentable::Text,
                        other => {
                            let message = format!("COPY unrepresentable \"{other}\" not recognized");
                            return Err(bad(o, message).hint("Available values: error, null, text."));
                        }
                    }
                }
                other => {
                    let message = format!("COPY {} is not available in Parquet", other.replace('_', " "));
                    return Err(at(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), o.location));
                }
            }
        }
        Ok(CopyFormat::Parquet(unrepresentable))
    }
}
