use std::cell::Cell;
use std::sync::mpsc::{Receiver, sync_channel};

use dtyp::{ServerId, Sid};
use logon::winbind::{DomainName, WinbindError};
use messaging::{NAMES_MAX, NameToFind, NamesQuestion};

use super::*;
use crate::WAITING_MAX;
use crate::lookup::{NAMES_PER_TURN_MAX, NAMES_TIMEOUT};
use crate::names::{KNOWN_FOR, KnownNames, UNKNOWN_FOR};

const ALICE: ServerId = ServerId { pid: 1, unique_id: 1 };

fn sid(rid: u32) -> NameToFind {
    NameToFind::Sid(Sid::new(5, &[21, 1, 2, 3, rid]))
}

fn alice() -> DomainName {
    let (domain, name) = ("ADLAB".to_owned(), "alice".to_owned());
    DomainName { kind: 1, domain, name, sid: Sid::new(5, &[21, 1, 2, 3, 1_103]) }
}

fn lookup(now: Instant, asker: ServerId, is_guest: bool, rids: std::ops::Range<u32>) -> Lookup {
    let names = rids.map(sid).collect();
    Lookup::new(now, asker, NamesQuestion { number: 1, is_guest, names })
}

/// Look-ups by one thread that hands each job to the test.
fn lookups() -> (Lookups, Receiver<Job>) {
    let (given, jobs) = sync_channel(0);
    let give = move |(): &mut (), job| {
        // The test may have ended.
        let _ = given.send(job);
    };
    let pool = Pool::start("test", 1, WAITING_MAX, || (), give).expect("there are threads");
    (Lookups::new(pool), jobs)
}

fn taken(jobs: &Receiver<Job>) -> Lookup {
    match jobs.recv().expect("the thread has one") {
        Job::Names(lookup) => lookup,
        other => panic!("{other:?}"),
    }
}

/// The attack: one host with many anonymous clients asks for random SIDs, in as many questions as
/// it may, without a pause.
#[test]
fn a_flood_of_names_by_guests_delays_those_of_a_user_by_one_turn() {
    let ((mut lookups, jobs), now) = (lookups(), Instant::now());
    let known = KnownNames::default();
    let most = u32::try_from(NAMES_MAX).expect("it is small");
    for pid in 100..612 {
        let asker = ServerId { pid, unique_id: 0 };
        for number in 0..=GUEST_LOOKUPS_MAX {
            let from = (pid * 32 + number) * most;
            let _ = lookups.begin(lookup(now, asker, true, from..from + most));
        }
    }
    // The thread has taken one job or two of the flood already.
    let begun = [(); 2].map(|()| taken(&jobs));
    let refused = lookups.begin(lookup(now, ALICE, false, 0..1));
    assert!(refused.is_none_or(|it| it.is_guest), "the flood makes room");
    let asked = Cell::new(0);
    let work = |mut lookup: Lookup| {
        lookup.go_on(
            &known,
            || now,
            |_| {
                asked.set(asked.get() + 1);
                Ok(None)
            },
        );
        lookup
    };
    for begun in begun {
        let answered = lookups.finish(now, work(begun));
        assert!(answered.is_none_or(|it| it.is_guest), "it goes on, or makes room");
    }
    let mut turns = 0;
    loop {
        let lookup = taken(&jobs);
        let is_alices = lookup.asker == ALICE;
        let lookup = work(lookup);
        if is_alices {
            assert!(lookup.is_complete());
            break;
        }
        turns += 1;
        let _ = lookups.finish(now, lookup);
    }
    assert!(turns <= 2, "{turns} turns of guests");
    assert!(asked.get() <= 4 * NAMES_PER_TURN_MAX + 1, "{} names", asked.get());
}

