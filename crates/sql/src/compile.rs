//! From a bound statement to its program, through all stages.
use crate::bound::Bound;
use crate::code::Program;
use crate::code::generate::{FindFunction, generate};
use crate::plan::explain::{Options, shown};
use crate::plan::logical::Hidden;
use crate::plan::rewrite::{self, Rewrite};
use crate::plan::ways::Ways;
use crate::plan::{lower, operators};
use ondol_engine::Catalog;
use ondol_types::SqlResult;
use ondol_types::limits::Limits;
use std::sync::Arc;

/// Plans and compiles a query, INSERT, UPDATE or DELETE (or the statement below an EXPLAIN), until the limits
/// say that it is to end. With options to explain it by, the program brings its plan along; to be analysed,
/// counters as well.
pub fn compile(
    catalog: &Catalog,
    bound: &Bound,
    find_function: FindFunction<'_>,
    limits: Limits<'_>,
    ways: Ways,
    explain: Option<Options>,
) -> SqlResult<Program> {
    compile_by(rewrite::ALL, lower::hidden(bound, catalog), bound, find_function, limits, ways, explain)
}

/// The same with some rewrites only.
pub fn compile_by(
    rewrites: &[(&str, Rewrite)],
    hidden: Vec<Hidden>,
    bound: &Bound,
    find_function: FindFunction<'_>,
    limits: Limits<'_>,
    ways: Ways,
    explain: Option<Options>,
) -> SqlResult<Program> {
    let mut logical = lower::lower(bound, limits)?;
    logical.hidden = hidden;
    for (_, rewrite) in rewrites {
        rewrite(&mut logical);
    }
    let physical = operators::plan(&logical, limits, ways)?;
    let mut program = generate(&physical, find_function, limits, explain.is_some_and(|o| o.analyze))?;
    // Of a table that a rewrite has removed nothing is read. But the program rests on it: that it is there,
    // with its unique indexes.
    for table in bound.tables() {
        if !program.tables.iter().any(|t| Arc::ptr_eq(t, &table)) {
            program.tables.push(table)
        }
    }
    program.needs.clone_from(&bound.needs);
    program.plan = explain.map(|o| Arc::new(shown(&physical, o)));
    Ok(program)
}
