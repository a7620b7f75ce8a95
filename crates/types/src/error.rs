//! Errors as a client sees them.

pub type SqlResult<T> = Result<T, SqlError>;

/// An error with PostgreSQL's fields. Boxed inside: results stay small.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError(pub Box<Fields>);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fields {
    /// Five characters.
    pub sqlstate: &'static str,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// What was being done: the line of a file, say.
    pub context: Option<String>,
    /// Byte offset into the statement's text, counted from 0.
    pub position: Option<usize>,
    pub about: About,
}

/// What an error is about, for programs: plain names, without quotes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    /// Of the table, or of the data type.
    pub schema: Option<String>,
    /// The schema by its number, which a session turns into `schema`.
    pub in_schema: Option<u32>,
    pub table: Option<String>,
    pub column: Option<String>,
    pub data_type: Option<String>,
    pub constraint: Option<String>,
    /// The function of PostgreSQL's that tells it, where drivers look at that.
    pub routine: Option<&'static str>,
}

impl SqlError {
    pub fn new(sqlstate: &'static str, message: impl Into<String>) -> SqlError {
        SqlError(Box::new(Fields { sqlstate, message: message.into(), ..Fields::default() }))
    }
    pub fn detail(mut self, d: impl Into<String>) -> Self {
        self.0.detail = Some(d.into());
        self
    }
    pub fn hint(mut self, h: impl Into<String>) -> Self {
        self.0.hint = Some(h.into());
        self
    }
    pub fn context(mut self, c: impl Into<String>) -> Self {
        self.0.context = Some(c.into());
        self
    }
    /// Sets the position unless one is known already.
    pub fn at(mut self, position: usize) -> Self {
        self.0.position.get_or_insert(position);
        self
    }
    /// It is about a table, whose schema has this number.
    pub fn table(mut self, in_schema: u32, name: &str) -> Self {
        (self.0.about.in_schema, self.0.about.table) = (Some(in_schema), Some(name.to_string()));
        self
    }
    pub fn column(mut self, name: &str) -> Self {
        self.0.about.column = Some(name.to_string());
        self
    }
    pub fn data_type(mut self, schema: &str, name: &str) -> Self {
        (self.0.about.schema, self.0.about.data_type) = (Some(schema.to_string()), Some(name.to_string()));
        self
    }
    pub fn constraint(mut self, name: &str) -> Self {
        self.0.about.constraint = Some(name.to_string());
        self
    }
    /// Drivers know this error, to prepare the statement once more.
    pub fn changed_result() -> SqlError {
        let message = "cached plan must not change result type";
        let mut e = SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message);
        e.0.about.routine = Some("RevalidateCachedQuery");
        e
    }
    /// SQLSTATE 0A000.
    pub fn unsupported(feature: impl std::fmt::Display) -> SqlError {
        SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, format!("{feature} is not supported"))
    }
    pub fn sqlstate(&self) -> &'static str {
        self.0.sqlstate
    }
}

impl std::fmt::Display for SqlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.message)
    }
}
impl std::error::Error for SqlError {}

