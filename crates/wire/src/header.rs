//! The SMB2 packet header: [MS-SMB2] 2.2.1; and the parts of a message behind it.

use dtyp::NtStatus;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codes::codes;
use crate::error::DecodeError;

/// Bytes of a header.
pub const SIZE: usize = 0x40;

/// ProtocolId: `0xFE 'S' 'M' 'B'`.
pub const PROTOCOL_ID: [u8; 4] = [0xFE, b'S', b'M', b'B'];

/// Range of Signature in a message.
pub const SIGNATURE: std::ops::Range<usize> = 0x30..0x40;

codes! {
    /// Command of a header: [MS-SMB2] 2.2.1.2.
    Command(u16) {
        NEGOTIATE = 0x0000,
        SESSION_SETUP = 0x0001,
        LOGOFF = 0x0002,
        TREE_CONNECT = 0x0003,
        TREE_DISCONNECT = 0x0004,
        CREATE = 0x0005,
        CLOSE = 0x0006,
        FLUSH = 0x0007,
        READ = 0x0008,
        WRITE = 0x0009,
        LOCK = 0x000A,
        IOCTL = 0x000B,
        CANCEL = 0x000C,
        ECHO = 0x000D,
        QUERY_DIRECTORY = 0x000E,
        CHANGE_NOTIFY = 0x000F,
        QUERY_INFO = 0x0010,
        SET_INFO = 0x0011,
        OPLOCK_BREAK = 0x0012,
        SERVER_TO_CLIENT_NOTIFICATION = 0x0013,
    }
}

bitflags::bitflags! {
    /// Flags of a header: [MS-SMB2] 2.2.1.2.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct HeaderFlags: u32 {
        /// The message is a response.
        const SERVER_TO_REDIR = 0x0000_0001;
        /// The header has an AsyncId in place of the TreeId.
        const ASYNC_COMMAND = 0x0000_0002;
        /// The request is related to the previous one in the compound.
        const RELATED_OPERATIONS = 0x0000_0004;
        /// The message is signed.
        const SIGNED = 0x0000_0008;
        /// The priority of the request, 3.1.1.
        const PRIORITY_MASK = 0x0000_0070;
        /// The command is a DFS operation.
        const DFS_OPERATIONS = 0x1000_0000;
        /// The request is a replay, 3.x.
        const REPLAY_OPERATION = 0x2000_0000;

        const _ = !0;
    }
}

/// Flags of a request that its response has, too: [MS-SMB2] 3.3.4.1.3.
const FLAGS_REPEATED: HeaderFlags = HeaderFlags::RELATED_OPERATIONS
    .union(HeaderFlags::REPLAY_OPERATION)
    .union(HeaderFlags::PRIORITY_MASK);

/// A header, synchronous or asynchronous, of a request or a response.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Header {
    /// Credits that the request consumes. Zero before 2.1.
    pub credit_charge: u16,
    /// Status of a response. A request of 3.x has its ChannelSequence in the low 16 bits.
    pub status: NtStatus,
    /// Command of the message.
    pub command: Command,
    /// CreditRequest of a request, CreditResponse of a response.
    pub credits: u16,
    /// Flags. When encoded, ASYNC_COMMAND follows `async_id` and not this.
    pub flags: HeaderFlags,
    /// Bytes from this header to the next of the compound; zero in the last.
    pub next_command: u32,
    /// Identifies the request of a response. All ones in a break notification.
    pub message_id: u64,
    /// AsyncId; `Some` exactly if ASYNC_COMMAND is set.
    pub async_id: Option<u64>,
    /// The tree connect; zero in an asynchronous header, which has no such field.
    pub tree_id: u32,
    /// The session.
    pub session_id: u64,
    /// The signature; zeros in an unsigned message.
    pub signature: [u8; 16],
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    protocol_id: [u8; 4],
    structure_size: U16,
    credit_charge: U16,
    status: U32,
    command: U16,
    credits: U16,
    flags: U32,
    next_command: U32,
    message_id: U64,
    /// AsyncId, or Reserved (4 bytes) and TreeId (4 bytes).
    async_id: U64,
    session_id: U64,
    signature: [u8; 16],
}

