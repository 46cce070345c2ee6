//! The subject of a commit is an order to the code.

use crate::history::{Commit, commits_after};
use crate::place::{Findings, Place};
use crate::rule::{Goal, Measured, Rule};
use crate::words::FUNCTION_WORDS;

/// The last commit that is exempt. A subject that breaks the rule and has reached `main` stays as
/// it is: name its commit here.
const SINCE: &str = "31473c400464";

const COLUMNS_MAX: usize = 72;

/// Begin a noun phrase, or something else that is no order.
const NO_VERBS: &[&str] = &[
    "a", "all", "also", "an", "and", "any", "each", "every", "if", "more", "new", "no", "not",
    "now", "one", "only", "some", "the", "to", "two", "when", "where",
];
/// Orders that look like another form of a verb.
const ORDERS: &[&str] = &[
    "alias", "bias", "bleed", "bring", "cling", "embed", "exceed", "feed", "focus", "heed", "need",
    "ping", "proceed", "ring", "seed", "shed", "shred", "speed", "spring", "string", "succeed",
    "swing",
];

/// Too long, without an area, or no order.
pub const RULE: Rule = Rule {
    name: "commits",
    demand: "The subject of a commit is `area: verb …`, imperative, of at most 72 characters.",
    reason: "Lists of commits show no more, and \"this commit will …\" makes a sentence.",
    remedy: "Reword it with git commit --amend or git rebase --interactive; the reason goes into \
             the body. If the commit is on main already, name it as SINCE in \
             crates/lint/src/rules/commits.rs. A verb that is taken for another form goes into \
             ORDERS there.",
    example: (
        "worker: what is deleted in place of the dead takes nothing unseen with it",
        "store: do not remove vetoed entries on behalf of a dead worker",
    ),
    unit: "commits",
    goal: Goal::None,
    measure: |tree| {
        let findings = measure(&commits_after(tree.root, SINCE)?);
        Ok(vec![Measured { subject: "commits".to_owned(), findings }])
    },
};

fn measure(commits: &[Commit]) -> Findings {
    let places = commits.iter().zip(1..).filter_map(|(commit, age)| {
        let fault = fault(&commit.subject)?;
        Some(Place {
            path: format!("commit {}", commit.name),
            line: 0,
            last: 0,
            text: format!("{} ({fault})", commit.subject),
            weight: usize::MAX - age,
        })
    });
    Findings::each(places.collect(), commits.len())
}

fn fault(subject: &str) -> Option<String> {
    // As git words it, with the subject of the other commit.
    if subject.starts_with("Revert \"") {
        return None;
    }
    let columns = subject.chars().count();
    if columns > COLUMNS_MAX {
        return Some(format!("{columns} characters"));
    }
    let Some((areas, order)) = subject.split_once(": ") else {
        return Some("no area".to_owned());
    };
    let is_area = |area: &str| {
        !area.is_empty() && area.chars().all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c))
    };
    if !areas.split(", ").all(is_area) {
        return Some(format!("{areas:?} is no area"));
    }
    let first = order.split_whitespace().next().unwrap_or_default();
    (!is_order(first)).then(|| format!("{first:?} is no imperative"))
}

/// Whether a word may be an imperative. Nouns are not told from verbs.
fn is_order(word: &str) -> bool {
    let is_word = !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    // "Log in" and "back up" are orders, "in" and "up" are none.
    let is_particle =
        FUNCTION_WORDS.iter().any(|kind| kind.contains(&word)) || NO_VERBS.contains(&word);
    let is_form = ["ed", "ing", "s"].iter().any(|end| word.ends_with(end)) && !word.ends_with("ss");
    is_word && !is_particle && (!is_form || ORDERS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_fault(subject: &str) -> bool {
        let commit = Commit { name: "abc".to_owned(), subject: subject.to_owned() };
        measure(&[commit]).count == 1
    }

    #[test]
    fn an_order_with_an_area_does_not_count() {
        assert!(!has_fault("store: do not remove vetoed entries on behalf of a dead worker"));
        assert!(!has_fault("proto, worker: pass the reason on"));
        assert!(!has_fault("docs/qos: process figures"));
        assert!(!has_fault("auth: need a password"));
        assert!(!has_fault("Revert \"auth: need a password\""));
    }

    #[test]
    fn a_subject_of_73_characters_counts() {
        assert!(!has_fault(&format!("wire: {}", "a".repeat(66))));
        assert!(has_fault(&format!("wire: {}", "a".repeat(67))));
    }

    #[test]
    fn a_subject_without_an_area_counts() {
        assert!(has_fault("decode contexts"));
        assert!(has_fault("what is new: decode contexts"));
    }

    #[test]
    fn a_statement_and_other_forms_of_verbs_count() {
        for subject in [
            "wire: CREATE contexts are decoded",
            "docs: the numbers come from the constants",
            "wire: what is sent is decoded",
            "wire: decodes contexts",
            "wire: decoded contexts",
            "wire: decoding contexts",
            "wire: `Decode` for contexts",
        ] {
            assert!(has_fault(subject), "{subject}");
        }
    }
}
