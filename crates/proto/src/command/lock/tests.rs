//! LOCK, tested through requests and responses.

use std::sync::Arc;

use dtyp::{AccessMask, NtStatus};
use engine::files::LOCK_BYTES;
use model::settings::ServerSettings;
use testkit::Outcome;
use trace::Reason;
use wire::lock::{LockElement, LockFlags, LockRequest, LockResponse, Locks};
use wire::logoff::LogoffRequest;
use wire::tree_disconnect::TreeDisconnectRequest;
use wire::{Command, Dialect, FileId};

use super::LOCK_ELEMENTS_MAX;
use crate::scene::{Answer, Scene};

const SHARED: LockFlags = LockFlags::SHARED_LOCK;
const EXCLUSIVE: LockFlags = LockFlags::EXCLUSIVE_LOCK;
const UNLOCK: LockFlags = LockFlags::UNLOCK;
const AT_ONCE: LockFlags = LockFlags::FAIL_IMMEDIATELY;
const NONE: LockFlags = LockFlags::empty();

type Element = (u64, u64, LockFlags);

/// Sends a LOCK with an immediate response.
#[track_caller]
fn lock(scene: &mut Scene, file_id: FileId, elements: &[Element]) -> Outcome {
    let answer = lock_in_sequence(scene, file_id, 0, elements);
    if answer.status() == NtStatus::SUCCESS {
        let LockResponse = answer.body();
    }
    answer.outcome()
}

#[track_caller]
fn lock_in_sequence(
    scene: &mut Scene,
    file_id: FileId,
    lock_sequence: u32,
    elements: &[Element],
) -> Answer {
    let elements: Vec<_> = elements
        .iter()
        .map(|&(offset, length, flags)| LockElement { offset, length, flags })
        .collect();
    scene.ask(Command::LOCK, &LockRequest { lock_sequence, file_id, locks: Locks::new(&elements) })
}

/// Makes two opens of one file.
fn two_opens() -> (Scene, FileId, FileId) {
    let mut scene = Scene::new();
    let (one, other) = (scene.open("file"), scene.open("file"));
    (scene, one, other)
}

/// Makes two opens, the second of which waits for the first one's lock.
fn waiting() -> (Scene, FileId, FileId, Answer) {
    let (mut scene, holder, waiter) = two_opens();
    assert_eq!(lock(&mut scene, holder, &[(100, 10, EXCLUSIVE)]), NtStatus::SUCCESS);
    let interim = lock_in_sequence(&mut scene, waiter, 0, &[(100, 10, EXCLUSIVE)]);
    assert_eq!(interim.outcome(), NtStatus::PENDING);
    (scene, holder, waiter, interim)
}

#[track_caller]
fn assert_finished(scene: &mut Scene, interim: &Answer, status: NtStatus) {
    let last = scene.receive().expect("the lock is answered");
    assert_eq!((last.status(), last.header.async_id), (status, interim.header.async_id));
    assert!(scene.receive().is_none());
}

/// Sends one request on a fresh file.
#[track_caller]
fn check(elements: &[Element], want: impl Into<Outcome>) {
    let want = want.into();
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    assert_eq!(lock(&mut scene, file_id, elements), want, "{elements:?}");
}

#[test]
fn a_request_without_locks_is_invalid() {
    check(&[], Reason::NoLocks);
}

#[test]
fn a_lock_is_shared_or_exclusive_and_nothing_else() {
    let unknown = LockFlags::from_bits_retain(!0x17);
    for flags in [NONE, AT_ONCE, SHARED | EXCLUSIVE, SHARED | unknown, unknown] {
        check(&[(1, 1, flags)], Reason::LockFlags);
    }
    check(&[(1, 1, SHARED | AT_ONCE)], NtStatus::SUCCESS);
}

#[test]
fn an_unlock_has_no_other_flag() {
    for flags in [SHARED, EXCLUSIVE, AT_ONCE] {
        check(&[(1, 1, UNLOCK | flags)], Reason::LockFlags);
    }
    check(&[(1, 1, UNLOCK)], Reason::RangeNotLocked);
}

#[test]
fn the_first_element_says_whether_it_is_about_locks_or_unlocks() {
    let unlock = (9, 1, UNLOCK);
    check(&[(9, 1, NONE), unlock], Reason::LockFlags);
    check(&[(9, 1, SHARED | AT_ONCE), unlock], Reason::LockFlags);
    // The first unlock fails before the second element is checked.
    check(&[unlock, (9, 1, NONE)], Reason::RangeNotLocked);
}

