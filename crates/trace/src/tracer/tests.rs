use std::cell::Cell;
use std::rc::Rc;

use proptest::prelude::*;

use super::{Answered, Came, REQUESTS_MAX, Request, StoreWork, Tracer};
use crate::Recorded;
use crate::names::{Operation, Phase, StoreOperation};
use crate::reason::Reason;
use crate::refusals::Refused;
use crate::slow::SLOW_MAX;

struct Scene {
    time: Rc<Cell<u64>>,
    tracer: Tracer,
}

impl Scene {
    fn new() -> Self {
        let time = Rc::new(Cell::new(1_000));
        Self { tracer: Tracer::in_test(Rc::clone(&time)), time }
    }

    fn pass(&self, ns: u64) {
        self.time.set(self.time.get() + ns);
    }

    /// Returns the times of a frame whose first byte came `ns` before its last one.
    fn came(&self, ns: u64) -> Came {
        let now = self.time.get();
        Came { began: now - ns, whole: now, opened: 0 }
    }

    fn events(&self, name: &str) -> Vec<Vec<u64>> {
        let of_name = |it: &Recorded| it.name == name;
        self.tracer.recorded().into_iter().filter(of_name).map(|it| it.arguments).collect()
    }

    /// Phases of a request that has ended, and its total.
    fn request(&self, number: u64) -> (Vec<(Phase, u64)>, u64) {
        let phases = self.events("request_phase").into_iter().filter(|it| it[0] == number);
        let phases = phases.map(|it| (Phase::from_number(it[1]), it[2])).collect();
        let ends = self.events("request_end");
        let ends: Vec<_> = ends.iter().filter(|it| it[3] == number).collect();
        assert_eq!(ends.len(), 1, "a request ends once");
        (phases, ends[0][5])
    }
}

#[test]
fn the_phases_of_a_request_add_up_to_its_total() {
    let scene = Scene::new();
    scene.tracer.enter(Phase::Receiving);
    let came = scene.came(100);
    scene.pass(5);
    let request = scene.tracer.begin(came, Phase::Parsing);
    request.identify(7, 8);
    scene.pass(10);
    request.enter(Phase::Running);
    scene.pass(20);
    request.wait(Phase::Storage);
    let work = scene.tracer.store_begins(StoreOperation::Read, true);
    scene.pass(1_000);
    scene.tracer.store_ends(work, 4_096, 0);
    request.resume();
    scene.pass(30);
    let mut answered = Answered::default();
    request.answer(0, Default::default(), &mut answered);
    drop(request);
    answered.enter(Phase::Signing);
    scene.pass(40);
    answered.enter(Phase::Sending);
    scene.pass(50);
    scene.tracer.enter(Phase::Waiting);
    scene.pass(60);
    drop(answered);
    let (phases, total) = scene.request(1);
    let expected = [
        (Phase::Receiving, 100),
        (Phase::Queued, 5),
        (Phase::Parsing, 10),
        (Phase::Running, 20 + 30),
        (Phase::Storage, 1_000),
        (Phase::Signing, 40),
        (Phase::Sending, 50 + 60),
    ];
    assert_eq!(phases, expected);
    assert_eq!(phases.iter().map(|(_, ns)| ns).sum::<u64>(), total);
    assert_eq!(scene.events("request_start"), [[7, 8, 1, 105]]);
    assert_eq!(scene.events("store_end"), [[3, 4_096, 0, 1_000]]);
    let others = scene.tracer.figures().shares;
    assert_eq!(others.len(), 1);
    assert_eq!((others[0].1.requests(), others[0].1.read_bytes), (1, 4_096));
}

#[test]
fn a_worker_is_always_in_one_phase() {
    let scene = Scene::new();
    for (phase, ns) in [(Phase::Waiting, 7), (Phase::Receiving, 11), (Phase::Waiting, 13)] {
        scene.tracer.enter(phase);
        scene.pass(ns);
    }
    let figures = scene.tracer.figures();
    assert_eq!(figures.ns, 31);
    assert_eq!(figures.phases_sum_ns(), 31);
    assert_eq!(figures.phase_ns(Phase::Waiting), 20, "with the one that is not over");
}

