//! SMB2 CHANGE_NOTIFY: [MS-SMB2] 3.3.5.19, [MS-FSA] 2.1.5.11.
//!
//! The first request on an open begins a [`Watch`], which collects changes until the open is
//! closed; a request takes the collected changes, or waits for the next one. Changes come from the
//! handlers that make them, and from other workers and programs of the host through
//! `Server::handle_changes`; both reach the watches in `watches::report`.

#[cfg(test)]
mod tests;

use arbitration::Standing;
use dtyp::AccessMask;
use engine::effect::Reply;
use engine::pending_command::{Abandoned, PendingCommand};
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::InOpen;
use engine::watches;
use model::open::Open;
use model::reject::Reject;
use model::session::Session;
use model::watch::Watch;
use wire::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest, ChangeNotifyResponse};

use crate::command::Command;

/// Waits for a change in a directory.
#[derive(Debug)]
pub struct ChangeNotify;

/// A request that waits for a change.
#[derive(Debug)]
pub struct Pending {
    output_buffer_length: u32,
}

/// Highest number of directories that a client may watch at once. Each watch keeps
/// [`BYTES_MAX`](model::watch::BYTES_MAX) at most.
const WATCHES_MAX: usize = 4_096;

/// The same for guests and anonymous users. Anyone can be that.
const GUEST_WATCHES_MAX: usize = WATCHES_MAX / 4;

impl PendingCommand for Pending {
    fn ends_with_connection(&self, is_suspended: bool) -> bool {
        is_suspended
    }

    fn abandon(self: Box<Self>, _: Option<Reply>) -> Abandoned {
        Abandoned { reject: Some(Reject::NotifyCleanup), ..Abandoned::default() }
    }
}

impl Command for ChangeNotify {
    type Scope<'s> = InOpen<'s>;
    type Request<'a> = ChangeNotifyRequest;
    type Pending = Pending;

    /// Checks the request in the order of [MS-SMB2] 3.3.5.19.
    fn start(
        InOpen { connection, session, open, globals, .. }: InOpen<'_>,
        incoming: &Incoming,
        request: ChangeNotifyRequest,
    ) -> Result<Step<Pending>, Reject> {
        let negotiated = connection.negotiated();
        let (length, max) = (request.output_buffer_length, negotiated.max_transact_size);
        if length > max {
            return Err(Reject::LengthAboveMax { length, max });
        }
        negotiated.verify_credit_charge(incoming.header.credit_charge, length)?;
        if !open.file()?.is_directory {
            return Err(Reject::NotDirectory);
        }
        open.verify_access(AccessMask::READ_DATA)?;
        if !globals.settings.change_notify {
            return Err(Reject::ChangeNotifyOff);
        }
        if globals.files.is_delete_pending(open.file()?.identity, open.file()?.link) {
            return Err(Reject::DeletePending);
        }
        if open.file()?.watch.is_none() {
            if globals.watchers.len() >= watches_max(session) {
                return Err(Reject::TooManyWatches);
            }
            let recursive = request.flags.contains(ChangeNotifyFlags::WATCH_TREE);
            let path = open.file()?.path.below(&open.share.folder);
            let filter = request.completion_filter;
            let watch = Watch::new(path, filter, recursive, length, &globals.memory)?;
            open.file_mut()?.watch = Some(Box::new(watch));
            globals.watchers.push(open.file_id.volatile);
            globals.outbox.notices.extend(watches::announce(open));
        }
        answer(open, Pending { output_buffer_length: length })
    }

    fn resume(
        InOpen { open, globals, .. }: InOpen<'_>,
        _: &Incoming,
        pending: Pending,
        _: Reply,
    ) -> Result<Step<Pending>, Reject> {
        if globals.files.is_delete_pending(open.file()?.identity, open.file()?.link) {
            return Err(Reject::DeletePending);
        }
        answer(open, pending)
    }
}

fn watches_max(session: &Session) -> usize {
    match session.standing {
        Standing::User => WATCHES_MAX,
        Standing::Guest => GUEST_WATCHES_MAX,
    }
}

/// Takes the collected changes, or waits if there are none.
fn answer(open: &mut Open, pending: Pending) -> Result<Step<Pending>, Reject> {
    let watch = open.file_mut()?.watch.as_mut();
    let watch = watch.expect("the first request began it, and it ends with the open");
    if watch.is_delete_pending {
        return Err(Reject::DeletePending);
    }
    Ok(match watch.take(pending.output_buffer_length) {
        Some(taken) => {
            let body = ChangeNotifyResponse { output_buffer: taken.changes.as_bytes() };
            Step::Done(Response::with_status(taken.status, &body))
        }
        None => Step::Suspend(pending),
    })
}
