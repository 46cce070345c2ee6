//! Simulation of classes that share a storage device: a number of servers, a fixed time per
//! operation, greedy clients, and virtual time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use dtyp::ServerId;
use proptest::prelude::*;
use qos::class::{ClassId, Classes, Cost, Kind, Limits, Meter};
use qos::device::{self, Device};
use qos::gate::TURN_INTERVAL_NS;
use qos::{Admission, Gate, Slot, Slots};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const BLOCK: u64 = 64 << 10;

/// Nanoseconds until a worker learns of its turn.
const TELLING: u64 = 50_000;

/// Memory that all workers share.
#[derive(Clone, Debug)]
struct Memory(Arc<(Vec<Slot>, Vec<Device>)>);

impl Slots for Memory {
    fn slots(&self) -> &[Slot] {
        &self.0.0
    }

    fn devices(&self) -> &[Device] {
        &self.0.1
    }
}

impl Memory {
    fn new(classes: &[&[(Meter, u64)]]) -> Self {
        let slots: Vec<Slot> = classes.iter().map(|numbers| slot(numbers)).collect();
        let devices = vec![Device::default()];
        assert_eq!(device::place(&devices, &slots, 7), Some(0));
        Self(Arc::new((slots, devices)))
    }

    fn device(&self) -> &Device {
        &self.0.1[0]
    }
}

fn slot(numbers: &[(Meter, u64)]) -> Slot {
    let mut limits = Limits::default();
    for (meter, number) in numbers {
        limits.numbers[*meter as usize] = Some(*number);
    }
    let slot = Slot::default();
    slot.configure(&limits);
    slot
}

/// One worker, whose client always has `depth` requests in progress, with a pause after each.
struct Client {
    gate: Gate<u64>,
    classes: Classes,
    depth: u64,
    pause: u64,
    /// Kind of its requests, and the time of each that its worker carries out by itself, one after
    /// the other; `None` means that the device does.
    work: (Kind, Option<u64>),
    /// Time at which its worker has done that.
    free: u64,
    /// Time at which its worker handles an event, for the time of the event.
    wakes: fn(u64) -> u64,
    issued: HashMap<u64, u64>,
    count: u64,
    /// Latency of each request, with its end.
    took: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Event {
    Ask { client: usize },
    Done { client: usize, what: u64 },
    Notified { client: usize },
    Looks { client: usize },
}

impl Event {
    fn client(self) -> usize {
        match self {
            Self::Ask { client }
            | Self::Done { client, .. }
            | Self::Notified { client }
            | Self::Looks { client } => client,
        }
    }
}

struct World {
    memory: Memory,
    clients: Vec<Client>,
    /// Times at which the servers of the device are free.
    servers: Vec<u64>,
    service: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
    chance: u64,
    now: u64,
}

impl World {
    fn new(memory: &Memory, servers: usize, service: u64) -> Self {
        Self {
            memory: memory.clone(),
            clients: Vec::new(),
            servers: vec![0; servers],
            service,
            events: BinaryHeap::new(),
            count: 0,
            chance: 1,
            now: 0,
        }
    }

    fn add(&mut self, classes: &[ClassId], depth: u64, pause: u64, device: Option<u8>) {
        let pid = u32::try_from(self.clients.len()).expect("few");
        let id = ServerId { pid, unique_id: u64::from(pid) + 1 };
        self.clients.push(Client {
            gate: Gate::new(Box::new(self.memory.clone()), id),
            classes: Classes { ids: classes.into(), device },
            depth,
            pause,
            work: (Kind::Read, None),
            free: 0,
            wakes: |at| at,
            issued: HashMap::new(),
            count: 0,
            took: Vec::new(),
        });
        let client = self.clients.len() - 1;
        for _ in 0..depth {
            self.after(0, Event::Ask { client });
        }
        self.after(TURN_INTERVAL_NS, Event::Looks { client });
    }

    /// Adds a client of a class with 30 operations under way that move no data, and take so long.
    fn slow(&mut self, classes: &[ClassId], time: u64) {
        self.add(classes, 30, 0, Some(0));
        self.clients.last_mut().expect("it was just added").work = (Kind::Metadata, Some(time));
    }

