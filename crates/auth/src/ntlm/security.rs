//! Signatures with an NTLM session's keys: [MS-NLMP] 3.4.4.2, 3.4.5.
//!
//! SMB2 signs with keys of its own; NTLM signs only the mechanism list of SPNEGO, one message in
//! each direction. So the sequence number is always zero and no state of RC4 is kept.

use md5::{Digest, Md5};
use rc4::{KeyInit, Rc4, StreamCipher};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::flags;
use super::response::hmac_md5;
use crate::session_key::SessionKey;

/// Sender of a signed message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sender {
    Client,
    Server,
}

/// Flags and key of an established session, for signing.
#[derive(Clone, Debug)]
pub(crate) struct Security {
    /// NegFlg: the flags that both sides agreed on.
    pub(crate) flags: u32,
    /// ExportedSessionKey: [MS-NLMP] 3.1.1.
    pub(crate) key: SessionKey,
}

impl Security {
    /// True if signing keys exist; extended session security is required for them.
    pub(crate) fn can_sign(&self) -> bool {
        self.flags & flags::EXTENDED_SESSIONSECURITY != 0
    }

    /// True if both sides agreed to sign. Some clients sign the mechanism list without that.
    pub(crate) fn signs(&self) -> bool {
        self.can_sign() && self.flags & flags::SIGN != 0
    }

    /// GSS_GetMIC of the first message of `sender`.
    pub(crate) fn mic(&self, sender: Sender, message: &[u8]) -> [u8; 16] {
        let [signing, sealing] = match sender {
            Sender::Client => CLIENT_CONSTANTS,
            Sender::Server => SERVER_CONSTANTS,
        };
        let signing_key = derived(self.key.as_bytes(), signing);
        let sequence = 0_u32.to_le_bytes();
        let hash = hmac_md5(&signing_key[..], &[&sequence, message]);
        let mut mic = [0; 16];
        mic[..4].copy_from_slice(&1_u32.to_le_bytes());
        mic[4..12].copy_from_slice(&hash[..8]);
        if self.flags & flags::KEY_EXCH != 0 {
            let sealing_key = derived(self.sealing_base(), sealing);
            rc4(&sealing_key, &mut mic[4..12]);
        }
        mic[12..].copy_from_slice(&sequence);
        mic
    }

    /// True if `mic` is that of the first message of `sender`; takes constant time.
    pub(crate) fn verify_mic(&self, sender: Sender, message: &[u8], mic: &[u8]) -> bool {
        self.can_sign() && bool::from(self.mic(sender, message).ct_eq(mic))
    }

    /// Part of the session key that SEALKEY uses.
    fn sealing_base(&self) -> &[u8] {
        let key = self.key.as_bytes();
        if self.flags & flags::KEY_128 != 0 {
            key
        } else if self.flags & flags::KEY_56 != 0 {
            &key[..7]
        } else {
            &key[..5]
        }
    }
}

/// Applies RC4, from the beginning of its key stream.
pub(crate) fn rc4(key: &[u8; 16], data: &mut [u8]) {
    Rc4::new_from_slice(key).expect("RC4 takes 16 bytes").apply_keystream(data);
}

fn derived(base: &[u8], constant: &[u8]) -> Zeroizing<[u8; 16]> {
    let mut hash = Md5::new();
    hash.update(base);
    hash.update(constant);
    Zeroizing::new(hash.finalize().into())
}

const CLIENT_CONSTANTS: [&[u8]; 2] = [
    b"session key to client-to-server signing key magic constant\0",
    b"session key to client-to-server sealing key magic constant\0",
];
const SERVER_CONSTANTS: [&[u8]; 2] = [
    b"session key to server-to-client signing key magic constant\0",
    b"session key to server-to-client sealing key magic constant\0",
];
