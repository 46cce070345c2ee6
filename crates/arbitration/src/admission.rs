//! Admission of an open: conflicts with existing opens, breaks of their caching, and the caching
//! granted to the new one: [MS-FSA] 2.1.5.1.2, 2.1.4.12, 2.1.5.18.
//!
//! [`FileRecord::admit`] is called by `engine::files`, under the lock of the record, once the store
//! has opened the file for a CREATE. It either adds the open, or begins breaks and enters the
//! worker among the waiters, or refuses. The worker of each other client that is notified here gets
//! into [`WorkersToNotify`] (`notify`), and then reads the record. A CREATE that waits asks again
//! from the start after each change of the record.
//!
//! Terms. *Stat open*: an open for attributes alone, which breaks nothing and violates no share
//! mode. *Ours*: an open with the lease of the request. *Disturbed*: an open that must lose caching
//! rights for this one; it keeps them in `state` while `breaking` is set. *Purged*: a disconnected
//! durable open that is removed, since its client cannot answer a break; its worker closes it.
//! *Kept*: a resilient or persistent open, which is never purged. *Evicted*: an open that its
//! worker has to close. [*Standing*](Standing): whether the client is a user or a guest, who may
//! have fewer opens.

use std::collections::BTreeSet;
use std::time::Duration;

use dtyp::AccessMask;

use crate::breaks::{is_ours, notified_open};
use crate::caching::{Cache, Caching};
use crate::file_record::{FILE_BYTES_MAX, FILE_OPENS_MAX, FileRecord, WorkersToNotify};
use crate::open::{
    Durability, DurabilityKind, Holding, Lease, LeaseId, OpenEntry, OpenFacts, OpenId,
    RequestedCaching,
};
use crate::share_mode::{ShareMode, conflict};
use crate::standing::Standing;

/// Request for an open of a file.
#[derive(Clone, Debug)]
pub struct AdmissionRequest {
    /// Id that the open will have.
    pub id: OpenId,
    /// Standing of the requesting client.
    pub standing: Standing,
    /// Id of the stream to open.
    pub stream: u64,
    /// Access that it requests and shares.
    pub mode: ShareMode,
    /// True if the file will be truncated once the open is admitted.
    pub overwrites: bool,
    /// True if it created or truncated the file: locks of others do not restrict its caching.
    pub is_new: bool,
    /// Size of the stream, or of the room allocated for it, if that is larger.
    pub size: u64,
    /// True for a directory, false for a file.
    pub is_directory: bool,
    /// True if its close marks the file for deletion.
    pub delete_on_close: bool,
    /// Caching that it requests: oplock or lease.
    pub caching: RequestedCaching,
    /// Caching that the share allows at most.
    pub caching_max: Caching,
    /// True if several clients may cache reads of a file; otherwise only one with write caching.
    pub shared_reading: bool,
    /// True if it has waited before: then it also waits for leases that it still disturbs and that
    /// are being broken, even if only reading is left to lose.
    pub has_waited: bool,
    /// Time of the request, on the clock of the machine.
    pub now: Duration,
    /// End of a break that begins now, acknowledged or not.
    pub deadline: Duration,
    /// Properties for the record. Only `link` decides here: one hard link may be delete pending.
    pub facts: OpenFacts,
}

/// Decision on a request for an open.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Admission {
    /// The open is granted and in the record.
    Granted(Granted),
    /// Other clients have to answer first. The worker is among the waiters.
    Wait,
    /// The open is refused, with the reason.
    Refused(Refusal),
}

/// Caching and durability granted to an open.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Granted {
    /// Caching that the client may do.
    pub caching: Caching,
    /// Lease that it shares, if any.
    pub lease: Option<Lease>,
    /// True if it survives its connection.
    pub is_durable: bool,
}

/// Reasons why an open is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// The file or stream is marked for deletion.
    DeletePending,
    /// The share mode of another open conflicts.
    Sharing,
    /// The file has [`FILE_OPENS_MAX`] opens, or the client or its user has its share of them:
    /// [`Standing`].
    TooManyOpens,
    /// A disconnected persistent open of another client cannot yield: it has no handle caching that
    /// a break could take, or holds locks without write caching.
    NotAvailable,
}

