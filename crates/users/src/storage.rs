//! The database's file: read whole, written beside and renamed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use zeroize::Zeroizing;

use super::{USERS_MAX, UserEntry, UsersError, line};
use crate::Fingerprint;

/// Bytes of a file that is read at all: [`USERS_MAX`] lines of 512 bytes.
const FILE_BYTES_MAX: u64 = USERS_MAX as u64 * 512;

/// The file as it is now, or `None` if there is none.
pub(super) fn fingerprint(path: &Path) -> Result<Option<Fingerprint>, UsersError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(Fingerprint::of(&metadata))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io("examine", path, error)),
    }
}

/// Reads all users, with the fingerprint of the file that they were read from.
pub(super) fn read(path: &Path) -> Result<(Vec<UserEntry>, Option<Fingerprint>), UsersError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Vec::new(), None)),
        Err(error) => return Err(io("open", path, error)),
    };
    let metadata = file.metadata().map_err(|error| io("examine", path, error))?;
    check_private(path, &metadata)?;
    let users = read_lines(path, file, &metadata, line::parse)?;
    Ok((users, Some(Fingerprint::of(&metadata))))
}

/// Reads the users of an open file, one a line.
pub(super) fn read_lines<T>(
    path: &Path,
    file: File,
    metadata: &fs::Metadata,
    parse: fn(&str) -> Result<Option<T>, &'static str>,
) -> Result<Vec<T>, UsersError> {
    // With room for a byte more, the end is found without growth, which would leave hashes behind.
    let length = usize::try_from(metadata.len().min(FILE_BYTES_MAX)).unwrap_or_default();
    let mut text = Zeroizing::new(String::with_capacity(length + 1));
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| io("read", path, error))?;
    let mut users = Vec::new();
    for (text, line) in text.lines().zip(1..) {
        let malformed = |reason| UsersError::Malformed { path: path.into(), line, reason };
        users.extend(parse(text).map_err(malformed)?);
        if users.len() > USERS_MAX {
            return Err(UsersError::DatabaseFull);
        }
    }
    Ok(users)
}

/// Replaces the file. Either all of the new content is there afterwards, durably, or the old file.
pub(super) fn write(path: &Path, users: &[UserEntry]) -> Result<(), UsersError> {
    // Sized beforehand, so that growing does not leave hashes behind in freed memory.
    let ids = |user: &UserEntry| user.identity.as_ref().map_or(0, |it| 11 * (it.gids().len() + 1));
    let bytes = |user: &UserEntry| user.name.len() + user.full_name.len() + ids(user) + 64;
    let bytes: usize = users.iter().map(bytes).sum();
    let mut text = Zeroizing::new(String::with_capacity(bytes + 64));
    text.push_str("# choro users 1\n");
    for user in users {
        line::render(user, &mut text);
    }
    let temporary = path.with_extension("new");
    // Left over from a writer that died; we hold the lock, so it is nobody's.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(io("remove", &temporary, error));
        }
        _ => {}
    }
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .map_err(|error| io("write", &temporary, error))?;
    fs::rename(&temporary, path).map_err(|error| io("replace", path, error))?;
    let directory = parent(path);
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| io("synchronize", directory, error))
}

/// Excludes other writers until dropped. Creates the directory if need be.
pub(super) fn lock(path: &Path) -> Result<File, UsersError> {
    let directory = parent(path);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|error| io("create", directory, error))?;
    let lock_path: PathBuf = path.with_extension("lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&lock_path)
        .map_err(|error| io("open", &lock_path, error))?;
    flock(&file, FlockOperation::LockExclusive)
        .map_err(|error| io("lock", &lock_path, error.into()))?;
    Ok(file)
}

fn check_private(path: &Path, metadata: &fs::Metadata) -> Result<(), UsersError> {
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(UsersError::NotPrivate { path: path.into(), mode });
    }
    let ours = rustix::process::geteuid().as_raw();
    if metadata.uid() != ours && metadata.uid() != 0 {
        return Err(UsersError::NotOurs { path: path.into(), owner: metadata.uid() });
    }
    Ok(())
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

pub(super) fn io(doing: &'static str, path: &Path, error: std::io::Error) -> UsersError {
    UsersError::Io { doing, path: path.to_owned(), error }
}
