//! The names that arguments of PostgreSQL's functions have, and what they are where a call leaves them out.
//! Functions that are not here have none.

use crate::ValueRef;

/// The arguments of a function, by its name; there may be several of one name.
pub struct Arguments {
    pub function: &'static str,
    pub names: &'static [&'static str],
    /// Of the last arguments.
    pub defaults: &'static [ValueRef<'static>],
}

impl Arguments {
    /// What the argument is if it is left out.
    pub fn default_of(&self, place: usize) -> Option<ValueRef<'static>> {
        self.defaults.get(place.checked_sub(self.names.len() - self.defaults.len())?).copied()
    }

    /// Which argument each given one is, by its name or its place; `None` if they do not fit, or lack one
    /// that must be given.
    pub fn places(&self, given: &[Option<&str>]) -> Option<Vec<usize>> {
        let mut places = Vec::with_capacity(given.len());
        for (i, name) in given.iter().enumerate() {
            let place = match name {
                Some(name) => self.names.iter().position(|n| n == name)?,
                None => i,
            };
            if place >= self.names.len() || places.contains(&place) {
                return None;
            }
            places.push(place);
        }
        let mut missing = (0..self.names.len()).filter(|n| !places.contains(n));
        missing.all(|n| self.default_of(n).is_some()).then_some(places)
    }
}

const fn all(function: &'static str, names: &'static [&'static str]) -> Arguments {
    Arguments { function, names, defaults: &[] }
}

static LIST: &[Arguments] = &[
    all("make_date", &["year", "month", "day"]),
    all("make_time", &["hour", "min", "sec"]),
    all("make_timestamp", &["year", "month", "mday", "hour", "min", "sec"]),
    all("make_timestamptz", &["year", "month", "mday", "hour", "min", "sec"]),
    all("make_timestamptz", &["year", "month", "mday", "hour", "min", "sec", "timezone"]),
    Arguments {
        function: "make_interval",
        names: &["years", "months", "weeks", "days", "hours", "mins", "secs"],
        defaults: &[
            ValueRef::Int4(0),
            ValueRef::Int4(0),
            ValueRef::Int4(0),
            ValueRef::Int4(0),
            ValueRef::Int4(0),
            ValueRef::Int4(0),
            ValueRef::Float8(0.0),
        ],
    },
    Arguments { function: "parse_ident", names: &["str", "strict"], defaults: &[ValueRef::Bool(true)] },
    all("pg_terminate_backend", &["pid"]),
    all("json_object_field", &["from_json", "field_name"]),
    all("json_object_field_text", &["from_json", "field_name"]),
    all("json_array_element", &["from_json", "element_index"]),
    all("json_array_element_text", &["from_json", "element_index"]),
    all("jsonb_object_field", &["from_json", "field_name"]),
    all("jsonb_object_field_text", &["from_json", "field_name"]),
    all("jsonb_array_element", &["from_json", "element_index"]),
    all("jsonb_array_element_text", &["from_json", "element_index"]),
    Arguments {
        function: "jsonb_set",
        names: &["jsonb_in", "path", "replacement", "create_if_missing"],
        defaults: &[ValueRef::Bool(true)],
    },
    Arguments {
        function: "jsonb_set_lax",
        names: &["jsonb_in", "path", "replacement", "create_if_missing", "null_value_treatment"],
        defaults: &[ValueRef::Bool(true), ValueRef::Text("use_json_null")],
    },
    Arguments {
        function: "jsonb_insert",
        names: &["jsonb_in", "path", "replacement", "insert_after"],
        defaults: &[ValueRef::Bool(false)],
    },
];

/// The lists of arguments that functions of a name have.
pub fn of(function: &str) -> impl Iterator<Item = &'static Arguments> {
    LIST.iter().filter(move |a| a.function == function)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::func;

    #[test]
    fn each_is_a_function() {
        for a in LIST {
            let fits = func::all().any(|f| f.name == a.function && f.args.len() == a.names.len());
            assert!(fits, "{} of {}", a.function, a.names.len());
            assert!(a.defaults.len() <= a.names.len());
        }
    }
}