#[test]
fn only_a_single_lock_may_wait() {
    let (at_once, patient) = ((0, 1, SHARED | AT_ONCE), (5, 1, SHARED));
    check(&[at_once, patient], Reason::LockFlags);
    check(&[at_once, at_once], NtStatus::SUCCESS);
}

#[test]
fn a_range_may_end_with_the_last_byte_and_no_further() {
    check(&[(u64::MAX, 1, EXCLUSIVE | AT_ONCE)], NtStatus::SUCCESS);
    check(&[(u64::MAX, 2, EXCLUSIVE | AT_ONCE)], Reason::LockRange);
    check(&[(u64::MAX, u64::MAX, EXCLUSIVE | AT_ONCE)], Reason::LockRange);
    check(&[(u64::MAX, 2, UNLOCK)], Reason::LockRange);
}

/// Returns `count` locks of a byte each, beginning at `from`.
fn many(from: u64, count: usize, flags: LockFlags) -> Vec<Element> {
    (from..).take(count).map(|offset| (offset, 1, flags)).collect()
}

#[test]
fn a_request_with_more_elements_than_are_taken_at_once_locks_and_unlocks_nothing() {
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    let shared = SHARED | AT_ONCE;
    let most = many(0, LOCK_ELEMENTS_MAX, shared);
    assert_eq!(lock(&mut scene, file_id, &most), NtStatus::SUCCESS);
    let more = many(0, LOCK_ELEMENTS_MAX + 1, UNLOCK);
    assert_eq!(lock(&mut scene, file_id, &more), Reason::TooManyLocks);
    let more = many(1_000, LOCK_ELEMENTS_MAX + 1, shared);
    assert_eq!(lock(&mut scene, file_id, &more), Reason::TooManyLocks);
    let still_locked = many(0, LOCK_ELEMENTS_MAX, UNLOCK);
    assert_eq!(lock(&mut scene, file_id, &still_locked), NtStatus::SUCCESS);
    assert_eq!(lock(&mut scene, file_id, &[(1_000, 1, UNLOCK)]), Reason::RangeNotLocked);
}

#[test]
fn a_guest_takes_a_quarter_of_the_locks_that_a_user_may() {
    for (is_guest, most) in [(false, 2_048), (true, 512)] {
        let mut scene = Scene::new();
        scene.change_account(|account| account.is_guest = is_guest);
        let mut taken = 0;
        for file_id in (0..10).map(|_| scene.open("file")).collect::<Vec<_>>() {
            let wanted = many(0, LOCK_ELEMENTS_MAX, SHARED | AT_ONCE);
            match lock(&mut scene, file_id, &wanted) {
                outcome if outcome.is_success() => taken += wanted.len(),
                outcome => assert_eq!(outcome, Reason::TooManyLocks),
            }
        }
        assert_eq!(taken, most);
    }
}

#[test]
fn an_open_that_neither_reads_nor_writes_locks_nothing() {
    let mut scene = Scene::new();
    let attributes = scene.open_with("file", AccessMask::READ_ATTRIBUTES, false);
    assert_eq!(lock(&mut scene, attributes, &[(0, 1, SHARED)]), Reason::AccessNotGranted);
    let reader = scene.open_with("file", AccessMask::READ_DATA, false);
    assert_eq!(lock(&mut scene, reader, &[(0, 1, EXCLUSIVE)]), NtStatus::SUCCESS);
}

#[test]
fn a_repetition_is_another_request_if_sequences_are_not_checked() {
    for checks in [true, false] {
        let mut scene = Scene::new();
        let mut settings = ServerSettings::clone(&scene.server.inspect().globals.settings);
        settings.lock_sequence_checking = checks;
        scene.server.handle_settings(Arc::new(settings));
        let file_id = scene.open("file");
        let lock = [(100, 10, EXCLUSIVE | AT_ONCE)];
        let statuses = [0x11, 0x11]
            .map(|sequence| lock_in_sequence(&mut scene, file_id, sequence, &lock).status());
        let again = if checks { NtStatus::SUCCESS } else { NtStatus::LOCK_NOT_GRANTED };
        assert_eq!(statuses, [NtStatus::SUCCESS, again]);
    }
}

#[test]
fn directories_and_pipes_have_no_bytes_to_lock() {
    let mut scene = Scene::new();
    let directory = scene.open_directory("directory");
    assert_eq!(lock(&mut scene, directory, &[(0, 1, SHARED)]), Reason::NotOnDirectories);
    let file_id = scene.open_pipe("srvsvc");
    let elements = [LockElement { offset: 0, length: 1, flags: SHARED }];
    let request = LockRequest { lock_sequence: 0, file_id, locks: Locks::new(&elements) };
    let answer = scene.ask_in(crate::scene::PIPES, Command::LOCK, &request);
    assert_eq!(answer.outcome(), Reason::NotOnPipes);
}

