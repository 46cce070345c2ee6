//! From errno to NTSTATUS: the one table, keyed by what was being done.

use dtyp::NtStatus;
use rustix::io::Errno;

/// Operation of the store that a system call belonged to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operation {
    /// Copying a range between files.
    Copy,
    /// Creating the last component of a path.
    Create,
    /// Giving a file a further name.
    Link,
    /// Reading the entries of a directory.
    List,
    /// Locking bytes of a file.
    Lock,
    /// Opening the last component of a path.
    Open,
    /// Opening the directories before the last component.
    Parent,
    /// Reading metadata, times and attributes.
    Query,
    /// Reading or changing quotas of users.
    Quota,
    /// Reading the data of a file.
    Read,
    /// Removing a name from its directory.
    Remove,
    /// Giving a file another name.
    Rename,
    /// Changing mode, owner, times or attributes.
    SetMetadata,
    /// Changing a file's size or storage.
    SetSize,
    /// Reading or writing a named stream.
    Stream,
    /// Making written data durable (fsync).
    Sync,
    /// Writing the data of a file.
    Write,
    /// Writing or removing an extended attribute.
    WriteExtendedAttribute,
}

/// The status for a client, by the meaning of `errno` for `operation`.
pub fn status_from_errno(operation: Operation, errno: Errno) -> NtStatus {
    use Operation as O;
    match (operation, errno) {
        // A lease of another program, which the kernel has asked to give it up.
        (O::Open, Errno::AGAIN) => NtStatus::RETRY,
        (O::Lock, Errno::AGAIN | Errno::ACCESS) => NtStatus::FILE_LOCK_CONFLICT,
        (O::Lock, Errno::NOLCK | Errno::DEADLK) => NtStatus::INSUFFICIENT_RESOURCES,
        // A name that is not there, and a directory on the way to it that is not there.
        (O::Parent | O::Create, Errno::NOENT) => NtStatus::OBJECT_PATH_NOT_FOUND,
        (O::Parent | O::Open | O::Create, Errno::NOTDIR) => NtStatus::OBJECT_PATH_NOT_FOUND,
        (_, Errno::NOENT | Errno::STALE) => NtStatus::OBJECT_NAME_NOT_FOUND,
        (O::Stream, Errno::NODATA) => NtStatus::OBJECT_NAME_NOT_FOUND,
        (_, Errno::NOTDIR) => NtStatus::NOT_A_DIRECTORY,
        (_, Errno::ISDIR) => NtStatus::FILE_IS_A_DIRECTORY,
        // A link that may not be followed, or leads out of the share.
        (O::Parent | O::Open | O::Create, Errno::LOOP | Errno::XDEV) => {
            NtStatus::STOPPED_ON_SYMLINK
        }
        (_, Errno::LOOP) => NtStatus::ACCESS_DENIED,
        (_, Errno::XDEV) => NtStatus::NOT_SAME_DEVICE,
        // A limit that the file system cannot count.
        (O::Quota, Errno::RANGE) => NtStatus::INVALID_PARAMETER,
        // A file system keeps no quotas, or the kernel is too old to tell them.
        (O::Quota, Errno::INVAL | Errno::SRCH) => NtStatus::NOT_SUPPORTED,
        (O::Remove, Errno::EXIST) | (_, Errno::NOTEMPTY) => NtStatus::DIRECTORY_NOT_EMPTY,
        (_, Errno::EXIST) => NtStatus::OBJECT_NAME_COLLISION,
        (_, Errno::ACCESS | Errno::PERM) => NtStatus::ACCESS_DENIED,
        (_, Errno::ROFS) => NtStatus::MEDIA_WRITE_PROTECTED,
        // Names that this file system cannot hold, while Windows could.
        (_, Errno::NAMETOOLONG) => NtStatus::OBJECT_NAME_INVALID,
        (O::Create | O::Open | O::Parent, Errno::INVAL | Errno::ILSEQ) => {
            NtStatus::OBJECT_NAME_INVALID
        }
        (O::Stream, Errno::RANGE) => NtStatus::OBJECT_NAME_INVALID,
        (_, Errno::ILSEQ) => NtStatus::OBJECT_NAME_INVALID,
        // A value that the file system does not take is too large for an extended attribute, and
        // more than the disk holds for a stream, whose client thinks it a file.
        (O::WriteExtendedAttribute, Errno::TOOBIG | Errno::NOSPC | Errno::RANGE) => {
            NtStatus::EA_TOO_LARGE
        }
        (_, Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::TOOBIG) => NtStatus::DISK_FULL,
        (_, Errno::MFILE | Errno::NFILE) => NtStatus::TOO_MANY_OPENED_FILES,
        (_, Errno::NOMEM | Errno::NOBUFS) => NtStatus::INSUFFICIENT_RESOURCES,
        (_, Errno::MLINK) => NtStatus::TOO_MANY_LINKS,
        // A running program, a mount point, a lock of a local process.
        (_, Errno::BUSY | Errno::TXTBSY | Errno::AGAIN) => NtStatus::SHARING_VIOLATION,
        (_, Errno::IO) => NtStatus::UNEXPECTED_IO_ERROR,
        (_, Errno::INVAL) => NtStatus::INVALID_PARAMETER,
        // The descriptor was not opened for this, though `granted_access` allowed it: a directory,
        // a device, or a file whose data the kernel did not let us open.
        (_, Errno::BADF) => NtStatus::INVALID_DEVICE_REQUEST,
        (_, Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY) => NtStatus::NOT_SUPPORTED,
        (_, Errno::CANCELED) => NtStatus::CANCELLED,
        _ => NtStatus::UNSUCCESSFUL,
    }
}

/// Turns the result of a system call into one that carries a status.
pub(crate) trait During<T> {
    /// The result, with errno read as a failure of `operation`.
    fn during(self, operation: Operation) -> Result<T, NtStatus>;
}

impl<T> During<T> for Result<T, Errno> {
    fn during(self, operation: Operation) -> Result<T, NtStatus> {
        self.map_err(|errno| status_from_errno(operation, errno))
    }
}

#[cfg(test)]
mod tests {
    use super::{Operation, status_from_errno};
    use dtyp::NtStatus;
    use rustix::io::Errno;

    #[test]
    fn a_missing_name_and_a_missing_directory_are_told_apart() {
        let open = status_from_errno(Operation::Open, Errno::NOENT);
        let parent = status_from_errno(Operation::Parent, Errno::NOENT);
        assert_eq!(open, NtStatus::OBJECT_NAME_NOT_FOUND);
        assert_eq!(parent, NtStatus::OBJECT_PATH_NOT_FOUND);
    }

    #[test]
    fn crossing_devices_means_escape_when_opening_and_distance_when_renaming() {
        let open = status_from_errno(Operation::Open, Errno::XDEV);
        let rename = status_from_errno(Operation::Rename, Errno::XDEV);
        assert_eq!(open, NtStatus::STOPPED_ON_SYMLINK);
        assert_eq!(rename, NtStatus::NOT_SAME_DEVICE);
    }

    #[test]
    fn an_unknown_errno_is_still_an_error() {
        assert!(status_from_errno(Operation::Read, Errno::from_raw_os_error(4_000)).is_error());
    }
}
