//! Names of users of the system.

/// The name of a user, or the id of one without a name. Of several with the id the preferred one.
pub(super) fn name_of(uid: u32, preferred: &str) -> String {
    let uid_of = |user: &nix::unistd::User| user.uid.as_raw();
    let by_name = nix::unistd::User::from_name(preferred).ok().flatten();
    if by_name.as_ref().map(uid_of) == Some(uid) {
        return preferred.to_owned();
    }
    let found = nix::unistd::User::from_uid(uid.into()).ok().flatten();
    found.map_or_else(|| uid.to_string(), |user| user.name)
}
