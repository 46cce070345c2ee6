//! The loop of a storage thread.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use object::StoreNumber;
use process::Mailbox;
use slab::Slab;
use store::{Continuation, MovingStore, Started, Store};
use uring::{Backend, Completion, Driver, Limits, Op, Reason, Refused, Token};

use super::{Done, MakeStore, Order, Outcome};
use crate::local_storage::SLOW_OPERATION;

/// Token of the wake-up for orders; an operation has its index.
const ORDERS: Token = Token(u64::MAX);

/// Orders that a thread carries out before it looks at what the ring has done.
const ORDERS_PER_TURN: usize = 64;

/// State of a storage thread.
struct StorageLoop<W> {
    number: StoreNumber,
    store: Store,
    driver: Driver,
    /// Operations that the ring works on, with their numbers.
    pending: Slab<(usize, Continuation)>,
    /// Operations that the driver had no room for.
    refused: VecDeque<(Token, Op)>,
    done: Arc<Mailbox<Done<W>>>,
}

/// Starts a thread; the returned function gives it its store.
///
/// # Errors
/// There are no resources for it.
pub(super) fn start<W: 'static>(
    orders: Arc<Mailbox<Order<W>>>,
    done: Arc<Mailbox<Done<W>>>,
) -> io::Result<Box<dyn FnOnce(MakeStore)>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let (give, given) = mpsc::sync_channel::<MakeStore>(1);
    // Nobody waits for its end: a file system that hangs would keep the worker from ending.
    thread::Builder::new().name("storage".to_owned()).spawn(move || {
        // A driver and a store belong to their thread.
        let (driver, outcome) = match Driver::new(Backend::Auto, Limits::default()) {
            Ok(driver) => (Some(driver), Ok(())),
            Err(error) => (None, Err(error)),
        };
        sender.send(outcome).expect("it is waited for below");
        let Some(driver) = driver else { return };
        let Ok(make) = given.recv() else { return };
        let store = make();
        let number = store.number();
        let (pending, refused) = (Slab::new(), VecDeque::new());
        let mut storage = StorageLoop { number, store, driver, pending, refused, done };
        if let Err(error) = storage.run(&orders) {
            // The requests are lost: a new process is better.
            panic!("a storage thread cannot go on: {error}");
        }
    })?;
    receiver.recv().expect("the thread sends it before anything else")?;
    Ok(Box::new(move |make| give.send(make).expect("the thread waits for it")))
}

impl<W> StorageLoop<W> {
    fn run(&mut self, orders: &Mailbox<Order<W>>) -> io::Result<()> {
        let mut completions = Vec::new();
        let fd = orders.wake_source().as_raw_fd();
        self.submit(ORDERS, Op::PollReadable { fd });
        let mut is_wanted = true;
        while is_wanted {
            self.driver.wait(None, &mut completions)?;
            for Completion { token, op, result } in completions.drain(..) {
                if token != ORDERS {
                    self.complete(token, op, result);
                    continue;
                }
                // One after the other: those that wait can be taken back.
                for _ in 0..ORDERS_PER_TURN {
                    let Some(order) = orders.take_first() else { break };
                    is_wanted &= self.carry_out(order);
                }
                self.submit(ORDERS, Op::PollReadable { fd });
            }
            for _ in 0..self.refused.len() {
                let Some((token, op)) = self.refused.pop_front() else { break };
                self.submit(token, op);
            }
        }
        Ok(())
    }

    /// Carries out an order. Returns false for the last one.
    fn carry_out(&mut self, order: Order<W>) -> bool {
        match order {
            Order::End => return false,
            Order::Leave(give) => return !self.leave(&give),
            Order::Register(user) => {
                self.store.register_user(user);
            }
            Order::Start { slot, user, op } => {
                let began = Instant::now();
                let started = self.store.start(user, op);
                let is_slow = began.elapsed() >= SLOW_OPERATION;
                self.advance(slot, started, is_slow && self.number == StoreNumber::default());
            }
            Order::Call(call) => {
                let completed = call(&mut self.store);
                self.report(Outcome::Call(completed));
            }
        }
        true
    }

    /// Gives the store back. Otherwise the end of the channel says that it is not possible.
    fn leave(&mut self, give: &mpsc::SyncSender<MovingStore>) -> bool {
        if !self.pending.is_empty() {
            return false;
        }
        let empty = self.store.empty_copy();
        match std::mem::replace(&mut self.store, empty).leave() {
            Ok(store) => {
                give.send(store).expect("the worker waits for it");
                true
            }
            Err(store) => {
                self.store = *store;
                false
            }
        }
    }

    fn complete(&mut self, Token(token): Token, op: Op, result: io::Result<usize>) {
        let place = usize::try_from(token).expect("an index");
        let (slot, continuation) = self.pending.remove(place);
        let started = self.store.finish(continuation, op, result);
        self.advance(slot, started, false);
    }

    fn advance(&mut self, slot: usize, started: Started, is_slow: bool) {
        match started {
            Started::Done(result) => self.report(Outcome::Object { slot, result, is_slow }),
            Started::Submit(op, continuation) => {
                let place = self.pending.insert((slot, continuation));
                self.submit(Token(u64::try_from(place).expect("an index")), op);
            }
        }
    }

    fn report(&self, outcome: Outcome<W>) {
        let is_unused = self.store.is_unused();
        self.done.put(Done { number: self.number, is_unused, outcome });
    }

    fn submit(&mut self, token: Token, op: Op) {
        match self.driver.submit(token, op) {
            Ok(()) => {}
            Err(Refused { op, reason: Reason::Full }) => self.refused.push_back((token, op)),
            // Ranges were checked by the engine, and buffers have room.
            Err(Refused { op, reason }) => panic!("{op:?} failed: {reason:?}"),
        }
    }
}
