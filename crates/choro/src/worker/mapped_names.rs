//! `username map`: whom clients mean by the names they give.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};

use config::{Config, GroupKind, UsernameMap};
use tracing::warn;

use super::unix;

/// What the file may have: some ten thousand names.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The file, which is read at each logon: what is written there holds for the next one.
#[derive(Debug)]
pub(super) struct MappedNames {
    /// Empty if there is none.
    path: String,
}

impl MappedNames {
    /// Those of a configuration.
    pub(super) fn of(config: &Config) -> Self {
        Self { path: config.substitutions().expand_path(&config.global.username_map) }
    }

    /// The user who is meant by a name. Where the file cannot be read names mean themselves, and a
    /// message says so.
    pub(super) fn user<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.path.is_empty() {
            return name.into();
        }
        let text = match read(&self.path) {
            Ok(text) => text,
            Err(error) => {
                warn!("username map {}: {error}", self.path);
                return name.into();
            }
        };
        let map = UsernameMap::parse(&text);
        let user = map.user(name, |kind, group| kind == GroupKind::Unix && is_member(name, group));
        user.map_or_else(|| name.into(), |user| user.to_owned().into())
    }
}

fn read(path: &str) -> io::Result<String> {
    let mut text = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    // A name in another encoding is nobody's, and the other names are what they are.
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn is_member(user: &str, group: &str) -> bool {
    let credentials = unix::find_user(user).ok().flatten().map(|user| user.credentials);
    let gid = unix::find_group(group).ok().flatten();
    credentials.zip(gid).is_some_and(|(it, gid)| it.gid == gid || it.groups.contains(&gid))
}
