//! Listing of directories by the store.

mod support;

use dtyp::{FileAttributes, NtStatus};
use object::{Disposition, EntryDetail, ObjectKind, ObjectOp, ObjectPath, ObjectReply};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::time::Duration;
use store::{MangledNames, StoreSettings};
use support::Share;

#[test]
fn dot_and_dot_dot_come_first_and_the_root_is_its_own_parent() {
    let mut share = Share::new();
    share.local_directory("d");
    share.local("d/f", "abc");
    let open = share.open("d");
    let entries = share.entries(open, false, 10);
    let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, [".", "..", "f"]);
    let identity = |index: usize| entries[index].metadata.as_ref().map(|known| known.identity);
    let root = share.open("");
    let of_root = share.metadata(root).identity;
    assert_eq!(identity(0), Some(share.metadata(open).identity));
    assert_eq!(identity(1), Some(of_root));
    assert_eq!(entries[2].metadata.as_ref().map(|known| known.end_of_file), Some(3));
    let entries = share.entries(root, false, 2);
    let of_dot_dot = entries[1].metadata.as_ref().map(|known| known.identity);
    assert_eq!(of_dot_dot, Some(of_root));
}

#[test]
fn a_listing_goes_on_and_begins_again_if_restarted() {
    let mut share = Share::new();
    for index in 0..20 {
        share.local(&format!("f{index}"), "");
    }
    let open = share.open("");
    let mut seen = Vec::new();
    loop {
        let entries = share.entries(open, false, 3);
        assert!(entries.len() <= 3);
        if entries.is_empty() {
            break;
        }
        seen.extend(entries.into_iter().map(|entry| entry.name));
    }
    let once: HashSet<_> = seen.iter().cloned().collect();
    assert_eq!((seen.len(), once.len()), (22, 22));
    assert!(share.entries(open, false, 3).is_empty(), "the end stays the end");
    let again = share.entries(open, true, 100);
    let again: Vec<_> = again.into_iter().map(|entry| entry.name).collect();
    assert_eq!(again, seen, "in the same order");
    // A second open has a position of its own.
    let other = share.open("");
    assert_eq!(share.entries(other, false, 1)[0].name, ".");
    assert!(share.entries(open, false, 1).is_empty());
}

#[test]
fn a_listing_pauses_for_its_time_and_goes_on_without_a_gap() {
    let settings = StoreSettings { listing_time: Duration::ZERO, ..StoreSettings::default() };
    let mut share = Share::in_store(settings, |_| {});
    for index in 0..20 {
        share.local(&format!("f{index}"), "");
    }
    let open = share.open("");
    let mut seen = HashSet::new();
    let mut parts = 0;
    loop {
        let entries = share.entries(open, false, 100);
        let is_paused = share.store.take_paused_listing();
        assert!(!entries.is_empty() || !is_paused, "only the end is empty");
        seen.extend(entries.into_iter().map(|entry| entry.name));
        parts += 1;
        if !is_paused {
            break;
        }
    }
    assert_eq!(seen.len(), 22);
    // After the first one, which shows that entries take long, one entry each.
    assert!((18..=23).contains(&parts), "{parts}");
    assert!(share.entries(open, false, 100).is_empty());
}

#[test]
fn a_listing_goes_on_with_the_entries_of_its_paused_parts() {
    let settings = StoreSettings { listing_time: Duration::ZERO, ..StoreSettings::default() };
    let mut share = Share::in_store(settings, |_| {});
    for index in 0..20 {
        share.local(&format!("f{index}"), "");
    }
    let open = share.open("");
    let listed = |share: &mut Share, restart: bool, entries_max| {
        let mut restart = restart;
        loop {
            let entries = share.entries(open, restart, entries_max);
            if !share.store.take_paused_listing() {
                return entries.into_iter().map(|it| it.name).collect::<HashSet<_>>();
            }
            share.store.continue_listing(open, entries);
            restart = false;
        }
    };
    assert_eq!(listed(&mut share, false, 10).len(), 10);
    assert_eq!(listed(&mut share, false, 100).len(), 12);
    assert_eq!(listed(&mut share, false, 100).len(), 0);
    let paused = share.entries(open, true, 100);
    assert!(share.store.take_paused_listing());
    share.store.continue_listing(open, paused);
    assert_eq!(listed(&mut share, true, 100).len(), 22, "a new listing begins without them");
}

#[test]
fn names_that_no_client_can_send_are_left_out_without_short_names() {
    let mut share = Share::with(|settings| settings.mangled_names = MangledNames::No);
    share.local("good", "");
    share.local("also\u{e9}", "");
    for name in [&b"bad\xff"[..], b"a:b", b"a\\b", b"a*", b"a\x01"] {
        std::fs::write(share.host("").join(OsStr::from_bytes(name)), "").expect("ours");
    }
    assert_eq!(share.names(""), [".", "..", "also\u{e9}", "good"]);
    assert_eq!(share.store.names_left_out(), 5);
}

