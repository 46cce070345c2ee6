//! [MS-SMB2] 2.2: bytes to values and back. No policy.

#![forbid(unsafe_code)]
