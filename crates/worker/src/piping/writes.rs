//! WRITEs through pipes: the front of a frame shows a large WRITE, and then the rest of it need not
//! be received into memory.

use object::RootId;
use process::clocks::machine_clock;
use proto::ConnectionId;

use super::super::event_loop::Worker;
use super::probe::DataPath;
use super::processor_time;

/// Shortest WRITE that is worth a pipe, in bytes: a shorter one arrives whole with the first
/// receive.
const PIPED_WRITE_MIN: usize = 128 * 1024;

/// Bytes of WRITEs that a client may have sent, or be about to send, when the path changes. They
/// took the former path, so they say little about the new one.
const ON_THE_WAY: usize = 16 << 20;

impl Worker {
    /// Has the rest of the frame that is here in part received into a pipe. Says whether it may be.
    pub(crate) fn begin_filling(&mut self, id: ConnectionId) -> bool {
        let is_wished = self.piped_from().is_some();
        let Some(transport) = self.transports.get_mut(&id) else { return false };
        let Some((front, behind)) = transport.front() else { return false };
        let open = self.server.file_to_pipe_to(id, front, behind);
        let Some(root) = open.and_then(|it| self.store.takes_pipes(it)) else { return false };
        let path = if is_wished { DataPath::Piped } else { transport.write_probes.of(root).path() };
        let room = transport.room_for(behind);
        if path == DataPath::Piped && !transport.take_frame_memory() {
            return false;
        }
        match (path == DataPath::Piped).then(|| self.store.lend_pipe(room)).flatten() {
            Some(piped) => transport.begin_filling(piped),
            None => return false,
        }
        true
    }

    /// True if a frame is long enough for data that pipes take.
    pub(crate) fn may_pipe_writes(&self, bytes: usize) -> bool {
        bytes >= self.piped_from().unwrap_or(PIPED_WRITE_MIN)
    }

    /// Decides which path the WRITE takes that comes after this long frame, if this is one: clients
    /// write large files in pieces of one length. `behind` bytes of the frame are in a pipe.
    pub(crate) fn choose_path_of_writes(&mut self, id: ConnectionId, frame: &[u8], behind: usize) {
        let (bytes, wished) = (frame.len() + behind, self.piped_from());
        let bytes_min = wished.unwrap_or(PIPED_WRITE_MIN);
        let root = self.root_of_write(id, frame, behind);
        let Some(transport) = self.transports.get_mut(&id) else { return };
        let path = match root {
            None => DataPath::Copied,
            Some(_) if wished.is_some() => DataPath::Piped,
            Some(root) => {
                let (now, probe) = (machine_clock(), transport.write_probes.of(root));
                let came = if behind > 0 { DataPath::Piped } else { DataPath::Copied };
                if came != probe.path() {
                    probe.begin_window_again(now);
                }
                probe.next(now, bytes, ON_THE_WAY, processor_time)
            }
        };
        transport.pipe_writes_from((path == DataPath::Piped).then_some(bytes_min));
    }

    /// The share that a frame writes to, if its data may go into a pipe.
    fn root_of_write(&self, id: ConnectionId, frame: &[u8], behind: usize) -> Option<RootId> {
        let open = self.server.file_to_pipe_to(id, frame, behind)?;
        self.store.takes_pipes(open)
    }

    /// Returns the length from which on all WRITEs go into pipes, if that is configured.
    fn piped_from(&self) -> Option<usize> {
        let wished = usize::try_from(self.settings.config.global.min_receivefile_size).ok()?;
        (wished > 0).then_some(wished.max(PIPED_WRITE_MIN))
    }
}
