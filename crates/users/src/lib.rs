//! The user database: names and NT hashes of the users who may log on.
//!
//! One text file, `users` in `private dir`, one user per line:
//!
//! ```text
//! # choro users 1
//! name:nt hash in hex:enabled or disabled:full name
//! name:nt hash in hex:enabled 1001 100,44:full name
//! name:nt hash in hex:enabled S-1-5-21-1-2-3-1000:full name
//! ```
//!
//! The second form gives the user a user id and group ids of its own, where the system has no user
//! of that name. The third has the SID that Samba's database gave to the user, which access lists
//! name; a line may have both.
//!
//! Empty lines and those that begin with `#` are ignored, and lost when the file is changed. Names
//! are compared without regard to case and stored as they were given. The file holds password
//! equivalents: a file that others than its owner can read is refused, not repaired, because its
//! hashes count as known to them. Readers take no lock: a change is written beside the file and
//! renamed over it, so that a reader sees the old file or the new one. Writers exclude each other
//! by `flock` on `users.lock`, which is never renamed.

#![forbid(unsafe_code)]

mod fingerprint;
mod identity;
pub mod import;
mod known;
mod known_user;
mod line;
mod storage;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use auth::NtHash;
use dtyp::Sid;

pub use fingerprint::Fingerprint;
pub use identity::Identity;
pub use import::{ImportOutcome, ImportedLine, import};
pub use known::{KnownUsers, UserSource, publish, unpublish};
pub use known_user::KnownUser;
pub use line::{check_name, fit_full_name};

/// Users that a database may hold.
///
/// The whole file is read at once; at 100 bytes a line this bounds it at a few MiB.
pub const USERS_MAX: usize = 65_536;

/// The file's name inside `private dir`.
pub const FILE_NAME: &str = "users";

/// A user with password hash and state.
#[derive(Clone)]
pub struct UserEntry {
    /// The name as it was given.
    pub name: String,
    /// The NT hash of the password. Erased when dropped.
    pub nt_hash: NtHash,
    /// Whether the user may log on.
    pub enabled: bool,
    /// For display; may be empty.
    pub full_name: String,
    /// Ids on the server's files; `None` for those of the system's user of this name.
    pub identity: Option<Identity>,
    /// SID in Samba's database, from which the user was imported.
    pub samba_sid: Option<Sid>,
}

impl UserEntry {
    /// Returns a user who may log on, without a full name, ids and a SID of its own.
    #[must_use]
    pub fn new(name: impl Into<String>, nt_hash: NtHash) -> Self {
        Self {
            name: name.into(),
            nt_hash,
            enabled: true,
            full_name: String::new(),
            identity: None,
            samba_sid: None,
        }
    }
}

impl fmt::Debug for UserEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserEntry")
            .field("name", &self.name)
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}

/// Why the database could not be read or changed.
#[derive(Debug)]
pub enum UsersError {
    /// A user of this name exists already.
    Exists(String),
    /// A system call failed on a file.
    Io {
        /// Name of the action, as in "read".
        doing: &'static str,
        /// Path of the affected file.
        path: PathBuf,
        /// Error of the system call.
        error: std::io::Error,
    },
    /// A line of the file is not a user.
    Malformed {
        /// Path of the user database.
        path: PathBuf,
        /// Number of the line, counted from 1.
        line: usize,
        /// Description of the fault. Never contains the line: it may hold a hash.
        reason: &'static str,
    },
    /// No user of this name exists.
    NoSuchUser(String),
    /// Someone else can read or write the file.
    NotPrivate {
        /// Path of the user database.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
    },
    /// The file belongs to another user.
    NotOurs {
        /// Path of the user database.
        path: PathBuf,
        /// User id of the file's owner.
        owner: u32,
    },
    /// The number [`USERS_MAX`] is reached.
    DatabaseFull,
    /// The name cannot be a user's.
    UnfitName {
        /// The name that was given.
        name: String,
        /// Description of the fault, for the operator.
        reason: &'static str,
    },
}

impl fmt::Display for UsersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists(name) => write!(f, "user '{name}' exists already"),
            Self::Io { doing, path, error } => {
                write!(f, "cannot {doing} {}: {error}", path.display())
            }
            Self::Malformed { path, line, reason } => {
                write!(f, "{}, line {line}: {reason}", path.display())
            }
            Self::NoSuchUser(name) => write!(f, "there is no user '{name}'"),
            Self::NotPrivate { path, mode } => write!(
                f,
                "{} can be read or written by others (mode {mode:04o}), who may know its password \
                 hashes; set new passwords, or if you are sure: chmod 600 {0}",
                path.display()
            ),
            Self::NotOurs { path, owner } => write!(
                f,
                "{} belongs to the user with id {owner}, who could change it; give it to the user \
                 that runs the server",
                path.display()
            ),
            Self::DatabaseFull => write!(f, "the user database holds at most {USERS_MAX} users"),
            Self::UnfitName { name, reason } => {
                write!(f, "'{name}' cannot be a user name: {reason}")
            }
        }
    }
}

