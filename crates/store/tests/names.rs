//! Names: case, and never leaving the share.

mod support;

use dtyp::{AccessMask, NtStatus};
use object::{Disposition, KindWanted, ObjectKind};
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

/// What is remembered of a directory must not outlive a change by others.
#[test]
fn names_made_by_others_are_found_although_the_directory_was_read_before() {
    let mut share = Share::new();
    share.create("first");
    assert_eq!(share.status_of("OTHER", |_| {}), NtStatus::OBJECT_NAME_NOT_FOUND);
    share.local("other", "");
    assert_eq!(share.status_of("OTHER", |_| {}), NtStatus::SUCCESS);
    share.store.wear_server();
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
fn removing_what_a_link_leads_to_removes_the_link() {
    let mut share = Share::new();
    share.local("target", "x");
    symlink("target", share.host("link")).expect("a link");
    let open = share.open_for("link", READ | DELETE);
    share.unlink(open).expect("removed");
    assert!(share.host("target").exists());
    std::fs::symlink_metadata(share.host("link")).expect_err("the link is gone");
}

#[test]
fn links_are_not_followed_where_the_share_says_so() {
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

/// While another process keeps swapping a directory for a link that leads out, no request may ever see
/// what is outside.
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
        request.kind = KindWanted::Directory;
    });
    let again = again.expect("opened");
    assert!(!again.created);
    assert_eq!(again.path.to_windows(), "D");
}
