//! Comments do not begin with a relative clause.

use crate::place::Findings;
use crate::rule::{Goal, Rule};
use crate::words::{RELATIVE_OPENERS, words};
use crate::workspace::Crate;

/// Begins with "what", "who", "where", …
pub const RULE: Rule = Rule {
    name: "relative openers",
    demand: "At most 3 % of the comments begin with what, where, who, whose, which, when or how.",
    reason: "Such a comment paraphrases a thing that has a name, and the reader has to guess it.",
    remedy: "Begin with the noun; the doc of a function with its verb (\"Returns the…\"), that of \
             a boolean with \"Whether\".",
    example: (
        "/// What nobody has open any more and is deleted as soon as a worker comes to it.",
        "/// A file whose deletion is pending: its last open is closed.",
    ),
    unit: "comments",
    goal: Goal::Percent(3),
    measure: |tree| Ok(tree.each_crate(measure)),
};

fn measure(checked: &Crate) -> Findings {
    let mut places = Vec::new();
    let mut of = 0;
    for file in &checked.files {
        for comment in &file.scan.comments {
            let words = words(comment);
            let Some(first) = words.first() else { continue };
            of += 1;
            if RELATIVE_OPENERS.contains(&first.as_str()) {
                places.push(file.place(comment, words.len()));
            }
        }
    }
    Findings::each(places, of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::snippet;

    #[test]
    fn a_comment_that_begins_with_a_relative_word_counts() {
        let found =
            measure(&snippet::of("/// What was asked for.\npub fn f() {}\n// Who comes.\n"));
        assert_eq!((found.count, found.of), (2, 2));
    }

    #[test]
    fn a_comment_that_begins_with_a_noun_or_with_whether_does_not_count() {
        let text = "/// Target of the rename.\npub fn f() {}\n/// Whether it is open.\nfn g() {}\n";
        let found = measure(&snippet::of(text));
        assert_eq!((found.count, found.of), (0, 2));
    }
}
