//! Responses after verification and decoding.

use client::Kind;
use dtyp::NtStatus;
use wire::header::HeaderFlags;
use wire::{Decode, Header};

/// A response to one request.
#[derive(Clone, Debug)]
pub struct Response {
    /// Header of the response message.
    pub header: Header,
    /// Bytes of the whole message, header included.
    pub message: Vec<u8>,
    /// True if it came encrypted.
    pub sealed: bool,
}

impl Response {
    /// Status in the header of the response.
    pub fn status(&self) -> NtStatus {
        self.header.status
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

    /// Returns the same response, if it has the expected status.
    ///
    /// # Panics
    /// If it has another status.
    #[track_caller]
    pub fn expect(self, status: NtStatus) -> Self {
        assert_eq!(self.status(), status, "{:?}", self.header);
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
