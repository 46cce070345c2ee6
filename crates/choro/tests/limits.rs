//! The numbers of docs/limits.md are those of the constants.

mod constants;

use std::fs;
use std::path::{Path, PathBuf};

use constants::{Constants, Unit};

/// Advice for a page that is out of date.
const ADVICE: &str = "`make limits` writes the numbers anew. A row of docs/limits.md names each \
                      constant in backquotes, and in its third column the files that have them, \
                      below crates/";

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The row with the number of each constant behind its name.
fn rendered(row: &str) -> Result<String, String> {
    let cells: Vec<&str> = row.split('|').collect();
    let [_, what, limit, files, beyond, _] = cells[..] else {
        return Err(format!("four columns are wanted: {row}"));
    };
    let files = quoted(files).into_iter().map(|file| top().join("crates").join(file));
    let constants = Constants::read(files)?;
    let number = |cell: &str| with_numbers(cell, &constants).map_err(|why| format!("{why}: {row}"));
    Ok(format!("|{what}|{}|{}|{}|", number(limit)?, cells[3], number(beyond)?))
}

/// Returns the texts in backquotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Puts the number of each constant that is named in a cell in the place of the one behind its
/// name.
fn with_numbers(cell: &str, constants: &Constants) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = cell;
    while let Some((before, name, behind)) = next_quoted(rest) {
        text += &format!("{before}`{name}`");
        rest = behind;
        if is_constant(name) {
            let (written, unit) = written_number(behind);
            text += &format!(" {}", constants.number(name, unit)?);
            rest = &behind[written..];
        }
    }
    Ok(text + rest)
}

fn next_quoted(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (name, behind) = rest.split_once('`')?;
    Some((before, name, behind))
}

/// True for `NAMES_MAX` and `Last::BYTES_MAX`, false for a parameter.
fn is_constant(name: &str) -> bool {
    let name = name.rsplit("::").next().unwrap_or(name);
    name.len() > 2 && name.chars().all(|it| it.is_ascii_uppercase() || it == '_')
}

/// Length of the number at the start of a text, and its unit.
fn written_number(text: &str) -> (usize, Option<Unit>) {
    let is_digit = |it: char| it.is_ascii_digit() || it == ',';
    let Some(number) = text.strip_prefix(' ') else { return (0, None) };
    let digits = number.find(|it| !is_digit(it)).unwrap_or(number.len());
    // A comma behind the last digit is no part of the number.
    let digits = number[..digits].trim_end_matches(',').len();
    if digits == 0 {
        return (0, None);
    }
    let unit = number[digits..].strip_prefix(' ').and_then(|behind| {
        let end = behind.find(|it: char| !it.is_ascii_alphabetic()).unwrap_or(behind.len());
        Unit::named(&behind[..end]).map(|unit| (unit, end + 1))
    });
    (1 + digits + unit.map_or(0, |(_, length)| length), unit.map(|(unit, _)| unit))
}

#[test]
fn the_page_of_limits_has_the_numbers_of_the_constants() {
    let path = top().join("docs/limits.md");
    let page = fs::read_to_string(&path).expect("the page is there");
    let is_row = |line: &str| line.starts_with("| ") && !line.starts_with("| what |");
    let mut wrong = Vec::new();
    let mut anew = String::new();
    for line in page.lines() {
        let row = if is_row(line) { rendered(line) } else { Ok(line.to_owned()) };
        let row = row.unwrap_or_else(|why| {
            wrong.push(why);
            line.to_owned()
        });
        if row != line {
            wrong.push(format!("the page says\n  {line}\nand the constants\n  {row}"));
        }
        anew += &row;
        anew += "\n";
    }
    assert!(page.lines().any(is_row), "the page has no table");
    if std::env::var_os("KEEP_LIMITS").is_some() {
        fs::write(&path, anew).expect("the page can be written");
        wrong.retain(|it| !it.starts_with("the page says"));
    }
    assert!(wrong.is_empty(), "{}\n\n{ADVICE}", wrong.join("\n\n"));
}
