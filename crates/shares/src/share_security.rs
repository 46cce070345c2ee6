//! Descriptors of shares: Samba's share_info.tdb, in the `state directory` (`shares_folder`).
//!
//! A share without a descriptor grants all rights to everyone. The file is read at each tree
//! connect, so that a change is in effect at once, also one by Samba's `sharesec`. A change here
//! replaces the whole file: a process that is killed leaves the old descriptors or the new ones.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use dtyp::access_check::{Privileges, Token, access_check};
use dtyp::{AccessMask, Ace, AceFlags, Acl, SecurityDescriptor, Sid};
use proto::Account;
use store::{Credentials, Store};
use tdb::{Change, Tdb};

use super::shares_folder;

/// Samba's name of the file.
pub(super) const FILE_NAME: &str = "share_info.tdb";

/// Samba's number of hash chains for a new file.
const HASH_SIZE: u16 = 131;

/// Key of the format's version, with its NUL, which belongs to all keys.
const VERSION_KEY: &[u8] = b"INFO/version\0";
/// The version since Samba 3.6.
const VERSION: [u8; 4] = 3_u32.to_le_bytes();

/// Descriptors in a file at most, those of removed shares included.
const DESCRIPTORS_MAX: usize = 65_536;

/// Highest number of bytes of a descriptor that is stored: of a request of srvsvc.
const DESCRIPTOR_BYTES_MAX: usize = 64 * 1_024;

/// Returns the path of the file.
pub(super) fn path_of(state: &Path) -> PathBuf {
    shares_folder::path_of(state).join(FILE_NAME)
}

/// Returns the descriptor of a share; `None` for a share without one.
///
/// # Errors
/// The file, or the descriptor, cannot be read.
pub(super) fn read(path: &Path, share: &str) -> anyhow::Result<Option<SecurityDescriptor>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        status => _ = status.with_context(|| path.display().to_string())?,
    }
    let table = Tdb::stable(path, HASH_SIZE).with_context(|| path.display().to_string())?;
    let version = table.get(VERSION_KEY, <[u8]>::to_vec)?;
    ensure!(version.as_deref() == Some(&VERSION[..]), "{}: another format", path.display());
    let Some(bytes) = table.get(&key(share), <[u8]>::to_vec)? else { return Ok(None) };
    let descriptor = SecurityDescriptor::decode(&bytes);
    Ok(Some(descriptor.with_context(|| format!("the descriptor of {share:?} is damaged"))?))
}

/// Replaces or removes the descriptor of a share. The caller keeps other writers out.
///
/// # Errors
/// The file cannot be read or written, or is full.
pub(super) fn write(
    path: &Path,
    share: &str,
    descriptor: Option<&SecurityDescriptor>,
) -> anyhow::Result<()> {
    let is_there = path.try_exists().with_context(|| path.display().to_string())?;
    if !is_there && descriptor.is_none() {
        return Ok(());
    }
    // Also refuses another format.
    if read(path, share)?.as_ref() == descriptor {
        return Ok(());
    }
    let mut records = Vec::new();
    if is_there {
        let table = Tdb::stable(path, HASH_SIZE).with_context(|| path.display().to_string())?;
        let damaged = table.for_each(|key, value| records.push((key.to_vec(), value.to_vec())))?;
        ensure!(damaged == 0, "{} is damaged", path.display());
    } else {
        records.push((VERSION_KEY.to_vec(), VERSION.to_vec()));
    }
    let key = key(share);
    records.retain(|(known, _)| *known != key);
    if let Some(descriptor) = descriptor {
        let bytes = descriptor.to_bytes();
        ensure!(bytes.len() <= DESCRIPTOR_BYTES_MAX, "the descriptor is too long");
        ensure!(records.len() <= DESCRIPTORS_MAX, "{} is full", path.display());
        records.push((key, bytes));
    }
    replace(path, &records)
}

/// Writes a new file beside the old one, and renames it.
fn replace(path: &Path, records: &[(Vec<u8>, Vec<u8>)]) -> anyhow::Result<()> {
    let draft = path.with_extension("draft");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            bail!("{}: {error}", draft.display());
        }
        _ => {}
    }
    let table = Tdb::stable(&draft, HASH_SIZE).with_context(|| draft.display().to_string())?;
    for (key, value) in records {
        table.with_record(key, |_| (Change::Store(value.clone()), ()))?;
    }
    table.sync()?;
    drop(table);
    fs::rename(&draft, path).with_context(|| path.display().to_string())
}

/// Samba's key of a share: its name in small letters.
fn key(share: &str) -> Vec<u8> {
    format!("SECDESC/{}\0", share.to_lowercase()).into_bytes()
}

