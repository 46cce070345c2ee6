//! The data of the negotiate contexts: [MS-SMB2] 2.2.3.1.1 to 2.2.3.1.7.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codes::{Codes, codes};
use crate::error::DecodeError;
use crate::message;
use crate::negotiate_context::{NegotiateContextData, NegotiateContextType};

codes! {
    /// Hash algorithm of the preauthentication integrity.
    HashAlgorithmId(u16) {
        SHA_512 = 0x0001,
    }
}

codes! {
    /// Cipher of encrypted messages. Zero in a response: no common cipher.
    CipherId(u16) {
        NONE = 0x0000,
        AES_128_CCM = 0x0001,
        AES_128_GCM = 0x0002,
        AES_256_CCM = 0x0003,
        AES_256_GCM = 0x0004,
    }
}

codes! {
    /// Compression algorithm of messages.
    CompressionAlgorithmId(u16) {
        NONE = 0x0000,
        LZNT1 = 0x0001,
        LZ77 = 0x0002,
        LZ77_HUFFMAN = 0x0003,
        PATTERN_V1 = 0x0004,
        LZ4 = 0x0005,
    }
}

codes! {
    /// Signing algorithm of messages.
    SigningAlgorithmId(u16) {
        HMAC_SHA256 = 0x0000,
        AES_CMAC = 0x0001,
        AES_GMAC = 0x0002,
    }
}

codes! {
    /// Transform of data sent by RDMA: [MS-SMB2] 2.2.3.1.6.
    RdmaTransformId(u16) {
        NONE = 0x0000,
        ENCRYPTION = 0x0001,
        SIGNING = 0x0002,
    }
}

bitflags::bitflags! {
    /// Flags of [`CompressionCapabilities`]: [MS-SMB2] 2.2.3.1.3.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct CompressionCapabilityFlags: u32 {
        /// Several algorithms may be chained in one message.
        const CHAINED = 0x0000_0001;

        const _ = !0;
    }
}

bitflags::bitflags! {
    /// Flags of [`TransportCapabilities`]: [MS-SMB2] 2.2.3.1.5.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct TransportCapabilityFlags: u32 {
        /// Encryption by the transport (QUIC) suffices.
        const ACCEPT_TRANSPORT_LEVEL_SECURITY = 0x0000_0001;

        const _ = !0;
    }
}

/// The first two fields of most contexts.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Counts {
    count: U16,
    /// SaltLength, Padding or Reserved1, by the type of context.
    second: U16,
}

/// Splits the first `count` 16-bit codes off `bytes`, and returns the rest too.
fn split<T: Copy + From<u16> + Into<u16>>(
    bytes: &[u8],
    count: u16,
) -> Result<(Codes<'_, T>, &[u8]), DecodeError> {
    let length = usize::from(count) * 2;
    let list = message::slice(bytes, 0, length)?;
    Ok((Codes::from_bytes(list), &bytes[length..]))
}

/// Number of codes in `list`, for a field.
fn count<T: Copy + From<u16> + Into<u16>>(list: &Codes<'_, T>) -> U16 {
    U16::new(u16::try_from(list.len()).expect("a list of a few algorithms"))
}

/// Hash algorithms of the sender: [MS-SMB2] 2.2.3.1.1.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PreauthIntegrityCapabilities<'a> {
    /// The algorithms; in a response, the chosen one.
    pub hash_algorithms: Codes<'a, HashAlgorithmId>,
    /// Random bytes that make the hash unpredictable.
    pub salt: &'a [u8],
}

impl<'a> NegotiateContextData<'a> for PreauthIntegrityCapabilities<'a> {
    const TYPE: NegotiateContextType = NegotiateContextType::PREAUTH_INTEGRITY_CAPABILITIES;

    fn decode(data: &'a [u8]) -> Result<Self, DecodeError> {
        let (layout, rest) = message::prefix::<Counts>(data)?;
        let (hash_algorithms, rest) = split(rest, layout.count.get())?;
        let salt = message::slice(rest, 0, layout.second.get().into())?;
        Ok(Self { hash_algorithms, salt })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let second = message::len16(self.salt).into();
        message::put(out, &Counts { count: count(&self.hash_algorithms), second });
        self.hash_algorithms.encode(out);
        out.extend_from_slice(self.salt);
    }
}

/// Ciphers of the sender: [MS-SMB2] 2.2.3.1.2.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct EncryptionCapabilities<'a> {
    /// The ciphers, the preferred one first; in a response, the chosen one or zero.
    pub ciphers: Codes<'a, CipherId>,
}

impl<'a> NegotiateContextData<'a> for EncryptionCapabilities<'a> {
    const TYPE: NegotiateContextType = NegotiateContextType::ENCRYPTION_CAPABILITIES;

    fn decode(data: &'a [u8]) -> Result<Self, DecodeError> {
        let (cipher_count, rest) = message::prefix::<U16>(data)?;
        Ok(Self { ciphers: split(rest, cipher_count.get())?.0 })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        message::put(out, &count(&self.ciphers));
        self.ciphers.encode(out);
    }
}

