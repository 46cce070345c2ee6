//! SMB2 CHANGE_NOTIFY: [MS-SMB2] 3.3.5.19, [MS-FSA] 2.1.5.11.
//!
//! The first request on an open begins a [`Watch`], which collects changes until the open is
//! closed; a request takes what was collected, or waits for the next change. Changes come from the
//! handlers that make them, and reach the watches in [`deliver`].

#[cfg(test)]
mod tests;
mod watch;

use std::collections::HashMap;

use dtyp::{AccessMask, NtStatus};
use object::RootId;
use wire::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest};

use crate::change::Change;
use crate::command::{Abandoned, Command};
use crate::effect::{Reply, Share};
use crate::open::Target;
use crate::reject::Reject;
use crate::request::Incoming;
use crate::response::Step;
use crate::scope::InOpen;
use crate::server::Server;
use crate::session::Session;

pub use watch::Watch;

/// Waits for a change in a directory.
#[derive(Debug)]
pub struct ChangeNotify;

/// A request that waits for a change.
#[derive(Debug)]
pub struct Pending {
    output_buffer_length: u32,
}

/// Directories that a client may watch at once. Each watch keeps [`watch::BYTES_MAX`] at most.
const WATCHES_MAX: usize = 4_096;

impl Command for ChangeNotify {
    type Scope<'s> = InOpen<'s>;
    type Request<'a> = ChangeNotifyRequest;
    type Pending = Pending;

    /// The checks stand in the order of the section.
    fn start(
        InOpen { connection, open, globals, .. }: InOpen<'_>,
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
            return Err(Reject::Status(NtStatus::INVALID_PARAMETER));
        }
        open.verify_access(AccessMask::READ_DATA)?;
        let volatile = open.file_id.volatile;
        let file = open.file_mut()?;
        if globals.files.is_delete_pending(file.identity) {
            return Err(Reject::DeletePending);
        }
        if file.watch.is_none() {
            if globals.watchers.len() >= WATCHES_MAX {
                return Err(Reject::TooManyWatches);
            }
            globals.watchers.push(volatile);
        }
        let watch = file.watch.get_or_insert_with(|| {
            let recursive = request.flags.contains(ChangeNotifyFlags::WATCH_TREE);
            Box::new(Watch::new(request.completion_filter, recursive, length))
        });
        Ok(answer(watch, Pending { output_buffer_length: length }))
    }

    fn resume(
        InOpen { open, globals, .. }: InOpen<'_>,
        _: &Incoming,
        pending: Pending,
        _: Reply,
    ) -> Result<Step<Pending>, Reject> {
        let file = open.file_mut()?;
        if globals.files.is_delete_pending(file.identity) {
            return Err(Reject::DeletePending);
        }
        let watch = file.watch.as_mut().expect("the request began it, and it ends with the open");
        Ok(answer(watch, pending))
    }

    fn abandon(_: Pending, _: Option<Reply>) -> Abandoned {
        Abandoned { reject: Some(Reject::NotifyCleanup), ..Abandoned::default() }
    }
}

fn answer(watch: &mut Watch, pending: Pending) -> Step<Pending> {
    match watch.take(pending.output_buffer_length) {
        Some(response) => Step::Done(response),
        None => Step::Suspend(pending),
    }
}

/// What tells a share's folder from others: every tree connect has a root of its own, but one user
/// meets the same folder behind the same name.
#[derive(Debug, Eq, PartialEq)]
struct Tree {
    share: String,
    user: String,
}

impl Tree {
    fn new(session: &Session, share: &Share) -> Option<Self> {
        let user = session.account.as_ref()?.user.clone();
        Some(Self { share: share.name.clone(), user })
    }

    /// Nothing if the tree connect has ended meanwhile.
    fn of_root(sessions: &HashMap<u64, Session>, root: RootId) -> Option<Self> {
        sessions.values().find_map(|session| {
            let mut trees = session.tree_connects.values();
            let tree = trees.find(|tree| tree.share.root == Some(root))?;
            Self::new(session, &tree.share)
        })
    }
}

/// Hands the changes that were made to the watches, and wakes the oldest request of each watch
/// that has something to tell.
pub(crate) fn deliver(server: &mut Server) {
    let changes = std::mem::take(&mut server.globals.outbox.changes);
    let doomed = std::mem::take(&mut server.globals.outbox.doomed_directories);
    if changes.is_empty() && doomed.is_empty() {
        return;
    }
    let watchers = server.globals.watchers.clone();
    if watchers.is_empty() {
        return;
    }
    let origins: Vec<_> =
        changes.iter().map(|it| Tree::of_root(&server.sessions, it.root)).collect();
    for volatile in watchers {
        let open = server.opens.get_mut(&volatile).expect("a watch ends with its open");
        let root = open.share.root;
        let session = server.sessions.get(&open.session_id);
        let tree = session.and_then(|session| Tree::new(session, &open.share));
        let is_near = |change: &Change, origin: &Option<Tree>| {
            Some(change.root) == root || (origin.is_some() && *origin == tree)
        };
        let Target::File(file) = &mut open.target else { continue };
        let Some(watch) = &mut file.watch else { continue };
        for (change, origin) in changes.iter().zip(&origins) {
            if is_near(change, origin) {
                watch.note(&file.path, change);
            }
        }
        let is_doomed = doomed.contains(&file.identity);
        if !is_doomed && watch.is_quiet() {
            continue;
        }
        let mut waiting = server.suspended_on(volatile);
        if !is_doomed {
            waiting.truncate(1);
        }
        server.globals.outbox.wakes.extend(waiting);
    }
}
