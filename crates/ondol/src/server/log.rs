//! What a server writes of what happens: lines on standard error, for people or, as JSON, for programs.
//!
//! - **O1** No value of a parameter is written, and no password. The text of a statement is, where it was
//!   asked for.
//! - **O2** A line is written as a whole. One that cannot be written is lost: nobody waits for it.
use ondol_base::sim;
use ondol_types::catalog::json::quote;
use ondol_types::datetime::write_timestamp;
use std::fmt::Write as _;
use std::io::Write as _;

/// Who a line is about.
#[derive(Clone, Default, Debug)]
pub(crate) struct Subject {
    pub process: i32,
    pub role: String,
    pub application: String,
    /// Host and port, or `[local]`.
    pub from: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Form {
    #[default]
    Text,
    /// An object on each line.
    Json,
}

/// A line at a time, in microseconds from 2000-01-01; `fields` are names and values that a program gets
/// apart.
fn line(
    form: Form,
    at_us: i64,
    severity: &str,
    subject: Option<&Subject>,
    message: &str,
    fields: &[(&str, String)],
) -> String {
    let mut out = String::new();
    match form {
        Form::Text => {
            write_timestamp(at_us / 1000 * 1000, &mut out);
            let _ = write!(out, " UTC [{}] {severity}:  ", subject.map_or(0, |s| s.process));
            // A text of several lines stays one that is about one thing.
            out.push_str(&message.replace('\n', "\n\t"))
        }
        Form::Json => {
            out.push_str("{\"time\":\"");
            write_timestamp(at_us / 1000 * 1000, &mut out);
            out.push_str(" UTC\",\"severity\":");
            quote(severity, &mut out);
            if let Some(s) = subject {
                let _ = write!(out, ",\"process\":{}", s.process);
                for (name, value) in [("user", &s.role), ("application", &s.application), ("from", &s.from)] {
                    if !value.is_empty() {
                        let _ = write!(out, ",\"{name}\":");
                        quote(value, &mut out)
                    }
                }
            }
            out.push_str(",\"message\":");
            quote(message, &mut out);
            for (name, value) in fields {
                let _ = write!(out, ",\"{name}\":");
                // Numbers stay numbers; a SQLSTATE is none.
                match *name != "sqlstate" && value.parse::<f64>().is_ok_and(f64::is_finite) {
                    true => out.push_str(value),
                    false => quote(value, &mut out),
                }
            }
            out.push('}')
        }
    }
    out.push('\n');
    out
}

/// O2. In a simulated world the line goes to its trace.
pub(crate) fn tell(
    form: Form,
    severity: &str,
    subject: Option<&Subject>,
    message: &str,
    fields: &[(&str, String)],
) {
    let at = ondol_base::clock::wall_us() - super::login::UNIX_TO_2000_US;
    let line = || line(form, at, severity, subject, message, fields);
    if !sim::note(line) {
        let _ = std::io::stderr().write_all(line().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_people_and_for_programs() {
        let subject = Subject {
            process: 7,
            role: "ann".into(),
            application: "a \"b\"".into(),
            from: "127.0.0.1:5".into(),
        };
        let fields = [("ms", "1.25".to_string()), ("statement", "SELECT\n1".to_string())];
        let text = line(Form::Text, 1_234_567, "LOG", Some(&subject), "it took\nlong", &fields);
        assert_eq!(text, "2000-01-01 00:00:01.234 UTC [7] LOG:  it took\n\tlong\n");
        let json = line(Form::Json, 0, "LOG", Some(&subject), "it took\tlong", &fields);
        let wanted = "{\"time\":\"2000-01-01 00:00:00 UTC\",\"severity\":\"LOG\",\"process\":7,\"user\":\"ann\",\
                      \"application\":\"a \\\"b\\\"\",\"from\":\"127.0.0.1:5\",\"message\":\"it took\\tlong\",\
                      \"ms\":1.25,\"statement\":\"SELECT\\n1\"}\n";
        assert_eq!(json, wanted);
        let json = line(Form::Json, 0, "WARNING", None, "x", &[]);
        assert_eq!(
            json,
            "{\"time\":\"2000-01-01 00:00:00 UTC\",\"severity\":\"WARNING\",\"message\":\"x\"}\n"
        );
    }
}