/// Returns the descriptor of a share that has none: all rights for everyone.
pub(super) fn everyone() -> SecurityDescriptor {
    let entry = Ace::allow(Sid::everyone(), AccessMask::FILE_ALL, AceFlags::empty());
    SecurityDescriptor { dacl: Some(Acl::new(vec![entry])), ..SecurityDescriptor::default() }
}

/// Rights that a share's descriptor gives an account: [MS-SMB2] 3.3.5.7.
pub(super) fn access_of(
    descriptor: &SecurityDescriptor,
    account: &Account,
    is_administrator: bool,
    store: &Store,
) -> AccessMask {
    let mut groups = account.groups.to_vec();
    let index = usize::try_from(account.unix.0).unwrap_or(usize::MAX);
    if let Some(Credentials { uid, gid, groups: gids, sids, .. }) = store.users().nth(index) {
        // Users of a domain, and of Samba's database, have SIDs of both kinds.
        groups.push(Sid::unix_user(*uid));
        groups.extend([gid].into_iter().chain(gids).map(|gid| Sid::unix_group(*gid)));
        groups.extend(sids.iter().cloned());
    }
    if is_administrator {
        groups.push(Sid::administrators());
    }
    access(descriptor, &account.sid, groups, account.is_guest)
}

/// Rights that a share's descriptor gives a user with these groups.
pub(super) fn access(
    descriptor: &SecurityDescriptor,
    user: &Sid,
    mut groups: Vec<Sid>,
    is_guest: bool,
) -> AccessMask {
    groups.extend(match is_guest {
        true => Credentials::well_known_of_guests(),
        false => Credentials::well_known(),
    });
    let privileges = Privileges::default();
    let token = Token { user, groups: &groups, privileges };
    access_check(descriptor, &token, AccessMask::MAXIMUM_ALLOWED).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use dtyp::{AccessMask, Ace, AceFlags, Acl, SecurityDescriptor, Sid};

    use super::{FILE_NAME, read, write};

    fn allowing(sid: Sid) -> SecurityDescriptor {
        let entry = Ace::allow(sid, AccessMask::FILE_ALL, AceFlags::empty());
        let dacl = Some(Acl::new(vec![entry]));
        let descriptor = SecurityDescriptor { dacl, ..SecurityDescriptor::default() };
        SecurityDescriptor::decode(&descriptor.to_bytes()).expect("well-formed")
    }

    #[test]
    fn descriptors_are_kept_by_name_in_any_case_and_removed_alone() {
        let folder = tempfile::tempdir().expect("there is space");
        let path = folder.path().join(FILE_NAME);
        assert_eq!(read(&path, "films").expect("no file"), None);
        write(&path, "films", None).expect("nothing to do");
        assert!(!path.exists(), "nobody needs the file");
        let (one, two) = (allowing(Sid::everyone()), allowing(Sid::unix_user(7)));
        write(&path, "Films", Some(&one)).expect("there is space");
        write(&path, "data", Some(&two)).expect("there is space");
        assert_eq!(read(&path, "fILMS").expect("readable"), Some(one));
        write(&path, "films", None).expect("there is space");
        assert_eq!(read(&path, "films").expect("readable"), None);
        assert_eq!(read(&path, "data").expect("readable"), Some(two));
        let files: Vec<_> = fs::read_dir(folder.path()).expect("ours").flatten().collect();
        assert_eq!(files.len(), 1, "no draft is left: {files:?}");
    }

    #[test]
    fn a_file_that_cannot_be_understood_gives_nobody_rights() {
        let folder = tempfile::tempdir().expect("there is space");
        let path = folder.path().join(FILE_NAME);
        fs::write(&path, b"no table").expect("there is space");
        read(&path, "films").expect_err("it is no table");
        fs::remove_file(&path).expect("ours");
        write(&path, "films", Some(&allowing(Sid::everyone()))).expect("there is space");
        let table = tdb::Tdb::stable(&path, 1).expect("a table");
        let store = |key: &[u8], value: &[u8]| {
            let change = tdb::Change::Store(value.to_vec());
            table.with_record(key, |_| (change, ())).expect("there is space");
        };
        store(b"SECDESC/films\0", b"\x01\x00");
        drop(table);
        read(&path, "films").expect_err("the descriptor is cut");
        let table = tdb::Tdb::stable(&path, 1).expect("a table");
        let old = tdb::Change::Store(2_u32.to_le_bytes().to_vec());
        table.with_record(super::VERSION_KEY, |_| (old, ())).expect("there is space");
        drop(table);
        read(&path, "data").expect_err("an old format");
    }
}
