//! Earlier versions of a share.

mod support;

use bytes::Bytes;
use dtyp::{AccessMask, FileAttributes, FileTime, NtStatus};
use object::{
    BasicChange, Disposition, LocalOpen, ObjectOp, ObjectPath, ObjectReply, OpenRequest,
    RequestedKind,
};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use store::{RootSettings, SnapshotOrder, SnapshotSettings};
use support::{DELETE, READ, Share, WRITE, is_root};

/// Names of snapshots, oldest first.
const TOKENS: [&str; 3] =
    ["@GMT-2020.01.01-00.00.00", "@GMT-2021.06.30-12.34.56", "@GMT-2022.12.31-23.59.59"];

fn time(token: &str) -> FileTime {
    FileTime::from_gmt_token(token).expect("a token")
}

fn settings_in(root: &RootSettings) -> SnapshotSettings {
    let folder = root.path.parent().expect("the folder of the test");
    SnapshotSettings {
        directory: folder.join("snapshots"),
        share: PathBuf::from("base/data"),
        format: CString::new("@GMT-%Y.%m.%d-%H.%M.%S").expect("no zero"),
        local_time: false,
        order: SnapshotOrder::Descending,
    }
}

/// A share with a file `f` now, and with the text of its name in each snapshot. The file `old` is
/// in the first alone.
fn share_with(change: impl FnOnce(&mut SnapshotSettings)) -> Share {
    let mut share = Share::with(|root| {
        let mut snapshots = settings_in(root);
        change(&mut snapshots);
        root.snapshots = Some(snapshots);
    });
    share.local("f", "now");
    for token in TOKENS {
        let folder = share.folder.path().join("snapshots").join(token).join("base/data/d");
        std::fs::create_dir_all(&folder).expect("ours");
        std::fs::write(folder.join("../f"), token).expect("ours");
        std::fs::write(folder.join("inner"), token).expect("ours");
    }
    let first = share.folder.path().join("snapshots").join(TOKENS[0]).join("base/data/old");
    std::fs::write(first, "old").expect("ours");
    // Things that are no snapshots.
    std::fs::create_dir(share.folder.path().join("snapshots/other")).expect("ours");
    std::fs::create_dir(share.folder.path().join("snapshots/@GMT-2020.02.30-00.00.00"))
        .expect("ours");
    share
}

fn at(path: &str, token: &str) -> impl FnOnce(&mut OpenRequest) + use<> {
    let path = ObjectPath::parse(path).expect("a path").with_snapshot(Some(time(token)));
    |request| request.path = path
}

#[track_caller]
fn content(share: &mut Share, open: LocalOpen) -> String {
    String::from_utf8(share.read(open, 0, 100)).expect("text")
}

#[track_caller]
fn snapshots(share: &mut Share, open: LocalOpen) -> Vec<FileTime> {
    match share.run(ObjectOp::ListSnapshots { open }) {
        Ok(ObjectReply::Snapshots(snapshots)) => snapshots,
        other => panic!("not listed: {other:?}"),
    }
}

#[test]
fn a_file_is_opened_as_it_was() {
    let mut share = share_with(|_| {});
    for token in TOKENS {
        let opened = share.try_open("x", at("f", token)).expect("it was there");
        assert_eq!(content(&mut share, opened.open), token);
        assert_eq!(opened.path.snapshot(), Some(time(token)));
        for path in [format!("{token}\\d\\inner"), format!("d\\{token}\\INNER")] {
            let open = share.open(&path);
            assert_eq!(content(&mut share, open), token, "{path}");
        }
    }
    let open = share.open("f");
    assert_eq!(content(&mut share, open), "now");
    let opened = share.try_open("x", at("", TOKENS[0])).expect("the root");
    let mut names: Vec<String> =
        share.entries(opened.open, true, 100).into_iter().map(|entry| entry.name).collect();
    names.sort();
    assert_eq!(names, [".", "..", "d", "f", "old"]);
}

#[test]
fn a_file_missing_in_the_snapshot_is_not_found() {
    let mut share = share_with(|_| {});
    let not_found = NtStatus::OBJECT_NAME_NOT_FOUND;
    assert_eq!(share.status_of("x", at("old", TOKENS[1])), not_found);
    assert_eq!(share.status_of("x", at("f", "@GMT-2020.01.01-00.00.01")), not_found);
    assert_eq!(share.status_of("x", at("d\\none\\f", TOKENS[1])), NtStatus::OBJECT_PATH_NOT_FOUND);
    let mut plain = Share::new();
    plain.local("f", "now");
    assert_eq!(plain.status_of("x", at("f", TOKENS[0])), not_found);
}

