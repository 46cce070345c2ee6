//! SMB2 CHANGE_NOTIFY: [MS-SMB2] 3.3.5.19, [MS-FSA] 2.1.5.11.
//!
//! The first request on an open begins a [`Watch`], which collects changes until the open is
//! closed; a request takes what was collected, or waits for the next change. Changes come from the
//! handlers that make them, and from other workers and programs of the host through
//! [`Server::handle_changes`]; both reach the watches in `tell`.

#[cfg(test)]
mod tests;

use std::time::Duration;

use arbitration::Standing;
use dtyp::{AccessMask, NtStatus};
use object::{HostChange, HostChangeKind, ObjectPath};
use wire::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest};

use crate::command::{Abandoned, Command};
use crate::effect::{Effect, Reply};
use crate::file_key;
use crate::notice::{Notice, WatchedDirectory};
use crate::open::{Open, Target};
use crate::passages::Passage;
use crate::reject::Reject;
use crate::request::Incoming;
use crate::response::Step;
use crate::scope::InOpen;
use crate::server::Server;
use crate::session::Session;
use crate::watch::Watch;

/// Waits for a change in a directory.
#[derive(Debug)]
pub struct ChangeNotify;

/// A request that waits for a change.
#[derive(Debug)]
pub struct Pending {
    output_buffer_length: u32,
}

/// Directories that a client may watch at once. Each watch keeps [`BYTES_MAX`](crate::watch::BYTES_MAX) at most.
const WATCHES_MAX: usize = 4_096;

/// The same for guests, and nobody in particular. Anyone can be that.
const GUEST_WATCHES_MAX: usize = WATCHES_MAX / 4;

impl Command for ChangeNotify {
    type Scope<'s> = InOpen<'s>;
    type Request<'a> = ChangeNotifyRequest;
    type Pending = Pending;

    /// The checks stand in the order of the section.
    fn start(
        InOpen { connection, session, open, globals, .. }: InOpen<'_>,
        incoming: &Incoming,
        request: ChangeNotifyRequest,
    ) -> Result<Step, Reject> {
        let negotiated = connection.negotiated();
        let (length, max) = (request.output_buffer_length, negotiated.max_transact_size);
        if length > max {
            return Err(Reject::LengthAboveMax { length, max });
        }
        negotiated.verify_credit_charge(incoming.header.credit_charge, length)?;
        if !open.file()?.is_directory {
            return Err(Reject::Status(NtStatus::INVALID_PARAMETER));
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
            globals.outbox.notices.extend(announce(open));
        }
        answer(open, Pending { output_buffer_length: length })
    }

    fn resume(
        InOpen { open, globals, .. }: InOpen<'_>,
        _: &Incoming,
        pending: Pending,
        _: Reply,
    ) -> Result<Step, Reject> {
        if globals.files.is_delete_pending(open.file()?.identity, open.file()?.link) {
            return Err(Reject::DeletePending);
        }
        answer(open, pending)
    }

    fn abandon(_: Pending, _: Option<Reply>) -> Abandoned {
        Abandoned { reject: Some(Reject::NotifyCleanup), ..Abandoned::default() }
    }
}

fn watches_max(session: &Session) -> usize {
    match session.standing() {
        Standing::User => WATCHES_MAX,
        Standing::Guest => GUEST_WATCHES_MAX,
    }
}

/// Tells what there is to tell, or waits.
fn answer(open: &mut Open, pending: Pending) -> Result<Step, Reject> {
    let watch = open.file_mut()?.watch.as_mut();
    let watch = watch.expect("the first request began it, and it ends with the open");
    if watch.is_doomed {
        return Err(Reject::DeletePending);
    }
    Ok(match watch.take(pending.output_buffer_length) {
        Some(response) => Step::Done(response),
        None => Step::suspend(pending),
    })
}

/// What others have to know of an open's watch.
fn announce(open: &Open) -> Option<Notice> {
    let Target::File(file) = &open.target else { return None };
    let watch = file.watch.as_ref()?;
    Some(Notice::Watched(Box::new(WatchedDirectory {
        volatile: open.file_id.volatile,
        path: watch.directory.clone(),
        identity: file.identity,
        recursive: watch.recursive,
        filter: watch.filter.bits(),
        kernel: open.share.kernel_change_notify,
    })))
}

