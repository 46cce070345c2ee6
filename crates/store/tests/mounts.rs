//! Mounts within a share and beside it. Tests need root, and end at once without it.

mod support;

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use dtyp::{FileTime, NtStatus};
use object::{Disposition, ObjectPath};
use store::{RootSettings, SnapshotOrder, SnapshotSettings};
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
                directory: folder.join("snapshots"),
                share: "tracing".into(),
                format: CString::new("@GMT-%Y.%m.%d-%H.%M.%S").expect("no zero"),
                local_time: false,
                order: SnapshotOrder::Descending,
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

    fn debugfs(on: &Path) -> std::io::Result<Self> {
        Self::mount(c"none", on, c"debugfs", 0)
    }

    fn mount(what: &CStr, on: &Path, kind: &CStr, flags: libc::c_ulong) -> std::io::Result<Self> {
        let on = c_path(on);
        // SAFETY: concerns this thread alone.
        check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
        mount(c"none", c"/", c"none", libc::MS_PRIVATE | libc::MS_REC)?;
        mount(what, &on, kind, flags)?;
        Ok(Self(on))
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
    let (what, on, kind) = (what.as_ptr(), on.as_ptr(), kind.as_ptr());
    // SAFETY: the strings live, and the kernel only reads them; no data are given.
    check(unsafe { libc::mount(what, on, kind, flags, std::ptr::null()) })
}

fn check(result: libc::c_int) -> std::io::Result<()> {
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
