use std::time::Duration;

use dtyp::ServerId;
use messaging::{Changes, Watch};
use object::{FileIdentity, HostChange, HostChangeKind, ObjectPath};

use super::{Beginning, CHANGE_BYTES_MAX, TURN_VISITS, Task, WORKER_PARTS, Work, bytes_of};
use crate::watchers::{Source, Watchers};

const ALICE: ServerId = ServerId { pid: 1, unique_id: 11 };
const BOB: ServerId = ServerId { pid: 2, unique_id: 12 };
const CAROL: ServerId = ServerId { pid: 3, unique_id: 13 };
const AT: Duration = Duration::from_secs(1);

fn added(path: &str) -> HostChange {
    let path = ObjectPath::from_stored(path.to_owned(), None);
    HostChange { path, is_directory: false, kind: HostChangeKind::Added }
}

fn watch(open: u64, path: &str) -> Watch {
    let path = ObjectPath::from_stored(path.to_owned(), None);
    let identity = FileIdentity::default();
    let (kernel, may_wait, is_guest) = (true, false, false);
    Watch { open, path, identity, recursive: true, filter: 3, kernel, may_wait, is_guest }
}

fn beginning(open: u64, path: &str) -> Beginning {
    let identity = FileIdentity::default();
    Beginning { open, path: path.into(), identity, kernel: true, may_wait: false }
}

/// Returns the worker that a task is of.
fn requester(task: &Task) -> ServerId {
    match task {
        Task::Report(worker, ..) | Task::Begin(worker, _) | Task::End(worker, _) => *worker,
    }
}

/// Carries out tasks until one of this worker. Returns their cost, and that of the dearest.
fn cost_before(work: &mut Work, watchers: &mut Watchers, worker: ServerId) -> (u64, u64) {
    let (mut sum, mut dearest) = (0, 0);
    while let Some(task) = work.next_task().filter(|task| requester(task) != worker) {
        let visits = match &task {
            Task::Report(sender, _, change) => {
                watchers.receivers(change, Source::Worker(*sender)).visits
            }
            Task::Begin(..) | Task::End(..) => TURN_VISITS,
        };
        work.charge_turn(visits);
        (sum, dearest) = (sum + visits, visits.max(dearest));
    }
    assert!(work.turn.is_some_and(|(of, _)| of == worker), "it has its turn");
    (sum, dearest)
}

/// The attack: a client changes a directory that it watches from many connections, without a pause.
#[test]
fn a_flood_of_changes_delays_another_workers_change_by_one_turn() {
    let (mut work, mut watchers) = (Work::default(), Watchers::default());
    for pid in 0..64 {
        let worker = ServerId { pid: 100 + pid, unique_id: 0 };
        watchers.watch(worker, &watch(1, "srv/flood"));
    }
    watchers.watch(CAROL, &watch(1, "srv/bob"));
    for _ in 0..10 {
        let changes = vec![added("srv/flood/f"); Changes::LEN_MAX];
        work.charge_message(ALICE, Changes::encode(AT, &changes).len());
        work.add_changes(ALICE, AT, changes);
    }
    for _ in 0..3 {
        let task = work.next_task().expect("a flood is no end");
        assert_eq!(requester(&task), ALICE);
        work.charge_turn(1);
        work.add_changes(BOB, AT, vec![added("srv/bob/f")]);
        let (sum, dearest) = cost_before(&mut work, &mut watchers, BOB);
        assert!(sum <= TURN_VISITS + dearest, "{sum}, {dearest}");
        work.charge_turn(1);
    }
    let left = std::iter::from_fn(|| work.next_task());
    assert!(left.count() > 9 * Changes::LEN_MAX, "nothing is lost");
}

/// The attack: clients that watch one directory with thousands of opens close one of them and open
/// it again, before each change by another client there.
#[test]
fn a_change_costs_its_sender_no_more_where_others_have_closed_one_of_many_watches() {
    const WATCHES: u64 = 4_096;
    let (mut work, mut watchers) = (Work::default(), Watchers::default());
    let mallory = [ALICE, CAROL];
    for worker in mallory {
        for open in 0..WATCHES {
            watchers.watch(worker, &watch(open, "srv"));
        }
    }
    let mut look = |watchers: &mut Watchers| {
        let receivers = watchers.receivers(&added("srv/bob/f"), Source::Worker(BOB));
        (receivers.visits, work.charge_others(&receivers.joins))
    };
    let (fresh, _) = look(&mut watchers);
    for worker in mallory {
        watchers.unwatch(worker, 7);
        watchers.watch(worker, &watch(7, "srv"));
    }
    assert_eq!(look(&mut watchers), (fresh, 2 * WATCHES), "the wishes of both are joined again");
    assert_eq!(look(&mut watchers), (fresh, 0), "once");
    for worker in [ALICE, BOB, CAROL] {
        work.add_changes(worker, AT, vec![added("f"); 10]);
    }
    let order = std::iter::from_fn(|| {
        let task = work.next_task()?;
        work.charge_turn(WATCHES / 10);
        Some(requester(&task))
    });
    let order = Vec::from_iter(order);
    assert_eq!(order[..10], [BOB; 10], "those who have closed have paid for it");
    assert_eq!(order.len(), 30);
}

/// A worker's change is not for its own watches, and some changes are for all watches of a group:
/// neither joins anything.
#[test]
fn a_look_that_joins_no_wishes_costs_nobody_a_join() {
    let mut watchers = Watchers::default();
    for open in 0..100 {
        watchers.watch(ALICE, &watch(open, "srv"));
    }
    watchers.unwatch(ALICE, 7);
    let missed = HostChange::missed(ObjectPath::from_stored("srv/d".to_owned(), None));
    for (change, worker) in [(&added("srv/f"), ALICE), (&missed, BOB)] {
        assert_eq!(watchers.receivers(change, Source::Worker(worker)).joins, []);
    }
    let joins = watchers.receivers(&added("srv/f"), Source::Kernel).joins;
    assert_eq!(joins, [(ALICE, 99)]);
}

