//! The POSIX create context of Linux and Samba; no part of [MS-SMB2].

use dtyp::Sid;
use zerocopy::little_endian::U32;

use crate::create_context::{CreateContextData, CreateContextName};
use crate::error::DecodeError;
use crate::message;

/// Requests POSIX semantics for the open.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PosixRequest {
    /// Permission bits of a new file.
    pub mode: u32,
}

impl CreateContextData<'_> for PosixRequest {
    const NAME: CreateContextName<'static> = CreateContextName::POSIX;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let (mode, _) = message::prefix::<U32>(data)?;
        Ok(Self { mode: mode.get() })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        message::put(out, &U32::new(self.mode));
    }
}

/// POSIX metadata of the file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PosixResponse {
    /// Number of hard links.
    pub hard_links: u32,
    /// Reparse tag of a special file, which tells its kind; zero for others.
    pub reparse_tag: u32,
    /// Permission bits of the file.
    pub mode: u32,
    /// Owner of the file.
    pub owner: Sid,
    /// Group of the file.
    pub group: Sid,
}

impl CreateContextData<'_> for PosixResponse {
    const NAME: CreateContextName<'static> = CreateContextName::POSIX;

    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let ([hard_links, reparse_tag, mode], rest) = message::prefix::<[U32; 3]>(data)?;
        let short = DecodeError::Short { need: data.len() + 1, have: data.len() };
        let owner = Sid::decode(rest).ok_or(short)?;
        let rest = rest.get(owner.encoded_len()..).ok_or(short)?;
        let group = Sid::decode(rest).ok_or(short)?;
        let (hard_links, reparse_tag) = (hard_links.get(), reparse_tag.get());
        Ok(Self { hard_links, reparse_tag, mode: mode.get(), owner, group })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        message::put(out, &[self.hard_links, self.reparse_tag, self.mode].map(U32::new));
        self.owner.encode(out);
        self.group.encode(out);
    }
}
