//! Users and groups of this system.
//!
//! Look-ups go through the system's name service, see [`super::name_service`]. They happen at
//! session setup and tree connect, and when a client asks for names of SIDs or SIDs of names; never
//! while files are served. A worker has `logond` make them ([`ask_logond_for_names`]); commands
//! make them themselves.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::{Context, bail, ensure};
use messaging::GROUPS_MAX;
use process::{NamePurpose, NameRequest, SystemUser, ask_for_name, look_up_name, may_be_name};
use store::Credentials;
use tracing::debug;

pub use super::unix_user::UnixUser;

use super::name_service::{self, Answer, LookUps, NameService, Question};
use super::own_users::OwnUsers;
use super::served;

thread_local! {
    static OWN_USERS: RefCell<OwnUsers> = RefCell::default();
    static NAMES: RefCell<NameService> = RefCell::new(name_service());
}

/// Either [`NameService::ask`] or [`NameService::ask_for_client`], by requester.
type LookUp = fn(&mut NameService, Question) -> anyhow::Result<Answer>;

/// Lock directory of the server whose worker this process is.
static SERVER: OnceLock<PathBuf> = OnceLock::new();

/// Registers values of this thread with the C library, which looks a function up by its name at the
/// first time. Forks of this process need not: they touch a tenth fewer pages.
pub fn prepare() {
    NAMES.with_borrow(|_| ());
}

/// Makes this process one that has `logond` ask the name service from now on: a worker, which loads
/// no module of it.
pub fn ask_logond_for_names(lock_dir: PathBuf) {
    // A process is a worker of one server.
    let _ = SERVER.set(lock_dir);
    // A fork has the cache of the supervisor.
    NAMES.set(name_service());
}

fn name_service() -> NameService {
    let look_ups = LookUps {
        server: |question| look_up(question, NamePurpose::Server),
        client: |question| look_up(question, NamePurpose::Client),
        guest: |question| look_up(question, NamePurpose::Guest),
    };
    NameService::new(look_ups, name_service::DEADLINE)
}

/// Notes the account that this thread serves guests as.
pub(super) fn set_guest_account(name: &str) {
    NAMES.with_borrow_mut(|names| names.set_guest_account(name));
}

/// Replaces the users of this thread who have ids of their own.
pub(super) fn set_own_users(users: OwnUsers) {
    OWN_USERS.set(users);
}

/// Returns the user of this name; `None` if there is none.
///
/// # Errors
/// If the name service failed, or did not answer in time, or the user is in more groups than the
/// kernel takes.
pub(crate) fn find_user(name: &str) -> anyhow::Result<Option<UnixUser>> {
    user_by(name, NameService::ask)
}

/// Returns the user of a name that a client chose, perhaps before any proof of a password.
///
/// # Errors
/// As for [`find_user`], or if clients' look-ups have taken too much time.
pub(super) fn find_user_for_client(name: &str) -> anyhow::Result<Option<UnixUser>> {
    user_by(name, NameService::ask_for_client)
}

fn user_by(name: &str, ask: LookUp) -> anyhow::Result<Option<UnixUser>> {
    let mut user = user_of_system(name, ask)?;
    if let Some(user) = &mut user {
        OWN_USERS.with_borrow(|users| users.add_samba_sids(user));
    }
    Ok(user)
}

fn user_of_system(name: &str, ask: LookUp) -> anyhow::Result<Option<UnixUser>> {
    if !may_be_name(name) {
        return Ok(None);
    }
    if let Some(own) = OWN_USERS.with_borrow(|users| users.find(name).cloned()) {
        return Ok(Some(own));
    }
    match NAMES.with_borrow_mut(|names| ask(names, Question::User(name.to_owned())))? {
        Answer::User(Some(user)) => {
            // With a part of the groups, entries that deny something to the others would not count.
            let count = user.groups.len();
            ensure!(count <= GROUPS_MAX, "{name} is in more than {GROUPS_MAX} groups");
            Ok(Some(user.into()))
        }
        Answer::User(None) => Ok(None),
        _ => bail!("the name service has answered another question"),
    }
}