/// Restrictions of caching by existing opens.
#[derive(Clone, Copy, Debug, Default)]
struct Others {
    /// True if one of them has handle caching.
    handles: bool,
    /// True if one of them has an oplock.
    oplocks: bool,
    /// True if one of them uses the file, which excludes write caching.
    users: bool,
}

impl AdmissionRequest {
    /// Access that the request makes of the file. Truncation writes, whatever access the open is
    /// granted afterwards: [MS-FSA] 2.1.5.1.2.
    fn demand(&self) -> ShareMode {
        let mut mode = self.mode;
        if self.overwrites {
            mode.granted_access |= AccessMask::WRITE_DATA;
        }
        mode
    }
}

/// True for an open for attributes alone, which breaks no oplock.
fn is_stat_open(mode: ShareMode) -> bool {
    let stat = AccessMask::SYNCHRONIZE | AccessMask::READ_ATTRIBUTES | AccessMask::WRITE_ATTRIBUTES;
    stat.contains(mode.granted_access)
}

/// True for an open that breaks no lease, either: it may also read the security descriptor.
fn is_stat_open_for_leases(mode: ShareMode) -> bool {
    let access = mode.granted_access - AccessMask::READ_CONTROL;
    is_stat_open(ShareMode { granted_access: access, ..mode })
}

/// True if the requested delete access conflicts with the open of a stream that does not share
/// deletion: [MS-FSA] 2.1.5.1.2.2.
fn conflicts_across_streams(request: &AdmissionRequest, stream: &OpenEntry) -> bool {
    request.stream == 0
        && request.mode.granted_access.contains(AccessMask::DELETE)
        && stream.mode.counts()
        && !stream.mode.share_delete
}

impl FileRecord {
    /// Decides on an open and adds it, or begins the breaks that it needs.
    ///
    /// A conflicting disconnected open is removed at once: its client cannot answer. The second
    /// part of the result has these opens. The facts of a granted open move into the record.
    pub fn admit(
        &mut self,
        request: &mut AdmissionRequest,
        durability: Option<Durability>,
        notify: &mut WorkersToNotify,
    ) -> (Admission, Vec<OpenEntry>) {
        let mut purged = Vec::new();
        if !self.is_untouched()
            && let Some(decided) = self.admit_beside(request, notify, &mut purged)
        {
            return (decided, purged);
        }
        let (holding, granted) = match request.caching {
            RequestedCaching::Nothing => (Holding::Nothing, Granted::default()),
            _ => self.grant(request),
        };
        // [MS-SMB2] 3.3.5.9.6, 3.3.5.9.10: without handle caching an open cannot be durable.
        let keeps = granted.caching.contains(Caching::HANDLE);
        let durability = durability.filter(|it| keeps || it.kind == DurabilityKind::Persistent);
        let granted = Granted { is_durable: durability.is_some(), ..granted };
        if self.opens.is_empty() {
            // Most files have one open; a growing vector would allocate four.
            self.opens.reserve_exact(1);
        }
        self.opens.push(OpenEntry {
            id: request.id,
            stream: request.stream,
            mode: request.mode,
            holding,
            delete_on_close: request.delete_on_close,
            durability,
            evicted: false,
            facts: std::mem::take(&mut request.facts),
        });
        if granted.lease.is_some_and(|it| it.cache.notice.is_some()) {
            // Only from now on has the lease an open whose client can be notified.
            notify.add(request.id.worker);
        }
        (Admission::Granted(granted), purged)
    }

    /// True if nothing in the record can keep an open from being granted.
    fn is_untouched(&self) -> bool {
        self.opens.is_empty() && self.leases.is_empty() && self.delete_pending.is_empty()
    }

