//! Files that clients delete go to the recycle bin of their share: Samba's `vfs_recycle`.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;

use dtyp::security_descriptor::Control;
use dtyp::{
    AccessMask, Ace, AceFlags, Acl, NameExpression, SecurityDescriptor, SecurityInformation, Sid,
};
use object::{ObjectOp, ObjectPath};
use rustix::fs::XattrFlags;
use store::{NtAclSettings, RecycleSettings, Touch};
use support::{DELETE, Share, account, is_root};

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
