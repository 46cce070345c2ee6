//! Users who may manage the server over the network: root, and those in `choro:administrators`.
//!
//! Whoever may add a share can share any folder of the host, so neither `admin users` of a share
//! nor a group of a domain makes somebody an administrator.

use config::{Config, UserList};
use dtyp::Sid;
use rpc::Caller;

use super::share_users::Memberships;

/// True if a caller may manage the server.
pub(super) fn is_administrator(config: &Config, caller: &Caller) -> bool {
    let Some(sid) = &caller.sid else { return false };
    is_one(config, &caller.user, (sid, &caller.groups[..]), caller.is_guest)
}

/// True if the user with these SIDs, and groups, may manage the server.
pub(super) fn is_one(
    config: &Config,
    user: &str,
    (sid, groups): (&Sid, &[Sid]),
    is_guest: bool,
) -> bool {
    if is_guest {
        return false;
    }
    let memberships = Memberships::of_user(user, groups);
    let is_sid =
        |word: &str| Sid::parse(word).is_some_and(|named| named == *sid || groups.contains(&named));
    *sid == Sid::unix_user(0)
        || words(config).iter().any(|word| is_sid(word))
        || list(config).contains(user, |kind, group| memberships.is_listed(kind, group))
}

/// True for a user whose name, or whose id, makes an administrator. Groups are not looked up.
pub(super) fn is_named(config: &Config, user: &str, uid: u32) -> bool {
    uid == 0 || list(config).contains(user, |_, _| false)
}

fn list(config: &Config) -> UserList {
    UserList::new(words(config)).expanded(&config.substitutions())
}

fn words(config: &Config) -> Vec<String> {
    config.global.option("choro", "administrators").map(config::list::words).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use config::Config;
    use dtyp::Sid;
    use rpc::Caller;

    use super::{is_administrator, is_named};

    #[test]
    fn administrators_are_root_and_the_listed_users() {
        let text = "choro:administrators = anna, S-1-5-21-1-2-3-512\nadmin users = bob\n";
        let (config, _) = Config::parse(text, "test").expect("it is well-formed");
        let admins = Sid::new(5, &[21, 1, 2, 3, 512]);
        let caller = |user: &str, uid, groups: &[Sid], is_guest| Caller {
            user: user.to_owned(),
            sid: Some(Sid::unix_user(uid)),
            groups: Arc::from(groups),
            is_guest,
            ..Caller::default()
        };
        for (user, uid, groups, is_guest, wanted) in [
            ("Anna", 1_000, &[][..], false, true),
            ("carla", 0, &[], false, true),
            ("carla", 1_001, std::slice::from_ref(&admins), false, true),
            ("bob", 1_002, &[], false, false),
            ("carla", 1_001, &[Sid::administrators()], false, false),
            ("anna", 1_000, &[], true, false),
        ] {
            let caller = caller(user, uid, groups, is_guest);
            assert_eq!(is_administrator(&config, &caller), wanted, "{caller:?}");
        }
        let unknown = Caller { user: "anna".to_owned(), ..Caller::default() };
        assert!(!is_administrator(&config, &unknown), "a user without a SID");
        assert!(is_named(&config, "ANNA", 5) && is_named(&config, "x", 0));
        assert!(!is_named(&config, "bob", 5));
    }
}
