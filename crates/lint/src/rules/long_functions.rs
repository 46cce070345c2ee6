//! A function can be seen at once.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, ImplItemFn, ItemFn, ItemImpl, ItemMod, Signature, TraitItemFn};

use crate::module_tree::is_for_tests;
use crate::place::{Findings, Place};
use crate::rule::{Goal, Rule};
use crate::workspace::Crate;

/// Lines from `fn` to the closing brace.
const LINES_MAX: usize = 80;

/// Functions longer than a screen.
pub const RULE: Rule = Rule {
    name: "long functions",
    demand: "A production function has at most 80 lines, from `fn` to its closing brace.",
    reason: "A function that does not fit on a screen is not read as a whole.",
    remedy: "Give each outcome, phase or arm a function with a name, or make a table of the cases.",
    example: (
        "fn settle(…): eight outcomes in 90 lines",
        "match outcome { Granted => self.grant(…), Refused => self.refuse(…), … }",
    ),
    unit: "functions",
    goal: Goal::None,
    measure: |tree| Ok(tree.each_crate(measure)),
};

fn measure(checked: &Crate) -> Findings {
    let mut places = Vec::new();
    let mut of = 0;
    for file in checked.files.iter().filter(|file| !file.is_test) {
        let mut collector = Collector::default();
        collector.visit_file(&file.syntax);
        of += collector.functions.len();
        for Function { name, first, last } in collector.functions {
            let lines = last + 1 - first;
            if lines > LINES_MAX {
                let text = format!("fn {name} has {lines} lines");
                places.push(Place {
                    path: file.path.clone(),
                    line: first,
                    last,
                    text,
                    weight: lines,
                });
            }
        }
    }
    Findings::each(places, of)
}

struct Function {
    name: String,
    first: usize,
    last: usize,
}

#[derive(Default)]
struct Collector {
    functions: Vec<Function>,
}

impl Collector {
    fn add(&mut self, signature: &Signature, block: &Block) {
        self.functions.push(Function {
            name: signature.ident.to_string(),
            first: signature.span().start().line,
            last: block.span().end().line,
        });
    }
}

fn unless_test(attributes: &[Attribute], walk: impl FnOnce()) {
    if !is_for_tests(attributes) {
        walk();
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        unless_test(&item.attrs, || visit::visit_item_mod(self, item));
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        unless_test(&item.attrs, || visit::visit_item_impl(self, item));
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        unless_test(&item.attrs, || {
            self.add(&item.sig, &item.block);
            visit::visit_item_fn(self, item);
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        unless_test(&item.attrs, || {
            self.add(&item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
        });
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::snippet;

    /// A function of so many lines.
    fn function(lines: usize) -> String {
        format!("/// Doc.\n#[inline]\nfn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2))
    }

    #[test]
    fn a_function_of_81_lines_counts() {
        let found = measure(&snippet::of(&function(81)));
        assert_eq!((found.count, found.places[0].line, found.places[0].last), (1, 3, 83));
    }

    #[test]
    fn a_function_of_80_lines_does_not_count() {
        let found = measure(&snippet::of(&function(80)));
        assert_eq!((found.count, found.of), (0, 1));
    }

    #[test]
    fn methods_and_defaults_of_traits_count() {
        let long = function(81);
        let text = format!("impl A {{ {long} }}\ntrait B {{ {long} }}\n");
        assert_eq!(measure(&snippet::of(&text)).count, 2);
    }

    #[test]
    fn test_code_does_not_count() {
        let long = function(81);
        let inline = format!("#[cfg(test)] mod t {{ {long} }}");
        assert_eq!(measure(&snippet::of(&inline)).count, 0);
        let files = [("src/lib.rs", "#[cfg(test)] mod tests;"), ("src/tests.rs", &long)];
        assert_eq!(measure(&snippet::with_files("a", &files)).count, 0);
        assert_eq!(measure(&snippet::with_files("a", &[("tests/a.rs", &long)])).count, 0);
    }
}
