//! The forms in which Netatalk, Samba and macOS keep what is in streams here.

mod support;

use std::os::unix::fs::MetadataExt;

use dtyp::security_descriptor::Control;
use dtyp::{
    AccessMask, Ace, AceFlags, Acl, NtStatus, SecurityDescriptor, SecurityInformation, Sid,
};
use object::{EntryDetail, ObjectOp, ObjectPath, ObjectReply, OpenRequest};
use store::NtAclSettings;
use support::posix_acl::{self, Entry};
use support::{READ, Share, WRITE, is_root};

const NETATALK: &str = "user.org.netatalk.Metadata";

/// A part of an AppleDouble: kind and data.
type Part<'a> = (u32, &'a [u8]);

fn double(parts: &[Part<'_>]) -> Vec<u8> {
    let count = u16::try_from(parts.len()).expect("a few");
    let mut bytes = [0x0005_1607_u32, 0x0002_0000, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
    bytes.extend(count.to_be_bytes());
    let mut offset = 26 + 12 * parts.len();
    for (kind, data) in parts {
        for number in [*kind, length_of(offset), length_of(data.len())] {
            bytes.extend(number.to_be_bytes());
        }
        offset += data.len();
    }
    parts.iter().for_each(|(_, data)| bytes.extend(*data));
    bytes
}

fn length_of(length: usize) -> u32 {
    u32::try_from(length).expect("short")
}

/// The Finder's information as the first of two parts, with an extended attribute of macOS.
fn finder_info(name: &[u8], value: &[u8]) -> Vec<u8> {
    finder_info_with(&[(name, value)])
}

/// The same with several extended attributes.
fn finder_info_with(attributes: &[(&[u8], &[u8])]) -> Vec<u8> {
    let at = 26 + 2 * 12;
    let entry_len = |name: &[u8]| (11 + name.len() + 1).next_multiple_of(4);
    let entries_len: usize = attributes.iter().map(|(name, _)| entry_len(name)).sum();
    let values_len = attributes.iter().map(|(_, value)| value.len()).sum();
    let mut start = at + 34 + 36 + entries_len;
    let mut bytes = b"TEXTttxt".to_vec();
    bytes.resize(34, 0);
    for number in [0x4154_5452, 0, 0, length_of(start), length_of(values_len), 0, 0, 0] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend([0, 0]);
    bytes.extend(u16::try_from(attributes.len()).expect("a few").to_be_bytes());
    for (name, value) in attributes {
        let end = bytes.len() + entry_len(name);
        bytes.extend(length_of(start).to_be_bytes());
        bytes.extend(length_of(value.len()).to_be_bytes());
        bytes.extend([0, 0, u8::try_from(name.len() + 1).expect("short")]);
        bytes.extend(*name);
        bytes.resize(end, 0);
        start += value.len();
    }
    attributes.iter().for_each(|(_, value)| bytes.extend(*value));
    bytes
}

fn share() -> Share {
    let mut share = Share::with(|root| root.apple_streams = true);
    share.local("f", "x");
    share
}

fn beside(share: &mut Share, bytes: &[u8]) {
    share.store.revert_to_server();
    std::fs::write(share.host("._f"), bytes).expect("it is ours");
}

fn content(share: &mut Share, path: &str) -> Result<Vec<u8>, NtStatus> {
    let open = share.try_open(path, |_| {})?.open;
    let content = share.read(open, 0, 1_000);
    share.close(open);
    Ok(content)
}

fn names(share: &mut Share) -> Vec<String> {
    let open = share.open("f");
    let mut names: Vec<String> = share.streams(open).into_iter().map(|it| it.name).collect();
    share.close(open);
    names.sort();
    names
}

#[test]
fn metadata_of_netatalk_are_read_until_they_are_replaced() {
    let mut share = share();
    let mut info = b"TEXTttxt".to_vec();
    info.resize(32, 0);
    share.set_attribute("f", NETATALK, &double(&[(8, &[0; 16]), (9, &info)]));
    assert_eq!(names(&mut share), ["", "AFP_AfpInfo"]);
    let read = content(&mut share, "f:AFP_AfpInfo").expect("it is there");
    assert_eq!((&read[..4], &read[16..24]), (&b"AFP\0"[..], &b"TEXTttxt"[..]));
    let mut changed = read;
    changed[16..24].copy_from_slice(b"PDF ????");
    let open = share.open_for("f:AFP_AfpInfo", READ | WRITE);
    share.write(open, 0, &changed);
    assert_eq!(share.attribute("f", NETATALK), None, "there is one truth");
    assert_eq!(share.read(open, 0, 60), changed);
    changed[16..24].fill(0);
    share.write(open, 0, &changed);
    assert_eq!(names(&mut share), [""]);
}

#[test]
fn a_file_beside_becomes_streams_once() {
    let mut share = share();
    let info = finder_info(b"com.apple.metadata:tags", b"red");
    beside(&mut share, &double(&[(9, &info), (2, b"the fork")]));
    let want = ["", "AFP_AfpInfo", "AFP_Resource", "com.apple.metadata\u{F022}tags"];
    assert_eq!(names(&mut share), want);
    assert_eq!(content(&mut share, "f:AFP_Resource").expect("moved"), b"the fork");
    let tags = content(&mut share, "f:com.apple.metadata\u{F022}tags");
    assert_eq!(tags.expect("moved"), b"red");
    let fork = share.open_for("f:AFP_Resource", WRITE);
    share.done(ObjectOp::SetEndOfFile { open: fork, size: 0 });
    share.close(fork);
    let gone = Err(NtStatus::OBJECT_NAME_NOT_FOUND);
    assert_eq!(content(&mut share, "f:AFP_Resource"), gone, "it does not come back");
}

#[test]
fn an_attribute_with_the_name_of_a_path_becomes_no_stream() {
    let mut share = share();
    let attributes: [(&[u8], &[u8]); 4] =
        [(b"../up", b"1"), (b"a/b", b"2"), (b"..", b"3"), (b"good", b"4")];
    let info = finder_info_with(&attributes);
    beside(&mut share, &double(&[(9, &info), (2, b"")]));
    assert_eq!(names(&mut share), ["", "AFP_AfpInfo", "good"]);
    assert_eq!(content(&mut share, "f:good").expect("moved"), b"4");
}

/// Whoever may write a folder can rename a closed file of somebody's to be beside an own one.
#[test]
fn a_file_beside_that_belongs_to_somebody_else_stays() {
    if !is_root() {
        return;
    }
    let mut share = share();
    let secret = double(&[(2, b"secret")]);
    beside(&mut share, &secret);
    std::os::unix::fs::chown(share.host("f"), Some(70_002), None).expect("root");
    assert_eq!(names(&mut share), [""]);
    share.store.revert_to_server();
    assert_eq!(std::fs::read(share.host("._f")).expect("there"), secret);
    std::os::unix::fs::chown(share.host("._f"), Some(70_002), None).expect("root");
    assert_eq!(names(&mut share), ["", "AFP_Resource"]);
}

/// The server's rights can carry out such a request, for a worker that has ended.
#[test]
fn an_open_to_remove_a_stream_moves_no_file_beside() {
    let mut share = share();
    let whole = double(&[(2, b"the fork")]);
    beside(&mut share, &whole);
    let path = ObjectPath::parse("f:AFP_Resource").expect("a path");
    let request = OpenRequest::to_remove(share.root, path);
    let opened = share.run(ObjectOp::Open(Box::new(request)));
    assert_eq!(opened.err(), Some(NtStatus::OBJECT_NAME_NOT_FOUND));
    share.store.revert_to_server();
    assert_eq!(std::fs::read(share.host("._f")).expect("there"), whole);
}

#[test]
fn a_file_beside_is_removed_if_that_is_the_setting() {
    let mut share = Share::with(|root| {
        root.apple_streams = true;
        root.removes_apple_doubles = true;
    });
    share.local("f", "x");
    beside(&mut share, b"no AppleDouble");
    assert_eq!(names(&mut share), [""]);
    assert!(share.host("._f").exists(), "other files stay");
    beside(&mut share, &double(&[(2, b"the fork")]));
    assert_eq!(names(&mut share), ["", "AFP_Resource"]);
    assert!(!share.host("._f").exists());
}

#[test]
fn a_stream_that_is_there_is_newer_than_the_file_beside() {
    let mut share = share();
    share.set_attribute("f", "user.DosStream.AFP_Resource:$DATA", b"new\0");
    beside(&mut share, &double(&[(2, b"old")]));
    assert_eq!(content(&mut share, "f:AFP_Resource").expect("there"), b"new");
}

#[test]
fn a_listing_for_apple_converts_the_files_beside() {
    let mut share = share();
    beside(&mut share, &double(&[(2, b"the fork")]));
    let open = share.open("");
    let detail = EntryDetail::Apple;
    let list = ObjectOp::ReadDirectory { open, restart: true, detail, entries_max: 100 };
    assert!(matches!(share.run(list), Ok(ObjectReply::Entries(_))));
    let stored = share.attribute("f", "user.DosStream.AFP_Resource:$DATA");
    assert_eq!(stored.as_deref(), Some(&b"the fork\0"[..]));
}

/// Neither other files, nor damaged ones, nor what only looks like one are changed.
#[test]
fn other_files_beside_stay_as_they_are() {
    let mut share = share();
    let mut truncated = double(&[(2, b"the fork")]);
    truncated.truncate(40);
    for bytes in [&b"just a name"[..], &truncated, &[]] {
        beside(&mut share, bytes);
        assert_eq!(names(&mut share), [""]);
        share.store.revert_to_server();
        assert_eq!(std::fs::read(share.host("._f")).expect("there"), bytes);
    }
    let outside = share.folder.path().join("outside");
    let whole = double(&[(2, b"the fork")]);
    std::fs::write(&outside, &whole).expect("ours");
    std::fs::remove_file(share.host("._f")).expect("ours");
    std::os::unix::fs::symlink(&outside, share.host("._f")).expect("ours");
    assert_eq!(names(&mut share), [""], "a link out of the share");
    assert_eq!(std::fs::read(&outside).expect("there"), whole);
}

#[test]
fn a_file_beside_that_the_user_may_not_change_stays() {
    let mut share = share();
    let Some(stranger) = share.stranger() else { return };
    beside(&mut share, &double(&[(2, b"the fork")]));
    share.mode("f", 0o666);
    share.mode("._f", 0o644);
    share.user = stranger;
    assert_eq!(names(&mut share), [""]);
}

/// The attack: somebody renames a closed AppleDouble to be that of an open file of the same owner,
/// who then comes by.
#[test]
fn a_file_beside_that_is_more_closed_than_its_file_stays() {
    let mut share = share();
    for (mode, beside_it, want) in [
        (0o644, 0o600, &[""][..]),
        (0o640, 0o600, &[""]),
        (0o666, 0o644, &[""]),
        (0o644, 0o604, &[""]),
        (0o600, 0o600, &["", "AFP_Resource"]),
    ] {
        beside(&mut share, &double(&[(2, b"the fork")]));
        share.mode("f", mode);
        share.mode("._f", beside_it);
        assert_eq!(names(&mut share), want, "{mode:o} {beside_it:o}");
    }
    share.store.revert_to_server();
    if !is_root() {
        return;
    }
    // The group of the mode is the mask of an ACL, and its group another one.
    for (group, acl) in [(Some(12_346), false), (None, true)] {
        let mut share = self::share();
        beside(&mut share, &double(&[(2, b"the fork")]));
        share.mode("f", 0o660);
        share.mode("._f", 0o660);
        if acl {
            let entries = [
                Entry::Owner(6),
                Entry::User(12_345, 6),
                Entry::OwningGroup(0),
                Entry::Mask(6),
                Entry::Others(0),
            ];
            posix_acl::set(&share.host("._f"), &entries);
        }
        std::os::unix::fs::chown(share.host("._f"), None, group).expect("root");
        assert_eq!(names(&mut share), [""], "{group:?} {acl}");
    }
}

#[test]
fn a_listing_takes_no_file_for_the_directory_s_own() {
    let mut share = share();
    share.store.revert_to_server();
    std::fs::write(share.host("._."), double(&[(2, b"the fork")])).expect("ours");
    let open = share.open("");
    let detail = EntryDetail::Apple;
    let list = ObjectOp::ReadDirectory { open, restart: true, detail, entries_max: 100 };
    assert!(matches!(share.run(list), Ok(ObjectReply::Entries(_))));
    assert_eq!(share.attribute("", "user.DosStream.AFP_Resource:$DATA"), None);
}

#[test]
fn a_file_that_descriptors_let_the_user_only_read_gets_no_streams() {
    let mut share = Share::with(|root| {
        root.apple_streams = true;
        let ignore_system_acls = true;
        root.nt_acls = Some(NtAclSettings { ignore_system_acls, ..NtAclSettings::new(is_root()) });
        root.create_mask = 0o777;
    });
    if let Some(stranger) = share.stranger() {
        share.user = stranger;
    }
    let open = share.create("f");
    share.close(open);
    beside(&mut share, &double(&[(2, b"the fork")]));
    share.mode("._f", 0o666);
    let owner = std::fs::metadata(share.host("f")).expect("there").uid();
    std::os::unix::fs::chown(share.host("._f"), Some(owner), None).expect("root, or ours");
    for (rights, want) in [(READ, &[""][..]), (READ | WRITE, &["", "AFP_Resource"])] {
        let everyone = Ace::allow(Sid::everyone(), rights, AceFlags::empty());
        let control = Control::DACL_PRESENT;
        let dacl = Some(Acl::new(vec![everyone]));
        let descriptor = SecurityDescriptor { control, dacl, ..SecurityDescriptor::default() };
        let open = share.open_for("f", AccessMask::WRITE_DAC);
        let written = share.write_security(open, SecurityInformation::DACL, &descriptor);
        written.expect("it is ours");
        share.close(open);
        assert_eq!(names(&mut share), want);
    }
}
