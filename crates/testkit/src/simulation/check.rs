//! Invariants that hold after every step.

use std::collections::{HashMap, HashSet};

use arbitration::{Caching, FileKey, FileRecord, Holding, LeaseId, OpenEntry, OpenId, conflict};
use dtyp::AccessMask;

use super::Simulation;
use super::client::{Handle, Holder, holder};

/// WRITEs of all clients: each has its own data.
#[derive(Debug, Default)]
pub(super) struct Writes {
    performed: HashSet<Vec<u8>>,
}

impl Writes {
    /// Records WRITEs that the store has executed.
    pub(super) fn perform(&mut self, writes: Vec<Vec<u8>>) {
        for token in writes {
            assert!(self.performed.insert(token), "one WRITE is written twice");
        }
    }

    /// Records the result of a WRITE that a client received.
    pub(super) fn answer(&self, token: &[u8], is_done: bool) {
        // A failed WRITE may have been executed: its open was closed meanwhile.
        let is_written = self.performed.contains(token);
        assert!(is_written || !is_done, "a WRITE is acknowledged and was not done");
    }
}

impl Simulation {
    /// # Panics
    /// If the server broke a promise.
    pub(super) fn check(&self) {
        let records = self.supervisor.records();
        for record in records.values() {
            verify_sharing(record);
            verify_writers(record);
            verify_locks(record);
        }
        self.verify_workers(&records);
        self.verify_beliefs(&records);
    }

    /// Verifies that every open of a living worker is in its file's record, and vice versa; opens
    /// of dead workers are disconnected.
    fn verify_workers(&self, records: &HashMap<FileKey, FileRecord>) {
        let mut recorded = HashSet::new();
        for (file, record) in records {
            for entry in &record.opens {
                let is_alive = self.workers.iter().any(|it| it.id == entry.id.worker);
                assert!(is_alive || entry.is_disconnected(), "an open of the dead: {entry:?}");
                if !entry.is_disconnected() {
                    recorded.insert((*file, entry.id));
                }
            }
            for waiter in &record.waiters {
                let is_alive = self.workers.iter().any(|it| it.id == *waiter);
                assert!(is_alive, "the dead {waiter:?} waits: {record:?}");
            }
        }
        let mut served = HashSet::new();
        for worker in &self.workers {
            for (file, number) in worker.world.file_opens() {
                served.insert((file, OpenId { worker: worker.id, number }));
            }
        }
        let lost: Vec<_> = recorded.symmetric_difference(&served).collect();
        assert!(lost.is_empty(), "opens in a record or a worker alone: {lost:?}");
    }

    /// Verifies that no client believes to have more rights than the records give, and that its
    /// cached data are current.
    fn verify_beliefs(&self, records: &HashMap<FileKey, FileRecord>) {
        for client in &self.clients {
            for handle in client.handles.iter().filter(|it| !it.is_away) {
                let Some(belief) = client.holders.get(&holder(handle)) else { continue };
                let Some(file) = handle.file else { continue };
                let is_quiet = !self.mail.iter().any(|(_, about)| *about == file)
                    && !self.unheard.contains(&file);
                if belief.after_break.is_some() || belief.in_doubt || !is_quiet {
                    continue;
                }
                let id = OpenId { worker: client.worker, number: handle.file_id.volatile };
                let state = state_of(records.get(&file), handle, id);
                let Some(state) = state else { continue };
                assert!(
                    state.contains(belief.state),
                    "{:?} has {state:?}: {belief:?} of {handle:?}",
                    holder(handle)
                );
                if let (true, Some(cached)) = (state.contains(Caching::READ), &belief.cached) {
                    self.verify_cached(file, cached, handle);
                }
            }
        }
    }

    fn verify_cached(&self, file: FileKey, cached: &[u8], handle: &Handle) {
        if handle.is_stream() {
            return;
        }
        let data = self.supervisor.store().data_of(file.inode);
        assert_eq!(data.as_deref(), Some(cached), "what is cached is not true: {handle:?}");
    }
}

/// Returns the caching of an open by the record. `None` if it is not there: it is being closed.
fn state_of(record: Option<&FileRecord>, handle: &Handle, id: OpenId) -> Option<Caching> {
    let record = record?;
    let entry = record.open(id)?;
    let is_same = match (entry.holding, holder(handle)) {
        (Holding::Lease(LeaseId { key, .. }), Holder::Lease(known)) => key == known,
        (Holding::Lease(_), Holder::Oplock(_)) => false,
        _ => true,
    };
    assert!(is_same, "{entry:?} is not {handle:?}");
    Some(record.cache_of(entry).state)
}

pub(super) fn verify_sharing(record: &FileRecord) {
    let here: Vec<&OpenEntry> = record.opens.iter().filter(|it| !it.is_disconnected()).collect();
    for (at, one) in here.iter().enumerate() {
        for other in here[at + 1..].iter().filter(|it| it.stream == one.stream) {
            assert!(!conflict(one.mode, other.mode), "{one:?} excludes {other:?}");
        }
    }
}

/// Verifies that a holder of write caching is alone with the stream, except for attribute opens.
pub(super) fn verify_writers(record: &FileRecord) {
    let looks = AccessMask::READ_ATTRIBUTES
        | AccessMask::WRITE_ATTRIBUTES
        | AccessMask::READ_CONTROL
        | AccessMask::SYNCHRONIZE;
    for one in &record.opens {
        if !record.cache_of(one).state.contains(Caching::WRITE) {
            continue;
        }
        let lease = match one.holding {
            Holding::Lease(id) => Some(id),
            _ => None,
        };
        for other in record.opens.iter().filter(|it| it.stream == one.stream && it.id != one.id) {
            let is_ours = matches!(other.holding, Holding::Lease(id) if Some(id) == lease);
            let only_looks = looks.contains(other.mode.granted_access);
            assert!(is_ours || only_looks, "{one:?} keeps writes beside {other:?}");
        }
    }
}

/// Verifies that locks do not conflict. An open that the store is closing may have left its own: no
/// record is left in the end.
pub(super) fn verify_locks(record: &FileRecord) {
    let locks: Vec<_> = record.locks.iter().collect();
    for (at, one) in locks.iter().enumerate() {
        for other in &locks[at + 1..] {
            let overlap = one.stream == other.stream && one.range.overlaps(other.range);
            let excludes = (one.exclusive && one.open != other.open) || other.exclusive;
            assert!(!(overlap && excludes), "{one:?} and {other:?}");
        }
    }
}
