//! Responses to queries for one level of information: a pointer to a union.

use dtyp::NtStatus;

use crate::ndr::Writer;

/// Time that never comes: [MS-SAMR] 3.1.1.8.
pub(super) const NEVER: i64 = i64::MAX;

/// A response that is being made. Buffers of its texts follow behind the fixed parts.
#[derive(Debug)]
pub(super) struct Information<'a> {
    writer: Writer,
    texts: Vec<&'a str>,
}

impl<'a> Information<'a> {
    /// Begins the response with the union's tag, and the padding before its arm.
    pub(super) fn begin(level: u16) -> Self {
        let mut writer = Writer::default();
        writer.referent();
        writer.u32(u32::from(level));
        Self { writer, texts: Vec::new() }
    }

    /// Returns the response without information.
    pub(super) fn refuse(status: NtStatus) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.null();
        writer.finish_status(status)
    }

    /// Appends an RPC_UNICODE_STRING: [MS-DTYP] 2.3.10.
    pub(super) fn text(&mut self, text: &'a str) {
        self.writer.unicode_string(text);
        self.texts.push(text);
    }

    /// Returns the writer of the fixed parts.
    pub(super) fn writer(&mut self) -> &mut Writer {
        &mut self.writer
    }

    /// Appends the buffers of all texts up to here.
    pub(super) fn buffers(&mut self) {
        for text in self.texts.drain(..) {
            self.writer.unicode_buffer(text);
        }
    }

    /// Returns the response with all buffers.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.buffers();
        self.writer.finish_status(NtStatus::SUCCESS)
    }
}
