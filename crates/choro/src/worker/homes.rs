//! `[homes]`: a share for each user of the system, made when somebody asks for it. As in Samba.

use config::{Config, Share};
use dtyp::upcase::equal_ignoring_case;
use tracing::warn;

use super::mapped_names::MappedNames;
use super::unix::{self, UnixUser};

/// The name by which everybody reaches their own home.
pub(super) const OWN: &str = "homes";

/// The share that somebody reaches by a name: one of the configuration, or a home. `user` is who asks,
/// `None` for guests.
///
/// Whose home it is makes no difference: that is for `valid users = %S` and for the kernel to say.
pub(super) fn find_share(
    config: &Config,
    names: &MappedNames,
    name: &str,
    user: Option<&str>,
) -> Option<Share> {
    let homes = config.homes.as_ref();
    let name = match user {
        Some(user) if homes.is_some() && equal_ignoring_case(name, OWN) => user,
        _ => name,
    };
    if let Some(share) = config.share(name) {
        return Some(share.clone());
    }
    let homes = homes?;
    let mut found = find_user(name);
    if found.is_none() {
        // Who may log on without being a user of the system has a home, too, where `path` says.
        if let Some(own) = user.filter(|user| equal_ignoring_case(user, name)) {
            return home(homes, own.to_owned(), "");
        }
        found = find_user(&names.user(name));
    }
    let UnixUser { name, home: folder, .. } = found?;
    // The user may be called something else than what was asked for.
    config.share(&name).cloned().or_else(|| home(homes, name, &folder))
}

fn home(pattern: &Share, name: String, folder: &str) -> Option<Share> {
    let mut share = pattern.clone();
    if share.comment.is_empty() {
        share.comment = "Home directory of %S".to_owned();
    }
    if share.path.is_empty() {
        share.path = folder.replace('%', "%%");
    }
    share.name = name;
    (!share.path.is_empty()).then_some(share)
}

/// The user of that name. Clients write it as they please, systems mostly in small letters.
fn find_user(name: &str) -> Option<UnixUser> {
    let find = |name: &str| {
        unix::find_user(name).unwrap_or_else(|error| {
            warn!("{error:#}");
            None
        })
    };
    find(name).or_else(|| find(&name.to_lowercase()))
}