#[test]
fn requests_that_wait_together_each_have_their_own_time() {
    let scene = Scene::new();
    let first = scene.tracer.begin(Came::default(), Phase::Parsing);
    first.identify(1, 8);
    first.wait(Phase::Storage);
    scene.pass(10);
    let second = scene.tracer.begin(Came::default(), Phase::Parsing);
    second.identify(2, 5);
    scene.pass(3);
    second.wait(Phase::Break);
    scene.pass(100);
    let mut answered = Answered::default();
    second.resume();
    second.answer(0, Default::default(), &mut answered);
    answered.enter(Phase::Sending);
    drop((second, answered));
    scene.pass(1_000);
    let mut answered = Answered::default();
    first.resume();
    first.answer(0, Default::default(), &mut answered);
    answered.enter(Phase::Sending);
    drop((first, answered));
    assert_eq!(scene.request(1), (vec![(Phase::Storage, 1_113)], 1_113));
    assert_eq!(scene.request(2), (vec![(Phase::Parsing, 3), (Phase::Break, 100)], 103));
}

#[test]
fn the_first_answer_of_a_compound_waits_for_the_rest() {
    let scene = Scene::new();
    let came = scene.came(0);
    let mut answered = Answered::default();
    for mid in 1..=2 {
        let request = scene.tracer.begin(came, Phase::Parsing);
        request.identify(mid, 5);
        scene.pass(10);
        request.answer(0, Default::default(), &mut answered);
    }
    answered.enter(Phase::Sending);
    scene.pass(1);
    drop(answered);
    let first = [(Phase::Queued, 10), (Phase::Parsing, 10), (Phase::Sending, 1)];
    assert_eq!(scene.request(1), (first.to_vec(), 21));
    assert_eq!(scene.request(2), (first.to_vec(), 21));
}

#[test]
fn a_stored_request_of_a_compound_then_waits_for_the_rest() {
    let scene = Scene::new();
    let came = scene.came(0);
    let mut answered = Answered::default();
    for mid in 1..=2 {
        let request = scene.tracer.begin(came, Phase::Parsing);
        request.identify(mid, 8);
        request.wait(Phase::Storage);
        scene.pass(10);
        request.resume();
        request.answer(0, Default::default(), &mut answered);
    }
    answered.enter(Phase::Sending);
    drop(answered);
    let both = vec![(Phase::Queued, 10), (Phase::Storage, 10)];
    assert_eq!(scene.request(1), (both.clone(), 20));
    assert_eq!(scene.request(2), (both, 20));
}

#[test]
fn requests_that_wait_for_the_store_together_have_their_own_times() {
    let scene = Scene::new();
    let begin = |mid: u64| {
        let request = scene.tracer.begin(Came::default(), Phase::Parsing);
        request.identify(mid, 8);
        request.wait(Phase::Storage);
        request
    };
    let serve = |request: Request, ns: u64| {
        let work = scene.tracer.store_begins(StoreOperation::Read, true);
        scene.pass(ns);
        scene.tracer.store_ends(work, 0, 0);
        request.resume();
        scene.pass(3);
        let mut answered = Answered::default();
        request.answer(0, None, &mut answered);
        answered.enter(Phase::Sending);
        answered
    };
    let (first, second) = (begin(1), begin(2));
    drop(serve(first, 10));
    drop(serve(second, 20));
    assert_eq!(scene.request(1), (vec![(Phase::Running, 3), (Phase::Storage, 10)], 13));
    assert_eq!(scene.request(2), (vec![(Phase::Running, 3), (Phase::Storage, 33)], 36));
    let figures = scene.tracer.figures();
    let worker = [Phase::Running, Phase::Storage, Phase::Other];
    assert_eq!(worker.map(|phase| figures.phase_ns(phase)), [6, 30, 0]);
}

#[test]
fn store_work_without_a_request_is_no_time_of_the_served_request() {
    let scene = Scene::new();
    let request = scene.tracer.begin(Came::default(), Phase::Parsing);
    request.identify(1, 8);
    request.wait(Phase::Storage);
    let work = scene.tracer.store_begins(StoreOperation::Close, false);
    scene.pass(10);
    scene.tracer.store_ends(work, 0, 0);
    scene.pass(5);
    let work = scene.tracer.store_begins(StoreOperation::Read, true);
    scene.pass(7);
    scene.tracer.store_ends(work, 0, 0);
    request.resume();
    drop(request);
    assert_eq!(scene.request(1), (vec![(Phase::Storage, 22)], 22), "it has waited all the time");
    let figures = scene.tracer.figures();
    assert_eq!([Phase::Running, Phase::Storage].map(|it| figures.phase_ns(it)), [5, 17]);
}

