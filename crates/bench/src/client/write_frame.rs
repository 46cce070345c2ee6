//! WRITE requests in frames that are used again.
//!
//! A request of a megabyte should be sent without a copy. Its frame is kept; each time only the
//! header and the offset are rewritten. An encrypted frame is encrypted in place, so its next
//! payload is the previous ciphertext: the contents have no meaning anyway.

use anyhow::Result;
use wire::header::{self, HeaderFlags};
use wire::write::WriteRequest;
use wire::{Command, Encode, FileId};

use super::{Client, Slot};

/// The frame of a WRITE request.
#[derive(Debug)]
pub struct WriteFrame {
    frame: Vec<u8>,
    /// The fixed part of the body, which encryption spoils.
    fixed: Vec<u8>,
    header: usize,
    data_bytes: usize,
}

/// Range of the field Offset in the body: [MS-SMB2] 2.2.21.
const OFFSET: std::ops::Range<usize> = 8..16;

impl WriteFrame {
    /// A frame that writes `data_bytes` bytes of `fill` to `file_id`.
    #[must_use]
    pub fn new(client: &Client, file_id: FileId, data_bytes: usize, fill: u8) -> Self {
        let header = client.connection.room();
        let mut frame = vec![0; header + header::SIZE];
        WriteRequest::new(file_id, 0, &vec![fill; data_bytes]).encode(&mut frame);
        let data = header + usize::from(WriteRequest::DATA_OFFSET);
        let fixed = frame[header + header::SIZE..data].to_vec();
        Self { frame, fixed, header, data_bytes }
    }

    /// Sends the request for `offset`.
    ///
    /// # Errors
    ///
    /// When the connection breaks.
    pub fn send(&mut self, client: &mut Client, offset: u64, slot: Slot) -> Result<()> {
        self.fixed[OFFSET].copy_from_slice(&offset.to_le_bytes());
        let flags = HeaderFlags::default();
        let header = client.connection.next_header(Command::WRITE, self.data_bytes, flags);
        let body = self.header + header::SIZE;
        self.frame[self.header..body].copy_from_slice(&header.to_bytes());
        self.frame[body..body + self.fixed.len()].copy_from_slice(&self.fixed);
        client.send_laid_out(&mut self.frame, header.message_id, slot)
    }
}