    /// Decides on an open beside others. `None` without a conflict.
    fn admit_beside(
        &mut self,
        request: &AdmissionRequest,
        notify: &mut WorkersToNotify,
        purged: &mut Vec<OpenEntry>,
    ) -> Option<Admission> {
        self.expire(request.now, notify);
        *purged = self.remove_expired(request.now, request.id.worker, notify);
        if self.is_delete_pending(request.stream, request.facts.link) {
            return Some(self.await_deletion(request));
        }
        if !self.permits_open(request) {
            return Some(Admission::Refused(Refusal::TooManyOpens));
        }
        if self.is_reserved_for_another(request) {
            return Some(Admission::Refused(Refusal::NotAvailable));
        }
        if self.opens.iter().any(|it| it.evicted && it.stream == request.stream) {
            // The open is being closed.
            self.wait(request.id.worker);
            return Some(Admission::Wait);
        }
        if self.outruns_own_break(request) {
            self.wait(request.id.worker);
            return Some(Admission::Wait);
        }
        purged.extend(self.purge_conflicting(request, notify));
        let is_full = || self.bytes_of_opens() >= FILE_BYTES_MAX;
        if self.opens.len() >= FILE_OPENS_MAX || is_full() {
            purged.extend(self.purge(|it| !it.excludes(), request.id.worker, notify));
        }
        if self.is_delete_pending(request.stream, request.facts.link) {
            // A removed open was to delete the file by its close.
            return Some(self.await_deletion(request));
        }
        let violates = self.violates(request);
        if !is_stat_open(request.demand()) && self.break_others(request, violates, notify) {
            self.wait(request.id.worker);
            return Some(Admission::Wait);
        }
        violates.then_some(Admission::Refused(Refusal::Sharing))
    }

    /// Waits for a delegated deletion instead of refusing: the file's last open is closed, and its
    /// deletion still pending.
    fn await_deletion(&mut self, request: &AdmissionRequest) -> Admission {
        if self.is_delegated(request.stream, request.facts.link) {
            self.wait(request.id.worker);
            return Admission::Wait;
        }
        Admission::Refused(Refusal::DeletePending)
    }

    /// True if the request conflicts with the share mode of another open.
    fn violates(&self, request: &AdmissionRequest) -> bool {
        !is_stat_open(request.demand())
            && self.opens.iter().filter(|it| it.excludes()).any(|it| {
                if it.stream == request.stream {
                    conflict(it.mode, request.demand())
                } else {
                    conflicts_across_streams(request, it)
                }
            })
    }

    /// True if the file is reserved for another client, by its disconnected persistent open: no
    /// break of a cached handle could make room, or its byte-range locks need the write caching
    /// that it lacks.
    fn is_reserved_for_another(&self, request: &AdmissionRequest) -> bool {
        let needed = match self.locks.is_locked(request.stream) {
            true => Caching::HANDLE | Caching::WRITE,
            false => Caching::HANDLE,
        };
        !is_stat_open(request.demand())
            && self.opens.iter().any(|it| {
                it.stream == request.stream
                    && it.is_persistent()
                    && it.is_disconnected()
                    && it.mode.counts()
                    && !is_ours(it, request.caching.lease())
                    && !self.cache_of(it).state.contains(needed)
            })
    }

    /// Removes conflicting disconnected opens, except resilient and persistent ones.
    fn purge_conflicting(
        &mut self,
        request: &AdmissionRequest,
        notify: &mut WorkersToNotify,
    ) -> Vec<OpenEntry> {
        if is_stat_open(request.demand()) || !self.opens.iter().any(OpenEntry::is_disconnected) {
            return Vec::new();
        }
        let unwanted: BTreeSet<OpenId> = self
            .opens
            .iter()
            .filter(|it| it.stream == request.stream && it.is_disconnected() && !it.is_kept())
            .filter(|it| {
                let violates = conflict(it.mode, request.demand());
                let held = self.cache_of(it).state;
                violates || self.is_disturbed(it, request, false, held)
            })
            .map(|it| it.id)
            .collect();
        let disturbed = |record: &Self, it: &OpenEntry| {
            let violates = conflict(it.mode, request.demand());
            let held = record.cache_of(it).state;
            it.stream == request.stream && record.is_disturbed(it, request, violates, held)
        };
        self.remove_resilient_caching(disturbed, notify);
        self.purge(|it| unwanted.contains(&it.id), request.id.worker, notify)
    }

