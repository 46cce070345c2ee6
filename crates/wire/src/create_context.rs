//! The contexts of CREATE requests and responses: [MS-SMB2] 2.2.13.2, 2.2.14.2.
//!
//! A chain of named byte strings. [`CreateContexts`] is a chain that was checked as a whole, so
//! iterating over it cannot fail; the data of a context is decoded by the type with its name.

use std::fmt;

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::message;

mod app_instance;
mod apple;
mod durable;
mod file_facts;
mod lease_context;
mod posix;

pub use app_instance::{AppInstanceId, AppInstanceVersion};
pub use apple::{
    AppleCapabilities, AppleQuery, AppleRequest, AppleResponse, AppleVolumeCapabilities,
};
pub use durable::{
    DurableFlags, DurableHandleReconnect, DurableHandleReconnectV2, DurableHandleRequest,
    DurableHandleRequestV2, DurableHandleResponse, DurableHandleResponseV2,
};
pub use file_facts::{
    AllocationSize, ExtendedAttributes, QueryMaximalAccessRequest, QueryMaximalAccessResponse,
    QueryOnDiskIdRequest, QueryOnDiskIdResponse, SecurityDescriptor, TimewarpToken,
};
pub use lease_context::{LeaseContext, LeaseV2};
pub use posix::{PosixRequest, PosixResponse};

/// The name of a create context: four letters, or the 16 bytes of a GUID.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct CreateContextName<'a>(pub &'a [u8]);

macro_rules! names {
    ($($(#[doc = $doc:literal])* $name:ident = $bytes:expr;)*) => {
        impl CreateContextName<'static> {
            $($(#[doc = $doc])* pub const $name: Self = Self($bytes);)*
        }

        impl fmt::Debug for CreateContextName<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(if self.0 == CreateContextName::$name.0 {
                    return f.write_str(stringify!($name));
                })*
                write!(f, "{}", self.0.escape_ascii())
            }
        }
    };
}

names! {
    /// `ExtA`: the extended attributes of a new file.
    EA_BUFFER = b"ExtA";
    /// `SecD`: the security descriptor of a new file.
    SD_BUFFER = b"SecD";
    /// `DHnQ`: a durable open is requested, or granted.
    DURABLE_HANDLE_REQUEST = b"DHnQ";
    /// `DHnC`: a durable open is reconnected.
    DURABLE_HANDLE_RECONNECT = b"DHnC";
    /// `AlSi`: the allocation size of a new file.
    ALLOCATION_SIZE = b"AlSi";
    /// `MxAc`: the maximal access of the user.
    QUERY_MAXIMAL_ACCESS_REQUEST = b"MxAc";
    /// `TWrp`: the snapshot to open.
    TIMEWARP_TOKEN = b"TWrp";
    /// `QFid`: the number of the file on disk.
    QUERY_ON_DISK_ID = b"QFid";
    /// `RqLs`: a lease, in two versions of different length.
    REQUEST_LEASE = b"RqLs";
    /// `DH2Q`: a durable or persistent open is requested, or granted.
    DURABLE_HANDLE_REQUEST_V2 = b"DH2Q";
    /// `DH2C`: a durable or persistent open is reconnected.
    DURABLE_HANDLE_RECONNECT_V2 = b"DH2C";
    /// The application that opens: [MS-SMB2] 2.2.13.2.13.
    APP_INSTANCE_ID = &[
        0x45, 0xBC, 0xA6, 0x6A, 0xEF, 0xA7, 0xF7, 0x4A,
        0x90, 0x08, 0xFA, 0x46, 0x2E, 0x14, 0x4D, 0x74,
    ];
    /// The version of that application: [MS-SMB2] 2.2.13.2.15.
    APP_INSTANCE_VERSION = &[
        0xB9, 0x82, 0xD0, 0xB7, 0x3B, 0x56, 0x07, 0x4F,
        0xA0, 0x7B, 0x52, 0x4A, 0x81, 0x16, 0xA0, 0x10,
    ];
    /// A shared virtual disk, [MS-RSVD]; recognized by name only.
    SVHDX_OPEN_DEVICE_CONTEXT = &[
        0x9C, 0xCB, 0xCF, 0x9E, 0x04, 0xC1, 0xE6, 0x43,
        0x98, 0x0E, 0x15, 0x8D, 0xA1, 0xF6, 0xEC, 0x83,
    ];
    /// The POSIX extensions of Linux and Samba.
    POSIX = &[
        0x93, 0xAD, 0x25, 0x50, 0x9C, 0xB4, 0x11, 0xE7,
        0xB4, 0x23, 0x83, 0xDE, 0x96, 0x8B, 0xCD, 0x7C,
    ];
    /// `AAPL`: Apple's extensions.
    AAPL = b"AAPL";
}

/// Data of one kind of context.
pub trait CreateContextData<'a>: Sized {
    /// Name of the contexts with this data.
    const NAME: CreateContextName<'static>;

    /// Decodes the data of a context.
    ///
    /// # Errors
    ///
    /// If the data is too short, or has the length of no version.
    fn decode(data: &'a [u8]) -> Result<Self, DecodeError>;

    /// Appends the data to `out`.
    fn encode(&self, out: &mut Vec<u8>);
}

/// One context, with its data undecoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CreateContext<'a> {
    /// Name, which decides on the type of the data.
    pub name: CreateContextName<'a>,
    /// Encoded data; may be empty.
    pub data: &'a [u8],
}

