//! Lanes: threads that move the bytes of a client with several channels.
//!
//! The engine and the store share one thread. Some long work needs neither of them: receiving and
//! decrypting a large WRITE, encrypting and sending a large answer. A lane does that for a client
//! that moves much over several channels, so that one client can use more than one processor. Data
//! that are neither signed nor encrypted are only copied, and stay with the engine: on two
//! processors a plain WRITE of 1 MiB had 0.66 of its rate over lanes. A lane is a small loop over a
//! [`Driver`] of its own: it never waits for a single channel, so a stuck channel does not delay
//! the others.
//!
//! A lane returns its jobs in order, for each channel. They are bounded by the queues of the
//! channels (`OUTGOING_BYTES_MAX`) and by the bytes of a receive: a long frame or
//! `LANE_RECEIVE_LEN`.

use std::cell::OnceCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::num::NonZero;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use bytes::BytesMut;
use object::Piped;
use process::Mailbox;
use proto::protection::{CheckedFrame, FrameKeys};
use proto::{ConnectionId, Protection};
use rustix::io::Errno;
use trace::{Spent, Watch};
use uring::{Backend, Completion, Driver, Limits, Op, SendBuffer, Token};

use super::framing::{FRAME_TIMEOUT, make_room, wanted_by_lane, whole_frames};
use super::passing::queue::CONNECTIONS_MAX;

/// Shortest frame, or sum of frames that leave together, that is worth the way to a lane, in bytes.
pub(super) const LANE_BYTES_MIN: usize = 64 * 1024;

/// Bytes that a lane protects before the first of them leave.
const BATCH_BYTES: usize = 1024 * 1024;

/// Operations of a lane in flight: one in each direction of each channel, and its own wake-up.
const OPERATIONS_MAX: usize = 2 * CONNECTIONS_MAX + 1;

/// A frame to send, with its protection.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) frame: BytesMut,
    /// The end of the frame. Lanes are given none.
    pub(super) piped: Option<Piped>,
    pub(super) protection: Option<Protection>,
}

impl Outgoing {
    /// Length of the frame in bytes.
    pub(super) fn length(&self) -> usize {
        self.frame.len() + self.piped.as_ref().map_or(0, Piped::length)
    }

    /// Takes piped data into memory, and gives back the pipe.
    ///
    /// # Errors
    /// It cannot be had: the frame cannot be sent whole.
    pub(super) fn read_into_memory(&mut self) -> Result<Option<Piped>, Errno> {
        let Some(mut piped) = self.piped.take() else { return Ok(None) };
        store::piped::read(&mut piped, &mut self.frame)?;
        Ok(Some(piped))
    }

    /// Signs or encrypts the frame, here and now.
    pub(super) fn protect(&mut self) {
        if let Some(protection) = self.protection.take() {
            protection.apply(&mut self.frame);
        }
    }
}

/// A job for a lane.
#[derive(Debug)]
pub(super) enum Job {
    /// Receive until there are whole frames, and open those.
    Receive {
        /// Socket to receive from, open until the job ends.
        socket: RawFd,
        /// Received bytes of the first frame, from the transport's length on.
        buffer: BytesMut,
        /// Longest frame that is received, in bytes.
        length_max: usize,
        /// Decrypts the frames, or verifies their signatures.
        frame_keys: FrameKeys,
    },
    /// Send frames, after those of earlier jobs.
    Send {
        /// Socket to send to, open until the job ends.
        socket: RawFd,
        /// Frames, in the order of sending.
        frames: VecDeque<Outgoing>,
    },
}

/// The result of a job.
#[derive(Debug)]
pub(super) enum Done {
    /// Nothing more is received: frames are there, or what is none, or the connection has ended.
    Received {
        buffer: BytesMut,
        /// Result of the check of each whole frame.
        checked: VecDeque<LaneFrame>,
        /// Result of the last receive.
        result: io::Result<usize>,
    },
    /// The frame that is received has had its time and is not whole.
    Overdue,
    /// These frames have left, or never will.
    Sent {
        buffers: Vec<SendBuffer>,
        /// Time to sign or encrypt each of them, if needed; `None` for frames that were not
        /// reached.
        protected: Vec<Option<Spent>>,
        result: io::Result<usize>,
    },
}

/// A received frame, decrypted or verified by a lane.
#[derive(Debug, Default)]
pub(super) struct LaneFrame {
    /// `None` if the frame is plain.
    pub(super) checked: Option<CheckedFrame>,
    /// Time that the check took.
    pub(super) spent: Spent,
}

