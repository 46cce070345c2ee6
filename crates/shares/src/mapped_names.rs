//! `username map`: maps names that clients give to users.
//!
//! A line may name a group. Only then the system's name service is asked, mostly before the client
//! has proved anything: once for a name, only where names alone do not decide, and from the time
//! that clients' questions may take (`NameService::ask_for_client`). The failed logons that an
//! unproved name costs limit their number (docs/logons.md). Without an answer the name has no user,
//! because another line, or none, would give it other rights.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::fs::{self, File};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::bail;
use config::{Config, GroupKind, UsernameMap};
use store::Credentials;
use tracing::{debug, warn};
use users::Fingerprint;

use super::unix;

/// Highest size of the file in bytes: some ten thousand names.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The file. Each logon checks it for changes, and only a changed file is read: clients need no
/// password to give a name, and must not cause reading again and again.
#[derive(Debug)]
pub(super) struct MappedNames {
    /// Path of the file; empty for none.
    path: String,
    read: Mutex<Option<(Fingerprint, Arc<UsernameMap>)>>,
}

impl MappedNames {
    /// Takes the path from the configuration.
    pub(super) fn of(config: &Config) -> Self {
        let path = config.substitutions().expand_path(&config.global.username_map);
        Self { path, read: Mutex::default() }
    }

    /// Returns the user of a name. If the file cannot be read, names map to themselves, and a
    /// message says so.
    ///
    /// # Errors
    /// If the name service could not tell whether the user is in a group of the map.
    pub(super) fn user<'a>(&self, name: &'a str) -> anyhow::Result<Cow<'a, str>> {
        if self.path.is_empty() {
            return Ok(name.into());
        }
        let map = match self.map() {
            Ok(map) => map,
            Err(error) => {
                warn!("username map {}: {error}", self.path);
                return Ok(name.into());
            }
        };
        let groups = Groups::of(name);
        let user = map.user(name, |kind, group| kind == GroupKind::Unix && groups.include(group));
        if groups.are_unknown.get() {
            bail!("username map: the groups of a client's name could not be looked up");
        }
        Ok(user.map_or_else(|| name.into(), |user| user.to_owned().into()))
    }

    /// Returns the map with the file's current contents.
    fn map(&self) -> io::Result<Arc<UsernameMap>> {
        let now = Fingerprint::of(&fs::metadata(&self.path)?);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((fingerprint, map)) = &*read
            && *fingerprint == now
        {
            return Ok(Arc::clone(map));
        }
        let file = File::open(&self.path)?;
        let fingerprint = Fingerprint::of(&file.metadata()?);
        let map = Arc::new(UsernameMap::parse(&text_of(file)?));
        *read = Some((fingerprint, Arc::clone(&map)));
        Ok(map)
    }
}

fn text_of(file: File) -> io::Result<String> {
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    // A name in another encoding matches no user, and the other names remain valid.
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The groups of a name that a client gave, looked up once and at need.
#[derive(Debug)]
struct Groups<'a> {
    name: &'a str,
    /// `None` if the system has no such user, or it is not known.
    credentials: OnceCell<Option<Credentials>>,
    /// True once a look-up failed.
    are_unknown: Cell<bool>,
}

impl<'a> Groups<'a> {
    fn of(name: &'a str) -> Self {
        Self { name, credentials: OnceCell::new(), are_unknown: Cell::new(false) }
    }

    fn include(&self, group: &str) -> bool {
        if self.are_unknown.get() {
            return false;
        }
        let Some(gid) = self.known(unix::find_group_for_client(group)) else { return false };
        let find = || Some(self.known(unix::find_user_for_client(self.name))?.credentials);
        let credentials = self.credentials.get_or_init(find).as_ref();
        credentials.is_some_and(|it| it.gid == gid || it.groups.contains(&gid))
    }

