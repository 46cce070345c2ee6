//! Named streams as files of a depot, in the form of Samba's `vfs_streams_depot`.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use dtyp::{FileAttributes, NameExpression, NtStatus};
use object::{Disposition, EntryDetail, LocalOpen, ObjectOp, ObjectReply};
use store::DepotSettings;
use support::depot::{self, folders, get, listed};
use support::{DELETE, READ, Share, WRITE, is_root};

/// More than an extended attribute can hold.
const LONG: usize = 300_000;

/// A share with a depot beside it, and a file with the stream `s`.
fn share() -> Share {
    let mut share = share_with(|_| {});
    share.local("f", "base");
    put(&mut share, "f:s", b"stream");
    share
}

fn share_with(change: impl FnOnce(&mut DepotSettings)) -> Share {
    Share::with(|root| change(depot::beside(root)))
}

#[track_caller]
fn open_if(share: &mut Share, path: &str) -> LocalOpen {
    depot::open_if(share, path).expect("opened or created")
}

#[track_caller]
fn put(share: &mut Share, path: &str, data: &[u8]) {
    depot::put(share, path, data).expect("opened or created");
}

/// Folder of the streams of the only file that has some.
fn folder(share: &mut Share) -> PathBuf {
    let found = folders(share);
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().expect("there is one")
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at % 251).expect("small")).collect()
}

#[test]
fn a_stream_is_a_file_named_by_device_and_inode_of_its_base_file() {
    let mut share = share();
    let folder = folder(&mut share);
    let base = fs::metadata(share.host("f")).expect("it is there");
    let mut name = String::new();
    for byte in base.dev().to_le_bytes().into_iter().chain(base.ino().to_le_bytes()) {
        name.push_str(&format!("{byte:02X}"));
    }
    assert_eq!(folder.file_name().and_then(|it| it.to_str()), Some(&*name));
    assert_eq!(fs::read(folder.join(":s:$DATA")).expect("it is there"), b"stream");
    assert_eq!(share.attribute("f", "user.SAMBA_STREAMS").as_deref(), Some(&b"1"[..]));
    assert_eq!(share.attribute("f", "user.DosStream.s:$DATA"), None);
}

#[test]
fn streams_that_samba_has_written_are_listed_and_read() {
    let mut share = share();
    let folder = folder(&mut share);
    fs::write(folder.join(":Other Stream:$DATA"), "by Samba").expect("there is space");
    fs::write(folder.join("no stream"), "").expect("there is space");
    let want = [("Other Stream".to_owned(), 8), ("s".to_owned(), 6)];
    assert_eq!(listed(&mut share, "f"), want);
    assert_eq!(get(&mut share, "f:other stream"), Ok(b"by Samba".to_vec()), "in any case");
    let missing = get(&mut share, "f:missing");
    assert_eq!(missing, Err(NtStatus::OBJECT_NAME_NOT_FOUND));
}

#[test]
fn a_stream_may_be_longer_than_an_extended_attribute() {
    let mut share = share();
    let data = pattern(3 << 20);
    put(&mut share, "f:long", &data);
    assert_eq!(get(&mut share, "f:long").expect("it is there"), data);
    let open = open_if(&mut share, "f:long");
    share.done(ObjectOp::ZeroRange { open, from: 10, to: 100_010 });
    assert_eq!(share.read(open, 9, 3), [9, 0, 0]);
    assert_eq!(share.read(open, 100_009, 2), [0, data[100_010]]);
    share.done(ObjectOp::SetEndOfFile { open, size: 200_000 });
    share.done(ObjectOp::SetAllocation { open, size: 1 << 20 });
    assert_eq!(share.metadata(open).end_of_file, 200_000);
    share.done(ObjectOp::SetAllocation { open, size: 150_000 });
    share.done(ObjectOp::Flush { open });
    let ranges = ObjectOp::AllocatedRanges { open, from: 0, to: u64::MAX >> 1, ranges_max: 9 };
    assert!(matches!(share.run(ranges), Ok(ObjectReply::Ranges(all)) if all == [(0, 150_000)]));
    assert_eq!(share.content("f"), "base", "the file itself is as before");
}

