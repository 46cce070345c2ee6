//! Reparse points: links that clients follow, and links of the host.

mod support;

use bytes::Bytes;
use dtyp::fscc::{ReparseData, ReparseTag, SymbolicLinkReparse};
use dtyp::{AccessMask, FileAttributes, NtStatus};
use object::{Disposition, LocalOpen, ObjectOp, ObjectReply, ObjectResult, Opened, SymbolicLink};
use std::os::unix::fs::symlink;
use support::{READ, Share, WRITE};

fn link_to(name: &str) -> SymbolicLinkReparse {
    let name = name.to_owned();
    SymbolicLinkReparse { substitute_name: name.clone(), print_name: name, is_relative: true }
}

fn buffer(link: &SymbolicLinkReparse) -> Bytes {
    let (mut data, mut buffer) = (Vec::new(), Vec::new());
    link.encode(&mut data);
    ReparseData { tag: ReparseTag::SYMLINK, data: &data }.encode(&mut buffer);
    buffer.into()
}

/// Returns the link at which an open stops.
#[track_caller]
fn stopped(share: &mut Share, path: &str) -> SymbolicLink {
    let request = share.request(path);
    match share.run(ObjectOp::Open(Box::new(request))) {
        Ok(ObjectReply::Stopped(link)) => *link,
        other => panic!("{path} does not stop: {other:?}"),
    }
}

fn open_itself(share: &mut Share, path: &str) -> Opened {
    let opened = share.try_open(path, |request| {
        request.open_reparse_point = true;
        request.desired_access = AccessMask::READ_ATTRIBUTES | AccessMask::WRITE_ATTRIBUTES;
    });
    opened.expect("the link itself")
}

#[track_caller]
fn read(share: &mut Share, open: LocalOpen) -> Result<Vec<u8>, NtStatus> {
    match share.run(ObjectOp::ReadReparsePoint { open }) {
        Ok(ObjectReply::ReparsePoint(buffer)) => Ok(buffer),
        Err(status) => Err(status),
        other => panic!("not read: {other:?}"),
    }
}

fn write(share: &mut Share, open: LocalOpen, buffer: Bytes) -> ObjectResult {
    share.run(ObjectOp::WriteReparsePoint { open, buffer })
}

#[test]
fn a_link_of_the_host_is_a_reparse_point_when_it_is_opened_itself() {
    let mut share = Share::new();
    share.local_directory("d");
    symlink("../a/b", share.host("d/relative")).expect("a link");
    symlink("/etc/passwd", share.host("absolute")).expect("a link");
    for (path, target, is_relative) in
        [("d\\relative", "..\\a\\b", true), ("absolute", "\\etc\\passwd", false)]
    {
        let opened = open_itself(&mut share, path);
        assert_eq!(opened.metadata.reparse_tag, ReparseTag::SYMLINK.0);
        let want = SymbolicLinkReparse { is_relative, ..link_to(target) };
        assert_eq!(read(&mut share, opened.open), Ok(buffer(&want).to_vec()));
    }
    let file = share.create("file");
    assert_eq!(read(&mut share, file), Err(NtStatus::NOT_A_REPARSE_POINT));
}

#[test]
fn a_path_stops_at_the_link_that_is_not_followed() {
    let mut share = Share::new();
    share.local_directory("d/e");
    symlink("..", share.host("up")).expect("a link");
    symlink("e", share.host("d/inside")).expect("a link");
    symlink("../../../x", share.host("d/e/out")).expect("a link");
    for (path, target, unparsed_path) in [
        ("up", "..", ""),
        ("UP\\a\\b", "..", "\\a\\b"),
        ("d\\inside\\out\\y", "..\\..\\..\\x", "\\y"),
    ] {
        let want = SymbolicLink { link: link_to(target), unparsed_path: unparsed_path.to_owned() };
        assert_eq!(stopped(&mut share, path), want, "{path}");
    }
}

