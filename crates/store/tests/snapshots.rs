//! Earlier versions of a share.

mod support;

use bytes::Bytes;
use dtyp::{AccessMask, FileAttributes, FileTime, NtStatus};
use object::{
    BasicChange, Disposition, LocalOpen, ObjectOp, ObjectPath, ObjectReply, OpenRequest,
    RequestedKind,
};
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use store::{
    NameFormat, NamePrefix, RootSettings, SnapshotDirectory, SnapshotNames, SnapshotOrder,
    SnapshotSettings,
};
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
        everywhere: Vec::new(),
        directories: vec![SnapshotDirectory {
            path: folder.join("snapshots"),
            share: PathBuf::from("base/data"),
            is_in_share: false,
        }],
        names: vec![format(None, "@GMT-%Y.%m.%d-%H.%M.%S")],
        order: SnapshotOrder::Descending,
        owner: None,
    }
}

/// Names with a UTC time, and with an expression and a delimiter before it.
fn format(prefix: Option<(&str, &str)>, format: &str) -> SnapshotNames {
    let prefix = prefix.map(|(expression, delimiter)| {
        NamePrefix::new(expression, delimiter).expect("an expression")
    });
    let format = CString::new(format).expect("no zero");
    SnapshotNames::Format(NameFormat { prefix, format, local_time: false })
}

/// A share with `.snapshots` in each directory, and in the one above it.
fn share_with_snapshots_everywhere(names: Vec<SnapshotNames>) -> Share {
    share_of_owner_with_snapshots_everywhere(names, None)
}

/// Likewise, if its folder must have this owner in a snapshot.
fn share_of_owner_with_snapshots_everywhere(
    names: Vec<SnapshotNames>,
    owner: Option<u32>,
) -> Share {
    Share::with(|root| {
        let above = root.path.parent().expect("the folder of the test").join(".snapshots");
        root.snapshots = Some(SnapshotSettings {
            everywhere: vec![PathBuf::from(".snapshots")],
            directories: vec![SnapshotDirectory {
                path: above,
                share: PathBuf::from("share"),
                is_in_share: false,
            }],
            names,
            order: SnapshotOrder::Descending,
            owner,
        });
    })
}

/// A file of the host, with the directories above it.
fn make(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().expect("it is in a directory")).expect("ours");
    std::fs::write(path, content).expect("ours");
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

/// Takes a lease of the kernel, as another program has it, whose break is reported to nobody.
fn lease(file: &std::fs::File) {
    let commands = [(libc::F_SETLEASE, libc::F_WRLCK), (libc::F_SETOWN, 0)];
    for (command, argument) in commands {
        // SAFETY: these calls have a number for an argument, and no effect on memory.
        let result = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }
}

