//! Responses to each kind of request.

use anyhow::{Context, Result};
use dtyp::{AccessMask, FileInformationClass, NtStatus};
use wire::close::{CloseRequest, CloseResponse};
use wire::create::CreateRequest;
use wire::echo::EchoResponse;
use wire::error_response::ErrorResponse;
use wire::header::{Header, HeaderFlags};
use wire::logoff::LogoffResponse;
use wire::query_info::{InfoType, QueryInfoRequest, QueryInfoResponse};
use wire::read::{ReadRequest, ReadResponseHead};
use wire::set_info::SetInfoResponse;
use wire::tree_connect::{ShareType, TreeConnectResponse};
use wire::write::{WriteRequest, WriteResponse};
use wire::{Command, Decode, Encode};

use super::data::Payload;
use super::{CREDITS_MAX, Connection, NO_SESSION, SESSION_ID, login};

/// More than FileAllInformation without a name: [MS-FSCC] 2.4.2.
const ALL_INFORMATION_BYTES: usize = 104;

impl Connection {
    /// Appends the response to a message, and returns the data that follow it. `behind` bytes of a
    /// WRITE are in their file already.
    pub(super) fn answer(
        &mut self,
        message: &mut [u8],
        behind: usize,
        is_sealed: bool,
    ) -> Result<Payload> {
        let request = Header::decode(message)?;
        // Sealed messages need no signature: [MS-SMB2] 3.3.4.1.1.
        let is_signed = request.is_signed() && !is_sealed;
        if is_signed {
            self.channel.as_ref().context(NO_SESSION)?.verify(message)?;
        }
        let at = self.outbox.len();
        let answer = Header {
            credits: request.credits.clamp(1, CREDITS_MAX),
            flags: HeaderFlags::SERVER_TO_REDIR,
            status: NtStatus::SUCCESS,
            next_command: 0,
            session_id: SESSION_ID,
            tree_id: 1,
            signature: [0; 16],
            ..request
        };
        if request.command == Command::NEGOTIATE {
            self.preauth.update(message);
        }
        if request.command == Command::SESSION_SETUP {
            self.preauth.update(message);
            return self.session_setup(message, answer).map(|()| Payload::default());
        }
        answer.encode(&mut self.outbox);
        let payload = if request.command == Command::READ {
            self.read(message, is_signed || is_sealed)
        } else {
            self.body(request.command, message, behind).map(|()| Payload::default())
        };
        let payload = payload.unwrap_or_else(|status| {
            self.outbox.truncate(at);
            Header { status, ..answer }.encode(&mut self.outbox);
            ErrorResponse::default().encode(&mut self.outbox);
            Payload::default()
        });
        if request.command == Command::NEGOTIATE {
            self.preauth.update(&self.outbox[at..]);
        } else if is_signed && payload.bytes == 0 {
            let channel = self.channel.as_ref().context(NO_SESSION)?;
            channel.sign(&mut self.outbox[at..]);
        }
        Ok(Payload { is_signed, ..payload })
    }

    /// Appends the head of a READ response, before its data.
    fn read(&mut self, message: &[u8], is_protected: bool) -> Result<Payload, NtStatus> {
        let request: ReadRequest<'_> = decode(message)?;
        let payload = self.data.read(&request, is_protected)?;
        let data_length = u32::try_from(payload.bytes).expect("no more than was asked for");
        ReadResponseHead { data_length, ..Default::default() }.encode(&mut self.outbox);
        Ok(payload)
    }

    /// Appends the body of an answer that no data follow.
    fn body(&mut self, command: Command, message: &[u8], behind: usize) -> Result<(), NtStatus> {
        let Self { data, outbox, .. } = self;
        match command {
            Command::NEGOTIATE => login::negotiate(outbox),
            Command::TREE_CONNECT => {
                let share_type = ShareType::DISK;
                let maximal_access = AccessMask::FILE_ALL;
                let body = TreeConnectResponse { share_type, maximal_access, ..Default::default() };
                body.encode(outbox);
            }
            Command::CREATE => {
                let request: CreateRequest<'_> = decode(message)?;
                data.create(&request)?.encode(outbox);
            }
            Command::CLOSE => {
                data.close(decode::<CloseRequest>(message)?.file_id)?;
                CloseResponse::default().encode(outbox);
            }
            Command::WRITE => {
                let request = WriteRequest::decode_front(message, behind);
                let written = data.write(&request.map_err(|_| NtStatus::INVALID_PARAMETER)?)?;
                let count = u32::try_from(written + behind).expect("shorter than a frame");
                WriteResponse { count, ..Default::default() }.encode(outbox);
            }
            Command::QUERY_INFO => {
                let request: QueryInfoRequest<'_> = decode(message)?;
                let asked = (request.info_type, request.file_info_class);
                if asked != (InfoType::FILE, FileInformationClass::ALL.0) {
                    return Err(NtStatus::NOT_SUPPORTED);
                }
                let mut information = Vec::with_capacity(ALL_INFORMATION_BYTES);
                data.all_information(request.file_id)?.encode(&mut information);
                QueryInfoResponse { output_buffer: &information }.encode(outbox);
            }
            Command::SET_INFO => SetInfoResponse.encode(outbox),
            Command::ECHO => EchoResponse.encode(outbox),
            Command::LOGOFF => LogoffResponse.encode(outbox),
            _ => return Err(NtStatus::NOT_SUPPORTED),
        }
        Ok(())
    }
}

/// A request, if it is one.
fn decode<'m, T: Decode<'m>>(message: &'m [u8]) -> Result<T, NtStatus> {
    T::decode(message).map_err(|_| NtStatus::INVALID_PARAMETER)
}
