//! SMB2 NEGOTIATE chooses the dialect and its parameters: [MS-SMB2] 2.2.3, 2.2.4.

use dtyp::{FileTime, Guid};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codes::Codes;
use crate::dialect::{Dialect, Dialects};
use crate::error::DecodeError;
use crate::message::{self, Decode, Encode};
use crate::negotiate_context::NegotiateContexts;

bitflags::bitflags! {
    /// SecurityMode: signing of one end. SESSION_SETUP has the same bits in a byte.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct SecurityMode: u16 {
        /// Signs if the other end requests it.
        const SIGNING_ENABLED = 0x0001;
        /// Refuses unsigned messages.
        const SIGNING_REQUIRED = 0x0002;

        const _ = !0;
    }
}

bitflags::bitflags! {
    /// Capabilities of client or server: [MS-SMB2] 2.2.3, 2.2.4.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct Capabilities: u32 {
        /// The distributed file system.
        const DFS = 0x0000_0001;
        /// Leases: 2.1.
        const LEASING = 0x0000_0002;
        /// Requests that cost several credits: 2.1.
        const LARGE_MTU = 0x0000_0004;
        /// Several connections in one session: 3.0.
        const MULTI_CHANNEL = 0x0000_0008;
        /// Opens that survive a restart of the server: 3.0.
        const PERSISTENT_HANDLES = 0x0000_0010;
        /// Leases on directories: 3.0.
        const DIRECTORY_LEASING = 0x0000_0020;
        /// Encryption, in 3.0 and 3.0.2 only: 3.1.1 negotiates it by context.
        const ENCRYPTION = 0x0000_0040;
        /// Notifications from the server: 3.1.1.
        const NOTIFICATIONS = 0x0000_0080;

        const _ = !0;
    }
}

/// The request: [MS-SMB2] 2.2.3.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NegotiateRequest<'a> {
    /// The client's signing mode.
    pub security_mode: SecurityMode,
    /// Capabilities of the client, from 3.0 on.
    pub capabilities: Capabilities,
    /// Identifies the client machine, from 2.1 on.
    pub client_guid: Guid,
    /// Offered dialects, in the order of the client.
    pub dialects: Dialects<'a>,
    /// The contexts; empty unless 3.1.1 is among the dialects.
    pub negotiate_contexts: NegotiateContexts<'a>,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestLayout {
    structure_size: U16,
    dialect_count: U16,
    security_mode: U16,
    reserved: U16,
    capabilities: U32,
    client_guid: [u8; 16],
    /// ClientStartTime, together with the next two, if 3.1.1 is not offered.
    negotiate_context_offset: U32,
    negotiate_context_count: U16,
    reserved2: U16,
}

const REQUEST_SIZE: u16 = 36;

impl<'a> Decode<'a> for NegotiateRequest<'a> {
    fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let layout: &RequestLayout = message::body(message, REQUEST_SIZE)?;
        let dialects_length = usize::from(layout.dialect_count.get()) * 2;
        let dialects_offset = message::offset_behind::<RequestLayout>();
        let dialects = message::buffer(message, dialects_offset, dialects_length)?;
        let dialects = Codes::from_bytes(dialects);
        let negotiate_contexts = if dialects.contains(Dialect::SMB_3_1_1) {
            let offset = layout.negotiate_context_offset.get();
            NegotiateContexts::parse(message, offset, layout.negotiate_context_count.get())?
        } else {
            NegotiateContexts::default()
        };
        Ok(Self {
            security_mode: SecurityMode::from_bits_retain(layout.security_mode.get()),
            capabilities: Capabilities::from_bits_retain(layout.capabilities.get()),
            client_guid: Guid(layout.client_guid),
            dialects,
            negotiate_contexts,
        })
    }
}

impl Encode for NegotiateRequest<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let dialects_end = size_of::<RequestLayout>() + self.dialects.len() * 2;
        let contexts_offset = crate::header::SIZE + dialects_end.next_multiple_of(8);
        let has_contexts = !self.negotiate_contexts.is_empty();
        let offset = if has_contexts { contexts_offset } else { 0 };
        let layout = RequestLayout {
            structure_size: REQUEST_SIZE.into(),
            dialect_count: u16::try_from(self.dialects.len())
                .expect("fewer than 65536 dialects")
                .into(),
            security_mode: self.security_mode.bits().into(),
            reserved: U16::ZERO,
            capabilities: self.capabilities.bits().into(),
            client_guid: self.client_guid.0,
            negotiate_context_offset: u32::try_from(offset).expect("behind few dialects").into(),
            negotiate_context_count: self.negotiate_contexts.len().into(),
            reserved2: U16::ZERO,
        };
        message::put(out, &layout);
        self.dialects.encode(out);
        if has_contexts {
            message::align(out, start, 8);
            out.extend_from_slice(self.negotiate_contexts.as_bytes());
        }
    }
}

