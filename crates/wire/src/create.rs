//! SMB2 CREATE opens or creates a file: [MS-SMB2] 2.2.13, 2.2.14.

use dtyp::{AccessMask, FileAttributes, FileTime};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codes::codes;
use crate::create_context::CreateContexts;
use crate::error::DecodeError;
use crate::file_id::{FileId, FileIdLayout};
use crate::message::{self, Decode, Encode};
use crate::oplock_level::OplockLevel;

codes! {
    /// Extent to which the server may impersonate the client. Servers check it and then ignore it.
    ImpersonationLevel(u32) {
        ANONYMOUS = 0x0000_0000,
        IDENTIFICATION = 0x0000_0001,
        IMPERSONATION = 0x0000_0002,
        DELEGATE = 0x0000_0003,
    }
}

bitflags::bitflags! {
    /// Access that other opens may have at the same time.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct ShareAccess: u32 {
        /// Others may read.
        const READ = 0x0000_0001;
        /// Others may write.
        const WRITE = 0x0000_0002;
        /// Others may delete and rename.
        const DELETE = 0x0000_0004;

        const _ = !0;
    }
}

codes! {
    /// Action for an existing file, and for a missing one.
    CreateDisposition(u32) {
        /// Replace the file, or create it.
        SUPERSEDE = 0x0000_0000,
        /// Open the file, or fail.
        OPEN = 0x0000_0001,
        /// Fail, or create the file.
        CREATE = 0x0000_0002,
        /// Open the file, or create it.
        OPEN_IF = 0x0000_0003,
        /// Open and empty the file, or fail.
        OVERWRITE = 0x0000_0004,
        /// Open and empty the file, or create it.
        OVERWRITE_IF = 0x0000_0005,
    }
}

bitflags::bitflags! {
    /// Options for the open and for a new file: [MS-SMB2] 2.2.13.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct CreateOptions: u32 {
        /// The file must be a directory.
        const DIRECTORY_FILE = 0x0000_0001;
        /// Writes reach the disk before they are answered.
        const WRITE_THROUGH = 0x0000_0002;
        /// Access will be sequential.
        const SEQUENTIAL_ONLY = 0x0000_0004;
        /// No caching in the server.
        const NO_INTERMEDIATE_BUFFERING = 0x0000_0008;
        /// Ignored by servers.
        const SYNCHRONOUS_IO_ALERT = 0x0000_0010;
        /// Ignored by servers.
        const SYNCHRONOUS_IO_NONALERT = 0x0000_0020;
        /// The file must not be a directory.
        const NON_DIRECTORY_FILE = 0x0000_0040;
        /// Ignored by servers.
        const COMPLETE_IF_OPLOCKED = 0x0000_0100;
        /// The client does not understand extended attributes.
        const NO_EA_KNOWLEDGE = 0x0000_0200;
        /// Reserved by the protocol.
        const OPEN_REMOTE_INSTANCE = 0x0000_0400;
        /// Access will be random.
        const RANDOM_ACCESS = 0x0000_0800;
        /// The file is deleted when its last open is closed.
        const DELETE_ON_CLOSE = 0x0000_1000;
        /// The name is a file id, not a path.
        const OPEN_BY_FILE_ID = 0x0000_2000;
        /// The open has the rights of a backup operator.
        const OPEN_FOR_BACKUP_INTENT = 0x0000_4000;
        /// A new file is not compressed.
        const NO_COMPRESSION = 0x0000_8000;
        /// Fail rather than break an oplock.
        const OPEN_REQUIRING_OPLOCK = 0x0001_0000;
        /// Fail rather than wait for a file that others have open.
        const DISALLOW_EXCLUSIVE = 0x0002_0000;
        /// Reserve, and take, a filter oplock.
        const RESERVE_OPFILTER = 0x0010_0000;
        /// Open the reparse point itself, not its target.
        const OPEN_REPARSE_POINT = 0x0020_0000;
        /// Do not fetch data from remote storage.
        const OPEN_NO_RECALL = 0x0040_0000;
        /// Reserved by the protocol.
        const OPEN_FOR_FREE_SPACE_QUERY = 0x0080_0000;

        const _ = !0;
    }
}

