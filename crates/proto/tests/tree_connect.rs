//! TREE_CONNECT and TREE_DISCONNECT: [MS-SMB2] 3.3.5.7 and 3.3.5.8.

use dtyp::{AccessMask, NtStatus, utf16};
use proto::{Effect, ShareRefusal};
use testkit::{Create, Outcome, Peer, World};
use trace::Reason;
use wire::tree_connect::{ShareFlags, ShareType, TreeConnectRequest, TreeConnectResponse};
use wire::{Command, Dialect};

fn logged_on(world: &World) -> Peer {
    let mut peer = world.connect();
    peer.negotiate([Dialect::SMB_3_1_1]);
    peer.login_alice();
    peer
}

#[track_caller]
fn check_path(path: &[u8], want: impl Into<Outcome>) {
    let want = want.into();
    let mut peer = logged_on(&World::new());
    let body = TreeConnectRequest { path, ..TreeConnectRequest::default() };
    let request = peer.request(Command::TREE_CONNECT, &body);
    assert_eq!(peer.call(request).outcome(), want, "{}", path.escape_ascii());
}

#[test]
fn the_share_is_the_name_after_the_server() {
    for path in ["\\\\SERVER\\data", "\\\\other\\DATA", "\\server\\Data", "\\\\192.0.2.254\\data"] {
        check_path(&utf16::to_bytes(path), NtStatus::SUCCESS);
    }
}

#[test]
fn a_path_that_is_none_names_no_share() {
    let paths = [
        "",
        "data",
        "\\\\",
        "\\\\server",
        "\\\\server\\",
        "\\\\server\\data\\below",
        "\\\\server\\none",
    ];
    for path in paths {
        check_path(&utf16::to_bytes(path), Reason::NoSuchShare);
    }
    check_path(b"\\\0\\\0s", Reason::NoSuchShare);
    check_path(b"\\\0\\\0s\0\\\0\x00\xD8", Reason::NoSuchShare);
}

#[test]
fn a_disk_and_a_pipe_share_return_their_types() {
    let mut peer = logged_on(&World::new());
    let disk: TreeConnectResponse = peer.try_tree("data").ok().body();
    assert_eq!((disk.share_type, disk.maximal_access), (ShareType::DISK, AccessMask::FILE_ALL));
    assert!(!disk.share_flags.contains(ShareFlags::ENCRYPT_DATA));
    let pipe: TreeConnectResponse = peer.try_tree("IPC$").ok().body();
    assert_eq!(pipe.share_type, ShareType::PIPE);
    assert!(pipe.share_flags.contains(ShareFlags::NO_CACHING));
}

#[test]
fn a_share_that_may_only_be_read_grants_no_more() {
    let world = World::new();
    world.add_file("readonly", "file", b"data");
    let mut peer = logged_on(&world);
    let body: TreeConnectResponse = peer.try_tree("readonly").ok().body();
    assert!(!body.maximal_access.intersects(AccessMask::WRITE_DATA | AccessMask::DELETE));
    peer.tree("readonly");
    assert_eq!(peer.try_create(&Create::new("new")).outcome(), NtStatus::ACCESS_DENIED);
    assert_eq!(peer.try_create(&Create::open("file")).outcome(), NtStatus::ACCESS_DENIED);
    let reading = Create::open("file").access(AccessMask::FILE_GENERIC_READ);
    let file = peer.create(&reading).file_id;
    assert_eq!(peer.read(file, 0, 9), b"data");
    assert_eq!(peer.write(file, 0, b"x").outcome(), Reason::AccessNotGranted);
}

#[test]
fn each_refusal_has_its_reason() {
    for (refusal, want) in [
        (ShareRefusal::AccessDenied, Reason::ShareAccessDenied),
        (ShareRefusal::BadNetworkName, Reason::NoSuchShare),
        (ShareRefusal::TooManyConnections, Reason::TooManyConnections),
    ] {
        let world = World::new();
        world.refuse_share("data", refusal);
        assert_eq!(logged_on(&world).try_tree("data").outcome(), want);
    }
}

#[test]
fn each_tree_connect_has_an_id_of_its_own_and_opens_of_its_own() {
    let world = World::new();
    let mut peer = logged_on(&world);
    let first = peer.tree("data");
    let file = peer.create(&Create::open_if("file")).file_id;
    let second = peer.tree("data");
    assert_ne!(first, second);
    let request = peer.read_request(file, 0, 1);
    assert_eq!(peer.call(request).outcome(), Reason::NoSuchOpen);
    peer.tree_disconnect().ok();
    peer.tree_id = first;
    peer.write(file, 0, b"still there").ok();
}

#[test]
fn tree_disconnect_closes_the_opens_of_its_tree_connect_and_no_others() {
    let world = World::new();
    let mut peer = logged_on(&world);
    let first = peer.tree("data");
    let kept = peer.create(&Create::open_if("kept")).file_id;
    peer.tree("data");
    peer.create(&Create::open_if("closed"));
    peer.tree_disconnect().ok();
    let left = world.store().open_count();
    assert_eq!((left, world.open_count()), (1, 1));
    assert_eq!(peer.tree_disconnect().outcome(), Reason::NoSuchTreeConnect);
    peer.tree_id = first;
    peer.close(kept).ok();
}

#[test]
fn a_tree_connect_of_another_session_is_none() {
    let world = World::new();
    let mut peer = logged_on(&world);
    let tree_id = peer.tree("data");
    peer.session_id = 0;
    peer.login(testkit::accounts::BOB.0, testkit::accounts::BOB.1);
    peer.tree_id = tree_id;
    assert_eq!(peer.try_create(&Create::open_if("file")).outcome(), Reason::NoSuchTreeConnect);
    assert_eq!(peer.tree_disconnect().outcome(), Reason::NoSuchTreeConnect);
}

#[test]
fn a_session_has_at_most_4096_tree_connects_and_a_refused_one_gives_its_share_back() {
    let world = World::new();
    let mut peer = logged_on(&world);
    for _ in 0..4_096 {
        peer.tree("data");
    }
    assert_eq!(peer.try_tree("data").outcome(), Reason::TooManyTreeConnects);
    peer.tree_disconnect().ok();
    peer.tree("data");
    peer.disconnect();
    world.assert_nothing_left();
}

#[test]
fn a_share_that_comes_too_late_is_given_back() {
    for logs_off in [true, false] {
        let world = World::new();
        let mut peer = logged_on(&world);
        world.delay_replies(|effect| matches!(effect, Effect::ConnectShare(_)));
        let request = peer.tree_request("data");
        peer.send(request);
        if logs_off {
            peer.logoff().ok();
        }
        peer.disconnect();
        world.release_all();
        world.assert_nothing_left();
    }
}

#[test]
fn a_pipe_share_has_pipes_and_no_files() {
    let world = World::new();
    let mut peer = logged_on(&world);
    peer.tree("IPC$");
    assert_eq!(peer.try_create(&Create::open("file")).outcome(), Reason::NoSuchPipe);
    let pipe = peer.create(&Create::open("srvsvc")).file_id;
    peer.close(pipe).ok();
    assert_eq!(peer.close(pipe).outcome(), Reason::NoSuchOpen);
}
