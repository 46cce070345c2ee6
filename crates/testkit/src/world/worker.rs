//! A world as one worker of several, with shared files and records.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use arbitration::{FileKey, FileRecord};
use dtyp::{FileTime, ServerId};
use object::{LocalOpen, ObjectOp, ObjectReply, ObjectResult};
use proto::{Effect, Reply, RequestId};
use tables::{DeadWorkers, FileTable, MemoryTable};

use super::{Inner, Wire, World};
use crate::accounts;
use crate::store::MemoryStore;

/// State of a worker besides its engine.
#[derive(Debug, Default)]
pub(super) struct Worker {
    /// Operations of the store that were not executed yet, or not answered.
    kept: VecDeque<(RequestId, Kept)>,
    /// Workers to notify of changed records.
    pub(super) notifications: Vec<(ServerId, FileKey)>,
    /// Its descriptors, which are closed when it dies.
    descriptors: HashSet<LocalOpen>,
    /// Data of every WRITE, in the order of execution.
    writes: Vec<Vec<u8>>,
}

/// An operation of the store whose request waits.
#[derive(Debug)]
enum Kept {
    /// It is not executed yet.
    Operation(Effect),
    /// It was executed, and this is the answer.
    Answer(Reply),
}

impl Worker {
    /// Keeps the answer to an operation that began while its request was served.
    pub(super) fn keep_answer(&mut self, id: RequestId, reply: Reply) {
        self.kept.push_back((id, Kept::Answer(reply)));
    }
}

impl World {
    /// Creates another worker of the same server: with the same store, shares and records, and its
    /// own connections. Operations of the store are executed by [`World::release_one`].
    #[must_use]
    pub fn beside(&self, seed: u64, id: ServerId) -> Self {
        let first = self.inner();
        let (files, store) = (first.files.clone(), Rc::clone(&self.store));
        let mut inner = Inner::new(seed, accounts::settings(), id, files, store);
        inner.shares = first.shares.clone();
        inner.worker = Some(Worker::default());
        Self { inner: Rc::new(RefCell::new(inner)), store: Rc::clone(&self.store) }
    }

    /// Kills the worker: its connections end, its descriptors are closed, and nothing else happens.
    ///
    /// # Panics
    /// If this is not a worker.
    pub fn die(&self) {
        let mut inner = self.inner();
        inner.connections.values_mut().for_each(Wire::lose);
        let worker = inner.worker.as_mut().expect("one of several workers");
        let descriptors = std::mem::take(&mut worker.descriptors);
        worker.kept.clear();
        let now = inner.clock.now().wall;
        for open in descriptors {
            let close = ObjectOp::Close { open, unlink: false };
            // The kernel closes them without an operation, and without a reply.
            let _ = self.store().perform(now, close);
        }
    }

    /// Does the supervisor's work after a worker's death: delegates its deletions to another one.
    /// Returns the workers to notify, by file.
    ///
    /// # Panics
    /// If memory is full.
    #[must_use]
    pub fn remove_worker(
        &self,
        worker: ServerId,
        deletion_owner: ServerId,
    ) -> Vec<(FileKey, Vec<ServerId>)> {
        let inner = self.inner();
        let now = inner.clock.now().monotonic;
        remove_dead(&inner.files.handle(), worker, deletion_owner, now)
    }

    /// Works as [`World::scavenge`]. Returns the workers to notify, by file.
    ///
    /// # Panics
    /// If memory is full.
    #[must_use]
    pub fn scavenge_files(&self, deletion_owner: ServerId) -> Vec<(FileKey, Vec<ServerId>)> {
        let inner = self.inner();
        let now = inner.clock.now().monotonic;
        scavenge(&inner.files.handle(), deletion_owner, now)
    }

    /// Takes the workers to notify and their files.
    ///
    /// # Panics
    /// If this is not a worker.
    #[must_use]
    pub fn take_notifications(&self) -> Vec<(ServerId, FileKey)> {
        let mut inner = self.inner();
        std::mem::take(&mut inner.worker.as_mut().expect("one of several workers").notifications)
    }

    /// Takes the data of every WRITE since the last call, in the order of execution.
    ///
    /// # Panics
    /// If this is not a worker.
    #[must_use]
    pub fn take_writes(&self) -> Vec<Vec<u8>> {
        let mut inner = self.inner();
        std::mem::take(&mut inner.worker.as_mut().expect("one of several workers").writes)
    }

