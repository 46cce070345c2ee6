//! `username map`: maps names that clients give to users.
//!
//! A line may name a group. Only then the system's name service is asked: once for a name, and only
//! where names alone do not decide. A client that logs on has proved the password of one of the
//! users that the name may mean before that; names of shares are looked up in the time that
//! clients' questions may take (`NameService::ask_for_client`). Without an answer the name has no
//! user, because another line, or none, would give it other rights. For the same reason no name has
//! a user while the file cannot be read.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::fs::{self, File};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail, ensure};
use config::{Config, GroupKind, UsernameMap};
use store::Credentials;
use tracing::debug;
use users::Fingerprint;

use super::unix::{self, UnixUser};

/// Highest number of users that a name may mean, each of whose passwords is tried.
const CANDIDATES_MAX: usize = messaging::USERS_PER_NAME_MAX;

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

    /// Returns the users that a name may mean, before anybody is asked for groups.
    ///
    /// # Errors
    /// If there are too many, or the file cannot be read.
    pub(super) fn candidates(&self, name: &str) -> anyhow::Result<Vec<String>> {
        if self.path.is_empty() {
            return Ok(vec![name.to_owned()]);
        }
        let map = self.map()?;
        let users = map.candidates(name);
        ensure!(
            users.len() <= CANDIDATES_MAX,
            "username map {}: a name may mean more than {CANDIDATES_MAX} users by its groups",
            self.path
        );
        Ok(users.into_iter().map(|user| user.unwrap_or(name).to_owned()).collect())
    }

    /// Returns the user of a name whose client has proved a password, or that had a user before.
    ///
    /// # Errors
    /// As for [`Self::user`].
    pub(super) fn proved_user<'a>(&self, name: &'a str) -> anyhow::Result<Cow<'a, str>> {
        self.user_by(Groups::of(name, unix::find_group, unix::find_user))
    }

    /// Returns the user of a name that a client chose.
    ///
    /// # Errors
    /// If the name service could not tell whether the user is in a group of the map, or the file
    /// cannot be read.
    pub(super) fn user<'a>(&self, name: &'a str) -> anyhow::Result<Cow<'a, str>> {
        self.user_by(Groups::of(name, unix::find_group_for_client, unix::find_user_for_client))
    }

    fn user_by<'a>(&self, groups: Groups<'a>) -> anyhow::Result<Cow<'a, str>> {
        let name = groups.name;
        if self.path.is_empty() {
            return Ok(name.into());
        }
        let map = self.map()?;
        let user = map.user(name, |kind, group| kind == GroupKind::Unix && groups.include(group));
        if groups.are_unknown.get() {
            bail!("username map: the groups of a client's name could not be looked up");
        }
        Ok(user.map_or_else(|| name.into(), |user| user.to_owned().into()))
    }

    /// Returns the map with the file's current contents.
    fn map(&self) -> anyhow::Result<Arc<UsernameMap>> {
        self.read().with_context(|| format!("username map {}", self.path))
    }

    fn read(&self) -> io::Result<Arc<UsernameMap>> {
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

/// Returns why the configured file cannot be read, so that nobody can log on; `None` if it can.
#[must_use]
pub fn fault(config: &Config) -> Option<String> {
    let names = MappedNames::of(config);
    if names.path.is_empty() {
        return None;
    }
    names.map().err().map(|error| format!("{error:#}"))
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
    find_group: fn(&str) -> anyhow::Result<Option<u32>>,
    find_user: fn(&str) -> anyhow::Result<Option<UnixUser>>,
}

impl<'a> Groups<'a> {
    fn of(
        name: &'a str,
        find_group: fn(&str) -> anyhow::Result<Option<u32>>,
        find_user: fn(&str) -> anyhow::Result<Option<UnixUser>>,
    ) -> Self {
        let (credentials, are_unknown) = (OnceCell::new(), Cell::new(false));
        Self { name, credentials, are_unknown, find_group, find_user }
    }

    fn include(&self, group: &str) -> bool {
        if self.are_unknown.get() {
            return false;
        }
        let Some(gid) = self.known((self.find_group)(group)) else { return false };
        let find = || Some(self.known((self.find_user)(self.name))?.credentials);
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
    use super::*;
    use process::SystemUser;

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
            let (name, groups) = (name.to_owned(), groups.to_vec());
            Some(SystemUser { name, gid, groups, ..SystemUser::default() })
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
    fn a_group_asks_for_the_user_once_and_not_if_names_alone_decide() {
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

    /// Before that, nobody is asked: neither load nor time reveals anything about a name.
    #[test]
    fn groups_are_looked_up_for_proved_names_only() {
        unix::replace_name_service(|_| panic!("it is asked"));
        let (_folder, names) = map("works = @staff @others\nanna = ann\n!boss = @chiefs\n");
        let candidates = |name: &str| names.candidates(name).expect("there are few");
        assert_eq!(candidates("bob"), ["boss", "works", "bob"]);
        assert_eq!(candidates("ann"), ["boss", "anna"]);
        unix::replace_name_service(|question| match question {
            Question::GroupId(name) if name == "staff" => {
                Ok(Answer::Named(Some((name.clone(), 1))))
            }
            Question::GroupId(_) => Ok(Answer::Named(None)),
            Question::User(name) => {
                let user = SystemUser { name: name.clone(), gid: 1, ..SystemUser::default() };
                Ok(Answer::User(Some(user)))
            }
            _ => anyhow::bail!("not asked here"),
        });
        unix::exhaust_time_of_clients();
        assert_eq!(names.proved_user("bob").expect("the proof entitles to it"), "works");
        names.user("eve").expect_err("the time is spent");
    }

    #[test]
    fn more_users_than_are_tried_are_none() {
        let lines: Vec<String> = (0..=CANDIDATES_MAX).map(|it| format!("u{it} = @g{it}")).collect();
        let (_folder, names) = map(&lines.join("\n"));
        names.candidates("bob").expect_err("one too many");
    }

    #[test]
    fn a_name_with_unknown_groups_is_nobodys() {
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
    }

    /// A line of the map may be there to keep a name from being another user's.
    #[test]
    fn without_the_file_no_name_has_a_user() {
        let (folder, names) = map("anna = ann\n");
        assert_eq!(names.proved_user("ann").expect("no groups"), "anna");
        fs::remove_file(folder.path().join("names")).expect("ours");
        names.candidates("ann").expect_err("no file");
        names.user("ann").expect_err("no file");
        let error = names.proved_user("ann").expect_err("no file");
        assert!(error.to_string().starts_with("username map /"), "{error}");
        fs::write(folder.path().join("names"), vec![b'a'; 2 << 20]).expect("there is space");
        names.proved_user("ann").expect_err("it is too long");
        fs::write(folder.path().join("names"), "").expect("there is space");
        assert_eq!(names.proved_user("ann").expect("no groups"), "ann");
    }
}
