//! Tree connects: [MS-SMB2] 3.3.1.9, in the extent that other processes need.

use dtyp::{FileTime, ServerId};

use crate::codec::{Reader, RecordError, Writer};
use crate::record::{Key, Record};

/// Use of a share by a session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TreeConnectRecord {
    /// Session of the tree connect.
    pub session_id: u64,
    /// Tree id, unique in its session.
    pub tree_id: u32,
    /// Name of the share in the configuration's spelling.
    pub share: String,
    /// Worker that serves the session.
    pub server_id: ServerId,
    /// Whether the share requires encryption.
    pub encrypted: bool,
    /// `TreeConnect.CreationTime` of [MS-SMB2] 3.3.1.9.
    pub connected_at: FileTime,
    /// Whether the tree connect is read-only.
    pub read_only: bool,
}

impl TreeConnectRecord {
    pub(crate) fn key_of(session_id: u64, tree_id: u32) -> Key {
        Key::new(&[&session_id.to_le_bytes(), &tree_id.to_le_bytes()])
    }
}

impl Record for TreeConnectRecord {
    const VERSION: u8 = 1;

    fn key(&self) -> Key {
        Self::key_of(self.session_id, self.tree_id)
    }

    fn owner(&self) -> ServerId {
        self.server_id
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), RecordError> {
        let mut writer = Writer::new(out, Self::VERSION, self.server_id);
        writer.u64(self.session_id);
        writer.u32(self.tree_id);
        writer.text(&self.share)?;
        writer.bool(self.encrypted);
        writer.u64(self.connected_at.0);
        writer.bool(self.read_only);
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let (mut reader, server_id) = Reader::new(bytes, Self::VERSION)?;
        let record = Self {
            server_id,
            session_id: reader.u64()?,
            tree_id: reader.u32()?,
            share: reader.text()?,
            encrypted: reader.bool()?,
            connected_at: reader.file_time()?,
            read_only: reader.bool()?,
        };
        reader.finish()?;
        Ok(record)
    }
}
