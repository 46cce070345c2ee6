//! FSCTL_SRV_COPYCHUNK and FSCTL_SRV_COPYCHUNK_WRITE: [MS-SMB2] 3.3.5.15.6.
//!
//! The store copies range by range, in the order of the client; the response reports the progress.
//! A client with Apple's extensions copies a whole file, with its streams, by naming no range.

#[cfg(test)]
mod tests;

use dtyp::AccessMask;
use engine::effect::{Effect, Reply};
use engine::scope::InTree;
use model::open::Open;
use model::reject::Reject;
use object::{ObjectOp, ObjectReply};
use wire::FileId;
use wire::ioctl::{
    CopyChunk, CopyChunkCopy, CopyChunkResponse, FsctlCode, IoctlRequest, ResumeKey,
};

use super::srv_request_resume_key::file_id;
use super::{Fsctl, Output, Progress, invalid, verify_room};
use crate::command::read::file_range;

/// Copies ranges from another open to this one, which must be readable, too.
pub(crate) struct SrvCopyChunk;

/// Copies ranges from another open to this one.
pub(crate) struct SrvCopyChunkWrite;

/// `Server.ServerSideCopyMaxNumberofChunks`.
const CHUNKS_MAX: u32 = 256;

/// `Server.ServerSideCopyMaxChunkSize`, in bytes.
const CHUNK_BYTES_MAX: u32 = 0x10_0000;

/// `Server.ServerSideCopyMaxDataSize`, in bytes.
const TOTAL_BYTES_MAX: u32 = 0x100_0000;

/// A copy whose ranges the store copies one after the other.
#[derive(Debug)]
pub(crate) struct Pending {
    source: FileId,
    /// Size of the source in bytes; none before the store's first reply.
    source_end: Option<u64>,
    ranges: Ranges,
    written: CopyChunkResponse,
}

/// The ranges of a copy.
#[derive(Debug)]
enum Ranges {
    /// Ranges that the request lists.
    Listed(Vec<CopyChunk>),
    /// All of the source, in pieces of the size that one range may have.
    WholeFile,
    /// The streams, behind everything else of a whole file.
    Streams,
}

impl Fsctl for SrvCopyChunk {
    const CODE: FsctlCode = FsctlCode::SRV_COPYCHUNK;
    type Scope<'s> = InTree<'s>;
    type Pending = Pending;

    fn start(
        mut scope: InTree<'_>,
        request: &IoctlRequest<'_>,
    ) -> Result<Progress<Pending>, Reject> {
        // For the target, Windows demands the right to read itself; the right to execute is not
        // enough.
        let is_readable = verify_file(scope.open()?, AccessMask::READ_DATA);
        start(scope, request, is_readable)
    }

    fn resume(
        scope: InTree<'_>,
        pending: Pending,
        reply: Reply,
    ) -> Result<Progress<Pending>, Reject> {
        resume(scope, pending, reply)
    }
}

impl Fsctl for SrvCopyChunkWrite {
    const CODE: FsctlCode = FsctlCode::SRV_COPYCHUNK_WRITE;
    type Scope<'s> = InTree<'s>;
    type Pending = Pending;

    fn start(scope: InTree<'_>, request: &IoctlRequest<'_>) -> Result<Progress<Pending>, Reject> {
        start(scope, request, Ok(()))
    }

    fn resume(
        scope: InTree<'_>,
        pending: Pending,
        reply: Reply,
    ) -> Result<Progress<Pending>, Reject> {
        resume(scope, pending, reply)
    }
}

/// Checks the request in the order of [MS-SMB2] 3.3.5.15.6.
fn start(
    mut scope: InTree<'_>,
    request: &IoctlRequest<'_>,
    target_is_readable: Result<(), Reject>,
) -> Result<Progress<Pending>, Reject> {
    let input = request.input;
    let (key, _) = input.split_first_chunk::<24>().ok_or_else(|| invalid(input))?;
    let source = file_id(ResumeKey(*key)).ok_or(Reject::NoSuchCopySource)?;
    let open = find_source(&scope, source).ok_or(Reject::NoSuchCopySource)?;
    verify_encryption(&scope, open)?;
    // The right to execute a file includes reading it, as in READ.
    let source_is_readable = verify_file(open, AccessMask::READ_DATA | AccessMask::EXECUTE);
    let source_open = open.file()?.local_open;
    let source_op = ObjectOp::QueryMetadata { open: source_open, with_ea_size: false };
    let source_user = open.user;
    verify_room(request, CopyChunkResponse::SIZE)?;
    let Some(chunks) = acceptable_chunks(request.input) else {
        let limits = encoded(LIMITS);
        return Ok(Progress::Done(Output::refused(Reject::CopyAboveLimits, limits)));
    };
    source_is_readable?;
    verify_file(scope.open()?, AccessMask::WRITE_DATA | AccessMask::APPEND_DATA)?;
    target_is_readable?;
    let written = CopyChunkResponse::default();
    let ranges = match chunks.is_empty() {
        true if copies_whole_files(&mut scope)? => Ranges::WholeFile,
        true => return Ok(Progress::Done(Output::new(encoded(written)))),
        false => Ranges::Listed(chunks),
    };
    let effect = Effect::Object { user: source_user, op: source_op };
    Ok(Progress::Wait(effect, Pending { source, source_end: None, ranges, written }))
}

