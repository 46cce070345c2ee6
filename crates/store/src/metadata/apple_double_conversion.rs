//! Moves the contents of a file `._NAME` into the streams of the file `NAME`, as Samba does
//! ("fruit:convert_adouble"). What a stream has already is newer, and stays. Both files must have
//! one owner, and the first must be open to all users of the other: who may rename a closed file of
//! somebody else's could read it as streams otherwise.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use dtyp::{AccessMask, NtStatus};
use rustix::fs::{AtFlags, OFlags, Statx};

use crate::cache::directories::Inode;
use crate::errno::{During, Operation};
use crate::metadata::apple_double::AppleDouble;
use crate::metadata::stream::Streams;
use crate::metadata::stream_form::STREAM_BYTES_MAX;
use crate::model::opens::Open;
use crate::model::root::Root;
use crate::model::secured_object::SecuredObject;
use crate::model::stream_name::{AFP_INFO, AFP_RESOURCE, StreamName};
use crate::security::access;
use crate::security::credentials::Impersonation;
use crate::security::openness;
use crate::sys::file_kind::is_file;
use crate::sys::lengths::as_u64;
use crate::sys::system;
use crate::sys::xattr::Xattrs;

/// Beginning of the name of such a file.
const PREFIX: &str = "._";

/// Bytes of such a file that are read: a resource fork as long as a stream can be, and as much of
/// extended attributes. A longer one stays as it is.
const FILE_BYTES_MAX: u64 = 2 * STREAM_BYTES_MAX;

/// The same where streams are files, which can be longer; all of it is in memory at once.
const DEPOT_FILE_BYTES_MAX: u64 = 16 << 20;

/// Converts the file beside an open, if it has one.
pub(crate) fn convert_beside(impersonation: &mut Impersonation, open: &Open) {
    if let Some(parent) = &open.parent {
        let file = (open.fd(), open.path_only);
        convert(impersonation, &open.root, parent.fd.as_fd(), &open.name, file);
    }
}

/// Converts an entry of a directory, if it is such a file and the other one is there, too.
pub(crate) fn convert_entry(
    impersonation: &mut Impersonation,
    root: &Root,
    directory: BorrowedFd<'_>,
    entry: &OsStr,
) {
    let Some(name) = entry.as_bytes().strip_prefix(PREFIX.as_bytes()) else { return };
    // The directory itself has no such file in it.
    if name == b"." {
        return;
    }
    let name = OsStr::from_bytes(name);
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    if let Ok(file) = system::open_beneath(directory, name, flags, 0, false) {
        convert(impersonation, root, directory, name, (file.as_fd(), true));
    }
}

/// Converts the file beside `name`, which is open as `file`, for paths only if the flag is set. One
/// that the user may not change stays, or its contents would come back after they were deleted.
pub(crate) fn convert(
    impersonation: &mut Impersonation,
    root: &Root,
    directory: BorrowedFd<'_>,
    name: &OsStr,
    (file, path_only): (BorrowedFd<'_>, bool),
) {
    let is_other = !root.settings.apple_streams || root.snapshot.is_some();
    if is_other || root.settings.read_only || name.as_bytes().starts_with(PREFIX.as_bytes()) {
        return;
    }
    let mut beside = OsString::from(PREFIX);
    beside.push(name);
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let Ok(double) = system::open_beneath(directory, &beside, flags, 0, false) else { return };
    let statuses = (system::status_of(file), system::status_of(double.as_fd()));
    let (Ok(status), Ok(double_status)) = statuses else { return };
    let secured = SecuredObject { fd: file, path_only, status: &status };
    let beside_it = SecuredObject { fd: double.as_fd(), path_only: false, status: &double_status };
    if status.stx_uid != double_status.stx_uid
        || !openness::is_as_open(impersonation, root, beside_it, secured)
        || !may_write(impersonation, root, secured)
        || !may_write(impersonation, root, beside_it)
    {
        return;
    }
    let mut streams = Streams::new(impersonation, root, Xattrs::new(file, path_only));
    // A failure leaves the file as it was, for the next time.
    if let Ok(true) = move_contents(&double, &mut streams, bytes_max(root))
        && root.settings.removes_apple_doubles
        && is_still(&double, directory, &beside)
    {
        let _ = rustix::fs::unlinkat(directory, &beside, AtFlags::empty());
    }
}

fn bytes_max(root: &Root) -> u64 {
    match root.settings.streams_depot {
        Some(_) => DEPOT_FILE_BYTES_MAX,
        None => FILE_BYTES_MAX,
    }
}

/// Whether the descriptor lets the user write to a file; the kernel has its own say.
fn may_write(impersonation: &mut Impersonation, root: &Root, secured: SecuredObject<'_>) -> bool {
    if root.settings.nt_acls.is_none() {
        return true;
    }
    let granted = access::object_rights(impersonation, root, secured);
    granted.is_ok_and(|granted| granted.contains(AccessMask::WRITE_DATA))
}

/// Whether a name leads to this file: another client may have put something else there.
fn is_still(file: &OwnedFd, directory: BorrowedFd<'_>, name: &OsStr) -> bool {
    let inode = |status: Statx| Inode::of(&status);
    let (opened, named) = (system::status_of(file.as_fd()), system::status_at(directory, name));
    matches!((opened.map(inode), named.map(inode)), (Ok(opened), Ok(named)) if opened == named)
}

/// Returns whether the file had contents, which are in streams now.
fn move_contents(
    file: &OwnedFd,
    streams: &mut Streams<'_>,
    bytes_max: u64,
) -> Result<bool, NtStatus> {
    let status = system::status_of(file.as_fd()).during(Operation::Query)?;
    if !is_file(&status) || status.stx_size > bytes_max {
        return Ok(false);
    }
    let mut bytes = vec![0; usize::try_from(status.stx_size).unwrap_or(0)];
    let length = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut bytes[..], 0));
    bytes.truncate(length.during(Operation::Read)?);
    let Some(double) = AppleDouble::read(&bytes).filter(|double| !double.is_empty()) else {
        return Ok(false);
    };
    if let Some(info) = double.afp_info() {
        add(streams, AFP_INFO, &Vec::from(info))?;
    }
    add(streams, AFP_RESOURCE, double.resource_fork)?;
    for (name, value) in &double.attributes {
        add(streams, &StreamName::shown(name), value)?;
    }
    let empty = AppleDouble::empty();
    rustix::fs::ftruncate(file, as_u64(empty.len())).during(Operation::SetSize)?;
    rustix::io::pwrite(file, &empty, 0).during(Operation::Write)?;
    Ok(true)
}

fn add(streams: &mut Streams<'_>, name: &str, value: &[u8]) -> Result<(), NtStatus> {
    if value.is_empty() || streams.find(name)?.is_some() {
        return Ok(());
    }
    streams.save(&StreamName::new(name), value.to_vec())
}
