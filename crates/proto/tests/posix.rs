//! The POSIX extensions of 3.1.1: NEGOTIATE, the create context, and their information classes.

use dtyp::fscc::FileInformationClass;
use dtyp::{AccessMask, FileAttributes, Guid, NtStatus, Sid, utf16};
use proto::Effect;
use testkit::peer::Offer;
use testkit::{Create, Peer, World};
use trace::Reason;
use wire::create::{CreateDisposition, CreateResponse};
use wire::create_context::{
    CreateContextName, DurableFlags, DurableHandleReconnectV2, DurableHandleRequestV2,
    PosixRequest, PosixResponse,
};
use wire::negotiate::NegotiateResponse;
use wire::negotiate_context::PosixExtensions;
use wire::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use wire::query_info::{InfoType, QueryInfoRequest, QueryInfoResponse};
use wire::{Command, Dialect, FileId, OplockLevel};

const CONTEXT: PosixRequest = PosixRequest { mode: 0o640 };

fn world() -> World {
    World::with(|settings| settings.posix_extensions = true)
}

/// Offers the extensions in NEGOTIATE. Returns whether the client gets them.
fn negotiate(peer: &mut Peer, offered: &PosixExtensions) -> bool {
    let offer = Offer::dialects(&[Dialect::SMB_3_1_1]);
    let mut contexts = offer.contexts();
    contexts.push(offered);
    let response = peer.negotiate_contexts(&offer, &contexts).ok();
    let body: NegotiateResponse<'_> = response.body();
    body.negotiate_contexts.find().expect("a good answer") == Some(PosixExtensions::VERSION_1)
}

/// Connects a client with POSIX extensions to `data`.
fn posix_peer(world: &World) -> Peer {
    let mut peer = world.connect();
    assert!(negotiate(&mut peer, &PosixExtensions::VERSION_1));
    peer.login_alice();
    peer.tree("data");
    peer
}

fn query(
    peer: &mut Peer,
    file_id: FileId,
    info_type: InfoType,
    class: u8,
) -> Result<Vec<u8>, NtStatus> {
    let body = QueryInfoRequest {
        info_type,
        file_info_class: class,
        output_buffer_length: 4_096,
        file_id,
        ..QueryInfoRequest::default()
    };
    let request = peer.request(Command::QUERY_INFO, &body);
    let response = peer.call(request);
    match response.status() {
        NtStatus::SUCCESS => {
            let QueryInfoResponse { output_buffer } = response.body();
            Ok(output_buffer.to_vec())
        }
        status => Err(status),
    }
}

#[test]
fn the_extensions_are_negotiated_if_both_sides_want_them() {
    let version = PosixExtensions::VERSION_1;
    assert!(negotiate(&mut world().connect(), &version));
    assert!(!negotiate(&mut World::new().connect(), &version), "`smb3 unix extensions` is off");
    assert!(!negotiate(&mut world().connect(), &PosixExtensions { version: [1; 16] }));
    let response = world().connect().negotiate([Dialect::SMB_3_1_1]);
    let body: NegotiateResponse<'_> = response.body();
    let unasked: Option<PosixExtensions> = body.negotiate_contexts.find().expect("good");
    assert_eq!(unasked, None);
}

#[test]
fn an_open_with_the_context_gets_the_posix_fields() {
    let world = world();
    let mut peer = posix_peer(&world);
    let response = peer.try_create(&Create::new("file").context(&CONTEXT)).ok();
    let body: CreateResponse<'_> = response.body();
    let answer: PosixResponse = body.create_contexts.find().expect("good").expect("answered");
    let (owner, group) = (Sid::unix_user(1_000), Sid::unix_group(1_000));
    let want = PosixResponse { hard_links: 1, reparse_tag: 0, mode: 0o644, owner, group };
    assert_eq!(answer, want);
}

/// The store gets the mode, unless the client leaves it to the server.
#[test]
fn the_mode_of_a_new_file_is_the_clients() {
    for (mode, want) in
        [(0o640, Some(0o640)), (0o101_777, Some(0o1777)), (0xFFFF, None), (u32::MAX, None)]
    {
        let world = world();
        let mut peer = posix_peer(&world);
        world.delay_replies(move |effect| match effect {
            Effect::Object { op: object::ObjectOp::Open(open), .. } => {
                assert_eq!(open.posix_mode, want, "{mode:o}");
                assert!(open.path.is_posix());
                false
            }
            _ => false,
        });
        peer.create(&Create::new("file").context(&PosixRequest { mode }));
    }
}

#[test]
fn names_that_windows_reserves_are_names() {
    let world = world();
    let mut peer = posix_peer(&world);
    for name in ["a:b", "q?", "s*", "pipe|", "quote\""] {
        peer.create(&Create::new(name).context(&CONTEXT));
        assert!(world.exists("data", name), "{name}");
        let plain = peer.try_create(&Create::with_disposition(name, CreateDisposition::OPEN));
        assert_ne!(plain.status(), NtStatus::SUCCESS, "{name} without the context");
    }
    for name in ["..", "a/../b", "a//b", "/a"] {
        let refused = peer.try_create(&Create::new(name).context(&CONTEXT));
        assert_ne!(refused.status(), NtStatus::SUCCESS, "{name}");
    }
}

#[test]
fn a_file_deleted_for_a_dead_worker_is_deleted_by_its_posix_name() {
    let world = world();
    world.add_file("data", "d/a", b"another");
    let mut peer = posix_peer(&world);
    for name in ["d/a:b", "d/q?", "d/a:b:c"] {
        peer.create(&Create::new(name).delete_on_close().context(&CONTEXT));
    }
    world.kill_worker();
    for name in ["d/a:b", "d/q?", "d/a:b:c"] {
        assert!(!world.exists("data", name), "{name} stays");
    }
    assert!(world.exists("data", "d/a"));
}

