//! The size of the log file: one that has grown too long is renamed, as in Samba.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Path to which a full log is renamed, in the place of an earlier one.
pub(super) fn old_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".old");
    name.into()
}

/// Renames the file at `path` if it has more than `bytes_max`. Returns true if lines no longer
/// belong into `open`: the file was renamed, now or by somebody else.
pub(super) fn put_aside(path: &Path, open: &File, bytes_max: u64) -> io::Result<bool> {
    let now = match fs::metadata(path) {
        Ok(now) => now,
        // The program that took it away decides on another.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let ours = open.metadata()?;
    if (now.dev(), now.ino()) != (ours.dev(), ours.ino()) {
        return Ok(true);
    }
    if !now.is_file() || now.len() <= bytes_max {
        return Ok(false);
    }
    fs::rename(path, old_path(path))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::{old_path, put_aside};

    #[test]
    fn a_file_is_renamed_when_it_is_too_long_and_never_that_of_somebody_else() {
        let folder = tempfile::tempdir().expect("there is space");
        let path = folder.path().join("log");
        let open = || OpenOptions::new().append(true).create(true).open(&path).expect("space");
        let mut file = open();
        file.write_all(b"12345").expect("there is space");
        assert!(!put_aside(&path, &file, 5).expect("it is there"), "not too long");
        fs::write(old_path(&path), "the one before").expect("there is space");
        assert!(put_aside(&path, &file, 4).expect("it is there"));
        assert_eq!(fs::read(old_path(&path)).expect("it was renamed"), b"12345");
        assert!(!put_aside(&path, &file, 4).expect("there is none"), "nothing to rename");
        open().write_all(b"another one").expect("there is space");
        assert!(put_aside(&path, &file, 4).expect("it is there"), "lines belong elsewhere");
        assert_eq!(fs::read(&path).expect("it stays"), b"another one");
    }
}
