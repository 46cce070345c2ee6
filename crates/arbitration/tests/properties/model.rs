//! Plain model of the knowledge of clients and workers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use arbitration::{
    AckError, Admission, AdmissionRequest, ByteRange, ByteRangeLock, Cache, Caching, Deleter,
    Durability, DurabilityKind, FileRecord, Granted, LeaseId, LockList, LockSequences, OpenFacts,
    OpenId, OutgoingBreak, PendingDeletion, Refusal, RequestedCaching, ShareMode, Standing,
    WorkersToNotify,
};
use dtyp::{AccessMask, Guid, ServerId};

use crate::step::{Step, Wanted};

/// Time for an acknowledgment of a break.
const BREAK_TIMEOUT: Duration = Duration::from_secs(35);

/// Time for which a durable open is kept.
const KEPT: Duration = Duration::from_secs(40);

/// Reads and expirations after which a request that still waits is stuck.
const ROUNDS_MAX: usize = 100;

const ATTRIBUTES: AccessMask = AccessMask::READ_ATTRIBUTES.union(AccessMask::SYNCHRONIZE);

/// Access masks that a CREATE may request.
const ACCESSES: [AccessMask; 7] = [
    AccessMask::READ_DATA.union(ATTRIBUTES),
    AccessMask::READ_DATA.union(AccessMask::WRITE_DATA),
    AccessMask::WRITE_DATA.union(ATTRIBUTES),
    AccessMask::READ_DATA.union(AccessMask::DELETE),
    AccessMask::EXECUTE,
    ATTRIBUTES,
    ATTRIBUTES.union(AccessMask::READ_CONTROL),
];

/// A holder of caching at a client.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Holder {
    Lease(LeaseId),
    Oplock(OpenId),
}

/// An open as its client knows it.
#[derive(Clone, Debug)]
struct Known {
    stream: u64,
    mode: ShareMode,
    delete_on_close: bool,
    holder: Option<Holder>,
    durable: Option<DurabilityKind>,
    is_away: bool,
    /// True if its worker has to close it.
    is_evicted: bool,
    persistent: u64,
}

impl Known {
    /// True if it stays despite conflicting opens.
    fn is_kept(&self) -> bool {
        matches!(self.durable, Some(DurabilityKind::Persistent | DurabilityKind::Resilient))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    record: FileRecord,
    now: Duration,
    count: u64,
    opens: BTreeMap<OpenId, Known>,
    /// Rights that each holder believes to have.
    beliefs: BTreeMap<Holder, Caching>,
    /// Rights left by notified breaks without an acknowledgment.
    sent: BTreeMap<Holder, Caching>,
    locks: Vec<ByteRangeLock>,
    /// CREATE requests that wait for others.
    waiting: Vec<(AdmissionRequest, Option<Durability>)>,
    /// Workers that were notified and have not read the record.
    notified: BTreeSet<ServerId>,
    /// Streams with a deletion in progress.
    deleting: Vec<(u64, ServerId)>,
    /// Deaths of each worker. A new one has another id.
    deaths: [u64; 3],
}

impl Model {
    pub(crate) fn take(&mut self, step: &Step) {
        match *step {
            Step::Acknowledge { pick, kept } => self.acknowledge(pick, kept),
            Step::RemoveWorker { worker } => self.remove_worker(worker),
            Step::Cancel { pick } => self.cancel(pick),
            Step::Close { pick } => self.close(pick),
            Step::Deleted { pick } => self.deleted(pick),
            Step::Disconnect { pick } => self.disconnect(pick),
            Step::MarkForDeletion { pick, pending } => self.mark_for_deletion(pick, pending),
            Step::Evict { pick } => self.evict(pick),
            Step::Lock { pick, offset, length, exclusive } => {
                self.lock(pick, ByteRange { offset, length }, exclusive);
            }
            Step::WorkersToNotify { pick } => self.check(pick),
            Step::Open(wanted) => self.open(wanted),
            Step::Pass { seconds } => self.now += Duration::from_secs(seconds),
            Step::Rename { pick } => self.rename(pick),
            Step::Scavenge => self.scavenge(),
            Step::TakeUp { pick, worker } => self.reconnect(pick, worker),
            Step::Unlock { pick } => self.unlock(pick),
            Step::Write { pick } => self.write(pick),
        }
        self.remove_resilient_caching();
    }