/// The response: [MS-SMB2] 2.2.4.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NegotiateResponse<'a> {
    /// The server's signing mode.
    pub security_mode: SecurityMode,
    /// Dialect of the connection, or the wildcard.
    pub dialect_revision: Dialect,
    /// Identifies the server.
    pub server_guid: Guid,
    /// Capabilities of the server.
    pub capabilities: Capabilities,
    /// Largest buffer of QUERY_INFO, QUERY_DIRECTORY, SET_INFO and CHANGE_NOTIFY, in bytes.
    pub max_transact_size: u32,
    /// Largest READ, in bytes.
    pub max_read_size: u32,
    /// Largest WRITE, in bytes.
    pub max_write_size: u32,
    /// Time of the server's clock.
    pub system_time: FileTime,
    /// Start time of the server, or zero.
    pub server_start_time: FileTime,
    /// First token of the authentication.
    pub security_buffer: &'a [u8],
    /// The contexts; empty unless the dialect is 3.1.1.
    pub negotiate_contexts: NegotiateContexts<'a>,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct ResponseLayout {
    structure_size: U16,
    security_mode: U16,
    dialect_revision: U16,
    /// Reserved unless the dialect is 3.1.1.
    negotiate_context_count: U16,
    server_guid: [u8; 16],
    capabilities: U32,
    max_transact_size: U32,
    max_read_size: U32,
    max_write_size: U32,
    system_time: U64,
    server_start_time: U64,
    security_buffer_offset: U16,
    security_buffer_length: U16,
    /// Reserved unless the dialect is 3.1.1.
    negotiate_context_offset: U32,
}

const RESPONSE_SIZE: u16 = 65;

impl<'a> Decode<'a> for NegotiateResponse<'a> {
    fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let layout: &ResponseLayout = message::body(message, RESPONSE_SIZE)?;
        let (offset, length) = (layout.security_buffer_offset, layout.security_buffer_length);
        let security_buffer = message::buffer(message, offset.get(), length.get())?;
        let dialect_revision = Dialect(layout.dialect_revision.get());
        let negotiate_contexts = if dialect_revision == Dialect::SMB_3_1_1 {
            let offset = layout.negotiate_context_offset.get();
            NegotiateContexts::parse(message, offset, layout.negotiate_context_count.get())?
        } else {
            NegotiateContexts::default()
        };
        Ok(Self {
            security_mode: SecurityMode::from_bits_retain(layout.security_mode.get()),
            dialect_revision,
            server_guid: Guid(layout.server_guid),
            capabilities: Capabilities::from_bits_retain(layout.capabilities.get()),
            max_transact_size: layout.max_transact_size.get(),
            max_read_size: layout.max_read_size.get(),
            max_write_size: layout.max_write_size.get(),
            system_time: FileTime(layout.system_time.get()),
            server_start_time: FileTime(layout.server_start_time.get()),
            security_buffer,
            negotiate_contexts,
        })
    }
}

impl Encode for NegotiateResponse<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let buffer_end = size_of::<ResponseLayout>() + self.security_buffer.len();
        let contexts_offset = crate::header::SIZE + buffer_end.next_multiple_of(8);
        let has_contexts = !self.negotiate_contexts.is_empty();
        let offset = if has_contexts { contexts_offset } else { 0 };
        let layout = ResponseLayout {
            structure_size: RESPONSE_SIZE.into(),
            security_mode: self.security_mode.bits().into(),
            dialect_revision: self.dialect_revision.0.into(),
            negotiate_context_count: self.negotiate_contexts.len().into(),
            server_guid: self.server_guid.0,
            capabilities: self.capabilities.bits().into(),
            max_transact_size: self.max_transact_size.into(),
            max_read_size: self.max_read_size.into(),
            max_write_size: self.max_write_size.into(),
            system_time: self.system_time.0.into(),
            server_start_time: self.server_start_time.0.into(),
            security_buffer_offset: message::offset_behind::<ResponseLayout>().into(),
            security_buffer_length: message::len16(self.security_buffer).into(),
            negotiate_context_offset: u32::try_from(offset).expect("behind 64 KiB").into(),
        };
        message::put(out, &layout);
        out.extend_from_slice(self.security_buffer);
        if has_contexts {
            message::align(out, start, 8);
            out.extend_from_slice(self.negotiate_contexts.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests;
