//! Signing, encryption, key derivation and the preauthentication hash of SMB2 and SMB3.

#![forbid(unsafe_code)]
