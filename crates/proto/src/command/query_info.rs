//! SMB2 QUERY_INFO: [MS-SMB2] 3.3.5.20.

pub mod extended_attributes;
pub mod file;
pub mod file_system;
mod pipe;
pub mod quota;
pub mod security;
#[cfg(test)]
mod tests;

use dtyp::NtStatus;
use dtyp::fscc::{FileInformationClass, FsInformationClass};
use engine::effect::Reply;
use engine::pending_command::PendingCommand;
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::InOpen;
use model::open::Target;
use model::reject::Reject;
use wire::query_info::{InfoType, QueryInfoRequest, QueryInfoResponse};

use crate::command::Command;

/// Reports a file's metadata, its file system or its security.
#[derive(Debug)]
pub struct QueryInfo;

/// A query while the store fetches the information.
#[derive(Debug)]
pub enum Pending {
    /// Query of a file information class.
    File(file::Question),
    /// Query of a file system information class.
    FileSystem(file_system::Question),
    /// Query of the extended attributes.
    ExtendedAttributes(extended_attributes::Question),
    /// Query of quotas of users.
    Quota(quota::Question),
    /// Query of the security descriptor.
    Security(security::Question),
}

impl PendingCommand for Pending {}

impl Command for QueryInfo {
    type Scope<'s> = InOpen<'s>;
    type Request<'a> = QueryInfoRequest<'a>;
    type Pending = Pending;

    fn start(
        InOpen { connection, tree, open, globals, .. }: InOpen<'_>,
        incoming: &Incoming,
        request: QueryInfoRequest<'_>,
    ) -> Result<Step<Pending>, Reject> {
        let negotiated = connection.negotiated();
        let input = u32::try_from(request.input_buffer.len()).expect("a frame is below 16 MiB");
        let (length, max) = (request.output_buffer_length.max(input), negotiated.max_transact_size);
        if length > max {
            return Err(Reject::LengthAboveMax { length, max });
        }
        negotiated.verify_credit_charge(incoming.header.credit_charge, length)?;
        if let Target::Pipe(pipe) = &open.target {
            return pipe::query(pipe, open, &request);
        }
        let class = FileInformationClass(request.file_info_class);
        match request.info_type {
            InfoType::FILE if class == FileInformationClass::FULL_EA => {
                extended_attributes::start(open, &request)
            }
            InfoType::FILE => file::start(open, negotiated.dialect, class, &request),
            InfoType::FILESYSTEM => file_system::start(
                tree,
                open,
                FsInformationClass(request.file_info_class),
                &request,
            ),
            InfoType::SECURITY => {
                let is_apple = globals.is_apple(open.session_id);
                security::start(open, negotiated.dialect, is_apple, &request)
            }
            InfoType::QUOTA => quota::start(tree, open, &request),
            unknown => Err(Reject::InfoTypeUnknown(unknown)),
        }
    }

    fn resume(
        InOpen { tree, open, globals, .. }: InOpen<'_>,
        _: &Incoming,
        pending: Pending,
        reply: Reply,
    ) -> Result<Step<Pending>, Reject> {
        match pending {
            Pending::File(question) => file::resume(open, globals, &question, reply.object()?),
            Pending::FileSystem(question) => {
                file_system::resume(tree, open, globals, question, reply)
            }
            Pending::ExtendedAttributes(question) => {
                extended_attributes::resume(open, &question, reply.object()?)
            }
            Pending::Quota(question) => quota::resume(tree, open, question, reply),
            Pending::Security(question) => security::resume(&question, reply.object()?),
        }
    }
}

/// Makes a response of limited length.
///
/// A buffer below the fixed part is INFO_LENGTH_MISMATCH; a variable part that does not fit is
/// truncated, with BUFFER_OVERFLOW: [MS-SMB2] 3.3.5.20.1. Lengths in the structure are those of the
/// whole data, as in Windows.
fn answer(
    mut bytes: Vec<u8>,
    minimum: usize,
    output_buffer_length: u32,
) -> Result<Step<Pending>, Reject> {
    let limit = usize::try_from(output_buffer_length).expect("32 bits fit memory");
    verify_limit(limit, minimum)?;
    let status = if bytes.len() > limit { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS };
    bytes.truncate(limit);
    Ok(respond(status, &bytes))
}

fn verify_limit(room: usize, need: usize) -> Result<(), Reject> {
    if room < need {
        return Err(Reject::InformationBufferTooSmall { need, room });
    }
    Ok(())
}

fn respond(status: NtStatus, bytes: &[u8]) -> Step<Pending> {
    Step::Done(Response::with_status(status, &QueryInfoResponse { output_buffer: bytes }))
}

/// Returns the shortest buffer for a class, in bytes.
///
/// Windows wants room for the structure as its compiler lays it out, with the padding behind the
/// fields. For classes that end in a name that is more than the fixed part has on the wire.
fn file_minimum(class: FileInformationClass) -> usize {
    match class {
        FileInformationClass::ALL => 104,
        FileInformationClass::ALTERNATE_NAME | FileInformationClass::NORMALIZED_NAME => 8,
        FileInformationClass::STREAM => 32,
        _ => class.minimum_len().expect("the class was checked"),
    }
}

/// Returns the shortest buffer for a class of file systems, like [`file_minimum`].
fn file_system_minimum(class: FsInformationClass) -> usize {
    match class {
        FsInformationClass::ATTRIBUTE => 16,
        FsInformationClass::VOLUME => 24,
        _ => class.minimum_len().expect("the class was checked"),
    }
}
