//! The security descriptor: [MS-SMB2] 3.3.5.20.3.

use dtyp::AccessMask;
use dtyp::security_information::SecurityInformation;
use engine::effect::Effect;
use engine::response::{Response, Step};
use model::open::Open;
use model::reject::Reject;
use object::{ObjectOp, ObjectReply};
use wire::Dialect;
use wire::error_response::{ErrorContext, ErrorId, ErrorResponse};
use wire::query_info::QueryInfoRequest;

use super::{Pending, answer};

/// Parameters of a query of the security descriptor.
#[derive(Debug)]
pub struct Question {
    output_buffer_length: u32,
    /// True if error data has the form of 3.1.1.
    has_error_contexts: bool,
}

/// Requests the parts that the client selected from the store.
pub(super) fn start(
    open: &Open,
    dialect: Dialect,
    is_apple: bool,
    request: &QueryInfoRequest<'_>,
) -> Result<Step<Pending>, Reject> {
    let information = SecurityInformation::from_bits_retain(request.additional_information);
    open.verify_access(wanted_access(information))?;
    let op = ObjectOp::ReadSecurity {
        open: open.file()?.local_open,
        information: information.bits(),
        nfs_entries: is_apple && open.share.apple.as_ref().is_some_and(|apple| apple.nfs_entries),
    };
    let question = Question {
        output_buffer_length: request.output_buffer_length,
        has_error_contexts: dialect >= Dialect::SMB_3_1_1,
    };
    Ok(Step::Wait(Effect::Object { user: open.user, op }, Pending::Security(question)))
}

fn wanted_access(information: SecurityInformation) -> AccessMask {
    let by_system = SecurityInformation::SACL | SecurityInformation::BACKUP;
    let by_control = SecurityInformation::OWNER
        | SecurityInformation::GROUP
        | SecurityInformation::DACL
        | SecurityInformation::LABEL
        | SecurityInformation::ATTRIBUTE
        | SecurityInformation::SCOPE
        | SecurityInformation::PROCESS_TRUST_LABEL
        | SecurityInformation::ACCESS_FILTER
        | SecurityInformation::BACKUP;
    let mut wanted = AccessMask::empty();
    wanted.set(AccessMask::ACCESS_SYSTEM_SECURITY, information.intersects(by_system));
    wanted.set(AccessMask::READ_CONTROL, information.intersects(by_control));
    wanted
}

/// Makes the response with the descriptor, or with the size that it needs.
pub(super) fn resume(question: &Question, reply: ObjectReply) -> Result<Step<Pending>, Reject> {
    let ObjectReply::Security(descriptor) = reply else { panic!("it was asked for") };
    let needed = u32::try_from(descriptor.len()).expect("a descriptor is below 4 GiB");
    if needed > question.output_buffer_length {
        return Ok(too_small(descriptor.len(), question));
    }
    answer(descriptor, 0, question.output_buffer_length)
}

/// Makes an error with the necessary size: [MS-SMB2] 2.2.2.2. A truncated descriptor would be
/// useless.
fn too_small(need: usize, question: &Question) -> Step<Pending> {
    let Question { output_buffer_length, has_error_contexts } = *question;
    let room = usize::try_from(output_buffer_length).expect("32 bits fit memory");
    let reject = Reject::OutputBufferTooSmall { need, room };
    let size = u32::try_from(need).expect("a descriptor is below 4 GiB").to_le_bytes();
    let mut body = ErrorResponse { error_context_count: 0, error_data: &size };
    let mut contexts = Vec::new();
    if has_error_contexts {
        let context = ErrorContext { error_id: ErrorId::DEFAULT, error_context_data: &size };
        context.encode(&mut contexts, 0);
        body = ErrorResponse { error_context_count: 1, error_data: &contexts };
    }
    Step::Refused(reject, Response::with_status(reject.status(), &body))
}
