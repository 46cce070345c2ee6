//! The body of each request. The first byte is the command, the rest a message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::cancel::CancelRequest;
use wire::change_notify::ChangeNotifyRequest;
use wire::close::CloseRequest;
use wire::create::CreateRequest;
use wire::echo::EchoRequest;
use wire::flush::FlushRequest;
use wire::ioctl::{
    CopyChunkCopy, DfsReferralRequest, DfsReferralResponse, DuplicateExtents, DuplicateExtentsEx,
    IoctlRequest, NetworkResiliencyRequest, PipeWait, SnapshotArray, ValidateNegotiateInfoRequest,
};
use wire::lock::LockRequest;
use wire::logoff::LogoffRequest;
use wire::negotiate::NegotiateRequest;
use wire::oplock_break::BreakAcknowledgment;
use wire::query_directory::QueryDirectoryRequest;
use wire::query_info::QueryInfoRequest;
use wire::query_quota::QueryQuotaInfo;
use wire::read::ReadRequest;
use wire::session_setup::SessionSetupRequest;
use wire::set_info::SetInfoRequest;
use wire::tree_connect::TreeConnectRequest;
use wire::tree_disconnect::TreeDisconnectRequest;
use wire::write::WriteRequest;

use choro_fuzz::round_trip;

fuzz_target!(|input: &[u8]| {
    let Some((command, message)) = input.split_first() else { return };
    match command {
        0x00 => round_trip!(NegotiateRequest<'_>, message),
        0x01 => round_trip!(SessionSetupRequest<'_>, message),
        0x02 => round_trip!(LogoffRequest, message),
        0x03 => round_trip!(TreeConnectRequest<'_>, message),
        0x04 => round_trip!(TreeDisconnectRequest, message),
        0x05 => round_trip!(CreateRequest<'_>, message),
        0x06 => round_trip!(CloseRequest, message),
        0x07 => round_trip!(FlushRequest, message),
        0x08 => round_trip!(ReadRequest<'_>, message),
        0x09 => round_trip!(WriteRequest<'_>, message, |it: &WriteRequest<'_>| {
            // An encoder places the data right behind the fixed part.
            (it.offset, it.file_id, it.channel, it.flags, it.data().to_vec())
        }),
        0x0A => round_trip!(LockRequest<'_>, message),
        0x0B => {
            if let Ok(request) = wire::Decode::decode(message) {
                let request: IoctlRequest<'_> = request;
                let _ = CopyChunkCopy::decode(request.input);
                let _ = DfsReferralRequest::decode(request.input);
                let _ = DfsReferralRequest::decode_extended(request.input);
                let _ = DfsReferralResponse::decode(request.input);
                let _ = DuplicateExtents::decode(request.input);
                let _ = DuplicateExtentsEx::decode(request.input);
                let _ = NetworkResiliencyRequest::decode(request.input);
                let _ = PipeWait::decode(request.input);
                let _ = SnapshotArray::decode(request.input);
                let _ = ValidateNegotiateInfoRequest::decode(request.input);
            }
            round_trip!(IoctlRequest<'_>, message);
        }
        0x0C => round_trip!(CancelRequest, message),
        0x0D => round_trip!(EchoRequest, message),
        0x0E => round_trip!(QueryDirectoryRequest<'_>, message),
        0x0F => round_trip!(ChangeNotifyRequest, message),
        0x10 => {
            if let Ok(request) = wire::Decode::decode(message) {
                let request: QueryInfoRequest<'_> = request;
                let _ = QueryQuotaInfo::decode(request.input_buffer);
            }
            round_trip!(QueryInfoRequest<'_>, message);
        }
        0x11 => round_trip!(SetInfoRequest<'_>, message),
        0x12 => round_trip!(BreakAcknowledgment, message),
        _ => {}
    }
});
