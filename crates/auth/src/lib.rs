//! SPNEGO and NTLM as token machines.

#![forbid(unsafe_code)]
