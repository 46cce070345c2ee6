//! What a worker does in a share, and reads of the system.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, XattrFlags};

use super::Site;

/// Name of a use, its calls, and errors of file systems that do not have it.
pub(crate) type Use = (&'static str, fn(&Site) -> io::Result<()>, &'static [i32]);

const NOT_THERE: &[i32] = &[libc::EOPNOTSUPP, libc::ENOTTY, libc::EINVAL, libc::EXDEV];

pub(crate) const ALL: &[Use] = &[
    ("make_change_and_remove_files", make_change_and_remove_files, &[]),
    ("move_between_directories", move_between_directories, &[]),
    ("exchange_names", exchange_names, NOT_THERE),
    ("make_a_file_without_a_name", make_a_file_without_a_name, NOT_THERE),
    ("move_special_files", move_special_files, &[libc::EPERM]),
    ("clone_and_copy_extents", clone_and_copy_extents, NOT_THERE),
    ("change_attributes", change_attributes, NOT_THERE),
    ("find_a_handle", find_a_handle, NOT_THERE),
    ("open_a_descriptor_again", open_a_descriptor_again, &[]),
    ("read_of_the_system", read_of_the_system, &[]),
    ("read_in_the_lock_directory", |site| fs::read(site.folder.join("lock/page")).map(drop), &[]),
    ("write_beside_messages", write_beside_messages, &[]),
    ("talk_by_a_socket_with_a_file", talk_by_a_socket_with_a_file, &[]),
];

fn make_change_and_remove_files(site: &Site) -> io::Result<()> {
    let path = site.share("a/new");
    fs::write(&path, "text")?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640))?;
    File::options().write(true).truncate(true).open(&path)?.set_len(2)?;
    File::options().append(true).open(&path)?.write_all(b"more")?;
    fs::hard_link(&path, site.share("b/link"))?;
    fs::create_dir(site.share("a/folder"))?;
    fs::read_dir(site.share("a"))?.try_for_each(|it| it.map(drop))?;
    fs::remove_dir(site.share("a/folder"))?;
    fs::remove_file(path)
}

fn move_between_directories(site: &Site) -> io::Result<()> {
    fs::create_dir(site.share("a/folder"))?;
    fs::rename(site.share("a/folder"), site.share("b/folder"))?;
    fs::rename(site.share("file"), site.share("b/folder/file"))
}

fn exchange_names(site: &Site) -> io::Result<()> {
    fs::write(site.share("a/other"), "other")?;
    let (one, other) = (site.share("file"), site.share("a/other"));
    Ok(rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

fn make_a_file_without_a_name(site: &Site) -> io::Result<()> {
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let file = rustix::fs::open(site.share("a"), flags, Mode::RUSR | Mode::WUSR)?;
    rustix::io::write(&file, b"text")?;
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    rustix::fs::linkat(CWD, path, CWD, site.share("a/named"), AtFlags::SYMLINK_FOLLOW)?;
    // Out of the directory of the unnamed file.
    fs::rename(site.share("a/named"), site.share("b/named"))
}

fn move_special_files(site: &Site) -> io::Result<()> {
    symlink("file", site.share("a/link"))?;
    fs::rename(site.share("a/link"), site.share("b/link"))?;
    std::os::unix::net::UnixDatagram::bind(site.share("a/socket"))?;
    fs::rename(site.share("a/socket"), site.share("b/socket"))
}

fn clone_and_copy_extents(site: &Site) -> io::Result<()> {
    let from = File::open(site.share("file"))?;
    let to = File::create(site.share("a/copy"))?;
    rustix::fs::copy_file_range(&from, None, &to, None, 4)?;
    let clone = File::create(site.share("a/clone"))?;
    Ok(rustix::fs::ioctl_ficlone(&clone, &from)?)
}

fn change_attributes(site: &Site) -> io::Result<()> {
    let file = File::open(site.share("file"))?;
    rustix::fs::fsetxattr(&file, "user.test", b"value", XattrFlags::empty())?;
    let mut value = [0; 8];
    rustix::fs::getxattr(site.share("file"), "user.test", &mut value)?;
    Ok(rustix::fs::fremovexattr(&file, "user.test")?)
}

fn find_a_handle(site: &Site) -> io::Result<()> {
    let mut handle = [0_u32; 34];
    handle[0] = 128;
    let path = std::ffi::CString::new(site.share("file").into_os_string().into_encoded_bytes())?;
    let mut mount = 0;
    let (address, mount) = (handle.as_mut_ptr(), &raw mut mount);
    let number = libc::SYS_name_to_handle_at;
    // SAFETY: the buffers are as long as the first one says, and live until the call returns.
    let found = unsafe { libc::syscall(number, libc::AT_FDCWD, path.as_ptr(), address, mount, 0) };
    if found == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn open_a_descriptor_again(site: &Site) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let share = rustix::fs::open(site.share(""), flags, Mode::empty())?;
    let file = rustix::fs::openat(share.as_fd(), "file", flags, Mode::empty())?;
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    File::options().read(true).write(true).open(path)?.write_at(b"x", 0).map(drop)
}

fn read_of_the_system(_: &Site) -> io::Result<()> {
    for path in ["/proc/self/mountinfo", "/proc/self/status"] {
        fs::read(path)?;
    }
    for path in ["/sys/class/net", "/proc/self/fd"] {
        fs::read_dir(path)?;
    }
    for path in ["/etc/hosts", "/etc/localtime"].map(Path::new).iter().filter(|it| it.exists()) {
        fs::read(path)?;
    }
    File::options().read(true).write(true).open("/dev/null").map(drop)
}

fn write_beside_messages(site: &Site) -> io::Result<()> {
    let (draft, path) = (site.folder.join("lock/msg/new"), site.folder.join("lock/msg/page"));
    fs::write(&draft, "text")?;
    fs::rename(draft, &path)?;
    File::options().read(true).write(true).open(path).map(drop)
}

fn talk_by_a_socket_with_a_file(site: &Site) -> io::Result<()> {
    let path = site.folder.join("lock/msg/socket");
    let socket = std::os::unix::net::UnixDatagram::bind(&path)?;
    std::os::unix::net::UnixDatagram::unbound()?.send_to(b"text", &path)?;
    socket.recv(&mut [0; 8])?;
    fs::remove_file(path)
}