#[test]
fn snapshots_that_contain_the_file_are_listed() {
    for (order, want) in
        [(SnapshotOrder::Descending, [2, 1, 0]), (SnapshotOrder::Ascending, [0, 1, 2])]
    {
        let mut share = share_with(|settings| settings.order = order);
        let open = share.open("f");
        assert_eq!(snapshots(&mut share, open), want.map(|index| time(TOKENS[index])));
    }
    let mut share = share_with(|_| {});
    share.local("old", "");
    let open = share.open("old");
    assert_eq!(snapshots(&mut share, open), [time(TOKENS[0])]);
    let root = share.open("");
    assert_eq!(snapshots(&mut share, root).len(), 3);
    share.local("new", "");
    let open = share.open("new");
    assert_eq!(snapshots(&mut share, open), []);
}

#[test]
fn names_of_snapshots_follow_their_format() {
    let mut share = Share::with(|root| {
        let mut snapshots = settings_in(root);
        snapshots.format = CString::new("day-%Y-%m-%d").expect("no zero");
        snapshots.share = PathBuf::new();
        root.snapshots = Some(snapshots);
    });
    share.local("f", "now");
    let folder = share.folder.path().join("snapshots/day-2024-02-29");
    std::fs::create_dir_all(&folder).expect("ours");
    std::fs::write(folder.join("f"), "then").expect("ours");
    let open = share.open("f");
    let token = "@GMT-2024.02.29-00.00.00";
    assert_eq!(snapshots(&mut share, open), [time(token)]);
    let opened = share.try_open("x", at("f", token)).expect("it was there");
    assert_eq!(content(&mut share, opened.open), "then");
}

#[test]
fn a_file_in_a_snapshot_is_another_file() {
    let mut share = share_with(|_| {});
    let now = share.open("f");
    let mut numbers = vec![share.metadata(now).identity];
    for token in TOKENS {
        let opened = share.try_open("x", at("f", token)).expect("it was there");
        let identity = opened.metadata.identity;
        assert_eq!(share.metadata(opened.open).identity, identity);
        let root = share.try_open("x", at("", token)).expect("the root").open;
        let entries = share.entries(root, true, 100);
        let entry = entries.iter().find(|entry| entry.name == "f").expect("it is listed");
        assert_eq!(entry.metadata.as_ref().expect("asked for").identity, identity);
        assert!(!numbers.contains(&identity));
        numbers.push(identity);
    }
}

#[test]
fn nothing_is_made_or_emptied_in_a_snapshot() {
    let mut share = share_with(|_| {});
    let protected = NtStatus::MEDIA_WRITE_PROTECTED;
    for (path, disposition, want) in [
        ("f", Disposition::Open, NtStatus::SUCCESS),
        ("f", Disposition::OpenIf, NtStatus::SUCCESS),
        ("f", Disposition::Overwrite, protected),
        ("f", Disposition::OverwriteIf, protected),
        ("f", Disposition::Supersede, protected),
        ("new", Disposition::Create, protected),
        ("new", Disposition::OpenIf, protected),
        ("new", Disposition::Supersede, protected),
        ("f:new", Disposition::OpenIf, protected),
    ] {
        for kind in [RequestedKind::Any, RequestedKind::Directory] {
            if kind == RequestedKind::Directory && path != "new" {
                continue;
            }
            let status = share.status_of("x", |request| {
                at(path, TOKENS[1])(request);
                request.disposition = disposition;
                request.kind = kind;
                request.desired_access = READ | WRITE;
            });
            assert_eq!(status, want, "{path} {disposition:?}");
        }
    }
    let status = share.status_of("x", |request| {
        at("f", TOKENS[1])(request);
        request.desired_access = READ | DELETE;
        request.delete_on_close = true;
    });
    assert_eq!(status, protected);
}

