//! Tasks of administrators over srvsvc: the request waits until they are carried out.

use dtyp::NtStatus;
use proto::Effect;
use testkit::seeds::pipe::{SRVSVC, bind, fragment, transceive_request};
use testkit::{Create, Peer, World};
use trace::Reason;
use wire::ioctl::IoctlResponse;
use wire::write::WriteRequest;
use wire::{Command, Dialect, FileId};

/// NERR_FileIdNotFound: the answer of the world of tests.
const FILE_ID_NOT_FOUND: u32 = 2_314;

/// A client with a bound pipe of srvsvc.
fn client(world: &World) -> (Peer, FileId) {
    let mut peer = Peer::ready(world, Dialect::SMB_3_1_1);
    peer.tree("IPC$");
    let pipe = peer.create(&Create::open("srvsvc")).file_id;
    let request = peer.request(Command::IOCTL, &transceive_request(pipe, &bind(SRVSVC)));
    assert_eq!(peer.call(request).status(), NtStatus::SUCCESS);
    (peer, pipe)
}

/// NetrFileClose of the file with number 7.
fn file_close() -> Vec<u8> {
    let body = [0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 7, 0, 0, 0];
    fragment(0, &body)
}

/// The result at the end of an answer.
fn result(answer: &[u8]) -> u32 {
    u32::from_le_bytes(*answer.last_chunk().expect("a result"))
}

#[test]
fn a_task_is_carried_out_before_its_request_is_answered() {
    let world = World::new();
    let (mut peer, pipe) = client(&world);
    world.delay_replies(|effect| matches!(effect, Effect::CarryOut { .. }));
    let message = peer.request(Command::IOCTL, &transceive_request(pipe, &file_close()));
    peer.send(message);
    assert!((peer.receive().is_empty(), world.delayed_replies()) == (true, 1), "it waits");
    world.release_all();
    let responses = peer.receive();
    let [response] = &responses[..] else { panic!("{responses:?}") };
    let answer = response.body::<IoctlResponse<'_>>().output;
    assert_eq!(result(answer), FILE_ID_NOT_FOUND);
}

#[test]
fn a_task_may_come_by_write_and_its_answer_by_read() {
    let world = World::new();
    let (mut peer, pipe) = client(&world);
    peer.write(pipe, 0, &file_close()).ok();
    let answer = peer.read(pipe, 0, 4_096);
    assert_eq!(result(&answer), FILE_ID_NOT_FOUND);
}

#[test]
fn nothing_else_is_written_while_a_write_waits_for_its_task() {
    let world = World::new();
    let (mut peer, pipe) = client(&world);
    world.delay_replies(|effect| matches!(effect, Effect::CarryOut { .. }));
    let close = file_close();
    let message = peer.request(Command::WRITE, &WriteRequest::new(pipe, 0, &close));
    peer.send(message);
    assert_eq!(peer.write(pipe, 0, &close).outcome(), Reason::PipeBusy);
    world.release_all();
    let responses = peer.receive();
    let [response] = &responses[..] else { panic!("{responses:?}") };
    assert_eq!(response.status(), NtStatus::SUCCESS);
}