/// Compression algorithms of the sender: [MS-SMB2] 2.2.3.1.3.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CompressionCapabilities<'a> {
    /// Whether algorithms may be chained.
    pub flags: CompressionCapabilityFlags,
    /// The algorithms, the preferred one first.
    pub compression_algorithms: Codes<'a, CompressionAlgorithmId>,
}

impl<'a> NegotiateContextData<'a> for CompressionCapabilities<'a> {
    const TYPE: NegotiateContextType = NegotiateContextType::COMPRESSION_CAPABILITIES;

    fn decode(data: &'a [u8]) -> Result<Self, DecodeError> {
        let (counts, rest) = message::prefix::<Counts>(data)?;
        let (flags, rest) = message::prefix::<U32>(rest)?;
        Ok(Self {
            flags: CompressionCapabilityFlags::from_bits_retain(flags.get()),
            compression_algorithms: split(rest, counts.count.get())?.0,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let counts = Counts { count: count(&self.compression_algorithms), second: U16::ZERO };
        message::put(out, &counts);
        message::put(out, &U32::new(self.flags.bits()));
        self.compression_algorithms.encode(out);
    }
}

/// Name of the server in the client's view: [MS-SMB2] 2.2.3.1.4.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NetnameNegotiateContextId<'a> {
    /// The name in UTF-16LE, without a terminator.
    pub net_name: &'a [u8],
}

impl<'a> NegotiateContextData<'a> for NetnameNegotiateContextId<'a> {
    const TYPE: NegotiateContextType = NegotiateContextType::NETNAME_NEGOTIATE_CONTEXT_ID;

    fn decode(data: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(Self { net_name: data })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.net_name);
    }
}

/// Capabilities of the transport: [MS-SMB2] 2.2.3.1.5.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TransportCapabilities {
    /// Whether the transport encrypts.
    pub flags: TransportCapabilityFlags,
}

impl NegotiateContextData<'_> for TransportCapabilities {
    const TYPE: NegotiateContextType = NegotiateContextType::TRANSPORT_CAPABILITIES;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let (flags, _) = message::prefix::<U32>(data)?;
        Ok(Self { flags: TransportCapabilityFlags::from_bits_retain(flags.get()) })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        message::put(out, &U32::new(self.flags.bits()));
    }
}

/// Transforms of data sent by RDMA: [MS-SMB2] 2.2.3.1.6.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RdmaTransformCapabilities<'a> {
    /// The transforms.
    pub rdma_transform_ids: Codes<'a, RdmaTransformId>,
}

impl<'a> NegotiateContextData<'a> for RdmaTransformCapabilities<'a> {
    const TYPE: NegotiateContextType = NegotiateContextType::RDMA_TRANSFORM_CAPABILITIES;

    fn decode(data: &'a [u8]) -> Result<Self, DecodeError> {
        let (counts, rest) = message::prefix::<Counts>(data)?;
        let (_, rest) = message::prefix::<U32>(rest)?;
        Ok(Self { rdma_transform_ids: split(rest, counts.count.get())?.0 })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let counts = Counts { count: count(&self.rdma_transform_ids), second: U16::ZERO };
        message::put(out, &counts);
        message::put(out, &U32::ZERO);
        self.rdma_transform_ids.encode(out);
    }
}

/// Signing algorithms of the sender: [MS-SMB2] 2.2.3.1.7.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SigningCapabilities<'a> {
    /// The algorithms, the preferred one first; in a response, the chosen one.
    pub signing_algorithms: Codes<'a, SigningAlgorithmId>,
}

impl<'a> NegotiateContextData<'a> for SigningCapabilities<'a> {
    const TYPE: NegotiateContextType = NegotiateContextType::SIGNING_CAPABILITIES;

    fn decode(data: &'a [u8]) -> Result<Self, DecodeError> {
        let (algorithm_count, rest) = message::prefix::<U16>(data)?;
        Ok(Self { signing_algorithms: split(rest, algorithm_count.get())?.0 })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        message::put(out, &count(&self.signing_algorithms));
        self.signing_algorithms.encode(out);
    }
}

/// The POSIX extensions, identified by a GUID of their version; no part of [MS-SMB2].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PosixExtensions {
    /// GUID of the version.
    pub version: [u8; 16],
}

impl PosixExtensions {
    /// The version of Linux and Samba; the name of the create context as well.
    pub const VERSION_1: Self = Self {
        version: [
            0x93, 0xAD, 0x25, 0x50, 0x9C, 0xB4, 0x11, 0xE7, 0xB4, 0x23, 0x83, 0xDE, 0x96, 0x8B,
            0xCD, 0x7C,
        ],
    };
}

impl NegotiateContextData<'_> for PosixExtensions {
    const TYPE: NegotiateContextType = NegotiateContextType::POSIX_EXTENSIONS_AVAILABLE;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let (version, _) = message::prefix::<[u8; 16]>(data)?;
        Ok(Self { version: *version })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.version);
    }
}
