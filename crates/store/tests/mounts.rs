//! Mounts within a share and beside it. Tests need root, and end at once without it.

mod support;

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use dtyp::{FileAttributes, FileTime, NtStatus};
use object::{BasicChange, Disposition, LocalOpen, ObjectPath};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use store::{
    NameFormat, RootSettings, SnapshotDirectory, SnapshotNames, SnapshotOrder, SnapshotSettings,
};
use support::{READ, Share, WRITE, is_root};

#[test]
fn a_share_of_a_read_only_mount_is_not_written_through_another_share_of_the_same_directory() {
    if !is_root() {
        return;
    }
    // A separate thread with its own mount namespace.
    let attack = || {
        let mut share = Share::new();
        share.local_directory("d");
        share.local("d/f", "as it was");
        let fixed = share.folder.path().join("fixed");
        std::fs::create_dir(&fixed).expect("a directory");
        let _mount = Mounted::read_only(&share.host(""), &fixed).expect("root may mount");
        let writable = share.root;
        // Keeps the directories of the writable share in use.
        let kept = ["", "d", "d\\f"].map(|path| share.open(path));
        let settings = RootSettings::new(fixed);
        share.root = share.store.open_root(settings, share.user).expect("the folder is there");
        for path in ["new", "d\\new"] {
            let status = share.status_of(path, |it| it.disposition = Disposition::Create);
            assert_eq!(status, NtStatus::MEDIA_WRITE_PROTECTED, "{path}");
        }
        let status = share.status_of("d\\f", |it| it.desired_access = READ | WRITE);
        assert_eq!(status, NtStatus::MEDIA_WRITE_PROTECTED);
        share.root = writable;
        let status = share.status_of("d\\new", |it| it.disposition = Disposition::Create);
        assert_eq!(status, NtStatus::SUCCESS);
        for open in kept {
            share.close(open);
        }
    };
    std::thread::scope(|scope| scope.spawn(attack).join().expect("refused"));
}

/// A file `f` on a file system with little room for attributes: about ten KiB.
fn share_with_little_room() -> Option<(Share, Mounted)> {
    let mut share = Share::new();
    let on = share.host("");
    let mounted = Mounted::small_tmpfs(&on).expect("root may mount");
    share.root = share.store.open_root(RootSettings::new(on), share.user).expect("it is there");
    share.local("f", "");
    let probed = rustix::fs::setxattr(share.host("f"), "user.x", b"", XattrFlags::empty());
    // Linux has attributes of users there since 6.6.
    (probed != Err(Errno::OPNOTSUPP)).then_some((share, mounted))
}

/// Writes a stream of `f` whole.
fn write_stream(share: &mut Share, stream: &str, value: &[u8]) -> LocalOpen {
    let open = share.create(&format!("f:{stream}"));
    share.write(open, 0, value);
    open
}

#[test]
fn a_stream_replaces_another_where_both_have_no_room_beside_each_other() {
    if !is_root() {
        return;
    }
    let rename = || {
        let Some((mut share, _mounted)) = share_with_little_room() else { return };
        let replaced = write_stream(&mut share, "b", &[b'b'; 1_000]);
        share.close(replaced);
        let open = write_stream(&mut share, "a", &[b'a'; 6_000]);
        assert_eq!(share.rename(open, "f:b", true), Ok("f:b".to_owned()));
        assert_eq!(share.read(open, 0, 9_999), [b'a'; 6_000]);
        let names: Vec<_> = share.streams(open).into_iter().map(|stream| stream.name).collect();
        assert_eq!(names, ["", "b"]);
        share.close(open);
    };
    std::thread::scope(|scope| scope.spawn(rename).join().expect("renamed"));
}

#[test]
fn a_stream_stays_as_it_was_if_its_new_name_has_no_room() {
    if !is_root() {
        return;
    }
    let rename = || {
        let Some((mut share, _mounted)) = share_with_little_room() else { return };
        let open = write_stream(&mut share, "a", &[b'a'; 4_000]);
        for number in 0.. {
            let name = format!("user.filler{number}");
            let set = rustix::fs::setxattr(share.host("f"), name, b"", XattrFlags::empty());
            if set == Err(Errno::NOSPC) {
                break;
            }
            set.expect("there is room");
        }
        let longer = format!("f:{}", "c".repeat(200));
        assert_eq!(share.rename(open, &longer, false), Err(NtStatus::DISK_FULL));
        assert_eq!(share.read(open, 0, 9_999), [b'a'; 4_000]);
        let names: Vec<_> = share.streams(open).into_iter().map(|stream| stream.name).collect();
        assert_eq!(names, ["", "a"]);
        share.close(open);
    };
    std::thread::scope(|scope| scope.spawn(rename).join().expect("refused"));
}