    /// Adds a busy client of a class.
    fn busy(&mut self, classes: &[ClassId]) {
        self.add(classes, 16, 0, Some(0));
    }

    fn after(&mut self, time: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((self.now + time, self.count, event)));
    }

    fn run(&mut self, until: u64) {
        while let Some(Reverse((at, number, event))) = self.events.pop() {
            if at > until {
                self.events.push(Reverse((at, 0, event)));
                self.now = until;
                return;
            }
            let client = event.client();
            let awake = (self.clients[client].wakes)(at);
            if awake > at {
                self.events.push(Reverse((awake, number, event)));
                continue;
            }
            self.now = at;
            match event {
                Event::Ask { client } => self.ask(client),
                Event::Notified { client } => self.release(client),
                Event::Looks { client } => {
                    self.release(client);
                    self.after(TURN_INTERVAL_NS, event);
                }
                Event::Done { client, what } => self.done(client, what),
            }
            while let Some(id) = self.clients[client].gate.poll_turn() {
                let client = usize::try_from(id.pid).expect("few");
                self.after(TELLING, Event::Notified { client });
            }
        }
    }

    fn ask(&mut self, at: usize) {
        let client = &mut self.clients[at];
        client.count += 1;
        let what = client.count;
        client.issued.insert(what, self.now);
        let kind = client.work.0;
        let bytes = if kind == Kind::Metadata { 0 } else { BLOCK };
        let cost = Cost { kind, bytes, kept: 0 };
        if client.gate.admit(self.now, &client.classes, cost, what) == Admission::Begins {
            self.begin(at, what);
        }
    }

    fn begin(&mut self, client: usize, what: u64) {
        let Client { work, free, .. } = &mut self.clients[client];
        if let Some(time) = work.1 {
            *free = (*free).max(self.now) + time;
            let wait = *free - self.now;
            return self.after(wait, Event::Done { client, what });
        }
        let server = self.servers.iter_mut().min().expect("there is one");
        // A few percent more or less, at random.
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let service = self.service * (90 + (self.chance >> 33) % 21) / 100;
        *server = (*server).max(self.now) + service;
        let wait = *server - self.now;
        self.after(wait, Event::Done { client, what });
    }

    fn release(&mut self, client: usize) {
        while let Some(what) = self.clients[client].gate.release(self.now) {
            self.begin(client, what);
        }
    }

    fn done(&mut self, at: usize, what: u64) {
        let client = &mut self.clients[at];
        let issued = client.issued.remove(&what).expect("it was asked for");
        client.took.push((self.now, self.now - issued));
        client.gate.end(self.now, what, u64::MAX);
        let pause = client.pause;
        if client.depth > 0 {
            self.after(pause, Event::Ask { client: at });
        }
        self.release(at);
    }

    /// Number of a client's requests that ended between two times.
    fn done_in(&self, client: usize, from: u64, to: u64) -> u64 {
        let took = self.clients[client].took.iter();
        took.filter(|(end, _)| (from..to).contains(end)).count().try_into().expect("64 bits")
    }

    /// 99th percentile of a client's latency.
    fn p99(&self, client: usize, from: u64) -> u64 {
        let took = self.clients[client].took.iter().filter(|(end, _)| *end >= from);
        let mut took: Vec<u64> = took.map(|(_, took)| *took).collect();
        took.sort_unstable();
        took[took.len() * 99 / 100]
    }
}

#[track_caller]
fn assert_close(got: u64, want: u64, percent: u64) {
    assert!(got.abs_diff(want) * 100 <= want * percent, "{got} instead of {want}");
}

#[test]
fn weights_are_kept_when_both_are_busy() {
    let memory = Memory::new(&[&[(Meter::Weight, 8)], &[(Meter::Weight, 1)]]);
    let mut world = World::new(&memory, 4, 5 * MS);
    world.busy(&[0]);
    world.busy(&[1]);
    world.run(15 * SECOND);
    let [heavy, light] = [0, 1].map(|client| world.done_in(client, SECOND, 15 * SECOND));
    assert_close(heavy, 8 * light, 5);
    // The device is fully busy: four at once, 5 ms each.
    assert_close(heavy + light, 14 * 800, 5);
}

