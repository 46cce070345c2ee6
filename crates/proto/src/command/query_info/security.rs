//! The security descriptor: [MS-SMB2] 3.3.5.20.3.

use dtyp::security_information::SecurityInformation;
use dtyp::{AccessMask, NtStatus};
use object::{ObjectOp, ObjectReply};
use wire::error_response::ErrorResponse;
use wire::query_info::QueryInfoRequest;

use super::{Pending, answer};
use crate::effect::Effect;
use crate::open::Open;
use crate::reject::Reject;
use crate::response::{Response, Step};

/// What was asked.
#[derive(Debug)]
pub struct Question {
    output_buffer_length: u32,
}

/// Asks the store for the parts that the request names.
pub(super) fn start(open: &Open, request: &QueryInfoRequest<'_>) -> Result<Step<Pending>, Reject> {
    let information = SecurityInformation::from_bits_retain(request.additional_information);
    if information.contains(SecurityInformation::SACL) {
        open.verify_access(AccessMask::ACCESS_SYSTEM_SECURITY)?;
    }
    let by_control =
        SecurityInformation::OWNER | SecurityInformation::GROUP | SecurityInformation::DACL;
    if information.intersects(by_control) {
        open.verify_access(AccessMask::READ_CONTROL)?;
    }
    let op =
        ObjectOp::ReadSecurity { open: open.file()?.local_open, information: information.bits() };
    let question = Question { output_buffer_length: request.output_buffer_length };
    Ok(Step::Wait(Effect::Object { user: open.user, op }, Pending::Security(question)))
}

/// Answers with the descriptor, or with the size that it needs.
pub(super) fn resume(question: &Question, reply: ObjectReply) -> Result<Step<Pending>, Reject> {
    let ObjectReply::Security(descriptor) = reply else { panic!("it was asked for") };
    let needed = u32::try_from(descriptor.len()).expect("a descriptor is below 64 KiB");
    if needed > question.output_buffer_length {
        let error_data = needed.to_le_bytes();
        let body = ErrorResponse { error_data: &error_data, ..ErrorResponse::default() };
        let response = Response::with_status(NtStatus::BUFFER_TOO_SMALL, &body);
        return Ok(Step::Done(response));
    }
    answer(descriptor, 0, question.output_buffer_length)
}
