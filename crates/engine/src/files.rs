//! The open files: the rules of [MS-SMB2] and [MS-FSA] that apply to a file with all its clients.
//!
//! All workers share the records ([`FileRecords`]); this module connects them to the engine.
//! Commands, `teardown` and `changed_file` call it. Each call reads a record, has `arbitration`
//! decide, keeps the changed record, and notes the workers that must check the file.
//!
//! To *check* a file: a worker reads its record again, sends new breaks to its client, closes
//! evicted opens, and resumes requests that wait for the file (`Server::check_file`). Only a check
//! resumes such a request. `events` takes the files to check at the end of each handler: it checks
//! this worker's own, and sends the others as messages, which may be lost.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use arbitration::records::Disconnected;
use arbitration::{
    Admission, AdmissionRequest, ByteRangeLock, Cache, Closed, Deleter, Durability, FileKey,
    FileRecord, FileRecords, FileWord, Holding, Lease, LeaseId, LeaseKey, OpenEntry, OpenId,
    RangeAccess, RequestingUser, ShareMode, Standing, WorkersToNotify,
};
use dtyp::ServerId;
use model::file_key::key;
use model::open::CreateId;
use model::reject::Reject;
use model::request_id::RequestId;
use model::share::Share;
use object::FileIdentity;
use rustc_hash::{FxHashMap, FxHashSet};
use trace::Tracer;

/// Longest time for a client to acknowledge a break: [MS-SMB2] 3.3.2.1, 3.3.2.5.
pub const BREAK_TIMEOUT: Duration = Duration::from_secs(35);

/// Time after which a waiting request checks its file without a message. Messages may be lost; a
/// check costs one reading of the record.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Time after which a request that waits for a local program tries again: the kernel reports
/// neither the release of a lock nor the end of a lease. Samba begins with 200 ms.
pub const LOCAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Time between a break's deadline and the check of the requests that wait for it, so that all see
/// its end.
const BREAK_MARGIN: Duration = Duration::from_millis(10);

/// The files that are open anywhere, as this worker sees them.
#[derive(Debug)]
pub struct Files {
    records: Box<dyn FileRecords>,
    /// Process id of this worker.
    worker: ServerId,
    /// Current time, on the machine's monotonic clock, which all its processes share.
    now: Duration,
    /// Requests of this worker that wait for a record to change, among its requests in flight.
    waiters: FxHashMap<FileKey, Waiters>,
    /// Times at which this worker checks a file without a message, because an acknowledgment is
    /// due: one for each file with a break in progress.
    deadlines: FxHashMap<FileKey, Duration>,
    /// Files to check, and the workers that must check them.
    files_to_check: Vec<(FileKey, ServerId)>,
    /// `Server.GlobalLeaseTableList`, for the client of this worker. Each lease has an open, so
    /// there are at most `OPENS_MAX`.
    leases: HashMap<LeaseId, LeaseUse>,
    /// Opens that have left their records by [`Files::remove_together`] already.
    removed: FxHashSet<u64>,
    trace: Tracer,
}

/// Requests that wait for one file.
#[derive(Clone, Debug)]
struct Waiters {
    requests: Vec<RequestId>,
    /// Time for a check without a message.
    check_at: Duration,
}

/// A lease of opens of this worker.
#[derive(Clone, Debug)]
struct LeaseUse {
    /// `Lease.Filename`: share and folded path.
    name: String,
    /// The file of each of those opens. There may be several, if the share's path varies.
    files: Vec<FileKey>,
}

/// Memory of a lock in the file's record and of its index, in bytes.
pub const LOCK_BYTES: usize = 2 * size_of::<ByteRangeLock>();

/// Returns the memory of an open's locks in bytes.
#[must_use]
pub fn memory_of_locks(record: &FileRecord, open: OpenId) -> usize {
    LOCK_BYTES * record.locks.iter().filter(|lock| lock.open == open).count()
}

/// A returned client's claim on its durable open, with the ids that the open gets.
#[derive(Clone, Copy, Debug)]
pub struct OpenClaim {
    /// Link of the file that the store has opened by the open's name: see
    /// [`arbitration::OpenFacts`].
    pub link: u64,
    /// FileId.Persistent of the open, which stays.
    pub persistent: u64,
    /// New FileId.Volatile of the open.
    pub volatile: u64,
    /// Session of the returned client.
    pub session_id: u64,
    /// Tree connect of the returned client.
    pub tree_id: u32,
}