#[test]
fn later_work_is_no_time_of_a_request_that_is_being_sent() {
    let scene = Scene::new();
    let request = scene.tracer.begin(Came::default(), Phase::Parsing);
    request.identify(1, 8);
    let mut answered = Answered::default();
    request.answer(0, None, &mut answered);
    answered.enter(Phase::Sending);
    scene.pass(1);
    let access = scene.tracer.access_table();
    scene.pass(20);
    drop(access);
    scene.tracer.enter(Phase::Messages);
    scene.pass(300);
    drop(answered);
    assert_eq!(scene.request(1), (vec![(Phase::Sending, 321)], 321));
}

#[test]
fn sending_by_the_waiting_call_ends_when_the_worker_waits() {
    let scene = Scene::new();
    for mid in 1..=3 {
        let request = scene.tracer.begin(Came::default(), Phase::Parsing);
        request.identify(mid, 8);
        scene.pass(10);
        let mut answered = Answered::default();
        request.answer(0, None, &mut answered);
        answered.enter(Phase::Sending);
        scene.pass(1);
        answered.end_with_waiting();
    }
    scene.pass(100);
    assert_eq!(scene.events("request_end"), Vec::<Vec<u64>>::new());
    scene.tracer.wait_for_events();
    scene.pass(1_000);
    let ended: Vec<_> = scene.events("request_end").iter().map(|it| it[0]).collect();
    assert_eq!(ended, [1, 2, 3], "in the order in which they were answered");
    for (number, ns) in [(1, 123), (2, 112), (3, 101)] {
        let phases = vec![(Phase::Parsing, 10), (Phase::Sending, ns)];
        assert_eq!(scene.request(number), (phases, ns + 10));
    }
    let figures = scene.tracer.figures();
    assert_eq!(figures.phase_ns(Phase::Waiting), 1_000);
}

#[test]
fn a_request_throttled_before_its_store_wait_has_both_times() {
    let scene = Scene::new();
    let request = scene.tracer.begin(Came::default(), Phase::Parsing);
    request.identify(1, 8);
    request.wait(Phase::Throttled);
    scene.pass(100);
    request.wait(Phase::Storage);
    scene.pass(7);
    request.resume();
    drop(request);
    assert_eq!(scene.request(1), (vec![(Phase::Throttled, 100), (Phase::Storage, 7)], 107));
}

#[test]
fn a_frame_that_came_to_another_worker_begins_when_it_is_taken() {
    let scene = Scene::new();
    let frame = || {
        let request = scene.tracer.begin_frame(Phase::Parsing);
        request.identify(1, 0);
        scene.pass(1);
    };
    scene.tracer.frame_came(1, 100, (None, scene.tracer.receives()), super::Spent(0));
    scene.pass(10);
    frame();
    scene.pass(1_000);
    scene.tracer.frame_passed();
    frame();
    assert_eq!(scene.request(1), (vec![(Phase::Queued, 10), (Phase::Parsing, 1)], 11));
    assert_eq!(scene.request(2), (vec![(Phase::Parsing, 1)], 1));
}

#[test]
fn a_request_that_nobody_answers_ends_as_cancelled() {
    let scene = Scene::new();
    let request = scene.tracer.begin(Came::default(), Phase::Parsing);
    request.identify(3, 15);
    request.wait(Phase::Event);
    scene.pass(9);
    drop(request);
    assert_eq!(scene.events("request_end"), [[3, 15, 0xC000_0120, 1, 0, 9]]);
    assert_eq!(scene.events("request_failed"), [[15, 0xC000_0120]]);
}

/// A request that is refused, or not, and ends.
fn serve(tracer: Tracer, reason: Option<Reason>) {
    let request = tracer.begin(Came::default(), Phase::Parsing);
    request.identify(3, 8);
    let status = reason.map_or(0, |reason| {
        request.refuse(reason, &"a rule");
        0xC000_000D
    });
    request.answer(status, None, &mut Answered::default());
}

