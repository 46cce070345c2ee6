//! Reports: a table for people, an array of flat objects for programs.

use std::io::{self, Write};

use process::{escape_json, printable};
use rustix::io::Errno;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// One row: names and values, in the order in which they are shown.
pub type Row = Vec<(&'static str, Value)>;

/// Prints rows as a JSON array of flat objects. Commands to the terminal, which names of files may
/// contain, are escaped.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_json<N: Serialize>(rows: Vec<Vec<(N, Value)>>) -> anyhow::Result<()> {
    let objects: Vec<Object<N>> = rows.into_iter().map(Object).collect();
    let text = serde_json::to_string_pretty(&objects).map_err(io::Error::from)?;
    print(&escape_json(&text))?;
    print("\n")
}

/// A row as an object whose members keep their order.
struct Object<N>(Vec<(N, Value)>);

impl<N: Serialize> Serialize for Object<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Prints text as it is.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Likewise, and keeps nothing of it in memory.
///
/// # Errors
/// Standard output takes no more.
pub fn print_secret(text: &str) -> anyhow::Result<()> {
    print("")?;
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), rest) {
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// A table with a line of titles, columns as wide as what is in them. Commands to the
/// terminal, which names of files may contain, do not reach it.
pub fn table(titles: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|text| printable(text)).collect()).collect();
    let widths: Vec<usize> = (0..titles.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).chain([titles[column].len()]).max().unwrap_or(0)
        })
        .collect();
    let titles: Vec<String> = titles.iter().map(|&title| title.to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&titles).chain(&rows) {
        let mut line = String::new();
        for (cell, &width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A speed, as cards are sold by it.
pub fn bits_per_second(speed: u64) -> String {
    const UNITS: [(u64, &str); 3] =
        [(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s")];
    let unit = UNITS.into_iter().find(|(size, _)| speed >= *size);
    unit.map_or_else(
        || format!("{speed} bit/s"),
        |(size, name)| {
            let tenths = speed / (size / 10);
            match tenths % 10 {
                0 => format!("{} {name}", tenths / 10),
                rest => format!("{}.{rest} {name}", tenths / 10),
            }
        },
    )
}

/// Formats a time with its unit.
#[expect(clippy::cast_precision_loss, reason = "it is shown with a few digits")]
#[must_use]
pub fn duration(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{:.1} µs", ns as f64 / 1e3),
        10_000..1_000_000 => format!("{} µs", ns / 1_000),
        1_000_000..10_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::{bits_per_second, table};

    #[test]
    fn speeds_have_the_unit_that_suits_them() {
        for (speed, want) in [
            (999, "999 bit/s"),
            (10_000_000, "10 Mbit/s"),
            (1_000_000_000, "1 Gbit/s"),
            (2_500_000_000, "2.5 Gbit/s"),
            (400_000_000_000, "400 Gbit/s"),
        ] {
            assert_eq!(bits_per_second(speed), want);
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "longer".to_owned()], vec!["bb\u{1b}".to_owned()]];
        assert_eq!(table(&["X", "TITLE"], &rows), "X    TITLE\na    longer\nbb?\n");
    }

    #[test]
    fn a_cell_reverses_the_direction_of_no_other() {
        let rows = [vec!["a\u{202e}b".to_owned(), "c\u{2066}".to_owned()]];
        assert_eq!(table(&["X", "Y"], &rows), "X    Y\na?b  c?\n");
    }
}
