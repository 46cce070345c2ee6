//! Differences, and the list of those that are known.
//!
//! A line of the list has five fields, separated by tabs: the kind of the difference, the answer of
//! Samba, that of Choro, a line of the share's section that must be there, and the reason. `*` in
//! the first four stands for any text. A reason that begins with `open` explains nothing: the
//! difference was seen and not examined yet.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};

/// One difference between the servers.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    /// Request and field, such as `create.status`.
    pub(super) kind: String,
    pub(super) samba: String,
    pub(super) own: String,
    pub(super) share: usize,
    /// Lines of the share's section.
    pub(super) lines: Vec<String>,
    pub(super) example: String,
}

/// Known differences, in the order of the list.
#[derive(Clone, Debug, Default)]
pub struct Explanations(Vec<Explanation>);

#[derive(Clone, Debug)]
struct Explanation {
    kind: String,
    samba: String,
    own: String,
    line: String,
    reason: String,
}

impl Explanations {
    /// Reads the list.
    ///
    /// # Errors
    ///
    /// A line has not five fields, or no reason.
    pub fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let lines = lines.filter(|(_, line)| !line.starts_with('#'));
        let read = |(number, line): (usize, &str)| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [kind, samba, own, parameter, reason] = fields[..] else {
                anyhow::bail!("line {}: {} fields instead of 5", number + 1, fields.len());
            };
            ensure!(!reason.trim().is_empty(), "line {}: no reason", number + 1);
            let [kind, samba, own, line, reason] =
                [kind, samba, own, parameter, reason].map(|field| field.trim().to_owned());
            Ok(Explanation { kind, samba, own, line, reason })
        };
        lines.map(read).collect::<Result<_>>().map(Self).context("the list of explanations")
    }

    fn find(&self, difference: &Difference) -> Option<usize> {
        self.0.iter().position(|it| {
            let Difference { kind, samba, own, lines, .. } = difference;
            fits(kind, &it.kind)
                && fits(samba, &it.samba)
                && fits(own, &it.own)
                && (it.line == "*" || lines.iter().any(|line| fits(line, &it.line)))
        })
    }
}

/// Returns true if a text fits a pattern, in which `*` stands for any text.
fn fits(text: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return text == pattern };
    let Some(text) = text.strip_prefix(first) else { return false };
    // The shortest text for each star but the last is as good as any other.
    let (middle, last) = rest.rsplit_once('*').map_or(("", rest), |(middle, last)| (middle, last));
    let Some(mut text) = text.strip_suffix(last) else { return false };
    middle.split('*').all(|part| match text.split_once(part) {
        Some((_, after)) => {
            text = after;
            true
        }
        None => false,
    })
}

/// All differences of a comparison.
#[derive(Clone, Debug)]
pub struct Findings {
    explanations: Explanations,
    explained: Vec<usize>,
    /// Those without an explanation, by kind and answers: their number and the first one.
    unexplained: BTreeMap<(String, String, String), (usize, Difference)>,
}

impl Findings {
    pub(super) fn new(explanations: Explanations) -> Self {
        let explained = vec![0; explanations.0.len()];
        Self { explanations, explained, unexplained: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, difference: Difference) {
        if let Some(at) = self.explanations.find(&difference) {
            self.explained[at] += 1;
            return;
        }
        let Difference { kind, samba, own, .. } = &difference;
        let key = (kind.clone(), shortened(samba), shortened(own));
        self.unexplained.entry(key).or_insert_with(|| (0, difference)).0 += 1;
    }

    /// Number of differences without an explanation.
    #[must_use]
    pub fn unexplained(&self) -> usize {
        self.unexplained.values().map(|(count, _)| count).sum()
    }

    /// Number of explained differences, and number of open ones.
    #[must_use]
    pub fn explained(&self) -> (usize, usize) {
        let count = |is_open| {
            let listed = self.explained.iter().zip(&self.explanations.0);
            let of_kind = listed.filter(|(_, it)| it.reason.starts_with(OPEN) == is_open);
            of_kind.map(|(count, _)| count).sum()
        };
        (count(false), count(true))
    }

    /// Lists all differences; those without an explanation with an example.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for ((kind, samba, own), (count, first)) in &self.unexplained {
            let Difference { share, lines, example, .. } = first;
            let _ = writeln!(
                text,
                "{count} x {kind}: Samba {samba}, Choro {own}\n    share {share}, {example}\n    \
                 {}",
                lines.join("; ")
            );
        }
        let (unexplained, (explained, open)) = (self.unexplained(), self.explained());
        let _ = writeln!(
            text,
            "{unexplained} differences are new, {explained} have an explanation, {open} are open:"
        );
        let listed = self.explained.iter().zip(&self.explanations.0);
        for (count, it) in listed.filter(|(count, _)| **count > 0) {
            let Explanation { kind, samba, own, reason, .. } = it;
            let _ = writeln!(text, "{count} x {kind}: Samba {samba}, Choro {own}: {reason}");
        }
        text
    }
}

/// First word of a reason that is not known yet.
const OPEN: &str = "open";

/// Characters of an answer that are shown.
const SHOWN_MAX: usize = 60;

fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::{Difference, Explanations, Findings, fits};

    #[test]
    fn a_star_stands_for_any_text() {
        for (text, pattern, wanted) in [
            ("create.status", "create.*", true),
            ("create.status", "*", true),
            ("create.status", "*.status", true),
            ("create.status", "c*e*s", true),
            ("create.status", "c*x*s", false),
            ("create.status", "create", false),
            ("ab", "ab*b", false),
            ("", "*", true),
        ] {
            assert_eq!(fits(text, pattern), wanted, "{text} {pattern}");
        }
    }

    #[test]
    fn a_difference_is_explained_by_kind_answers_and_a_parameter() {
        let list = "# comment\ncreate.*\tA\tB\tea support = no\tbecause\n";
        let mut findings = Findings::new(Explanations::parse(list).expect("it is one"));
        let difference = |line: &str, own: &str| Difference {
            kind: "create.status".to_owned(),
            samba: "A".to_owned(),
            own: own.to_owned(),
            share: 1,
            lines: vec![line.to_owned()],
            example: String::new(),
        };
        findings.add(difference("ea support = no", "B"));
        findings.add(difference("ea support = yes", "B"));
        findings.add(difference("ea support = no", "C"));
        assert_eq!((findings.explained(), findings.unexplained()), ((1, 0), 2));
        assert!(findings.to_text().contains("because"));
    }

    #[test]
    fn an_explanation_has_a_reason() {
        for bad in ["create.*\tA\tB\t*\t \n", "create.*\tA\tB\t*\n"] {
            Explanations::parse(bad).expect_err("it says nothing");
        }
    }
}
