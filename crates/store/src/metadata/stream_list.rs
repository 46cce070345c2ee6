//! List of the streams of a file: [MS-FSA] 2.1.5.12.30.

use dtyp::NtStatus;
use object::{LocalOpen, StreamEntry};

use crate::Store;
use crate::errno::{During, Operation};
use crate::metadata::apple_double_conversion;
use crate::metadata::clusters::round_up;
use crate::sys::system;

impl Store {
    pub(crate) fn list_streams(&mut self, open: LocalOpen) -> Result<Vec<StreamEntry>, NtStatus> {
        let open = self.opens.get(open)?;
        let mut entries = Vec::new();
        if !open.is_directory() {
            let status = system::status_of(open.fd()).during(Operation::Query)?;
            let size = status.stx_size;
            entries.push(StreamEntry {
                name: String::new(),
                size,
                allocation_size: round_up(status.stx_blocks.saturating_mul(512))
                    .max(round_up(size)),
            });
        }
        if open.root.settings.streams {
            apple_double_conversion::convert_beside(&mut self.impersonation, open);
            let mut streams = open.streams(&mut self.impersonation);
            for stream in streams.list()? {
                // One that vanished meanwhile is left out.
                let Ok(size) = streams.size(&stream) else { continue };
                let allocation_size = round_up(size);
                entries.push(StreamEntry { name: stream.name, size, allocation_size });
            }
        }
        Ok(entries)
    }
}
