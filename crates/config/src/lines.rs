//! From text to statements.
//!
//! A line whose first character is `;` or `#` is a comment; there are no comments behind a value.
//! A backslash at the end of a line, white space after it or not, joins the next line. That one is
//! no comment then, unless nothing stands before it. Comments themselves do not continue. So no
//! value ends with a backslash.

use crate::limits::LINE_BYTES_MAX;

/// One statement and the line on which it starts, from 1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) number: u32,
    pub(crate) statement: Statement,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Statement {
    /// `name = value`, runs of white space shortened to their first character.
    Assignment { name: String, value: String },
    /// No `=`, or nothing before it.
    Junk(String),
    /// `[name]`; what follows the bracket is ignored.
    Section(String),
    /// `[` without a name or without `]`.
    BadSection { missing: &'static str },
    /// A line longer than [`LINE_BYTES_MAX`] bytes.
    TooLong,
}

/// The statements of `text` in order.
pub(crate) fn statements(text: &str) -> impl Iterator<Item = Line> {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text).split('\n').zip(1..);
    std::iter::from_fn(move || {
        loop {
            let (first, number) = rest.next()?;
            let mut whole = first.trim_matches(is_space).to_owned();
            if is_nothing(&whole) {
                continue;
            }
            while whole.ends_with('\\') {
                whole.pop();
                let next = rest.next().map_or("", |(next, _)| next);
                whole.push_str(next.trim_end_matches(is_space));
                if whole.len() > LINE_BYTES_MAX {
                    return Some(Line { number, statement: Statement::TooLong });
                }
            }
            if is_nothing(whole.trim_start_matches(is_space)) {
                continue;
            }
            return Some(Line { number, statement: statement(&whole) });
        }
    })
}

/// Whether a line, without white space in front, is empty or a comment.
///
/// A comment behind an empty line that continues is one, too: as the name of a parameter it could
/// not be written out and read again.
fn is_nothing(line: &str) -> bool {
    line.is_empty() || line.starts_with([';', '#'])
}

fn statement(line: &str) -> Statement {
    let line = line.trim_matches(is_space);
    if line.len() > LINE_BYTES_MAX {
        return Statement::TooLong;
    }
    if let Some(header) = line.strip_prefix('[') {
        return match header.split_once(']') {
            None => Statement::BadSection { missing: "closing bracket" },
            Some((name, _)) if name.trim_matches(is_space).is_empty() => {
                Statement::BadSection { missing: "name" }
            }
            Some((name, _)) => Statement::Section(squeezed(name)),
        };
    }
    match line.split_once('=') {
        Some((name, value)) if !name.trim_matches(is_space).is_empty() => {
            // A backslash at the end of the value would join the next line once the value is
            // written out again.
            let value = value.trim_end_matches(|end| is_space(end) || end == '\\');
            Statement::Assignment { name: squeezed(name), value: squeezed(value) }
        }
        _ => Statement::Junk(line.to_owned()),
    }
}

/// True if a name or value is read as it is written, without the loss of white space.
#[must_use]
pub fn is_read_as_written(text: &str) -> bool {
    squeezed(text) == text
}

/// Outer white space removed, inner runs of it shortened to their first character.
fn squeezed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut after_space = false;
    for character in text.trim_matches(is_space).chars() {
        if !(after_space && is_space(character)) {
            out.push(character);
        }
        after_space = is_space(character);
    }
    out
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

#[cfg(test)]
mod tests;
