//! GlobalSessionTable: [MS-SMB2] 3.3.1.8, in the extent that other processes need.

use dtyp::{FileTime, ServerId};

use crate::codec::{Reader, RecordError, Writer};
use crate::record::{Key, Record};

/// An authenticated session of a client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SessionRecord {
    /// Session id, unique in the server.
    pub session_id: u64,
    /// Worker that serves the session.
    pub server_id: ServerId,
    /// Name of the user's account.
    pub user: String,
    /// Domain of the user's account.
    pub domain: String,
    /// The user's SID in text form. SESSION_SETUP with a PreviousSessionId compares it: [MS-SMB2]
    /// 3.3.5.5.3.
    pub user_sid: String,
    /// Address and port of its first channel.
    pub client_address: String,
    /// Dialect of its first connection.
    pub dialect: u16,
    /// Signing algorithm: [MS-SMB2] 2.2.3.1.7. `None` for a session that cannot sign.
    pub signing_algorithm: Option<u16>,
    /// `Session.SigningRequired` of [MS-SMB2] 3.3.1.8.
    pub signing_required: bool,
    /// Cipher: [MS-SMB2] 2.2.3.1.2. `None` without encryption.
    pub cipher: Option<u16>,
    /// `Session.EncryptData` of [MS-SMB2] 3.3.1.8.
    pub encrypted: bool,
    /// `Session.CreationTime` of [MS-SMB2] 3.3.1.8.
    pub created_at: FileTime,
}

impl SessionRecord {
    pub(crate) fn key_of(session_id: u64) -> Key {
        Key::new(&[&session_id.to_le_bytes()])
    }
}

impl Record for SessionRecord {
    const VERSION: u8 = 1;

    fn key(&self) -> Key {
        Self::key_of(self.session_id)
    }

    fn owner(&self) -> ServerId {
        self.server_id
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), RecordError> {
        let mut writer = Writer::new(out, Self::VERSION, self.server_id);
        writer.u64(self.session_id);
        writer.text(&self.user)?;
        writer.text(&self.domain)?;
        writer.text(&self.user_sid)?;
        writer.text(&self.client_address)?;
        writer.u16(self.dialect);
        writer.optional_u16(self.signing_algorithm);
        writer.bool(self.signing_required);
        writer.optional_u16(self.cipher);
        writer.bool(self.encrypted);
        writer.u64(self.created_at.0);
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let (mut reader, server_id) = Reader::new(bytes, Self::VERSION)?;
        let record = Self {
            server_id,
            session_id: reader.u64()?,
            user: reader.text()?,
            domain: reader.text()?,
            user_sid: reader.text()?,
            client_address: reader.text()?,
            dialect: reader.u16()?,
            signing_algorithm: reader.optional_u16()?,
            signing_required: reader.bool()?,
            cipher: reader.optional_u16()?,
            encrypted: reader.bool()?,
            created_at: reader.file_time()?,
        };
        reader.finish()?;
        Ok(record)
    }
}
