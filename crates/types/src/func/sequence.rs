//! Functions of sequences. What they do is done by the connection that runs the statement, which knows the
//! sequences and what it was given of them ([`is_connections`]); here is what they are called and take. A
//! sequence is named by a text. The binder puts its number in the place of a literal, so that the sequence
//! may get another name (PostgreSQL does the same with constants of regclass).
use crate::func::FuncId;
use crate::{SqlError, SqlResult, Value};

/// Whether the function is computed by the connection, and not by [`crate::func::call`].
pub fn is_connections(f: FuncId) -> bool {
    DEFS.iter().any(|d| d.id == f)
}

/// The function that does the same for the number of a sequence, of one that takes its name first.
pub fn by_number(f: FuncId) -> Option<FuncId> {
    Some(match f {
        id::NEXTVAL => id::NEXTVAL_OF,
        id::CURRVAL => id::CURRVAL_OF,
        id::SETVAL => id::SETVAL_OF,
        id::SETVAL_CALLED => id::SETVAL_CALLED_OF,
        id::NEXTVAL_REGCLASS => id::NEXTVAL_OF,
        id::CURRVAL_REGCLASS => id::CURRVAL_OF,
        id::SETVAL_REGCLASS => id::SETVAL_OF,
        id::SETVAL_CALLED_REGCLASS => id::SETVAL_CALLED_OF,
        _ => return None,
    })
}

/// Whether its first argument is the number of a sequence.
pub fn takes_number(f: FuncId) -> bool {
    matches!(f, id::NEXTVAL_OF | id::CURRVAL_OF | id::SETVAL_OF | id::SETVAL_CALLED_OF)
}

fn elsewhere() -> SqlResult<Value> {
    Err(SqlError::unsupported("a function of sequences in this place"))
}

functions! {
    1120 NEXTVAL "nextval" (Text) -> Int8 = |_| elsewhere(), volatile;
    1121 CURRVAL "currval" (Text) -> Int8 = |_| elsewhere(), volatile;
    1122 LASTVAL "lastval" () -> Int8 = |_| elsewhere(), volatile;
    1123 SETVAL "setval" (Text, Int8) -> Int8 = |_| elsewhere(), volatile;
    1124 SETVAL_CALLED "setval" (Text, Int8, Bool) -> Int8 = |_| elsewhere(), volatile;
    1125 PG_GET_SERIAL_SEQUENCE "pg_get_serial_sequence" (Text, Text) -> Text = |_| elsewhere(), stable;
    1126 NEXTVAL_OF "nextval" (Int4) -> Int8 = |_| elsewhere(), volatile;
    1127 CURRVAL_OF "currval" (Int4) -> Int8 = |_| elsewhere(), volatile;
    1128 SETVAL_OF "setval" (Int4, Int8) -> Int8 = |_| elsewhere(), volatile;
    1129 SETVAL_CALLED_OF "setval" (Int4, Int8, Bool) -> Int8 = |_| elsewhere(), volatile;
    1130 NEXTVAL_REGCLASS "nextval" (Regclass) -> Int8 = |_| elsewhere(), volatile;
    1131 CURRVAL_REGCLASS "currval" (Regclass) -> Int8 = |_| elsewhere(), volatile;
    1132 SETVAL_REGCLASS "setval" (Regclass, Int8) -> Int8 = |_| elsewhere(), volatile;
    1133 SETVAL_CALLED_REGCLASS "setval" (Regclass, Int8, Bool) -> Int8 = |_| elsewhere(), volatile;
    1134 PG_SEQUENCE_LAST_VALUE "pg_sequence_last_value" (Regclass) -> Int8 = |_| elsewhere(), volatile;
}