    fn server(&self, worker: usize) -> ServerId {
        let pid = u32::try_from(worker + 1).expect("a few workers");
        ServerId { pid, unique_id: self.deaths[worker] }
    }

    /// Picks an open of a connected client.
    fn pick(&self, pick: usize) -> Option<OpenId> {
        let here = self.opens.iter().filter(|(_, it)| !it.is_away).map(|(id, _)| *id);
        let here: Vec<OpenId> = here.collect();
        here.get(pick.checked_rem(here.len())?).copied()
    }

    fn open(&mut self, wanted: Wanted) {
        self.count += 1;
        let server = self.server(wanted.worker);
        let client = Guid([u8::try_from(wanted.worker).expect("a few") + 1; 16]);
        let [share_read, share_write, share_delete] = wanted.shares;
        let mut granted_access = ACCESSES[wanted.access];
        if wanted.delete_on_close {
            granted_access |= AccessMask::DELETE;
        }
        if wanted.overwrites {
            granted_access |= AccessMask::WRITE_DATA;
        }
        let state = Caching::from_bits_truncate(wanted.caching);
        // A key belongs to one stream: for another stream it is another lease.
        let key = [wanted.wish * 16 + u8::try_from(wanted.stream).expect("a few"); 16];
        let id = LeaseId { client, key };
        let wish = match wanted.wish {
            0 => RequestedCaching::Nothing,
            1 => RequestedCaching::Oplock(state.as_oplock()),
            _ => RequestedCaching::Lease { id, state, epoch: 0, is_v2: true, parent: None },
        };
        let ask = AdmissionRequest {
            id: OpenId { worker: server, number: self.count },
            standing: Standing::User,
            stream: wanted.stream,
            mode: ShareMode { granted_access, share_read, share_write, share_delete },
            overwrites: wanted.overwrites,
            is_new: wanted.overwrites,
            size: 100,
            is_directory: false,
            delete_on_close: wanted.delete_on_close,
            caching: wish,
            caching_max: Caching::all(),
            shared_reading: true,
            has_waited: false,
            now: self.now,
            deadline: self.now + BREAK_TIMEOUT,
            facts: OpenFacts { client, persistent: self.count, ..OpenFacts::default() },
        };
        let kind = [
            None,
            None,
            Some(DurabilityKind::DurableV2),
            Some(DurabilityKind::Persistent),
            Some(DurabilityKind::Resilient),
        ][wanted.durable];
        let durability = kind.map(|kind| Durability {
            expires_at: None,
            timeout: KEPT,
            kind,
            create_guid: Guid::ZERO,
            owner: String::new(),
            position: 0,
            lock_sequences: LockSequences::default(),
        });
        self.admit(ask, durability);
    }

    fn admit(&mut self, ask: AdmissionRequest, durability: Option<Durability>) {
        let ask = AdmissionRequest { now: self.now, deadline: self.now + BREAK_TIMEOUT, ..ask };
        let before = self.record.clone();
        self.expire();
        let mut notify = WorkersToNotify::default();
        let (admission, purged) =
            self.record.admit(&mut ask.clone(), durability.clone(), &mut notify);
        for gone in &purged {
            let known = self.opens.get(&gone.id).expect("what is purged was known");
            assert!(known.is_away, "only those who are away give way: {gone:?}");
            let is_late = gone.expires_at().is_some_and(|it| it <= self.now);
            assert!(is_late || !known.is_kept(), "what is kept stays: {gone:?}");
            self.forget(gone.id);
        }
        // The admitted open is not known yet, and belongs to a connected client.
        self.remove_resilient_caching();
        match &admission {
            Admission::Granted(granted) => self.granted(&ask, durability, granted),
            Admission::Wait => {
                assert!(self.may_wait(&ask), "nobody must be waited for: {ask:?} {before:?}");
                self.waiting.push((AdmissionRequest { has_waited: true, ..ask }, durability));
            }
            Admission::Refused(Refusal::Sharing) => {
                assert!(self.is_excluded(&ask), "nobody excludes {ask:?}: {before:?}");
            }
            Admission::Refused(Refusal::DeletePending) => {
                assert!(self.record.is_delete_pending(ask.stream, 0), "nobody deletes it");
            }
            Admission::Refused(Refusal::NotAvailable) => {
                let held =
                    |it: &Known| it.is_away && it.durable == Some(DurabilityKind::Persistent);
                assert!(self.opens.values().any(held), "nobody is away");
            }
            Admission::Refused(Refusal::TooManyOpens) => panic!("there are few"),
        }
        let is_alone = before.opens.is_empty() && before.delete_pending.is_empty();
        assert!(!is_alone || matches!(admission, Admission::Granted(_)), "nobody is in the way");
        self.hear(notify);
    }

