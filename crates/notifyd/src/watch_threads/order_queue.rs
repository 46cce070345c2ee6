//! Orders for a watch thread: the latest one for each path.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object::FileIdentity;
use process::WakeUp;

use crate::watchers::WatchParameters;

/// Paths with orders that a thread has not taken. A thread that hangs takes none.
const ORDERS_MAX: usize = 16_384;

/// Orders for a thread, by path.
#[derive(Debug)]
pub(super) struct OrderQueue {
    state: Mutex<State>,
    /// Wakes the thread while orders wait for it.
    wake: WakeUp,
}

#[derive(Debug, Default)]
struct State {
    orders: HashMap<Arc<str>, Order>,
    /// Paths that the thread was told to watch.
    watched: HashSet<Arc<str>>,
    has_ended: bool,
}

/// Work that a thread has on one path.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Order {
    /// Directory that the path has to lead to.
    pub(super) check: Option<FileIdentity>,
    /// The watch of the path, if it changes.
    pub(super) change: Option<Change>,
}

/// Change of the watch of a path.
#[derive(Debug, PartialEq)]
pub(super) enum Change {
    Watch(WatchParameters),
    Unwatch,
}

impl OrderQueue {
    /// Begins without orders.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { state: Mutex::default(), wake: WakeUp::new()? })
    }

    /// Descriptor that is readable while orders wait.
    pub(super) fn wake_source(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Changes the order for a path; none if the thread has ended.
    pub(super) fn order(
        &self,
        path: &Arc<str>,
        change: impl Fn(&mut Order),
    ) -> Option<io::Result<()>> {
        let mut state = self.lock();
        if state.has_ended {
            return None;
        }
        if state.orders.len() >= ORDERS_MAX && !state.orders.contains_key(path) {
            return Some(Err(io::Error::other("its file system takes too long")));
        }
        change(state.orders.entry(Arc::clone(path)).or_default());
        drop(state);
        self.wake.wake();
        Some(Ok(()))
    }

    /// Ends the watch of a path, or takes back the order for it. A check stays: it is for another
    /// watch of the path.
    pub(super) fn unwatch(&self, path: &Arc<str>) {
        let mut state = self.lock();
        if state.watched.contains(path) {
            state.orders.entry(Arc::clone(path)).or_default().change = Some(Change::Unwatch);
        } else if let Some(order) = state.orders.get_mut(path) {
            order.change = None;
            if order.check.is_none() {
                state.orders.remove(path);
            }
        }
        drop(state);
        self.wake.wake();
    }

    /// Takes the orders. None if there are none and nothing is watched: the thread has to end.
    pub(super) fn take(&self) -> Option<HashMap<Arc<str>, Order>> {
        self.wake.clear();
        let mut state = self.lock();
        let orders = std::mem::take(&mut state.orders);
        for (path, order) in &orders {
            match order.change {
                Some(Change::Watch(_)) => state.watched.insert(Arc::clone(path)),
                Some(Change::Unwatch) => state.watched.remove(path),
                None => false,
            };
        }
        state.has_ended = orders.is_empty() && state.watched.is_empty();
        (!state.has_ended).then_some(orders)
    }

    /// True if the thread has a path to watch.
    pub(super) fn is_watching(&self) -> bool {
        !self.lock().watched.is_empty()
    }

    /// True if the thread has ended, and takes no orders.
    pub(super) fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics with the lock held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(queue: &OrderQueue, path: &str) -> bool {
        let change = |order: &mut Order| {
            order.change = Some(Change::Watch(WatchParameters::default()));
        };
        queue.order(&path.into(), change).is_some_and(|outcome| outcome.is_ok())
    }

    #[test]
    fn a_watch_that_ends_before_its_thread_takes_it_leaves_nothing() {
        let queue = OrderQueue::new().expect("there are descriptors");
        assert!(watch(&queue, "a") && watch(&queue, "b"));
        queue.unwatch(&"b".into());
        let orders = queue.take().expect("the thread has work");
        assert_eq!(orders.keys().map(|path| &**path).collect::<Vec<_>>(), ["a"]);
        queue.unwatch(&"a".into());
        let orders = queue.take().expect("the thread has work");
        assert_eq!(orders["a"].change, Some(Change::Unwatch));
        assert!(!queue.has_ended());
        assert!(queue.take().is_none() && queue.has_ended());
        assert!(!watch(&queue, "a"), "nobody would take it");
    }

    #[test]
    fn a_check_stays_when_the_order_for_a_watch_is_taken_back() {
        let queue = OrderQueue::new().expect("there are descriptors");
        let identity = FileIdentity { device: 1, inode: 2, ..FileIdentity::default() };
        queue
            .order(&"a".into(), |order| order.check = Some(identity))
            .expect("it runs")
            .expect("room");
        assert!(watch(&queue, "a"));
        queue.unwatch(&"a".into());
        let orders = queue.take().expect("the thread has work");
        assert_eq!(orders["a"], Order { check: Some(identity), change: None });
        assert!(queue.take().is_none(), "it has nothing to watch");
    }

    #[test]
    fn a_thread_that_hangs_has_a_bounded_number_of_orders() {
        let queue = OrderQueue::new().expect("there are descriptors");
        assert!((0..ORDERS_MAX).all(|number| watch(&queue, &number.to_string())));
        assert!(!watch(&queue, "one more"));
        assert!(watch(&queue, "0"), "one that has an order already");
        queue.unwatch(&"0".into());
        assert!(watch(&queue, "one more"));
    }
}