/// Returns the id of the group of this name.
///
/// # Errors
/// As for [`find_user`].
pub(crate) fn find_group(name: &str) -> anyhow::Result<Option<u32>> {
    group_by(name, NameService::ask)
}

/// Returns the id of a group in the configuration, for a question that a client caused.
///
/// # Errors
/// As for [`find_user_for_client`].
pub(super) fn find_group_for_client(name: &str) -> anyhow::Result<Option<u32>> {
    group_by(name, NameService::ask_for_client)
}

fn group_by(name: &str, ask: LookUp) -> anyhow::Result<Option<u32>> {
    if !may_be_name(name) {
        return Ok(None);
    }
    let answer = NAMES.with_borrow_mut(|names| ask(names, Question::GroupId(name.to_owned())))?;
    Ok(named(answer)?.map(|(_, id)| id))
}

/// Returns true if a netgroup of this name includes the user.
///
/// # Errors
/// As for [`find_user`].
pub(super) fn is_in_netgroup(netgroup: &str, user: &str) -> anyhow::Result<bool> {
    if !may_be_name(netgroup) || !may_be_name(user) {
        return Ok(false);
    }
    let (netgroup, user) = (netgroup.to_owned(), user.to_owned());
    match NAMES.with_borrow_mut(|names| names.ask(Question::Netgroup { netgroup, user }))? {
        Answer::Membership(is_member) => Ok(is_member),
        _ => bail!("the name service has answered another question"),
    }
}

/// Returns the name of the group with this id.
///
/// # Errors
/// As for [`find_user`].
pub(crate) fn group_name(gid: u32) -> anyhow::Result<Option<String>> {
    let answer = NAMES.with_borrow_mut(|names| names.ask(Question::GroupName(gid)));
    let named = answer.and_then(named).with_context(|| format!("looking up group {gid}"))?;
    Ok(named.map(|(name, _)| name))
}

/// Returns a name and its id for a client; `None` also if clients' look-ups take too much time.
pub(super) fn find_for_client(question: Question) -> Option<(String, u32)> {
    try_find_for_client(question).inspect_err(|error| debug!("{error:#}")).ok()?
}

/// Returns a name and its id for a client; `None` if there is none.
///
/// # Errors
/// As for [`find_user_for_client`].
pub(super) fn try_find_for_client(question: Question) -> anyhow::Result<Option<(String, u32)>> {
    if let Some(own) = OWN_USERS.with_borrow(|users| find_own(users, &question)) {
        return Ok(Some(own));
    }
    if !question.has_names() {
        return Ok(None);
    }
    named(NAMES.with_borrow_mut(|names| names.ask_for_client(question))?)
}

/// Begins a request that may ask for many names: all of its time counts if it is a guest's.
pub(super) fn begin_call(is_guest: bool) {
    served::serve_guest(is_guest);
    NAMES.with_borrow_mut(NameService::begin_call);
}

/// Ends the request of [`begin_call`].
pub(super) fn end_call() {
    NAMES.with_borrow_mut(NameService::end_call);
    served::serve_guest(false);
}

/// Returns false if requests of guests have taken too much time, and this is one.
pub(super) fn may_serve_call() -> bool {
    NAMES.with_borrow_mut(NameService::may_serve_call)
}

/// Returns the name and id of a user with ids of its own.
fn find_own(users: &OwnUsers, question: &Question) -> Option<(String, u32)> {
    match question {
        Question::UserId(name) => {
            users.find(name).map(|user| (user.name.clone(), user.credentials.uid))
        }
        Question::UserName(uid) => users.name(*uid).map(|name| (name.to_owned(), *uid)),
        _ => None,
    }
}

