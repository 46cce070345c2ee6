//! Decides which requests are delayed: over a limit of their classes, or until their turn at the
//! storage.
//!
//! `throttled` calls this before the first effect of a request for the store, and holds the effect
//! of a delayed one. The decision itself is `qos::Gate`'s. A *class* is a group of requests with
//! one limit; a *turn* is the right to use a busy storage, which workers give each other.

use std::time::Duration;

use dtyp::ServerId;
use model::now::Now;
use model::request_id::RequestId;
use model::settings::ServerSettings;
use object::{LocalOpen, ObjectOp, ObjectReply, Piped};
use qos::class::InterimResponses;
use qos::controller::ONE;
use qos::{Admission, ClassId, Classes, Cost, Gate, Kind, Slots, credits};

use crate::effect::{Effect, Reply};
use crate::request::Charged;

/// The client's delayed requests, and its part of the limits that all workers keep.
#[derive(Debug)]
pub struct Throttle {
    gate: Gate<RequestId>,
    /// Limit of the credits of each connection, as it was when last read.
    credits_of_connection: Option<u32>,
    /// Time of the next check of it.
    credits_check_at: Duration,
}

/// Time between two checks of the limit of credits, which `choro qos set` changes at any time, and
/// which depends on the number of clients.
const CREDITS_CHECK_INTERVAL: Duration = Duration::from_millis(200);

impl Throttle {
    /// Makes the throttle of a worker, with the slots in which all workers count the use of
    /// classes.
    #[must_use]
    pub fn new(slots: Box<dyn Slots>, worker: ServerId) -> Self {
        Self {
            gate: Gate::new(slots, worker),
            credits_of_connection: None,
            credits_check_at: Duration::ZERO,
        }
    }

