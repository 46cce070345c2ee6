//! The end of connections, sessions, tree connects and opens, for any reason: [MS-SMB2] 3.3.7.1.

use arbitration::{Closed, Deleter, FileKey, Requester};
use dtyp::AccessMask;
use model::audit::AuditEvent;
use model::connection::ConnectionId;
use model::file_key::key;
use model::open::{CreateId, Open, OpenFile, Target};
use model::reject::Disconnect;
use model::session::{Session, SessionState};
use object::{ObjectOp, ObjectPath, UserId};
use rustc_hash::FxHashMap;

use crate::change::{Change, ChangeKind};
use crate::effect::{ByClose, Deletion, Effect, Removal, Remover, Unlocked};
use crate::globals::Globals;
use crate::notice::{AuditRecord, Notice};
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
    /// Record of the deletion for the audit of the share, if there is one.
    pub audit: Option<Box<AuditRecord>>,
    /// Byte-range locks that stay in the record until the operation is done.
    pub unlocked: Option<Unlocked>,
}

impl Server {
    /// Ends a connection by the server's decision; the worker ends its transport after the poll.
    pub(crate) fn disconnect(&mut self, id: ConnectionId, reason: Disconnect) {
        if let Some(connection) = self.connections.get(&id) {
            let logon = connection.progress.logon();
            self.globals.outbox.closes.push_back((id, reason, logon));
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
        self.postponed.retain(|it| it.chain.connection != id);
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
        self.report_logon();
    }

    /// Closes the opens of sessions that shall end. Returns true if a session was open until now:
    /// its requests must be answered before it ends, with its keys.
    pub(crate) fn close_ending_sessions(&mut self) -> bool {
        for session_id in std::mem::take(&mut self.globals.outbox.replaced_sessions) {
            self.globals.detach_durable(session_id, &mut self.opens);
        }
        let mut has_closed = false;
        for session_id in &self.globals.outbox.ending_sessions.clone() {
            let session = self.sessions.get_mut(session_id);
            if let Some(session) = session.filter(|it| it.state != SessionState::Ended) {
                self.globals.end_session(session, &mut self.opens);
                has_closed = true;
            }
        }
        has_closed
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
        self.apple_sessions.remove(&session.session_id);
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
        self.remove_together(&volatiles, opens);
        for volatile in volatiles {
            let open = opens.remove(&volatile).expect("listed above");
            self.close_for_server(open);
        }
        // Requests that wait for a file of it resume, and find the tree connect gone.
        let waiting = self.files.take_all_waiting();
        self.outbox.requests_to_wake.extend(waiting);
        if let Some(root) = tree.share.root {
            self.outbox.effects.push_back((None, Effect::DisconnectShare(root)));
        }
        self.audit_share(&tree.share, AuditEvent::Disconnect);
        self.outbox.notices.push_back(Notice::TreeDisconnected { session_id, tree_id });
    }

    /// Removes opens that are about to be closed from the records of files that several of them
    /// have open. Left out are those that delete their file by the close, or whose locks stay until
    /// the store has closed it.
    fn remove_together(&mut self, volatiles: &[u64], opens: &FxHashMap<u64, Open>) {
        let mut of_files: FxHashMap<FileKey, Vec<u64>> = FxHashMap::default();
        for volatile in volatiles {
            let open = &opens[volatile];
            let Ok(file) = open.file() else { continue };
            let keeps_locks = open.shows_locks() && file.locks.bytes() > 0;
            if !file.delete_on_close && !keeps_locks {
                of_files.entry(key(file.identity)).or_default().push(*volatile);
            }
        }
        for (file, volatiles) in of_files.iter().filter(|(_, it)| it.len() > 1) {
            self.files.remove_together(*file, volatiles);
        }
    }

    /// Removes an open from all tables of this server. Returns the work of the store.
    pub fn retire(&mut self, open: Open) -> Option<Retired> {
        let volatile = open.file_id.volatile;
        self.outbox.closed_opens.push(volatile);
        let shows_locks = open.shows_locks();
        let Target::File(file) = open.target else { return None };
        self.forget(&file, volatile);
        let keeps_locks = shows_locks && file.locks.bytes() > 0;
        if let (true, Some(parent)) = (file.is_modified, file.parent) {
            self.files.break_for_listing(parent, file.parent_lease);
        }
        let share = &open.share;
        let Closed { mut unlink, parent: deleter, requester } = self.files.remove_open(
            (file.identity, volatile),
            keeps_locks,
            file.delete_on_close,
            (file.parent_lease, share.requester.as_ref()),
        );
        // With POSIX semantics the name is removed at once, and other opens keep the file.
        let is_at_once = file.path.is_posix()
            && self.files.is_delete_pending(file.identity, file.link)
            || self.expects_lost_names(open.session_id, share)
                && self.files.is_deleted_at_once(file.identity, file.link);
        if is_at_once && self.files.deletes_as_requester(key(file.identity), file.link, share) {
            unlink = Some(file.link);
        }
        let is_requester = requester.is_none_or(|it| share.deletes_as(&it));
        let may_delete = open.granted_access.contains(AccessMask::DELETE);
        let remover = match (is_requester, may_delete) {
            // Without birth times nothing is removed by its name.
            (false, _) if file.identity.birth != 0 => Remover::Requester,
            (_, true) => Remover::Closer,
            (_, false) => Remover::CloserFirst,
        };
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
        let removed = || if is_file_gone { file.path.with_stream(None) } else { file.path.clone() };
        let audit = file.audit.as_deref().and_then(|audited| {
            let deleted = unlink.filter(|_| remover != Remover::Requester).map(|_| removed());
            self.audit_retired(audited, &file, deleted.as_ref())
        });
        if let (Some(_), Some(root)) = (unlink, open.share.root) {
            self.report(|| Change {
                root,
                path: removed(),
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
        let op = if remover == Remover::Requester { without_removal(op) } else { op };
        let (file, store) = (key(file.identity), op.store());
        let deleted = unlink.map(|mark| Deletion { file, mark, store, directory, remover });
        let unlocked = keeps_locks.then_some(Unlocked { file, volatile, store });
        Some(Retired { user: open.user, op, deleted, audit, unlocked })
    }

    /// Has the deletion of a closed open carried out for the open that has marked the file, as a
    /// delegated one: that open was granted it.
    pub fn pass_on_deletion(&mut self, deletion: &Deletion) {
        let close = match deletion.remover {
            Remover::Closer | Remover::CloserFirst => ByClose::Tried,
            Remover::Requester => ByClose::Reported,
        };
        match self.files.take_begun_deletion(deletion.file, deletion.mark) {
            Some(deleter) => self.remove(deletion.file, deleter, close),
            None => self.end_deletion(deletion),
        }
    }

    /// Removes a file on behalf of another open: of a dead worker, of an absent client, or of one
    /// that is closed already: [MS-FSA] 2.1.5.5.
    pub(crate) fn remove(&mut self, file: FileKey, deleter: Deleter, close: ByClose) {
        let Deleter { mark, requester, .. } = deleter;
        let Requester { link, share, folder, path, path_on_disk, is_posix, user } = requester;
        let path = match path_on_disk.filter(|_| is_posix) {
            // In POSIX names `\` is a character like any other.
            Some(path) => ObjectPath::from_stored_posix(path),
            None => ObjectPath::from_windows(&path, is_posix),
        };
        let folder = ObjectPath::from_stored(folder, None);
        let audit = None;
        let removal = Removal { file, mark, link, share, folder, path, user, close, audit };
        self.outbox.effects.push_back((None, Effect::Remove(Box::new(removal))));
    }

    /// Ends a deletion that the store has carried out. Only now is the directory's listing another.
    pub fn end_deletion(&mut self, deletion: &Deletion) {
        self.files.end_deletion(deletion.file, deletion.mark);
        if let Some((directory, by)) = deletion.directory {
            self.files.break_for_listing(directory, by);
        }
    }

    /// Closes an open that its client does not know of, because its CREATE has failed or its
    /// response cannot be sent. It may have ended with its session.
    pub fn withdraw(&mut self, volatile: u64, opens: &mut FxHashMap<u64, Open>) {
        let Some(mut open) = opens.remove(&volatile) else { return };
        // Only a successful CREATE may delete the file at the close.
        if let Target::File(file) = &mut open.target {
            file.delete_on_close = false;
        }
        self.close_for_server(open);
    }

    /// Closes an open on the server's own account: removes it from all tables
    /// ([`Globals::retire`]), and has the store close the file, without a request that waits for
    /// that.
    pub fn close_for_server(&mut self, open: Open) {
        let has_birth = open.identity().is_some_and(|(identity, _)| identity.birth != 0);
        let Some(Retired { user, op, mut deleted, audit, unlocked }) = self.retire(open) else {
            return;
        };
        // Nobody learns of the store's refusal, so a second attempt follows in any case. Without
        // birth times it would fail.
        if let Some(deletion) = &mut deleted
            && deletion.remover == Remover::CloserFirst
            && !has_birth
        {
            deletion.remover = Remover::Closer;
        }
        audit.into_iter().for_each(|record| self.audit(*record));
        self.outbox.effects.push_back((None, Effect::Object { user, op }));
        let reports = deleted.map(Effect::FileDeleted).into_iter();
        let reports = reports.chain(unlocked.map(Effect::FileUnlocked));
        self.outbox.effects.extend(reports.map(|effect| (None, effect)));
    }

    /// Gives up the lease of the kernel for an oplock that is broken, if the open has one.
    pub fn end_kernel_lease(&mut self, open: &mut Open) {
        let Target::File(file) = &mut open.target else { return };
        if std::mem::take(&mut file.has_kernel_lease) {
            let op = ObjectOp::EndLease { open: file.local_open };
            self.outbox.effects.push_back((None, Effect::Object { user: open.user, op }));
        }
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
            let open = &opens[&volatile];
            let Ok(file) = open.file() else { unreachable!("filtered above") };
            let (identity, position) = (file.identity, file.position);
            if !self.files.disconnect((identity, volatile), open.shows_locks(), position) {
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
        self.forget_create_id(file.create_id, volatile);
        if file.watch.is_some() {
            self.watchers.retain(|watcher| *watcher != volatile);
            self.outbox.notices.push_back(Notice::Unwatched { volatile });
        }
        if let Some(lease) = file.lease {
            self.files.remove_from_lease(lease, key(file.identity));
        }
    }

    fn forget_create_id(&mut self, create_id: Option<CreateId>, volatile: u64) {
        if let Some(id) = create_id
            && self.create_ids.get(&id) == Some(&volatile)
        {
            self.create_ids.remove(&id);
        }
    }
}

/// The close of a file that leaves its removal to another operation.
fn without_removal(op: ObjectOp) -> ObjectOp {
    match op {
        ObjectOp::Close { open, .. } | ObjectOp::CloseAndUnlinkFile { open } => {
            ObjectOp::Close { open, unlink: false }
        }
        other => other,
    }
}
