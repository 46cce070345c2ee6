//! Offer of a client in NEGOTIATE: [MS-SMB2] 3.2.4.2.2.

use dtyp::Guid;
use wire::negotiate::{Capabilities, NegotiateRequest, SecurityMode};
use wire::negotiate_context::{
    CipherId, EncryptionCapabilities, HashAlgorithmId, NegotiateContextList,
    PreauthIntegrityCapabilities, SigningAlgorithmId, SigningCapabilities,
};
use wire::{Codes, Dialect};

/// Offer of a client in NEGOTIATE.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Dialects of the offer, in order.
    pub dialects: Vec<Dialect>,
    /// Capabilities field of the request.
    pub capabilities: Capabilities,
    /// ClientGuid field of the request.
    pub client_guid: Guid,
    /// SecurityMode field of the request.
    pub security_mode: SecurityMode,
    /// Hash algorithms; without any the context is left out.
    pub hashes: Vec<HashAlgorithmId>,
    /// Salt of the preauthentication hash.
    pub salt: [u8; 32],
    /// Ciphers; without any the context is left out.
    pub ciphers: Vec<CipherId>,
    /// Signing algorithms; without any the context is left out.
    pub signing: Vec<SigningAlgorithmId>,
}

impl Offer {
    /// Offers these dialects, with all optional features.
    #[must_use]
    pub fn dialects(dialects: &[Dialect]) -> Self {
        Self {
            dialects: dialects.to_vec(),
            capabilities: Capabilities::LARGE_MTU
                | Capabilities::ENCRYPTION
                | Capabilities::MULTI_CHANNEL
                | Capabilities::DIRECTORY_LEASING,
            client_guid: Guid([0xC1; 16]),
            security_mode: SecurityMode::SIGNING_ENABLED,
            hashes: vec![HashAlgorithmId::SHA_512],
            salt: [0x5A; 32],
            ciphers: vec![CipherId::AES_128_GCM, CipherId::AES_128_CCM],
            signing: vec![SigningAlgorithmId::AES_GMAC, SigningAlgorithmId::AES_CMAC],
        }
    }

    /// Returns the contexts, which only 3.1.1 has.
    #[must_use]
    pub fn contexts(&self) -> NegotiateContextList {
        let mut contexts = NegotiateContextList::new();
        if !self.dialects.contains(&Dialect::SMB_3_1_1) {
            return contexts;
        }
        if !self.hashes.is_empty() {
            let hash_algorithms = Codes::new(&self.hashes);
            contexts.push(&PreauthIntegrityCapabilities { hash_algorithms, salt: &self.salt });
        }
        if !self.ciphers.is_empty() {
            contexts.push(&EncryptionCapabilities { ciphers: Codes::new(&self.ciphers) });
        }
        if !self.signing.is_empty() {
            let signing_algorithms = Codes::new(&self.signing);
            contexts.push(&SigningCapabilities { signing_algorithms });
        }
        contexts
    }

    /// Returns the request with these contexts, which need not be those of the offer.
    #[must_use]
    pub fn request<'a>(&'a self, contexts: &'a NegotiateContextList) -> NegotiateRequest<'a> {
        NegotiateRequest {
            security_mode: self.security_mode,
            capabilities: self.capabilities,
            client_guid: self.client_guid,
            dialects: Codes::new(&self.dialects),
            negotiate_contexts: contexts.contexts(),
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::Dialect;

    use super::Offer;

    #[test]
    fn only_an_offer_of_3_1_1_has_contexts_and_only_those_with_algorithms() {
        let offer = Offer::dialects(&[Dialect::SMB_3_0, Dialect::SMB_3_0_2]);
        assert!(offer.contexts().contexts().is_empty());
        let offer = Offer::dialects(&[Dialect::SMB_3_0, Dialect::SMB_3_1_1]);
        assert_eq!(offer.contexts().contexts().len(), 3);
        let offer = Offer { ciphers: Vec::new(), signing: Vec::new(), ..offer };
        assert_eq!(offer.contexts().contexts().len(), 1);
    }
}