#[test]
fn a_directory_has_streams_too() {
    let mut share = share_with(|_| {});
    share.local_directory("d");
    put(&mut share, "d:s", b"of d");
    assert_eq!(get(&mut share, "d:s"), Ok(b"of d".to_vec()));
    let directory = share.open_for("d", DELETE);
    share.unlink(directory).expect("it is empty");
    assert!(folders(&mut share).is_empty());
}

#[test]
fn streams_follow_their_file_to_another_name() {
    let mut share = share();
    let open = share.open_for("f", DELETE);
    share.local_directory("d");
    share.rename(open, "d\\g", false).expect("renamed");
    share.close(open);
    assert_eq!(get(&mut share, "d\\g:s"), Ok(b"stream".to_vec()));
}

#[test]
fn streams_go_with_the_last_name_of_their_file() {
    let mut share = share();
    share.store.revert_to_server();
    fs::hard_link(share.host("f"), share.host("second")).expect("there is space");
    let open = share.open_for("f", DELETE);
    share.unlink(open).expect("removed");
    assert_eq!(get(&mut share, "second:s"), Ok(b"stream".to_vec()));
    let open = share.open_for("second", DELETE);
    share.unlink(open).expect("removed");
    share.store.revert_to_server();
    assert!(folders(&mut share).is_empty());
}

#[test]
fn streams_of_a_file_that_a_rename_replaces_go_with_it() {
    let mut share = share();
    share.local("g", "other");
    put(&mut share, "g:t", b"t");
    let open = share.open_for("g", DELETE);
    share.rename(open, "f", true).expect("renamed");
    share.close(open);
    assert_eq!(listed(&mut share, "f"), [("t".to_owned(), 1)]);
    folder(&mut share);
}

/// A file `f` without streams of its own, and the folder of a file that has had its number.
fn with_reused_number(share: &mut Share) -> PathBuf {
    share.local("former", "base");
    put(share, "former:s", b"of the former file");
    let former = folder(share);
    // It is younger than the folder, and has no mark.
    share.local("f", "base");
    put(share, "f:t", b"t");
    share.store.revert_to_server();
    rustix::fs::removexattr(share.host("f"), "user.SAMBA_STREAMS").expect("it has it");
    let all = folders(share);
    let new = all.into_iter().find(|found| *found != former).expect("of the new file");
    fs::remove_dir_all(&new).expect("it is ours");
    fs::rename(&former, &new).expect("it is ours");
    new
}

#[test]
fn a_file_that_had_no_streams_leaves_those_of_a_former_one_when_it_goes() {
    for (delete_lost, is_replaced) in [(false, false), (false, true), (true, false)] {
        let mut share = share_with(|depot| depot.delete_lost = delete_lost);
        let former = with_reused_number(&mut share);
        if is_replaced {
            share.local("g", "other");
            let open = share.open_for("g", DELETE);
            share.rename(open, "f", true).expect("renamed");
            share.close(open);
        } else {
            let open = share.open_for("f", DELETE);
            share.unlink(open).expect("removed");
        }
        share.store.revert_to_server();
        let stream = fs::read(former.join(":s:$DATA")).expect("it is kept");
        assert_eq!(stream, b"of the former file");
    }
}

