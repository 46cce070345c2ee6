//! VALIDATE_NEGOTIATE_INFO repeats the negotiation under a signature: [MS-SMB2] 2.2.31.4, 2.2.32.6.

use dtyp::Guid;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codes::Codes;
use crate::dialect::{Dialect, Dialects};
use crate::error::DecodeError;
use crate::message;
use crate::negotiate::{Capabilities, SecurityMode};

/// Fields of the client's NEGOTIATE request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ValidateNegotiateInfoRequest<'a> {
    /// Capabilities of the client.
    pub capabilities: Capabilities,
    /// ClientGuid of the request.
    pub guid: Guid,
    /// The client's signing mode.
    pub security_mode: SecurityMode,
    /// Dialects that the client offered.
    pub dialects: Dialects<'a>,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    capabilities: U32,
    guid: [u8; 16],
    security_mode: U16,
    /// DialectCount of the request, Dialect of the response.
    dialect: U16,
}

impl<'a> ValidateNegotiateInfoRequest<'a> {
    /// Decodes the input of the IOCTL.
    ///
    /// # Errors
    ///
    /// If the input is too short for its number of dialects.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (layout, rest) = message::prefix::<Layout>(bytes)?;
        let dialects = message::slice(rest, 0, usize::from(layout.dialect.get()) * 2)?;
        Ok(Self {
            capabilities: Capabilities::from_bits_retain(layout.capabilities.get()),
            guid: Guid(layout.guid),
            security_mode: SecurityMode::from_bits_retain(layout.security_mode.get()),
            dialects: Codes::from_bytes(dialects),
        })
    }

    /// Appends the input of the IOCTL.
    ///
    /// # Panics
    ///
    /// If there are more than 65,535 dialects.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let dialect_count = u16::try_from(self.dialects.len()).expect("a few dialects");
        let layout = Layout {
            capabilities: self.capabilities.bits().into(),
            guid: self.guid.0,
            security_mode: self.security_mode.bits().into(),
            dialect: dialect_count.into(),
        };
        message::put(out, &layout);
        self.dialects.encode(out);
    }
}

/// Fields of the server's NEGOTIATE response.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ValidateNegotiateInfoResponse {
    /// Capabilities of the server.
    pub capabilities: Capabilities,
    /// ServerGuid of the response.
    pub guid: Guid,
    /// The server's signing mode.
    pub security_mode: SecurityMode,
    /// Dialect that the server chose.
    pub dialect: Dialect,
}

impl ValidateNegotiateInfoResponse {
    /// Bytes of the encoded structure.
    pub const SIZE: usize = size_of::<Layout>();

    /// Decodes the output of the IOCTL.
    ///
    /// # Errors
    ///
    /// If the output is too short.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (layout, _) = message::prefix::<Layout>(bytes)?;
        Ok(Self {
            capabilities: Capabilities::from_bits_retain(layout.capabilities.get()),
            guid: Guid(layout.guid),
            security_mode: SecurityMode::from_bits_retain(layout.security_mode.get()),
            dialect: Dialect(layout.dialect.get()),
        })
    }

    /// Appends the output of the IOCTL.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let layout = Layout {
            capabilities: self.capabilities.bits().into(),
            guid: self.guid.0,
            security_mode: self.security_mode.bits().into(),
            dialect: self.dialect.0.into(),
        };
        message::put(out, &layout);
    }
}