#[test]
fn a_written_reparse_point_is_stored_as_in_samba() {
    let mut share = Share::new();
    let open = share.create("link");
    let written = buffer(&link_to("d\\target"));
    write(&mut share, open, written.clone()).expect("it becomes a link");
    assert_eq!(read(&mut share, open), Ok(written.to_vec()));
    assert_eq!(share.attribute("link", "user.SmbReparse").as_deref(), Some(&written[..]));
    let metadata = share.metadata(open);
    assert!(metadata.attributes.contains(FileAttributes::REPARSE_POINT));
    assert_eq!(metadata.reparse_tag, ReparseTag::SYMLINK.0);
    share.close(open);

    let root = share.open("");
    let entries = share.entries(root, true, 10);
    let entry = entries.iter().find(|entry| entry.name == "link").expect("it is listed");
    let listed = entry.metadata.as_ref().expect("asked for");
    assert_eq!(listed.reparse_tag, ReparseTag::SYMLINK.0);

    for (path, unparsed) in [("link", ""), ("LINK\\x\\y", "\\x\\y")] {
        let want = SymbolicLink { link: link_to("d\\target"), unparsed_path: unparsed.to_owned() };
        assert_eq!(stopped(&mut share, path), want);
    }
    let opened = open_itself(&mut share, "link");
    let result =
        share.run(ObjectOp::DeleteReparsePoint { open: opened.open, tag: ReparseTag::MOUNT_POINT });
    assert_eq!(result.expect_err("another tag"), NtStatus::IO_REPARSE_TAG_MISMATCH);
    let tag = ReparseTag::SYMLINK;
    share.done(ObjectOp::DeleteReparsePoint { open: opened.open, tag });
    assert_eq!(read(&mut share, opened.open), Err(NtStatus::NOT_A_REPARSE_POINT));
    assert_eq!(share.status_of("link", |_| {}), NtStatus::SUCCESS);
    assert_eq!(share.attribute("link", "user.SmbReparse"), None);
}

#[test]
fn a_reparse_point_keeps_its_tag_and_others_than_links_are_not_followed() {
    let mut share = Share::new();
    let open = share.create("point");
    let mut other = Vec::new();
    ReparseData { tag: ReparseTag(0x8000_0013), data: b"deduplicated" }.encode(&mut other);
    write(&mut share, open, other.into()).expect("it becomes one");
    let status = write(&mut share, open, buffer(&link_to("x"))).expect_err("another tag");
    assert_eq!(status, NtStatus::IO_REPARSE_TAG_MISMATCH);
    share.close(open);
    assert_eq!(share.status_of("point", |_| {}), NtStatus::IO_REPARSE_TAG_NOT_HANDLED);
    assert_eq!(share.status_of("point\\x", |_| {}), NtStatus::OBJECT_PATH_NOT_FOUND);
}

