//! `[homes]`: a share for each user of the system, made at a tree connect, as in Samba.

use std::borrow::Cow;
use std::path::{Component, Path};

use config::{Config, Share};
use dtyp::upcase::equal_ignoring_case;

use super::found_share::FoundShare;
use super::mapped_names::MappedNames;
use super::served::info_for_user;
use super::unix::{self, UnixUser};

/// Name by which all users reach their own homes.
pub(super) const OWN: &str = "homes";

/// Returns the share of a name: one of the configuration, or a home. `user` is the requester,
/// `None` for guests.
///
/// Any user's home can be found: `valid users = %S` and the kernel decide on access.
///
/// # Errors
/// Nobody can tell now whether it is a user's name. It is no other share's then.
pub(super) fn find_share<'a>(
    config: &'a Config,
    names: &MappedNames,
    name: &str,
    user: Option<&str>,
) -> anyhow::Result<Option<FoundShare<'a>>> {
    let look_ups = LookUps { find: unix::find_user_for_client, map: MappedNames::user };
    find_share_by(config, names, (name, user), look_ups)
}

/// As [`find_share`], for a share that was found so before: its name is no guess of a client, which
/// has only so much time for guesses.
pub(super) fn find_share_again<'a>(
    config: &'a Config,
    names: &MappedNames,
    name: &str,
    user: Option<&str>,
) -> anyhow::Result<Option<FoundShare<'a>>> {
    let look_ups = LookUps { find: unix::find_user, map: MappedNames::proved_user };
    find_share_by(config, names, (name, user), look_ups)
}

fn find_share_by<'a>(
    config: &'a Config,
    names: &MappedNames,
    (name, user): (&str, Option<&str>),
    others: LookUps,
) -> anyhow::Result<Option<FoundShare<'a>>> {
    let homes = config.homes.as_ref();
    let name = match user {
        Some(user) if homes.is_some() && equal_ignoring_case(name, OWN) => user,
        _ => name,
    };
    if let Some(share) = config.share(name) {
        return Ok(Some(FoundShare::Configured(share)));
    }
    let Some(homes) = homes else { return Ok(None) };
    let own = user.filter(|user| equal_ignoring_case(user, name));
    let find = if own.is_some() { unix::find_user } else { others.find };
    let found = match find_user(name, find)? {
        Some(found) => Some(found),
        None => match own {
            // A user unknown to the system has a home, too, if `path` is set.
            Some(own) => return Ok(home(homes, own.to_owned(), "")),
            None => find_user(&(others.map)(names, name)?, find)?,
        },
    };
    let found = found.filter(|found| has_home(config, homes, found));
    // The user's name may differ from the requested one.
    Ok(found.and_then(|UnixUser { name, home: folder, .. }| {
        let configured = config.share(&name).map(FoundShare::Configured);
        configured.or_else(|| home(homes, name, &folder))
    }))
}

/// Returns true if `[homes]` includes this user. Accounts of the system's programs have folders
/// such as `/dev` and `/usr/sbin`, which must not be exported.
fn has_home(config: &Config, homes: &Share, user: &UnixUser) -> bool {
    let UnixUser { name, home, credentials } = user;
    let min = config.global.homes_min_uid;
    if credentials.uid < min {
        info_for_user!(
            "[homes]: {name} has the id {}, below `homes min uid = {min}`",
            credentials.uid
        );
        return false;
    }
    let is_system_folder = homes.path.is_empty() || homes.path.contains("%H");
    !is_system_folder || !is_root_folder(Path::new(home))
}

/// Returns true for every spelling of `/`, and for paths that may lead to it.
pub(super) fn is_root_folder(folder: &Path) -> bool {
    let is_name = |it: Component<'_>| matches!(it, Component::Normal(_));
    let leads_up = |it: Component<'_>| it == Component::ParentDir;
    !folder.components().any(is_name) || folder.components().any(leads_up)
}

fn home(pattern: &Share, name: String, folder: &str) -> Option<FoundShare<'static>> {
    let mut share = Box::new(pattern.clone());
    if share.comment.is_empty() {
        share.comment = "Home directory of %S".to_owned();
    }
    if share.path.is_empty() {
        share.path = folder.replace('%', "%%");
    }
    share.name = name;
    (!share.path.is_empty()).then_some(FoundShare::Made(share))
}

/// [`unix::find_user`] for the user's own name, which is proved; [`unix::find_user_for_client`] for
/// names chosen by the client.
type FindUser = fn(&str) -> anyhow::Result<Option<UnixUser>>;

