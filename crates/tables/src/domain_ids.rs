//! Ids that winbindd gave to users and groups of a domain, by their SIDs.
//!
//! `logond` writes them, for everybody who logs on or whose name is looked up. Workers read them to
//! make POSIX ACLs of descriptors. The file is in the state directory: descriptors last longer than
//! a run of the server. It has as many records as the domain has users and groups with ids here.

use std::io;
use std::path::Path;

use dtyp::Sid;
use tdb::{Change, Tdb};

/// The ids, open in this process once.
#[derive(Debug)]
pub struct DomainIds(Tdb);

/// User or group of this system.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DomainId {
    /// A user with this id.
    User(u32),
    /// A group with this id.
    Group(u32),
}

impl DomainIds {
    /// Opens the file, and makes it if necessary.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(state_dir: &Path) -> io::Result<Self> {
        Tdb::stable(&state_dir.join(NAME), HASH_SIZE).map(Self)
    }

    /// Remembers the id of a SID. What is known already costs no write.
    ///
    /// # Errors
    /// The file is full or damaged.
    pub fn learn(&self, sid: &Sid, id: DomainId) -> Result<(), tdb::TdbError> {
        if self.id_of(sid) == Some(id) {
            return Ok(());
        }
        self.0.with_record(&key(sid), |_| (Change::Store(record(id)), ()))
    }

    /// Returns the id of a SID, if it is known.
    #[must_use]
    pub fn id_of(&self, sid: &Sid) -> Option<DomainId> {
        self.0.get(&key(sid), parse).ok().flatten().flatten()
    }
}

fn key(sid: &Sid) -> Vec<u8> {
    let mut key = Vec::with_capacity(sid.encoded_len());
    sid.encode(&mut key);
    key
}

fn record(id: DomainId) -> Vec<u8> {
    let (kind, id) = match id {
        DomainId::User(uid) => (USER, uid),
        DomainId::Group(gid) => (GROUP, gid),
    };
    [&[kind][..], &id.to_le_bytes()].concat()
}

fn parse(record: &[u8]) -> Option<DomainId> {
    let (kind, id) = record.split_first()?;
    let id = u32::from_le_bytes(id.try_into().ok()?);
    match *kind {
        USER => Some(DomainId::User(id)),
        GROUP => Some(DomainId::Group(id)),
        _ => None,
    }
}

/// Name of the file in the state directory.
const NAME: &str = "domain_ids.tdb";
/// Chains of a domain with some ten thousand users.
const HASH_SIZE: u16 = 10_007;
const USER: u8 = 1;
const GROUP: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_outlive_the_process_and_change_when_winbindd_changes_them() {
        let folder = tempfile::tempdir().expect("there is space");
        let [alice, engineers] = [1_103, 1_106].map(|rid| Sid::new(5, &[21, 1, 2, 3, rid]));
        let ids = DomainIds::open(folder.path()).expect("a new file");
        assert_eq!(ids.id_of(&alice), None);
        ids.learn(&alice, DomainId::User(5)).expect("there is space");
        ids.learn(&engineers, DomainId::Group(6)).expect("there is space");
        ids.learn(&alice, DomainId::User(7)).expect("there is space");
        drop(ids);
        let ids = DomainIds::open(folder.path()).expect("the same file");
        assert_eq!(ids.id_of(&alice), Some(DomainId::User(7)));
        assert_eq!(ids.id_of(&engineers), Some(DomainId::Group(6)));
    }

    #[test]
    fn a_damaged_record_is_nobody() {
        assert_eq!(parse(&record(DomainId::Group(9))), Some(DomainId::Group(9)));
        for damaged in [&[][..], &[1, 2, 3], &[3, 0, 0, 0, 0], &[1, 0, 0, 0, 0, 0]] {
            assert_eq!(parse(damaged), None);
        }
    }
}