fn resume(
    scope: InTree<'_>,
    mut pending: Pending,
    reply: Reply,
) -> Result<Progress<Pending>, Reject> {
    let reply = match reply.object() {
        Ok(reply) => reply,
        Err(reject) => return Ok(stopped(pending, reject)),
    };
    match (pending.source_end, reply) {
        (None, ObjectReply::Metadata(metadata)) => pending.source_end = Some(metadata.end_of_file),
        (Some(source_end), ObjectReply::Written(count)) => {
            let chunk = pending.next().expect("a range was copied");
            let count = u32::try_from(count).expect("no more is copied than was asked for");
            // A whole file may have more bytes than the field can express.
            let total = &mut pending.written.total_bytes_written;
            *total = total.saturating_add(count);
            if count < chunk.length {
                // The source became shorter meanwhile.
                pending.written.chunk_bytes_written = count;
                return Ok(stopped(pending, Reject::CopySourceTooShort));
            }
            pending.written.chunks_written += 1;
            // A copy within one file may extend the source for the following chunks.
            let target_end = chunk.target_offset.saturating_add(u64::from(chunk.length));
            if is_within_one_file(&scope, &pending) && target_end > source_end {
                pending.source_end = Some(target_end);
            }
        }
        (Some(_), ObjectReply::Done) => {}
        (_, reply) => panic!("{reply:?} does not answer a copy"),
    }
    if pending.next().is_none() {
        if matches!(pending.ranges, Ranges::WholeFile) {
            pending.ranges = Ranges::Streams;
            // The response has the number of bytes alone, as that of Apple's server.
            pending.written.chunks_written = 0;
            return match copy_of_streams(scope, &pending) {
                Ok(effect) => Ok(Progress::Wait(effect, pending)),
                Err(reject) => Ok(stopped(pending, reject)),
            };
        }
        let target = scope.into_open()?;
        let bytes = pending.written.total_bytes_written.into();
        target.globals.report_written(target.open, bytes);
        return Ok(Progress::Done(Output::new(encoded(pending.written))));
    }
    match next_chunk(scope, &pending) {
        Ok(effect) => Ok(Progress::Wait(effect, pending)),
        Err(reject) => Ok(stopped(pending, reject)),
    }
}

/// Returns the copy of the next range for the store, after its checks.
fn next_chunk(mut scope: InTree<'_>, pending: &Pending) -> Result<Effect, Reject> {
    let chunk = pending.next().expect("there is one more");
    let source_range = file_range(chunk.source_offset, chunk.length)?;
    let target_range = file_range(chunk.target_offset, chunk.length)?;
    let source_end = pending.source_end.expect("it was asked for first");
    if source_range.offset + source_range.length > source_end {
        return Err(Reject::CopySourceTooShort);
    }
    let source = find_source(&scope, pending.source).ok_or(Reject::NoSuchOpen)?.file()?;
    let (source, identity) = (source.local_open, source.identity);
    let reads = scope.globals.files.access(identity, pending.source.volatile, source_range, false);
    scope.globals.files.verify_unlocked(identity, reads)?;
    let open = scope.open()?;
    let (user, volatile) = (open.user, open.file_id.volatile);
    let (target, identity) = (open.file()?.local_open, open.file()?.identity);
    let writes = scope.globals.files.access(identity, volatile, target_range, true);
    scope.globals.files.verify_unlocked(identity, writes)?;
    scope.globals.files.break_before_change(identity, volatile)?;
    let op = ObjectOp::CopyRange {
        source,
        target,
        source_offset: chunk.source_offset,
        target_offset: chunk.target_offset,
        length: chunk.length,
    };
    Ok(Effect::Object { user, op })
}

/// Returns whether a copy without ranges is one of a whole file for this client.
fn copies_whole_files(scope: &mut InTree<'_>) -> Result<bool, Reject> {
    let is_apple = scope.globals.is_apple(scope.session.session_id);
    let copies = scope.open()?.share.apple.as_ref().is_some_and(|apple| apple.copies_files);
    Ok(is_apple && copies)
}

