//! One directory that is mounted in two places. Needs root, and ends at once without it.

mod support;

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use dtyp::NtStatus;
use object::Disposition;
use store::RootSettings;
use support::{READ, Share, WRITE, is_root};

#[test]
fn a_share_of_a_read_only_mount_is_not_written_through_another_share_of_the_same_directory() {
    if !is_root() {
        return;
    }
    // On a thread of its own, which keeps what it mounts to itself.
    let attack = || {
        let mut share = Share::new();
        share.local_directory("d");
        share.local("d/f", "as it was");
        let fixed = share.folder.path().join("fixed");
        std::fs::create_dir(&fixed).expect("a directory");
        let _mount = ReadOnly::mount(&share.host(""), &fixed).expect("root may mount");
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

/// A directory that is mounted once more, read only, for this thread alone.
struct ReadOnly(CString);

impl ReadOnly {
    fn mount(directory: &Path, on: &Path) -> std::io::Result<Self> {
        let [directory, on] =
            [directory, on].map(|it| CString::new(it.as_os_str().as_bytes()).expect("no NUL"));
        // SAFETY: concerns this thread alone.
        check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
        mount(c"none", c"/", libc::MS_PRIVATE | libc::MS_REC)?;
        mount(&directory, &on, libc::MS_BIND)?;
        let mounted = Self(on);
        mount(c"none", &mounted.0, libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY)?;
        Ok(mounted)
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        // SAFETY: the path is a string that lives.
        let _ = check(unsafe { libc::umount2(self.0.as_ptr(), libc::MNT_DETACH) });
    }
}

fn mount(what: &CStr, on: &CStr, flags: libc::c_ulong) -> std::io::Result<()> {
    let (what, on, none) = (what.as_ptr(), on.as_ptr(), std::ptr::null());
    // SAFETY: the strings live, and the kernel only reads them; no data are given.
    check(unsafe { libc::mount(what, on, none, flags, none.cast()) })
}

fn check(result: libc::c_int) -> std::io::Result<()> {
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
