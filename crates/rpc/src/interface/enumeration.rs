//! Enumerations with levels, preferred lengths and resume handles: [MS-SRVS] 3.1.4, [MS-WKST]
//! 3.2.4.

use crate::ndr::{Field, Reader, Writer};
use crate::pdu::Fault;
use crate::win32::Win32Error;

/// Last parameters of an enumeration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Enumeration {
    level: u32,
    preferred_maximum_length: u32,
    /// Number of entries returned so far.
    resume_handle: Option<u32>,
}

impl Enumeration {
    /// Reads level, empty container, preferred length and resume handle.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        let level = reader.empty_container()?;
        let preferred_maximum_length = reader.u32()?;
        Ok(Self { level, preferred_maximum_length, resume_handle: reader.unique_u32()? })
    }

    /// Level of the information structures.
    pub(super) fn level(self) -> u32 {
        self.level
    }

    /// The same from the first entry on, for a list without any.
    pub(super) fn rewound(self) -> Self {
        Self { resume_handle: self.resume_handle.map(|_| 0), ..self }
    }

    /// Returns the response that has no entries.
    pub(super) fn refuse(self, error: Win32Error) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.container(self.level, &[]);
        self.finish(writer, 0, error)
    }

    /// Returns the response for a level that the union has no arm for, so only the tag follows.
    pub(super) fn refuse_level(self, error: Win32Error) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u32(self.level);
        writer.u32(self.level);
        self.finish(writer, 0, error)
    }

    fn finish(self, mut writer: Writer, total: u32, result: Win32Error) -> Vec<u8> {
        writer.u32(total);
        writer.unique_u32(self.resume_handle);
        writer.finish(result)
    }

    /// Returns the response with as many `entries` as the client wants; `None` for an unknown
    /// level.
    pub(super) fn respond(self, entries: Option<Vec<Vec<Field<'_>>>>) -> Vec<u8> {
        match entries {
            Some(entries) => self.respond_with(entries.into_iter()),
            None => self.refuse_level(Win32Error::INVALID_LEVEL),
        }
    }

    /// As [`Self::respond`], for a known level. Entries that the client does not want are not made.
    pub(super) fn respond_with<'a>(
        self,
        entries: impl ExactSizeIterator<Item = Vec<Field<'a>>>,
    ) -> Vec<u8> {
        let listed = usize::try_from(self.resume_handle.unwrap_or(0)).unwrap_or(usize::MAX);
        let entries = entries.skip(listed);
        let total = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        let entries = fitting(entries, self.preferred_maximum_length);
        let read = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        let mut writer = Writer::default();
        writer.container(self.level, &entries);
        writer.u32(total);
        let resume = |handle: u32| if read < total { handle.saturating_add(read) } else { 0 };
        writer.unique_u32(self.resume_handle.map(resume));
        writer.finish(if read < total { Win32Error::MORE_DATA } else { Win32Error::SUCCESS })
    }
}

/// Returns the first entries, within the length that the client prefers; at least one, so that an
/// enumeration with resume handles always ends.
fn fitting<'a>(
    entries: impl Iterator<Item = Vec<Field<'a>>>,
    preferred_maximum_length: u32,
) -> Vec<Vec<Field<'a>>> {
    let limit = usize::try_from(preferred_maximum_length).unwrap_or(usize::MAX);
    let mut len = 0_usize;
    let is_within = |(index, entry): &(usize, Vec<Field<'_>>)| {
        len = len.saturating_add(entry.iter().map(Field::len).sum::<usize>());
        *index == 0 || len <= limit
    };
    entries.enumerate().take_while(is_within).map(|(_, entry)| entry).collect()
}
