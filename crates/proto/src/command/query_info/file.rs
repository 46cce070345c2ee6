//! File information classes: [MS-SMB2] 3.3.5.20.1, [MS-FSA] 2.1.5.12.

use dtyp::fscc::{EntryListWriter, Reserved};
use dtyp::fscc::{
    FileAccessInformation, FileAlignmentInformation, FileAllInformation,
    FileAttributeTagInformation, FileBasicInformation, FileCompressionInformation,
    FileEaInformation, FileIdInformation, FileInformationClass, FileInternalInformation,
    FileModeInformation, FileNameInformation, FileNetworkOpenInformation, FilePositionInformation,
    FileStandardInformation, StreamEntry, encode_stream_entry,
};
use dtyp::{AccessMask, NtStatus};
use engine::effect::Effect;
use engine::globals::Globals;
use engine::response::Step;
use model::open::{Open, OpenFile};
use model::posix;
use model::reject::Reject;
use object::{Metadata, ObjectOp, ObjectReply};
use wire::Dialect;
use wire::create::CreateOptions;
use wire::query_info::QueryInfoRequest;

use super::{Pending, answer, file_minimum, respond, verify_limit};

/// Parameters of a query of file information.
#[derive(Debug)]
pub struct Question {
    class: FileInformationClass,
    output_buffer_length: u32,
}

/// CreateOptions that FileModeInformation includes: [MS-FSCC] 2.4.31.
const MODE: CreateOptions = CreateOptions::from_bits_retain(
    CreateOptions::WRITE_THROUGH.bits()
        | CreateOptions::SEQUENTIAL_ONLY.bits()
        | CreateOptions::NO_INTERMEDIATE_BUFFERING.bits()
        | CreateOptions::SYNCHRONOUS_IO_ALERT.bits()
        | CreateOptions::SYNCHRONOUS_IO_NONALERT.bits()
        | CreateOptions::DELETE_ON_CLOSE.bits(),
);

/// Requests the data of a class from the store.
pub(super) fn start(
    open: &Open,
    dialect: Dialect,
    class: FileInformationClass,
    request: &QueryInfoRequest<'_>,
) -> Result<Step<Pending>, Reject> {
    let is_posix = open.file()?.path.is_posix();
    if !(is_posix && class == FileInformationClass::POSIX) {
        verify_class(dialect, class)?;
    }
    if needs_read_attributes(class) {
        open.verify_access(AccessMask::READ_ATTRIBUTES)?;
    }
    let output_buffer_length = request.output_buffer_length;
    let limit = usize::try_from(output_buffer_length).expect("32 bits fit memory");
    verify_limit(limit, file_minimum(class))?;
    let open_id = open.file()?.local_open;
    let op = match class {
        FileInformationClass::ALTERNATE_NAME => ObjectOp::QueryShortName { open: open_id },
        FileInformationClass::STREAM => ObjectOp::ListStreams { open: open_id },
        _ => ObjectOp::QueryMetadata { open: open_id, with_ea_size: has_ea_size(class) },
    };
    let question = Question { class, output_buffer_length };
    Ok(Step::Wait(Effect::Object { user: open.user, op }, Pending::File(question)))
}

/// Refuses classes beyond the table of [MS-SMB2] 2.2.37, as far as it is about files.
fn verify_class(dialect: Dialect, class: FileInformationClass) -> Result<(), Reject> {
    let reject = match class {
        FileInformationClass::ACCESS
        | FileInformationClass::ALIGNMENT
        | FileInformationClass::ALL
        | FileInformationClass::ALTERNATE_NAME
        | FileInformationClass::ATTRIBUTE_TAG
        | FileInformationClass::BASIC
        | FileInformationClass::COMPRESSION
        | FileInformationClass::EA
        | FileInformationClass::ID
        | FileInformationClass::INTERNAL
        | FileInformationClass::MODE
        | FileInformationClass::NETWORK_OPEN
        | FileInformationClass::POSITION
        | FileInformationClass::STANDARD
        | FileInformationClass::STREAM => return Ok(()),
        // [MS-SMB2] 3.3.5.20.1: older dialects lack this class.
        FileInformationClass::NORMALIZED_NAME if dialect >= Dialect::SMB_3_1_1 => return Ok(()),
        FileInformationClass::NORMALIZED_NAME => Reject::FileClassNotOffered(class),
        FileInformationClass::PIPE
        | FileInformationClass::PIPE_LOCAL
        | FileInformationClass::PIPE_REMOTE => Reject::PipeClassUnknown(class),
        _ => Reject::FileClassUnknown(class),
    };
    Err(reject)
}

