//! Namespaces of DFS: [MS-SMB2] 3.3.5.4, 3.3.5.7, 3.3.5.9, 3.3.5.15.2; [MS-DFSC] 3.2.

use dtyp::NtStatus;
use dtyp::fscc::{ReparseData, ReparseTag, SymbolicLinkReparse};
use testkit::{Create, Peer, Response, World};
use trace::Reason;
use wire::header::HeaderFlags;
use wire::ioctl::{
    DfsReferralFlags, DfsReferralRequest, DfsReferralResponse, FsctlCode, IoctlFlags, IoctlRequest,
    IoctlResponse,
};
use wire::negotiate::{Capabilities, NegotiateResponse};
use wire::tree_connect::{ShareCapabilities, ShareFlags, TreeConnectResponse};
use wire::{Command, Dialect, FileId};

/// Makes a world with a namespace `dfs`, in which `deep\\link` leads to two other servers.
fn world() -> World {
    let world = World::with(|settings| settings.dfs = true);
    world.add_share("dfs", |share| share.is_dfs_root = true);
    world.add_file("dfs", "deep/file", b"here");
    world.add_link("dfs", "deep/link", "msdfs:one\\share,/two/share/sub");
    world
}

fn peer(world: &World) -> Peer {
    let mut peer = Peer::ready(world, Dialect::SMB_3_1_1);
    peer.tree("dfs");
    peer
}

fn ioctl(
    peer: &mut Peer,
    ctl_code: FsctlCode,
    file_id: FileId,
    input: &[u8],
    max_output_response: u32,
) -> Response {
    let flags = IoctlFlags::IS_FSCTL;
    let body =
        IoctlRequest { ctl_code, file_id, input, max_output_response, flags, ..Default::default() };
    let request = peer.request(Command::IOCTL, &body);
    peer.call(request)
}

fn ask(peer: &mut Peer, max_referral_level: u16, path: &str, room: u32) -> Response {
    let request = DfsReferralRequest { max_referral_level, request_file_name: path.to_owned() };
    let mut input = Vec::new();
    request.encode(&mut input);
    ioctl(peer, FsctlCode::DFS_GET_REFERRALS, FileId::ANY, &input, room)
}

#[track_caller]
fn referral(peer: &mut Peer, level: u16, path: &str) -> DfsReferralResponse {
    let response = ask(peer, level, path, 4_096).ok();
    let body: IoctlResponse<'_> = response.body();
    DfsReferralResponse::decode(body.output).expect("well-formed")
}

#[test]
fn a_server_without_namespaces_says_so_everywhere() {
    let world = World::new();
    let mut peer = world.connect();
    let response = peer.negotiate([Dialect::SMB_3_1_1]).ok();
    let body: NegotiateResponse<'_> = response.body();
    assert!(!body.capabilities.contains(Capabilities::DFS));
    peer.login_alice();
    let body: TreeConnectResponse = peer.try_tree("data").ok().body();
    assert!(!body.share_flags.intersects(ShareFlags::DFS | ShareFlags::DFS_ROOT));
    peer.tree("data");
    let status = ask(&mut peer, 4, "\\srv\\data\\link", 4_096).status();
    assert_eq!(status, NtStatus::FS_DRIVER_REQUIRED);
}

#[test]
fn a_namespace_shows_in_negotiate_and_in_the_tree_connect_of_its_root() {
    let world = world();
    let mut peer = world.connect();
    let response = peer.negotiate([Dialect::SMB_3_1_1]).ok();
    let body: NegotiateResponse<'_> = response.body();
    assert!(body.capabilities.contains(Capabilities::DFS));
    peer.login_alice();
    for (share, is_root) in [("dfs", true), ("data", false)] {
        let body: TreeConnectResponse = peer.try_tree(share).ok().body();
        let flags = ShareFlags::DFS | ShareFlags::DFS_ROOT;
        assert_eq!(body.share_flags.contains(flags), is_root, "{share}");
        assert_eq!(body.capabilities.contains(ShareCapabilities::DFS), is_root, "{share}");
    }
}