/// Returns the copy of the named streams for the store.
fn copy_of_streams(mut scope: InTree<'_>, pending: &Pending) -> Result<Effect, Reject> {
    let source = find_source(&scope, pending.source).ok_or(Reject::NoSuchOpen)?;
    let source = source.file()?.local_open;
    let open = scope.open()?;
    let op = ObjectOp::CopyStreams { source, target: open.file()?.local_open };
    Ok(Effect::Object { user: open.user, op })
}

/// Returns the ranges of a request, unless they exceed the limits or their number is wrong.
fn acceptable_chunks(input: &[u8]) -> Option<Vec<CopyChunk>> {
    let copy = CopyChunkCopy::decode(input).ok()?;
    let count = u32::try_from(copy.chunks.len()).ok()?;
    let sum: u64 = copy.chunks.iter().map(|chunk| u64::from(chunk.length)).sum();
    let fits = |chunk: CopyChunk| (1..=CHUNK_BYTES_MAX).contains(&chunk.length);
    let acceptable =
        count <= CHUNKS_MAX && sum <= u64::from(TOTAL_BYTES_MAX) && copy.chunks.iter().all(fits);
    acceptable.then(|| copy.chunks.iter().collect())
}

/// Finds the source: an open of the same session, on any share.
fn find_source<'t>(scope: &'t InTree<'_>, source: FileId) -> Option<&'t Open> {
    let open = scope.opens.get(&source.volatile)?;
    let is_it = open.file_id == source && open.session_id == scope.session.session_id;
    is_it.then_some(open)
}

/// Refuses to copy out of a share that must be encrypted with a request that need not be. Otherwise
/// an attacker between client and server could send it, and read the target.
fn verify_encryption(scope: &InTree<'_>, source: &Open) -> Result<(), Reject> {
    let is_encrypted = scope.session.encrypt_data || scope.tree.encrypt_data;
    let of_source = scope.session.tree_connects.get(&source.tree_id);
    match of_source.is_some_and(|tree| tree.encrypt_data) && !is_encrypted {
        true => Err(Reject::NotEncrypted),
        false => Ok(()),
    }
}

fn is_within_one_file(scope: &InTree<'_>, pending: &Pending) -> bool {
    let identity = |open: &Open| open.file().map(|file| file.identity).ok();
    let target = scope.file_id.and_then(|id| scope.opens.get(&id.volatile));
    match (find_source(scope, pending.source), target) {
        (Some(source), Some(target)) => identity(source) == identity(target),
        _ => false,
    }
}

/// Refuses directories, and opens without any of these rights.
fn verify_file(open: &Open, wanted: AccessMask) -> Result<(), Reject> {
    if open.file()?.is_directory {
        return Err(Reject::DirectoryHasNoData);
    }
    if !open.granted_access.intersects(wanted) {
        return Err(Reject::AccessNotGranted { wanted, granted: open.granted_access });
    }
    Ok(())
}

impl Pending {
    /// Returns the next range, if there is one.
    fn next(&self) -> Option<CopyChunk> {
        let index = self.written.chunks_written;
        match &self.ranges {
            Ranges::Listed(chunks) => chunks.get(usize::try_from(index).ok()?).copied(),
            Ranges::WholeFile => {
                let offset = u64::from(index) * u64::from(CHUNK_BYTES_MAX);
                let left = self.source_end?.saturating_sub(offset);
                let length =
                    u32::try_from(left).map_or(CHUNK_BYTES_MAX, |it| it.min(CHUNK_BYTES_MAX));
                let chunk = CopyChunk { source_offset: offset, target_offset: offset, length };
                (left > 0).then_some(chunk)
            }
            Ranges::Streams => None,
        }
    }
}

/// Makes an error that reports the progress before it: [MS-SMB2] 3.3.5.15.6.1.
fn stopped(pending: Pending, reject: Reject) -> Progress<Pending> {
    Progress::Done(Output::refused(reject, encoded(pending.written)))
}

fn encoded(response: CopyChunkResponse) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(CopyChunkResponse::SIZE);
    response.encode(&mut bytes);
    bytes
}

/// Output of a request beyond the limits: [MS-SMB2] 3.3.5.15.6.2.
const LIMITS: CopyChunkResponse = CopyChunkResponse {
    chunks_written: CHUNKS_MAX,
    chunk_bytes_written: CHUNK_BYTES_MAX,
    total_bytes_written: TOTAL_BYTES_MAX,
};
