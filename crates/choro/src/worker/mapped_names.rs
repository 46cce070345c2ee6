//! `username map`: whom clients mean by the names they give.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use config::{Config, GroupKind, UsernameMap};
use tracing::warn;

use super::unix;
use crate::fingerprint::Fingerprint;

/// What the file may have: some ten thousand names.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The file. It is looked at for each logon and read when it has changed: strangers, who need no
/// password to give a name, must not have it read again and again.
#[derive(Debug)]
pub(super) struct MappedNames {
    /// Empty if there is none.
    path: String,
    read: Mutex<Option<(Fingerprint, Arc<UsernameMap>)>>,
}

impl MappedNames {
    /// Those of a configuration.
    pub(super) fn of(config: &Config) -> Self {
        let path = config.substitutions().expand_path(&config.global.username_map);
        Self { path, read: Mutex::default() }
    }

    /// The user who is meant by a name. Where the file cannot be read names mean themselves, and a
    /// message says so.
    pub(super) fn user<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.path.is_empty() {
            return name.into();
        }
        let map = match self.map() {
            Ok(map) => map,
            Err(error) => {
                warn!("username map {}: {error}", self.path);
                return name.into();
            }
        };
        let user = map.user(name, |kind, group| kind == GroupKind::Unix && is_member(name, group));
        user.map_or_else(|| name.into(), |user| user.to_owned().into())
    }

    /// The map as the file has it now.
    fn map(&self) -> io::Result<Arc<UsernameMap>> {
        let now = Fingerprint::of(&fs::metadata(&self.path)?);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((fingerprint, map)) = &*read
            && *fingerprint == now
        {
            return Ok(Arc::clone(map));
        }
        let file = File::open(&self.path)?;
        let fingerprint = Fingerprint::of(&file.metadata()?);
        let map = Arc::new(UsernameMap::parse(&text_of(file)?));
        *read = Some((fingerprint, Arc::clone(&map)));
        Ok(map)
    }
}

fn text_of(file: File) -> io::Result<String> {
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_only_when_it_has_changed() {
        let folder = tempfile::tempdir().expect("there is space");
        let path = folder.path().join("names");
        fs::write(&path, "anna = ann\n").expect("there is space");
        let names =
            MappedNames { path: path.to_str().expect("UTF-8").to_owned(), read: Mutex::default() };
        assert_eq!(names.user("ann"), "anna");
        let first = names.map().expect("it is there");
        assert!(Arc::ptr_eq(&first, &names.map().expect("it is there")), "it was read twice");
        fs::write(&path, "bob = ann annie\n").expect("there is space");
        assert_eq!(names.user("ann"), "bob");
        fs::remove_file(&path).expect("ours");
        assert_eq!(names.user("ann"), "ann");
    }
}
