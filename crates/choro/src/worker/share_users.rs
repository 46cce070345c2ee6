//! Whom a share is for: its lists of users, and what stands in them for whoever asks.

use config::{Config, GroupKind, Substitutions, UserList};
use dtyp::Sid;
use proto::ShareRefusal;
use rpc::Caller;
use tracing::warn;

use super::unix::{self, UnixUser};

/// Whether whoever is in these groups is in the group of that name.
pub(super) fn is_member(groups: &[Sid], group: &str) -> bool {
    let gid = unix::find_group(group).ok().flatten();
    gid.is_some_and(|gid| groups.contains(&Sid::unix_group(gid)))
}

/// Whether whoever is in these groups is in one that a list of users names. Netgroups are not looked up,
/// they have no members.
pub(super) fn member_of(groups: &[Sid]) -> impl Fn(GroupKind, &str) -> bool {
    move |kind, group| kind == GroupKind::Unix && is_member(groups, group)
}

/// Whether a user may connect to a share, as far as its lists of users say.
pub(super) fn admits(config: &Config, share: &config::Share, caller: &Caller) -> bool {
    let known = substitutions_of(config, &caller.user, &caller.domain, share);
    let share = with_names(share.clone(), &known);
    share.admits(&caller.user, member_of(&caller.groups))
}

/// What is known of a share and of a user who asks for it or about it.
pub(super) fn substitutions_of(
    config: &Config,
    user: &str,
    domain: &str,
    share: &config::Share,
) -> Substitutions {
    let group = || Some(group_name(&unix::find_user(user).ok()??));
    Substitutions {
        user: user.to_owned(),
        group: names_group(share).then(group).flatten().unwrap_or_default(),
        requested_user: user.to_owned(),
        domain: domain.to_owned(),
        share: share.name.clone(),
        ..config.substitutions()
    }
}

/// The share with the names in its lists of users filled in: `valid users = %S`.
pub(super) fn with_names(mut share: config::Share, substitutions: &Substitutions) -> config::Share {
    [
        share.admin_users,
        share.invalid_users,
        share.read_list,
        share.valid_users,
        share.write_list,
    ] = user_lists(&share).map(|list| list.expanded(substitutions));
    share
}

/// In the order of [`with_names`].
fn user_lists(share: &config::Share) -> [&UserList; 5] {
    let config::Share { admin_users, invalid_users, read_list, valid_users, write_list, .. } =
        share;
    [admin_users, invalid_users, read_list, valid_users, write_list]
}

/// Whether a share names `%g` or `%G`: the look-up takes as long as the system's name service.
pub(super) fn names_group(share: &config::Share) -> bool {
    let is_named = |text: &str| text.contains("%g") || text.contains("%G");
    let texts = [&share.path, &share.comment, &share.volume];
    let mut names = user_lists(share).into_iter().flat_map(UserList::words);
    texts.into_iter().any(|text| is_named(text)) || names.any(|name| is_named(&name))
}

/// The name of a user's own group; empty if it has none.
pub(super) fn group_name(user: &UnixUser) -> String {
    unix::group_name(user.credentials.gid).unwrap_or_default()
}

/// The user with root's rights, but in their own groups, so that what they make belongs to those. Whom the
/// system does not know is root.
pub(super) fn administrator(user: Option<UnixUser>) -> Result<UnixUser, ShareRefusal> {
    let Some(mut user) = user else { return known_user("root") };
    user.credentials.uid = 0;
    Ok(user)
}

/// The user of this name, who must be there.
pub(super) fn known_user(name: &str) -> Result<UnixUser, ShareRefusal> {
    match unix::find_user(name) {
        Ok(Some(user)) => Ok(user),
        Ok(None) => {
            warn!("there is no user {name} on this system");
            Err(ShareRefusal::AccessDenied)
        }
        Err(error) => {
            warn!("{error:#}");
            Err(ShareRefusal::AccessDenied)
        }
    }
}
