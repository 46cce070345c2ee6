//! The back end on io_uring.

mod message;
mod setup;

pub use setup::Unavailable;
pub(crate) use setup::is_forbidden;

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::time::{Duration, Instant};

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue, types};

use crate::driver::{Deadline, Limits};
use crate::in_flight::{InFlight, Key};
use crate::op::{Completion, Op, Token};
use crate::operation::{Call, Direction, Operation, Step, cancelled};
use message::Message;

/// A ring with its operations in flight.
///
/// Invariants: `in_kernel` counts the entries at [`Stage::InKernel`] or [`Stage::Polling`]. The
/// kernel may write to exactly those, and they stay in their slot until their completion was
/// reaped. An entry at [`Stage::Queued`] is in `queue` exactly once.
pub(crate) struct Ring {
    ring: IoUring,
    in_flight: InFlight<Entry>,
    in_kernel: usize,
    /// Operations in the kernel that end at submission.
    at_once: u32,
    queue: VecDeque<Work>,
    /// Completions without the kernel: of operations cancelled before their start.
    ready: Vec<Completion>,
    /// Message headers for reuse; at most the highest number of sends in flight so far.
    #[expect(clippy::vec_box, reason = "the header keeps its address when the box moves")]
    messages: Vec<Box<Message>>,
}

#[derive(Debug)]
struct Entry {
    operation: Operation,
    stage: Stage,
    message: Option<Box<Message>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    InKernel,
    /// A poll runs in place of the operation, whose descriptor is non-blocking and was not ready.
    Polling,
    Queued,
}

/// An entry for the submission queue.
#[derive(Clone, Copy, Debug)]
enum Work {
    Cancel(Key),
    Operate(Key),
    Poll(Key),
}

/// Marks completions of cancellations, which add nothing to the operation's own.
const CANCEL: u64 = 1 << 63;

/// IORING_RECVSEND_POLL_FIRST, which the bindings do not export.
const POLL_FIRST: u16 = 1;

/// Longest time that a dropped ring waits for the kernel to release the buffers.
///
/// Sockets and polls release them at once. A disk that does not respond can take any time; then the
/// buffers are leaked, which is safe, while freeing them would not be.
const DROP_WAIT_MAX: Duration = Duration::from_secs(5);

impl Ring {
    pub(crate) fn new(limits: Limits) -> io::Result<Self> {
        Ok(Self {
            ring: setup::open(limits)?,
            in_flight: InFlight::new(limits.operations_in_flight_max),
            in_kernel: 0,
            at_once: 0,
            queue: VecDeque::new(),
            ready: Vec::new(),
            messages: Vec::new(),
        })
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len() + self.ready.len()
    }

    pub(crate) fn submit(&mut self, token: Token, op: Op) -> Result<(), Op> {
        // A completion that was not collected yet counts as well.
        if self.in_flight() >= self.in_flight.values_max() {
            return Err(op);
        }
        let operation = Operation::new(token, op);
        let entry = Entry { operation, stage: Stage::Queued, message: None };
        let key = self.in_flight.insert(entry).map_err(|entry| entry.operation.into_op())?;
        self.queue.push_back(Work::Operate(key));
        Ok(())
    }

    pub(crate) fn cancel(&mut self, token: Token) {
        for key in self.in_flight.find(|entry| entry.operation.token == token) {
            self.cancel_key(key);
        }
    }

    fn cancel_key(&mut self, key: Key) {
        let Some(entry) = self.in_flight.get_mut(key) else { return };
        if entry.stage == Stage::Queued {
            // Its key in `queue` is stale now and skipped.
            let entry = self.in_flight.remove(key).expect("it was just there");
            self.ready.push(entry.operation.complete(Err(cancelled())));
        } else if !mem::replace(&mut entry.operation.cancelled, true) {
            // Once per operation: the completion queue has no room for more.
            self.queue.push_back(Work::Cancel(key));
        }
    }

    pub(crate) fn wait(
        &mut self,
        deadline: Deadline,
        completions: &mut Vec<Completion>,
    ) -> io::Result<()> {
        let before = completions.len();
        completions.append(&mut self.ready);
        loop {
            self.fill_submission_queue();
            // No wait with completions to report or entries left to submit.
            let wait = completions.len() == before && self.queue.is_empty();
            let entered = self.enter(wait, deadline);
            self.collect(completions);
            if completions.len() > before {
                return Ok(());
            }
            entered?;
            if deadline.has_passed() {
                return Ok(());
            }
        }
    }