    /// Notifies this worker that a file's record has changed.
    pub fn check_file(&self, file: FileKey) {
        let mut inner = self.inner();
        let now = inner.clock.now();
        inner.server.handle_file_changed(now, file);
        inner.pump();
    }

    /// Number of operations of the store that were not executed, or not answered.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.inner().worker.as_ref().map_or(0, |worker| worker.kept.len())
    }

    /// Executes and answers one operation of the store: the oldest is 0.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn release_one(&self, index: usize) {
        let mut inner = self.inner();
        let worker = inner.worker.as_mut().expect("one of several workers");
        let (id, kept) = worker.kept.remove(index).expect("so much is kept");
        let reply = match kept {
            Kept::Operation(effect) => inner.answer(effect).expect("a request waits for it"),
            Kept::Answer(reply) => reply,
        };
        let now = inner.clock.now();
        inner.server.handle_reply(now, id, reply);
        inner.pump();
    }

    /// Time of the next timeout.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Duration> {
        self.inner().server.poll_timeout()
    }

    /// Returns the opens of files that this worker serves.
    #[must_use]
    pub fn file_opens(&self) -> Vec<(FileKey, u64)> {
        self.inner().server.file_opens().collect()
    }

    /// Returns the records of files that are not empty.
    #[must_use]
    pub fn records(&self) -> HashMap<FileKey, FileRecord> {
        self.files().into_iter().collect()
    }
}

impl Wire {
    fn lose(&mut self) {
        self.gone = true;
        self.inbox.clear();
    }
}

impl Inner {
    /// Queues an operation of the store, if this is one of several workers.
    pub(super) fn keep(
        &mut self,
        id: Option<RequestId>,
        effect: Effect,
    ) -> Option<(Option<RequestId>, Effect)> {
        match (&mut self.worker, id, effect) {
            (Some(worker), Some(id), effect @ Effect::Object { .. }) => {
                worker.kept.push_back((id, Kept::Operation(effect)));
                None
            }
            (_, id, effect) => Some((id, effect)),
        }
    }

    pub(super) fn perform(&mut self, op: ObjectOp) -> ObjectResult {
        let now = self.clock.now().wall;
        perform(&self.store, self.worker.as_mut(), now, op)
    }
}

/// Executes an operation of the store, for a worker if there are several.
pub(super) fn perform(
    store: &RefCell<MemoryStore>,
    mut worker: Option<&mut Worker>,
    now: FileTime,
    op: ObjectOp,
) -> ObjectResult {
    if let Some(worker) = &mut worker {
        match &op {
            ObjectOp::Close { open, .. } | ObjectOp::CloseAndUnlinkFile { open } => {
                worker.descriptors.remove(open);
            }
            ObjectOp::Write { data, piped: None, .. } => worker.writes.push(data.to_vec()),
            ObjectOp::Write { .. } => panic!("nothing is piped in a simulation"),
            _ => {}
        }
    }
    let result = store.borrow_mut().perform(now, op);
    if let (Some(worker), Ok(ObjectReply::Opened(opened))) = (worker, &result) {
        worker.descriptors.insert(opened.open);
    }
    result
}

/// Removes a dead worker from all files. Returns the workers to notify, by file.
pub(super) fn remove_dead(
    files: &FileTable<MemoryTable>,
    worker: ServerId,
    deletion_owner: ServerId,
    now: Duration,
) -> Vec<(FileKey, Vec<ServerId>)> {
    let mut dead = DeadWorkers::default();
    dead.add(worker);
    let mut to_notify = Vec::new();
    while !dead.is_empty() {
        let (removed, error) = files.remove_dead(&mut dead, deletion_owner, now);
        assert!(error.is_none(), "memory is readable");
        to_notify.extend(removed);
    }
    to_notify
}

/// Does the supervisor's periodic work, batch by batch. Returns the workers to notify, by file.
///
/// # Panics
/// If memory is full.
pub(super) fn scavenge(
    files: &FileTable<MemoryTable>,
    deletion_owner: ServerId,
    now: Duration,
) -> Vec<(FileKey, Vec<ServerId>)> {
    let mut to_notify = Vec::new();
    loop {
        let scavenged = files.scavenge(deletion_owner, now).expect("memory is there");
        to_notify.extend(scavenged.to_notify);
        if !scavenged.has_more {
            return to_notify;
        }
    }
}
