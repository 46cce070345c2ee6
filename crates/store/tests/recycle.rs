//! Files that clients delete go to the recycle bin of their share: Samba's `vfs_recycle`.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dtyp::security_descriptor::Control;
use dtyp::{
    AccessMask, Ace, AceFlags, Acl, NameExpression, SecurityDescriptor, SecurityInformation, Sid,
};
use object::{ObjectOp, ObjectPath};
use rustix::fs::XattrFlags;
use store::{Credentials, NtAclSettings, RecycleSettings, Touch};
use support::posix_acl::{self, Entry};
use support::{DELETE, Share, account, is_root};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// Two users of a bin; the first puts folders there for the second.
const ANNA: u32 = 12_345;
const BOB: u32 = 23_456;

/// Highest number of a folder beside one of somebody else's.
const BESIDE_MAX: u32 = 256;

fn bin(change: impl FnOnce(&mut RecycleSettings)) -> Share {
    let mut settings = RecycleSettings {
        repository: PathBuf::from(".recycle/ann"),
        directory_mode: 0o755,
        subdirectory_mode: 0o700,
        ..RecycleSettings::default()
    };
    change(&mut settings);
    Share::with(|share| share.recycle = Some(settings))
}

fn delete(share: &mut Share, path: &str) {
    let open = share.open_for(path, DELETE);
    share.unlink(open).expect("it can be deleted");
    assert!(!share.host(path).exists(), "{path} is gone");
}

/// Makes a file and deletes it as a client.
fn deleted(share: &mut Share, path: &str, content: &str) {
    share.local(path, content);
    delete(share, path);
}

#[test]
fn a_deleted_file_is_in_the_bin_with_its_attributes() {
    let mut share = bin(|_| {});
    share.local_directory("d");
    share.local("d/file", "kept");
    let path = share.host("d/file");
    rustix::fs::setxattr(&path, "user.DosStream.s:$DATA", b"x\0", XattrFlags::empty())
        .expect("the file system has extended attributes");
    delete(&mut share, "d/file");
    assert_eq!(share.content(".recycle/ann/file"), "kept");
    let mut value = [0; 8];
    let moved = share.host(".recycle/ann/file");
    assert_eq!(rustix::fs::getxattr(&moved, "user.DosStream.s:$DATA", &mut value[..]), Ok(2));
    assert_eq!((share.mode_of(".recycle"), share.mode_of(".recycle/ann")), (0o755, 0o700));
}

#[test]
fn with_keeptree_a_file_keeps_its_path() {
    let mut share = bin(|bin| bin.keep_tree = true);
    share.local_directory("d/Deep");
    deleted(&mut share, "d/Deep/file", "1");
    deleted(&mut share, "top", "2");
    assert_eq!(share.content(".recycle/ann/d/Deep/file"), "1");
    assert_eq!(share.content(".recycle/ann/top"), "2");
}

#[test]
fn without_versions_the_newer_file_replaces_the_older_one() {
    let mut share = bin(|_| {});
    deleted(&mut share, "file", "old");
    deleted(&mut share, "file", "new");
    assert_eq!(share.content(".recycle/ann/file"), "new");
    assert!(!share.host(".recycle/ann/Copy #1 of file").exists());
}

#[test]
fn versions_are_numbered_as_in_samba() {
    let mut share = bin(|bin| {
        bin.versions = true;
        bin.unversioned = vec![NameExpression::new("*.TMP")];
    });
    for content in ["0", "1", "2", "3", "4", "5"] {
        deleted(&mut share, "file", content);
        deleted(&mut share, "a.tmp", content);
    }
    assert_eq!(share.content(".recycle/ann/file"), "0");
    for number in 1..6 {
        let copy = format!(".recycle/ann/Copy #{number} of file");
        assert_eq!(share.content(&copy), number.to_string());
    }
    assert_eq!(share.content(".recycle/ann/a.tmp"), "5");
    assert_eq!(fs::read_dir(share.host(".recycle/ann")).expect("it is there").count(), 7);
}