/// A durable open that was reconnected.
#[derive(Clone, Debug)]
pub struct ReconnectedOpen {
    /// The open's entry in the record.
    pub entry: OpenEntry,
    /// Rights to cache of the open.
    pub cache: Cache,
    /// The lease of the open, if any.
    pub lease: Option<Lease>,
    /// Memory of its locks in bytes.
    pub lock_memory: usize,
}

impl Files {
    /// Opens the records for a worker.
    #[must_use]
    pub fn new(records: Box<dyn FileRecords>, worker: ServerId) -> Self {
        Self {
            records,
            worker,
            now: Duration::ZERO,
            waiters: FxHashMap::default(),
            deadlines: FxHashMap::default(),
            files_to_check: Vec::new(),
            leases: HashMap::new(),
            removed: FxHashSet::default(),
            trace: Tracer::default(),
        }
    }

    /// Sets the tracer that measures the time of calls to the records.
    pub fn set_tracer(&mut self, trace: Tracer) {
        self.trace = trace;
    }

    /// Sets the current time, on the machine's monotonic clock.
    pub fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    /// Returns the current time, on the machine's monotonic clock. It starts again with the
    /// machine, so a restored persistent open gets its timeout once more.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Returns the deadline of a break that begins now.
    #[must_use]
    pub fn break_deadline(&self) -> Duration {
        self.now + BREAK_TIMEOUT
    }

    /// Returns the process id of this worker.
    #[must_use]
    pub fn worker(&self) -> ServerId {
        self.worker
    }

    /// Returns the id of one of this worker's opens.
    #[must_use]
    pub fn open_id(&self, volatile: u64) -> OpenId {
        OpenId { worker: self.worker, number: volatile }
    }

    /// Reads a record, has `decide` change it, and keeps it if `decide` returns true. Notes the
    /// workers that have to check the file.
    ///
    /// # Errors
    /// If the record could not be read or kept. Then nothing has changed and no worker is noted,
    /// even if `decide` was called; only a failure to sync a persistent open comes after the
    /// change.
    pub fn change<R>(
        &mut self,
        file: FileKey,
        decide: impl FnOnce(&mut FileRecord, &mut WorkersToNotify) -> (R, bool),
    ) -> Result<R, Reject> {
        let mut decide = Some(decide);
        let mut result = None;
        let mut notify = WorkersToNotify::default();
        let access = self.trace.access_table();
        self.records
            .change(file, &mut |record| {
                let decide = decide.take().expect("a record is decided on once");
                let (decided, changed) = decide(record, &mut notify);
                result = Some(decided);
                changed
            })
            .map_err(Reject::Records)?;
        drop(access);
        self.files_to_check.extend(notify.into_workers().into_iter().map(|worker| (file, worker)));
        Ok(result.expect("every record is decided on"))
    }

