//! The contents of the documentation's site list every document.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::pages::{self, Target};
use crate::place::{Findings, Place};
use crate::rule::{Goal, Measured, Rule};

/// The contents, as mdBook reads them.
const CONTENTS: &str = "docs/SUMMARY.md";

/// Documents that no reader of the contents finds.
pub const RULE: Rule = Rule {
    name: "contents",
    demand: "docs/SUMMARY.md, the contents of the site, has a link to each document of the root, \
             docs, docs/guides, docs/design and bench/results.",
    reason: "mdBook leaves out a page without such a link, and links to it lead nowhere.",
    remedy: "Add a line to docs/SUMMARY.md, in the part where a reader looks for the page.",
    example: ("a new page docs/quotas.md alone", "- [Quotas](quotas.md)"),
    unit: "documents",
    goal: Goal::None,
    measure: |tree| {
        let findings = measure(tree.root)?;
        Ok(vec![Measured { subject: "documents".to_owned(), findings }])
    },
};

fn measure(root: &Path) -> Result<Findings, String> {
    let listed = listed(root)?;
    let pages = pages::all(root)?;
    let missing = pages.iter().filter(|page| !listed.contains(*page));
    let places = missing.map(|page| Place {
        path: CONTENTS.to_owned(),
        line: 0,
        last: 0,
        text: format!("no link to {}", page.display()),
        weight: usize::MAX,
    });
    Ok(Findings::each(places.collect(), pages.len()))
}

/// Paths that the contents link to; none if there are no contents.
fn listed(root: &Path) -> Result<BTreeSet<PathBuf>, String> {
    let text = match fs::read_to_string(root.join(CONTENTS)) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.map_err(|error| format!("{CONTENTS}: {error}"))?,
    };
    let targets = text.lines().flat_map(pages::links);
    let targets = targets.map(|link| pages::target(Path::new(CONTENTS), link));
    Ok(targets
        .filter_map(|target| match target {
            Target::Path(path) => Some(path),
            Target::Elsewhere | Target::Outside => None,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Faults of a repository with these files.
    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        measure(folder.path()).unwrap().places.into_iter().map(|place| place.text).collect()
    }

    #[test]
    fn a_document_of_any_folder_counts_until_the_contents_link_to_it() {
        let pages = ["README.md", "docs/a.md", "docs/guides/b.md", "docs/design/c.md"];
        let mut files = pages.map(|path| (path, "")).to_vec();
        let own = "- [All](SUMMARY.md)\n- [E](https://e.org/docs/a.md)\n- [F](../../docs/a.md)\n";
        files.push((CONTENTS, own));
        assert_eq!(faults(&files).len(), pages.len());
        let all = format!(
            "{own}[R](../README.md)\n- [A](a.md)\n  - [B](guides/b.md)\n- [C](design/c.md#d)\n"
        );
        files.pop();
        files.push((CONTENTS, &all));
        assert_eq!(faults(&files), Vec::<String>::new());
    }

    #[test]
    fn without_contents_each_document_counts() {
        assert_eq!(faults(&[("docs/a.md", ""), ("docs/a.txt", "")]), ["no link to docs/a.md"]);
    }
}
