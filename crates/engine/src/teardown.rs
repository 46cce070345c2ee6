//! The end of connections, sessions, tree connects and opens, for any reason: [MS-SMB2] 3.3.7.1.

use arbitration::Closed;
use model::connection::ConnectionId;
use model::file_key::key;
use model::open::{CreateName, Open, OpenFile, Target};
use model::reject::Disconnect;
use model::session::{Session, SessionState};
use object::{ObjectOp, UserId};
use rustc_hash::FxHashMap;

use crate::change::{Change, ChangeKind};
use crate::effect::{Deletion, Effect};
use crate::globals::Globals;
use crate::notice::Notice;
use crate::server::Server;

/// Work of the store for an open that is in no table any more.
#[derive(Debug)]
pub struct Retired {
    /// User whose rights the kernel checks.
    pub user: UserId,
    /// Operation that closes the file.
    pub op: ObjectOp,
    /// File that the operation deletes, for its record.
    pub deleted: Option<Deletion>,
}

impl Server {
    /// Ends a connection by the server's decision; the worker ends its transport after the poll.
    pub(crate) fn disconnect(&mut self, id: ConnectionId, reason: Disconnect) {
        if self.connections.contains_key(&id) {
            self.globals.outbox.closes.push_back((id, reason));
            self.forget_connection(id);
        }
    }

    /// Removes a connection from all tables, with everything that does not survive it.
    pub(crate) fn forget_connection(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.remove(&id) else { return };
        self.globals.throttle.credits_change();
        self.deadlines.remove(&id);
        if let Some(negotiated) = connection.negotiated {
            let client_guid = negotiated.client_guid;
            let notice = Notice::ConnectionClosed { client_guid, client: connection.client };
            self.globals.outbox.notices.push_back(notice);
        }
        self.forget_waits(id);
        let mut orphans = Vec::new();
        for session in self.sessions.values_mut() {
            session.channels.retain(|channel| channel.connection != id);
            // A connection that is still being bound does not keep a session.
            if session.bound_channels().next().is_none() {
                orphans.push(session.session_id);
            }
        }
        for session_id in orphans {
            self.globals.detach_durable(session_id, &mut self.opens);
            self.end_session(session_id);
        }
        self.repeat_breaks(id);
        self.tell_logon();
    }

    /// Ends a session with all that belongs to it: [MS-SMB2] 3.3.7.1.
    pub(crate) fn end_session(&mut self, session_id: u64) {
        let Some(mut session) = self.sessions.remove(&session_id) else { return };
        self.limit_memory();
        self.globals.end_session(&mut session, &mut self.opens);
        for channel in &session.channels {
            if let Some(connection) = self.connections.get_mut(&channel.connection) {
                connection.preauth_sessions.remove(&session_id);
            }
        }
    }
}

impl Globals {
    /// Ends a session's tree connects, and reports its end to the tables.
    pub fn end_session(&mut self, session: &mut Session, opens: &mut FxHashMap<u64, Open>) {
        let tree_ids: Vec<u32> = session.tree_connects.keys().copied().collect();
        for tree_id in tree_ids {
            self.end_tree_connect(session, tree_id, opens);
        }
        if session.state != SessionState::InProgress && session.state != SessionState::Ended {
            let session_id = session.session_id;
            self.outbox.notices.push_back(Notice::SessionClosed { session_id });
        }
        session.state = SessionState::Ended;
    }

    /// Closes a tree connect's opens, and reports its end to the tables.
    pub fn end_tree_connect(
        &mut self,
        session: &mut Session,
        tree_id: u32,
        opens: &mut FxHashMap<u64, Open>,
    ) {
        let Some(tree) = session.tree_connects.remove(&tree_id) else { return };
        self.throttle.credits_change();
        let session_id = session.session_id;
        let gone = |open: &Open| open.session_id == session_id && open.tree_id == tree_id;
        let volatiles: Vec<u64> =
            opens.iter().filter(|(_, open)| gone(open)).map(|(volatile, _)| *volatile).collect();
        for volatile in volatiles {
            let open = opens.remove(&volatile).expect("listed above");
            self.retire_unasked(open);
        }
        // Requests that wait for a file of it resume, and find the tree connect gone.
        let waiting = self.files.take_all_waiting();
        self.outbox.wakes.extend(waiting);
        if let Some(root) = tree.share.root {
            self.outbox.effects.push_back((None, Effect::DisconnectShare(root)));
        }
        self.outbox.notices.push_back(Notice::TreeDisconnected { session_id, tree_id });
    }

