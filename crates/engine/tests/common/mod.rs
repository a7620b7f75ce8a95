//! What tests of several files do with a table.
use ondol_engine::*;
use std::sync::Arc;

pub fn table(c: &Connection, name: &str) -> Arc<Table> {
    c.catalog().table(name).unwrap().clone()
}
/// Runs one statement that writes.
pub fn run<T>(
    c: &mut Connection,
    name: &str,
    f: impl Fn(&mut Connection, &Arc<Table>) -> ondol_types::SqlResult<T>,
) -> ondol_types::SqlResult<T> {
    loop {
        let t = table(c, name);
        match c.start_statement(c.catalog_version(), std::slice::from_ref(&t), true) {
            Err(e) if e.sqlstate() == STALE => continue,
            other => other?,
        }
        return match f(c, &t) {
            Ok(v) => {
                c.end_statement()?;
                Ok(v)
            }
            Err(e) => {
                c.abort_statement();
                Err(e)
            }
        };
    }
}
