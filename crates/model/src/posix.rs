//! The POSIX extensions of 3.1.1: not part of [MS-SMB2], but spoken by Linux and Samba.
//!
//! A client requests them in NEGOTIATE, and then for each open by a create context. The path of
//! such an open has exact names: with their case, and with the characters that Windows reserves.

use dtyp::Sid;
use dtyp::fscc::{FileFsPosixInformation, FilePosixInformation};
use object::{Metadata, Volume};
use wire::create_context::{PosixRequest, PosixResponse};

/// Permission bits, including set-user-id, set-group-id and the sticky bit.
const PERMISSIONS: u32 = 0o7777;

/// "No mode" of Linux clients. No file has all types at once.
const NO_MODE: u32 = 0xFFFF;

/// Mask of the file type in a mode, with the numbers of POSIX and Linux.
const TYPE: u32 = 0o170_000;

/// Returns the permissions for a new file; none if the client leaves them to the server.
pub fn created_mode(request: PosixRequest) -> Option<u32> {
    (request.mode & NO_MODE != NO_MODE).then_some(request.mode & PERMISSIONS)
}

/// Returns FilePosixInformation for the metadata of a file.
pub fn information(metadata: &Metadata) -> FilePosixInformation {
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

/// Returns the response to the create context.
pub fn response(metadata: &Metadata) -> PosixResponse {
    PosixResponse {
        hard_links: metadata.number_of_links,
        reparse_tag: metadata.reparse_tag,
        mode: mode(metadata),
        owner: Sid::unix_user(metadata.uid),
        group: Sid::unix_group(metadata.gid),
    }
}

/// Returns FileFsPosixInformation for the figures of a volume.
pub fn file_system(volume: &Volume) -> FileFsPosixInformation {
    let block = u64::from(volume.cluster_bytes.max(1));
    FileFsPosixInformation {
        block_bytes: volume.cluster_bytes.max(1),
        total_blocks: volume.total_bytes / block,
        free_blocks: volume.free_bytes / block,
        available_blocks: volume.available_bytes / block,
        identifier: volume.serial_number.into(),
    }
}

/// Returns the permissions, and above them a number for special files. Files and directories have
/// no number: the attributes tell those apart, and clients from before the numbers were agreed on
/// take them for a part of the mode.
fn mode(metadata: &Metadata) -> u32 {
    let kind = match metadata.mode & TYPE {
        0o120_000 => 2,
        0o020_000 => 3,
        0o060_000 => 4,
        0o010_000 => 5,
        0o140_000 => 6,
        // Files and directories have none.
        _ => 0,
    };
    metadata.mode & PERMISSIONS | kind << 12
}

/// Folds a device number into 32 bits, which still tell file systems apart.
fn device(device: u64) -> u32 {
    let bytes = device.to_le_bytes();
    let [a, b, c, d, e, f, g, h] = bytes;
    u32::from_le_bytes([a, b, c, d]) ^ u32::from_le_bytes([e, f, g, h]).rotate_left(20)
}
