//! fanotify: marks on directories, and on file systems for those who watch a tree.

use std::collections::HashMap;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use object::{HostChange, HostChangeKind};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::folder::magic_path;
use super::{FILTER_DATA, FILTER_METADATA, Folder, HostEvent, folders_max, join, overflow, stored};

/// Highest number of cached directory names, needed for events of directories that were removed
/// before the events are read.
const NAMES_MAX: usize = 4_096;

/// Bytes of events taken at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// Longest file handle: MAX_HANDLE_SZ of the kernel.
const HANDLE_BYTES_MAX: usize = 128;

const METADATA_BYTES: usize = 24;

/// A group of marks: one fanotify descriptor.
#[derive(Debug)]
pub(super) struct Fanotify {
    fd: OwnedFd,
    folders: HashMap<Arc<str>, Mark>,
    /// Highest number of folders; each takes a descriptor.
    folders_max: usize,
    mounts: Vec<Mount>,
    /// The last known place of directories, by handle.
    names: HashMap<Vec<u8>, String>,
    buffer: Vec<u8>,
}

/// The mark of one folder.
#[derive(Debug)]
struct Mark {
    /// The folder, opened with O_PATH: it may have another name when the mark goes.
    folder: OwnedFd,
    mount_id: u64,
    mask: u64,
    recursive: bool,
}

/// A mounted file system with folders that are watched.
#[derive(Debug)]
struct Mount {
    id: u64,
    file_system: u64,
    /// Something in it, for opening by handle.
    fd: OwnedFd,
    /// Number of watched folders in it.
    folders: usize,
    /// Masks of its folders that are watched as trees.
    trees: Vec<u64>,
}

/// Directory and name of a changed entry.
struct Place {
    path: String,
    /// The directory, if it is still there.
    directory: Option<OwnedFd>,
    name: String,
}

/// The information of one event.
#[derive(Default)]
struct Information {
    place: Option<Place>,
    old: Option<Place>,
    new: Option<Place>,
}

