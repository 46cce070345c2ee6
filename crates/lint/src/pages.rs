//! Documents of the repository, and links between them.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Folder of the topics that the map of the project lists.
pub(crate) const TOPICS: &str = "docs/design";
/// Folder of instructions for one task each.
pub(crate) const GUIDES: &str = "docs/guides";
/// Folders whose documents are checked, without folders below.
const FOLDERS: [&str; 5] = ["", "docs", GUIDES, TOPICS, "bench/results"];

/// Place that a link of a page leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Another site, or a heading of the same page.
    Elsewhere,
    /// A path that leads out of the repository.
    Outside,
    /// A path from the root of the repository.
    Path(PathBuf),
}

/// Paths of all documents, from the root of the repository.
pub(crate) fn all(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for folder in FOLDERS.map(|folder| root.join(folder)).into_iter().filter(|it| it.is_dir()) {
        let failed = |error| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|it| it == "md") {
                found.push(path.strip_prefix(root).unwrap_or(&path).to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Links `[text](target)` of a line, and definitions `[text]: target`.
pub(crate) fn links(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    inline.map(|(target, _)| target).chain(definition.map(|(_, target)| target))
}

/// Resolves a link of a page.
pub(crate) fn target(page: &Path, link: &str) -> Target {
    let target = link.split('#').next().unwrap_or_default();
    if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return Target::Elsewhere;
    }
    let folder = page.parent().unwrap_or_else(|| Path::new(""));
    normal(&folder.join(target)).map_or(Target::Outside, Target::Path)
}

/// Resolves `..` by name, as a browser does; `None` if the path leads out of the repository.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => normal.pop().then_some(())?,
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    Some(normal)
}
