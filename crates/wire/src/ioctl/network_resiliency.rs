//! NETWORK_RESILIENCY_REQUEST lets an open outlive its connection: [MS-SMB2] 2.2.31.3.

use zerocopy::little_endian::U32;

use crate::error::DecodeError;
use crate::message;

/// The input of FSCTL_LMR_REQUEST_RESILIENCY: [MS-SMB2] 2.2.31.3.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NetworkResiliencyRequest {
    /// Time that the open outlives its connection, in milliseconds.
    pub timeout: u32,
}

impl NetworkResiliencyRequest {
    /// Decodes the input of the IOCTL.
    ///
    /// # Errors
    ///
    /// If the input is too short.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let ([timeout, _reserved], _) = message::prefix::<[U32; 2]>(bytes)?;
        Ok(Self { timeout: timeout.get() })
    }

    /// Appends the input of the IOCTL.
    pub fn encode(&self, out: &mut Vec<u8>) {
        message::put(out, &[U32::new(self.timeout), U32::ZERO]);
    }
}
