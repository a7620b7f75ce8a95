//! Functions of regular expressions: the operators `~`, `~*`, `!~`, `!~*`, and what is found, counted,
//! replaced and divided by them.
//!
//! Places are counted in characters, from 1. An expression is compiled once ([`crate::regex::with`]). What
//! gives rows is given as an array here, whose items FROM makes rows of.

use super::Call;
use crate::array::{Builder, Dimension};
use crate::limits::Limits;
use crate::regex::{self, Flags, Regex, Span, Subject, similar};
use crate::{SqlError, SqlResult, TypeId, Value, ValueRef, sqlstate};

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

/// The options that a function is given.
#[derive(Clone, Copy, Default)]
struct Options {
    flags: Flags,
    /// All matches, not only the first.
    global: bool,
}

impl Options {
    fn read(text: &str) -> SqlResult<Options> {
        let mut options = Options::default();
        for c in text.chars() {
            match c {
                'g' => options.global = true,
                _ => {
                    let known = options.flags.option(c);
                    known.ok_or_else(|| invalid(format!("invalid regular expression option: \"{c}\"")))?;
                }
            }
        }
        Ok(options)
    }
    /// Argument `i`, if it is there, of a function that has its own mind on how many matches it wants.
    fn of(c: &Call<'_>, i: usize, function: &str) -> SqlResult<Options> {
        if i >= c.args.len() {
            return Ok(Options::default());
        }
        let options = Options::read(c.text(i)?)?;
        if options.global {
            let error = invalid(format!("{function} does not support the \"global\" option"));
            return Err(match function {
                "regexp_match()" => error.hint("Use the regexp_matches function instead."),
                _ => error,
            });
        }
        Ok(options)
    }
}

/// Argument `i` as an integer that is not less than `least`, or what stands for it.
fn integer(c: &Call<'_>, i: usize, name: &str, least: i32, otherwise: i32) -> SqlResult<usize> {
    let n = if i < c.args.len() { c.int4(i)? } else { otherwise };
    if n < least {
        return Err(invalid(format!("invalid value for parameter \"{name}\": {n}")));
    }
    Ok(n as usize)
}

/// A text and its expression, the first two arguments, given to a function.
fn with<R>(
    c: &Call<'_>,
    flags: Flags,
    f: impl FnOnce(&mut Regex, &Subject<'_>, &Limits<'_>) -> SqlResult<R>,
) -> SqlResult<R> {
    let (text, pattern) = (c.text(0)?, c.text(1)?);
    regex::with(pattern, flags, c.limits(), |regex| f(regex, &Subject::new(text, c.limits())?, c.limits()))
}

fn is_match(c: &Call<'_>, flags: Flags) -> SqlResult<bool> {
    with(c, flags, |regex, text, limits| regex.is_match(text, limits))
}

fn piece(text: &Subject<'_>, span: Span) -> String {
    let mut out = String::with_capacity(span.1 - span.0);
    text.push_to(span.0, span.1, &mut out);
    out
}

fn push_text(out: &mut Builder, piece: Option<&str>) -> SqlResult<()> {
    out.push(piece.map_or(ValueRef::Null, ValueRef::Text))
}

/// All matches from a place on, as far as `f` wants to go on: the groups of each are those captured, or the
/// match itself where there are none.
fn each_match(
    regex: &mut Regex,
    text: &Subject<'_>,
    limits: &Limits<'_>,
    from: usize,
    groups: usize,
    mut f: impl FnMut(&[Option<Span>]) -> SqlResult<bool>,
) -> SqlResult<()> {
    let mut at = from;
    while at <= text.len()
        && let Some(found) = regex.find(text, at, groups, limits)?
        && let Some((begin, end)) = found[0]
    {
        if !f(&found)? {
            break;
        }
        at = end + usize::from(begin == end);
    }
    Ok(())
}

/// What is captured by a match, or the match itself if nothing is.
fn captured(found: &[Option<Span>]) -> &[Option<Span>] {
    if found.len() > 1 { &found[1..] } else { found }
}

