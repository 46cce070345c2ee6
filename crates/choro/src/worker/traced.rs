//! What the store is asked for, as those who trace a worker are told of it.

use object::{ObjectOp, ObjectReply, ObjectResult};
use trace::StoreOperation;

/// What an operation counts as.
pub(super) fn operation(op: &ObjectOp) -> StoreOperation {
    match op {
        ObjectOp::Open(_) => StoreOperation::Open,
        ObjectOp::Close { unlink: false, .. } => StoreOperation::Close,
        ObjectOp::Close { unlink: true, .. } | ObjectOp::CloseAndUnlinkFile { .. } => {
            StoreOperation::Remove
        }
        ObjectOp::Read { .. } => StoreOperation::Read,
        ObjectOp::Write { .. } => StoreOperation::Write,
        ObjectOp::Flush { .. } => StoreOperation::Flush,
        ObjectOp::CopyRange { .. } | ObjectOp::DuplicateExtents { .. } => StoreOperation::Copy,
        ObjectOp::QueryMetadata { .. }
        | ObjectOp::QueryShortName { .. }
        | ObjectOp::Lookup { .. }
        | ObjectOp::AllocatedRanges { .. } => StoreOperation::QueryMetadata,
        ObjectOp::Overwrite { .. }
        | ObjectOp::SetBasic { .. }
        | ObjectOp::SetEndOfFile { .. }
        | ObjectOp::SetAllocation { .. }
        | ObjectOp::SetSparse { .. }
        | ObjectOp::SetCompression { .. }
        | ObjectOp::Trim { .. }
        | ObjectOp::ZeroRange { .. } => StoreOperation::SetMetadata,
        ObjectOp::Rename { .. } | ObjectOp::Relocate { .. } | ObjectOp::Link { .. } => {
            StoreOperation::Rename
        }
        ObjectOp::ReadDirectory { .. } | ObjectOp::IsEmpty { .. } => StoreOperation::ReadDirectory,
        ObjectOp::ReadSecurity { .. } => StoreOperation::ReadSecurity,
        ObjectOp::WriteSecurity { .. } => StoreOperation::WriteSecurity,
        ObjectOp::ListStreams { .. }
        | ObjectOp::ReadExtendedAttributes { .. }
        | ObjectOp::WriteExtendedAttributes { .. } => StoreOperation::Attributes,
        ObjectOp::QueryVolume { .. } => StoreOperation::QueryVolume,
        ObjectOp::DeleteReparsePoint { .. }
        | ObjectOp::FindReferral { .. }
        | ObjectOp::ListSnapshots { .. }
        | ObjectOp::ReadReparsePoint { .. }
        | ObjectOp::WriteReparsePoint { .. } => StoreOperation::Other,
    }
}

/// Bytes of data that went through it, and its status. `room` is what the buffer of a READ held
/// before it.
pub(super) fn outcome(result: &ObjectResult, room: usize) -> (u64, u32) {
    match result {
        Ok(ObjectReply::Read(buffer)) => {
            (u64::try_from(buffer.len().saturating_sub(room)).unwrap_or(u64::MAX), 0)
        }
        Ok(ObjectReply::Written(bytes)) => (*bytes, 0),
        Ok(_) => (0, 0),
        Err(status) => (0, status.0),
    }
}