    /// True if an open loses rights by the request.
    fn is_disturbed(
        &self,
        it: &OpenEntry,
        request: &AdmissionRequest,
        violates: bool,
        held: Caching,
    ) -> bool {
        let to = remaining_caching(held, request, violates);
        let is_lease = matches!(it.holding, Holding::Lease(_));
        let spared = is_ours(it, request.caching.lease())
            || (is_lease && is_stat_open_for_leases(request.demand()));
        !spared && !to.contains(held)
    }

    /// Begins all breaks that the open needs. Returns true if it has to wait for one of them.
    fn break_others(
        &mut self,
        request: &AdmissionRequest,
        violates: bool,
        notify: &mut WorkersToNotify,
    ) -> bool {
        let mut must_wait = false;
        let mut awaited = if violates { Caching::HANDLE } else { Caching::WRITE };
        if request.delete_on_close {
            awaited |= Caching::HANDLE;
        }
        for at in 0..self.opens.len() {
            let entry = &self.opens[at];
            if entry.stream != request.stream || is_ours(entry, request.caching.lease()) {
                continue;
            }
            let is_lease = matches!(entry.holding, Holding::Lease(_));
            if is_lease && is_stat_open_for_leases(request.demand()) {
                continue;
            }
            let cache = self.cache_of(entry);
            let held = cache.state;
            // A lease that is waited for has another open in this list, with access to the data.
            let is_awaited = entry.mode.counts();
            let is_breaking = is_lease && cache.breaking.is_some();
            // As by Windows, an open of a file waits for a break that takes nothing for it. Each
            // change of a listing breaks leases of a directory: a holder who may only read would
            // keep everybody out by not acknowledging them.
            if !self.is_disturbed(entry, request, violates, held) {
                must_wait |= is_breaking && is_awaited && !request.is_directory;
                continue;
            }
            let mut to = remaining_caching(held, request, violates);
            if request.overwrites && !violates {
                // Truncation would break the rest anyway.
                to = Caching::empty();
            }
            if !is_lease {
                to &= if request.shared_reading { Caching::READ } else { Caching::empty() };
            }
            must_wait |= held.intersects(awaited) && is_awaited;
            must_wait |= is_breaking && request.has_waited && is_awaited;
            self.start_break(at, to, request.deadline, notify);
        }
        must_wait
    }

    /// True if the request has access to the data, and its lease is of opens for attributes alone
    /// whose break has more to tell than the response. The client could take the notification for
    /// rights that the lease has lost by now, so it acknowledges first.
    fn outruns_own_break(&self, request: &AdmissionRequest) -> bool {
        let lease = request.caching.lease().filter(|_| request.mode.counts());
        let Some(lease) = lease.and_then(|id| self.lease(id)) else { return false };
        let is_left = lease.cache.breaking.is_some_and(|it| it.to != lease.cache.state);
        let mut holders = self.opens.iter().filter(|it| it.lease() == Some(lease.id));
        is_left
            && notified_open(&self.opens, lease.id).is_some()
            && holders.all(|it| !it.mode.counts())
    }

    /// Grants the oplock or lease that the request asks for, or less.
    fn grant(&mut self, request: &AdmissionRequest) -> (Holding, Granted) {
        let caching = self.grantable(request);
        match request.caching {
            RequestedCaching::Nothing => (Holding::Nothing, Granted::default()),
            RequestedCaching::Oplock(_) if caching.is_empty() => {
                (Holding::Nothing, Granted::default())
            }
            RequestedCaching::Oplock(_) => {
                let granted = Granted { caching, ..Granted::default() };
                (Holding::Oplock(Cache::granted(caching)), granted)
            }
            RequestedCaching::Lease { id, state, epoch, is_v2, parent } => {
                // Directories are not written, so write caching of them counts as granted.
                let state = if request.is_directory { state - Caching::WRITE } else { state };
                let lease =
                    self.grant_lease(request.stream, id, caching, state, epoch, is_v2, parent);
                let granted =
                    Granted { caching: lease.cache.state, lease: Some(lease), is_durable: false };
                (Holding::Lease(id), granted)
            }
        }
    }

