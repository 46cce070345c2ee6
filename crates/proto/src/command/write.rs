//! SMB2 WRITE: [MS-SMB2] 3.3.5.13.

use dtyp::AccessMask;
use engine::effect::{Effect, Reply};
use engine::globals::Globals;
use engine::pending_command::PendingCommand;
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::InOpen;
use model::open::{Open, OpenFile, Target};
use model::pipe::Pipe;
use model::reject::Reject;
use object::{ObjectOp, ObjectReply};
use rpc::Outcome;
use wire::create::CreateOptions;
use wire::write::{WriteFlags, WriteRequest, WriteResponse};

use super::read::file_range;
use crate::command::Command;

/// Writes to a file or a pipe.
#[derive(Debug)]
pub struct Write;

/// A WRITE that the store is carrying out.
#[derive(Debug)]
pub struct Pending;

/// Highest DataOffset that Windows accepts: [MS-SMB2] 3.3.5.13.
const DATA_OFFSET_MAX: u16 = 0x100;

impl PendingCommand for Pending {}

impl Command for Write {
    type Scope<'s> = InOpen<'s>;
    type Request<'a> = WriteRequest<'a>;
    type Pending = Pending;

    fn start(
        InOpen { connection, tree, open, globals, .. }: InOpen<'_>,
        incoming: &Incoming,
        request: WriteRequest<'_>,
    ) -> Result<Step<Pending>, Reject> {
        let negotiated = connection.negotiated();
        let (length, max) = (length(&request), negotiated.max_write_size);
        // As in READ: RDMA is not supported.
        let is_remote = request.channel.is_rdma() && negotiated.is_smb3();
        if is_remote {
            return Err(Reject::RdmaNotOffered);
        }
        if request.data_offset > DATA_OFFSET_MAX {
            return Err(Reject::DataOffsetTooLarge(request.data_offset));
        }
        if length > max {
            return Err(Reject::LengthAboveMax { length, max });
        }
        negotiated.verify_credit_charge(incoming.header.credit_charge, length)?;
        verify_writable(open)?;
        let user = open.user;
        let volatile = open.file_id.volatile;
        let file = match &mut open.target {
            Target::Pipe(pipe) => {
                pipe.renew(globals.settings.catalogue.clone());
                return write_pipe(pipe, &request, open.session_id);
            }
            Target::File(file) => file,
        };
        let range = file_range(request.offset, length)?;
        let word = globals.files.word(file.identity);
        if word.locks > 0 {
            let access = globals.files.access(file.identity, volatile, range, true);
            globals.files.verify_unlocked(file.identity, access)?;
        }
        if word.readers > 0 {
            globals.files.break_before_change(file.identity, volatile)?;
        }
        file.is_modified = true;
        let through = tree.share.sync_always || writes_through(file, request.flags);
        let op = ObjectOp::Write {
            open: file.local_open,
            offset: request.offset,
            data: incoming.message.slice(request.data_range),
            piped: incoming.take_piped(),
            write_through: through,
            verify_locks: file.checked_access.writes,
        };
        Ok(Step::Wait(Effect::Object { user, op }, Pending))
    }

    fn resume(
        InOpen { open, globals, .. }: InOpen<'_>,
        _: &Incoming,
        Pending: Pending,
        reply: Reply,
    ) -> Result<Step<Pending>, Reject> {
        if let Reply::Outcome(outcome) = reply {
            return write_held(open, globals, *outcome);
        }
        let ObjectReply::Written(count) = reply.object()? else {
            panic!("WRITE gets a count back")
        };
        globals.report_written(open, count);
        let count = u32::try_from(count).expect("at most max_write_size");
        let response = WriteResponse { count, ..WriteResponse::default() };
        Ok(Step::Done(Response::of(&response.to_bytes())))
    }
}

fn length(request: &WriteRequest<'_>) -> u32 {
    u32::try_from(request.data().len() + request.behind).expect("a frame is below 16 MiB")
}

fn verify_writable(open: &Open) -> Result<(), Reject> {
    if open.file().is_ok_and(|file| file.is_directory) {
        return Err(Reject::DirectoryHasNoData);
    }
    if open.granted_access.contains(AccessMask::APPEND_DATA) {
        return Ok(());
    }
    open.verify_access(AccessMask::WRITE_DATA)
}

/// Returns whether the request or CREATE demands write-through: [MS-SMB2] 3.3.5.13.
fn writes_through(file: &OpenFile, flags: WriteFlags) -> bool {
    flags.contains(WriteFlags::WRITE_THROUGH)
        || file.create_options.contains(CreateOptions::WRITE_THROUGH)
}

fn write_pipe(
    pipe: &mut Pipe,
    request: &WriteRequest<'_>,
    session_id: u64,
) -> Result<Step<Pending>, Reject> {
    // A WRITE to a pipe has all its data in the frame: `Server::file_to_pipe_to` returns no pipes.
    if request.behind > 0 {
        return Err(Reject::PipeDataMissing(request.behind));
    }
    if let Some(task) = pipe.task(request.data()) {
        pipe.hold(request.data())?;
        let effect = Effect::CarryOut { task: Box::new(task), session_id };
        return Ok(Step::Wait(effect, Pending));
    }
    pipe.write(request.data())?;
    let response = WriteResponse { count: length(request), ..WriteResponse::default() };
    Ok(Step::Done(Response::new(&response)))
}

/// Ends a WRITE to a pipe whose request has its outcome.
fn write_held(
    open: &mut Open,
    globals: &Globals,
    outcome: Outcome,
) -> Result<Step<Pending>, Reject> {
    let Target::Pipe(pipe) = &mut open.target else { return Err(Reject::NotOnFiles) };
    // The task may have changed the configuration.
    pipe.renew(globals.settings.catalogue.clone());
    let held = pipe.take_held();
    pipe.learn_outcome(outcome);
    pipe.write(&held)?;
    let count = u32::try_from(held.len()).expect("at most max_write_size");
    let response = WriteResponse { count, ..WriteResponse::default() };
    Ok(Step::Done(Response::new(&response)))
}
