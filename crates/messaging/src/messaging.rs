//! One process's end of the messages of its server.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Instant;

use dtyp::ServerId;
use trace::Tracer;
use zeroize::Zeroize;

use crate::counters::Counters;
use crate::message::{Content, FrameError, Message, TRAILER_BYTES};
use crate::transport::{
    self, FRAME_BYTES_MAX, FrameBytes, InitError, SendError, Settings, Transport, TransportKind,
};

/// Highest number of data bytes of a message.
pub const DATA_BYTES_MAX: usize = FRAME_BYTES_MAX - TRAILER_BYTES;

/// Result of a message to all processes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Broadcast {
    /// Processes that it was sent to.
    pub receivers: Vec<ServerId>,
    /// Living processes that could not be reached, with the reason.
    pub failed: Vec<(ServerId, SendError)>,
}

/// One process's end of the messages of its server. Dropping it leaves the server.
#[derive(Debug)]
pub struct Messaging {
    server_id: ServerId,
    /// `None` for a transport that the caller opened.
    kind: Option<TransportKind>,
    transport: Box<dyn Transport>,
    /// Buffer for frames, used again for each message.
    frame: Vec<u8>,
    malformed: u64,
    version_unknown: u64,
    /// Drops reported by [`Messaging::take_dropped`] so far.
    reported_dropped: u64,
    trace: Tracer,
}

/// Messages that were dropped, and their receivers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Dropped {
    /// Number of messages that were dropped.
    pub messages: u64,
    /// Processes that should have received them.
    pub receivers: BTreeSet<ServerId>,
}

impl Messaging {
    /// Joins the messages of the server on `lock_dir` as `server_id`, whose pid must be that of
    /// this process.
    ///
    /// # Errors
    /// The transport cannot be opened.
    pub fn init(
        lock_dir: &Path,
        server_id: ServerId,
        settings: impl Into<Settings>,
    ) -> Result<Self, InitError> {
        let settings = settings.into();
        let transport = transport::open(settings, lock_dir, server_id)?;
        Ok(Self { kind: Some(settings.kind), ..Self::over(transport, server_id) })
    }

    /// As [`Messaging::init`], over an open transport.
    #[must_use]
    pub fn over(transport: Box<dyn Transport>, server_id: ServerId) -> Self {
        let (kind, frame) = (None, Vec::new());
        Self {
            server_id,
            kind,
            transport,
            frame,
            malformed: 0,
            version_unknown: 0,
            reported_dropped: 0,
            trace: Tracer::default(),
        }
    }

    /// Sets the tracer, which counts messages in both directions from now on.
    pub fn set_tracer(&mut self, trace: Tracer) {
        self.trace = trace;
    }

    /// Id of this process among the members.
    #[must_use]
    pub fn server_id(&self) -> ServerId {
        self.server_id
    }

    /// Transport in use; `None` for one that the caller opened.
    #[must_use]
    pub fn kind(&self) -> Option<TransportKind> {
        self.kind
    }

    /// Sends a message to one process. It leaves at once, or waits here for room at the receiver,
    /// or for the next [`Messaging::flush`] or [`Messaging::poll`], to leave with others.
    ///
    /// A message with descriptors may overtake earlier ones where descriptors use a side channel:
    /// `messaging type = tdb`.
    ///
    /// # Errors
    /// The receiver never gets the message then, nor any part of it.
    pub fn send(
        &mut self,
        now: Instant,
        to: ServerId,
        content: &Content<'_>,
    ) -> Result<(), SendError> {
        self.encode(content)?;
        let descriptors = content.descriptors;
        let sent = match self.transport.side_channel() {
            Some(side) if !descriptors.is_empty() => side.send(now, to, &self.frame, descriptors),
            _ => {
                let frame = FrameBytes::Buffer(&mut self.frame);
                self.transport.send_frame(now, to, frame, descriptors)
            }
        };
        if content.kind.is_secret() {
            self.frame.zeroize();
        }
        sent?;
        self.trace.message_sent(content.kind.0, content.data.len());
        Ok(())
    }

    /// Sends a message to each of `receivers`; returns those that could not be reached, with the
    /// reason.
    pub fn send_all(
        &mut self,
        now: Instant,
        receivers: &[ServerId],
        content: &Content<'_>,
    ) -> Vec<(ServerId, SendError)> {
        let encoded = self.encode(content);
        let mut failed = Vec::new();
        for to in receivers {
            let sent = encoded.and_then(|()| self.send_encoded(now, *to, content));
            failed.extend(sent.err().map(|error| (*to, error)));
        }
        failed
    }