#[test]
fn a_class_with_many_clients_has_no_more_than_one_with_few() {
    let memory = Memory::new(&[&[(Meter::Weight, 3)], &[(Meter::Weight, 1)]]);
    let mut world = World::new(&memory, 8, 2 * MS);
    world.busy(&[0]);
    (0..8).for_each(|_| world.busy(&[1]));
    world.run(8 * SECOND);
    let done: Vec<u64> = (0..9).map(|it| world.done_in(it, SECOND, 8 * SECOND)).collect();
    let light: u64 = done[1..].iter().sum();
    assert_close(done[0], 3 * light, 5);
    // Each client has the same share.
    done[1..].iter().for_each(|it| assert_close(*it, light / 8, 5));
}

#[test]
fn bandwidth_unused_by_one_class_goes_to_the_others() {
    let memory = Memory::new(&[&[(Meter::Weight, 8)], &[(Meter::Weight, 1)]]);
    let mut world = World::new(&memory, 4, 5 * MS);
    world.busy(&[1]);
    world.run(6 * SECOND);
    assert_close(world.done_in(0, SECOND, 6 * SECOND), 5 * 800, 5);
    // A latecomer has not accumulated anything.
    world.busy(&[0]);
    world.run(18 * SECOND);
    let light = world.done_in(0, 8 * SECOND, 18 * SECOND);
    assert_close(world.done_in(1, 8 * SECOND, 18 * SECOND), 8 * light, 5);
}

#[test]
fn a_minimum_is_kept_when_everyone_is_busy() {
    for minimum in [(Meter::MinIops, 200), (Meter::MinBandwidth, 200 * BLOCK)] {
        let memory = Memory::new(&[&[minimum], &[(Meter::Weight, 100)]]);
        let mut world = World::new(&memory, 4, 5 * MS);
        world.busy(&[0]);
        (0..4).for_each(|_| world.busy(&[1]));
        world.run(11 * SECOND);
        let promised = world.done_in(0, SECOND, 11 * SECOND);
        assert!(promised >= 10 * 200 * 95 / 100, "{promised} with {minimum:?}");
        // Not much more: weights share the rest.
        assert!(promised <= 10 * 220, "{promised} with {minimum:?}");
    }
}

#[test]
fn those_with_a_higher_priority_come_first_and_nobody_waits_for_ever() {
    let memory = Memory::new(&[&[(Meter::Priority, 3)], &[(Meter::Priority, 1)]]);
    let mut world = World::new(&memory, 4, 5 * MS);
    world.busy(&[0]);
    world.busy(&[1]);
    world.busy(&[]);
    world.run(11 * SECOND);
    let done = [0, 1, 2].map(|client| world.done_in(client, SECOND, 11 * SECOND));
    assert!(done[0] > 10 * 800 * 97 / 100, "{done:?}");
    assert!(done[1] >= 8 && done[2] >= 8, "{done:?}");
}

/// Compares the latency of a client with one request at a time, alone and beside 16 busy ones.
#[track_caller]
fn check_latency(servers: usize, service: u64) {
    let memory = Memory::new(&[&[(Meter::LatencyTarget, service * 2)]]);
    let mut alone = World::new(&memory, servers, service);
    alone.add(&[0], 1, service, Some(0));
    alone.run(2_000 * service);
    let unloaded = alone.p99(0, 0);
    let run = |device: Option<u8>| {
        let memory = Memory::new(&[&[(Meter::LatencyTarget, service * 2)]]);
        let mut world = World::new(&memory, servers, service);
        world.add(&[0], 1, service, device);
        (0..16).for_each(|_| world.add(&[], 8, 0, device));
        let (from, end) = (600 * service, 3_000 * service);
        world.run(end);
        let total: u64 = (0..17).map(|it| world.done_in(it, from, end)).sum();
        (world.p99(0, from), total, world.memory.device().controller.limit())
    };
    let (free_p99, free_total, _) = run(None);
    let (p99, total, limit) = run(Some(0));
    let what = format!(
        "{servers} servers of {service} ns: {p99} ns, {unloaded} ns alone, {free_p99} ns without; \
             {total} of {free_total}, limit {limit}"
    );
    assert!(free_p99 > 2 * unloaded, "nothing to improve with {what}");
    assert!(p99 <= 2 * unloaded, "{what}");
    assert!(total * 10 >= free_total * 9, "{what}");
}

