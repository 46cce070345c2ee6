//! Value types of [MS-DTYP], [MS-ERREF] and [MS-FSCC], and the rules that these documents define on
//! values alone: access checks, inheritance, name matching.
//!
//! Every type has bytes, a meaning and a `Debug` form; every rule is a pure function. Which rule
//! applies is decided in `proto` and `store`, which also holds the files.

#![forbid(unsafe_code)]

pub mod access_check;
pub mod access_mask;
pub mod ace;
pub mod acl;
pub mod file_attributes;
pub mod file_time;
pub mod fscc;
mod gmt_token;
pub mod guid;
pub mod inheritance;
pub mod name_expression;
pub mod ntstatus;
mod reader;
pub mod security_descriptor;
pub mod security_information;
pub mod server_id;
pub mod sid;
pub mod upcase;
mod utc_time;
pub mod utf16;

pub use access_check::{Privileges, Token, access_check};
pub use access_mask::AccessMask;
pub use ace::{Ace, AceFlags, AceType};
pub use acl::Acl;
pub use file_attributes::FileAttributes;
pub use file_time::FileTime;
pub use fscc::{FileInformationClass, FsInformationClass};
pub use guid::Guid;
pub use name_expression::NameExpression;
pub use ntstatus::NtStatus;
pub use security_descriptor::SecurityDescriptor;
pub use security_information::SecurityInformation;
pub use server_id::ServerId;
pub use sid::Sid;
pub use utc_time::UtcTime;
