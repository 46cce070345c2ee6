//! Sends that the socket takes at once, from memory and from pipes.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd};

use bytes::{Buf, BytesMut};
use object::Piped;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use trace::{Answered, Phase};
use uring::{Op, SendBuffer};

use super::{Transport, count};
use crate::lanes::Outgoing;

/// Frames that one call sends: the kernel's own limit of vectors is 1,024.
const SLICES_MAX: usize = 64;

impl Transport {
    /// Sends here what the socket takes; returns the operation that sends the rest.
    pub(super) fn send_now(&mut self, done: impl FnMut(BytesMut, Option<Piped>)) -> Option<Op> {
        let sent = self.send_at_once(done);
        if !self.queued.is_empty() {
            return Some(self.send_rest(sent.is_ok()));
        }
        self.is_full = false;
        None
    }

    /// Returns the operation that sends what the socket did not take.
    #[cold]
    fn send_rest(&mut self, is_alive: bool) -> Op {
        let socket = self.socket.as_raw_fd();
        if self.has_piped() {
            if is_alive {
                self.is_sending = true;
                return Op::PollWritable { fd: socket };
            }
            self.break_off();
        }
        self.sending.append(&mut self.answered);
        Op::Send { socket, buffers: self.take_queued() }
    }

    pub(super) fn has_piped(&self) -> bool {
        self.queued.iter().any(|it| it.piped.is_some())
    }

    /// Takes all frames out of the queue, for an operation.
    fn take_queued(&mut self) -> Vec<SendBuffer> {
        assert!(!self.has_piped(), "no operation sends what is piped");
        (self.is_sending, self.queued_bytes) = (true, 0);
        self.queued.drain(..).map(|it| it.frame.freeze().into()).collect()
    }

    /// Signs and seals the frames that were left to their sender.
    pub(super) fn protect(&mut self) {
        for (outgoing, answered) in self.queued.iter_mut().zip(&self.answered) {
            if outgoing.protection.is_some() {
                answered.enter(Phase::Signing);
                outgoing.protect();
                answered.enter(Phase::Sending);
            }
        }
    }