#[test]
fn versions_of_a_long_name_lose_its_beginning() {
    let mut share = bin(|bin| bin.versions = true);
    let name = format!("{}.text", "\u{e4}".repeat(125));
    deleted(&mut share, &name, "0");
    deleted(&mut share, &name, "1");
    assert_eq!(share.content(&format!(".recycle/ann/{name}")), "0");
    // There is room for 244 of its 255 bytes, but the first one is the second half of a character.
    let copy = format!("Copy #1 of {}.text", "\u{e4}".repeat(119));
    assert_eq!(share.content(&format!(".recycle/ann/{copy}")), "1");
}

#[test]
fn a_file_in_the_bin_is_deleted() {
    let mut share = bin(|bin| bin.keep_tree = true);
    share.local_directory(".recycle/annex");
    deleted(&mut share, "file", "");
    delete(&mut share, ".recycle/ann/file");
    deleted(&mut share, ".recycle/annex/file", "1");
    assert_eq!(share.content(".recycle/ann/.recycle/annex/file"), "1", "the bin is another");
}

#[test]
fn excluded_names_and_sizes_are_deleted() {
    let mut share = bin(|bin| {
        bin.excluded = vec![NameExpression::new("*.o"), NameExpression::new("~$*")];
        bin.excluded_directories = vec![NameExpression::new("tmp*")];
        (bin.size_min, bin.size_max) = (2, Some(4));
    });
    share.local_directory("a/Tmp1/b");
    for path in ["x.O", "~$doc", "a/Tmp1/b/file"] {
        deleted(&mut share, path, "123");
    }
    deleted(&mut share, "small", "1");
    deleted(&mut share, "large", "12345");
    assert!(!share.host(".recycle").exists());
    deleted(&mut share, "a/two", "12");
    deleted(&mut share, "four", "1234");
    assert_eq!(fs::read_dir(share.host(".recycle/ann")).expect("it is there").count(), 2);
}

#[test]
fn directories_links_and_streams_are_deleted() {
    let mut share = bin(|_| {});
    share.local_directory("d");
    share.local("target", "stays");
    symlink("target", share.host("link")).expect("there is space");
    delete(&mut share, "d");
    delete(&mut share, "link");
    fs::symlink_metadata(share.host("link")).expect_err("the link is gone");
    let stream = share.create("target:side");
    share.unlink(stream).expect("it can be deleted");
    assert_eq!(share.content("target"), "stays");
    assert!(!share.host(".recycle").exists());
}

#[test]
fn a_file_that_a_rename_replaces_is_not_moved() {
    let mut share = bin(|_| {});
    share.local("one", "1");
    share.local("two", "2");
    let open = share.open_for("one", DELETE);
    let target = ObjectPath::parse("two").expect("a path").into();
    share.run(ObjectOp::Rename { open, target, replace: true }).expect("renamed");
    share.close(open);
    assert_eq!(share.content("two"), "1");
    assert!(!share.host(".recycle").exists());
}

#[test]
fn a_bin_behind_a_symbolic_link_takes_nothing() {
    for link in [".recycle", ".recycle/ann"] {
        let mut share = bin(|_| {});
        let outside = tempfile::tempdir().expect("there is space");
        if link.contains('/') {
            share.local_directory(".recycle");
        }
        symlink(outside.path(), share.host(link)).expect("there is space");
        deleted(&mut share, "file", "gone");
        assert_eq!(fs::read_dir(outside.path()).expect("it is ours").count(), 0, "{link}");
    }
}

#[test]
fn a_second_name_of_a_file_in_the_bin_is_removed() {
    let mut share = bin(|_| {});
    deleted(&mut share, "file", "one");
    fs::hard_link(share.host(".recycle/ann/file"), share.host("file")).expect("there is space");
    delete(&mut share, "file");
    assert_eq!(share.content(".recycle/ann/file"), "one");
}

