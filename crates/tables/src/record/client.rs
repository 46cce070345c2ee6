//! Clients: [MS-SMB2] 3.3.1.16, in the extent that other processes need.

use dtyp::{FileTime, Guid, ServerId};

use crate::codec::{Reader, RecordError, Writer};
use crate::record::{Key, Record};

/// A client that negotiated, and the worker that serves it.
///
/// One worker claims a client, and gets its further connections. A worker that serves a client
/// without claiming it has a record of its own under its unique id: for dialects without channels,
/// or because the other worker did not take the connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientRecord {
    /// Worker that serves the client.
    pub server_id: ServerId,
    /// ClientGuid of NEGOTIATE; zeros in dialects without one.
    pub client_guid: Guid,
    /// True if further connections of this client go to this worker.
    pub is_claim: bool,
    /// True if a user has logged on. Anybody can name a ClientGuid and claim it; a worker with a
    /// user takes the claim of one without.
    pub has_user: bool,
    /// Address and port of the client's first channel.
    pub client_address: String,
    /// Local address and port of that channel.
    pub local_address: String,
    /// The negotiated dialect, as its revision number.
    pub dialect: u16,
    /// Time when the first channel was accepted.
    pub connected_at: FileTime,
    /// Signing algorithm: [MS-SMB2] 2.2.3.1.7. `None` before the negotiation.
    pub signing_algorithm: Option<u16>,
    /// Whether requests must be signed.
    pub signing_required: bool,
    /// Cipher: [MS-SMB2] 2.2.3.1.2. `None` without encryption.
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
    const VERSION: u8 = 3;

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
        writer.bool(self.has_user);
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
            has_user: reader.bool()?,
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
