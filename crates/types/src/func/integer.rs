//! Arithmetic and bits of smallint, integer and bigint, each with the mixed pairs PostgreSQL knows.
//!
//! A result that does not fit its type is an error (22003), never a wrap; only shifts drop bits, and take the
//! count modulo the width of the machine's operation, as PostgreSQL does on x86-64.

use super::{division_by_zero, out_of_range};
use crate::{SqlResult, Value};

/// What the three integer types have in common, for the generic code below.
trait Int: Copy + PartialEq {
    const NAME: &'static str;
    const ZERO: Self;
    fn value(self) -> Value;
    fn wide(self) -> i128;
    fn narrow(v: i128) -> Option<Self>;
    fn add(self, o: Self) -> Option<Self>;
    fn sub(self, o: Self) -> Option<Self>;
    fn mul(self, o: Self) -> Option<Self>;
    fn div(self, o: Self) -> Option<Self>;
    fn rem(self, o: Self) -> Self;
    fn neg(self) -> Option<Self>;
    fn abs(self) -> Option<Self>;
}

macro_rules! int {
    ($ty:ident $variant:ident $name:literal) => {
        impl Int for $ty {
            const NAME: &'static str = $name;
            const ZERO: $ty = 0;
            fn value(self) -> Value {
                Value::$variant(self)
            }
            fn wide(self) -> i128 {
                self.into()
            }
            fn narrow(v: i128) -> Option<$ty> {
                v.try_into().ok()
            }
            fn add(self, o: $ty) -> Option<$ty> {
                self.checked_add(o)
            }
            fn sub(self, o: $ty) -> Option<$ty> {
                self.checked_sub(o)
            }
            fn mul(self, o: $ty) -> Option<$ty> {
                self.checked_mul(o)
            }
            fn div(self, o: $ty) -> Option<$ty> {
                self.checked_div(o)
            }
            fn rem(self, o: $ty) -> $ty {
                self.wrapping_rem(o)
            }
            fn neg(self) -> Option<$ty> {
                self.checked_neg()
            }
            fn abs(self) -> Option<$ty> {
                self.checked_abs()
            }
        }
    };
}
int!(i16 Int2 "smallint");
int!(i32 Int4 "integer");
int!(i64 Int8 "bigint");

#[inline]
fn checked<T: Int>(v: Option<T>) -> SqlResult<Value> {
    v.map(T::value).ok_or_else(|| out_of_range(T::NAME))
}

fn div<T: Int>(a: T, b: T) -> SqlResult<Value> {
    if b == T::ZERO {
        return Err(division_by_zero());
    }
    checked(a.div(b))
}

fn rem<T: Int>(a: T, b: T) -> SqlResult<Value> {
    if b == T::ZERO {
        return Err(division_by_zero());
    }
    Ok(a.rem(b).value())
}

