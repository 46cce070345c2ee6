//! SMB2 CLOSE: [MS-SMB2] 3.3.5.10.

#[cfg(test)]
mod tests;

use dtyp::NtStatus;
use engine::effect::{Deletion, Effect, Remover, Reply, Unlocked};
use engine::notice::AuditRecord;
use engine::pending_command::{Abandoned, PendingCommand};
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::InTree;
use engine::teardown::Retired;
use model::open::Target;
use model::reject::Reject;
use object::{Metadata, ObjectOp, ObjectReply};
use wire::close::{CloseFlags, CloseRequest, CloseResponse};

use crate::command::Command;

/// Closes an open, and deletes its file if that is pending.
#[derive(Debug)]
pub struct Close;

/// State of a pending CLOSE.
#[derive(Debug)]
pub enum Pending {
    /// Waits for other requests on the open. They began before CLOSE, so they finish first, and
    /// their clients get the same responses as a moment before.
    Waiting(CloseFlags),
    /// The store reads the attributes for the response.
    Querying,
    /// The store closes the file, and removes it if delete pending.
    Closing {
        last: Option<Box<Metadata>>,
        deleted: Option<Deletion>,
        audit: Option<Box<AuditRecord>>,
        unlocked: Option<Box<Unlocked>>,
    },
}

impl PendingCommand for Pending {
    fn abandon(self: Box<Self>, reply: Option<Reply>) -> Abandoned {
        let (deleted, audit, unlocked) = match *self {
            Self::Closing { deleted, audit, unlocked, .. } => (deleted, audit, unlocked),
            Self::Querying | Self::Waiting(_) => (None, None, None),
        };
        let outcome = reply.as_ref().map(Reply::is_access_denied);
        let effect = deleted.map(|deletion| {
            let remover = match (deletion.remover, outcome) {
                (Remover::CloserFirst, Some(false)) => Remover::Closer,
                (remover, _) => remover,
            };
            Effect::FileDeleted(Deletion { remover, ..deletion })
        });
        let audited = match reply {
            Some(reply) => audit.map(|record| with_result(*record, &reply.object()).into()),
            None => audit,
        };
        let unlocked = unlocked.map(|it| *it);
        Abandoned { effect, audited, unlocked, ..Abandoned::default() }
    }
}

impl Command for Close {
    type Scope<'s> = InTree<'s>;
    type Request<'a> = CloseRequest;
    type Pending = Pending;

    fn start(
        mut scope: InTree<'_>,
        incoming: &Incoming,
        request: CloseRequest,
    ) -> Result<Step<Pending>, Reject> {
        // Records the path now: after the close it is unknown.
        if incoming.trace.wants_path()
            && let Ok(file) = scope.open().and_then(|open| open.file())
        {
            incoming.trace.set_path(file.path.to_windows());
        }
        begin(scope, request.flags)
    }

    fn resume(
        scope: InTree<'_>,
        _: &Incoming,
        pending: Pending,
        reply: Reply,
    ) -> Result<Step<Pending>, Reject> {
        match pending {
            Pending::Waiting(flags) => begin(scope, flags),
            Pending::Querying => {
                // Closes a file whose attributes cannot be read all the same.
                let last = match reply.object() {
                    Ok(ObjectReply::Metadata(metadata)) => Some(metadata),
                    _ => None,
                };
                close(scope, last)
            }
            Pending::Closing { last, deleted, audit, unlocked } => {
                if let Some(Unlocked { file, volatile, .. }) = unlocked.as_deref() {
                    scope.globals.files.release_all_locks(*file, *volatile);
                }
                let is_refused = reply.is_access_denied();
                let mut result = reply.object();
                match deleted {
                    Some(deletion) if is_passed_on(deletion.remover, is_refused) => {
                        scope.globals.pass_on_deletion(&deletion);
                        if is_refused {
                            result = Ok(ObjectReply::Done);
                        }
                    }
                    Some(deletion) => scope.globals.end_deletion(&deletion),
                    None => {}
                }
                if let Some(record) = audit {
                    scope.globals.audit(with_result(*record, &result));
                }
                match result {
                    // An entry was made in the directory after it became delete pending: then it
                    // stays, and its handle is closed like any other ([MS-FSA] 2.1.5.5).
                    Ok(_) | Err(Reject::Object(NtStatus::DIRECTORY_NOT_EMPTY)) => {}
                    Err(reject) => return Err(reject),
                }
                Ok(Step::Done(respond(last.as_deref())))
            }
        }
    }
}

fn begin(mut scope: InTree<'_>, flags: CloseFlags) -> Result<Step<Pending>, Reject> {
    let in_flight = scope.in_flight;
    let open = scope.open()?;
    let volatile = open.file_id.volatile;
    if in_flight.is_used(volatile) {
        open.is_closing = true;
        return Ok(Step::Suspend(Pending::Waiting(flags)));
    }
    match &open.target {
        Target::File(file) if flags.contains(CloseFlags::POSTQUERY_ATTRIB) => {
            let op = ObjectOp::QueryMetadata { open: file.local_open, with_ea_size: false };
            Ok(Step::Wait(Effect::Object { user: open.user, op }, Pending::Querying))
        }
        _ => close(scope, None),
    }
}

fn close(mut scope: InTree<'_>, last: Option<Box<Metadata>>) -> Result<Step<Pending>, Reject> {
    let file_id = scope.open()?.file_id;
    let open = scope.opens.remove(&file_id.volatile).expect("looked up above");
    Ok(match scope.globals.retire(open) {
        Some(Retired { user, op, deleted, audit, unlocked }) => {
            let unlocked = unlocked.map(Box::new);
            let pending = Pending::Closing { last, deleted, audit, unlocked };
            Step::Wait(Effect::Object { user, op }, pending)
        }
        None => Step::Done(respond(last.as_deref())),
    })
}

/// Whether a deletion goes on after the close, for the open that has marked the file.
fn is_passed_on(remover: Remover, is_refused: bool) -> bool {
    match remover {
        Remover::Closer => false,
        Remover::CloserFirst => is_refused,
        Remover::Requester => true,
    }
}

/// Adds the store's result to the record of a deletion.
fn with_result(record: AuditRecord, result: &Result<ObjectReply, Reject>) -> AuditRecord {
    let status = result.as_ref().map_or_else(|reject| reject.status(), |_| record.status);
    AuditRecord { status, ..record }
}

/// Makes the response, with the last attributes if they were requested.
fn respond(last: Option<&Metadata>) -> Response {
    let response = last.map_or_else(CloseResponse::default, |metadata| CloseResponse {
        flags: CloseFlags::POSTQUERY_ATTRIB,
        creation_time: metadata.creation_time,
        last_access_time: metadata.last_access_time,
        last_write_time: metadata.last_write_time,
        change_time: metadata.change_time,
        allocation_size: metadata.allocation_size,
        end_of_file: metadata.end_of_file,
        file_attributes: metadata.attributes,
    });
    Response::of(&response.to_bytes())
}
