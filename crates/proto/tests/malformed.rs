//! Messages that no honest client sends: each gets an error status or ends the connection, without
//! a panic, a hang or leftover state.

use testkit::entropy::Random;
use testkit::request::of_every_command;
use testkit::{Create, Peer, Request, World};
use trace::Reason;
use wire::echo::EchoRequest;
use wire::{Command, Dialect, FileId};

/// Connects a client in an unencrypted, unsigned session, so that all its data reaches the
/// decoders.
fn ready(world: &World) -> (Peer, FileId, FileId) {
    let mut peer = Peer::ready(world, Dialect::SMB_3_0);
    peer.signs = false;
    peer.credit_request = 512;
    let file = peer.create(&Create::open_if("file")).file_id;
    peer.write(file, 0, b"some data").ok();
    let directory = peer.create(&Create::directory("dir")).file_id;
    (peer, file, directory)
}

/// Sends a request in a world of its own. It may have any response, but must leave no state behind.
fn survives(make: impl FnOnce(&mut Peer, FileId, FileId) -> Request) {
    let world = World::new();
    let (mut peer, file, directory) = ready(&world);
    let request = make(&mut peer, file, directory).unsigned();
    let command = request.to_message()[12];
    peer.send(request);
    let answered = peer.receive().len();
    let cancel = 12;
    let is_cancel = command == cancel;
    assert!(answered == 1 || peer.closed().is_some() || is_cancel, "{command}: no answer");
    peer.disconnect();
    world.assert_nothing_left();
}

const COMMANDS: usize = 19;

#[test]
fn there_is_a_request_of_every_command() {
    let world = World::new();
    let (mut peer, file, directory) = ready(&world);
    let all = of_every_command(&mut peer, file, directory);
    let codes: Vec<u8> = all.iter().map(|request| request.to_message()[12]).collect();
    assert_eq!(codes, (0..=18).collect::<Vec<u8>>());
    assert_eq!(all.len(), COMMANDS);
}

#[test]
fn a_request_that_is_cut_short_is_refused() {
    for index in 0..COMMANDS {
        let whole = {
            let (mut peer, file, directory) = ready(&World::new());
            of_every_command(&mut peer, file, directory)[index].to_message().len() - 64
        };
        for len in 0..whole {
            survives(|peer, file, directory| {
                let request = of_every_command(peer, file, directory).swap_remove(index);
                request.body(|body| body.truncate(len))
            });
        }
    }
}

/// Every field that could be an offset or a length has the value 4 GiB, or nearly.
#[test]
fn a_length_of_4_gib_is_survived_in_every_field() {
    for index in 0..COMMANDS {
        for at in (0..64).step_by(2) {
            for value in [u32::MAX, 0x7FFF_FFFF, 0x0001_0000] {
                survives(|peer, file, directory| {
                    let request = of_every_command(peer, file, directory).swap_remove(index);
                    request.body(|body| {
                        if let Some(field) = body.get_mut(at..at + 4) {
                            field.copy_from_slice(&value.to_le_bytes());
                        }
                    })
                });
            }
        }
    }
}

#[test]
fn random_changes_of_a_request_are_survived() {
    let mut random = Random::new(7);
    for round in 0..1_500 {
        survives(|peer, file, directory| {
            let request = of_every_command(peer, file, directory).swap_remove(round % COMMANDS);
            request.body(|body| {
                for _ in 0..=random.below(4) {
                    let at = random.below(body.len().max(1));
                    if let Some(byte) = body.get_mut(at) {
                        *byte = random.next_u64().to_le_bytes()[0];
                    }
                }
            })
        });
    }
}

#[test]
fn random_commands_and_flags_are_survived() {
    let mut random = Random::new(8);
    for round in 0..1_000 {
        let world = World::new();
        let (mut peer, file, directory) = ready(&world);
        let request = of_every_command(&mut peer, file, directory).swap_remove(round % COMMANDS);
        let (mut frame, _) = peer.lay_out([request.unsigned()]);
        for _ in 0..=random.below(3) {
            // Any byte of the header behind the protocol id.
            frame[4 + random.below(60)] = random.next_u64().to_le_bytes()[0];
        }
        peer.send_frame(&frame);
        peer.disconnect();
        world.assert_nothing_left();
    }
}

#[test]
fn random_bytes_are_survived() {
    let mut random = Random::new(9);
    let beginnings: [&[u8]; 5] = [b"", b"\xFESMB", b"\xFFSMB\x72", b"\xFDSMB", b"\xFCSMB"];
    for round in 0..1_500 {
        let world = World::new();
        let mut peer = world.connect();
        if round % 2 == 0 {
            peer.negotiate([Dialect::SMB_3_1_1]);
        }
        let mut frame = beginnings[round % beginnings.len()].to_vec();
        let start = frame.len();
        frame.resize(start + random.below(300), 0);
        random.fill(&mut frame[start..]);
        peer.send_frame(&frame);
        assert!(!peer.is_open() || round % 2 == 0, "no random bytes begin a connection");
        peer.disconnect();
        world.assert_nothing_left();
    }
}

#[test]
fn a_frame_longer_than_anything_of_use_is_not_even_read() {
    let world = World::new();
    let mut silent = world.connect();
    silent.send_frame(&vec![0; 0x2_0001]);
    assert!(!silent.is_open());
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    peer.send_frame(&vec![0; 0x11_0001]);
    assert!(!peer.is_open());
    world.assert_nothing_left();
}

#[test]
fn an_empty_frame_ends_the_connection() {
    let mut peer = World::new().connect();
    peer.send_frame(&[]);
    assert!(peer.closed().is_some());
}

#[test]
fn a_response_from_a_client_ends_the_connection() {
    let world = World::new();
    let (mut peer, ..) = ready(&world);
    let response = peer
        .request(Command::ECHO, &EchoRequest)
        .flags(wire::HeaderFlags::SERVER_TO_REDIR)
        .unsigned();
    peer.send(response);
    assert_eq!(peer.closed(), Some(proto::Disconnect::ResponseFromClient));
}

#[test]
fn an_unknown_command_is_invalid() {
    let world = World::new();
    let (mut peer, ..) = ready(&world);
    for code in [0x13, 0x14, 0x7FFF, 0xFFFF] {
        let request = peer.request(Command::ECHO, &EchoRequest).command(Command(code));
        let response = peer.call(request);
        assert_eq!(response.outcome(), Reason::UnknownCommand, "{code:#x}");
    }
}
