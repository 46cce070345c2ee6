//! Data for tracing: operations of the store, and slow requests.

use object::ObjectOp;
use trace::{SlowRequest, StoreOperation};
use tracing::warn;

use super::event_loop::Worker;

impl Worker {
    /// Logs the slow requests of this turn, if somebody wants to know: one line each.
    #[inline(always)]
    pub(super) fn tell_slow(&self) {
        if let Some((slow, left_out)) = self.trace.take_slow() {
            self.log_slow(&slow, left_out);
        }
    }

    #[inline(never)]
    fn log_slow(&self, slow: &[SlowRequest], left_out: u64) {
        for request in slow {
            warn!("{}", self.describe_slow(request));
        }
        if left_out > 0 {
            warn!("{left_out} more requests were slow");
        }
    }

    fn describe_slow(&self, request: &SlowRequest) -> String {
        let SlowRequest { mid, operation, status, refusal, ns, phases, .. } = request;
        let SlowRequest { user, share, open, path, .. } = request;
        let of_open = || open.and_then(|open| self.server.path_of(open));
        let path = path.clone().or_else(of_open).unwrap_or_default();
        // All connections of a worker are of one client.
        let address = self.channels.values().find_map(|channel| channel.addresses().ok());
        let client = address.map(|(client, _)| client.ip().to_canonical().to_string());
        let phases: Vec<String> =
            phases.iter().map(|(phase, ns)| format!("{} {}", phase.name(), ms(*ns))).collect();
        let refused =
            refusal.as_ref().map(|(reason, rule)| format!(", refused: {} ({rule})", reason.name()));
        format!(
            "slow: {} took {} ms ({}); share '{share}', path {path:?}, user '{user}', client {}, \
             message {mid}, status {status:#010x}{}",
            operation.name(),
            ms(*ns),
            phases.join(", "),
            client.as_deref().unwrap_or("gone"),
            refused.unwrap_or_default(),
        )
    }
}

/// Milliseconds with three digits behind the point.
fn ms(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1_000 % 1_000)
}

/// Kind of an operation in traces.
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
