//! Lines fit beside each other on a screen.

use crate::place::{Findings, Place};
use crate::rule::{Goal, Rule};
use crate::source_file::SourceFile;
use crate::workspace::Crate;

/// Same as `max_width` in rustfmt.toml.
const COLUMNS_MAX: usize = 100;

/// Lines wider than rustfmt allows for code.
pub const RULE: Rule = Rule {
    name: "width",
    demand: "A line has at most 100 columns, comments and strings included. Raw strings and long \
             words, such as addresses, are exempt.",
    reason: "rustfmt wraps neither comments nor strings, and two files fit side by side.",
    remedy: "Wrap the comment. End a line of a string with `\\`.",
    example: ("/// one line of 120 columns", "/// a line of 100 columns\n/// and the rest"),
    unit: "lines",
    goal: Goal::None,
    measure: |tree| Ok(tree.each_crate(measure)),
};

fn measure(checked: &Crate) -> Findings {
    let places = checked.files.iter().flat_map(wide_lines).collect();
    Findings::each(places, checked.files.iter().map(|file| file.text.lines().count()).sum())
}

fn wide_lines(file: &SourceFile) -> impl Iterator<Item = Place> + '_ {
    let numbered = (1..).zip(file.text.lines());
    numbered.filter_map(|(number, line)| {
        let columns = line.chars().count();
        let in_raw_string =
            file.scan.raw_strings.iter().any(|&(first, last)| (first..=last).contains(&number));
        let wide = columns > COLUMNS_MAX && !in_raw_string && can_be_wrapped(line);
        wide.then(|| Place {
            path: file.path.clone(),
            line: number,
            last: number,
            text: format!("({columns}) {}", line.trim()),
            weight: columns,
        })
    })
}

/// Whether a line has words behind its first one, apart from the marker of a comment.
fn can_be_wrapped(line: &str) -> bool {
    let unmarked = line.trim_start().trim_start_matches(['/', '!', '*', '-', '<', '[', ' ']);
    unmarked.split_whitespace().count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::snippet;

    #[test]
    fn a_comment_of_101_columns_counts() {
        let text = format!("// a {}\n", "é".repeat(96));
        assert_eq!(measure(&snippet::of(&text)).count, 1);
    }

    #[test]
    fn a_line_of_100_columns_does_not_count() {
        let text = format!("// a {}\n", "é".repeat(95));
        assert_eq!(measure(&snippet::of(&text)).count, 0);
    }

    #[test]
    fn an_address_and_a_raw_string_do_not_count() {
        let text = format!("// <https://{0}>\nconst A: &str = r\"a {0}\";\n", "a".repeat(100));
        assert_eq!(measure(&snippet::of(&text)).count, 0);
    }
}