fn first_match(c: &Call<'_>) -> SqlResult<Value> {
    let options = Options::of(c, 2, "regexp_match()")?;
    with(c, options.flags, |regex, text, limits| {
        let Some(found) = regex.find(text, 0, regex.captures() + 1, limits)? else { return Ok(Value::Null) };
        let mut out = Builder::new(TypeId::TEXT);
        for span in captured(&found) {
            push_text(&mut out, span.map(|s| piece(text, s)).as_deref())?;
        }
        out.finish_list()
    })
}

/// The captures of all matches: an array of rows, or an empty one.
fn all_matches(c: &Call<'_>) -> SqlResult<Value> {
    let options = if c.args.len() > 2 { Options::read(c.text(2)?)? } else { Options::default() };
    with(c, options.flags, |regex, text, limits| {
        let mut out = Builder::new(TypeId::TEXT);
        let (mut rows, groups) = (0, regex.captures() + 1);
        each_match(regex, text, limits, 0, groups, |found| {
            for span in captured(found) {
                push_text(&mut out, span.map(|s| piece(text, s)).as_deref())?;
            }
            rows += 1;
            Ok(options.global)
        })?;
        if rows == 0 {
            return out.finish_list();
        }
        out.finish(&[Dimension::of_length(rows), Dimension::of_length(groups.max(2) - 1)])
    })
}

/// Row `n` of an array of rows, as a list.
fn row(c: &Call<'_>) -> SqlResult<Value> {
    let (array, n) = (c.array(0)?, c.int8(1)?);
    let mut dimensions = array.dimensions();
    let (Some(rows), Some(items)) = (dimensions.next(), dimensions.next()) else { return Ok(Value::Null) };
    let rows = rows.length as usize;
    let Some(n) = usize::try_from(n - 1).ok().filter(|n| *n < rows) else { return Ok(Value::Null) };
    let mut out = Builder::new(TypeId::TEXT);
    for i in 0..items.length as usize {
        out.push(array.item(n * items.length as usize + i))?;
    }
    out.finish_list()
}

/// The parts of a text between matches. Empty matches at its ends, and right behind another, divide nothing.
fn split(c: &Call<'_>, function: &str) -> SqlResult<Value> {
    let options = Options::of(c, 2, function)?;
    with(c, options.flags, |regex, text, limits| {
        let mut out = Builder::new(TypeId::TEXT);
        let (mut last_end, mut from) = (0, 0);
        each_match(regex, text, limits, 0, 1, |found| {
            if let Some((begin, end)) = found[0] {
                if begin < text.len() && end > last_end {
                    push_text(&mut out, Some(&piece(text, (from, begin))))?;
                    from = end;
                }
                last_end = end;
            }
            Ok(true)
        })?;
        push_text(&mut out, Some(&piece(text, (from, text.len()))))?;
        out.finish_list()
    })
}

fn count(c: &Call<'_>) -> SqlResult<Value> {
    let start = integer(c, 2, "start", 1, 1)?;
    let options = Options::of(c, 3, "regexp_count()")?;
    with(c, options.flags, |regex, text, limits| {
        let mut n = 0;
        each_match(regex, text, limits, start - 1, 1, |_| {
            n += 1;
            Ok(true)
        })?;
        Ok(Value::Int4(n))
    })
}

/// Match `n`, or one of its captures.
fn nth(c: &Call<'_>, flags: Flags, start: usize, n: usize, capture: usize) -> SqlResult<Option<Span>> {
    with(c, flags, |regex, text, limits| {
        let captures = regex.captures();
        if capture > captures.max(1) {
            return Ok(None);
        }
        let groups = if capture > 0 { captures + 1 } else { 1 };
        let (mut seen, mut span) = (0, None);
        each_match(regex, text, limits, start - 1, groups, |found| {
            seen += 1;
            if seen == n {
                span = if capture == 0 { found[0] } else { captured(found)[capture - 1] };
            }
            Ok(seen < n)
        })?;
        Ok(span)
    })
}

