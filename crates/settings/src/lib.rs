//! Finding and loading the configuration of a command.

#![forbid(unsafe_code)]

pub mod container;
pub mod default_share;
pub mod messaging_settings;
mod replaced_file;

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use config::{Config, Warning};

pub use config::Directories;
use container::Container;
use default_share::DefaultShare;

pub use replaced_file::replace_file;

/// The configuration file that is used when none is named.
pub const CONFIG_FILE: &str = "/etc/choro/smb.conf";

/// Source of a configuration: a file or the default.
#[derive(Clone, Debug)]
pub enum Source {
    /// The folders of a container.
    Container(Container),
    /// There is no file: one share.
    Default(DefaultShare),
    /// A file in the format of smb.conf.
    File(PathBuf),
}

impl Source {
    /// The source that a reload reads: `file` if that has been written since the server started
    /// with the built-in default, or else this one. A folder of the command line stays, as it
    /// outweighs the file at the start, too.
    ///
    /// # Errors
    /// It cannot be found out whether the file exists.
    pub fn of_reload(&self, file: &Path) -> anyhow::Result<Self> {
        match self {
            Self::Default(default) if !default.is_named && exists(file)? => {
                Ok(Self::File(file.to_owned()))
            }
            _ => Ok(self.clone()),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container(container) => {
                write!(f, "the folders below {}", container.shares.display())
            }
            Self::Default(_) => write!(f, "the built-in default (there is no {CONFIG_FILE})"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A configuration with its source and its warnings.
#[derive(Debug)]
pub struct Settings {
    /// The parsed and validated configuration.
    pub config: Arc<Config>,
    /// Directories of the server, after substitutions.
    pub directories: Directories,
    /// File or default that it was read from.
    pub source: Source,
    /// Remarks on lines of it.
    pub warnings: Vec<Warning>,
}

impl Settings {
    /// The configuration of `file`; without one, of the container, of [`CONFIG_FILE`], or the
    /// built-in default.
    ///
    /// # Errors
    /// The file cannot be read or cannot be served safely.
    pub fn find(file: Option<&Path>) -> anyhow::Result<Self> {
        Self::load(match file {
            Some(file) => Source::File(std::path::absolute(file)?),
            None if Container::is_here() => Source::Container(Container::from_environment()?),
            None if exists(Path::new(CONFIG_FILE))? => Source::File(CONFIG_FILE.into()),
            None => Source::Default(DefaultShare::for_this_user(None)?),
        })
    }

    /// The configuration of a source, as it is now.
    ///
    /// # Errors
    /// As [`Settings::find`].
    pub fn load(source: Source) -> anyhow::Result<Self> {
        let (config, warnings) = match &source {
            Source::Container(container) => {
                let (config, mut warnings) =
                    Config::parse_with_includes(&container.text()?, "container")?;
                warnings.extend(container.warnings()?);
                (config, warnings)
            }
            Source::Default(default) => Config::parse(&default.text(), "built-in default")?,
            Source::File(path) => Config::load(path)?,
        };
        let directories = config.directories();
        Ok(Self { config: Arc::new(config), directories, source, warnings })
    }

    /// Path of the user database.
    pub fn users_path(&self) -> PathBuf {
        self.directories.private.join(users::FILE_NAME)
    }

    /// Path of the log file; `None` for standard error.
    pub fn log_file(&self) -> Option<PathBuf> {
        let path = self.config.substitutions().expand_path(&self.config.global.log_file);
        (!path.is_empty()).then(|| path.into())
    }
}

/// Returns true if there is a configuration file. One that may not be looked at is not absent.
fn exists(file: &Path) -> anyhow::Result<bool> {
    match file.try_exists() {
        Ok(exists) => Ok(exists),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot examine {}", file.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{DefaultShare, Source};

    #[test]
    fn a_reload_reads_a_file_that_was_written_after_a_start_without_one() {
        let folder = tempfile::tempdir().expect("there is space");
        let file = folder.path().join("smb.conf");
        let source = |share| {
            let default = DefaultShare::for_this_user(share).expect("a home is not needed");
            Source::Default(default).of_reload(&file).expect("it can be looked at")
        };
        let named = Some(Path::new("/srv/named"));
        assert!(matches!(source(None), Source::Default(_)), "there is no file");
        fs::write(&file, "").expect("it is ours");
        assert!(matches!(source(None), Source::File(path) if path == file));
        assert!(matches!(source(named), Source::Default(_)), "the command line names a folder");
    }
}
