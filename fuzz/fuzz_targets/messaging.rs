//! Datagrams between processes, one after the other: their headers, and frames put together from
//! them; and what a frame can carry.
#![no_main]
#![allow(dead_code, reason = "the sending side of the included modules is not used here")]

use std::time::Instant;

use libfuzzer_sys::fuzz_target;
use messaging::{ClosePreviousSession, CloseShare, LogLevel, PreviousSessionClosed};
use testkit::seeds::split;

/// The private modules of the crate, beside stand-ins for what they use of it.
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

    pub(crate) mod dgram {
        mod datagram;
        mod reassembly;

        /// A process that receives datagrams.
        #[derive(Default)]
        pub(crate) struct Receiver {
            reassembly: reassembly::Reassembly,
            incomplete: u64,
        }

        impl Receiver {
            /// The frame that a datagram makes whole.
            pub(crate) fn receive(
                &mut self,
                now: std::time::Instant,
                datagram: &[u8],
            ) -> Option<super::Frame> {
                let (header, fragment) = datagram::Header::decode(datagram).ok()?;
                let encoded = header.encode();
                assert_eq!(encoded[..], datagram[..datagram::HEADER_BYTES]);
                let (reassembly, incomplete) = (&mut self.reassembly, &mut self.incomplete);
                match reassembly.add(now, &header, fragment, Vec::new(), incomplete) {
                    reassembly::Outcome::Whole(frame) => {
                        assert_eq!(u32::try_from(frame.bytes.len()), Ok(header.total));
                        Some(frame)
                    }
                    _ => None,
                }
            }

            pub(crate) fn expire(&mut self, now: std::time::Instant) {
                self.reassembly.expire(now + reassembly::PARTIAL_TIMEOUT);
                assert_eq!(self.reassembly.next_timeout(), None, "everything is given up");
            }
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
    if let Some(message) = LogLevel::decode(data) {
        assert_eq!(LogLevel::decode(&message.encode()), Some(message));
    }
}

fuzz_target!(|input: &[u8]| {
    let now = Instant::now();
    let mut receiver = transport::dgram::Receiver::default();
    for datagram in split(input) {
        if let Some(frame) = receiver.receive(now, datagram) {
            read(&frame.bytes);
        }
    }
    receiver.expire(now);
    read(input);
});
