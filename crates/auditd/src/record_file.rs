//! The file with the records, one JSON object a line.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// The file with the records. A file that was renamed, such as by logrotate, is left, and a new one
/// made.
#[derive(Debug)]
pub(super) struct RecordFile {
    path: PathBuf,
    file: Option<File>,
}

impl RecordFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends whole lines.
    ///
    /// # Errors
    /// The file cannot be opened or written. A part of the lines may be in it.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let file = match self.file.take().filter(|file| is_at(file, &self.path)) {
            Some(file) => file,
            None => open(&self.path)?,
        };
        (&file).write_all(lines)?;
        // After an error the file is opened again, which ends a line that is not whole.
        self.file = Some(file);
        Ok(())
    }
}

/// Opens the file, or makes one that only its owner can read. Never follows a symbolic link, and
/// writes to nothing but an own, ordinary file: somebody else could read the others.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.nlink() != 1 {
        return Err(io::Error::other("not an ordinary file with a single name"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("the file belongs to another user"));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(io::Error::other("other users may write to the file"));
    }
    let mut last = [b'\n'];
    if metadata.len() > 0 {
        file.read_exact_at(&mut last, metadata.len() - 1)?;
    }
    if last != [b'\n'] {
        (&file).write_all(b"\n")?;
    }
    Ok(file)
}

/// Returns whether the path still leads to the file.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(own), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (own.dev(), own.ino()) == (there.dev(), there.ino())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::RecordFile;

    #[test]
    fn the_file_is_the_owners_alone() {
        let folder = tempfile::tempdir().expect("there is space");
        let path = folder.path().join("audit.json");
        let mut file = RecordFile::new(path.clone());
        file.append(b"{}\n").expect("there is space");
        let mode = fs::metadata(&path).expect("it was made").mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_link_and_a_file_that_others_may_write_are_refused() {
        let folder = tempfile::tempdir().expect("there is space");
        let [target, link, twin] = ["target", "link", "twin"].map(|it| folder.path().join(it));
        fs::write(&target, "").expect("there is space");
        symlink(&target, &link).expect("there is space");
        let refuses = |path| RecordFile::new(path).append(b"{}\n").is_err();
        assert!(refuses(link) && refuses(folder.path().to_owned()));
        fs::hard_link(&target, &twin).expect("there is space");
        assert!(refuses(target.clone()));
        fs::remove_file(&twin).expect("it is ours");
        fs::set_permissions(&target, fs::Permissions::from_mode(0o666)).expect("it is ours");
        assert!(refuses(target.clone()));
        assert_eq!(fs::read(&target).expect("it is there"), b"");
        fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).expect("it is ours");
        assert!(!refuses(target));
    }

    #[test]
    fn a_renamed_file_is_left_and_a_torn_line_is_ended() {
        let folder = tempfile::tempdir().expect("there is space");
        let [path, old] = ["audit.json", "audit.json.1"].map(|it| folder.path().join(it));
        fs::write(&path, "{\"torn").expect("there is space");
        let mut file = RecordFile::new(path.clone());
        file.append(b"{\"a\":1}\n").expect("there is space");
        fs::rename(&path, &old).expect("it is ours");
        file.append(b"{\"b\":2}\n").expect("there is space");
        assert_eq!(fs::read_to_string(old).expect("it is there"), "{\"torn\n{\"a\":1}\n");
        assert_eq!(fs::read_to_string(path).expect("it is there"), "{\"b\":2}\n");
    }
}
