//! Pending deletions, carried out after the last close: [MS-FSA] 2.1.5.5. If that open ended
//! without its worker, another worker becomes the deletion owner.

use std::sync::Arc;

use dtyp::ServerId;

use crate::file_record::{FileRecord, WorkersToNotify};
use crate::open::{LeaseKey, OpenEntry, OpenId};
use crate::requester::{Requester, RequestingUser};

/// Bytes that requesters of deletions take in a record at most, about. A mark and its deletion may
/// keep the same one, and the record has to be able to change at all times.
pub const REQUESTER_BYTES_MAX: usize = 2 << 20;

/// Mark for the deletion of a stream, or of a name of the file, after its last close.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PendingDeletion {
    /// Mark of the stream or name: [`crate::mark`].
    pub mark: u64,
    /// ParentLeaseKey of the open that set it. The lease of that key on the directory survives the
    /// deletion if the last closed open has the same.
    pub parent: Option<LeaseKey>,
    /// Open that set it; without one, the last closed open stands for it.
    pub requester: Option<Requester>,
}

/// A worker that deletes a stream, or a name of the file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Deleter {
    /// Mark of the stream or name: [`crate::mark`].
    pub mark: u64,
    /// Deletion owner: worker that deletes it.
    pub worker: ServerId,
    /// Progress of the deletion in that worker.
    pub progress: DeletionProgress,
    /// Open that has marked it, or the last one of an unknown user.
    pub requester: Requester,
}

/// Progress of a deletion in its worker.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DeletionProgress {
    /// The worker that closed the last open deletes.
    ByCloser,
    /// The last open ended without its worker, which is dead, or whose client did not return. The
    /// deletion owner has to read the record, and to delete by name.
    Delegated,
    /// The deletion owner has read the record, and deletes.
    Accepted,
}

impl FileRecord {
    /// True if a stream, or its whole file, is marked for deletion.
    #[must_use]
    pub fn is_delete_pending(&self, stream: u64, link: u64) -> bool {
        self.is_marked(crate::mark(stream, link)) || self.is_marked(link)
    }

    /// True if exactly this stream, or this name of the file, is marked for deletion.
    #[must_use]
    pub fn is_marked(&self, mark: u64) -> bool {
        self.delete_pending.iter().any(|it| it.mark == mark)
    }

    /// Marks the stream of an open for deletion, or its name of the file, on behalf of `user`.
    /// `parent` is the ParentLeaseKey of the open.
    pub fn request_deletion(
        &mut self,
        id: OpenId,
        parent: Option<LeaseKey>,
        user: Option<Arc<RequestingUser>>,
    ) {
        if let Some(entry) = self.open(id) {
            let (mark, requester) = (entry.mark(), Some(Requester::of(entry, user)));
            self.mark_pending(PendingDeletion { mark, parent, requester });
        }
    }

    /// Sets or clears the mark of a stream, for an open with this ParentLeaseKey of which nothing
    /// else is known. See [`FileRecord::request_deletion`].
    pub fn set_delete_pending(
        &mut self,
        mark: u64,
        delete_pending: bool,
        parent: Option<LeaseKey>,
    ) {
        match delete_pending {
            true => self.mark_pending(PendingDeletion { mark, parent, requester: None }),
            false => self.delete_pending.retain(|it| it.mark != mark),
        }
    }

    /// Sets a mark, in the place of an earlier one of the same stream or name. Where marks take as
    /// many bytes as they may, the last closed open stands for the requester. Streams leave half of
    /// them to names of the file: more users may mark streams than may delete the file.
    pub(crate) fn mark_pending(&mut self, mut pending: PendingDeletion) {
        self.delete_pending.retain(|it| it.mark != pending.mark);
        let is_of_stream = |it: &PendingDeletion| {
            it.requester.as_ref().is_some_and(|requester| requester.link != it.mark)
        };
        let bytes = |are_counted: &dyn Fn(&PendingDeletion) -> bool| -> usize {
            let all = self.delete_pending.iter().chain([&pending]);
            let kept = all.filter(|it| are_counted(it)).filter_map(|it| it.requester.as_ref());
            kept.map(Requester::bytes).sum()
        };
        let is_full = bytes(&|_| true) > REQUESTER_BYTES_MAX
            || is_of_stream(&pending) && bytes(&is_of_stream) > REQUESTER_BYTES_MAX / 2;
        if is_full {
            pending.requester = None;
        }
        self.delete_pending.push(pending);
    }

    /// Returns the open that has marked a stream or a name for deletion, if it is known.
    #[must_use]
    pub fn requester_of(&self, mark: u64) -> Option<&Requester> {
        self.delete_pending.iter().find(|it| it.mark == mark)?.requester.as_ref()
    }

    /// True if a pending deletion has the name of this open, and a path that no open of the same
    /// folder has: a rename above the file by that folder's paths leaves it as it is.
    #[must_use]
    pub fn is_pending_by_other_path(&self, open: &OpenEntry) -> bool {
        let is_by_path =
            |requester: &Requester| {
                requester.folder == open.facts.folder
                    && self.opens.iter().map(|it| &it.facts).any(|facts| {
                        facts.folder == requester.folder && facts.path == requester.path
                    })
            };
        let requesters = self.delete_pending.iter().filter_map(|it| it.requester.as_ref());
        requesters.filter(|it| it.link == open.facts.link).any(|it| !is_by_path(it))
    }

