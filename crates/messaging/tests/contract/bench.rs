//! Test's own end of the transport.

use std::time::{Duration, Instant};

use dtyp::ServerId;
use messaging::transport::Frame;
use messaging::{Counters, SendError, Transport};

use crate::part::{self, Role};
use crate::stage::Stage;

/// Longest wait of a test, so that a failing one ends.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Test's own end of the transport.
pub(crate) struct Bench {
    /// Dropped first: peers do not outlive the test.
    pub(crate) stage: Box<dyn Stage>,
    pub(crate) transport: Box<dyn Transport>,
}

impl Bench {
    pub(crate) fn new(stage: Box<dyn Stage>) -> Self {
        Self { transport: stage.open(), stage }
    }

    /// Starts a peer that does nothing.
    pub(crate) fn idle(&mut self) -> ServerId {
        self.stage.start()
    }

    /// Starts a peer that sends back each frame.
    pub(crate) fn echo(&mut self) -> ServerId {
        let peer = self.stage.start();
        self.stage.start_role(peer, Role::Echo);
        peer
    }

    pub(crate) fn now(&self) -> Instant {
        self.stage.now()
    }

    pub(crate) fn counters(&self) -> Counters {
        self.transport.counters()
    }

    pub(crate) fn send(&mut self, to: ServerId, frame: &[u8]) -> Result<(), SendError> {
        self.transport.send(self.stage.now(), to, frame, &[])
    }

    /// Sends a frame; waits for room if necessary.
    pub(crate) fn send_when_there_is_room(&mut self, to: ServerId, frame: &[u8]) {
        while let Err(error) = self.send(to, frame) {
            assert_eq!(error, SendError::Full);
            self.wait();
            self.transport.poll_send(self.stage.now());
        }
    }

    /// Waits until there may be something to do.
    pub(crate) fn wait(&mut self) {
        let until = self.transport.next_timeout().unwrap_or_else(|| self.now() + PATIENCE);
        self.wait_until(until);
    }

    pub(crate) fn wait_until(&mut self, until: Instant) {
        self.stage.wait(self.transport.wake_source(), until);
    }

    /// Returns the next frame; waits for it.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> Frame {
        let start = self.now();
        while self.now() < start + PATIENCE {
            if let Some(frame) = part::receive(self.stage.now(), &mut *self.transport) {
                return frame;
            }
            self.wait();
        }
        panic!("nothing came; {:?}", self.counters());
    }

    /// Sends a frame and expects it back.
    #[track_caller]
    pub(crate) fn check_echo(&mut self, peer: ServerId, frame: &[u8]) {
        assert_eq!(self.send(peer, frame), Ok(()));
        let echo = self.receive();
        assert_eq!(echo.sender, peer, "{} bytes of another", echo.bytes.len());
        assert!(echo.bytes == frame, "{} bytes came back of {}", echo.bytes.len(), frame.len());
    }
}

/// Bytes that differ along the frame and from frame to frame.
pub(crate) fn frame(len: usize, seed: u8) -> Vec<u8> {
    let byte = |at: usize| (at / 251).to_le_bytes()[0] ^ at.to_le_bytes()[0] ^ seed;
    (0..len).map(byte).collect()
}
