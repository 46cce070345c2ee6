//! Requests in a session that is set up, with an open file and an open directory. Each part is a
//! command, flags, and a body; the peer checks every answer, and in the end nothing may be left.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proto::Effect;
use testkit::seeds::{guest, split};
use testkit::{Peer, Request, World};
use wire::Command;
use wire::echo::EchoRequest;

/// In the same frame as the one before, and related to it.
const RELATED: u8 = 1;
/// In the same frame as the one before.
const COMPOUNDED: u8 = 2;
/// The store's answers are kept back from now on.
const HOLD: u8 = 4;
/// One of the store's answers that are kept back is given.
const RELEASE: u8 = 8;

/// Sends what was gathered, if anything was.
fn send(peer: &mut Peer, frame: &mut Vec<Request>) {
    if !frame.is_empty() {
        peer.send_all(std::mem::take(frame));
    }
}

fuzz_target!(|input: &[u8]| {
    let world = World::new();
    let (mut peer, ..) = guest(&world);
    let mut frame: Vec<Request> = Vec::new();
    for part in split(input) {
        let [command, flags, body @ ..] = part else { continue };
        let request = peer
            .request(Command((*command).into()), &EchoRequest)
            .body(|bytes| *bytes = body.to_vec());
        if flags & (RELATED | COMPOUNDED) == 0 {
            send(&mut peer, &mut frame);
        }
        frame.push(if flags & RELATED == 0 { request } else { request.related() });
        if flags & HOLD != 0 {
            world.hold(|effect| matches!(effect, Effect::Object { .. }));
        }
        if flags & RELEASE != 0 && world.held() > 0 {
            world.release(usize::from(flags >> 4) % world.held());
        }
        peer.receive();
        if !peer.is_open() {
            break;
        }
    }
    if peer.is_open() {
        send(&mut peer, &mut frame);
    }
    world.release_all();
    peer.receive();
    peer.disconnect();
    world.assert_nothing_left();
});
