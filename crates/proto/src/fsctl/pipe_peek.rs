//! FSCTL_PIPE_PEEK: [MS-SMB2] 3.3.5.15.4, [MS-FSCC] 2.3.45.

use dtyp::NtStatus;
use engine::scope::InOpen;
use model::reject::Reject;
use wire::ioctl::{FsctlCode, IoctlRequest};

use super::{ImmediateFsctl, Output, output_max, pipe};

/// Reports the data that a read of a pipe would return, and leaves it there.
pub(crate) struct PipePeek;

const CONNECTED: u32 = 3;

const HEAD_LEN: usize = 16;

impl ImmediateFsctl for PipePeek {
    const CODE: FsctlCode = FsctlCode::PIPE_PEEK;
    type Scope<'s> = InOpen<'s>;

    fn answer(scope: InOpen<'_>, request: &IoctlRequest<'_>) -> Result<Output, Reject> {
        let pipe = pipe(scope.open)?;
        let room = output_max(request);
        let Some(room) = room.checked_sub(HEAD_LEN) else {
            return Err(Reject::OutputBufferTooSmall { need: HEAD_LEN, room });
        };
        let (message_len, messages) = pipe.next_message_len();
        let figures = [pipe.pending_len(), messages, message_len];
        let mut bytes = CONNECTED.to_le_bytes().to_vec();
        for figure in figures {
            let figure = u32::try_from(figure).expect("a pipe keeps a few MiB at most");
            bytes.extend_from_slice(&figure.to_le_bytes());
        }
        let data = pipe.peek(room);
        let status =
            if data.len() < message_len { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS };
        bytes.extend_from_slice(data);
        Ok(Output::with_status(status, bytes))
    }
}