#[test]
fn a_root_leads_to_itself() {
    let mut peer = peer(&world());
    let response = referral(&mut peer, 3, "\\srv\\dfs");
    assert_eq!((response.version, response.is_root), (3, true));
    assert_eq!(
        response.flags,
        DfsReferralFlags::REFERRAL_SERVERS | DfsReferralFlags::STORAGE_SERVERS
    );
    assert_eq!(
        (&*response.dfs_path, &response.targets[..]),
        ("\\srv\\dfs", &["\\srv\\dfs".to_owned()][..])
    );
}

#[test]
fn a_link_leads_to_its_targets_and_the_rest_of_the_path_remains() {
    let mut peer = peer(&world());
    for (level, version) in [(1, 2), (2, 2), (3, 3), (4, 4), (9, 4)] {
        let response = referral(&mut peer, level, "\\srv\\dfs\\deep\\link\\a\\b");
        assert_eq!((response.version, response.is_root), (version, false));
        assert_eq!(response.flags, DfsReferralFlags::STORAGE_SERVERS);
        assert_eq!(response.dfs_path, "\\srv\\dfs\\deep\\link");
        assert_eq!(response.targets, ["\\one\\share", "\\two\\share\\sub"]);
    }
}

#[test]
fn a_path_without_a_link_has_no_referral() {
    let mut peer = peer(&world());
    for path in ["", "\\srv", "\\srv\\dfs\\deep\\link\\x\\..\\y"] {
        assert_eq!(ask(&mut peer, 4, path, 4_096).outcome(), Reason::NoSuchDfsPath, "{path}");
    }
    // The shares and the store say so of these.
    for path in ["data", "nothing", "dfs\\deep\\file", "dfs\\no\\way"] {
        let answer = ask(&mut peer, 4, &format!("\\srv\\{path}"), 4_096);
        assert_eq!(answer.outcome(), NtStatus::NOT_FOUND, "{path}");
    }
}

/// Otherwise every user with write access to a file could redirect all clients to a server of their
/// own.
#[test]
fn a_link_that_a_client_made_is_none_of_the_namespace() {
    let mut peer = peer(&world());
    let file_id = peer.create(&Create::new("deep\\planted")).file_id;
    let name = "msdfs:evil\\share".to_owned();
    let link =
        SymbolicLinkReparse { substitute_name: name.clone(), print_name: name, is_relative: true };
    let (mut data, mut input) = (Vec::new(), Vec::new());
    link.encode(&mut data);
    ReparseData { tag: ReparseTag::SYMLINK, data: &data }.encode(&mut input);
    ioctl(&mut peer, FsctlCode::SET_REPARSE_POINT, file_id, &input, 0).ok();
    let status = ask(&mut peer, 4, "\\srv\\dfs\\deep\\planted", 4_096).status();
    assert_eq!(status, NtStatus::NOT_FOUND);
}

#[test]
fn an_entry_is_never_cut() {
    let mut peer = peer(&world());
    let path = "\\srv\\dfs\\deep\\link";
    assert_eq!(ask(&mut peer, 3, path, 50).outcome(), Reason::ReferralTooLong);
    let response = ask(&mut peer, 3, path, 140).ok();
    let body: IoctlResponse<'_> = response.body();
    let fitting = DfsReferralResponse::decode(body.output).expect("whole");
    assert_eq!(fitting.targets, ["\\one\\share"]);
}

#[test]
fn a_client_of_a_namespace_names_the_whole_path() {
    let mut peer = peer(&world());
    for (name, is_dfs, status) in [
        ("srv\\dfs\\deep\\file", true, NtStatus::SUCCESS),
        ("srv\\dfs", true, NtStatus::SUCCESS),
        ("deep\\file", true, NtStatus::SUCCESS),
        ("deep\\file", false, NtStatus::SUCCESS),
        ("srv\\dfs\\deep\\file", false, NtStatus::OBJECT_PATH_NOT_FOUND),
    ] {
        let mut request = peer.request(Command::CREATE, &Create::open(name));
        if is_dfs {
            request = request.flags(HeaderFlags::DFS_OPERATIONS);
        }
        assert_eq!(peer.call(request).outcome(), status, "{name} {is_dfs}");
    }
}
