use std::sync::Arc;

use dtyp::ServerId;
use proptest::prelude::*;

use super::*;
use crate::class::{ClassId, Limits, Meter};
use crate::slot::{BURST_NS, Slot};

const SECOND: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

/// Slots common to several gates, as workers have them.
#[derive(Clone, Debug)]
struct Shared(Arc<Vec<Slot>>);

impl Slots for Shared {
    fn slots(&self) -> &[Slot] {
        &self.0
    }
}

impl Shared {
    fn new(limits: &[(Meter, u64)]) -> Self {
        let slots: Vec<Slot> = limits
            .iter()
            .map(|(meter, limit)| {
                let slot = Slot::default();
                let mut limits = Limits::default();
                limits.numbers[*meter as usize] = Some(*limit);
                slot.configure(&limits);
                slot
            })
            .collect();
        Self(Arc::new(slots))
    }

    fn gate(&self) -> Gate<u64> {
        Gate::new(Box::new(self.clone()), ServerId::default())
    }
}

fn classes(ids: &[ClassId]) -> Classes {
    Classes { ids: ids.into(), device: None }
}

fn read(bytes: u64) -> Cost {
    Cost { kind: Kind::Read, bytes, kept: 0 }
}

/// Simulates clients that always have `depth` requests of `bytes` bytes in progress, until `end`.
/// Workers wake up `late` nanoseconds after their timeouts.
struct Client {
    gate: Gate<u64>,
    classes: Classes,
    bytes: u64,
    done: u64,
    count: u64,
}

fn run(clients: &mut [Client], depth: u64, end: u64, late: u64) {
    let mut now = 0;
    for client in clients.iter_mut() {
        for _ in 0..depth {
            client.ask(now);
        }
    }
    while let Some(next) = clients.iter().filter_map(|it| it.gate.next_timeout()).min() {
        now = next.max(now) + late;
        if now > end {
            return;
        }
        for client in clients.iter_mut() {
            while client.gate.release(now).is_some() {
                client.done += client.bytes;
                client.ask(now);
            }
        }
    }
}

impl Client {
    fn new(shared: &Shared, ids: &[ClassId], bytes: u64) -> Self {
        Self { gate: shared.gate(), classes: classes(ids), bytes, done: 0, count: 0 }
    }

    /// Issues requests until one has to wait.
    fn ask(&mut self, now: u64) {
        loop {
            self.count += 1;
            let cost = read(self.bytes);
            if self.gate.admit(now, &self.classes, cost, self.count) == Admission::Waits {
                return;
            }
            self.done += self.bytes;
        }
    }
}

#[track_caller]
fn assert_close(got: u64, want: u64, percent: u64) {
    let off = got.abs_diff(want);
    assert!(off * 100 <= want * percent, "{got} instead of {want}");
}

#[test]
fn a_limit_is_for_all_workers_together() {
    let shared = Shared::new(&[(Meter::Bandwidth, 10 * MIB)]);
    let mut clients: Vec<Client> = (0..8).map(|_| Client::new(&shared, &[0], 64 << 10)).collect();
    run(&mut clients, 16, 10 * SECOND, 0);
    let total: u64 = clients.iter().map(|client| client.done).sum();
    assert_close(total, 100 * MIB, 2);
    // Each client has the same share.
    clients.iter().for_each(|client| assert_close(client.done, total / 8, 5));
}

#[test]
fn waking_up_late_costs_nothing_of_the_rate() {
    let shared = Shared::new(&[(Meter::Bandwidth, 1 << 30)]);
    let mut clients = [Client::new(&shared, &[0], 64 << 10)];
    run(&mut clients, 16, 10 * SECOND, BURST_NS / 4);
    assert_close(clients[0].done, 10 << 30, 2);
}

#[test]
fn a_request_larger_than_a_second_begins_at_once_and_the_next_one_waits() {
    let shared = Shared::new(&[(Meter::Bandwidth, 100 << 10)]);
    let mut gate = shared.gate();
    assert_eq!(gate.admit(0, &classes(&[0]), read(MIB), 1), Admission::Begins);
    assert_eq!(gate.admit(0, &classes(&[0]), read(MIB), 2), Admission::Waits);
    let begins = 10_240_000_000 - BURST_NS;
    assert_eq!(gate.release(begins - 1), None);
    assert_eq!(gate.next_timeout(), Some(begins));
    assert_eq!(gate.release(begins), Some(2));
}

#[test]
fn the_tightest_of_nested_limits_holds() {
    let shared = Shared::new(&[(Meter::Bandwidth, 50 * MIB), (Meter::Bandwidth, 10 * MIB)]);
    let mut clients =
        [Client::new(&shared, &[0, 1], 64 << 10), Client::new(&shared, &[0], 64 << 10)];
    run(&mut clients, 4, 10 * SECOND, 0);
    assert_close(clients[0].done, 100 * MIB, 2);
    assert_close(clients[0].done + clients[1].done, 500 * MIB, 2);
}

#[test]
fn operations_of_any_size_are_limited() {
    let shared = Shared::new(&[(Meter::Iops, 1_000)]);
    let mut clients = [Client::new(&shared, &[0], 4 << 10)];
    run(&mut clients, 4, 10 * SECOND, 0);
    assert_close(clients[0].done, 10_000 * (4 << 10), 2);
}