impl Header {
    /// Decodes the header at the start of `message`.
    ///
    /// # Errors
    ///
    /// If `message` has fewer than 64 bytes, another protocol identifier, or a StructureSize other
    /// than 64.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let layout = match Layout::ref_from_prefix(message) {
            Ok((it, _)) if it.protocol_id == PROTOCOL_ID && it.structure_size == 0x40 => it,
            _ => return Err(fault_of(message)),
        };
        let flags = HeaderFlags::from_bits_retain(layout.flags.get());
        let id = layout.async_id.get();
        let is_async = flags.contains(HeaderFlags::ASYNC_COMMAND);
        let tree_id = u32::try_from(id >> 32).expect("32 bits are left");
        Ok(Self {
            credit_charge: layout.credit_charge.get(),
            status: NtStatus(layout.status.get()),
            command: Command(layout.command.get()),
            credits: layout.credits.get(),
            flags,
            next_command: layout.next_command.get(),
            message_id: layout.message_id.get(),
            async_id: is_async.then_some(id),
            tree_id: if is_async { 0 } else { tree_id },
            session_id: layout.session_id.get(),
            signature: layout.signature,
        })
    }

    /// Appends the 64 bytes of the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }

    /// Encodes the header, for a message with a reserved space for it.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; SIZE] {
        let mut flags = self.flags;
        flags.set(HeaderFlags::ASYNC_COMMAND, self.async_id.is_some());
        let sync_id = u64::from(self.tree_id) << 32;
        let layout = Layout {
            protocol_id: PROTOCOL_ID,
            structure_size: 0x40.into(),
            credit_charge: self.credit_charge.into(),
            status: self.status.0.into(),
            command: self.command.0.into(),
            credits: self.credits.into(),
            flags: flags.bits().into(),
            next_command: self.next_command.into(),
            message_id: self.message_id.into(),
            async_id: self.async_id.unwrap_or(sync_id).into(),
            session_id: self.session_id.into(),
            signature: self.signature,
        };
        zerocopy::transmute!(layout)
    }

    /// The header of the response to this request: [MS-SMB2] 3.3.4.1.3. Without credits, which the
    /// server grants.
    #[must_use]
    pub fn response(&self, status: NtStatus) -> Self {
        let mut flags = self.flags & FLAGS_REPEATED | HeaderFlags::SERVER_TO_REDIR;
        if status == NtStatus::USER_SESSION_DELETED {
            // There may be no key to sign with, and clients know that. Those that require
            // signatures still demand the flag, so all servers repeat it.
            flags |= self.flags & HeaderFlags::SIGNED;
        }
        let signature = [0; 16];
        Self { status, credits: 0, flags, next_command: 0, async_id: None, signature, ..*self }
    }

    /// ChannelSequence of a 3.x request: [MS-SMB2] 2.2.1.2.
    #[must_use]
    pub const fn channel_sequence(&self) -> u16 {
        let [low, high, ..] = self.status.0.to_le_bytes();
        u16::from_le_bytes([low, high])
    }

    /// Sets the ChannelSequence of a 3.x request.
    pub fn set_channel_sequence(&mut self, channel_sequence: u16) {
        self.status = NtStatus(channel_sequence.into());
    }

    /// True for a response.
    #[must_use]
    pub const fn is_response(&self) -> bool {
        self.flags.contains(HeaderFlags::SERVER_TO_REDIR)
    }

    /// True if the request is related to the previous one: [MS-SMB2] 3.3.5.2.7.2.
    #[must_use]
    pub const fn is_related(&self) -> bool {
        self.flags.contains(HeaderFlags::RELATED_OPERATIONS)
    }

    /// True if the flags call the message signed.
    #[must_use]
    pub const fn is_signed(&self) -> bool {
        self.flags.contains(HeaderFlags::SIGNED)
    }
}

