//! The keys of the machine's account, from winbindd's database of secrets.
//!
//! winbindd writes the next password there before it changes it in the domain. So a look at the
//! time of the last change before each ticket finds every key that a controller can use.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use logon::machine_secrets::MachineSecrets;
use rustix::fs::{MemfdFlags, memfd_create};
use tdb::Tdb;
use tracing::info;

/// The newest keys that were read.
#[derive(Debug, Default)]
pub(crate) struct MachineKeys(Mutex<Option<Loaded>>);

#[derive(Debug)]
struct Loaded {
    stamp: Stamp,
    keytab: Arc<KeytabInMemory>,
}

/// Identity of a file's content: device, inode, size, and time of the last change.
type Stamp = (u64, u64, u64, i64, i64);

/// A keytab that no file system has.
#[derive(Debug)]
pub(crate) struct KeytabInMemory(OwnedFd);

impl KeytabInMemory {
    fn new(content: &[u8]) -> io::Result<Self> {
        let mut file = File::from(memfd_create("keytab", MemfdFlags::CLOEXEC)?);
        file.write_all(content)?;
        Ok(Self(file.into()))
    }

    /// Returns its name for the library.
    pub(crate) fn path(&self) -> String {
        format!("FILE:/proc/self/fd/{}", self.0.as_fd().as_raw_fd())
    }
}

impl MachineKeys {
    /// Returns the keys of the present and the neighbouring passwords of the account in the domain
    /// `workgroup`; none if none of the files exists.
    ///
    /// winbindd may be writing: then the former keys serve until the next ticket.
    pub(crate) fn current(
        &self,
        files: &[PathBuf],
        workgroup: &str,
    ) -> Result<Option<Arc<KeytabInMemory>>, String> {
        let mut loaded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((file, stamp)) = files.iter().find_map(|file| Some((file, stamp(file)?))) else {
            *loaded = None;
            return Ok(None);
        };
        if let Some(Loaded { keytab, .. }) = loaded.as_ref().filter(|it| it.stamp == stamp) {
            return Ok(Some(Arc::clone(keytab)));
        }
        match (read(file, workgroup), &*loaded) {
            (Ok(keytab), _) => {
                info!("the keys of this machine in {workgroup} are read from {}", file.display());
                let keytab = Arc::new(keytab);
                *loaded = Some(Loaded { stamp, keytab: Arc::clone(&keytab) });
                Ok(Some(keytab))
            }
            (Err(ReadError::Unreadable(_)), Some(former)) => Ok(Some(Arc::clone(&former.keytab))),
            (Err(error), _) => {
                *loaded = None;
                Err(format!("{}: {error}", file.display()))
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    #[error("it has no account of this machine in {0}: `net ads join` makes one")]
    NotJoined(String),
}

fn read(file: &Path, workgroup: &str) -> Result<KeytabInMemory, ReadError> {
    let unreadable = |error: &dyn std::fmt::Display| ReadError::Unreadable(error.to_string());
    let database = Tdb::observe(file).map_err(|error| unreadable(&error))?;
    let secrets = database
        .get(&MachineSecrets::record_key(workgroup), MachineSecrets::decode)
        .map_err(|error| unreadable(&error))?
        .ok_or_else(|| ReadError::NotJoined(workgroup.to_owned()))?
        .ok_or_else(|| unreadable(&"the record of this machine has an unknown form"))?;
    KeytabInMemory::new(&secrets.keytab()).map_err(|error| unreadable(&error))
}

fn stamp(file: &Path) -> Option<Stamp> {
    let it = std::fs::metadata(file).ok()?;
    Some((it.dev(), it.ino(), it.size(), it.mtime(), it.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// A record of Samba's with made-up keys.
    const RECORD: &[u8] = include_bytes!("../../logon/src/machine_secrets/record.bin");
    const KEY: &[u8] = b"SECRETS/MACHINE_DOMAIN_INFO/ADLAB";

    fn content(keytab: &KeytabInMemory) -> Vec<u8> {
        let file = File::from(keytab.0.try_clone().expect("a descriptor"));
        let len = file.metadata().expect("a file").len();
        let mut content = vec![0; usize::try_from(len).expect("small")];
        file.read_exact_at(&mut content, 0).expect("readable");
        content
    }

    /// Replaces the database by one with a record, as a new file.
    fn write(file: &Path, key: &[u8], record: &[u8]) {
        let next = file.with_extension("next");
        let database = Tdb::stable(&next, 64).expect("there is space");
        database.insert(key, record).expect("there is space");
        drop(database);
        std::fs::rename(next, file).expect("the same folder");
    }

    #[test]
    fn another_password_is_read_at_the_next_ticket() {
        let folder = tempfile::tempdir().expect("there is space");
        let files = ["missing.tdb", "secrets.tdb"].map(|name| folder.path().join(name));
        let keys = MachineKeys::default();
        let current = || keys.current(&files, "adlab");
        assert!(current().expect("no file is no error").is_none());
        write(&files[1], KEY, RECORD);
        let first = current().expect("readable").expect("keys");
        let again = current().expect("readable").expect("keys");
        assert!(Arc::ptr_eq(&first, &again), "nothing has changed");
        let mut changed = RECORD.to_vec();
        let key = changed.windows(32).position(|it| it == [18 + 64; 32]).expect("the present key");
        changed[key..key + 32].fill(7);
        write(&files[1], KEY, &changed);
        let second = current().expect("readable").expect("keys");
        assert_ne!(content(&first), content(&second));
        assert!(content(&second).windows(32).any(|it| it == [7; 32]));
    }

    #[test]
    fn a_record_of_unknown_form_leaves_the_former_keys_and_one_that_is_gone_does_not() {
        let folder = tempfile::tempdir().expect("there is space");
        let files = [folder.path().join("secrets.tdb")];
        let keys = MachineKeys::default();
        write(&files[0], KEY, b"garbage");
        let error = keys.current(&files, "ADLAB").expect_err("no keys");
        assert!(error.contains("unknown form"), "{error}");
        write(&files[0], KEY, RECORD);
        let first = keys.current(&files, "ADLAB").expect("readable").expect("keys");
        write(&files[0], KEY, &RECORD[..100]);
        let former = keys.current(&files, "ADLAB").expect("the former ones").expect("keys");
        assert!(Arc::ptr_eq(&first, &former));
        write(&files[0], b"SECRETS/SID/ADLAB", b"another");
        let error = keys.current(&files, "ADLAB").expect_err("it has left the domain");
        assert!(error.contains("net ads join"), "{error}");
    }
}
