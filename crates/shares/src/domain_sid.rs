//! The SID of the server's own domain: made once, kept in `state directory`.
//!
//! Clients remember what they saw, so it must never change; and two servers must not have the same.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use dtyp::Sid;

/// The file's name: the SID in its text form, on a line.
const FILE_NAME: &str = "domain_sid";

/// Bytes that are read of it at most.
const FILE_BYTES_MAX: u64 = 256;

/// Everybody may know it, and nobody else may choose it: workers have no mask of their own.
const FILE_MODE: u32 = 0o644;

/// Bits of a mode by which others could choose it.
const OTHERS_WRITE: u32 = 0o022;

/// Returns the path of the file.
pub(super) fn path_of(state: &Path) -> PathBuf {
    state.join(FILE_NAME)
}

/// Reads the SID, and makes it if there is none.
///
/// # Errors
/// The file cannot be read or made, or holds something else.
pub fn read_or_make(state: &Path) -> anyhow::Result<Sid> {
    let path = path_of(state);
    if let Some(sid) = read(&path)? {
        return Ok(sid);
    }
    let temporary = state.join(format!("{FILE_NAME}.{}", std::process::id()));
    let text = format!("{}\n", random_sid());
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(&temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        // Of several processes that make one at the same time, the first one wins.
        .and_then(|()| fs::hard_link(&temporary, &path));
    // Whether it was linked or not, the name is not needed any more.
    let _ = fs::remove_file(&temporary);
    match made {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("cannot make {}", path.display()));
        }
        _ => {}
    }
    read(&path)?.with_context(|| format!("{} vanished", path.display()))
}

fn read(path: &Path) -> anyhow::Result<Option<Sid>> {
    let reading = || format!("cannot read {}", path.display());
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.with_context(reading)?,
    };
    let metadata = file.metadata().with_context(reading)?;
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut text).with_context(reading)?;
    let Some(sid) = std::str::from_utf8(&text).ok().and_then(|text| parse(text.trim())) else {
        bail!("{} does not hold the SID of a domain", path.display());
    };
    verify_writers(path, &metadata, &sid)?;
    Ok(Some(sid))
}

/// Nobody but root and the server could have chosen what is in the file.
fn verify_writers(path: &Path, metadata: &Metadata, sid: &Sid) -> anyhow::Result<()> {
    let (path, mode) = (path.display(), metadata.mode() & 0o7777);
    // The real user: at the moment this may be done with a client's rights.
    let own = rustix::process::getuid().as_raw();
    ensure!(
        metadata.uid() == 0 || metadata.uid() == own,
        "{path} belongs to the user with id {}, who could have replaced the SID: if {sid} is \
         right, change the file's owner to the server's user, else remove the file",
        metadata.uid()
    );
    ensure!(
        mode & OTHERS_WRITE == 0,
        "{path} is writable by others (mode {mode:04o}), who could have replaced the SID: \
         if {sid} is right, chmod {FILE_MODE:o} the file, else remove it"
    );
    Ok(())
}

/// `S-1-5-21-` and three numbers: [MS-DTYP] 2.4.2.4.
fn parse(text: &str) -> Option<Sid> {
    let numbers: Option<Vec<u32>> =
        text.strip_prefix("S-1-5-21-")?.split('-').map(|number| number.parse().ok()).collect();
    let numbers: [u32; 3] = numbers?.try_into().ok()?;
    Some(of_numbers(numbers))
}

fn of_numbers([a, b, c]: [u32; 3]) -> Sid {
    Sid::new(5, &[21, a, b, c])
}

/// A SID for servers that cannot store one: the same for all of them.
pub(crate) fn nobody() -> Sid {
    of_numbers([0; 3])
}

fn random_sid() -> Sid {
    use std::hash::{BuildHasher, RandomState};
    // Unlike a key this has to be unique, not secret: the standard library's seeds will do.
    let random = || RandomState::new().hash_one(std::process::id()).to_le_bytes();
    let number = || {
        let [a, b, c, d, ..] = random();
        u32::from_le_bytes([a, b, c, d])
    };
    of_numbers([number(), number(), number()])
}

/// True if a user in these groups is of a domain, and may be in groups that only the domain knows.
pub(super) fn is_among(groups: &[Sid]) -> bool {
    let is_domains = |sid: &Sid| sid.authority() == 5 && sid.subauthorities().first() == Some(&21);
    groups.iter().any(is_domains)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    #[test]
    fn it_is_made_once() {
        let state = tempfile::tempdir().expect("there is space");
        let first = read_or_make(state.path()).expect("made");
        assert_eq!(read_or_make(state.path()).expect("read"), first);
        let other = tempfile::tempdir().expect("there is space");
        assert_ne!(read_or_make(other.path()).expect("made"), first);
        assert_eq!(parse(&first.to_string()), Some(first));
    }

    #[test]
    fn a_file_writable_by_others_is_not_taken_for_the_servers_sid() {
        let state = tempfile::tempdir().expect("there is space");
        let path = state.path().join(FILE_NAME);
        let sid = read_or_make(state.path()).expect("made");
        assert_eq!(fs::metadata(&path).expect("made").mode() & 0o777, FILE_MODE);
        for mode in [0o666, 0o664, 0o646] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
            let error = read_or_make(state.path()).expect_err("others could write").to_string();
            assert!(error.contains(&format!("if {sid} is right, chmod 644")), "{error}");
        }
        fs::set_permissions(&path, Permissions::from_mode(FILE_MODE)).expect("it is ours");
        assert_eq!(read_or_make(state.path()).expect("as the message says"), sid);
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(65_534), None).expect("we are root");
            let error = read_or_make(state.path()).expect_err("it is somebody's").to_string();
            assert!(error.contains("belongs to the user with id 65534"), "{error}");
        }
    }

    #[test]
    fn another_text_is_not_overwritten() {
        let state = tempfile::tempdir().expect("there is space");
        for text in ["", "S-1-5-21-1-2", "S-1-5-21-1-2-3-4", "S-1-5-32-1-2-3", "S-1-5-21-1-2-x"] {
            fs::write(state.path().join(FILE_NAME), text).expect("there is space");
            read_or_make(state.path()).expect_err(text);
        }
    }
}
