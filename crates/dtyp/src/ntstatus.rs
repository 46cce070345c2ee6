//! NTSTATUS: [MS-ERREF] 2.3.

use std::fmt;

/// A status code, as in the Status field of the SMB2 header.
///
/// A newtype and not an enum: unknown codes must round-trip as well.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
#[must_use]
pub struct NtStatus(pub u32);

impl NtStatus {
    /// True if the severity is error (`0b11`).
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.0 >> 30 == 0b11
    }

    /// True if the severity is warning (`0b10`).
    #[must_use]
    pub const fn is_warning(self) -> bool {
        self.0 >> 30 == 0b10
    }

    /// True for STATUS_SUCCESS alone.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }
}

macro_rules! statuses {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal;)*) => {
        impl NtStatus {
            $(
                #[doc = concat!("STATUS_", stringify!($name))]
                $(#[doc = $doc])*
                pub const $name: Self = Self($code);
            )*
        }

        impl fmt::Debug for NtStatus {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(Self::$name => f.write_str(concat!("STATUS_", stringify!($name))),)*
                    Self(code) => write!(f, "STATUS_{code:#010x}"),
                }
            }
        }
    };
}

impl fmt::Display for NtStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for NtStatus {}

statuses! {
    SUCCESS = 0x0000_0000;
    PENDING = 0x0000_0103;
    MORE_ENTRIES = 0x0000_0105;
    NOTIFY_CLEANUP = 0x0000_010B;
    NOTIFY_ENUM_DIR = 0x0000_010C;
    BUFFER_OVERFLOW = 0x8000_0005;
    NO_MORE_FILES = 0x8000_0006;
    NO_MORE_ENTRIES = 0x8000_001A;
    INVALID_EA_NAME = 0x8000_0013;
    EA_LIST_INCONSISTENT = 0x8000_0014;
    NO_MORE_EAS = 0x8000_0012;
    STOPPED_ON_SYMLINK = 0x8000_002D;
    UNSUCCESSFUL = 0xC000_0001;
    NOT_IMPLEMENTED = 0xC000_0002;
    INVALID_INFO_CLASS = 0xC000_0003;
    INFO_LENGTH_MISMATCH = 0xC000_0004;
    INVALID_HANDLE = 0xC000_0008;
    INVALID_PARAMETER = 0xC000_000D;
    NO_SUCH_FILE = 0xC000_000F;
    INVALID_DEVICE_REQUEST = 0xC000_0010;
    END_OF_FILE = 0xC000_0011;
    MORE_PROCESSING_REQUIRED = 0xC000_0016;
    NO_MEMORY = 0xC000_0017;
    INVALID_VIEW_SIZE = 0xC000_001F;
    ACCESS_DENIED = 0xC000_0022;
    BUFFER_TOO_SMALL = 0xC000_0023;
    OBJECT_NAME_INVALID = 0xC000_0033;
    OBJECT_NAME_NOT_FOUND = 0xC000_0034;
    OBJECT_NAME_COLLISION = 0xC000_0035;
    OBJECT_PATH_INVALID = 0xC000_0039;
    OBJECT_PATH_NOT_FOUND = 0xC000_003A;
    OBJECT_PATH_SYNTAX_BAD = 0xC000_003B;
    SHARING_VIOLATION = 0xC000_0043;
    EAS_NOT_SUPPORTED = 0xC000_004F;
    EA_TOO_LARGE = 0xC000_0050;
    NONEXISTENT_EA_ENTRY = 0xC000_0051;
    NO_EAS_ON_FILE = 0xC000_0052;
    EA_CORRUPT_ERROR = 0xC000_0053;
    FILE_LOCK_CONFLICT = 0xC000_0054;
    LOCK_NOT_GRANTED = 0xC000_0055;
    DELETE_PENDING = 0xC000_0056;
    NO_LOGON_SERVERS = 0xC000_005E;
    PRIVILEGE_NOT_HELD = 0xC000_0061;
    NO_SUCH_USER = 0xC000_0064;
    NO_SUCH_GROUP = 0xC000_0066;
    WRONG_PASSWORD = 0xC000_006A;
    LOGON_FAILURE = 0xC000_006D;
    ACCOUNT_RESTRICTION = 0xC000_006E;
    INVALID_LOGON_HOURS = 0xC000_006F;
    INVALID_WORKSTATION = 0xC000_0070;
    PASSWORD_EXPIRED = 0xC000_0071;
    ACCOUNT_DISABLED = 0xC000_0072;
    RANGE_NOT_LOCKED = 0xC000_007E;
    DISK_FULL = 0xC000_007F;
    ALLOTTED_SPACE_EXCEEDED = 0xC000_0099;
    INSUFFICIENT_RESOURCES = 0xC000_009A;
    MEDIA_WRITE_PROTECTED = 0xC000_00A2;
    BAD_IMPERSONATION_LEVEL = 0xC000_00A5;
    PIPE_NOT_AVAILABLE = 0xC000_00AC;
    PIPE_BUSY = 0xC000_00AE;
    PIPE_DISCONNECTED = 0xC000_00B0;
    PIPE_EMPTY = 0xC000_00D9;
    IO_TIMEOUT = 0xC000_00B5;
    FILE_IS_A_DIRECTORY = 0xC000_00BA;
    NOT_SUPPORTED = 0xC000_00BB;
    INVALID_NETWORK_RESPONSE = 0xC000_00C3;
    NETWORK_NAME_DELETED = 0xC000_00C9;
    NETWORK_ACCESS_DENIED = 0xC000_00CA;
    BAD_DEVICE_TYPE = 0xC000_00CB;
    BAD_NETWORK_NAME = 0xC000_00CC;
    NO_SUCH_DOMAIN = 0xC000_00DF;
    REQUEST_NOT_ACCEPTED = 0xC000_00D0;
    REQUEST_OUT_OF_SEQUENCE = 0xC000_042A;
    NOT_SAME_DEVICE = 0xC000_00D4;
    FILE_RENAMED = 0xC000_00D5;
    INVALID_OPLOCK_PROTOCOL = 0xC000_00E3;
    INTERNAL_DB_CORRUPTION = 0xC000_00E4;
    INTERNAL_ERROR = 0xC000_00E5;
    UNEXPECTED_IO_ERROR = 0xC000_00E9;
    NO_SUCH_ALIAS = 0xC000_0151;
    DIRECTORY_NOT_EMPTY = 0xC000_0101;
    FILE_CORRUPT_ERROR = 0xC000_0102;
    NOT_A_DIRECTORY = 0xC000_0103;
    NAME_TOO_LONG = 0xC000_0106;
    CANCELLED = 0xC000_0120;
    CANNOT_DELETE = 0xC000_0121;
    FILE_DELETED = 0xC000_0123;
    FILE_CLOSED = 0xC000_0128;
    ILLEGAL_CHARACTER = 0xC000_0161;
    TOO_MANY_OPENED_FILES = 0xC000_011F;
    LOGON_TYPE_NOT_GRANTED = 0xC000_015B;
    INVALID_DEVICE_STATE = 0xC000_0184;
    USER_SESSION_DELETED = 0xC000_0203;
    INSUFF_SERVER_RESOURCES = 0xC000_0205;
    INVALID_BUFFER_SIZE = 0xC000_0206;
    PASSWORD_MUST_CHANGE = 0xC000_0224;
    NOT_FOUND = 0xC000_0225;
    ACCOUNT_LOCKED_OUT = 0xC000_0234;
    RETRY = 0xC000_022D;
    PATH_NOT_COVERED = 0xC000_0257;
    TOO_MANY_LINKS = 0xC000_0265;
    NOT_A_REPARSE_POINT = 0xC000_0275;
    IO_REPARSE_TAG_INVALID = 0xC000_0276;
    IO_REPARSE_TAG_MISMATCH = 0xC000_0277;
    IO_REPARSE_DATA_INVALID = 0xC000_0278;
    IO_REPARSE_TAG_NOT_HANDLED = 0xC000_0279;
    REPARSE_POINT_ENCOUNTERED = 0xC000_050B;
    NETWORK_SESSION_EXPIRED = 0xC000_035C;
    FS_DRIVER_REQUIRED = 0xC000_019C;
    ACCOUNT_EXPIRED = 0xC000_0193;
    INVALID_LOCK_RANGE = 0xC000_01A1;
    INVALID_SID = 0xC000_0078;
    INVALID_ACL = 0xC000_0077;
    INVALID_SECURITY_DESCR = 0xC000_0079;
    INVALID_OWNER = 0xC000_005A;
    NONE_MAPPED = 0xC000_0073;
    SOME_NOT_MAPPED = 0x0000_0107;
    NO_TOKEN = 0xC000_007C;
    FILE_NOT_AVAILABLE = 0xC000_0467;
    FILE_INVALID = 0xC000_0098;
    SHARE_UNAVAILABLE = 0xC000_0480;
    SERVER_UNAVAILABLE = 0xC000_0466;
    HASH_NOT_PRESENT = 0xC000_A101;
    SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP = 0xC05D_0000;
    SMB_BAD_CLUSTER_DIALECT = 0xC05D_0001;
    BAD_NETWORK_PATH = 0xC000_00BE;
    DUPLICATE_OBJECTID = 0xC000_022A;
    OBJECTID_NOT_FOUND = 0xC000_02F0;
    VOLUME_DISMOUNTED = 0xC000_026E;
    QUOTA_EXCEEDED = 0xC000_0044;
    DOWNGRADE_DETECTED = 0xC000_0388;
}

#[cfg(test)]
mod tests {
    use super::NtStatus;

    #[test]
    fn a_status_without_a_name_prints_its_code() {
        assert_eq!(format!("{:?}", NtStatus(0xC000_9999)), "STATUS_0xc0009999");
        assert_eq!(format!("{:?}", NtStatus::FILE_CLOSED), "STATUS_FILE_CLOSED");
    }

    #[test]
    fn severity_comes_from_the_two_top_bits() {
        assert!(NtStatus::ACCESS_DENIED.is_error());
        assert!(!NtStatus::BUFFER_OVERFLOW.is_error());
        assert!(NtStatus::BUFFER_OVERFLOW.is_warning());
        assert!(!NtStatus::PENDING.is_error() && !NtStatus::PENDING.is_success());
    }
}
