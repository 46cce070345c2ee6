//! Responses after verification and decoding.

use client::Kind;
use dtyp::NtStatus;
use trace::Reason;
use wire::header::HeaderFlags;
use wire::{Decode, Header};

use crate::outcome::Outcome;

/// A response to one request.
#[derive(Clone, Debug)]
pub struct Response {
    /// Header of the response message.
    pub header: Header,
    /// Bytes of the whole message, header included.
    pub message: Vec<u8>,
    /// True if it came encrypted.
    pub sealed: bool,
    /// Rule that the request broke, as the engine names it.
    pub reason: Reason,
}

impl Response {
    /// Status in the header of the response.
    pub fn status(&self) -> NtStatus {
        self.header.status
    }

    /// Outcome of the request: a refusal by its reason, anything else by its status.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome::of(self.status(), self.reason)
    }

    /// True if it carries a signature, which was already verified.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.header.flags.contains(HeaderFlags::SIGNED) && self.header.signature != [0; 16]
    }

    /// True for the interim response of a slow request.
    #[must_use]
    pub fn is_interim(&self) -> bool {
        Kind::of(&self.header) == Kind::Interim
    }

    /// Decodes the body.
    ///
    /// # Panics
    /// If the body has another form.
    #[track_caller]
    pub fn body<'a, T: Decode<'a>>(&'a self) -> T {
        match T::decode(&self.message) {
            Ok(body) => body,
            Err(error) => panic!("{error:?} in the response {:?}", self.header),
        }
    }

    /// Returns the same response, if the request has this outcome.
    ///
    /// # Panics
    /// If it has another outcome.
    #[track_caller]
    pub fn expect(self, outcome: impl Into<Outcome>) -> Self {
        assert_eq!(self.outcome(), outcome.into(), "{:?}", self.header);
        self
    }

    /// Returns the same response, if it is a success.
    ///
    /// # Panics
    /// If it is an error.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.expect(NtStatus::SUCCESS)
    }
}
