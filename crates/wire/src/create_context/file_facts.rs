//! Properties of a file that a CREATE sets or queries: [MS-SMB2] 2.2.13.2.1, .2, .5 to .7, .9 and
//! 2.2.14.2.5, .9.

use dtyp::{AccessMask, FileTime, NtStatus};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::create_context::{CreateContextData, CreateContextName};
use crate::error::DecodeError;
use crate::message;

/// The extended attributes of a new file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ExtendedAttributes<'a> {
    /// FILE_FULL_EA_INFORMATION entries, [MS-FSCC] 2.4.16.
    pub entries: &'a [u8],
}

impl<'a> CreateContextData<'a> for ExtendedAttributes<'a> {
    const NAME: CreateContextName<'static> = CreateContextName::EA_BUFFER;

    fn decode(data: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(Self { entries: data })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.entries);
    }
}

/// The security descriptor of a new file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SecurityDescriptor<'a> {
    /// A SECURITY_DESCRIPTOR, [MS-DTYP] 2.4.6.
    pub descriptor: &'a [u8],
}

impl<'a> CreateContextData<'a> for SecurityDescriptor<'a> {
    const NAME: CreateContextName<'static> = CreateContextName::SD_BUFFER;

    fn decode(data: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(Self { descriptor: data })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.descriptor);
    }
}

/// The allocation size of a new file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AllocationSize {
    /// In bytes.
    pub allocation_size: u64,
}

impl CreateContextData<'_> for AllocationSize {
    const NAME: CreateContextName<'static> = CreateContextName::ALLOCATION_SIZE;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let (allocation_size, _) = message::prefix::<U64>(data)?;
        Ok(Self { allocation_size: allocation_size.get() })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        message::put(out, &U64::new(self.allocation_size));
    }
}

/// Queries the maximal access of the user.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QueryMaximalAccessRequest {
    /// Skips the answer unless the file changed after this time; absent in the short form.
    pub timestamp: Option<FileTime>,
}

impl CreateContextData<'_> for QueryMaximalAccessRequest {
    const NAME: CreateContextName<'static> = CreateContextName::QUERY_MAXIMAL_ACCESS_REQUEST;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        if data.is_empty() {
            return Ok(Self { timestamp: None });
        }
        let (timestamp, _) = message::prefix::<U64>(data)?;
        Ok(Self { timestamp: Some(FileTime(timestamp.get())) })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        if let Some(timestamp) = self.timestamp {
            message::put(out, &U64::new(timestamp.0));
        }
    }
}

/// The maximal access of the user.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QueryMaximalAccessResponse {
    /// Status of the query.
    pub query_status: NtStatus,
    /// The access, if the status is a success.
    pub maximal_access: AccessMask,
}

impl CreateContextData<'_> for QueryMaximalAccessResponse {
    const NAME: CreateContextName<'static> = CreateContextName::QUERY_MAXIMAL_ACCESS_REQUEST;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let ([status, access], _) = message::prefix::<[U32; 2]>(data)?;
        let maximal_access = AccessMask::from_bits_retain(access.get());
        Ok(Self { query_status: NtStatus(status.get()), maximal_access })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let fields = [self.query_status.0, self.maximal_access.bits()].map(U32::new);
        message::put(out, &fields);
    }
}

/// Opens the file as it was in a snapshot.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TimewarpToken {
    /// Creation time of the snapshot.
    pub timestamp: FileTime,
}

impl CreateContextData<'_> for TimewarpToken {
    const NAME: CreateContextName<'static> = CreateContextName::TIMEWARP_TOKEN;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let (timestamp, _) = message::prefix::<U64>(data)?;
        Ok(Self { timestamp: FileTime(timestamp.get()) })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        message::put(out, &U64::new(self.timestamp.0));
    }
}

/// Queries the number of the file on disk; has no data.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QueryOnDiskIdRequest;

impl CreateContextData<'_> for QueryOnDiskIdRequest {
    const NAME: CreateContextName<'static> = CreateContextName::QUERY_ON_DISK_ID;

    fn decode(_: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self)
    }

    fn encode(&self, _: &mut Vec<u8>) {}
}

/// Number of the file on disk.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QueryOnDiskIdResponse {
    /// Number of the file on its volume.
    pub disk_file_id: u64,
    /// Number of the volume.
    pub volume_id: u64,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct DiskIdLayout {
    disk_file_id: U64,
    volume_id: U64,
    reserved: [u8; 16],
}

impl CreateContextData<'_> for QueryOnDiskIdResponse {
    const NAME: CreateContextName<'static> = CreateContextName::QUERY_ON_DISK_ID;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let (layout, _) = message::prefix::<DiskIdLayout>(data)?;
        Ok(Self { disk_file_id: layout.disk_file_id.get(), volume_id: layout.volume_id.get() })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let layout = DiskIdLayout {
            disk_file_id: self.disk_file_id.into(),
            volume_id: self.volume_id.into(),
            reserved: [0; 16],
        };
        message::put(out, &layout);
    }
}