impl<'a> CreateContext<'a> {
    /// Decodes the data as `T`, without a look at the name.
    ///
    /// # Errors
    ///
    /// If the data is not a `T`.
    pub fn read<T: CreateContextData<'a>>(&self) -> Result<T, DecodeError> {
        T::decode(self.data)
    }
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    /// Bytes to the next context; zero in the last.
    next: U32,
    name_offset: U16,
    name_length: U16,
    reserved: U16,
    data_offset: U16,
    data_length: U32,
}

/// A chain of contexts whose bounds are checked.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct CreateContexts<'a>(&'a [u8]);

impl<'a> CreateContexts<'a> {
    /// A chain without contexts.
    pub const EMPTY: Self = Self(&[]);

    /// Checks the chain in `bytes`; an empty slice is an empty chain.
    ///
    /// # Errors
    ///
    /// If a context, its name or its data leaves the chain, or a Next is not 8-byte aligned or
    /// points back. Each context is at least 16 bytes long, which bounds their number.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            (_, rest) = split(rest)?;
        }
        Ok(Self(bytes))
    }

    /// The contexts in the order of the sender.
    pub fn iter(&self) -> impl Iterator<Item = CreateContext<'a>> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (context, behind) = split(rest).ok()?;
            rest = behind;
            Some(context)
        })
    }

    /// Data of the first context with this name.
    #[must_use]
    pub fn get(&self, name: CreateContextName<'_>) -> Option<&'a [u8]> {
        self.iter().find(|context| context.name.0 == name.0).map(|context| context.data)
    }

    /// Decodes the first context with the name of `T`.
    ///
    /// # Errors
    ///
    /// If the context exists and its data is not a `T`.
    #[inline]
    pub fn find<T: CreateContextData<'a>>(&self) -> Result<Option<T>, DecodeError> {
        // A CREATE looks for a dozen contexts, and often there are none.
        if self.is_empty() {
            return Ok(None);
        }
        self.get(T::NAME).map(T::decode).transpose()
    }

    /// True without contexts.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The encoded chain.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Debug for CreateContexts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Splits the first context off a chain that is not empty, and returns the rest of the chain too.
fn split(chain: &[u8]) -> Result<(CreateContext<'_>, &[u8]), DecodeError> {
    let (layout, _) = message::prefix::<Layout>(chain)?;
    let next = layout.next.get();
    let (context, behind) = match usize::try_from(next).unwrap_or(usize::MAX) {
        0 => (chain, &[][..]),
        length if !length.is_multiple_of(8) || length < size_of::<Layout>() => {
            return Err(DecodeError::BadValue { field: "Next", value: next.into() });
        }
        length if length >= chain.len() => {
            let (offset, have) = (length, chain.len());
            return Err(DecodeError::Offset { offset, length: size_of::<Layout>(), have });
        }
        length => chain.split_at(length),
    };
    let part = |offset: usize, length: usize| match length {
        0 => Ok(&[][..]),
        _ => message::slice(context, offset, length),
    };
    let name = part(layout.name_offset.get().into(), layout.name_length.get().into())?;
    let data_length = usize::try_from(layout.data_length.get()).unwrap_or(usize::MAX);
    let data = part(layout.data_offset.get().into(), data_length)?;
    Ok((CreateContext { name: CreateContextName(name), data }, behind))
}

/// Contexts to send, already encoded.
#[derive(Clone, Debug, Default)]
pub struct CreateContextList {
    bytes: Vec<u8>,
    /// Offset of the last context, whose Next is still zero.
    last: usize,
}

impl CreateContextList {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), last: 0 }
    }

    /// Adds a context under the name of its type.
    pub fn push<'a, T: CreateContextData<'a>>(&mut self, context: &T) {
        let mut data = Vec::new();
        context.encode(&mut data);
        self.push_raw(T::NAME, &data);
    }

    /// Adds a context under any name. Its data is 8-byte aligned, as is every context.
    ///
    /// # Panics
    ///
    /// If the name is longer than 65,000 bytes.
    pub fn push_raw(&mut self, name: CreateContextName<'_>, data: &[u8]) {
        if !self.bytes.is_empty() {
            message::align(&mut self.bytes, 0, 8);
            let next = message::len32(&self.bytes[self.last..]);
            self.bytes[self.last..self.last + 4].copy_from_slice(&next.to_le_bytes());
        }
        self.last = self.bytes.len();
        let name_offset = size_of::<Layout>();
        let data_offset = (name_offset + name.0.len()).next_multiple_of(8);
        let field = |offset| U16::new(u16::try_from(offset).expect("names are short"));
        let layout = Layout {
            next: U32::ZERO,
            name_offset: field(name_offset),
            name_length: message::len16(name.0).into(),
            reserved: U16::ZERO,
            data_offset: field(if data.is_empty() { 0 } else { data_offset }),
            data_length: message::len32(data).into(),
        };
        message::put(&mut self.bytes, &layout);
        self.bytes.extend_from_slice(name.0);
        message::align(&mut self.bytes, self.last, 8);
        self.bytes.extend_from_slice(data);
    }

    /// The encoded chain, for a request or response.
    #[must_use]
    pub fn contexts(&self) -> CreateContexts<'_> {
        CreateContexts(&self.bytes)
    }
}

#[cfg(test)]
mod tests;
