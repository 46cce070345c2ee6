//! Packets between processes, one after the other: their headers, reassembled frames, and the
//! messages in them.
#![no_main]
#![allow(dead_code, reason = "the sending side of the included modules is not used here")]

use std::time::Instant;

use libfuzzer_sys::fuzz_target;
use messaging::{
    Announcement, ClosePreviousSession, CloseShare, Done, LogLevel, LogonAnswer, LogonQuestion,
    PreviousSessionClosed, Processes, Statistics,
};
use testkit::seeds::split;

/// Private modules of the crate, with stand-ins for their imports.
#[path = "../../crates/messaging/src/transport"]
mod transport {
    use std::os::fd::OwnedFd;

    use dtyp::ServerId;

    pub(crate) const FRAME_BYTES_MAX: usize = 16 << 20;

    #[derive(Debug)]
    pub(crate) struct Frame {
        pub(crate) sender: ServerId,
        pub(crate) bytes: Vec<u8>,
        pub(crate) descriptors: Vec<OwnedFd>,
    }

    mod packet;
    mod reassembly;

    /// A process that receives packets.
    #[derive(Default)]
    pub(crate) struct Receiver {
        reassembly: reassembly::Reassembly,
        incomplete: u64,
    }

    impl Receiver {
        /// Returns the frames that a packet completes.
        pub(crate) fn receive(&mut self, now: std::time::Instant, packet: &[u8]) -> Vec<Frame> {
            let Ok((header, entries)) = packet::Header::decode(packet) else { return Vec::new() };
            assert_eq!(header.encode()[..], packet[..packet::HEADER_BYTES]);
            let mut frames = Vec::new();
            for entry in entries {
                let Ok((entry, bytes)) = entry else { break };
                let (sender, descriptors) = (header.sender, Vec::new());
                let bytes = bytes.into();
                let fragment = reassembly::Fragment { sender, entry, bytes, descriptors };
                let outcome = self.reassembly.add(now, fragment, &mut self.incomplete);
                if let reassembly::Outcome::Whole(frame) = outcome {
                    assert_eq!(u32::try_from(frame.bytes.len()), Ok(entry.total));
                    frames.push(frame);
                }
            }
            frames
        }

        pub(crate) fn expire(&mut self, now: std::time::Instant) {
            self.reassembly.expire(now + reassembly::PARTIAL_TIMEOUT);
            assert_eq!(self.reassembly.next_timeout(), None, "everything is given up");
        }
    }
}

fn read(data: &[u8]) {
    if let Some(message) = ClosePreviousSession::decode(data) {
        assert_eq!(ClosePreviousSession::decode(&message.encode()), Some(message));
    }
    if let Some(message) = PreviousSessionClosed::decode(data) {
        assert_eq!(PreviousSessionClosed::decode(&message.encode()), Some(message));
    }
    if let Some(message) = CloseShare::decode(data) {
        assert_eq!(CloseShare::decode(&message.encode()), Some(message));
    }
    if let Some(message) = LogonQuestion::decode(data) {
        assert_eq!(LogonQuestion::decode(&message.encode()), Some(message));
    }
    if let Some(message) = LogonAnswer::decode(data) {
        assert_eq!(LogonAnswer::decode(&message.encode()), Some(message));
    }
    if let Some(message) = LogLevel::decode(data) {
        assert_eq!(LogLevel::decode(&message.encode()), Some(message));
    }
    if let Some(message) = Announcement::decode(data) {
        assert_eq!(Announcement::decode(&message.encode()), Some(message));
    }
    if let Some(message) = Done::decode(data) {
        assert_eq!(Done::decode(&message.encode()), Some(message));
    }
    if let Some(message) = Processes::decode(data) {
        assert_eq!(Processes::decode(&message.encode()), Some(message));
    }
    if let Some(message) = Statistics::decode(data) {
        assert_eq!(Statistics::decode(&message.encode()), Some(message));
    }
}

fuzz_target!(|input: &[u8]| {
    let now = Instant::now();
    let mut receiver = transport::Receiver::default();
    for packet in split(input) {
        for frame in receiver.receive(now, packet) {
            read(&frame.bytes);
        }
    }
    receiver.expire(now);
    read(input);
});
