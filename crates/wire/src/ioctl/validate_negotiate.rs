//! VALIDATE_NEGOTIATE_INFO: [MS-SMB2] 2.2.31.4, 2.2.32.6. A signed repetition of the negotiation.

use dtyp::Guid;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codes::Codes;
use crate::dialect::{Dialect, Dialects};
use crate::error::DecodeError;
use crate::message;
use crate::negotiate::{Capabilities, SecurityMode};

/// What the client said in its NEGOTIATE.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ValidateNegotiateInfoRequest<'a> {
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// Its ClientGuid.
    pub guid: Guid,
    /// What it said about signing.
    pub security_mode: SecurityMode,
    /// The dialects that it offered.
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
    /// Reads the input of the IOCTL.
    ///
    /// # Errors
    ///
    /// When the dialects that are announced do not fit.
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
    /// When there are more than 65,535 dialects.
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

/// What the server said in its NEGOTIATE.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ValidateNegotiateInfoResponse {
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// Its ServerGuid.
    pub guid: Guid,
    /// What it said about signing.
    pub security_mode: SecurityMode,
    /// The dialect that it chose.
    pub dialect: Dialect,
}

impl ValidateNegotiateInfoResponse {
    /// Bytes of the structure.
    pub const SIZE: usize = size_of::<Layout>();

    /// Reads the output of the IOCTL.
    ///
    /// # Errors
    ///
    /// When it does not fit.
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