/// The lanes of a worker; none until it has a client for them.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    /// As many as processors, which are counted at the first need: that reads files.
    lanes_max: OnceCell<usize>,
    next: usize,
    watch: Watch,
    done: Arc<Mailbox<(ConnectionId, Done)>>,
}

#[derive(Debug)]
struct Lane {
    jobs: Arc<Mailbox<Order>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Order {
    Do(ConnectionId, Job),
    Stop,
}

/// Index of a lane, for a channel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct LaneId(usize);

impl Lanes {
    /// Returns as many lanes as there are processors; threads start when they are needed. `watch`
    /// measures their time.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub(super) fn new(watch: Watch) -> io::Result<Self> {
        let done = Arc::new(Mailbox::new()?);
        Ok(Self { lanes: Vec::new(), lanes_max: OnceCell::new(), next: 0, watch, done })
    }

    /// True if no lane was needed so far.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Readable when something is done.
    pub(super) fn wake_source(&self) -> BorrowedFd<'_> {
        self.done.wake_source()
    }

    /// Returns a lane for a channel, one of `channels`; `None` if lanes do not pay. A thread
    /// inherits the rights of the thread that starts it: `revert_to_server` gives up those of the
    /// last user.
    pub(super) fn choose(
        &mut self,
        channels: usize,
        revert_to_server: impl FnOnce(),
    ) -> Option<LaneId> {
        if self.lanes.len() < (*self.lanes_max.get_or_init(lanes_max)).min(channels) {
            revert_to_server();
            match Lane::start(&self.done, self.watch) {
                Ok(lane) => self.lanes.push(lane),
                Err(error) => {
                    tracing::warn!("cannot start a thread for a channel: {error}");
                    self.lanes_max = self.lanes.len().into();
                }
            }
        }
        let chosen = self.next.checked_rem(self.lanes.len()).map(LaneId);
        self.next += 1;
        chosen
    }

    /// Gives a lane something to do. All jobs of a channel go to the same one.
    pub(super) fn submit(&self, lane: LaneId, id: ConnectionId, job: Job) {
        self.lanes[lane.0].jobs.put(Order::Do(id, job));
    }

    /// Returns the results since the last call.
    pub(super) fn take_done(&self) -> VecDeque<(ConnectionId, Done)> {
        self.done.take()
    }
}

impl Drop for Lanes {
    /// Waits until the lanes have let go of the sockets.
    fn drop(&mut self) {
        self.lanes.iter().for_each(|lane| lane.jobs.put(Order::Stop));
        for thread in self.lanes.iter_mut().filter_map(|lane| lane.thread.take()) {
            // One that panicked has said so already.
            let _ = thread.join();
        }
    }
}

impl Lane {
    fn start(done: &Arc<Mailbox<(ConnectionId, Done)>>, watch: Watch) -> io::Result<Self> {
        let jobs = Arc::new(Mailbox::new()?);
        let (ours, done) = (Arc::clone(&jobs), Arc::clone(done));
        let (sender, receiver) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("lane".to_owned()).spawn(move || {
            // A driver belongs to its thread.
            let (mut lane, outcome) = match LaneLoop::new(&done, watch) {
                Ok(lane) => (Some(lane), Ok(())),
                Err(error) => (None, Err(error)),
            };
            sender.send(outcome).expect("it is waited for below");
            if let Some(Err(error)) = lane.as_mut().map(|lane| lane.run(&ours)) {
                // Its jobs are lost, and with them the connections: a new process is better.
                panic!("a lane cannot go on: {error}");
            }
        })?;
        receiver.recv().expect("the thread sends it before anything else")?;
        Ok(Self { jobs, thread: Some(thread) })
    }
}

/// Returns the number of lanes that pay on this machine: none on one processor.
fn lanes_max() -> usize {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    if processors > 1 { processors } else { 0 }
}

/// Kinds of tokens of a lane's driver: the upper half is the kind, the lower half the channel.
const WAKE: u64 = 1 << 32;
const RECEIVE: u64 = 2 << 32;
const SEND: u64 = 3 << 32;

/// State of a lane's thread.
struct LaneLoop<'a> {
    driver: Driver,
    watch: Watch,
    done: &'a Mailbox<(ConnectionId, Done)>,
    receiving: HashMap<ConnectionId, Receiving>,
    sending: HashMap<ConnectionId, Sending>,
}