/// Returns whether a class needs FILE_READ_ATTRIBUTES. The other classes contain nothing that the
/// holder of an open may not know: [MS-SMB2] 3.3.5.20.1.
fn needs_read_attributes(class: FileInformationClass) -> bool {
    matches!(
        class,
        FileInformationClass::ALL
            | FileInformationClass::ATTRIBUTE_TAG
            | FileInformationClass::BASIC
            | FileInformationClass::NETWORK_OPEN
            | FileInformationClass::POSIX
    )
}

fn has_ea_size(class: FileInformationClass) -> bool {
    matches!(class, FileInformationClass::ALL | FileInformationClass::EA)
}

/// Makes the response from the store's reply.
pub(super) fn resume(
    open: &Open,
    globals: &Globals,
    question: &Question,
    reply: ObjectReply,
) -> Result<Step<Pending>, Reject> {
    let length = question.output_buffer_length;
    match reply {
        ObjectReply::ShortName(name) => answer_short_name(name, length),
        ObjectReply::Streams(streams) => Ok(answer_streams(&streams, length)),
        ObjectReply::Metadata(metadata) => {
            respond_with(open, globals, question.class, &metadata, length)
        }
        other => panic!("{other:?} does not answer {question:?}"),
    }
}

fn respond_with(
    open: &Open,
    globals: &Globals,
    class: FileInformationClass,
    metadata: &Metadata,
    length: u32,
) -> Result<Step<Pending>, Reject> {
    let file = open.file()?;
    let is_hidden = globals.hides_file_ids(open.session_id, &open.share);
    let file_id = if is_hidden { 0 } else { metadata.identity.inode };
    let mut out = Vec::with_capacity(128);
    match class {
        FileInformationClass::ACCESS => access(open).encode(&mut out),
        FileInformationClass::ALIGNMENT => alignment().encode(&mut out),
        FileInformationClass::ALL => all(open, file, globals, metadata, file_id).encode(&mut out),
        FileInformationClass::ATTRIBUTE_TAG => FileAttributeTagInformation {
            file_attributes: metadata.attributes.shown(),
            reparse_tag: metadata.reparse_tag,
        }
        .encode(&mut out),
        FileInformationClass::BASIC => basic(metadata).encode(&mut out),
        FileInformationClass::COMPRESSION => FileCompressionInformation {
            compressed_file_size: metadata.end_of_file,
            ..FileCompressionInformation::default()
        }
        .encode(&mut out),
        FileInformationClass::EA => {
            FileEaInformation { ea_size: metadata.ea_size }.encode(&mut out);
        }
        FileInformationClass::ID => id(metadata, file_id).encode(&mut out),
        FileInformationClass::INTERNAL => {
            FileInternalInformation { index_number: file_id }.encode(&mut out)
        }
        FileInformationClass::MODE => mode(file).encode(&mut out),
        FileInformationClass::NETWORK_OPEN => network_open(metadata).encode(&mut out),
        FileInformationClass::NORMALIZED_NAME => {
            FileNameInformation { file_name: file.path.to_windows() }.encode(&mut out);
        }
        FileInformationClass::POSITION => position(file).encode(&mut out),
        FileInformationClass::POSIX => posix::information(metadata).encode(&mut out),
        FileInformationClass::STANDARD => standard(file, globals, metadata).encode(&mut out),
        other => panic!("{other:?} was refused by `verify_class`"),
    }
    answer(out, file_minimum(class), length)
}

fn access(open: &Open) -> FileAccessInformation {
    FileAccessInformation { access_flags: open.granted_access }
}