/// Windows grants the rights that the file's owner would have, and refuses their use.
#[test]
fn nothing_is_changed_in_a_snapshot() {
    let mut share = share_with(|_| {});
    let opened = share.try_open("x", |request| {
        at("f", TOKENS[1])(request);
        request.desired_access = READ | WRITE | DELETE;
    });
    let opened = opened.expect("it was there");
    let open = opened.open;
    assert!(opened.granted_access.contains(AccessMask::WRITE_DATA | DELETE));
    let target = ObjectPath::parse("other").expect("a path");
    let write = ObjectOp::Write {
        open,
        offset: 0,
        data: Bytes::from_static(b"x"),
        piped: None,
        write_through: false,
    };
    let basic = BasicChange { attributes: Some(FileAttributes::HIDDEN), ..BasicChange::default() };
    let protected = NtStatus::MEDIA_WRITE_PROTECTED;
    for (op, want) in [
        (write, protected),
        (ObjectOp::SetBasic { open, basic: basic.into() }, protected),
        (ObjectOp::SetEndOfFile { open, size: 0 }, protected),
        (ObjectOp::SetAllocation { open, size: 0 }, protected),
        (ObjectOp::SetSparse { open, sparse: true }, protected),
        (ObjectOp::ZeroRange { open, from: 0, to: 1 }, protected),
        (ObjectOp::Trim { open, from: 0, to: 4_096 }, protected),
        (ObjectOp::SetCompression { open, compressed: true }, protected),
        (
            ObjectOp::Rename { open, target: target.clone().into(), replace: false },
            NtStatus::NOT_SAME_DEVICE,
        ),
        (ObjectOp::Link { open, target: target.into(), replace: false }, NtStatus::NOT_SAME_DEVICE),
    ] {
        let told = format!("{op:?}");
        assert_eq!(share.run(op).expect_err(&told), want, "{told}");
    }
    assert_eq!(share.unlink(open), Err(protected));
    let opened = share.try_open("x", at("f", TOKENS[1])).expect("it is there still");
    assert_eq!(content(&mut share, opened.open), TOKENS[1]);
}

#[test]
fn links_do_not_lead_out_of_a_snapshot() {
    let mut share = share_with(|_| {});
    let snapshot = share.folder.path().join("snapshots").join(TOKENS[0]).join("base/data");
    std::os::unix::fs::symlink("../../../../share/f", snapshot.join("out")).expect("a link");
    std::os::unix::fs::symlink("f", snapshot.join("inside")).expect("a link");
    assert_eq!(share.status_of("x", at("out", TOKENS[0])), NtStatus::STOPPED_ON_SYMLINK);
    let opened = share.try_open("x", at("inside", TOKENS[0])).expect("it was there");
    assert_eq!(content(&mut share, opened.open), TOKENS[0]);
}

/// Gives a directory or link to a user who is not the server's. `None`: that needs root.
fn give_away(path: &Path) -> Option<()> {
    is_root().then(|| std::os::unix::fs::lchown(path, Some(12_345), None).expect("we are root"))
}

#[test]
fn a_snapshot_that_somebody_else_has_linked_is_not_there() {
    let mut share = share_with(|_| {});
    let folder = share.folder.path().join("snapshots");
    let token = "@GMT-2023.01.01-00.00.00";
    let elsewhere = share.folder.path().join("elsewhere/base/data");
    std::fs::create_dir_all(&elsewhere).expect("ours");
    std::fs::write(elsewhere.join("f"), "secret").expect("ours");
    std::os::unix::fs::symlink("../elsewhere", folder.join(token)).expect("a link");
    // The administrator's own links are for them to decide.
    let opened = share.try_open("x", at("f", token)).expect("it is ours");
    assert_eq!(content(&mut share, opened.open), "secret");
    if give_away(&folder.join(token)).is_none() {
        return;
    }
    assert_eq!(share.status_of("x", at("f", token)), NtStatus::ACCESS_DENIED);
    let open = share.open("f");
    assert_eq!(snapshots(&mut share, open).len(), TOKENS.len());
    // Nor one where the share itself is somebody's link.
    let data = folder.join(TOKENS[0]).join("base/data");
    std::fs::rename(&data, data.with_extension("moved")).expect("ours");
    std::os::unix::fs::symlink(&elsewhere, &data).expect("a link");
    give_away(&data).expect("we are root");
    assert_eq!(share.status_of("x", at("f", TOKENS[0])), NtStatus::ACCESS_DENIED);
    assert_eq!(snapshots(&mut share, open).len(), TOKENS.len() - 1);
}

#[test]
fn a_directory_of_snapshots_that_somebody_else_has_made_holds_none() {
    let mut share = share_with(|_| {});
    if give_away(&share.folder.path().join("snapshots")).is_none() {
        return;
    }
    assert_eq!(share.status_of("x", at("f", TOKENS[0])), NtStatus::OBJECT_NAME_NOT_FOUND);
    let open = share.open("f");
    assert_eq!(snapshots(&mut share, open), []);
}
