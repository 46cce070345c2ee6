//! SMB2 READ: [MS-SMB2] 3.3.5.12.
//!
//! The store reads straight into the buffer that will be sent; this module checks the request, and
//! handles short reads.

use arbitration::ByteRange;
use bytes::BytesMut;
use dtyp::{AccessMask, NtStatus};
use engine::effect::{Effect, Reply};
use engine::files::Files;
use engine::pending_command::PendingCommand;
use engine::request::Incoming;
use engine::response::{HEADROOM, Response, Step};
use engine::scope::InOpen;
use model::connection::{CREDIT_BYTES, Negotiated};
use model::open::Target;
use model::pipe::Pipe;
use model::reject::Reject;
use object::{FileIdentity, ObjectOp, ObjectReply, Piped};
use wire::FileId;
use wire::read::{ReadRequest, ReadResponseHead};

use crate::command::Command;

/// Reads from a file or a pipe.
#[derive(Debug)]
pub struct Read;

/// A READ whose data the store is fetching.
#[derive(Debug)]
pub struct Pending {
    offset: u64,
    minimum_count: u32,
    /// Number of bytes before the data: the response's fixed part, and padding for tests.
    head_len: usize,
}

/// Offset up to which a READ of any length ends within signed 64-bit offsets.
const OFFSET_USUAL_MAX: u64 = 1 << 62;

/// Length of the response before the data: [MS-SMB2] 2.2.20.
const HEAD_LEN: usize = ReadResponseHead::SIZE;

impl PendingCommand for Pending {}

impl Command for Read {
    type Scope<'s> = InOpen<'s>;
    type Request<'a> = ReadRequest<'a>;
    type Pending = Pending;

    fn start(
        InOpen { connection, session, open, globals, .. }: InOpen<'_>,
        incoming: &Incoming,
        request: ReadRequest<'_>,
    ) -> Result<Step<Pending>, Reject> {
        let negotiated = connection.negotiated();
        if request.length > negotiated.max_read_size.min(CREDIT_BYTES) {
            verify_length(negotiated, incoming, request.length)?;
        }
        if matches!(&open.target, Target::File(file) if file.is_directory) {
            return Err(Reject::DirectoryHasNoData);
        }
        // The right to execute a file is enough: [MS-SMB2] 3.3.5.12 allows that, as Windows does.
        if !open.granted_access.intersects(AccessMask::EXECUTE | AccessMask::READ_DATA) {
            open.verify_access(AccessMask::READ_DATA)?;
        }
        let length = usize::try_from(request.length).expect("32 bits fit memory");
        let head_len = HEAD_LEN + usize::from(connection.read_padding);
        let (capacity, now) = (HEADROOM + head_len + length, incoming.now.monotonic);
        let mut buffer = globals.buffers.take(capacity, now);
        // Room for everything before the data.
        buffer.resize(HEADROOM + head_len, 0);
        let file = match &mut open.target {
            Target::Pipe(pipe) => return read_pipe(pipe, &request, buffer, head_len),
            Target::File(file) => file,
        };
        // There is no RDMA. Other values are ignored, and so are all values before 3.0.
        if request.channel.is_rdma() && negotiated.is_smb3() {
            return Err(Reject::RdmaNotOffered);
        }
        if globals.files.word(file.identity).locks > 0 || request.offset > OFFSET_USUAL_MAX {
            verify_range(&globals.files, file.identity, open.file_id, &request)?;
        }
        // A pipe of the kernel can neither sign nor encrypt ([MS-SMB2] 3.3.4.1.1, 3.3.4.1.4), and
        // no other response of the frame may follow.
        let is_signed = incoming.header.is_signed() || session.signing_required;
        let may_pipe = incoming.header.next_command == 0 && !is_signed && !incoming.sealed;
        let ReadRequest { offset, length, .. } = request;
        let (open_id, verify_locks) = (file.local_open, file.checked_access.reads);
        let op = ObjectOp::Read { open: open_id, offset, length, buffer, may_pipe, verify_locks };
        // A READ of no bytes succeeds at the end of the file, unless its MinimumCount is larger
        // than its Length; any other must return at least one byte.
        let minimum_count = request.minimum_count.max(request.length.min(1));
        let pending = Pending { offset, minimum_count, head_len };
        Ok(Step::Wait(Effect::Object { user: open.user, op }, pending))
    }

