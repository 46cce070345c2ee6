//! Crates and modules import downwards only.

use std::collections::BTreeSet;

use crate::floors::{BUILDINGS, Building, CRATES};
use crate::imports;
use crate::module_tree::ModuleTree;
use crate::place::{Findings, Place};
use crate::rule::{Goal, Measured, Rule};
use crate::source_file::SourceFile;
use crate::workspace::Crate;

/// Imports from a higher floor.
pub const RULE: Rule = Rule {
    name: "layers",
    demand: "A crate depends on lower floors only, a module imports from its own floor or lower \
             ones. The floors: crates/lint/src/floors.rs.",
    reason: "What stands below can be understood, tested and reused without what stands above.",
    remedy: "Move the type down to the floor that needs it, or let the upper floor hand in the \
             value. A new crate gets its place in floors.rs.",
    example: (
        "proto/src/open.rs (model): use crate::command::change_notify::Watch;",
        "model/src/watch.rs: pub struct Watch; command/change_notify.rs imports it",
    ),
    unit: "imports",
    goal: Goal::None,
    measure: |tree| {
        let names: BTreeSet<&str> = tree.crates.iter().map(|one| &*one.name).collect();
        let measured = tree.crates.iter().map(|one| {
            let mut findings = modules(one, BUILDINGS.iter().find(|b| b.name == one.name));
            let upward = dependencies(one, &names, CRATES);
            findings.count += upward.len();
            findings.places.extend(upward);
            Measured { subject: one.name.clone(), findings }
        });
        Ok(measured.collect())
    },
};

/// The dependencies of a crate that do not lie below it.
fn dependencies(checked: &Crate, names: &BTreeSet<&str>, floors: &[&[&str]]) -> Vec<Place> {
    let floor =
        |name: &str| floors.iter().position(|floor| floor.contains(&name)).unwrap_or(floors.len());
    let own = floor(&checked.name);
    let mut section = "";
    let mut places = Vec::new();
    for (number, line) in (1..).zip(checked.manifest.lines()) {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']);
        }
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        let for_tests = !section.ends_with("dependencies") || section.ends_with("dev-dependencies");
        if !for_tests && names.contains(name) && floor(name) >= own {
            places.push(Place {
                path: format!("crates/{}/Cargo.toml", checked.name),
                line: number,
                last: number,
                text: format!("{} depends on {name}, which does not stand below it", checked.name),
                weight: usize::MAX,
            });
        }
    }
    places
}

/// The imports of higher floors, one for each pair of files.
fn modules(checked: &Crate, building: Option<&Building>) -> Findings {
    let Some(Building { floors, .. }) = building else { return Findings::default() };
    let files = &checked.files;
    let imports = imports::of(files, &ModuleTree::of(files));
    let of = imports.len();
    let upward = imports.iter().filter_map(|import| {
        let (from, to) =
            (floor_of(&files[import.from], floors)?, floor_of(&files[import.to], floors)?);
        (from < to).then(|| Place {
            path: files[import.from].path.clone(),
            line: import.line,
            last: import.line,
            text: format!("{}: {}", import.path, way(from, to, floors.len())),
            weight: to - from,
        })
    });
    let modules: BTreeSet<String> = files.iter().map(|file| file.module().join("::")).collect();
    let listed = floors.iter().flat_map(|floor| floor.iter());
    let stale = listed.filter(|name| !modules.contains(**name));
    let places = upward.chain(stale.map(|name| Place {
        path: "crates/lint/src/floors.rs".to_owned(),
        line: 0,
        last: 0,
        text: format!("lists {name}, and {} has no such module", checked.name),
        weight: usize::MAX,
    }));
    Findings::each(places.collect(), of)
}

/// Describes an import of a higher floor, with floors counted from 1.
fn way(from: usize, to: usize, listed: usize) -> String {
    if to == listed {
        return format!(
            "from floor {} up to a module that floors.rs does not list, which stands highest",
            from + 1
        );
    }
    format!("from floor {} up to floor {}", from + 1, to + 1)
}

/// The floor of a file; `None` for the root of the crate, which holds all floors.
fn floor_of(file: &SourceFile, floors: &[&[&str]]) -> Option<usize> {
    let module = file.module();
    let listed = (1..=module.len()).rev().find_map(|depth| {
        let name = module[..depth].join("::");
        floors.iter().position(|floor| floor.contains(&name.as_str()))
    });
    (!module.is_empty()).then(|| listed.unwrap_or(floors.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::snippet;

    const HOUSE: Building = Building { name: "a", floors: &[&["model"], &["engine"]] };

    fn upward(model: &str, engine: &str) -> Findings {
        let root = "mod model; mod engine; pub use engine::Engine;";
        let files = [
            ("src/lib.rs", root),
            ("src/model.rs", "mod open;"),
            ("src/model/open.rs", model),
            ("src/engine.rs", engine),
        ];
        modules(&snippet::with_files("a", &files), Some(&HOUSE))
    }

    #[test]
    fn an_import_of_a_higher_floor_counts() {
        let found = upward("use crate::Engine; pub struct Open;", "pub struct Engine;");
        assert_eq!((found.count, found.places[0].line), (1, 1));
        assert_eq!(found.places[0].path, "crates/a/src/model/open.rs");
    }

    #[test]
    fn an_import_of_a_lower_floor_does_not_count() {
        let found = upward("pub struct Open;", "use crate::model::open::Open; pub struct Engine;");
        assert_eq!((found.count, found.of), (0, 1));
    }

    #[test]
    fn a_module_that_is_not_listed_stands_on_top() {
        let files = [
            ("src/lib.rs", "mod model; mod engine; mod more;"),
            ("src/model.rs", ""),
            ("src/engine.rs", "use crate::more::More;"),
            ("src/more.rs", "pub struct More;"),
        ];
        let found = modules(&snippet::with_files("a", &files), Some(&HOUSE));
        assert_eq!(found.count, 1);
        assert!(
            found.places[0].text.contains("floors.rs does not list"),
            "{}",
            found.places[0].text
        );
    }

    #[test]
    fn a_listed_module_that_is_gone_counts() {
        let files = [("src/lib.rs", "mod model;"), ("src/model.rs", "")];
        assert_eq!(modules(&snippet::with_files("a", &files), Some(&HOUSE)).count, 1);
    }

    fn depends(manifest: &str) -> usize {
        let checked = Crate::new("proto", manifest.to_owned(), Vec::new()).unwrap();
        let floors: &[&[&str]] = &[&["wire"], &["proto", "store"], &["choro"]];
        let names = ["choro", "new", "proto", "store", "wire"];
        dependencies(&checked, &BTreeSet::from(names), floors).len()
    }

    #[test]
    fn a_dependency_on_the_same_or_a_higher_floor_counts() {
        assert_eq!(
            depends("[dependencies]\nstore.workspace = true\nchoro = { workspace = true }\n"),
            2
        );
        assert_eq!(depends("[dependencies]\nnew.workspace = true\n"), 1);
    }

    #[test]
    fn a_dependency_on_a_lower_floor_or_of_tests_does_not_count() {
        let manifest =
            "[dependencies]\nwire.workspace = true\n[dev-dependencies]\nchoro.workspace = true\n";
        assert_eq!(depends(manifest), 0);
    }
}
