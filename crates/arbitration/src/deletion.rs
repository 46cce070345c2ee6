//! Who deletes what, once its last open has ended: [MS-FSA] 2.1.5.5. If that open ended without its
//! worker, somebody else inherits it.

use dtyp::ServerId;

use crate::file_record::{FileRecord, Look};
use crate::open::{OpenEntry, OpenFacts};

/// A worker that deletes a stream, or a name of the file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Deleter {
    /// What stands for it: [`crate::mark`].
    pub mark: u64,
    /// The worker.
    pub server: ServerId,
    /// How far it is.
    pub progress: DeletionProgress,
    /// The share by which it was opened.
    pub share: String,
    /// Where the share's root was on the host.
    pub folder: String,
    /// The path beneath the share, with `\`.
    pub path: String,
    /// As [`OpenFacts::is_posix`].
    pub is_posix: bool,
}

/// How far a worker is with deleting something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DeletionProgress {
    /// It closes the open that was the last one.
    Closes,
    /// That open ended without it: its own worker is dead, or its client did not come back. It has
    /// to look at the record, and to delete by name.
    Inherited,
    /// It has looked.
    Deletes,
}

impl FileRecord {
    /// What has to be deleted, now that `gone` is closed: the file's name, if that was its last open
    /// of all; else the stream.
    pub(crate) fn begin_deletion(
        &mut self,
        gone: &OpenEntry,
        server: ServerId,
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
        let is_due = |mark: &u64| self.doomed.contains(mark) && !is_open(*mark) && !is_begun(*mark);
        let mark = [link, gone.mark()].into_iter().find(is_due)?;
        // The file goes by its name alone, whatever stream of it was open. In a name of POSIX a colon
        // is a character like any other.
        let path = match mark == link && gone.stream != 0 {
            true => path.split(':').next(),
            false => Some(path.as_str()),
        };
        self.deleters.push(Deleter {
            mark,
            server,
            progress,
            share: share.clone(),
            folder: folder.clone(),
            path: path.unwrap_or_default().to_owned(),
            is_posix: *is_posix,
        });
        Some(mark)
    }

    /// Opens have ended, and no worker closes them: what was to be deleted with them is deleted by
    /// `heir`.
    pub(crate) fn bequeath(&mut self, gone: &[OpenEntry], heir: ServerId, look: &mut Look) {
        for entry in gone.iter().filter(|it| it.delete_on_close) {
            self.set_doomed(entry.mark(), true);
        }
        for entry in gone {
            if self.begin_deletion(entry, heir, DeletionProgress::Inherited).is_some() {
                look.add(heir);
            }
        }
    }

    /// Takes what a worker is to delete in place of others.
    pub fn take_inheritance(&mut self, server: ServerId) -> Vec<Deleter> {
        let is_it =
            |it: &&mut Deleter| it.server == server && it.progress == DeletionProgress::Inherited;
        let mut taken = Vec::new();
        for deleter in self.deleters.iter_mut().filter(is_it) {
            deleter.progress = DeletionProgress::Deletes;
            taken.push(deleter.clone());
        }
        taken
    }

    /// Whether something waits for a worker to delete it in place of another.
    #[must_use]
    pub fn has_inheritance(&self) -> bool {
        self.deleters.iter().any(|it| it.progress == DeletionProgress::Inherited)
    }

    /// Whether a stream, or the file with it, is gone as soon as a worker has come to it, whose open
    /// it was not.
    pub(crate) fn is_inherited(&self, stream: u64, link: u64) -> bool {
        let marks = [link, crate::mark(stream, link)];
        let mut deleters = self.deleters.iter().filter(|it| marks.contains(&it.mark));
        deleters.any(|it| it.progress != DeletionProgress::Closes)
    }

    /// The stream is deleted, or could not be: it is as if nothing were.
    pub fn deleted(&mut self, mark: u64, look: &mut Look) {
        self.doomed.retain(|it| *it != mark);
        self.deleters.retain(|it| it.mark != mark);
        // With the file, its streams are gone.
        self.forget_unused_marks();
        self.wake(look);
    }
}
