//! Modules can be read one after the other.

use crate::cycles;
use crate::imports;
use crate::module_tree::ModuleTree;
use crate::place::{Findings, Place};
use crate::rule::{Goal, Rule};
use crate::source_file::SourceFile;
use crate::workspace::Crate;

/// Files that import each other.
pub const RULE: Rule = Rule {
    name: "module cycles",
    demand: "No modules of a crate import each other, directly or through others. Exempt are \
             tests, and a module with the modules inside it.",
    reason: "Files in a circle can be read, tested and moved only together.",
    remedy: "Remove one import of each circle: move the type that both modules need below them, \
             or pass it as an argument.",
    example: (
        "open.rs: use crate::command::durable::Held; command/durable.rs: use crate::open::Open;",
        "held.rs: pub struct Held; open.rs and command/durable.rs: use crate::held::Held;",
    ),
    unit: "files in circles",
    goal: Goal::NoneOfOld,
    measure: |tree| Ok(tree.each_crate(measure)),
};

fn measure(checked: &Crate) -> Findings {
    let files = &checked.files;
    let tree = ModuleTree::of(files);
    let mut imports = imports::of(files, &tree);
    imports.retain(|import| !is_nested(&files[import.from], &files[import.to]));
    let found = cycles::of(&imports);
    let places = found.imports.iter().map(|(import, circle)| {
        let names: Vec<&str> = circle.iter().map(|&at| short_name(&files[at])).collect();
        Place {
            path: files[import.from].path.clone(),
            line: import.line,
            last: import.line,
            text: format!("{}: {}", import.path, names.join(" → ")),
            // A short circle is the easier one to open.
            weight: files.len() - circle.len().min(files.len()),
        }
    });
    let of = files.iter().filter(|file| !file.is_test).count();
    Findings { count: found.files.len(), of, places: places.collect() }
}

/// Whether one of two files is a module inside the other one's.
fn is_nested(one: &SourceFile, other: &SourceFile) -> bool {
    let (one, other) = (one.module(), other.module());
    let holds = |outer: &[&str], inner: &[&str]| inner.starts_with(outer);
    holds(&one, &other) || holds(&other, &one)
}

fn short_name(file: &SourceFile) -> &str {
    file.path.split_once("/src/").map_or(&file.path, |(_, inside)| inside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::snippet;

    #[test]
    fn two_files_that_import_each_other_count() {
        let found = measure(&snippet::with_files(
            "a",
            &[
                ("src/lib.rs", "mod b; mod c;"),
                ("src/b.rs", "use crate::c::C; pub struct B;"),
                ("src/c.rs", "use crate::b::B; pub struct C;"),
            ],
        ));
        assert_eq!((found.count, found.of), (2, 3));
        assert_eq!(found.places[0].text, "crate::c::C: b.rs → c.rs → b.rs");
    }

    #[test]
    fn a_module_and_its_parts_do_not_count() {
        let found = measure(&snippet::with_files(
            "a",
            &[
                ("src/lib.rs", "mod b;"),
                ("src/b.rs", "mod c; use c::C; pub struct B;"),
                ("src/b/c.rs", "use super::B; pub struct C;"),
            ],
        ));
        assert_eq!(found.count, 0);
    }

    #[test]
    fn imports_in_one_direction_do_not_count() {
        let found = measure(&snippet::with_files(
            "a",
            &[
                ("src/lib.rs", "mod b; mod c; pub use b::B;"),
                ("src/b.rs", "use crate::c::C; pub struct B;"),
                ("src/c.rs", "pub struct C;"),
            ],
        ));
        assert_eq!(found.count, 0);
    }
}
