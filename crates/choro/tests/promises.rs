//! SECURITY.md names the tests that hold what it promises: they are there.

use std::fs;
use std::path::Path;

/// Returns the words in backquotes that have a slash: paths, with `::` and a test behind it or not.
fn named(page: &str) -> impl Iterator<Item = &str> {
    let quoted = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    quoted.filter(|it| it.contains('/') && !it.contains(' '))
}

#[test]
fn every_test_that_the_page_of_promises_names_is_there() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(top.join("SECURITY.md")).expect("it is in the tree");
    let mut wrong = Vec::new();
    let mut count = 0;
    for name in named(&page) {
        count += 1;
        let (path, test) = name.split_once("::").unwrap_or((name, ""));
        let Ok(text) = fs::read_to_string(top.join(path)) else {
            wrong.push(format!("{path} is not there"));
            continue;
        };
        if Path::new(path).extension().is_some_and(|it| it == "rs") && !text.contains("#[test]") {
            wrong.push(format!("{path} has no test"));
        }
        if !test.is_empty() && !text.contains(&format!("fn {test}()")) {
            wrong.push(format!("{path} has no test {test}"));
        }
    }
    assert!(wrong.is_empty(), "SECURITY.md:\n{}", wrong.join("\n"));
    assert!(count > 30, "only {count} are named");
}
