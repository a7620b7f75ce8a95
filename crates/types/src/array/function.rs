//! The functions and operators of arrays.
//!
//! Those whose names begin with `$` cannot be called by name; the binder puts them in the place of syntax. A
//! function that may have to make an array of nothing but NULLs is given an empty array of the type that it
//! makes: behind its arguments if it can be called by name ([`FuncDef::template`]), else before them.

use super::subscript::{assign, assign_slice, element, grown, item, part, slice};
use super::text::write_bounds;
use super::{Array, Builder, Dimension, check_depth, count_items, empty};
use crate::catalog::{compares, comparisons};
use crate::func::operator::binary;
use crate::func::{Call, FuncId, OperatorDef, find, functions, internal, out_of_range, state};
use crate::limits::{Limits, TURNS};
use crate::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, sqlstate, text, value};

#[cfg(doc)]
use crate::func::FuncDef;

functions! {
    910 ARRAY_LT "array_lt" (AnyArray, AnyArray) -> Bool = compares!(is_lt);
    911 ARRAY_LE "array_le" (AnyArray, AnyArray) -> Bool = compares!(is_le);
    912 ARRAY_EQ "array_eq" (AnyArray, AnyArray) -> Bool = compares!(is_eq);
    913 ARRAY_NE "array_ne" (AnyArray, AnyArray) -> Bool = compares!(is_ne);
    914 ARRAY_GE "array_ge" (AnyArray, AnyArray) -> Bool = compares!(is_ge);
    915 ARRAY_GT "array_gt" (AnyArray, AnyArray) -> Bool = compares!(is_gt);
    916 ARRAY_CAT "array_cat" (AnyCompatibleArray, AnyCompatibleArray) -> AnyCompatibleArray = |c| cat(c), lax;
    917 ARRAY_APPEND "array_append" (AnyCompatibleArray, AnyCompatible) -> AnyCompatibleArray =
        |c| append(c, 0, c.args[1]), lax, template;
    918 ARRAY_PREPEND "array_prepend" (AnyCompatible, AnyCompatibleArray) -> AnyCompatibleArray =
        |c| prepend(c), lax, template;
    919 ARRAY_REMOVE "array_remove" (AnyCompatibleArray, AnyCompatible) -> AnyCompatibleArray =
        |c| replace(c, None), lax;
    920 ARRAY_REPLACE "array_replace" (AnyCompatibleArray, AnyCompatible, AnyCompatible) -> AnyCompatibleArray =
        |c| replace(c, Some(c.args[2])), lax;
    921 ARRAY_POSITION "array_position" (AnyCompatibleArray, AnyCompatible) -> Int4 = |c| position(c), lax;
    922 ARRAY_POSITION_FROM "array_position" (AnyCompatibleArray, AnyCompatible, Int4) -> Int4 =
        |c| position(c), lax;
    923 ARRAY_POSITIONS "array_positions" (AnyCompatibleArray, AnyCompatible) -> Int4Array =
        |c| positions(c), lax;
    924 ARRAY_LENGTH "array_length" (AnyArray, Int4) -> Int4 = |c| dimension(c, |d| d.length);
    925 ARRAY_LOWER "array_lower" (AnyArray, Int4) -> Int4 = |c| dimension(c, |d| d.lower);
    926 ARRAY_UPPER "array_upper" (AnyArray, Int4) -> Int4 = |c| dimension(c, Dimension::upper);
    927 ARRAY_NDIMS "array_ndims" (AnyArray) -> Int4 =
        |c| Ok(Some(c.array(0)?.dimensions().len()).filter(|n| *n > 0).map_or(Value::Null, |n| Value::Int4(n as i32)));
    928 ARRAY_DIMS "array_dims" (AnyArray) -> Text = |c| dims(c);
    929 CARDINALITY "cardinality" (AnyArray) -> Int4 = |c| Ok(Value::Int4(c.array(0)?.len() as i32));
    930 ARRAY_TO_STRING "array_to_string" (AnyArray, Text) -> Text = |c| to_string(c, None), stable;
    931 ARRAY_TO_STRING_NULL "array_to_string" (AnyArray, Text, Text) -> Text =
        |c| to_string(c, if c.is_null(2) { None } else { Some(c.text(2)?) }), stable, lax;
    932 STRING_TO_ARRAY "string_to_array" (Text, Text) -> TextArray = |c| of_string(c), lax;
    933 STRING_TO_ARRAY_NULL "string_to_array" (Text, Text, Text) -> TextArray = |c| of_string(c), lax;
    934 ARRAY_FILL "array_fill" (AnyElement, Int4Array) -> AnyArray = |c| fill(c), lax, template;
    935 ARRAY_FILL_FROM "array_fill" (AnyElement, Int4Array, Int4Array) -> AnyArray = |c| fill(c), lax, template;
    936 TRIM_ARRAY "trim_array" (AnyArray, Int4) -> AnyArray = |c| trim(c);
    937 ARRAY_CONTAINS "arraycontains" (AnyArray, AnyArray) -> Bool = |c| contains(&c.array(0)?, &c.array(1)?, c.limits());
    938 ARRAY_CONTAINED "arraycontained" (AnyArray, AnyArray) -> Bool = |c| contains(&c.array(1)?, &c.array(0)?, c.limits());
    939 ARRAY_OVERLAP "arrayoverlap" (AnyArray, AnyArray) -> Bool = |c| overlap(&c.array(0)?, &c.array(1)?, c.limits());
    940 ARRAY_OF_ITEMS "$array" (Any) -> AnyArray = |c| of_items(c), lax, variadic;
    941 ARRAY_OF_ARRAYS "$arrays" (Any) -> AnyArray = |c| of_arrays(c), lax, variadic;
    942 ARRAY_ELEMENT "$element" (Any, Int4) -> AnyElement = |c| element(c), variadic;
    943 ARRAY_SLICE "$slice" (Any, Int4) -> AnyArray = |c| slice(c), variadic;
    944 ARRAY_ASSIGN "$assign" (Any, Any, Any, Int4) -> AnyArray = |c| assign(c), lax, variadic;
    949 ARRAY_ASSIGN_SLICE "$assign_slice" (Any, Any, Any, Int4) -> AnyArray = |c| assign_slice(c), lax, variadic;
    945 ANY_OF_ARRAY "$any" (Any, Any, Int4) -> Bool = |c| quantified(c, true), lax;
    946 ALL_OF_ARRAY "$all" (Any, Any, Int4) -> Bool = |c| quantified(c, false), lax;
    947 ARRAY_ITEM "$item" (Any, Int8) -> AnyElement = |c| item(c);
    948 LONGEST_ARRAY "$longest" (Any) -> Int8 = |c| longest(c), lax, variadic;
}