    /// True if the request may wait for others: for one with access to the data and caching, for a
    /// close by a worker, for a deletion, or for the client's own acknowledgment.
    fn may_wait(&self, ask: &AdmissionRequest) -> bool {
        let is_awaited = |it: &Known| {
            let is_cached = it.holder.is_some_and(|it| self.cache_of(it) != Cache::default());
            it.stream == ask.stream && (it.is_evicted || (is_cached && uses(it.mode) != [false; 3]))
        };
        let ours = ask.caching.lease().and_then(|id| self.record.lease(id));
        self.opens.values().any(is_awaited)
            || self.record.is_delete_pending(ask.stream, 0)
            || ours.is_some_and(|it| it.cache.breaking.is_some())
    }

    /// True if a connected open, or one that is kept, excludes this request.
    fn is_excluded(&self, ask: &AdmissionRequest) -> bool {
        let mut others = self.opens.values().filter(|it| !it.is_away || it.is_kept());
        others.any(|it| {
            if it.stream == ask.stream {
                return exclude(it.mode, ask.mode);
            }
            // Delete access to the file includes all of its streams.
            let deletes = ask.stream == 0 && uses(ask.mode)[2];
            deletes && uses(it.mode).contains(&true) && !it.mode.share_delete
        })
    }

    fn granted(
        &mut self,
        ask: &AdmissionRequest,
        durability: Option<Durability>,
        granted: &Granted,
    ) {
        assert!(!self.is_excluded(ask), "{ask:?} stands beside those that exclude it");
        let others = self.opens.values().any(|it| it.stream == ask.stream);
        let is_locked = self.locks.iter().any(|it| it.stream == ask.stream);
        let (holder, wanted) = match ask.caching {
            RequestedCaching::Nothing => (None, Caching::empty()),
            RequestedCaching::Oplock(wanted) => (Some(Holder::Oplock(ask.id)), wanted),
            RequestedCaching::Lease { id, state, .. } => (Some(Holder::Lease(id)), state),
        };
        let had = holder.and_then(|it| self.beliefs.get(&it)).copied().unwrap_or_default();
        let caching = granted.caching;
        assert!((wanted | had).contains(caching), "more than was asked for: {granted:?}");
        let is_mere_look = matches!(ask.caching, RequestedCaching::Oplock(_)) && is_stat(ask.mode);
        if !others && !is_locked && (!is_mere_look || ask.is_new) {
            assert_eq!(caching, wanted.sensible(), "nobody is in the way of {ask:?}");
        }
        let is_cut =
            self.locks.iter().any(|it| it.stream == ask.stream && it.range.offset < ask.size);
        if is_cut && !ask.is_new {
            assert!(had.contains(caching), "nothing is kept of what is locked");
        }
        let holder = holder.filter(|it| matches!(it, Holder::Lease(_)) || !caching.is_empty());
        self.forget_sent(holder);
        if let Some(holder) = holder {
            let is_sent = self.sent.contains_key(&holder);
            assert!(!is_sent || had.contains(caching), "a lease that is broken does not grow");
            self.beliefs.insert(holder, caching);
        }
        let keeps = caching.contains(Caching::HANDLE);
        let durable = durability.map(|it| it.kind);
        let durable = durable.filter(|it| keeps || *it == DurabilityKind::Persistent);
        assert_eq!(granted.is_durable, durable.is_some());
        let known = Known {
            stream: ask.stream,
            mode: ask.mode,
            delete_on_close: ask.delete_on_close,
            holder,
            durable,
            is_away: false,
            is_evicted: false,
            persistent: ask.facts.persistent,
        };
        self.opens.insert(ask.id, known);
    }