    /// Returns whether no request is delayed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gate.is_empty()
    }

    /// Returns whether no request is throttled, and no worker is to be notified of its turn.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.gate.is_idle()
    }

    /// Returns whether so many requests are throttled that no more must be received.
    pub(crate) fn must_stop(&self) -> bool {
        self.gate.must_stop()
    }

    /// Admits a request, or delays it.
    pub(crate) fn admit(
        &mut self,
        now: Now,
        id: RequestId,
        classes: &Classes,
        cost: Cost,
    ) -> Admission {
        self.gate.admit(nanoseconds(now.monotonic), classes, cost, id)
    }

    /// Returns whether a delayed request of such classes gets an interim response, which returns
    /// its credits.
    pub(crate) fn wants_interim_response(&self, interim_responses: InterimResponses) -> bool {
        match interim_responses {
            InterimResponses::Auto => self.gate.has_much_room(),
            InterimResponses::No => false,
            InterimResponses::Yes => true,
        }
    }

    /// Returns the part of a READ's charge that exceeds its data. True if a delayed request may
    /// begin for that.
    pub(crate) fn give_back_unread(&mut self, now: Now, charged: Charged, reply: &Reply) -> bool {
        let Charged { classes, length, room } = charged;
        let read = match reply {
            Reply::Object(Ok(reply)) => reply.bytes_read(room),
            _ => 0,
        };
        let unread = u64::from(length).saturating_sub(count(read));
        unread > 0 && self.gate.give_back(nanoseconds(now.monotonic), &classes, unread)
    }

    /// Has the next response check the limit of credits: a tree connect, a connection or a
    /// setting has come or gone.
    #[inline]
    pub fn credits_change(&mut self) {
        self.credits_check_at = Duration::ZERO;
    }

    /// Returns whether a check of the limit of credits is due.
    #[inline]
    pub(crate) fn must_check_credits(&self, now: Now) -> bool {
        self.credits_check_at <= now.monotonic
    }

    /// Returns whether there may be a limit of credits beside that of each connection.
    #[inline]
    pub(crate) fn limits_credits(&self, now: Now) -> bool {
        let is_settled = self.credits_of_connection.is_none() && !self.gate.limits_credits();
        !is_settled || self.must_check_credits(now)
    }

    /// Computes the limit of each connection's credits anew: the lowest limit of the client's
    /// `classes`, and the client's part of the credits of all clients, divided among connections.
    pub(crate) fn update_credits(
        &mut self,
        now: Now,
        settings: &ServerSettings,
        classes: impl Iterator<Item = ClassId>,
        connections: usize,
    ) {
        let gate = &self.gate;
        let connections = u32::try_from(connections).unwrap_or(u32::MAX);
        let total = settings.credits_total;
        let of_all = (total > 0).then(|| credits::part(total, gate.clients(), connections));
        let of_classes = gate.least_credits(classes);
        let of_classes = of_classes.map(|limit| credits::part_of_client(limit, connections));
        self.credits_of_connection = [of_all, of_classes].into_iter().flatten().min();
        self.credits_check_at = now.monotonic + CREDITS_CHECK_INTERVAL;
    }

    /// Returns the limit of a connection's credits beside its own maximum: no more while its client
    /// has too many requests waiting, and fewer while storage is saturated.
    #[inline]
    pub(crate) fn credits_limit(&self, now: Now, settings: &ServerSettings) -> Option<u32> {
        if self.gate.is_full() {
            return Some(0);
        }
        let part = self.credits_of_connection;
        match self.gate.credits(nanoseconds(now.monotonic)) {
            ONE => part,
            parts => Some(credits::lowered(part.unwrap_or(settings.credits_max), parts)),
        }
    }

    /// Returns the time at which the next delayed request may begin.
    pub(crate) fn next_release(&self) -> Option<Duration> {
        self.gate.next_timeout().map(Duration::from_nanos)
    }

    /// Takes a delayed request that may begin.
    pub(crate) fn release(&mut self, now: Now) -> Option<RequestId> {
        self.gate.release(nanoseconds(now.monotonic))
    }

    /// Removes a delayed request. Returns whether it was delayed.
    pub(crate) fn forget(&mut self, now: Now, id: RequestId) -> bool {
        self.gate.forget(nanoseconds(now.monotonic), id)
    }

    /// Gives a request's place at the storage to others, if it had one.
    pub(crate) fn end_at_storage(&mut self, now: Now, id: RequestId, reply: &Reply) {
        let moved = match reply {
            Reply::Object(Ok(ObjectReply::Read(buffer))) => count(buffer.len()),
            Reply::Object(Ok(ObjectReply::Piped(_, piped))) => count(piped.length()),
            Reply::Object(Ok(_)) => u64::MAX,
            _ => 0,
        };
        self.gate.end(nanoseconds(now.monotonic), id, moved);
    }

    /// Lets others of the client begin beside an operation that is carried out in parts.
    pub(crate) fn pause_at_storage(&mut self, now: Now, id: RequestId) {
        self.gate.pause(nanoseconds(now.monotonic), id);
    }

    /// Begins the next part of a paused operation.
    pub(crate) fn resume_at_storage(&mut self, now: Now, id: RequestId) {
        self.gate.resume(nanoseconds(now.monotonic), id);
    }

    /// Takes a worker that is to be notified of its turn at the storage, possibly this one.
    pub(crate) fn poll_turn(&mut self) -> Option<ServerId> {
        self.gate.poll_turn()
    }
}

/// Returns the cost of an operation for a request that keeps this much of its frame, in bytes.
pub(crate) fn cost(op: &ObjectOp, frame_bytes: usize) -> Cost {
    let behind = match op {
        ObjectOp::Write { piped, .. } => piped.as_ref().map_or(0, Piped::length),
        _ => 0,
    };
    let (kind, bytes) = match op {
        ObjectOp::Read { length, .. } => (Kind::Read, u64::from(*length)),
        ObjectOp::Write { data, .. } => (Kind::Write, count(data.len() + behind)),
        _ => (Kind::Metadata, 0),
    };
    Cost { kind, bytes, kept: count(frame_bytes + behind) }
}

/// Returns the source of a range that the store is to copy, and its length.
pub(crate) fn copied_from(effect: &Effect) -> Option<(LocalOpen, u32)> {
    match effect {
        Effect::Object { op: ObjectOp::CopyRange { source, length, .. }, .. } => {
            Some((*source, *length))
        }
        _ => None,
    }
}

/// Returns the cost of a copied range as a READ or WRITE, for a request that keeps this much of its
/// frame.
pub(crate) fn range_cost(kind: Kind, length: u32, frame_bytes: usize) -> Cost {
    Cost { kind, bytes: length.into(), kept: count(frame_bytes) }
}

