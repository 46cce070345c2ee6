//! Pages of workers, read by others.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use trace::{Clock, PageError, Phase, Reader, Tracer};

const CLOCK: Clock = Clock::of_kernel();

fn lock_dir() -> tempfile::TempDir {
    let lock_dir = tempfile::tempdir().expect("there is space");
    trace::prepare(lock_dir.path()).expect("it is new");
    lock_dir
}

#[test]
fn a_reader_sees_the_counts_of_the_worker() {
    let lock_dir = lock_dir();
    let tracer = Tracer::create(lock_dir.path(), 7, 8, CLOCK).expect("there is space");
    let reader = Reader::open(lock_dir.path(), 7, 8).expect("it is ours");
    let before = reader.read();
    tracer.message_sent(3, 100);
    tracer.message_sent(3, 50);
    let since = reader.read().since(&before);
    assert_eq!((since.events.message_sent[0].count, since.events.message_sent[0].total), (2, 150));
    assert!(!reader.has_ended());
}

#[test]
fn the_time_of_a_phase_that_is_not_over_is_seen() {
    let lock_dir = lock_dir();
    let tracer = Tracer::create(lock_dir.path(), 7, 8, CLOCK).expect("there is space");
    tracer.enter(Phase::Waiting);
    let reader = Reader::open(lock_dir.path(), 7, 8).expect("it is ours");
    let first = reader.read();
    let mut second = reader.read();
    while second.ns == first.ns {
        second = reader.read();
    }
    assert!(second.phase_ns(Phase::Waiting) > first.phase_ns(Phase::Waiting));
    assert!(second.phases_sum_ns().abs_diff(second.ns) < 32, "ticks are cut to nanoseconds");
}

#[test]
fn phases_fill_the_time_for_a_reader_while_the_worker_goes_from_one_to_the_next() {
    phases_fill_the_time_by(Clock::of_kernel());
    phases_fill_the_time_by(Clock::measure());
}

#[track_caller]
fn phases_fill_the_time_by(clock: Clock) {
    let lock_dir = lock_dir();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (begun, begins) = mpsc::channel();
        let (lock_dir, is_over) = (lock_dir.path(), &is_over);
        scope.spawn(move || {
            let tracer = Tracer::create(lock_dir, 7, 8, clock).expect("there is space");
            begun.send(()).expect("it is awaited");
            let phases = [Phase::Waiting, Phase::Receiving, Phase::Parsing, Phase::Other];
            while !is_over.load(Ordering::Relaxed) {
                for phase in phases {
                    tracer.enter(phase);
                    (0..1_000).for_each(|_| std::hint::spin_loop());
                }
            }
        });
        begins.recv().expect("it begins");
        let reader = Reader::open(lock_dir, 7, 8).expect("it is ours");
        let has_gap = |figures: trace::Figures| figures.phases_sum_ns().abs_diff(figures.ns) >= 32;
        let gaps = (0..10_000).filter(|_| has_gap(reader.read())).count();
        is_over.store(true, Ordering::Relaxed);
        // A read may be given up while the writer has lost its processor for long.
        assert!(gaps < 200, "{gaps} gaps");
    });
}

#[test]
fn the_page_of_a_worker_that_ended_can_still_be_read() {
    let lock_dir = lock_dir();
    let tracer = Tracer::create(lock_dir.path(), 7, 8, CLOCK).expect("there is space");
    let reader = Reader::open(lock_dir.path(), 7, 8).expect("it is ours");
    tracer.message_received(1, 1);
    trace::remove(lock_dir.path(), 7, 8).expect("it is ours");
    trace::remove(lock_dir.path(), 7, 8).expect("once is enough");
    assert!(reader.has_ended());
    assert_eq!(reader.read().events.message_received[0].count, 1);
    let error = Reader::open(lock_dir.path(), 7, 8).expect_err("it is gone");
    assert!(matches!(error, PageError::Gone), "{error}");
}

#[test]
fn a_worker_that_has_not_written_the_head_of_its_page_is_not_there_yet() {
    let lock_dir = lock_dir();
    let page = fs::File::create(trace::path(lock_dir.path(), 7, 8)).expect("there is space");
    for bytes in [0, 1 << 20] {
        page.set_len(bytes).expect("it is sparse");
        let error = Reader::open(lock_dir.path(), 7, 8).expect_err("it has no head");
        assert!(matches!(error, PageError::Gone), "{error}");
    }
}

#[test]
fn workers_are_found_by_their_pages_and_nothing_else_is() {
    let lock_dir = lock_dir();
    let _one = Tracer::create(lock_dir.path(), 12, 0xab, CLOCK).expect("there is space");
    let _two = Tracer::create(lock_dir.path(), 3, 0xcd, CLOCK).expect("there is space");
    fs::write(lock_dir.path().join("trace/notes"), "mine").expect("there is space");
    assert_eq!(trace::workers(lock_dir.path()).expect("it is ours"), [(3, 0xcd), (12, 0xab)]);
    trace::prepare(lock_dir.path()).expect("it is ours");
    assert_eq!(trace::workers(lock_dir.path()).expect("it is ours"), []);
}

#[test]
fn a_page_of_another_version_is_refused_in_words() {
    let lock_dir = lock_dir();
    Tracer::create(lock_dir.path(), 7, 8, CLOCK).expect("there is space");
    let path = trace::path(lock_dir.path(), 7, 8);
    let change = |offset: u64, word: u64| {
        let file = fs::OpenOptions::new().write(true).open(&path).expect("it is ours");
        file.write_all_at(&word.to_ne_bytes(), offset).expect("it is ours");
    };
    for offset in [8, 16, 24] {
        change(offset, 0);
        let error = Reader::open(lock_dir.path(), 7, 8).expect_err("an older one");
        assert!(matches!(error, PageError::OtherVersion), "{error}");
        assert!(error.to_string().contains("of another version of Choro"));
    }
    change(0, 1);
    let error = Reader::open(lock_dir.path(), 7, 8).expect_err("somebody else's");
    assert!(matches!(error, PageError::Foreign(_)), "{error}");
    fs::write(&path, "short").expect("it is ours");
    let error = Reader::open(lock_dir.path(), 7, 8).expect_err("too short");
    assert!(matches!(error, PageError::Foreign(_)), "{error}");
}

#[test]
fn its_group_may_read_a_page_and_others_may_not() {
    let lock_dir = lock_dir();
    Tracer::create(lock_dir.path(), 7, 8, CLOCK).expect("there is space");
    let mode = |path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(trace::path(lock_dir.path(), 7, 8)), 0o640);
    assert_eq!(mode(lock_dir.path().join(trace::DIRECTORY)), 0o750);
}

#[test]
fn a_page_that_is_there_already_is_not_taken_over() {
    let lock_dir = lock_dir();
    let _first = Tracer::create(lock_dir.path(), 7, 8, CLOCK).expect("there is space");
    Tracer::create(lock_dir.path(), 7, 8, CLOCK).expect_err("it is somebody's");
}