    /// Moves queued work into the submission queue, as far as it has room.
    fn fill_submission_queue(&mut self) {
        let mut submission = self.ring.submission();
        while !submission.is_full() {
            let Some(work) = self.queue.pop_front() else { return };
            let line = match work {
                Work::Cancel(key) => {
                    opcode::AsyncCancel::new(key.to_bits()).build().user_data(CANCEL)
                }
                Work::Operate(key) | Work::Poll(key) => {
                    let Some(entry) = self.in_flight.get_mut(key) else { continue };
                    assert_eq!(entry.stage, Stage::Queued, "work is queued once");
                    self.in_kernel += 1;
                    self.at_once += u32::from(entry.operation.is_at_once());
                    let line = match work {
                        Work::Poll(_) => entry.poll(),
                        _ => entry.operate(&mut self.messages),
                    };
                    line.user_data(key.to_bits())
                }
            };
            // SAFETY: the pointers in `line` are into buffers that `in_flight` owns, and the
            // message that the entry owns. Both stay until the completion was reaped (invariant of
            // `Ring`), also when the ring is dropped.
            unsafe { submission.push(&line) }.expect("the submission queue is not full");
        }
    }

    /// Submits. With `wait`, waits for one completion besides those of operations that end at their
    /// submission; a return does not prove a completion.
    fn enter(&self, wait: bool, deadline: Deadline) -> io::Result<()> {
        let submitter = self.ring.submitter();
        let wanted = 1 + self.at_once as usize;
        let entered = match deadline.remaining() {
            _ if !wait => submitter.submit(),
            None => submitter.submit_and_wait(wanted),
            Some(remaining) => {
                let timespec = Timespec::from(remaining);
                submitter.submit_with_args(wanted, &SubmitArgs::new().timespec(&timespec))
            }
        };
        let Err(error) = entered else { return Ok(()) };
        match error.raw_os_error() {
            // The timeout passed. (If entries were submitted, their number is returned instead.)
            Some(libc::ETIME) => Ok(()),
            // A signal. The worker reads its signals from a signalfd; wait on.
            Some(libc::EINTR) => Ok(()),
            // The kernel has completions that found no room and accepts no submissions until they
            // are reaped, which the caller does next. The queue's size rules it out.
            Some(libc::EBUSY) => Ok(()),
            // EAGAIN, ENOMEM: no memory for requests. Unsubmitted entries stay in the queue. EBADR:
            // the kernel lost a completion for want of memory; its operation stays in flight.
            // EEXIST: called on another thread than the ring's own (a forked child, perhaps).
            _ => Err(error),
        }
    }

    /// Reaps all completions that are available.
    fn collect(&mut self, completions: &mut Vec<Completion>) {
        let mut reaped = self.ring.completion();
        for line in &mut reaped {
            if line.user_data() & CANCEL != 0 {
                continue;
            }
            let key = Key::from_bits(line.user_data());
            let Some(entry) = self.in_flight.get_mut(key) else { continue };
            assert_ne!(entry.stage, Stage::Queued, "only what is in the kernel completes");
            self.in_kernel -= 1;
            self.at_once -= u32::from(entry.operation.is_at_once());
            // SAFETY: the kernel completes the submission that was built from this entry, which the
            // key identifies; it does so once, when it no longer uses its memory.
            let step = unsafe { entry.settle(line.result()) };
            let work = match step {
                Step::Again => Work::Operate(key),
                Step::WouldBlock => Work::Poll(key),
                Step::Done(result) => {
                    let mut entry = self.in_flight.remove(key).expect("it was just there");
                    self.messages.extend(entry.message.take());
                    completions.push(entry.operation.complete(result));
                    continue;
                }
            };
            entry.stage = Stage::Queued;
            self.queue.push_back(work);
        }
    }