    /// Gives the socket what it takes without waiting.
    ///
    /// # Errors
    /// It takes nothing any more.
    fn send_at_once(&mut self, mut done: impl FnMut(BytesMut, Option<Piped>)) -> Result<(), Errno> {
        while let Some(first) = self.queued.front() {
            let is_piped = first.frame.is_empty();
            let attempt = if is_piped { self.send_piped() } else { self.send_memory() };
            let (sent, given) = match attempt {
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(()),
                attempt => attempt?,
            };
            self.forget_sent(sent, is_piped, &mut done);
            if sent < given {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends what is in memory of the first frames, up to the first one whose end is piped. Says
    /// how much of how much was taken.
    fn send_memory(&self) -> Result<(usize, usize), Errno> {
        let first = self.queued.iter().take(SLICES_MAX);
        let piped = first.clone().position(|it| it.piped.is_some());
        let slices: Vec<IoSlice<'_>> = first
            .take(piped.map_or(SLICES_MAX, |at| at + 1))
            .map(|it| IoSlice::new(&it.frame))
            .collect();
        let mut flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        flags.set(SendFlags::MORE, piped.is_some());
        let sent = sendmsg(&self.socket, &slices, &mut SendAncillaryBuffer::default(), flags)?;
        Ok((sent, slices.iter().map(|it| it.len()).sum()))
    }

    /// Likewise of what is piped of the first frame.
    fn send_piped(&mut self) -> Result<(usize, usize), Errno> {
        let more = self.queued.len() > 1;
        let Some(first) = self.queued.front_mut() else { return Ok((0, 0)) };
        let Some(piped) = &mut first.piped else { return Ok((0, 0)) };
        let given = piped.length();
        match store::piped::send(piped, self.socket.as_fd(), more) {
            Err(errno) if !matches!(errno, Errno::AGAIN | Errno::INTR) => {
                // The pipe's fault, perhaps. If it is the socket's, the next call says so.
                if let Err(errno) = first.read_into_memory() {
                    self.break_off();
                    return Err(errno);
                }
                Ok((0, 0))
            }
            sent => Ok((sent?, given)),
        }
    }

    /// So many bytes have left: lets go of the frames of which those were the last.
    fn forget_sent(
        &mut self,
        sent: usize,
        is_piped: bool,
        done: &mut impl FnMut(BytesMut, Option<Piped>),
    ) {
        self.queued_bytes -= sent;
        self.outgoing.sub(sent);
        self.taken_total += count(sent);
        // Bytes from a pipe are none of a frame's memory.
        let mut sent = if is_piped { 0 } else { sent };
        while let Some(first) = self.queued.front_mut() {
            let of_frame = sent.min(first.frame.len());
            sent -= of_frame;
            let has_piped = first.piped.as_ref().is_some_and(|piped| piped.length() > 0);
            if of_frame < first.frame.len() || has_piped {
                first.frame.advance(of_frame);
                self.is_front_begun |= of_frame > 0;
                return;
            }
            let Outgoing { mut frame, piped, .. } =
                self.queued.pop_front().expect("it was just there");
            if self.take_front_begun() {
                make_whole(&mut frame);
            }
            done(frame, piped);
            self.answered.pop_front();
        }
    }

    /// Gives up a frame that cannot be sent whole, and with it the connection: the operation that
    /// sends the rest fails.
    pub(super) fn break_off(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        self.queued.iter_mut().for_each(|it| it.piped = None);
        let kept = self.queued.iter().map(Outgoing::length).sum();
        self.outgoing.sub(std::mem::replace(&mut self.queued_bytes, kept) - kept);
    }

    /// The socket takes more, or never will.
    pub(crate) fn may_send(&mut self) {
        self.is_sending = false;
    }

    /// Returns whether a part of the first frame left before the rest, and forgets that.
    pub(crate) fn take_front_begun(&mut self) -> bool {
        std::mem::take(&mut self.is_front_begun)
    }

    /// Handles buffers of [`Transport::send`] that were sent, or never will be.
    pub(crate) fn sent(&mut self, buffers: &[SendBuffer], has_left: bool) {
        (self.is_sending, self.is_full) = (false, false);
        self.account(buffers, has_left);
    }

    /// Handles an immediate send of this many bytes; returns the frames that are gone. The rest is
    /// first in the queue again.
    #[inline(always)]
    pub(crate) fn sent_at_once(
        &mut self,
        buffers: Vec<SendBuffer>,
        taken: usize,
    ) -> Vec<SendBuffer> {
        let given: usize = buffers.iter().map(|buffer| buffer.as_slice().len()).sum();
        (self.is_sending, self.is_full) = (false, taken < given);
        self.outgoing.sub(taken);
        self.taken_total += count(taken);
        if taken == given {
            return buffers;
        }
        let rest = buffers.iter().flat_map(SendBuffer::as_slice).skip(taken);
        let frame: BytesMut = rest.copied().collect();
        self.queued_bytes += frame.len();
        self.queued.push_front(Outgoing { frame, piped: None, protection: None });
        self.answered.push_front(Answered::default());
        buffers
    }

    pub(super) fn account(&mut self, buffers: &[SendBuffer], has_left: bool) -> usize {
        self.sending.drain(..buffers.len().min(self.sending.len()));
        let bytes: usize = buffers.iter().map(|buffer| buffer.as_slice().len()).sum();
        self.outgoing.sub(bytes);
        if has_left {
            self.taken_total += count(bytes);
        }
        bytes
    }
}

/// Empties a frame of which a part left before the rest. A buffer is kept by its capacity, which
/// lacks that part until then.
pub(crate) fn make_whole(frame: &mut BytesMut) {
    frame.clear();
    let _ = frame.try_reclaim(frame.capacity() + 1);
}