/// Snapshots of ZFS are mounted on demand, as the kernel mounts `tracing` in every debugfs as long
/// as it has that.
#[test]
fn a_snapshot_is_found_that_is_mounted_when_somebody_looks() {
    const TAKEN: &str = "@GMT-2020.01.01-00.00.00";
    if !is_root() {
        return;
    }
    let names = || {
        let mut share = Share::with(|root| {
            let folder = root.path.parent().expect("the folder of the test");
            root.snapshots = Some(SnapshotSettings {
                everywhere: Vec::new(),
                directories: vec![SnapshotDirectory {
                    path: folder.join("snapshots"),
                    share: "tracing".into(),
                    is_in_share: false,
                }],
                names: vec![SnapshotNames::Format(NameFormat {
                    prefix: None,
                    format: CString::new("@GMT-%Y.%m.%d-%H.%M.%S").expect("no zero"),
                    local_time: false,
                })],
                order: SnapshotOrder::Descending,
                owner: None,
            });
        });
        let on = share.folder.path().join("snapshots").join(TAKEN);
        std::fs::create_dir_all(&on).expect("ours");
        let Ok(_mount) = Mounted::debugfs(&on) else { return };
        let path = ObjectPath::parse("available_tracers").expect("a path");
        let path = path.with_snapshot(FileTime::from_gmt_token(TAKEN));
        // To look at it would mount it.
        let mut listed = std::fs::read_dir(&on).expect("ours");
        if listed.any(|entry| entry.expect("there").file_name() == "tracing") {
            let status = share.status_of("", |request| request.path = path);
            assert_eq!(status, NtStatus::SUCCESS);
        }
    };
    std::thread::scope(|scope| scope.spawn(names).join().expect("found"));
}

#[test]
fn a_file_system_without_extended_attributes_keeps_the_archive_attribute_in_modes() {
    if !is_root() {
        return;
    }
    let keep = || {
        let mut share = Share::new();
        let on = share.folder.path().join("plain");
        std::fs::create_dir(&on).expect("ours");
        let _mount = Mounted::ramfs(&on).expect("root may mount");
        let settings = RootSettings::new(&on);
        share.root = share.store.open_root(settings, share.user).expect("the folder is there");
        let open = share.create("file");
        let mode = || {
            let permissions =
                std::fs::metadata(on.join("file")).expect("it is there").permissions();
            permissions.mode() & 0o7777
        };
        assert_eq!((share.metadata(open).attributes, mode()), (FileAttributes::ARCHIVE, 0o744));
        // HIDDEN is not mapped by default, and cannot be kept.
        for (wanted, kept, bits) in [
            (FileAttributes::HIDDEN, FileAttributes::NORMAL, 0o644),
            (FileAttributes::ARCHIVE, FileAttributes::ARCHIVE, 0o744),
        ] {
            let attributes = Some(wanted);
            share.set(open, BasicChange { attributes, ..BasicChange::default() });
            assert_eq!((share.metadata(open).attributes, mode()), (kept, bits));
        }
        share.close(open);
    };
    std::thread::scope(|scope| scope.spawn(keep).join().expect("kept"));
}

/// A mount of this thread alone.
struct Mounted(CString);

impl Mounted {
    /// A directory once more, read only.
    fn read_only(directory: &Path, on: &Path) -> std::io::Result<Self> {
        let directory = c_path(directory);
        let mounted = Self::mount(&directory, on, c"none", libc::MS_BIND)?;
        let flags = libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY;
        mount(c"none", &mounted.0, c"none", flags)?;
        Ok(mounted)
    }

    fn ramfs(on: &Path) -> std::io::Result<Self> {
        Self::mount(c"none", on, c"ramfs", 0)
    }

    fn debugfs(on: &Path) -> std::io::Result<Self> {
        Self::mount(c"none", on, c"debugfs", 0)
    }

    /// A file system with room for ten inodes beside its root, or the same in attributes.
    fn small_tmpfs(on: &Path) -> std::io::Result<Self> {
        Self::separate()?;
        let on = c_path(on);
        mount_with(c"none", &on, c"tmpfs", 0, Some(c"nr_inodes=11"))?;
        Ok(Self(on))
    }

    fn mount(what: &CStr, on: &Path, kind: &CStr, flags: libc::c_ulong) -> std::io::Result<Self> {
        let on = c_path(on);
        Self::separate()?;
        mount(what, &on, kind, flags)?;
        Ok(Self(on))
    }

    /// Gives this thread a namespace of its own.
    fn separate() -> std::io::Result<()> {
        // SAFETY: concerns this thread alone.
        check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
        mount(c"none", c"/", c"none", libc::MS_PRIVATE | libc::MS_REC)
    }
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no NUL")
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // SAFETY: the path is a string that lives.
        let _ = check(unsafe { libc::umount2(self.0.as_ptr(), libc::MNT_DETACH) });
    }
}

fn mount(what: &CStr, on: &CStr, kind: &CStr, flags: libc::c_ulong) -> std::io::Result<()> {
    mount_with(what, on, kind, flags, None)
}

fn mount_with(
    what: &CStr,
    on: &CStr,
    kind: &CStr,
    flags: libc::c_ulong,
    options: Option<&CStr>,
) -> std::io::Result<()> {
    let (what, on, kind) = (what.as_ptr(), on.as_ptr(), kind.as_ptr());
    let options = options.map_or(std::ptr::null(), |it| it.as_ptr().cast());
    // SAFETY: the strings live, and the kernel only reads them.
    check(unsafe { libc::mount(what, on, kind, flags, options) })
}

fn check(result: libc::c_int) -> std::io::Result<()> {
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