#[test]
fn times_become_those_of_the_deletion_if_asked() {
    let long_ago = fs::FileTimes::new()
        .set_accessed(std::time::UNIX_EPOCH)
        .set_modified(std::time::UNIX_EPOCH);
    let cases = [(Touch::Nothing, [0, 0]), (Touch::AccessTime, [1, 0]), (Touch::BothTimes, [1, 1])];
    for (touch, want) in cases {
        let mut share = bin(|bin| bin.touch = touch);
        share.local("file", "");
        let file = fs::File::options().write(true).open(share.host("file")).expect("ours");
        file.set_times(long_ago).expect("ours");
        delete(&mut share, "file");
        let found = fs::metadata(share.host(".recycle/ann/file")).expect("it is there");
        let changed = [found.atime(), found.mtime()].map(|time| i64::from(time > 0));
        assert_eq!(changed, want, "{touch:?}");
    }
}

#[test]
fn a_bin_that_the_user_may_not_write_takes_nothing_and_the_file_is_deleted() {
    let mut share = bin(|_| {});
    if !is_root() {
        return;
    }
    share.local_directory(".recycle/ann");
    share.mode(".recycle/ann", 0o755);
    share.user = share.store.register_user(account(12_345, &[]));
    let open = share.create("file");
    share.unlink(open).expect("it can be deleted");
    assert!(!share.host("file").exists());
    assert_eq!(fs::read_dir(share.host(".recycle/ann")).expect("it is there").count(), 0);
}

#[test]
fn directories_of_the_bin_belong_to_the_user_or_to_the_owner_of_the_file() {
    if !is_root() {
        return;
    }
    for (gives, by_server) in [(false, false), (true, true)] {
        let mut share = bin(|bin| bin.gives_directories = gives);
        let server = share.user;
        let user = share.store.register_user(account(12_345, &[]));
        share.user = user;
        let open = share.create("file");
        share.close(open);
        share.user = if by_server { server } else { user };
        delete(&mut share, "file");
        share.store.revert_to_server();
        for path in [".recycle", ".recycle/ann", ".recycle/ann/file"] {
            let found = fs::metadata(share.host(path)).expect("it is there");
            assert_eq!(found.uid(), 12_345, "{path}");
        }
    }
}

/// A share whose users have folders of their own in the bin, as docs/recycle.md advises. Bob
/// deletes there, after Anna has put folders into the bin. `None` without the right to be both.
fn bin_of_bob(change: impl FnOnce(&mut RecycleSettings), of_anna: &[&str]) -> Option<Share> {
    let mut share = bin(|bin| {
        bin.repository = PathBuf::from(".recycle/bob");
        (bin.keep_tree, bin.directory_mode) = (true, 0o1777);
        change(bin);
    });
    if !is_root() {
        return None;
    }
    share.local_directory(".recycle");
    share.mode(".recycle", 0o1777);
    for path in of_anna {
        plant(&mut share, ANNA, path, 0o777);
    }
    share.user = share.store.register_user(account(BOB, &[]));
    Some(share)
}

/// Makes a folder as a local program of a user would.
fn plant(share: &mut Share, user: u32, path: &str, mode: u32) {
    share.local_directory(path);
    share.mode(path, mode);
    std::os::unix::fs::chown(share.host(path), Some(user), Some(user)).expect("root");
}

/// Makes a file and deletes it, both as the user of the share.
fn made_and_deleted(share: &mut Share, path: &str) {
    let open = share.create(path);
    share.write(open, 0, path.as_bytes());
    share.close(open);
    delete(share, path);
}

fn count(share: &mut Share, path: &str) -> usize {
    share.store.revert_to_server();
    fs::read_dir(share.host(path)).expect("it is there").count()
}

#[test]
fn a_folder_that_another_user_made_in_the_bin_takes_nothing() {
    let of_anna = [".recycle/bob", ".recycle/bob/private"];
    let Some(mut share) = bin_of_bob(|_| {}, &of_anna) else { return };
    let private = share.create_directory("private");
    share.close(private);
    made_and_deleted(&mut share, "private/secret");
    made_and_deleted(&mut share, "private/second");
    assert_eq!(count(&mut share, ".recycle/bob/private"), 0);
    assert_eq!(share.content(".recycle/bob-2/private/secret"), "private/secret");
    assert_eq!(share.content(".recycle/bob-2/private/second"), "private/second");
    assert_eq!(share.mode_of(".recycle/bob-2"), 0o700);
    let secret = share.host(".recycle/bob-2/private/secret");
    share.locally(&account(ANNA, &[]), || fs::read(&secret).expect_err("it is Bob's"));
}

