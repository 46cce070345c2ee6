//! A Rust file, scanned and parsed.

use crate::comments::{Comment, Kind, Scan};
use crate::place::Place;

/// A source file with its comments and its syntax tree.
#[derive(Debug)]
pub struct SourceFile {
    /// Path from the root of the repository.
    pub path: String,
    /// Its text, as read from disk.
    pub text: String,
    /// Comments and raw strings in the text.
    pub scan: Scan,
    /// The syntax tree; attributes and bodies included.
    pub syntax: syn::File,
    /// Whether it is built for tests, benchmarks or examples only.
    pub is_test: bool,
}

impl SourceFile {
    /// Parses a file. It is taken for production code until its module says otherwise.
    ///
    /// # Errors
    /// If it is not Rust.
    pub fn parse(path: &str, text: String) -> Result<Self, String> {
        let syntax = syn::parse_file(&text).map_err(|error| format!("{path}: {error}"))?;
        let scan = Scan::of(&text);
        Ok(Self { path: path.to_owned(), text, scan, syntax, is_test: false })
    }

    /// Names of its module from the root of the crate, which itself has none.
    #[must_use]
    pub fn module(&self) -> Vec<&str> {
        let inside = self.path.split_once("/src/").map_or("", |(_, inside)| inside);
        let inside = inside.strip_suffix(".rs").unwrap_or(inside);
        let mut names: Vec<&str> = inside.split('/').collect();
        names.pop_if(|last| matches!(*last, "lib" | "main" | "mod" | ""));
        names
    }

    /// The place of a comment, with its first words.
    #[must_use]
    pub fn place(&self, comment: &Comment, weight: usize) -> Place {
        Place {
            path: self.path.clone(),
            line: comment.first,
            last: comment.last,
            text: comment.text.split_whitespace().collect::<Vec<_>>().join(" "),
            weight,
        }
    }

    /// The first line of the item that an outer doc comment describes, without attributes.
    #[must_use]
    pub fn described_line(&self, comment: &Comment) -> Option<&str> {
        if comment.kind != Kind::Outer {
            return None;
        }
        let mut lines = self.text.lines().skip(comment.last).map(str::trim);
        let mut line = lines.next()?;
        while line.starts_with("#[") || line.starts_with("//") || line.is_empty() {
            while line.starts_with("#[") && !line.ends_with(']') {
                line = lines.by_ref().find(|line| line.ends_with(']'))?;
            }
            line = lines.next()?;
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_described_line_is_found_behind_attributes() {
        let text = "/// Doc.\n#[cfg(any(\n    unix,\n))]\n#[must_use]\npub struct A;\n";
        let file = SourceFile::parse("a.rs", text.to_owned()).unwrap();
        assert_eq!(file.described_line(&file.scan.comments[0]), Some("pub struct A;"));
    }

    #[test]
    fn the_doc_of_a_module_describes_no_line() {
        let file = SourceFile::parse("a.rs", "//! Doc.\npub struct A;\n".to_owned()).unwrap();
        assert_eq!(file.described_line(&file.scan.comments[0]), None);
    }
}
