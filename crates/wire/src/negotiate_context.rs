//! The contexts of a 3.1.1 NEGOTIATE: [MS-SMB2] 2.2.3.1, 2.2.4.1.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codes::codes;
use crate::error::DecodeError;
use crate::header;
use crate::message;

mod capabilities;

pub use capabilities::{
    CipherId, CompressionAlgorithmId, CompressionCapabilities, CompressionCapabilityFlags,
    EncryptionCapabilities, HashAlgorithmId, NetnameNegotiateContextId, PosixExtensions,
    PreauthIntegrityCapabilities, RdmaTransformCapabilities, RdmaTransformId, SigningAlgorithmId,
    SigningCapabilities, TransportCapabilities, TransportCapabilityFlags,
};

codes! {
    /// Subject of a negotiate context: [MS-SMB2] 2.2.3.1.
    NegotiateContextType(u16) {
        PREAUTH_INTEGRITY_CAPABILITIES = 0x0001,
        ENCRYPTION_CAPABILITIES = 0x0002,
        COMPRESSION_CAPABILITIES = 0x0003,
        NETNAME_NEGOTIATE_CONTEXT_ID = 0x0005,
        TRANSPORT_CAPABILITIES = 0x0006,
        RDMA_TRANSFORM_CAPABILITIES = 0x0007,
        SIGNING_CAPABILITIES = 0x0008,
        /// Reserved in [MS-SMB2]; used by the POSIX extensions.
        POSIX_EXTENSIONS_AVAILABLE = 0x0100,
    }
}

/// Data of one type of context.
pub trait NegotiateContextData<'a>: Sized {
    /// Type of the contexts with this data.
    const TYPE: NegotiateContextType;

    /// Decodes the data of a context.
    ///
    /// # Errors
    ///
    /// If the data is too short for the fixed part or a list.
    fn decode(data: &'a [u8]) -> Result<Self, DecodeError>;

    /// Appends the data to `out`.
    fn encode(&self, out: &mut Vec<u8>);
}

/// One context, with its data undecoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NegotiateContext<'a> {
    /// Type, which decides on the form of the data.
    pub context_type: NegotiateContextType,
    /// Encoded data of the context.
    pub data: &'a [u8],
}

impl<'a> NegotiateContext<'a> {
    /// Decodes the data as `T`, without a look at the type.
    ///
    /// # Errors
    ///
    /// If the data is not a `T`.
    pub fn read<T: NegotiateContextData<'a>>(&self) -> Result<T, DecodeError> {
        T::decode(self.data)
    }
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    context_type: U16,
    data_length: U16,
    reserved: U32,
}

/// A list of contexts whose bounds are checked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NegotiateContexts<'a> {
    count: u16,
    /// Bytes from the first context to the end of the last one's data.
    bytes: &'a [u8],
}

impl<'a> NegotiateContexts<'a> {
    /// Checks the `count` contexts at `offset` of `message`.
    ///
    /// Each begins at a multiple of eight, counted from the header; an offset that is not a
    /// multiple of eight is refused.
    pub(crate) fn parse(message: &'a [u8], offset: u32, count: u16) -> Result<Self, DecodeError> {
        if count == 0 {
            return Ok(Self::default());
        }
        let have = message.len();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        if !start.is_multiple_of(8) {
            let value = offset.into();
            return Err(DecodeError::BadValue { field: "NegotiateContextOffset", value });
        }
        if start < header::SIZE || start > have {
            return Err(DecodeError::Offset { offset: start, length: size_of::<Layout>(), have });
        }
        let bytes = &message[start..];
        let mut end = 0;
        for _ in 0..count {
            let at = usize::next_multiple_of(end, 8);
            let (_, length) = context_at(bytes, at)?;
            end = at + length;
        }
        Ok(Self { count, bytes: &bytes[..end] })
    }

    /// Number of contexts.
    #[must_use]
    pub const fn len(&self) -> u16 {
        self.count
    }

    /// True without contexts.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The contexts in the order of the sender.
    pub fn iter(&self) -> impl Iterator<Item = NegotiateContext<'a>> + use<'a> {
        let bytes = self.bytes;
        let mut at = 0_usize;
        (0..self.count).map_while(move |_| {
            let (context, length) = context_at(bytes, at).ok()?;
            at = (at + length).next_multiple_of(8);
            Some(context)
        })
    }

    /// Decodes the first context of type `T`.
    ///
    /// # Errors
    ///
    /// If the context exists and its data is not a `T`.
    pub fn find<T: NegotiateContextData<'a>>(&self) -> Result<Option<T>, DecodeError> {
        let found = self.iter().find(|context| context.context_type == T::TYPE);
        found.map(|context| context.read()).transpose()
    }

    /// The encoded chain, unpadded at its end.
    pub(crate) const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// Returns the context at offset `at`, and its length without padding.
fn context_at(bytes: &[u8], at: usize) -> Result<(NegotiateContext<'_>, usize), DecodeError> {
    let rest = bytes.get(at..).unwrap_or_default();
    let (layout, rest) = message::prefix::<Layout>(rest)?;
    let length = usize::from(layout.data_length.get());
    let data = message::slice(rest, 0, length)?;
    let context_type = NegotiateContextType(layout.context_type.get());
    Ok((NegotiateContext { context_type, data }, size_of::<Layout>() + length))
}

/// Contexts to send, already encoded.
#[derive(Clone, Debug, Default)]
pub struct NegotiateContextList {
    count: u16,
    bytes: Vec<u8>,
}

impl NegotiateContextList {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { count: 0, bytes: Vec::new() }
    }

    /// Adds a context of the type of `T`.
    pub fn push<'a, T: NegotiateContextData<'a>>(&mut self, context: &T) {
        let mut data = Vec::new();
        context.encode(&mut data);
        self.push_raw(T::TYPE, &data);
    }

    /// Adds a context of any type.
    ///
    /// # Panics
    ///
    /// If `data` is longer than 65,535 bytes.
    pub fn push_raw(&mut self, context_type: NegotiateContextType, data: &[u8]) {
        message::align(&mut self.bytes, 0, 8);
        let layout = Layout {
            context_type: context_type.0.into(),
            data_length: message::len16(data).into(),
            reserved: U32::ZERO,
        };
        message::put(&mut self.bytes, &layout);
        self.bytes.extend_from_slice(data);
        self.count += 1;
    }

    /// The encoded list, for a request or response.
    #[must_use]
    pub fn contexts(&self) -> NegotiateContexts<'_> {
        NegotiateContexts { count: self.count, bytes: &self.bytes }
    }
}

#[cfg(test)]
mod tests;