impl std::error::Error for UsersError {}

/// The database as it was when it was last read.
#[derive(Debug)]
pub struct UserDatabase {
    path: PathBuf,
    read_from: Option<Fingerprint>,
    users: Vec<UserEntry>,
    /// Index of each user, by name in lower case. A look-up takes as long for an unknown name as
    /// for a known one, so strangers cannot tell the two apart by time.
    places: HashMap<String, usize>,
}

impl UserDatabase {
    /// Reads the database at `path`. A file that does not exist is a database without users.
    ///
    /// # Errors
    /// As [`UsersError`]; in particular [`UsersError::NotPrivate`].
    pub fn open(path: &Path) -> Result<Self, UsersError> {
        let (users, read_from) = storage::read(path)?;
        let places = places(users.iter().map(|user| &*user.name));
        Ok(Self { path: path.to_owned(), read_from, users, places })
    }

    /// The user of this name, in the file as it is now.
    ///
    /// Costs one `stat` while the file does not change.
    ///
    /// # Errors
    /// As [`UserDatabase::open`]: a database that became unreadable lets nobody in.
    pub fn find(&mut self, name: &str) -> Result<Option<UserEntry>, UsersError> {
        self.refresh()?;
        Ok(self.get(name))
    }

    /// Returns the user of this name, in the file as it was read last.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<UserEntry> {
        self.position(name).map(|index| self.users[index].clone())
    }

    /// Reads the file again if it has changed since it was read.
    ///
    /// Costs one `stat` while the file does not change.
    ///
    /// # Errors
    /// As [`UserDatabase::open`].
    pub fn refresh(&mut self) -> Result<(), UsersError> {
        if storage::fingerprint(&self.path)? != self.read_from {
            *self = Self::open(&self.path)?;
        }
        Ok(())
    }

    /// Returns the state of the file that was read last; `None` if there was none.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.read_from
    }

    /// Returns all users, sorted by name.
    pub fn users(&self) -> &[UserEntry] {
        &self.users
    }

    /// Reads the file, lets `change` alter what was read, and writes the result, while no other
    /// process can do the same.
    ///
    /// # Errors
    /// What `change` returns, and whatever reading and writing can fail with; the file is then as
    /// it was.
    pub fn update<T>(
        path: &Path,
        change: impl FnOnce(&mut Self) -> Result<T, UsersError>,
    ) -> Result<T, UsersError> {
        let _lock = storage::lock(path)?;
        let mut database = Self::open(path)?;
        let result = change(&mut database)?;
        if database.users.len() > USERS_MAX {
            return Err(UsersError::DatabaseFull);
        }
        let mut users = database.users;
        users.sort_by_cached_key(|user| user.name.to_lowercase());
        storage::write(path, &users)?;
        Ok(result)
    }

    /// Adds a user.
    ///
    /// # Errors
    /// [`UsersError::Exists`], [`UsersError::UnfitName`].
    pub fn add(&mut self, user: UserEntry) -> Result<(), UsersError> {
        check_name(&user.name)?;
        if self.position(&user.name).is_some() {
            return Err(UsersError::Exists(user.name));
        }
        self.places.insert(user.name.to_lowercase(), self.users.len());
        self.users.push(user);
        Ok(())
    }

    /// The user of this name, to be changed.
    ///
    /// # Errors
    /// [`UsersError::NoSuchUser`].
    pub fn get_mut(&mut self, name: &str) -> Result<&mut UserEntry, UsersError> {
        match self.position(name) {
            Some(index) => Ok(&mut self.users[index]),
            None => Err(UsersError::NoSuchUser(name.to_owned())),
        }
    }

    /// Removes a user.
    ///
    /// # Errors
    /// [`UsersError::NoSuchUser`].
    pub fn remove(&mut self, name: &str) -> Result<(), UsersError> {
        match self.position(name) {
            Some(index) => {
                self.users.remove(index);
                self.places = places(self.users.iter().map(|user| &*user.name));
                Ok(())
            }
            None => Err(UsersError::NoSuchUser(name.to_owned())),
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.places.get(&name.to_lowercase()).copied()
    }
}

/// The first user of each name, in lower case.
fn places<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> HashMap<String, usize> {
    let mut places = HashMap::with_capacity(names.len());
    for (index, name) in names.enumerate() {
        places.entry(name.to_lowercase()).or_insert(index);
    }
    places
}
