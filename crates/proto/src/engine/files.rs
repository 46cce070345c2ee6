//! The files that are open: what of [MS-SMB2] and [MS-FSA] is judged per file, for all clients.
//!
//! The records are shared by all workers: see [`FileRecords`]. This module is where the engine
//! meets them. It reads a record, has `arbitration` decide, keeps what changed, and notes who has
//! to look at the file again; whoever waits for a file is woken by such a look, and by nothing
//! else.

use std::collections::HashMap;
use std::time::Duration;

use arbitration::records::Disconnected;
use arbitration::{
    Admission, Ask, ByteRangeLock, Cache, Closed, Durability, FileKey, FileRecord, FileRecords,
    Holding, Lease, LeaseId, Look, OpenEntry, OpenId, RangeAccess, RecordsError, ShareMode,
};
use dtyp::ServerId;
use object::FileIdentity;
use rustc_hash::FxHashMap;
use trace::Tracer;

use crate::model::file_key::key;
use crate::model::open::CreateName;
use crate::model::reject::Reject;
use crate::model::request_id::RequestId;

/// How long a client may take to answer a break: [MS-SMB2] 3.3.2.1, 3.3.2.5.
pub const BREAK_TIMEOUT: Duration = Duration::from_secs(35);

/// How long whoever waits for a file relies on being told that it has changed. A message may be
/// lost; a look costs one reading of the record.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// How long after a break's end those who waited for it look, so that its end is seen by all.
const BREAK_MARGIN: Duration = Duration::from_millis(10);

/// The files that are open anywhere, as this worker sees them.
#[derive(Debug)]
pub struct Files {
    records: Box<dyn FileRecords>,
    server: ServerId,
    /// Now, on the clock of the machine.
    now: Duration,
    /// Requests of this worker that wait for a record to change.
    waiting: FxHashMap<FileKey, Waiting>,
    /// When this worker looks at a file without being asked to, because somebody owes an answer.
    deadlines: FxHashMap<FileKey, Duration>,
    /// Who has to look at which file.
    looks: Vec<(FileKey, ServerId)>,
    /// `Server.GlobalLeaseTableList`, as far as this worker's clients go.
    leases: HashMap<LeaseId, LeaseUse>,
    trace: Tracer,
}

/// Requests that wait for one file.
#[derive(Clone, Debug)]
struct Waiting {
    requests: Vec<RequestId>,
    /// When they look without being told to.
    look_at: Duration,
}

/// A lease that opens of this worker share in.
#[derive(Clone, Debug)]
struct LeaseUse {
    /// `Lease.Filename`: share and folded path.
    name: String,
    /// The file of each of those opens. There are several files if the share's path is not always
    /// the same.
    files: Vec<FileKey>,
}

/// Bytes of a lock in the file's record, and of what finds it there.
pub const LOCK_BYTES: usize = 2 * size_of::<ByteRangeLock>();

/// Returns the bytes that the locks of an open take.
#[must_use]
pub fn memory_of_locks(record: &FileRecord, open: OpenId) -> usize {
    LOCK_BYTES * record.locks.iter().filter(|lock| lock.open == open).count()
}

/// A durable open whose client is back.
#[derive(Clone, Debug)]
pub struct TakenUp {
    /// The open.
    pub entry: OpenEntry,
    /// What it may keep.
    pub cache: Cache,
    /// The lease that it shares in.
    pub lease: Option<Lease>,
    /// Bytes of memory that its locks take.
    pub lock_memory: usize,
}

impl Files {
    /// The files as the worker `server` sees them.
    #[must_use]
    pub fn new(records: Box<dyn FileRecords>, server: ServerId) -> Self {
        Self {
            records,
            server,
            now: Duration::ZERO,
            waiting: FxHashMap::default(),
            deadlines: FxHashMap::default(),
            looks: Vec::new(),
            leases: HashMap::new(),
            trace: Tracer::default(),
        }
    }

    /// Keeps the time that the records take from now on.
    pub fn set_tracer(&mut self, trace: Tracer) {
        self.trace = trace;
    }

