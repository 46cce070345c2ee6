//! SMB2 TREE_CONNECT opens a share: [MS-SMB2] 2.2.9, 2.2.10.

use dtyp::AccessMask;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codes::codes;
use crate::error::DecodeError;
use crate::message::{self, Decode, Encode};

bitflags::bitflags! {
    /// Flags of the request, 3.1.1.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct TreeConnectFlags: u16 {
        /// The client reconnects to a cluster share.
        const CLUSTER_RECONNECT = 0x0001;
        /// The client supports a redirection to the owner of the share.
        const REDIRECT_TO_OWNER = 0x0002;
        /// The buffer begins with an extension.
        const EXTENSION_PRESENT = 0x0004;

        const _ = !0;
    }
}

codes! {
    /// Kind of a share: [MS-SMB2] 2.2.10.
    ShareType(u8) {
        DISK = 0x01,
        PIPE = 0x02,
        PRINT = 0x03,
    }
}

bitflags::bitflags! {
    /// ShareFlags of the response. Bits 0x30 are the caching mode; zero is manual caching.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct ShareFlags: u32 {
        /// The share is in a DFS tree.
        const DFS = 0x0000_0001;
        /// The share is a DFS root.
        const DFS_ROOT = 0x0000_0002;
        /// Files may be cached offline automatically.
        const AUTO_CACHING = 0x0000_0010;
        /// Files may be cached offline, programs run from the cache.
        const VDO_CACHING = 0x0000_0020;
        /// Files may not be cached offline.
        const NO_CACHING = 0x0000_0030;
        /// Exclusive opens that deny reading are refused.
        const RESTRICT_EXCLUSIVE_OPENS = 0x0000_0100;
        /// Files may be deleted while they are open.
        const FORCE_SHARED_DELETE = 0x0000_0200;
        /// Directories may be cached by clients.
        const ALLOW_NAMESPACE_CACHING = 0x0000_0400;
        /// Listings leave out files that the user may not read.
        const ACCESS_BASED_DIRECTORY_ENUM = 0x0000_0800;
        /// No open gets more than a level II oplock.
        const FORCE_LEVELII_OPLOCK = 0x0000_1000;
        /// Branch caching, version 1.
        const ENABLE_HASH_V1 = 0x0000_2000;
        /// Branch caching, version 2.
        const ENABLE_HASH_V2 = 0x0000_4000;
        /// Requests must be encrypted.
        const ENCRYPT_DATA = 0x0000_8000;
        /// The client may send a remoted identity with TREE_CONNECT.
        const IDENTITY_REMOTING = 0x0004_0000;
        /// Messages may be compressed.
        const COMPRESS_DATA = 0x0010_0000;
        /// SMB2_SHAREFLAG_ISOLATED_TRANSPORT: the share requires connections of its own.
        const ISOLATED_TRANSPORT = 0x0020_0000;

        const _ = !0;
    }
}

bitflags::bitflags! {
    /// Capabilities of a share: [MS-SMB2] 2.2.10.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct ShareCapabilities: u32 {
        /// The share is in a DFS tree.
        const DFS = 0x0000_0008;
        /// Opens may be persistent.
        const CONTINUOUS_AVAILABILITY = 0x0000_0010;
        /// Several nodes serve the share.
        const SCALEOUT = 0x0000_0020;
        /// The witness protocol reports on the share.
        const CLUSTER = 0x0000_0040;
        /// The share may move to another node without warning.
        const ASYMMETRIC = 0x0000_0080;
        /// The server can redirect the client to the owner of the share.
        const REDIRECT_TO_OWNER = 0x0000_0100;

        const _ = !0;
    }
}

/// The request: [MS-SMB2] 2.2.9.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TreeConnectRequest<'a> {
    /// Flags; reserved before 3.1.1.
    pub flags: TreeConnectFlags,
    /// `\\server\share` in UTF-16LE, without a terminator.
    pub path: &'a [u8],
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestLayout {
    structure_size: U16,
    flags: U16,
    path_offset: U16,
    path_length: U16,
}

const REQUEST_SIZE: u16 = 9;

impl<'a> Decode<'a> for TreeConnectRequest<'a> {
    /// Passes over the extension of [MS-SMB2] 2.2.9.1: PathOffset points behind it.
    fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let layout: &RequestLayout = message::body(message, REQUEST_SIZE)?;
        Ok(Self {
            flags: TreeConnectFlags::from_bits_retain(layout.flags.get()),
            path: message::buffer(message, layout.path_offset.get(), layout.path_length.get())?,
        })
    }
}

impl Encode for TreeConnectRequest<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let layout = RequestLayout {
            structure_size: REQUEST_SIZE.into(),
            flags: self.flags.bits().into(),
            path_offset: message::offset_behind::<RequestLayout>().into(),
            path_length: message::len16(self.path).into(),
        };
        message::put(out, &layout);
        out.extend_from_slice(self.path);
        message::fill_request(out, start, REQUEST_SIZE);
    }
}

/// The response: [MS-SMB2] 2.2.10.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TreeConnectResponse {
    /// Kind of the share.
    pub share_type: ShareType,
    /// Properties of the share.
    pub share_flags: ShareFlags,
    /// Capabilities of the share.
    pub capabilities: ShareCapabilities,
    /// Maximal access of this user on the share.
    pub maximal_access: AccessMask,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct ResponseLayout {
    structure_size: U16,
    share_type: u8,
    reserved: u8,
    share_flags: U32,
    capabilities: U32,
    maximal_access: U32,
}

const RESPONSE_SIZE: u16 = 16;

impl Decode<'_> for TreeConnectResponse {
    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let layout: &ResponseLayout = message::body(message, RESPONSE_SIZE)?;
        Ok(Self {
            share_type: ShareType(layout.share_type),
            share_flags: ShareFlags::from_bits_retain(layout.share_flags.get()),
            capabilities: ShareCapabilities::from_bits_retain(layout.capabilities.get()),
            maximal_access: AccessMask::from_bits_retain(layout.maximal_access.get()),
        })
    }
}

impl Encode for TreeConnectResponse {
    fn encode(&self, out: &mut Vec<u8>) {
        let layout = ResponseLayout {
            structure_size: RESPONSE_SIZE.into(),
            share_type: self.share_type.0,
            reserved: 0,
            share_flags: self.share_flags.bits().into(),
            capabilities: self.capabilities.bits().into(),
            maximal_access: self.maximal_access.bits().into(),
        };
        message::put(out, &layout);
    }
}

#[cfg(test)]
mod tests;
