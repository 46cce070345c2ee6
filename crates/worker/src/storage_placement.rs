//! Moves of the store of local file systems to a thread of its own, and back.

use process::clocks::machine_clock;
use tracing::{info, warn};

use super::event_loop::Worker;
use super::local_storage::Place;

impl Worker {
    /// Moves the store of local file systems to another thread or back, at the end of a turn.
    #[inline(always)]
    pub(super) fn place_local_storage(&mut self) {
        if self.local_storage.place != Place::Inline {
            self.move_local_storage();
        }
    }

    #[cold]
    #[inline(never)]
    fn move_local_storage(&mut self) {
        match self.local_storage.place {
            Place::Slow if self.listings.is_empty() => self.give_local_storage_a_thread(),
            Place::OnThread
                if self.store_requests.is_empty()
                    && self.storage_threads.is_idle()
                    && self.local_storage.is_quiet(machine_clock()) =>
            {
                self.take_local_storage_back();
            }
            _ => {}
        }
    }

    fn give_local_storage_a_thread(&mut self) {
        // If it cannot move, the next slow operation has it try again.
        self.local_storage.place = Place::Inline;
        if !self.store.revert_to_server() {
            return;
        }
        let thread = match self.storage_threads.prepare() {
            Ok(thread) => thread,
            Err(error) => return warn!("cannot start a thread for slow disks: {error}"),
        };
        if self.storage_threads.begins_to_be_watched() {
            self.watch_storage_threads();
        }
        let empty = self.store.empty_copy();
        let store = std::mem::replace(&mut self.store, empty);
        let (users_known, devices) = (store.users().len(), store.devices());
        match store.leave() {
            Ok(store) => {
                let devices = devices.into_iter();
                devices.for_each(|(root, device)| {
                    self.storage_threads.root_opened(root, Some(device));
                });
                self.storage_threads.start_local(thread, store, users_known);
                self.local_storage.place = Place::OnThread;
                info!("a local disk is slow: its operations have a thread of their own now");
            }
            Err(store) => self.store = *store,
        }
    }

    fn take_local_storage_back(&mut self) {
        if !self.store.revert_to_server() {
            return;
        }
        let Some(store) = self.storage_threads.take_local() else { return };
        let mut store = store.arrive();
        let known = store.users().len();
        for user in self.store.users().skip(known) {
            store.register_user(user.clone());
        }
        self.store = store;
        self.local_storage.place = Place::Inline;
        info!("local disks are no longer slow: their operations have no thread any more");
    }
}