#[test]
fn streams_of_a_gone_file_do_not_appear_under_its_number() {
    for delete_lost in [false, true] {
        let mut share = share_with(|depot| depot.delete_lost = delete_lost);
        with_reused_number(&mut share);
        assert_eq!(listed(&mut share, "f"), []);
        assert_eq!(get(&mut share, "f:s"), Err(NtStatus::OBJECT_NAME_NOT_FOUND));
        put(&mut share, "f:new", b"n");
        assert_eq!(listed(&mut share, "f"), [("new".to_owned(), 1)]);
        share.store.revert_to_server();
        let lost = depot::lost(&mut share);
        assert_eq!(lost.len(), usize::from(!delete_lost), "{lost:?}");
        for folder in lost {
            let stream = folder.join(":s:$DATA");
            assert_eq!(fs::read(stream).expect("it is kept"), b"of the former file");
        }
    }
}

/// Two clients make the first streams of a file at once: one has made the folder when the other
/// finds no mark.
#[test]
fn a_folder_that_is_younger_than_its_file_is_not_lost() {
    let mut share = share();
    share.store.revert_to_server();
    rustix::fs::removexattr(share.host("f"), "user.SAMBA_STREAMS").expect("it has it");
    put(&mut share, "f:second", b"2");
    let want = [("s".to_owned(), 6), ("second".to_owned(), 1)];
    assert_eq!(listed(&mut share, "f"), want);
}

#[test]
fn without_check_valid_no_mark_is_needed() {
    let mut share = share_with(|depot| depot.check_valid = false);
    share.local("f", "base");
    put(&mut share, "f:s", b"stream");
    assert_eq!(share.attribute("f", "user.SAMBA_STREAMS"), None);
    assert_eq!(get(&mut share, "f:s"), Ok(b"stream".to_vec()));
}

#[test]
fn the_mark_is_no_extended_attribute_of_clients() {
    let mut share = share();
    let open = share.open("f");
    let seen = share.run(ObjectOp::ReadExtendedAttributes { open });
    assert!(
        matches!(&seen, Ok(ObjectReply::ExtendedAttributes(seen)) if seen.is_empty()),
        "{seen:?}"
    );
}

#[test]
fn rights_to_a_stream_are_those_to_its_file() {
    let mut share = share();
    let Some(stranger) = share.stranger() else { return };
    share.store.revert_to_server();
    let closed = fs::Permissions::from_mode(0o700);
    fs::set_permissions(depot::depot(&share), closed).expect("it is ours");
    let access = |share: &mut Share, access| {
        share.status_of("f:s", |request| request.desired_access = access)
    };
    for (mode, reads, writes) in
        [(0o666, true, true), (0o644, true, false), (0o622, false, true), (0o600, false, false)]
    {
        share.mode("f", mode);
        share.user = stranger;
        let status = |may| if may { NtStatus::SUCCESS } else { NtStatus::ACCESS_DENIED };
        let (read, write) = (dtyp::AccessMask::READ_DATA, dtyp::AccessMask::WRITE_DATA);
        assert_eq!(access(&mut share, read), status(reads), "{mode:o}");
        assert_eq!(access(&mut share, write), status(writes), "{mode:o}");
        let made = share.status_of("f:new", |request| {
            request.disposition = Disposition::OpenIf;
            request.desired_access = write;
        });
        assert_eq!(made, status(writes), "{mode:o}");
    }
}

#[test]
fn a_new_stream_belongs_to_the_owner_of_its_file_and_is_closed_to_others() {
    if !is_root() {
        return;
    }
    let mut share = share_with(|_| {});
    share.local("f", "base");
    share.mode("f", 0o660);
    chown(share.host("f"), Some(12_345), Some(12_346)).expect("we are root");
    chown(share.folder.path(), Some(54_321), None).expect("we are root");
    put(&mut share, "f:s", b"stream");
    let folder = folder(&mut share);
    let of = |path: &Path| {
        let found = fs::metadata(path).expect("it is there");
        (found.uid(), found.gid(), found.mode() & 0o7777)
    };
    assert_eq!(of(&folder.join(":s:$DATA")), (12_345, 12_346, 0o600));
    assert_eq!(of(&folder), (12_345, 12_346, 0o700));
    for above in [folder.parent().expect("a hash"), &depot::depot(&share)] {
        assert_eq!((of(above).0, of(above).2), (0, 0o700), "{above:?} stays the server's");
    }
}