/// Runs a step of a worker that has nothing to lose: the name service is asked without a thread,
/// and an answer that is late ends this process.
pub fn end_when_late<T>(step: impl FnOnce() -> T) -> T {
    let set = |ends| NAMES.with_borrow_mut(|names| names.end_when_late(ends));
    set(true);
    let result = step();
    set(false);
    result
}

/// Replaces this thread's name service, and clears the cache.
#[cfg(test)]
pub(super) fn replace_name_service(look_up: name_service::LookUp) {
    let look_ups = LookUps { server: look_up, client: look_up, guest: look_up };
    NAMES.set(NameService::new(look_ups, name_service::DEADLINE));
}

/// Uses the time for clients' look-ups up, as slow look-ups would.
#[cfg(test)]
pub(super) fn exhaust_time_of_clients() {
    NAMES.with_borrow_mut(NameService::exhaust_time_of_clients);
}

fn named(answer: Answer) -> anyhow::Result<Option<(String, u32)>> {
    match answer {
        Answer::Named(named) => Ok(named),
        _ => bail!("the name service has answered another question"),
    }
}

/// Asks the name service, without a time limit: `logond` for a worker.
fn look_up(question: &Question, purpose: NamePurpose) -> anyhow::Result<Answer> {
    match SERVER.get() {
        Some(lock_dir) => {
            ask_for_name(lock_dir, &NameRequest { question: question.clone(), purpose })
        }
        None => look_up_name(question),
    }
}

impl From<SystemUser> for UnixUser {
    fn from(SystemUser { name, home, uid, gid, groups }: SystemUser) -> Self {
        let sids = Credentials::well_known();
        Self { name, home, credentials: Credentials { uid, gid, groups, sid: None, sids } }
    }
}

/// Returns the user that this process runs as, by its ids alone.
pub(crate) fn own_user() -> UnixUser {
    let uid = rustix::process::geteuid();
    let groups = rustix::process::getgroups().unwrap_or_default();
    let credentials = Credentials {
        uid: uid.as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: groups.into_iter().map(rustix::process::Gid::as_raw).collect(),
        sid: None,
        sids: Credentials::well_known(),
    };
    UnixUser { name: uid.as_raw().to_string(), home: String::new(), credentials }
}

#[cfg(test)]
mod tests {
    use super::super::name_service::{Answer, Question};
    use super::{
        GROUPS_MAX, SystemUser, find_group, find_user, may_be_name, replace_name_service,
        try_find_for_client,
    };
    use process::NAME_BYTES_MAX;

    #[test]
    fn a_user_in_more_groups_than_the_kernel_takes_is_refused() {
        replace_name_service(|question| {
            let Question::User(name) = question else { anyhow::bail!("not asked here") };
            let count = name.parse().expect("names here are numbers of groups");
            let user =
                SystemUser { name: name.clone(), groups: vec![7; count], ..SystemUser::default() };
            Ok(Answer::User(Some(user)))
        });
        let most = find_user(&GROUPS_MAX.to_string()).expect("there is room").expect("known");
        assert_eq!(most.credentials.groups.len(), GROUPS_MAX);
        let error = find_user(&(GROUPS_MAX + 1).to_string()).expect_err("one too many");
        assert_eq!(error.to_string(), "65537 is in more than 65536 groups");
    }

    #[test]
    fn nobody_is_asked_for_a_name_that_no_system_has() {
        for name in [String::new(), "x".repeat(NAME_BYTES_MAX + 1), "a\nb".to_owned()] {
            assert!(!may_be_name(&name));
            assert!(find_user(&name).expect("nobody was asked").is_none());
            assert!(find_group(&name).expect("nobody was asked").is_none());
            let question = Question::UserId(name);
            assert!(try_find_for_client(question).expect("nobody was asked").is_none());
        }
        assert!(may_be_name(&"x".repeat(NAME_BYTES_MAX)) && may_be_name("Domain Users"));
    }
}