#[test]
fn a_durable_open_of_a_name_that_windows_reserves_is_taken_up() {
    let world = world();
    let mut first = posix_peer(&world);
    let create_guid = Guid([7; 16]);
    let flags = DurableFlags::empty();
    let durable = DurableHandleRequestV2 { timeout_ms: 30_000, flags, create_guid };
    let batch = Create::open_if("d/a:b?").oplock(OplockLevel::BATCH).context(&CONTEXT);
    world.add_directory("data", "d");
    let file_id = first.create(&batch.clone().context(&durable)).file_id;
    first.write(file_id, 0, b"kept").ok();
    first.disconnect();
    let mut second = posix_peer(&world);
    let again = DurableHandleReconnectV2 { file_id, create_guid, flags };
    let after = second.create(&batch.context(&again)).file_id;
    assert_eq!(second.read(after, 0, 4), b"kept");
}

#[test]
fn without_agreement_the_context_means_nothing() {
    let mut peer = Peer::ready(&world(), Dialect::SMB_3_1_1);
    let response = peer.try_create(&Create::new("file").context(&CONTEXT)).ok();
    let body: CreateResponse<'_> = response.body();
    assert!(body.create_contexts.get(CreateContextName::POSIX).is_none());
    let class = FileInformationClass::POSIX.0;
    let status = query(&mut peer, body.file_id, InfoType::FILE, class);
    assert_eq!(status, Err(NtStatus::INVALID_INFO_CLASS));
    let status = query(&mut peer, body.file_id, InfoType::FILESYSTEM, 100);
    assert_eq!(status, Err(NtStatus::INVALID_INFO_CLASS));
    let refused = peer.try_create(&Create::new("a?").context(&CONTEXT));
    assert_eq!(refused.outcome(), Reason::NameComponentInvalid);
}

#[test]
fn files_and_file_systems_are_reported_in_posix_words() {
    let world = world();
    world.add_file("data", "file", b"12345");
    let mut peer = posix_peer(&world);
    let file = peer.create(&Create::open("file").context(&CONTEXT)).file_id;
    let class = FileInformationClass::POSIX.0;
    let reported = query(&mut peer, file, InfoType::FILE, class).expect("an answer");
    let word = |at: usize| u32::from_le_bytes(*reported[at..].first_chunk().expect("within"));
    assert_eq!((word(32), word(68), word(76)), (5, 1, 0o644));
    assert_eq!(word(48), FileAttributes::ARCHIVE.bits());
    assert_eq!(Sid::decode(&reported[80..]), Some(Sid::unix_user(1_000)));
    assert_eq!(query(&mut peer, file, InfoType::FILESYSTEM, 100).expect("an answer").len(), 56);
    // The class needs the right to read attributes, like others with the same contents.
    let access = AccessMask::READ_DATA;
    let poor = peer.create(&Create::open("file").access(access).context(&CONTEXT)).file_id;
    assert_eq!(query(&mut peer, poor, InfoType::FILE, class), Err(NtStatus::ACCESS_DENIED));
}

#[test]
fn a_directory_lists_posix_entries() {
    let world = world();
    world.add_file("data", "one", b"1");
    let mut peer = posix_peer(&world);
    let directory = peer.create(&Create::directory("").context(&CONTEXT)).file_id;
    let pattern = utf16::to_bytes("on?");
    let body = QueryDirectoryRequest {
        file_information_class: FileInformationClass::POSIX,
        flags: QueryDirectoryFlags::empty(),
        file_index: 0,
        file_id: directory,
        output_buffer_length: 4_096,
        file_name: &pattern,
    };
    let request = peer.request(Command::QUERY_DIRECTORY, &body);
    let response = peer.call(request).ok();
    let QueryDirectoryResponse { output_buffer } = response.body();
    // Two words, the structure of QUERY_INFO, and the name.
    assert_eq!(output_buffer[..8], [0; 8]);
    assert_eq!(output_buffer[8 + 76..][..4], 0o644_u32.to_le_bytes());
    assert_eq!(output_buffer[8 + 112..], *b"\x06\0\0\0o\0n\0e\0");
}

/// The name is removed with the open that has FILE_DELETE_ON_CLOSE, although another has the file
/// open.
#[test]
fn a_name_goes_at_once_while_others_have_the_file_open() {
    let world = world();
    world.add_file("data", "file", b"12345");
    let mut peer = posix_peer(&world);
    let reader = peer.create(&Create::open("file").context(&CONTEXT)).file_id;
    let remover = Create::open("file").delete_on_close().context(&CONTEXT);
    let remover = peer.create(&remover).file_id;
    peer.close(remover).ok();
    assert!(!world.exists("data", "file"));
    assert_eq!(peer.read(reader, 0, 5), b"12345");
    // The name is free again, and its new file does not go with the old one.
    let new = peer.create(&Create::new("file").context(&CONTEXT)).file_id;
    peer.close(reader).ok();
    assert!(world.exists("data", "file"));
    peer.close(new).ok();
    // An open without POSIX extensions removes the name with the last close.
    let reader = peer.create(&Create::open("file")).file_id;
    let remover = peer.create(&Create::open("file").delete_on_close()).file_id;
    peer.close(remover).ok();
    assert!(world.exists("data", "file"));
    peer.close(reader).ok();
    assert!(!world.exists("data", "file"));
}