codes! {
    /// Action that the server took.
    CreateAction(u32) {
        SUPERSEDED = 0x0000_0000,
        OPENED = 0x0000_0001,
        CREATED = 0x0000_0002,
        OVERWRITTEN = 0x0000_0003,
    }
}

bitflags::bitflags! {
    /// Flags of the response, 3.x.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct CreateResponseFlags: u8 {
        /// The path has a reparse point, or the file is one.
        const REPARSEPOINT = 0x01;

        const _ = !0;
    }
}

/// The request: [MS-SMB2] 2.2.13.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CreateRequest<'a> {
    /// The requested oplock.
    pub requested_oplock_level: OplockLevel,
    /// Extent to which the server may impersonate the client.
    pub impersonation_level: ImpersonationLevel,
    /// The requested access.
    pub desired_access: AccessMask,
    /// Attributes of a new file.
    pub file_attributes: FileAttributes,
    /// Access that other opens may have.
    pub share_access: ShareAccess,
    /// Action for an existing file, and for a missing one.
    pub create_disposition: CreateDisposition,
    /// Options for the open and for a new file.
    pub create_options: CreateOptions,
    /// Path below the share, in UTF-16LE, without a terminator. Not validated: its length may be
    /// odd, and its units may be anything.
    pub name: &'a [u8],
    /// Further parameters of the open.
    pub create_contexts: CreateContexts<'a>,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestLayout {
    structure_size: U16,
    security_flags: u8,
    requested_oplock_level: u8,
    impersonation_level: U32,
    smb_create_flags: U64,
    reserved: U64,
    desired_access: U32,
    file_attributes: U32,
    share_access: U32,
    create_disposition: U32,
    create_options: U32,
    name_offset: U16,
    name_length: U16,
    create_contexts_offset: U32,
    create_contexts_length: U32,
}

const REQUEST_SIZE: u16 = 57;

impl<'a> Decode<'a> for CreateRequest<'a> {
    fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let layout: &RequestLayout = message::body(message, REQUEST_SIZE)?;
        let name = message::buffer(message, layout.name_offset.get(), layout.name_length.get())?;
        let (offset, length) = (layout.create_contexts_offset, layout.create_contexts_length);
        let contexts = message::buffer(message, offset.get(), length.get())?;
        let create_contexts = match contexts.is_empty() {
            true => CreateContexts::EMPTY,
            false => CreateContexts::parse(contexts)?,
        };
        Ok(Self {
            requested_oplock_level: OplockLevel(layout.requested_oplock_level),
            impersonation_level: ImpersonationLevel(layout.impersonation_level.get()),
            desired_access: AccessMask::from_bits_retain(layout.desired_access.get()),
            file_attributes: FileAttributes::from_bits_retain(layout.file_attributes.get()),
            share_access: ShareAccess::from_bits_retain(layout.share_access.get()),
            create_disposition: CreateDisposition(layout.create_disposition.get()),
            create_options: CreateOptions::from_bits_retain(layout.create_options.get()),
            name,
            create_contexts,
        })
    }
}

impl Encode for CreateRequest<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let contexts = self.create_contexts.as_bytes();
        let name_end = size_of::<RequestLayout>() + self.name.len();
        let contexts_offset = crate::header::SIZE + name_end.next_multiple_of(8);
        let contexts_offset = if contexts.is_empty() { 0 } else { contexts_offset };
        let layout = RequestLayout {
            structure_size: REQUEST_SIZE.into(),
            security_flags: 0,
            requested_oplock_level: self.requested_oplock_level.0,
            impersonation_level: self.impersonation_level.0.into(),
            smb_create_flags: U64::ZERO,
            reserved: U64::ZERO,
            desired_access: self.desired_access.bits().into(),
            file_attributes: self.file_attributes.bits().into(),
            share_access: self.share_access.bits().into(),
            create_disposition: self.create_disposition.0.into(),
            create_options: self.create_options.bits().into(),
            name_offset: message::offset_behind::<RequestLayout>().into(),
            name_length: message::len16(self.name).into(),
            create_contexts_offset: u32::try_from(contexts_offset)
                .expect("names are shorter than 64 KiB")
                .into(),
            create_contexts_length: message::len32(contexts).into(),
        };
        message::put(out, &layout);
        out.extend_from_slice(self.name);
        if !contexts.is_empty() {
            message::align(out, start, 8);
            out.extend_from_slice(contexts);
        }
        message::fill_request(out, start, REQUEST_SIZE);
    }
}

