//! `include`: replaces the line by the contents of another file, or of all files of a folder.

use std::io;
use std::path::{Path, PathBuf};

use super::{Loader, Place, client_files, limit};
use crate::limits::{INCLUDE_DEPTH_MAX, INCLUSIONS_MAX};
use crate::warning::{LoadError, WarningKind, quoted};

impl Loader<'_> {
    /// Reads the file into the current section; the last section of the file becomes the current
    /// one. A relative name is relative to the file with the `include`. A folder stands for its
    /// files `*.conf`, in the order of their names.
    pub(super) fn include(
        &mut self,
        value: &str,
        folder: Option<&Path>,
        place: &Place,
    ) -> Result<(), LoadError> {
        if value.eq_ignore_ascii_case("registry") {
            let text = "there is no registry, `include = registry` is ignored";
            self.warn(place, WarningKind::MissingInclude, text.to_owned());
            return Ok(());
        }
        let named = value.trim_matches('"');
        let of_client = client_files::is_of_client(named);
        let name = match of_client {
            true => match self.client_file(named, folder, place)? {
                Some(name) => name,
                None => return Ok(()),
            },
            false => self.substitutions.expand_path(named),
        };
        let path = folder.map_or_else(|| PathBuf::from(&name), |folder| folder.join(&name));
        let within = usize::from(of_client || self.in_client_files > 0);
        self.in_client_files += within;
        self.include_files(path, &name, place)?;
        self.in_client_files -= within;
        Ok(())
    }

    /// Reads a file, or the files of a folder.
    fn include_files(&mut self, path: PathBuf, name: &str, place: &Place) -> Result<(), LoadError> {
        match self.source.folder(&path) {
            Ok(Some(files)) => {
                for file in files {
                    let shown = file.display().to_string();
                    self.include_file(file, &shown, place)?;
                }
                Ok(())
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(LoadError::Unreadable { path, error })
            }
            // A missing one is a warning.
            Ok(None) | Err(_) => self.include_file(path, name, place),
        }
    }

    /// Reads one file; `name` is that of a warning.
    fn include_file(&mut self, path: PathBuf, name: &str, place: &Place) -> Result<(), LoadError> {
        let identity = match self.source.identity(&path) {
            Ok(identity) => identity,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let text = format!("include file {} is not there", quoted(name));
                self.warn(place, WarningKind::MissingInclude, text);
                return Ok(());
            }
            Err(error) => return Err(LoadError::Unreadable { path, error }),
        };
        if self.reading.contains(&identity) {
            let file = place.file.clone();
            return Err(LoadError::IncludeLoop { file, line: place.line, path });
        }
        if self.reading.len() >= INCLUDE_DEPTH_MAX {
            return Err(limit(INCLUDE_DEPTH_MAX as u64, "files that include one another", place));
        }
        self.inclusions += 1;
        if self.inclusions > INCLUSIONS_MAX {
            return Err(limit(INCLUSIONS_MAX as u64, "inclusions", place));
        }
        let bytes = match self.source.read(&path) {
            Ok(bytes) => bytes,
            Err(error) => return Err(LoadError::Unreadable { path, error }),
        };
        self.reading.push(identity);
        self.file(&path.display().to_string(), path.parent(), &bytes)?;
        self.reading.pop();
        Ok(())
    }
}
