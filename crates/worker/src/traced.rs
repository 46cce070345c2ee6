//! Data for tracing: operations of the store, and slow requests.

use object::{ObjectOp, ObjectReply, ObjectResult};
use trace::{SlowRequest, StoreOperation, Tracer};
use tracing::warn;

use super::event_loop::Worker;
use super::store_request::Work;

impl Worker {
    /// Logs the slow requests of this turn, one line each, if `slow operation threshold` is set.
    #[inline(always)]
    pub(super) fn log_slow_requests(&self) {
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
        let address = self.transports.values().find_map(|channel| channel.addresses().ok());
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
fn operation(op: &ObjectOp) -> StoreOperation {
    match op {
        ObjectOp::Open(_) => StoreOperation::Open,
        ObjectOp::Close { unlink: false, .. } => StoreOperation::Close,
        ObjectOp::Close { unlink: true, .. } | ObjectOp::CloseAndUnlinkFile { .. } => {
            StoreOperation::Remove
        }
        ObjectOp::Read { .. } => StoreOperation::Read,
        ObjectOp::Write { .. } => StoreOperation::Write,
        ObjectOp::Flush { .. } => StoreOperation::Flush,
        ObjectOp::CopyRange { .. }
        | ObjectOp::CopyStreams { .. }
        | ObjectOp::DuplicateExtents { .. } => StoreOperation::Copy,
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
        ObjectOp::Quotas { .. } | ObjectOp::QueryVolume { .. } => StoreOperation::QueryVolume,
        ObjectOp::Claim { .. }
        | ObjectOp::DeleteReparsePoint { .. }
        | ObjectOp::EndLease { .. }
        | ObjectOp::FindReferral { .. }
        | ObjectOp::ListSnapshots { .. }
        | ObjectOp::Lock { .. }
        | ObjectOp::ReadReparsePoint { .. }
        | ObjectOp::Unlock { .. }
        | ObjectOp::WriteReparsePoint { .. } => StoreOperation::Other,
    }
}

/// Begins an operation of the store on this thread, for a request or not.
pub(super) fn store_begins(trace: Tracer, op: &ObjectOp, is_for_request: bool) -> Work {
    let work = trace.store_begins(operation(op), is_for_request);
    Work { work, room: room(op), is_inline: true }
}

/// Ends an operation of the store, with the bytes that it moved. Returns its time in ticks.
pub(super) fn store_ends(trace: Tracer, work: Work, result: &ObjectResult) -> u64 {
    let (bytes, status) = match result {
        Ok(ObjectReply::Written(bytes)) => (*bytes, 0),
        Ok(reply) => (u64::try_from(reply.bytes_read(work.room)).unwrap_or(0), 0),
        Err(status) => (0, status.0),
    };
    trace.store_ends(work.work, bytes, status)
}

/// Bytes that the buffer of a READ has before it.
fn room(op: &ObjectOp) -> usize {
    match op {
        ObjectOp::Read { buffer, .. } => buffer.len(),
        _ => 0,
    }
}
