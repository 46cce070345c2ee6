//! Where the text of files comes from.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::limits::FILE_BYTES_MAX;

/// Files for `include`.
pub(crate) trait Source {
    /// One name for one file, by which a loop is recognized.
    fn identity(&self, path: &Path) -> io::Result<PathBuf>;

    /// The bytes of a file; at most one byte more than [`FILE_BYTES_MAX`].
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
}

/// The file system.
#[derive(Debug)]
pub(crate) struct Disk;

impl Source for Disk {
    fn identity(&self, path: &Path) -> io::Result<PathBuf> {
        path.canonicalize()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        // Opening a pipe would wait for a writer, and a folder fails later with a worse message.
        if !path.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// No files: text that comes from somewhere else must not make the server read some.
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
