//! Threads for shares whose storage may wait long, so that it stalls no other share.
//!
//! A thread has a [`Store`] of its own, with the shares of one file system. It carries out the
//! operations of a share in the order of their requests, as the worker's thread does for other
//! shares; only READs may be overtaken, by waiting for room or for the disk. It uses a ring of its
//! own for reads outside the page cache.
//!
//! All shares of a client have its memory in common. Requests that wait keep their credits once
//! they hold much of it ([`StorageLoad`]), so that a client cannot fill it with them. Storage that
//! is merely slow is waited for: at the limit nothing more is received from the client. Where a
//! thread [hangs](load::HANG_TIME), further requests are refused, and those that it has not begun,
//! until no more than a part of the memory waits for threads.

mod load;
pub(super) mod mounts;
mod reads;
mod thread;

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use object::{ExtendedAttribute, ObjectOp, ObjectResult, Piped, RootId, StoreNumber, UserId};
use process::Mailbox;
use proto::StorageLoad;
use rustc_hash::FxHashMap;
use store::{Credentials, MovingStore, Store, StoreSettings};

use load::Load;
use reads::Reads;
pub(super) use reads::WaitingRead;

/// Highest number of file systems of one client that have threads. Each costs the stack of a
/// thread and a ring. One more file system has the thread of one without opens and shares.
const STORAGE_THREADS_MAX: usize = 32;

/// Part of what may wait for a client that requests for threads may hold once one of them hangs:
/// the other half is for the shares that go on.
const HELD_PART: usize = 2;

/// Memory of a request that waits for a thread in bytes, beside its data.
const OPERATION_BYTES: usize = 4 * 1024;

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
    /// The last order of a thread, which ends it.
    End,
    /// The same if nothing is under way: the thread gives its store back.
    Leave(SyncSender<MovingStore>),
}

/// The end of an order.
struct Done<W> {
    number: StoreNumber,
    /// True if it has left the store without opens and roots.
    is_unused: bool,
    outcome: Outcome<W>,
}

/// A result of a thread.
pub(super) enum Outcome<W> {
    /// An operation of a request has ended.
    Object {
        /// Number of the operation for the worker.
        slot: usize,
        result: ObjectResult,
        /// The thread has waited long for it.
        is_slow: bool,
    },
    Call(Completed<W>),
}

/// The threads of a worker; none until a client connects to a share that may wait.
#[derive(Debug)]
pub(super) struct StorageThreads<W> {
    threads: Vec<StorageThread<W>>,
    /// The number that was given out last. They are used in turn, so that what was kept about a
    /// root is forgotten before another one has its id.
    last_number: u8,
    done: Option<Arc<Mailbox<Done<W>>>>,
    /// The worker waits for results.
    is_watched: bool,
    devices: FxHashMap<RootId, u64>,
    /// Calls that have not ended.
    calls: usize,
    /// Bytes that requests may hold once a thread hangs.
    held_max: usize,
    /// Bytes that all requests hold which threads have, for the engine.
    total: StorageLoad,
}

/// A thread that waits for its store.
pub(super) struct PreparedThread<W> {
    orders: Arc<Mailbox<Order<W>>>,
    /// Gives it the store that a function makes.
    give: Box<dyn FnOnce(MakeStore)>,
}

/// Makes the store of a thread, on that thread.
type MakeStore = Box<dyn FnOnce() -> Store + Send>;

#[derive(Debug)]
struct StorageThread<W> {
    number: StoreNumber,
    /// Mount point of its file system.
    mount: PathBuf,
    orders: Arc<Mailbox<Order<W>>>,
    users_known: usize,
    reads: Reads,
    load: Load,
}

