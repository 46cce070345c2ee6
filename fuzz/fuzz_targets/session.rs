//! Requests in an established session, with an open file and an open directory. Each part is a
//! command, flags, and a body; the peer checks every response, and at the end nothing may be left.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proto::Effect;
use testkit::seeds::{guest, split};
use testkit::{Peer, Request, World};
use wire::Command;
use wire::echo::EchoRequest;

/// Flag: related to the request before it, in the same frame.
const RELATED: u8 = 1;
/// Flag: in the same frame as the request before it.
const COMPOUNDED: u8 = 2;
/// Flag: delay replies of the store from now on.
const HOLD: u8 = 4;
/// Flag: deliver one delayed reply of the store.
const RELEASE: u8 = 8;

/// Sends the gathered requests, if any.
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
            world.delay_replies(|effect| matches!(effect, Effect::Object { .. }));
        }
        if flags & RELEASE != 0 && world.delayed_replies() > 0 {
            world.release(usize::from(flags >> 4) % world.delayed_replies());
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