fn instr(c: &Call<'_>) -> SqlResult<Value> {
    let start = integer(c, 2, "start", 1, 1)?;
    let n = integer(c, 3, "n", 1, 1)?;
    let end = if c.args.len() > 4 { c.int4(4)? } else { 0 };
    if !(0..=1).contains(&end) {
        return Err(invalid(format!("invalid value for parameter \"endoption\": {end}")));
    }
    let capture = integer(c, 6, "subexpr", 0, 0)?;
    let options = Options::of(c, 5, "regexp_instr()")?;
    let span = nth(c, options.flags, start, n, capture)?;
    let place = span.map_or(0, |s| 1 + if end == 1 { s.1 } else { s.0 });
    i32::try_from(place).map(Value::Int4).map_err(|_| super::out_of_range("integer"))
}

fn substr(c: &Call<'_>) -> SqlResult<Value> {
    let start = integer(c, 2, "start", 1, 1)?;
    let n = integer(c, 3, "n", 1, 1)?;
    let capture = integer(c, 5, "subexpr", 0, 0)?;
    let options = Options::of(c, 4, "regexp_substr()")?;
    let span = nth(c, options.flags, start, n, capture)?;
    span_text(c, span)
}

fn span_text(c: &Call<'_>, span: Option<Span>) -> SqlResult<Value> {
    let Some(span) = span else { return Ok(Value::Null) };
    Ok(Value::Text(piece(&Subject::new(c.text(0)?, c.limits())?, span)))
}

/// What an expression captures first, or its whole match.
fn substring(text: &str, pattern: &str, limits: &Limits<'_>) -> SqlResult<Value> {
    regex::with(pattern, Flags::new(), limits, |regex| {
        let text = Subject::new(text, limits)?;
        let groups = regex.captures().min(1) + 1;
        let Some(found) = regex.find(&text, 0, groups, limits)? else { return Ok(Value::Null) };
        Ok(found[groups - 1].map_or(Value::Null, |s| Value::Text(piece(&text, s))))
    })
}

/// Appends a replacement: `\1` to `\9` are captures in it, `\&` is the match.
fn replacement(out: &mut String, template: &str, text: &Subject<'_>, found: &[Option<Span>]) {
    let mut chars = template.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let group = match chars.peek() {
            Some('&') => 0,
            Some(d @ '1'..='9') => *d as usize - '0' as usize,
            Some('\\') => {
                chars.next();
                out.push('\\');
                continue;
            }
            _ => {
                out.push('\\');
                continue;
            }
        };
        chars.next();
        if let Some((from, to)) = found.get(group).copied().flatten() {
            text.push_to(from, to, out);
        }
    }
}

/// Replaces match `n`, or all if that is 0.
fn replace(c: &Call<'_>, flags: Flags, start: usize, n: usize) -> SqlResult<Value> {
    let template = c.text(2)?;
    let groups = if template.contains('\\') { 10 } else { 1 };
    with(c, flags, |regex, text, limits| {
        let groups = groups.min(regex.captures() + 1);
        let (mut out, mut copied, mut seen, mut charged) = (String::new(), 0, 0, 0);
        each_match(regex, text, limits, start - 1, groups, |found| {
            seen += 1;
            if n > 0 && seen != n {
                return Ok(true);
            }
            if let Some((begin, end)) = found[0] {
                text.push_to(copied, begin, &mut out);
                replacement(&mut out, template, text, found);
                copied = end;
            }
            if out.len() > super::text::MAX_BYTES {
                return Err(super::text::too_large());
            }
            // As much again as there is, each time it has grown to that.
            if out.len() > charged {
                limits.take(out.len())?;
                charged = 2 * out.len();
            }
            Ok(n == 0)
        })?;
        text.push_to(copied, text.len(), &mut out);
        Ok(Value::Text(out))
    })
}

fn replace_with_options(c: &Call<'_>) -> SqlResult<Value> {
    let text = c.text(3)?;
    let options = Options::read(text).map_err(|e| match text.starts_with(|c: char| c.is_ascii_digit()) {
        true => e.hint(
            "If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer \
             explicitly.",
        ),
        false => e,
    })?;
    replace(c, options.flags, 1, usize::from(!options.global))
}