    fn acknowledge(&mut self, pick: usize, kept: u8) {
        let Some((holder, to)) =
            self.sent.iter().nth(pick.checked_rem(self.sent.len()).unwrap_or(0)).map(copied)
        else {
            return;
        };
        let kept = Caching::from_bits_truncate(kept).sensible();
        let deadline = self.now + BREAK_TIMEOUT;
        let mut notify = WorkersToNotify::default();
        let answer = match holder {
            Holder::Lease(id) => self.record.acknowledge_lease(id, kept, deadline, &mut notify),
            Holder::Oplock(id) => self.record.acknowledge_oplock(id, kept, deadline, &mut notify),
        };
        if to.contains(kept) {
            assert_eq!(answer, Ok(()), "{holder:?} keeps {kept:?} of {to:?}");
            self.sent.remove(&holder);
            self.beliefs.insert(holder, kept);
        } else {
            assert_eq!(answer, Err(AckError::TooMuch), "{holder:?} keeps {kept:?} of {to:?}");
        }
        self.hear(notify);
    }

    /// A worker reads the record: it notifies its clients, closes evicted opens, and tries requests
    /// again.
    fn check(&mut self, pick: usize) {
        let picked =
            pick.checked_rem(self.notified.len()).and_then(|at| self.notified.iter().nth(at));
        let Some(server) = picked.copied() else { return };
        self.notified.remove(&server);
        self.expire();
        for sent in self.record.take_notices(server, |_| true) {
            self.deliver(server, &sent);
        }
        let delegated = self.record.take_delegated(server);
        self.deleting.extend(delegated.iter().map(|it| (it.mark, server)));
        let evicted = self.record.opens.iter().filter(|it| it.evicted && it.id.worker == server);
        let evicted: Vec<OpenId> = evicted.map(|it| it.id).collect();
        for id in evicted {
            self.close_one(id);
        }
        let (again, rest) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(ask, _)| ask.id.worker == server);
        self.waiting = rest;
        for (ask, durability) in again {
            self.admit(ask, durability);
        }
    }

    fn deliver(&mut self, server: ServerId, sent: &OutgoingBreak) {
        let id = OpenId { worker: server, number: sent.open };
        let known = self.opens.get(&id).expect("the receiver is connected");
        assert!(!known.is_away, "the receiver is connected: {sent:?}");
        let holder = match sent.lease {
            Some(lease) => Holder::Lease(lease.id),
            None => Holder::Oplock(id),
        };
        assert_eq!(known.holder, Some(holder), "it is sent on one of its opens");
        let belief = self.beliefs.get_mut(&holder).expect("it has something to lose");
        let notice = sent.notice;
        assert!(notice.from.contains(notice.to) && notice.from != notice.to, "{notice:?}");
        assert!(belief.contains(notice.to), "it had {belief:?}: {notice:?}");
        if notice.ack_required {
            let before = self.sent.insert(holder, notice.to);
            assert_eq!(before, None, "one break at a time: {notice:?}");
        } else {
            *belief &= notice.to;
        }
    }

    /// Removes all rights of holders without a timely acknowledgment.
    fn expire(&mut self) {
        let is_late = |breaking: Option<arbitration::Breaking>| {
            breaking.is_some_and(|it| it.deadline <= self.now)
        };
        let mut late = Vec::new();
        for it in &self.record.opens {
            if let arbitration::Holding::Oplock(cache) = it.holding
                && is_late(cache.breaking)
            {
                late.push(Holder::Oplock(it.id));
            }
        }
        let leases = self.record.leases.iter().filter(|it| is_late(it.cache.breaking));
        late.extend(leases.map(|it| Holder::Lease(it.id)));
        let mut notify = WorkersToNotify::default();
        let expired = self.record.expire(self.now, &mut notify);
        assert_eq!(expired, !late.is_empty());
        for holder in late {
            self.sent.remove(&holder);
            self.beliefs.insert(holder, Caching::empty());
        }
        self.hear(notify);
    }

    fn close(&mut self, pick: usize) {
        if let Some(id) = self.pick(pick) {
            self.close_one(id);
        }
    }

    fn close_one(&mut self, id: OpenId) {
        let Some(known) = self.opens.get(&id).cloned() else { return };
        let mut notify = WorkersToNotify::default();
        let closed = self.record.close(id, known.delete_on_close, None, &mut notify);
        self.forget(id);
        if let Some(stream) = closed.unlink {
            let is_left = self.opens.values().any(|it| it.stream == stream || stream == 0);
            assert!(!is_left, "somebody has it open");
            self.deleting.push((stream, id.worker));
        }
        self.hear(notify);
    }

    fn deleted(&mut self, pick: usize) {
        if self.deleting.is_empty() {
            return;
        }
        let (stream, _) = self.deleting.remove(pick % self.deleting.len());
        let mut notify = WorkersToNotify::default();
        self.record.end_deletion(stream, &mut notify);
        assert!(!self.record.is_marked(stream));
        self.hear(notify);
    }

