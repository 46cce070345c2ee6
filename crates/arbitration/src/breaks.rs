//! Breaks of caching: their begin, the notifications of clients, the acknowledgments, and the end
//! without one: [MS-FSA] 2.1.4.12, [MS-SMB2] 3.3.4.6, 3.3.4.7, 3.3.5.22.
//!
//! Terms. *Notice*: a break notification that its worker has not sent yet. *Notified open*: the one
//! whose session receives the notice of a lease. The others are those of `admission`.

use std::collections::BTreeSet;
use std::time::Duration;

use dtyp::ServerId;

use crate::caching::{AckError, BreakNotice, Cache, Caching, Started};
use crate::file_record::{FileRecord, WorkersToNotify};
use crate::open::{Holding, Lease, LeaseId, LeaseKey, OpenEntry, OpenId};

/// Time for a client to close cached handles of opens for attributes alone, where they refuse a
/// rename. It needs no right to the data for them, so others do not wait long.
const ATTRIBUTES_BREAK_TIMEOUT: Duration = Duration::from_secs(1);

/// A break notification for a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OutgoingBreak {
    /// Number of the open whose session receives it.
    pub open: u64,
    /// The lease; `None` for an oplock.
    pub lease: Option<Lease>,
    /// Rights before and after the break.
    pub notice: BreakNotice,
}

impl FileRecord {
    /// True if the oplock or lease of an open covers access to the data, and others wait for its
    /// breaks.
    ///
    /// Everybody who can look up a file may open it for its attributes, and is granted caching for
    /// that, as by Windows. Such opens alone have no data to write back and no share mode to give
    /// up, so nobody waits for a client that may have no right to the file.
    fn covers_data(&self, entry: &OpenEntry) -> bool {
        entry.mode.counts()
            || entry.lease().is_some_and(|lease| {
                self.opens.iter().any(|it| it.mode.counts() && it.lease() == Some(lease))
            })
    }

    /// Begins to break the caching of the open at `at`, down to `to`. Caching that covers no access
    /// to the data ends at once.
    pub(crate) fn start_break(
        &mut self,
        at: usize,
        to: Caching,
        deadline: Duration,
        notify: &mut WorkersToNotify,
    ) {
        if self.covers_data(&self.opens[at]) {
            return self.break_at(at, |it| it.start_break(to, deadline), notify);
        }
        let before = self.cache_of(&self.opens[at]).state;
        self.break_at(at, |it| it.start_break_at_once(to, deadline), notify);
        if self.cache_of(&self.opens[at]).state != before {
            // A rename may wait for an earlier break of it.
            self.wake(notify);
        }
    }

    /// Breaks the caching of the open at `at` by `start`, and has its holder notified.
    fn break_at(
        &mut self,
        at: usize,
        start: impl FnOnce(&mut Cache) -> Started,
        notify: &mut WorkersToNotify,
    ) {
        let id = self.opens[at].id;
        match &mut self.opens[at].holding {
            Holding::Nothing => {}
            Holding::Oplock(cache) => {
                if start(cache) == Started::Notified {
                    notify.add(id.worker);
                }
            }
            Holding::Lease(lease) => {
                let lease = *lease;
                let notified_open = notified_open(&self.opens, lease);
                let Some(lease) = self.lease_mut(lease) else { return };
                if start(&mut lease.cache) == Started::Notified {
                    lease.epoch = lease.epoch.wrapping_add(1);
                    if let Some(notified_open) = notified_open {
                        notify.add(notified_open.worker);
                    }
                }
            }
        }
    }

    /// Breaks read caching of others because of a change: a WRITE, a new length, a byte-range lock.
    /// The change does not wait for it.
    ///
    /// Even the changer's own level II oplock is broken; its lease stays.
    pub fn break_reading(
        &mut self,
        changer: OpenId,
        stream: u64,
        deadline: Duration,
        notify: &mut WorkersToNotify,
    ) -> Vec<OpenEntry> {
        self.break_read_caching(changer, stream, false, deadline, notify)
    }

    /// As [`FileRecord::break_reading`], after the change: for reads in the meantime. The changer's
    /// own caching stays: it was granted after the change.
    pub fn break_reading_of_others(
        &mut self,
        changer: OpenId,
        stream: u64,
        deadline: Duration,
        notify: &mut WorkersToNotify,
    ) -> Vec<OpenEntry> {
        self.break_read_caching(changer, stream, true, deadline, notify)
    }