    /// Reads a record without changing it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read<R>(&self, file: FileKey, view: impl FnOnce(&FileRecord) -> R) -> Result<R, Reject> {
        let mut view = Some(view);
        let mut seen = None;
        let _access = self.trace.access_table();
        self.records
            .view(file, &mut |record| seen = view.take().map(|view| view(record)))
            .map_err(Reject::Records)?;
        Ok(seen.expect("every record is shown"))
    }

    /// Returns whether the client may have a further open: it may not if it has its share of the
    /// table. CREATE asks before the store creates a file, so requests in flight may exceed the
    /// share by a little.
    #[must_use]
    pub fn permits_open(&self, standing: Standing) -> bool {
        self.records.permits_open(standing)
    }

    /// Checks an open against the others and adds it to the record: [MS-FSA] 2.1.5.1.2. The facts
    /// of a granted open move out of `request` into the record. For `Admission::Wait`, the caller
    /// suspends its request ([`Files::wait`]).
    ///
    /// # Errors
    /// If the record cannot be read or kept.
    pub fn admit(
        &mut self,
        file: FileKey,
        request: &mut AdmissionRequest,
        durability: Option<Durability>,
    ) -> Result<Admission, Reject> {
        let (admission, purged, deadline) = self.change(file, |record, notify| {
            let (admission, purged) = record.admit(request, durability, notify);
            let deadline = (admission == Admission::Wait).then(|| record.next_deadline());
            ((admission, purged, deadline), true)
        })?;
        self.forget_disconnected(file, &purged);
        if let Some(deadline) = deadline {
            self.set_deadline(file, deadline);
        }
        Ok(admission)
    }

    /// Removes opens of one file that end together from their record, in one decision: each reads
    /// and writes all of a record, for which others wait. Opens that may delete something stay.
    /// [`Files::remove_open`] follows for each of them all the same.
    pub fn remove_together(&mut self, file: FileKey, volatiles: &[u64]) {
        let ending: BTreeSet<OpenId> = volatiles.iter().map(|it| self.open_id(*it)).collect();
        let closed = self.change(file, |record, notify| {
            let closed = record.close_together(&ending, notify);
            let is_any = !closed.is_empty();
            (closed, is_any)
        });
        // Of an unreadable record nothing is removed.
        self.removed.extend(closed.unwrap_or_default().iter().map(|it| it.number));
    }

    /// Removes an open from its record, at its end. The caller deletes what the result names, and
    /// reports that by [`Files::end_deletion`]. `parent` is the ParentLeaseKey of the open: a
    /// deletion does not break that lease of the directory. `user` is the user of the open.
    ///
    /// An unreadable record has no opens. If the change cannot be kept, for want of room for a
    /// persistent open, the open stays in the record until this worker ends.
    ///
    /// With `keeps_locks` its byte-range locks stay, until [`Files::release_all_locks`].
    pub fn remove_open(
        &mut self,
        (identity, volatile): (FileIdentity, u64),
        keeps_locks: bool,
        delete_on_close: bool,
        (parent, user): (Option<LeaseKey>, Option<&Arc<RequestingUser>>),
    ) -> Closed {
        if !self.removed.is_empty() && self.removed.remove(&volatile) {
            return Closed::default();
        }
        let (id, now, file) = (self.open_id(volatile), self.now, key(identity));
        let (closed, late) = self
            .change(file, |record, notify| {
                // An open whose time is up delays no deletion.
                let late = record.remove_expired(now, id.worker, notify);
                if delete_on_close && !record.open(id).is_some_and(|it| record.is_marked(it.mark()))
                {
                    record.request_deletion(id, parent, user.cloned());
                }
                let closed = match keeps_locks {
                    true => record.close_with_locks(id, delete_on_close, parent, notify),
                    false => record.close(id, delete_on_close, parent, notify),
                };
                ((closed, late), true)
            })
            .unwrap_or_default();
        self.forget_disconnected(file, &late);
        closed
    }

    /// Releases the byte-range locks of an open whose file the store has closed. An unreadable
    /// record has no locks.
    pub fn release_all_locks(&mut self, file: FileKey, volatile: u64) {
        let id = self.open_id(volatile);
        let _ = self.change(file, |record, notify| (record.release_all_locks(id, notify), true));
    }

    /// Ends a deletion of the stream or name with this [mark](arbitration::mark), which succeeded
    /// or failed.
    pub fn end_deletion(&mut self, file: FileKey, mark: u64) {
        self.records.count_deletion();
        // An unreadable record has no marks.
        let _ = self.change(file, |record, notify| (record.end_deletion(mark, notify), true));
    }

    /// Has another worker carry out a deletion that was delegated to this one. Returns false if
    /// that is impossible; then it has ended.
    pub fn delegate_deletion(&mut self, file: FileKey, mark: u64) -> bool {
        let own = self.worker;
        // The supervisor forgets a note on a file without such deletions.
        let delegated = self.change(file, |record, _| {
            let is_delegated = record.delegate_again(mark, own);
            (is_delegated, is_delegated)
        });
        let is_delegated = delegated.unwrap_or(false) && self.records.note_delegated(file).is_ok();
        if !is_delegated {
            self.end_deletion(file, mark);
        }
        is_delegated
    }

    /// Takes a deletion that this worker has begun by closing an open, to carry it out in another
    /// way.
    pub fn take_begun_deletion(&mut self, file: FileKey, mark: u64) -> Option<Deleter> {
        let own = self.worker;
        let taken = self.change(file, |record, _| {
            let taken = record.take_begun(mark, own);
            let is_changed = taken.is_some();
            (taken, is_changed)
        });
        taken.ok().flatten()
    }

    /// Returns the number of deletions by all workers so far. A CREATE compares it before and after
    /// its open in the store: if a file was deleted meanwhile, it looks its name up again.
    #[must_use]
    pub fn deletion_count(&self) -> u32 {
        self.records.deletion_count()
    }

    /// Sets or clears delete pending of an open's stream; for the unnamed stream, of the name
    /// `link` of the file. `parent` as in [`Files::remove_open`].
    ///
    /// # Errors
    /// If the record cannot be read or kept.
    pub fn set_delete_pending(
        &mut self,
        identity: FileIdentity,
        link: u64,
        pending: bool,
        parent: Option<LeaseKey>,
    ) -> Result<(), Reject> {
        let mark = arbitration::mark(identity.stream, link);
        self.change(key(identity), |record, _| {
            (record.set_delete_pending(mark, pending, parent), true)
        })
    }

    /// Marks the stream of an open for deletion, or its name of the file, on behalf of `user`.
    /// `parent` as in [`Files::remove_open`].
    ///
    /// # Errors
    /// If the record cannot be read or kept.
    pub fn request_deletion(
        &mut self,
        (identity, volatile): (FileIdentity, u64),
        parent: Option<LeaseKey>,
        user: Option<Arc<RequestingUser>>,
    ) -> Result<(), Reject> {
        let id = self.open_id(volatile);
        self.change(key(identity), |record, _| (record.request_deletion(id, parent, user), true))
    }

    /// Returns whether an open of this user in this share deletes as the one that has marked the
    /// name `link` of a file. An unreadable record has no marks.
    #[must_use]
    pub fn deletes_as_requester(&self, file: FileKey, link: u64, share: &Share) -> bool {
        let is_so =
            |record: &FileRecord| record.requester_of(link).is_none_or(|it| share.deletes_as(it));
        self.read(file, is_so).unwrap_or(true)
    }

    /// Returns whether a stream, or the name `link` of its file, is delete pending. An unreadable
    /// record has no marks.
    #[must_use]
    pub fn is_delete_pending(&self, identity: FileIdentity, link: u64) -> bool {
        self.read(key(identity), |record| record.is_delete_pending(identity.stream, link))
            .unwrap_or(false)
    }

    /// Returns whether a directory is delete pending by a name that it is open under. An unreadable
    /// record has no marks.
    #[must_use]
    pub fn is_directory_delete_pending(&self, directory: FileIdentity) -> bool {
        let is_pending = |record: &FileRecord| {
            let mut opens = record.opens.iter().filter(|it| it.stream == 0);
            opens.any(|it| record.is_marked(it.facts.link))
        };
        self.read(key(directory), is_pending).unwrap_or(false)
    }

    /// Returns whether the name of a deleted file is removed although opens are left: none of their
    /// clients expects it to stay. A stream goes with its last open.
    #[must_use]
    pub fn is_deleted_at_once(&self, identity: FileIdentity, link: u64) -> bool {
        let is_pending = |record: &FileRecord| {
            record.is_delete_pending(identity.stream, link)
                && identity.stream == 0
                && record.opens.iter().all(|it| it.facts.expects_lost_names)
        };
        self.read(key(identity), is_pending).unwrap_or(false)
    }

    /// Returns whether the file has any open. An unreadable record counts as one, so that nothing
    /// replaces its file.
    #[must_use]
    pub fn is_open(&self, file: FileKey) -> bool {
        self.read(file, |record| !record.opens.is_empty()).unwrap_or(true)
    }

    /// Returns whether this use conflicts with an open other than `volatile`.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn conflicts(
        &self,
        identity: FileIdentity,
        volatile: u64,
        mode: ShareMode,
    ) -> Result<bool, Reject> {
        let id = self.open_id(volatile);
        self.read(key(identity), |record| record.conflicts(id, identity.stream, mode))
    }

    /// Describes a READ or WRITE of one of this worker's opens.
    #[must_use]
    pub fn access(
        &self,
        identity: FileIdentity,
        volatile: u64,
        range: arbitration::ByteRange,
        writes: bool,
    ) -> RangeAccess {
        RangeAccess { open: self.open_id(volatile), stream: identity.stream, range, writes }
    }

    /// Returns the numbers of locks and caching readers of a file, from shared memory. A READ or
    /// WRITE reads the record only if one of them is not zero.
    #[must_use]
    #[inline]
    pub fn word(&self, identity: FileIdentity) -> FileWord {
        self.records.word(key(identity))
    }

    /// Refuses a READ or WRITE that conflicts with another open's lock: [MS-FSA] 2.1.4.10. A file
    /// without locks costs one look at its word.
    ///
    /// # Errors
    /// If a lock conflicts.
    pub fn verify_unlocked(
        &self,
        identity: FileIdentity,
        access: RangeAccess,
    ) -> Result<(), Reject> {
        if self.records.word(key(identity)).locks == 0 {
            return Ok(());
        }
        match self.read(key(identity), |record| record.locks.blocks(access))? {
            true => Err(Reject::FileLockConflict),
            false => Ok(()),
        }
    }

    /// Breaks read caching of a file before its contents change: [MS-FSA] 2.1.4.12. Even the
    /// changer's own level II oplock is broken. Nobody waits for these breaks, so no deadline is
    /// set here. A file without caching costs one look at its word.
    ///
    /// # Errors
    /// If the record cannot be read or kept.
    pub fn break_before_change(
        &mut self,
        identity: FileIdentity,
        volatile: u64,
    ) -> Result<(), Reject> {
        self.break_reading_by(identity, volatile, FileRecord::break_reading)
    }

    /// Breaks read caching that others were granted while the store changed the contents: they may
    /// have read the old ones. The changer's own caching stays. A record that cannot be read has no
    /// caching to break.
    pub(crate) fn break_granted_during_change(&mut self, identity: FileIdentity, volatile: u64) {
        let break_reading = FileRecord::break_reading_of_others;
        let _ = self.break_reading_by(identity, volatile, break_reading);
    }

    fn break_reading_by(
        &mut self,
        identity: FileIdentity,
        volatile: u64,
        break_reading: fn(
            &mut FileRecord,
            OpenId,
            u64,
            Duration,
            &mut WorkersToNotify,
        ) -> Vec<OpenEntry>,
    ) -> Result<(), Reject> {
        let file = key(identity);
        if self.records.word(file).readers == 0 {
            return Ok(());
        }
        let (id, deadline) = (self.open_id(volatile), self.break_deadline());
        let purged = self.change(file, |record, notify| {
            let before = record.clone();
            let purged = break_reading(record, id, identity.stream, deadline, notify);
            (purged, *record != before)
        })?;
        self.forget_disconnected(file, &purged);
        Ok(())
    }

    /// Breaks the read caching of a directory, because its listing changes. A lease with the key
    /// `by` stays. Nobody waits for these breaks. A directory without caching costs one look at
    /// its word.
    pub fn break_for_listing(&mut self, directory: FileIdentity, by: Option<LeaseKey>) {
        if self.records.word(key(directory)).readers == 0 {
            return;
        }
        let deadline = self.break_deadline();
        // A record that cannot be read has no caching to break.
        let _ = self.change(key(directory), |record, notify| {
            let before = record.clone();
            record.break_listing(by, deadline, notify);
            ((), *record != before)
        });
    }

    /// Breaks the handle caching of other opens, because the file's name is removed or changed.
    /// Returns true if an acknowledgment must come first: this worker is then among the record's
    /// waiters, and the caller suspends its request ([`Files::wait`]).
    ///
    /// # Errors
    /// If the record cannot be read or kept.
    pub fn break_for_name(
        &mut self,
        identity: FileIdentity,
        volatile: u64,
    ) -> Result<bool, Reject> {
        let (id, now, deadline) = (self.open_id(volatile), self.now, self.break_deadline());
        let break_handles = |record: &mut FileRecord, notify: &mut WorkersToNotify| {
            record.break_handles(id, deadline, now, notify)
        };
        self.break_handle_caching(key(identity), break_handles)
    }

    /// Breaks the handle caching of opens for which `conflicts` is true: they exclude a rename.
    /// Returns whether an acknowledgment must come first.
    ///
    /// # Errors
    /// If the record cannot be read or kept.
    pub fn break_conflicting_handles(
        &mut self,
        file: FileKey,
        conflicts: &dyn Fn(&OpenEntry) -> bool,
    ) -> Result<bool, Reject> {
        let (worker, times) = (self.worker, (self.break_deadline(), self.now));
        let break_handles = |record: &mut FileRecord, notify: &mut WorkersToNotify| {
            record.break_handles_of(conflicts, worker, times, notify)
        };
        self.break_handle_caching(file, break_handles)
    }

    fn break_handle_caching(
        &mut self,
        file: FileKey,
        break_handles: impl Fn(&mut FileRecord, &mut WorkersToNotify) -> (bool, Vec<OpenEntry>),
    ) -> Result<bool, Reject> {
        let (waits, purged, deadline) = self.change(file, |record, notify| {
            let before = record.clone();
            let (waits, purged) = break_handles(record, notify);
            ((waits, purged, record.next_deadline()), *record != before)
        })?;
        self.forget_disconnected(file, &purged);
        if waits {
            self.set_deadline(file, deadline);
        }
        Ok(waits)
    }

    /// Adds a request that waits for a file's record to change. The decision that made it wait has
    /// entered this worker among the record's waiters; after a check, it has to do so again.
    ///
    /// Nobody reports an event that it waits `for_program` to cause.
    pub fn wait(&mut self, file: FileKey, request: RequestId, for_program: bool) {
        let interval = if for_program { LOCAL_CHECK_INTERVAL } else { CHECK_INTERVAL };
        let check_at = self.now + interval;
        let waiting =
            self.waiters.entry(file).or_insert(Waiters { requests: Vec::new(), check_at });
        waiting.check_at = waiting.check_at.min(check_at);
        waiting.requests.push(request);
    }

    /// Removes a request that waits for a file.
    pub fn forget_waiting(&mut self, file: FileKey, request: RequestId) {
        if let Some(waiting) = self.waiters.get_mut(&file) {
            waiting.requests.retain(|it| *it != request);
            if waiting.requests.is_empty() {
                self.waiters.remove(&file);
            }
        }
    }

    /// Removes the requests that wait for a file, and returns them: they are resumed, and those
    /// that must wait on come back by [`Files::wait`].
    pub fn take_waiting(&mut self, file: FileKey) -> Vec<RequestId> {
        self.waiters.remove(&file).map(|waiting| waiting.requests).unwrap_or_default()
    }

    /// Removes all requests that wait for any file, and returns them.
    pub fn take_all_waiting(&mut self) -> Vec<RequestId> {
        let waiting = std::mem::take(&mut self.waiters).into_values();
        waiting.flat_map(|waiting| waiting.requests).collect()
    }

    /// Sets the time to check a file with overdue acknowledgments.
    pub fn set_deadline(&mut self, file: FileKey, deadline: Option<Duration>) {
        match deadline {
            Some(at) => drop(self.deadlines.insert(file, at + BREAK_MARGIN)),
            None => drop(self.deadlines.remove(&file)),
        }
    }

    /// Returns the time for the next [`Files::take_overdue`].
    #[must_use]
    pub fn next_timeout(&self) -> Option<Duration> {
        let checks = self.waiters.values().map(|waiting| waiting.check_at);
        self.deadlines.values().copied().chain(checks).min()
    }

    /// Returns the files that are due for a check. The caller checks each of them, which takes its
    /// waiters: until then [`Files::next_timeout`] stays in the past.
    pub fn take_overdue(&mut self, now: Duration) -> Vec<FileKey> {
        let broken = self.deadlines.iter().filter(|(_, at)| **at <= now).map(|(file, _)| *file);
        let waiting = self.waiters.iter().filter(|(_, waiting)| waiting.check_at <= now);
        let mut due: Vec<FileKey> = broken.chain(waiting.map(|(file, _)| *file)).collect();
        due.sort_unstable();
        due.dedup();
        self.deadlines.retain(|_, at| *at > now);
        due
    }

    /// Has this worker check a file, after the response to the current request.
    pub fn check_again(&mut self, file: FileKey) {
        self.files_to_check.push((file, self.worker));
    }

    /// Returns whether [`Files::take_files_to_check`] has files to take.
    #[must_use]
    pub fn has_files_to_check(&self) -> bool {
        !self.files_to_check.is_empty()
    }

    /// Takes the files to check, each with its worker. The caller checks, or sends a message.
    pub fn take_files_to_check(&mut self) -> Vec<(FileKey, ServerId)> {
        std::mem::take(&mut self.files_to_check)
    }

    /// Adds a granted open to its lease: [MS-SMB2] 3.3.5.9.8. Its end removes it again, by
    /// [`Files::remove_from_lease`] with the same file.
    ///
    /// The specification binds a lease to a name. If one name leads to several files, because the
    /// share's path depends on the user or the time, the client takes them for one file: it may
    /// cache none of them.
    pub fn add_to_lease(&mut self, id: LeaseId, name: String, file: FileKey) {
        let lease = self.leases.entry(id).or_insert(LeaseUse { name, files: Vec::new() });
        lease.files.push(file);
        if lease.files.iter().all(|it| *it == file) {
            return;
        }
        let mut files = lease.files.clone();
        files.sort_unstable();
        files.dedup();
        let deadline = self.break_deadline();
        for file in files {
            // A record that cannot be read has no lease to break.
            let _ = self.change(file, |record, notify| {
                let before = record.clone();
                record.break_lease(id, deadline, notify);
                ((), *record != before)
            });
        }
    }

    /// Removes a closed open from its lease.
    pub fn remove_from_lease(&mut self, id: LeaseId, file: FileKey) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        if let Some(at) = lease.files.iter().position(|it| *it == file) {
            lease.files.swap_remove(at);
        }
        if lease.files.is_empty() {
            self.leases.remove(&id);
        }
    }

    /// Returns whether a lease has other files than this one: see [`Files::add_to_lease`].
    #[must_use]
    pub fn lease_has_other_files(&self, id: LeaseId, file: FileKey) -> bool {
        self.files_of_lease(id).iter().any(|it| *it != file)
    }

    /// Returns whether a lease belongs to another name: [MS-SMB2] 3.3.5.9.8 has a client use one
    /// key for one file.
    #[must_use]
    pub fn lease_has_other_name(&self, id: LeaseId, name: &str) -> bool {
        self.leases.get(&id).is_some_and(|lease| lease.name != name)
    }

    /// Changes the name of a lease after a rename of its file.
    pub fn rename_lease(&mut self, id: LeaseId, name: String) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.name = name;
        }
    }

    /// Returns the file of each open of a lease.
    #[must_use]
    pub fn files_of_lease(&self, id: LeaseId) -> &[FileKey] {
        self.leases.get(&id).map_or(&[], |lease| &lease.files)
    }

    /// Disconnects a durable open after the loss of its connection. `position` is kept in the
    /// record for its client's return. Returns whether the open stays; if not, the caller must
    /// close it.
    ///
    /// With `releases_locks`, local programs see the byte-range locks of the open. Then one with
    /// locks does not stay, unless it is persistent or resilient.
    pub fn disconnect(
        &mut self,
        (identity, volatile): (FileIdentity, u64),
        releases_locks: bool,
        position: u64,
    ) -> bool {
        let (id, now, file) = (self.open_id(volatile), self.now, key(identity));
        let stays = self.change(file, |record, notify| {
            let is_kept = record.open(id).is_some_and(OpenEntry::is_kept);
            let ends = releases_locks && !is_kept && record.has_locks(id);
            let stays = !ends && record.disconnect(id, position, now, notify);
            let entry = record.open(id).filter(|_| stays);
            let until = entry.and_then(OpenEntry::expires_at);
            (until.zip(entry.map(|it| Disconnected::of(it, file))), stays)
        });
        let Ok(Some((until, at))) = stays else { return false };
        if self.records.put_disconnected(&at, until).is_ok() {
            return true;
        }
        // Nothing would end the open at its timeout, so the caller must close it. Only connected
        // opens are closed. A failure is ignored, since the close changes the same record.
        let _ = self.change(file, |record, notify| {
            let is_there = record.reconnect(at.persistent, id, notify).is_some();
            ((), is_there)
        });
        false
    }

    /// Gives a reconnected client its open, which gets the ids of its new session and tree connect.
    ///
    /// # Errors
    /// If the open is gone, or the record cannot be read.
    pub fn reconnect(
        &mut self,
        file: FileKey,
        claim: OpenClaim,
    ) -> Result<ReconnectedOpen, Reject> {
        let OpenClaim { link, persistent, volatile, session_id, tree_id } = claim;
        let id = self.open_id(volatile);
        let taken = self.change(file, |record, notify| {
            // Another link: the file is a new one that got the old one's inode number, or has
            // another name.
            let is_other =
                |it: &OpenEntry| it.facts.persistent == persistent && it.facts.link != link;
            if record.opens.iter().any(is_other) {
                return (None, false);
            }
            let Some(entry) = record.reconnect(persistent, id, notify) else {
                return (None, false);
            };
            entry.facts.session_id = session_id;
            entry.facts.tree_id = tree_id;
            let entry = entry.clone();
            let cache = record.cache_of(&entry);
            let lease = match entry.holding {
                Holding::Lease(id) => record.lease(id).copied(),
                _ => None,
            };
            let lock_memory = memory_of_locks(record, id);
            (Some(ReconnectedOpen { entry, cache, lease, lock_memory }), true)
        })?;
        let taken = taken.ok_or(Reject::NoSuchDurableOpen)?;
        self.records.remove_disconnected(&Disconnected::of(&taken.entry, file));
        Ok(taken)
    }

    /// Removes opens from the table of disconnected ones, once they have left their file's record.
    pub fn forget_disconnected(&mut self, file: FileKey, opens: &[OpenEntry]) {
        for open in opens {
            self.records.remove_disconnected(&Disconnected::of(open, file));
        }
    }

    /// Finds the disconnected open with a client's CreateGuid. Returns its persistent id.
    ///
    /// # Errors
    /// If its record cannot be read.
    pub fn find_by_create_guid(&self, id: CreateId) -> Result<Option<u64>, Reject> {
        let CreateId { client, create_guid } = id;
        let found = self.records.find_create_guid(client, create_guid);
        let Some((persistent, file)) = found else { return Ok(None) };
        let is_it = |it: &OpenEntry| {
            let durability = it.durability.as_ref().filter(|_| it.is_disconnected());
            it.facts.persistent == persistent
                && it.facts.client == client
                && durability.is_some_and(|durability| durability.create_guid == create_guid)
        };
        let is_there = self.read(file, |record| record.opens.iter().any(is_it))?;
        Ok(is_there.then_some(persistent))
    }

    /// Finds the file of a disconnected open. An open that is not noted as one is connected still,
    /// or its worker has just died: no client can reconnect it yet. So no other record is read,
    /// whatever FileId a client names.
    #[must_use]
    pub fn find_disconnected(&self, persistent: u64) -> Option<FileKey> {
        self.records.find_disconnected(persistent)
    }

    /// Has the workers close the opens of a file for which `unwanted` is true: those of an earlier
    /// instance of an application ([MS-SMB2] 3.3.5.9.13). Disconnected opens are removed at once;
    /// if the last one was to delete the file, this worker becomes the deletion owner.
    ///
    /// # Errors
    /// If the record cannot be read or kept.
    pub fn evict(
        &mut self,
        file: FileKey,
        unwanted: impl Fn(&OpenEntry) -> bool,
    ) -> Result<(), Reject> {
        let deletion_owner = self.worker;
        let gone = self.change(file, |record, notify| {
            let is_any = record.opens.iter().any(&unwanted);
            (
                if is_any { record.evict(&unwanted, deletion_owner, notify) } else { Vec::new() },
                is_any,
            )
        })?;
        self.forget_disconnected(file, &gone);
        Ok(())
    }

    /// Returns the opens of all files that `select` returns something for, with their files.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn find_opens<T>(
        &self,
        select: impl Fn(&FileRecord, &OpenEntry) -> Option<T>,
    ) -> Result<Vec<(FileKey, T)>, Reject> {
        let mut found = Vec::new();
        self.visit(|file, record| {
            let selected = record.opens.iter().filter_map(|open| select(record, open));
            found.extend(selected.map(|it| (file, it)));
        })?;
        Ok(found)
    }

    /// Passes the records of all files to `see`, without a lock.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn visit(&self, mut see: impl FnMut(FileKey, &FileRecord)) -> Result<(), Reject> {
        self.records.for_each(&mut |file, record| see(file, &record)).map_err(Reject::Records)
    }

    /// Has this worker check the file once no deletion of it is in progress any more. The caller
    /// suspends its request ([`Files::wait`]).
    ///
    /// # Errors
    /// If the record cannot be read or kept.
    pub fn await_deletions(&mut self, file: FileKey) -> Result<(), Reject> {
        let own = self.worker;
        self.change(file, |record, notify| ((), record.await_deletions(own, notify)))
    }
}
