//! Symbolic links that clients make and resolve: [MS-SMB2] 2.2.2.2.1, [MS-FSCC] 2.3.29, 2.3.65,
//! 2.3.5.

use dtyp::fscc::{ReparseData, ReparseTag, SymbolicLinkReparse};
use dtyp::{FileAttributes, NtStatus, utf16};
use testkit::{Create, Peer, Response, World};
use trace::Reason;
use wire::create::{CreateOptions, CreateResponse, CreateResponseFlags};
use wire::error_response::SymbolicLinkFlags;
use wire::error_response::{ErrorContext, ErrorId, ErrorResponse, SymbolicLinkError};
use wire::ioctl::{FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use wire::{Command, Dialect, FileId};

fn link_to(target: &str) -> Vec<u8> {
    let link = SymbolicLinkReparse {
        substitute_name: target.to_owned(),
        print_name: format!("shown {target}"),
        is_relative: true,
    };
    let (mut data, mut buffer) = (Vec::new(), Vec::new());
    link.encode(&mut data);
    ReparseData { tag: ReparseTag::SYMLINK, data: &data }.encode(&mut buffer);
    buffer
}

fn ioctl(peer: &mut Peer, ctl_code: FsctlCode, file_id: FileId, input: &[u8]) -> Response {
    let body = IoctlRequest {
        ctl_code,
        file_id,
        input,
        max_output_response: 1_024,
        flags: IoctlFlags::IS_FSCTL,
        ..IoctlRequest::default()
    };
    let request = peer.request(Command::IOCTL, &body);
    peer.call(request)
}

/// Makes a world with the link `link`, and the client that made it.
fn world_with_link(dialect: Dialect, buffer: &[u8]) -> (World, Peer) {
    let world = World::new();
    let mut peer = Peer::ready(&world, dialect);
    let open = Create::new("link").options(CreateOptions::OPEN_REPARSE_POINT);
    let file_id = peer.create(&open).file_id;
    ioctl(&mut peer, FsctlCode::SET_REPARSE_POINT, file_id, buffer).ok();
    peer.close(file_id);
    (world, peer)
}

#[track_caller]
fn verify_error(data: &[u8]) {
    let error = SymbolicLinkError::decode(data).expect("it is whole");
    let want = SymbolicLinkError {
        unparsed_path_length: 0,
        flags: SymbolicLinkFlags::RELATIVE,
        substitute_name: &utf16::to_bytes("d\\target"),
        print_name: &utf16::to_bytes("shown d\\target"),
    };
    assert_eq!(error, want);
}

#[test]
fn an_open_stops_at_a_link_and_returns_its_target() {
    for dialect in [Dialect::SMB_2_0_2, Dialect::SMB_3_0_2, Dialect::SMB_3_1_1] {
        let (world, mut peer) = world_with_link(dialect, &link_to("d\\target"));
        let opens = world.store().open_count();
        let response = peer.try_create(&Create::open("link"));
        assert_eq!(response.outcome(), Reason::StoppedOnSymbolicLink);
        assert_eq!(world.store().open_count(), opens);
        let body: ErrorResponse<'_> = response.body();
        if dialect == Dialect::SMB_3_1_1 {
            let contexts: Vec<_> =
                ErrorContext::iter(body.error_data, body.error_context_count).collect();
            let [Ok(context)] = contexts[..] else { panic!("{contexts:?}") };
            assert_eq!(context.error_id, ErrorId::DEFAULT);
            verify_error(context.error_context_data);
        } else {
            assert_eq!(body.error_context_count, 0);
            verify_error(body.error_data);
        }
    }
}

#[test]
fn a_link_opened_itself_returns_its_reparse_point_until_that_is_deleted() {
    let written = link_to("d\\target");
    let (_world, mut peer) = world_with_link(Dialect::SMB_3_1_1, &written);
    let open = Create::open("link").options(CreateOptions::OPEN_REPARSE_POINT);
    let response = peer.try_create(&open).ok();
    let body: CreateResponse<'_> = response.body();
    assert!(body.flags.contains(CreateResponseFlags::REPARSEPOINT));
    assert!(body.file_attributes.contains(FileAttributes::REPARSE_POINT));
    let file_id = body.file_id;
    let response = ioctl(&mut peer, FsctlCode::GET_REPARSE_POINT, file_id, &[]).ok();
    assert_eq!(response.body::<IoctlResponse<'_>>().output, written);

    let mut delete = Vec::new();
    ReparseData { tag: ReparseTag::SYMLINK, data: &[] }.encode(&mut delete);
    ioctl(&mut peer, FsctlCode::DELETE_REPARSE_POINT, file_id, &delete).ok();
    let response = ioctl(&mut peer, FsctlCode::GET_REPARSE_POINT, file_id, &[]);
    assert_eq!(response.outcome(), NtStatus::NOT_A_REPARSE_POINT);
    peer.close(file_id);
    peer.try_create(&Create::open("link")).ok();
}