/// How the user of a share's name is looked up that is not the requester's own.
struct LookUps {
    find: FindUser,
    /// The user whom `username map` has for the name.
    map: for<'a> fn(&MappedNames, &'a str) -> anyhow::Result<Cow<'a, str>>,
}

/// Returns the user of that name. Clients write it in any case, systems mostly in lower case.
fn find_user(name: &str, find: FindUser) -> anyhow::Result<Option<UnixUser>> {
    match find(name)? {
        None if name != name.to_lowercase() => find(&name.to_lowercase()),
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use config::Config;
    use process::SystemUser;
    use store::Credentials;

    use super::super::name_service::{Answer, Question};
    use super::super::unix;
    use super::{MappedNames, UnixUser, find_share, find_share_again, has_home, is_root_folder};

    const HOMES: &str = "homes min uid = 1\n[homes]\npath = /srv/%S\n";

    #[test]
    fn look_ups_of_share_names_end_with_the_time_that_clients_have() {
        unix::replace_name_service(|_| {
            let (name, home) = ("carl".to_owned(), "/home/carl".to_owned());
            let user = SystemUser { name, home, uid: 1_000, ..SystemUser::default() };
            Ok(Answer::User(Some(user)))
        });
        let (config, _) = Config::parse(HOMES, "test").expect("it is well-formed");
        let names = MappedNames::of(&config);
        let find = |name, user| matches!(find_share(&config, &names, name, user), Ok(Some(_)));
        assert!(find("carl", Some("anna")) && find("carl", None));
        unix::exhaust_time_of_clients();
        assert!(!find("bob", Some("anna")) && !find("bob", None));
        assert!(find("homes", Some("anna")), "a user's own home is still found");
    }

    /// Other questions of a client, or of one beside it, may have used that time up.
    #[test]
    fn look_ups_of_a_share_that_was_found_before_need_no_time_of_clients() {
        unix::replace_name_service(|question| {
            Ok(match question {
                Question::GroupId(name) => Answer::Named(Some((name.clone(), 7))),
                _ => Answer::User(None),
            })
        });
        let folder = tempfile::tempdir().expect("there is space");
        let map = folder.path().join("map");
        std::fs::write(&map, "works = @staff\n").expect("there is space");
        let text = format!("username map = {}\n{HOMES}", map.display());
        let (config, _) = Config::parse(&text, "test").expect("it is well-formed");
        let names = MappedNames::of(&config);
        unix::exhaust_time_of_clients();
        find_share(&config, &names, "photos", Some("anna")).expect_err("it is a client's question");
        let found = find_share_again(&config, &names, "photos", Some("anna"));
        assert!(found.expect("it is no client's question").is_none(), "it is nobody's home");
    }

    #[test]
    fn while_the_name_service_fails_nobody_has_a_home() {
        unix::replace_name_service(|_| anyhow::bail!("the directory is away"));
        let (config, _) = Config::parse(HOMES, "test").expect("it is well-formed");
        let names = MappedNames::of(&config);
        for name in ["homes", "anna", "bob"] {
            let found = find_share(&config, &names, name, Some("anna"));
            found.expect_err("another share could have the name");
        }
    }

    #[track_caller]
    fn check(text: &str, uid: u32, home: &str, want: bool) {
        let (config, _) = Config::parse(text, "test").expect("it is well-formed");
        let homes = config.homes.as_ref().expect("it is there");
        let credentials = Credentials { uid, ..Credentials::default() };
        let user = UnixUser { name: "anna".to_owned(), home: home.to_owned(), credentials };
        assert_eq!(has_home(&config, homes, &user), want, "{text} {uid} {home}");
    }

    #[test]
    fn homes_are_those_of_people_and_never_the_whole_machine() {
        let homes = "[homes]\n";
        check(homes, 1_000, "/home/anna", true);
        for (uid, home) in [(0, "/root"), (1, "/usr/sbin"), (3, "/dev"), (999, "/srv/anna")] {
            check(homes, uid, home, false);
        }
        for home in ["/", "//", "/.", "/home/..", ""] {
            check(homes, 1_000, home, false);
            check("[homes]\npath = %H/files\n", 1_000, home, false);
            // The operator's `path` decides, and not the folder that the system has for the user.
            check("[homes]\npath = /srv/homes/%S\n", 1_000, home, true);
        }
        check("homes min uid = 500\n[homes]\n", 500, "/home/anna", true);
        check("homes min uid = 500\n[homes]\n", 499, "/home/anna", false);
        assert!(is_root_folder(Path::new("/")) && !is_root_folder(Path::new("/home")));
    }
}
