//! Responses, verified and decoded.

use dtyp::NtStatus;
use wire::header::HeaderFlags;
use wire::{Decode, Header};

/// One response.
#[derive(Clone, Debug)]
pub struct Response {
    /// Its header.
    pub header: Header,
    /// The whole message, header included.
    pub message: Vec<u8>,
    /// It came encrypted.
    pub sealed: bool,
}

impl Response {
    /// Its status.
    pub fn status(&self) -> NtStatus {
        self.header.status
    }

    /// Whether it carries a signature. That the signature is right has been checked already.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.header.flags.contains(HeaderFlags::SIGNED) && self.header.signature != [0; 16]
    }

    /// Whether it is the interim response of a request that takes its time.
    #[must_use]
    pub fn is_interim(&self) -> bool {
        self.header.status == NtStatus::PENDING && self.header.async_id.is_some()
    }

    /// The body.
    ///
    /// # Panics
    /// If it is not the body of such a response.
    #[track_caller]
    pub fn body<'a, T: Decode<'a>>(&'a self) -> T {
        match T::decode(&self.message) {
            Ok(body) => body,
            Err(error) => panic!("{error:?} in the response {:?}", self.header),
        }
    }

    /// The same response, if its status is the wanted one.
    ///
    /// # Panics
    /// If it is another.
    #[track_caller]
    pub fn expect(self, status: NtStatus) -> Self {
        assert_eq!(self.status(), status, "{:?}", self.header);
        self
    }

    /// The same response, if it is a success.
    ///
    /// # Panics
    /// If it is not.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.expect(NtStatus::SUCCESS)
    }
}