/// [MS-FSA] 2.1.5.10.37.
#[test]
fn an_empty_directory_becomes_a_link_that_clients_follow() {
    let mut share = Share::new();
    share.create("file");
    let directory = share.create_directory("d");
    write(&mut share, directory, buffer(&link_to("target"))).expect("it is empty");
    let metadata = share.metadata(directory);
    let both = FileAttributes::REPARSE_POINT | FileAttributes::DIRECTORY;
    assert!(metadata.attributes.contains(both));
    assert_eq!(metadata.reparse_tag, ReparseTag::SYMLINK.0);
    share.close(directory);

    for (path, unparsed) in
        [("d", ""), ("D", ""), ("d\\file", "\\file"), ("d\\e\\file", "\\e\\file")]
    {
        let want = SymbolicLink { link: link_to("target"), unparsed_path: unparsed.to_owned() };
        assert_eq!(stopped(&mut share, path), want, "{path}");
    }
    let opened = open_itself(&mut share, "d");
    let tag = ReparseTag::SYMLINK;
    share.done(ObjectOp::DeleteReparsePoint { open: opened.open, tag });
    assert_eq!(share.status_of("d", |_| {}), NtStatus::SUCCESS);
    assert_eq!(share.status_of("d\\file", |_| {}), NtStatus::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn nothing_gets_into_a_directory_that_is_a_link() {
    let mut share = Share::new();
    let directory = share.create_directory("d");
    write(&mut share, directory, buffer(&link_to("target"))).expect("it is empty");
    share.close(directory);
    let mut request = share.request("d\\new");
    request.disposition = Disposition::Create;
    let created = share.run(ObjectOp::Open(Box::new(request)));
    assert!(matches!(created, Ok(ObjectReply::Stopped(_))), "{created:?}");
    let file = share.create("file");
    assert_eq!(share.rename(file, "d\\file", false), Err(NtStatus::OBJECT_PATH_NOT_FOUND));
    assert_eq!(std::fs::read_dir(share.host("d")).expect("ours").count(), 0);
}

#[test]
fn a_directory_with_entries_is_no_link_and_a_file_no_junction() {
    let mut share = Share::new();
    let directory = share.create_directory("d");
    share.local("d/.hidden", "");
    let status = write(&mut share, directory, buffer(&link_to("x"))).expect_err("not empty");
    assert_eq!(status, NtStatus::DIRECTORY_NOT_EMPTY);
    let root = share.open("");
    let status = write(&mut share, root, buffer(&link_to("x"))).expect_err("the share's root");
    assert_eq!(status, NtStatus::ACCESS_DENIED);
    let mut junction = Vec::new();
    ReparseData { tag: ReparseTag::MOUNT_POINT, data: &[] }.encode(&mut junction);
    let file = share.create("file");
    let status = write(&mut share, file, junction.into()).expect_err("a file");
    assert_eq!(status, NtStatus::NOT_A_DIRECTORY);
}

#[test]
fn read_only_shares_take_no_reparse_point() {
    let mut share = Share::with(|settings| settings.read_only = true);
    share.local("f", "");
    let open = share.open("f");
    let status = write(&mut share, open, buffer(&link_to("x"))).expect_err("read only");
    assert_eq!(status, NtStatus::ACCESS_DENIED);
}

/// Anyone who may write a file may write the attribute.
#[test]
fn a_damaged_reparse_point_is_reported_and_leads_nowhere() {
    let mut share = Share::new();
    let open = share.create("link");
    write(&mut share, open, buffer(&link_to("x"))).expect("it becomes a link");
    share.close(open);
    for value in [&b""[..], b"x", &[0x0C, 0, 0, 0xA0, 200, 0, 0, 0], &[0xFF; 100]] {
        share.set_attribute("link", "user.SmbReparse", value);
        let opened = open_itself(&mut share, "link");
        let status = read(&mut share, opened.open).expect_err("it is damaged");
        assert_eq!(status, NtStatus::IO_REPARSE_DATA_INVALID);
        share.close(opened.open);
        assert_eq!(share.status_of("link", |_| {}), NtStatus::SUCCESS);
    }
    // A link whose names are not where it says stops nobody, and cannot be followed either.
    share.set_attribute("link", "user.SmbReparse", &[0x0C, 0, 0, 0xA0, 0, 0, 0, 0]);
    assert_eq!(share.status_of("link", |_| {}), NtStatus::ACCESS_DENIED);
}

#[test]
fn links_lead_out_of_the_share_only_if_the_administrator_permits_it() {
    for wide in [false, true] {
        let mut share = Share::with(|settings| settings.wide_links = wide);
        let outside = share.folder.path().join("outside");
        std::fs::create_dir(&outside).expect("ours");
        std::fs::write(outside.join("file"), "found").expect("ours");
        symlink(&outside, share.host("absolute")).expect("a link");
        symlink("../outside", share.host("relative")).expect("a link");
        symlink("/proc/self/root", share.host("magic")).expect("a link");
        for path in ["absolute\\file", "relative\\file", "RELATIVE\\FILE"] {
            if wide {
                let open = share.open_for(path, READ | WRITE);
                assert_eq!(share.read(open, 0, 10), b"found", "{path}");
            } else {
                assert_eq!(share.status_of(path, |_| {}), NtStatus::STOPPED_ON_SYMLINK, "{path}");
            }
        }
        assert_eq!(share.status_of("magic\\etc", |_| {}), NtStatus::STOPPED_ON_SYMLINK);
    }
}

/// A share with DFS links, as Samba stores them.
fn namespace() -> Share {
    let mut share = Share::with(|settings| settings.dfs_links = true);
    share.local_directory("d");
    share.local("d/file", "here");
    symlink("msdfs:one\\share,two\\share", share.host("d/link")).expect("a link");
    symlink("nowhere", share.host("d/dangling")).expect("a link");
    share
}

#[test]
fn a_path_behind_a_link_of_a_namespace_is_not_covered() {
    let mut share = namespace();
    for path in ["d\\link", "D\\LINK", "d\\link\\file", "d\\link\\deep\\file"] {
        let status = share.status_of(path, |_| {});
        assert_eq!(status, NtStatus::PATH_NOT_COVERED, "{path}");
    }
    assert_eq!(share.status_of("d\\nothing", |_| {}), NtStatus::OBJECT_NAME_NOT_FOUND);
    share.open("d\\file");
    let mut plain = Share::new();
    symlink("msdfs:one\\share", plain.host("link")).expect("a link");
    assert_ne!(plain.status_of("link", |_| {}), NtStatus::PATH_NOT_COVERED, "it is no namespace");
}

#[test]
fn a_link_of_a_namespace_is_found_on_a_path() {
    let mut share = namespace();
    let root = share.request("").root;
    let find = |share: &mut Share, path: &str| {
        let path = object::ObjectPath::parse(path).expect("a path");
        share.run(ObjectOp::FindReferral { root, path: path.into() })
    };
    for (path, behind) in [("d\\link", ""), ("d\\link\\a\\b", "\\a\\b")] {
        let Ok(ObjectReply::Stopped(link)) = find(&mut share, path) else { panic!("{path}") };
        assert_eq!(link.link.substitute_name, "msdfs:one\\share,two\\share");
        assert_eq!(link.unparsed_path, behind);
    }
    for path in ["", "d\\file", "d\\dangling", "no\\way"] {
        let found = find(&mut share, path);
        assert!(matches!(found, Err(NtStatus::OBJECT_PATH_NOT_FOUND)), "{path}: {found:?}");
    }
}

#[test]
fn a_link_of_a_namespace_is_listed_as_a_directory_that_is_elsewhere() {
    let mut share = namespace();
    let directory = share.open("d");
    let entries = share.entries(directory, true, 100);
    let link = entries.iter().find(|entry| entry.name == "link").expect("it is listed");
    let metadata = link.metadata.as_ref().expect("asked for");
    let is_elsewhere = FileAttributes::DIRECTORY | FileAttributes::REPARSE_POINT;
    assert!(metadata.attributes.contains(is_elsewhere), "{metadata:?}");
    assert_eq!(metadata.reparse_tag, ReparseTag::DFS.0);
}

/// Else whoever may write a file could send everybody to a server of his.
#[test]
fn a_link_written_by_a_client_is_no_link_of_a_namespace() {
    let mut share = namespace();
    let open = share.create("d\\planted");
    write(&mut share, open, buffer(&link_to("msdfs:evil\\share"))).expect("it becomes a link");
    share.close(open);
    let want = SymbolicLink { link: link_to("msdfs:evil\\share"), unparsed_path: String::new() };
    assert_eq!(stopped(&mut share, "d\\planted"), want, "a link like any other");
    let root = share.request("").root;
    for path in ["d\\planted", "d\\planted\\a"] {
        let path = object::ObjectPath::parse(path).expect("a path");
        let found = share.run(ObjectOp::FindReferral { root, path: path.into() });
        assert!(matches!(found, Err(NtStatus::OBJECT_PATH_NOT_FOUND)), "{found:?}");
    }
}