#[test]
fn entries_have_the_metadata_of_an_open() {
    let mut share = Share::new();
    let created = share.try_open("f", |request| {
        request.disposition = Disposition::Create;
        request.attributes = FileAttributes::HIDDEN | FileAttributes::SYSTEM;
        request.desired_access = support::READ | support::WRITE;
        let name = "ea".to_owned();
        let value = b"value".to_vec();
        request.extended_attributes = vec![object::ExtendedAttribute { flags: 0, name, value }];
    });
    let file = created.expect("created").open;
    share.write(file, 0, &[1; 5_000]);
    let open = share.open("");
    let detail = EntryDetail::MetadataAndEaSize;
    let op = ObjectOp::ReadDirectory { open, restart: false, detail, entries_max: 10 };
    let Ok(ObjectReply::Entries(entries)) = share.run(op) else { panic!("no entries") };
    let metadata = share.metadata(file);
    assert!(metadata.ea_size > 0);
    assert!(metadata.attributes.contains(FileAttributes::HIDDEN | FileAttributes::SYSTEM));
    assert_eq!(entries[2].metadata, Some(metadata));
    let detail = EntryDetail::Name;
    let op = ObjectOp::ReadDirectory { open, restart: true, detail, entries_max: 10 };
    let Ok(ObjectReply::Entries(entries)) = share.run(op) else { panic!("no entries") };
    assert!(entries.iter().all(|entry| entry.metadata.is_none()));
}

#[test]
fn links_show_their_targets_within_the_share() {
    let mut share = Share::new();
    share.local_directory("d/e");
    share.local("d/file", "12345");
    std::fs::write(share.folder.path().join("secret"), "outside").expect("ours");
    symlink("../file", share.host("d/e/inside")).expect("a link");
    symlink("../../../secret", share.host("d/e/outside")).expect("a link");
    symlink("none", share.host("d/e/dangling")).expect("a link");
    let open = share.open("d\\e");
    for entry in share.entries(open, false, 10) {
        let metadata = entry.metadata.expect("asked for");
        match entry.name.as_str() {
            "inside" => {
                assert_eq!((metadata.kind, metadata.end_of_file), (ObjectKind::File, 5));
            }
            "outside" | "dangling" => {
                assert_eq!(metadata.kind, ObjectKind::SymbolicLink);
                assert_eq!(metadata.end_of_file, 0);
                assert!(metadata.attributes.contains(FileAttributes::REPARSE_POINT));
            }
            _ => assert_eq!(metadata.kind, ObjectKind::Directory),
        }
    }
}

#[test]
fn files_have_no_entries() {
    let mut share = Share::new();
    let open = share.create("f");
    let detail = EntryDetail::Name;
    let op = ObjectOp::ReadDirectory { open, restart: false, detail, entries_max: 10 };
    assert!(matches!(share.run(op), Err(NtStatus::INVALID_PARAMETER)));
    let empty = share.run(ObjectOp::IsEmpty { open });
    assert!(matches!(empty, Err(NtStatus::NOT_A_DIRECTORY)));
}

#[test]
fn a_directory_that_was_removed_has_no_entries() {
    let mut share = Share::new();
    let open = share.create_directory("d");
    share.entries(open, false, 10);
    share.store.revert_to_server();
    std::fs::remove_dir(share.host("d")).expect("empty");
    let entries = share.entries(open, true, 10);
    assert!(entries.iter().all(|entry| entry.name == "." || entry.name == ".."));
}

/// Fifty thousand entries are listed once each, and creating in such a directory does not read it
/// for every new name.
#[test]
fn a_large_directory_is_listed_whole() {
    const COUNT: usize = 50_000;
    let mut share = Share::new();
    share.local_directory("d");
    for index in 0..COUNT {
        std::fs::File::create(share.host(&format!("d/file{index}"))).expect("ours");
    }
    let begin = std::time::Instant::now();
    let open = share.open("d");
    let mut names = HashSet::new();
    let mut total = 0;
    loop {
        let entries = share.entries(open, false, 500);
        if entries.is_empty() {
            break;
        }
        total += entries.len();
        names.extend(entries.into_iter().map(|entry| entry.name));
    }
    assert_eq!((total, names.len()), (COUNT + 2, COUNT + 2));
    let listed = begin.elapsed();
    let begin = std::time::Instant::now();
    for index in 0..200 {
        let open = share.create(&format!("d\\New{index}"));
        share.close(open);
    }
    let created = begin.elapsed();
    // Reading the directory for each would take 200 times some tens of milliseconds.
    assert!(created < listed * 20 + Duration::from_secs(2), "{created:?} {listed:?}");
    assert_eq!(share.status_of("d\\NEW7", |_| {}), NtStatus::SUCCESS);
}

#[test]
fn a_directory_that_its_user_may_enter_and_not_list_tells_no_names() {
    let mut share = Share::new();
    let Some(stranger) = share.stranger() else { return };
    share.local_directory("d");
    share.local_directory("d/below");
    let path = |name: &str| ObjectPath::parse(name).expect("a path");
    for (mode, wanted) in
        [(0o700, false), (0o711, false), (0o733, false), (0o744, false), (0o755, true)]
    {
        share.mode("d", mode);
        let may = share.store.may_list(stranger, share.root, &path("d"));
        assert_eq!(may, Some(wanted), "{mode:o}");
    }
    // Directories above are asked for by themselves: see `model::traversals`.
    share.mode("d", 0o711);
    assert_eq!(share.store.may_list(stranger, share.root, &path("d\\below")), Some(true));
    assert_eq!(share.store.may_list(stranger, share.root, &path("d\\none")), None);
}
