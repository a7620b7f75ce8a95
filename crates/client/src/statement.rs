//! Prepared statements, and how their parameters are sent.
use ondol_types::cast::{self, CastContext};
use ondol_types::catalog::registered;
use ondol_types::func::Context;
use ondol_types::ty::Class;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, text};
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
        // No type has a longer one, by which a value would be padded.
        let modifier = if modifier > 10_485_764 { -1 } else { modifier };
        let ty = known.map_or(Type::TEXT, |id| Type::with(id, modifier));
        Column { name: name.into(), ty, oid, is_binary: known.is_some() }
    }
}

/// Whether values of the type are read in binary. Names of objects, as regclass has them, are numbers there,
/// whose texts only the server knows.
fn is_read(ty: TypeId) -> bool {
    let item = ty.element().unwrap_or(ty);
    let is_text = matches!(item, TypeId::INT2VECTOR | TypeId::OIDVECTOR) || registered::kind(item).is_some();
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
        let began = out.len();
        let done = self.write(params, most, out);
        if done.is_err() {
            out.truncate(began)
        }
        done
    }
    fn write(&self, params: &[ValueRef<'_>], most: i32, out: &mut Vec<u8>) -> SqlResult<()> {
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
        let m = Message::begin(out, b'B').text("").text(&self.0.name);
        let m = match params.iter().zip(wanted).all(|(value, ty)| plain(*value, *ty).is_some()) {
            // One form is that of all.
            true => {
                let m = m.i16(1).i16(1).i16(params.len() as i16);
                for (value, ty) in params.iter().zip(wanted) {
                    let (value, ty) = plain(*value, *ty).unwrap_or((ValueRef::Null, TypeId::TEXT));
                    binary::write_item(value, Type::new(ty), m.out)?
                }
                m
            }
            false => {
                let sent = params.iter().zip(wanted).enumerate();
                let sent: Vec<Sent<'_>> =
                    sent.map(|(i, (value, ty))| Sent::of(*value, *ty, i)).collect::<SqlResult<_>>()?;
                let m = m.i16(params.len() as i16);
                let m = sent.iter().fold(m, |m, s| m.i16((!matches!(s, Sent::Text(_))).into()));
                let m = m.i16(params.len() as i16);
                sent.iter().try_for_each(|s| s.write(m.out))?;
                m
            }
        };
        if m.out.len() - began >= LONGEST {
            let message = format!("the parameters of a call are longer than 1 GiB: {}", self.0.sql);
            return Err(SqlError::new("54000", message));
        }
        m.bytes(&self.0.forms).end();
        Message::begin(out, b'E').text("").i32(most).end();
        Ok(())
    }
}

/// Bytes that no message has.
const LONGEST: usize = 1 << 30;

/// The value in the form in which it is sent in binary, if it needs nothing else.
#[inline]
fn plain(value: ValueRef<'_>, wanted: Option<TypeId>) -> Option<(ValueRef<'_>, TypeId)> {
    use ValueRef::{Bool, Bytea, Date, Float8, Int2, Int4, Int8, Null, Numeric, Packed, Text};
    use ValueRef::{Timestamp, Timestamptz};
    let ty = match wanted {
        _ if value.is_null() => return Some((Null, TypeId::TEXT)),
        Some(ty) => ty,
        None => return None,
    };
    let sent = match (ty.class(), value) {
        (Class::Int4, Int2(n)) => Int4(n.into()),
        (Class::Int8, Int2(n)) => Int8(n.into()),
        (Class::Int8, Int4(n)) => Int8(n.into()),
        // A text is not padded here.
        (Class::Text, Text(_)) => return Some((value, TypeId::TEXT)),
        (Class::Bool, Bool(_))
        | (Class::Int2, Int2(_))
        | (Class::Int4, Int4(_))
        | (Class::Int8, Int8(_))
        | (Class::Float8, Float8(_))
        | (Class::Numeric, Numeric(_) | Packed(_))
        | (Class::Bytea, Bytea(_))
        | (Class::Date, Date(_))
        | (Class::Timestamp, Timestamp(_))
        | (Class::Timestamptz, Timestamptz(_)) => value,
        _ => return None,
    };
    Some((sent, ty))
}

/// How a value is sent.
enum Sent<'v> {
    Plain(ValueRef<'v>, TypeId),
    /// Brought to the type, as by an assignment.
    Brought(Value, TypeId),
    /// As a text, which the server reads as it does a literal: a text for what is none, any value for a type
    /// that only the server knows, and one that cannot be brought, so that the server says why.
    Text(ValueRef<'v>),
}

impl<'v> Sent<'v> {
    fn of(value: ValueRef<'v>, wanted: Option<TypeId>, i: usize) -> SqlResult<Sent<'v>> {
        if let Some((value, ty)) = plain(value, wanted) {
            return Ok(Sent::Plain(value, ty));
        }
        let given = value.to_owned();
        let ty = match wanted {
            Some(ty) if !matches!(value, ValueRef::Text(_)) && is_read(ty) => ty,
            _ => return Ok(Sent::Text(value)),
        };
        let from = given.type_id().unwrap_or(TypeId::TEXT);
        if from == ty {
            return Ok(Sent::Plain(value, ty));
        }
        if cast::cast_context(from, ty).is_none_or(|c| c > CastContext::Assignment) {
            let message = format!(
                "parameter ${} is of type {} but the value given is {}",
                i + 1,
                ty.name(),
                from.name()
            );
            return Err(SqlError::new("42804", message));
        }
        let brought = cast::cast(given, from, Type::new(ty), false, &Context::EMPTY);
        Ok(brought.map_or(Sent::Text(value), |value| Sent::Brought(value, ty)))
    }
    fn write(&self, out: &mut Vec<u8>) -> SqlResult<()> {
        match self {
            Sent::Plain(value, ty) => binary::write_item(*value, Type::new(*ty), out),
            Sent::Brought(value, ty) => binary::write_item(value.as_ref(&mut vec![]), Type::new(*ty), out),
            Sent::Text(value) => {
                write_text(*value, out);
                Ok(())
            }
        }
    }
}

/// Appends a value as its text, behind its length.
fn write_text(value: ValueRef<'_>, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend([0; 4]);
    match value {
        ValueRef::Text(t) => out.extend_from_slice(t.as_bytes()),
        other => {
            let ty = other.to_owned().type_id().unwrap_or(TypeId::TEXT);
            text::output(other, Type::new(ty), out)
        }
    }
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes())
}