    /// The client of an open loses its connection.
    fn disconnect(&mut self, pick: usize) {
        let Some(id) = self.pick(pick) else { return };
        let mut notify = WorkersToNotify::default();
        let stays = self.record.disconnect(id, 0, self.now, &mut notify);
        self.hear(notify);
        if stays {
            let known = self.opens.get_mut(&id).expect("picked");
            assert!(known.durable.is_some(), "only durable opens stay");
            known.is_away = true;
        } else {
            self.close_one(id);
        }
    }

    fn reconnect(&mut self, pick: usize, worker: usize) {
        let away = self.opens.iter().filter(|(_, it)| it.is_away);
        let away: Vec<(OpenId, u64)> = away.map(|(id, it)| (*id, it.persistent)).collect();
        let Some((old, persistent)) =
            pick.checked_rem(away.len()).and_then(|at| away.get(at)).copied()
        else {
            return;
        };
        self.count += 1;
        let worker = match self.opens[&old].holder {
            // One worker serves a client, and leases are one client's.
            Some(Holder::Lease(lease)) => usize::from(lease.client.0[0]) - 1,
            _ => worker,
        };
        let id = OpenId { worker: self.server(worker), number: self.count };
        let mut notify = WorkersToNotify::default();
        let taken = self.record.reconnect(persistent, id, &mut notify);
        assert_eq!(taken.map(|it| it.id), Some(id), "what is kept can be taken up");
        self.forget_sent(self.opens[&old].holder);
        let mut known = self.opens.remove(&old).expect("listed above");
        known.is_away = false;
        if known.holder == Some(Holder::Oplock(old)) {
            known.holder = Some(Holder::Oplock(id));
            if let Some(belief) = self.beliefs.remove(&Holder::Oplock(old)) {
                self.beliefs.insert(Holder::Oplock(id), belief);
            }
            if let Some(sent) = self.sent.remove(&Holder::Oplock(old)) {
                self.sent.insert(Holder::Oplock(id), sent);
            }
        }
        self.opens.insert(id, known);
        self.locks.iter_mut().filter(|it| it.open == old).for_each(|it| it.open = id);
        self.hear(notify);
    }

    /// A disconnected resilient open loses its caching without notification: the response on its
    /// return has the rest.
    fn remove_resilient_caching(&mut self) {
        for (id, known) in self.opens.iter().filter(|(_, it)| it.is_kept() && it.is_away) {
            let Some(holder) = known.holder else { continue };
            let is_heard = |it: &Known| it.holder == Some(holder) && !it.is_away;
            let entry = self.record.open(*id).expect("an open");
            let cache = self.record.cache_of(entry);
            if entry.is_persistent() || self.opens.values().any(is_heard) || !cache.state.is_empty()
            {
                continue;
            }
            self.beliefs.insert(holder, cache.state);
            self.sent.remove(&holder);
        }
    }

    /// A returned client has forgotten notifications from before.
    fn forget_sent(&mut self, holder: Option<Holder>) {
        let is_here = self.opens.values().any(|it| !it.is_away && it.holder == holder);
        if let Some(holder) = holder.filter(|_| !is_here) {
            self.sent.remove(&holder);
        }
    }

    fn remove_worker(&mut self, worker: usize) {
        let dead = self.server(worker);
        self.deaths[worker] += 1;
        let mut notify = WorkersToNotify::default();
        let deletion_owner = self.server((worker + 1) % self.deaths.len());
        self.record.remove_worker(dead, deletion_owner, self.now, &mut notify);
        self.waiting.retain(|(ask, _)| ask.id.worker != dead);
        self.deleting.retain(|(_, server)| *server != dead);
        let had: Vec<OpenId> = self.opens.keys().filter(|id| id.worker == dead).copied().collect();
        for id in had {
            let stays = self.record.open(id).is_some();
            let known = self.opens.get_mut(&id).expect("listed above");
            assert!(!stays || known.durable.is_some(), "only what is durable survives");
            let persists = known.durable == Some(DurabilityKind::Persistent);
            assert!(stays || !persists || known.is_evicted, "what is persistent survives");
            known.is_away = true;
            if !stays {
                self.forget(id);
            }
        }
        self.hear(notify);
        self.notified.remove(&dead);
        assert!(!self.record.waiters.contains(&dead), "the dead do not wait");
    }

