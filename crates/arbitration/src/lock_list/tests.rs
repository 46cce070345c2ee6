//! Conflicts of locks, and the same decisions by a plain list without an order.

use dtyp::ServerId;
use proptest::prelude::*;

use super::{LOCKS_MAX, LOCKS_OF_OPEN_MAX, LockList};
use crate::byte_range::{ByteRange, ByteRangeLock, LockError, RangeAccess};
use crate::open::OpenId;
use crate::standing::Standing;

fn take(list: &mut LockList, lock: ByteRangeLock) -> Result<(), LockError> {
    list.acquire(&[lock], Standing::User)
}

fn release(list: &mut LockList, open: OpenId, range: ByteRange) -> Result<(), LockError> {
    list.release(open, 0, [range].into_iter())
}

fn id(number: u64) -> OpenId {
    OpenId { number, ..OpenId::default() }
}

fn lock(open: u64, offset: u64, length: u64, exclusive: bool) -> ByteRangeLock {
    ByteRangeLock { open: id(open), stream: 0, range: ByteRange { offset, length }, exclusive }
}

fn access(open: u64, offset: u64, length: u64, writes: bool) -> RangeAccess {
    RangeAccess { open: id(open), stream: 0, range: ByteRange { offset, length }, writes }
}

#[test]
fn a_shared_lock_stops_its_owners_writes_but_nobodys_reads() {
    let mut list = LockList::default();
    take(&mut list, lock(1, 0, 10, false)).expect("nothing is locked");
    assert!(list.blocks(access(1, 5, 1, true)));
    assert!(!list.blocks(access(2, 5, 1, false)));
    assert!(!list.blocks(access(1, 10, 1, true)));
}

#[test]
fn an_exclusive_lock_leaves_its_owner_alone() {
    let mut list = LockList::default();
    take(&mut list, lock(1, 0, 10, true)).expect("nothing is locked");
    assert!(!list.blocks(access(1, 0, 10, true)));
    assert!(list.blocks(access(2, 9, 1, false)));
}

#[test]
fn exclusive_locks_do_not_stack_on_one_open() {
    let mut list = LockList::default();
    take(&mut list, lock(1, 0, 10, true)).expect("nothing is locked");
    assert_eq!(take(&mut list, lock(1, 0, 10, true)), Err(LockError::Conflict));
}

#[test]
fn a_shared_lock_stacks_on_an_exclusive_one_of_the_same_open_alone() {
    let mut list = LockList::default();
    take(&mut list, lock(1, 0, 10, true)).expect("nothing is locked");
    assert_eq!(take(&mut list, lock(1, 0, 10, false)), Ok(()));
    assert_eq!(take(&mut list, lock(2, 0, 10, false)), Err(LockError::Conflict));
    // The exclusive one is released first; then others may lock shared.
    release(&mut list, id(1), ByteRange { offset: 0, length: 10 }).expect("it is locked twice");
    assert_eq!(take(&mut list, lock(2, 0, 10, false)), Ok(()));
}

#[test]
fn an_exclusive_lock_does_not_stack_on_a_shared_one() {
    let mut list = LockList::default();
    take(&mut list, lock(1, 0, 10, false)).expect("nothing is locked");
    assert_eq!(take(&mut list, lock(1, 0, 10, true)), Err(LockError::Conflict));
}

#[test]
fn an_access_to_no_bytes_meets_no_lock() {
    let mut list = LockList::default();
    take(&mut list, lock(1, 0, 10, true)).expect("nothing is locked");
    assert!(!list.blocks(access(2, 5, 0, true)));
    assert!(list.blocks(access(2, 5, 1, true)));
}

#[test]
fn an_empty_lock_conflicts_with_bytes_on_both_sides_of_it() {
    let beside = [(10, 0), (9, 1), (10, 1), (11, 1), (10, 2)];
    let across = [(9, 2), (9, 3)];
    for (wanted, cases) in [(Ok(()), &beside[..]), (Err(LockError::Conflict), &across[..])] {
        for (offset, length) in cases.iter().copied() {
            let (empty, other) = (lock(1, 10, 0, true), lock(2, offset, length, true));
            for (first, second) in [(empty, other), (other, empty)] {
                let mut list = LockList::default();
                take(&mut list, first).expect("nothing is locked");
                assert_eq!(take(&mut list, second), wanted, "{first:?} {second:?}");
            }
        }
    }
}