    /// Removes an open from all tables of this server. Returns the work of the store.
    pub fn retire(&mut self, open: Open) -> Option<Retired> {
        let volatile = open.file_id.volatile;
        self.outbox.closed_opens.push(volatile);
        let Target::File(file) = open.target else { return None };
        self.forget(&file, volatile);
        if let (true, Some(parent)) = (file.is_modified, file.parent) {
            self.files.break_for_listing(parent, file.parent_lease);
        }
        let Closed { mut unlink, parent: deleter } = self.files.remove_open(
            file.identity,
            volatile,
            file.delete_on_close,
            file.parent_lease,
        );
        if file.path.is_posix() && self.files.is_delete_pending(file.identity, file.link) {
            // With POSIX semantics the name is removed at once, and other opens keep the file.
            unlink = Some(file.link);
        }
        let share = &open.share;
        if self.follows_posix(share) && self.files.is_deleted_at_once(file.identity, file.link) {
            unlink = Some(file.link);
        }
        if let Some(root) = open.share.root
            && file.is_directory
            && self.files.is_delete_pending(file.identity, file.link)
        {
            self.report(|| Change {
                root,
                path: file.path.clone(),
                is_directory: true,
                kind: ChangeKind::DeletePending(file.identity),
            });
        }
        // Only a client that both set the deletion and caused it knows of the change.
        let by = file.parent_lease.filter(|_| deleter == file.parent_lease);
        let directory = file.parent.map(|parent| (parent, by));
        // The file is deleted with it, not only the open stream.
        let is_file_gone = unlink.is_some_and(|mark| mark != file.identity.stream);
        if let (Some(_), Some(root)) = (unlink, open.share.root) {
            self.report(|| Change {
                root,
                path: if is_file_gone { file.path.with_stream(None) } else { file.path.clone() },
                is_directory: file.is_directory,
                kind: ChangeKind::Removed,
            });
        }
        let op = match unlink {
            Some(_) if is_file_gone && file.identity.stream != 0 => {
                ObjectOp::CloseAndUnlinkFile { open: file.local_open }
            }
            _ => ObjectOp::Close { open: file.local_open, unlink: unlink.is_some() },
        };
        let (file, store) = (key(file.identity), op.store());
        let deleted = unlink.map(|mark| Deletion { file, mark, store, directory });
        Some(Retired { user: open.user, op, deleted })
    }

    /// Ends a deletion that the store has carried out. Only now is the directory's listing another.
    pub fn end_deletion(&mut self, deletion: &Deletion) {
        self.files.end_deletion(deletion.file, deletion.mark);
        if let Some((directory, by)) = deletion.directory {
            self.files.break_for_listing(directory, by);
        }
    }

    /// Closes an open that its client does not know of, because its CREATE has failed or nobody
    /// hears of its success. It may have ended with its session.
    pub fn withdraw(&mut self, volatile: u64, opens: &mut FxHashMap<u64, Open>) {
        let Some(mut open) = opens.remove(&volatile) else { return };
        // Only a successful CREATE may delete the file at the close.
        if let Target::File(file) = &mut open.target {
            file.delete_on_close = false;
        }
        self.retire_unasked(open);
    }

    /// Closes an open on the server's own account: removes it from all tables
    /// ([`Globals::retire`]), and has the store close the file, without a request that waits for
    /// that.
    pub fn retire_unasked(&mut self, open: Open) {
        let Some(Retired { user, op, deleted }) = self.retire(open) else { return };
        self.outbox.effects.push_back((None, Effect::Object { user, op }));
        let deleted = deleted.map(Effect::FileDeleted);
        self.outbox.effects.extend(deleted.map(|effect| (None, effect)));
    }

    /// Removes the durable opens of a session from this worker: [MS-SMB2] 3.3.5.6, 3.3.7.1. Their
    /// state remains in the files' records.
    pub fn detach_durable(&mut self, session_id: u64, opens: &mut FxHashMap<u64, Open>) {
        let is_durable = |open: &Open| {
            open.session_id == session_id && open.file().is_ok_and(|file| file.durable.is_some())
        };
        let volatiles: Vec<u64> = opens
            .iter()
            .filter(|(_, open)| is_durable(open))
            .map(|(volatile, _)| *volatile)
            .collect();
        for volatile in volatiles {
            let (identity, position) = match &opens[&volatile] {
                Open { target: Target::File(file), .. } => (file.identity, file.position),
                _ => unreachable!("filtered above"),
            };
            if !self.files.disconnect(identity, volatile, position) {
                continue;
            }
            let Some(open) = opens.remove(&volatile) else { continue };
            self.outbox.closed_opens.push(volatile);
            let Target::File(file) = open.target else { continue };
            self.forget(&file, volatile);
            let op = ObjectOp::Close { open: file.local_open, unlink: false };
            self.outbox.effects.push_back((None, Effect::Object { user: open.user, op }));
        }
    }

    /// Removes everything about an open beside the open itself and the file's record.
    fn forget(&mut self, file: &OpenFile, volatile: u64) {
        self.forget_create_name(file.create_name, volatile);
        if file.watch.is_some() {
            self.watchers.retain(|watcher| *watcher != volatile);
            self.outbox.notices.push_back(Notice::Unwatched { volatile });
        }
        if let Some(lease) = file.lease {
            self.files.unuse_lease(lease, key(file.identity));
        }
    }

    fn forget_create_name(&mut self, create_name: Option<CreateName>, volatile: u64) {
        if let Some(name) = create_name
            && self.create_names.get(&name) == Some(&volatile)
        {
            self.create_names.remove(&name);
        }
    }
}