fn replace_from(c: &Call<'_>) -> SqlResult<Value> {
    let start = integer(c, 3, "start", 1, 1)?;
    let n = integer(c, 4, "n", 0, 1)?;
    let options = if c.args.len() > 5 { Options::read(c.text(5)?)? } else { Options::default() };
    replace(c, options.flags, start, n)
}

fn similar_to_escape(c: &Call<'_>) -> SqlResult<Value> {
    let escape = if c.args.len() > 1 { Some(c.text(1)?) } else { None };
    c.limits().take(c.text(0)?.len().saturating_mul(3))?;
    similar::to_regex(c.text(0)?, escape).map(Value::Text)
}

/// The older one, whose escape may be NULL.
fn similar_escape(c: &Call<'_>) -> SqlResult<Value> {
    if c.is_null(0) {
        return Ok(Value::Null);
    }
    let escape = if c.is_null(1) { None } else { Some(c.text(1)?) };
    c.limits().take(c.text(0)?.len().saturating_mul(3))?;
    similar::to_regex(c.text(0)?, escape).map(Value::Text)
}

macro_rules! matcher {
    ($flags:expr, $wanted:literal) => {
        |c: &mut Call<'_>| Ok(Value::Bool(is_match(c, $flags)? == $wanted))
    };
}