#[test]
fn a_lock_that_is_in_the_way_is_not_granted() {
    let (mut scene, one, other) = two_opens();
    let exclusive = [(0, 10, EXCLUSIVE | AT_ONCE)];
    assert_eq!(lock(&mut scene, one, &exclusive), NtStatus::SUCCESS);
    for file_id in [one, other, one] {
        assert_eq!(lock(&mut scene, file_id, &exclusive), Reason::LockNotGranted);
    }
    // The holder of an exclusive lock may take a shared one; others may not until both are
    // released.
    let shared = [(0, 10, SHARED | AT_ONCE)];
    assert_eq!(lock(&mut scene, one, &shared), NtStatus::SUCCESS);
    assert_eq!(lock(&mut scene, other, &shared), Reason::LockNotGranted);
    assert_eq!(lock(&mut scene, one, &[(0, 10, UNLOCK)]), NtStatus::SUCCESS);
    assert_eq!(lock(&mut scene, other, &shared), NtStatus::SUCCESS);
}

#[test]
fn locks_are_taken_all_or_none() {
    let (mut scene, one, other) = two_opens();
    assert_eq!(lock(&mut scene, one, &[(20, 1, EXCLUSIVE)]), NtStatus::SUCCESS);
    let both = [(10, 1, EXCLUSIVE | AT_ONCE), (20, 1, EXCLUSIVE | AT_ONCE)];
    assert_eq!(lock(&mut scene, other, &both), Reason::LockNotGranted);
    assert_eq!(lock(&mut scene, other, &[(10, 1, UNLOCK)]), Reason::RangeNotLocked);
    assert_eq!(lock(&mut scene, one, &[(10, 1, EXCLUSIVE | AT_ONCE)]), NtStatus::SUCCESS);
}

#[test]
fn a_failed_array_leaves_the_locks_that_were_there() {
    let (mut scene, one, other) = two_opens();
    assert_eq!(lock(&mut scene, one, &[(0, 5, SHARED)]), NtStatus::SUCCESS);
    assert_eq!(lock(&mut scene, other, &[(20, 1, EXCLUSIVE)]), NtStatus::SUCCESS);
    let both = [(0, 5, SHARED | AT_ONCE), (20, 1, SHARED | AT_ONCE)];
    assert_eq!(lock(&mut scene, one, &both), Reason::LockNotGranted);
    assert_eq!(lock(&mut scene, one, &[(0, 5, UNLOCK)]), NtStatus::SUCCESS);
    assert_eq!(lock(&mut scene, one, &[(0, 5, UNLOCK)]), Reason::RangeNotLocked);
}

#[test]
fn unlocks_go_as_far_as_they_can() {
    let (mut scene, one, other) = two_opens();
    assert_eq!(lock(&mut scene, one, &[(0, 10, EXCLUSIVE)]), NtStatus::SUCCESS);
    let both = [(0, 10, UNLOCK), (10, 10, UNLOCK)];
    assert_eq!(lock(&mut scene, one, &both), Reason::RangeNotLocked);
    assert_eq!(lock(&mut scene, other, &[(0, 10, EXCLUSIVE | AT_ONCE)]), NtStatus::SUCCESS);
    // The elements behind the failing one are not unlocked.
    let both = [(10, 10, UNLOCK), (0, 10, UNLOCK)];
    assert_eq!(lock(&mut scene, other, &both), Reason::RangeNotLocked);
    assert_eq!(lock(&mut scene, one, &[(0, 10, EXCLUSIVE | AT_ONCE)]), Reason::LockNotGranted);
}

#[test]
fn a_lock_waits_until_the_range_is_unlocked() {
    let (mut scene, holder, waiter, interim) = waiting();
    assert_eq!(lock(&mut scene, holder, &[(100, 10, UNLOCK)]), NtStatus::SUCCESS);
    assert_finished(&mut scene, &interim, NtStatus::SUCCESS);
    assert_eq!(lock(&mut scene, holder, &[(100, 10, SHARED | AT_ONCE)]), Reason::LockNotGranted);
    assert_eq!(lock(&mut scene, waiter, &[(100, 10, UNLOCK)]), NtStatus::SUCCESS);
}

