//! The imports between files of a crate: `use`, and paths written out in code.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, ItemFn, ItemImpl, ItemMod, ItemUse, Macro, Path, Visibility};

use crate::module_tree::{ModuleTree, imported, is_for_tests};
use crate::source_file::SourceFile;

/// A file needs something that another file of its crate defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Index of the importing file.
    pub from: usize,
    /// Index of the defining file.
    pub to: usize,
    /// First line that names the definition.
    pub line: usize,
    /// The path as written on that line.
    pub path: String,
}

/// The imports between production files of a crate, one for each pair of files.
///
/// A re-export (`pub use`) is none: the file that uses the name imports the one that defines it.
#[must_use]
pub fn of(files: &[SourceFile], tree: &ModuleTree) -> Vec<Import> {
    let mut found = BTreeMap::new();
    for (at, module) in tree.modules.iter().enumerate() {
        let inline = tree
            .modules
            .iter()
            .any(|other| other.file == module.file && other.path.len() < module.path.len());
        if !module.is_test && !inline {
            let mut collector = Collector { tree, module: at, found: &mut found };
            collector.visit_file(&files[module.file].syntax);
        }
    }
    let pairs = found.into_iter();
    pairs.map(|((from, to), (line, path))| Import { from, to, line, path }).collect()
}

struct Collector<'t> {
    tree: &'t ModuleTree,
    module: usize,
    found: &'t mut BTreeMap<(usize, usize), (usize, String)>,
}

impl Collector<'_> {
    fn add(&mut self, path: &[String], line: usize) {
        let Some(target) = self.tree.resolve(self.module, path) else { return };
        let (from, to) = (self.tree.modules[self.module].file, self.tree.modules[target].file);
        if from != to {
            self.found.entry((from, to)).or_insert_with(|| (line, path.join("::")));
        }
    }

    /// Paths in the arguments of a macro, which syn leaves as they are.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut line = 0;
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add_written(&path, line);
                        path.clear();
                        line = ident.span().start().line;
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.add_written(&std::mem::take(&mut path), line);
                    self.add_tokens(group.stream());
                }
                _ => {
                    self.add_written(&std::mem::take(&mut path), line);
                    colons = 0;
                }
            }
        }
        self.add_written(&path, line);
    }

    /// A single name in a macro may be anything, such as a field or a local variable.
    fn add_written(&mut self, path: &[String], line: usize) {
        if path.len() > 1 {
            self.add(path, line);
        }
    }

    fn unless_test(&mut self, attributes: &[Attribute], walk: impl FnOnce(&mut Self)) {
        if !is_for_tests(attributes) {
            walk(self);
        }
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.unless_test(&item.attrs, |this| {
            let inside = this.tree.child(this.module, &item.ident.to_string());
            if let (Some(inside), Some(_)) = (inside, &item.content) {
                let outside = std::mem::replace(&mut this.module, inside);
                visit::visit_item_mod(this, item);
                this.module = outside;
            }
        });
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.unless_test(&item.attrs, |this| {
            if matches!(item.vis, Visibility::Inherited) {
                let line = item.span().start().line;
                for imported in imported(&item.tree) {
                    this.add(&imported.path, line);
                }
            }
        });
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.unless_test(&item.attrs, |this| visit::visit_item_fn(this, item));
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        self.unless_test(&item.attrs, |this| visit::visit_item_impl(this, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.unless_test(&item.attrs, |this| visit::visit_impl_item_fn(this, item));
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let names: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        // A single name is never a module, but may be a local variable that is called like one.
        let is_variable = matches!(&*names, [name] if self.tree.child(self.module, name).is_some());
        if path.leading_colon.is_none() && !is_variable {
            self.add(&names, path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {
        // The path in `pub(in path)` names who may import, and imports nothing.
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        visit::visit_macro(self, item);
        self.add_tokens(item.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Crate;

    /// The imports of a crate whose files are given as name and text: `from -> to`.
    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let sources = files
            .iter()
            .map(|(name, text)| (format!("crates/a/src/{name}.rs"), (*text).to_owned()))
            .collect();
        let parsed = Crate::new("a", String::new(), sources).unwrap().files;
        let name = |at: usize| parsed[at].path.rsplit('/').next().unwrap().to_owned();
        let found = of(&parsed, &ModuleTree::of(&parsed));
        found.iter().map(|import| format!("{} -> {}", name(import.from), name(import.to))).collect()
    }

    #[test]
    fn a_use_and_a_written_path_are_imports() {
        let found = imports(&[
            ("lib", "mod b; mod c; mod d;"),
            ("b", "use crate::c::C;\nfn f() { super::d::g(); }"),
            ("c", "pub struct C;"),
            ("d", "pub fn g() {}"),
        ]);
        assert_eq!(found, ["b.rs -> c.rs", "b.rs -> d.rs"]);
    }

    #[test]
    fn a_path_in_a_macro_is_an_import() {
        let found = imports(&[
            ("lib", "mod b; fn f() { println!(\"{}\", b::N); }"),
            ("b", "pub const N: u8 = 1;"),
        ]);
        assert_eq!(found, ["lib.rs -> b.rs"]);
    }

    #[test]
    fn a_re_exported_name_is_imported_from_the_file_that_defines_it() {
        let found = imports(&[
            ("lib", "mod b; mod c; pub use b::B;"),
            ("b", "pub struct B;"),
            ("c", "use crate::B;"),
        ]);
        assert_eq!(found, ["c.rs -> b.rs"]);
    }

    #[test]
    fn a_glob_re_export_is_followed() {
        let found = imports(&[
            ("lib", "mod b; mod c; pub use b::*;"),
            ("b", "pub struct B;"),
            ("c", "use crate::B;"),
        ]);
        assert_eq!(found, ["c.rs -> b.rs"]);
    }

    #[test]
    fn tests_and_other_crates_are_no_imports() {
        let found = imports(&[
            ("lib", "mod b; mod c;"),
            (
                "b",
                "use std::fs;\npub(crate) fn f() {}\n#[cfg(test)] mod tests { use crate::c::C; }",
            ),
            ("c", "pub struct C;"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn the_file_of_a_test_module_is_left_out() {
        let found = imports(&[
            ("lib", "#[cfg(test)] mod b; mod c;"),
            ("b", "use crate::c::C;"),
            ("c", "pub struct C;"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }
}