/// The SQLSTATE codes in use, by PostgreSQL's condition names.
pub mod sqlstate {
    pub const FEATURE_NOT_SUPPORTED: &str = "0A000";
    pub const CARDINALITY_VIOLATION: &str = "21000";
    pub const TRIGGERED_DATA_CHANGE_VIOLATION: &str = "27000";
    pub const STRING_DATA_RIGHT_TRUNCATION: &str = "22001";
    pub const NUMERIC_VALUE_OUT_OF_RANGE: &str = "22003";
    pub const DATETIME_FIELD_OVERFLOW: &str = "22008";
    pub const INVALID_DATETIME_FORMAT: &str = "22007";
    pub const DIVISION_BY_ZERO: &str = "22012";
    pub const INSUFFICIENT_PRIVILEGE: &str = "42501";
    pub const INVALID_PARAMETER_VALUE: &str = "22023";
    pub const INVALID_TEXT_REPRESENTATION: &str = "22P02";
    pub const BAD_COPY_FILE_FORMAT: &str = "22P04";
    pub const NOT_NULL_VIOLATION: &str = "23502";
    pub const UNIQUE_VIOLATION: &str = "23505";
    pub const EXCLUSION_VIOLATION: &str = "23P01";
    pub const FOREIGN_KEY_VIOLATION: &str = "23503";
    pub const CHECK_VIOLATION: &str = "23514";
    pub const ACTIVE_SQL_TRANSACTION: &str = "25001";
    pub const READ_ONLY_SQL_TRANSACTION: &str = "25006";
    pub const NO_ACTIVE_SQL_TRANSACTION: &str = "25P01";
    pub const IN_FAILED_SQL_TRANSACTION: &str = "25P02";
    pub const INVALID_SQL_STATEMENT_NAME: &str = "26000";
    pub const DEPENDENT_OBJECTS_STILL_EXIST: &str = "2BP01";
    pub const INVALID_CURSOR_NAME: &str = "34000";
    pub const INVALID_CURSOR_STATE: &str = "24000";
    pub const UNSAFE_NEW_ENUM_VALUE: &str = "55P04";
    pub const INVALID_SAVEPOINT_SPECIFICATION: &str = "3B001";
    pub const SERIALIZATION_FAILURE: &str = "40001";
    pub const WITH_CHECK_OPTION_VIOLATION: &str = "44000";
    pub const DEADLOCK_DETECTED: &str = "40P01";
    pub const SYNTAX_ERROR: &str = "42601";
    pub const GROUPING_ERROR: &str = "42803";
    pub const WINDOWING_ERROR: &str = "42P20";
    pub const WRONG_OBJECT_TYPE: &str = "42809";
    pub const DATATYPE_MISMATCH: &str = "42804";
    pub const COLLATION_MISMATCH: &str = "42P21";
    pub const UNDEFINED_COLUMN: &str = "42703";
    pub const UNDEFINED_FUNCTION: &str = "42883";
    pub const UNDEFINED_TABLE: &str = "42P01";
    pub const UNDEFINED_PARAMETER: &str = "42P02";
    pub const NULL_VALUE_NOT_ALLOWED: &str = "22004";
    pub const UNDEFINED_OBJECT: &str = "42704";
    pub const DUPLICATE_COLUMN: &str = "42701";
    pub const DUPLICATE_ALIAS: &str = "42712";
    pub const DUPLICATE_TABLE: &str = "42P07";
    pub const DUPLICATE_OBJECT: &str = "42710";
    pub const DUPLICATE_FUNCTION: &str = "42723";
    pub const DUPLICATE_CURSOR: &str = "42P03";
    pub const DUPLICATE_PREPARED_STATEMENT: &str = "42P05";
    pub const AMBIGUOUS_COLUMN: &str = "42702";
    pub const AMBIGUOUS_FUNCTION: &str = "42725";
    pub const INDETERMINATE_DATATYPE: &str = "42P18";
    pub const INVALID_COLUMN_REFERENCE: &str = "42P10";
    pub const CANNOT_COERCE: &str = "42846";
    pub const INVALID_COLUMN_DEFINITION: &str = "42611";
    pub const INVALID_TABLE_DEFINITION: &str = "42P16";
    pub const INVALID_RECURSION: &str = "42P19";
    pub const INVALID_CURSOR_DEFINITION: &str = "42P11";
    pub const INVALID_FUNCTION_DEFINITION: &str = "42P13";
    pub const OUT_OF_MEMORY: &str = "53200";
    pub const DISK_FULL: &str = "53100";
    pub const PROGRAM_LIMIT_EXCEEDED: &str = "54000";
    pub const LOCK_NOT_AVAILABLE: &str = "55P03";
    pub const OBJECT_NOT_IN_PREREQUISITE_STATE: &str = "55000";
    pub const OBJECT_IN_USE: &str = "55006";
    pub const QUERY_CANCELED: &str = "57014";
    pub const ADMIN_SHUTDOWN: &str = "57P01";
    pub const CONNECTION_FAILURE: &str = "08006";
    pub const IO_ERROR: &str = "58030";
    pub const DATA_CORRUPTED: &str = "XX001";
    pub const INTERNAL_ERROR: &str = "XX000";
}