#[test]
fn a_lock_waits_on_if_another_range_is_unlocked() {
    let (mut scene, holder, _, interim) = waiting();
    assert_eq!(lock(&mut scene, holder, &[(0, 1, EXCLUSIVE)]), NtStatus::SUCCESS);
    assert_eq!(lock(&mut scene, holder, &[(0, 1, UNLOCK)]), NtStatus::SUCCESS);
    assert!(scene.receive().is_none());
    assert_eq!(lock(&mut scene, holder, &[(100, 10, UNLOCK)]), NtStatus::SUCCESS);
    assert_finished(&mut scene, &interim, NtStatus::SUCCESS);
}

#[test]
fn the_close_of_the_holder_lets_a_waiting_lock_go_on() {
    let (mut scene, holder, _, interim) = waiting();
    scene.close(holder);
    assert_finished(&mut scene, &interim, NtStatus::SUCCESS);
}

#[test]
fn waiting_locks_are_granted_in_order_of_arrival() {
    let (mut scene, holder, second, first_interim) = waiting();
    let third = scene.open("file");
    let second_interim = lock_in_sequence(&mut scene, third, 0, &[(105, 1, EXCLUSIVE)]);
    assert_eq!(second_interim.outcome(), NtStatus::PENDING);
    assert_eq!(lock(&mut scene, holder, &[(100, 10, UNLOCK)]), NtStatus::SUCCESS);
    assert_finished(&mut scene, &first_interim, NtStatus::SUCCESS);
    assert_eq!(lock(&mut scene, second, &[(100, 10, UNLOCK)]), NtStatus::SUCCESS);
    assert_finished(&mut scene, &second_interim, NtStatus::SUCCESS);
}

#[test]
fn a_waiting_lock_can_be_cancelled() {
    let (mut scene, holder, waiter, interim) = waiting();
    // A waiting lock is not held, so it cannot be unlocked either.
    assert_eq!(lock(&mut scene, waiter, &[(100, 10, UNLOCK)]), Reason::RangeNotLocked);
    scene.cancel(&interim);
    assert_finished(&mut scene, &interim, NtStatus::CANCELLED);
    assert_eq!(lock(&mut scene, holder, &[(100, 10, UNLOCK)]), NtStatus::SUCCESS);
    assert!(scene.receive().is_none());
    assert_eq!(lock(&mut scene, holder, &[(100, 10, EXCLUSIVE | AT_ONCE)]), NtStatus::SUCCESS);
}

#[test]
fn a_waiting_lock_of_a_closed_open_is_not_granted() {
    let (mut scene, _, waiter, interim) = waiting();
    scene.close(waiter);
    assert_finished(&mut scene, &interim, NtStatus::RANGE_NOT_LOCKED);
}

#[test]
fn the_end_of_the_tree_connect_or_session_lets_a_waiting_lock_succeed() {
    let (mut scene, _, _, interim) = waiting();
    let answer = scene.ask(Command::TREE_DISCONNECT, &TreeDisconnectRequest);
    assert_eq!(answer.outcome(), NtStatus::SUCCESS);
    let last = scene.receive().expect("the lock is answered");
    assert_eq!((last.status(), last.header.async_id), (NtStatus::SUCCESS, interim.header.async_id));
    let LockResponse = last.body();

    let (mut scene, _, _, interim) = waiting();
    assert_eq!(scene.ask(Command::LOGOFF, &LogoffRequest).outcome(), NtStatus::SUCCESS);
    assert_finished(&mut scene, &interim, NtStatus::SUCCESS);
}

#[test]
fn cancelled_waiters_do_not_pile_up() {
    let (mut scene, _, waiter, interim) = waiting();
    scene.cancel(&interim);
    assert_finished(&mut scene, &interim, NtStatus::CANCELLED);
    for _ in 0..10 {
        let interim = lock_in_sequence(&mut scene, waiter, 0, &[(100, 10, EXCLUSIVE)]);
        scene.cancel(&interim);
        assert_finished(&mut scene, &interim, NtStatus::CANCELLED);
    }
    assert_eq!(scene.server.inspect().globals.files.take_all_waiting(), []);
}

/// Combines LockSequenceIndex and LockSequenceNumber of a request.
fn sequence(index: u32, number: u32) -> u32 {
    index << 4 | number
}

#[track_caller]
fn check_sequences(dialect: Dialect, first: u32, second: u32, want: impl Into<Outcome>) {
    let want = want.into();
    let mut scene = Scene::with_dialect(dialect);
    let file_id = scene.open("file");
    let lock = [(0, 1, EXCLUSIVE | AT_ONCE)];
    let answer = lock_in_sequence(&mut scene, file_id, first, &lock);
    assert_eq!(answer.outcome(), NtStatus::SUCCESS);
    assert_eq!(lock_in_sequence(&mut scene, file_id, second, &lock).outcome(), want);
}

