//! Look-ups of users, groups and netgroups by the modules of the system's name service.
//!
//! Modules are code of others, and may connect to a directory in the network. So `logond` runs
//! them for workers, which load none: see [`crate::NameConnection`].

use anyhow::{Context, bail};
use messaging::GROUPS_MAX;
use nix::errno::Errno;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

use crate::name_question::{NameAnswer, NameQuestion, SystemUser};
use crate::netgroup::netgroup_includes;

/// Asks the name service, without a time limit.
///
/// # Errors
/// It has failed, or the user is in more groups than the kernel takes.
pub fn look_up_name(question: &NameQuestion) -> anyhow::Result<NameAnswer> {
    Ok(match question {
        NameQuestion::User(name) => NameAnswer::User(look_up_user(name)?),
        NameQuestion::UserId(name) => {
            let user = User::from_name(name).with_context(|| format!("looking up user {name}"))?;
            NameAnswer::Named(user.map(|user| (user.name, user.uid.as_raw())))
        }
        NameQuestion::GroupId(name) => {
            let group =
                Group::from_name(name).with_context(|| format!("looking up group {name}"))?;
            NameAnswer::Named(group.map(|group| (group.name, group.gid.as_raw())))
        }
        NameQuestion::UserName(uid) => {
            let user = User::from_uid(Uid::from_raw(*uid))
                .with_context(|| format!("looking up user {uid}"))?;
            NameAnswer::Named(user.map(|user| (user.name, *uid)))
        }
        NameQuestion::GroupName(gid) => {
            let group = Group::from_gid(Gid::from_raw(*gid))
                .with_context(|| format!("looking up group {gid}"))?;
            NameAnswer::Named(group.map(|group| (group.name, *gid)))
        }
        NameQuestion::Netgroup { netgroup, user } => {
            let lower = user.to_lowercase();
            // Clients write names as they please, and netgroups mostly have small letters.
            let is_member = netgroup_includes(netgroup, user)?
                || (lower != *user && netgroup_includes(netgroup, &lower)?);
            NameAnswer::Membership(is_member)
        }
    })
}

fn look_up_user(name: &str) -> anyhow::Result<Option<SystemUser>> {
    let Some(user) = User::from_name(name).with_context(|| format!("looking up user {name}"))?
    else {
        return Ok(None);
    };
    let c_name = std::ffi::CString::new(user.name.as_str()).context("a user name with NUL")?;
    let groups = match getgrouplist(&c_name, user.gid) {
        // The list was longer than the kernel's limit.
        Err(Errno::EINVAL) => bail!("{name} is in more than {GROUPS_MAX} groups"),
        groups => groups.with_context(|| format!("looking up the groups of {name}"))?,
    };
    Ok(Some(SystemUser {
        home: user.dir.to_string_lossy().into_owned(),
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        groups: groups.into_iter().map(Gid::as_raw).collect(),
        name: user.name,
    }))
}

/// Questions that make the C library load its modules for users, groups and netgroups, which takes
/// longer than a look-up. The name of a user is needed.
#[must_use]
pub fn loading_questions(user: &str) -> [NameQuestion; 2] {
    let (netgroup, user) = (NO_NETGROUP.to_owned(), user.to_owned());
    [NameQuestion::User(user.clone()), NameQuestion::Netgroup { netgroup, user }]
}

/// Netgroup that no system has.
const NO_NETGROUP: &str = "choro-none";
