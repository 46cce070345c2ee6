//! Win32 error codes, the return values of the operations: [MS-ERREF] 2.2.

use crate::TaskFailure;

/// A return value of an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Win32Error(pub(crate) u32);

impl Win32Error {
    pub(crate) const SUCCESS: Self = Self(0);
    pub(crate) const INVALID_FUNCTION: Self = Self(1);
    pub(crate) const ACCESS_DENIED: Self = Self(5);
    pub(crate) const NOT_ENOUGH_MEMORY: Self = Self(8);
    pub(crate) const GEN_FAILURE: Self = Self(31);
    pub(crate) const NOT_SUPPORTED: Self = Self(50);
    pub(crate) const INVALID_PARAMETER: Self = Self(87);
    pub(crate) const CALL_NOT_IMPLEMENTED: Self = Self(120);
    pub(crate) const INVALID_NAME: Self = Self(123);
    pub(crate) const INVALID_LEVEL: Self = Self(124);
    pub(crate) const MORE_DATA: Self = Self(234);
    pub(crate) const NO_SUCH_LOGON_SESSION: Self = Self(1312);
    /// NERR_UnknownDevDir: the folder does not exist.
    pub(crate) const UNKNOWN_DEVICE_OR_DIRECTORY: Self = Self(2116);
    /// NERR_DuplicateShare: the share exists already.
    pub(crate) const DUPLICATE_SHARE: Self = Self(2118);
    /// NERR_BufTooSmall: the result is longer than the caller's buffer.
    pub(crate) const BUFFER_TOO_SMALL: Self = Self(2123);
    /// NERR_NetNameNotFound: the share does not exist.
    pub(crate) const NET_NAME_NOT_FOUND: Self = Self(2310);
    /// NERR_DeviceNotShared: no share has the folder.
    pub(crate) const DEVICE_NOT_SHARED: Self = Self(2311);
    /// NERR_ClientNameNotFound: there is no such session.
    pub(crate) const CLIENT_NAME_NOT_FOUND: Self = Self(2312);
    /// NERR_FileIdNotFound: no open file has the number.
    pub(crate) const FILE_ID_NOT_FOUND: Self = Self(2314);
    /// RPC_E_REMOTE_DISABLED: only programs on the same machine may call.
    pub(crate) const REMOTE_DISABLED: Self = Self(0x8001_011C);
}

impl From<TaskFailure> for Win32Error {
    fn from(failure: TaskFailure) -> Self {
        match failure {
            TaskFailure::AccessDenied => Self::ACCESS_DENIED,
            TaskFailure::DuplicateShare => Self::DUPLICATE_SHARE,
            TaskFailure::Failed => Self::GEN_FAILURE,
            TaskFailure::InvalidName => Self::INVALID_NAME,
            TaskFailure::InvalidParameter => Self::INVALID_PARAMETER,
            TaskFailure::NoSuchFile => Self::FILE_ID_NOT_FOUND,
            TaskFailure::NoSuchFolder => Self::UNKNOWN_DEVICE_OR_DIRECTORY,
            TaskFailure::NoSuchSession => Self::CLIENT_NAME_NOT_FOUND,
            TaskFailure::NoSuchShare => Self::NET_NAME_NOT_FOUND,
            TaskFailure::NotSupported => Self::NOT_SUPPORTED,
        }
    }
}
