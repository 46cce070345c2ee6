//! Leases in CREATE: [MS-SMB2] 2.2.13.2.8, 2.2.13.2.10 and 2.2.14.2.10, 2.2.14.2.11.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::create_context::{CreateContextData, CreateContextName};
use crate::error::DecodeError;
use crate::lease::{LeaseFlags, LeaseKey, LeaseState};
use crate::message;

/// A lease that is asked for, or granted: requests and responses look alike.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LeaseContext {
    /// The lease.
    pub lease_key: LeaseKey,
    /// What it lets the client do.
    pub lease_state: LeaseState,
    /// Flags; reserved in a request of the first version.
    pub lease_flags: LeaseFlags,
    /// What the second version adds; nothing in the first.
    pub v2: Option<LeaseV2>,
}

/// What a lease has from 3.0 on.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LeaseV2 {
    /// The lease of the directory that the file is in, if the flags say that it is set.
    pub parent_lease_key: LeaseKey,
    /// Counts the changes of the state.
    pub epoch: u16,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    lease_key: [u8; 16],
    lease_state: U32,
    lease_flags: U32,
    lease_duration: U64,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct V2Layout {
    parent_lease_key: [u8; 16],
    epoch: U16,
    reserved: U16,
}

const V1_LENGTH: usize = size_of::<Layout>();
const V2_LENGTH: usize = V1_LENGTH + size_of::<V2Layout>();

impl CreateContextData<'_> for LeaseContext {
    const NAME: CreateContextName<'static> = CreateContextName::REQUEST_LEASE;

    /// The version is told by the length, so no other length than 32 and 52 can be read.
    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let (layout, rest) = message::prefix::<Layout>(data)?;
        let v2 = match data.len() {
            V1_LENGTH => None,
            V2_LENGTH => {
                let (layout, _) = message::prefix::<V2Layout>(rest)?;
                let parent_lease_key = LeaseKey(layout.parent_lease_key);
                Some(LeaseV2 { parent_lease_key, epoch: layout.epoch.get() })
            }
            _ => {
                let value = message::len32(data).into();
                return Err(DecodeError::BadValue { field: "DataLength", value });
            }
        };
        Ok(Self {
            lease_key: LeaseKey(layout.lease_key),
            lease_state: LeaseState::from_bits_retain(layout.lease_state.get()),
            lease_flags: LeaseFlags::from_bits_retain(layout.lease_flags.get()),
            v2,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let layout = Layout {
            lease_key: self.lease_key.0,
            lease_state: self.lease_state.bits().into(),
            lease_flags: self.lease_flags.bits().into(),
            lease_duration: U64::ZERO,
        };
        message::put(out, &layout);
        if let Some(LeaseV2 { parent_lease_key, epoch }) = self.v2 {
            let parent_lease_key = parent_lease_key.0;
            let layout = V2Layout { parent_lease_key, epoch: epoch.into(), reserved: U16::ZERO };
            message::put(out, &layout);
        }
    }
}