    /// It is later now.
    pub fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    /// Now, on the clock of the machine.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.now
    }

    /// When a break that begins now is over, answered or not.
    #[must_use]
    pub fn break_deadline(&self) -> Duration {
        self.now + BREAK_TIMEOUT
    }

    /// This worker.
    #[must_use]
    pub fn server(&self) -> ServerId {
        self.server
    }

    /// The name of one of this worker's opens.
    #[must_use]
    pub fn open_id(&self, volatile: u64) -> OpenId {
        OpenId { server: self.server, number: volatile }
    }

    /// Reads a record, has `decide` change it, and keeps it if `decide` says that it did.
    ///
    /// # Errors
    /// If the record could not be read or kept.
    pub fn change<R>(
        &mut self,
        file: FileKey,
        mut decide: impl FnMut(&mut FileRecord, &mut Look) -> (R, bool),
    ) -> Result<R, Reject> {
        let mut result = None;
        let mut look = Look::default();
        let visit = self.trace.visit_table();
        self.records
            .change(file, &mut |record| {
                look = Look::default();
                let (decided, changed) = decide(record, &mut look);
                result = Some(decided);
                changed
            })
            .map_err(Reject::Records)?;
        drop(visit);
        self.looks.extend(look.into_servers().into_iter().map(|server| (file, server)));
        Ok(result.expect("every record is decided on"))
    }

    /// Reads a record.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read<R>(
        &self,
        file: FileKey,
        mut view: impl FnMut(&FileRecord) -> R,
    ) -> Result<R, Reject> {
        let mut seen = None;
        let _visit = self.trace.visit_table();
        self.records
            .view(file, &mut |record| seen = Some(view(record)))
            .map_err(Reject::Records)?;
        Ok(seen.expect("every record is shown"))
    }

    /// Judges an open and enters it: [MS-FSA] 2.1.5.1.2.
    ///
    /// # Errors
    /// If the record cannot be read or kept.
    pub fn admit(
        &mut self,
        file: FileKey,
        ask: &Ask,
        durability: Option<&Durability>,
    ) -> Result<Admission, Reject> {
        if !self.records.has_room(ask.standing) {
            return Err(Reject::Records(RecordsError::Full));
        }
        let (admission, purged, deadline) = self.change(file, |record, look| {
            let (admission, purged) = record.admit(ask, durability.cloned(), look);
            ((admission, purged, record.next_deadline()), true)
        })?;
        self.forget_disconnected(file, &purged);
        if admission == Admission::Wait {
            self.set_deadline(file, deadline);
        }
        Ok(admission)
    }

    /// Takes an open out. What cannot be read any more has no open in it.
    pub fn close(
        &mut self,
        identity: FileIdentity,
        volatile: u64,
        delete_on_close: bool,
    ) -> Closed {
        let id = self.open_id(volatile);
        self.change(key(identity), |record, look| (record.close(id, delete_on_close, look), true))
            .unwrap_or_default()
    }

    /// A stream that was marked for deletion is deleted, or could not be.
    pub fn deleted(&mut self, file: FileKey, stream: u64) {
        self.records.count_deletion();
        // A record that cannot be read marks nothing.
        let _ = self.change(file, |record, look| (record.deleted(stream, look), true));
    }

    /// How many files were deleted so far.
    #[must_use]
    pub fn deletions(&self) -> u32 {
        self.records.deletions()
    }

    /// Marks a stream for deletion, or takes the mark away.
    ///
    /// # Errors
    /// If the record cannot be read or kept.
    pub fn set_delete_pending(
        &mut self,
        identity: FileIdentity,
        link: u64,
        pending: bool,
    ) -> Result<(), Reject> {
        let mark = arbitration::mark(identity.stream, link);
        self.change(key(identity), |record, _| (record.set_delete_pending(mark, pending), true))
    }

    /// Whether the file is to be deleted when it is closed.
    #[must_use]
    pub fn is_delete_pending(&self, identity: FileIdentity, link: u64) -> bool {
        self.read(key(identity), |record| record.is_delete_pending(identity.stream, link))
            .unwrap_or(false)
    }

    /// Whether anybody has the file open.
    #[must_use]
    pub fn is_open(&self, file: FileKey) -> bool {
        self.read(file, |record| !record.opens.is_empty()).unwrap_or(true)
    }

    /// Whether an open other than `volatile` would disturb, or be disturbed by, this use.
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

    /// A READ or WRITE of one of this worker's opens.
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

    /// Refuses a READ or WRITE that meets another open's lock: [MS-FSA] 2.1.4.10. A file without
    /// locks costs one look at its word.
    ///
    /// # Errors
    /// If a lock is in the way.
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

    /// What others keep of a file is not true any more: [MS-FSA] 2.1.4.12. A file of which nobody
    /// keeps anything costs one look at its word.
    ///
    /// # Errors
    /// If the record cannot be read or kept.
    pub fn contents_change(&mut self, identity: FileIdentity, volatile: u64) -> Result<(), Reject> {
        self.take_reading(identity, volatile, FileRecord::break_reading)
    }

    /// As [`Files::contents_change`], once the store has changed it.
    ///
    /// # Errors
    /// If the record cannot be read or kept.
    pub fn contents_changed(
        &mut self,
        identity: FileIdentity,
        volatile: u64,
    ) -> Result<(), Reject> {
        self.take_reading(identity, volatile, FileRecord::break_reading_of_others)
    }

    fn take_reading(
        &mut self,
        identity: FileIdentity,
        volatile: u64,
        take: fn(&mut FileRecord, OpenId, u64, Duration, &mut Look) -> Vec<OpenEntry>,
    ) -> Result<(), Reject> {
        let file = key(identity);
        if self.records.word(file).readers == 0 {
            return Ok(());
        }
        let (id, deadline) = (self.open_id(volatile), self.break_deadline());
        let purged = self.change(file, |record, look| {
            let before = record.clone();
            let purged = take(record, id, identity.stream, deadline, look);
            (purged, *record != before)
        })?;
        self.forget_disconnected(file, &purged);
        Ok(())
    }

    /// What others keep of a directory's listing is not true any more. A directory of which nobody
    /// keeps anything costs one look at its word.
    pub fn listing_changes(&mut self, directory: FileIdentity, by: Option<LeaseId>) {
        if self.records.word(key(directory)).readers == 0 {
            return;
        }
        let deadline = self.break_deadline();
        // A record that cannot be read has nobody who could be told.
        let _ = self.change(key(directory), |record, look| {
            let before = record.clone();
            record.break_listing(by, deadline, look);
            ((), *record != before)
        });
    }

    /// Takes the handles that others keep, because the name goes or changes. Whether one of them
    /// has to answer first.
    ///
    /// # Errors
    /// If the record cannot be read or kept.
    pub fn name_changes(&mut self, identity: FileIdentity, volatile: u64) -> Result<bool, Reject> {
        let (id, now, break_deadline) = (self.open_id(volatile), self.now, self.break_deadline());
        let file = key(identity);
        let (waits, purged, deadline) = self.change(file, |record, look| {
            let before = record.clone();
            let (waits, purged) = record.break_handles(id, break_deadline, now, look);
            ((waits, purged, record.next_deadline()), *record != before)
        })?;
        self.forget_disconnected(file, &purged);
        if waits {
            self.set_deadline(file, deadline);
        }
        Ok(waits)
    }

    /// Notes that a request waits for a file to change. The record has this worker among its
    /// waiters.
    pub fn wait(&mut self, file: FileKey, request: RequestId) {
        let look_at = self.now + LOOK_INTERVAL;
        let waiting = self.waiting.entry(file).or_insert(Waiting { requests: Vec::new(), look_at });
        waiting.requests.push(request);
    }

    /// A request waits no more.
    pub fn forget_waiting(&mut self, file: FileKey, request: RequestId) {
        if let Some(waiting) = self.waiting.get_mut(&file) {
            waiting.requests.retain(|it| *it != request);
            if waiting.requests.is_empty() {
                self.waiting.remove(&file);
            }
        }
    }

    /// The requests that wait for a file, who wait no more.
    pub fn take_waiting(&mut self, file: FileKey) -> Vec<RequestId> {
        self.waiting.remove(&file).map(|waiting| waiting.requests).unwrap_or_default()
    }

    /// All requests that wait for some file, who wait no more.
    pub fn take_all_waiting(&mut self) -> Vec<RequestId> {
        let waiting = std::mem::take(&mut self.waiting).into_values();
        waiting.flat_map(|waiting| waiting.requests).collect()
    }

    /// Looks at a file when the answers that are owed by then are overdue.
    pub fn set_deadline(&mut self, file: FileKey, deadline: Option<Duration>) {
        match deadline {
            Some(at) => drop(self.deadlines.insert(file, at + BREAK_MARGIN)),
            None => drop(self.deadlines.remove(&file)),
        }
    }

    /// When [`Files::take_overdue`] has something.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Duration> {
        let looks = self.waiting.values().map(|waiting| waiting.look_at);
        self.deadlines.values().copied().chain(looks).min()
    }

    /// The files at which it is time to look.
    pub fn take_overdue(&mut self, now: Duration) -> Vec<FileKey> {
        let broken = self.deadlines.iter().filter(|(_, at)| **at <= now).map(|(file, _)| *file);
        let waiting = self.waiting.iter().filter(|(_, waiting)| waiting.look_at <= now);
        let mut due: Vec<FileKey> = broken.chain(waiting.map(|(file, _)| *file)).collect();
        due.sort_unstable();
        due.dedup();
        self.deadlines.retain(|_, at| *at > now);
        due
    }

    /// This worker looks at a file again, once the request at hand is answered.
    pub fn look_again(&mut self, file: FileKey) {
        self.looks.push((file, self.server));
    }

    /// Who has to look at which file.
    pub fn take_looks(&mut self) -> Vec<(FileKey, ServerId)> {
        std::mem::take(&mut self.looks)
    }

    /// An open shares in a lease: [MS-SMB2] 3.3.5.9.8.
    ///
    /// The section binds a lease to a name. Where one name leads to several files, because the path
    /// of the share depends on who connects or when, the client believes that they are one: it may
    /// keep nothing of any of them.
    pub fn use_lease(&mut self, id: LeaseId, name: String, file: FileKey) {
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
            // A record that cannot be read has nobody who could be told.
            let _ = self.change(file, |record, look| {
                let before = record.clone();
                record.break_lease(id, deadline, look);
                ((), *record != before)
            });
        }
    }

    /// An open of a file that shared in a lease is closed.
    pub fn unuse_lease(&mut self, id: LeaseId, file: FileKey) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        if let Some(at) = lease.files.iter().position(|it| *it == file) {
            lease.files.swap_remove(at);
        }
        if lease.files.is_empty() {
            self.leases.remove(&id);
        }
    }

    /// Whether a lease is on other files than this one: see [`Files::use_lease`].
    #[must_use]
    pub fn lease_has_other_files(&self, id: LeaseId, file: FileKey) -> bool {
        self.files_of_lease(id).iter().any(|it| *it != file)
    }

    /// The file whose lease of this name is another name's: [MS-SMB2] 3.3.5.9.8 has a client use
    /// one key for one file.
    #[must_use]
    pub fn lease_is_elsewhere(&self, id: LeaseId, name: &str) -> bool {
        self.leases.get(&id).is_some_and(|lease| lease.name != name)
    }

    /// The file with a lease has another name.
    pub fn rename_lease(&mut self, id: LeaseId, name: String) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.name = name;
        }
    }

    /// The file of each open that shares in a lease.
    #[must_use]
    pub fn files_of_lease(&self, id: LeaseId) -> &[FileKey] {
        self.leases.get(&id).map_or(&[], |lease| &lease.files)
    }

    /// The connection of a durable open is gone. Whether the open stays; if not, it is to be
    /// closed.
    pub fn disconnect(&mut self, identity: FileIdentity, volatile: u64, position: u64) -> bool {
        let (id, now, file) = (self.open_id(volatile), self.now, key(identity));
        let stays = self.change(file, |record, look| {
            let stays = record.disconnect(id, position, now, look);
            let entry = record.open(id).filter(|_| stays);
            let until = entry.and_then(OpenEntry::disconnected_until);
            (until.zip(entry.map(|it| Disconnected::of(it, file))), stays)
        });
        let Ok(Some((until, at))) = stays else { return false };
        if self.records.put_disconnected(&at, until).is_ok() {
            return true;
        }
        // Nobody would end it when its time is up. A record that cannot be changed cannot be closed.
        let _ = self.change(file, |record, look| {
            let is_there = record.take_up(at.persistent, id, look).is_some();
            ((), is_there)
        });
        false
    }

    /// A client is back: gives it its open.
    ///
    /// # Errors
    /// If it is not there any more, or the record cannot be read.
    pub fn take_up(
        &mut self,
        file: FileKey,
        link: u64,
        persistent: u64,
        volatile: u64,
        session_id: u64,
        tree_id: u32,
    ) -> Result<TakenUp, Reject> {
        let id = self.open_id(volatile);
        let taken = self.change(file, |record, look| {
            // A new file with the number of the one that was open is not that one.
            let is_other =
                |it: &OpenEntry| it.facts.persistent == persistent && it.facts.link != link;
            if record.opens.iter().any(is_other) {
                return (None, false);
            }
            let Some(entry) = record.take_up(persistent, id, look) else { return (None, false) };
            entry.facts.session_id = session_id;
            entry.facts.tree_id = tree_id;
            let entry = entry.clone();
            let cache = record.cache_of(&entry);
            let lease = match entry.holding {
                Holding::Lease(id) => record.lease(id).copied(),
                _ => None,
            };
            let lock_memory = memory_of_locks(record, id);
            (Some(TakenUp { entry, cache, lease, lock_memory }), true)
        })?;
        let taken = taken.ok_or(Reject::NoSuchDurableOpen)?;
        self.records.remove_disconnected(&Disconnected::of(&taken.entry, file));
        Ok(taken)
    }

    /// Forgets opens that are disconnected no more.
    pub fn forget_disconnected(&mut self, file: FileKey, opens: &[OpenEntry]) {
        for open in opens {
            self.records.remove_disconnected(&Disconnected::of(open, file));
        }
    }

    /// The disconnected open that a client's CreateGuid names, by its persistent id.
    ///
    /// # Errors
    /// If its record cannot be read.
    pub fn find_disconnected(&self, name: CreateName) -> Result<Option<u64>, Reject> {
        let CreateName { client, create_guid } = name;
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

    /// Where a durable open is. One whose worker has just died may not be noted yet: then all
    /// files are searched, once.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn find_durable(&self, persistent: u64) -> Result<Option<FileKey>, Reject> {
        if let Some(file) = self.records.find_disconnected(persistent) {
            return Ok(Some(file));
        }
        let mut found = None;
        let is_it = |it: &OpenEntry| it.facts.persistent == persistent && it.durability.is_some();
        self.records
            .for_each(&mut |file, record| {
                if record.opens.iter().any(is_it) {
                    found = Some(file);
                }
            })
            .map_err(Reject::Records)?;
        Ok(found)
    }

    /// Has opens of a file closed by their workers; what is disconnected goes at once.
    ///
    /// # Errors
    /// If the record cannot be read or kept.
    pub fn evict(
        &mut self,
        file: FileKey,
        unwanted: impl Fn(&OpenEntry) -> bool,
    ) -> Result<(), Reject> {
        let deletion_owner = self.server;
        let gone = self.change(file, |record, look| {
            let is_any = record.opens.iter().any(&unwanted);
            (
                if is_any { record.evict(&unwanted, deletion_owner, look) } else { Vec::new() },
                is_any,
            )
        })?;
        self.forget_disconnected(file, &gone);
        Ok(())
    }

    /// All files with an open that `wanted` picks.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn find_opens(
        &self,
        wanted: impl Fn(&FileRecord, &OpenEntry) -> bool,
    ) -> Result<Vec<FileKey>, Reject> {
        let mut found = Vec::new();
        self.records
            .for_each(&mut |file, record| {
                if record.opens.iter().any(|open| wanted(&record, open)) {
                    found.push(file);
                }
            })
            .map_err(Reject::Records)?;
        Ok(found)
    }
}
