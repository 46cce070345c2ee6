use std::time::Instant;

use dtyp::ServerId;

use super::{Fragment, Outcome, PARTIAL_BYTES_MAX, PARTIAL_TIMEOUT, PARTIALS_MAX, Reassembly};
use crate::transport::FRAME_BYTES_MAX;
use crate::transport::packet::Entry;

const SENDER: ServerId = ServerId { pid: 1, unique_id: 1 };

const FRAGMENT_BYTES_MAX: usize = 32 * 1024;

/// A fragment of message `message_id`, which has `total` bytes.
fn header(sender: ServerId, message_id: u64, total: usize, offset: usize) -> (ServerId, Entry) {
    let total = u32::try_from(total).expect("small");
    let offset = u32::try_from(offset).expect("small");
    (sender, Entry { total, offset, message_id, sent_at: 0 })
}

struct Bench {
    reassembly: Reassembly,
    incomplete: u64,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self { reassembly: Reassembly::default(), incomplete: 0, now: Instant::now() }
    }

    fn add(&mut self, header: (ServerId, Entry), fragment: &[u8]) -> Outcome {
        let Self { reassembly, incomplete, now } = self;
        let (sender, entry) = header;
        let descriptors = Vec::new();
        let fragment = Fragment { sender, entry, bytes: fragment.into(), descriptors };
        reassembly.add(*now, fragment, incomplete)
    }

    #[track_caller]
    fn check_whole(&mut self, header: (ServerId, Entry), fragment: &[u8], want: &[u8]) {
        match self.add(header, fragment) {
            Outcome::Whole(frame) => assert_eq!((frame.sender, &*frame.bytes), (SENDER, want)),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn check_more(&mut self, header: (ServerId, Entry), fragment: &[u8]) {
        let outcome = self.add(header, fragment);
        assert!(matches!(outcome, Outcome::More), "{outcome:?}");
    }

    #[track_caller]
    fn check_refused(&mut self, header: (ServerId, Entry), fragment: &[u8]) {
        let outcome = self.add(header, fragment);
        assert!(matches!(outcome, Outcome::Refused), "{outcome:?}");
    }

    /// Asserts that no partial frame is kept.
    #[track_caller]
    fn check_empty(&self) {
        assert_eq!((self.reassembly.partials.len(), self.reassembly.bytes), (0, 0));
        assert_eq!(self.reassembly.next_timeout(), None);
    }
}

#[test]
fn fragments_in_order_make_a_frame() {
    let mut bench = Bench::new();
    bench.check_whole(header(SENDER, 1, 3, 0), b"one", b"one");
    bench.check_whole(header(SENDER, 2, 0, 0), b"", b"");
    bench.check_more(header(SENDER, 3, 5, 0), b"ab");
    bench.check_more(header(SENDER, 3, 5, 2), b"cd");
    bench.check_whole(header(SENDER, 3, 5, 4), b"e", b"abcde");
    assert_eq!(bench.incomplete, 0);
    bench.check_empty();
}

#[test]
fn senders_do_not_disturb_each_other() {
    let mut bench = Bench::new();
    let other = ServerId { pid: 1, unique_id: 99 };
    bench.check_more(header(SENDER, 1, 4, 0), b"ab");
    bench.check_more(header(other, 1, 4, 0), b"xy");
    bench.check_whole(header(SENDER, 1, 4, 2), b"cd", b"abcd");
    assert_eq!(bench.reassembly.partials.len(), 1);
}

#[test]
fn a_fragment_out_of_its_place_gives_the_frame_up() {
    for (message_id, total, offset) in [(1, 6, 4), (1, 6, 1), (1, 5, 2), (2, 6, 2)] {
        let mut bench = Bench::new();
        bench.check_more(header(SENDER, 1, 6, 0), b"ab");
        bench.check_refused(header(SENDER, message_id, total, offset), b"c");
        assert_eq!(bench.incomplete, 1);
        bench.check_empty();
    }
}

#[test]
fn a_new_frame_says_that_the_rest_of_the_old_never_comes() {
    let mut bench = Bench::new();
    bench.check_more(header(SENDER, 1, 6, 0), b"ab");
    bench.check_whole(header(SENDER, 2, 2, 0), b"xy", b"xy");
    bench.check_more(header(SENDER, 3, 6, 0), b"ab");
    bench.check_more(header(SENDER, 4, 4, 0), b"ab");
    bench.check_whole(header(SENDER, 4, 4, 2), b"cd", b"abcd");
    assert_eq!(bench.incomplete, 2);
    bench.check_empty();
}

#[test]
fn a_frame_is_given_up_when_nothing_comes_for_too_long() {
    let mut bench = Bench::new();
    let start = bench.now;
    bench.check_more(header(SENDER, 1, 6, 0), b"ab");
    bench.now = start + PARTIAL_TIMEOUT / 2;
    bench.check_more(header(SENDER, 1, 6, 2), b"cd");
    let deadline = bench.now + PARTIAL_TIMEOUT;
    assert_eq!(bench.reassembly.next_timeout(), Some(deadline));
    assert_eq!(bench.reassembly.expire(start + PARTIAL_TIMEOUT), 0);
    assert_eq!(bench.reassembly.expire(deadline), 1);
    bench.check_empty();
    bench.check_refused(header(SENDER, 1, 6, 4), b"ef");
}

#[test]
fn a_frame_larger_than_a_frame_may_be_is_refused_at_once() {
    let mut bench = Bench::new();
    bench.check_refused(header(SENDER, 1, FRAME_BYTES_MAX + 1, 0), b"ab");
    bench.check_more(header(SENDER, 1, FRAME_BYTES_MAX, 0), b"ab");
}

#[test]
fn senders_beyond_the_limit_are_refused_while_others_go_on() {
    let mut bench = Bench::new();
    let sender = |pid: usize| ServerId { pid: u32::try_from(pid).expect("small"), unique_id: 0 };
    for pid in 0..PARTIALS_MAX {
        bench.check_more(header(sender(pid), 1, 4, 0), b"ab");
    }
    bench.check_refused(header(sender(PARTIALS_MAX), 1, 4, 0), b"ab");
    assert_eq!(bench.incomplete, 1);
    // Whole frames need no room.
    bench.check_whole(header(SENDER, 2, 2, 0), b"ab", b"ab");
    // A completed frame makes room.
    let last = bench.add(header(sender(0), 1, 4, 2), b"cd");
    assert!(matches!(last, Outcome::Whole(_)), "{last:?}");
    bench.check_more(header(sender(PARTIALS_MAX), 2, 4, 0), b"ab");
}

#[test]
fn bytes_of_all_senders_are_bounded() {
    let mut bench = Bench::new();
    let fragment = vec![0; FRAGMENT_BYTES_MAX];
    let mut refused = 0;
    for pid in 0..8 {
        let sender = ServerId { pid, unique_id: 0 };
        // Each frame lacks its last part.
        for at in (0..FRAME_BYTES_MAX - 2 * FRAGMENT_BYTES_MAX).step_by(FRAGMENT_BYTES_MAX) {
            let outcome = bench.add(header(sender, 1, FRAME_BYTES_MAX, at), &fragment);
            refused += u32::from(matches!(outcome, Outcome::Refused));
            assert!(bench.reassembly.bytes <= PARTIAL_BYTES_MAX);
        }
    }
    assert!(refused > 0 && bench.incomplete > 0, "the limit was reached");
    let held: usize = bench.reassembly.partials.values().map(|partial| partial.bytes.len()).sum();
    assert_eq!(held, bench.reassembly.bytes);
}
