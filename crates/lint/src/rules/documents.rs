//! Documents are a map and topics, and their links lead somewhere.

use std::fs;
use std::path::Path;

use crate::pages::{self, GUIDES, TOPICS, Target};
use crate::place::{Findings, Place};
use crate::rule::{Goal, Measured, Rule};

/// The map of the project.
const MAP: &str = "ARCHITECTURE.md";
/// The first page that a reader sees.
const FIRST_PAGE: &str = "README.md";
/// Folder that paths to code leave out.
const CODE: &str = "crates";

const MAP_LINES_MAX: usize = 250;
const TOPIC_LINES_MAX: usize = 150;
const GUIDE_LINES_MAX: usize = 120;
/// A terminal or window shows about that many at once.
const FIRST_PAGE_LINES_MAX: usize = 60;
/// Same as `max_width` in rustfmt.toml.
const COLUMNS_MAX: usize = 100;

/// Ends of names that tell a path to a file from other words in backquotes.
const EXTENSIONS: [&str; 6] = [".rs", ".md", ".sh", ".py", ".tsv", ".toml"];

/// Long pages, wide lines, and links without a target.
pub const RULE: Rule = Rule {
    name: "documents",
    demand: "README.md has at most 60 lines, ARCHITECTURE.md 250, a page of docs/design 150, one \
             of docs/guides 120, each of at most 100 columns. Links between documents lead to a \
             file. On these pages, paths in backquotes do so as well, from the root or from \
             crates/.",
    reason: "A first page fits on a screen, a map is read in one go, and a name without its file \
             sends the reader on a search.",
    remedy: "Move details from the first page to a guide and from the map to a topic, and split a \
             long page. After a file has moved, mend the paths to it.",
    example: ("`worker/lanes.rs`", "`choro/src/worker/lanes.rs`"),
    unit: "lines",
    goal: Goal::None,
    measure: |tree| {
        let findings = measure(tree.root)?;
        Ok(vec![Measured { subject: "documents".to_owned(), findings }])
    },
};

fn measure(root: &Path) -> Result<Findings, String> {
    let mut places = Vec::new();
    let mut lines = 0;
    for path in pages::all(root)? {
        let text = fs::read_to_string(root.join(&path))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        lines += text.lines().count();
        places.extend(faults(root, &path, &text));
    }
    Ok(Findings::each(places, lines))
}

fn faults(root: &Path, path: &Path, text: &str) -> Vec<Place> {
    let lines_max = lines_max(path);
    let mut places = Vec::new();
    let mut report = |line: usize, text: String, weight: usize| {
        let path = path.display().to_string();
        places.push(Place { path, line, last: line, text, weight });
    };
    let mut is_block = false;
    for (number, line) in (1..).zip(text.lines()) {
        is_block ^= line.starts_with("```");
        let columns = line.chars().count();
        if lines_max.is_some() && columns > COLUMNS_MAX {
            report(number, format!("({columns}) {line}"), columns);
        }
        if is_block {
            continue;
        }
        let dead_links = pages::links(line).filter(|link| !is_link_alive(root, path, link));
        dead_links.for_each(|link| report(number, format!("no file: {link}"), usize::MAX));
        let dead_paths = paths(line).filter(|it| lines_max.is_some() && !is_path_alive(root, it));
        dead_paths.for_each(|it| report(number, format!("no file: {it}"), usize::MAX));
    }
    let count = text.lines().count();
    if let Some(max) = lines_max.filter(|max| count > *max) {
        report(0, format!("{count} lines; at most {max}"), usize::MAX);
    }
    places
}

/// The highest number of lines of a page; `None` for a page without such limits.
fn lines_max(path: &Path) -> Option<usize> {
    match path {
        path if path == Path::new(FIRST_PAGE) => Some(FIRST_PAGE_LINES_MAX),
        path if path == Path::new(MAP) => Some(MAP_LINES_MAX),
        path if path.starts_with(TOPICS) => Some(TOPIC_LINES_MAX),
        path if path.starts_with(GUIDES) => Some(GUIDE_LINES_MAX),
        _ => None,
    }
}

