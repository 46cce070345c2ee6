//! Durable and persistent opens: [MS-SMB2] 2.2.13.2.3, .4, .11, .12 and 2.2.14.2.3, .12.

use dtyp::Guid;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::create_context::{CreateContextData, CreateContextName};
use crate::error::DecodeError;
use crate::file_id::{FileId, FileIdLayout};
use crate::message;

bitflags::bitflags! {
    /// Flags of the second version.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct DurableFlags: u32 {
        /// The open is persistent, or persistence is requested.
        const PERSISTENT = 0x0000_0002;

        const _ = !0;
    }
}

/// Requests a durable open; has no fields.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DurableHandleRequest;

impl CreateContextData<'_> for DurableHandleRequest {
    const NAME: CreateContextName<'static> = CreateContextName::DURABLE_HANDLE_REQUEST;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        message::prefix::<[u8; 16]>(data).map(|_| Self)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0; 16]);
    }
}

/// Grants a durable open; has no fields.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DurableHandleResponse;

impl CreateContextData<'_> for DurableHandleResponse {
    const NAME: CreateContextName<'static> = CreateContextName::DURABLE_HANDLE_REQUEST;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        message::prefix::<[u8; 8]>(data).map(|_| Self)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0; 8]);
    }
}

/// Reconnects a durable open: [MS-SMB2] 2.2.13.2.4.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DurableHandleReconnect {
    /// The open to reconnect.
    pub file_id: FileId,
}

impl CreateContextData<'_> for DurableHandleReconnect {
    const NAME: CreateContextName<'static> = CreateContextName::DURABLE_HANDLE_RECONNECT;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let (file_id, _) = message::prefix::<FileIdLayout>(data)?;
        Ok(Self { file_id: (*file_id).into() })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        message::put(out, &FileIdLayout::from(self.file_id));
    }
}

/// Requests a durable or persistent open, 3.x.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DurableHandleRequestV2 {
    /// Requested time to keep the open without a connection, in milliseconds; zero leaves it to the
    /// server.
    pub timeout_ms: u32,
    /// Whether persistence is requested.
    pub flags: DurableFlags,
    /// Identifies the request, so that it can be replayed.
    pub create_guid: Guid,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestV2Layout {
    timeout: U32,
    flags: U32,
    reserved: U64,
    create_guid: [u8; 16],
}

impl CreateContextData<'_> for DurableHandleRequestV2 {
    const NAME: CreateContextName<'static> = CreateContextName::DURABLE_HANDLE_REQUEST_V2;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let (layout, _) = message::prefix::<RequestV2Layout>(data)?;
        Ok(Self {
            timeout_ms: layout.timeout.get(),
            flags: DurableFlags::from_bits_retain(layout.flags.get()),
            create_guid: Guid(layout.create_guid),
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let layout = RequestV2Layout {
            timeout: self.timeout_ms.into(),
            flags: self.flags.bits().into(),
            reserved: U64::ZERO,
            create_guid: self.create_guid.0,
        };
        message::put(out, &layout);
    }
}

/// Grants a durable or persistent open.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DurableHandleResponseV2 {
    /// Time for which the open is kept without a connection, in milliseconds.
    pub timeout_ms: u32,
    /// Whether the open is persistent.
    pub flags: DurableFlags,
}

impl CreateContextData<'_> for DurableHandleResponseV2 {
    const NAME: CreateContextName<'static> = CreateContextName::DURABLE_HANDLE_REQUEST_V2;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let ([timeout, flags], _) = message::prefix::<[U32; 2]>(data)?;
        let flags = DurableFlags::from_bits_retain(flags.get());
        Ok(Self { timeout_ms: timeout.get(), flags })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        message::put(out, &[U32::new(self.timeout_ms), U32::new(self.flags.bits())]);
    }
}

/// Reconnects a durable or persistent open, 3.x.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DurableHandleReconnectV2 {
    /// The open to reconnect.
    pub file_id: FileId,
    /// The CreateGuid of the request that made the open.
    pub create_guid: Guid,
    /// Whether the open is persistent.
    pub flags: DurableFlags,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct ReconnectV2Layout {
    file_id: FileIdLayout,
    create_guid: [u8; 16],
    flags: U32,
}

impl CreateContextData<'_> for DurableHandleReconnectV2 {
    const NAME: CreateContextName<'static> = CreateContextName::DURABLE_HANDLE_RECONNECT_V2;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let (layout, _) = message::prefix::<ReconnectV2Layout>(data)?;
        Ok(Self {
            file_id: layout.file_id.into(),
            create_guid: Guid(layout.create_guid),
            flags: DurableFlags::from_bits_retain(layout.flags.get()),
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let layout = ReconnectV2Layout {
            file_id: self.file_id.into(),
            create_guid: self.create_guid.0,
            flags: self.flags.bits().into(),
        };
        message::put(out, &layout);
    }
}