functions! {
    1030 TEXT_REGEX "textregexeq" (Text, Text) -> Bool = matcher!(Flags::new(), true), unicode;
    1031 TEXT_NOT_REGEX "textregexne" (Text, Text) -> Bool = matcher!(Flags::new(), false), unicode;
    1032 TEXT_IREGEX "texticregexeq" (Text, Text) -> Bool = matcher!(Flags::ignoring_case(), true), unicode;
    1033 TEXT_NOT_IREGEX "texticregexne" (Text, Text) -> Bool = matcher!(Flags::ignoring_case(), false),
        unicode;
    1034 BPCHAR_REGEX "bpcharregexeq" (Bpchar, Text) -> Bool = matcher!(Flags::new(), true), unicode;
    1035 BPCHAR_NOT_REGEX "bpcharregexne" (Bpchar, Text) -> Bool = matcher!(Flags::new(), false), unicode;
    1036 BPCHAR_IREGEX "bpcharicregexeq" (Bpchar, Text) -> Bool = matcher!(Flags::ignoring_case(), true),
        unicode;
    1037 BPCHAR_NOT_IREGEX "bpcharicregexne" (Bpchar, Text) -> Bool = matcher!(Flags::ignoring_case(), false),
        unicode;
    1038 REGEXP_MATCH "regexp_match" (Text, Text) -> TextArray = |c| first_match(c), unicode;
    1039 REGEXP_MATCH_FLAGS "regexp_match" (Text, Text, Text) -> TextArray = |c| first_match(c), unicode;
    1040 REGEXP_ALL_MATCHES "$regexp_matches" (Text, Text) -> TextArray = |c| all_matches(c), unicode;
    1041 REGEXP_ALL_MATCHES_FLAGS "$regexp_matches" (Text, Text, Text) -> TextArray = |c| all_matches(c),
        unicode;
    1042 ARRAY_ROW "$row" (TextArray, Int8) -> TextArray = |c| row(c);
    1043 REGEXP_SPLIT "regexp_split_to_array" (Text, Text) -> TextArray =
        |c| split(c, "regexp_split_to_array()"), unicode;
    1044 REGEXP_SPLIT_FLAGS "regexp_split_to_array" (Text, Text, Text) -> TextArray =
        |c| split(c, "regexp_split_to_array()"), unicode;
    1045 REGEXP_SPLIT_ROWS "$regexp_split_to_table" (Text, Text) -> TextArray =
        |c| split(c, "regexp_split_to_table()"), unicode;
    1046 REGEXP_SPLIT_ROWS_FLAGS "$regexp_split_to_table" (Text, Text, Text) -> TextArray =
        |c| split(c, "regexp_split_to_table()"), unicode;
    1047 REGEXP_COUNT "regexp_count" (Text, Text) -> Int4 = |c| count(c), unicode;
    1048 REGEXP_COUNT_START "regexp_count" (Text, Text, Int4) -> Int4 = |c| count(c), unicode;
    1049 REGEXP_COUNT_FLAGS "regexp_count" (Text, Text, Int4, Text) -> Int4 = |c| count(c), unicode;
    1050 REGEXP_INSTR "regexp_instr" (Text, Text) -> Int4 = |c| instr(c), unicode;
    1051 REGEXP_INSTR_START "regexp_instr" (Text, Text, Int4) -> Int4 = |c| instr(c), unicode;
    1052 REGEXP_INSTR_N "regexp_instr" (Text, Text, Int4, Int4) -> Int4 = |c| instr(c), unicode;
    1053 REGEXP_INSTR_END "regexp_instr" (Text, Text, Int4, Int4, Int4) -> Int4 = |c| instr(c), unicode;
    1054 REGEXP_INSTR_FLAGS "regexp_instr" (Text, Text, Int4, Int4, Int4, Text) -> Int4 = |c| instr(c),
        unicode;
    1055 REGEXP_INSTR_CAPTURE "regexp_instr" (Text, Text, Int4, Int4, Int4, Text, Int4) -> Int4 = |c| instr(c),
        unicode;
    1056 REGEXP_LIKE "regexp_like" (Text, Text) -> Bool = matcher!(Flags::new(), true), unicode;
    1057 REGEXP_LIKE_FLAGS "regexp_like" (Text, Text, Text) -> Bool = |c| {
        let options = Options::of(c, 2, "regexp_like()")?;
        is_match(c, options.flags).map(Value::Bool)
    }, unicode;
    1058 REGEXP_SUBSTR "regexp_substr" (Text, Text) -> Text = |c| substr(c), unicode;
    1059 REGEXP_SUBSTR_START "regexp_substr" (Text, Text, Int4) -> Text = |c| substr(c), unicode;
    1060 REGEXP_SUBSTR_N "regexp_substr" (Text, Text, Int4, Int4) -> Text = |c| substr(c), unicode;
    1061 REGEXP_SUBSTR_FLAGS "regexp_substr" (Text, Text, Int4, Int4, Text) -> Text = |c| substr(c), unicode;
    1062 REGEXP_SUBSTR_CAPTURE "regexp_substr" (Text, Text, Int4, Int4, Text, Int4) -> Text = |c| substr(c),
        unicode;
    1063 REGEXP_REPLACE "regexp_replace" (Text, Text, Text) -> Text = |c| replace(c, Flags::new(), 1, 1),
        unicode;
    1064 REGEXP_REPLACE_FLAGS "regexp_replace" (Text, Text, Text, Text) -> Text = |c| replace_with_options(c),
        unicode;
    1065 REGEXP_REPLACE_START "regexp_replace" (Text, Text, Text, Int4) -> Text = |c| replace_from(c), unicode;
    1066 REGEXP_REPLACE_N "regexp_replace" (Text, Text, Text, Int4, Int4) -> Text = |c| replace_from(c),
        unicode;
    1067 REGEXP_REPLACE_N_FLAGS "regexp_replace" (Text, Text, Text, Int4, Int4, Text) -> Text =
        |c| replace_from(c), unicode;
    1068 SUBSTRING_REGEX "substring" (Text, Text) -> Text =
        |c| substring(c.text(0)?, c.text(1)?, c.limits()), unicode;
    1069 SUBSTRING_SIMILAR "substring" (Text, Text, Text) -> Text = |c| {
        let pattern = similar::to_regex(c.text(1)?, Some(c.text(2)?))?;
        substring(c.text(0)?, &pattern, c.limits())
    }, unicode;
    1070 SIMILAR_ESCAPE "similar_escape" (Text, Text) -> Text = |c| similar_escape(c), lax;
    1071 SIMILAR_TO_ESCAPE "similar_to_escape" (Text) -> Text = |c| similar_to_escape(c);
    1072 SIMILAR_TO_ESCAPE_CHAR "similar_to_escape" (Text, Text) -> Text = |c| similar_to_escape(c);
}
