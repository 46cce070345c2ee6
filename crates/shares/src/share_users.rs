//! Users who may connect to a share: its lists, and the substitutions in them.

use std::cell::Cell;

use config::{Config, GroupKind, Substitutions, UserList};
use dtyp::Sid;
use proto::Account;
use rpc::Caller;
use store::Store;

use super::domain_sid;
use super::found_share::FoundShare;
use super::refusal::Refusal;
use super::requester::Requester;
use super::served::warn_for_user;
use super::unix::{self, UnixUser};

/// True if these groups include the group with that name. A group that cannot be looked up has no
/// members.
pub(super) fn is_member(groups: &[Sid], group: &str) -> bool {
    Memberships::of_user("", groups).is_member(group)
}

/// The groups that somebody is in, by their names.
#[derive(Debug)]
pub(super) struct Memberships<'a> {
    user: &'a str,
    groups: &'a [Sid],
    find_group: FindGroup,
    find_netgroup: FindNetgroup,
    is_unknown: Cell<bool>,
}

/// Function that tells whether a netgroup includes a user.
type FindNetgroup = fn(&str, &str) -> anyhow::Result<bool>;

/// Function that looks up a group's id.
type FindGroup = fn(&str) -> anyhow::Result<Option<u32>>;

impl<'a> Memberships<'a> {
    pub(super) fn of(account: &'a Account) -> Self {
        Self::of_user(&account.user, &account.groups)
    }

    pub(super) fn of_user(user: &'a str, groups: &'a [Sid]) -> Self {
        Self {
            user,
            groups,
            find_group: unix::find_group,
            find_netgroup: unix::is_in_netgroup,
            is_unknown: Cell::new(false),
        }
    }

    /// True if the share's lists admit a user in these groups. If the name service fails, the
    /// members of `invalid users` are unknown, and the user is kept out.
    pub(super) fn are_admitted(&self, share: &config::Share) -> bool {
        share.admits(self.user, |kind, group| self.is_listed(kind, group)) && !self.is_unknown()
    }

    /// True if a list of users that names this group includes the user.
    pub(super) fn is_listed(&self, kind: GroupKind, group: &str) -> bool {
        match kind {
            GroupKind::Unix => self.is_member(group),
            GroupKind::Netgroup => self.is_in_netgroup(group),
        }
    }

    fn is_in_netgroup(&self, netgroup: &str) -> bool {
        (self.find_netgroup)(netgroup, self.user).unwrap_or_else(|error| {
            warn_for_user!("netgroup {netgroup}: {error:#}");
            self.is_unknown.set(true);
            false
        })
    }

    pub(super) fn is_member(&self, group: &str) -> bool {
        match (self.find_group)(group) {
            Ok(None) if domain_sid::is_among(self.groups) => {
                warn_for_user!(
                    "group {group} is not found: the name service may lack libnss-winbind"
                );
                self.is_unknown.set(true);
                false
            }
            Ok(gid) => gid.is_some_and(|gid| self.groups.contains(&Sid::unix_group(gid))),
            Err(error) => {
                warn_for_user!("group {group}: {error:#}");
                self.is_unknown.set(true);
                false
            }
        }
    }

    /// True when the name service failed for one of the groups that was asked for.
    pub(super) fn is_unknown(&self) -> bool {
        self.is_unknown.get()
    }
}

/// Whether a user may connect to a share, as far as its lists of users say.
pub(super) fn admits(config: &Config, share: &config::Share, caller: &Caller) -> bool {
    let known = substitutions_of(config, &caller.user, &caller.domain, share);
    let known = Requester::from(&caller.origin).add_to(known);
    let share = with_names(FoundShare::Configured(share), &known);
    Memberships::of_user(&caller.user, &caller.groups).are_admitted(&share)
}

/// Returns the substitutions for a share and its requester.
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
pub(super) fn with_names<'a>(
    share: FoundShare<'a>,
    substitutions: &Substitutions,
) -> FoundShare<'a> {
    if user_lists(&share).into_iter().all(UserList::is_empty) {
        return share;
    }
    let mut share = share.into_made();
    [
        share.admin_users,
        share.invalid_users,
        share.read_list,
        share.valid_users,
        share.write_list,
    ] = user_lists(&share).map(|list| list.expanded(substitutions));
    FoundShare::Made(share)
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
    let commands = share.commands();
    let mut texts = texts.into_iter().map(String::as_str).chain(commands);
    texts.any(is_named) || names.any(|name| is_named(&name))
}

