//! Prepared statements, and how their parameters are sent.
use ondol_types::catalog::registered;
use ondol_types::ty::Class;
use ondol_types::{SqlError, SqlResult, Type, TypeId, ValueRef, text};
use ondol_wire::back::Message;
use ondol_wire::binary;
use std::sync::Arc;

/// A column of a statement's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// Its type; that of texts, where the server's is not known here.
    pub ty: Type,
    /// The server's number of its type.
    pub oid: u32,
    pub(crate) is_binary: bool,
}

impl Column {
    pub(crate) fn new(name: &str, oid: u32, modifier: i32) -> Column {
        let known = TypeId::from_oid(oid).filter(|ty| is_read(*ty));
        let ty = known.map_or(Type::TEXT, |id| Type::with(id, modifier));
        Column { name: name.into(), ty, oid, is_binary: known.is_some() }
    }
}

/// Whether values of the type are read in binary. Names of objects, as regclass has them, are numbers there,
/// whose texts only the server knows.
fn is_read(ty: TypeId) -> bool {
    let is_text = matches!(ty, TypeId::INT2VECTOR | TypeId::OIDVECTOR) || registered::kind(ty).is_some();
    !matches!(ty.class(), Class::None) && !is_text && binary::check_read(ty).is_ok()
}

/// A prepared statement of one client's.
#[derive(Clone, Debug)]
pub struct Statement(pub(crate) Arc<Prepared>);

#[derive(Debug)]
pub(crate) struct Prepared {
    pub name: String,
    pub sql: String,
    /// `None`: of a type that is not known here.
    pub params: Vec<Option<TypeId>>,
    pub columns: Vec<Column>,
    /// The number of forms, and the forms, of its rows' values.
    forms: Vec<u8>,
}

impl Statement {
    pub(crate) fn new(
        name: String,
        sql: &str,
        params: Vec<Option<TypeId>>,
        columns: Vec<Column>,
    ) -> Statement {
        // One form is that of all.
        let forms = match columns.iter().all(|c| c.is_binary) {
            true => vec![0, 1, 0, 1],
            false => {
                let all = columns.iter().flat_map(|c| [0, c.is_binary.into()]);
                (columns.len() as i16).to_be_bytes().into_iter().chain(all).collect()
            }
        };
        Statement(Arc::new(Prepared { name, sql: sql.into(), params, columns, forms }))
    }
    /// The types of its parameters; `None` where the type is the server's own, as an enum: a text will do.
    pub fn params(&self) -> &[Option<TypeId>] {
        &self.0.params
    }
    /// None, if it gives no rows.
    pub fn columns(&self) -> &[Column] {
        &self.0.columns
    }
    /// What was prepared; the name, if it is a registered query.
    pub fn sql(&self) -> &str {
        &self.0.sql
    }

    /// Appends a call: Bind and Execute.
    pub(crate) fn call(&self, params: &[ValueRef<'_>], most: i32, out: &mut Vec<u8>) -> SqlResult<()> {
        let wanted = &self.0.params;
        if params.len() != wanted.len() {
            let message = format!(
                "expected {} parameters, found {}, in a call of: {}",
                wanted.len(),
                params.len(),
                self.0.sql
            );
            return Err(SqlError::new("08P01", message));
        }
        let began = out.len();
        let mut m = Message::begin(out, b'B').text("").text(&self.0.name);
        // One form is that of all.
        m = match params.iter().zip(wanted).all(|(value, ty)| fitting(*value, *ty).is_some()) {
            true => m.i16(1).i16(1),
            false => params.iter().zip(wanted).fold(m.i16(params.len() as i16), |m, (value, ty)| {
                m.i16(fitting(*value, *ty).is_some().into())
            }),
        };
        m = m.i16(params.len() as i16);
        for (value, ty) in params.iter().zip(wanted) {
            let done = match fitting(*value, *ty) {
                Some((value, ty)) => binary::write_item(value, ty, m.out),
                None => {
                    write_text(*value, m.out);
                    Ok(())
                }
            };
            if let Err(e) = done {
                m.out.truncate(began);
                return Err(e);
            }
        }
        m.bytes(&self.0.forms).end();
        Message::begin(out, b'E').text("").i32(most).end();
        Ok(())
    }
}

/// The value in the form in which it is sent in binary; `None`: as a text, which the server reads as it does a
/// literal.
fn fitting(value: ValueRef<'_>, wanted: Option<TypeId>) -> Option<(ValueRef<'_>, Type)> {
    use ValueRef::{Bool, Bytea, Date, Float8, Int2, Int4, Int8, Null, Numeric, Opaque, Packed, Text};
    use ValueRef::{Timestamp, Timestamptz};
    let ty = match wanted {
        Some(ty) => ty,
        None if value.is_null() => TypeId::TEXT,
        None => return None,
    };
    let sent = match (ty.class(), value) {
        (_, Null) => Null,
        (Class::Int4, Int2(n)) => Int4(n.into()),
        (Class::Int8, Int2(n)) => Int8(n.into()),
        (Class::Int8, Int4(n)) => Int8(n.into()),
        (Class::Float8, Int2(n)) => Float8(n.into()),
        (Class::Float8, Int4(n)) => Float8(n.into()),
        (Class::Bool, Bool(_))
        | (Class::Int2, Int2(_))
        | (Class::Int4, Int4(_))
        | (Class::Int8, Int8(_))
        | (Class::Float8, Float8(_))
        | (Class::Numeric, Numeric(_) | Packed(_))
        | (Class::Text, Text(_))
        | (Class::Bytea, Bytea(_))
        | (Class::Date, Date(_))
        | (Class::Timestamp, Timestamp(_))
        | (Class::Timestamptz, Timestamptz(_)) => value,
        (Class::Opaque(_), Opaque(of, _)) if of == ty && binary::check_sent(ty).is_ok() => value,
        _ => return None,
    };
    // A text is not padded here.
    let ty = if matches!(ty.class(), Class::Text) { TypeId::TEXT } else { ty };
    Some((sent, Type::new(ty)))
}

/// Appends a value as its text, behind its length.
fn write_text(value: ValueRef<'_>, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend([0; 4]);
    let mut shown = String::new();
    match value {
        ValueRef::Text(t) => out.extend_from_slice(t.as_bytes()),
        other => {
            let ty = other.to_owned().type_id().unwrap_or(TypeId::TEXT);
            text::output(other, Type::new(ty), &mut shown);
            out.extend_from_slice(shown.as_bytes())
        }
    }
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes())
}
