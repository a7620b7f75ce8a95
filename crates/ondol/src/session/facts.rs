//! What a session knows of itself and of the database, for functions and relations that tell of it: a copy,
//! made when a statement begins that asks.

use crate::session::Session;
use crate::session::activity::Board;
use crate::session::identity::Names;
use crate::session::named::CursorRow;
use crate::session::plan::Plan;
use crate::session::plans::Named;
use crate::session::settings::Settings;
use ondol_engine::{Catalog, Path};
use ondol_sql::catalog::{
    self, Backend, Locks, OpenCursor, PreparedStatement, Setting, Sight, StatementRow, Totals,
};
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Facts {
    /// The dictionary, and where names without a schema are looked for.
    catalog: Option<(Arc<Catalog>, Path)>,
    names: Option<Arc<Names>>,
    role: u32,
    settings: Option<Settings>,
    cursors: Vec<CursorRow>,
    prepared: Vec<PreparedStatement>,
    process: i32,
    /// When the transaction began.
    now_us: i64,
    around: Option<(Arc<Board>, Arc<ondol_engine::Database>)>,
}

impl Facts {
    /// What a statement sees of the database.
    pub fn sight(&self) -> Option<Sight<'_>> {
        let ((catalog, path), names) = (self.catalog.as_ref()?, self.names.as_ref()?);
        Some(Sight::new(catalog, path, &names.database, (&names.user, self.role), self))
    }
}

impl catalog::Session for Facts {
    fn settings(&self) -> Vec<Setting> {
        let all = self.settings.iter().flat_map(|s| s.all());
        let setting = |s: crate::session::settings::SettingRow<'_>| Setting {
            name: s.name,
            setting: s.setting.to_string(),
            unit: s.unit,
            category: s.category,
            short_desc: s.short_desc,
            extra_desc: s.extra_desc,
            context: s.context,
            vartype: s.vartype,
            source: s.source,
            min_val: s.min_val,
            max_val: s.max_val,
            enumvals: s.enumvals,
            boot_val: s.boot_val.to_string(),
            reset_val: s.reset_val.to_string(),
        };
        all.map(setting).collect()
    }
    fn cursors(&self) -> Vec<OpenCursor> {
        let open = |c: &CursorRow| OpenCursor {
            name: c.name.clone(),
            statement: c.statement.to_string(),
            is_holdable: c.is_holdable,
            is_scrollable: c.is_scrollable,
            creation_us: c.creation_us,
        };
        self.cursors.iter().map(open).collect()
    }
    fn prepared(&self) -> &[PreparedStatement] {
        &self.prepared
    }
    fn process(&self) -> i32 {
        self.process
    }
    fn now_us(&self) -> i64 {
        self.now_us
    }
    fn backends(&self) -> Vec<Backend> {
        self.around.as_ref().map_or(vec![], |(board, _)| board.backends())
    }
    fn signal(&self, process: i32, ends: bool) -> bool {
        self.around.as_ref().is_some_and(|(board, _)| board.signal(process, ends))
    }
    fn reload(&self) -> bool {
        self.around.as_ref().is_some_and(|(board, _)| board.reload())
    }
    fn started_us(&self) -> (i64, i64) {
        self.around.as_ref().map_or((0, 0), |(board, _)| board.started_us())
    }
    fn totals(&self) -> Option<Totals> {
        self.around.as_ref().and_then(|(board, _)| board.totals())
    }
    fn statements(&self) -> Vec<StatementRow> {
        self.around.as_ref().map_or(vec![], |(board, _)| board.statements())
    }
    fn forget_statements(&self, role: u32, id: i64) {
        if let Some((board, _)) = &self.around {
            board.forget_statements(role, id)
        }
    }
    fn locks(&self) -> Locks {
        self.around.as_ref().map_or_else(Locks::default, |(_, engine)| Locks {
            waiting: engine.waiting(),
            tables: engine.table_uses(),
            advisory: engine.advisory_locks(),
        })
    }
}

fn prepared((name, named): (&String, &Named)) -> PreparedStatement {
    PreparedStatement {
        name: name.clone(),
        statement: named.whole.clone(),
        prepared_us: named.prepared_us,
        types: named.types.clone(),
        from_sql: named.from_sql,
        executed: named.executed,
    }
}

impl Session {
    pub(crate) fn facts(&self) -> Facts {
        let catalog = self.connection.catalog();
        let path = self.path(&catalog);
        Facts {
            catalog: Some((catalog, path)),
            names: Some(self.identity.names.clone()),
            role: self.role(),
            settings: Some(self.settings.clone()),
            cursors: self.cursors.all(),
            prepared: self.plans.prepared.iter().map(prepared).collect(),
            process: self.process,
            now_us: self.connection.transaction_time_us(),
            around: Some((self.database.board.clone(), self.database.engine.clone())),
        }
    }

    /// The same for a plan that asks.
    #[inline]
    pub(crate) fn facts_for(&self, plan: &Plan) -> Option<Facts> {
        if plan.asks_catalog { Some(self.facts()) } else { None }
    }
}