/// Whether a link leads to another site, into the same page, or to a file of the repository.
fn is_link_alive(root: &Path, page: &Path, link: &str) -> bool {
    match pages::target(page, link) {
        Target::Elsewhere => true,
        Target::Outside => false,
        Target::Path(path) => root.join(path).exists(),
    }
}

/// Paths in backquotes: words with a slash and a known extension.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|text| {
        let is_path = text.chars().all(|it| it.is_ascii_alphanumeric() || "_-./".contains(it));
        is_path && text.contains('/') && EXTENSIONS.iter().any(|end| text.ends_with(end))
    })
}

fn is_path_alive(root: &Path, path: &str) -> bool {
    root.join(path).is_file() || root.join(CODE).join(path).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Faults of a page beside the files `crates/a/src/b.rs` and `docs/limits.md`.
    fn count(path: &str, text: &str) -> usize {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("crates/a/src/b.rs", "");
        write("docs/limits.md", "");
        write(path, text);
        measure(folder.path()).unwrap().count
    }

    #[test]
    fn a_map_of_251_lines_counts() {
        assert_eq!(count("ARCHITECTURE.md", &"a\n".repeat(250)), 0);
        assert_eq!(count("ARCHITECTURE.md", &"a\n".repeat(251)), 1);
    }

    #[test]
    fn a_topic_of_151_lines_counts_and_a_manual_does_not() {
        assert_eq!(count("docs/design/a.md", &"a\n".repeat(150)), 0);
        assert_eq!(count("docs/design/a.md", &"a\n".repeat(151)), 1);
        assert_eq!(count("docs/a.md", &"a\n".repeat(151)), 0);
    }

    #[test]
    fn a_first_page_of_61_lines_and_a_guide_of_121_count() {
        assert_eq!(count("README.md", &"a\n".repeat(60)), 0);
        assert_eq!(count("README.md", &"a\n".repeat(61)), 1);
        assert_eq!(count("docs/guides/a.md", &"a\n".repeat(120)), 0);
        assert_eq!(count("docs/guides/a.md", &"a\n".repeat(121)), 1);
    }

    #[test]
    fn a_line_of_101_columns_counts_in_blocks_too() {
        let wide = format!("```text\n{}\n```\n", "é".repeat(101));
        assert_eq!(count("docs/design/a.md", &wide), 1);
        assert_eq!(count("docs/a.md", &wide), 0);
        assert_eq!(count("ARCHITECTURE.md", &"é".repeat(100)), 0);
    }

    #[test]
    fn a_link_without_its_file_counts_on_every_page() {
        for path in ["README.md", "docs/a.md", "docs/design/a.md", "bench/results/a.md"] {
            assert_eq!(count(path, "see [b](nowhere.md)\n"), 1, "{path}");
            assert_eq!(count(path, "[b]: nowhere.md\n"), 1, "{path}");
        }
    }

    #[test]
    fn links_to_files_folders_headings_and_sites_do_not_count() {
        let text =
            "[a](../limits.md#rows) [b](../../crates/a) [c](#heading) [d](https://e.org/f)\n";
        assert_eq!(count("docs/design/a.md", text), 0);
    }

    #[test]
    fn a_link_out_of_the_repository_counts() {
        assert_eq!(count("docs/a.md", "[b](../../docs/limits.md)\n"), 1);
    }

    #[test]
    fn a_path_in_backquotes_is_looked_for_in_the_root_and_in_crates() {
        assert_eq!(count("ARCHITECTURE.md", "`a/src/b.rs`, `docs/limits.md`\n"), 0);
        assert_eq!(count("ARCHITECTURE.md", "`src/b.rs`\n"), 1);
        assert_eq!(count("docs/a.md", "`src/b.rs`\n"), 0);
    }

    #[test]
    fn other_words_in_backquotes_do_not_count() {
        let text = "`b.rs`, `trace/PID-UNIQUEID`, `choro::main`\n```text\n`src/b.rs`\n```\n";
        assert_eq!(count("ARCHITECTURE.md", text), 0);
    }
}
