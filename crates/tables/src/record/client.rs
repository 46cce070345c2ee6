//! Clients: [MS-SMB2] 3.3.1.16, as far as other processes must know them.

use dtyp::{FileTime, Guid, ServerId};

use crate::codec::{Reader, RecordError, Writer};
use crate::record::{Key, Record};

/// A client that negotiated, and the worker that serves it.
///
/// One record per worker: clients of dialects without a ClientGuid (all zeros) are told apart by
/// the worker's unique id, which is part of the key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientRecord {
    /// The worker.
    pub server_id: ServerId,
    /// The ClientGuid of NEGOTIATE; zeros where the dialect has none.
    pub client_guid: Guid,
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
}

impl Record for ClientRecord {
    const VERSION: u8 = 1;

    fn key(&self) -> Key {
        Self::key_of(self.client_guid, self.server_id)
    }

    fn owner(&self) -> ServerId {
        self.server_id
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), RecordError> {
        let mut writer = Writer::new(out, Self::VERSION, self.server_id);
        writer.guid(self.client_guid);
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
