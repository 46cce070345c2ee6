//! Emptying what CREATE overwrites or supersedes: `ObjectOp::Overwrite`, which the engine sends
//! once it has granted the open. On an error the engine closes the open again; what was removed by
//! then stays removed.

use dtyp::{FileAttributes, FileTime, NtStatus};
use object::{ExtendedAttribute, LocalOpen, Metadata};
use rustix::time::ClockId;

use crate::Store;
use crate::data::range::{reserve, verify_writable};
use crate::errno::{During, Operation};
use crate::metadata::basic::stored_attributes;
use crate::metadata::extended_attributes;

/// Parameters of an overwriting CREATE.
#[derive(Debug)]
pub(crate) struct Overwrite<'a> {
    pub(crate) supersede: bool,
    pub(crate) attributes: FileAttributes,
    pub(crate) extended_attributes: &'a [ExtendedAttribute],
    pub(crate) allocation_size: u64,
}

impl Store {
    /// Empties a file that CREATE overwrites or supersedes: [MS-FSA] 2.1.5.1.2.
    pub(crate) fn overwrite(
        &mut self,
        open: LocalOpen,
        wanted: &Overwrite<'_>,
    ) -> Result<Metadata, NtStatus> {
        let opened = self.opens.get(open)?;
        verify_writable(opened)?;
        if let Some(name) = &opened.stream {
            match &opened.stream_file {
                Some(file) => rustix::fs::ftruncate(file, 0).during(Operation::SetSize)?,
                None => opened.streams(&mut self.impersonation).save(name, Vec::new())?,
            }
            return self.query_metadata(open, false);
        }
        rustix::fs::ftruncate(opened.fd(), 0).during(Operation::SetSize)?;
        if opened.root.settings.streams {
            let mut streams = opened.streams(&mut self.impersonation);
            for name in streams.list()? {
                streams.remove(&name)?;
            }
        }
        if opened.root.settings.ea_support {
            extended_attributes::remove_all(&opened.root, opened.xattrs())?;
            let xattrs = opened.xattrs();
            extended_attributes::set_all(&opened.root, xattrs, wanted.extended_attributes)?;
        } else if !wanted.extended_attributes.is_empty() {
            return Err(NtStatus::EAS_NOT_SUPPORTED);
        }
        if wanted.allocation_size > 0 {
            reserve(opened.fd(), wanted.allocation_size)?;
        }
        let stored = stored_attributes(&opened.root, opened.xattrs());
        let given = wanted.attributes & FileAttributes::SETTABLE | FileAttributes::ARCHIVE;
        let known = stored.attributes.unwrap_or(FileAttributes::ARCHIVE);
        let changed = wanted.supersede || known & FileAttributes::SETTABLE != given;
        if changed {
            let now = now();
            self.change_dos_attributes(open, |attributes, creation_time| {
                if wanted.supersede {
                    *attributes = given;
                    *creation_time = now;
                } else {
                    *attributes = attributes.difference(FileAttributes::SPARSE_FILE) | given;
                }
            })?;
        }
        self.query_metadata(open, false)
    }
}

fn now() -> FileTime {
    let now = rustix::time::clock_gettime(ClockId::Realtime);
    FileTime::from_unix(now.tv_sec, u32::try_from(now.tv_nsec).unwrap_or(0))
}