/// Returns the charge of a READ.
pub(crate) fn charged(classes: &Classes, effect: &Effect) -> Option<Charged> {
    let Effect::Object { op: ObjectOp::Read { length, buffer, .. }, .. } = effect else {
        return None;
    };
    let is_counted = !classes.ids.is_empty();
    is_counted.then(|| Charged { classes: classes.clone(), length: *length, room: buffer.len() })
}

/// Converts to the time of the gate's slots, which is the same in all workers.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("five centuries fit")
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("64 bits are enough")
}

#[cfg(test)]
mod tests {
    use qos::{Limits, Meter, Slot};

    use super::*;

    const MIB: u32 = 1 << 20;

    /// A throttle whose class 0 has 1 MiB per second for READs.
    fn throttle() -> Throttle {
        let mut limits = Limits::default();
        limits.numbers[Meter::ReadBandwidth as usize] = Some(u64::from(MIB));
        let slot = Slot::default();
        slot.configure(&limits);
        Throttle::new(Box::new(vec![slot]), ServerId::default())
    }

    fn classes() -> Classes {
        Classes { ids: [0].into(), device: None }
    }

    fn at(milliseconds: u64) -> Now {
        Now { monotonic: Duration::from_millis(milliseconds), ..Now::default() }
    }

    fn admit(throttle: &mut Throttle, id: u64) -> Admission {
        let cost = Cost { kind: Kind::Read, bytes: MIB.into(), kept: 0 };
        throttle.admit(at(10_000), RequestId(id), &classes(), cost)
    }

    #[test]
    fn a_request_over_the_limit_is_delayed_until_the_limit_permits() {
        let mut throttle = throttle();
        assert_eq!(admit(&mut throttle, 1), Admission::Begins);
        assert_eq!(admit(&mut throttle, 2), Admission::Waits);
        assert_eq!(throttle.release(at(10_000)), None);
        assert_eq!(throttle.release(at(12_000)), Some(RequestId(2)));
        assert!(throttle.is_empty() && throttle.next_release().is_none());
    }

    #[test]
    fn a_forgotten_request_never_begins() {
        let mut throttle = throttle();
        admit(&mut throttle, 1);
        admit(&mut throttle, 2);
        assert!(throttle.forget(at(10_000), RequestId(2)));
        assert!(!throttle.forget(at(10_000), RequestId(2)), "it is gone");
        assert_eq!(throttle.release(at(12_000)), None);
    }

    #[test]
    fn bytes_that_a_read_did_not_return_are_not_charged() {
        let half = vec![0; 80 + 512 * 1024];
        let whole = vec![0; 80 + 1024 * 1024];
        for (bytes, begins) in [(half, Some(RequestId(2))), (whole, None)] {
            let mut throttle = throttle();
            admit(&mut throttle, 1);
            admit(&mut throttle, 2);
            let charged = Charged { classes: classes(), length: MIB, room: 80 };
            let reply = Reply::Object(Ok(ObjectReply::Read(bytes[..].into())));
            let is_earlier = throttle.give_back_unread(at(10_000), charged, &reply);
            assert_eq!(is_earlier, begins.is_some());
            assert_eq!(throttle.release(at(10_600)), begins);
        }
    }

    #[test]
    fn the_class_decides_about_interim_responses() {
        let throttle = throttle();
        assert!(throttle.wants_interim_response(InterimResponses::Yes));
        assert!(!throttle.wants_interim_response(InterimResponses::No));
        assert!(throttle.wants_interim_response(InterimResponses::Auto), "there is much room");
    }

    #[test]
    fn an_operation_costs_its_data() {
        let open = LocalOpen { index: 0, generation: 0 };
        let data = bytes::Bytes::from_static(b"seven b");
        let write = ObjectOp::Write {
            open,
            offset: 0,
            data,
            piped: None,
            write_through: false,
            verify_locks: false,
        };
        let Cost { kind, bytes, kept } = cost(&write, 100);
        assert_eq!((kind, bytes, kept), (Kind::Write, 7, 100));
        let Cost { kind, bytes, .. } = cost(&ObjectOp::Close { open, unlink: false }, 100);
        assert_eq!((kind, bytes), (Kind::Metadata, 0));
    }
}
