//! CREATE, ALTER and DROP SEQUENCE, and the options of identity columns' sequences.
//!
//! What the options come to depends on the sequence as it is when the statement runs: they are kept as they
//! were said ([`SequenceChanges`]), and applied then.

use super::tree::{at, kind, need, options, strings, unexpected};
use super::types::bind_type;
use super::{Binder, name_of};
use crate::bound::{Expr, ExprKind, NewSequence, SequenceOf, Statement, walk_expr};
use crate::parse::lexer::{TokenKind, Tokens};
use crate::parse::tree::{self, DefElem, DropBehavior, Node, node::Node as Kind};
use ondol_engine::name::PUBLIC;
use ondol_engine::sequence::{begin, sequence_named};
use ondol_engine::{Bounds, Catalog, ColumnDef, Name, Path, Relation, SequenceOptions};
use ondol_types::func::{self, FuncId};
use ondol_types::name;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, sqlstate};

/// A value to which an option sets a bound: `None` is NO MINVALUE, NO MAXVALUE, or RESTART without a value.
type Set = Option<Option<i64>>;

/// The options of a statement, as they were said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SequenceChanges {
    pub ty: Option<TypeId>,
    pub increment: Option<i64>,
    pub min: Set,
    pub max: Set,
    pub start: Option<i64>,
    pub cache: Option<i64>,
    pub cycle: Option<bool>,
    pub restart: Set,
    /// Of an identity column's sequence.
    pub identity: bool,
}

/// What a sequence goes with: OWNED BY.
#[derive(Clone, Debug, PartialEq)]
pub enum Owner {
    None,
    Column { table: Name, column: String },
}

/// What a sequence has given out: durability's pair and the value.
pub type Given = ondol_engine::sequence::Given;