    fn cancel(&mut self, pick: usize) {
        if !self.waiting.is_empty() {
            self.waiting.remove(pick % self.waiting.len());
        }
    }

    fn mark_for_deletion(&mut self, pick: usize, pending: bool) {
        if let Some(id) = self.pick(pick) {
            self.record.set_delete_pending(self.opens[&id].stream, pending, None);
        }
    }

    fn evict(&mut self, pick: usize) {
        let ids: Vec<OpenId> = self.opens.keys().copied().collect();
        let Some(at) = pick.checked_rem(ids.len()) else { return };
        let mut notify = WorkersToNotify::default();
        for gone in self.record.evict(&|it| it.id == ids[at], self.server(0), &mut notify) {
            self.forget(gone.id);
        }
        if let Some(known) = self.opens.get_mut(&ids[at]) {
            known.is_evicted = true;
        }
        self.hear(notify);
    }

    fn lock(&mut self, pick: usize, range: ByteRange, exclusive: bool) {
        let Some(id) = self.pick(pick) else { return };
        let lock = ByteRangeLock { open: id, stream: self.opens[&id].stream, range, exclusive };
        if self.record.acquire_locks(&[lock], Standing::User).is_ok() {
            self.locks.push(lock);
        }
    }

    fn unlock(&mut self, pick: usize) {
        if self.locks.is_empty() {
            return;
        }
        let picked = self.locks[pick % self.locks.len()];
        // Of two locks of the same bytes, the exclusive one is released first.
        let is_it = |it: &ByteRangeLock| it.open == picked.open && it.range == picked.range;
        let exclusive = self.locks.iter().position(|it| is_it(it) && it.exclusive);
        let first = exclusive.or_else(|| self.locks.iter().position(is_it));
        let lock = self.locks.remove(first.expect("it is one of them"));
        let mut notify = WorkersToNotify::default();
        let released = self.record.release_locks(lock.open, [lock.range].into_iter(), &mut notify);
        assert_eq!(released, Ok(()), "{lock:?} was taken");
        self.hear(notify);
    }

    fn rename(&mut self, pick: usize) {
        let Some(id) = self.pick(pick) else { return };
        self.expire();
        let mut notify = WorkersToNotify::default();
        let (waits, purged) =
            self.record.break_handles(id, self.now + BREAK_TIMEOUT, self.now, &mut notify);
        purged.iter().for_each(|it| self.forget(it.id));
        self.remove_resilient_caching();
        if !waits {
            let ours = self.opens[&id].holder;
            for (other, known) in self.opens.iter().filter(|(other, _)| **other != id) {
                let belief = known.holder.filter(|it| Some(*it) != ours);
                let keeps = belief.is_some_and(|it| self.trusted(it).contains(Caching::HANDLE));
                assert!(!keeps, "{other:?} keeps a handle of a name that goes");
            }
        }
        self.hear(notify);
    }

    fn scavenge(&mut self) {
        let mut notify = WorkersToNotify::default();
        let gone = self.record.scavenge(self.now, self.server(0), &mut notify);
        gone.iter().for_each(|it| self.forget(it.id));
        self.hear(notify);
    }

    fn write(&mut self, pick: usize) {
        let Some(id) = self.pick(pick) else { return };
        let known = self.opens[&id].clone();
        let deadline = self.now + BREAK_TIMEOUT;
        let mut notify = WorkersToNotify::default();
        let purged = self.record.break_reading(id, known.stream, deadline, &mut notify);
        purged.iter().for_each(|it| self.forget(it.id));
        self.hear(notify);
        for it in self.record.opens.iter().filter(|it| it.stream == known.stream && it.id != id) {
            let cache = self.record.cache_of(it);
            let is_ours = matches!(it.holding, arbitration::Holding::Lease(lease)
                if known.holder == Some(Holder::Lease(lease)));
            let is_going = cache.breaking.is_some_and(|it| it.required.is_empty());
            let keeps = cache.state.contains(Caching::READ) && !is_going;
            assert!(is_ours || !keeps, "{it:?} keeps what is not true any more");
        }
    }

    fn forget(&mut self, id: OpenId) {
        let known = self.opens.remove(&id).expect("what goes was known");
        self.locks.retain(|it| it.open != id);
        let Some(holder) = known.holder else { return };
        if !self.opens.values().any(|it| it.holder == Some(holder)) {
            self.beliefs.remove(&holder);
            self.sent.remove(&holder);
        }
    }

