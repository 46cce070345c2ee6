//! Sessions, tree connects and open files of all workers, for administrators.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Instant;

use arbitration::{FileRecord, OpenEntry};
use dtyp::upcase::equal_ignoring_case;
use dtyp::{AccessMask, FileTime};
use messaging::{CloseSession, Content, MessageKind};
use process::clocks::wall_clock;
use rpc::{FileEntry, Outcome, SessionEntry, TaskFailure, TreeConnectEntry};
use tables::SessionRecord;
use tracing::{debug, info, warn};

use crate::event_loop::Worker;

/// Entries of a list at most; the oldest ones are listed.
const LISTED_MAX: usize = 4_096;

/// Ticks of a [`FileTime`] in a second.
const TICKS: u64 = 10_000_000;

impl Worker {
    /// Lists the sessions of all workers, oldest first.
    pub(super) fn list_sessions(&self) -> Result<Outcome, TaskFailure> {
        let mut sessions = self.sessions()?;
        sessions.sort_by_key(|session| (session.created_at.0, session.session_id));
        sessions.truncate(LISTED_MAX);
        let opens = self.count_opens(|open| open.facts.session_id)?;
        let now = wall_clock();
        let entry = |session: SessionRecord| SessionEntry {
            opens: count(&opens, session.session_id),
            client: host(&session.client_address),
            seconds: age(now, session.created_at),
            // Only sessions of guests have no key.
            is_guest: session.signing_algorithm.is_none(),
            user: session.user,
        };
        Ok(Outcome::Sessions(sessions.into_iter().map(entry).collect()))
    }

    /// Lists the tree connects of all workers, oldest first.
    pub(super) fn list_tree_connects(&self) -> Result<Outcome, TaskFailure> {
        let mut tree_connects = self.registry.list_tree_connects().map_err(unreadable)?.records;
        tree_connects.sort_by_key(|it| (it.connected_at.0, it.session_id, it.tree_id));
        tree_connects.truncate(LISTED_MAX);
        let sessions: HashMap<u64, SessionRecord> =
            self.sessions()?.into_iter().map(|it| (it.session_id, it)).collect();
        let opens = self.count_opens(|open| (open.facts.session_id, open.facts.tree_id))?;
        let now = wall_clock();
        let entries = tree_connects.into_iter().map(|it| {
            let session = sessions.get(&it.session_id);
            TreeConnectEntry {
                id: number(it.session_id) ^ it.tree_id,
                client: session.map(|it| host(&it.client_address)).unwrap_or_default(),
                user: session.map(|it| it.user.clone()).unwrap_or_default(),
                opens: count(&opens, (it.session_id, it.tree_id)),
                seconds: age(now, it.connected_at),
                share: it.share,
            }
        });
        Ok(Outcome::TreeConnects(entries.collect()))
    }

    /// Lists the open files of all workers, ordered by their numbers.
    pub(super) fn list_files(&self) -> Result<Outcome, TaskFailure> {
        let found = self.server.list_opens(|record, open| Some(file_entry(record, open)));
        let mut files = found.map_err(unreadable)?;
        files.sort_by_key(|(_, (entry, _))| entry.id);
        files.truncate(LISTED_MAX);
        let users: HashMap<u64, String> =
            self.sessions()?.into_iter().map(|it| (it.session_id, it.user)).collect();
        let with_user = |(_, (entry, session_id)): (_, (FileEntry, u64))| FileEntry {
            user: users.get(&session_id).cloned().unwrap_or_default(),
            ..entry
        };
        Ok(Outcome::Files(files.into_iter().map(with_user).collect()))
    }

    /// Closes the open file with this number in a list. A number that two of them have, which is
    /// unlikely, closes none.
    pub(super) fn close_file(&mut self, file_number: u32) -> Result<Outcome, TaskFailure> {
        let is_it = |open: &OpenEntry| number(open.facts.persistent) == file_number;
        let found = self.server.list_opens(|_, open| is_it(open).then_some(open.id));
        let [(file, id)] = found.map_err(unreadable)?[..] else {
            return Err(TaskFailure::NoSuchFile);
        };
        info!("an administrator closes an open file of process {}", id.worker.pid);
        let now = self.now();
        self.server.handle_close_open(now, file, id).map_err(unreadable)?;
        Ok(Outcome::Done)
    }