#[test]
fn a_latency_target_is_kept_beside_sixteen_noisy_clients() {
    check_latency(4, 5 * MS);
    check_latency(4, MS);
    check_latency(16, 10 * MS);
    check_latency(32, MS);
    check_latency(2, 5 * MS);
}

#[test]
fn a_device_that_becomes_faster_is_used() {
    let memory = Memory::new(&[&[(Meter::Weight, 2)]]);
    let mut world = World::new(&memory, 4, 10 * MS);
    world.busy(&[0]);
    (0..4).for_each(|_| world.busy(&[]));
    world.run(3 * SECOND);
    world.servers = vec![world.now; 32];
    world.service = 2 * MS;
    world.run(20 * SECOND);
    let done: u64 = (0..5).map(|it| world.done_in(it, 18 * SECOND, 20 * SECOND)).sum();
    // At most 80 requests are in progress, and 32 are served at once.
    assert!(done * 10 >= 2 * 16_000 * 9, "{done}");
}

/// While processors are short, operations seem to take longer than they do. Nominal times measured
/// then must not stay: with them, only as many would be admitted as one client has in progress, and
/// nothing would be left to share by weight.
#[test]
fn a_time_measured_under_load_is_measured_again() {
    let memory = Memory::new(&[&[(Meter::Weight, 8)], &[(Meter::Weight, 1)]]);
    let mut world = World::new(&memory, 4, 25 * MS);
    world.busy(&[0]);
    world.busy(&[1]);
    world.run(SECOND);
    world.service = 5 * MS;
    world.run(14 * SECOND);
    let [heavy, light] = [0, 1].map(|client| world.done_in(client, 4 * SECOND, 14 * SECOND));
    assert_close(heavy, 8 * light, 5);
    assert_close(heavy + light, 10 * 800, 5);
}

#[test]
fn a_worker_that_dies_leaves_no_room_taken() {
    let memory = Memory::new(&[&[(Meter::Weight, 2)]]);
    let mut world = World::new(&memory, 1, 5 * MS);
    (0..3).for_each(|_| world.busy(&[0]));
    world.run(SECOND);
    assert!(memory.device().in_flight() > 0 && memory.device().waiting() > 0);
    // One ends in order, the others are killed and removed.
    let killed = world.clients.split_off(1);
    drop(world.clients.pop());
    for (id, client) in (2..).zip(killed) {
        std::mem::forget(client);
        memory.device().remove_worker(id);
    }
    assert_eq!((memory.device().in_flight(), memory.device().waiting()), (0, 0));
}

#[test]
fn without_classes_in_use_nothing_is_shared() {
    let memory = Memory::new(&[&[(Meter::Bandwidth, 1 << 40)]]);
    let mut world = World::new(&memory, 1, 5 * MS);
    world.busy(&[0]);
    world.run(0);
    assert_eq!(memory.device().in_flight(), 0);
    // A part that is assigned at run time holds from then on.
    memory.slots()[0].set(Meter::Weight, Some(2));
    device::share(memory.devices(), memory.slots());
    world.run(SECOND);
    assert!(memory.device().in_flight() > 0);
}

#[test]
fn a_request_that_waits_for_its_turn_can_be_canceled() {
    let memory = Memory::new(&[&[(Meter::Weight, 2)]]);
    let classes = Classes { ids: [0].into(), device: Some(0) };
    let mut gate = Gate::new(Box::new(memory.clone()), ServerId { pid: 1, unique_id: 1 });
    let cost = Cost { kind: Kind::Write, bytes: BLOCK, kept: 0 };
    assert_eq!(gate.admit(0, &classes, cost, 1), Admission::Begins);
    assert_eq!(gate.admit(0, &classes, cost, 2), Admission::WaitsForTurn);
    assert_eq!(gate.admit(0, &classes, cost, 3), Admission::WaitsForTurn);
    assert!(gate.forget(0, 2) && !gate.forget(0, 2));
    assert_eq!(gate.release(MS), None);
    gate.end(MS, 1, u64::MAX);
    // The gate's own worker is notified like any other.
    assert_eq!(gate.poll_turn(), Some(ServerId { pid: 1, unique_id: 1 }));
    assert!(gate.forget(MS, 3), "also when it has its turn already");
    assert!(gate.is_empty());
    assert_eq!((memory.device().in_flight(), memory.device().waiting()), (0, 0));
}

