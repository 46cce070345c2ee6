//! Result of NEGOTIATE: [MS-SMB2] 3.2.5.2.

use auth::SessionKey;
use crypto::{Cipher, KeyMaterial, PreauthHash, SessionKeys, SigningAlgorithm};
use wire::negotiate::{Capabilities, NegotiateResponse};
use wire::negotiate_context::{EncryptionCapabilities, SigningCapabilities};
use wire::{Decode, DecodeError, Dialect};

/// Choices of the server for a connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Negotiated {
    /// `Connection.Dialect`; 0 before NEGOTIATE.
    pub dialect: Dialect,
    /// `Connection.CipherId`, if there is encryption.
    pub cipher: Option<Cipher>,
    /// `Connection.SigningAlgorithmId`, if 3.1.1 negotiated it.
    pub signing_algorithm: Option<SigningAlgorithm>,
    /// `Connection.MaxTransactSize`, in bytes.
    pub max_transact_size: u32,
    /// `Connection.MaxReadSize`, in bytes.
    pub max_read_size: u32,
    /// `Connection.MaxWriteSize`, in bytes.
    pub max_write_size: u32,
}

impl Negotiated {
    /// Returns the choices in a successful response.
    ///
    /// # Errors
    ///
    /// The response, or one of its contexts, is malformed.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let body = NegotiateResponse::decode(message)?;
        let contexts = body.negotiate_contexts;
        let (mut cipher, mut signing_algorithm) = (None, None);
        if body.dialect_revision == Dialect::SMB_3_1_1 {
            let encryption: Option<EncryptionCapabilities<'_>> = contexts.find()?;
            let id = encryption.and_then(|it| it.ciphers.iter().next());
            cipher = id.and_then(|id| Cipher::from_id(id.0));
            let signing: Option<SigningCapabilities<'_>> = contexts.find()?;
            let id = signing.and_then(|it| it.signing_algorithms.iter().next());
            signing_algorithm = id.and_then(|id| SigningAlgorithm::from_id(id.0));
        } else if body.capabilities.contains(Capabilities::ENCRYPTION) {
            cipher = Some(Cipher::Aes128Ccm);
        }
        Ok(Self {
            dialect: body.dialect_revision,
            cipher,
            signing_algorithm,
            max_transact_size: body.max_transact_size,
            max_read_size: body.max_read_size,
            max_write_size: body.max_write_size,
        })
    }

    /// Derives the keys of an authentication: [MS-SMB2] 3.2.5.3.1.
    #[must_use]
    pub fn session_keys(&self, session_key: &SessionKey, preauth: &PreauthHash) -> SessionKeys {
        SessionKeys::derive(KeyMaterial {
            dialect: self.dialect.0,
            session_key: session_key.as_bytes(),
            full_session_key: session_key.full(),
            preauth_hash: Some(preauth),
            cipher: self.cipher,
            signing_algorithm: self.signing_algorithm,
        })
    }
}

#[cfg(test)]
mod tests {
    use crypto::{Cipher, SigningAlgorithm};
    use wire::negotiate::{Capabilities, NegotiateResponse};
    use wire::negotiate_context::{CipherId, SigningAlgorithmId};
    use wire::{Dialect, Encode, Header};

    use super::Negotiated;
    use crate::offer::Offer;

    fn decode(dialect: Dialect, capabilities: Capabilities, offer: &Offer) -> Negotiated {
        let contexts = offer.contexts();
        let mut message = Header::default().to_bytes().to_vec();
        let body = NegotiateResponse {
            dialect_revision: dialect,
            capabilities,
            max_read_size: 7,
            negotiate_contexts: contexts.contexts(),
            ..NegotiateResponse::default()
        };
        body.encode(&mut message);
        Negotiated::decode(&message).expect("well-formed")
    }

    #[test]
    fn contexts_choose_the_algorithms_of_3_1_1() {
        let mut offer = Offer::dialects(&[Dialect::SMB_3_1_1]);
        offer.ciphers = vec![CipherId::AES_256_GCM];
        offer.signing = vec![SigningAlgorithmId::AES_CMAC];
        let negotiated = decode(Dialect::SMB_3_1_1, Capabilities::empty(), &offer);
        assert_eq!(negotiated.cipher, Some(Cipher::Aes256Gcm));
        assert_eq!(negotiated.signing_algorithm, Some(SigningAlgorithm::AesCmac));
        assert_eq!(negotiated.max_read_size, 7);
        (offer.ciphers, offer.signing) = (Vec::new(), Vec::new());
        let negotiated = decode(Dialect::SMB_3_1_1, Capabilities::ENCRYPTION, &offer);
        assert_eq!((negotiated.cipher, negotiated.signing_algorithm), (None, None));
    }

    #[test]
    fn a_capability_chooses_the_cipher_of_3_0() {
        let offer = Offer::dialects(&[Dialect::SMB_3_0]);
        let negotiated = decode(Dialect::SMB_3_0, Capabilities::ENCRYPTION, &offer);
        assert_eq!(negotiated.cipher, Some(Cipher::Aes128Ccm));
        let negotiated = decode(Dialect::SMB_3_0, Capabilities::empty(), &offer);
        assert_eq!(negotiated.cipher, None);
    }
}
