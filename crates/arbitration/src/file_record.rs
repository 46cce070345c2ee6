//! Record of a file that is open anywhere in the server.
//!
//! `tables` stores records, and calls these functions under the lock of one record, mostly on
//! behalf of `engine::files`; the supervisor calls `remove_worker` and `scavenge`. They are pure:
//! time and the calling worker are arguments, and messages are left to the caller
//! ([`WorkersToNotify`]).
//!
//! Terms. *Evicted*: to be closed by its worker, for another application instance. *Mark* and
//! *link*: see [`crate::mark`]. Breaks of caching are in `breaks`, marks for deletion in
//! `deletion`.

use std::collections::BTreeSet;
use std::time::Duration;

use dtyp::ServerId;

use crate::byte_range::{ByteRange, ByteRangeLock, LockError};
use crate::caching::{Cache, Caching};
use crate::deletion::{Deleter, DeletionProgress, PendingDeletion};
use crate::host_path::HostPath;
use crate::lock_list::LockList;
use crate::lock_sequences::LockSequence;
use crate::open::{DurabilityKind, Holding, Lease, LeaseId, LeaseKey, OpenEntry, OpenId};
use crate::requester::Requester;
use crate::share_mode::{ShareMode, conflict};
use crate::standing::Standing;

/// Highest number of opens of a file. Each of them reads and writes the whole record.
pub const FILE_OPENS_MAX: usize = 16_384;

/// Highest number of bytes of a record that another open may be added to. [`FILE_OPENS_MAX`] opens
/// by one path need less.
pub const FILE_BYTES_MAX: usize = 8 << 20;

/// Record of an open file: the file's part of `GlobalOpenTable` ([MS-SMB2] 3.3.1.1), with the
/// per-file state of [MS-FSA] 2.1.1.3.
///
/// A record is read, changed by the functions of this crate, and written back under one lock. A
/// function whose change ends a wait, or needs a notification, adds the workers to
/// [`WorkersToNotify`].
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FileRecord {
    /// Opens, in the order of their creation.
    pub opens: Vec<OpenEntry>,
    /// Leases that opens share, ordered by id: each CREATE looks one up for each open.
    pub leases: Vec<Lease>,
    /// Byte-range locks of all streams.
    pub locks: LockList,
    /// Marks for deletion after the last close: streams, and names of the file itself.
    pub delete_pending: Vec<PendingDeletion>,
    /// Deletions in progress, with their owners: see [`FileRecord::close`].
    pub deleters: Vec<Deleter>,
    /// Workers with requests that wait for a change of the record.
    pub waiters: Vec<ServerId>,
}

/// Workers that have to read a record again, because of a change that concerns them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct WorkersToNotify(Vec<ServerId>);

impl WorkersToNotify {
    pub(crate) fn add(&mut self, worker: ServerId) {
        if !self.0.contains(&worker) {
            self.0.push(worker);
        }
    }

    /// Returns the workers, each once.
    #[must_use]
    pub fn into_workers(self) -> Vec<ServerId> {
        self.0
    }
}

/// Summary of a record for READ and WRITE, in shared memory. Files with the same hash share a word,
/// so the numbers may be too high.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FileWord {
    /// Number of byte-range locks of the file.
    pub locks: u32,
    /// Number of oplocks and leases that cache reads.
    pub readers: u32,
}

impl FileWord {
    fn of(locks: usize, readers: usize) -> Self {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { locks: count(locks), readers: count(readers) }
    }
}

/// Consequences of closing an open.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Closed {
    /// [Mark](crate::mark) of the stream or name that the caller must delete now: of the closed
    /// open, or of the file, whose name goes with its last open of any stream.
    pub unlink: Option<u64>,
    /// ParentLeaseKey of the open that set the deletion.
    pub parent: Option<LeaseKey>,
    /// The open that set the deletion, if it is known.
    pub requester: Option<Requester>,
}

