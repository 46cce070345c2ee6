//! The size of a file: [MS-FSA] 2.1.5.15.1, 2.1.5.15.4, 2.1.5.15.14.

use arbitration::ByteRange;
use dtyp::AccessMask;
use dtyp::fscc::{
    FileAllocationInformation, FileEndOfFileInformation, FileValidDataLengthInformation,
};
use engine::response::Step;
use engine::scope::InTree;
use model::open::{Open, OpenFile};
use model::reject::Reject;
use object::ObjectOp;
use wire::change_notify::CompletionFilter;

use super::{Pending, change, decode, done, verify_size};

/// Truncates or extends the file.
pub(super) fn set_end_of_file(
    mut scope: InTree<'_>,
    buffer: &[u8],
) -> Result<Step<Pending>, Reject> {
    let size = decode(FileEndOfFileInformation::decode(buffer))?.end_of_file;
    verify(&mut scope, size)?;
    let open = scope.open()?;
    let op = ObjectOp::SetEndOfFile { open: open.file()?.local_open, size };
    Ok(change(open, op, written(open.file()?)))
}

/// Allocates space for the file, or truncates it.
pub(super) fn set_allocation(
    mut scope: InTree<'_>,
    buffer: &[u8],
) -> Result<Step<Pending>, Reject> {
    let size = decode(FileAllocationInformation::decode(buffer))?.allocation_size;
    verify(&mut scope, size)?;
    let open = scope.open()?;
    let op = ObjectOp::SetAllocation { open: open.file()?.local_open, size };
    Ok(change(open, op, written(open.file()?)))
}

/// Accepts a valid data length without a change: a POSIX file reads as zeros wherever nothing was
/// written.
pub(super) fn set_valid_data_length(open: &Open, buffer: &[u8]) -> Result<Step<Pending>, Reject> {
    open.verify_access(AccessMask::WRITE_DATA)?;
    let length = decode(FileValidDataLengthInformation::decode(buffer))?.valid_data_length;
    verify_size(length)?;
    done()
}

/// Checks for a file that is open for writing, without another open's lock on the range that is cut
/// off or added. Breaks other clients' caching.
fn verify(scope: &mut InTree<'_>, size: u64) -> Result<(), Reject> {
    let open = scope.open()?;
    open.verify_access(AccessMask::WRITE_DATA)?;
    verify_size(size)?;
    let OpenFile { identity, is_directory, .. } = *open.file()?;
    if is_directory {
        return Err(Reject::NotOnDirectories);
    }
    let volatile = open.file_id.volatile;
    let range = ByteRange { offset: size, length: u64::MAX - size };
    let access = scope.globals.files.access(identity, volatile, range, true);
    scope.globals.files.verify_unlocked(identity, access)?;
    scope.globals.files.break_before_change(identity, volatile)
}

fn written(file: &OpenFile) -> CompletionFilter {
    match file.path.stream() {
        None => CompletionFilter::SIZE | CompletionFilter::LAST_WRITE,
        Some(_) => CompletionFilter::STREAM_SIZE | CompletionFilter::STREAM_WRITE,
    }
}