const ARRAY: TypeId = TypeId::ANYARRAY;
const SUPER: TypeId = TypeId::ANYCOMPATIBLEARRAY;

pub(crate) const OPERATORS: &[&[OperatorDef]] = &[
    &comparisons(
        (ARRAY, ARRAY),
        [id::ARRAY_LT, id::ARRAY_LE, id::ARRAY_EQ, id::ARRAY_NE, id::ARRAY_GE, id::ARRAY_GT],
    ),
    &[
        binary("@>", ARRAY, ARRAY, id::ARRAY_CONTAINS, "<@", ""),
        binary("<@", ARRAY, ARRAY, id::ARRAY_CONTAINED, "@>", ""),
        binary("&&", ARRAY, ARRAY, id::ARRAY_OVERLAP, "&&", ""),
        binary("||", SUPER, SUPER, id::ARRAY_CAT, "", ""),
        binary("||", SUPER, TypeId::ANYCOMPATIBLE, id::ARRAY_APPEND, "", ""),
        binary("||", TypeId::ANYCOMPATIBLE, SUPER, id::ARRAY_PREPEND, "", ""),
    ],
];

fn subscript_error(message: impl Into<String>) -> SqlError {
    SqlError::new(state::ARRAY_SUBSCRIPT_ERROR, message)
}

