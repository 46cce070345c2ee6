//! Frames to a server before any negotiation. Message ids of single messages are corrected, because
//! guessing them teaches a fuzzer nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use testkit::World;
use testkit::seeds::split;

const MESSAGE_ID: std::ops::Range<usize> = 24..32;

fuzz_target!(|input: &[u8]| {
    let world = World::new();
    world.add_file("data", "file", b"some data");
    let mut peer = world.connect();
    for (message_id, frame) in (0_u64..).zip(split(input)) {
        let mut frame = frame.to_vec();
        if frame.starts_with(b"\xFESMB")
            && let Some(field) = frame.get_mut(MESSAGE_ID)
        {
            field.copy_from_slice(&message_id.to_le_bytes());
        }
        peer.send_frame(&frame);
        if !peer.is_open() {
            break;
        }
    }
    peer.disconnect();
    world.assert_nothing_left();
});
