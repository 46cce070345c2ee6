//! The directories that a server writes to.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, bail};

use crate::settings::Directories;

/// Makes sure that all directories exist and that nobody else can write to them.
///
/// `private dir` holds secrets and is for its owner alone; the others may be read, because tools
/// like `choro status` run as whoever may read the tables in them.
pub(super) fn create(directories: &Directories) -> anyhow::Result<()> {
    for directory in [&directories.state, &directories.lock, &directories.pid, &directories.cache] {
        create_one(directory, 0o755)?;
    }
    create_one(&directories.private, 0o700)
}

/// Makes a directory of its own with exactly `mode`; an existing one keeps its mode if that is
/// stricter.
fn create_one(directory: &Path, mode: u32) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let metadata = fs::metadata(directory)
        .with_context(|| format!("cannot look at {}", directory.display()))?;
    let is_sticky = metadata.mode() & 0o1000 != 0;
    let has = metadata.mode() & 0o777;
    if has & !mode == 0 || (is_sticky && mode == 0o755) {
        return Ok(());
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        bail!(
            "{} is open to others (mode {has:04o}) and belongs to the user with id {}",
            directory.display(),
            metadata.uid()
        );
    }
    fs::set_permissions(directory, Permissions::from_mode(has & mode))
        .with_context(|| format!("cannot restrict {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::create;
    use crate::settings::Directories;

    #[test]
    fn the_private_directory_is_for_its_owner_alone() {
        let root = tempfile::tempdir().expect("there is space");
        let directories = Directories {
            state: root.path().join("state"),
            lock: root.path().join("run/lock"),
            private: root.path().join("private"),
            pid: root.path().join("run"),
            cache: root.path().join("cache"),
        };
        fs::create_dir(&directories.private).expect("it is new");
        fs::set_permissions(&directories.private, Permissions::from_mode(0o755)).expect("ours");
        create(&directories).expect("it is ours");
        let mode = |path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
        assert_eq!(mode(&directories.private), 0o700);
        assert_eq!(mode(&directories.lock), 0o755);
    }
}
