//! NETWORK_RESILIENCY_REQUEST: [MS-SMB2] 2.2.31.3. An open that is to outlive its connection.

use zerocopy::little_endian::U32;

use crate::error::DecodeError;
use crate::message;

/// The input of FSCTL_LMR_REQUEST_RESILIENCY.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NetworkResiliencyRequest {
    /// For how long, in milliseconds.
    pub timeout: u32,
}

impl NetworkResiliencyRequest {
    /// Reads the input of the IOCTL.
    ///
    /// # Errors
    ///
    /// When it is too short.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let ([timeout, _reserved], _) = message::prefix::<[U32; 2]>(bytes)?;
        Ok(Self { timeout: timeout.get() })
    }

    /// Appends the input of the IOCTL.
    pub fn encode(&self, out: &mut Vec<u8>) {
        message::put(out, &[U32::new(self.timeout), U32::ZERO]);
    }
}