#[test]
fn the_reason_of_a_refusal_comes_with_the_end_of_the_request_and_with_no_other() {
    let scene = Scene::new();
    serve(scene.tracer, Some(Reason::NotSigned));
    serve(scene.tracer, None);
    let reason = Reason::NotSigned.number();
    assert_eq!(scene.events("request_refused"), [[8, reason, 1]]);
    let ends = scene.events("request_end");
    assert_eq!(ends, [[3, 8, 0xC000_000D, 1, reason, 0], [3, 8, 0, 2, 0, 0]]);
}

#[test]
fn refusals_are_counted_without_a_probe_too() {
    let tracer = Tracer::in_test_silent(Rc::new(Cell::new(1)));
    for reason in [Some(Reason::NotSigned), None, Some(Reason::NotSigned)] {
        serve(tracer, reason);
    }
    let figures = tracer.figures();
    let refused = Refused { reason: Reason::NotSigned, operation: Operation::Read, count: 2 };
    assert_eq!((figures.refusals, figures.other_refusals), (vec![refused], 0));
    assert_eq!(figures.events.request_refused[Operation::Read as usize].count, 2);
}

#[test]
fn a_slow_request_that_was_refused_is_reported_with_the_reason_in_words() {
    let scene = Scene::new();
    scene.tracer.set_slow_threshold(1);
    for refuses in [true, false] {
        let request = scene.tracer.begin(Came::default(), Phase::Parsing);
        request.identify(3, 8);
        scene.pass(5);
        if refuses {
            request.refuse(Reason::NotSigned, &"signing is required");
        }
        request.answer(0, None, &mut Answered::default());
    }
    let (slow, _) = scene.tracer.take_slow().expect("somebody wants to know");
    let refusals: Vec<_> = slow.into_iter().map(|it| it.refusal).collect();
    assert_eq!(refusals, [Some((Reason::NotSigned, "signing is required".to_owned())), None]);
}

#[test]
fn bytes_that_never_became_a_request_are_not_counted() {
    let scene = Scene::new();
    drop(scene.tracer.begin(Came::default(), Phase::Parsing));
    assert_eq!(scene.events("request_end"), Vec::<Vec<u64>>::new());
}

#[test]
fn spans_are_allocated_as_more_requests_are_in_flight_at_once() {
    let scene = Scene::new();
    let begin = || scene.tracer.begin(Came::default(), Phase::Parsing);
    let spans = |requests: usize| {
        let requests: Vec<_> = (0..requests).map(|_| begin()).collect();
        drop(requests);
        scene.tracer.0.spans.get()
    };
    assert_eq!([1, 4, 5, 9, 33, 65, 1].map(spans), [4, 4, 8, 16, 64, 96, 96]);
}

#[test]
fn more_requests_than_are_traced_are_served_all_the_same() {
    let scene = Scene::new();
    let begin = || {
        let request = scene.tracer.begin(Came::default(), Phase::Parsing);
        request.identify(1, 8);
        request
    };
    let requests: Vec<_> = (0..=REQUESTS_MAX).map(|_| begin()).collect();
    assert_eq!(scene.tracer.figures().untraced, 1);
    drop(requests);
    assert_eq!(scene.events("request_end").len(), REQUESTS_MAX);
    drop(begin());
    assert_eq!(scene.events("request_end").len(), REQUESTS_MAX + 1);
}

#[test]
fn a_table_visit_is_a_part_of_the_interrupted_phase() {
    let scene = Scene::new();
    let request = scene.tracer.begin(Came::default(), Phase::Parsing);
    request.identify(1, 6);
    request.enter(Phase::Running);
    scene.pass(1);
    let access = scene.tracer.access_table();
    scene.pass(20);
    drop(access);
    scene.pass(300);
    drop(request);
    assert_eq!(scene.request(1), (vec![(Phase::Running, 301), (Phase::Table, 20)], 321));
    assert_eq!(scene.events("table_end"), [[20]]);
}

#[test]
fn default_tracers_share_no_counters() {
    let scene = Scene::new();
    let tracer = Tracer::default();
    tracer.enter(Phase::Running);
    let request = tracer.begin(tracer.came(), Phase::Parsing);
    request.identify(1, 1);
    let mut answered = Answered::default();
    request.answer(0, None, &mut answered);
    answered.enter(Phase::Sending);
    drop((tracer.access_table(), answered));
    assert_eq!(crate::figures::all(&tracer.figures().events.request_end).count, 1);
    assert_eq!(crate::figures::all(&scene.tracer.figures().events.request_end).count, 0);
}

