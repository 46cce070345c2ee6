//! Information classes of named pipes: [MS-FSCC] 2.4.37 to 2.4.39.

use dtyp::AccessMask;
use dtyp::fscc::{
    FileAccessInformation, FileInformationClass, FilePipeInformation, FilePipeLocalInformation,
    FilePipeRemoteInformation, FileStandardInformation, Reserved,
};
use engine::response::Step;
use model::open::Open;
use model::reject::Reject;
use wire::query_info::{InfoType, QueryInfoRequest};

use super::{Pending, answer};

/// Size of both buffers of a pipe in bytes, as reported by Windows.
const PIPE_BYTES: u32 = 4_096;

/// Makes the response from the state of the pipe.
pub(super) fn query(
    pipe: &rpc::Pipe,
    open: &Open,
    request: &QueryInfoRequest<'_>,
) -> Result<Step<Pending>, Reject> {
    if request.info_type != InfoType::FILE {
        return Err(Reject::InfoTypeNotOffered(request.info_type));
    }
    let class = FileInformationClass(request.file_info_class);
    let mut out = Vec::new();
    match class {
        FileInformationClass::ACCESS => {
            FileAccessInformation { access_flags: open.granted_access }.encode(&mut out);
        }
        FileInformationClass::PIPE => {
            open.verify_access(AccessMask::READ_ATTRIBUTES)?;
            FilePipeInformation { read_mode: 1, completion_mode: 0 }.encode(&mut out);
        }
        FileInformationClass::PIPE_LOCAL => {
            open.verify_access(AccessMask::READ_ATTRIBUTES)?;
            local(pipe).encode(&mut out);
        }
        FileInformationClass::PIPE_REMOTE => {
            open.verify_access(AccessMask::READ_ATTRIBUTES)?;
            FilePipeRemoteInformation::default().encode(&mut out);
        }
        FileInformationClass::STANDARD => FileStandardInformation {
            allocation_size: u64::from(PIPE_BYTES),
            end_of_file: 0,
            number_of_links: 1,
            // As in Windows: a pipe is gone with its last open.
            delete_pending: true,
            directory: false,
            reserved: Reserved,
        }
        .encode(&mut out),
        _ => return Err(Reject::PipeClassUnknown(class)),
    }
    let minimum = class.minimum_len().expect("these classes have a fixed part");
    answer(out, minimum, request.output_buffer_length)
}

/// Returns the properties of a connected message pipe in both directions, seen from the client.
fn local(pipe: &rpc::Pipe) -> FilePipeLocalInformation {
    FilePipeLocalInformation {
        named_pipe_type: 1,
        named_pipe_configuration: 2,
        maximum_instances: u32::MAX,
        current_instances: 1,
        inbound_quota: PIPE_BYTES,
        read_data_available: u32::try_from(pipe.pending_len()).unwrap_or(u32::MAX),
        outbound_quota: PIPE_BYTES,
        write_quota_available: PIPE_BYTES,
        named_pipe_state: 3,
        named_pipe_end: 0,
    }
}
