//! Users without their password hashes, for processes that check no passwords.
//!
//! `logond` alone reads the user database while the server runs. It publishes all else in a file of
//! the lock directory, which workers read: names, ids, and SIDs of Samba. The lines are those of
//! the database, with a dash in place of each hash.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use dtyp::Sid;

use super::known_user::KnownUser;
use super::{Fingerprint, UserEntry, UsersError, line, places, storage};

/// Name of the published file in the lock directory.
const PUBLISHED_NAME: &str = "known_users";

/// File that [`KnownUsers`] are read from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum UserSource {
    /// The user database itself, for commands of an administrator. A file that does not exist is a
    /// database without users.
    Database(PathBuf),
    /// The published file. While it does not exist, nobody knows whether a user does.
    Published(PathBuf),
}

impl UserSource {
    /// Returns the published file of a lock directory.
    #[must_use]
    pub fn published_in(lock_dir: &Path) -> Self {
        Self::Published(lock_dir.join(PUBLISHED_NAME))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Database(path) | Self::Published(path) => path,
        }
    }

    fn read(&self) -> Result<(Vec<KnownUser>, Option<Fingerprint>), UsersError> {
        match self {
            Self::Database(path) => {
                let (users, from) = storage::read(path)?;
                Ok((users.iter().map(KnownUser::from).collect(), from))
            }
            Self::Published(path) => {
                let (users, from) = read(path)?;
                Ok((users, Some(from)))
            }
        }
    }
}

/// The users as they were when they were last read.
#[derive(Debug)]
pub struct KnownUsers {
    source: UserSource,
    read_from: Option<Fingerprint>,
    users: Vec<KnownUser>,
    /// Index of each user, by name in lower case.
    places: HashMap<String, usize>,
    /// Index of each user with a SID of Samba.
    samba_sids: HashMap<Sid, usize>,
}

impl KnownUsers {
    /// Reads the users.
    ///
    /// # Errors
    /// As [`UsersError`].
    pub fn open(source: UserSource) -> Result<Self, UsersError> {
        let (users, read_from) = source.read()?;
        let places = places(users.iter().map(|user| &*user.name));
        let sids = users.iter().enumerate();
        let sids = sids.filter_map(|(index, user)| Some((user.samba_sid.clone()?, index)));
        let samba_sids = sids.collect();
        Ok(Self { source, read_from, users, places, samba_sids })
    }

    /// Reads the users again if their file has changed since. Costs one `stat` while it does not.
    ///
    /// # Errors
    /// As [`KnownUsers::open`].
    pub fn refresh(&mut self) -> Result<(), UsersError> {
        if storage::fingerprint(self.source.path())? != self.read_from {
            *self = Self::open(self.source.clone())?;
        }
        Ok(())
    }

    /// Returns the user of this name, in any case of letters.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&KnownUser> {
        self.places.get(&name.to_lowercase()).map(|index| &self.users[*index])
    }

    /// Returns the user to whom Samba gave this SID.
    #[must_use]
    pub fn find_by_samba_sid(&self, sid: &Sid) -> Option<&KnownUser> {
        self.samba_sids.get(sid).map(|index| &self.users[*index])
    }

    /// Returns all users, sorted by name.
    #[must_use]
    pub fn users(&self) -> &[KnownUser] {
        &self.users
    }

    /// Returns the state of the file that was read last; `None` if there was none.
    #[must_use]
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.read_from
    }
}

/// Publishes users in a lock directory. Readers see the file of before or the new one.
///
/// # Errors
/// Those of the file system.
pub fn publish(lock_dir: &Path, users: &[UserEntry]) -> io::Result<()> {
    let mut text = String::from("# choro users without hashes 1\n");
    for user in users {
        line::render_known(&user.into(), &mut text);
    }
    let new = lock_dir.join(format!("{PUBLISHED_NAME}.new"));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    fs::rename(new, lock_dir.join(PUBLISHED_NAME))
}

/// Removes what was published: the users are unknown from now on.
///
/// # Errors
/// Those of the file system.
pub fn unpublish(lock_dir: &Path) -> io::Result<()> {
    match fs::remove_file(lock_dir.join(PUBLISHED_NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn read(path: &Path) -> Result<(Vec<KnownUser>, Fingerprint), UsersError> {
    let file = File::open(path).map_err(|error| storage::io("open", path, error))?;
    let metadata = file.metadata().map_err(|error| storage::io("examine", path, error))?;
    let users = storage::read_lines(path, file, &metadata, line::parse_known)?;
    Ok((users, Fingerprint::of(&metadata)))
}

#[cfg(test)]
mod tests {
    use auth::NtHash;
    use dtyp::Sid;

    use super::{KnownUsers, UserSource, publish, unpublish};
    use crate::known_user::KnownUser;
    use crate::{Identity, UserEntry, UsersError};

    fn users() -> Vec<UserEntry> {
        let sid = Sid::new(5, &[21, 1, 2, 3, 1_001]);
        let anna = UserEntry {
            identity: Identity::new(1_001, vec![100, 44]).ok(),
            samba_sid: Some(sid),
            full_name: "Anna: of Choro".to_owned(),
            ..UserEntry::new("Anna", NtHash::of_password("secret"))
        };
        vec![anna, UserEntry { enabled: false, ..UserEntry::new("bob", NtHash::of_password("x")) }]
    }

    #[test]
    fn published_users_are_those_of_the_database_without_their_hashes() {
        let folder = tempfile::tempdir().expect("there is space");
        let users = users();
        publish(folder.path(), &users).expect("there is space");
        let path = folder.path().join(super::PUBLISHED_NAME);
        let text = std::fs::read_to_string(&path).expect("it is there").to_lowercase();
        let hash = users[0].nt_hash.as_bytes().map(|byte| format!("{byte:02x}")).concat();
        assert!(!text.contains(&hash[..8]), "{text}");
        let known = KnownUsers::open(UserSource::published_in(folder.path())).expect("it is ours");
        let want: Vec<KnownUser> = users.iter().map(KnownUser::from).collect();
        assert_eq!(known.users(), want);
        assert_eq!(known.find("ANNA"), Some(&want[0]));
        let sid = want[0].samba_sid.as_ref().expect("she has one");
        assert_eq!(known.find_by_samba_sid(sid), Some(&want[0]));
        assert_eq!(known.find("carol"), None);
    }

    #[test]
    fn changes_are_seen_and_nobody_is_known_without_a_published_file() {
        let folder = tempfile::tempdir().expect("there is space");
        let source = UserSource::published_in(folder.path());
        let error = KnownUsers::open(source.clone()).expect_err("nothing is published");
        assert!(matches!(error, UsersError::Io { .. }), "{error}");
        publish(folder.path(), &[]).expect("there is space");
        let mut known = KnownUsers::open(source).expect("it is ours");
        assert_eq!(known.find("anna"), None);
        publish(folder.path(), &users()).expect("there is space");
        known.refresh().expect("it is ours");
        assert!(known.find("anna").is_some());
        unpublish(folder.path()).expect("it is ours");
        known.refresh().expect_err("nothing is published");
        unpublish(folder.path()).expect("nothing is left to remove");
    }
}
