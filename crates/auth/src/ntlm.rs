//! NTLM: [MS-NLMP], version 2 of the authentication only.

pub(crate) mod acceptor;
pub(crate) mod authenticate;
pub(crate) mod av_pair;
pub(crate) mod initiator;
pub(crate) mod layout;
pub(crate) mod response;
pub(crate) mod security;

/// NegotiateFlags: [MS-NLMP] 2.2.2.5.
pub(crate) mod flags {
    pub(crate) const UNICODE: u32 = 0x0000_0001;
    pub(crate) const REQUEST_TARGET: u32 = 0x0000_0004;
    pub(crate) const SIGN: u32 = 0x0000_0010;
    pub(crate) const SEAL: u32 = 0x0000_0020;
    pub(crate) const NTLM: u32 = 0x0000_0200;
    pub(crate) const ANONYMOUS: u32 = 0x0000_0800;
    pub(crate) const ALWAYS_SIGN: u32 = 0x0000_8000;
    pub(crate) const TARGET_TYPE_DOMAIN: u32 = 0x0001_0000;
    pub(crate) const TARGET_TYPE_SERVER: u32 = 0x0002_0000;
    pub(crate) const EXTENDED_SESSIONSECURITY: u32 = 0x0008_0000;
    pub(crate) const TARGET_INFO: u32 = 0x0080_0000;
    pub(crate) const VERSION: u32 = 0x0200_0000;
    pub(crate) const KEY_128: u32 = 0x2000_0000;
    pub(crate) const KEY_EXCH: u32 = 0x4000_0000;
    pub(crate) const KEY_56: u32 = 0x8000_0000;
}

/// MessageType: [MS-NLMP] 2.2.1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MessageType {
    Negotiate = 1,
    Challenge = 2,
    Authenticate = 3,
}

/// VERSION: [MS-NLMP] 2.2.2.10. For debugging only; the last byte is the revision of NTLMSSP, 15 in
/// all implementations.
pub(crate) const VERSION: [u8; 8] = [10, 0, 0, 0, 0, 0, 0, 15];
/// Range of the MIC in an AUTHENTICATE_MESSAGE: [MS-NLMP] 2.2.1.3.
pub(crate) const MIC: std::ops::Range<usize> = 72..88;

#[cfg(test)]
mod tests;