/// Requests of a client with weight 8 in four seconds, beside others.
fn heavy_beside(servers: usize, service: u64, others: impl FnOnce(&mut World)) -> u64 {
    let memory = Memory::new(&[&[(Meter::Weight, 8)], &[(Meter::Weight, 1)]]);
    let mut world = World::new(&memory, servers, service);
    world.busy(&[0]);
    others(&mut world);
    world.run(5 * SECOND);
    world.done_in(0, SECOND, 5 * SECOND)
}

#[test]
fn slow_operations_without_data_keep_no_places_from_others() {
    for (servers, service) in [(1, MS / 10), (4, MS), (4, 5 * MS)] {
        let alone = heavy_beside(servers, service, |_| {});
        let beside = heavy_beside(servers, service, |world| world.slow(&[1], 200 * MS));
        assert!(beside * 10 >= alone * 9, "{beside} of {alone} with {servers} of {service} ns");
    }
}

#[test]
fn a_client_pays_for_the_time_of_slow_operations() {
    let memory = Memory::new(&[&[(Meter::Weight, 8)], &[(Meter::Weight, 1)]]);
    let mut world = World::new(&memory, 4, MS);
    world.busy(&[0]);
    world.slow(&[1], 20 * MS);
    world.run(12 * SECOND);
    // Of a place's time, an eighth of what the other class has.
    let slow = world.done_in(1, 2 * SECOND, 12 * SECOND) * 20 * MS;
    let fast = world.done_in(0, 2 * SECOND, 12 * SECOND) * MS;
    assert!(slow * 6 < fast, "{slow} ns beside {fast} ns");
    assert!(slow * 20 > fast, "{slow} ns beside {fast} ns: it has its part");
}

#[test]
fn slow_operations_of_clients_take_nothing_from_others_of_their_class() {
    for slow_clients in [1, 2, 4, 16] {
        let memory = Memory::new(&[&[(Meter::Weight, 8)], &[(Meter::Weight, 1)]]);
        let mut world = World::new(&memory, 4, 5 * MS);
        world.busy(&[0]);
        world.busy(&[1]);
        (0..slow_clients).for_each(|_| world.slow(&[1], 200 * MS));
        world.run(12 * SECOND);
        let [heavy, light] = [0, 1].map(|it| world.done_in(it, 4 * SECOND, 12 * SECOND));
        // Without the slow ones: 8 to 1 of 800 operations a second.
        assert!(light * 100 >= 6_400 / 9 * 75, "{light} of them beside {slow_clients}");
        assert!(heavy * 100 >= 6_400 * 8 / 9 * 85, "{heavy} beside {slow_clients}");
    }
}

#[test]
fn slow_operations_of_many_clients_have_the_part_of_one_class() {
    for slow_clients in [1, 4, 16] {
        let memory = Memory::new(&[&[(Meter::Weight, 8)], &[(Meter::Weight, 1)]]);
        let mut world = World::new(&memory, 4, MS);
        world.busy(&[0]);
        (0..slow_clients).for_each(|_| world.slow(&[1], 20 * MS));
        world.run(12 * SECOND);
        let done = |it| world.done_in(it, 2 * SECOND, 12 * SECOND);
        let slow: u64 = (1..=slow_clients).map(|it| done(it) * 20 * MS).sum();
        let fast = done(0) * MS;
        assert!(slow * 4 < fast, "{slow} ns of {slow_clients} beside {fast} ns");
    }
}

#[test]
fn slow_operations_that_compete_with_nobody_are_not_delayed() {
    let memory = Memory::new(&[&[(Meter::Weight, 8)], &[(Meter::Weight, 1)]]);
    let mut world = World::new(&memory, 4, MS);
    world.add(&[0], 1, MS, Some(0));
    world.slow(&[1], 20 * MS);
    world.run(10 * SECOND);
    assert!(world.done_in(1, 0, 10 * SECOND) >= 490);
}

