//! Differences, and the list of those that are known.
//!
//! A line of the list has six fields, separated by tabs: the kind of the difference, the answer of
//! Samba, that of Choro, a line of the share's section that must be there, the request, and the
//! reason. `*` in the first five stands for any text. A request of an open has the CREATE of the
//! open behind it.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};

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
    pub(super) round: usize,
    /// The request, with the CREATE of its open; for files on the disk, the path.
    pub(super) request: String,
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
    request: String,
    reason: String,
}

impl Explanations {
    /// Reads the list.
    ///
    /// # Errors
    ///
    /// A line has not six fields, or no reason.
    pub fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let lines = lines.filter(|(_, line)| !line.starts_with('#'));
        let read = |(number, line): (usize, &str)| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [kind, samba, own, parameter, request, reason] = fields[..] else {
                anyhow::bail!("line {}: {} fields instead of 6", number + 1, fields.len());
            };
            ensure!(!reason.trim().is_empty(), "line {}: no reason", number + 1);
            let [kind, samba, own, line, request, reason] =
                [kind, samba, own, parameter, request, reason].map(|it| it.trim().to_owned());
            Ok(Explanation { kind, samba, own, line, request, reason })
        };
        lines.map(read).collect::<Result<_>>().map(Self).context("the list of explanations")
    }

    fn find(&self, difference: &Difference) -> Option<usize> {
        self.0.iter().position(|it| {
            let Difference { kind, samba, own, lines, request, .. } = difference;
            fits(kind, &it.kind)
                && fits(samba, &it.samba)
                && fits(own, &it.own)
                && fits(request, &it.request)
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
    /// Each difference, with the line of the list that explains it.
    all: Vec<(Option<usize>, Difference)>,
    /// Each request with both answers, if they are to be kept.
    requests: Option<String>,
    /// Those without an explanation, by kind and answers: their number and the first one.
    unexplained: BTreeMap<(String, String, String), (usize, Difference)>,
}

impl Findings {
    /// Without differences; `keeps_requests` if all requests are to be listed, too.
    pub(super) fn new(explanations: Explanations, keeps_requests: bool) -> Self {
        let explained = vec![0; explanations.0.len()];
        let requests = keeps_requests.then(String::new);
        Self { explanations, explained, all: Vec::new(), requests, unexplained: BTreeMap::new() }
    }

    /// Notes a request and both answers, if they are to be kept.
    pub(super) fn note(&mut self, round: usize, request: &str, answers: &[impl Debug; 2]) {
        if let Some(requests) = &mut self.requests {
            let [samba, own] = answers;
            let _ = writeln!(requests, "{round}\t{request}\t{samba:?}\t{own:?}");
        }
    }

    pub(super) fn add(&mut self, difference: Difference) {
        let found = self.explanations.find(&difference);
        self.all.push((found, difference.clone()));
        if let Some(at) = found {
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

    /// Each difference on a line of its own, by fields with tabs between them: kind, both answers,
    /// share, round, request, section of the share, explanation. Of a single share, all requests
    /// follow: round, request, both answers.
    #[must_use]
    pub fn to_table(&self) -> String {
        let mut text = String::new();
        for (found, difference) in &self.all {
            let Difference { kind, samba, own, share, round, lines, request } = difference;
            let reason = found.map_or("", |at| self.explanations.0[at].reason.as_str());
            let fields = [kind, samba, own, &share.to_string(), &round.to_string(), request];
            let fields = fields.map(|field| field.replace(['\t', '\n'], " ")).join("\t");
            let _ = writeln!(text, "{fields}\t{}\t{reason}", lines.join("; "));
        }
        text + self.requests.as_deref().unwrap_or_default()
    }

    /// Lists all differences; those without an explanation with an example.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for ((kind, samba, own), (count, first)) in &self.unexplained {
            let Difference { share, round, lines, request, .. } = first;
            let _ = writeln!(
                text,
                "{count} x {kind}: Samba {samba}, Choro {own}\n    share {share}, round {round}: \
                 {request}\n    {}",
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
        let list = "# comment\ncreate.*\tA\tB\tea support = no\t*\tbecause\n";
        let mut findings = Findings::new(Explanations::parse(list).expect("it is one"), false);
        let difference = |line: &str, own: &str| Difference {
            kind: "create.status".to_owned(),
            samba: "A".to_owned(),
            own: own.to_owned(),
            share: 1,
            lines: vec![line.to_owned()],
            round: 0,
            request: String::new(),
        };
        findings.add(difference("ea support = no", "B"));
        findings.add(difference("ea support = yes", "B"));
        findings.add(difference("ea support = no", "C"));
        assert_eq!((findings.explained(), findings.unexplained()), ((1, 0), 2));
        assert!(findings.to_text().contains("because"));
    }

    #[test]
    fn an_explanation_has_a_reason() {
        for bad in ["create.*\tA\tB\t*\t*\t \n", "create.*\tA\tB\t*\t*\n"] {
            Explanations::parse(bad).expect_err("it says nothing");
        }
    }
}