fn owned(c: &Call<'_>, i: usize) -> Value {
    c.args[i].to_owned()
}

// ---- making -----------------------------------------------------------------------------------------------

/// The array of the type of the first argument, of the others.
fn of_items(c: &Call<'_>) -> SqlResult<Value> {
    let mut out = Builder::new(c.array(0)?.element);
    c.args[1..].iter().try_for_each(|v| out.push(*v))?;
    out.finish_list()
}

/// The same of arrays, which become its outermost dimension.
fn of_arrays(c: &Call<'_>) -> SqlResult<Value> {
    let mut out = Builder::new(c.array(0)?.element);
    let mut join = Join::default();
    for i in 1..c.args.len() {
        join.add(&mut out, c.array_or_none(i))?;
    }
    join.finish(&out)
}

/// Arrays that become the outermost dimension of one.
#[derive(Default)]
struct Join {
    rows: usize,
    inner: Option<Vec<Dimension>>,
}

impl Join {
    /// Adds an array behind the others. NULLs and empty ones count alike.
    fn add(&mut self, out: &mut Builder, array: Option<Array<'_>>) -> SqlResult<()> {
        let dimensions: Vec<Dimension> = array.map_or(Vec::new(), |a| a.dimensions().collect());
        check_depth(dimensions.len() + 1)?;
        match &self.inner {
            Some(inner) if *inner != dimensions => {
                let message = "multidimensional arrays must have array expressions with matching dimensions";
                return Err(subscript_error(message));
            }
            Some(_) => {}
            None => self.inner = Some(dimensions),
        }
        self.rows += 1;
        array.map_or(Ok(()), |a| out.extend(&a))
    }

    fn finish(&self, out: &Builder) -> SqlResult<Value> {
        let mut dimensions = vec![Dimension::of_length(self.rows)];
        dimensions.extend(self.inner.iter().flatten());
        count_items(&dimensions)?;
        out.finish(&dimensions)
    }
}

fn cat(c: &Call<'_>) -> SqlResult<Value> {
    let (a, b) = match (c.is_null(0), c.is_null(1)) {
        (true, _) => return Ok(owned(c, 1)),
        (_, true) => return Ok(owned(c, 0)),
        _ => (c.array(0)?, c.array(1)?),
    };
    let (x, y): (Vec<Dimension>, Vec<Dimension>) = (a.dimensions().collect(), b.dimensions().collect());
    if x.is_empty() || y.is_empty() {
        return Ok(owned(c, usize::from(x.is_empty() && !y.is_empty())));
    }
    let refused = |detail: String| {
        let message = "cannot concatenate incompatible arrays";
        Err(subscript_error(message).detail(detail))
    };
    let longer = |of: &[Dimension], by: i32| {
        let mut all = of.to_vec();
        all[0].length = all[0].length.checked_add(by).ok_or_else(super::too_many_items)?;
        Ok(all)
    };
    let dimensions = if x.len() == y.len() {
        if x[1..] != y[1..] {
            return refused(
                "Arrays with differing element dimensions are not compatible for concatenation.".into(),
            );
        }
        longer(&x, y[0].length)?
    } else if x.len().abs_diff(y.len()) == 1 {
        let (outer, inner) = if x.len() > y.len() { (&x, &y) } else { (&y, &x) };
        if outer[1..] != inner[..] {
            return refused("Arrays with differing dimensions are not compatible for concatenation.".into());
        }
        longer(outer, 1)?
    } else {
        let (x, y) = (x.len(), y.len());
        return refused(format!("Arrays of {x} and {y} dimensions are not compatible for concatenation."));
    };
    count_items(&dimensions)?;
    c.limits().take(c.args.iter().map(ValueRef::byte_len).sum())?;
    let mut out = Builder::new(a.element);
    out.extend(&a)?;
    out.extend(&b)?;
    out.finish(&dimensions)
}

/// The array at an argument, an empty one of the template's type for NULL.
fn array_or_template<'a>(c: &Call<'a>, i: usize) -> SqlResult<Array<'a>> {
    if c.is_null(i) { c.array(c.args.len() - 1) } else { c.array(i) }
}

