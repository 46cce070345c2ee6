//! Users and groups of this system.
//!
//! Look-ups go through the system's name service and may take as long as that does; they happen
//! when a session is set up or a share is connected, and when a client wants names for SIDs or SIDs for
//! names; never while files are served.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::unistd::{Group, User, getgrouplist};
use store::Credentials;

/// A user of this system.
#[derive(Clone, Debug)]
pub(crate) struct UnixUser {
    /// The name.
    pub(crate) name: String,
    /// The home folder.
    pub(crate) home: String,
    /// What the kernel checks.
    pub(crate) credentials: Credentials,
}

/// How long the user that was found last is believed to be the same: setting up a session and connecting to
/// a share ask one after the other.
const BELIEVED: Duration = Duration::from_secs(1);

thread_local! {
    /// The name that was asked for last, when, and the user of it.
    static FOUND: RefCell<Option<(String, Instant, UnixUser)>> = const { RefCell::new(None) };
}

/// The user of this name; `None` if there is none.
///
/// # Errors
/// The name service failed.
pub(crate) fn find_user(name: &str) -> anyhow::Result<Option<UnixUser>> {
    let is_known =
        |(of, at, _): &&(String, Instant, UnixUser)| of == name && at.elapsed() < BELIEVED;
    let known = FOUND.with_borrow(|it| it.as_ref().filter(is_known).map(|(.., user)| user.clone()));
    if known.is_some() {
        return Ok(known);
    }
    let user = look_up_user(name)?;
    let found = user.clone().map(|user| (name.to_owned(), Instant::now(), user));
    FOUND.set(found);
    Ok(user)
}

fn look_up_user(name: &str) -> anyhow::Result<Option<UnixUser>> {
    let Some(user) = User::from_name(name).with_context(|| format!("looking up user {name}"))?
    else {
        return Ok(None);
    };
    let c_name = std::ffi::CString::new(user.name.as_str()).context("a user name with NUL")?;
    let groups = getgrouplist(&c_name, user.gid)
        .with_context(|| format!("looking up the groups of {name}"))?;
    let credentials = Credentials {
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        groups: groups.into_iter().map(nix::unistd::Gid::as_raw).collect(),
        sid: None,
        sids: Credentials::well_known(),
    };
    let home = user.dir.to_string_lossy().into_owned();
    Ok(Some(UnixUser { name: user.name, home, credentials }))
}

/// Has the system load what it looks up users and groups with, which takes longer than to look one up.
pub(crate) fn load_name_service(user: &str) {
    if let Err(error) = look_up_user(user) {
        tracing::warn!("{error:#}");
    }
}

/// The id of the group of this name.
///
/// # Errors
/// The name service failed.
pub(crate) fn find_group(name: &str) -> anyhow::Result<Option<u32>> {
    let group = Group::from_name(name).with_context(|| format!("looking up group {name}"))?;
    Ok(group.map(|group| group.gid.as_raw()))
}

/// The name of the user with this id.
pub(crate) fn user_name(uid: u32) -> Option<String> {
    let user = User::from_uid(nix::unistd::Uid::from_raw(uid));
    user.inspect_err(|error| tracing::warn!("looking up user {uid}: {error}"))
        .ok()?
        .map(|it| it.name)
}

/// The name of the group with this id.
pub(crate) fn group_name(gid: u32) -> Option<String> {
    let group = Group::from_gid(nix::unistd::Gid::from_raw(gid));
    let group = group.inspect_err(|error| tracing::warn!("looking up group {gid}: {error}"));
    group.ok()?.map(|it| it.name)
}

/// The user that this process runs as.
pub(crate) fn own_user() -> UnixUser {
    let uid = rustix::process::geteuid();
    let own = User::from_uid(nix::unistd::Uid::from_raw(uid.as_raw())).ok().flatten();
    let name = own.as_ref().map_or_else(|| uid.as_raw().to_string(), |user| user.name.clone());
    let home = own.map_or_else(String::new, |user| user.dir.to_string_lossy().into_owned());
    let groups = rustix::process::getgroups().unwrap_or_default();
    let credentials = Credentials {
        uid: uid.as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: groups.into_iter().map(rustix::process::Gid::as_raw).collect(),
        sid: None,
        sids: Credentials::well_known(),
    };
    UnixUser { name, home, credentials }
}