#[test]
fn a_guest_has_few_questions_under_way_and_their_ends_make_room() {
    let ((mut lookups, jobs), now) = (lookups(), Instant::now());
    let begin = |lookups: &mut Lookups, is_guest| {
        lookups.begin(lookup(now, ALICE, is_guest, 0..1)).is_none()
    };
    for _ in 0..GUEST_LOOKUPS_MAX {
        assert!(begin(&mut lookups, true));
    }
    assert!(!begin(&mut lookups, true));
    let mut done = taken(&jobs);
    done.go_on(&KnownNames::default(), || now, |_| Ok(None));
    let answered = lookups.finish(now, done).expect("it is complete");
    assert_eq!(answered.into_answer().found, [None]);
    assert!(begin(&mut lookups, true) && !begin(&mut lookups, true));
    assert!(begin(&mut lookups, false), "a user has more");
}

#[test]
fn names_of_a_question_that_is_late_are_not_asked_for() {
    let ((mut lookups, jobs), now) = (lookups(), Instant::now());
    assert!(lookups.begin(lookup(now, ALICE, false, 0..40)).is_none());
    let mut late = taken(&jobs);
    let later = now + NAMES_TIMEOUT;
    late.go_on(&KnownNames::default(), || later, |_| panic!("it is too late"));
    assert!(late.is_complete());
    assert!(lookups.begin(lookup(now, ALICE, false, 0..40)).is_none());
    let mut slow = taken(&jobs);
    slow.go_on(&KnownNames::default(), || now, |_| Ok(Some(alice())));
    let slow = lookups.finish(later, slow).expect("it does not wait for a thread again");
    let found = slow.into_answer().found;
    assert_eq!(found.len(), 40);
    assert_eq!(found.iter().flatten().count(), NAMES_PER_TURN_MAX);
}

#[test]
fn a_long_question_is_answered_over_several_turns_in_its_order() {
    let ((mut lookups, jobs), now) = (lookups(), Instant::now());
    let known = KnownNames::default();
    assert!(lookups.begin(lookup(now, ALICE, false, 1_000..1_200)).is_none());
    let answered = loop {
        let mut part = taken(&jobs);
        let is_alice = |name: &NameToFind| *name == sid(1_103);
        part.go_on(&known, || now, |name| Ok(is_alice(name).then(alice)));
        if let Some(answered) = lookups.finish(now, part) {
            break answered.into_answer();
        }
    };
    assert_eq!(answered.found.len(), 200);
    let places: Vec<_> = (0..200).filter(|it| answered.found[*it].is_some()).collect();
    assert_eq!(places, [103]);
    let mut again = lookup(now, ALICE, false, 1_000..1_200);
    again.go_on(&known, || now, |_| panic!("all are known"));
    assert!(again.is_complete(), "known names cost no turn");
}

#[test]
fn results_count_for_a_while_and_longer_if_somebody_has_the_name() {
    let (known, begin, asked) = (KnownNames::default(), Instant::now(), Cell::new(0));
    let find = |rid, now| {
        let mut lookup = lookup(now, ALICE, false, rid..rid + 1);
        let ask = |_: &NameToFind| {
            asked.set(asked.get() + 1);
            Ok((rid == 1_103).then(alice))
        };
        lookup.go_on(&known, || now, ask);
        (lookup.found[0].is_some(), asked.get())
    };
    assert_eq!(find(1_103, begin), (true, 1));
    assert_eq!(find(1_104, begin), (false, 2));
    let later = begin + UNKNOWN_FOR;
    assert_eq!(find(1_103, later), (true, 2));
    assert_eq!(find(1_104, later), (false, 3));
    assert_eq!(find(1_103, begin + KNOWN_FOR), (true, 4));
}

#[test]
fn nobody_is_asked_after_a_failure_which_is_not_remembered() {
    let (known, now) = (KnownNames::default(), Instant::now());
    let asked = Cell::new(0);
    let mut failed = lookup(now, ALICE, false, 1..3);
    failed.go_on(
        &known,
        || now,
        |_| {
            asked.set(asked.get() + 1);
            Err(WinbindError::Unavailable("it is gone".to_owned()))
        },
    );
    assert_eq!((failed.into_answer().found, asked.get()), (vec![None, None], 1));
    let mut again = lookup(now, ALICE, false, 1..2);
    again.go_on(&known, || now, |_| Ok(Some(alice())));
    assert!(again.found[0].is_some());
}
