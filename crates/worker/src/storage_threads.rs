//! Threads for shares whose storage may wait long, so that it stalls no other share.
//!
//! A thread has a [`Store`] of its own, with the shares of one file system. It carries out the
//! operations of a share in the order of their requests, as the worker's thread does for other
//! shares; only READs may be overtaken, by waiting for room or for the disk. It uses a ring of its
//! own for reads outside the page cache. The queue of a thread is bounded as requests are: by
//! credits, and by the memory of a client, which all of its shares have in common.

pub(super) mod mounts;
mod reads;
mod thread;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::{ObjectOp, ObjectResult, RootId, StoreNumber, UserId};
use rustc_hash::FxHashMap;
use store::{Credentials, Store, StoreSettings};

use super::mailbox::Mailbox;
use reads::Reads;
pub(super) use reads::WaitingRead;

/// Highest number of file systems of one client that have threads. Each costs the stack of a
/// thread and a ring.
const STORAGE_THREADS_MAX: usize = 32;

/// Work for the store of a thread that is no operation of a request.
pub(super) type Call<W> = Box<dyn FnOnce(&mut Store) -> Completed<W> + Send>;

/// The end of a call, for the worker `W`.
pub(super) type Completed<W> = Box<dyn FnOnce(&mut W) + Send>;

/// Something for a thread to do.
enum Order<W> {
    /// A user whom later orders name.
    Register(Credentials),
    Start {
        /// Number of the operation for the worker.
        slot: usize,
        user: UserId,
        op: ObjectOp,
    },
    Call(Call<W>),
}

/// A result of a thread.
pub(super) enum Done<W> {
    /// The operation with this number has ended.
    Object(usize, ObjectResult),
    Call(Completed<W>),
}

/// The threads of a worker; none until a client connects to a share that may wait.
#[derive(Debug)]
pub(super) struct StorageThreads<W> {
    /// Sorted by the number of the store, from 1 on.
    threads: Vec<StorageThread<W>>,
    done: Option<Arc<Mailbox<Done<W>>>>,
    devices: FxHashMap<RootId, u64>,
    /// Calls that have not ended.
    calls: usize,
}

#[derive(Debug)]
struct StorageThread<W> {
    /// Mount point of its file system.
    mount: PathBuf,
    orders: Arc<Mailbox<Order<W>>>,
    users_known: usize,
    reads: Reads,
}

impl<W> Default for StorageThreads<W> {
    fn default() -> Self {
        Self { threads: Vec::new(), done: None, devices: FxHashMap::default(), calls: 0 }
    }
}

impl<W: 'static> StorageThreads<W> {
    /// True if no share may wait.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// True if no call is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.calls == 0
    }

    /// Descriptor that becomes readable with the next result; none without threads.
    pub(super) fn wake_source(&self) -> Option<RawFd> {
        self.done.as_ref().map(|done| done.wake_source().as_raw_fd())
    }

    /// Returns the results since the last call.
    pub(super) fn take_done(&mut self) -> VecDeque<Done<W>> {
        let done = self.done.as_ref().map(|done| done.take()).unwrap_or_default();
        self.calls -= done.iter().filter(|done| matches!(done, Done::Call(_))).count();
        done
    }

    /// The store of a file system, if it has a thread.
    pub(super) fn find(&self, mount: &Path) -> Option<StoreNumber> {
        let place = self.threads.iter().position(|thread| thread.mount == mount)?;
        Some(StoreNumber(u8::try_from(place + 1).expect("few threads")))
    }

    /// Starts a thread for a file system. It inherits the rights of this thread, which must be the
    /// server's.
    ///
    /// # Errors
    /// There are too many threads, or no resources for one.
    pub(super) fn start(
        &mut self,
        mount: PathBuf,
        settings: StoreSettings,
    ) -> io::Result<StoreNumber> {
        if self.threads.len() >= STORAGE_THREADS_MAX {
            return Err(io::Error::other("too many file systems have threads"));
        }
        let number = StoreNumber(u8::try_from(self.threads.len() + 1).expect("few threads"));
        let done = match &self.done {
            Some(done) => Arc::clone(done),
            None => Arc::clone(self.done.insert(Arc::new(Mailbox::new()?))),
        };
        let orders = Arc::new(Mailbox::new()?);
        let settings = StoreSettings { number, ..settings };
        thread::start(settings, Arc::clone(&orders), done)?;
        self.threads.push(StorageThread { mount, orders, users_known: 0, reads: Reads::default() });
        Ok(number)
    }

    /// Has a thread carry out an operation.
    pub(super) fn submit(&mut self, users: &Store, slot: usize, user: UserId, op: ObjectOp) {
        let number = op.store();
        self.order(users, number, Order::Start { slot, user, op });
    }

    /// Returns a READ that may begin, or keeps it until earlier ones have ended.
    pub(super) fn admit(&mut self, read: WaitingRead) -> Option<WaitingRead> {
        self.reads(read.op.store())?.admit(read)
    }

    /// Notes the end of a READ of this length; returns those that may begin now.
    pub(super) fn read_ended(&mut self, number: StoreNumber, length: usize) -> Vec<WaitingRead> {
        let Some(reads) = self.reads(number) else { return Vec::new() };
        reads.end(length);
        std::iter::from_fn(|| reads.next()).collect()
    }

    fn reads(&mut self, number: StoreNumber) -> Option<&mut Reads> {
        let place = usize::from(number.0).checked_sub(1)?;
        self.threads.get_mut(place).map(|thread| &mut thread.reads)
    }

    /// Has a thread work with its store.
    pub(super) fn call(&mut self, users: &Store, number: StoreNumber, call: Call<W>) {
        self.calls += 1;
        self.order(users, number, Order::Call(call));
    }

    /// Gives a thread an order, behind the users that it does not know yet.
    fn order(&mut self, users: &Store, number: StoreNumber, order: Order<W>) {
        let thread = &mut self.threads[usize::from(number.0) - 1];
        let users = users.users();
        let known = std::mem::replace(&mut thread.users_known, users.len());
        for user in users.skip(known) {
            thread.orders.put(Order::Register(user.clone()));
        }
        thread.orders.put(order);
    }

    /// The kernel's number of the device of a share.
    pub(super) fn device(&self, root: RootId) -> Option<u64> {
        self.devices.get(&root).copied()
    }

    pub(super) fn root_opened(&mut self, root: RootId, device: Option<u64>) {
        self.devices.extend(device.map(|device| (root, device)));
    }

    pub(super) fn root_closed(&mut self, root: RootId) {
        self.devices.remove(&root);
    }
}
