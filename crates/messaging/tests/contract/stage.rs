//! Stage of a test: real processes, or a simulated world.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Instant;

use dtyp::ServerId;
use messaging::{Messaging, Transport};

use crate::part::Role;

/// The unique id of the test's own process.
pub(crate) const TEST_UNIQUE_ID: u64 = 42;

/// Id of the test's own process.
pub(crate) fn test_id() -> ServerId {
    ServerId { pid: std::process::id(), unique_id: TEST_UNIQUE_ID }
}

/// Stage of a test, with its peers.
pub(crate) trait Stage {
    fn now(&self) -> Instant;

    /// The transport of the test's own process.
    fn open(&self) -> Box<dyn Transport>;

    /// The messages of the test's own process.
    fn messaging(&self) -> Messaging;

    /// Starts a peer, which does nothing until told to.
    fn start(&mut self) -> ServerId;

    /// Gives a peer something to do.
    fn start_role(&mut self, peer: ServerId, role: Role);

    /// Stops a peer, wherever it is; returns when it does nothing more.
    fn stop(&mut self, peer: ServerId);

    /// Lets a stopped peer go on.
    fn resume(&mut self, peer: ServerId);

    /// Ends it without its knowing.
    fn kill(&mut self, peer: ServerId);

    /// Lets others go on until the test's own process may have something to do.
    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, until: Instant);

    /// The lock directory, where there is one.
    fn lock_dir(&self) -> Option<&Path>;
}
