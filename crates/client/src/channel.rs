//! A session's binding to one connection: [MS-SMB2] 3.2.1.8.

use crypto::{BadSignature, NonceCounter, SessionKeys, SigningKey};

use crate::error::ProtocolError;
use crate::session::Session;

/// A session as one connection uses it: a signing key of its own, and the session's encryption with
/// nonces of its own.
#[derive(Debug)]
pub struct Channel {
    session: Session,
    signing_key: SigningKey,
    nonces: NonceCounter,
    is_being_bound: bool,
}

impl Channel {
    /// Creates the first channel of a session, whose signing key is the session's. No two channels
    /// of a session may have the same nonce prefix.
    #[must_use]
    pub fn first(session: Session, nonce_prefix: [u8; 3]) -> Self {
        let signing_key = session.signing_key.clone();
        let nonces = NonceCounter::new(nonce_prefix);
        Self { session, signing_key, nonces, is_being_bound: false }
    }

    /// Begins a further channel: it signs with the session's key until [`Self::set_keys`].
    #[must_use]
    pub fn further(session: Session, nonce_prefix: [u8; 3]) -> Self {
        Self { is_being_bound: true, ..Self::first(session, nonce_prefix) }
    }

    /// Sets `Channel.SigningKey`; the session's encryption stays as it is.
    pub fn set_keys(&mut self, keys: &SessionKeys) {
        self.signing_key = keys.signing_key();
    }

    /// Ends the binding, which the server has confirmed.
    pub fn finish(&mut self) {
        self.is_being_bound = false;
    }

    /// True until the server has confirmed the binding.
    #[must_use]
    pub const fn is_being_bound(&self) -> bool {
        self.is_being_bound
    }

    /// Session that the channel belongs to.
    #[must_use]
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// `Channel.SigningKey`, or the session's while there is no other.
    #[must_use]
    pub const fn signing_key(&self) -> &SigningKey {
        &self.signing_key
    }

    /// True if there are keys to encrypt with.
    #[must_use]
    pub const fn has_cipher(&self) -> bool {
        self.session.ciphers.is_some()
    }

    /// Signs a message of a frame, with its padding.
    pub fn sign(&self, message: &mut [u8]) {
        self.signing_key.sign(message);
    }

    /// Verifies the signature of a message.
    ///
    /// # Errors
    ///
    /// The signature is wrong.
    pub fn verify(&self, message: &mut [u8]) -> Result<(), BadSignature> {
        self.signing_key.verify(message)
    }

    /// Encrypts a frame in place, which begins with room for a TRANSFORM_HEADER.
    ///
    /// # Errors
    ///
    /// No cipher was negotiated, or the nonces are used up.
    pub fn seal(&mut self, frame: &mut [u8]) -> Result<(), ProtocolError> {
        let ciphers = self.session.ciphers.as_ref().ok_or(ProtocolError::NoCipher)?;
        let nonce = self.nonces.advance()?;
        ciphers.encryption.seal(nonce, self.session.id, frame);
        Ok(())
    }

    /// Decrypts a frame in place, and returns the messages in it.
    ///
    /// # Errors
    ///
    /// No cipher was negotiated, or the frame was encrypted with another key.
    pub fn open<'f>(&self, frame: &'f mut [u8]) -> Result<&'f mut [u8], ProtocolError> {
        let ciphers = self.session.ciphers.as_ref().ok_or(ProtocolError::NoCipher)?;
        Ok(ciphers.decryption.open(frame)?)
    }
}

#[cfg(test)]
mod tests {
    use crypto::{Cipher, KeyMaterial, Role, SessionKeys, TransformKey};
    use wire::Header;

    use super::Channel;
    use crate::error::ProtocolError;
    use crate::session::Session;

    fn keys(cipher: Option<Cipher>, session_key: u8) -> SessionKeys {
        SessionKeys::derive(KeyMaterial {
            dialect: 0x0300,
            session_key: &[session_key; 16],
            full_session_key: &[session_key; 16],
            preauth_hash: None,
            cipher,
            signing_algorithm: None,
        })
    }

    fn both_sides(cipher: Option<Cipher>) -> (Channel, Channel) {
        let side = |role| Channel::first(Session::new(9, &keys(cipher, 1), role), [0; 3]);
        (side(Role::Client), side(Role::Server))
    }

    fn sealed(channel: &mut Channel) -> Vec<u8> {
        let mut frame = vec![0; TransformKey::HEADER_LEN];
        frame.extend_from_slice(&Header::default().to_bytes());
        channel.seal(&mut frame).expect("there is a cipher");
        frame
    }

    #[test]
    fn one_side_opens_messages_sealed_by_the_other() {
        let (mut client, server) = both_sides(Some(Cipher::Aes128Ccm));
        let mut frame = sealed(&mut client);
        assert_eq!(TransformKey::session_id(&frame), Some(9));
        let opened = server.open(&mut frame).expect("the same keys");
        assert_eq!(opened, Header::default().to_bytes());
        let mut frame = sealed(&mut client);
        assert!(matches!(client.open(&mut frame), Err(ProtocolError::Open(_))), "its own");
    }

    #[test]
    fn nothing_is_sealed_without_a_cipher() {
        let (mut client, _) = both_sides(None);
        assert!(!client.has_cipher());
        let mut frame = vec![0; TransformKey::HEADER_LEN + 64];
        assert_eq!(client.seal(&mut frame), Err(ProtocolError::NoCipher));
        assert_eq!(client.open(&mut frame), Err(ProtocolError::NoCipher));
    }

    #[test]
    fn a_further_channel_signs_with_the_key_of_the_session_until_it_has_its_own() {
        let (first, server) = both_sides(None);
        let mut further = Channel::further(first.session().clone(), [1, 0, 0]);
        let mut message = Header::default().to_bytes();
        further.sign(&mut message);
        server.verify(&mut message).expect("the key of the session");
        further.set_keys(&keys(None, 2));
        assert!(further.is_being_bound(), "the server has not confirmed it");
        further.finish();
        further.sign(&mut message);
        assert!(server.verify(&mut message).is_err(), "the key of the channel");
        assert!(!further.is_being_bound());
    }

    #[test]
    fn channels_of_a_session_share_its_keys_and_no_nonce() {
        let (mut first, server) = both_sides(Some(Cipher::Aes128Ccm));
        let mut further = Channel::further(first.session().clone(), [1, 0, 0]);
        let mut frames = [sealed(&mut first), sealed(&mut further)];
        assert_ne!(frames[0], frames[1]);
        for frame in &mut frames {
            server.open(frame).expect("the keys of the session");
        }
    }
}
