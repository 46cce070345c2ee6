//! Names: case, and never leaving the share.

mod support;

use dtyp::{AccessMask, NtStatus};
use object::{Disposition, ObjectKind, RequestedKind};
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{DELETE, READ, Share, WRITE};

#[test]
fn case_is_ignored_and_kept() {
    let mut share = Share::new();
    share.local_directory("Some/Folder");
    share.local("Some/Folder/File.TXT", "x");
    let opened = share.try_open("sOME\\fOLDER\\file.txt", |_| {}).expect("found");
    assert_eq!(opened.path.to_windows(), "Some\\Folder\\File.TXT");
    let create = share.status_of("some\\folder\\FILE.txt", |request| {
        request.disposition = Disposition::Create;
    });
    assert_eq!(create, NtStatus::OBJECT_NAME_COLLISION);
    let made = share.try_open("SOME\\new", |request| request.disposition = Disposition::Create);
    assert_eq!(made.expect("created").path.to_windows(), "Some\\new");
    assert!(share.host("Some/new").exists());
}

#[test]
fn an_exact_name_wins_over_one_of_another_case() {
    let mut share = Share::new();
    share.local("a", "lower");
    share.local("A", "upper");
    let lower = share.open("a");
    let upper = share.open("A");
    assert_eq!(share.read(lower, 0, 10), b"lower");
    assert_eq!(share.read(upper, 0, 10), b"upper");
}

