//! Leases of the kernel behind oplocks (`kernel oplocks`): breaks by local programs.
//!
//! The kernel reports by SIGIO that another program opens a file with a lease, and lets that
//! program wait. The signal names no file here, since signals of one kind merge: each store is
//! asked which of its leases are broken. The engine then breaks the oplocks, and the lease ends
//! with the client's acknowledgment, with the open, or after the kernel's own time
//! (`/proc/sys/fs/lease-break-time`).

pub(crate) mod signals;

use object::StoreNumber;
use proto::Share;
use tracing::warn;
use uring::{Op, Token};

use super::event_loop::{KERNEL_LEASES, Worker};

impl Worker {
    /// Prepares for the leases of a share. Without their reports it grants no oplocks.
    pub(super) fn prepare_kernel_leases(&mut self, share: &mut Share) {
        if !share.local_programs.break_oplocks {
            return;
        }
        match self.kernel_leases.begin() {
            Ok(Some(fd)) => self.submit(Token(KERNEL_LEASES), Op::PollReadable { fd }),
            Ok(None) => {}
            Err(error) => {
                warn!("share {}: no oplocks, as SIGIO cannot be handled: {error}", share.name);
                share.caching_max = arbitration::Caching::empty();
            }
        }
    }

    /// Has the engine break the oplocks whose leases other programs break.
    pub(super) fn read_kernel_leases(&mut self) {
        let Some(fd) = self.kernel_leases.drain() else { return };
        let of_threads = self.storage_threads.numbers();
        for number in [StoreNumber::default()].into_iter().chain(of_threads) {
            self.run_in(Ok(number), |store| {
                let broken = store.map(|store| store.broken_leases()).unwrap_or_default();
                Box::new(move |worker: &mut Self| {
                    if !broken.is_empty() {
                        let now = worker.now();
                        worker.server.handle_leases_broken(now, &broken);
                    }
                })
            });
        }
        self.submit(Token(KERNEL_LEASES), Op::PollReadable { fd });
    }
}
