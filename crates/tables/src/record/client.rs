//! Clients: [MS-SMB2] 3.3.1.16, as far as other processes must know them.

use dtyp::{FileTime, Guid, ServerId};

use crate::codec::{Reader, RecordError, Writer};
use crate::record::{Key, Record};

/// A client that negotiated, and the worker that serves it.
///
/// A client has one worker that claims it, to which its further connections are passed. A worker that
/// serves a client without claiming it has a record under its own unique id, beside that one: for
/// dialects without channels, or because the other worker did not take the connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientRecord {
    /// The worker.
    pub server_id: ServerId,
    /// The ClientGuid of NEGOTIATE; zeros where the dialect has none.
    pub client_guid: Guid,
    /// Further connections of this client are passed to this worker.
    pub is_claim: bool,
    /// Address and port of the client's first channel.
    pub client_address: String,
    /// Address and port it connected to.
    pub local_address: String,
    /// The negotiated dialect, as its revision number.
    pub dialect: u16,
    /// When the first channel was accepted.
    pub connected_at: FileTime,
    /// The signing algorithm: [MS-SMB2] 2.2.3.1.7. `None` while nothing is negotiated.
    pub signing_algorithm: Option<u16>,
    /// Whether requests must be signed.
    pub signing_required: bool,
    /// The cipher: [MS-SMB2] 2.2.3.1.2. `None` where encryption is not supported.
    pub cipher: Option<u16>,
}

impl ClientRecord {
    pub(crate) fn key_of(client_guid: Guid, server_id: ServerId) -> Key {
        Key::new(&[&client_guid.0, &server_id.unique_id.to_le_bytes()])
    }

    pub(crate) fn claim_key_of(client_guid: Guid) -> Key {
        Key::new(&[&client_guid.0])
    }
}

impl Record for ClientRecord {
    const VERSION: u8 = 2;

    fn key(&self) -> Key {
        match self.is_claim {
            true => Self::claim_key_of(self.client_guid),
            false => Self::key_of(self.client_guid, self.server_id),
        }
    }

    fn owner(&self) -> ServerId {
        self.server_id
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), RecordError> {
        let mut writer = Writer::new(out, Self::VERSION, self.server_id);
        writer.guid(self.client_guid);
        writer.bool(self.is_claim);
        writer.text(&self.client_address)?;
        writer.text(&self.local_address)?;
        writer.u16(self.dialect);
        writer.u64(self.connected_at.0);
        writer.optional_u16(self.signing_algorithm);
        writer.bool(self.signing_required);
        writer.optional_u16(self.cipher);
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let (mut reader, server_id) = Reader::new(bytes, Self::VERSION)?;
        let record = Self {
            server_id,
            client_guid: reader.guid()?,
            is_claim: reader.bool()?,
            client_address: reader.text()?,
            local_address: reader.text()?,
            dialect: reader.u16()?,
            connected_at: reader.file_time()?,
            signing_algorithm: reader.optional_u16()?,
            signing_required: reader.bool()?,
            cipher: reader.optional_u16()?,
        };
        reader.finish()?;
        Ok(record)
    }
}