/// A snapshot of hard links has present files.
#[test]
fn a_lease_of_another_program_on_a_file_of_a_snapshot_delays_nobody() {
    let mut share = share_with(|_| {});
    let in_snapshot = share.folder.path().join("snapshots").join(TOKENS[0]).join("base/data/f");
    let file = std::fs::File::open(&in_snapshot).expect("ours");
    lease(&file);
    let mut request = share.request("x");
    at("f", TOKENS[0])(&mut request);
    let opened = share.run(ObjectOp::Open(Box::new(request)));
    assert!(matches!(opened, Ok(ObjectReply::Leased(_))), "{opened:?}");
    drop(file);
    let opened = share.try_open("x", at("f", TOKENS[0])).expect("the lease has ended");
    assert_eq!(content(&mut share, opened.open), TOKENS[0]);
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
        snapshots.names = vec![format(None, "day-%Y-%m-%d")];
        snapshots.directories[0].share = PathBuf::new();
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
        verify_locks: false,
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
        let shown = format!("{op:?}");
        assert_eq!(share.run(op).expect_err(&shown), want, "{shown}");
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

/// A user may have put a folder where another user's was: the earlier versions are the other's.
#[test]
fn a_snapshot_in_which_the_folder_has_another_owner_has_no_version_of_it() {
    let own = rustix::process::geteuid().as_raw();
    let mut share = share_with(|settings| settings.owner = Some(own));
    let open = share.open("f");
    assert_eq!(snapshots(&mut share, open).len(), TOKENS.len());
    share.try_open("x", at("f", TOKENS[0])).expect("it was the user's");
    if give_away(&share.folder.path().join("snapshots").join(TOKENS[0]).join("base/data")).is_some()
    {
        assert_eq!(share.status_of("x", at("f", TOKENS[0])), NtStatus::OBJECT_NAME_NOT_FOUND);
        assert_eq!(snapshots(&mut share, open), [time(TOKENS[2]), time(TOKENS[1])]);
    }
    let mut share = share_with(|settings| settings.owner = Some(own + 1));
    let open = share.open("f");
    assert_eq!(snapshots(&mut share, open), []);
    assert_eq!(share.status_of("x", at("f", TOKENS[0])), NtStatus::OBJECT_NAME_NOT_FOUND);
    assert_eq!(share.status_of("x", at("", TOKENS[0])), NtStatus::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn an_image_of_a_folder_in_the_share_has_to_have_the_owner_that_the_folder_has() {
    let names = vec![format(None, "@GMT-%Y.%m.%d-%H.%M.%S")];
    let own = rustix::process::geteuid().as_raw();
    let mut share = share_of_owner_with_snapshots_everywhere(names, Some(own));
    let image = share.host(&format!("a/.snapshots/{}", TOKENS[0]));
    make(&share.host("a/f"), "now");
    make(&image.join("f"), "then");
    share.try_open("x", at("a\\f", TOKENS[0])).expect("one user has both");
    let Some(()) = give_away(&image) else { return };
    let not_found = NtStatus::OBJECT_NAME_NOT_FOUND;
    assert_eq!(share.status_of("x", at("a\\f", TOKENS[0])), not_found);
    give_away(&share.host("a")).expect("we are root");
    share.try_open("x", at("a\\f", TOKENS[0])).expect("one user has both");
}

#[test]
fn a_name_with_a_prefix_is_found_by_its_time() {
    let mut share = share_with_snapshots_everywhere(vec![format(
        Some(("^auto[a-z]*$", "_")),
        "_%Y-%m-%d_%H:%M:%S",
    )]);
    share.local("f", "now");
    for name in [
        "autosnap_2024-02-29_12:30:00_hourly",
        "autosnap_2024-02-29_12:30:00_daily",
        "autosnap_2024-03-01_00:00:00",
        "autosnap2_2024-03-02_00:00:00",
        "autosnap-2024-03-03_00:00:00",
        "autosnap_yesterday",
    ] {
        make(&share.host(&format!(".snapshots/{name}/f")), name.get(..19).unwrap_or(name));
    }
    let open = share.open("f");
    let tokens = ["@GMT-2024.03.01-00.00.00", "@GMT-2024.02.29-12.30.00"];
    assert_eq!(snapshots(&mut share, open), tokens.map(time), "each time once");
    for _ in 0..2 {
        let opened = share.try_open("x", at("f", tokens[1])).expect("it was there");
        assert_eq!(content(&mut share, opened.open), "autosnap_2024-02-29");
    }
    let status = share.status_of("x", at("f", "@GMT-2024.03.02-00.00.00"));
    assert_eq!(status, NtStatus::OBJECT_NAME_NOT_FOUND);
    // The name that was found last may be gone, and another one have its time.
    for label in ["hourly", "daily"] {
        let name = format!(".snapshots/autosnap_2024-02-29_12:30:00_{label}");
        std::fs::rename(share.host(&name), share.host(&format!("{name}_kept"))).expect("ours");
        let opened = share.try_open("x", at("f", tokens[1])).expect("it was there");
        assert_eq!(content(&mut share, opened.open), "autosnap_2024-02-29");
    }
}

#[test]
fn the_nearest_directory_of_snapshots_counts() {
    let mut share = share_with_snapshots_everywhere(vec![format(None, "@GMT-%Y.%m.%d-%H.%M.%S")]);
    let above = share.folder.path().join(".snapshots");
    make(&above.join(TOKENS[0]).join("share/a/f"), "above");
    make(&share.host(&format!(".snapshots/{}/A/f", TOKENS[0])), "of another case");
    make(&share.host(&format!(".snapshots/{}/a/f", TOKENS[0])), "of the share");
    make(&share.host(&format!(".snapshots/{}/a/b/f", TOKENS[1])), "of the share");
    make(&share.host(&format!("a/.snapshots/{}/b/f", TOKENS[1])), "of a");
    make(&share.host("a/b/f"), "now");
    make(&share.host("a/f"), "now");

    // The listing is of one directory, that of `a`.
    let open = share.open("a\\b\\f");
    assert_eq!(snapshots(&mut share, open), [time(TOKENS[1])]);
    let opened = share.try_open("x", at("A\\B\\F", TOKENS[1])).expect("it was there");
    assert_eq!(opened.path.to_windows(), "a\\b\\f", "the path is that in the share");
    assert_eq!(content(&mut share, opened.open), "of a");
    assert_eq!(snapshots(&mut share, opened.open), [time(TOKENS[1])]);
    let token = TOKENS[1];
    let open = share.open(&format!("a\\{token}\\b\\f"));
    assert_eq!(content(&mut share, open), "of a");
    let opened = share.try_open("x", at("a\\b", TOKENS[1])).expect("it was there");
    let entries = share.entries(opened.open, true, 100);
    assert!(entries.iter().any(|entry| entry.name == "f"), "{entries:?}");

    // Where the nearest has no such time or file, those above it are asked.
    let opened = share.try_open("x", at("a\\f", TOKENS[0])).expect("it was there");
    assert_eq!(content(&mut share, opened.open), "of the share");
    std::fs::remove_dir_all(share.host(&format!(".snapshots/{}", TOKENS[0]))).expect("ours");
    let opened = share.try_open("x", at("a\\f", TOKENS[0])).expect("it was there");
    assert_eq!(content(&mut share, opened.open), "above");
    assert_eq!(share.status_of("x", at("a\\g", TOKENS[0])), NtStatus::OBJECT_NAME_NOT_FOUND);
    assert_eq!(share.status_of("x", at("a\\f", TOKENS[2])), NtStatus::OBJECT_NAME_NOT_FOUND);

    // A deleted folder is found in the snapshots above it.
    std::fs::remove_dir_all(share.host("a")).expect("ours");
    let opened = share.try_open("x", at("a\\b\\f", TOKENS[1])).expect("it was there");
    assert_eq!(content(&mut share, opened.open), "of the share");
}

#[test]
fn nothing_is_changed_in_a_snapshot_of_a_directory() {
    let mut share = share_with_snapshots_everywhere(vec![format(None, "@GMT-%Y.%m.%d-%H.%M.%S")]);
    make(&share.host("a/f"), "now");
    make(&share.host(&format!("a/.snapshots/{}/f", TOKENS[0])), "then");
    for (path, disposition) in [("a\\f", Disposition::Overwrite), ("a\\new", Disposition::Create)] {
        let status = share.status_of("x", |request| {
            at(path, TOKENS[0])(request);
            request.disposition = disposition;
            request.desired_access = READ | WRITE;
        });
        assert_eq!(status, NtStatus::MEDIA_WRITE_PROTECTED, "{path}");
    }
}

/// Users could make such directories and links in the share, and be led out of it.
#[test]
fn directories_and_links_of_users_are_no_snapshots_of_a_directory() {
    let mut share = share_with_snapshots_everywhere(vec![format(None, "@GMT-%Y.%m.%d-%H.%M.%S")]);
    make(&share.host("a/f"), "now");
    make(&share.folder.path().join("secret/f"), "secret");
    make(&share.host(&format!(".snapshots/{}/a/f", TOKENS[0])), "then");
    let snapshots_of_a = share.host("a/.snapshots");
    std::fs::create_dir(&snapshots_of_a).expect("ours");
    std::os::unix::fs::symlink(share.folder.path().join("secret"), snapshots_of_a.join(TOKENS[1]))
        .expect("a link");
    if give_away(&snapshots_of_a.join(TOKENS[1])).is_none() {
        // The server's user may be the one that clients make links as.
        assert_eq!(share.status_of("x", at("a\\f", TOKENS[1])), NtStatus::ACCESS_DENIED);
        return;
    }
    assert_eq!(share.status_of("x", at("a\\f", TOKENS[1])), NtStatus::ACCESS_DENIED);
    let open = share.open("a\\f");
    assert_eq!(snapshots(&mut share, open), []);
    // The directory of somebody else does not count, and the next one does.
    give_away(&snapshots_of_a).expect("we are root");
    assert_eq!(snapshots(&mut share, open), [time(TOKENS[0])]);
    assert_eq!(share.status_of("x", at("a\\f", TOKENS[1])), NtStatus::OBJECT_NAME_NOT_FOUND);
    // Nor does a link to another directory of snapshots.
    std::fs::remove_dir_all(&snapshots_of_a).expect("ours");
    std::os::unix::fs::symlink("../.snapshots", &snapshots_of_a).expect("a link");
    give_away(&snapshots_of_a).expect("we are root");
    assert_eq!(share.status_of("x", at("a\\f", TOKENS[2])), NtStatus::ACCESS_DENIED);
}

/// `NUMBER/snapshot` and `NUMBER/info.xml`, as snapper has them.
fn make_snapper(directory: &Path, number: &str, date: &str, content: &str) {
    make(&directory.join(number).join("snapshot/f"), content);
    let info = directory.join(number).join("info.xml");
    let text = format!("<?xml version=\"1.0\"?>\n<snapshot>\n  <date>{date}</date>\n</snapshot>\n");
    make(&info, &text);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(info, mode).expect("ours");
}

#[test]
fn snapshots_of_snapper_have_the_times_of_their_files() {
    let mut share = share_with_snapshots_everywhere(vec![SnapshotNames::Snapper]);
    share.local("f", "now");
    let directory = share.host(".snapshots");
    make_snapper(&directory, "9", "2020-01-01 00:00:00", "first");
    make_snapper(&directory, "10", "2021-06-30 12:34:56", "second");
    make_snapper(&directory, "11", "soon", "no time");
    make_snapper(&directory, "x1", "2022-12-31 23:59:59", "no number");
    std::fs::create_dir(directory.join("12")).expect("ours");
    // The user may list the directory, not read the files with the times.
    if let Some(stranger) = share.stranger() {
        share.user = stranger;
    }
    let open = share.open_for("f", READ);
    assert_eq!(snapshots(&mut share, open), [time(TOKENS[1]), time(TOKENS[0])]);
    let opened = share.try_open("x", |request| {
        at("f", TOKENS[0])(request);
        request.desired_access = READ;
    });
    assert_eq!(content(&mut share, opened.expect("it was there").open), "first");
    assert_eq!(share.status_of("x", at("f", TOKENS[2])), NtStatus::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn a_user_without_rights_on_the_snapshots_sees_none() {
    let mut share = share_with_snapshots_everywhere(vec![SnapshotNames::Snapper]);
    share.local("f", "now");
    let directory = share.host(".snapshots");
    make_snapper(&directory, "1", "2020-01-01 00:00:00", "first");
    let Some(stranger) = share.stranger() else { return };
    share.user = stranger;
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&directory, mode(0o750)).expect("ours");
    let open = share.open_for("f", READ);
    let listed = share.run(ObjectOp::ListSnapshots { open });
    assert_eq!(listed.expect_err("it may not be listed"), NtStatus::ACCESS_DENIED);
    assert_eq!(share.status_of("x", at("f", TOKENS[0])), NtStatus::ACCESS_DENIED);
    // The file that tells the time of a snapshot has to be root's.
    share.store.revert_to_server();
    std::fs::set_permissions(&directory, mode(0o755)).expect("ours");
    assert_eq!(snapshots(&mut share, open), [time(TOKENS[0])]);
    share.store.revert_to_server();
    give_away(&directory.join("1/info.xml")).expect("we are root");
    assert_eq!(snapshots(&mut share, open), []);
}

/// A server that is not root makes files of clients with its own user.
#[test]
fn a_link_that_a_client_may_have_made_in_the_share_is_no_snapshot() {
    let mut share = Share::with(|root| {
        let mut snapshots = settings_in(root);
        snapshots.directories = vec![SnapshotDirectory {
            path: root.path.join(".snapshots"),
            share: PathBuf::new(),
            is_in_share: true,
        }];
        root.snapshots = Some(snapshots);
    });
    share.local("f", "now");
    let directory = share.host(".snapshots");
    make(&directory.join(TOKENS[1]).join("f"), "then");
    make(&share.folder.path().join("secret/f"), "secret");
    std::os::unix::fs::symlink("../../secret", directory.join(TOKENS[0])).expect("a link");
    let _ = give_away(&directory.join(TOKENS[0]));
    assert_eq!(share.status_of("x", at("f", TOKENS[0])), NtStatus::ACCESS_DENIED);
    let open = share.open("f");
    assert_eq!(snapshots(&mut share, open), [time(TOKENS[1])]);
}
