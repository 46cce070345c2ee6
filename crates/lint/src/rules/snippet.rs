//! Crates of a few lines, to try rules on.

use crate::workspace::Crate;

/// A crate with one file, its library.
pub(crate) fn of(text: &str) -> Crate {
    with_files("a", &[("src/lib.rs", text)])
}

/// A crate of these files, given as path in the crate and text.
pub(crate) fn with_files(name: &str, files: &[(&str, &str)]) -> Crate {
    let files = files
        .iter()
        .map(|(path, text)| (format!("crates/{name}/{path}"), (*text).to_owned()))
        .collect();
    Crate::new(name, String::new(), files).expect("a test writes Rust")
}
