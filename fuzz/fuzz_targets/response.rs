//! Body of each response, as decoded by our own clients. The first byte is the command, the rest a
//! message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::change_notify::{ChangeNotifyResponse, NotifyInformation};
use wire::close::CloseResponse;
use wire::create::CreateResponse;
use wire::error_response::{ErrorContext, ErrorResponse, SymbolicLinkError};
use wire::flush::FlushResponse;
use wire::ioctl::{IoctlResponse, ValidateNegotiateInfoResponse};
use wire::lock::LockResponse;
use wire::logoff::LogoffResponse;
use wire::negotiate::NegotiateResponse;
use wire::oplock_break::BreakNotification;
use wire::query_directory::QueryDirectoryResponse;
use wire::query_info::QueryInfoResponse;
use wire::read::ReadResponse;
use wire::session_setup::SessionSetupResponse;
use wire::set_info::SetInfoResponse;
use wire::tree_connect::TreeConnectResponse;
use wire::tree_disconnect::TreeDisconnectResponse;
use wire::write::WriteResponse;

use choro_fuzz::round_trip;

fuzz_target!(|input: &[u8]| {
    let Some((command, message)) = input.split_first() else { return };
    if let Ok(error) = wire::Decode::decode(message) {
        let error: ErrorResponse<'_> = error;
        let _ = SymbolicLinkError::decode(error.error_data);
        ErrorContext::iter(error.error_data, error.error_context_count).for_each(drop);
    }
    match command {
        0x00 => round_trip!(NegotiateResponse<'_>, message),
        0x01 => round_trip!(SessionSetupResponse<'_>, message),
        0x02 => round_trip!(LogoffResponse, message),
        0x03 => round_trip!(TreeConnectResponse, message),
        0x04 => round_trip!(TreeDisconnectResponse, message),
        0x05 => round_trip!(CreateResponse<'_>, message),
        0x06 => round_trip!(CloseResponse, message),
        0x07 => round_trip!(FlushResponse, message),
        0x08 => round_trip!(ReadResponse<'_>, message),
        0x09 => round_trip!(WriteResponse, message),
        0x0A => round_trip!(LockResponse, message),
        0x0B => {
            if let Ok(response) = wire::Decode::decode(message) {
                let response: IoctlResponse<'_> = response;
                let _ = ValidateNegotiateInfoResponse::decode(response.output);
            }
            round_trip!(IoctlResponse<'_>, message);
        }
        0x0E => round_trip!(QueryDirectoryResponse<'_>, message),
        0x0F => {
            if let Ok(response) = wire::Decode::decode(message) {
                let response: ChangeNotifyResponse<'_> = response;
                NotifyInformation::iter(response.output_buffer).for_each(drop);
            }
            round_trip!(ChangeNotifyResponse<'_>, message);
        }
        0x10 => round_trip!(QueryInfoResponse<'_>, message),
        0x11 => round_trip!(SetInfoResponse, message),
        0x12 => round_trip!(BreakNotification, message),
        _ => {}
    }
});