    /// Closes the sessions of a client, of a user, or of a user on a client; but not the own one of
    /// the requester, which could not be answered.
    pub(super) fn close_sessions(
        &mut self,
        own: u64,
        client: Option<&str>,
        user: Option<&str>,
    ) -> Result<Outcome, TaskFailure> {
        let is_wanted = |session: &SessionRecord| {
            session.session_id != own
                && client.is_none_or(|it| equal_ignoring_case(it, &host(&session.client_address)))
                && user.is_none_or(|it| equal_ignoring_case(it, &session.user))
        };
        let mut sessions = self.sessions()?;
        sessions.retain(is_wanted);
        if sessions.is_empty() {
            return Err(TaskFailure::NoSuchSession);
        }
        for SessionRecord { session_id, server_id, user, .. } in sessions {
            info!("an administrator closes a session of {user}");
            if server_id == self.registry.server_id() {
                let now = self.now();
                self.server.handle_close_session(now, session_id);
                continue;
            }
            let data = CloseSession { session_id }.encode();
            let content = Content::new(MessageKind::CLOSE_SESSION, &data);
            if let Err(error) = self.messaging.send(Instant::now(), server_id, &content) {
                debug!("session {session_id:#x} has lost its worker: {error}");
            }
        }
        Ok(Outcome::Done)
    }

    fn sessions(&self) -> Result<Vec<SessionRecord>, TaskFailure> {
        Ok(self.registry.list_sessions().map_err(unreadable)?.records)
    }

    /// Counts the opens of all workers by a key.
    fn count_opens<K: Eq + std::hash::Hash>(
        &self,
        key: impl Fn(&OpenEntry) -> K,
    ) -> Result<HashMap<K, u32>, TaskFailure> {
        let opens = self.server.list_opens(|_, open| Some(key(open))).map_err(unreadable)?;
        let mut counts = HashMap::new();
        opens.into_iter().for_each(|(_, key)| *counts.entry(key).or_default() += 1);
        Ok(counts)
    }
}

pub(super) fn unreadable(error: impl std::fmt::Debug) -> TaskFailure {
    warn!("a request over srvsvc failed: {error:?}");
    TaskFailure::Failed
}

/// An open file without its user, and the id of its session.
fn file_entry(record: &FileRecord, open: &OpenEntry) -> (FileEntry, u64) {
    let facts = &open.facts;
    let access = open.mode.granted_access;
    let writing = AccessMask::WRITE_DATA | AccessMask::APPEND_DATA;
    let read = if access.contains(AccessMask::READ_DATA) { FileEntry::READ } else { 0 };
    let write = if access.intersects(writing) { FileEntry::WRITE } else { 0 };
    let locks = record.locks.iter().filter(|lock| lock.open == open.id).count();
    let folder = facts.folder.trim_matches(['/', '\\']).replace('/', "\\");
    let parts = ["C:", &folder, &facts.path];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let entry = FileEntry {
        id: number(facts.persistent),
        permissions: read | write,
        locks: u32::try_from(locks).unwrap_or(u32::MAX),
        path: parts.join("\\"),
        user: String::new(),
    };
    (entry, facts.session_id)
}

fn count<K: Eq + std::hash::Hash>(counts: &HashMap<K, u32>, key: K) -> u32 {
    counts.get(&key).copied().unwrap_or_default()
}

/// Number of an object in a list, whose id has more bits. Some clients print it with a sign, so it
/// has none.
fn number(id: u64) -> u32 {
    let [a, b, c, d, e, f, g, h] = id.to_le_bytes();
    (u32::from_le_bytes([a, b, c, d]) ^ u32::from_le_bytes([e, f, g, h])) & 0x7FFF_FFFF
}

/// Address of a client without the port.
fn host(address: &str) -> String {
    match address.parse::<SocketAddr>() {
        Ok(address) => address.ip().to_canonical().to_string(),
        Err(_) => address.to_owned(),
    }
}

fn age(now: FileTime, since: FileTime) -> u32 {
    u32::try_from(now.0.saturating_sub(since.0) / TICKS).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use dtyp::FileTime;

    use super::{age, host, number};

    #[test]
    fn clients_are_named_by_address_without_port() {
        assert_eq!(host("192.0.2.7:445"), "192.0.2.7");
        assert_eq!(host("[::ffff:192.0.2.7]:445"), "192.0.2.7");
        assert_eq!(host("[2001:db8::1]:445"), "2001:db8::1");
        assert_eq!(host("client"), "client");
    }

    #[test]
    fn numbers_and_ages_fit_their_fields() {
        assert_eq!(number(0x0000_0001_8000_0002), 3);
        assert_eq!(age(FileTime(30_000_000), FileTime(10_000_000)), 2);
        assert_eq!(age(FileTime(0), FileTime(10_000_000)), 0);
        assert_eq!(age(FileTime(u64::MAX), FileTime(0)), u32::MAX);
    }
}
