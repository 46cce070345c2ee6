//! The words of a comment: openers, function words, content words.

use crate::comments::Comment;

/// A comment that begins with one of these describes a thing instead of naming it. "Whether" is
/// how the doc of a boolean begins, and fine.
pub const RELATIVE_OPENERS: &[&str] =
    &["how", "what", "when", "where", "which", "who", "whoever", "whom", "whose"];

/// Words that name nothing in the name of a function or a test. "Where" and "which" are not among
/// them: `goes_on_where_it_stopped` is a plain claim.
pub const RELATIVE_PRONOUNS: &[&str] = &["what", "whatever", "who", "whoever", "whom", "whose"];

/// The words that stand in place of nouns, and those that tie clauses together. Articles,
/// conjunctions and "to" are left out: plain English needs them as often as riddles do. Counted in
/// this way, the 2,775 doc comments of tokio and hyper with ten words or more have 18 % on average,
/// and a single one of them has more than 45 %.
pub const FUNCTION_WORDS: [&[&str]; 3] = [PRONOUNS, COPULAS, PREPOSITIONS];

const PRONOUNS: &[&str] = &[
    "anybody",
    "anything",
    "everybody",
    "everything",
    "he",
    "her",
    "him",
    "his",
    "i",
    "it",
    "its",
    "itself",
    "me",
    "my",
    "nobody",
    "nothing",
    "our",
    "she",
    "somebody",
    "something",
    "that",
    "their",
    "them",
    "themselves",
    "these",
    "they",
    "this",
    "those",
    "us",
    "we",
    "what",
    "whatever",
    "which",
    "who",
    "whoever",
    "whom",
    "whose",
    "you",
    "your",
];

const COPULAS: &[&str] = &["am", "are", "be", "been", "being", "is", "was", "were"];

const PREPOSITIONS: &[&str] = &[
    "about", "after", "against", "among", "around", "at", "before", "behind", "beneath", "beside",
    "between", "beyond", "by", "during", "for", "from", "in", "into", "of", "on", "over", "since",
    "through", "under", "until", "upon", "with", "within", "without",
];

/// Stands for a span of code, which counts as one word.
const CODE: &str = "`";

/// The words of a comment in lower case, without punctuation. A span of code is one word, a fenced
/// example none.
#[must_use]
pub fn words(comment: &Comment) -> Vec<String> {
    let prose = without_code(&comment.text);
    prose.split(|c: char| c.is_whitespace() || c == '/').filter_map(word).collect()
}

/// The number of function words.
#[must_use]
pub fn function_words(words: &[String]) -> usize {
    let is_function =
        |word: &&String| FUNCTION_WORDS.iter().any(|kind| kind.contains(&word.as_str()));
    words.iter().filter(is_function).count()
}

fn word(raw: &str) -> Option<String> {
    let kept = raw.trim_matches(|c: char| !c.is_alphanumeric() && c != '`');
    (!kept.is_empty()).then(|| kept.to_lowercase())
}

fn without_code(text: &str) -> String {
    let mut prose = String::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    let spans = prose.split('`').enumerate();
    spans.map(|(nth, span)| if nth % 2 == 0 { span } else { CODE }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comments::Scan;

    fn words_of(source: &str) -> Vec<String> {
        words(&Scan::of(source).comments[0])
    }

    #[test]
    fn a_span_of_code_is_one_word() {
        assert_eq!(words_of("/// Calls [`Store::open file`], once.\n"), ["calls", "`", "once"]);
    }

    #[test]
    fn a_fenced_example_has_no_words() {
        let source = "/// Adds.\n/// ```\n/// what(is, it);\n/// ```\n/// Twice.\n";
        assert_eq!(words_of(source), ["adds", "twice"]);
    }

    #[test]
    fn pronouns_copulas_and_prepositions_are_function_words() {
        assert_eq!(function_words(&words_of("// what is in it")), 4);
        assert_eq!(function_words(&words_of("// the target, or a pending lease")), 0);
    }
}
