//! Known FSCTLs that are always refused.

use engine::scope::InOpen;
use model::reject::Reject;
use wire::ioctl::{FsctlCode, IoctlRequest};

use super::{ImmediateFsctl, Output};

macro_rules! refused {
    ($($(#[doc = $doc:literal])* $name:ident, $code:ident, $scope:ident;)*) => {$(
        $(#[doc = $doc])*
        pub(crate) struct $name;

        impl ImmediateFsctl for $name {
            const CODE: FsctlCode = FsctlCode::$code;
            type Scope<'s> = $scope<'s>;

            fn answer(_: $scope<'_>, _: &IoctlRequest<'_>) -> Result<Output, Reject> {
                Err(Reject::IntegrityNotOffered(Self::CODE))
            }
        }
    )*};
}

refused! {
    /// [MS-FSA] 2.1.5.10: file systems of Linux keep checksums for all files or for none.
    GetIntegrityInformation, GET_INTEGRITY_INFORMATION, InOpen;
    /// [MS-FSA] 2.1.5.10.33: likewise.
    SetIntegrityInformation, SET_INTEGRITY_INFORMATION, InOpen;
    /// [MS-FSA] 2.1.5.10.34: likewise.
    SetIntegrityInformationEx, SET_INTEGRITY_INFORMATION_EX, InOpen;
}
