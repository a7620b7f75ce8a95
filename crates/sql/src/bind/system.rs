//! The views of the system's state: what their columns are. The rows are made when they are read.

use ondol_types::TypeId;

/// A view and its columns.
pub type View = (&'static str, &'static [(&'static str, TypeId)]);

/// All views, by name.
pub const VIEWS: &[View] = &[
    (
        "ondol_tables",
        &[
            ("id", TypeId::INT4),
            ("name", TypeId::TEXT),
            ("columns", TypeId::INT4),
            ("indexes", TypeId::INT4),
            ("row_size", TypeId::INT4),
            ("rows", TypeId::INT8),
            ("bytes", TypeId::INT8),
        ],
    ),
    (
        "ondol_indexes",
        &[
            ("id", TypeId::INT4),
            ("table_name", TypeId::TEXT),
            ("name", TypeId::TEXT),
            ("kind", TypeId::TEXT),
            ("is_unique", TypeId::BOOL),
            ("is_primary", TypeId::BOOL),
            ("columns", TypeId::TEXT),
            ("entries", TypeId::INT8),
            ("bytes", TypeId::INT8),
        ],
    ),
    (
        "ondol_crtree_boxes",
        &[
            ("index_name", TypeId::TEXT),
            ("level", TypeId::INT4),
            ("node", TypeId::INT8),
            ("dimension", TypeId::INT4),
            ("low", TypeId::FLOAT8),
            ("high", TypeId::FLOAT8),
        ],
    ),
    (
        "ondol_functions",
        &[
            ("id", TypeId::INT4),
            ("name", TypeId::TEXT),
            ("arguments", TypeId::TEXT),
            ("returns", TypeId::TEXT),
            ("body", TypeId::TEXT),
            ("code", TypeId::TEXT),
        ],
    ),
    (
        "ondol_memory",
        &[("kind", TypeId::TEXT), ("name", TypeId::TEXT), ("rows", TypeId::INT8), ("bytes", TypeId::INT8)],
    ),
    (
        "ondol_cursors",
        &[
            ("name", TypeId::TEXT),
            ("statement", TypeId::TEXT),
            ("is_holdable", TypeId::BOOL),
            ("is_binary", TypeId::BOOL),
            ("is_scrollable", TypeId::BOOL),
            ("creation_time", TypeId::TIMESTAMPTZ),
        ],
    ),
    (
        "ondol_settings",
        &[
            ("name", TypeId::TEXT),
            ("setting", TypeId::TEXT),
            ("description", TypeId::TEXT),
            ("is_changeable", TypeId::BOOL),
        ],
    ),
    ("ondol_status", &[("name", TypeId::TEXT), ("value", TypeId::TEXT)]),
    ("ondol_workers", &[("worker", TypeId::INT4), ("jobs", TypeId::INT8), ("jobs_ended", TypeId::INT8)]),
];

/// The view of a name, with the name as a constant.
pub fn view(name: &str) -> Option<View> {
    VIEWS.iter().find(|v| v.0 == name).copied()
}

/// The columns of a view.
pub fn system_columns(name: &str) -> Option<&'static [(&'static str, TypeId)]> {
    view(name).map(|v| v.1)
}
