//! Reading a directory from the kernel.

use std::ffi::{CStr, CString};
use std::os::fd::BorrowedFd;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::sys::system;

/// Bytes asked of the kernel at once: some 1,000 entries.
const BUFFER_BYTES: usize = 32 * 1_024;

/// Bytes before the name in `struct linux_dirent64`: inode, offset, record length, type.
const NAME_OFFSET: usize = 19;

/// A position in a directory, whose kernel side is the descriptor's file offset.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// Empty until the first read and after the end, so that a directory that is merely held open
    /// costs no buffer.
    buffer: Vec<u8>,
    position: usize,
    filled: usize,
}

impl Entries {
    /// The next name but "." and ".."; `None` at the end.
    pub(crate) fn next(&mut self, directory: BorrowedFd<'_>) -> Result<Option<&CStr>, Errno> {
        loop {
            if self.position == self.filled && !self.fill(directory)? {
                return Ok(None);
            }
            let start = self.position;
            let record = &self.buffer[start..self.filled];
            // The kernel's records are whole; anything else ends the listing instead of the server.
            let Some(&[low, high]) = record.get(16..18) else { return Err(Errno::IO) };
            let length = usize::from(u16::from_ne_bytes([low, high]));
            if length <= NAME_OFFSET || length > record.len() {
                return Err(Errno::IO);
            }
            self.position += length;
            let name = start + NAME_OFFSET..start + length;
            let Ok(found) = CStr::from_bytes_until_nul(&self.buffer[name.clone()]) else {
                return Err(Errno::IO);
            };
            if !matches!(found.to_bytes(), b"." | b"..") {
                // Looked up again: the borrow checker does not let a loop return what it borrowed.
                let found = CStr::from_bytes_until_nul(&self.buffer[name]);
                return found.map(Some).map_err(|_| Errno::IO);
            }
        }
    }

    /// The names behind the last one that was read already, and no more of them than `max`. The
    /// kernel is not asked.
    pub(crate) fn upcoming(&self, max: usize) -> Vec<CString> {
        let mut rest = &self.buffer[self.position..self.filled];
        let mut names = Vec::new();
        while names.len() < max
            && let Some(&[low, high]) = rest.get(16..18)
        {
            let length = usize::from(u16::from_ne_bytes([low, high]));
            let Some(name) = rest.get(NAME_OFFSET..length) else { break };
            let Ok(name) = CStr::from_bytes_until_nul(name) else { break };
            if !matches!(name.to_bytes(), b"." | b"..") {
                names.push(name.to_owned());
            }
            rest = &rest[length..];
        }
        names
    }

    /// Goes back to the beginning.
    pub(crate) fn rewind(&mut self, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        *self = Self::default();
        rustix::fs::seek(directory, SeekFrom::Start(0)).map(drop)
    }

    fn fill(&mut self, directory: BorrowedFd<'_>) -> Result<bool, Errno> {
        self.buffer.resize(BUFFER_BYTES, 0);
        self.position = 0;
        self.filled = 0;
        // A directory that was removed while it is open has no entries and says ENOENT.
        self.filled = match system::read_entries(directory, &mut self.buffer) {
            Err(Errno::NOENT) => 0,
            result => result?,
        };
        if self.filled == 0 {
            self.buffer = Vec::new();
        }
        Ok(self.filled > 0)
    }
}
