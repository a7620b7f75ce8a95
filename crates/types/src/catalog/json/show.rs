//! The text of a value of type jsonb.

use super::quote;
use super::stored::{Node, Step, Walk};
use crate::limits::Limits;
use crate::{Numeric, SqlResult};

/// How it is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Layout {
    /// `{"a": [1, 2]}`
    Line,
    /// A line for each item and pair.
    Lines,
}

/// Appends the text of a node.
pub(super) fn write(node: &[u8], layout: Layout, limits: &Limits<'_>, out: &mut String) -> SqlResult<()> {
    let mut walk = Walk::new(node);
    let (mut depth, mut is_first, mut is_value, mut charged) = (0usize, true, false, out.len());
    // What is open; whether it is an array.
    let mut open: Vec<bool> = Vec::new();
    let line = |depth: usize, out: &mut String| {
        if layout == Layout::Lines {
            out.push('\n');
            out.extend(std::iter::repeat_n("    ", depth));
        }
    };
    while let Some(step) = walk.next()? {
        if out.len() - charged > 1 << 16 {
            limits.take(2 * (out.len() - charged))?;
            limits.turn(out.len())?;
            charged = out.len();
        }
        if let Step::End = step {
            depth -= 1;
            line(depth, out);
            out.push(if open.pop() == Some(true) { ']' } else { '}' });
            (is_first, is_value) = (false, false);
            continue;
        }
        if !is_value && !open.is_empty() {
            if !is_first {
                out.push_str(if layout == Layout::Line { ", " } else { "," });
            }
            line(depth, out);
        }
        (is_first, is_value) = (false, false);
        match step {
            Step::Array(_) | Step::Object(_) => {
                let is_array = matches!(step, Step::Array(_));
                out.push(if is_array { '[' } else { '{' });
                open.push(is_array);
                depth += 1;
                is_first = true;
            }
            Step::Key(key) => {
                quote(key, out);
                out.push_str(": ");
                is_value = true;
            }
            Step::Scalar(node) => scalar(&node, out),
            Step::End => {}
        }
    }
    Ok(())
}

fn scalar(node: &Node<'_>, out: &mut String) {
    match node {
        Node::Bool(true) => out.push_str("true"),
        Node::Bool(false) => out.push_str("false"),
        Node::String(s) => quote(s, out),
        Node::Number(n) => Numeric::write_encoded(n, out),
        _ => out.push_str("null"),
    }
}

/// The text of a node where it is not shown as JSON: of a string its characters; `None` for null.
pub(super) fn as_text(node: &[u8], limits: &Limits<'_>) -> SqlResult<Option<String>> {
    let mut out = String::new();
    match Node::read(node)? {
        Node::Null => return Ok(None),
        Node::String(s) => out.push_str(s),
        _ => write(node, Layout::Line, limits, &mut out)?,
    }
    Ok(Some(out))
}
