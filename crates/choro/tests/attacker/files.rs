//! Attacks on files, devices and parameters of the machine.

use std::fs;
use std::os::unix::fs::FileTypeExt;

use crate::attack::{Attack, Layer, open, stopped};
use crate::harness::FORCED_USER;
use crate::ring::Operation;
use crate::scene::Scene;
use crate::taken_over::{Answer, Failure, number};

const READ: i32 = libc::O_RDONLY;
const WRITE: i32 = libc::O_WRONLY;

pub(crate) const ATTACKS: &[Attack] = &[
    open("become another user, or root", "it acts as any user, in shares too", |scene| {
        scene.worker.call(libc::SYS_setgroups, &[0, 0])?;
        scene.worker.call(libc::SYS_setresgid, &[0; 3])?;
        scene.worker.call(libc::SYS_setresuid, &[1_000, 1_000, 0])?;
        scene.worker.call(libc::SYS_setresuid, &[0; 3])
    }),
    stopped("open /etc/shadow", Layer::Paths, |scene| scene.worker.open("/etc/shadow", READ)),
    stopped("open the user database", Layer::Paths, |scene| {
        let path = scene.path("private/users");
        scene.worker.open(&path, READ)
    }),
    stopped("open the keys of a domain's member", Layer::Paths, |scene| {
        let path = scene.path("private/secrets.tdb");
        scene.worker.open(&path, READ)
    }),
    stopped("create a file beside all shares", Layer::Paths, |scene| {
        let path = scene.path("beside");
        scene.worker.open(&path, WRITE | libc::O_CREAT)
    }),
    stopped("open a file by a new ring", Layer::Paths, |scene| {
        let path = scene.worker.put_text("/etc/shadow");
        scene.by_new_ring(Operation::open(path, READ))
    }),
    stopped("open a file by the worker's own ring", Layer::Ring, |scene| {
        // One that the worker may open, so that nothing but the ring refuses it.
        let path = scene.in_share("data", "file");
        let path = scene.worker.put_text(&path);
        scene.by_own_ring(Operation::open(path, READ))
    }),
    open("open a share that its user may not use", "it has the files of all shares", |scene| {
        let path = scene.in_share("closed", "file");
        scene.worker.open(&path, libc::O_RDWR)
    }),
    open("make a program of a share setuid root", "it helps a user of the machine", |scene| {
        let path = scene.in_share("data", "program");
        let file = scene.worker.open(&path, WRITE | libc::O_CREAT)?;
        scene.worker.call(libc::SYS_fchown, &[file, 0, 0])?;
        scene.worker.call(libc::SYS_fchmod, &[file, 0o4_755])
    }),
    open("change the mode of a file beside all shares", "users may write to it", |scene| {
        let path = scene.path("smb.conf");
        let path = scene.worker.put_text(&path);
        scene.worker.call(libc::SYS_fchmodat, &[number(libc::AT_FDCWD), path, 0o644])
    }),
    stopped("make a program of a share setgid", Layer::Capabilities, make_setgid),
    stopped("give a program of a share capabilities", Layer::Capabilities, give_capabilities),
    stopped("make a device in a share", Layer::Filter, |scene| {
        let path = scene.in_share("data", "device");
        let path = scene.worker.put_text(&path);
        let (mode, null) = (libc::S_IFCHR | 0o666, libc::makedev(1, 3));
        let arguments = [number(libc::AT_FDCWD), path, mode.into(), null];
        scene.worker.call(libc::SYS_mknodat, &arguments)
    }),
    stopped("open a disk", Layer::Paths, |scene| {
        let disk = a_disk().ok_or(Failure::Absent("a disk"))?;
        scene.worker.open(&disk, READ)
    }),
    stopped("open a parameter in /proc/sys to write", Layer::Paths, |scene| {
        scene.worker.open("/proc/sys/kernel/core_pattern", WRITE)
    }),
    stopped("open a parameter in /sys to write", Layer::Paths, |scene| {
        let names = ["kernel/mm/transparent_hugepage/enabled", "kernel/mm/ksm/run"];
        let mut paths = names.iter().map(|name| format!("/sys/{name}"));
        let path = paths.find(|path| fs::exists(path).unwrap_or(false));
        scene.worker.open(&path.ok_or(Failure::Absent("a parameter"))?, WRITE)
    }),
    stopped("read the kernel's memory", Layer::Capabilities, |scene| {
        let mut paths = ["/proc/kcore", "/dev/mem"].iter();
        let path = paths.find(|path| fs::exists(path).unwrap_or(false));
        scene.worker.open(path.ok_or(Failure::Absent("a file of the kernel's memory"))?, READ)
    }),
    stopped("open a file by its handle, past all folders", Layer::Filter, |scene| {
        scene.worker.call(libc::SYS_open_by_handle_at, &[u64::MAX, 0, 0])
    }),
    open("fill the lock directory", "the server runs out of space", |scene| {
        let path = scene.path("lock/msg/filling");
        let file = scene.worker.open(&path, WRITE | libc::O_CREAT)?;
        scene.worker.call(libc::SYS_fallocate, &[file, 0, 0, 1 << 20])
    }),
];

/// Sets the bit on a file of another group.
fn make_setgid(scene: &mut Scene<'_>) -> Answer {
    let path = scene.in_share("data", "program");
    let file = scene.worker.open(&path, WRITE | libc::O_CREAT)?;
    let group = u64::from(FORCED_USER.1);
    scene.worker.call(libc::SYS_fchown, &[file, 0, group])?;
    scene.worker.call(libc::SYS_fchmod, &[file, 0o2_755])?;
    let is_setgid = |file| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(file).expect("it is there").mode() & libc::S_ISGID != 0
    };
    // The kernel leaves the bit out, and says nothing.
    match is_setgid(path) {
        true => Ok(0),
        false => Err(Failure::Refused(nix::errno::Errno::EPERM)),
    }
}

fn give_capabilities(scene: &mut Scene<'_>) -> Answer {
    let path = scene.in_share("data", "program");
    let file = scene.worker.open(&path, WRITE | libc::O_CREAT)?;
    let name = scene.worker.put_text("security.capability");
    // `vfs_cap_data`: revision 2, effective, all of the lower half permitted.
    let all = [0x0200_0001_u32, u32::MAX, 0, 0, 0].map(u32::to_le_bytes).concat();
    let value = scene.worker.put(&all);
    scene.worker.call(libc::SYS_fsetxattr, &[file, name, value, all.len() as u64, 0])
}

fn a_disk() -> Option<String> {
    let entries = fs::read_dir("/dev").ok()?.flatten();
    let mut disks = entries.filter(|it| it.file_type().is_ok_and(|kind| kind.is_block_device()));
    // Each driver has its own errors where nothing is behind a device.
    let disk = disks.find(|it| fs::File::open(it.path()).is_ok())?;
    Some(disk.path().to_string_lossy().into_owned())
}