#[test]
fn letters_beyond_ascii_fold_as_on_windows() {
    let mut share = Share::new();
    share.local("Äöü", "x");
    assert_eq!(share.status_of("äÖÜ", |_| {}), NtStatus::SUCCESS);
    share.local("straße", "x");
    assert_eq!(share.status_of("STRASSE", |_| {}), NtStatus::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn a_share_with_case_has_files_that_differ_in_case_only() {
    let mut share = Share::with(|settings| settings.case_sensitive = true);
    share.create("a");
    assert_eq!(share.status_of("A", |_| {}), NtStatus::OBJECT_NAME_NOT_FOUND);
    share.create("A");
}

/// Cached names of a directory must not outlive a change by others.
#[test]
fn names_made_by_others_are_found_although_the_directory_was_read_before() {
    let mut share = Share::new();
    share.create("first");
    assert_eq!(share.status_of("OTHER", |_| {}), NtStatus::OBJECT_NAME_NOT_FOUND);
    share.local("other", "");
    assert_eq!(share.status_of("OTHER", |_| {}), NtStatus::SUCCESS);
    share.store.revert_to_server();
    std::fs::remove_file(share.host("other")).expect("there");
    assert_eq!(share.status_of("OTHER", |_| {}), NtStatus::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn names_made_through_the_store_are_found_in_any_case_at_once() {
    let mut share = Share::new();
    for index in 0..50 {
        let open = share.create(&format!("File{index}"));
        share.close(open);
        let other_case = format!("FILE{index}");
        assert_eq!(share.status_of(&other_case, |_| {}), NtStatus::SUCCESS);
        let open = share.open_for(&other_case, DELETE);
        share.rename(open, &format!("Moved{index}"), false).expect("renamed");
        assert_eq!(share.status_of(&other_case, |_| {}), NtStatus::OBJECT_NAME_NOT_FOUND);
        assert_eq!(share.status_of(&format!("MOVED{index}"), |_| {}), NtStatus::SUCCESS);
    }
}

#[test]
fn links_are_followed_within_the_share_only() {
    let mut share = Share::new();
    share.local_directory("d/e");
    share.local("d/file", "inside");
    std::fs::write(share.folder.path().join("secret"), "outside").expect("ours");
    let secret = share.folder.path().join("secret");
    symlink("file", share.host("d/near")).expect("a link");
    symlink("../file", share.host("d/e/up")).expect("a link");
    symlink("../../secret", share.host("d/out")).expect("a link");
    symlink(&secret, share.host("absolute")).expect("a link");
    symlink(share.host("d/file"), share.host("absolute_inside")).expect("a link");
    symlink("..", share.host("parent")).expect("a link");
    symlink("/proc/self/root", share.host("magic")).expect("a link");
    symlink("/proc/self/fd/0", share.host("magic_file")).expect("a link");
    symlink("none", share.host("dangling")).expect("a link");
    symlink("loop", share.host("loop")).expect("a link");
    for inside in ["d\\near", "d\\e\\up", "absolute_inside"] {
        let open = share.open(inside);
        assert_eq!(share.read(open, 0, 10), b"inside", "{inside}");
    }
    let outside = [
        "d\\out",
        "absolute",
        "parent\\secret",
        "parent",
        "magic",
        "magic\\etc\\passwd",
        "magic_file",
        "loop",
        "loop\\x",
    ];
    for name in outside {
        assert_eq!(share.status_of(name, |_| {}), NtStatus::STOPPED_ON_SYMLINK, "{name}");
        let access = AccessMask::READ_ATTRIBUTES;
        let status = share.status_of(name, |request| request.desired_access = access);
        assert_eq!(status, NtStatus::STOPPED_ON_SYMLINK, "{name}");
    }
    assert_eq!(share.status_of("dangling", |_| {}), NtStatus::OBJECT_NAME_NOT_FOUND);
    // Never created through a link that leads out, nor through one that leads nowhere.
    symlink("../made", share.host("maker")).expect("a link");
    for name in ["maker", "dangling", "parent\\made"] {
        let status = share.status_of(name, |request| {
            request.disposition = Disposition::OpenIf;
            request.desired_access = WRITE;
        });
        assert!(!status.is_success(), "{name}");
    }
    assert!(!share.folder.path().join("made").exists());
    assert!(!share.host("none").exists());
}

#[test]
fn dots_in_a_path_do_not_lead_out() {
    let mut share = Share::new();
    std::fs::write(share.folder.path().join("secret"), "outside").expect("ours");
    for path in ["../secret", "..", "d/../../secret", "/etc/passwd", "./../secret"] {
        let mut request = share.request("x");
        // The protocol engine never makes such a path; the store holds all the same.
        request.path = object::ObjectPath::from_stored(path.to_owned(), None);
        let result = share.run(object::ObjectOp::Open(Box::new(request)));
        assert!(result.is_err(), "{path}");
    }
}

#[test]
fn a_link_can_be_opened_and_removed_itself() {
    let mut share = Share::new();
    share.local("target", "x");
    symlink("target", share.host("link")).expect("a link");
    let opened = share.try_open("link", |request| {
        request.open_reparse_point = true;
        request.desired_access = AccessMask::READ_ATTRIBUTES | DELETE;
    });
    let opened = opened.expect("the link");
    assert_eq!(opened.metadata.kind, ObjectKind::SymbolicLink);
    assert_ne!(opened.metadata.reparse_tag, 0);
    share.unlink(opened.open).expect("removed");
    assert!(share.host("target").exists());
    std::fs::symlink_metadata(share.host("link")).expect_err("the link is gone");
}

#[test]
fn removing_the_target_of_a_link_removes_the_link() {
    let mut share = Share::new();
    share.local("target", "x");
    symlink("target", share.host("link")).expect("a link");
    let open = share.open_for("link", READ | DELETE);
    share.unlink(open).expect("removed");
    assert!(share.host("target").exists());
    std::fs::symlink_metadata(share.host("link")).expect_err("the link is gone");
}

#[test]
fn links_are_not_followed_if_the_share_forbids_it() {
    let mut share = Share::with(|settings| settings.follow_symlinks = false);
    share.local_directory("d");
    share.local("d/file", "x");
    symlink("d", share.host("link")).expect("a link");
    symlink("d/file", share.host("file")).expect("a link");
    assert_eq!(share.status_of("link\\file", |_| {}), NtStatus::STOPPED_ON_SYMLINK);
    assert_eq!(share.status_of("file", |_| {}), NtStatus::STOPPED_ON_SYMLINK);
    assert_eq!(share.status_of("d\\file", |_| {}), NtStatus::SUCCESS);
}

/// Tells the other thread to stop when it goes.
struct Stopper<'a>(&'a AtomicBool);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// While another process keeps swapping a directory for a link that leads out, no request may ever
/// see what is outside.
#[test]
fn a_race_of_links_never_leads_out() {
    let mut share = Share::new();
    share.local_directory("real");
    share.local("real/file", "inside");
    let outside = share.folder.path().join("outside");
    std::fs::create_dir(&outside).expect("ours");
    std::fs::write(outside.join("file"), "outside").expect("ours");
    symlink("../outside", share.host("evil")).expect("a link");
    std::fs::create_dir(share.host("swap")).expect("ours");
    std::fs::write(share.host("swap/file"), "inside").expect("ours");
    let (a, b) = (share.host("swap"), share.host("evil"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Also when an assertion fails: the scope waits for the other thread.
        let _stopper = Stopper(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                let cwd = rustix::fs::CWD;
                rustix::fs::renameat_with(cwd, &a, cwd, &b, flags).expect("both are there");
            }
        });
        for _ in 0..3_000 {
            if let Ok(opened) = share.try_open("swap\\file", |_| {}) {
                let content = share.read(opened.open, 0, 10);
                assert_eq!(content, b"inside");
                share.close(opened.open);
            }
            let made = share.try_open("swap\\made", |request| {
                request.disposition = Disposition::OpenIf;
                request.desired_access = DELETE;
            });
            if let Ok(made) = made {
                let _ = share.unlink(made.open);
            }
        }
    });
    assert!(!outside.join("made").exists());
}

#[test]
fn directories_are_made_once() {
    let mut share = Share::new();
    share.create_directory("D");
    let again = share.try_open("d", |request| {
        request.disposition = Disposition::OpenIf;
        request.kind = RequestedKind::Directory;
    });
    let again = again.expect("opened");
    assert!(!again.created);
    assert_eq!(again.path.to_windows(), "D");
}

/// Names that no client could send.
const UNUSABLE: [&[u8]; 5] = [b"a:b", b"back\\slash.c", b"trail.", b"con", b"x\xFF\xFE.bin"];

fn host_path(share: &Share, name: &[u8]) -> std::path::PathBuf {
    use std::os::unix::ffi::OsStrExt;
    share.folder.path().join("share").join(std::ffi::OsStr::from_bytes(name))
}

fn add_unusable(share: &mut Share) {
    share.store.revert_to_server();
    for name in UNUSABLE {
        std::fs::write(host_path(share, name), name).expect("the file system takes it");
    }
}

/// The one name that a listing shows besides the dots.
#[track_caller]
fn only_name(share: &mut Share, directory: &str) -> String {
    let names = share.names(directory);
    assert_eq!(names.len(), 3, "{names:?}");
    names[2].clone()
}

#[test]
fn unusable_names_are_listed_opened_renamed_and_removed_by_their_short_names() {
    for name in UNUSABLE {
        let mut share = Share::new();
        share.store.revert_to_server();
        std::fs::write(host_path(&share, name), name).expect("the file system takes it");
        let short = only_name(&mut share, "");
        for asked in [short.clone(), short.to_lowercase()] {
            let opened = share.try_open(&asked, |_| {}).expect("found by its short name");
            assert_eq!(opened.path.to_windows(), short, "what a listing calls it");
            assert_eq!(share.read(opened.open, 0, 100), name);
            share.close(opened.open);
        }
        let create = share.status_of(&short, |request| request.disposition = Disposition::Create);
        assert_eq!(create, NtStatus::OBJECT_NAME_COLLISION);
        let open = share.open_for(&short, DELETE);
        assert_eq!(share.rename(open, "usable", false).as_deref(), Ok("usable"));
        share.unlink(open).expect("removed by its new name");
        assert_eq!(share.names(""), [".", ".."]);

        std::fs::write(host_path(&share, name), name).expect("the file system takes it");
        let open = share.open_for(&short, DELETE);
        share.unlink(open).expect("removed by its short name");
        assert!(!host_path(&share, name).exists());
    }
}

#[test]
fn directories_on_the_way_may_be_named_by_their_short_names() {
    let mut share = Share::new();
    share.local_directory("up:one/down?two");
    share.local("up:one/down?two/file", "x");
    let above = only_name(&mut share, "");
    let below = only_name(&mut share, &above);
    let path = format!("{}\\{}\\FILE", above.to_lowercase(), below);
    let opened = share.try_open(&path, |_| {}).expect("found");
    assert_eq!(opened.path.to_windows(), format!("{above}\\{below}\\file"));
    let made = share.try_open(&format!("{above}\\{below}\\new"), |request| {
        request.disposition = Disposition::Create;
    });
    share.close(made.expect("created").open);
    assert!(share.host("up:one/down?two/new").exists());
    let open = share.open_for(&format!("{above}\\{below}\\new"), DELETE);
    let moved = share.rename(open, &format!("{above}\\moved"), false);
    assert_eq!(moved, Ok(format!("{above}\\moved")));
    assert!(share.host("up:one/moved").exists());
}

/// A link in a directory whose name is not shown as it is.
#[test]
fn links_are_followed_in_directories_that_go_by_short_names() {
    let mut share = Share::new();
    share.local_directory("d:r");
    share.local("d:r/file", "x");
    symlink("file", share.host("d:r/link")).expect("a link");
    let directory = only_name(&mut share, "");
    let open = share.open(&format!("{directory}\\link"));
    assert_eq!(share.read(open, 0, 10), b"x");
    let open = share.open(&directory);
    let entries = share.entries(open, true, 10);
    let link = entries.iter().find(|entry| entry.name == "link").expect("it is listed");
    let kind = link.metadata.as_ref().map(|metadata| metadata.kind);
    assert_eq!(kind, Some(ObjectKind::File));
}

#[test]
fn without_mangling_unusable_names_do_not_exist() {
    let mut share = Share::with(|settings| settings.mangled_names = store::MangledNames::No);
    add_unusable(&mut share);
    // These can be sent, if not by every program.
    assert_eq!(share.names(""), [".", "..", "con", "trail."]);
    assert_eq!(share.store.names_left_out(), 3);
    assert_eq!(share.status_of("A4WTMA~A", |_| {}), NtStatus::OBJECT_NAME_NOT_FOUND);
}

/// A real name that looks like a short one, and a name whose short name that is.
#[test]
fn a_real_name_comes_before_a_short_one() {
    let mut share = Share::new();
    share.local("a:b", "short");
    share.local("a4wtma~a", "real");
    for name in ["a4wtma~a", "A4WTMA~A"] {
        let open = share.open(name);
        assert_eq!(share.read(open, 0, 10), b"real");
    }
}

#[test]
fn short_names_are_found_with_case_sensitivity_and_after_a_listing() {
    let mut share = Share::with(|settings| settings.case_sensitive = true);
    assert_eq!(share.status_of("A4WTMA~A", |_| {}), NtStatus::OBJECT_NAME_NOT_FOUND);
    share.local("a:b", "x");
    assert_eq!(share.status_of("a4wtma~a", |_| {}), NtStatus::SUCCESS);
    share.local("Plain", "x");
    assert_eq!(share.status_of("plain", |_| {}), NtStatus::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn listings_have_short_names_if_all_long_names_have_one() {
    let mut share = Share::with(|settings| settings.mangled_names = store::MangledNames::Yes);
    share.local("longfilename.txt", "x");
    share.local("short.txt", "");
    let open = share.open("");
    let entries = share.entries(open, false, 10);
    let short_name = |name: &str| {
        let entry = entries.iter().find(|entry| entry.name == name).expect("listed");
        entry.short_name.clone()
    };
    assert_eq!(short_name("longfilename.txt").as_deref(), Some("LNHQX6~C.TXT"));
    assert_eq!(short_name("short.txt"), None);
    let opened = share.try_open("lnhqx6~c.txt", |_| {}).expect("found");
    assert_eq!(opened.path.to_windows(), "longfilename.txt");
}

#[test]
fn mapped_characters_are_others_on_disk() {
    let mut share = Share::with(|settings| {
        settings.character_mappings = store::CharacterMappings::parse("0x3a:0xf022,0x22:0xa8");
    });
    share.local("a:b\"c", "x");
    assert_eq!(share.names(""), [".", "..", "a\u{f022}b¨c"]);
    let open = share.open_for("A\u{f022}B¨C", DELETE);
    assert_eq!(share.rename(open, "d\u{f022}", false).as_deref(), Ok("d\u{f022}"));
    assert!(share.host("d:").exists());
    let made = share.create("e¨");
    share.close(made);
    assert!(share.host("e\"").exists());
}

/// Others find the file by that path: a deletion owner, a durable open, a rename above it.
#[test]
fn the_path_of_an_open_has_the_characters_of_clients_in_all_of_its_names() {
    let mut share = Share::with(|settings| {
        settings.character_mappings = store::CharacterMappings::parse("0x3a:0xf022");
    });
    share.local_directory("a:b/c:d");
    share.local("a:b/c:d/f", "x");
    let path = "a\u{f022}b\\c\u{f022}d\\f";
    // The second time from a cache, and at last without regard to case.
    for name in [path, path, "A\u{f022}B\\C\u{f022}D\\F"] {
        let opened = share.try_open(name, |_| {}).expect("found");
        assert_eq!(opened.path.to_windows(), path, "{name}");
    }
    let open = share.open_for(path, DELETE);
    let new = "a\u{f022}b\\c\u{f022}d\\new";
    assert_eq!(share.rename(open, new, false).as_deref(), Ok(new));
}

/// Shares of one folder show names in different ways, and the engine compares those on disk.
#[test]
fn an_open_has_the_path_on_disk_where_clients_see_another() {
    let mut share = Share::with(|settings| {
        settings.character_mappings = store::CharacterMappings::parse("0x3a:0xf022");
    });
    for path in ["a:b/f", "a:b/x:y", "CON/f", "plain/f"] {
        share.local_directory(path.split('/').next().expect("it has one"));
        share.local(path, "x");
    }
    let short = share.names("").into_iter().find(|name| name.contains('~')).expect("of CON");
    for (name, want) in [
        ("a\u{f022}b\\f", Some("a:b/f")),
        ("A\u{f022}B\\F", Some("a:b/f")),
        ("a\u{f022}b\\x\u{f022}y", Some("a:b/x:y")),
        (&format!("{short}\\f"), Some("CON/f")),
        (&*short, Some("CON")),
        ("plain\\f", None),
        ("PLAIN\\F", None),
        ("plain", None),
        ("", None),
    ] {
        let opened = share.try_open(name, |request| request.desired_access = READ);
        assert_eq!(opened.expect("found").path_on_disk.as_deref(), want, "{name}");
    }
    let open = share.open_for("plain\\f", DELETE);
    for (target, want) in [("a\u{f022}b\\new", Some("a:b/new")), ("plain\\new", None)] {
        let target = object::ObjectPath::parse(target).expect("a path");
        let rename = object::ObjectOp::Rename { open, target: target.into(), replace: false };
        let Ok(object::ObjectReply::Renamed(_, on_disk)) = share.run(rename) else {
            panic!("not renamed")
        };
        assert_eq!(on_disk.as_deref(), want);
    }
}

#[test]
fn new_names_take_the_case_that_the_share_wants() {
    use store::NewCase;
    let mut share = Share::with(|settings| settings.new_short_case = NewCase::Lower);
    for name in ["SHORT.TXT", "A Long Name"] {
        let open = share.create(name);
        share.close(open);
    }
    assert_eq!(share.names(""), [".", "..", "A Long Name", "short.txt"]);
    let mut share = Share::with(|settings| settings.new_case = NewCase::Upper);
    let open = share.create("A Long näme");
    assert_eq!(share.names(""), [".", "..", "A LONG NÄME"]);
    assert_eq!(share.rename(open, "Other name", false).as_deref(), Ok("OTHER NAME"));
    // Existing names keep their case.
    share.local("Mixed name", "");
    assert_eq!(share.status_of("mixed NAME", |_| {}), NtStatus::SUCCESS);
    assert!(share.host("Mixed name").exists());
}

/// As smb2.mangle of smbtorture: a program that knows short names alone replaces a file.
#[test]
fn a_file_made_again_by_its_short_name_has_its_long_name_again() {
    let mut share = Share::new();
    for name in ["a longer name.text", "x:y"] {
        share.local(name, "old");
        let open = match name {
            "x:y" => {
                let short = only_name(&mut share, "");
                share.open(&short)
            }
            _ => share.open(name),
        };
        let short = match share.run(object::ObjectOp::QueryShortName { open }) {
            Ok(object::ObjectReply::ShortName(Some(short))) => short,
            other => panic!("no short name: {other:?}"),
        };
        share.close(open);
        let open = share.open_for(&short, DELETE);
        share.unlink(open).expect("removed");
        let open = share.create(&short.to_lowercase());
        assert!(share.host(name).exists(), "{name}");
        share.unlink(open).expect("removed");
        // In another directory it is a name like any other.
        share.local_directory("other");
        let open = share.create(&format!("other\\{short}"));
        share.close(open);
        assert!(share.host("other").join(&short).exists());
        share.store.revert_to_server();
        std::fs::remove_dir_all(share.host("other")).expect("there");
    }
}

/// To clients, `x:y` is a stream of `x`.
#[test]
fn an_object_made_again_by_its_short_name_has_a_path_that_clients_can_use() {
    for kind in [RequestedKind::File, RequestedKind::Directory] {
        let mut share = Share::new();
        share.local("x:y", "old");
        let short = only_name(&mut share, "");
        let open = share.open_for(&short, DELETE);
        share.unlink(open).expect("removed");
        let made = share.try_open(&short.to_lowercase(), |request| {
            request.disposition = Disposition::Create;
            request.kind = kind;
        });
        let made = made.expect("created");
        assert!(share.host("x:y").exists(), "it has its long name again");
        let path = made.path.to_windows();
        assert_eq!(path, short, "as in a listing");
        let opened = share.try_open(&path, |_| {}).expect("the path leads to it");
        assert_eq!(opened.metadata.identity, made.metadata.identity);
    }
}

#[test]
fn a_stored_name_that_windows_cannot_use_is_shown_to_a_client_that_sends_it() {
    let mut share = Share::new();
    share.local("con", "x");
    assert_ne!(only_name(&mut share, ""), "con", "others see the short name");
    let opened = share.try_open("con", |_| {}).expect("it is there");
    assert_eq!(opened.path.to_windows(), "con");
}

/// Two changes may come within the granularity of modification times.
#[test]
fn a_name_that_others_made_unnoticed_is_not_made_again() {
    let mut share = Share::new();
    share.local_directory("d");
    let open = share.create("d\\first");
    share.close(open);
    let directory = std::fs::File::open(share.host("d")).expect("there");
    let modified = directory.metadata().and_then(|it| it.modified()).expect("it has a time");
    share.local("d/second", "x");
    directory.set_modified(modified).expect("ours");
    let as_if_new = |share: &mut Share, disposition| {
        share.try_open("d\\second", |request| request.disposition = disposition)
    };
    let created = as_if_new(&mut share, Disposition::Create).map(drop);
    assert_eq!(created, Err(NtStatus::OBJECT_NAME_COLLISION));
    let opened = as_if_new(&mut share, Disposition::OpenIf).expect("it is there");
    assert!(!opened.created);
    assert_eq!(share.read(opened.open, 0, 10), b"x");
}
