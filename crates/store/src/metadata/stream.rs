//! Named streams in extended attributes, as Samba's `vfs_streams_xattr` keeps them: the stream `s`
//! is the value of `user.DosStream.s:$DATA`, followed by one byte of zero.
//!
//! A stream is read and written whole. Two clients that write different parts of one stream at the
//! same moment through different processes may undo each other's change, as with Samba.

use crate::model::stream_name::StreamName;
use bytes::BytesMut;
use dtyp::{NtStatus, upcase};
use object::{LocalOpen, Metadata, ObjectPath, StreamEntry};
use rustix::io::Errno;

use crate::Store;
use crate::errno::{During, Operation};
use crate::metadata::clusters::round_up;
use crate::model::opens::Open;
use crate::sys::system;
use crate::sys::xattr::Attributes;

/// `XATTR_SIZE_MAX` without the byte at the end. File systems may take less (ext4: a block).
pub(crate) const STREAM_BYTES_MAX: u64 = 65_535;

/// Makes the metadata of a file those of its stream.
pub(crate) fn describe(metadata: &mut Metadata, name: &StreamName, size: u64) {
    metadata.identity.stream = name.identity();
    metadata.end_of_file = size;
    metadata.allocation_size = round_up(size);
}

/// Returns all named streams of an object.
pub(crate) fn list(attributes: Attributes<'_>) -> Result<Vec<StreamName>, NtStatus> {
    let names = attributes.names().during(Operation::Stream)?;
    Ok(names.iter().filter_map(|name| StreamName::from_attribute(name)).collect())
}

/// The stream of that name: as it is written if possible, else without regard to case.
pub(crate) fn find(attributes: Attributes<'_>, name: &str) -> Result<Option<StreamName>, NtStatus> {
    let exact = StreamName::new(name);
    match attributes.length(&exact.attribute) {
        Ok(_) => return Ok(Some(exact)),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
        Err(errno) => return Err(errno).during(Operation::Stream),
    }
    let streams = list(attributes)?;
    Ok(streams.into_iter().find(|stream| upcase::equal_ignoring_case(&stream.name, name)))
}

pub(crate) fn size(attributes: Attributes<'_>, name: &StreamName) -> Result<u64, NtStatus> {
    let length = attributes.length(&name.attribute).during(Operation::Stream)?;
    Ok(u64::try_from(length.saturating_sub(1)).unwrap_or(u64::MAX))
}

pub(crate) fn load(attributes: Attributes<'_>, name: &StreamName) -> Result<Vec<u8>, NtStatus> {
    let mut value = attributes.get(&name.attribute).during(Operation::Stream)?;
    value.pop();
    Ok(value)
}

pub(crate) fn save(
    attributes: Attributes<'_>,
    name: &StreamName,
    mut value: Vec<u8>,
) -> Result<(), NtStatus> {
    value.push(0);
    attributes.set(&name.attribute, &value).during(Operation::Stream)
}

pub(crate) fn remove(attributes: Attributes<'_>, name: &StreamName) -> Result<(), NtStatus> {
    attributes.remove(&name.attribute).during(Operation::Stream)
}

/// Appends what the stream has at `offset`.
pub(crate) fn read(
    open: &Open,
    name: &StreamName,
    offset: u64,
    length: u32,
    mut buffer: BytesMut,
) -> Result<BytesMut, NtStatus> {
    let value = load(open.attributes(), name)?;
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(value.len());
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let end = start.saturating_add(length).min(value.len());
    buffer.extend_from_slice(&value[start..end]);
    Ok(buffer)
}

/// Replaces the stream's bytes from `offset` on.
pub(crate) fn write(
    open: &Open,
    name: &StreamName,
    offset: u64,
    data: &[u8],
) -> Result<(), NtStatus> {
    if data.is_empty() {
        return Ok(());
    }
    let start = stream_bytes(offset)?;
    let end = stream_bytes(offset.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX)))?;
    let mut value = load(open.attributes(), name)?;
    if value.len() < end {
        value.resize(end, 0);
    }
    value[start..end].copy_from_slice(data);
    save(open.attributes(), name, value)
}

/// Truncates or extends with zeros.
pub(crate) fn resize(open: &Open, name: &StreamName, size: u64) -> Result<(), NtStatus> {
    let size = stream_bytes(size)?;
    let mut value = load(open.attributes(), name)?;
    value.resize(size, 0);
    save(open.attributes(), name, value)
}

fn stream_bytes(size: u64) -> Result<usize, NtStatus> {
    let size = (size <= STREAM_BYTES_MAX).then(|| usize::try_from(size).ok()).flatten();
    size.ok_or(NtStatus::DISK_FULL)
}

impl Store {
    pub(crate) fn list_streams(&self, open: LocalOpen) -> Result<Vec<StreamEntry>, NtStatus> {
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
            for stream in list(open.attributes())? {
                // One that vanished meanwhile is left out.
                let Ok(size) = size(open.attributes(), &stream) else { continue };
                let allocation_size = round_up(size);
                entries.push(StreamEntry { name: stream.name, size, allocation_size });
            }
        }
        Ok(entries)
    }

    /// [MS-FSA] 2.1.5.15.12: a stream keeps to its file, and its file to its unnamed stream.
    pub(crate) fn rename_stream(
        &mut self,
        open: LocalOpen,
        target: &ObjectPath,
        replace: bool,
    ) -> Result<ObjectPath, NtStatus> {
        let opened = self.opens.get(open)?;
        let old = opened.stream.clone().ok_or(NtStatus::INVALID_PARAMETER)?;
        let wanted = target.stream().ok_or(NtStatus::INVALID_PARAMETER)?;
        let new = StreamName::new(wanted);
        let attributes = opened.attributes();
        match find(attributes, wanted)? {
            Some(same) if same == old => {}
            Some(_) if !replace => return Err(NtStatus::OBJECT_NAME_COLLISION),
            Some(other) => remove(attributes, &other)?,
            None => {}
        }
        if new != old {
            let value = load(attributes, &old)?;
            save(attributes, &new, value)?;
            remove(attributes, &old)?;
        }
        let inode = opened.inode;
        let path = opened.path.with_stream(Some(new.name.clone()));
        for other in self.opens.iter_mut() {
            if other.inode == inode && other.stream.as_ref() == Some(&old) {
                other.path = other.path.with_stream(Some(new.name.clone()));
                other.stream = Some(new.clone());
            }
        }
        Ok(path)
    }
}
