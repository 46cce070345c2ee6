//! Rules of form beyond rustfmt and clippy: comments, widths, functions, layers, documents,
//! commits.
//!
//! Each rule has a goal. Until a crate reaches it, its count has a ceiling in `ceilings.tsv`, which
//! may fall and not rise. CONTRIBUTING.md says how that is used.

#![forbid(unsafe_code)]

pub mod ceilings;
pub mod comments;
pub mod complaint;
pub mod cycles;
pub mod floors;
pub mod history;
pub mod imports;
pub mod module_tree;
mod pages;
pub mod place;
pub mod rule;
pub mod rules;
pub mod source_file;
pub mod words;
pub mod workspace;
