//! Text tables in aligned columns.

use std::fmt::Write;

/// A table with a heading. The first column is text, the others are figures.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this heading.
    #[must_use]
    pub fn new<const N: usize>(heading: [&str; N]) -> Self {
        Self { rows: vec![heading.map(str::to_owned).to_vec()] }
    }

    /// Adds a row at the end.
    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// Whether nothing but the heading is in it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows.len() <= 1
    }

    /// The table for a terminal: columns aligned by spaces.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            let line = self.pad(row).join("  ");
            text += line.trim_end();
            text.push('\n');
        }
        text
    }

    /// Renders the table in Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut text = String::new();
        for (at, row) in self.rows.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| {} |", self.pad(row).join(" | "));
            if at == 0 {
                let rule = row.iter().enumerate().map(
                    |(column, _)| {
                        if column == 0 { "---" } else { "--:" }
                    },
                );
                let _ = writeln!(text, "|{}|", rule.collect::<Vec<_>>().join("|"));
            }
        }
        text
    }

    fn pad(&self, row: &[String]) -> Vec<String> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        row.iter()
            .enumerate()
            .map(|(column, cell)| match column {
                0 => format!("{cell:<0$}", width(column)),
                _ => format!("{cell:>0$}", width(column)),
            })
            .collect()
    }
}

/// A figure with three digits that count.
#[must_use]
pub fn figure(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        small if small >= 0.1 || small == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Table, figure};

    fn table() -> Table {
        let mut table = Table::new(["row", "µs"]);
        table.push(vec!["a".into(), "1234".into()]);
        table.push(vec!["long".into(), "5".into()]);
        table
    }

    #[test]
    fn text_is_left_and_figures_are_right() {
        assert_eq!(table().to_text(), "row     µs\na     1234\nlong     5\n");
    }

    #[test]
    fn markdown_has_a_rule_below_the_heading() {
        let want = "| row  |   µs |\n|---|--:|\n| a    | 1234 |\n| long |    5 |\n";
        assert_eq!(table().to_markdown(), want);
    }

    #[test]
    fn figures_have_three_digits() {
        let want = [(12_345.6, "12346"), (56.78, "56.8"), (1.234, "1.23"), (0.01, "0.0100")];
        for (value, text) in want {
            assert_eq!(figure(value), text);
        }
    }
}
