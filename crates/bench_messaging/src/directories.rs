//! Directories of a server under test.

use std::fs;
use std::path::Path;

use anyhow::Result;

/// Lines for `[global]` by which a server keeps whatever it writes in folders below this one, which
/// are made.
///
/// # Errors
///
/// When they cannot be made.
pub fn own_directories(parent: &Path) -> Result<String> {
    let mut lines = String::new();
    for (parameter, name) in [
        ("private dir", "private"),
        ("lock directory", "lock"),
        ("state directory", "state"),
        ("cache directory", "cache"),
        ("pid directory", "pid"),
        ("ncalrpc dir", "ncalrpc"),
    ] {
        let path = parent.join(name);
        fs::create_dir_all(&path)?;
        lines += &format!("{parameter} = {}\n", path.display());
    }
    Ok(lines)
}
