//! Pending deletions, carried out after the last close: [MS-FSA] 2.1.5.5. If that open ended
//! without its worker, another worker becomes the deletion owner.

use dtyp::ServerId;

use crate::file_record::{FileRecord, WorkersToNotify};
use crate::open::{LeaseKey, OpenEntry, OpenFacts};

/// Mark for the deletion of a stream, or of a name of the file, after its last close.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PendingDeletion {
    /// Mark of the stream or name: [`crate::mark`].
    pub mark: u64,
    /// ParentLeaseKey of the open that set it. The lease of that key on the directory survives the
    /// deletion if the last closed open has the same.
    pub parent: Option<LeaseKey>,
}

/// A worker that deletes a stream, or a name of the file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Deleter {
    /// Mark of the stream or name: [`crate::mark`].
    pub mark: u64,
    /// Name of the file that it was opened by last, as [`OpenFacts::link`]: a stream goes only by
    /// the same one.
    pub link: u64,
    /// Deletion owner: worker that deletes it.
    pub worker: ServerId,
    /// Progress of the deletion in that worker.
    pub progress: DeletionProgress,
    /// Share that it was opened through.
    pub share: String,
    /// Path of the share's root on the host.
    pub folder: String,
    /// The path beneath the share, with `\`.
    pub path: String,
    /// True for POSIX names, as [`OpenFacts::is_posix`].
    pub is_posix: bool,
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
    /// Begins the deletion that is due after the close of `gone`: of the file's name, if that was
    /// its last open of all; otherwise of the stream. Returns its mark.
    pub(crate) fn begin_deletion(
        &mut self,
        gone: &OpenEntry,
        worker: ServerId,
        progress: DeletionProgress,
    ) -> Option<u64> {
        let OpenFacts { link, share, folder, path, is_posix, .. } = &gone.facts;
        let link = *link;
        let is_open = |mark: u64| {
            let by_name = mark == link;
            let is_one = |it: &OpenEntry| it.mark() == mark || (by_name && it.facts.link == link);
            self.opens.iter().any(is_one)
        };
        let is_begun = |mark: u64| self.deleters.iter().any(|it| it.mark == mark);
        let is_due = |mark: &u64| self.is_marked(*mark) && !is_open(*mark) && !is_begun(*mark);
        let mark = [link, gone.mark()].into_iter().find(is_due)?;
        // The file is deleted by its name alone, whatever stream of it was open. In a POSIX name a
        // colon has no meaning.
        let path = match mark == link && gone.stream != 0 {
            true => path.split(':').next(),
            false => Some(path.as_str()),
        };
        self.deleters.push(Deleter {
            mark,
            link,
            worker,
            progress,
            share: share.clone(),
            folder: folder.clone(),
            path: path.unwrap_or_default().to_owned(),
            is_posix: *is_posix,
        });
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
            self.set_delete_pending(entry.mark(), true, None);
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

    /// Ends a deletion, whether it succeeded or failed.
    pub fn end_deletion(&mut self, mark: u64, notify: &mut WorkersToNotify) {
        self.delete_pending.retain(|it| it.mark != mark);
        self.deleters.retain(|it| it.mark != mark);
        // The file's streams are deleted with it.
        self.forget_unused_marks();
        self.wake(notify);
    }
}
