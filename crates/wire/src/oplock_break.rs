//! SMB2 OPLOCK_BREAK reduces an oplock or lease: [MS-SMB2] 2.2.23 to 2.2.25.
//!
//! Oplocks and leases share the command; StructureSize tells their bodies apart.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::file_id::{FileId, FileIdLayout};
use crate::header;
use crate::lease::{LeaseKey, LeaseState};
use crate::message::{self, Decode, Encode};
use crate::oplock_level::OplockLevel;

/// A break of an oplock: notification, acknowledgment and response have one form ([MS-SMB2]
/// 2.2.23.1, 2.2.24.1, 2.2.25.1).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct OplockBreak {
    /// The level after the break.
    pub oplock_level: OplockLevel,
    /// The open that holds the oplock.
    pub file_id: FileId,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct OplockLayout {
    structure_size: U16,
    oplock_level: u8,
    reserved: u8,
    reserved2: U32,
    file_id: FileIdLayout,
}

const OPLOCK_SIZE: u16 = 24;

impl Decode<'_> for OplockBreak {
    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let layout: &OplockLayout = message::body(message, OPLOCK_SIZE)?;
        let oplock_level = OplockLevel(layout.oplock_level);
        Ok(Self { oplock_level, file_id: layout.file_id.into() })
    }

    fn file_id(&self) -> Option<FileId> {
        Some(self.file_id)
    }
}

impl Encode for OplockBreak {
    fn encode(&self, out: &mut Vec<u8>) {
        let layout = OplockLayout {
            structure_size: OPLOCK_SIZE.into(),
            oplock_level: self.oplock_level.0,
            reserved: 0,
            reserved2: U32::ZERO,
            file_id: self.file_id.into(),
        };
        message::put(out, &layout);
    }
}

bitflags::bitflags! {
    /// Flags of a lease break notification.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct LeaseBreakFlags: u32 {
        /// The client must acknowledge the break.
        const ACK_REQUIRED = 0x0000_0001;

        const _ = !0;
    }
}

/// Notification that the server reduces a lease: [MS-SMB2] 2.2.23.2.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LeaseBreakNotification {
    /// The epoch after the break; zero for a lease of the first version.
    pub new_epoch: u16,
    /// Whether the client must acknowledge.
    pub flags: LeaseBreakFlags,
    /// Key of the lease.
    pub lease_key: LeaseKey,
    /// State before the break.
    pub current_lease_state: LeaseState,
    /// State after the break.
    pub new_lease_state: LeaseState,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct LeaseNotificationLayout {
    structure_size: U16,
    new_epoch: U16,
    flags: U32,
    lease_key: [u8; 16],
    current_lease_state: U32,
    new_lease_state: U32,
    /// Zero from every server, like the two hints.
    break_reason: U32,
    access_mask_hint: U32,
    share_mask_hint: U32,
}

const LEASE_NOTIFICATION_SIZE: u16 = 44;

impl Decode<'_> for LeaseBreakNotification {
    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let layout: &LeaseNotificationLayout = message::body(message, LEASE_NOTIFICATION_SIZE)?;
        Ok(Self {
            new_epoch: layout.new_epoch.get(),
            flags: LeaseBreakFlags::from_bits_retain(layout.flags.get()),
            lease_key: LeaseKey(layout.lease_key),
            current_lease_state: LeaseState::from_bits_retain(layout.current_lease_state.get()),
            new_lease_state: LeaseState::from_bits_retain(layout.new_lease_state.get()),
        })
    }
}

impl Encode for LeaseBreakNotification {
    fn encode(&self, out: &mut Vec<u8>) {
        let layout = LeaseNotificationLayout {
            structure_size: LEASE_NOTIFICATION_SIZE.into(),
            new_epoch: self.new_epoch.into(),
            flags: self.flags.bits().into(),
            lease_key: self.lease_key.0,
            current_lease_state: self.current_lease_state.bits().into(),
            new_lease_state: self.new_lease_state.bits().into(),
            break_reason: U32::ZERO,
            access_mask_hint: U32::ZERO,
            share_mask_hint: U32::ZERO,
        };
        message::put(out, &layout);
    }
}

/// A break of a lease: acknowledgment and response have one form ([MS-SMB2] 2.2.24.2, 2.2.25.2).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LeaseBreak {
    /// Key of the lease.
    pub lease_key: LeaseKey,
    /// State after the break.
    pub lease_state: LeaseState,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct LeaseLayout {
    structure_size: U16,
    reserved: U16,
    flags: U32,
    lease_key: [u8; 16],
    lease_state: U32,
    lease_duration: U64,
}

const LEASE_SIZE: u16 = 36;

impl Decode<'_> for LeaseBreak {
    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let layout: &LeaseLayout = message::body(message, LEASE_SIZE)?;
        let lease_state = LeaseState::from_bits_retain(layout.lease_state.get());
        Ok(Self { lease_key: LeaseKey(layout.lease_key), lease_state })
    }
}

impl Encode for LeaseBreak {
    fn encode(&self, out: &mut Vec<u8>) {
        let layout = LeaseLayout {
            structure_size: LEASE_SIZE.into(),
            reserved: U16::ZERO,
            flags: U32::ZERO,
            lease_key: self.lease_key.0,
            lease_state: self.lease_state.bits().into(),
            lease_duration: U64::ZERO,
        };
        message::put(out, &layout);
    }
}

/// StructureSize of a body, or zero without a body.
fn structure_size(message: &[u8]) -> u16 {
    let body = message.get(header::SIZE..).unwrap_or_default();
    body.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

/// Acknowledgment by the client, and the server's response: [MS-SMB2] 2.2.24, 2.2.25.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BreakAcknowledgment {
    /// Acknowledgment of a lease break.
    Lease(LeaseBreak),
    /// Acknowledgment of an oplock break.
    Oplock(OplockBreak),
}

impl Decode<'_> for BreakAcknowledgment {
    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        match structure_size(message) {
            LEASE_SIZE => LeaseBreak::decode(message).map(Self::Lease),
            _ => OplockBreak::decode(message).map(Self::Oplock),
        }
    }

    fn file_id(&self) -> Option<FileId> {
        match self {
            Self::Lease(_) => None,
            Self::Oplock(oplock) => oplock.file_id(),
        }
    }
}

impl Encode for BreakAcknowledgment {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Lease(lease) => lease.encode(out),
            Self::Oplock(oplock) => oplock.encode(out),
        }
    }
}

/// Notification by the server: [MS-SMB2] 2.2.23.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BreakNotification {
    /// Break of a lease.
    Lease(LeaseBreakNotification),
    /// Break of an oplock.
    Oplock(OplockBreak),
}

impl Decode<'_> for BreakNotification {
    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        match structure_size(message) {
            LEASE_NOTIFICATION_SIZE => LeaseBreakNotification::decode(message).map(Self::Lease),
            _ => OplockBreak::decode(message).map(Self::Oplock),
        }
    }

    fn file_id(&self) -> Option<FileId> {
        match self {
            Self::Lease(_) => None,
            Self::Oplock(oplock) => oplock.file_id(),
        }
    }
}

impl Encode for BreakNotification {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Lease(lease) => lease.encode(out),
            Self::Oplock(oplock) => oplock.encode(out),
        }
    }
}

#[cfg(test)]
mod tests;