impl Fanotify {
    pub(super) fn new() -> Result<Self, Errno> {
        let flags = libc::FAN_CLASS_NOTIF
            | libc::FAN_CLOEXEC
            | libc::FAN_NONBLOCK
            // Without the privilege for this one the kernel would not say who made a change.
            | libc::FAN_UNLIMITED_MARKS
            | libc::FAN_REPORT_DFID_NAME;
        let event_flags = libc::O_RDONLY.unsigned_abs();
        // SAFETY: numbers only.
        let fd = unsafe { libc::fanotify_init(flags, event_flags) };
        if fd < 0 {
            return Err(last_errno());
        }
        // SAFETY: the kernel has just made this descriptor for us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self {
            fd,
            folders: HashMap::new(),
            folders_max: folders_max(),
            mounts: Vec::new(),
            names: HashMap::new(),
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn folders_max(&self) -> usize {
        self.folders_max
    }

    #[cfg(test)]
    pub(super) fn set_folders_max(&mut self, folders_max: usize) {
        self.folders_max = folders_max;
    }

    pub(super) fn watch(
        &mut self,
        folder: &Folder,
        recursive: bool,
        filter: u32,
    ) -> Result<(), Errno> {
        let path = Arc::clone(folder.path());
        if self.folders.len() >= self.folders_max && !self.folders.contains_key(&path) {
            return Err(Errno::MFILE);
        }
        let folder = rustix::io::fcntl_dupfd_cloexec(folder.fd(), 0)?;
        let mount_id = self.enter_mount(&folder)?;
        let mut mask = mask(filter, recursive);
        let add = libc::FAN_MARK_ADD | scope(recursive);
        if let Err(error) = self.mark(add, mask, folder.as_fd()) {
            self.leave_mount(mount_id);
            return Err(error);
        }
        // The new mark comes before the old one goes, so that nothing is missed in between.
        if let Some(old) = self.folders.remove(&path) {
            let is_same = old.recursive == recursive && old.mount_id == mount_id;
            if is_same {
                mask |= old.mask;
            }
            self.release(&old, if is_same { mask } else { 0 });
        }
        if recursive && let Some(mount) = self.mounts.iter_mut().find(|it| it.id == mount_id) {
            mount.trees.push(mask);
        }
        self.folders.insert(path, Mark { folder, mount_id, mask, recursive });
        Ok(())
    }

    pub(super) fn unwatch(&mut self, path: &str) {
        if let Some(mark) = self.folders.remove(path) {
            self.release(&mark, 0);
        }
    }

    /// Removes what only this mark was for, but `kept`.
    fn release(&mut self, mark: &Mark, kept: u64) {
        let mut gone = mark.mask & !kept;
        let mount = self.mounts.iter_mut().find(|it| it.id == mark.mount_id);
        if mark.recursive
            && let Some(mount) = mount
        {
            if let Some(at) = mount.trees.iter().position(|mask| *mask == mark.mask) {
                mount.trees.swap_remove(at);
            }
            let file_system = mount.file_system;
            // A mark belongs to its file system, not to the mount that named it.
            let others = self.mounts.iter().filter(|it| it.file_system == file_system);
            gone &= !others.flat_map(|it| &it.trees).fold(0, |left, mask| left | mask);
        }
        if gone != 0 {
            // It fails where the directory is gone, and the mark with it.
            let remove = libc::FAN_MARK_REMOVE | scope(mark.recursive);
            let _ = self.mark(remove, gone, mark.folder.as_fd());
        }
        self.leave_mount(mark.mount_id);
    }

    fn mark(&self, flags: u32, mask: u64, folder: BorrowedFd<'_>) -> Result<(), Errno> {
        // SAFETY: the path is a static string, and the kernel writes nothing.
        let result = unsafe {
            libc::fanotify_mark(self.fd.as_raw_fd(), flags, mask, folder.as_raw_fd(), c".".as_ptr())
        };
        if result < 0 { Err(last_errno()) } else { Ok(()) }
    }

    /// Keeps the mount of a folder, and says which it is.
    fn enter_mount(&mut self, folder: &OwnedFd) -> Result<u64, Errno> {
        let status = rustix::fs::statx(folder, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
        let id = status.stx_mnt_id;
        if let Some(mount) = self.mounts.iter_mut().find(|mount| mount.id == id) {
            mount.folders += 1;
            return Ok(id);
        }
        let file_system = rustix::fs::fstatvfs(folder)?.f_fsid;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(folder, c".", flags, Mode::empty())?;
        // Another privilege, and not every file system can do it: then events would lead nowhere.
        open_by_handle(fd.as_fd(), &handle_of(folder.as_fd())?)?;
        self.mounts.push(Mount { id, file_system, fd, folders: 1, trees: Vec::new() });
        Ok(id)
    }

    fn leave_mount(&mut self, id: u64) {
        let Some(at) = self.mounts.iter().position(|mount| mount.id == id) else { return };
        self.mounts[at].folders -= 1;
        if self.mounts[at].folders == 0 {
            self.mounts.swap_remove(at);
        }
    }

    pub(super) fn take(&mut self, is_ignored: &impl Fn(u32) -> bool, events: &mut Vec<HostEvent>) {
        let mut buffer = std::mem::take(&mut self.buffer);
        if let Ok(len) = rustix::io::read(&self.fd, &mut buffer[..]) {
            let mut rest = &buffer[..len];
            while let Some((event, after)) = split_event(rest) {
                if !is_ignored(u32::from_ne_bytes(field(event, 20))) {
                    self.read_event(event, events);
                }
                rest = after;
            }
        }
        self.buffer = buffer;
    }

    fn read_event(&mut self, event: &[u8], events: &mut Vec<HostEvent>) {
        let mask = u64::from_ne_bytes(field(event, 8));
        let pid = u32::from_ne_bytes(field(event, 20));
        if mask & libc::FAN_Q_OVERFLOW != 0 {
            return events.push(overflow());
        }
        let metadata_len = usize::from(u16::from_ne_bytes(field(event, 6)));
        let information = self.read_information(event.get(metadata_len..).unwrap_or_default());
        let is_directory = mask & libc::FAN_ONDIR != 0;
        let mut push = |path: String, kind| {
            let change = HostChange { path: stored(path), is_directory, kind };
            events.push(HostEvent { change, pid: Some(pid) });
        };
        match (information.old, information.new) {
            (Some(old), Some(new)) => {
                push(old.full(), HostChangeKind::Renamed { to: stored(new.full()) });
            }
            (Some(old), None) => push(old.full(), HostChangeKind::Removed),
            (None, Some(new)) => push(new.full(), HostChangeKind::Added),
            (None, None) => {}
        }
        let Some(place) = information.place else { return };
        let (created, deleted) = (mask & libc::FAN_CREATE != 0, mask & libc::FAN_DELETE != 0);
        // Both in one event: what there is now was the last to happen.
        let is_there = created && deleted && place.is_there();
        if is_there {
            push(place.full(), HostChangeKind::Removed);
        }
        if created {
            push(place.full(), HostChangeKind::Added);
        }
        let filters = [(libc::FAN_MODIFY, FILTER_DATA), (libc::FAN_ATTRIB, FILTER_METADATA)];
        let wanted = filters.iter().filter(|(bit, _)| mask & bit != 0);
        let filter = wanted.fold(0, |filters, (_, filter)| filters | filter);
        if filter != 0 {
            push(place.full(), HostChangeKind::Modified(filter));
        }
        if deleted && !is_there {
            push(place.full(), HostChangeKind::Removed);
        }
    }

    fn read_information(&mut self, mut records: &[u8]) -> Information {
        let mut information = Information::default();
        while records.len() >= 4 {
            let len = usize::from(u16::from_ne_bytes(field(records, 2)));
            let Some((record, rest)) = records.split_at_checked(len.max(4)) else { break };
            let slot = match record[0] {
                libc::FAN_EVENT_INFO_TYPE_DFID_NAME => Some(&mut information.place),
                libc::FAN_EVENT_INFO_TYPE_OLD_DFID_NAME => Some(&mut information.old),
                libc::FAN_EVENT_INFO_TYPE_NEW_DFID_NAME => Some(&mut information.new),
                _ => None,
            };
            if let Some(slot) = slot {
                *slot = self.place(record);
            }
            records = rest;
        }
        information
    }

    /// Header (4 bytes), id of the file system (8), length (4), type (4) and bytes of the handle,
    /// and the name.
    fn place(&mut self, record: &[u8]) -> Option<Place> {
        let file_system = u64::from_ne_bytes(*record.get(4..)?.first_chunk()?);
        let handle_len = u32::from_ne_bytes(*record.get(12..)?.first_chunk()?);
        let handle_len = usize::try_from(handle_len).ok().filter(|len| *len <= HANDLE_BYTES_MAX)?;
        let (handle, name) = record.get(12..)?.split_at_checked(8 + handle_len)?;
        let name = CStr::from_bytes_until_nul(name).ok()?.to_str().ok()?.to_owned();
        let (path, directory) = self.find(file_system, handle)?;
        Some(Place { path, directory, name })
    }

    /// Returns the path of a directory by its handle; the last known path, if the directory is
    /// gone.
    fn find(&mut self, file_system: u64, handle: &[u8]) -> Option<(String, Option<OwnedFd>)> {
        for mount in self.mounts.iter().filter(|mount| mount.file_system == file_system) {
            let Ok(directory) = open_by_handle(mount.fd.as_fd(), handle) else { continue };
            let path = rustix::fs::readlink(magic_path(directory.as_fd()), Vec::new());
            let Some(path) = path.ok().and_then(|path| path.into_string().ok()) else { continue };
            // "(unreachable)": in another mount of the same file system.
            let Some(path) = path.strip_prefix('/') else { continue };
            if is_removed(&directory) {
                continue;
            }
            if self.names.len() >= NAMES_MAX {
                self.names.clear();
            }
            self.names.insert(handle.to_vec(), path.to_owned());
            return Some((path.to_owned(), Some(directory)));
        }
        self.names.get(handle).map(|path| (path.clone(), None))
    }
}

impl Place {
    fn full(&self) -> String {
        if self.name == "." { self.path.clone() } else { join(&self.path, &self.name) }
    }

    fn is_there(&self) -> bool {
        let Some(directory) = &self.directory else { return false };
        rustix::fs::statat(directory, self.name.as_str(), AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }
}

fn is_removed(directory: &OwnedFd) -> bool {
    rustix::fs::fstat(directory).is_ok_and(|status| status.st_nlink == 0)
}

/// Returns the events to mark for some filters.
fn mask(filter: u32, recursive: bool) -> u64 {
    let mut mask = libc::FAN_CREATE | libc::FAN_DELETE | libc::FAN_RENAME | libc::FAN_ONDIR;
    if filter & FILTER_DATA != 0 {
        mask |= libc::FAN_MODIFY;
    }
    if filter & FILTER_METADATA != 0 {
        mask |= libc::FAN_ATTRIB;
    }
    if !recursive {
        mask |= libc::FAN_EVENT_ON_CHILD;
    }
    mask
}

fn scope(recursive: bool) -> u32 {
    if recursive { libc::FAN_MARK_FILESYSTEM } else { libc::FAN_MARK_ONLYDIR }
}

/// The first event, and what follows it.
fn split_event(events: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = u32::from_ne_bytes(*events.first_chunk()?);
    let len = usize::try_from(len).ok().filter(|len| *len >= METADATA_BYTES)?;
    events.split_at_checked(len)
}

/// Bytes that are there: the length was checked.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("the length was checked")
}

/// Memory for a handle: length, type, bytes.
#[repr(C, align(8))]
struct Handle([u8; 8 + HANDLE_BYTES_MAX]);

/// The handle of an open directory.
fn handle_of(directory: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let mut handle = Handle([0; 8 + HANDLE_BYTES_MAX]);
    let room = u32::try_from(HANDLE_BYTES_MAX).expect("it is small");
    handle.0[..4].copy_from_slice(&room.to_ne_bytes());
    let mut mount_id: libc::c_int = 0;
    // SAFETY: the path is a static string; the kernel writes the header, as many bytes as `room`
    // says behind it, which the buffer has, and one number.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            directory.as_raw_fd(),
            c"".as_ptr(),
            handle.0.as_mut_ptr(),
            &raw mut mount_id,
            libc::AT_EMPTY_PATH,
        )
    };
    if result < 0 {
        return Err(last_errno());
    }
    let len = u32::from_ne_bytes(field(&handle.0, 0));
    let len = usize::try_from(len).ok().filter(|len| *len <= HANDLE_BYTES_MAX);
    Ok(handle.0[..8 + len.ok_or(Errno::OVERFLOW)?].to_vec())
}

/// Opens the directory that a handle (length, type, bytes) stands for.
fn open_by_handle(mount: BorrowedFd<'_>, handle: &[u8]) -> Result<OwnedFd, Errno> {
    let mut aligned = Handle([0; 8 + HANDLE_BYTES_MAX]);
    aligned.0[..handle.len()].copy_from_slice(handle);
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    // SAFETY: the kernel reads the eight bytes of the header and as many as it says, which the
    // buffer has; it writes nothing.
    let fd = unsafe {
        libc::syscall(libc::SYS_open_by_handle_at, mount.as_raw_fd(), aligned.0.as_ptr(), flags)
    };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(last_errno)?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn last_errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
