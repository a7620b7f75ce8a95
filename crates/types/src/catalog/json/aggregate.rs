//! json_agg and its like: the values of rows as an array, or pairs of them as an object.

use super::build::Builder;
use super::change::wrong;
use super::make;
use crate::func::internal;
use crate::limits::Limits;
use crate::style::Styles;
use crate::{SqlResult, TypeId, Value, ValueRef};

/// What an aggregate makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gathers {
    pub is_binary: bool,
    pub is_object: bool,
}

/// What was gathered so far.
#[derive(Clone, Debug)]
pub(crate) struct Gathered {
    of: Gathers,
    styles: Styles,
    text: String,
    /// Whether the first value has a line of its own where others are before it.
    has_line: bool,
    value: Builder,
}

impl Gathered {
    /// No rows. `styles`: those of the session, as `$styles` gives them.
    pub fn new(of: Gathers, styles: ValueRef<'_>) -> SqlResult<Gathered> {
        let styles = match styles {
            ValueRef::Text(styles) => Styles::of_written(styles),
            other => return Err(internal(format!("an aggregate of JSON was given {other:?} for styles"))),
        };
        let mut value = Builder::new();
        match (of.is_binary, of.is_object) {
            (true, true) => value.object_start()?,
            (true, false) => value.array_start()?,
            _ => {}
        }
        Ok(Gathered { of, styles, text: String::new(), has_line: false, value })
    }

    pub fn bytes(&self) -> usize {
        self.text.len() + self.value.bytes()
    }

    /// Adds a row's values: one, or a key and one.
    pub fn add(&mut self, values: &[ValueRef<'_>]) -> SqlResult<()> {
        let limits = &Limits::NONE;
        let (key, value) = match values {
            [value] => (None, *value),
            [ValueRef::Null, ..] => return Err(wrong("field name must not be null")),
            [key, value, ..] => (Some(make::key(*key, &self.styles)?), *value),
            [] => (None, ValueRef::Null),
        };
        if self.of.is_binary {
            if let Some(key) = &key {
                self.value.key(key)?;
            }
            return make::add(value, &self.styles, limits, &mut self.value);
        }
        let has_line = key.is_none() && make::is_structured(value);
        if self.text.is_empty() {
            self.has_line = has_line;
        } else {
            self.text.push_str(if has_line { ", \n " } else { ", " });
        }
        if let Some(key) = &key {
            super::quote(key, &mut self.text);
            self.text.push_str(" : ");
        }
        make::push(value, &self.styles, false, limits, &mut self.text)
    }

    /// Adds what another has gathered, behind this.
    pub fn merge(&mut self, other: &Gathered) {
        self.value.append(&other.value);
        if self.text.is_empty() {
            self.has_line = other.has_line;
        } else if !other.text.is_empty() {
            self.text.push_str(if other.has_line { ", \n " } else { ", " });
        }
        self.text.push_str(&other.text);
    }

    pub fn finish(&self) -> SqlResult<Value> {
        if self.of.is_binary {
            return self.value.so_far(&Limits::NONE);
        }
        let text = match self.of.is_object {
            true => format!("{{ {} }}", self.text),
            false => format!("[{}]", self.text),
        };
        Ok(Value::Opaque(TypeId::JSON, text.into_bytes().into()))
    }
}
