//! Finding the cheaper path by trying both on the clients' own reads or writes. The text is about
//! READs; WRITEs have a probe of their own that works alike.
//!
//! The cheaper one depends on the other end of the socket (over loopback the receiver copies the
//! bytes, as a network card would fetch them), on the file system and on the kernel, so it is
//! measured for each socket and share, and again after a while: the CPU time of the whole process
//! for a fixed number of bytes one path, then the other, in turns. Other work of the process only
//! adds to it, so the cheapest window of each path counts.

use std::time::Duration;

/// Bytes that are read one path before the time is looked at.
const WINDOW_BYTES: usize = 16 << 20;

/// Windows of each path before one is chosen.
const ROUNDS: u32 = 3;

/// Lifetime of a choice, in time and in bytes: measuring must cost little beside the gain.
const HOLDS_FOR: Duration = Duration::from_secs(30);
const HOLDS_BYTES_MIN: u64 = 4 << 30;

/// Successive READs that did not take the chosen path, after which they are copied for a while:
/// they are too long for a pipe, or not in the page cache.
const FAILURES_MAX: u32 = 16;

/// Path of data from a file to a socket, or back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum DataPath {
    /// Through memory of the process.
    Copied,
    /// The pages that they are in, through a pipe.
    Piped,
}

/// Measurements of one socket and one share.
#[derive(Debug)]
pub(super) struct Probe {
    state: State,
}

#[derive(Debug)]
enum State {
    Trying(Trial),
    Settled { path: DataPath, until: Duration, bytes: u64 },
}

/// The two paths, one window after the other.
#[derive(Debug)]
struct Trial {
    path: DataPath,
    window: Window,
    /// Windows that are over, of both paths.
    windows: u32,
    /// READs since the last window that did not go as chosen.
    failures: u32,
    /// The least processor time that a window of each path took.
    copied: Duration,
    piped: Duration,
}

#[derive(Debug)]
enum Window {
    /// Waits until answers that went the other path have left, or until WRITEs that were under way
    /// at the change have arrived: their CPU time does not belong to this window. At its end there
    /// will be as many of its own.
    Before {
        bytes: usize,
    },
    Within {
        bytes: usize,
        since: Duration,
    },
}

impl Default for Probe {
    fn default() -> Self {
        Self { state: State::Trying(Trial::new()) }
    }
}

impl Probe {
    /// Returns the path of a READ of `length` bytes. `waiting` is the number of unsent bytes of
    /// answers, or of WRITEs that may be under way; `spent` reads the CPU time of the process, at
    /// the ends of windows only.
    pub(super) fn next(
        &mut self,
        now: Duration,
        length: usize,
        waiting: usize,
        spent: impl FnOnce() -> Duration,
    ) -> DataPath {
        match &mut self.state {
            State::Settled { path, until, bytes } => {
                let path = *path;
                *bytes += u64::try_from(length).expect("64 bits are enough");
                if *until <= now && *bytes >= HOLDS_BYTES_MIN {
                    self.state = State::Trying(Trial::new());
                }
                path
            }
            State::Trying(trial) => {
                trial.count(length, waiting, spent);
                let path = trial.path;
                if trial.windows == 2 * ROUNDS {
                    let path = trial.cheaper();
                    self.state = State::Settled { path, until: now + HOLDS_FOR, bytes: 0 };
                    return path;
                }
                path
            }
        }
    }

    /// The path that was chosen last.
    pub(super) fn path(&self) -> DataPath {
        match &self.state {
            State::Settled { path, .. } => *path,
            State::Trying(trial) => trial.path,
        }
    }

    /// A READ did not go as chosen: what was read since the window began is not to be compared.
    pub(super) fn begin_window_again(&mut self, now: Duration) {
        let State::Trying(trial) = &mut self.state else { return };
        trial.window = Window::Before { bytes: 0 };
        trial.failures += 1;
        if trial.failures == FAILURES_MAX {
            let (path, until, bytes) = (DataPath::Copied, now + HOLDS_FOR, HOLDS_BYTES_MIN);
            self.state = State::Settled { path, until, bytes };
        }
    }
}

impl Trial {
    fn new() -> Self {
        Self {
            path: DataPath::Piped,
            window: Window::Before { bytes: 0 },
            windows: 0,
            failures: 0,
            copied: Duration::MAX,
            piped: Duration::MAX,
        }
    }

    fn count(&mut self, length: usize, waiting: usize, spent: impl FnOnce() -> Duration) {
        match &mut self.window {
            Window::Before { bytes } if *bytes < waiting => *bytes += length,
            Window::Before { .. } => {
                self.window = Window::Within { bytes: length, since: spent() };
            }
            Window::Within { bytes, .. } if *bytes < WINDOW_BYTES => *bytes += length,
            Window::Within { bytes, since } => {
                let time = per_window(spent().saturating_sub(*since), *bytes);
                let (least, other) = match self.path {
                    DataPath::Copied => (&mut self.copied, DataPath::Piped),
                    DataPath::Piped => (&mut self.piped, DataPath::Copied),
                };
                *least = time.min(*least);
                self.windows += 1;
                self.failures = 0;
                self.path = other;
                // This READ is the first that goes the other path.
                self.window = Window::Before { bytes: length };
            }
        }
    }

    fn cheaper(&self) -> DataPath {
        if self.piped <= self.copied { DataPath::Piped } else { DataPath::Copied }
    }
}