#[test]
fn a_worker_that_stands_still_keeps_no_places_from_others() {
    for class in [0, 1] {
        let memory = Memory::new(&[&[(Meter::Weight, 8)], &[(Meter::Weight, 1)]]);
        let mut world = World::new(&memory, 4, 5 * MS);
        world.busy(&[0]);
        world.busy(&[class]);
        world.clients[1].wakes =
            |at| if (4 * SECOND..8 * SECOND).contains(&at) { 8 * SECOND } else { at };
        world.run(12 * SECOND);
        let meanwhile = world.done_in(0, 4 * SECOND, 8 * SECOND);
        assert!(meanwhile >= 4 * 800 * 95 / 100, "{meanwhile} beside one of class {class}");
        // And it goes on.
        assert!(world.done_in(1, 8 * SECOND, 12 * SECOND) > 100);
        assert!(memory.device().in_flight() <= memory.device().controller.limit());
    }
}

#[test]
fn a_worker_that_is_late_all_the_time_has_no_more_than_its_part_of_the_places() {
    for (servers, service) in [(1, MS / 10), (1, MS), (4, MS)] {
        let alone = heavy_beside(servers, service, |_| {});
        let beside = heavy_beside(servers, service, |world| {
            world.busy(&[1]);
            world.clients[1].wakes = |at| at.next_multiple_of(35 * MS);
        });
        assert!(beside * 10 >= alone * 8, "{beside} of {alone} with {servers} of {service} ns");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 12,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// For any weights, the whole device is used, no class starves, and every busy class has its
    /// part, except for the allowed lag.
    #[test]
    fn parts_follow_weights(
        weights in proptest::collection::vec(1_u64..10, 2..5),
        servers in 2_usize..12,
        service in (MS / 2)..(10 * MS),
    ) {
        let numbers: Vec<[(Meter, u64); 1]> =
            weights.iter().map(|weight| [(Meter::Weight, *weight)]).collect();
        let numbers: Vec<&[(Meter, u64)]> = numbers.iter().map(|it| &it[..]).collect();
        let memory = Memory::new(&numbers);
        let mut world = World::new(&memory, servers, service);
        for (class, _) in (0..).zip(&weights) {
            world.add(&[class], 64, 0, Some(0));
        }
        let (start, end) = (200 * service, 1_200 * service);
        world.run(end);
        let done: Vec<u64> =
            (0..weights.len()).map(|it| world.done_in(it, start, end)).collect();
        let (all, sum) = (done.iter().sum::<u64>(), weights.iter().sum::<u64>());
        prop_assert!(all >= 1_000 * servers as u64 * 9 / 10, "{all} of {}", 1_000 * servers);
        for (done, weight) in done.iter().zip(&weights) {
            let want = all * weight / sum;
            // Allowed lag of a class, in requests.
            let slack = want / 20 + 8 * weight + 8;
            prop_assert!(done.abs_diff(want) <= slack, "{done} instead of {want}");
        }
    }
}

/// Gates of clients with these unique ids, and their class, which shares one device.
fn gates<const N: usize>(memory: &Memory, ids: [u64; N]) -> ([Gate<u64>; N], Classes) {
    let gate = |unique_id| Gate::new(Box::new(memory.clone()), ServerId { pid: 1, unique_id });
    (ids.map(gate), Classes { ids: [0].into(), device: Some(0) })
}

const QUERY: Cost = Cost { kind: Kind::Metadata, bytes: 0, kept: 0 };

#[test]
fn an_operation_in_parts_lets_others_of_its_client_begin_when_it_pauses() {
    let memory = Memory::new(&[&[(Meter::Weight, 2)]]);
    let ([mut gate], classes) = gates(&memory, [1]);
    assert_eq!(gate.admit(0, &classes, QUERY, 1), Admission::Begins);
    assert_eq!(gate.admit(0, &classes, QUERY, 2), Admission::WaitsForTurn);
    assert_eq!(gate.release(0), None);
    gate.pause(MS, 1);
    assert_eq!(gate.poll_turn(), Some(ServerId { pid: 1, unique_id: 1 }));
    assert_eq!(gate.release(MS), Some(2));
    assert_eq!(gate.admit(MS, &classes, QUERY, 3), Admission::WaitsForTurn, "one at a time");
    for now in [2 * MS, 3 * MS] {
        gate.resume(now, 1);
        gate.pause(now, 1);
        assert_eq!(gate.release(now), None, "it has let another begin already");
    }
    gate.end(4 * MS, 1, u64::MAX);
    assert_eq!(gate.release(4 * MS), None);
    gate.end(5 * MS, 2, u64::MAX);
    assert_eq!(gate.release(5 * MS), Some(3));
    gate.end(6 * MS, 3, u64::MAX);
    assert_eq!((memory.device().in_flight(), memory.device().waiting()), (0, 0));
}

#[test]
fn pauses_of_an_operation_in_parts_are_not_paid_for() {
    for (rest, first) in [(MS / 2, 1), (500 * MS, 2)] {
        let memory = Memory::new(&[&[(Meter::Weight, 2)]]);
        let ([mut lister, mut other, mut writer], classes) = gates(&memory, [1, 2, 3]);
        let write = Cost { kind: Kind::Write, bytes: BLOCK, kept: 0 };
        // Lets the device know what its places move.
        assert_eq!(writer.admit(0, &classes, write, 1), Admission::Begins);
        writer.end(MS, 1, u64::MAX);
        assert_eq!(lister.admit(MS, &classes, QUERY, 1), Admission::Begins);
        lister.pause(MS + MS / 2, 1);
        for what in [1, 2] {
            assert_eq!(other.admit(2 * MS, &classes, QUERY, what), Admission::Begins);
            other.end(2 * MS, what, u64::MAX);
        }
        let ended = 1_000 * MS;
        lister.resume(ended - rest, 1);
        lister.end(ended, 1, u64::MAX);
        assert_eq!(writer.admit(ended, &classes, write, 2), Admission::Begins);
        assert_eq!(lister.admit(ended, &classes, QUERY, 2), Admission::WaitsForTurn);
        assert_eq!(other.admit(ended, &classes, QUERY, 3), Admission::WaitsForTurn);
        writer.end(ended, 2, u64::MAX);
        let next = writer.poll_turn().map(|it| it.unique_id);
        assert_eq!(next, Some(first), "its last part took {rest} ns");
    }
}

/// Whether a client with one slow operation has a turn before another that has moved 4 MiB since,
/// if a third one has had such READs in between, each of which ended after `took`.
fn slow_one_is_first_after(took: u64, asked: u64, moved: u64) -> bool {
    let memory = Memory::new(&[&[(Meter::Weight, 2)]]);
    let ([mut slow, mut other, mut third, mut last], classes) = gates(&memory, [1, 2, 3, 4]);
    let write = Cost { kind: Kind::Write, bytes: BLOCK, kept: 0 };
    let mut now = 0;
    let mut run = |gate: &mut Gate<u64>, cost: Cost, (took, moved): (u64, u64)| {
        assert_eq!(gate.admit(now, &classes, cost, 1), Admission::Begins);
        now += took;
        gate.end(now, 1, moved);
    };
    run(&mut other, write, (MS, BLOCK));
    for _ in 0..1_000 {
        run(&mut third, Cost { kind: Kind::Read, bytes: asked, kept: 0 }, (took, moved));
    }
    run(&mut slow, write, (20 * MS, BLOCK));
    (0..64).for_each(|_| run(&mut other, write, (MS, BLOCK)));
    assert_eq!(last.admit(now, &classes, write, 1), Admission::Begins);
    assert_eq!(other.admit(now, &classes, write, 1), Admission::WaitsForTurn);
    assert_eq!(slow.admit(now, &classes, write, 1), Admission::WaitsForTurn);
    last.end(now, 1, BLOCK);
    last.poll_turn().map(|it| it.unique_id) == Some(1)
}

#[test]
fn only_bytes_that_the_device_has_moved_make_time_dear() {
    assert!(slow_one_is_first_after(MS, BLOCK, BLOCK));
    assert!(slow_one_is_first_after(0, 8 << 20, 8 << 20), "READs that the page cache answers");
    assert!(slow_one_is_first_after(MS / 20, 8 << 20, 0), "READs of an empty file");
    assert!(!slow_one_is_first_after(MS / 20, 8 << 20, 8 << 20), "a device that is so fast");
}
