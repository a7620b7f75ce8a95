//! Values as the fields of rows: each behind its length, which for NULL is -1. Millions pass through here, so
//! values of the usual types are written where they are looked at. One that is handed on as a whole would
//! always be put together in memory; that is left to those of other types, which `again` gives once more.
use crate::{back, binary};
use ondol_types::style::Styles;
use ondol_types::text::Out;
use ondol_types::{Numeric, SqlResult, Type, TypeId, ValueRef, datetime, text};

/// Appends what `write` writes behind its length.
#[inline(always)]
fn measured(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = (out.len() - at - 4) as u32;
    if let Some(head) = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) {
        *head = length.to_be_bytes()
    }
}

/// Room for a field of few bytes: its length, and a number or a date. It lies where the field will be: bytes
/// that were written one by one and are read again soon, sixteen at once, make the processor wait.
struct Short<'m> {
    bytes: &'m mut [u8; ROOM],
    len: usize,
}

const ROOM: usize = 32;
/// The length of what does not fit.
const TOO_LONG: usize = ROOM + 1;

impl Out for Short<'_> {
    #[inline]
    fn text(&mut self, text: &str) {
        self.ascii(text.as_bytes())
    }
    #[inline]
    fn ascii(&mut self, bytes: &[u8]) {
        match self.bytes.get_mut(self.len..self.len + bytes.len()) {
            Some(to) => {
                to.copy_from_slice(bytes);
                self.len += bytes.len()
            }
            None => self.len = TOO_LONG,
        }
    }
    #[inline(always)]
    fn beginning<const N: usize>(&mut self, bytes: [u8; N], len: usize) {
        match self.bytes.get_mut(self.len..).and_then(|room| room.first_chunk_mut::<N>()) {
            Some(to) => {
                *to = bytes;
                self.len += len
            }
            None => self.ascii(&bytes[..len]),
        }
    }
}

/// Appends what `write` writes, mostly of few bytes, behind its length. It may write twice.
#[inline(always)]
fn short(out: &mut Vec<u8>, write: impl Fn(&mut Short<'_>), again: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; ROOM]);
    let len = match out.last_chunk_mut::<ROOM>() {
        Some(bytes) => {
            let mut field = Short { bytes, len: 4 };
            write(&mut field);
            let len = field.len;
            bytes[..4].copy_from_slice(&(len as u32 - 4).to_be_bytes());
            len
        }
        None => TOO_LONG,
    };
    if len <= ROOM {
        out.truncate(at + len)
    } else {
        out.truncate(at);
        measured(out, again)
    }
}

/// Appends a value of a type in text, as a session in these styles shows it; none are the usual ones.
#[inline(always)]
pub fn in_text<'v>(
    value: ValueRef<'v>,
    ty: Type,
    styles: Option<&Styles>,
    out: &mut Vec<u8>,
    again: impl FnOnce() -> ValueRef<'v>,
) {
    match value {
        ValueRef::Null => back::null(out),
        ValueRef::Int4(n) => short(out, |o| text::write_i64(n.into(), o), |o| text::write_i64(n.into(), o)),
        ValueRef::Int8(n) => short(out, |o| text::write_i64(n, o), |o| text::write_i64(n, o)),
        ValueRef::Packed(p) => short(out, |o| p.write(o), |o| p.write(o)),
        ValueRef::Numeric(b) => {
            short(out, |o| Numeric::write_encoded(b, o), |o| Numeric::write_encoded(b, o))
        }
        ValueRef::Date(d) if styles.is_none() => {
            short(out, |o| datetime::write_date(d, o), |o| datetime::write_date(d, o))
        }
        ValueRef::Text(t) if ty.id != TypeId::BPCHAR => {
            out.extend_from_slice(&(t.len() as u32).to_be_bytes());
            out.text(t)
        }
        _ => other_in_text(again(), ty, styles, out),
    }
}

#[inline(never)]
fn other_in_text(value: ValueRef<'_>, ty: Type, styles: Option<&Styles>, out: &mut Vec<u8>) {
    measured(out, |out| text::styled(value, ty, styles.unwrap_or(&Styles::USUAL), out))
}