/// The time of `bytes`, for as many as a window has.
fn per_window(time: Duration, bytes: usize) -> Duration {
    let count = |bytes: usize| u32::try_from(bytes).expect("a window and a READ are small");
    time * count(WINDOW_BYTES) / count(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: usize = 1 << 20;

    /// A server with a read time for each path.
    struct Machine {
        probe: Probe,
        now: Duration,
        spent: Duration,
        copied: Duration,
        piped: Duration,
    }

    impl Machine {
        fn new(copied: u64, piped: u64) -> Self {
            let (now, spent) = (Duration::ZERO, Duration::ZERO);
            let (copied, piped) = (Duration::from_micros(copied), Duration::from_micros(piped));
            Self { probe: Probe::default(), now, spent, copied, piped }
        }

        fn read(&mut self) -> DataPath {
            let spent = self.spent;
            let path = self.probe.next(self.now, READ, 0, || spent);
            let time = match path {
                DataPath::Copied => self.copied,
                DataPath::Piped => self.piped,
            };
            self.spent += time;
            self.now += time;
            path
        }

        fn read_many(&mut self, reads: usize) -> Vec<DataPath> {
            (0..reads).map(|_| self.read()).collect()
        }

        fn is_settled(&self) -> bool {
            matches!(self.probe.state, State::Settled { .. })
        }

        fn settle(&mut self) -> DataPath {
            (0..1_000).find(|_| {
                self.read();
                self.is_settled()
            });
            assert!(self.is_settled(), "it would try for ever");
            self.read()
        }
    }

    #[test]
    fn the_cheaper_way_is_kept() {
        assert_eq!(Machine::new(300, 100).settle(), DataPath::Piped);
        assert_eq!(Machine::new(100, 300).settle(), DataPath::Copied);
    }

    #[test]
    fn both_ways_are_tried_in_turns_and_little_is_tried() {
        let mut machine = Machine::new(200, 100);
        let mut tried = Vec::new();
        while !machine.is_settled() {
            tried.push(machine.read());
        }
        let turns = tried.chunk_by(|one, other| one == other).count();
        assert!(turns >= usize::try_from(2 * ROUNDS).unwrap(), "{tried:?}");
        let bytes = u64::try_from(tried.len() * READ).unwrap();
        assert!(bytes * 20 <= HOLDS_BYTES_MIN, "{bytes}");
    }

    #[test]
    fn it_is_tried_again_after_time_and_bytes_and_not_before_both() {
        let mut machine = Machine::new(100, 300);
        machine.settle();
        let enough = usize::try_from(HOLDS_BYTES_MIN).unwrap() / READ;
        assert!(machine.read_many(2 * enough).iter().all(|path| *path == DataPath::Copied));
        assert!(machine.is_settled(), "it is too soon");
        machine.now += HOLDS_FOR;
        (machine.copied, machine.piped) = (machine.piped, machine.copied);
        machine.read();
        assert!(!machine.is_settled());
        assert_eq!(machine.settle(), DataPath::Piped, "the network is another now");
        machine.now += HOLDS_FOR;
        machine.read_many(enough / 2);
        assert!(machine.is_settled(), "it is not worth while yet");
    }

    #[test]
    fn other_work_that_comes_between_changes_nothing() {
        let mut machine = Machine::new(200, 100);
        machine.read_many(WINDOW_BYTES / READ / 2);
        machine.spent += Duration::from_secs(1);
        assert_eq!(machine.settle(), DataPath::Piped);
    }

    #[test]
    fn answers_of_the_other_way_that_wait_are_not_counted() {
        let mut machine = Machine::new(100, 200);
        while machine.read() == DataPath::Piped {}
        // Half of what is piped is only paid for when it is sent, after the path has changed.
        let spent = machine.spent;
        for _ in 0..7 {
            assert_eq!(machine.probe.next(machine.now, READ, 8 * READ, || spent), DataPath::Copied);
        }
        let State::Trying(trial) = &machine.probe.state else { panic!("it has just begun") };
        assert!(matches!(trial.window, Window::Before { .. }), "{trial:?}");
    }

    #[test]
    fn requests_in_flight_at_a_change_of_the_path_are_not_counted() {
        let settled = |waiting: usize| {
            let mut machine = Machine::new(100, 150);
            let (mut before, mut since_change) = (DataPath::Piped, 0);
            while !machine.is_settled() {
                let spent = machine.spent;
                let path = machine.probe.next(machine.now, READ, waiting, || spent);
                since_change = if path == before { since_change + READ } else { 0 };
                before = path;
                // WRITEs that were sent before the change cost more to copy.
                let is_late = path == DataPath::Copied && since_change < 8 * READ;
                let micros =
                    if path == DataPath::Piped { 150 } else { 100 + 200 * u64::from(is_late) };
                machine.spent += Duration::from_micros(micros);
            }
            machine.probe.path()
        };
        assert_eq!(settled(0), DataPath::Piped);
        assert_eq!(settled(8 * READ), DataPath::Copied);
    }

    #[test]
    fn data_by_another_path_than_chosen_begin_the_window_again() {
        let mut machine = Machine::new(100, 200);
        machine.read_many(WINDOW_BYTES / READ - 1);
        machine.probe.begin_window_again(machine.now);
        assert!(machine.read_many(WINDOW_BYTES / READ).iter().all(|path| *path == DataPath::Piped));
        assert_eq!(machine.settle(), DataPath::Copied);
    }

    #[test]
    fn after_repeated_failures_data_are_copied_for_a_while() {
        let mut machine = Machine::new(200, 100);
        for _ in 0..FAILURES_MAX {
            assert_eq!(machine.read(), DataPath::Piped);
            machine.probe.begin_window_again(machine.now);
        }
        assert!(machine.read_many(100).iter().all(|path| *path == DataPath::Copied));
        machine.now += HOLDS_FOR;
        machine.read();
        assert_eq!(machine.settle(), DataPath::Piped, "by now it does");
    }
}
