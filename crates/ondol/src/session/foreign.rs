//! Openers of foreign tables for the statements of a session: those parts of the library that are built in.
#[cfg(feature = "innodb")]
pub(crate) use crate::innodb::Files;

#[cfg(not(feature = "innodb"))]
pub(crate) use without::Files;

#[cfg(not(feature = "innodb"))]
mod without {
    use crate::session::Session;
    use ondol_engine::ForeignSource;
    use ondol_sql::bound::ImportLimit;
    use ondol_sql::foreign::{Argument, Foreign, ForeignTable};
    use ondol_types::{SqlError, SqlResult};
    use std::sync::Arc;

    pub(crate) struct Files;

    impl Foreign for Files {
        fn open(&self, function: &str, _: &[Argument]) -> SqlResult<Arc<dyn ForeignTable>> {
            Err(SqlError::unsupported(function).detail(WHY))
        }
    }

    const WHY: &str = "This build is without cargo's feature \"innodb\".";

    impl Session {
        pub(crate) fn import_foreign_schema(
            &mut self,
            _: &str,
            _: &ForeignSource,
            _: u32,
            _: &ImportLimit,
        ) -> SqlResult<()> {
            Err(SqlError::unsupported("IMPORT FOREIGN SCHEMA").detail(WHY))
        }
    }
}
