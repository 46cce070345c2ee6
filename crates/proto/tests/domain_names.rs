//! Names of a domain that a pipe is asked for: FSCTL_PIPE_TRANSCEIVE waits for them.

use dtyp::{NtStatus, Sid};
use proto::Effect;
use testkit::seeds::pipe::{LSARPC, bind, fragment, transceive_request};
use testkit::{Create, Peer, World};
use trace::Reason;
use wire::ioctl::IoctlResponse;
use wire::{Command, Dialect, FileId};

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A request of an operation, with context 0.
fn operation(opnum: u8, stub: &[u8]) -> Vec<u8> {
    fragment(0, &[&[0, 0, 0, 0, 0, 0, opnum, 0][..], stub].concat())
}

fn alice() -> rpc::Principal {
    let (domain, name) = ("ADLAB".to_owned(), "alice".to_owned());
    let sid = Sid::new(5, &[21, 7, 8, 9, 1_103]);
    rpc::Principal { kind: rpc::PrincipalKind::User, domain, name, sid }
}

/// LsarLookupSids of the SID of alice.
fn lookup_sids(handle: &[u8]) -> Vec<u8> {
    let mut stub = [handle, &words(&[1, 1, 1, 1, 5])].concat();
    alice().sid.encode(&mut stub);
    stub.extend(words(&[0, 0, 1, 0]));
    operation(15, &stub)
}

/// A client with a bound pipe, and the handle of a policy in it.
fn client(world: &World) -> (Peer, FileId, Vec<u8>) {
    let mut peer = Peer::ready(world, Dialect::SMB_3_1_1);
    peer.tree("IPC$");
    let pipe = peer.create(&Create::open("lsarpc")).file_id;
    transceive(&mut peer, pipe, &bind(LSARPC)).expect("a good bind");
    let mut open = words(&[0, 24, 0, 0, 0, 0, 1, 12]);
    open.extend([2, 0, 1, 0, 0, 0, 0, 2]);
    let answer = transceive(&mut peer, pipe, &operation(44, &open)).expect("a policy");
    (peer, pipe, answer[24..44].to_vec())
}

fn transceive(peer: &mut Peer, pipe: FileId, input: &[u8]) -> Option<Vec<u8>> {
    let request = peer.request(Command::IOCTL, &transceive_request(pipe, input));
    let response = peer.call(request);
    (response.status() == NtStatus::SUCCESS).then(|| output(&response))
}

fn output(response: &testkit::Response) -> Vec<u8> {
    response.body::<IoctlResponse<'_>>().output.to_vec()
}

/// The status at the end of the response of an operation.
fn status(answer: &[u8]) -> NtStatus {
    NtStatus(u32::from_le_bytes(*answer.last_chunk().expect("a status")))
}

#[test]
fn a_name_of_the_domain_comes_with_the_answer_of_another_process() {
    let world = World::new();
    world.change_domain(|domain| domain.names = vec![alice()]);
    let (mut peer, pipe, handle) = client(&world);
    world.delay_replies(|effect| matches!(effect, Effect::FindNames(_)));
    let lookup = lookup_sids(&handle);
    let message = peer.request(Command::IOCTL, &transceive_request(pipe, &lookup));
    peer.send(message);
    assert!((peer.receive().is_empty(), world.delayed_replies()) == (true, 1), "it waits");
    world.release_all();
    let responses = peer.receive();
    let [response] = &responses[..] else { panic!("{responses:?}") };
    let answer = output(response);
    assert_eq!(status(&answer), NtStatus::SUCCESS);
    let name: Vec<u8> = "alice".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(answer.windows(name.len()).any(|window| window == name), "{answer:x?}");
}

#[test]
fn a_name_that_the_domain_does_not_know_is_unknown() {
    let world = World::new();
    let (mut peer, pipe, handle) = client(&world);
    let answer = transceive(&mut peer, pipe, &lookup_sids(&handle)).expect("an answer");
    assert_eq!(status(&answer), NtStatus::NONE_MAPPED);
}

#[test]
fn a_pipe_that_was_written_meanwhile_is_busy() {
    let world = World::new();
    let (mut peer, pipe, handle) = client(&world);
    world.delay_replies(|effect| matches!(effect, Effect::FindNames(_)));
    let lookup = lookup_sids(&handle);
    let message = peer.request(Command::IOCTL, &transceive_request(pipe, &lookup));
    peer.send(message);
    peer.write(pipe, 0, &lookup).ok();
    world.release_all();
    let responses = peer.receive();
    let [response] = &responses[..] else { panic!("{responses:?}") };
    assert_eq!(response.outcome(), Reason::PipeBusy);
}
