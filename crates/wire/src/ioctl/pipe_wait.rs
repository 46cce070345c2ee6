//! FSCTL_PIPE_WAIT waits until a pipe can be opened: [MS-FSCC] 2.3.49.

use zerocopy::little_endian::{I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::message;

/// The input of the IOCTL.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PipeWait<'a> {
    /// Longest wait, in units of 100 ms by [MS-FSCC]; `None` is without limit.
    pub timeout: Option<i64>,
    /// Name of the pipe in UTF-16LE, without `\pipe\`.
    pub name: &'a [u8],
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    timeout: I64,
    name_length: U32,
    timeout_specified: u8,
    padding: u8,
}

impl<'a> PipeWait<'a> {
    /// Decodes the input of the IOCTL.
    ///
    /// # Errors
    ///
    /// If the input is too short for the name.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (layout, rest) = message::prefix::<Layout>(bytes)?;
        let length = usize::try_from(layout.name_length.get()).unwrap_or(usize::MAX);
        Ok(Self {
            timeout: (layout.timeout_specified != 0).then(|| layout.timeout.get()),
            name: message::slice(rest, 0, length)?,
        })
    }

    /// Appends the input of the IOCTL.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let layout = Layout {
            timeout: self.timeout.unwrap_or(0).into(),
            name_length: message::len32(self.name).into(),
            timeout_specified: self.timeout.is_some().into(),
            padding: 0,
        };
        message::put(out, &layout);
        out.extend_from_slice(self.name);
    }
}