    fn break_read_caching(
        &mut self,
        changer: OpenId,
        stream: u64,
        spares_changer: bool,
        deadline: Duration,
        notify: &mut WorkersToNotify,
    ) -> Vec<OpenEntry> {
        let ours = self.open(changer).map(|it| it.holding);
        let ours_lease = match ours {
            Some(Holding::Lease(id)) => Some(id),
            _ => None,
        };
        let disconnected: BTreeSet<OpenId> = self
            .opens
            .iter()
            .filter(|it| it.stream == stream && it.is_disconnected() && !it.is_kept())
            .filter(|it| !is_ours(it, ours_lease) && !self.cache_of(it).state.is_empty())
            .map(|it| it.id)
            .collect();
        self.remove_resilient_caching(
            |_, it| it.stream == stream && !is_ours(it, ours_lease),
            notify,
        );
        let purged = self.purge(|it| disconnected.contains(&it.id), changer.worker, notify);
        for at in 0..self.opens.len() {
            let entry = &self.opens[at];
            let held = self.cache_of(entry).state;
            let keeps_writes = held.contains(Caching::WRITE) && entry.id == changer;
            if entry.stream == stream
                && held.contains(Caching::READ)
                && !is_ours(entry, ours_lease)
                && !keeps_writes
                && !(spares_changer && entry.id == changer)
            {
                self.start_break(at, Caching::empty(), deadline, notify);
            }
        }
        purged
    }

    /// Breaks all rights of a lease.
    pub fn break_lease(
        &mut self,
        lease: LeaseId,
        deadline: Duration,
        notify: &mut WorkersToNotify,
    ) {
        let holds = |it: &OpenEntry| it.holding == Holding::Lease(lease);
        if let Some(at) = self.opens.iter().position(holds) {
            self.start_break(at, Caching::empty(), deadline, notify);
        }
    }

    /// Breaks the oplock of an open because another program of this machine opens its file, down to
    /// nothing.
    pub fn break_oplock(&mut self, id: OpenId, deadline: Duration, notify: &mut WorkersToNotify) {
        let has_oplock = |it: &OpenEntry| it.id == id && matches!(it.holding, Holding::Oplock(_));
        if let Some(at) = self.opens.iter().position(has_oplock) {
            self.start_break(at, Caching::empty(), deadline, notify);
        }
    }

    /// Breaks caching of a directory's listing because of a change: [MS-SMB2] 3.3.4.7 for leases on
    /// directories. The changer knows of it if its ParentLeaseKey is the key of the lease:
    /// [MS-FSA] 2.1.4.12.2 compares keys alone, of whatever client.
    pub fn break_listing(
        &mut self,
        by: Option<LeaseKey>,
        deadline: Duration,
        notify: &mut WorkersToNotify,
    ) {
        for at in 0..self.opens.len() {
            let entry = &self.opens[at];
            let key = entry.lease().map(|it| it.key);
            let held = self.cache_of(entry).state;
            if key.is_some() && held.contains(Caching::READ) && key != by {
                self.start_break(at, Caching::empty(), deadline, notify);
            }
        }
    }

    /// Breaks handle caching of others before the name is deleted or changed. Returns true if one
    /// of the breaks has to be waited for; the worker is then among the waiters.
    pub fn break_handles(
        &mut self,
        changer: OpenId,
        deadline: Duration,
        now: Duration,
        notify: &mut WorkersToNotify,
    ) -> (bool, Vec<OpenEntry>) {
        let ours = self.open(changer).and_then(OpenEntry::lease);
        let is_other = |it: &OpenEntry| it.id != changer && !is_ours(it, ours);
        self.break_handles_where(&is_other, changer.worker, (deadline, None), now, notify)
    }

    /// As [`FileRecord::break_handles`], of the opens for which `conflicts` is true, for a request
    /// of `worker` that is refused if they stay. So it waits for those for attributes alone, too,
    /// but only for a moment.
    pub fn break_handles_of(
        &mut self,
        conflicts: &dyn Fn(&OpenEntry) -> bool,
        worker: ServerId,
        (deadline, now): (Duration, Duration),
        notify: &mut WorkersToNotify,
    ) -> (bool, Vec<OpenEntry>) {
        let soon = deadline.min(now + ATTRIBUTES_BREAK_TIMEOUT);
        self.break_handles_where(conflicts, worker, (deadline, Some(soon)), now, notify)
    }

