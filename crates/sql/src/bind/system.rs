//! The views of the system's state: what their columns are. The rows are made when they are read.

use ondol_types::TypeId;

use TypeId::{Bool, Int4, Int8, Text};

/// A view and its columns.
pub type View = (&'static str, &'static [(&'static str, TypeId)]);

/// All views, by name.
pub const VIEWS: &[View] = &[
    (
        "ondol_tables",
        &[
            ("id", Int4),
            ("name", Text),
            ("columns", Int4),
            ("indexes", Int4),
            ("row_size", Int4),
            ("rows", Int8),
            ("bytes", Int8),
        ],
    ),
    (
        "ondol_indexes",
        &[
            ("id", Int4),
            ("table_name", Text),
            ("name", Text),
            ("kind", Text),
            ("is_unique", Bool),
            ("is_primary", Bool),
            ("columns", Text),
            ("entries", Int8),
            ("bytes", Int8),
        ],
    ),
    (
        "ondol_functions",
        &[
            ("id", Int4),
            ("name", Text),
            ("arguments", Text),
            ("returns", Text),
            ("body", Text),
            ("code", Text),
        ],
    ),
    ("ondol_memory", &[("kind", Text), ("name", Text), ("rows", Int8), ("bytes", Int8)]),
    ("ondol_settings", &[("name", Text), ("setting", Text), ("description", Text)]),
    ("ondol_status", &[("name", Text), ("value", Text)]),
];

/// The view of a name, with the name as a constant.
pub fn view(name: &str) -> Option<View> {
    VIEWS.iter().find(|v| v.0 == name).copied()
}

/// The columns of a view.
pub fn system_columns(name: &str) -> Option<&'static [(&'static str, TypeId)]> {
    view(name).map(|v| v.1)
}