#[test]
fn release_wants_the_exact_range() {
    let mut list = LockList::default();
    take(&mut list, lock(1, 0, 10, false)).expect("nothing is locked");
    let part = ByteRange { offset: 0, length: 5 };
    assert_eq!(release(&mut list, id(1), part), Err(LockError::NotLocked));
    assert_eq!(
        release(&mut list, id(2), ByteRange { offset: 0, length: 10 }),
        Err(LockError::NotLocked)
    );
    assert_eq!(release(&mut list, id(1), ByteRange { offset: 0, length: 10 }), Ok(()));
    assert!(list.is_empty());
}

#[test]
fn a_range_may_reach_the_last_byte_and_no_further() {
    let mut list = LockList::default();
    assert_eq!(take(&mut list, lock(1, u64::MAX, 1, true)), Ok(()));
    assert_eq!(take(&mut list, lock(1, u64::MAX, 2, true)), Err(LockError::RangeTooLong));
    let range = ByteRange { offset: u64::MAX, length: 2 };
    assert_eq!(release(&mut list, id(1), range), Err(LockError::RangeTooLong));
}

/// Builds locks of one byte each, all of one open.
fn many(open: OpenId, from: u64, count: usize) -> Vec<ByteRangeLock> {
    let range = |offset| ByteRange { offset, length: 1 };
    let lock = |at| ByteRangeLock { open, stream: 0, range: range(at), exclusive: false };
    (from..).take(count).map(lock).collect()
}

fn of_worker(pid: u32, number: u64) -> OpenId {
    OpenId { worker: ServerId { pid, unique_id: 1 }, number }
}

#[test]
fn an_open_has_so_many_locks_and_no_more() {
    let mut list = LockList::default();
    let open = of_worker(1, 1);
    assert_eq!(list.acquire(&many(open, 0, LOCKS_OF_OPEN_MAX), Standing::User), Ok(()));
    assert_eq!(take(&mut list, lock(1, 9_999, 1, false)), Ok(()), "another open");
    let more = many(open, 5_000, 1);
    assert_eq!(list.acquire(&more, Standing::User), Err(LockError::TooManyLocks));
    assert_eq!(list.release(open, 0, [ByteRange { offset: 7, length: 1 }].into_iter()), Ok(()));
    assert_eq!(list.acquire(&more, Standing::User), Ok(()));
}

#[test]
fn no_client_takes_all_locks_of_a_file() {
    for (standing, wanted) in [(Standing::User, LOCKS_MAX / 4), (Standing::Guest, LOCKS_MAX / 16)] {
        let mut list = LockList::default();
        let mut taken = 0;
        let chunk = 256;
        for number in 0.. {
            if list.acquire(&many(of_worker(1, number), 0, chunk), standing).is_err() {
                break;
            }
            taken += chunk;
        }
        assert_eq!(taken, wanted, "{standing:?}");
        assert_eq!(list.acquire(&many(of_worker(2, 1), 0, chunk), standing), Ok(()));
    }
}

#[test]
fn locks_are_taken_all_or_none() {
    let mut list = LockList::default();
    take(&mut list, lock(1, 20, 1, true)).expect("nothing is locked");
    let before = list.clone();
    let wanted = [lock(2, 0, 1, true), lock(2, 20, 1, true)];
    assert_eq!(list.acquire(&wanted, Standing::User), Err(LockError::Conflict));
    let twice = [lock(2, 0, 1, true), lock(2, 0, 1, true)];
    assert_eq!(list.acquire(&twice, Standing::User), Err(LockError::Conflict));
    assert_eq!(list, before);
}

/// Reference for [MS-FSA] 2.1.4.10, 2.1.5.8 and 2.1.5.9: each rule is a walk over all locks.
#[derive(Default)]
struct Plain(Vec<ByteRangeLock>);

impl Plain {
    fn overlapping(&self, stream: u64, range: ByteRange) -> impl Iterator<Item = &ByteRangeLock> {
        self.0.iter().filter(move |it| it.stream == stream && it.range.overlaps(range))
    }

