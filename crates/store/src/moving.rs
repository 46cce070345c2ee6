//! A store on its way to another thread, for storage that turns out to be slow.

use std::sync::Arc;

use object::{RootId, StoreNumber};
use rustix::fs::Mode;

use crate::sys::system;
use crate::{Continuation, Store};

/// A store between two threads. It carries out nothing.
#[derive(Debug)]
pub struct MovingStore(Store);

// SAFETY: a store is bound to its thread by its `Rc` and by the credentials of the thread. All
// clones of an `Rc` are within the store, and move with it: its functions return none, and what a
// `Continuation` keeps is an `Arc`. Credentials are the server's here, as `Store::leave` sees to.
unsafe impl Send for MovingStore {}

/// Compiles only while a continuation can be on another thread than its store.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Continuation>();
    is_send::<Arc<std::os::fd::OwnedFd>>();
};

impl Store {
    /// Takes the store away from this thread, which gets the server's rights.
    ///
    /// # Errors
    /// The store itself, if the thread cannot have those rights.
    pub fn leave(mut self) -> Result<MovingStore, Box<Self>> {
        if !self.revert_to_server() {
            return Err(Box::new(self));
        }
        self.end_frame();
        Ok(MovingStore(self))
    }

    /// Number of the store among those of the worker.
    #[must_use]
    pub fn number(&self) -> StoreNumber {
        self.settings.number
    }

    /// The shares, with the kernel's numbers of their devices.
    #[must_use]
    pub fn devices(&self) -> Vec<(RootId, u64)> {
        let roots = self.roots.iter().zip(self.settings.number.first_index()..);
        let open = roots.filter_map(|(root, id)| root.as_ref().map(|root| (root, id)));
        open.map(|(root, id)| (RootId(id), root.directory.inode.device)).collect()
    }

    /// An empty store of the same settings, which knows the same users by the same ids.
    #[must_use]
    pub fn empty_copy(&self) -> Self {
        let mut copy = Self::new(self.settings.clone());
        for user in self.users() {
            copy.register_user(user.clone());
        }
        copy
    }
}

impl MovingStore {
    /// Gives the store to this thread, which must have the server's rights. It clears the umask, as
    /// [`Store::new`] does.
    #[must_use]
    pub fn arrive(self) -> Store {
        system::leave_umask_of_process();
        rustix::process::umask(Mode::empty());
        self.0
    }
}