#[test]
fn data_that_no_request_asked_for_are_counted_for_none() {
    let scene = Scene::new();
    let ended = |waits: bool, bytes: u64| {
        let work = scene.tracer.store_begins(StoreOperation::Read, waits);
        scene.tracer.enter(Phase::Other);
        scene.tracer.enter(Phase::Storage);
        scene.tracer.store_ends(work, bytes, 0);
    };
    ended(false, 70);
    let request = scene.tracer.begin(Came::default(), Phase::Parsing);
    request.identify(1, 8);
    for bytes in [5, 6] {
        request.wait(Phase::Storage);
        ended(true, bytes);
        request.resume();
    }
    request.answer(0, None, &mut Answered::default());
    assert_eq!(scene.tracer.figures().users[0].1.read_bytes, 11);
}

/// Begins a READ in a share that waits for the store.
fn waiting_read(tracer: Tracer, share: &str) -> Request {
    let request = tracer.begin(Came::default(), Phase::Parsing);
    request.identify(1, 8);
    request.belongs_to(tracer.party(share, "somebody"));
    request.wait(Phase::Storage);
    request
}

fn read_by_share(tracer: Tracer) -> Vec<u64> {
    tracer.figures().shares.iter().map(|it| it.1.read_bytes).collect()
}

/// Two requests wait for the store, and the operation for the first one ends while the second was
/// the last to begin waiting.
#[test]
fn requests_that_wait_for_the_store_together_have_their_own_data() {
    let time = Rc::new(Cell::new(1_000));
    for tracer in [Tracer::in_test, Tracer::in_test_silent].map(|new| new(Rc::clone(&time))) {
        let [first, second] = ["first", "second"].map(|share| waiting_read(tracer, share));
        for (request, bytes) in [(first, 5), (second, 600)] {
            let work = tracer.store_begins(StoreOperation::Read, true);
            tracer.store_ends(work, bytes, 0);
            request.resume();
            request.answer(0, None, &mut Answered::default());
        }
        assert_eq!(read_by_share(tracer), [5, 600]);
    }
}

/// As with `choro:storage delay`: a request waits for the store before its operation has begun.
#[test]
fn kernel_data_of_one_request_are_not_those_of_one_that_waits() {
    let time = Rc::new(Cell::new(1_000));
    for tracer in [Tracer::in_test, Tracer::in_test_silent].map(|new| new(Rc::clone(&time))) {
        let first = waiting_read(tracer, "first");
        let work = tracer.store_begins(StoreOperation::Read, true);
        tracer.enter(Phase::Other);
        let second = waiting_read(tracer, "second");
        tracer.enter(Phase::Storage);
        tracer.store_ends(work, 5, 0);
        first.resume();
        first.answer(0, None, &mut Answered::default());
        second.resume();
        second.answer(0, None, &mut Answered::default());
        assert_eq!(read_by_share(tracer), [5, 0]);
    }
}

#[test]
fn shares_beyond_their_places_are_counted_together() {
    let scene = Scene::new();
    for number in 0..68 {
        let name = format!("share{number}");
        let party = scene.tracer.party(&name, "somebody");
        assert_eq!(party, scene.tracer.party(&name, "somebody"), "the same place again");
        let request = scene.tracer.begin(Came::default(), Phase::Parsing);
        request.identify(number, 8);
        request.belongs_to(party);
        request.answer(0, None, &mut Answered::default());
    }
    let figures = scene.tracer.figures();
    assert_eq!(figures.shares.len(), 65);
    assert_eq!(figures.shares[3].0, "share3");
    assert_eq!(figures.shares[64].0, "");
    assert_eq!(figures.shares[64].1.requests(), 4);
    let users: Vec<_> =
        figures.users.iter().map(|(name, it)| (name.as_str(), it.requests())).collect();
    assert_eq!(users, [("somebody", 64), ("", 4)]);
}