#[test]
fn no_link_in_the_depot_leads_to_another_file() {
    let mut share = share();
    let folder = folder(&mut share);
    let secret = share.folder.path().join("secret");
    fs::write(&secret, "secret").expect("there is space");
    symlink(&secret, folder.join(":soft:$DATA")).expect("there is space");
    fs::hard_link(&secret, folder.join(":hard:$DATA")).expect("there is space");
    for path in ["f:soft", "f:hard"] {
        assert_eq!(get(&mut share, path), Err(NtStatus::ACCESS_DENIED), "{path}");
    }
    let made = share.try_open("f:soft", |request| {
        request.disposition = Disposition::OpenIf;
        request.desired_access = READ | WRITE;
    });
    assert_eq!(made.err(), Some(NtStatus::ACCESS_DENIED));
    share.store.revert_to_server();
    assert_eq!(fs::read(&secret).expect("it is ours"), b"secret");
}

#[test]
fn all_streams_are_copied_also_long_ones() {
    let mut share = share();
    let data = pattern(LONG);
    put(&mut share, "f:long", &data);
    share.local("g", "");
    put(&mut share, "g:s", &[1; 100]);
    let (source, target) = (open_if(&mut share, "f"), open_if(&mut share, "g"));
    share.done(ObjectOp::CopyStreams { source, target });
    assert_eq!(get(&mut share, "g:long"), Ok(data));
    assert_eq!(get(&mut share, "g:s"), Ok(b"stream".to_vec()), "nothing is left of the old one");
}

#[test]
fn a_range_is_copied_between_streams_and_files() {
    let mut share = share();
    let data = pattern(LONG);
    put(&mut share, "f:long", &data);
    let length = u32::try_from(LONG).expect("32 bits");
    for target in ["f:copy", "f"] {
        let (source, target) = (share.open("f:long"), open_if(&mut share, target));
        let copy =
            ObjectOp::CopyRange { source, target, source_offset: 5, target_offset: 7, length };
        assert!(matches!(share.run(copy), Ok(ObjectReply::Written(count)) if count == 299_995));
        assert_eq!(share.read(target, 7, length), data[5..]);
    }
}

#[test]
fn a_stream_is_renamed_and_replaces_another() {
    let mut share = share();
    put(&mut share, "f:Other", b"other");
    let open = share.open_for("f:s", DELETE);
    let kept = share.rename(open, "f:other", false);
    assert_eq!(kept.err(), Some(NtStatus::OBJECT_NAME_COLLISION));
    share.rename(open, "f:other", true).expect("replaced");
    share.close(open);
    assert_eq!(listed(&mut share, "f"), [("other".to_owned(), 6)]);
    assert_eq!(get(&mut share, "f:other"), Ok(b"stream".to_vec()));
}

#[test]
fn a_deleted_stream_is_gone_and_its_file_stays() {
    let mut share = share();
    let open = share.open_for("f:s", DELETE);
    share.unlink(open).expect("removed");
    assert_eq!(listed(&mut share, "f"), []);
    assert_eq!(share.content("f"), "base");
}

#[test]
fn an_overwritten_file_has_no_streams_and_an_overwritten_stream_no_bytes() {
    let mut share = share();
    let overwrite = |share: &mut Share, path: &str| {
        let open = open_if(share, path);
        let op = ObjectOp::Overwrite {
            open,
            supersede: false,
            attributes: FileAttributes::empty(),
            extended_attributes: Vec::new(),
            allocation_size: 0,
        };
        assert!(
            matches!(share.run(op), Ok(ObjectReply::Metadata(found)) if found.end_of_file == 0)
        );
        share.close(open);
    };
    overwrite(&mut share, "f:s");
    assert_eq!(listed(&mut share, "f"), [("s".to_owned(), 0)]);
    overwrite(&mut share, "f");
    assert_eq!(listed(&mut share, "f"), []);
}

