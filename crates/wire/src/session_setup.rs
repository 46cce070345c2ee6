//! SMB2 SESSION_SETUP authenticates in several steps: [MS-SMB2] 2.2.5, 2.2.6.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::message::{self, Decode, Encode};
use crate::negotiate::{Capabilities, SecurityMode};

bitflags::bitflags! {
    /// Flags of the request: [MS-SMB2] 2.2.5.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct SessionSetupFlags: u8 {
        /// Adds this connection to an existing session.
        const BINDING = 0x01;

        const _ = !0;
    }
}

bitflags::bitflags! {
    /// SessionFlags of the response: [MS-SMB2] 2.2.6.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct SessionFlags: u16 {
        /// The user is a guest.
        const IS_GUEST = 0x0001;
        /// The user is anonymous.
        const IS_NULL = 0x0002;
        /// The session must be encrypted.
        const ENCRYPT_DATA = 0x0004;

        const _ = !0;
    }
}

/// The request: [MS-SMB2] 2.2.5.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SessionSetupRequest<'a> {
    /// Whether the request binds a connection to a session.
    pub flags: SessionSetupFlags,
    /// The client's signing mode; one byte here.
    pub security_mode: SecurityMode,
    /// Capabilities of the client: only DFS has a meaning.
    pub capabilities: Capabilities,
    /// The session that the new one replaces, or zero.
    pub previous_session_id: u64,
    /// Next token of the authentication.
    pub security_buffer: &'a [u8],
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestLayout {
    structure_size: U16,
    flags: u8,
    security_mode: u8,
    capabilities: U32,
    channel: U32,
    security_buffer_offset: U16,
    security_buffer_length: U16,
    previous_session_id: U64,
}

const REQUEST_SIZE: u16 = 25;

impl<'a> Decode<'a> for SessionSetupRequest<'a> {
    fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let layout: &RequestLayout = message::body(message, REQUEST_SIZE)?;
        let (offset, length) = (layout.security_buffer_offset, layout.security_buffer_length);
        Ok(Self {
            flags: SessionSetupFlags::from_bits_retain(layout.flags),
            security_mode: SecurityMode::from_bits_retain(layout.security_mode.into()),
            capabilities: Capabilities::from_bits_retain(layout.capabilities.get()),
            previous_session_id: layout.previous_session_id.get(),
            security_buffer: message::buffer(message, offset.get(), length.get())?,
        })
    }
}

impl Encode for SessionSetupRequest<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let [security_mode, _] = self.security_mode.bits().to_le_bytes();
        let layout = RequestLayout {
            structure_size: REQUEST_SIZE.into(),
            flags: self.flags.bits(),
            security_mode,
            capabilities: self.capabilities.bits().into(),
            channel: U32::ZERO,
            security_buffer_offset: message::offset_behind::<RequestLayout>().into(),
            security_buffer_length: message::len16(self.security_buffer).into(),
            previous_session_id: self.previous_session_id.into(),
        };
        message::put(out, &layout);
        out.extend_from_slice(self.security_buffer);
        message::fill_request(out, start, REQUEST_SIZE);
    }
}

/// The response: [MS-SMB2] 2.2.6.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SessionSetupResponse<'a> {
    /// Kind of the new session.
    pub session_flags: SessionFlags,
    /// Next token of the authentication.
    pub security_buffer: &'a [u8],
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct ResponseLayout {
    structure_size: U16,
    session_flags: U16,
    security_buffer_offset: U16,
    security_buffer_length: U16,
}

const RESPONSE_SIZE: u16 = 9;

impl<'a> Decode<'a> for SessionSetupResponse<'a> {
    fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let layout: &ResponseLayout = message::body(message, RESPONSE_SIZE)?;
        let (offset, length) = (layout.security_buffer_offset, layout.security_buffer_length);
        Ok(Self {
            session_flags: SessionFlags::from_bits_retain(layout.session_flags.get()),
            security_buffer: message::buffer(message, offset.get(), length.get())?,
        })
    }
}

impl Encode for SessionSetupResponse<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let layout = ResponseLayout {
            structure_size: RESPONSE_SIZE.into(),
            session_flags: self.session_flags.bits().into(),
            security_buffer_offset: message::offset_behind::<ResponseLayout>().into(),
            security_buffer_length: message::len16(self.security_buffer).into(),
        };
        message::put(out, &layout);
        out.extend_from_slice(self.security_buffer);
    }
}

#[cfg(test)]
mod tests;
