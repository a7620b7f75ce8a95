//! Registered queries: pg_proc.

use super::rows::{Char, Each, Name, Null, Oid, Wanted, row, small};
use super::sight::{Sight, oid_of};
use super::table::function;
use crate::deparse;
use ondol_engine::{FunctionDef, Returns};
use ondol_types::catalog::{node_tree, oid, quoted_char, vector};
use ondol_types::func::Volatility;
use ondol_types::{SqlResult, TypeId, Value, array};

/// The number of the language SQL.
const SQL: u32 = 14;
const RECORD: u32 = 2249;

pub fn functions(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    sight.catalog.functions.values().try_for_each(|f| routine(sight, f, each))
}

/// Whether a function gives rows.
pub fn gives_set(f: &FunctionDef) -> bool {
    match &f.returns {
        Returns::Void => false,
        Returns::Scalar { set, .. } | Returns::Rows { set, .. } => *set,
    }
}

/// The columns of TABLE(...), which the arguments are listed with.
fn columns(f: &FunctionDef) -> &[(String, ondol_types::Type)] {
    match &f.returns {
        Returns::Rows { of: None, columns, .. } => columns,
        _ => &[],
    }
}

fn routine(sight: &Sight<'_>, f: &FunctionDef, each: Each<'_>) -> SqlResult<()> {
    let args: Vec<u32> = f.args.iter().map(|a| a.1.id.oid()).collect();
    let columns = columns(f);
    let ret = match &f.returns {
        Returns::Void => TypeId::VOID.oid(),
        Returns::Scalar { ty, .. } => ty.id.oid(),
        Returns::Rows { .. } => RECORD,
    };
    let is_set = gives_set(f);
    let (mut all, mut modes) = (Value::Null, Value::Null);
    if !columns.is_empty() || f.variadic {
        let types = args.iter().copied().chain(columns.iter().map(|c| c.1.id.oid()));
        all = array::of_values(TypeId::OID, &types.map(oid::oid).collect::<Vec<_>>())?;
        let mode = |n: usize| if f.variadic && n + 1 == args.len() { b'v' } else { b'i' };
        let letters = (0..args.len()).map(mode).chain(columns.iter().map(|_| b't'));
        modes = array::of_values(TypeId::QUOTED_CHAR, &letters.map(quoted_char::value).collect::<Vec<_>>())?;
    }
    let names = if columns.is_empty() && f.args.iter().all(|a| a.0.is_none()) {
        Value::Null
    } else {
        let own = f.args.iter().map(|a| a.0.clone().unwrap_or_default());
        let names = own.chain(columns.iter().map(|c| c.0.clone()));
        array::of_values(TypeId::TEXT, &names.map(Value::Text).collect::<Vec<_>>())?
    };
    let shown = (0..f.args.len()).filter_map(|n| deparse::of_argument(f, n, sight.catalog, sight.path));
    let shown: Vec<String> = shown.collect();
    let defaults = if shown.is_empty() { Value::Null } else { node_tree(&shown.join(", ")) };
    each(&row![
        Oid(oid_of(f.id)),
        Name(&f.name),
        Oid(sight.schema_of_function(f)),
        Oid(sight.catalog.owner(f.id)),
        Oid(SQL),
        100.0,
        if is_set { 1000.0 } else { 0.0 },
        Oid(f
            .args
            .last()
            .filter(|_| f.variadic)
            .and_then(|a| a.1.base().id.element())
            .map_or(0, TypeId::oid)),
        function(sight, 0),
        Char(b'f'),
        f.definer,
        false,
        false,
        is_set,
        Char(match f.volatility {
            Volatility::Immutable => b'i',
            Volatility::Stable => b's',
            Volatility::Volatile => b'v',
        }),
        Char(b'u'),
        small(args.len()),
        small(f.defaults.len()),
        Oid(ret),
        vector::oids(&args)?,
        all,
        modes,
        names,
        defaults,
        Null,
        f.body.as_str(),
        Null,
        Null,
        Null,
        super::role::list_of(sight, f.id)?,
    ])
}
