//! The gate that operations pass: at once, late, never, or with an error.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Kind of an operation, as the kernel's FUSE names it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Operation {
    Create,
    FileSystemStatus,
    GetAttributes,
    GetExtendedAttribute,
    ListExtendedAttributes,
    Lookup,
    MakeDirectory,
    Open,
    OpenDirectory,
    Read,
    ReadDirectory,
    RemoveExtendedAttribute,
    Rename,
    SetAttributes,
    SetExtendedAttribute,
    Sync,
    Unlink,
    Write,
}

/// Treatment of the operations of one kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Behavior {
    /// They pass without any delay.
    Normal,
    /// They pass after this time.
    Delay(Duration),
    /// They wait until the behavior changes.
    Hang,
    /// They fail with this errno.
    Fail(i32),
}

/// Behavior of each kind, and the operations that wait.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    behaviors: HashMap<Operation, Behavior>,
    waiting: HashMap<Operation, usize>,
    passed: HashMap<Operation, usize>,
    under_way: HashMap<Operation, usize>,
    together_max: HashMap<Operation, usize>,
}

impl State {
    fn begin(&mut self, operation: Operation) {
        let under_way = self.under_way.entry(operation).or_default();
        *under_way += 1;
        let most = self.together_max.entry(operation).or_default();
        *most = (*most).max(*under_way);
    }
}

impl Gate {
    /// Sets the behavior of a kind; operations that hang look at it anew.
    pub fn set(&self, operation: Operation, behavior: Behavior) {
        self.lock().behaviors.insert(operation, behavior);
        self.changed.notify_all();
    }

    /// Lets all operations pass at once.
    pub fn open(&self) {
        self.lock().behaviors.clear();
        self.changed.notify_all();
    }

    /// Returns the number of operations of a kind that have come so far, hanging ones included.
    #[must_use]
    pub fn count(&self, operation: Operation) -> usize {
        let state = self.lock();
        let count = |of: &HashMap<Operation, usize>| of.get(&operation).copied().unwrap_or(0);
        count(&state.waiting) + count(&state.passed)
    }

    /// Returns the highest number of operations of a kind that were under way at the same time.
    #[must_use]
    pub fn together_max(&self, operation: Operation) -> usize {
        self.lock().together_max.get(&operation).copied().unwrap_or(0)
    }

    /// Waits until an operation of this kind hangs. False if none does in this time.
    #[must_use]
    pub fn wait_until_hanging(&self, operation: Operation, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        let mut state = self.lock();
        while state.waiting.get(&operation).copied().unwrap_or(0) == 0 {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, rest);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Lets one operation pass, late or at once, or gives its errno.
    pub(crate) fn pass(&self, operation: Operation) -> Result<(), i32> {
        self.lock().begin(operation);
        let passed = self.wait(operation);
        *self.lock().under_way.entry(operation).or_default() -= 1;
        passed
    }

    fn wait(&self, operation: Operation) -> Result<(), i32> {
        let mut state = self.lock();
        let mut is_waiting = false;
        let behavior = loop {
            match state.behaviors.get(&operation).copied().unwrap_or(Behavior::Normal) {
                Behavior::Hang => {
                    if !is_waiting {
                        *state.waiting.entry(operation).or_default() += 1;
                        self.changed.notify_all();
                    }
                    is_waiting = true;
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                behavior => break behavior,
            }
        };
        if is_waiting {
            *state.waiting.entry(operation).or_default() -= 1;
        }
        *state.passed.entry(operation).or_default() += 1;
        drop(state);
        match behavior {
            Behavior::Delay(time) => {
                thread::sleep(time);
                Ok(())
            }
            Behavior::Fail(errno) => Err(errno),
            Behavior::Normal | Behavior::Hang => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