/// Returns the fixed part of a body, whose StructureSize must be `structure_size`.
pub(crate) fn body<T>(message: &[u8], structure_size: u16) -> Result<&T, DecodeError>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    let need = SIZE + size_of::<T>();
    let short = DecodeError::Short { need, have: message.len() };
    let body = message.get(SIZE..).ok_or(short)?;
    let got = u16::from_le_bytes(*body.first_chunk().ok_or(short)?);
    if got != structure_size {
        return Err(DecodeError::StructureSize { want: structure_size, got });
    }
    T::ref_from_prefix(body).map(|(fixed, _)| fixed).map_err(|_| short)
}

/// Returns the range of the buffer at `offset` in `message`. It may not begin inside the header.
///
/// An empty buffer is `0..0`, whatever its offset: [MS-SMB2] lets the offset of an absent buffer be
/// anything.
pub(crate) fn buffer_range(
    message: &[u8],
    offset: impl TryInto<usize>,
    length: impl TryInto<usize>,
) -> Result<std::ops::Range<usize>, DecodeError> {
    let offset = offset.try_into().unwrap_or(usize::MAX);
    let length = length.try_into().unwrap_or(usize::MAX);
    if length == 0 {
        return Ok(0..0);
    }
    match offset.checked_add(length) {
        Some(end) if end <= message.len() && offset >= SIZE => Ok(offset..end),
        _ => Err(DecodeError::Offset { offset, length, have: message.len() }),
    }
}

/// Returns the buffer at `offset`: [`buffer_range`] as a slice.
pub(crate) fn buffer(
    message: &[u8],
    offset: impl TryInto<usize>,
    length: impl TryInto<usize>,
) -> Result<&[u8], DecodeError> {
    Ok(&message[buffer_range(message, offset, length)?])
}

/// Tells why a message has no header.
#[cold]
fn fault_of(message: &[u8]) -> DecodeError {
    match (message.first_chunk(), Layout::ref_from_prefix(message)) {
        (Some(protocol_id), _) if *protocol_id != PROTOCOL_ID => {
            DecodeError::NotSmb2 { protocol_id: u32::from_le_bytes(*protocol_id) }
        }
        (_, Ok((layout, _))) => {
            DecodeError::StructureSize { want: 0x40, got: layout.structure_size.get() }
        }
        _ => DecodeError::Short { need: SIZE, have: message.len() },
    }
}

/// Borrows the header of a complete message.
fn layout_of(message: &mut [u8]) -> &mut Layout {
    Layout::mut_from_prefix(message).expect("a laid-out message has its 64-byte header").0
}

/// Sets NextCommand of a complete message.
///
/// # Panics
///
/// If `message` is shorter than a header, as for the other setters.
pub fn set_next_command(message: &mut [u8], next_command: u32) {
    layout_of(message).next_command = next_command.into();
}

/// Sets CreditResponse (or CreditRequest) of a complete message.
pub fn set_credits(message: &mut [u8], credits: u16) {
    layout_of(message).credits = credits.into();
}

/// Replaces all Flags of a complete message.
pub fn set_flags(message: &mut [u8], flags: HeaderFlags) {
    layout_of(message).flags = flags.bits().into();
}

/// Sets Signature of a complete message.
pub fn set_signature(message: &mut [u8], signature: [u8; 16]) {
    layout_of(message).signature = signature;
}

/// Returns the Signature of a message.
///
/// # Panics
///
/// If `message` is shorter than a header.
#[must_use]
pub fn signature(message: &[u8]) -> [u8; 16] {
    message[SIGNATURE].try_into().expect("the range is 16 bytes long")
}

#[cfg(test)]
mod tests;