#[test]
fn a_directory_with_a_depot_is_not_empty_even_if_vetoed_files_are_deleted() {
    let mut share = Share::with(|root| {
        root.streams_depot = Some(depot::settings(root.path.join("d/.depot")));
        root.vetoed = vec![NameExpression::new(".*")];
        root.remove_vetoed = true;
    });
    share.local_directory("d");
    share.local("f", "base");
    put(&mut share, "f:s", b"stream");
    let directory = share.open_for("d", DELETE);
    assert_eq!(share.unlink(directory), Err(NtStatus::DIRECTORY_NOT_EMPTY));
    assert_eq!(get(&mut share, "f:s"), Ok(b"stream".to_vec()));
}

/// A share for Apple's clients with a depot.
fn apple_share() -> Share {
    let mut share = Share::with(|root| {
        depot::beside(root);
        root.apple_streams = true;
        root.removes_apple_doubles = true;
    });
    share.local("f", "base");
    share
}

fn finder_information() -> Vec<u8> {
    let mut info = b"AFP\0\0\x01\0\0\0\0\0\0\x80\0\0\0TEXTttxt".to_vec();
    info.resize(60, 0);
    info
}

#[test]
fn a_resource_fork_may_be_long_and_is_none_without_bytes() {
    let mut share = apple_share();
    let fork = pattern(2 << 20);
    let open = open_if(&mut share, "f:AFP_Resource");
    assert_eq!(listed(&mut share, "f"), []);
    share.write(open, 0, &fork);
    assert_eq!(listed(&mut share, "f"), [("AFP_Resource".to_owned(), 2 << 20)]);
    assert_eq!(get(&mut share, "f:AFP_Resource").expect("it is there"), fork);
    share.done(ObjectOp::SetEndOfFile { open, size: 0 });
    assert_eq!(listed(&mut share, "f"), []);
    share.write(open, 0, &fork[..100_000]);
    share.unlink(open).expect("accepted");
    assert_eq!(get(&mut share, "f:AFP_Resource").expect("a fork stays"), fork[..100_000]);
}

#[test]
fn finder_information_is_a_structure_in_a_depot_too() {
    let mut share = apple_share();
    let open = open_if(&mut share, "f:AFP_AfpInfo");
    assert_eq!(share.metadata(open).end_of_file, 60);
    assert!(folders(&mut share).is_empty(), "nothing is to be stored");
    share.write(open, 0, &finder_information());
    assert_eq!(get(&mut share, "f:AFP_AfpInfo"), Ok(finder_information()));
    put(&mut share, "f:AFP_Resource", &pattern(LONG));
    let open = share.open("");
    let detail = EntryDetail::Apple;
    let op = ObjectOp::ReadDirectory { open, restart: true, detail, entries_max: 9 };
    let Ok(ObjectReply::Entries(entries)) = share.run(op) else { panic!("it is listed") };
    let entry = entries.into_iter().find(|entry| entry.name == "f").expect("it is there");
    let apple = entry.apple.expect("it was asked for");
    assert_eq!(apple.resource_fork_size, 300_000);
    assert_eq!(apple.finder_info[..8], *b"TEXTttxt");
}

#[test]
fn a_long_resource_fork_of_an_apple_double_becomes_a_stream() {
    let mut share = apple_share();
    let fork = pattern(LONG);
    let mut double = [0x0005_1607_u32, 0x0002_0000, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
    double.extend(1_u16.to_be_bytes());
    for number in [2, 38, 300_000_u32] {
        double.extend(number.to_be_bytes());
    }
    double.extend(&fork);
    share.store.revert_to_server();
    fs::write(share.host("._f"), double).expect("there is space");
    assert_eq!(get(&mut share, "f:AFP_Resource").expect("it is converted"), fork);
    share.store.revert_to_server();
    assert!(!share.host("._f").exists());
}