    /// Caching that the open may have: [MS-FSA] 2.1.5.18, and Windows' behavior for mixtures.
    fn grantable(&self, request: &AdmissionRequest) -> Caching {
        let (mut caching, is_lease) = match request.caching {
            RequestedCaching::Nothing => return Caching::empty(),
            // Oplocks are not granted for the attributes of an existing file, nor on directories.
            RequestedCaching::Oplock(_)
                if request.is_directory || (is_stat_open(request.mode) && !request.is_new) =>
            {
                return Caching::empty();
            }
            RequestedCaching::Oplock(wanted) => (wanted, false),
            RequestedCaching::Lease { state, .. } => (state.sensible(), true),
        };
        caching &= request.caching_max;
        if request.is_directory {
            caching -= Caching::WRITE;
        }
        if !request.is_new && self.locks.is_locked_below(request.stream, request.size) {
            caching -= Caching::READ | Caching::HANDLE;
        }
        let others = self.others(request);
        if others.users {
            caching -= Caching::WRITE;
        }
        if shares_reading(caching) && !request.shared_reading && !request.is_directory {
            return Caching::empty();
        }
        if is_lease {
            if others.oplocks {
                caching -= Caching::HANDLE;
            }
            return caching.sensible();
        }
        if others.handles { Caching::empty() } else { caching.as_oplock() }
    }

    fn others(&self, request: &AdmissionRequest) -> Others {
        let mut others = Others::default();
        for it in self.opens.iter().filter(|it| it.stream == request.stream) {
            if is_ours(it, request.caching.lease()) {
                continue;
            }
            let held = self.cache_of(it).state;
            others.handles |= held.contains(Caching::HANDLE);
            let (is_oplock, is_lease) = match it.holding {
                Holding::Nothing => (false, false),
                Holding::Oplock(cache) => (!cache.state.is_empty(), false),
                Holding::Lease(_) => (false, true),
            };
            others.oplocks |= is_oplock;
            others.users |= is_oplock || is_lease || !is_stat_open(it.mode);
        }
        others
    }

    /// Creates the lease or extends it: [MS-SMB2] 3.3.5.9.8, 3.3.5.9.11. It is extended only if all
    /// requested rights can be granted, and none is lost.
    #[expect(clippy::too_many_arguments, reason = "the fields of the request")]
    fn grant_lease(
        &mut self,
        stream: u64,
        id: LeaseId,
        granted: Caching,
        wanted: Caching,
        epoch: u16,
        is_v2: bool,
        parent: Option<[u8; 16]>,
    ) -> Lease {
        let is_here = notified_open(&self.opens, id).is_some();
        if let Some(lease) = self.lease_mut(id) {
            if !is_here {
                lease.cache.notify_again();
            }
            let state = lease.cache.state;
            let adds = granted != state && granted.contains(state) && granted == wanted;
            // A holder not yet notified of a loss must not trust its old data again.
            let is_settled = lease.cache.breaking.is_none() && lease.cache.notice.is_none();
            if adds && is_settled {
                lease.cache.state = granted;
                lease.epoch = lease.epoch.wrapping_add(1);
            }
            return *lease;
        }
        let epoch = match (is_v2, granted.is_empty()) {
            (true, false) => epoch.wrapping_add(1),
            (true, true) => epoch,
            (false, _) => 0,
        };
        let lease = Lease { id, stream, cache: Cache::granted(granted), epoch, is_v2, parent };
        self.add_lease(lease);
        lease
    }
}

/// Returns the rights of `held` that can stay beside the open.
fn remaining_caching(held: Caching, request: &AdmissionRequest, violates: bool) -> Caching {
    if violates {
        return held - Caching::HANDLE;
    }
    let mut left = held - Caching::WRITE;
    if request.delete_on_close {
        // A cached handle would keep the file.
        left -= Caching::HANDLE;
    }
    if request.overwrites
        || (shares_reading(left) && !request.shared_reading && !request.is_directory)
    {
        left -= Caching::HANDLE | Caching::READ;
    }
    left
}

/// True if other clients may have the same rights.
fn shares_reading(caching: Caching) -> bool {
    caching.contains(Caching::READ) && !caching.contains(Caching::WRITE)
}