fn one_dimension(array: &Array<'_>) -> SqlResult<Dimension> {
    match array.only_dimension() {
        Ok(d) => Ok(d),
        Err(0) => Ok(Dimension { length: 0, lower: 1 }),
        Err(_) => {
            let message = "argument must be empty or one-dimensional array";
            Err(SqlError::new("22000", message))
        }
    }
}

fn append(c: &Call<'_>, array: usize, item: ValueRef<'_>) -> SqlResult<Value> {
    let array = array_or_template(c, array)?;
    let mut d = one_dimension(&array)?;
    let end = d.lower.checked_add(d.length).ok_or_else(|| out_of_range("integer"))?;
    grown(array, &mut d, end, item)
}

/// The lower bound stays.
fn prepend(c: &Call<'_>) -> SqlResult<Value> {
    let array = array_or_template(c, 1)?;
    let d = one_dimension(&array)?;
    if !array.is_empty() && d.lower == i32::MIN {
        return Err(out_of_range("integer"));
    }
    let mut out = Builder::new(array.element);
    out.push(c.args[0])?;
    out.extend(&array)?;
    let longer = Dimension { length: d.length + 1, ..d };
    count_items(&[longer])?;
    out.finish(&[longer])
}

fn fill(c: &Call<'_>) -> SqlResult<Value> {
    let last = c.args.len() - 1;
    if (1..last).any(|i| c.is_null(i)) {
        let message = "dimension array or low bound array cannot be null";
        return Err(SqlError::new(sqlstate::NULL_VALUE_NOT_ALLOWED, message));
    }
    let wrong = |detail: &str| subscript_error("wrong number of array subscripts").detail(detail);
    let list = |i: usize| {
        let array = c.array(i)?;
        if array.dimensions().len() > 1 {
            return Err(wrong("Dimension array must be one dimensional."));
        }
        if array.has_nulls() {
            let message = "dimension values cannot be null";
            return Err(SqlError::new(sqlstate::NULL_VALUE_NOT_ALLOWED, message));
        }
        let number = |v: ValueRef<'_>| if let ValueRef::Int4(n) = v { n } else { 0 };
        Ok(array.items().map(number).collect::<Vec<i32>>())
    };
    let lengths = list(1)?;
    check_depth(lengths.len())?;
    let lowers = if last == 3 { list(2)? } else { vec![1; lengths.len()] };
    if lowers.len() != lengths.len() {
        return Err(wrong("Low bound array has different size than dimensions array."));
    }
    let dimensions: Vec<Dimension> =
        lengths.into_iter().zip(lowers).map(|(length, lower)| Dimension { length, lower }).collect();
    let count = count_items(&dimensions)?;
    let mut out = Builder::new(c.array(last)?.element);
    c.limits().take(count.saturating_mul(c.args[0].byte_len().max(8)))?;
    for i in 0..count {
        if i % TURNS == 0 {
            c.limits().turn(count)?
        }
        out.push(c.args[0])?;
    }
    out.finish(&dimensions)
}

// ---- changing ---------------------------------------------------------------------------------------------

/// Whether the item at a place is the value, a NULL being one too.
fn is_item(array: &Array<'_>, i: usize, b: ValueRef<'_>) -> bool {
    let (a, b) = (array.item(i), super::comparable(b, array.element));
    a.is_null() == b.is_null() && (a.is_null() || value::compare(a, b).is_eq())
}

/// An array with another item, or none, in the place of those that equal the second argument.
fn replace(c: &Call<'_>, with: Option<ValueRef<'_>>) -> SqlResult<Value> {
    if c.is_null(0) {
        return Ok(Value::Null);
    }
    let array = c.array(0)?;
    let mut dimensions: Vec<Dimension> = array.dimensions().collect();
    if with.is_none() && dimensions.len() > 1 {
        return Err(SqlError::new(
            sqlstate::FEATURE_NOT_SUPPORTED,
            "removing elements from multidimensional arrays is not supported",
        ));
    }
    let mut out = Builder::new(array.element);
    for i in 0..array.len() {
        if i % TURNS == 0 {
            c.limits().go_on()?
        }
        match with {
            _ if !is_item(&array, i, c.args[1]) => out.push(array.stored(i))?,
            Some(with) => out.push(with)?,
            None => {}
        }
    }
    if let (None, [d]) = (with, &mut dimensions[..]) {
        d.length = out.len() as i32;
    }
    out.finish(&dimensions)
}

