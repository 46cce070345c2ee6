//! Work that a storage thread has, and whether it gets on.

use std::time::Duration;

/// Time without an end of any operation after which a thread counts as hanging. Its requests are
/// refused from then on, where they would take the memory of others. Clients keep what they have
/// written only in part when a WRITE fails, so a server in the network that starts again, or a disk
/// that spins up, must not come to it.
pub(super) const HANG_TIME: Duration = Duration::from_secs(10);

/// What a thread has to do.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Orders that have not ended.
    orders: usize,
    /// Memory of its operations in bytes, also of those that wait to become orders.
    bytes: usize,
    /// Time of the last end of an order, or of the first one after a pause.
    moved_at: Duration,
    /// True if excess requests were looked for since then.
    is_searched: bool,
    /// True if its store had neither opens nor roots after the last order.
    is_unused: bool,
}

impl Load {
    /// Counts an order that goes to the thread.
    pub(super) fn begin(&mut self, now: Duration) {
        if self.orders == 0 {
            (self.moved_at, self.is_searched) = (now, false);
        }
        self.orders += 1;
    }

    /// An order has ended, and left the store with or without opens and roots.
    pub(super) fn end(&mut self, now: Duration, is_unused: bool) {
        self.orders -= 1;
        (self.moved_at, self.is_searched, self.is_unused) = (now, false, is_unused);
    }

    /// An order was taken back before the thread saw it.
    pub(super) fn withdraw(&mut self) {
        self.orders -= 1;
    }

    pub(super) fn hold(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub(super) fn release(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if nothing has ended for so long that the file system seems to hang.
    pub(super) fn is_hanging(&self, now: Duration) -> bool {
        self.orders > 0 && self.moved_at + HANG_TIME <= now
    }

    /// Returns the time from which the thread counts as hanging, if nothing ends before. None
    /// once [`Self::search`] has noted that.
    pub(super) fn hangs_at(&self) -> Option<Duration> {
        (self.orders > 0 && !self.is_searched).then(|| self.moved_at + HANG_TIME)
    }

    /// Notes that a thread that hangs was searched for excess requests.
    pub(super) fn search(&mut self, now: Duration) {
        self.is_searched |= self.is_hanging(now);
    }

    /// True if the thread has nothing to do, no operation waits to become an order, and nothing
    /// refers to its store.
    pub(super) fn is_unused(&self) -> bool {
        self.orders == 0 && self.bytes == 0 && self.is_unused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_thread_hangs_if_it_has_work_and_nothing_ends_for_long() {
        let mut load = Load::default();
        assert!(!load.is_hanging(at(1_000)) && load.hangs_at().is_none(), "it has nothing to do");
        load.begin(at(100));
        load.begin(at(105));
        assert_eq!(load.hangs_at(), Some(at(100) + HANG_TIME));
        assert!(load.is_hanging(at(100) + HANG_TIME));
        load.end(at(109), false);
        assert!(!load.is_hanging(at(100) + HANG_TIME), "it is slow");
        assert!(load.is_hanging(at(109) + HANG_TIME));
        load.search(at(109) + HANG_TIME);
        assert_eq!(load.hangs_at(), None);
        load.end(at(200), false);
        load.begin(at(300));
        assert_eq!(load.hangs_at(), Some(at(300) + HANG_TIME));
    }

    #[test]
    fn a_thread_is_unused_once_its_last_order_has_left_nothing() {
        let mut load = Load::default();
        assert!(!load.is_unused(), "a share is about to be opened");
        load.begin(at(1));
        load.begin(at(1));
        load.end(at(2), true);
        assert!(!load.is_unused(), "another order may open something");
        load.end(at(2), false);
        assert!(!load.is_unused());
        load.begin(at(3));
        load.end(at(3), true);
        assert!(load.is_unused());
    }

    #[test]
    fn a_thread_is_used_while_an_operation_waits_to_become_an_order() {
        let mut load = Load::default();
        load.begin(at(1));
        load.end(at(1), true);
        load.hold(1);
        assert!(!load.is_unused(), "the operation would lose its store");
        load.release(1);
        assert!(load.is_unused());
    }
}
