//! Behavior of peers, in turns.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use dtyp::ServerId;
use messaging::transport::Frame;
use messaging::{SendError, Transport};

use crate::stage::TEST_UNIQUE_ID;

/// Frames from each to each of a mesh.
pub(crate) const MESH_EACH: u32 = 5;

/// Frames that are taken in one turn, so that its time is not too old.
const FRAMES_PER_TURN_MAX: usize = 64;

/// Role of a peer in a test.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    /// Sends back every frame, to whoever sent it.
    Echo,
    /// Sends some frames to everyone, as fast as there is room, and takes those of all others; says
    /// to the test that all have come. The test is the only member that does not send.
    Mesh,
}

impl Role {
    pub(crate) const ALL: [Self; 2] = [Self::Echo, Self::Mesh];

    /// Its byte on standard input.
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::Echo => b'e',
            Self::Mesh => b'm',
        }
    }

    /// Begins to play it; all peers are there.
    pub(crate) fn begin(self, transport: &mut dyn Transport, me: ServerId) -> Part {
        match self {
            Self::Echo => Part::Echo(None),
            Self::Mesh => Part::Mesh(Mesh::new(transport, me)),
        }
    }
}

/// A role that is played.
#[derive(Debug)]
pub(crate) enum Part {
    /// With the frame that found no room.
    Echo(Option<Frame>),
    Mesh(Mesh),
}

impl Part {
    /// Does what can be done; whether there was something.
    pub(crate) fn turn(&mut self, now: Instant, transport: &mut dyn Transport) -> bool {
        match self {
            Self::Echo(waiting) => echo(now, transport, waiting),
            Self::Mesh(mesh) => mesh.turn(now, transport),
        }
    }
}

/// The next frame, after a try to send what waits.
pub(crate) fn receive(now: Instant, transport: &mut dyn Transport) -> Option<Frame> {
    if !transport.has_ready() {
        transport.poll_send(now);
    }
    transport.poll_receive(now)
}

fn echo(now: Instant, transport: &mut dyn Transport, waiting: &mut Option<Frame>) -> bool {
    for done in 0..FRAMES_PER_TURN_MAX {
        let Some(frame) = waiting.take().or_else(|| receive(now, transport)) else {
            return done > 0;
        };
        let Frame { sender, bytes, descriptors } = &frame;
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        match transport.send(now, *sender, bytes, &descriptors) {
            Ok(()) => {}
            Err(SendError::Full) => {
                *waiting = Some(frame);
                transport.poll_send(now);
                return done > 0;
            }
            Err(error) => panic!("{error}"),
        }
    }
    true
}

/// One of many, each of which sends to all others.
#[derive(Debug)]
pub(crate) struct Mesh {
    test: ServerId,
    /// Numbers left to send, the next one last.
    to_send: Vec<(ServerId, u32)>,
    /// By sender, the number of its next frame.
    next: HashMap<ServerId, u32>,
    has_said: bool,
}

impl Mesh {
    fn new(transport: &mut dyn Transport, me: ServerId) -> Self {
        let members = transport.members().expect("readable");
        let is_peer = |id: &ServerId| id.unique_id != TEST_UNIQUE_ID && *id != me;
        let to_send = (0..MESH_EACH)
            .flat_map(|number| members.iter().map(move |to| (*to, number)))
            .filter(|(to, _)| *to != me)
            .rev()
            .collect();
        let next = members.iter().filter(|id| is_peer(id)).map(|id| (*id, 0)).collect();
        let is_test = |id: &&ServerId| id.unique_id == TEST_UNIQUE_ID;
        let test = *members.iter().find(is_test).expect("it is there");
        Self { test, to_send, next, has_said: false }
    }

    fn turn(&mut self, now: Instant, transport: &mut dyn Transport) -> bool {
        let mut any = false;
        while let Some((to, number)) = self.to_send.last() {
            match transport.send(now, *to, &number.to_le_bytes(), &[]) {
                // A peer that has received everything may have left.
                Ok(()) | Err(SendError::NoSuchProcess) => self.to_send.pop(),
                Err(SendError::Full) => break,
                Err(error) => panic!("{error}"),
            };
            any = true;
        }
        while let Some(frame) = receive(now, transport) {
            let expected = self.next.get_mut(&frame.sender).expect("a member");
            assert_eq!(frame.bytes, expected.to_le_bytes(), "from {}", frame.sender);
            *expected += 1;
            any = true;
        }
        let has_all = self.next.values().all(|next| *next == MESH_EACH);
        if self.to_send.is_empty() && has_all && !self.has_said {
            self.has_said = transport.send(now, self.test, b"done", &[]).is_ok();
        }
        any
    }
}
