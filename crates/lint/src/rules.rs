//! The rules, one in each file.

pub mod commits;
pub mod contents;
pub mod documents;
pub mod file_modes;
pub mod function_words;
pub mod layers;
pub mod long_functions;
pub mod module_cycles;
pub mod relative_names;
pub mod relative_openers;
pub mod short_docs;
pub mod width;

#[cfg(test)]
pub(crate) mod snippet;

use crate::rule::Rule;

/// All rules, in checking order.
pub const RULES: [&Rule; 12] = [
    &relative_openers::RULE,
    &relative_names::RULE,
    &function_words::RULE,
    &short_docs::RULE,
    &width::RULE,
    &long_functions::RULE,
    &file_modes::RULE,
    &layers::RULE,
    &module_cycles::RULE,
    &documents::RULE,
    &contents::RULE,
    &commits::RULE,
];
