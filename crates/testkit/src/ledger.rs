//! Verifies that everything that began also ended.

use std::collections::HashSet;

use proto::Notice;

/// Objects that exist according to a server's notices.
///
/// Every notice is checked against those before it: an end needs a beginning, and nothing begins
/// inside an object that has ended.
#[derive(Debug, Default)]
pub struct Ledger {
    sessions: HashSet<u64>,
    tree_connects: HashSet<(u64, u32)>,
    watches: HashSet<u64>,
    all: Vec<Notice>,
}

impl Ledger {
    /// Records a notice.
    ///
    /// # Panics
    /// If it contradicts an earlier one.
    pub fn enter(&mut self, notice: Notice) {
        match &notice {
            Notice::ConnectionNegotiated { .. }
            | Notice::ConnectionClosed { .. }
            | Notice::LogonChanged(_)
            | Notice::FurtherUser { .. }
            | Notice::LogonRefused(_) => {}
            Notice::SessionOpened(session) => {
                assert!(self.sessions.insert(session.session_id), "{notice:?} for the second time");
            }
            Notice::SessionClosed { session_id } => {
                assert!(self.sessions.remove(session_id), "{notice:?} of no session");
                let left = self.tree_connects.iter().find(|(session, _)| session == session_id);
                assert_eq!(left, None, "a tree connect of the ended session");
            }
            Notice::TreeConnected { session_id, tree_id, .. } => {
                assert!(self.sessions.contains(session_id), "{notice:?} without a session");
                let is_new = self.tree_connects.insert((*session_id, *tree_id));
                assert!(is_new, "{notice:?} for the second time");
            }
            Notice::TreeDisconnected { session_id, tree_id } => {
                let was_there = self.tree_connects.remove(&(*session_id, *tree_id));
                assert!(was_there, "{notice:?} of no tree connect");
            }
            Notice::Changed(changes) => assert!(!changes.is_empty(), "nothing was changed"),
            Notice::Unwatched { volatile } => {
                assert!(self.watches.remove(volatile), "{notice:?} of what was not watched");
            }
            // A second notice gives the directory's new name.
            Notice::Watched(watch) => {
                self.watches.insert(watch.volatile);
            }
            Notice::Audited(_) => {}
            #[expect(unreachable_patterns, reason = "the engine may learn to tell more")]
            _ => {}
        }
        self.all.push(notice);
    }

    /// Returns all notices so far.
    #[must_use]
    pub fn notices(&self) -> &[Notice] {
        &self.all
    }

    /// Number of sessions that exist.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// # Panics
    /// If an object still exists.
    #[track_caller]
    pub fn assert_empty(&self) {
        assert!(self.watches.is_empty(), "watches are left: {:?}", self.watches);
        assert!(self.tree_connects.is_empty(), "tree connects are left: {:?}", self.tree_connects);
        assert!(self.sessions.is_empty(), "sessions are left: {:?}", self.sessions);
    }
}
