//! Choice of the path of a READ's or WRITE's data: through memory, or through a pipe that holds
//! their pages, as `sendfile` does it within the kernel.

mod probe;
pub(super) mod probes;
mod writes;

use std::time::Duration;

use object::{ObjectOp, ObjectReply, RootId};
use process::clocks::machine_clock;
use proto::ConnectionId;
use rustix::time::{ClockId, clock_gettime};
use store::{Piping, Started};
use uring::Op;

use super::storage::Storage;
use probe::DataPath;

/// A READ whose path a probe has chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probed {
    connection: ConnectionId,
    root: RootId,
    path: DataPath,
}

impl Storage<'_> {
    /// Decides whether a long READ is to be piped, if it may be.
    pub(super) fn choose_path(
        &mut self,
        connection: Option<ConnectionId>,
        op: &mut ObjectOp,
    ) -> Option<Probed> {
        let ObjectOp::Read { open, length, may_pipe: may_pipe @ true, .. } = op else {
            return None;
        };
        *may_pipe = false;
        let bytes = usize::try_from(*length).unwrap_or(0);
        let (root, piping) = self.store.piping(*open)?;
        let connection = connection?;
        let transport = self.transports.get_mut(&connection)?;
        // Frames at a lane go first, and a lane takes no data from pipes.
        if piping == Piping::Never || transport.busy_lane().is_some() {
            return None;
        }
        if piping == Piping::Always {
            *may_pipe = true;
            return None;
        }
        let waiting = transport.outgoing_bytes();
        let path = transport.probes.of(root).next(machine_clock(), bytes, waiting, processor_time);
        *may_pipe = path == DataPath::Piped;
        Some(Probed { connection, root, path })
    }

    /// Reports a READ that took another path than chosen: data outside the page cache say nothing
    /// about the two paths.
    pub(super) fn verify_path(&mut self, probed: Probed, started: &Started) {
        let Probed { connection, root, path } = probed;
        let is_as_chosen = match started {
            Started::Done(Ok(ObjectReply::Piped(..))) => path == DataPath::Piped,
            Started::Done(Ok(ObjectReply::Read(_)))
            | Started::Submit(Op::ReadAt { in_thread: true, .. }, _) => path == DataPath::Copied,
            _ => false,
        };
        if !is_as_chosen && let Some(transport) = self.transports.get_mut(&connection) {
            transport.probes.of(root).begin_window_again(machine_clock());
        }
    }
}

/// CPU time of all threads of this process: large reads are copied by threads of the ring, too.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}