#[test]
fn a_folder_below_that_another_user_made_in_the_bin_takes_nothing() {
    let Some(mut share) = bin_of_bob(|_| {}, &[]) else { return };
    plant(&mut share, 0, ".recycle/bob", 0o1777);
    plant(&mut share, ANNA, ".recycle/bob/d", 0o777);
    share.local_directory("d");
    share.mode("d", 0o777);
    made_and_deleted(&mut share, "d/file");
    assert_eq!(count(&mut share, ".recycle/bob/d"), 0);
    assert_eq!(share.content(".recycle/bob/d-2/file"), "d/file");
}

#[test]
fn folders_of_the_user_of_root_and_of_the_owner_of_the_share_take_files() {
    for owner in [0, BOB, ANNA] {
        let Some(mut share) = bin_of_bob(|_| {}, &[]) else { return };
        plant(&mut share, owner, ".recycle/bob", 0o777);
        std::os::unix::fs::chown(share.host(""), Some(ANNA), None).expect("root");
        made_and_deleted(&mut share, "file");
        assert_eq!(share.content(".recycle/bob/file"), "file", "{owner}");
    }
}

/// The attack: Anna owns a file that others may delete, and has made a closed folder of Bob's name.
#[test]
fn a_closed_folder_of_the_owner_of_a_file_makes_no_deletion_by_others_final() {
    for mode in [0o755, 0o700] {
        for folder in [".recycle/bob", ".recycle/bob/d"] {
            let Some(mut share) = bin_of_bob(|_| {}, &[]) else { return };
            if folder != ".recycle/bob" {
                plant(&mut share, 0, ".recycle/bob", 0o1777);
            }
            plant(&mut share, ANNA, folder, mode);
            plant(&mut share, 0, "d", 0o777);
            share.local("d/file", "of Anna");
            std::os::unix::fs::chown(share.host("d/file"), Some(ANNA), None).expect("root");
            delete(&mut share, "d/file");
            share.store.revert_to_server();
            let used = if folder == ".recycle/bob" { "bob-2/d" } else { "bob/d-2" };
            let used = format!(".recycle/{used}/file");
            assert_eq!(share.content(&used), "of Anna", "{folder} {mode:o}");
        }
    }
}

/// An operator may make the folders of users in one that only root writes.
#[test]
fn a_closed_folder_of_root_leads_to_those_of_users() {
    let change = |bin: &mut RecycleSettings| {
        (bin.repository, bin.keep_tree) = (PathBuf::from(".recycle/users/bob"), false);
    };
    let Some(mut share) = bin_of_bob(change, &[]) else { return };
    plant(&mut share, 0, ".recycle/users", 0o755);
    plant(&mut share, BOB, ".recycle/users/bob", 0o700);
    made_and_deleted(&mut share, "file");
    assert_eq!(share.content(".recycle/users/bob/file"), "file");
}

/// The attack: all numbers of copies that are tried are files of others.
#[test]
fn beyond_the_last_number_a_copy_has_a_name_that_nobody_foresees() {
    let mut share = bin(|bin| bin.versions = true);
    deleted(&mut share, "file", "first");
    for power in 0..u32::BITS {
        share.local(&format!(".recycle/ann/Copy #{} of file", 1_u64 << power), "in the way");
    }
    deleted(&mut share, "file", "second");
    deleted(&mut share, "file", "third");
    let names = fs::read_dir(share.host(".recycle/ann")).expect("it is there").flatten();
    let names: Vec<_> = names.filter_map(|it| it.file_name().into_string().ok()).collect();
    let contents = names.iter().map(|it| share.content(&format!(".recycle/ann/{it}")));
    let mut contents: Vec<_> = contents.filter(|it| it != "in the way").collect();
    contents.sort();
    assert_eq!(contents, ["first", "second", "third"], "{names:?}");
}