/// Returns no requirement, because no supported device needs aligned buffers.
fn alignment() -> FileAlignmentInformation {
    FileAlignmentInformation { alignment_requirement: 0 }
}

fn all(
    open: &Open,
    file: &OpenFile,
    globals: &Globals,
    metadata: &Metadata,
    file_id: u64,
) -> FileAllInformation {
    FileAllInformation {
        basic: basic(metadata),
        standard: standard(file, globals, metadata),
        internal: FileInternalInformation { index_number: file_id },
        ea: FileEaInformation { ea_size: metadata.ea_size },
        access: access(open),
        position: position(file),
        mode: mode(file),
        alignment: alignment(),
        // Path from the share's root, with a leading separator for the root.
        name: FileNameInformation { file_name: format!("\\{}", file.path.to_windows()) },
    }
}

/// Makes the response with a short name: [MS-FSA] 2.1.5.12.4.
fn answer_short_name(name: Option<String>, length: u32) -> Result<Step<Pending>, Reject> {
    let file_name = name.ok_or(Reject::NoShortName)?;
    let mut out = Vec::new();
    FileNameInformation { file_name }.encode(&mut out);
    answer(out, file_minimum(FileInformationClass::ALTERNATE_NAME), length)
}

fn basic(metadata: &Metadata) -> FileBasicInformation {
    FileBasicInformation {
        creation_time: metadata.creation_time,
        last_access_time: metadata.last_access_time,
        last_write_time: metadata.last_write_time,
        change_time: metadata.change_time,
        file_attributes: metadata.attributes.shown(),
        reserved: Reserved,
    }
}

fn id(metadata: &Metadata, file_id: u64) -> FileIdInformation {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&file_id.to_le_bytes());
    FileIdInformation { volume_serial_number: metadata.identity.device, file_id: bytes }
}

fn mode(file: &OpenFile) -> FileModeInformation {
    let mode = (file.create_options & MODE).bits() | file.mode;
    FileModeInformation { mode }
}

fn network_open(metadata: &Metadata) -> FileNetworkOpenInformation {
    FileNetworkOpenInformation {
        creation_time: metadata.creation_time,
        last_access_time: metadata.last_access_time,
        last_write_time: metadata.last_write_time,
        change_time: metadata.change_time,
        allocation_size: metadata.allocation_size,
        end_of_file: metadata.end_of_file,
        file_attributes: metadata.attributes.shown(),
        reserved: Reserved,
    }
}

fn position(file: &OpenFile) -> FilePositionInformation {
    FilePositionInformation { current_byte_offset: file.position }
}

/// Returns FileStandardInformation: [MS-FSA] 2.1.5.12.27. A name that is delete pending no longer
/// counts as a link.
fn standard(file: &OpenFile, globals: &Globals, metadata: &Metadata) -> FileStandardInformation {
    let delete_pending = globals.files.is_delete_pending(file.identity, file.link);
    FileStandardInformation {
        allocation_size: metadata.allocation_size,
        end_of_file: metadata.end_of_file,
        number_of_links: metadata.number_of_links.saturating_sub(u32::from(delete_pending)),
        delete_pending,
        directory: metadata.is_directory(),
        reserved: Reserved,
    }
}

/// Makes a response of whole entries, with BUFFER_OVERFLOW if there are more: [MS-FSA] 2.1.5.12.29.
fn answer_streams(streams: &[object::StreamEntry], length: u32) -> Step<Pending> {
    let limit = usize::try_from(length).expect("32 bits fit memory");
    let mut out = Vec::new();
    let mut writer = EntryListWriter::new(&mut out, limit, 8);
    for stream in streams {
        let entry = StreamEntry {
            name: format!(":{}:$DATA", stream.name),
            size: stream.size,
            allocation_size: stream.allocation_size,
        };
        if !writer.push(|out| encode_stream_entry(&entry, out)) {
            return respond(NtStatus::BUFFER_OVERFLOW, &out);
        }
    }
    respond(NtStatus::SUCCESS, &out)
}
