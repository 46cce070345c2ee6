//! Value types of [MS-DTYP], [MS-ERREF] and [MS-FSCC].
//!
//! Everything here is a value: it has bytes, a meaning and a `Debug` form. Nothing decides
//! anything; policy lives in `proto`, files in `store`.

#![forbid(unsafe_code)]

pub mod access_mask;
pub mod file_attributes;
pub mod file_time;
pub mod guid;
pub mod ntstatus;
pub mod sid;

pub use access_mask::AccessMask;
pub use file_attributes::FileAttributes;
pub use file_time::FileTime;
pub use guid::Guid;
pub use ntstatus::NtStatus;
pub use sid::Sid;