/// Frames of a channel that are being sent.
#[derive(Default)]
struct Sending {
    /// Time to sign or encrypt each frame under way, if needed.
    protected: Vec<Option<Spent>>,
    /// Frames that wait for those.
    waiting: VecDeque<Outgoing>,
}

/// Frames that are coming in.
struct Receiving {
    length_max: usize,
    frame_keys: FrameKeys,
    /// Since when a frame is here in part that had not begun when the lane was asked to receive.
    since: Option<Instant>,
}

impl<'a> LaneLoop<'a> {
    fn new(done: &'a Mailbox<(ConnectionId, Done)>, watch: Watch) -> io::Result<Self> {
        let operations_in_flight_max = u32::try_from(OPERATIONS_MAX).expect("a few hundred");
        let limits = Limits { operations_in_flight_max, threads_max: 1 };
        let driver = Driver::new(Backend::Auto, limits)?;
        Ok(Self { driver, watch, done, receiving: HashMap::new(), sending: HashMap::new() })
    }

    fn run(&mut self, jobs: &Mailbox<Order>) -> io::Result<()> {
        let mut completions = Vec::new();
        let fd = jobs.wake_source().as_raw_fd();
        self.submit(Token(WAKE), Op::PollReadable { fd });
        loop {
            let due = self.next_deadline().map(|at| at.saturating_duration_since(Instant::now()));
            self.driver.wait(due, &mut completions)?;
            for Completion { token: Token(token), op, result } in completions.drain(..) {
                let id = ConnectionId(u32::try_from(token & u64::from(u32::MAX)).expect("masked"));
                match (token & !u64::from(u32::MAX), op) {
                    (RECEIVE, Op::Receive { socket, buffer, .. }) => {
                        self.received(id, socket, buffer, result);
                    }
                    (SEND, Op::Send { socket, buffers }) => self.sent(id, socket, buffers, result),
                    _ => {
                        for order in jobs.take() {
                            match order {
                                Order::Do(id, job) => self.begin(id, job),
                                Order::Stop => return Ok(()),
                            }
                        }
                        self.submit(Token(WAKE), Op::PollReadable { fd });
                    }
                }
            }
            if due.is_some() {
                self.report_overdue(Instant::now());
            }
        }
    }

    /// Returns the earliest deadline of partly received frames.
    fn next_deadline(&self) -> Option<Instant> {
        let since = self.receiving.values().filter_map(|it| it.since);
        since.min().map(|since| since + FRAME_TIMEOUT)
    }

    /// Tells, once, of frames that have had their time.
    fn report_overdue(&mut self, now: Instant) {
        for (id, receiving) in &mut self.receiving {
            if receiving.since.take_if(|since| *since + FRAME_TIMEOUT <= now).is_some() {
                self.done.put((*id, Done::Overdue));
            }
        }
    }

    fn submit(&mut self, token: Token, op: Op) {
        self.driver.submit(token, op).expect("a lane has room for all of its channels");
    }

    fn begin(&mut self, id: ConnectionId, job: Job) {
        match job {
            Job::Receive { socket, buffer, length_max, frame_keys } => {
                let wanted = wanted_by_lane(&buffer, length_max);
                self.receiving.insert(id, Receiving { length_max, frame_keys, since: None });
                match wanted {
                    Some(wanted) => self.receive(id, socket, buffer, wanted),
                    None => {
                        let there = buffer.len();
                        self.give_back(id, buffer, Ok(there));
                    }
                }
            }
            Job::Send { socket, mut frames } => match self.sending.get_mut(&id) {
                Some(sending) => sending.waiting.append(&mut frames),
                None => self.send(id, socket, frames),
            },
        }
    }

    fn receive(&mut self, id: ConnectionId, socket: RawFd, mut buffer: BytesMut, limit: usize) {
        // The rest of a frame is under way: it is probably there.
        let poll_first = buffer.is_empty();
        make_room(&mut buffer, limit);
        let op = Op::Receive { socket, buffer, limit, poll_first, whole: false };
        self.submit(Token(RECEIVE | u64::from(id.0)), op);
    }

    fn received(
        &mut self,
        id: ConnectionId,
        socket: RawFd,
        buffer: BytesMut,
        result: io::Result<usize>,
    ) {
        let receiving = self.receiving.get_mut(&id).expect("it is receiving");
        let has_more = result.as_ref().is_ok_and(|count| *count > 0);
        match wanted_by_lane(&buffer, receiving.length_max).filter(|_| has_more) {
            Some(wanted) => {
                receiving.since.get_or_insert_with(Instant::now);
                self.receive(id, socket, buffer, wanted);
            }
            None => self.give_back(id, buffer, result),
        }
    }

