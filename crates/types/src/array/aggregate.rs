//! array_agg: the values of rows as the items of an array, or arrays as its outermost dimension.

use super::{Array, Builder, Dimension, count_items};
use crate::agg::Kind;
use crate::func::{internal, state};
use crate::{SqlError, SqlResult, Value, ValueRef, sqlstate};

/// What was gathered so far.
#[derive(Clone, Debug)]
pub(crate) struct Gathered {
    items: Builder,
    /// Of arrays: how many there were, and the dimensions that all have.
    rows: usize,
    inner: Option<Vec<Dimension>>,
    of_arrays: bool,
}

impl Gathered {
    /// No rows. The template is an empty array of the type that comes out.
    pub fn new(kind: Kind, template: ValueRef<'_>) -> SqlResult<Gathered> {
        let of_arrays = matches!(kind, Kind::ArrayAgg { of_arrays: true });
        match template {
            ValueRef::Opaque(ty, _) if let Some(element) = ty.element() => {
                Ok(Gathered { items: Builder::new(element), rows: 0, inner: None, of_arrays })
            }
            other => Err(internal(format!("array_agg was given {other:?} for a type"))),
        }
    }

    pub fn bytes(&self) -> usize {
        self.items.bytes()
    }

    /// Adds a row's value.
    pub fn add(&mut self, value: ValueRef<'_>) -> SqlResult<()> {
        match value {
            _ if !self.of_arrays => self.items.push(value),
            ValueRef::Opaque(ty, bytes) => self.add_array(&Array::of_type(ty, bytes)),
            _ => Err(SqlError::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "cannot accumulate null arrays")),
        }
    }

    fn add_array(&mut self, array: &Array<'_>) -> SqlResult<()> {
        let error = |message: &str| Err(SqlError::new(state::ARRAY_SUBSCRIPT_ERROR, message));
        if array.is_empty() {
            return error("cannot accumulate empty arrays");
        }
        let dimensions: Vec<Dimension> = array.dimensions().collect();
        match &self.inner {
            Some(inner) if *inner != dimensions => {
                return error("cannot accumulate arrays of different dimensionality");
            }
            Some(_) => {}
            None => {
                super::check_depth(dimensions.len() + 1)?;
                self.inner = Some(dimensions)
            }
        }
        self.rows += 1;
        self.items.extend(array)
    }

    /// Adds what another has gathered, behind this.
    pub fn merge(&mut self, other: &Gathered) -> SqlResult<()> {
        if let (Some(a), Some(b)) = (&self.inner, &other.inner)
            && a != b
        {
            let message = "cannot accumulate arrays of different dimensionality";
            return Err(SqlError::new(state::ARRAY_SUBSCRIPT_ERROR, message));
        }
        if let Value::Opaque(ty, bytes) = other.items.finish_list()? {
            self.items.extend(&Array::of_type(ty, &bytes))?
        }
        self.rows += other.rows;
        Ok(())
    }

    pub fn finish(&self) -> SqlResult<Value> {
        if !self.of_arrays {
            return self.items.finish_list();
        }
        let mut dimensions = vec![Dimension::of_length(self.rows)];
        dimensions.extend(self.inner.iter().flatten());
        count_items(&dimensions)?;
        self.items.finish(&dimensions)
    }
}