#[test]
fn a_free_name_is_found_beside_folders_files_and_links_of_others() {
    let of_anna = [".recycle/bob", ".recycle/bob-2", ".recycle/bob-5"];
    let Some(mut share) = bin_of_bob(|_| {}, &of_anna) else { return };
    share.local(".recycle/bob-3", "a file");
    symlink("..", share.host(".recycle/bob-4")).expect("there is space");
    made_and_deleted(&mut share, "file");
    assert_eq!(share.content(".recycle/bob-6/file"), "file");
    assert_eq!(share.content(".recycle/bob-3"), "a file");
}

#[test]
fn beyond_the_last_number_a_folder_has_a_name_that_nobody_foresees() {
    let Some(mut share) = bin_of_bob(|_| {}, &[".recycle/bob"]) else { return };
    for number in 2..BESIDE_MAX {
        plant(&mut share, ANNA, &format!(".recycle/bob-{number}"), 0o777);
    }
    made_and_deleted(&mut share, "last");
    let last = format!(".recycle/bob-{BESIDE_MAX}");
    assert_eq!(share.content(&format!("{last}/last")), "last");
    share.store.revert_to_server();
    fs::remove_dir_all(share.host(&last)).expect("root");
    plant(&mut share, ANNA, &last, 0o777);
    made_and_deleted(&mut share, "first");
    made_and_deleted(&mut share, "second");
    assert_eq!(count(&mut share, &last), 0);
    let names = fs::read_dir(share.host(".recycle")).expect("it is there").flatten();
    let is_bobs = |it: &fs::DirEntry| it.metadata().is_ok_and(|it| it.uid() == BOB);
    let own: Vec<_> = names.filter(is_bobs).map(|it| it.file_name()).collect();
    let [own] = &own[..] else { panic!("one folder for both: {own:?}") };
    let own = format!(".recycle/{}", own.to_str().expect("it is ASCII"));
    assert_eq!(share.content(&format!("{own}/first")), "first");
    delete(&mut share, &format!("{own}/second"));
    assert_eq!(count(&mut share, &own), 1, "a file in the bin is deleted");
}

/// Where all may rename folders of the bin, the name of one that is in use can be taken.
#[test]
fn unforeseen_names_that_others_take_after_their_use_make_no_deletion_final() {
    for by_server in [false, true] {
        take_names_after_their_use(by_server);
    }
}

fn take_names_after_their_use(by_server: bool) {
    let change = |bin: &mut RecycleSettings| bin.gives_directories = by_server;
    let Some(mut share) = bin_of_bob(change, &[".recycle/bob"]) else { return };
    for number in 2..=BESIDE_MAX {
        plant(&mut share, ANNA, &format!(".recycle/bob-{number}"), 0o777);
    }
    share.mode("", 0o777);
    let bob = share.user;
    let deleter = if by_server { share.store.register_user(account(0, &[])) } else { bob };
    for file in ["1", "2", "3", "4", "5", "6", "7", "8"] {
        share.user = bob;
        let open = share.create(file);
        share.close(open);
        share.user = deleter;
        delete(&mut share, file);
        share.store.revert_to_server();
        let folders = fs::read_dir(share.host(".recycle")).expect("it is there").flatten();
        let is_bobs = |it: &fs::DirEntry| it.metadata().is_ok_and(|it| it.uid() == BOB);
        let names = folders.filter(is_bobs).filter_map(|it| it.file_name().into_string().ok());
        let used: Vec<_> = names.filter(|it| it.starts_with("bob-")).collect();
        let [used] = &used[..] else { panic!("{file}: {used:?}") };
        let used = format!(".recycle/{used}");
        let aside = format!(".recycle/aside {file}");
        fs::rename(share.host(&used), share.host(&aside)).expect("root");
        plant(&mut share, ANNA, &used, 0o777);
        assert!(share.host(&format!("{aside}/{file}")).exists(), "{file}, server: {by_server}");
    }
}