    /// Notifies workers. Dead ones do not receive it.
    fn hear(&mut self, notify: WorkersToNotify) {
        let living: Vec<ServerId> = (0..3).map(|worker| self.server(worker)).collect();
        self.notified.extend(notify.into_workers().into_iter().filter(|it| living.contains(it)));
    }
}

fn copied((holder, to): (&Holder, &Caching)) -> (Holder, Caching) {
    (*holder, *to)
}

/// Returns whether it reads, writes, deletes.
fn uses(it: ShareMode) -> [bool; 3] {
    let access = it.granted_access;
    [
        access.intersects(AccessMask::READ_DATA | AccessMask::EXECUTE),
        access.intersects(AccessMask::WRITE_DATA | AccessMask::APPEND_DATA),
        access.intersects(AccessMask::DELETE),
    ]
}

/// [MS-FSA] 2.1.5.1.2, as a table.
fn exclude(one: ShareMode, other: ShareMode) -> bool {
    let allows = |it: ShareMode| [it.share_read, it.share_write, it.share_delete];
    let (one_uses, other_uses) = (uses(one), uses(other));
    let is_used = |uses: [bool; 3]| uses.contains(&true);
    let disturbs = |uses: [bool; 3], allows: [bool; 3]| {
        uses.iter().zip(allows).any(|(uses, allowed)| *uses && !allowed)
    };
    is_used(one_uses)
        && is_used(other_uses)
        && (disturbs(one_uses, allows(other)) || disturbs(other_uses, allows(one)))
}

fn is_stat(mode: ShareMode) -> bool {
    let more = mode.granted_access - (ATTRIBUTES | AccessMask::WRITE_ATTRIBUTES);
    more.is_empty()
}

/// Invariants that are checked after every step, and at the end.
impl Model {
    pub(crate) fn verify(&self) {
        self.verify_opens();
        self.verify_beliefs();
        self.verify_writers();
        self.verify_locks();
        self.verify_waiting();
        self.verify_deletions();
    }

    /// Every due deletion without an open has an owner that knows of it.
    fn verify_deletions(&self) {
        for PendingDeletion { mark, .. } in &self.record.delete_pending {
            let is_open = self.opens.values().any(|it| it.stream == *mark || *mark == 0);
            // A file's streams are deleted with it.
            let is_it = |it: &&Deleter| it.mark == *mark || it.mark == 0;
            let deleter = self.record.deleters.iter().find(is_it);
            let is_known = |it: &Deleter| {
                let is_begun = self.deleting.contains(&(it.mark, it.worker));
                is_begun || self.notified.contains(&it.worker)
            };
            assert!(is_open || deleter.is_some_and(is_known), "nobody deletes {mark}: {deleter:?}");
        }
    }

    fn verify_opens(&self) {
        let mut recorded: Vec<OpenId> = self.record.opens.iter().map(|it| it.id).collect();
        recorded.sort_unstable();
        let known: Vec<OpenId> = self.opens.keys().copied().collect();
        assert_eq!(recorded, known, "the record has the opens that there are");
        let here: Vec<&Known> = self.opens.values().filter(|it| !it.is_away).collect();
        for (at, one) in here.iter().enumerate() {
            for other in here[at + 1..].iter().filter(|it| it.stream == one.stream) {
                assert!(!exclude(one.mode, other.mode), "{one:?} stands beside {other:?}");
            }
        }
    }

    /// No client believes to have more rights than the record allows, unless a notification is
    /// pending.
    fn verify_beliefs(&self) {
        for (holder, belief) in &self.beliefs {
            let (cache, notifier) = match holder {
                Holder::Lease(id) => {
                    let of_lease = |it: &&arbitration::OpenEntry| {
                        it.holding == arbitration::Holding::Lease(*id) && !it.is_disconnected()
                    };
                    let notifier = self.record.opens.iter().find(of_lease).map(|it| it.id.worker);
                    (self.record.lease(*id).expect("a lease of opens").cache, notifier)
                }
                Holder::Oplock(id) => {
                    let entry = self.record.open(*id).expect("an open");
                    let notifier = Some(id.worker).filter(|_| !entry.is_disconnected());
                    (self.record.cache_of(entry), notifier)
                }
            };
            let mut will_be = self.trusted(*holder);
            if let Some(notice) = cache.notice {
                if let Some(notifier) = notifier {
                    assert!(
                        self.notified.contains(&notifier),
                        "nobody tells {holder:?}: {notice:?}"
                    );
                }
                if !notice.ack_required {
                    will_be &= notice.to;
                }
            }
            assert!(cache.state.contains(will_be), "{holder:?} has {belief:?}: {cache:?}");
            assert_eq!(cache.state, cache.state.sensible(), "nothing without reading: {holder:?}");
        }
        for lease in &self.record.leases {
            let is_held = self.beliefs.contains_key(&Holder::Lease(lease.id));
            assert!(is_held, "a lease without an open: {lease:?}");
        }
    }

