//! Signing, encryption, key derivation and the preauthentication hash of SMB2 and SMB3.
//!
//! All functions compute on the caller's bytes: they copy no buffer, and keep no state but keys and
//! one counter. `proto` decides which messages are signed or encrypted; randomness is an argument.
//!
//! Keys are prepared once, when a session is established ([`SessionKeys`]), and erased from memory
//! when they are dropped. `Debug` never prints one.

#![forbid(unsafe_code)]

pub mod algorithm;
pub mod fingerprint;
pub mod nonce;
pub mod preauth;
mod prepare;
pub mod session_keys;
pub mod signing;
pub mod transform;

pub use algorithm::{Cipher, SigningAlgorithm};
pub use fingerprint::fingerprint;
pub use nonce::{Nonce, NonceCounter, NoncesExhausted};
pub use preauth::PreauthHash;
pub use prepare::prepare;
pub use session_keys::{KeyMaterial, Role, SessionKeys};
pub use signing::{BadSignature, SigningKey};
pub use transform::{OpenError, TransformKey};

#[cfg(test)]
mod hex;
