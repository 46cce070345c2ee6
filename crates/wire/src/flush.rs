//! SMB2 FLUSH writes cached data to disk: [MS-SMB2] 2.2.17, 2.2.18.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::file_id::{FileId, FileIdLayout};
use crate::message::{self, Decode, Encode, empty_bodies};

/// The request: [MS-SMB2] 2.2.17.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FlushRequest {
    /// The open to flush.
    pub file_id: FileId,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestLayout {
    structure_size: U16,
    reserved1: U16,
    reserved2: U32,
    file_id: FileIdLayout,
}

const REQUEST_SIZE: u16 = 24;

impl Decode<'_> for FlushRequest {
    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let layout: &RequestLayout = message::body(message, REQUEST_SIZE)?;
        Ok(Self { file_id: layout.file_id.into() })
    }

    fn file_id(&self) -> Option<FileId> {
        Some(self.file_id)
    }
}

impl Encode for FlushRequest {
    fn encode(&self, out: &mut Vec<u8>) {
        let layout = RequestLayout {
            structure_size: REQUEST_SIZE.into(),
            reserved1: U16::ZERO,
            reserved2: U32::ZERO,
            file_id: self.file_id.into(),
        };
        message::put(out, &layout);
    }
}

empty_bodies! {
    /// The response: [MS-SMB2] 2.2.18.
    FlushResponse;
}

#[cfg(test)]
mod tests {
    use super::{FlushRequest, FlushResponse};
    use crate::check::round_trip;
    use crate::file_id::FileId;
    use crate::message::{Decode, Encode};

    #[test]
    fn bodies_round_trip() {
        round_trip!(FlushRequest, FlushRequest { file_id: FileId { persistent: 1, volatile: 2 } });
        round_trip!(FlushResponse, FlushResponse);
    }

    #[test]
    fn the_request_names_its_open() {
        let mut message = vec![0; 64];
        FlushRequest { file_id: FileId::ANY }.encode(&mut message);
        assert_eq!(message.len(), 64 + 24);
        assert_eq!(FlushRequest::decode(&message).unwrap().file_id(), Some(FileId::ANY));
    }
}