impl FileRecord {
    /// True if the record need not be stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.opens.is_empty()
            && self.delete_pending.is_empty()
            && self.waiters.is_empty()
            && self.locks.is_empty()
    }

    /// Returns the record's part of the shared word.
    #[must_use]
    pub fn word(&self) -> FileWord {
        let oplocks = self.opens.iter().filter(|it| it.reads_by_oplock()).count();
        let leases = self.leases.iter().filter(|it| it.cache.state.contains(Caching::READ)).count();
        FileWord::of(self.locks.len(), oplocks + leases)
    }

    /// Returns the open with that id.
    #[must_use]
    pub fn open(&self, id: OpenId) -> Option<&OpenEntry> {
        self.opens.iter().find(|it| it.id == id)
    }

    /// Returns the open with that id, to change it.
    pub fn open_mut(&mut self, id: OpenId) -> Option<&mut OpenEntry> {
        self.opens.iter_mut().find(|it| it.id == id)
    }

    /// Returns the lease with that id.
    #[must_use]
    pub fn lease(&self, id: LeaseId) -> Option<&Lease> {
        let at = self.leases.binary_search_by_key(&id, |it| it.id).ok()?;
        self.leases.get(at)
    }

    /// Returns the lease with that id, to change it.
    pub(crate) fn lease_mut(&mut self, id: LeaseId) -> Option<&mut Lease> {
        let at = self.leases.binary_search_by_key(&id, |it| it.id).ok()?;
        self.leases.get_mut(at)
    }

    /// Adds a lease, unless one with that id exists.
    pub(crate) fn add_lease(&mut self, lease: Lease) {
        if let Err(at) = self.leases.binary_search_by_key(&lease.id, |it| it.id) {
            self.leases.insert(at, lease);
        }
    }

    /// Caching that an open holds.
    #[must_use]
    pub fn cache_of(&self, entry: &OpenEntry) -> Cache {
        match entry.holding {
            Holding::Nothing => Cache::default(),
            Holding::Oplock(cache) => cache,
            Holding::Lease(id) => self.lease(id).map_or_else(Cache::default, |it| it.cache),
        }
    }

    /// True if an open other than `id` conflicts with this use of a stream.
    #[must_use]
    pub fn conflicts(&self, id: OpenId, stream: u64, mode: ShareMode) -> bool {
        self.opens
            .iter()
            .filter(|it| it.id != id && it.stream == stream && it.excludes())
            .any(|it| conflict(it.mode, mode))
    }

    /// True if the file of this open must keep its name: the open is in use, or kept for a
    /// disconnected client, or deletes the file by its close. A disconnected durable open is
    /// removed instead.
    #[must_use]
    pub fn keeps_its_name(&self, open: &OpenEntry) -> bool {
        let ends_file =
            open.delete_on_close || self.is_delete_pending(open.stream, open.facts.link);
        open.excludes() || ends_file
    }

    /// Adds a worker to the waiters of the record.
    pub fn wait(&mut self, worker: ServerId) {
        if !self.waiters.contains(&worker) {
            self.waiters.push(worker);
        }
    }

    /// Notifies all waiting workers, once each.
    pub(crate) fn wake(&mut self, notify: &mut WorkersToNotify) {
        self.waiters.drain(..).for_each(|worker| notify.add(worker));
    }

    /// Removes an open, and its byte-range locks.
    ///
    /// After the last open of a stream marked for deletion, the mark stays until
    /// [`FileRecord::end_deletion`]: no open is possible until then.
    pub fn close(
        &mut self,
        id: OpenId,
        delete_on_close: bool,
        parent: Option<LeaseKey>,
        notify: &mut WorkersToNotify,
    ) -> Closed {
        self.locks.release_all(id);
        self.close_with_locks(id, delete_on_close, parent, notify)
    }

    /// As [`FileRecord::close`], but its byte-range locks stay until
    /// [`FileRecord::release_all_locks`]: local programs see them until the store has closed the
    /// file.
    pub fn close_with_locks(
        &mut self,
        id: OpenId,
        delete_on_close: bool,
        parent: Option<LeaseKey>,
        notify: &mut WorkersToNotify,
    ) -> Closed {
        let Some(at) = self.opens.iter().position(|it| it.id == id) else {
            return Closed::default();
        };
        let gone = self.opens.remove(at);
        if gone.lease().is_some() {
            self.forget_unused_leases();
        }
        self.wake(notify);
        if delete_on_close && !self.is_marked(gone.mark()) {
            self.set_delete_pending(gone.mark(), true, parent);
        }
        let unlink = self.begin_deletion(&gone, id.worker, DeletionProgress::ByCloser);
        let mut marks = self.delete_pending.iter();
        let pending = unlink.and_then(|mark| marks.find(|it| it.mark == mark));
        let parent = pending.and_then(|it| it.parent);
        let requester = pending.and_then(|it| it.requester.clone());
        Closed { unlink, parent, requester }
    }

    /// Closes opens that end together, as [`FileRecord::close`] closes each, but for those that may
    /// delete something. Returns the closed ones.
    pub fn close_together(
        &mut self,
        ending: &BTreeSet<OpenId>,
        notify: &mut WorkersToNotify,
    ) -> BTreeSet<OpenId> {
        if !self.delete_pending.is_empty() {
            return BTreeSet::new();
        }
        let ends = |it: &mut OpenEntry| ending.contains(&it.id) && !it.delete_on_close;
        let closed: BTreeSet<OpenId> = self.opens.extract_if(.., ends).map(|it| it.id).collect();
        if !closed.is_empty() {
            self.locks.retain_of(|id| !closed.contains(&id));
            self.forget_unused_leases();
            self.wake(notify);
        }
        closed
    }

    /// Acquires all of the locks, which are of one open, or none: [MS-FSA] 2.1.5.8.
    ///
    /// # Errors
    /// One of them conflicts, is invalid, or exceeds a limit.
    pub fn acquire_locks(
        &mut self,
        wanted: &[ByteRangeLock],
        standing: Standing,
    ) -> Result<(), LockError> {
        self.locks.acquire(wanted, standing)
    }

    /// Stores the lock sequence of a successful LOCK, for an open that can be reclaimed; for others
    /// the worker's memory suffices.
    pub fn remember_lock(&mut self, open: OpenId, sequence: LockSequence) {
        let durability = self.open_mut(open).and_then(|it| it.durability.as_mut());
        if let Some(durability) = durability {
            durability.lock_sequences.keep(sequence);
        }
    }

    /// Removes a lock sequence: a LOCK with the same index and another number has not succeeded.
    /// Returns true if the record had it.
    pub fn forget_lock(&mut self, open: OpenId, index: u8) -> bool {
        let durability = self.open_mut(open).and_then(|it| it.durability.as_mut());
        durability.is_some_and(|it| it.lock_sequences.forget(index))
    }

    /// Releases locks one after the other; a failure leaves earlier ones released.
    ///
    /// # Errors
    /// The open does not hold one of them.
    pub fn release_locks(
        &mut self,
        open: OpenId,
        ranges: impl Iterator<Item = ByteRange>,
        notify: &mut WorkersToNotify,
    ) -> Result<(), LockError> {
        let entry = self.open(open).ok_or(LockError::NotLocked)?;
        let result = self.locks.release(open, entry.stream, ranges);
        self.wake(notify);
        result
    }

    /// True if the open has byte-range locks.
    #[must_use]
    pub fn has_locks(&self, open: OpenId) -> bool {
        self.locks.iter().any(|lock| lock.open == open)
    }

    /// Releases all locks of an open, also if it was closed already.
    pub fn release_all_locks(&mut self, open: OpenId, notify: &mut WorkersToNotify) {
        self.locks.release_all(open);
        self.wake(notify);
    }

    /// Removes locks again that [`FileRecord::acquire_locks`] has acquired: a local program holds
    /// one that conflicts.
    pub fn withdraw_locks(&mut self, locks: &[ByteRangeLock], notify: &mut WorkersToNotify) {
        self.locks.withdraw(locks);
        self.wake(notify);
    }

    /// True if the record contains anything of a worker: [`FileRecord::remove_worker`] has work.
    #[must_use]
    pub fn concerns(&self, worker: ServerId) -> bool {
        self.opens.iter().any(|it| it.id.worker == worker)
            || self.waiters.contains(&worker)
            || self.deleters.iter().any(|it| it.worker == worker)
            || self.locks.iter().any(|it| it.open.worker == worker)
    }

    /// Removes the state of a dead worker; durable opens stay, disconnected. Its deletions go to
    /// `deletion_owner`, or to the later owner of [`FileRecord::scavenge`].
    pub fn remove_worker(
        &mut self,
        worker: ServerId,
        deletion_owner: ServerId,
        now: Duration,
        notify: &mut WorkersToNotify,
    ) {
        let of_worker = |it: &&OpenEntry| it.id.worker == worker && !it.is_disconnected();
        let ids: Vec<OpenId> = self.opens.iter().filter(of_worker).map(|it| it.id).collect();
        let mut gone = Vec::new();
        for id in ids {
            if !self.disconnect(id, 0, now, notify) {
                gone.extend(self.opens.extract_if(.., |it| it.id == id));
                self.locks.release_all(id);
            }
        }
        // Opens that it was closing have left their locks.
        let opens = &self.opens;
        let is_there = |id: OpenId| id.worker != worker || opens.iter().any(|it| it.id == id);
        self.locks.retain_of(is_there);
        self.waiters.retain(|it| *it != worker);
        for deleter in self.deleters.iter_mut().filter(|it| it.worker == worker) {
            deleter.worker = deletion_owner;
            deleter.progress = DeletionProgress::Delegated;
            notify.add(deletion_owner);
        }
        self.delegate_deletions(&gone, deletion_owner, notify);
        self.forget_unused_leases();
        self.forget_unused_marks();
        self.wake(notify);
    }

    /// Replaces a name of the file by another; a pending deletion of that name stays pending.
    pub fn relinked(&mut self, old: u64, new: u64) {
        self.opens.iter_mut().filter(|it| it.facts.link == old).for_each(|it| it.facts.link = new);
        self.delete_pending.iter_mut().filter(|it| it.mark == old).for_each(|it| it.mark = new);
        let requesters = self.delete_pending.iter_mut().filter_map(|it| it.requester.as_mut());
        requesters.filter(|it| it.link == old).for_each(|it| it.link = new);
    }

    /// Updates the path of opens by the old name of a renamed file, through all shares of the
    /// folder that the paths begin at.
    pub fn renamed(&mut self, old: HostPath<'_>, new: HostPath<'_>, notify: &mut WorkersToNotify) {
        let is_old = |folder: &str, path: &str| folder == old.folder && path == old.path;
        let on_disk = || new.on_disk.map(str::to_owned);
        for entry in &mut self.opens {
            let facts = &mut entry.facts;
            if is_old(&facts.folder, &facts.path) {
                new.path.clone_into(&mut facts.path);
                facts.path_on_disk = on_disk();
                notify.add(entry.id.worker);
            }
        }
        let requesters = self.delete_pending.iter_mut().filter_map(|it| it.requester.as_mut());
        for requester in requesters.filter(|it| is_old(&it.folder, &it.path)) {
            new.path.clone_into(&mut requester.path);
            requester.path_on_disk = on_disk();
        }
    }

    /// True if another stream of the file is open, and its file must keep its name.
    #[must_use]
    pub fn has_other_streams_open(&self, stream: u64) -> bool {
        self.opens.iter().any(|it| it.stream != stream && self.keeps_its_name(it))
    }

    /// Handles the loss of an open's connection: [MS-SMB2] 3.3.7.1. Returns true if the open stays;
    /// otherwise the caller closes it. A durable open stays while it has handle caching without a
    /// break, and, as by Windows, no byte-range locks without write caching.
    pub fn disconnect(
        &mut self,
        id: OpenId,
        position: u64,
        now: Duration,
        notify: &mut WorkersToNotify,
    ) -> bool {
        let Some(at) = self.opens.iter().position(|it| it.id == id) else { return false };
        let cache = self.cache_of(&self.opens[at]);
        // Others may lock bytes of a file beside a client that does not cache its writes.
        let locks = !cache.state.contains(Caching::WRITE) && self.has_locks(id);
        let holds = cache.state.contains(Caching::HANDLE) && cache.breaking.is_none() && !locks;
        if self.opens[at].evicted {
            // The client cannot reclaim it, and others wait for its end.
            return false;
        }
        let Some(durability) = &mut self.opens[at].durability else { return false };
        let stays = match durability.kind {
            DurabilityKind::Durable | DurabilityKind::DurableV2 => holds,
            DurabilityKind::Persistent | DurabilityKind::Resilient => true,
        };
        if stays {
            durability.expires_at = Some(now + durability.timeout);
            durability.position = position;
            self.wake(notify);
        }
        stays
    }

    /// Assigns a disconnected open to the worker of its returned client. `None` if it is missing,
    /// or not disconnected. The client is notified of breaks in the meantime.
    pub fn reconnect(
        &mut self,
        persistent: u64,
        id: OpenId,
        notify: &mut WorkersToNotify,
    ) -> Option<&mut OpenEntry> {
        let is_it = |it: &OpenEntry| it.facts.persistent == persistent && it.is_disconnected();
        let at = self.opens.iter().position(is_it)?;
        self.locks.hand_over(self.opens[at].id, id);
        self.notify_again(at);
        if self.cache_of(&self.opens[at]).notice.is_some() {
            notify.add(id.worker);
        }
        let entry = &mut self.opens[at];
        entry.id = id;
        if let Some(durability) = &mut entry.durability {
            durability.expires_at = None;
        }
        Some(entry)
    }

    /// Removes opens that were not reclaimed in time, and returns them. Their deletions go to
    /// `deletion_owner`, as do those that an earlier owner did not start.
    pub fn scavenge(
        &mut self,
        now: Duration,
        deletion_owner: ServerId,
        notify: &mut WorkersToNotify,
    ) -> Vec<OpenEntry> {
        for deleter in &mut self.deleters {
            if deleter.progress == DeletionProgress::Delegated {
                deleter.worker = deletion_owner;
                notify.add(deletion_owner);
            }
        }
        self.remove_expired(now, deletion_owner, notify)
    }

    /// Removes the opens that were not reclaimed in time, and returns them: their time ends for
    /// any request, not only with the next [`FileRecord::scavenge`].
    pub fn remove_expired(
        &mut self,
        now: Duration,
        deletion_owner: ServerId,
        notify: &mut WorkersToNotify,
    ) -> Vec<OpenEntry> {
        let late = |entry: &OpenEntry| entry.expires_at().is_some_and(|it| it <= now);
        match self.opens.iter().any(late) {
            true => self.purge(late, deletion_owner, notify),
            false => Vec::new(),
        }
    }

    /// Removes disconnected opens that conflict with others. Their deletions go to
    /// `deletion_owner`.
    pub(crate) fn purge(
        &mut self,
        unwanted: impl Fn(&OpenEntry) -> bool,
        deletion_owner: ServerId,
        notify: &mut WorkersToNotify,
    ) -> Vec<OpenEntry> {
        let mut gone = Vec::new();
        self.opens.retain(|entry| {
            let goes = unwanted(entry);
            if goes {
                gone.push(entry.clone());
            }
            !goes
        });
        if !gone.is_empty() {
            gone.iter().for_each(|entry| self.locks.release_all(entry.id));
            self.delegate_deletions(&gone, deletion_owner, notify);
            self.forget_unused_leases();
            self.forget_unused_marks();
            self.wake(notify);
        }
        gone
    }

    /// Makes workers close opens. Returns the disconnected ones, which are removed at once; their
    /// deletions go to `deletion_owner`.
    pub fn evict(
        &mut self,
        unwanted: &dyn Fn(&OpenEntry) -> bool,
        deletion_owner: ServerId,
        notify: &mut WorkersToNotify,
    ) -> Vec<OpenEntry> {
        let gone = self.purge(|it| it.is_disconnected() && unwanted(it), deletion_owner, notify);
        for entry in self.opens.iter_mut().filter(|it| unwanted(it)) {
            entry.evicted = true;
            notify.add(entry.id.worker);
        }
        gone
    }

    pub(crate) fn forget_unused_leases(&mut self) {
        let used: BTreeSet<LeaseId> = self.opens.iter().filter_map(OpenEntry::lease).collect();
        self.leases.retain(|lease| used.contains(&lease.id));
    }
}