#[test]
fn a_users_requests_in_several_shares_count_by_share_by_user_and_in_total() {
    let scene = Scene::new();
    for (mid, (share, user, ns)) in
        [("a", "one", 10), ("b", "one", 20), ("b", "two", 40), ("", "one", 80)].iter().enumerate()
    {
        let request = scene.tracer.begin(Came::default(), Phase::Parsing);
        request.identify(u64::try_from(mid).expect("a few"), 8);
        scene.pass(*ns);
        let party = scene.tracer.party(share, user);
        request.belongs_to(party);
        request.answer(0, None, &mut Answered::default());
    }
    let figures = scene.tracer.figures();
    let totals = |rows: &[(String, crate::PartyValue)]| -> Vec<(String, u64, u64)> {
        rows.iter().map(|(name, it)| (name.clone(), it.requests(), it.times().total)).collect()
    };
    let expected = |rows: &[(&str, u64, u64)]| -> Vec<(String, u64, u64)> {
        rows.iter().map(|(name, count, ns)| ((*name).to_owned(), *count, *ns)).collect()
    };
    assert_eq!(totals(&figures.shares), expected(&[("a", 1, 10), ("b", 2, 60), ("", 1, 80)]));
    assert_eq!(totals(&figures.users), expected(&[("one", 3, 110), ("two", 1, 40)]));
    let read = &figures.events.request_end[Operation::Read as usize];
    assert_eq!((read.count, read.total, read.min, read.max), (4, 150, 10, 80));
}

#[test]
fn the_work_of_a_lane_is_no_receive_time() {
    let scene = Scene::new();
    scene.pass(100);
    let came = Came { opened: 30, ..scene.came(100) };
    let request = scene.tracer.begin(came, Phase::Parsing);
    request.identify(1, 9);
    let mut answered = Answered::default();
    request.answer(0, None, &mut answered);
    answered.enter(Phase::Sending);
    scene.pass(50);
    answered.spent(Phase::Signing, super::Spent(20));
    drop(answered);
    let phases = [
        (Phase::Receiving, 70),
        (Phase::Verifying, 30),
        (Phase::Signing, 20),
        (Phase::Sending, 30),
    ];
    assert_eq!(scene.request(1), (phases.to_vec(), 150));
}

#[test]
fn phases_of_requests_and_of_the_worker_are_told_apart() {
    let scene = Scene::new();
    let request = scene.tracer.begin(Came::default(), Phase::Parsing);
    request.identify(1, 8);
    scene.pass(1);
    request.wait(Phase::Throttled);
    scene.pass(20);
    scene.tracer.enter(Phase::Waiting);
    scene.pass(300);
    drop(request);
    let figures = scene.tracer.figures();
    let requests = |phase: Phase| figures.events.request_phase[phase as usize].total;
    assert_eq!([Phase::Parsing, Phase::Throttled, Phase::Waiting].map(requests), [1, 320, 0]);
    let worker = [Phase::Parsing, Phase::Throttled, Phase::Other, Phase::Waiting];
    assert_eq!(worker.map(|phase| figures.phase_ns(phase)), [1, 0, 20, 300]);
}

#[test]
fn slow_requests_are_reported_with_their_phases_and_waiting_for_events_is_not_slow() {
    let scene = Scene::new();
    let party = scene.tracer.party("data", "somebody");
    let request = |mid: u64, waits: Phase, ns: u64| {
        let request = scene.tracer.begin(Came::default(), Phase::Parsing);
        request.identify(mid, 8);
        request.wait(waits);
        scene.pass(ns);
        request.resume();
        scene.pass(1);
        request.belongs_to(party);
        request.answer(7, Some(5), &mut Answered::default());
    };
    request(1, Phase::Storage, 100);
    assert_eq!(scene.tracer.take_slow(), None, "nobody wants to know");
    scene.tracer.set_slow_threshold(50);
    request(2, Phase::Storage, 48);
    request(3, Phase::Event, 1_000);
    request(4, Phase::Storage, 49);
    let (slow, left_out) = scene.tracer.take_slow().expect("somebody wants to know");
    assert_eq!((slow.len(), left_out), (1, 0));
    let slow = &slow[0];
    assert_eq!((slow.mid, slow.operation, slow.status, slow.ns), (4, Operation::Read, 7, 50));
    assert_eq!(slow.phases, [(Phase::Running, 1), (Phase::Storage, 49)]);
    assert_eq!((slow.user.as_str(), slow.share.as_str()), ("somebody", "data"));
    assert_eq!(slow.open, Some(5));
    for mid in 0..=SLOW_MAX {
        request(u64::try_from(mid).expect("a few"), Phase::Storage, 50);
    }
    let (slow, left_out) = scene.tracer.take_slow().expect("somebody wants to know");
    assert_eq!((slow.len(), left_out), (SLOW_MAX, 1));
}

