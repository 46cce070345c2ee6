//! One line of the user database.

use auth::NtHash;
use dtyp::Sid;
use zeroize::Zeroizing;

use super::known_user::{KnownUser, NO_HASH};
use super::{Identity, UserEntry, UsersError};

/// Characters of a name. The longest that Windows' account manager keeps is 256.
const NAME_CHARS_MAX: usize = 256;

/// Lowest RID of a user that an administrator has added: below are built-in users and groups.
const RID_MIN: u32 = 1_000;

/// The characters that [MS-SAMR] 3.1.1.8.4 and Windows' tools refuse in account names, and the
/// separator of this file's fields (which is among them).
const NAME_FORBIDDEN: &[char] =
    &['"', '/', '\\', '[', ']', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@'];

/// Whether `name` can be a user's.
///
/// # Errors
/// [`UsersError::UnfitName`].
pub fn check_name(name: &str) -> Result<(), UsersError> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.chars().count() > NAME_CHARS_MAX {
        "it is longer than 256 characters"
    } else if name.chars().any(char::is_control) {
        "it contains a control character"
    } else if name.contains(NAME_FORBIDDEN) {
        "it contains one of \" / \\ [ ] : ; | = , + * ? < > @"
    } else if name.starts_with('#') {
        "it begins with #"
    } else if name.trim() != name {
        "it begins or ends with a space"
    } else {
        return Ok(());
    };
    Err(UsersError::UnfitName { name: name.to_owned(), reason })
}

/// Makes a full name fit for one line.
pub fn fit_full_name(full_name: &str) -> String {
    full_name.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned()
}

/// Reads a line; `None` for a comment or an empty one.
pub(crate) fn parse(line: &str) -> Result<Option<UserEntry>, &'static str> {
    let Some((hash, user)) = parse_fields(line)? else { return Ok(None) };
    let nt_hash = NtHash::from_hex(hash).ok_or("the hash is not 32 hexadecimal digits")?;
    let KnownUser { name, enabled, full_name, identity, samba_sid } = user;
    Ok(Some(UserEntry { name, nt_hash, enabled, full_name, identity, samba_sid }))
}

/// Reads a line without a hash; `None` for a comment or an empty one.
pub(crate) fn parse_known(line: &str) -> Result<Option<KnownUser>, &'static str> {
    match parse_fields(line)? {
        Some((NO_HASH, user)) => Ok(Some(user)),
        Some(_) => Err("there is a hash"),
        None => Ok(None),
    }
}

/// Reads the fields of a line, the hash as it stands there.
fn parse_fields(line: &str) -> Result<Option<(&str, KnownUser)>, &'static str> {
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let mut fields = line.splitn(4, ':');
    let (Some(name), Some(hash), Some(state), Some(full_name)) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err("expected name:hash:state:full name");
    };
    if check_name(name).is_err() {
        return Err("the name cannot be a user's");
    }
    let (state, samba_sid) = match state.rsplit_once(' ') {
        Some((before, sid)) if sid.starts_with("S-") => (before, Some(parse_samba_sid(sid)?)),
        _ => (state, None),
    };
    let (state, ids) = state.split_once(' ').map_or((state, None), |(it, ids)| (it, Some(ids)));
    let enabled = match state {
        "enabled" => true,
        "disabled" => false,
        _ => return Err("the state is neither 'enabled' nor 'disabled'"),
    };
    let identity = |ids: &str| {
        let (uid, gids) = ids.split_once(' ').ok_or("expected a user id and group ids")?;
        Identity::parse(uid, gids)
    };
    let user = KnownUser {
        name: name.to_owned(),
        enabled,
        full_name: full_name.to_owned(),
        identity: ids.map(identity).transpose()?,
        samba_sid,
    };
    Ok(Some((hash, user)))
}

/// Reads the SID of a user of a domain or a machine: S-1-5-21-x-y-z-RID, [MS-DTYP] 2.4.2.4. Others
/// stand for more than one user, or for the system.
pub(crate) fn parse_samba_sid(text: &str) -> Result<Sid, &'static str> {
    let sid = Sid::parse(text).ok_or("the SID cannot be read")?;
    match *sid.subauthorities() {
        [21, _, _, _, rid] if sid.authority() == 5 && rid >= RID_MIN => Ok(sid),
        _ => Err("the SID is no user's"),
    }
}

/// Appends the line of a user, with its line feed.
pub(crate) fn render(user: &UserEntry, text: &mut Zeroizing<String>) {
    text.push_str(&user.name);
    text.push(':');
    for byte in user.nt_hash.as_bytes() {
        for nibble in [byte >> 4, byte & 0xf] {
            text.push(char::from_digit(u32::from(nibble), 16).expect("a nibble is one digit"));
        }
    }
    render_rest(&user.into(), text);
}

/// Appends the line of a user without a hash, with its line feed.
pub(crate) fn render_known(user: &KnownUser, text: &mut String) {
    text.push_str(&user.name);
    text.push(':');
    text.push_str(NO_HASH);
    render_rest(user, text);
}

/// Appends the fields behind the hash.
fn render_rest(user: &KnownUser, text: &mut String) {
    text.push_str(if user.enabled { ":enabled" } else { ":disabled" });
    if let Some(identity) = &user.identity {
        text.push(' ');
        text.push_str(&identity.to_string());
    }
    if let Some(sid) = &user.samba_sid {
        text.push(' ');
        text.push_str(&sid.to_string());
    }
    text.push(':');
    text.push_str(&user.full_name);
    text.push('\n');
}
