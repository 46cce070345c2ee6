//! The POSIX extensions of 3.1.1: no part of [MS-SMB2]; as Linux and Samba speak them.
//!
//! A client asks for them in NEGOTIATE, and then for each open by a create context. Such an open has a path
//! whose names are taken as they are: with their case, and with the characters that Windows reserves.

use dtyp::Sid;
use dtyp::fscc::{FileFsPosixInformation, FilePosixInformation};
use object::{Metadata, Volume};
use wire::create_context::{PosixRequest, PosixResponse};

/// Permission bits, those that run as another included.
const PERMISSIONS: u32 = 0o7777;

/// "No mode": what Linux says where it has none to give. No file has all types.
const NO_MODE: u32 = 0xFFFF;

/// The type of a file in its mode, as POSIX and Linux number them.
const TYPE: u32 = 0o170_000;

/// The permissions of a file that is created.
pub(crate) fn created_mode(request: PosixRequest) -> Option<u32> {
    (request.mode & NO_MODE != NO_MODE).then_some(request.mode & PERMISSIONS)
}

/// What is known of a file.
pub(crate) fn information(metadata: &Metadata) -> FilePosixInformation {
    FilePosixInformation {
        creation_time: metadata.creation_time,
        last_access_time: metadata.last_access_time,
        last_write_time: metadata.last_write_time,
        change_time: metadata.change_time,
        end_of_file: metadata.end_of_file,
        allocation_size: metadata.allocation_size,
        file_attributes: metadata.attributes.shown(),
        inode: metadata.identity.inode,
        device: device(metadata.identity.device),
        hard_links: metadata.number_of_links,
        reparse_tag: metadata.reparse_tag,
        mode: mode(metadata),
        owner: Sid::unix_user(metadata.uid),
        group: Sid::unix_group(metadata.gid),
    }
}

/// The answer to the create context.
pub(crate) fn response(metadata: &Metadata) -> PosixResponse {
    PosixResponse {
        hard_links: metadata.number_of_links,
        reparse_tag: metadata.reparse_tag,
        mode: mode(metadata),
        owner: Sid::unix_user(metadata.uid),
        group: Sid::unix_group(metadata.gid),
    }
}

/// What is known of a file system.
pub(crate) fn file_system(volume: &Volume) -> FileFsPosixInformation {
    let block = u64::from(volume.cluster_bytes.max(1));
    FileFsPosixInformation {
        block_bytes: volume.cluster_bytes.max(1),
        total_blocks: volume.total_bytes / block,
        free_blocks: volume.free_bytes / block,
        available_blocks: volume.available_bytes / block,
        identifier: volume.serial_number.into(),
    }
}

/// The permissions, and above them a number for what is neither file nor directory. Those two are told by
/// the attributes: clients from before the number was agreed on take it for a part of the mode.
fn mode(metadata: &Metadata) -> u32 {
    let kind = match metadata.mode & TYPE {
        0o120_000 => 2,
        0o020_000 => 3,
        0o060_000 => 4,
        0o010_000 => 5,
        0o140_000 => 6,
        // Files and directories.
        _ => 0,
    };
    metadata.mode & PERMISSIONS | kind << 12
}

/// 32 bits that tell file systems apart, of major and minor number.
fn device(device: u64) -> u32 {
    let bytes = device.to_le_bytes();
    let [a, b, c, d, e, f, g, h] = bytes;
    u32::from_le_bytes([a, b, c, d]) ^ u32::from_le_bytes([e, f, g, h]).rotate_left(20)
}