impl<W: 'static> StorageThreads<W> {
    /// No threads yet; `total` is the sum of what their requests will hold.
    pub(super) fn new(total: StorageLoad) -> Self {
        Self {
            threads: Vec::new(),
            last_number: 0,
            done: None,
            is_watched: false,
            devices: FxHashMap::default(),
            calls: 0,
            held_max: usize::MAX,
            total,
        }
    }

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

    /// True if there may be results, the first time.
    pub(super) fn begins_to_be_watched(&mut self) -> bool {
        self.done.is_some() && !std::mem::replace(&mut self.is_watched, true)
    }

    /// Returns the results since the last call.
    pub(super) fn take_done(&mut self, now: Duration) -> Vec<Outcome<W>> {
        let done = self.done.as_ref().map(|done| done.take()).unwrap_or_default();
        let ended = |Done { number, is_unused, outcome }| {
            self.calls -= usize::from(matches!(outcome, Outcome::Call(_)));
            self.thread(number).load.end(now, is_unused);
            outcome
        };
        done.into_iter().map(ended).collect()
    }

    /// True if the store with this number has a thread.
    pub(super) fn has(&self, number: StoreNumber) -> bool {
        self.threads.iter().any(|thread| thread.number == number)
    }

    /// The stores of file systems that have threads, without that of the local ones.
    pub(super) fn numbers(&self) -> Vec<StoreNumber> {
        let numbers = self.threads.iter().map(|thread| thread.number);
        numbers.filter(|number| *number != StoreNumber::default()).collect()
    }

    /// True for a store that is not the worker's own at the moment.
    pub(super) fn serves(&self, number: StoreNumber) -> bool {
        number != StoreNumber::default() || self.has(number)
    }

    /// The store of a file system, if it has a thread.
    pub(super) fn find(&self, mount: &Path) -> Option<StoreNumber> {
        self.threads.iter().find(|thread| thread.mount == mount).map(|thread| thread.number)
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
        if self.threads.len() >= STORAGE_THREADS_MAX && !self.end_unused() {
            return Err(io::Error::other("too many file systems have threads"));
        }
        let number = self.next_number();
        let settings = StoreSettings { number, ..settings };
        let thread = self.prepare()?;
        self.run(thread, (number, mount, 0), Box::new(move || Store::new(settings)));
        Ok(number)
    }

    /// Starts a thread that waits for its store.
    ///
    /// # Errors
    /// There are no resources for it.
    pub(super) fn prepare(&mut self) -> io::Result<PreparedThread<W>> {
        let done = match &self.done {
            Some(done) => Arc::clone(done),
            None => Arc::clone(self.done.insert(Arc::new(Mailbox::new()?))),
        };
        let orders = Arc::new(Mailbox::new()?);
        let give = thread::start(Arc::clone(&orders), done)?;
        Ok(PreparedThread { orders, give })
    }

    fn run(
        &mut self,
        thread: PreparedThread<W>,
        (number, mount, users_known): (StoreNumber, PathBuf, usize),
        make: MakeStore,
    ) {
        let PreparedThread { orders, give } = thread;
        give(make);
        let (mut reads, load) = (Reads::default(), Load::default());
        reads.set_held_max(self.held_max);
        self.threads.push(StorageThread { number, mount, orders, users_known, reads, load });
        self.total.set_has_threads(true);
    }

    /// Gives the store of local file systems, which knows so many users, to a thread.
    pub(super) fn start_local(
        &mut self,
        thread: PreparedThread<W>,
        store: MovingStore,
        users_known: usize,
    ) {
        let local = (StoreNumber::default(), PathBuf::new(), users_known);
        self.run(thread, local, Box::new(move || store.arrive()));
    }

    /// Takes the store of local file systems back from its thread, which has nothing to do. None if
    /// it is not possible now.
    pub(super) fn take_local(&mut self) -> Option<MovingStore> {
        let is_local = |thread: &StorageThread<W>| thread.number == StoreNumber::default();
        let place = self.threads.iter().position(is_local)?;
        let (give, given) = sync_channel(1);
        self.threads[place].orders.put(Order::Leave(give));
        let store = given.recv().ok()?;
        self.threads.remove(place);
        self.total.set_has_threads(!self.threads.is_empty());
        Some(store)
    }

    /// Ends a thread that nothing refers to. Returns whether there was one.
    fn end_unused(&mut self) -> bool {
        let is_unused = |thread: &StorageThread<W>| {
            thread.number != StoreNumber::default() && thread.load.is_unused()
        };
        let place = self.threads.iter().position(is_unused);
        let Some(place) = place else { return false };
        self.threads.remove(place).orders.put(Order::End);
        true
    }

    fn next_number(&mut self) -> StoreNumber {
        loop {
            self.last_number = self.last_number.checked_add(1).unwrap_or(1);
            let number = StoreNumber(self.last_number);
            if self.threads.iter().all(|thread| thread.number != number) {
                return number;
            }
        }
    }

    /// Sets the number of bytes that may wait for the client, in all of its shares together.
    pub(super) fn set_in_transit_max(&mut self, bytes: usize) {
        let held_max = bytes / HELD_PART;
        if std::mem::replace(&mut self.held_max, held_max) != held_max {
            self.threads.iter_mut().for_each(|thread| thread.reads.set_held_max(held_max));
        }
    }

    /// Bytes that all requests hold which threads have.
    fn held(&self) -> usize {
        self.total.bytes()
    }

    /// True if an operation may wait for its thread: always unless one hangs. Threads that go on
    /// have half as much again, but not for what they could add to those that hang.
    pub(super) fn accepts(&self, op: &ObjectOp, now: Duration) -> bool {
        let hanging = self.threads.iter().filter(|thread| thread.load.is_hanging(now));
        let (mut hang, mut held_by_hanging) = (false, 0);
        for thread in hanging {
            hang |= thread.number == op.store();
            held_by_hanging += thread.load.bytes();
        }
        if held_by_hanging == 0 || !may_be_refused(op) {
            return true;
        }
        let wanted = data_bytes(op) + OPERATION_BYTES;
        match hang {
            true => self.held() + wanted <= self.held_max,
            false => held_by_hanging + wanted <= self.held_max + self.held_max / 2,
        }
    }

    /// Notes that a request holds memory until [`Self::release`]. Returns the bytes.
    pub(super) fn hold(&mut self, op: &ObjectOp) -> usize {
        let data = if matches!(op, ObjectOp::Read { .. }) { 0 } else { data_bytes(op) };
        let bytes = data + OPERATION_BYTES;
        self.thread(op.store()).load.hold(bytes);
        self.total.hold(bytes);
        bytes
    }

    /// Notes that a READ has its buffer from now on.
    pub(super) fn hold_buffer(&mut self, number: StoreNumber, bytes: usize) {
        self.thread(number).load.hold(bytes);
        self.total.hold(bytes);
    }

    pub(super) fn release(&mut self, number: StoreNumber, bytes: usize) {
        self.thread(number).load.release(bytes);
        self.total.release(bytes);
    }

    /// Returns the time of the next call of [`Self::take_excess`], if nothing ends before.
    pub(super) fn next_timeout(&self) -> Option<Duration> {
        let hang = || self.threads.iter().filter_map(|thread| thread.load.hangs_at()).min();
        (self.held() > self.held_max).then(hang).flatten()
    }

    /// Takes back the last request that a thread that hangs has not begun, if requests hold too
    /// much. Returns its number.
    pub(super) fn take_excess(&mut self, now: Duration) -> Option<usize> {
        if self.held() <= self.held_max {
            return None;
        }
        for thread in &mut self.threads {
            thread.load.search(now);
        }
        let mut hanging = self.threads.iter_mut().filter(|thread| thread.load.is_hanging(now));
        hanging.find_map(|thread| thread.withdraw_last(may_be_refused))
    }

    /// Takes back an operation that its thread has not begun. Returns false if it has begun, or if
    /// taking it back would leave something undone.
    pub(super) fn withdraw(&mut self, number: StoreNumber, slot: usize) -> bool {
        let thread = self.thread(number);
        let is_data = |op: &ObjectOp| matches!(op, ObjectOp::Read { .. } | ObjectOp::Write { .. });
        thread.reads.withdraw(slot)
            || thread.take_back(|it, op| it == slot && is_data(op)).is_some()
    }

    fn thread(&mut self, number: StoreNumber) -> &mut StorageThread<W> {
        let mut threads = self.threads.iter_mut();
        threads.find(|thread| thread.number == number).expect("what refers to it keeps it")
    }

    /// Has a thread carry out an operation.
    pub(super) fn submit(
        &mut self,
        (users, now): (&Store, Duration),
        slot: usize,
        user: UserId,
        op: ObjectOp,
    ) {
        let number = op.store();
        self.order((users, now), number, Order::Start { slot, user, op });
    }

    /// Returns a READ that may begin, or keeps it until earlier ones have ended.
    pub(super) fn admit(&mut self, read: WaitingRead) -> Option<WaitingRead> {
        self.thread(read.op.store()).reads.admit(read)
    }

    /// Notes the end of a READ of this length; returns those that may begin now.
    pub(super) fn read_ended(&mut self, number: StoreNumber, length: usize) -> Vec<WaitingRead> {
        let reads = &mut self.thread(number).reads;
        reads.end(length);
        std::iter::from_fn(|| reads.next()).collect()
    }

    /// Has a thread work with its store.
    pub(super) fn call(
        &mut self,
        (users, now): (&Store, Duration),
        number: StoreNumber,
        call: Call<W>,
    ) {
        self.calls += 1;
        self.order((users, now), number, Order::Call(call));
    }

    /// Gives a thread an order, behind the users that it does not know yet.
    fn order(&mut self, (users, now): (&Store, Duration), number: StoreNumber, order: Order<W>) {
        let thread = self.thread(number);
        thread.load.begin(now);
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

impl<W> StorageThread<W> {
    /// Takes back the last request that the thread has not begun. Returns its number.
    fn withdraw_last(&mut self, fits: impl Fn(&ObjectOp) -> bool) -> Option<usize> {
        // First those with data: READs that wait have no buffer.
        self.take_back(|_, op| fits(op)).or_else(|| self.reads.withdraw_last())
    }

    /// Takes back the last operation that fits, by its number and itself.
    fn take_back(&mut self, fits: impl Fn(usize, &ObjectOp) -> bool) -> Option<usize> {
        let fits = |order: &Order<W>| match order {
            Order::Start { slot, op, .. } => fits(*slot, op),
            Order::Register(_) | Order::Call(_) | Order::End | Order::Leave(_) => false,
        };
        let Some(Order::Start { slot, .. }) = self.orders.take_last(fits) else { return None };
        self.load.withdraw();
        Some(slot)
    }
}

/// Bytes of the data of a READ or WRITE.
fn data_bytes(op: &ObjectOp) -> usize {
    match op {
        ObjectOp::Read { length, .. } => usize::try_from(*length).expect("32 bits fit memory"),
        ObjectOp::Write { data, piped, .. } => data.len() + piped.as_ref().map_or(0, Piped::length),
        ObjectOp::WriteExtendedAttributes { attributes, .. } => attribute_bytes(attributes),
        ObjectOp::Open(open) => attribute_bytes(&open.extended_attributes),
        _ => 0,
    }
}

fn attribute_bytes(attributes: &[ExtendedAttribute]) -> usize {
    let content = |it: &ExtendedAttribute| it.name.len() + it.value.len();
    size_of_val(attributes) + attributes.iter().map(content).sum::<usize>()
}

/// True for operations of requests that a client may have many of, and that leave nothing undone
/// when they fail.
fn may_be_refused(op: &ObjectOp) -> bool {
    matches!(
        op,
        ObjectOp::Flush { .. }
            | ObjectOp::Open(_)
            | ObjectOp::Read { .. }
            | ObjectOp::ReadDirectory { .. }
            | ObjectOp::Write { .. }
    )
}