    /// Breaks handle caching of opens until `deadline`; that of attributes alone until another
    /// time, or at once.
    fn break_handles_where(
        &mut self,
        conflicts: &dyn Fn(&OpenEntry) -> bool,
        worker: ServerId,
        (deadline, of_attributes): (Duration, Option<Duration>),
        now: Duration,
        notify: &mut WorkersToNotify,
    ) -> (bool, Vec<OpenEntry>) {
        self.expire(now, notify);
        let mut purged = self.remove_expired(now, worker, notify);
        let disconnected: BTreeSet<OpenId> = self
            .opens
            .iter()
            .filter(|it| it.is_disconnected() && !it.is_kept() && conflicts(it))
            .filter(|it| self.cache_of(it).state.contains(Caching::HANDLE))
            .map(|it| it.id)
            .collect();
        self.remove_resilient_caching(|_, it| conflicts(it), notify);
        purged.extend(self.purge(|it| disconnected.contains(&it.id), worker, notify));
        let mut must_wait = false;
        for at in 0..self.opens.len() {
            let entry = &self.opens[at];
            let cache = self.cache_of(entry);
            if !conflicts(entry) || !cache.state.contains(Caching::HANDLE) {
                continue;
            }
            let is_lease = matches!(entry.holding, Holding::Lease(_));
            let to = if is_lease { cache.state - Caching::HANDLE } else { Caching::READ };
            let ends_at = if self.covers_data(entry) { Some(deadline) } else { of_attributes };
            match ends_at {
                Some(ends_at) => {
                    must_wait = true;
                    self.break_at(at, |it| it.start_break(to, ends_at), notify);
                }
                None => self.start_break(at, to, deadline, notify),
            }
        }
        if must_wait {
            self.wait(worker);
        }
        (must_wait, purged)
    }

    /// Removes the caching of disconnected resilient opens: [MS-SMB2] 3.3.4.6 keeps the opens
    /// without it, since their clients cannot acknowledge a break.
    pub(crate) fn remove_resilient_caching(
        &mut self,
        disturbed: impl Fn(&Self, &OpenEntry) -> bool,
        notify: &mut WorkersToNotify,
    ) {
        let is_silent = |it: &OpenEntry| {
            let is_away = it.is_disconnected() && it.is_kept() && !it.is_persistent();
            is_away && self.cache_of(it) != Cache::default() && disturbed(self, it)
        };
        let silent: Vec<OpenId> =
            self.opens.iter().filter(|it| is_silent(it)).map(|it| it.id).collect();
        let mut is_taken = false;
        for id in silent {
            match self.open_mut(id).map(|it| &mut it.holding) {
                Some(Holding::Oplock(cache)) => {
                    *cache = Cache::default();
                    is_taken = true;
                }
                Some(Holding::Lease(lease)) => {
                    let lease = *lease;
                    // A connected open of the same lease can acknowledge.
                    if notified_open(&self.opens, lease).is_none()
                        && let Some(lease) = self.lease_mut(lease)
                    {
                        lease.cache = Cache::default();
                        lease.epoch = lease.epoch.wrapping_add(1);
                        is_taken = true;
                    }
                }
                Some(Holding::Nothing) | None => {}
            }
        }
        if is_taken {
            // Requests may wait for an acknowledgment that is no longer pending.
            self.wake(notify);
        }
    }

    /// Takes pending break notifications for holders served by `worker`. Disconnected holders get
    /// theirs on return; an open for which `knows` is false, later.
    pub fn take_notices(
        &mut self,
        worker: ServerId,
        knows: impl Fn(u64) -> bool,
    ) -> Vec<OutgoingBreak> {
        let mut outgoing = Vec::new();
        let can_notify =
            |it: &OpenEntry| it.id.worker == worker && !it.is_disconnected() && knows(it.id.number);
        for entry in self.opens.iter_mut().filter(|it| can_notify(it)) {
            if let Holding::Oplock(cache) = &mut entry.holding
                && let Some(notice) = cache.notice.take()
            {
                outgoing.push(OutgoingBreak { open: entry.id.number, lease: None, notice });
            }
        }
        for lease in self.leases.iter_mut().filter(|it| it.cache.notice.is_some()) {
            let mut holders = self.opens.iter().filter(|it| it.holding == Holding::Lease(lease.id));
            if let Some(notified_open) = holders.find(|it| can_notify(it))
                && let Some(notice) = lease.cache.notice.take()
            {
                outgoing.push(OutgoingBreak {
                    open: notified_open.id.number,
                    lease: Some(*lease),
                    notice,
                });
            }
        }
        outgoing
    }

