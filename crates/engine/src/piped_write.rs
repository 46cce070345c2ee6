//! The data of a WRITE that need not pass through memory: see [`Server::file_to_pipe_to`].

use model::connection::ConnectionId;
use object::LocalOpen;
use wire::write::WriteRequest;
use wire::{Decode, Header};

use crate::server::Server;

impl Server {
    /// Returns the file of a WRITE whose data may go through a pipe of the kernel, because it is
    /// neither signed nor encrypted. `front` is the beginning of the frame, and `behind` the number
    /// of bytes to come. The access is checked once the whole frame has arrived.
    #[must_use]
    pub fn file_to_pipe_to(
        &self,
        connection: ConnectionId,
        front: &[u8],
        behind: usize,
    ) -> Option<LocalOpen> {
        let header = Header::decode(front).ok()?;
        let is_alone = header.next_command == 0 && !header.is_related();
        if header.command != wire::Command::WRITE || !is_alone || header.is_signed() {
            return None;
        }
        let session = self.sessions.get(&header.session_id)?;
        session.channel(connection)?;
        let request = WriteRequest::decode_front(front, behind).ok()?;
        let open = self.opens.get(&request.file_id.volatile)?;
        if open.session_id != header.session_id {
            return None;
        }
        open.file().ok().filter(|it| !it.is_directory).map(|it| it.local_open)
    }
}
