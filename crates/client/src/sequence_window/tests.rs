use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{SequenceWindow, credit_charge};

/// A step of a client that may break the rules.
#[derive(Clone, Copy, Debug)]
enum Step {
    Grant(u16),
    Take(u16),
    /// A request at this distance from the next id.
    TakeAt(u64, u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..8_u16).prop_map(Step::Grant),
        (0..6_u16).prop_map(Step::Take),
        (0..12_u64, 0..6_u16).prop_map(|(ahead, charge)| Step::TakeAt(ahead, charge)),
    ]
}

/// The window by its definition: a set of ids that may be used, and the next one to be granted.
struct Model {
    free: BTreeSet<u64>,
    end: u64,
}

impl Model {
    fn next_id(&self) -> u64 {
        self.free.first().copied().unwrap_or(self.end)
    }

    fn take_at(&mut self, id: u64, charge: u16) {
        (id..id + u64::from(charge.max(1))).for_each(|id| {
            self.free.remove(&id);
        });
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Grant(credits) => {
                let end = self.end + u64::from(credits);
                self.free.extend(self.end..end);
                self.end = end;
            }
            Step::Take(charge) => {
                let id = self.next_id();
                self.end = self.end.max(id + u64::from(charge.max(1)));
                self.take_at(id, charge);
            }
            Step::TakeAt(ahead, charge) => self.take_at(self.next_id() + ahead, charge),
        }
    }
}

proptest! {
    #[test]
    fn the_window_is_the_set_of_granted_and_unused_ids(
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut window = SequenceWindow::new();
        let mut model = Model { free: BTreeSet::from([0]), end: 1 };
        for step in steps {
            match step {
                Step::Grant(credits) => window.grant(credits),
                Step::Take(charge) => prop_assert_eq!(window.take(charge), model.next_id()),
                Step::TakeAt(ahead, charge) => window.take_at(window.next_id() + ahead, charge),
            }
            model.run(step);
            prop_assert_eq!(usize::try_from(window.credits()), Ok(model.free.len()));
            prop_assert_eq!(window.next_id(), model.next_id());
            prop_assert_eq!(window.next_id() + window.span(), model.end);
        }
    }

    #[test]
    fn a_client_that_keeps_the_rules_uses_each_id_once(
        charges in prop::collection::vec(1..9_u16, 1..60),
    ) {
        let mut window = SequenceWindow::new();
        let mut used = BTreeSet::new();
        for charge in charges {
            while window.credits() < charge.into() {
                window.grant(3);
            }
            let id = window.take(charge);
            for id in id..id + u64::from(charge) {
                prop_assert!(used.insert(id), "{} was used before", id);
            }
        }
    }
}

#[test]
fn a_new_connection_has_one_credit_for_its_first_request() {
    let mut window = SequenceWindow::new();
    assert_eq!((window.credits(), window.next_id(), window.span()), (1, 0, 1));
    assert_eq!(window.take(0), 0, "a charge of 0 takes one id");
    assert_eq!((window.credits(), window.next_id(), window.span()), (0, 1, 0));
}

#[test]
fn a_debt_is_not_paid_by_later_grants() {
    let mut window = SequenceWindow::new();
    assert_eq!((window.take(5), window.credits()), (0, 0));
    window.grant(2);
    assert_eq!((window.take(1), window.credits()), (5, 1));
}

#[test]
fn ids_that_were_not_granted_do_not_count() {
    let mut window = SequenceWindow::new();
    window.grant(9);
    window.take_at(3, 2);
    window.take_at(8, 100);
    window.take_at(u64::MAX, 7);
    assert_eq!((window.credits(), window.span()), (6, 10));
    assert_eq!([(); 3].map(|()| window.take(1)), [0, 1, 2]);
    assert_eq!(window.take(1), 5, "what was used is left out");
}

#[test]
fn skipped_ids_leave_the_credits_as_they_are() {
    let mut window = SequenceWindow::new();
    window.grant(4);
    window.skip(100);
    assert_eq!((window.credits(), window.take(1), window.take(1)), (5, 100, 101));
}

#[test]
fn one_credit_covers_64_kib() {
    assert_eq!([0, 1, 65_536].map(credit_charge), [1; 3]);
    assert_eq!([65_537, 1 << 20].map(credit_charge), [2, 16]);
}