    /// Rights that a client believes to have. Nobody waits until one that has opens for attributes
    /// alone, and thus no data to write back, has learned of a loss.
    fn trusted(&self, holder: Holder) -> Caching {
        let belief = self.beliefs.get(&holder).copied().unwrap_or_default();
        let uses_data = |it: &Known| it.holder == Some(holder) && uses(it.mode).contains(&true);
        match self.opens.values().any(uses_data) {
            true => belief,
            false => belief & self.cache_of(holder).state,
        }
    }

    fn cache_of(&self, holder: Holder) -> Cache {
        match holder {
            Holder::Lease(id) => self.record.lease(id).expect("a lease of opens").cache,
            Holder::Oplock(id) => self.record.cache_of(self.record.open(id).expect("an open")),
        }
    }

    /// A holder of write caching is alone with the stream, except for attribute opens.
    fn verify_writers(&self) {
        for (id, known) in &self.opens {
            let Some(holder) = known.holder else { continue };
            if !self.trusted(holder).contains(Caching::WRITE) {
                continue;
            }
            for (other, beside) in &self.opens {
                let is_same = other == id || beside.holder == Some(holder);
                if is_same || beside.stream != known.stream {
                    continue;
                }
                let mut mode = beside.mode;
                if matches!(holder, Holder::Lease(_)) {
                    mode.granted_access -= AccessMask::READ_CONTROL;
                }
                assert!(is_stat(mode), "{known:?} keeps writes beside {beside:?}");
                let belief = beside.holder.map(|it| self.trusted(it)).unwrap_or_default();
                assert!(!belief.contains(Caching::WRITE), "two keep writes: {beside:?}");
            }
        }
    }

    fn verify_locks(&self) {
        let taken: LockList = self.locks.iter().copied().collect();
        assert_eq!(self.record.locks, taken, "locks are those that were taken");
        for (at, one) in self.locks.iter().enumerate() {
            assert!(self.opens.contains_key(&one.open), "a lock of nobody: {one:?}");
            for other in self.locks[at + 1..].iter().filter(|it| it.stream == one.stream) {
                let is_same_open = one.open == other.open;
                let excludes = (one.exclusive && !is_same_open) || other.exclusive;
                let touch = |byte: u64, it: &ByteRangeLock| {
                    (it.range.offset..it.range.offset + it.range.length).contains(&byte)
                };
                let overlaps = (0..16).any(|byte| touch(byte, one) && touch(byte, other));
                assert!(!(excludes && overlaps), "{one:?} and {other:?}");
            }
        }
    }

    /// Every waiting worker is registered for a change, or notified.
    fn verify_waiting(&self) {
        for (ask, _) in &self.waiting {
            let server = ask.id.worker;
            let hears = self.record.waiters.contains(&server) || self.notified.contains(&server);
            assert!(hears, "{server:?} waits unheard: {ask:?}");
        }
    }

    /// Without any more answers, no request waits forever, and nothing is left behind.
    pub(crate) fn end(&mut self) {
        for _ in 0..ROUNDS_MAX {
            while !self.notified.is_empty() {
                self.check(0);
                self.verify();
            }
            while !self.deleting.is_empty() {
                self.deleted(0);
                self.verify();
            }
            if self.notified.is_empty() && self.waiting.is_empty() {
                break;
            }
            self.now += BREAK_TIMEOUT;
            self.expire();
        }
        assert!(self.waiting.is_empty(), "{:?} wait for ever: {:?}", self.waiting, self.record);
        self.now += KEPT;
        self.scavenge();
        while let Some(id) = self.pick(0) {
            self.close_one(id);
        }
        while !self.notified.is_empty() || !self.deleting.is_empty() {
            self.check(0);
            self.deleted(0);
        }
        self.record.waiters.retain(|it| !self.notified.contains(it));
        assert!(self.record.is_empty(), "something is left: {:?}", self.record);
    }
}