fn trim(c: &Call<'_>) -> SqlResult<Value> {
    let (array, n) = (c.array(0)?, c.int4(1)?);
    let length = array.dimensions().next().map_or(0, |d| d.length);
    if !(0..=length).contains(&n) {
        let message = format!("number of elements to trim must be between 0 and {length}");
        return Err(subscript_error(message));
    }
    if array.is_empty() {
        return Ok(array.element.array().map_or(Value::Null, empty));
    }
    part(&array, 1, |_, d| (d.lower, d.upper() - n))
}

// ---- asking -----------------------------------------------------------------------------------------------

fn dimension(c: &Call<'_>, what: impl Fn(Dimension) -> i32) -> SqlResult<Value> {
    let wanted = usize::try_from(c.int4(1)?.wrapping_sub(1)).ok();
    let found = wanted.and_then(|n| c.array(0).ok()?.dimensions().nth(n));
    c.array(0)?;
    Ok(found.map_or(Value::Null, |d| Value::Int4(what(d))))
}

fn dims(c: &Call<'_>) -> SqlResult<Value> {
    let dimensions: Vec<Dimension> = c.array(0)?.dimensions().collect();
    if dimensions.is_empty() {
        return Ok(Value::Null);
    }
    let mut out = String::new();
    write_bounds(&dimensions, &mut out);
    Ok(Value::Text(out))
}

fn searched<'a>(c: &Call<'a>) -> SqlResult<Option<(Array<'a>, Dimension)>> {
    if c.is_null(0) {
        return Ok(None);
    }
    let array = c.array(0)?;
    match array.only_dimension() {
        Ok(d) => Ok(Some((array, d))),
        Err(0) => Ok(None),
        Err(_) => Err(SqlError::new(
            sqlstate::FEATURE_NOT_SUPPORTED,
            "searching for elements in multidimensional arrays is not supported",
        )),
    }
}

fn position(c: &Call<'_>) -> SqlResult<Value> {
    let Some((array, d)) = searched(c)? else { return Ok(Value::Null) };
    if c.args.len() == 3 && c.is_null(2) {
        let message = "initial position must not be null";
        return Err(SqlError::new(sqlstate::NULL_VALUE_NOT_ALLOWED, message));
    }
    let from = if c.args.len() == 3 { c.int4(2)? } else { d.lower };
    let skipped = usize::try_from(i64::from(from) - i64::from(d.lower)).unwrap_or(0);
    let found = find_item(&array, skipped, c.args[1], c.limits())?;
    Ok(found.map_or(Value::Null, |i| Value::Int4(d.lower + i as i32)))
}

fn positions(c: &Call<'_>) -> SqlResult<Value> {
    if c.is_null(0) {
        return Ok(Value::Null);
    }
    let mut out = Builder::new(TypeId::INT4);
    if let Some((array, d)) = searched(c)? {
        let mut from = 0;
        while let Some(i) = find_item(&array, from, c.args[1], c.limits())? {
            out.push(ValueRef::Int4(d.lower + i as i32))?;
            from = i + 1
        }
    }
    out.finish_list()
}