    /// Begins the deletion that is due after the close of `gone`: of the file's name, if that was
    /// its last open of all; otherwise of the stream. Returns its mark.
    pub(crate) fn begin_deletion(
        &mut self,
        gone: &OpenEntry,
        worker: ServerId,
        progress: DeletionProgress,
    ) -> Option<u64> {
        let link = gone.facts.link;
        let is_open = |mark: u64| {
            let by_name = mark == link;
            let is_one = |it: &OpenEntry| it.mark() == mark || (by_name && it.facts.link == link);
            self.opens.iter().any(is_one)
        };
        let is_begun = |mark: u64| self.deleters.iter().any(|it| it.mark == mark);
        let is_due = |mark: &u64| self.is_marked(*mark) && !is_open(*mark) && !is_begun(*mark);
        let mark = [link, gone.mark()].into_iter().find(is_due)?;
        let requester = self.requester_of(mark).cloned().unwrap_or_else(|| {
            let mut last = Requester::of(gone, None);
            // The file is deleted by its name alone, whatever stream of it was open. In a POSIX
            // name a colon has no meaning.
            if mark == link && gone.stream != 0 {
                last.path.truncate(last.path.find(':').unwrap_or(last.path.len()));
            }
            last
        });
        self.deleters.push(Deleter { mark, worker, progress, requester });
        Some(mark)
    }

    /// Delegates deletions of opens that ended without a worker to `deletion_owner`.
    pub(crate) fn delegate_deletions(
        &mut self,
        gone: &[OpenEntry],
        deletion_owner: ServerId,
        notify: &mut WorkersToNotify,
    ) {
        for entry in gone.iter().filter(|it| it.delete_on_close) {
            let mark = entry.mark();
            if !self.is_marked(mark) {
                let requester = Some(Requester::of(entry, None));
                self.mark_pending(PendingDeletion { mark, parent: None, requester });
            }
        }
        for entry in gone {
            if self.begin_deletion(entry, deletion_owner, DeletionProgress::Delegated).is_some() {
                notify.add(deletion_owner);
            }
        }
    }

    /// Takes deletions delegated to a worker.
    pub fn take_delegated(&mut self, worker: ServerId) -> Vec<Deleter> {
        let is_it =
            |it: &&mut Deleter| it.worker == worker && it.progress == DeletionProgress::Delegated;
        let mut taken = Vec::new();
        for deleter in self.deleters.iter_mut().filter(is_it) {
            deleter.progress = DeletionProgress::Accepted;
            taken.push(deleter.clone());
        }
        taken
    }

    /// Takes the deletion that the closer of an open, a worker, has begun and was refused: it goes
    /// on as a delegated one.
    pub fn take_begun(&mut self, mark: u64, worker: ServerId) -> Option<Deleter> {
        let is_it = |it: &&mut Deleter| {
            it.mark == mark && it.worker == worker && it.progress == DeletionProgress::ByCloser
        };
        let deleter = self.deleters.iter_mut().find(is_it)?;
        deleter.progress = DeletionProgress::Accepted;
        Some(deleter.clone())
    }

    /// Has another worker carry out a deletion that this one has accepted, and lacks the resources
    /// for. Returns whether there is such a deletion; [`FileRecord::scavenge`] picks the worker.
    pub fn delegate_again(&mut self, mark: u64, worker: ServerId) -> bool {
        let is_it = |it: &&mut Deleter| {
            it.mark == mark && it.worker == worker && it.progress == DeletionProgress::Accepted
        };
        let found = self.deleters.iter_mut().find(is_it);
        found.map(|it| it.progress = DeletionProgress::Delegated).is_some()
    }

    /// Adds a worker to the waiters of the record, until the deletions in progress have ended.
    /// Without any it is notified at once. Returns whether the record has changed.
    pub fn await_deletions(&mut self, worker: ServerId, notify: &mut WorkersToNotify) -> bool {
        if self.deleters.is_empty() {
            notify.add(worker);
            return false;
        }
        self.wait(worker);
        true
    }

    /// True while a delegated deletion waits for its worker.
    #[must_use]
    pub fn has_delegated(&self) -> bool {
        self.deleters.iter().any(|it| it.progress == DeletionProgress::Delegated)
    }

    /// True if the stream, or its whole file, has no open and a delegated deletion is pending.
    pub(crate) fn is_delegated(&self, stream: u64, link: u64) -> bool {
        let marks = [link, crate::mark(stream, link)];
        let mut deleters = self.deleters.iter().filter(|it| marks.contains(&it.mark));
        deleters.any(|it| it.progress != DeletionProgress::ByCloser)
    }

    /// Clears marks without an open or a deletion owner.
    pub(crate) fn forget_unused_marks(&mut self) {
        let (opens, deleters) = (&self.opens, &self.deleters);
        self.delete_pending.retain(|PendingDeletion { mark, .. }| {
            opens.iter().any(|it| it.mark() == *mark || it.facts.link == *mark)
                || deleters.iter().any(|it| it.mark == *mark)
        });
    }

    /// Ends a deletion, whether it succeeded or failed.
    pub fn end_deletion(&mut self, mark: u64, notify: &mut WorkersToNotify) {
        self.delete_pending.retain(|it| it.mark != mark);
        self.deleters.retain(|it| it.mark != mark);
        // The file's streams are deleted with it.
        self.forget_unused_marks();
        self.wake(notify);
    }
}