#[test]
fn a_repeated_request_succeeds_without_locking_again() {
    for (dialect, index) in [(Dialect::SMB_2_1, 1), (Dialect::SMB_3_0, 64)] {
        let repeated = sequence(index, 3);
        check_sequences(dialect, repeated, repeated, NtStatus::SUCCESS);
    }
}

#[test]
fn another_number_or_index_is_another_request() {
    let not_granted = Reason::LockNotGranted;
    check_sequences(Dialect::SMB_3_0, sequence(1, 3), sequence(1, 4), not_granted);
    check_sequences(Dialect::SMB_3_0, sequence(1, 3), sequence(2, 3), not_granted);
}

#[test]
fn requests_outside_of_the_sequence_array_are_never_repetitions() {
    let not_granted = Reason::LockNotGranted;
    for index in [0, 65, 0x0FFF_FFFF] {
        let outside = sequence(index, 3);
        check_sequences(Dialect::SMB_3_0, outside, outside, not_granted);
    }
    let inside = sequence(1, 3);
    check_sequences(Dialect::SMB_2_0_2, inside, inside, not_granted);
}

#[test]
fn a_request_that_failed_is_tried_again() {
    let (mut scene, one, other) = two_opens();
    let exclusive = [(0, 1, EXCLUSIVE | AT_ONCE)];
    assert_eq!(lock(&mut scene, one, &exclusive), NtStatus::SUCCESS);
    let number = sequence(1, 1);
    let failed = lock_in_sequence(&mut scene, other, number, &exclusive);
    assert_eq!(failed.outcome(), Reason::LockNotGranted);
    assert_eq!(lock(&mut scene, one, &[(0, 1, UNLOCK)]), NtStatus::SUCCESS);
    let again = lock_in_sequence(&mut scene, other, number, &exclusive);
    assert_eq!(again.outcome(), NtStatus::SUCCESS);
    assert_eq!(lock(&mut scene, one, &exclusive), Reason::LockNotGranted);
}

#[test]
fn a_lock_that_had_to_wait_is_remembered_in_its_sequence() {
    let (mut scene, holder, waiter) = two_opens();
    assert_eq!(lock(&mut scene, holder, &[(0, 1, EXCLUSIVE)]), NtStatus::SUCCESS);
    let number = sequence(7, 2);
    let interim = lock_in_sequence(&mut scene, waiter, number, &[(0, 1, EXCLUSIVE)]);
    assert_eq!(lock(&mut scene, holder, &[(0, 1, UNLOCK)]), NtStatus::SUCCESS);
    assert_finished(&mut scene, &interim, NtStatus::SUCCESS);
    let again = lock_in_sequence(&mut scene, waiter, number, &[(0, 1, EXCLUSIVE | AT_ONCE)]);
    assert_eq!(again.outcome(), NtStatus::SUCCESS);
}

#[test]
fn locks_are_counted_among_the_memory_of_their_client() {
    let (mut scene, one, other) = two_opens();
    let memory = scene.server.inspect().globals.memory.clone();
    let before = memory.taken();
    memory.set_limit(2 * (before + 100 * LOCK_BYTES));
    let ranges = |from: u64, count: u64, flags: LockFlags| -> Vec<Element> {
        (from..from + count).map(|at| (at, 1, flags)).collect()
    };
    let locked = ranges(0, 60, EXCLUSIVE | AT_ONCE);
    assert_eq!(lock(&mut scene, one, &locked), NtStatus::SUCCESS);
    assert_eq!(memory.taken() - before, 60 * LOCK_BYTES);
    let more = ranges(100, 41, EXCLUSIVE | AT_ONCE);
    assert_eq!(lock(&mut scene, other, &more), Reason::TooMuchMemory);
    // A lock refused for another reason takes no memory either.
    assert_eq!(lock(&mut scene, other, &locked[..10]), Reason::LockNotGranted);
    assert_eq!(memory.taken() - before, 60 * LOCK_BYTES);
    // Elements before the failing one are unlocked.
    let unlocked = [ranges(0, 2, UNLOCK), ranges(500, 1, UNLOCK)].concat();
    assert_eq!(lock(&mut scene, one, &unlocked), Reason::RangeNotLocked);
    assert_eq!(memory.taken() - before, 58 * LOCK_BYTES);
    assert_eq!(lock(&mut scene, other, &more), NtStatus::SUCCESS);
    scene.close(one);
    scene.close(other);
    assert!(memory.taken() < before, "{} bytes", memory.taken());
}
