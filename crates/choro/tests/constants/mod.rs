//! Constants as the source has them, and their values as a page shows them.
//!
//! Most are private to their module, so that no program could name them all; and the arithmetic in
//! them is that of a few numbers.

use std::fs;
use std::path::PathBuf;

/// The constants of a few files.
pub(crate) struct Constants(Vec<Constant>);

struct Constant {
    name: String,
    is_duration: bool,
    expression: String,
}

/// Unit of a number on the page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unit {
    Bytes,
    Time,
}

impl Unit {
    /// The unit that is written so.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "bytes" | "KiB" | "MiB" | "GiB" => Some(Self::Bytes),
            "s" | "ms" => Some(Self::Time),
            _ => None,
        }
    }
}

impl Constants {
    /// The constants of these files.
    pub(crate) fn read(files: impl IntoIterator<Item = PathBuf>) -> Result<Self, String> {
        let mut constants = Vec::new();
        for file in files {
            let source = fs::read_to_string(&file).map_err(|why| format!("{file:?}: {why}"))?;
            constants.extend(source.split("const ").skip(1).filter_map(constant));
        }
        Ok(Self(constants))
    }

    /// A constant's number as the page shows it. Bytes are counted by those that are named so, or
    /// have such a unit on the page.
    pub(crate) fn number(&self, name: &str, unit: Option<Unit>) -> Result<String, String> {
        let name = name.rsplit("::").next().unwrap_or(name);
        let is_bytes = unit == Some(Unit::Bytes) || name.contains("BYTES") || name.contains("LEN");
        let (value, is_duration) = self.value(name)?;
        Ok(match (is_duration, is_bytes) {
            (true, _) if value.is_multiple_of(1_000) => format!("{} s", grouped(value / 1_000)),
            (true, _) => format!("{} ms", grouped(value)),
            (false, true) => bytes(value),
            (false, false) => grouped(value),
        })
    }

    /// The value of a constant; of a duration, in milliseconds. Files may have constants of one
    /// name, if their values are one, too.
    fn value(&self, name: &str) -> Result<(u64, bool), String> {
        let named = self.0.iter().filter(|it| it.name == name);
        let values = named.map(|it| Ok((self.evaluate(&it.expression)?, it.is_duration)));
        let mut values = values.collect::<Result<Vec<_>, String>>()?;
        values.dedup();
        match values[..] {
            [value] => Ok(value),
            [] => Err(format!("no file of the row has the constant {name}")),
            _ => Err(format!("the files of the row have several constants {name}")),
        }
    }

    /// A sum, product or shift of numbers and constants, without parentheses of its own.
    fn evaluate(&self, expression: &str) -> Result<u64, String> {
        let expression = expression.trim();
        if let Some((left, right)) = expression.split_once("<<") {
            return Ok(self.evaluate(left)? << self.evaluate(right)?);
        }
        if let Some((left, right)) = expression.split_once('+') {
            return Ok(self.evaluate(left)? + self.evaluate(right)?);
        }
        if let Some((left, right)) = expression.rsplit_once('/') {
            return Ok(self.evaluate(left)? / self.evaluate(right)?);
        }
        if let Some((left, right)) = expression.split_once('*') {
            return Ok(self.evaluate(left)? * self.evaluate(right)?);
        }
        let value = expression.split(" as ").next().unwrap_or(expression).trim();
        let of = |prefix: &str| value.strip_prefix(prefix)?.strip_suffix(')');
        if let Some(seconds) = of("Duration::from_secs(") {
            return Ok(1_000 * self.evaluate(seconds)?);
        }
        if let Some(milliseconds) = of("Duration::from_millis(") {
            return self.evaluate(milliseconds);
        }
        number(value).map_or_else(|| self.value(value).map(|(value, _)| value), Ok)
    }
}

/// Parses the text after `const `, if it is a constant with a value.
fn constant(text: &str) -> Option<Constant> {
    let (name, rest) = text.split_once(':')?;
    let (kind, rest) = rest.split_once('=')?;
    let (expression, _) = rest.split_once(';')?;
    let is_name =
        name.chars().all(|it| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_');
    let constant = Constant {
        name: name.to_owned(),
        is_duration: kind.trim() == "Duration",
        expression: expression.to_owned(),
    };
    is_name.then_some(constant)
}

fn number(text: &str) -> Option<u64> {
    let digits = text.replace('_', "");
    match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => digits.parse().ok(),
    }
}

fn bytes(value: u64) -> String {
    let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(size, _)| value.is_multiple_of(*size) && value > 0);
    unit.map_or_else(
        || format!("{} bytes", grouped(value)),
        |(size, name)| format!("{} {name}", grouped(value / size)),
    )
}

/// The number with a comma behind each thousand.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