fn wrong(message: String) -> SqlError {
    SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

/// The least and the greatest value of a type.
fn range_of(ty: TypeId) -> (i64, i64) {
    match ty {
        TypeId::INT2 => (i16::MIN.into(), i16::MAX.into()),
        TypeId::INT4 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

impl SequenceChanges {
    /// Whether nothing is said about how the values go on.
    pub fn is_empty(&self) -> bool {
        *self == SequenceChanges { identity: self.identity, ..SequenceChanges::default() }
    }

    /// What is said later counts.
    pub fn then(self, later: SequenceChanges) -> SequenceChanges {
        SequenceChanges {
            ty: later.ty.or(self.ty),
            increment: later.increment.or(self.increment),
            min: later.min.or(self.min),
            max: later.max.or(self.max),
            start: later.start.or(self.start),
            cache: later.cache.or(self.cache),
            cycle: later.cycle.or(self.cycle),
            restart: later.restart.or(self.restart),
            identity: self.identity,
        }
    }

    /// What a new sequence is, or one that was `old` and has given out so much, and where its counter begins.
    pub fn apply(&self, old: Option<(&SequenceOptions, Given)>) -> SqlResult<(SequenceOptions, Given)> {
        let ty = self.ty.or(old.map(|o| o.0.ty)).unwrap_or(TypeId::INT8);
        if !matches!(ty, TypeId::INT2 | TypeId::INT4 | TypeId::INT8) {
            let what = if self.identity { "identity column" } else { "sequence" };
            return Err(wrong(format!("{what} type must be smallint, integer, or bigint")));
        }
        let (least, greatest) = range_of(ty);
        // The bounds of the former type become those of the new one.
        let (mut new_min, mut new_max) = (false, false);
        if let Some((o, _)) = old.filter(|_| self.ty.is_some()) {
            let (least, greatest) = range_of(o.ty);
            (new_min, new_max) = (o.bounds.min == least, o.bounds.max == greatest)
        }
        let increment = self.increment.or(old.map(|o| o.0.bounds.increment)).unwrap_or(1);
        if increment == 0 {
            return Err(wrong("INCREMENT must not be zero".into()));
        }
        let cycle = self.cycle.or(old.map(|o| o.0.bounds.cycle)).unwrap_or(false);
        let max = match (self.max, old) {
            (Some(Some(max)), _) => max,
            (None, Some((o, _))) if !new_max => o.bounds.max,
            _ if increment > 0 || new_max => greatest,
            _ => -1,
        };
        let out_of_type = |what: &str, value: i64| {
            let ty = name_of(ty);
            wrong(format!("{what} ({value}) is out of range for sequence data type {ty}"))
        };
        if max < least || max > greatest {
            return Err(out_of_type("MAXVALUE", max));
        }
        let min = match (self.min, old) {
            (Some(Some(min)), _) => min,
            (None, Some((o, _))) if !new_min => o.bounds.min,
            _ if increment < 0 || new_min => least,
            _ => 1,
        };
        if min < least || min > greatest {
            return Err(out_of_type("MINVALUE", min));
        }
        if min >= max {
            return Err(wrong(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
        }
        let start = match (self.start, old) {
            (Some(start), _) => start,
            (None, Some((o, _))) => o.start,
            (None, None) if increment > 0 => min,
            (None, None) => max,
        };
        let within = |what: &str, value: i64| {
            if value < min {
                return Err(wrong(format!("{what} value ({value}) cannot be less than MINVALUE ({min})")));
            }
            if value > max {
                return Err(wrong(format!("{what} value ({value}) cannot be greater than MAXVALUE ({max})")));
            }
            Ok(())
        };
        within("START", start)?;
        let initial = match (self.restart, old) {
            (Some(restart), _) => begin(restart.unwrap_or(start), false),
            (None, Some((_, given))) => begin(given.value, given.steps > 0),
            (None, None) => begin(start, false),
        };
        within("RESTART", initial.value)?;
        let cache = self.cache.or(old.map(|o| o.0.cache)).unwrap_or(1);
        if cache <= 0 {
            return Err(wrong(format!("CACHE ({cache}) must be greater than zero")));
        }
        Ok((SequenceOptions { ty, start, bounds: Bounds { increment, min, max, cycle }, cache }, initial))
    }
}

/// The number of an option.
fn number(o: &DefElem) -> SqlResult<Option<i64>> {
    let Some(arg) = o.arg.as_deref() else { return Ok(None) };
    match kind(arg)? {
        Kind::Integer(i) => Ok(Some(i.ival.into())),
        Kind::Float(f) => f.fval.parse().map(Some).map_err(|_| {
            let message = match f.fval.contains(['.', 'e', 'E']) {
                true => format!("invalid input syntax for type bigint: \"{}\"", f.fval),
                false => format!("value \"{}\" is out of range for type bigint", f.fval),
            };
            let state = match f.fval.contains(['.', 'e', 'E']) {
                true => sqlstate::INVALID_TEXT_REPRESENTATION,
                false => sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
            };
            SqlError::new(state, message)
        }),
        _ => Err(at(
            SqlError::new(sqlstate::SYNTAX_ERROR, format!("{} requires a numeric value", o.defname)),
            o.location,
        )),
    }
}

impl<'a> Binder<'a> {
    /// The options of a sequence, its owner, and the name that an identity column gives it.
    pub(super) fn sequence_options(
        &self,
        nodes: &'a [Node],
        identity: bool,
    ) -> SqlResult<(SequenceChanges, Option<Owner>, Option<Name>)> {
        let mut changes = SequenceChanges { identity, ..SequenceChanges::default() };
        let (mut owner, mut named) = (None, None);
        let mut seen: Vec<&str> = Vec::new();
        for o in options(nodes)? {
            let what = o.defname.as_str();
            if seen.contains(&what) {
                let error = SqlError::new(sqlstate::SYNTAX_ERROR, "conflicting or redundant options");
                return Err(at(error, o.location));
            }
            seen.push(what);
            let value = |o: &DefElem| number(o)?.ok_or_else(|| unexpected("an option without a value"));
            match what {
                "as" => {
                    let Kind::TypeName(t) = kind(need(&o.arg)?)? else { return Err(unexpected("AS")) };
                    changes.ty = Some(bind_type(self.names(), t)?.id)
                }
                "increment" => changes.increment = Some(value(o)?),
                "start" => changes.start = Some(value(o)?),
                "restart" => changes.restart = Some(number(o)?),
                "maxvalue" => changes.max = Some(number(o)?),
                "minvalue" => changes.min = Some(number(o)?),
                "cache" => changes.cache = Some(value(o)?),
                "cycle" => {
                    let Kind::Boolean(b) = kind(need(&o.arg)?)? else { return Err(unexpected("CYCLE")) };
                    changes.cycle = Some(b.boolval)
                }
                "owned_by" => {
                    let Kind::List(names) = kind(need(&o.arg)?)? else { return Err(unexpected("OWNED BY")) };
                    owner = Some(self.owner(&strings(&names.items)?)?)
                }
                "sequence_name" if identity => {
                    let Kind::List(names) = kind(need(&o.arg)?)? else {
                        return Err(unexpected("SEQUENCE NAME"));
                    };
                    named = Some(self.names().place_of(&names.items)?)
                }
                "sequence_name" => {
                    let error =
                        SqlError::new(sqlstate::SYNTAX_ERROR, "invalid sequence option SEQUENCE NAME");
                    return Err(at(error, o.location));
                }
                "logged" | "unlogged" => {
                    return Err(at(SqlError::unsupported("an UNLOGGED sequence"), o.location));
                }
                // Of ALTER COLUMN ... SET: the caller's.
                "generated" if identity => {}
                other => return Err(unexpected(other)),
            }
        }
        Ok((changes, owner, named))
    }

    /// The type that serial and its kin stand for.
    pub(super) fn serial_type(&self, name: &'a tree::TypeName) -> SqlResult<Option<TypeId>> {
        let [only] = strings(&name.names)?[..] else { return Ok(None) };
        let ty = match only {
            "smallserial" | "serial2" => TypeId::INT2,
            "serial" | "serial4" => TypeId::INT4,
            "bigserial" | "serial8" => TypeId::INT8,
            _ => return Ok(None),
        };
        if !name.array_bounds.is_empty() {
            let error = SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, "array of serial is not implemented");
            return Err(at(error, name.location));
        }
        Ok(Some(ty))
    }

    pub(super) fn serial_sequence(&self, ty: TypeId) -> NewSequence {
        let changes = SequenceChanges { ty: Some(ty), ..SequenceChanges::default() };
        NewSequence { column: 0, name: None, changes, of: SequenceOf::Serial }
    }

    /// GENERATED AS IDENTITY of a column of that type.
    pub(super) fn identity_sequence(&self, k: &'a tree::Constraint, ty: TypeId) -> SqlResult<NewSequence> {
        let (mut changes, owner, name) = self.sequence_options(&k.options, true)?;
        if changes.ty.is_some() {
            let error = SqlError::new(sqlstate::SYNTAX_ERROR, "conflicting or redundant options");
            let said = options(&k.options)?.into_iter().find(|o| o.defname == "as");
            return Err(at(error, said.map_or(k.location, |o| o.location)));
        }
        if owner.is_some() {
            let error =
                SqlError::new(sqlstate::SYNTAX_ERROR, "sequence option \"owned by\" not supported here");
            return Err(at(error, k.location));
        }
        changes.ty = Some(ty);
        changes.apply(None)?;
        let always = k.generated_when == "a";
        Ok(NewSequence { column: 0, name, changes, of: SequenceOf::Identity { always } })
    }

    fn owner(&self, names: &[&str]) -> SqlResult<Owner> {
        let (schema, table, column) = match names {
            ["none"] => return Ok(Owner::None),
            [table, column] => ("", *table, *column),
            [schema, table, column] => (*schema, *table, *column),
            _ => {
                return Err(SqlError::new(sqlstate::SYNTAX_ERROR, "invalid OWNED BY option")
                    .hint("Specify OWNED BY table.column or OWNED BY NONE."));
            }
        };
        let found = match schema {
            "" => self.catalog.find(self.path, table),
            schema => {
                let name = Name::new(self.names().schema(schema, -1)?, table);
                self.catalog.relations.get(&name).map(|r| (name, r))
            }
        };
        let what = match &found {
            Some((_, Relation::Table(t))) if t.def.is_material() => "materialized views",
            Some((_, Relation::Table(_))) => "",
            Some((_, Relation::Index { .. })) => "indexes",
            Some((_, Relation::Sequence(_))) => "sequences",
            Some((_, Relation::View(_))) => "views",
            None => {
                let message = format!("relation \"{table}\" does not exist");
                return Err(SqlError::new(sqlstate::UNDEFINED_TABLE, message));
            }
        };
        let as_table = |r: &'a Relation| r.table().filter(|t| !t.def.is_material());
        let Some((name, Some(found))) = found.map(|(n, r)| (n, as_table(r))) else {
            let message = format!("sequence cannot be owned by relation \"{table}\"");
            return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message)
                .detail(format!("This operation is not supported for {what}.")));
        };
        if found.def.column(column).is_none() {
            let message = format!("column \"{column}\" of relation \"{table}\" does not exist");
            return Err(SqlError::new(sqlstate::UNDEFINED_COLUMN, message));
        }
        Ok(Owner::Column { table: name, column: column.to_string() })
    }

    /// A sequence is in the schema of the table that it goes with.
    fn same_schema(owner: &Option<Owner>, sequence: &Name) -> SqlResult<()> {
        match owner {
            Some(Owner::Column { table, .. }) if table.schema != sequence.schema => {
                Err(SqlError::new("55000", "sequence must be in same schema as table it is linked to"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn create_sequence(&mut self, s: &'a tree::CreateSeqStmt) -> SqlResult<Statement> {
        let name = self.new_place(&s.sequence)?;
        if !s.if_not_exists {
            self.no_such_relation(&name)?;
            self.no_such_type(&name)?;
        } else if self.no_such_relation(&name).is_err() {
            let notice = format!("relation \"{}\" already exists, skipping", name.name);
            self.notices.push((sqlstate::DUPLICATE_TABLE, notice));
            return Ok(Statement::Nothing { tag: "CREATE SEQUENCE", notice: String::new() });
        }
        let (changes, owner, _) = self.sequence_options(&s.options, s.for_identity)?;
        changes.apply(None)?;
        Self::same_schema(&owner, &name)?;
        let unlogged = super::ddl::is_unlogged(&s.sequence);
        Ok(Statement::CreateSequence { name, changes, owner, unlogged })
    }

    pub(super) fn alter_sequence(&mut self, s: &'a tree::AlterSeqStmt) -> SqlResult<Statement> {
        let relation = s.sequence.as_ref().ok_or_else(|| unexpected("ALTER SEQUENCE"))?;
        let tag = "ALTER SEQUENCE";
        let Some(sequence) = self.sequence(relation, s.missing_ok)? else {
            let notice = format!("relation \"{}\" does not exist, skipping", relation.relname);
            return Ok(Statement::Nothing { tag, notice });
        };
        let name = sequence.def.full_name();
        let (changes, owner, _) = self.sequence_options(&s.options, s.for_identity)?;
        if owner.is_some()
            && let Some((table, n)) = self.catalog.owner_of(sequence.def.id)
            && table.def.columns[n].identity() == Some(sequence.def.id)
        {
            let error = SqlError::new(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "cannot change ownership of identity sequence",
            );
            let (name, table) = (&name.name, &table.def.name);
            return Err(error.detail(format!("Sequence \"{name}\" is linked to table \"{table}\".")));
        }
        Self::same_schema(&owner, &name)?;
        Ok(Statement::AlterSequence { name, changes, owner })
    }

    /// A sequence that is changed; `None` where it is not there and need not be.
    fn sequence(
        &self,
        v: &tree::RangeVar,
        missing_ok: bool,
    ) -> SqlResult<Option<&'a std::sync::Arc<ondol_engine::Sequence>>> {
        match self.relation_of(v) {
            Some((_, Relation::Sequence(s))) => Ok(Some(s)),
            Some((name, _)) => {
                let message = format!("\"{}\" is not a sequence", name.name);
                Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message))
            }
            None if missing_ok => Ok(None),
            None => {
                let message = format!("relation \"{}\" does not exist", super::names::written(v));
                Err(SqlError::new(sqlstate::UNDEFINED_TABLE, message))
            }
        }
    }

    pub(super) fn drop_sequence(&mut self, s: &'a tree::DropStmt) -> SqlResult<Statement> {
        let names = self.dropped(s, "sequence")?;
        self.check_dropped(&names, "a sequence", |r| matches!(r, Relation::Sequence(_)))?;
        let cascade = s.behavior() == DropBehavior::DropCascade;
        Ok(Statement::DropSequence { names, if_exists: s.missing_ok, cascade })
    }

    pub(super) fn rename_sequence(
        &mut self,
        v: &tree::RangeVar,
        to: &str,
        missing_ok: bool,
        tag: &'static str,
    ) -> SqlResult<Statement> {
        let Some(sequence) = self.sequence(v, missing_ok)? else {
            let notice = format!("relation \"{}\" does not exist, skipping", v.relname);
            return Ok(Statement::Nothing { tag, notice });
        };
        let name = sequence.def.full_name();
        let to = Name::new(name.schema, to);
        self.no_such_relation(&to)?;
        Ok(Statement::RenameSequence { name, to, tag })
    }

    /// The call of a function of sequences by the number of the one that a literal names.
    pub(super) fn by_number(
        &self,
        function: FuncId,
        args: &mut Vec<Expr>,
        ty: Type,
        place: u32,
    ) -> SqlResult<Option<Expr>> {
        let Some(func) = func::sequence::by_number(function) else { return Ok(None) };
        // `'s'::regclass` is looked up in the same way.
        let literal = match args.first() {
            Some(Expr { kind: ExprKind::Cast { arg, .. }, ty, .. }) if ty.id == TypeId::REGCLASS => {
                Some(&**arg)
            }
            first => first,
        };
        let Some(Expr { kind: ExprKind::Const(Value::Text(text)), at, .. }) = literal else {
            return Ok(None);
        };
        let found = sequence_named(self.catalog, self.path, text).map_err(|e| match e.sqlstate() {
            sqlstate::UNDEFINED_TABLE | "42602" | "3F000" => super::tree::at_expr(e, *at),
            _ => e,
        })?;
        let (number, at) = (found.def.id as i32, *at);
        let mut args = std::mem::take(args);
        args[0] = super::constant(Value::Int4(number), Type::INT4, at);
        Ok(Some(Expr { kind: ExprKind::Call { func, args }, ty, at: place }))
    }

    /// The text of a default as the dictionary keeps it: a sequence that is not in `public` is named with its
    /// schema.
    pub(super) fn with_schemas_of_sequences(&self, text: &str) -> String {
        renamed_in(text, &mut |named| {
            let sequence = sequence_named(self.catalog, self.path, named).ok()?;
            (sequence.def.schema != PUBLIC).then(|| self.catalog.qualified(&sequence.def.full_name()))
        })
    }
}

/// The numbers of the sequences that an expression takes values of, as far as literals name them.
fn sequences_in(e: &Expr) -> Vec<u32> {
    let mut found = Vec::new();
    walk_expr(e, 0, &mut |e, _| {
        if let ExprKind::Call { func, args } = &e.kind
            && func::sequence::takes_number(*func)
            && let Some(Expr { kind: ExprKind::Const(Value::Int4(number)), .. }) = args.first()
        {
            found.push(*number as u32)
        }
        true
    });
    found
}

/// The numbers of the sequences that a column's default needs.
pub fn sequences_of(catalog: &Catalog, column: &ColumnDef) -> Vec<u32> {
    match &column.default {
        None => Vec::new(),
        Some(_) => super::dml::default_of(catalog, column).map_or(Vec::new(), |e| sequences_in(&e)),
    }
}

/// The text of a default in which a sequence gets another name.
pub fn with_renamed_sequence(catalog: &Catalog, text: &str, from: u32, to: &Name) -> String {
    let to = match to.schema {
        PUBLIC => name::quote(&to.name),
        _ => catalog.qualified(to),
    };
    renamed_in(text, &mut |named| {
        let sequence = sequence_named(catalog, Path::public(), named).ok()?;
        (sequence.def.id == from).then(|| to.clone())
    })
}

/// The text with other names of sequences, where literals name them: what `name` gives.
fn renamed_in(text: &str, name: &mut dyn FnMut(&str) -> Option<String>) -> String {
    let tokens: Vec<_> = Tokens::from(text, 0).collect();
    let mut out = String::new();
    let mut copied = 0;
    for (n, token) in tokens.iter().enumerate() {
        let called = n >= 2 && tokens[n - 1].is_mark(b'(');
        let is_function = |w: &str| tokens[n - 2].is_word(text, w);
        if !called || !["nextval", "currval", "setval"].iter().any(|w| is_function(w)) {
            continue;
        }
        let literal = text.get(token.start..token.end).unwrap_or_default();
        let Some(inner) = literal.strip_prefix('\'').and_then(|l| l.strip_suffix('\'')) else { continue };
        if !matches!(token.kind, TokenKind::String) {
            continue;
        }
        let Some(to) = name(&inner.replace("''", "'")) else { continue };
        out.push_str(&text[copied..token.start]);
        out.push_str(&format!("'{}'", to.replace('\'', "''")));
        copied = token.end;
    }
    out.push_str(&text[copied..]);
    out
}
