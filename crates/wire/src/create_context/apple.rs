//! The `AAPL` context of Apple's clients; no part of [MS-SMB2]. Its form is known from Apple's
//! published client and from Samba.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::create_context::{CreateContextData, CreateContextName};
use crate::error::DecodeError;
use crate::message;

bitflags::bitflags! {
    /// Parts of a query and of its response.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct AppleQuery: u64 {
        /// The capabilities of the server.
        const SERVER_CAPABILITIES = 0x1;
        /// The capabilities of the share.
        const VOLUME_CAPABILITIES = 0x2;
        /// The model of the server.
        const MODEL = 0x4;

        const _ = !0;
    }

    /// Capabilities of a client or a server.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct AppleCapabilities: u64 {
        /// FileIdBothDirectoryInformation has rights, resource fork length and Finder information.
        const READ_DIRECTORY_ATTRIBUTES = 0x1;
        /// Whole files are copied within the server.
        const COPY_FILE = 0x2;
        /// The end is a Unix: the mode of files has its POSIX meaning.
        const UNIX_BASED = 0x4;
        /// Entries of the security descriptor can set the mode.
        const NFS_ACE = 0x8;

        const _ = !0;
    }

    /// Capabilities of a share, by `AAPL`.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct AppleVolumeCapabilities: u64 {
        /// A file can be found by its number.
        const RESOLVE_ID = 0x1;
        /// File names are case-sensitive.
        const CASE_SENSITIVE = 0x2;
        /// FLUSH reaches the disk, as Time Machine requires.
        const FULL_SYNC = 0x4;

        const _ = !0;
    }
}

/// The command that queries capabilities; the only one in use.
const SERVER_QUERY: u32 = 1;

/// Queries the capabilities of the server.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AppleRequest {
    /// The requested parts.
    pub query: AppleQuery,
    /// Capabilities of the client.
    pub client_capabilities: AppleCapabilities,
}

/// Capabilities of the server. Parts that were not requested are absent.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AppleResponse {
    /// Capabilities of the server.
    pub server_capabilities: Option<AppleCapabilities>,
    /// Capabilities of the share.
    pub volume_capabilities: Option<AppleVolumeCapabilities>,
    /// Model of machine that the Finder shows an icon of.
    pub model: Option<String>,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    command: U32,
    reserved: U32,
    query: U64,
}

impl Head {
    fn new(query: AppleQuery) -> Self {
        let command = SERVER_QUERY.into();
        Self { command, reserved: U32::ZERO, query: query.bits().into() }
    }

    fn verify(&self) -> Result<AppleQuery, DecodeError> {
        match self.command.get() {
            SERVER_QUERY => Ok(AppleQuery::from_bits_retain(self.query.get())),
            other => Err(DecodeError::BadValue { field: "Command", value: other.into() }),
        }
    }
}

impl CreateContextData<'_> for AppleRequest {
    const NAME: CreateContextName<'static> = CreateContextName::AAPL;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let (head, rest) = message::prefix::<Head>(data)?;
        let (capabilities, _) = message::prefix::<U64>(rest)?;
        let client_capabilities = AppleCapabilities::from_bits_retain(capabilities.get());
        Ok(Self { query: head.verify()?, client_capabilities })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        message::put(out, &Head::new(self.query));
        message::put(out, &U64::new(self.client_capabilities.bits()));
    }
}

impl CreateContextData<'_> for AppleResponse {
    const NAME: CreateContextName<'static> = CreateContextName::AAPL;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let (head, mut rest) = message::prefix::<Head>(data)?;
        let query = head.verify()?;
        let mut capabilities = |wanted| match query.contains(wanted) {
            true => message::prefix::<U64>(rest).map(|(value, behind)| {
                rest = behind;
                Some(value.get())
            }),
            false => Ok(None),
        };
        let server = capabilities(AppleQuery::SERVER_CAPABILITIES)?;
        let volume = capabilities(AppleQuery::VOLUME_CAPABILITIES)?;
        let model = match query.contains(AppleQuery::MODEL) {
            true => {
                let ([_padding, length], rest) = message::prefix::<[U32; 2]>(rest)?;
                let length = usize::try_from(length.get()).unwrap_or(usize::MAX);
                let name = message::slice(rest, 0, length)?;
                let bad = DecodeError::BadValue { field: "Model", value: 0 };
                Some(dtyp::utf16::decode(name).map_err(|_| bad)?)
            }
            false => None,
        };
        Ok(Self {
            server_capabilities: server.map(AppleCapabilities::from_bits_retain),
            volume_capabilities: volume.map(AppleVolumeCapabilities::from_bits_retain),
            model,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let mut query = AppleQuery::empty();
        query.set(AppleQuery::SERVER_CAPABILITIES, self.server_capabilities.is_some());
        query.set(AppleQuery::VOLUME_CAPABILITIES, self.volume_capabilities.is_some());
        query.set(AppleQuery::MODEL, self.model.is_some());
        message::put(out, &Head::new(query));
        if let Some(capabilities) = self.server_capabilities {
            message::put(out, &U64::new(capabilities.bits()));
        }
        if let Some(capabilities) = self.volume_capabilities {
            message::put(out, &U64::new(capabilities.bits()));
        }
        if let Some(model) = &self.model {
            let length = u32::try_from(dtyp::utf16::encoded_len(model)).unwrap_or(u32::MAX);
            message::put(out, &[U32::ZERO, U32::new(length)]);
            dtyp::utf16::encode(model, out);
        }
    }
}
