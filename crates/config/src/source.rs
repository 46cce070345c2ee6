//! Sources of the text of files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::limits::FILE_BYTES_MAX;

/// Reads the files that `include` names.
pub(crate) trait Source {
    /// Returns one unique name for each file, to recognize loops.
    fn identity(&self, path: &Path) -> io::Result<PathBuf>;

    /// Returns the bytes of a file; at most one byte more than [`FILE_BYTES_MAX`].
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
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
}
