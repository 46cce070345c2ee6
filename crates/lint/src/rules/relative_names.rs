//! Names of functions and tests do not contain a relative clause.

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Macro, Signature};

use crate::place::{Findings, Place};
use crate::rule::{Goal, Rule};
use crate::words::RELATIVE_PRONOUNS;
use crate::workspace::Crate;

/// Names that say "what is refused" instead of "a refused request".
pub const RULE: Rule = Rule {
    name: "relative names",
    demand: "No name of a function or a test has the word what, whatever, who, whoever, whom or \
             whose.",
    reason: "Such a name paraphrases a thing that has a name; a test's name is its claim, and has \
             to be understood in the list of failures.",
    remedy: "Name the thing: its noun in the specification, with a participle if there are \
             several kinds.",
    example: ("what_is_open_is_not_deleted", "an_open_file_is_not_deleted"),
    unit: "functions",
    goal: Goal::None,
    measure: |tree| Ok(tree.each_crate(measure)),
};

fn measure(checked: &Crate) -> Findings {
    let mut places = Vec::new();
    let mut of = 0;
    for file in &checked.files {
        let mut collector = Collector::default();
        collector.visit_file(&file.syntax);
        of += collector.names.len();
        for name in collector.names {
            let text = name.to_string();
            let words = text.split('_').filter(|word| RELATIVE_PRONOUNS.contains(word)).count();
            if words > 0 {
                let line = name.span().start().line;
                let path = file.path.clone();
                let text = format!("fn {text}");
                places.push(Place { path, line, last: line, text, weight: words });
            }
        }
    }
    Findings::each(places, of)
}

/// Names of all functions of a file, those in macros such as `proptest!` included.
#[derive(Default)]
struct Collector {
    names: Vec<Ident>,
}

impl Collector {
    fn collect_from_tokens(&mut self, tokens: TokenStream) {
        let mut is_after_fn = false;
        for token in tokens {
            let is_fn = matches!(&token, TokenTree::Ident(word) if word == "fn");
            match token {
                TokenTree::Group(group) => self.collect_from_tokens(group.stream()),
                TokenTree::Ident(name) if is_after_fn => self.names.push(name),
                TokenTree::Ident(_) | TokenTree::Literal(_) | TokenTree::Punct(_) => (),
            }
            is_after_fn = is_fn;
        }
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_signature(&mut self, signature: &'ast Signature) {
        self.names.push(signature.ident.clone());
        visit::visit_signature(self, signature);
    }

    fn visit_macro(&mut self, found: &'ast Macro) {
        self.collect_from_tokens(found.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::snippet;

    fn count(text: &str) -> (usize, usize) {
        let found = measure(&snippet::of(text));
        (found.count, found.of)
    }

    #[test]
    fn each_relative_word_in_a_name_counts() {
        for word in RELATIVE_PRONOUNS {
            assert_eq!(count(&format!("fn {word}_is_open() {{}}")), (1, 1), "{word}");
            assert_eq!(count(&format!("fn tells_{word}() {{}}")), (1, 1), "{word}");
        }
    }

    #[test]
    fn a_name_that_only_contains_the_letters_does_not_count() {
        assert_eq!(count("fn the_whole_is_somewhat_larger() {}"), (0, 1));
    }

    #[test]
    fn methods_tests_and_functions_in_macros_count() {
        assert_eq!(count("impl A { fn what_is_left(&self) {} }"), (1, 1));
        assert_eq!(count("#[cfg(test)] mod tests { #[test] fn who_comes() {} }"), (1, 1));
        assert_eq!(count("proptest! { #[test] fn what_is_read(a in 0..1) { f(a) } }"), (1, 1));
    }

    #[test]
    fn a_word_in_a_macro_that_is_no_name_of_a_function_does_not_count() {
        assert_eq!(count("fn f() { check!(what, fn(u8) -> u8); }"), (0, 1));
    }

    #[test]
    fn the_place_is_the_line_of_the_name() {
        let found = measure(&snippet::of("/// Doc.\nfn f() {}\n\nfn what_is_open() {}\n"));
        let place = &found.places[0];
        assert_eq!((place.line, &*place.text), (4, "fn what_is_open"));
    }
}
