//! Tables without a database: what the binder looks at and nothing else.

use ondol_engine::{Layout, Table, TableDef};
use ondol_kernel::TableStore;
use ondol_kernel::heap::Heap;
use ondol_kernel::memory::{Budget, Space};
use std::sync::Arc;

/// An empty table of a definition.
pub fn test_table(def: TableDef) -> Arc<Table> {
    let space = Arc::new(Space::new(1 << 30, Budget::new(1 << 26)).expect("address space"));
    let columns: Vec<_> = def.columns.iter().map(|c| (c.ty, c.not_null)).collect();
    let layout = Arc::new(Layout::new(&columns));
    let store = Arc::new(TableStore {
        rows: Heap::new(2, space.clone()),
        strings: Heap::new(3, space),
        row_size: layout.row_size,
        indexes: Vec::new(),
        entered: 0,
    });
    Arc::new(Table {
        def,
        layout,
        indexes: Vec::new(),
        store,
        heaps: 1,
        locked: Arc::default(),
        building: None,
        generation: 0,
        references: Arc::new([]),
        coming: None,
    })
}