/// Others know of a watch since some time. A watch that has only moved began earlier.
pub(crate) fn begun(server: &mut Server, at: Duration, volatile: u64) {
    let Some(open) = server.opens.get_mut(&volatile) else { return };
    if let Target::File(file) = &mut open.target
        && let Some(watch) = &mut file.watch
    {
        watch.begun_at.get_or_insert(at);
    }
}

/// Hands the changes that this client made to its watches and, if anybody watches elsewhere, to
/// the world.
pub(crate) fn deliver(server: &mut Server) {
    let changes = std::mem::take(&mut server.globals.outbox.changes);
    if changes.is_empty() {
        return;
    }
    for change in &changes {
        tell(server, change, None);
    }
    if server.globals.is_watched_elsewhere {
        server.globals.outbox.notices.push_back(Notice::Changed(changes));
    }
}

/// Hands a change to the watches, and wakes the oldest request of each watch that has something to
/// tell; all requests, if the directory goes. With the time at which somebody else's change had
/// happened, watches that began later hear nothing of it.
pub(crate) fn tell(server: &mut Server, change: &HostChange, at: Option<Duration>) {
    if change.is_directory {
        server.globals.passages.doubt();
    }
    let may_move = change.is_directory && change.new_path().is_some();
    for volatile in server.globals.watchers.clone() {
        let open = server.opens.get_mut(&volatile).expect("a watch ends with its open");
        let share = &open.share;
        let Target::File(file) = &mut open.target else { continue };
        let Some(watch) = &mut file.watch else { continue };
        let mut has_moved = false;
        if may_move {
            let path = file.path.below(&share.folder);
            has_moved = watch.directory != path;
            watch.directory = path;
        }
        let is_younger = at.is_some_and(|at| watch.begun_at.is_some_and(|begun| at < begun));
        if !is_younger {
            watch.is_doomed |= match change.kind {
                HostChangeKind::Doomed(identity) => {
                    file_key::key(identity) == file_key::key(file.identity)
                }
                HostChangeKind::Removed => change.path == watch.directory,
                _ => false,
            };
            watch.note(change, &share.veto_files);
        }
        if has_moved {
            server.globals.outbox.notices.extend(announce(open));
        }
        judge(server, volatile);
    }
}

/// Takes the store's answer to [`Effect::Traverse`]; none if the directory is gone.
pub(crate) fn traversed(server: &mut Server, passage: &Passage, may: Option<bool>) {
    let now = server.globals.files.now();
    server.globals.passages.answer(now, passage, may);
    for volatile in server.globals.watchers.clone() {
        let file = server.opens.get(&volatile).and_then(|open| open.file().ok());
        if file.and_then(|file| file.watch.as_ref()).is_some_and(|watch| watch.is_unjudged()) {
            judge(server, volatile);
        }
    }
}

/// Permits changes of a watch as far as they are judged, wakes the oldest pending request if there
/// are any, and asks the store about the other changes.
fn judge(server: &mut Server, volatile: u64) {
    let open = server.opens.get_mut(&volatile).expect("a watch ends with its open");
    let (user, root) = (open.user, open.share.root);
    let Target::File(file) = &mut open.target else { return };
    let (Some(watch), Some(root)) = (&mut file.watch, root) else { return };
    let (passages, now) = (&mut server.globals.passages, server.globals.files.now());
    watch.judge(|directory| {
        let directory = ObjectPath::from_stored(directory.to_owned(), None).below(&file.path);
        passages.judge(now, &Passage { user, root, directory })
    });
    for passage in passages.take_questions() {
        server.globals.outbox.effects.push_back((None, Effect::Traverse(Box::new(passage))));
    }
    let (is_doomed, is_quiet) = (watch.is_doomed, watch.is_quiet());
    if is_quiet && !is_doomed {
        return;
    }
    let mut waiting = server.suspended_on(volatile);
    if !is_doomed {
        waiting.truncate(1);
    }
    server.globals.outbox.wakes.extend(waiting);
}
