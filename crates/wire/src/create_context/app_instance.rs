//! The application that opens: [MS-SMB2] 2.2.13.2.13, 2.2.13.2.15.

use dtyp::Guid;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::create_context::{CreateContextData, CreateContextName};
use crate::error::DecodeError;
use crate::message;

/// Checks the StructureSize of a context.
fn verify_structure_size(got: u16, want: u16) -> Result<(), DecodeError> {
    if got == want { Ok(()) } else { Err(DecodeError::StructureSize { want, got }) }
}

/// Identifies the application, which takes over its own opens after a failover.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AppInstanceId {
    /// Identifier of the application instance.
    pub app_instance_id: Guid,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct IdLayout {
    structure_size: U16,
    reserved: U16,
    app_instance_id: [u8; 16],
}

impl CreateContextData<'_> for AppInstanceId {
    const NAME: CreateContextName<'static> = CreateContextName::APP_INSTANCE_ID;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let (layout, _) = message::prefix::<IdLayout>(data)?;
        verify_structure_size(layout.structure_size.get(), 20)?;
        Ok(Self { app_instance_id: Guid(layout.app_instance_id) })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let app_instance_id = self.app_instance_id.0;
        let layout = IdLayout { structure_size: 20.into(), reserved: U16::ZERO, app_instance_id };
        message::put(out, &layout);
    }
}

/// Version of the application instance; the newer one takes over opens.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct AppInstanceVersion {
    /// More significant half of the version.
    pub app_instance_version_high: u64,
    /// Less significant half of the version.
    pub app_instance_version_low: u64,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct VersionLayout {
    structure_size: U16,
    reserved: U16,
    padding: U32,
    high: U64,
    low: U64,
}

impl CreateContextData<'_> for AppInstanceVersion {
    const NAME: CreateContextName<'static> = CreateContextName::APP_INSTANCE_VERSION;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let (layout, _) = message::prefix::<VersionLayout>(data)?;
        verify_structure_size(layout.structure_size.get(), 24)?;
        Ok(Self {
            app_instance_version_high: layout.high.get(),
            app_instance_version_low: layout.low.get(),
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let layout = VersionLayout {
            structure_size: 24.into(),
            reserved: U16::ZERO,
            padding: U32::ZERO,
            high: self.app_instance_version_high.into(),
            low: self.app_instance_version_low.into(),
        };
        message::put(out, &layout);
    }
}