    fn resume(
        InOpen { open, .. }: InOpen<'_>,
        _: &Incoming,
        pending: Pending,
        reply: Reply,
    ) -> Result<Step<Pending>, Reject> {
        let (buffer, piped) = match reply.object()? {
            ObjectReply::Read(buffer) => (buffer, None),
            ObjectReply::Piped(buffer, piped) => (buffer, Some(piped)),
            _ => panic!("READ gets data back"),
        };
        let in_memory = buffer.len().saturating_sub(HEADROOM + pending.head_len);
        let length = piped.as_ref().map_or(in_memory, Piped::length);
        let read = u32::try_from(length).expect("at most max_read_size");
        if read < pending.minimum_count {
            return Err(Reject::MinimumCountNotReached { read, minimum: pending.minimum_count });
        }
        // [MS-FSCC] 2.4.39 has the position follow reads of opens for synchronous I/O, and does not
        // mention others. Here it follows all reads, as clients of Samba expect.
        open.file_mut()?.position = pending.offset + u64::from(read);
        let response = respond(NtStatus::SUCCESS, buffer, (pending.head_len, read));
        Ok(Step::Done(response.ending_in(piped)))
    }
}

/// Checks the length of a READ that may be too long, or too long for its credits.
fn verify_length(negotiated: &Negotiated, incoming: &Incoming, length: u32) -> Result<(), Reject> {
    let max = negotiated.max_read_size;
    if length > max {
        return Err(Reject::LengthAboveMax { length, max });
    }
    negotiated.verify_credit_charge(incoming.header.credit_charge, length)
}

/// Checks a range that may be locked, or beyond all offsets.
fn verify_range(
    files: &Files,
    identity: FileIdentity,
    file_id: FileId,
    request: &ReadRequest<'_>,
) -> Result<(), Reject> {
    let range = file_range(request.offset, request.length)?;
    files.verify_unlocked(identity, files.access(identity, file_id.volatile, range, false))
}

/// Returns the range of a request. A range beyond signed 64-bit offsets is invalid: [MS-FSA]
/// 2.1.5.3.
pub(crate) fn file_range(offset: u64, length: u32) -> Result<ByteRange, Reject> {
    let length = u64::from(length);
    let end = offset.checked_add(length);
    if end.is_none_or(|end| i64::try_from(end).is_err()) {
        return Err(Reject::RangeBeyondMax { offset, length });
    }
    Ok(ByteRange { offset, length })
}

/// Reads from a pipe. A message longer than the read is returned in parts, the first ones with
/// BUFFER_OVERFLOW.
fn read_pipe(
    pipe: &mut Pipe,
    request: &ReadRequest<'_>,
    mut buffer: BytesMut,
    head_len: usize,
) -> Result<Step<Pending>, Reject> {
    let data = pipe.read(usize::try_from(request.length).expect("32 bits fit memory"));
    if data.is_empty() && request.length > 0 {
        return Err(Reject::PipeEmpty);
    }
    buffer.extend_from_slice(&data);
    let length = u32::try_from(data.len()).expect("at most max_read_size");
    let status =
        if pipe.message_left() > 0 { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS };
    Ok(Step::Done(respond(status, buffer, (head_len, length))))
}

fn respond(
    status: NtStatus,
    mut buffer: BytesMut,
    (head_len, data_length): (usize, u32),
) -> Response {
    let padding = u8::try_from(head_len - HEAD_LEN).expect("a connection's padding has a byte");
    // The padding is zeros already.
    let head = ReadResponseHead { data_length, padding, ..ReadResponseHead::default() };
    buffer[HEADROOM..HEADROOM + HEAD_LEN].copy_from_slice(&head.to_bytes());
    Response::from_buffer(status, buffer)
}
