//! Reading, writing, and sizes of files.

use bytes::BytesMut;
use dtyp::{FileAttributes, NtStatus};
use object::{LocalOpen, ObjectReply, ObjectResult};

use super::MemoryStore;
use super::sparse::SparseBytes;
use crate::piped;

/// Highest length of a file: [MS-FSA] 2.1.5.4.
const FILE_BYTES_MAX: u64 = 0x7FFF_FFFF_FFFF_FFFF;

impl MemoryStore {
    fn data(&self, open: LocalOpen) -> Result<&SparseBytes, NtStatus> {
        let stream = self.get(open)?.stream.as_deref();
        self.node(open)?.data(stream).ok_or(NtStatus::INVALID_DEVICE_REQUEST)
    }

    /// Returns the data for a change.
    fn data_mut(&mut self, open: LocalOpen) -> Result<&mut SparseBytes, NtStatus> {
        let now = self.now;
        let opened = self.get(open)?;
        let (stream, kept) = (opened.stream.clone(), opened.kept_write_time);
        let node = self.node_mut(open)?;
        node.times.last_write = kept.unwrap_or(now);
        node.times.change = now;
        node.data_mut(stream.as_deref()).ok_or(NtStatus::INVALID_DEVICE_REQUEST)
    }

    /// Reads data into a pipe.
    pub(super) fn pipe(
        &mut self,
        open: LocalOpen,
        offset: u64,
        length: u32,
        buffer: BytesMut,
    ) -> ObjectResult {
        let data = self.read(open, offset, length, BytesMut::new())?;
        if data.is_empty() {
            return Ok(ObjectReply::Read(buffer));
        }
        self.piped_count += 1;
        Ok(ObjectReply::Piped(buffer, piped::fill(&data)))
    }

    pub(super) fn read(
        &mut self,
        open: LocalOpen,
        offset: u64,
        length: u32,
        mut buffer: BytesMut,
    ) -> Result<BytesMut, NtStatus> {
        self.data(open)?.read(offset, length.into(), &mut buffer);
        Ok(buffer)
    }

    pub(super) fn write(
        &mut self,
        open: LocalOpen,
        offset: u64,
        data: &[u8],
    ) -> Result<u64, NtStatus> {
        let length = u64::try_from(data.len()).expect("a slice fits");
        if offset.checked_add(length).is_none_or(|end| end > FILE_BYTES_MAX) {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        if length > 0 {
            self.data_mut(open)?.write(offset, data);
        }
        Ok(length)
    }

    pub(super) fn set_end_of_file(&mut self, open: LocalOpen, size: u64) -> Result<(), NtStatus> {
        if size > FILE_BYTES_MAX {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        self.data_mut(open)?.set_len(size);
        Ok(())
    }

    /// Does nothing: storage in memory needs no reservation.
    pub(super) fn set_allocation(&mut self, open: LocalOpen, size: u64) -> Result<(), NtStatus> {
        if self.data(open)?.len() > size {
            self.data_mut(open)?.set_len(size);
        }
        Ok(())
    }

    pub(super) fn zero_range(
        &mut self,
        open: LocalOpen,
        from: u64,
        to: u64,
    ) -> Result<(), NtStatus> {
        if from > to {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let to = to.min(self.data(open)?.len());
        if from < to {
            self.data_mut(open)?.zero(from, to);
        }
        Ok(())
    }

    pub(super) fn allocated_ranges(
        &self,
        open: LocalOpen,
        from: u64,
        to: u64,
        ranges_max: u32,
    ) -> Result<Vec<(u64, u64)>, NtStatus> {
        let ranges_max = usize::try_from(ranges_max).unwrap_or(usize::MAX);
        Ok(self.data(open)?.allocated_ranges(from, to, ranges_max))
    }

    pub(super) fn set_sparse(&mut self, open: LocalOpen, sparse: bool) -> Result<(), NtStatus> {
        self.data(open)?;
        self.node_mut(open)?.attributes.set(FileAttributes::SPARSE_FILE, sparse);
        Ok(())
    }

    pub(super) fn copy_range(
        &mut self,
        (source, source_offset): (LocalOpen, u64),
        (target, target_offset): (LocalOpen, u64),
        length: u32,
    ) -> Result<u64, NtStatus> {
        let mut data = Vec::new();
        self.data(source)?.read(source_offset, length.into(), &mut data);
        self.write(target, target_offset, &data)
    }

    pub(super) fn copy_streams(
        &mut self,
        source: LocalOpen,
        target: LocalOpen,
    ) -> Result<(), NtStatus> {
        let streams = self.node(source)?.streams.clone();
        self.node_mut(target)?.streams.extend(streams);
        Ok(())
    }

    /// Copies extents: [MS-FSA] 2.1.5.10.4. Sharing would not be visible to clients.
    pub(super) fn duplicate_extents(
        &mut self,
        (source, source_offset): (LocalOpen, u64),
        (target, target_offset): (LocalOpen, u64),
        length: u64,
    ) -> Result<(), NtStatus> {
        let source_end = source_offset.checked_add(length).ok_or(NtStatus::INVALID_PARAMETER)?;
        target_offset.checked_add(length).ok_or(NtStatus::INVALID_PARAMETER)?;
        if source_end > self.data(source)?.len() {
            return Err(NtStatus::NOT_SUPPORTED);
        }
        let room = self.data(target)?.len().saturating_sub(target_offset);
        let length = length.min(room);
        let is_same = self.get(source)?.inode == self.get(target)?.inode;
        if is_same && source_offset.abs_diff(target_offset) < length {
            return Err(NtStatus::NOT_SUPPORTED);
        }
        let sparse = |store: &Self, open| -> Result<bool, NtStatus> {
            Ok(store.node(open)?.attributes.contains(FileAttributes::SPARSE_FILE))
        };
        if sparse(self, source)? && !sparse(self, target)? {
            return Err(NtStatus::NOT_SUPPORTED);
        }
        let mut data = Vec::new();
        self.data(source)?.read(source_offset, length, &mut data);
        self.write(target, target_offset, &data).map(drop)
    }

    pub(super) fn set_compression(
        &mut self,
        open: LocalOpen,
        compressed: bool,
    ) -> Result<(), NtStatus> {
        self.get(open)?;
        if compressed { Err(NtStatus::NOT_SUPPORTED) } else { Ok(()) }
    }
}
