//! One process's end of the messages of its server.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Instant;

use dtyp::ServerId;
use trace::Tracer;

use crate::counters::Counters;
use crate::message::{Content, FrameError, Message, TRAILER_BYTES};
use crate::transport::{
    self, FRAME_BYTES_MAX, InitError, SendError, Settings, Transport, TransportKind,
};

/// Bytes of data that a message may have.
pub const DATA_BYTES_MAX: usize = FRAME_BYTES_MAX - TRAILER_BYTES;

/// Whom a message to all went to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Broadcast {
    /// Those it was sent to.
    pub receivers: Vec<ServerId>,
    /// Those who live and whom it could not be sent to.
    pub failed: Vec<(ServerId, SendError)>,
}

/// One process's end of the messages of its server. Dropping it leaves the server.
#[derive(Debug)]
pub struct Messaging {
    server_id: ServerId,
    /// `None` for a transport that the caller has opened.
    kind: Option<TransportKind>,
    transport: Box<dyn Transport>,
    /// Where frames are written; its memory is used again.
    frame: Vec<u8>,
    malformed: u64,
    version_unknown: u64,
    /// Drops that [`Messaging::take_dropped`] has told of.
    told_dropped: u64,
    trace: Tracer,
}

/// Messages that were dropped.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Dropped {
    /// How many.
    pub messages: u64,
    /// The processes for which they were.
    pub receivers: BTreeSet<ServerId>,
}

impl Messaging {
    /// Joins the messages of the server on `lock_dir` as `server_id`, whose pid must be that of
    /// this process.
    ///
    /// # Errors
    /// Whatever keeps the transport from opening.
    pub fn init(
        lock_dir: &Path,
        server_id: ServerId,
        settings: impl Into<Settings>,
    ) -> Result<Self, InitError> {
        let settings = settings.into();
        let transport = transport::open(settings, lock_dir, server_id)?;
        Ok(Self { kind: Some(settings.kind), ..Self::over(transport, server_id) })
    }

    /// As [`Messaging::init`], over a transport that is open already.
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
            told_dropped: 0,
            trace: Tracer::default(),
        }
    }

    /// Counts what comes and goes from now on, for whoever traces this process.
    pub fn set_tracer(&mut self, trace: Tracer) {
        self.trace = trace;
    }

    /// This process.
    #[must_use]
    pub fn server_id(&self) -> ServerId {
        self.server_id
    }

    /// The transport; `None` for one that the caller has opened.
    #[must_use]
    pub fn kind(&self) -> Option<TransportKind> {
        self.kind
    }

    /// Sends a message to one process. It has left, or waits here for room at the receiver, or for
    /// the next [`Messaging::flush`] or [`Messaging::poll`], to leave with others.
    ///
    /// A message with descriptors may arrive before one that was sent before it, where they go by a
    /// side channel: `messaging type = tdb`.
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
        self.send_encoded(now, to, content)
    }

    /// Sends a message to each of `receivers`; returns those that it could not be sent to.
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

    /// Sends a message to every other process of the server that lives, once.
    ///
    /// # Errors
    /// It cannot be found out who lives.
    pub fn broadcast(
        &mut self,
        now: Instant,
        content: &Content<'_>,
    ) -> Result<Broadcast, InitError> {
        let mut receivers = self.members()?;
        receivers.retain(|receiver| *receiver != self.server_id);
        let mut failed = self.send_all(now, &receivers, content);
        receivers.retain(|receiver| failed.iter().all(|(of, _)| of != receiver));
        // Who died meanwhile did not live.
        failed.retain(|(_, error)| *error != SendError::NoSuchProcess);
        Ok(Broadcast { receivers, failed })
    }

    /// All processes of the server that live, this one included. What the dead have left is removed.
    ///
    /// # Errors
    /// The directory of their sockets cannot be read.
    pub fn members(&mut self) -> Result<Vec<ServerId>, InitError> {
        self.transport.members()
    }

    /// A process is dead: what waits for it is dropped, and what it left is removed. For whoever
    /// has reaped it.
    pub fn bury(&mut self, dead: ServerId) {
        let _ = self.transport.bury(dead);
    }

    /// Whether [`Messaging::flush`] has something to do.
    #[must_use]
    pub fn wants_flush(&self) -> bool {
        self.transport.wants_flush()
    }

    /// Lets messages leave that were held back to leave together: at the end of whatever makes the
    /// caller send several.
    pub fn flush(&mut self, now: Instant) {
        self.transport.poll_send(now);
    }

    /// The next message, after a try to send what waits. `None` is not the end: look again when
    /// [`Messaging::wake_source`] is readable or [`Messaging::next_timeout`] is reached.
    pub fn poll(&mut self, now: Instant) -> Option<Message> {
        // What was received together is answered together.
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

    /// Readable when [`Messaging::poll`] may have something to do. Not for reading.
    #[must_use]
    pub fn wake_source(&self) -> Option<BorrowedFd<'_>> {
        self.transport.wake_source()
    }

    /// When [`Messaging::poll`] has something to do even if nothing arrives.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.transport.next_timeout()
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let counters = self.transport.counters();
        Counters {
            malformed: counters.malformed + self.malformed,
            version_unknown: counters.version_unknown + self.version_unknown,
            ..counters
        }
    }

    /// Sends the frame, which is that of `content`.
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

    /// What was dropped since the last call, because its receivers had no room for too long: to be
    /// asked after [`Messaging::next_timeout`].
    pub fn take_dropped(&mut self) -> Dropped {
        let dropped = self.transport.counters().dropped;
        let messages = dropped - std::mem::replace(&mut self.told_dropped, dropped);
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

/// Bytes of the frame buffer that are kept for the next message; a larger one was an exception.
const FRAME_BYTES_KEPT: usize = 128 * 1024;

#[cfg(test)]
mod tests;