    /// Clients without a password can cause failures, so those appear only in the debug log.
    fn known<T>(&self, found: anyhow::Result<Option<T>>) -> Option<T> {
        found.unwrap_or_else(|error| {
            debug!("username map: {error:#}");
            self.are_unknown.set(true);
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::name_service::{Answer, Question};
    use super::super::unix::UnixUser;
    use super::*;

    /// A map in a file that stays as long as the folder.
    fn map(text: &str) -> (tempfile::TempDir, MappedNames) {
        let folder = tempfile::tempdir().expect("there is space");
        let path = folder.path().join("names");
        fs::write(&path, text).expect("there is space");
        let path = path.to_str().expect("UTF-8").to_owned();
        (folder, MappedNames { path, read: Mutex::default() })
    }

    /// Of `staff` (7) are Ann and, with a group that is not the first, Bob; users are counted.
    fn staff(question: &Question) -> anyhow::Result<Answer> {
        let user = |name: &str, gid, groups: &[u32]| {
            let credentials =
                Credentials { gid, groups: groups.to_vec(), ..Credentials::default() };
            Some(UnixUser { name: name.to_owned(), home: String::new(), credentials })
        };
        Ok(match question {
            Question::GroupId(name) if name == "staff" => Answer::Named(Some((name.clone(), 7))),
            Question::GroupId(_) => Answer::Named(None),
            Question::User(name) => {
                USERS_ASKED.fetch_add(1, Ordering::SeqCst);
                Answer::User(match name.as_str() {
                    "ann" => user(name, 7, &[]),
                    "bob" => user(name, 1, &[2, 7]),
                    "eve" => user(name, 1, &[2]),
                    _ => None,
                })
            }
            _ => anyhow::bail!("not asked here"),
        })
    }

    /// Number of questions about users, in this test.
    static USERS_ASKED: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn a_group_asks_for_the_user_once_and_not_where_names_alone_decide() {
        unix::replace_name_service(staff);
        let lines = "works = @staff @others @more @staff\nanna = Anna\n";
        let (_folder, names) = map(lines);
        let check = |name: &str, want: &str, asked: usize| {
            let before = USERS_ASKED.load(Ordering::SeqCst);
            assert_eq!(names.user(name).expect("it was answered"), want);
            assert_eq!(USERS_ASKED.load(Ordering::SeqCst) - before, asked, "{name}");
        };
        check("anna", "anna", 0);
        check("ann", "works", 1);
        check("bob", "works", 1);
        check("eve", "eve", 1);
        check("nobody", "nobody", 1);
        check(&"x".repeat(300), &"x".repeat(300), 0);
    }

    #[test]
    fn look_ups_for_unproved_names_end_with_the_time_that_clients_have() {
        unix::replace_name_service(|question| match question {
            Question::GroupId(name) => Ok(Answer::Named(Some((name.clone(), 7)))),
            _ => Ok(Answer::User(None)),
        });
        let (_folder, names) = map("works = @staff\nanna = ann\n");
        assert_eq!(names.user("bob").expect("there is time"), "bob");
        unix::exhaust_time_of_clients();
        names.user("eve").expect_err("the time is spent");
        assert_eq!(names.user("ann").expect("nobody is asked"), "anna");
        let own = unix::find_user("carl").expect("what has to be known is asked for");
        assert!(own.is_none());
    }

    #[test]
    fn a_name_whose_groups_the_name_service_cannot_tell_is_nobodys() {
        unix::replace_name_service(|_| anyhow::bail!("the directory is away"));
        let (_folder, names) = map("!guest = @visitors\nanna = ann\n");
        names.user("bob").expect_err("bob may be a visitor");
        names.user("ann").expect_err("ann may be one, too");
    }

    #[test]
    fn a_file_is_read_again_only_when_it_has_changed() {
        let folder = tempfile::tempdir().expect("there is space");
        let path = folder.path().join("names");
        fs::write(&path, "anna = ann\n").expect("there is space");
        let names =
            MappedNames { path: path.to_str().expect("UTF-8").to_owned(), read: Mutex::default() };
        assert_eq!(names.user("ann").expect("no groups"), "anna");
        let first = names.map().expect("it is there");
        assert!(Arc::ptr_eq(&first, &names.map().expect("it is there")), "it was read twice");
        fs::write(&path, "bob = ann annie\n").expect("there is space");
        assert_eq!(names.user("ann").expect("no groups"), "bob");
        fs::remove_file(&path).expect("ours");
        assert_eq!(names.user("ann").expect("no groups"), "ann");
    }
}
