//! NEGOTIATE, and the SMB1 message before it.

use std::ffi::CStr;

use crypto::{Cipher, SigningAlgorithm};
use dtyp::Guid;
use wire::negotiate::{Capabilities, NegotiateRequest, NegotiateResponse, SecurityMode};
use wire::negotiate_context::{
    CipherId, EncryptionCapabilities, HashAlgorithmId, NegotiateContextList,
    PreauthIntegrityCapabilities, SigningAlgorithmId, SigningCapabilities,
};
use wire::smb1_negotiate::Smb1Negotiate;
use wire::{Codes, Command, Dialect};

use super::Peer;
use crate::request::Request;
use crate::response::Response;

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
                | Capabilities::MULTI_CHANNEL,
            client_guid: Guid([0xC1; 16]),
            security_mode: SecurityMode::SIGNING_ENABLED,
            hashes: vec![HashAlgorithmId::SHA_512],
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
            contexts.push(&PreauthIntegrityCapabilities { hash_algorithms, salt: &[0x5A; 32] });
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
}

impl Peer {
    /// Negotiates with these dialects and all that belongs to them.
    ///
    /// # Panics
    /// If the server refuses.
    #[track_caller]
    pub fn negotiate(&mut self, dialects: impl AsRef<[Dialect]>) -> Response {
        self.negotiate_with(&Offer::dialects(dialects.as_ref())).ok()
    }

    /// Negotiates with an offer, and returns the response.
    #[track_caller]
    pub fn negotiate_with(&mut self, offer: &Offer) -> Response {
        self.negotiate_contexts(offer, &offer.contexts())
    }

    /// Negotiates with contexts from the test.
    #[track_caller]
    pub fn negotiate_contexts(
        &mut self,
        offer: &Offer,
        contexts: &NegotiateContextList,
    ) -> Response {
        let request = self.negotiate_request(offer, contexts);
        let response = self.call(request);
        if response.status().is_success() {
            self.agree(&response);
        }
        response
    }

    /// Creates a NEGOTIATE request from an offer.
    #[must_use]
    pub fn negotiate_request(&self, offer: &Offer, contexts: &NegotiateContextList) -> Request {
        let body = NegotiateRequest {
            security_mode: offer.security_mode,
            capabilities: offer.capabilities,
            client_guid: offer.client_guid,
            dialects: Codes::new(&offer.dialects),
            negotiate_contexts: contexts.contexts(),
        };
        self.request(Command::NEGOTIATE, &body).charge(0)
    }

    /// Begins with an SMB1 NEGOTIATE, as old clients do. The result is kept unless the server asks
    /// to negotiate again.
    pub fn negotiate_smb1(&mut self, dialects: &[&CStr]) -> Vec<Response> {
        let mut frame = Vec::new();
        Smb1Negotiate::encode(dialects, &mut frame);
        // The SMB1 message counts as the request with message id 0.
        let stand_in = self.negotiate_request(&Offer::dialects(&[]), &NegotiateContextList::new());
        let preauth = self.preauth;
        self.lay_out([stand_in]);
        self.preauth = preauth;
        self.send_frame(&frame);
        let responses = self.receive();
        if let [response] = &responses[..] {
            self.preauth = preauth;
            if response.body::<NegotiateResponse<'_>>().dialect_revision != Dialect::SMB_2_WILDCARD
            {
                self.agree(response);
            }
        }
        responses
    }

    /// Continues for a peer whose connection was handed over to another worker, which answers the
    /// NEGOTIATE.
    ///
    /// # Panics
    /// If the NEGOTIATE is refused.
    #[track_caller]
    pub fn take_over(&mut self, before: &mut Self) {
        self.preauth = before.preauth;
        self.outstanding = std::mem::take(&mut before.outstanding);
        std::mem::swap(&mut self.window, &mut before.window);
        let response = self.receive().pop().expect("an answer");
        self.agree(&response.ok());
    }

    /// Stores the server's choices from a response.
    fn agree(&mut self, response: &Response) {
        let body: NegotiateResponse<'_> = response.body();
        self.dialect = body.dialect_revision;
        self.max_read_size = body.max_read_size;
        let contexts = body.negotiate_contexts;
        if self.dialect == Dialect::SMB_3_1_1 {
            let ciphers: Option<EncryptionCapabilities<'_>> = contexts.find().expect("well-formed");
            let cipher = ciphers.and_then(|found| found.ciphers.iter().next());
            self.cipher = cipher.and_then(|cipher| Cipher::from_id(cipher.0));
            let signing: Option<SigningCapabilities<'_>> = contexts.find().expect("well-formed");
            let signing = signing.and_then(|found| found.signing_algorithms.iter().next());
            self.signing_algorithm = signing.and_then(|it| SigningAlgorithm::from_id(it.0));
        } else if body.capabilities.contains(Capabilities::ENCRYPTION) {
            self.cipher = Some(Cipher::Aes128Ccm);
        }
    }
}