    /// Sends a message once to every other living process of the server.
    ///
    /// # Errors
    /// The living processes cannot be listed.
    pub fn broadcast(
        &mut self,
        now: Instant,
        content: &Content<'_>,
    ) -> Result<Broadcast, InitError> {
        let mut receivers = self.members()?;
        receivers.retain(|receiver| *receiver != self.server_id);
        let mut failed = self.send_all(now, &receivers, content);
        receivers.retain(|receiver| failed.iter().all(|(of, _)| of != receiver));
        // A process that died in the meantime is not a failure.
        failed.retain(|(_, error)| *error != SendError::NoSuchProcess);
        Ok(Broadcast { receivers, failed })
    }

    /// Returns all living processes of the server, this one included. Removes sockets and records
    /// of dead ones.
    ///
    /// # Errors
    /// The directory of their sockets cannot be read.
    pub fn members(&mut self) -> Result<Vec<ServerId>, InitError> {
        self.transport.members()
    }

    /// Removes a dead process: drops its pending messages and deletes its socket and record. For
    /// the process that has reaped it.
    pub fn remove_dead(&mut self, dead: ServerId) {
        let _ = self.transport.remove_dead(dead);
    }

    /// True while [`Messaging::flush`] has messages to send.
    #[must_use]
    pub fn wants_flush(&self) -> bool {
        self.transport.wants_flush()
    }

    /// Sends messages that were delayed to leave together. Call it after a batch of sends.
    pub fn flush(&mut self, now: Instant) {
        self.transport.poll_send(now);
    }

    /// Returns the next message, after an attempt to send pending ones. `None` is not the end: call
    /// again once [`Messaging::wake_source`] is readable or [`Messaging::next_timeout`] is reached.
    pub fn poll(&mut self, now: Instant) -> Option<Message> {
        // Answers to messages received together leave together.
        if !self.transport.has_ready() {
            self.transport.poll_send(now);
        }
        while let Some(frame) = self.transport.poll_receive(now) {
            match Message::decode(frame, self.server_id) {
                Ok(message) => {
                    self.trace.message_received(message.kind.0, message.data.len());
                    return Some(message);
                }
                Err(FrameError::Length) => self.malformed += 1,
                Err(FrameError::Version) => self.version_unknown += 1,
            }
        }
        None
    }

    /// Becomes readable when [`Messaging::poll`] may have work. Not for reading.
    #[must_use]
    pub fn wake_source(&self) -> Option<BorrowedFd<'_>> {
        self.transport.wake_source()
    }

    /// Time at which [`Messaging::poll`] has work even if nothing arrives.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.transport.next_timeout()
    }

    /// Returns the counts since the process started.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let counters = self.transport.counters();
        Counters {
            malformed: counters.malformed + self.malformed,
            version_unknown: counters.version_unknown + self.version_unknown,
            ..counters
        }
    }

    /// Sends the frame buffer, which holds `content`.
    fn send_encoded(
        &mut self,
        now: Instant,
        to: ServerId,
        content: &Content<'_>,
    ) -> Result<(), SendError> {
        let descriptors = content.descriptors;
        match self.transport.side_channel() {
            Some(side) if !descriptors.is_empty() => side.send(now, to, &self.frame, descriptors),
            _ => self.transport.send(now, to, &self.frame, descriptors),
        }?;
        self.trace.message_sent(content.kind.0, content.data.len());
        Ok(())
    }

    /// Returns messages dropped since the last call, because their receivers had no room for too
    /// long. Call it after [`Messaging::next_timeout`].
    pub fn take_dropped(&mut self) -> Dropped {
        let dropped = self.transport.counters().dropped;
        let messages = dropped - std::mem::replace(&mut self.reported_dropped, dropped);
        Dropped { messages, receivers: self.transport.take_receivers_of_dropped() }
    }

    fn encode(&mut self, content: &Content<'_>) -> Result<(), SendError> {
        let too_large = SendError::TooLarge { len: content.data.len(), max: DATA_BYTES_MAX };
        if content.data.len() > DATA_BYTES_MAX {
            return Err(too_large);
        }
        if self.frame.capacity() > FRAME_BYTES_KEPT {
            self.frame = Vec::new();
        }
        content.encode(&mut self.frame).ok_or(too_large)
    }
}

/// Capacity in bytes up to which the frame buffer is kept; a larger one is freed.
const FRAME_BYTES_KEPT: usize = 128 * 1024;

#[cfg(test)]
mod tests;