    fn acquire(&mut self, wanted: &[ByteRangeLock]) -> Result<(), LockError> {
        let before = self.0.len();
        for lock in wanted {
            let is_in_the_way =
                |it: &ByteRangeLock| lock.exclusive || (it.exclusive && it.open != lock.open);
            if self.overlapping(lock.stream, lock.range).any(is_in_the_way) {
                self.0.truncate(before);
                return Err(LockError::Conflict);
            }
            self.0.push(*lock);
        }
        Ok(())
    }

    fn release(
        &mut self,
        open: OpenId,
        stream: u64,
        ranges: &[ByteRange],
    ) -> Result<(), LockError> {
        for range in ranges {
            let is_it = |it: &ByteRangeLock, exclusive| {
                (it.open, it.stream, it.range, it.exclusive) == (open, stream, *range, exclusive)
            };
            let find = |exclusive| self.0.iter().position(|it| is_it(it, exclusive));
            let at = find(true).or_else(|| find(false)).ok_or(LockError::NotLocked)?;
            self.0.remove(at);
        }
        Ok(())
    }

    fn blocks(&self, access: RangeAccess) -> bool {
        let in_the_way = |it: &ByteRangeLock| match it.exclusive {
            true => it.open != access.open,
            false => access.writes,
        };
        access.range.length != 0 && self.overlapping(access.stream, access.range).any(in_the_way)
    }

    fn sorted(&self) -> Vec<ByteRangeLock> {
        sorted(&self.0)
    }
}

fn sorted<'a>(locks: impl IntoIterator<Item = &'a ByteRangeLock>) -> Vec<ByteRangeLock> {
    let mut locks: Vec<_> = locks.into_iter().copied().collect();
    locks.sort_by_key(|it| (it.exclusive, it.stream, it.range.offset, it.range.length, it.open));
    locks
}

#[derive(Clone, Debug)]
enum Step {
    Acquire(Vec<ByteRangeLock>),
    Release(OpenId, u64, Vec<ByteRange>),
    ReleaseAll(OpenId),
    Access(RangeAccess),
}

/// Generates short ranges near each other, also empty ones, and rarely one that covers all.
fn range() -> impl Strategy<Value = ByteRange> {
    prop_oneof![
        12 => (0..24_u64, 0..5_u64).prop_map(|(offset, length)| ByteRange { offset, length }),
        1 => (0..24_u64).prop_map(|offset| ByteRange { offset, length: u64::MAX - offset }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let open = || (1..4_u64).prop_map(id);
    // Each open has one stream.
    let stream = |open: OpenId| open.number % 2;
    prop_oneof![
        6 => (open(), prop::collection::vec((range(), prop::bool::weighted(0.4)), 1..5)).prop_map(
            move |(open, ranges)| {
                let lock = |(range, exclusive)| {
                    ByteRangeLock { open, stream: stream(open), range, exclusive }
                };
                Step::Acquire(ranges.into_iter().map(lock).collect())
            }
        ),
        4 => (open(), prop::collection::vec(range(), 1..4))
            .prop_map(move |(open, ranges)| Step::Release(open, stream(open), ranges)),
        1 => open().prop_map(Step::ReleaseAll),
        4 => (open(), 0..2_u64, range(), any::<bool>()).prop_map(|(open, stream, range, writes)| {
            Step::Access(RangeAccess { open, stream, range, writes })
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn ordered_locks_decide_as_a_plain_list_does(steps in prop::collection::vec(step(), 1..60)) {
        let (mut list, mut plain) = (LockList::default(), Plain::default());
        for step in steps {
            match &step {
                Step::Acquire(wanted) => prop_assert_eq!(
                    list.acquire(wanted, Standing::User), plain.acquire(wanted), "{:?}", step
                ),
                Step::Release(open, stream, ranges) => prop_assert_eq!(
                    list.release(*open, *stream, ranges.iter().copied()),
                    plain.release(*open, *stream, ranges),
                    "{:?}", step
                ),
                Step::ReleaseAll(open) => {
                    list.release_all(*open);
                    plain.0.retain(|it| it.open != *open);
                }
                Step::Access(access) => {
                    prop_assert_eq!(list.blocks(*access), plain.blocks(*access), "{:?}", step);
                }
            }
            prop_assert_eq!(sorted(list.iter()), plain.sorted(), "{:?}", step);
            let again: LockList = list.iter().copied().collect();
            prop_assert_eq!(&again, &list, "as it comes out of the table");
        }
    }
}
