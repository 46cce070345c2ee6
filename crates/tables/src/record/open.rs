//! GlobalOpenTable: [MS-SMB2] 3.3.1.10, as far as other processes must know opens.

use dtyp::{AccessMask, FileTime, ServerId};

use crate::codec::{Reader, RecordError, Writer};
use crate::record::{Key, Record};

/// An open file, folder or pipe.
///
/// Its key is the worker's unique id and the volatile half of its FileId: both are known when it
/// is closed, and no two workers ever write the same key, so opening and closing are one store
/// each without a look at the table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OpenRecord {
    /// The worker that serves it.
    pub server_id: ServerId,
    /// The session.
    pub session_id: u64,
    /// The tree connect.
    pub tree_id: u32,
    /// FileId.Persistent.
    pub persistent: u64,
    /// FileId.Volatile; unique in the worker.
    pub volatile: u64,
    /// The name beneath the share, with `/`.
    pub path: String,
    /// The share's name as the configuration spells it.
    pub share: String,
    /// Open.GrantedAccess.
    pub granted_access: AccessMask,
    /// The ShareAccess of its CREATE.
    pub share_access: u32,
    /// The CreateOptions of its CREATE.
    pub create_options: u32,
    /// Open.OplockLevel.
    pub oplock_level: u8,
    /// When it was opened.
    pub opened_at: FileTime,
    /// The device the file lies on; zero for a pipe.
    pub device: u64,
    /// The file's number on the device; zero for a pipe.
    pub inode: u64,
}

impl OpenRecord {
    pub(crate) fn key_of(server_id: ServerId, volatile: u64) -> Key {
        Key::new(&[&server_id.unique_id.to_le_bytes(), &volatile.to_le_bytes()])
    }
}

impl Record for OpenRecord {
    const VERSION: u8 = 1;

    fn key(&self) -> Key {
        Self::key_of(self.server_id, self.volatile)
    }

    fn owner(&self) -> ServerId {
        self.server_id
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), RecordError> {
        let mut writer = Writer::new(out, Self::VERSION, self.server_id);
        writer.u64(self.session_id);
        writer.u32(self.tree_id);
        writer.u64(self.persistent);
        writer.u64(self.volatile);
        writer.text(&self.path)?;
        writer.text(&self.share)?;
        writer.u32(self.granted_access.bits());
        writer.u32(self.share_access);
        writer.u32(self.create_options);
        writer.u8(self.oplock_level);
        writer.u64(self.opened_at.0);
        writer.u64(self.device);
        writer.u64(self.inode);
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let (mut reader, server_id) = Reader::new(bytes, Self::VERSION)?;
        let record = Self {
            server_id,
            session_id: reader.u64()?,
            tree_id: reader.u32()?,
            persistent: reader.u64()?,
            volatile: reader.u64()?,
            path: reader.text()?,
            share: reader.text()?,
            granted_access: AccessMask::from_bits_retain(reader.u32()?),
            share_access: reader.u32()?,
            create_options: reader.u32()?,
            oplock_level: reader.u8()?,
            opened_at: reader.file_time()?,
            device: reader.u64()?,
            inode: reader.u64()?,
        };
        reader.finish()?;
        Ok(record)
    }
}