/// Whether every item of the second is one of the first; a NULL never is.
fn contains(all: &Array<'_>, some: &Array<'_>, limits: &Limits<'_>) -> SqlResult<Value> {
    for v in some.items() {
        if v.is_null() || find_item(all, 0, v, limits)?.is_none() {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn overlap(a: &Array<'_>, b: &Array<'_>, limits: &Limits<'_>) -> SqlResult<Value> {
    for v in a.items() {
        if !v.is_null() && find_item(b, 0, v, limits)?.is_some() {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

/// The first item at or after `from` that is the value.
fn find_item(
    array: &Array<'_>,
    from: usize,
    v: ValueRef<'_>,
    limits: &Limits<'_>,
) -> SqlResult<Option<usize>> {
    for i in from..array.len() {
        if (i - from).is_multiple_of(TURNS) {
            limits.turn(array.len())?
        }
        if is_item(array, i, v) {
            return Ok(Some(i));
        }
    }
    Ok(None)
}

/// `x op ANY (array)`, or ALL: of (x, the array, the operator's function).
fn quantified(c: &Call<'_>, any: bool) -> SqlResult<Value> {
    if c.is_null(1) {
        return Ok(Value::Null);
    }
    let array = c.array(1)?;
    if array.is_empty() {
        return Ok(Value::Bool(!any));
    }
    let number = c.int4(2)?;
    let function = u16::try_from(number).ok().and_then(|n| find(FuncId(n)));
    let Some(function) = function.filter(|f| f.strict && f.args.len() == 2) else {
        return Err(internal(format!("function {number} is no operator's")));
    };
    if c.is_null(0) {
        return Ok(Value::Null);
    }
    let mut unknown = false;
    for i in 0..array.len() {
        if i % TURNS == 0 {
            c.limits().go_on()?
        }
        let item = array.item(i);
        let one = match item.is_null() {
            true => Value::Null,
            false => (function.run)(&mut Call { args: &[c.args[0], item], ctx: c.ctx })?,
        };
        match one {
            Value::Bool(b) if b == any => return Ok(Value::Bool(any)),
            Value::Null => unknown = true,
            _ => {}
        }
    }
    Ok(if unknown { Value::Null } else { Value::Bool(!any) })
}

/// The most items that one of the arrays has.
fn longest(c: &Call<'_>) -> SqlResult<Value> {
    let lengths = (0..c.args.len()).filter_map(|i| c.array_or_none(i)).map(|a| a.len());
    Ok(Value::Int8(lengths.max().unwrap_or(0) as i64))
}

// ---- strings ----------------------------------------------------------------------------------------------

fn to_string(c: &Call<'_>, null: Option<&str>) -> SqlResult<Value> {
    if c.is_null(0) || c.is_null(1) {
        return Ok(Value::Null);
    }
    let (array, separator) = (c.array(0)?, c.text(1)?);
    let mut out = String::new();
    let mut is_first = true;
    for i in 0..array.len() {
        let item = array.stored(i);
        if item.is_null() && null.is_none() {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            out.push_str(separator);
        }
        match item {
            ValueRef::Null => out.push_str(null.unwrap_or_default()),
            v => text::styled(v, Type::new(array.element), &c.ctx.styles, &mut out),
        }
        if i % TURNS == 0 {
            c.limits().go_on()?
        }
    }
    Ok(Value::Text(out))
}

/// The parts of a string between separators; its characters, if the separator is NULL.
fn of_string(c: &Call<'_>) -> SqlResult<Value> {
    if c.is_null(0) {
        return Ok(Value::Null);
    }
    let whole = c.text(0)?;
    let null = if c.args.len() < 3 || c.is_null(2) { None } else { Some(c.text(2)?) };
    let mut out = Builder::new(TypeId::TEXT);
    let mut put = |part: &str| {
        if out.len().is_multiple_of(TURNS) {
            c.limits().go_on()?
        }
        match null {
            Some(null) if null == part => out.push(ValueRef::Null),
            _ => out.push(ValueRef::Text(part)),
        }
    };
    // Each part takes room of its own.
    c.limits().take(whole.len().saturating_mul(5))?;
    let mut buffer = [0; 4];
    if whole.is_empty() {
    } else if c.is_null(1) {
        whole.chars().try_for_each(|ch| put(ch.encode_utf8(&mut buffer)))?
    } else {
        match c.text(1)? {
            "" => put(whole)?,
            separator => whole.split(separator).try_for_each(&mut put)?,
        }
    }
    out.finish_list()
}
