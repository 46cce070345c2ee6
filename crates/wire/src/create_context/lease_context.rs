//! Leases in CREATE: [MS-SMB2] 2.2.13.2.8, 2.2.13.2.10 and 2.2.14.2.10, 2.2.14.2.11.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::create_context::{CreateContextData, CreateContextName};
use crate::error::DecodeError;
use crate::lease::{LeaseFlags, LeaseKey, LeaseState};
use crate::message;

/// A requested or a granted lease: requests and responses have one form.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LeaseContext {
    /// Key that the client chose.
    pub lease_key: LeaseKey,
    /// Caching that is requested or granted.
    pub lease_state: LeaseState,
    /// Flags; reserved in a request of the first version.
    pub lease_flags: LeaseFlags,
    /// Fields of the second version; `None` in the first.
    pub v2: Option<LeaseV2>,
}

/// Additional fields of a lease from dialect 3.0 on.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LeaseV2 {
    /// Key of the lease on the parent directory, valid if the flags have PARENT_LEASE_KEY_SET.
    pub parent_lease_key: LeaseKey,
    /// Number of changes of the state so far.
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

    /// Decodes both versions, told apart by their lengths of 32 and 52 bytes.
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
