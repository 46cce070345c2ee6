//! Explains a broken rule and lists places to mend.

use std::fmt::Write as _;

use crate::ceilings::Ceiling;
use crate::history::AddedLines;
use crate::place::Place;
use crate::rule::{Goal, Measured, Rule};

/// Places shown of each crate.
const PLACES_SHOWN: usize = 10;
/// Width of the text of a rule.
const COLUMNS: usize = 100;
/// Characters shown of each place.
const TEXT_SHOWN: usize = 160;

/// Explains a rule and lists the crates that are above their ceilings.
#[must_use]
pub fn text(rule: &Rule, above: &[(&Measured, Ceiling)], added: &AddedLines) -> String {
    let Rule { name, demand, reason, remedy, example: (bad, good), .. } = rule;
    let mut text = format!("\nbroken: {name}\n");
    let parts =
        [("Rule", demand), ("Reason", reason), ("Remedy", remedy), ("Not", bad), ("But", good)];
    for (label, part) in parts {
        text.push_str(&wrapped(label, part));
    }
    for (measured, ceiling) in above {
        let _ = writeln!(text, "  {}", figures(rule, measured, *ceiling));
        text.push_str(&places(&measured.findings.places, added));
    }
    text
}

/// A labelled paragraph, wrapped. Line breaks of the text are kept.
fn wrapped(label: &str, part: &str) -> String {
    let mut text = String::new();
    let mut label = format!("{label}:");
    for line in part.lines() {
        let mut row = format!("  {label:8}");
        for word in line.split_whitespace() {
            if row.chars().count() + word.chars().count() >= COLUMNS {
                text.push_str(&row);
                text.push('\n');
                row = " ".repeat(10);
            }
            row.push(' ');
            row.push_str(word);
        }
        text.push_str(&row);
        text.push('\n');
        label.clear();
    }
    text
}

/// Counts and ceiling of one crate.
fn figures(rule: &Rule, Measured { subject, findings }: &Measured, ceiling: Ceiling) -> String {
    let share = |count: usize, of: usize| match rule.goal {
        Goal::None => count.to_string(),
        Goal::NoneOfOld => format!("{count} of {of}"),
        Goal::Percent(_) => {
            let permille = count * 1000 / of.max(1);
            format!("{count} of {of} ({}.{} %)", permille / 10, permille % 10)
        }
    };
    let allowed = match (ceiling, rule.goal) {
        (Ceiling::Kept { count, of }, _) => format!("the ceiling is {}", share(count, of)),
        (Ceiling::Goal, Goal::None | Goal::NoneOfOld) => "there may be none".to_owned(),
        (Ceiling::Goal, Goal::Percent(percent)) => format!("{percent} % are allowed"),
    };
    format!("{subject}: {} {}; {allowed}", share(findings.count, findings.of), rule.unit)
}

/// The places to look at: those on lines that are new, or if there are none, the worst.
fn places(all: &[Place], added: &AddedLines) -> String {
    let is_new = |place: &&Place| {
        let ranges = added.get(&place.path).into_iter().flatten();
        ranges.into_iter().any(|new| *new.start() <= place.last && place.line <= *new.end())
    };
    let new: Vec<&Place> = all.iter().filter(is_new).collect();
    let (what, mut shown) = if new.is_empty() {
        ("worst", all.iter().collect())
    } else {
        ("new since the ceilings were written", new)
    };
    shown.sort_by_key(|place| std::cmp::Reverse(place.weight));
    let mut text = format!("    {what}:\n");
    for place in shown.iter().take(PLACES_SHOWN) {
        let line = if place.line > 0 { format!(":{}", place.line) } else { String::new() };
        let mut sentence: String = place.text.chars().take(TEXT_SHOWN).collect();
        if sentence.len() < place.text.len() {
            sentence.push('…');
        }
        let _ = writeln!(text, "    {}{line}: {sentence}", place.path);
    }
    if shown.len() > PLACES_SHOWN {
        let _ = writeln!(text, "    … and {} more", shown.len() - PLACES_SHOWN);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Findings;
    use crate::rules::width;

    fn place(line: usize, weight: usize) -> Place {
        Place { path: "a.rs".to_owned(), line, last: line, text: format!("text {line}"), weight }
    }

    #[test]
    fn new_places_are_shown_instead_of_worse_old_ones() {
        let shown = places(
            &[place(1, 9), place(5, 1)],
            &AddedLines::from([("a.rs".to_owned(), vec![4..=6])]),
        );
        assert_eq!(shown, "    new since the ceilings were written:\n    a.rs:5: text 5\n");
    }

    #[test]
    fn the_worst_places_come_first_and_are_bounded() {
        let all: Vec<Place> = (1..=12).map(|line| place(line, line)).collect();
        let shown = places(&all, &AddedLines::new());
        assert!(shown.starts_with("    worst:\n    a.rs:12: text 12\n"), "{shown}");
        assert!(shown.ends_with("    a.rs:3: text 3\n    … and 2 more\n"), "{shown}");
    }

    #[test]
    fn long_paragraphs_are_wrapped_and_line_breaks_are_kept() {
        let text = wrapped("Not", &format!("{} b\nc", "a ".repeat(45)));
        assert_eq!(text, format!("  Not:    {}\n           b\n           c\n", " a".repeat(45)));
    }

    #[test]
    fn a_complaint_has_rule_reason_remedy_example_and_ceiling() {
        let findings = Findings::each(vec![place(3, 101)], 50);
        let measured = Measured { subject: "a".to_owned(), findings };
        let text = text(&width::RULE, &[(&measured, Ceiling::Goal)], &AddedLines::new());
        for part in
            ["  Rule:    A line has", "  Reason:  rustfmt", "  Remedy:  Wrap", "  Not:     ///"]
        {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.contains("a: 1 lines; there may be none\n"), "{text}");
    }
}