    /// Decrypts or verifies the whole frames, and gives back the buffer.
    fn give_back(&mut self, id: ConnectionId, mut buffer: BytesMut, result: io::Result<usize>) {
        let Receiving { length_max, frame_keys, .. } =
            self.receiving.remove(&id).expect("it is receiving");
        let frames: Vec<_> = whole_frames(&buffer, length_max).collect();
        let mut check_frame = |at| {
            let frame: &mut [u8] = &mut buffer[at];
            let Some(check) = frame_keys.check_of(frame) else { return LaneFrame::default() };
            let (checked, spent) = self.watch.time(|| check.run(frame));
            LaneFrame { checked: Some(checked), spent }
        };
        let checked = frames.into_iter().map(&mut check_frame).collect();
        self.done.put((id, Done::Received { buffer, checked, result }));
    }

    fn send(&mut self, id: ConnectionId, socket: RawFd, mut waiting: VecDeque<Outgoing>) {
        let (mut bytes, mut buffers, mut protected) = (0, Vec::new(), Vec::new());
        while let Some(mut outgoing) = waiting.pop_front() {
            let is_due = outgoing.protection.is_some();
            protected.push(is_due.then(|| self.watch.time(|| outgoing.protect()).1));
            bytes += outgoing.frame.len();
            buffers.push(outgoing.frame.freeze().into());
            if bytes >= BATCH_BYTES {
                break;
            }
        }
        self.sending.insert(id, Sending { protected, waiting });
        self.submit(Token(SEND | u64::from(id.0)), Op::Send { socket, buffers });
    }

    fn sent(
        &mut self,
        id: ConnectionId,
        socket: RawFd,
        mut buffers: Vec<SendBuffer>,
        result: io::Result<usize>,
    ) {
        let Sending { protected, mut waiting } = self.sending.remove(&id).expect("it is sending");
        if result.is_err() {
            // After a failure nothing leaves any more.
            buffers.extend(waiting.drain(..).map(|outgoing| outgoing.frame.freeze().into()));
        }
        self.done.put((id, Done::Sent { buffers, protected, result }));
        if !waiting.is_empty() {
            self.send(id, socket, waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_frame_that_does_not_end_is_told_of_once_after_a_minute() {
        let done = Mailbox::new().expect("there are descriptors");
        let mut lane = LaneLoop::new(&done, Watch::default()).expect("there are descriptors");
        let (ours, mut client) = UnixStream::pair().expect("there are descriptors");
        let (id, socket) = (ConnectionId(7), ours.as_raw_fd());
        let (buffer, frame_keys) = (BytesMut::new(), FrameKeys::default());
        lane.begin(id, Job::Receive { socket, buffer, length_max: 1 << 20, frame_keys });
        assert_eq!(lane.next_deadline(), None);
        client.write_all(&[0, 1, 0, 0, 7]).expect("it has room");
        let mut completions = Vec::new();
        while completions.is_empty() {
            lane.driver.wait(None, &mut completions).expect("it waits");
        }
        let Completion { op: Op::Receive { socket, buffer, .. }, result, .. } =
            completions.remove(0)
        else {
            panic!("nothing else was begun")
        };
        lane.received(id, socket, buffer, result);
        let deadline = lane.next_deadline().expect("it has begun");
        lane.report_overdue(deadline - Duration::from_millis(1));
        assert!(done.take().is_empty());
        for expected in [1, 0] {
            lane.report_overdue(deadline);
            let reported = done.take();
            assert_eq!(reported.len(), expected);
            assert!(reported.iter().all(|it| matches!(it, (ConnectionId(7), Done::Overdue))));
        }
    }

    fn lanes(lanes_max: usize) -> Lanes {
        let mut lanes = Lanes::new(Default::default()).expect("there are descriptors");
        lanes.lanes_max = lanes_max.into();
        lanes
    }

    #[test]
    fn channels_are_spread_over_the_lanes_as_those_come_into_being() {
        let mut lanes = lanes(3);
        let chosen: Vec<_> = [2, 2, 3, 4].map(|channels| lanes.choose(channels, || ())).into();
        assert_eq!(chosen, [0, 1, 2, 0].map(|number| Some(LaneId(number))));
    }

    #[test]
    fn without_permitted_lanes_none_is_chosen() {
        assert_eq!(lanes(0).choose(2, || ()), None);
    }
}