    /// Cancels all operations and reaps them. Returns false if the kernel still uses buffers.
    fn drain(&mut self) -> bool {
        // Unsubmitted operations are not started any more. A queued cancellation is queued again
        // below.
        self.queue.clear();
        for key in self.in_flight.find(|_| true) {
            let entry = self.in_flight.get_mut(key).expect("it was just found");
            entry.operation.cancelled = false;
            self.cancel_key(key);
        }
        let end = Instant::now() + DROP_WAIT_MAX;
        while self.in_kernel > 0 && Instant::now() < end {
            let deadline = Deadline::after(Some(DROP_WAIT_MAX));
            // A lack of memory passes; other errors (EEXIST, EBADR) do not.
            if let Err(error) = self.wait(deadline, &mut Vec::new())
                && !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM))
            {
                break;
            }
        }
        self.in_kernel == 0
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if !self.drain() {
            mem::forget(mem::replace(&mut self.in_flight, InFlight::new(0)));
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}

impl Entry {
    /// Returns the submission for the operation's next call.
    #[expect(clippy::vec_box, reason = "the header keeps its address when the box moves")]
    fn operate(&mut self, messages: &mut Vec<Box<Message>>) -> squeue::Entry {
        self.stage = Stage::InKernel;
        let mut no_vectors = Vec::new();
        if self.operation.is_send() && self.message.is_none() {
            self.message = Some(messages.pop().unwrap_or_default());
        }
        let vectors = self.message.as_mut().map_or(&mut no_vectors, |message| &mut message.vectors);
        match self.operation.next_call(vectors) {
            Call::Accept { socket } => {
                let (address, length) = (std::ptr::null_mut(), std::ptr::null_mut());
                opcode::Accept::new(types::Fd(socket), address, length)
                    .flags(libc::SOCK_CLOEXEC)
                    .build()
            }
            Call::Poll { fd, direction } => poll(fd, direction),
            Call::ReadAt { file, offset, pointer, length, in_thread } => {
                let flags = if in_thread { squeue::Flags::ASYNC } else { squeue::Flags::empty() };
                opcode::Read::new(types::Fd(file), pointer, length)
                    .offset(offset)
                    .build()
                    .flags(flags)
            }
            Call::Receive { socket, pointer, length, poll_first, whole } => {
                opcode::Recv::new(types::Fd(socket), pointer, length)
                    .flags(if whole { libc::MSG_WAITALL } else { 0 })
                    .ioprio(if poll_first { POLL_FIRST } else { 0 })
                    .build()
            }
            Call::Send { socket, at_once } => {
                self.message.as_mut().expect("a send has a message").send(socket, at_once)
            }
            Call::Sync { file, data_only } => {
                let flags = if data_only {
                    types::FsyncFlags::DATASYNC
                } else {
                    types::FsyncFlags::empty()
                };
                opcode::Fsync::new(types::Fd(file)).flags(flags).build()
            }
            Call::WriteAt { file, offset, pointer, length } => {
                opcode::Write::new(types::Fd(file), pointer, length).offset(offset).build()
            }
        }
    }

    /// Returns the submission that waits until the operation's descriptor is ready.
    fn poll(&mut self) -> squeue::Entry {
        self.stage = Stage::Polling;
        let (fd, direction) =
            self.operation.readiness().expect("only operations with readiness would block");
        poll(fd, direction)
    }

    /// Applies the kernel's result and returns the next step.
    ///
    /// # Safety
    ///
    /// `result` belongs to the last submission made from this entry, and the kernel no longer uses
    /// its memory.
    unsafe fn settle(&mut self, result: i32) -> Step {
        let outcome = usize::try_from(result)
            .map_err(|_| io::Error::from_raw_os_error(result.saturating_neg()));
        match (self.stage, outcome) {
            (Stage::Polling, Ok(_)) if self.operation.cancelled => Step::Done(Err(cancelled())),
            (Stage::Polling, Ok(_)) => Step::Again,
            (Stage::Polling, Err(error)) => Step::Done(Err(error)),
            // SAFETY: the caller's promise, and the operation's own call is what ran.
            (_, outcome) => unsafe { self.operation.advance(outcome) },
        }
    }
}

fn poll(fd: i32, direction: Direction) -> squeue::Entry {
    opcode::PollAdd::new(types::Fd(fd), direction.events().unsigned_abs().into()).build()
}