/// A worker that executes random acts in any order.
struct Worker {
    tracer: Tracer,
    requests: Vec<Request>,
    frames: Vec<Answered>,
    works: Vec<StoreWork>,
}

impl Worker {
    fn new(tracer: Tracer) -> Self {
        Self { tracer, requests: Vec::new(), frames: Vec::new(), works: Vec::new() }
    }

    fn request(&mut self, which: usize) -> Option<Request> {
        let index = which.checked_rem(self.requests.len())?;
        Some(self.requests.swap_remove(index))
    }

    /// Executes one of ten acts, with a parameter from `which`.
    fn act(&mut self, (act, which): (u8, usize)) -> Option<()> {
        let phase = Phase::ALL[which % Phase::ALL.len()];
        let of_request =
            [Phase::Storage, Phase::Storage, Phase::Throttled, Phase::Break, Phase::Peer];
        match act {
            0 => self.tracer.enter(phase),
            1 => {
                let at = self.tracer.receives();
                self.tracer.frame_came(1, which, (None, at), super::Spent(which as u64));
                let request = self.tracer.begin(self.tracer.came(), Phase::Parsing);
                request.identify(7, u16::try_from(which % 20).unwrap());
                self.requests.push(request);
            }
            2 => {
                let request = self.request(which)?;
                request.enter(if which % 2 == 0 { Phase::Verifying } else { Phase::Running });
                self.requests.push(request);
            }
            3 => {
                let request = self.request(which)?;
                request.wait(of_request[which % of_request.len()]);
                self.requests.push(request);
            }
            4 => {
                let operation = StoreOperation::from_number(which as u64);
                self.works.push(self.tracer.store_begins(operation, which % 3 != 0));
            }
            5 => {
                let work = self.works.pop()?;
                let status = if which % 4 == 0 { 0xC000_0034 } else { 0 };
                self.tracer.store_ends(work, which as u64, status);
                if let Some(request) = self.request(which) {
                    request.resume();
                    self.requests.push(request);
                }
            }
            6 => {
                let mut answered = Answered::default();
                for _ in 0..=which % 2 {
                    let status = if which % 4 == 0 { 0xC000_0034 } else { 0 };
                    self.request(which)?.answer(status, None, &mut answered);
                }
                self.frames.push(answered);
            }
            7 => {
                let frame = self.frames.last()?;
                frame.enter(Phase::Signing);
                self.tracer.sends(1, which, frame);
            }
            8 => {
                let frame = self.frames.pop()?;
                if which % 2 == 0 { frame.end_with_waiting() } else { drop(frame) }
            }
            _ => {
                self.tracer.wait_for_events();
                self.tracer.woke(which);
            }
        }
        Some(())
    }
}

proptest! {
    #[test]
    fn the_quick_and_the_full_recording_count_the_same(
        acts in proptest::collection::vec((0_u8..10, 0_usize..60, 0_u64..50), 1..120),
    ) {
        let time = Rc::new(Cell::new(1_000));
        let [mut emitting, mut silent] = [Tracer::in_test, Tracer::in_test_silent]
            .map(|tracer| Worker::new(tracer(Rc::clone(&time))));
        for (act, which, ns) in acts {
            emitting.act((act, which));
            silent.act((act, which));
            time.set(time.get() + ns);
        }
        let figures = silent.tracer.figures();
        prop_assert_eq!(figures.phases_sum_ns(), figures.ns);
        prop_assert_eq!(&figures, &emitting.tracer.figures());
        // In the end all requests end, and their phases add up to their times.
        for worker in [&mut emitting, &mut silent] {
            worker.requests.clear();
            worker.frames.clear();
            worker.tracer.wait_for_events();
        }
        let figures = silent.tracer.figures();
        prop_assert_eq!(&figures, &emitting.tracer.figures());
        let phases: u64 = figures.events.request_phase.iter().map(|it| it.total).sum();
        let requests: u64 = figures.events.request_end.iter().map(|it| it.total).sum();
        prop_assert_eq!(phases, requests);
    }
}