/// In the folder of the share, whoever may write it could give any folder a name with a number.
#[test]
fn a_first_folder_that_another_user_has_closed_or_made_a_file_has_no_other_beside_it() {
    for is_folder in [true, false] {
        for by_server in [true, false] {
            let Some(mut share) = bin_of_bob(|bin| bin.gives_directories = by_server, &[]) else {
                return;
            };
            fs::remove_dir(share.host(".recycle")).expect("it is empty");
            match is_folder {
                true => plant(&mut share, ANNA, ".recycle", 0o700),
                false => share.local(".recycle", "a file"),
            }
            share.mode("", 0o777);
            let open = share.create("file");
            share.close(open);
            if by_server {
                share.user = share.store.register_user(account(0, &[]));
            }
            delete(&mut share, "file");
            assert_eq!(count(&mut share, ""), 1, "folder: {is_folder}, server: {by_server}");
        }
    }
}

/// The attack: deletions in a folder of others were final if it had such a name.
#[test]
fn a_folder_of_the_share_with_the_name_of_the_bin_and_a_number_is_no_bin() {
    for number in ["2", "77", "00c0ffee00c0ffee"] {
        let Some(mut share) = bin_of_bob(|_| {}, &[]) else { return };
        let path = format!(".recycle-{number}/bob/file");
        plant(&mut share, BOB, &format!(".recycle-{number}/bob"), 0o755);
        made_and_deleted(&mut share, &path);
        assert_eq!(share.content(&format!(".recycle/bob/{path}")), path);
    }
}

#[test]
fn a_file_in_a_folder_beside_that_of_another_user_is_deleted() {
    let Some(mut share) = bin_of_bob(|_| {}, &[".recycle/bob"]) else { return };
    made_and_deleted(&mut share, "file");
    delete(&mut share, ".recycle/bob-2/file");
    assert_eq!(count(&mut share, ".recycle/bob-2"), 0);
    // Nobody makes such a folder for the bin.
    for path in [".recycle/bob-02", ".recycle/bob-1", ".recycle/bob-257", ".recycle/bobby-2"] {
        plant(&mut share, BOB, path, 0o700);
        made_and_deleted(&mut share, &format!("{path}/file"));
        assert_eq!(share.content(&format!(".recycle/bob-2/{path}/file")), format!("{path}/file"));
    }
}

#[test]
fn a_shared_bin_has_folders_of_all_its_users() {
    for mode in [0o770, 0o707, 0o701] {
        let of_anna = [".recycle/bob", ".recycle/bob/d"];
        let Some(mut share) = bin_of_bob(|bin| bin.subdirectory_mode = mode, &of_anna) else {
            return;
        };
        share.local_directory("d");
        share.mode("d", 0o777);
        made_and_deleted(&mut share, "d/file");
        assert_eq!(share.content(".recycle/bob/d/file"), "d/file", "{mode:o}");
    }
}

/// Nobody knows the user of a file that another process deletes. Its owner gets new folders of the
/// bin, so files of several owners do not meet in one.
#[test]
fn files_that_the_server_deletes_go_to_folders_of_their_owners() {
    let Some(mut share) = bin_of_bob(|bin| bin.gives_directories = true, &[]) else { return };
    let server = share.store.register_user(account(0, &[]));
    for (user, path) in [(ANNA, "of_anna"), (BOB, "of_bob"), (ANNA, "second")] {
        share.user = share.store.register_user(account(user, &[]));
        let open = share.create(path);
        share.close(open);
        share.user = server;
        delete(&mut share, path);
    }
    for (path, owner) in [("bob/of_anna", ANNA), ("bob-2/of_bob", BOB), ("bob/second", ANNA)] {
        let path = share.host(&format!(".recycle/{path}"));
        share.store.revert_to_server();
        let folder = fs::metadata(path.parent().expect("it has one")).expect("it is there");
        let file = fs::metadata(&path).expect("it is there");
        assert_eq!((folder.uid(), file.uid()), (owner, owner), "{path:?}");
    }
}