#[test]
fn reading_does_not_wait_for_a_limit_of_writing() {
    let shared = Shared::new(&[(Meter::WriteBandwidth, 1)]);
    let mut gate = shared.gate();
    let write = Cost { kind: Kind::Write, bytes: MIB, kept: 0 };
    assert_eq!(gate.admit(0, &classes(&[0]), write, 1), Admission::Begins);
    assert_eq!(gate.admit(0, &classes(&[0]), write, 2), Admission::Waits);
    assert_eq!(gate.admit(0, &classes(&[0]), read(MIB), 3), Admission::Begins);
}

#[test]
fn tokens_of_a_canceled_request_are_returned() {
    let shared = Shared::new(&[(Meter::Bandwidth, MIB)]);
    let mut gate = shared.gate();
    assert_eq!(gate.admit(0, &classes(&[0]), read(MIB), 1), Admission::Begins);
    assert_eq!(gate.admit(0, &classes(&[0]), read(100 * MIB), 2), Admission::Waits);
    assert_eq!(gate.admit(0, &classes(&[0]), read(MIB), 3), Admission::Waits);
    assert!(gate.forget(0, 2) && !gate.forget(0, 2));
    assert_eq!(gate.release(SECOND - BURST_NS - 1), None);
    assert_eq!(gate.release(SECOND), Some(3));
    assert_eq!(gate.next_timeout(), None);
    assert_eq!(shared.0[0].figures().waiting, 0);
}

#[test]
fn a_changed_limit_holds_at_once_for_waiting_requests_too() {
    let shared = Shared::new(&[(Meter::Bandwidth, 1)]);
    let mut gate = shared.gate();
    assert_eq!(gate.admit(0, &classes(&[0]), read(MIB), 1), Admission::Begins);
    for what in 2..5 {
        assert_eq!(gate.admit(0, &classes(&[0]), read(MIB), what), Admission::Waits);
    }
    assert_eq!(gate.release(SECOND), None);
    shared.0[0].set(Meter::Bandwidth, None);
    let due = gate.next_timeout().expect("somebody waits");
    assert!(due <= SECOND + CHECK_INTERVAL_NS);
    assert_eq!(
        [gate.release(due), gate.release(due), gate.release(due)],
        [Some(2), Some(3), Some(4)]
    );
}

#[test]
fn a_worker_that_ends_keeps_nobody_waiting() {
    let shared = Shared::new(&[(Meter::Bandwidth, MIB)]);
    let mut ends = shared.gate();
    ends.admit(0, &classes(&[0]), read(MIB), 1);
    ends.admit(0, &classes(&[0]), read(1_000 * MIB), 2);
    drop(ends);
    let mut lives = shared.gate();
    assert_eq!(lives.admit(SECOND, &classes(&[0]), read(MIB), 1), Admission::Begins);
    assert_eq!(shared.0[0].figures().waiting, 0);
}

#[test]
fn a_gate_is_full_when_its_client_has_too_much_waiting() {
    let shared = Shared::new(&[(Meter::Bandwidth, 1)]);
    let mut gate = shared.gate();
    gate.admit(0, &classes(&[0]), read(1), 0);
    assert!(gate.has_much_room() && !gate.is_full());
    for what in 0..64 {
        gate.admit(0, &classes(&[0]), read(MIB), what);
    }
    assert!(gate.is_full() && !gate.has_much_room());
}

proptest! {
    /// For any requests at any time, no more begins than the rate and a burst allow.
    #[test]
    fn a_limit_is_never_overdrawn(
        requests in proptest::collection::vec(
            (0_u64..50_000_000, 1_u64..200_000, 0_usize..3),
            1..200,
        ),
        rate in 100_000_u64..10_000_000,
    ) {
        let shared = Shared::new(&[(Meter::Bandwidth, rate)]);
        let mut gates = [shared.gate(), shared.gate(), shared.gate()];
        let (mut now, mut begun, mut largest) = (0, 0_u64, 0);
        let mut costs = Vec::new();
        for (pause, bytes, at) in requests {
            now += pause;
            for gate in &mut gates {
                while let Some(what) = gate.release(now) {
                    begun += costs[usize::try_from(what).expect("few")];
                }
            }
            let what = u64::try_from(costs.len()).expect("few");
            costs.push(bytes);
            largest = largest.max(bytes);
            if gates[at].admit(now, &classes(&[0]), read(bytes), what) == Admission::Begins {
                begun += bytes;
            }
            let allowed = u128::from(rate) * u128::from(now + BURST_NS) / u128::from(SECOND);
            prop_assert!(u128::from(begun) <= allowed + u128::from(largest), "{begun} > {allowed}");
        }
        // In the end every request begins.
        for gate in &mut gates {
            while let Some(next) = gate.next_timeout() {
                now = now.max(next);
                if let Some(what) = gate.release(now) {
                    begun += costs[usize::try_from(what).expect("few")];
                }
            }
        }
        prop_assert_eq!(begun, costs.iter().sum::<u64>());
    }
}

#[test]
fn the_memory_of_a_throttled_request_counts_even_if_it_moves_nothing() {
    let shared = Shared::new(&[(Meter::Iops, 1)]);
    let mut gate = shared.gate();
    let cost = Cost { kind: Kind::Metadata, bytes: 0, kept: THROTTLED_BYTES_MAX };
    assert_eq!(gate.admit(0, &classes(&[0]), cost, 1), Admission::Begins);
    assert!(!gate.is_full());
    assert_eq!(gate.admit(0, &classes(&[0]), cost, 2), Admission::Waits);
    assert!(gate.is_full());
    assert!(gate.forget(0, 2) && !gate.is_full());
}
