//! Comments name the things they describe.

use crate::place::Findings;
use crate::rule::{Goal, Rule};
use crate::words::{function_words, words};
use crate::workspace::Crate;

/// Highest share of function words.
const PERCENT_MAX: usize = 45;
/// Shorter comments have no meaningful share.
const WORDS_MIN: usize = 10;

/// Too many pronouns and prepositions, and too few nouns and verbs.
pub const RULE: Rule = Rule {
    name: "function words",
    demand: "Of a comment of ten words or more, at most 45 % are pronouns, forms of \"to be\" and \
             prepositions (the list: crates/lint/src/words.rs).",
    reason: "A sentence without nouns has to be decoded.",
    remedy: "Name the things: target, caller, owner, cache. CONTRIBUTING.md has a glossary.",
    example: (
        "/// The worker does from now on for this what it does for whom it served until now.",
        "/// Switches to another request, and keeps the current phase.",
    ),
    unit: "comments",
    goal: Goal::None,
    measure: |tree| Ok(tree.each_crate(measure)),
};

fn measure(checked: &Crate) -> Findings {
    let mut places = Vec::new();
    let mut of = 0;
    for file in &checked.files {
        for comment in &file.scan.comments {
            let words = words(comment);
            if words.len() < WORDS_MIN {
                continue;
            }
            of += 1;
            let parts = function_words(&words) * 100;
            if parts > PERCENT_MAX * words.len() {
                let percent = parts.div_ceil(words.len());
                let mut place = file.place(comment, percent);
                place.text = format!("({percent} %) {}", place.text);
                places.push(place);
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
    fn a_sentence_of_pronouns_counts() {
        let text =
            "/// It is what was in it before it was with them, of which it is.\npub fn f() {}\n";
        assert_eq!(measure(&snippet::of(text)).count, 1);
    }

    #[test]
    fn a_sentence_that_names_things_does_not_count() {
        let text =
            "/// Waits for a pending deletion instead of refusing the open of a file.\nfn f() {}\n";
        let found = measure(&snippet::of(text));
        assert_eq!((found.count, found.of), (0, 1));
    }

    #[test]
    fn a_short_comment_is_not_measured() {
        assert_eq!(measure(&snippet::of("// What it is for.\n")), Findings::default());
    }
}