    /// Repeats a break notification to a client that was disconnected.
    pub(crate) fn notify_again(&mut self, at: usize) {
        match &mut self.opens[at].holding {
            Holding::Nothing => {}
            Holding::Oplock(cache) => cache.notify_again(),
            Holding::Lease(id) => {
                let id = *id;
                let is_here = notified_open(&self.opens, id).is_some();
                let lease = self.lease_mut(id);
                lease.filter(|_| !is_here).into_iter().for_each(|it| it.cache.notify_again());
            }
        }
    }

    /// Handles the acknowledgment of an oplock break: [MS-SMB2] 3.3.5.22.1.
    ///
    /// # Errors
    /// The open holds no oplock, or none with a break, or claims too many rights.
    pub fn acknowledge_oplock(
        &mut self,
        id: OpenId,
        kept: Caching,
        deadline: Duration,
        notify: &mut WorkersToNotify,
    ) -> Result<(), AckError> {
        let entry = self.open_mut(id).ok_or(AckError::NotHeld)?;
        let Holding::Oplock(cache) = &mut entry.holding else { return Err(AckError::NotHeld) };
        if cache.state.is_empty() && cache.breaking.is_none() {
            return Err(AckError::NotHeld);
        }
        cache.settle(kept, deadline)?;
        if cache.notice.is_some() {
            notify.add(id.worker);
        }
        self.wake(notify);
        Ok(())
    }

    /// Handles the acknowledgment of a lease break: [MS-SMB2] 3.3.5.22.2.
    ///
    /// # Errors
    /// The lease does not exist, has no break, or the client claims too many rights.
    pub fn acknowledge_lease(
        &mut self,
        id: LeaseId,
        kept: Caching,
        deadline: Duration,
        notify: &mut WorkersToNotify,
    ) -> Result<(), AckError> {
        let lease = self.lease_mut(id).ok_or(AckError::NotHeld)?;
        lease.cache.settle(kept, deadline)?;
        if lease.cache.notice.is_some()
            && let Some(notified_open) = notified_open(&self.opens, id)
        {
            notify.add(notified_open.worker);
        }
        self.wake(notify);
        Ok(())
    }

    /// Ends the break of an oplock whose rights are removed already: the response to its CREATE
    /// states those that are left, and a client does not acknowledge a break down to them.
    pub fn end_break_by_response(&mut self, id: OpenId) {
        if let Some(Holding::Oplock(cache)) = self.open_mut(id).map(|it| &mut it.holding) {
            cache.end_if_reduced();
        }
    }

    /// Takes the oplock of an open away that its client has not learned of yet.
    pub fn withdraw_oplock(&mut self, id: OpenId, notify: &mut WorkersToNotify) {
        let Some(entry) = self.open_mut(id) else { return };
        if matches!(entry.holding, Holding::Oplock(_)) {
            entry.holding = Holding::Nothing;
            self.wake(notify);
        }
    }

    /// Ends breaks past their deadline, with the loss of all rights. Returns true if there was one.
    pub fn expire(&mut self, now: Duration, notify: &mut WorkersToNotify) -> bool {
        let mut expired = false;
        for entry in &mut self.opens {
            if let Holding::Oplock(cache) = &mut entry.holding {
                expired |= cache.expire(now);
            }
        }
        for lease in &mut self.leases {
            if lease.cache.expire(now) {
                lease.epoch = lease.epoch.wrapping_add(1);
                expired = true;
            }
        }
        if expired {
            self.wake(notify);
        }
        expired
    }

    /// Time at which [`FileRecord::expire`] has work.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        let oplocks = self.opens.iter().filter_map(|it| match &it.holding {
            Holding::Oplock(cache) => cache.breaking,
            _ => None,
        });
        let leases = self.leases.iter().filter_map(|it| it.cache.breaking);
        oplocks.chain(leases).map(|it| it.deadline).min()
    }
}

/// Open whose session receives a lease's notifications: the oldest connected one.
pub(crate) fn notified_open(opens: &[OpenEntry], lease: LeaseId) -> Option<OpenId> {
    let mut holders = opens.iter().filter(|it| it.holding == Holding::Lease(lease));
    holders.find(|it| !it.is_disconnected()).map(|it| it.id)
}

/// True if an open shares the given lease: a client never breaks its own lease.
pub(crate) fn is_ours(it: &OpenEntry, lease: Option<LeaseId>) -> bool {
    matches!((it.holding, lease), (Holding::Lease(id), Some(ours)) if id == ours)
}
