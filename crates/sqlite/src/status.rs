//! Facts about an open database, as one JSON object.
use std::fmt;

/// A fact's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(String),
    Count(u64),
    Number(f64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.into())
    }
}
impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}
impl From<u64> for Value {
    fn from(count: u64) -> Value {
        Value::Count(count)
    }
}
impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}

/// As JSON.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Count(count) => write!(f, "{count}"),
            Value::Number(number) => write!(f, "{number:.1}"),
            Value::Text(text) => {
                f.write_str("\"")?;
                for c in text.chars() {
                    match c {
                        '"' | '\\' => write!(f, "\\{c}")?,
                        c if c < ' ' => write!(f, "\\u{:04x}", c as u32)?,
                        c => write!(f, "{c}")?,
                    }
                }
                f.write_str("\"")
            }
        }
    }
}

/// Names and values, in the order in which they are shown.
pub type Facts = Vec<(&'static str, Value)>;

pub fn json(facts: &Facts) -> String {
    let members: Vec<String> = facts.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_json() {
        let facts =
            vec![("text", Value::from("a \"b\" \\ \n")), ("count", 3.into()), ("number", 1.25f64.into())];
        assert_eq!(json(&facts), r#"{"text":"a \"b\" \\ \u000a","count":3,"number":1.2}"#);
    }
}
