//! Storage that files share: [MS-FSA] 2.1.5.10.4.

use crate::sys::system::Extents;
use dtyp::{FileAttributes, NtStatus};
use object::LocalOpen;
use rustix::io::Errno;

use crate::Store;
use crate::data::range::{verify_range, verify_writable};
use crate::errno::{During, Operation};
use crate::metadata::basic::stored_attributes;
use crate::model::opens::Open;
use crate::sys::system;

impl Store {
    /// The checks stand in the order of the section. Locks are not looked at, as with Windows: what
    /// others have locked is not read or written but remembered in one more place.
    pub(crate) fn duplicate_extents(
        &self,
        source: LocalOpen,
        target: LocalOpen,
        mut extents: Extents,
    ) -> Result<(), NtStatus> {
        let (from, to) = (self.opens.get(source)?, self.opens.get(target)?);
        verify_writable(to)?;
        let has_extents = |open: &Open| open.stream.is_none() && !open.path_only;
        if !has_extents(from) || !has_extents(to) || from.is_directory() {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let Extents { source_offset, target_offset, length } = extents;
        for offset in [source_offset, target_offset] {
            let end = offset.checked_add(length).ok_or(NtStatus::INVALID_PARAMETER)?;
            verify_range(offset, end)?;
        }
        if source_offset + length > size(from)? {
            return Err(NtStatus::NOT_SUPPORTED);
        }
        // Windows keeps the size of the target and leaves out what does not fit.
        extents.length = length.min(size(to)?.saturating_sub(target_offset));
        if extents.length == 0 {
            return Ok(());
        }
        let overlap = source_offset.abs_diff(target_offset) < extents.length;
        if from.inode == to.inode && overlap || is_sparse(from) && !is_sparse(to) {
            return Err(NtStatus::NOT_SUPPORTED);
        }
        match system::clone_range(from.fd(), to.fd(), extents) {
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS) => {
                Err(NtStatus::INVALID_DEVICE_REQUEST)
            }
            Err(Errno::XDEV) => Err(NtStatus::INVALID_HANDLE),
            result => result.during(Operation::Copy),
        }
    }
}

fn size(open: &Open) -> Result<u64, NtStatus> {
    system::status_of(open.fd()).during(Operation::Query).map(|status| status.stx_size)
}

fn is_sparse(open: &Open) -> bool {
    let stored = stored_attributes(&open.root, open.xattrs());
    stored.attributes.unwrap_or_default().contains(FileAttributes::SPARSE_FILE)
}