/// The attack: Anna renames a private directory of Bob's, or one of root's, to be the bin, and
/// leaves the deletion of her own file to the server.
#[test]
fn a_file_that_the_server_deletes_does_not_get_into_private_directories_of_others() {
    if !is_root() {
        return;
    }
    let modes = [(BOB, 0o700), (BOB, 0o777), (0, 0o700), (0, 0o755), (0, 0o2770), (0, 0o2775)];
    for (owner, mode) in modes {
        for versions in [false, true] {
            let mut share = bin(|bin| {
                bin.repository = PathBuf::from(".recycle");
                (bin.gives_directories, bin.versions) = (true, versions);
            });
            let server = share.user;
            plant(&mut share, owner, ".recycle", mode);
            share.local(".recycle/report", "of bob");
            share.user = share.store.register_user(account(ANNA, &[]));
            let open = share.create("report");
            share.close(open);
            share.user = server;
            delete(&mut share, "report");
            assert!(!share.host("report").exists(), "it is deleted for good");
            assert_eq!(share.content(".recycle/report"), "of bob", "{owner} {mode:o}");
            assert_eq!(count(&mut share, ".recycle"), 1, "{owner} {mode:o}");
        }
    }
}

/// As above, with a folder of another department. Its mode says that its group may write it, which
/// is the mask of its ACL; and Anna's file has the group of the share, as in one that is setgid.
#[test]
fn a_file_that_the_server_deletes_does_not_get_into_folders_of_groups_with_an_acl() {
    const TEAM: u32 = 34_567;
    if !is_root() {
        return;
    }
    for (acl, for_all) in [(true, 0), (false, 0), (true, 7)] {
        let mut share = bin(|bin| {
            bin.repository = PathBuf::from(".recycle");
            bin.gives_directories = true;
        });
        let server = share.user;
        plant(&mut share, 0, ".recycle", 0o2770);
        let folder = share.host(".recycle");
        std::os::unix::fs::chown(&folder, None, Some(TEAM)).expect("root");
        if acl {
            // The owner, Bob's department, not the group, Anna by name, and all or none.
            let entries = [
                Entry::Owner(7),
                Entry::User(ANNA, 0),
                Entry::OwningGroup(0),
                Entry::Group(BOB, 7),
                Entry::Mask(7),
                Entry::Others(for_all),
            ];
            posix_acl::set(&folder, &entries);
        }
        share.user = share.store.register_user(account(ANNA, &[]));
        let open = share.create("Invoice.lnk");
        share.close(open);
        share.store.revert_to_server();
        let made = share.host("Invoice.lnk");
        std::os::unix::fs::chown(made, None, Some(TEAM)).expect("root");
        share.user = server;
        delete(&mut share, "Invoice.lnk");
        assert_eq!(count(&mut share, ".recycle"), 0, "{acl} {for_all}");
    }
}

#[test]
fn a_file_that_the_server_deletes_replaces_none_in_a_bin_for_all() {
    if !is_root() {
        return;
    }
    let mut share = bin(|bin| {
        bin.repository = PathBuf::from(".recycle");
        bin.gives_directories = true;
    });
    plant(&mut share, 0, ".recycle", 0o1777);
    share.local(".recycle/report", "earlier");
    share.local("report", "later");
    delete(&mut share, "report");
    assert_eq!(share.content(".recycle/report"), "earlier");
    assert_eq!(share.content(".recycle/Copy #1 of report"), "later");
}

/// The bin of docs/recycle.md: the first user who deletes makes the folder for all.
#[test]
fn a_file_that_the_server_deletes_goes_through_a_sticky_bin_of_another_user() {
    let Some(mut share) = bin_of_bob(|bin| bin.gives_directories = true, &[]) else { return };
    let server = share.store.register_user(account(0, &[]));
    plant(&mut share, ANNA, ".recycle", 0o1777);
    share.user = share.store.register_user(account(BOB, &[]));
    let open = share.create("file");
    share.close(open);
    share.user = server;
    delete(&mut share, "file");
    share.store.revert_to_server();
    let found = fs::metadata(share.host(".recycle/bob/file")).expect("it is in the bin");
    assert_eq!(found.uid(), BOB);
}

