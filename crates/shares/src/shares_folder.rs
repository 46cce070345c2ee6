//! `shares` in the `state directory`: the files about shares that workers replace.
//!
//! Workers may write there, and nowhere else beside it, where the secrets are. The files had been
//! in the state directory itself, where operators and Samba's `sharesec` look for them: links there
//! lead to them.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, fchown, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

/// Name of the directory below the state directory.
const NAME: &str = "shares";

/// Permissions of the directory, whose files have no secrets.
const MODE: u32 = 0o755;

/// Returns the path of the directory.
pub(super) fn path_of(state: &Path) -> PathBuf {
    state.join(NAME)
}

/// Makes the directory, has these files in it, and links to them in the state directory. A file
/// that somebody has put in the place of a link replaces the other one.
///
/// # Errors
/// Those of the file system, or something else has the name of the directory.
pub(super) fn prepare(state: &Path, files: &[&str]) -> anyhow::Result<PathBuf> {
    let folder = path_of(state);
    make(&folder, state).with_context(|| folder.display().to_string())?;
    for name in files {
        link(state, name).with_context(|| state.join(name).display().to_string())?;
    }
    Ok(folder)
}

fn make(folder: &Path, state: &Path) -> anyhow::Result<()> {
    match DirBuilder::new().mode(MODE).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => {
            made?;
            // Root has run a command, and the server runs as another user.
            let owner = fs::metadata(state)?.uid();
            let opened = File::open(folder)?;
            if opened.metadata()?.uid() != owner {
                fchown(&opened, Some(owner), None)?;
            }
        }
    }
    // A link would lead root to any other directory.
    ensure!(fs::symlink_metadata(folder)?.is_dir(), "it is no directory");
    Ok(())
}

fn link(state: &Path, name: &str) -> io::Result<()> {
    let (old, target) = (state.join(name), Path::new(NAME).join(name));
    match fs::symlink_metadata(&old) {
        // Whatever an operator has made of it.
        Ok(found) if !found.is_file() => return Ok(()),
        Ok(_) => fs::rename(&old, state.join(&target))?,
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    match symlink(&target, &old) {
        // Of two commands at the same time, one was first.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::prepare;

    #[test]
    fn files_of_the_state_directory_move_and_are_found_by_their_old_names() {
        let state = tempfile::tempdir().expect("there is space");
        let old = state.path().join("file");
        let text = |path| fs::read_to_string(path).expect("it leads to a file");
        fs::write(&old, "old").expect("there is space");
        let folder = prepare(state.path(), &["file", "other"]).expect("there is space");
        assert_eq!((text(old.clone()), text(folder.join("file"))), ("old".into(), "old".into()));
        fs::write(state.path().join("other"), "made by its old name").expect("there is space");
        assert_eq!(text(folder.join("other")), "made by its old name");
        // As a backup does.
        fs::remove_file(&old).expect("it is a link");
        fs::write(&old, "restored").expect("there is space");
        prepare(state.path(), &["file", "other"]).expect("there is space");
        assert_eq!(text(folder.join("file")), "restored");
        assert!(fs::symlink_metadata(old).expect("it is there").is_symlink());
    }

    #[test]
    fn a_link_in_the_place_of_the_directory_is_refused() {
        let state = tempfile::tempdir().expect("there is space");
        let elsewhere = state.path().join("elsewhere");
        fs::create_dir(&elsewhere).expect("there is space");
        symlink(&elsewhere, state.path().join("shares")).expect("there is space");
        prepare(state.path(), &["file"]).expect_err("it leads elsewhere");
        assert!(fs::read_dir(elsewhere).expect("it is there").next().is_none());
    }
}
