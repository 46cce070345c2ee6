//! NEGOTIATE, and the SMB1 message before it.

use std::ffi::CStr;

use client::{Negotiated, Offer};
use wire::negotiate::NegotiateResponse;
use wire::negotiate_context::NegotiateContextList;
use wire::smb1_negotiate::Smb1Negotiate;
use wire::{Command, Dialect};

use super::Peer;
use crate::request::Request;
use crate::response::Response;

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
        self.request(Command::NEGOTIATE, &offer.request(contexts)).charge(0)
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
        self.negotiated = Negotiated::decode(&response.message).expect("well-formed");
    }
}