/// The server's rights remove a file that the user was granted to delete, though the mode of its
/// directory refuses that. They add nothing to a bin that the user may not write.
#[test]
fn a_deletion_that_only_a_descriptor_grants_moves_a_file_if_the_user_may_write_the_bin() {
    if !is_root() {
        return;
    }
    for (mode, is_moved) in [(0o777, true), (0o755, false)] {
        let settings = RecycleSettings { repository: "bin".into(), ..RecycleSettings::default() };
        let mut share = Share::with(|share| {
            share.nt_acls = Some(NtAclSettings::new(true));
            share.recycle = Some(settings);
        });
        share.local_directory("d");
        share.local_directory("bin");
        share.mode("bin", mode);
        share.local("d/file", "1");
        let open = share.open_for("d/file", AccessMask::WRITE_DAC);
        let ace = Ace::allow(Sid::unix_user(12_345), DELETE, AceFlags::empty());
        let descriptor = SecurityDescriptor {
            control: Control::DACL_PRESENT,
            dacl: Some(Acl::new(vec![ace])),
            ..SecurityDescriptor::default()
        };
        share.write_security(open, SecurityInformation::DACL, &descriptor).expect("root's");
        share.close(open);
        share.mode("d", 0o755);
        share.user = share.store.register_user(account(12_345, &[]));
        delete(&mut share, "d/file");
        assert_eq!(share.host("bin/file").exists(), is_moved);
    }
}

/// The attack: a guest, in the group that stands for nobody, comes into folders that the server
/// makes for a group.
#[test]
fn folders_that_the_server_makes_in_the_bin_have_the_group_of_the_file_and_no_guests() {
    const TEAM: u32 = 34_567;
    if !is_root() {
        return;
    }
    let mut share = bin(|bin| {
        (bin.directory_mode, bin.subdirectory_mode) = (0o770, 0o770);
        (bin.gives_directories, bin.keep_tree) = (true, true);
    });
    let server = share.user;
    share.local_directory("d");
    share.mode("d", 0o777);
    share.user = share.store.register_user(account(ANNA, &[]));
    let open = share.create("d/file");
    share.close(open);
    share.store.revert_to_server();
    std::os::unix::fs::chown(share.host("d/file"), None, Some(TEAM)).expect("root");
    std::os::unix::fs::chown(share.host(""), Some(ANNA), None).expect("root");
    share.user = server;
    delete(&mut share, "d/file");
    share.store.revert_to_server();
    assert!(share.host(".recycle/ann/d/file").exists());
    for path in [".recycle", ".recycle/ann", ".recycle/ann/d"] {
        let folder = fs::metadata(share.host(path)).expect("it is there");
        let has = (folder.uid(), folder.gid(), folder.mode() & 0o777);
        assert_eq!(has, (ANNA, TEAM, 0o770), "{path}");
    }
}

/// The attack: an open without the right to delete closes last, and leaves folders for its user.
#[test]
fn an_open_that_may_not_delete_makes_no_folders_in_the_bin() {
    let Some(mut share) = bin_of_bob(|_| {}, &[]) else { return };
    share.local_directory("closed");
    share.local("closed/file", "1");
    share.mode("closed", 0o755);
    let open = share.open_for("closed/file", AccessMask::READ_ATTRIBUTES);
    let _ = share.unlink(open).expect_err("the directory is another user's");
    share.store.revert_to_server();
    assert!(share.host("closed/file").exists());
    assert!(!share.host(".recycle/bob").exists());
}

/// The attack: anybody can delete files in a share for guests, and make the bin unusable.
#[test]
fn a_guest_writes_nothing_to_the_log_by_deletions() {
    for (is_guest, written) in [(false, 3), (true, 0)] {
        let mut share = bin(|_| {});
        share.local(".recycle", "a file");
        share.mode("", 0o777);
        let sids = if is_guest { Credentials::well_known_of_guests() } else { Vec::new() };
        share.user = share.store.register_user(Credentials { sids, ..account(ANNA, &[]) });
        let log = Lines::default();
        tracing::subscriber::with_default(log.clone(), || {
            for name in ["one", "two", "three"] {
                made_and_deleted(&mut share, name);
            }
        });
        assert_eq!(log.0.load(Ordering::Relaxed), written, "guest: {is_guest}");
    }
}

/// Number of lines that a log of warnings has.
#[derive(Clone, Default)]
struct Lines(Arc<AtomicUsize>);

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
