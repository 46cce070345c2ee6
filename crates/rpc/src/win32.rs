//! Win32 error codes, the return values of the operations: [MS-ERREF] 2.2.

/// A return value of an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Win32Error(pub(crate) u32);

impl Win32Error {
    pub(crate) const SUCCESS: Self = Self(0);
    pub(crate) const ACCESS_DENIED: Self = Self(5);
    pub(crate) const INVALID_LEVEL: Self = Self(124);
    pub(crate) const MORE_DATA: Self = Self(234);
    /// NERR_NetNameNotFound: the share does not exist.
    pub(crate) const NET_NAME_NOT_FOUND: Self = Self(2310);
}
