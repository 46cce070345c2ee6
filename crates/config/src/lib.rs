//! smb.conf: parameters as data, shares, substitutions.

#![forbid(unsafe_code)]