/// Opens of many directories, each watched and closed again.
#[test]
fn a_flood_of_watches_delays_another_workers_watch_by_one_turn() {
    let (mut work, mut watchers) = (Work::default(), Watchers::default());
    for number in 0..4_096 {
        work.add_beginning(ALICE, number, beginning(number, "srv/flood"));
    }
    assert_eq!(work.next_task(), Some(Task::Begin(ALICE, beginning(0, "srv/flood"))));
    work.charge_turn(1);
    work.add_beginning(BOB, 5_000, beginning(1, "srv/bob"));
    let (sum, dearest) = cost_before(&mut work, &mut watchers, BOB);
    assert!(sum <= TURN_VISITS + dearest, "{sum}, {dearest}");
}

/// The attack: a client ends thousands of watches of large trees at once, or vanishes.
#[test]
fn a_flood_of_ended_watches_delays_another_workers_change_by_one_turn() {
    let (mut work, mut watchers) = (Work::default(), Watchers::default());
    for open in 0..4_096 {
        work.add_end(ALICE, format!("srv/{open}").into());
    }
    work.add_changes(BOB, AT, vec![added("srv/bob/f")]);
    let (before, dearest) = cost_before(&mut work, &mut watchers, BOB);
    assert!(before <= TURN_VISITS + dearest, "{before} visits");
}

#[test]
fn a_watch_begins_after_all_ends_of_its_worker_and_an_end_is_noted_once() {
    let mut work = Work::default();
    work.add_beginning(ALICE, 1, beginning(1, "srv/new"));
    for path in ["srv/a", "srv/b", "srv/a"] {
        work.add_end(ALICE, path.into());
    }
    let ends = ["srv/a", "srv/b"].map(|path| Task::End(ALICE, path.into()));
    let begin = Task::Begin(ALICE, beginning(1, "srv/new"));
    for expected in ends.into_iter().chain([begin]) {
        assert_eq!(work.next_task(), Some(expected));
    }
    assert_eq!(work.next_task(), None);
    assert!(work.is_idle());
}

#[test]
fn a_worker_pays_for_its_messages_and_for_work_out_of_turn() {
    let mut work = Work::default();
    for worker in [ALICE, BOB] {
        work.add_changes(worker, AT, vec![added("f"); 2]);
    }
    work.charge_message(ALICE, 64 * 1024);
    work.charge(ALICE, TURN_VISITS);
    let order = std::iter::from_fn(|| {
        let task = work.next_task()?;
        work.charge_turn(TURN_VISITS);
        Some(requester(&task))
    });
    assert_eq!(Vec::from_iter(order), [BOB, BOB, ALICE, ALICE]);
}

#[test]
fn changes_beyond_the_part_of_a_worker_become_one_and_others_keep_theirs() {
    let mut work = Work::default();
    work.add_changes(BOB, AT, vec![added("srv/bob/f")]);
    let change = added("srv/flood/d/f");
    let room = CHANGE_BYTES_MAX / WORKER_PARTS / bytes_of(&change);
    let later = AT + Duration::from_secs(1);
    for _ in 0..=room / Changes::LEN_MAX {
        work.add_changes(ALICE, AT, vec![change.clone(); Changes::LEN_MAX]);
    }
    work.add_changes(ALICE, later, vec![added("srv/flood/g")]);
    let mut tasks = Vec::new();
    while let Some(task) = work.next_task() {
        work.charge_turn(1);
        tasks.push(task);
    }
    assert_eq!(tasks[0], Task::Report(BOB, AT, added("srv/bob/f")));
    let directory = ObjectPath::from_stored("srv/flood/d".to_owned(), None);
    assert_eq!(tasks[1], Task::Report(ALICE, AT, HostChange::missed(directory)));
    assert_eq!(tasks[2..], [Task::Report(ALICE, later, added("srv/flood/g"))]);
    assert_eq!(work.change_bytes, 0);
    assert!(work.is_idle() && work.of_workers.is_empty());
}

#[test]
fn a_watch_that_ends_before_its_turn_does_not_begin_and_changes_of_an_ended_worker_are_told() {
    let mut work = Work::default();
    for number in 1..=3 {
        work.add_beginning(ALICE, number, beginning(number, "srv"));
    }
    work.remove_beginning(ALICE, 2);
    assert_eq!(work.next_task(), Some(Task::Begin(ALICE, beginning(1, "srv"))));
    work.add_changes(ALICE, AT, vec![added("f")]);
    work.remove_beginnings(ALICE);
    assert_eq!(work.next_task(), Some(Task::Report(ALICE, AT, added("f"))));
    assert_eq!(work.next_task(), None);
    assert!(work.is_idle());
    work.add_beginning(ALICE, 4, beginning(4, "srv"));
    work.remove_beginning(ALICE, 4);
    assert!(work.is_idle() && work.of_workers.is_empty());
}

#[test]
fn changes_and_watches_of_a_worker_wait_for_one_of_the_other_kind_at_most() {
    let mut work = Work::default();
    work.add_changes(ALICE, AT, vec![added("f"); 3]);
    (1..=3).for_each(|number| work.add_beginning(ALICE, number, beginning(number, "srv")));
    let is_watch = std::iter::from_fn(|| work.next_task()).map(|it| matches!(it, Task::Begin(..)));
    assert_eq!(Vec::from_iter(is_watch), [true, false, true, false, true, false]);
}