/// Appends a value of a type in its binary form.
#[inline(always)]
pub fn in_binary<'v>(
    value: ValueRef<'v>,
    ty: Type,
    out: &mut Vec<u8>,
    again: impl FnOnce() -> ValueRef<'v>,
) -> SqlResult<()> {
    match value {
        ValueRef::Null => back::null(out),
        // The length and the number at once.
        ValueRef::Int4(n) | ValueRef::Date(n) => {
            out.extend_from_slice(&(4 << 32 | u64::from(n as u32)).to_be_bytes())
        }
        ValueRef::Int8(n) | ValueRef::Timestamp(n) | ValueRef::Timestamptz(n) => {
            out.extend_from_slice(&(8 << 64 | u128::from(n as u64)).to_be_bytes()[4..])
        }
        ValueRef::Text(t) if ty.id != TypeId::BPCHAR => {
            out.extend_from_slice(&(t.len() as u32).to_be_bytes());
            out.text(t)
        }
        _ => binary::write_item(again(), ty, out)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of every kind are what they are when handed on as a whole.
    #[test]
    fn fields_are_as_they_are_elsewhere() {
        let mut seed = 1u64;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 20) % n
        };
        let ty = Type::new;
        for _ in 0..20_000 {
            let n = ((below(1 << 44) << 20) as i64) >> below(64);
            let (mut numeric, mut scratch) = (vec![], String::new());
            let scale = below(12) as u16;
            // Some are longer than a short field has room for.
            let wide = i128::from(n) * if below(2) == 0 { 1 } else { 1_000_000_007_000_000_009 };
            Numeric::from_scaled(wide, scale).encode(&mut numeric);
            (0..below(40)).for_each(|_| scratch.push(['a', 'é', '\0', ' '][below(4) as usize]));
            let packed = ondol_types::Packed::new(n >> 8, scale);
            let values = [
                (ValueRef::Null, ty(TypeId::INT4)),
                (ValueRef::Bool(n > 0), ty(TypeId::BOOL)),
                (ValueRef::Int2(n as i16), ty(TypeId::INT2)),
                (ValueRef::Int4(n as i32), ty(TypeId::INT4)),
                (ValueRef::Int8(n), ty(TypeId::INT8)),
                (ValueRef::Float8(n as f64 / 7.0), ty(TypeId::FLOAT8)),
                (ValueRef::Numeric(&numeric), ty(TypeId::NUMERIC)),
                (ValueRef::Packed(packed), ty(TypeId::NUMERIC)),
                (ValueRef::Date((n % 3_000_000) as i32), ty(TypeId::DATE)),
                (ValueRef::Timestamp(n >> 4), ty(TypeId::TIMESTAMP)),
                (ValueRef::Timestamptz(n >> 4), ty(TypeId::TIMESTAMPTZ)),
                (ValueRef::Bytea(scratch.as_bytes()), ty(TypeId::BYTEA)),
                (ValueRef::Text(&scratch), ty(TypeId::TEXT)),
                (ValueRef::Text(&scratch), Type::with(TypeId::BPCHAR, 4 + 9)),
            ];
            let (value, ty) = values[below(values.len() as u64) as usize];
            let (mut found, mut wanted) = (vec![1], vec![1]);
            in_binary(value, ty, &mut found, || value).expect("a binary form");
            binary::write_item(value, ty, &mut wanted).expect("a binary form");
            assert_eq!(found, wanted, "{value:?} {ty:?}");
            let (mut found, mut wanted) = (vec![1], vec![1]);
            in_text(value, ty, None, &mut found, || value);
            match value.is_null() {
                true => back::null(&mut wanted),
                false => {
                    let mut shown = vec![];
                    text::output(value, ty, &mut shown);
                    wanted.extend_from_slice(&(shown.len() as u32).to_be_bytes());
                    wanted.extend_from_slice(&shown)
                }
            }
            assert_eq!(found, wanted, "{value:?} {ty:?}");
        }
    }
}
