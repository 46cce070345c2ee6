//! Sources of the text of files.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::limits::{FILE_BYTES_MAX, FOLDER_ENTRIES_MAX};

/// Reads the files that `include` names.
pub(crate) trait Source {
    /// Returns one unique name for each file, to recognize loops.
    fn identity(&self, path: &Path) -> io::Result<PathBuf>;

    /// Returns the bytes of a file; at most one byte more than [`FILE_BYTES_MAX`].
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Returns the paths of the files `*.conf` in a folder, in the order of their names; `None` if
    /// the path is no folder. Names that begin with a dot are left out.
    fn folder(&self, path: &Path) -> io::Result<Option<Vec<PathBuf>>>;

    /// Returns the names in a folder, at most `max` of them.
    fn names(&self, folder: &Path, max: usize) -> io::Result<Vec<OsString>>;
}

/// Ending of file names: an included folder stands for these files.
const ENDING: &str = ".conf";

/// True for a name of a folder's file that is included. Editors leave others behind.
pub(crate) fn is_included(name: &str) -> bool {
    name.ends_with(ENDING) && !name.starts_with('.')
}

/// Reads from the file system.
#[derive(Debug)]
pub(crate) struct Disk;

impl Source for Disk {
    fn identity(&self, path: &Path) -> io::Result<PathBuf> {
        path.canonicalize()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        // Opening a pipe would wait for a writer, and reading a folder fails with a worse message.
        if !path.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn folder(&self, path: &Path) -> io::Result<Option<Vec<PathBuf>>> {
        if path.metadata()?.is_dir() { included_in(path).map(Some) } else { Ok(None) }
    }

    fn names(&self, folder: &Path, max: usize) -> io::Result<Vec<OsString>> {
        std::fs::read_dir(folder)?.take(max).map(|entry| Ok(entry?.file_name())).collect()
    }
}

/// Returns the paths of the files in a folder that are included.
fn included_in(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for (count, entry) in path.read_dir()?.enumerate() {
        if count == FOLDER_ENTRIES_MAX {
            let text = format!("the folder has more than {FOLDER_ENTRIES_MAX} entries");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let name = entry?.file_name();
        if name.to_str().is_some_and(is_included) {
            found.push(path.join(name));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Has no files: text from another origin must not make the server read files.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Source for Nothing {
    fn identity(&self, _: &Path) -> io::Result<PathBuf> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn folder(&self, _: &Path) -> io::Result<Option<Vec<PathBuf>>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn names(&self, _: &Path, _: usize) -> io::Result<Vec<OsString>> {
        Ok(Vec::new())
    }
}