/// The name of a user's own group; empty if it has none, or the name service fails.
pub(super) fn group_name(user: &UnixUser) -> String {
    let named = unix::group_name(user.credentials.gid);
    named.inspect_err(|error| warn_for_user!("{error:#}")).ok().flatten().unwrap_or_default()
}

/// Returns the user with root's rights, but in the user's own groups, so that created files belong
/// to them. A user unknown to the system is root.
pub(super) fn administrator(user: Option<UnixUser>) -> Result<UnixUser, Refusal> {
    let Some(mut user) = user else { return known_user("root") };
    user.credentials.uid = 0;
    Ok(user)
}

/// Returns the user of an account. A user of a domain keeps the ids and SIDs of the logon: by the
/// name it might be another user of this system.
pub(super) fn own_user(account: &Account, store: &Store) -> Result<UnixUser, Refusal> {
    let index = usize::try_from(account.unix.0).unwrap_or(usize::MAX);
    let credentials = store.users().nth(index).ok_or(Refusal::NoIdentity)?;
    if credentials.sid.is_none() {
        return known_user(&account.user);
    }
    let (name, credentials) = (account.user.clone(), credentials.clone());
    Ok(UnixUser { name, home: String::new(), credentials })
}

/// The user of this name, who must be there.
pub(super) fn known_user(name: &str) -> Result<UnixUser, Refusal> {
    match unix::find_user(name) {
        Ok(Some(user)) => Ok(user),
        Ok(None) => {
            warn_for_user!("there is no user {name} on this system");
            Err(Refusal::NoUser(name.to_owned()))
        }
        Err(error) => {
            warn_for_user!("{error:#}");
            Err(Refusal::NoIdentity)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use config::GroupKind;
    use dtyp::Sid;

    use super::Memberships;

    /// A user in no group.
    fn nobody() -> Memberships<'static> {
        Memberships {
            user: "anna",
            groups: &[],
            find_group: |_| Ok(None),
            find_netgroup: |_, _| Ok(false),
            is_unknown: Cell::new(false),
        }
    }

    #[test]
    fn a_netgroup_admits_and_excludes_its_users() {
        let (config, _) = config::Config::parse(
            "[in]\npath = /i\nvalid users = &team\n[either]\npath = /e\nvalid users = @team\n\
             [unix]\npath = /u\nvalid users = +team\n\
             [out]\npath = /o\ninvalid users = &team\n",
            "test",
        )
        .expect("it is well-formed");
        let admitting = |user, find_netgroup| {
            let memberships = || Memberships { user, find_netgroup, ..nobody() };
            let admits = |share: &&config::Share| memberships().are_admitted(share);
            config.shares.iter().filter(admits).map(|it| it.name.as_str()).collect::<Vec<_>>()
        };
        let team: super::FindNetgroup = |netgroup, user| Ok((netgroup, user) == ("team", "anna"));
        assert_eq!(admitting("anna", team), ["in", "either"]);
        assert_eq!(admitting("bob", team), ["out"]);
        let fails: super::FindNetgroup = |_, _| anyhow::bail!("no answer");
        assert_eq!(admitting("anna", fails), [""; 0], "nobody knows whom `out` excludes");
    }

    #[test]
    fn a_group_that_is_not_found_may_be_one_of_a_domain_s_user() {
        let of_domain = [Sid::unix_group(7), Sid::new(5, &[21, 1, 2, 3, 513])];
        for (groups, want) in [(&of_domain[..1], false), (&of_domain[..], true)] {
            let find_group = |_: &str| Ok(None);
            let memberships = Memberships { groups, find_group, ..nobody() };
            assert!(!memberships.is_listed(GroupKind::Unix, "ADLAB\\engineers"));
            assert_eq!(memberships.is_unknown(), want);
        }
    }

    #[test]
    fn a_group_that_cannot_be_looked_up_is_no_group_that_somebody_is_not_in() {
        let groups = [Sid::unix_group(7)];
        let memberships = Memberships {
            groups: &groups,
            find_group: |name| match name {
                "seven" => Ok(Some(7)),
                "none" => Ok(None),
                _ => anyhow::bail!("the directory is away"),
            },
            ..nobody()
        };
        assert!(memberships.is_listed(GroupKind::Unix, "seven"));
        assert!(!memberships.is_listed(GroupKind::Unix, "none"));
        assert!(!memberships.is_unknown());
        assert!(!memberships.is_listed(GroupKind::Unix, "shut out"));
        assert!(memberships.is_unknown());
    }
}