/// The response: [MS-SMB2] 2.2.14.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CreateResponse<'a> {
    /// The granted oplock.
    pub oplock_level: OplockLevel,
    /// Whether the path has a reparse point.
    pub flags: CreateResponseFlags,
    /// Action that the server took.
    pub create_action: CreateAction,
    /// Time of the file's creation.
    pub creation_time: FileTime,
    /// Time of the last read.
    pub last_access_time: FileTime,
    /// Time of the last change of the data.
    pub last_write_time: FileTime,
    /// Time of the last change of data or metadata.
    pub change_time: FileTime,
    /// Bytes allocated on disk.
    pub allocation_size: u64,
    /// Length in bytes.
    pub end_of_file: u64,
    /// Attributes of the file.
    pub file_attributes: FileAttributes,
    /// The new open.
    pub file_id: FileId,
    /// Results of the request's contexts.
    pub create_contexts: CreateContexts<'a>,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct ResponseLayout {
    structure_size: U16,
    oplock_level: u8,
    flags: u8,
    create_action: U32,
    creation_time: U64,
    last_access_time: U64,
    last_write_time: U64,
    change_time: U64,
    allocation_size: U64,
    end_of_file: U64,
    file_attributes: U32,
    reserved2: U32,
    file_id: FileIdLayout,
    create_contexts_offset: U32,
    create_contexts_length: U32,
}

const RESPONSE_SIZE: u16 = 89;

impl<'a> Decode<'a> for CreateResponse<'a> {
    fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let layout: &ResponseLayout = message::body(message, RESPONSE_SIZE)?;
        let (offset, length) = (layout.create_contexts_offset, layout.create_contexts_length);
        let contexts = message::buffer(message, offset.get(), length.get())?;
        Ok(Self {
            oplock_level: OplockLevel(layout.oplock_level),
            flags: CreateResponseFlags::from_bits_retain(layout.flags),
            create_action: CreateAction(layout.create_action.get()),
            creation_time: FileTime(layout.creation_time.get()),
            last_access_time: FileTime(layout.last_access_time.get()),
            last_write_time: FileTime(layout.last_write_time.get()),
            change_time: FileTime(layout.change_time.get()),
            allocation_size: layout.allocation_size.get(),
            end_of_file: layout.end_of_file.get(),
            file_attributes: FileAttributes::from_bits_retain(layout.file_attributes.get()),
            file_id: layout.file_id.into(),
            create_contexts: CreateContexts::parse(contexts)?,
        })
    }

    fn file_id(&self) -> Option<FileId> {
        Some(self.file_id)
    }
}

impl Encode for CreateResponse<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let contexts = self.create_contexts.as_bytes();
        let behind = message::offset_behind::<ResponseLayout>();
        let layout = ResponseLayout {
            structure_size: RESPONSE_SIZE.into(),
            oplock_level: self.oplock_level.0,
            flags: self.flags.bits(),
            create_action: self.create_action.0.into(),
            creation_time: self.creation_time.0.into(),
            last_access_time: self.last_access_time.0.into(),
            last_write_time: self.last_write_time.0.into(),
            change_time: self.change_time.0.into(),
            allocation_size: self.allocation_size.into(),
            end_of_file: self.end_of_file.into(),
            file_attributes: self.file_attributes.bits().into(),
            reserved2: U32::ZERO,
            file_id: self.file_id.into(),
            create_contexts_offset: if contexts.is_empty() { 0 } else { behind.into() }.into(),
            create_contexts_length: message::len32(contexts).into(),
        };
        message::put(out, &layout);
        out.extend_from_slice(contexts);
    }
}

#[cfg(test)]
mod tests;