fn gcd_wide(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn gcd<T: Int>(a: T, b: T) -> SqlResult<Value> {
    checked(T::narrow(gcd_wide(a.wide(), b.wide())))
}

fn lcm<T: Int>(a: T, b: T) -> SqlResult<Value> {
    let (a, b) = (a.wide(), b.wide());
    if a == 0 || b == 0 {
        return Ok(T::ZERO.value());
    }
    // Both are at most 2^63, so the product stays within an i128.
    checked(T::narrow((a / gcd_wide(a, b) * b).abs()))
}

/// Binary, with both sides widened to the type of the result.
macro_rules! pair {
    ($op:ident, $left:ident, $right:ident, $ty:ident) => {
        |c| checked(<$ty as Int>::$op($ty::from(c.$left(0)?), $ty::from(c.$right(1)?)))
    };
}
macro_rules! pair_div {
    ($left:ident, $right:ident, $ty:ident) => {
        |c| div($ty::from(c.$left(0)?), $ty::from(c.$right(1)?))
    };
}
/// Binary on one type, through a generic function.
macro_rules! same {
    ($fun:ident, $get:ident) => {
        |c| $fun(c.$get(0)?, c.$get(1)?)
    };
}
macro_rules! one {
    ($op:ident, $get:ident, $ty:ident) => {
        |c| checked(<$ty as Int>::$op(c.$get(0)?))
    };
}
macro_rules! bits {
    ($variant:ident, $get:ident, $op:tt) => {
        |c| Ok(Value::$variant(c.$get(0)? $op c.$get(1)?))
    };
}

functions! {
    200 INT2_ADD "int2pl" (Int2, Int2) -> Int2 = pair!(add, int2, int2, i16);
    201 INT24_ADD "int24pl" (Int2, Int4) -> Int4 = pair!(add, int2, int4, i32);
    202 INT28_ADD "int28pl" (Int2, Int8) -> Int8 = pair!(add, int2, int8, i64);
    203 INT42_ADD "int42pl" (Int4, Int2) -> Int4 = pair!(add, int4, int2, i32);
    204 INT4_ADD "int4pl" (Int4, Int4) -> Int4 = pair!(add, int4, int4, i32);
    205 INT48_ADD "int48pl" (Int4, Int8) -> Int8 = pair!(add, int4, int8, i64);
    206 INT82_ADD "int82pl" (Int8, Int2) -> Int8 = pair!(add, int8, int2, i64);
    207 INT84_ADD "int84pl" (Int8, Int4) -> Int8 = pair!(add, int8, int4, i64);
    208 INT8_ADD "int8pl" (Int8, Int8) -> Int8 = pair!(add, int8, int8, i64);
    209 INT2_SUB "int2mi" (Int2, Int2) -> Int2 = pair!(sub, int2, int2, i16);
    210 INT24_SUB "int24mi" (Int2, Int4) -> Int4 = pair!(sub, int2, int4, i32);
    211 INT28_SUB "int28mi" (Int2, Int8) -> Int8 = pair!(sub, int2, int8, i64);
    212 INT42_SUB "int42mi" (Int4, Int2) -> Int4 = pair!(sub, int4, int2, i32);
    213 INT4_SUB "int4mi" (Int4, Int4) -> Int4 = pair!(sub, int4, int4, i32);
    214 INT48_SUB "int48mi" (Int4, Int8) -> Int8 = pair!(sub, int4, int8, i64);
    215 INT82_SUB "int82mi" (Int8, Int2) -> Int8 = pair!(sub, int8, int2, i64);
    216 INT84_SUB "int84mi" (Int8, Int4) -> Int8 = pair!(sub, int8, int4, i64);
    217 INT8_SUB "int8mi" (Int8, Int8) -> Int8 = pair!(sub, int8, int8, i64);
    218 INT2_MUL "int2mul" (Int2, Int2) -> Int2 = pair!(mul, int2, int2, i16);
    219 INT24_MUL "int24mul" (Int2, Int4) -> Int4 = pair!(mul, int2, int4, i32);
    220 INT28_MUL "int28mul" (Int2, Int8) -> Int8 = pair!(mul, int2, int8, i64);
    221 INT42_MUL "int42mul" (Int4, Int2) -> Int4 = pair!(mul, int4, int2, i32);
    222 INT4_MUL "int4mul" (Int4, Int4) -> Int4 = pair!(mul, int4, int4, i32);
    223 INT48_MUL "int48mul" (Int4, Int8) -> Int8 = pair!(mul, int4, int8, i64);
    224 INT82_MUL "int82mul" (Int8, Int2) -> Int8 = pair!(mul, int8, int2, i64);
    225 INT84_MUL "int84mul" (Int8, Int4) -> Int8 = pair!(mul, int8, int4, i64);
    226 INT8_MUL "int8mul" (Int8, Int8) -> Int8 = pair!(mul, int8, int8, i64);
    227 INT2_DIV "int2div" (Int2, Int2) -> Int2 = pair_div!(int2, int2, i16);
    228 INT24_DIV "int24div" (Int2, Int4) -> Int4 = pair_div!(int2, int4, i32);
    229 INT28_DIV "int28div" (Int2, Int8) -> Int8 = pair_div!(int2, int8, i64);
    230 INT42_DIV "int42div" (Int4, Int2) -> Int4 = pair_div!(int4, int2, i32);
    231 INT4_DIV "int4div" (Int4, Int4) -> Int4 = pair_div!(int4, int4, i32);
    232 INT48_DIV "int48div" (Int4, Int8) -> Int8 = pair_div!(int4, int8, i64);
    233 INT82_DIV "int82div" (Int8, Int2) -> Int8 = pair_div!(int8, int2, i64);
    234 INT84_DIV "int84div" (Int8, Int4) -> Int8 = pair_div!(int8, int4, i64);
    235 INT8_DIV "int8div" (Int8, Int8) -> Int8 = pair_div!(int8, int8, i64);
    236 INT2_REM "int2mod" (Int2, Int2) -> Int2 = same!(rem, int2);
    237 INT4_REM "int4mod" (Int4, Int4) -> Int4 = same!(rem, int4);
    238 INT8_REM "int8mod" (Int8, Int8) -> Int8 = same!(rem, int8);
    239 INT2_MOD "mod" (Int2, Int2) -> Int2 = same!(rem, int2);
    240 INT4_MOD "mod" (Int4, Int4) -> Int4 = same!(rem, int4);
    241 INT8_MOD "mod" (Int8, Int8) -> Int8 = same!(rem, int8);
    242 INT2_NEG "int2um" (Int2) -> Int2 = one!(neg, int2, i16);
    243 INT4_NEG "int4um" (Int4) -> Int4 = one!(neg, int4, i32);
    244 INT8_NEG "int8um" (Int8) -> Int8 = one!(neg, int8, i64);
    245 INT2_PLUS "int2up" (Int2) -> Int2 = |c| Ok(c.int2(0)?.value());
    246 INT4_PLUS "int4up" (Int4) -> Int4 = |c| Ok(c.int4(0)?.value());
    247 INT8_PLUS "int8up" (Int8) -> Int8 = |c| Ok(c.int8(0)?.value());
    248 INT2_ABS "abs" (Int2) -> Int2 = one!(abs, int2, i16);
    249 INT4_ABS "abs" (Int4) -> Int4 = one!(abs, int4, i32);
    250 INT8_ABS "abs" (Int8) -> Int8 = one!(abs, int8, i64);
    251 INT2_ABS_OP "int2abs" (Int2) -> Int2 = one!(abs, int2, i16);
    252 INT4_ABS_OP "int4abs" (Int4) -> Int4 = one!(abs, int4, i32);
    253 INT8_ABS_OP "int8abs" (Int8) -> Int8 = one!(abs, int8, i64);
    254 INT2_AND "int2and" (Int2, Int2) -> Int2 = bits!(Int2, int2, &);
    255 INT4_AND "int4and" (Int4, Int4) -> Int4 = bits!(Int4, int4, &);
    256 INT8_AND "int8and" (Int8, Int8) -> Int8 = bits!(Int8, int8, &);
    257 INT2_OR "int2or" (Int2, Int2) -> Int2 = bits!(Int2, int2, |);
    258 INT4_OR "int4or" (Int4, Int4) -> Int4 = bits!(Int4, int4, |);
    259 INT8_OR "int8or" (Int8, Int8) -> Int8 = bits!(Int8, int8, |);
    260 INT2_XOR "int2xor" (Int2, Int2) -> Int2 = bits!(Int2, int2, ^);
    261 INT4_XOR "int4xor" (Int4, Int4) -> Int4 = bits!(Int4, int4, ^);
    262 INT8_XOR "int8xor" (Int8, Int8) -> Int8 = bits!(Int8, int8, ^);
    263 INT2_NOT "int2not" (Int2) -> Int2 = |c| Ok(Value::Int2(!c.int2(0)?));
    264 INT4_NOT "int4not" (Int4) -> Int4 = |c| Ok(Value::Int4(!c.int4(0)?));
    265 INT8_NOT "int8not" (Int8) -> Int8 = |c| Ok(Value::Int8(!c.int8(0)?));
    266 INT2_SHL "int2shl" (Int2, Int4) -> Int2 = |c| Ok(Value::Int2(i32::from(c.int2(0)?).wrapping_shl(c.int4(1)? as u32) as i16));
    267 INT4_SHL "int4shl" (Int4, Int4) -> Int4 = |c| Ok(Value::Int4(c.int4(0)?.wrapping_shl(c.int4(1)? as u32)));
    268 INT8_SHL "int8shl" (Int8, Int4) -> Int8 = |c| Ok(Value::Int8(c.int8(0)?.wrapping_shl(c.int4(1)? as u32)));
    269 INT2_SHR "int2shr" (Int2, Int4) -> Int2 = |c| Ok(Value::Int2(i32::from(c.int2(0)?).wrapping_shr(c.int4(1)? as u32) as i16));
    270 INT4_SHR "int4shr" (Int4, Int4) -> Int4 = |c| Ok(Value::Int4(c.int4(0)?.wrapping_shr(c.int4(1)? as u32)));
    271 INT8_SHR "int8shr" (Int8, Int4) -> Int8 = |c| Ok(Value::Int8(c.int8(0)?.wrapping_shr(c.int4(1)? as u32)));
    272 INT4_GCD "gcd" (Int4, Int4) -> Int4 = same!(gcd, int4);
    273 INT8_GCD "gcd" (Int8, Int8) -> Int8 = same!(gcd, int8);
    274 INT4_LCM "lcm" (Int4, Int4) -> Int4 = same!(lcm, int4);
    275 INT8_LCM "lcm" (Int8, Int8) -> Int8 = same!(lcm, int8);
}
