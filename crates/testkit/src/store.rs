//! A store in memory, behind the vocabulary of `object`.
//!
//! Files, directories, streams, extended attributes, hard links and sparse files, with names
//! compared without case. It refuses the same operations as the POSIX store, with the same
//! statuses. It has no users: rights are those of the share, without those that READONLY removes.

mod attributes;
mod data;
mod directory;
mod fault;
mod kernel_locks;
mod names;
mod node;
mod open;
mod sparse;

use std::collections::{BTreeMap, HashMap};

use dtyp::fscc::{ReparseData, ReparseTag, SymbolicLinkReparse};
use dtyp::{FileAttributes, FileTime, NtStatus};
use object::{
    LocalOpen, ObjectOp, ObjectPath, ObjectReply, ObjectResult, OpenRequest, RootId, Volume,
};

pub use fault::OpKind;
pub use sparse::SparseBytes;

use crate::piped;
use fault::Fault;
use kernel_locks::KernelLocks;
use node::{Body, Node};
use open::Open;

/// Highest number of opens; further ones fail with TOO_MANY_OPENED_FILES.
const OPENS_MAX: usize = 100_000;

/// A file store in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    nodes: HashMap<u64, Node>,
    inode_count: u64,
    /// Inodes of the root directories.
    roots: Vec<u64>,
    /// Device numbers of their file systems.
    devices: Vec<u64>,
    opens: Vec<Slot>,
    faults: Vec<Fault>,
    kernel_locks: KernelLocks,
    /// Number of operations of each kind.
    op_counts: HashMap<OpKind, u64>,
    pipes_reads: bool,
    piped_count: u64,
    now: FileTime,
}

/// A slot of the table of opens. The generation distinguishes its users over time.
#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    open: Option<Open>,
}

impl MemoryStore {
    /// Creates a store without root directories.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an empty root directory for a share.
    pub fn add_root(&mut self) -> RootId {
        let node = Node::new(Body::Directory(BTreeMap::new()), FileAttributes::empty(), self.now);
        let inode = self.insert(node);
        self.devices.push(0x1000 + u64::try_from(self.roots.len()).expect("a few roots"));
        self.roots.push(inode);
        RootId(u32::try_from(self.roots.len() - 1).expect("a few roots"))
    }

    /// Adds a root for a share whose folder is a directory in that of another share.
    ///
    /// # Panics
    /// If there is no such directory.
    pub fn add_root_beneath(&mut self, outer: RootId, path: &str) -> RootId {
        self.devices.push(self.device(outer));
        self.roots.push(self.find(outer, path).expect("the directory exists"));
        RootId(u32::try_from(self.roots.len() - 1).expect("a few roots"))
    }

    /// Executes one operation at the time `now`.
    pub fn perform(&mut self, now: FileTime, op: ObjectOp) -> ObjectResult {
        self.now = now;
        let kind = OpKind::of(&op);
        *self.op_counts.entry(kind).or_default() += 1;
        match self.take_fault(kind) {
            Some(status) => match op {
                // The open is closed in any case, and the file stays.
                ObjectOp::Close { open, .. } => {
                    self.dispatch(ObjectOp::Close { open, unlink: false }).and(Err(status))
                }
                _ => Err(status),
            },
            None => self.dispatch(op),
        }
    }

    /// Returns data of READs in pipes from now on, where possible.
    pub fn pipe_reads(&mut self) {
        self.pipes_reads = true;
    }

    /// Number of READs into pipes so far.
    #[must_use]
    pub fn piped_count(&self) -> u64 {
        self.piped_count
    }

    /// Number of opens, which must be zero at the end of a test.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.opens.iter().filter(|slot| slot.open.is_some()).count()
    }

    /// Number of operations of a kind so far.
    #[must_use]
    pub fn op_count(&self, kind: OpKind) -> u64 {
        self.op_counts.get(&kind).copied().unwrap_or_default()
    }

    fn dispatch(&mut self, op: ObjectOp) -> ObjectResult {
        use {ObjectOp as Op, ObjectReply as Reply};

        let done = |()| Reply::Done;
        let described = |metadata| Reply::Metadata(Box::new(metadata));
        match op {
            Op::Open(request) => self.open_or_stop(&request),
            Op::Overwrite {
                open,
                supersede,
                attributes,
                extended_attributes,
                allocation_size: _,
            } => self.overwrite(open, supersede, attributes, extended_attributes).map(described),
            Op::Close { open, unlink } => self.close(open, unlink).map(done),
            Op::CloseAndUnlinkFile { open } => self.close_and_unlink_file(open).map(done),
            op @ (Op::Claim { .. } | Op::EndLease { .. } | Op::Lock { .. } | Op::Unlock { .. }) => {
                self.dispatch_kernel_lock(op)
            }
            Op::QueryMetadata { open, with_ea_size } => {
                let mut metadata = self.metadata(open);
                if let (Ok(metadata), false) = (&mut metadata, with_ea_size) {
                    metadata.ea_size = 0;
                }
                metadata.map(described)
            }
            Op::SetBasic { open, basic } => self.set_basic(open, *basic).map(done),
            Op::Rename { open, target, replace } => {
                self.rename(open, &target, replace).map(|path| Reply::Renamed(path, None))
            }
            // Opens lead to nodes here, independent of names.
            Op::Relocate { open, .. } => self.node(open).map(|_| Reply::Done),
            Op::Link { open, target, replace } => self.link(open, &target, replace).map(done),
            Op::ReadDirectory { open, restart, detail, entries_max } => {
                self.read_directory(open, restart, detail, entries_max).map(Reply::Entries)
            }
            Op::FindReferral { root, path } => self.find_referral(root, &path),
            Op::IsEmpty { open } => self.is_empty(open).map(Reply::Empty),
            Op::ListStreams { open } => self.list_streams(open).map(Reply::Streams),
            Op::ReadExtendedAttributes { open } => self
                .node(open)
                .map(|node| Reply::ExtendedAttributes(node.extended_attributes.clone())),
            Op::WriteExtendedAttributes { open, attributes } => {
                self.write_extended_attributes(open, attributes).map(done)
            }
            Op::ReadSecurity { open, information, nfs_entries: _ } => {
                self.read_security(open, information).map(Reply::Security)
            }
            Op::WriteSecurity { open, information, descriptor, nfs_entries: _ } => {
                self.write_security(open, information, &descriptor).map(done)
            }
            Op::QueryShortName { open } => {
                self.get(open).map(|open| Reply::ShortName(short_name(open.path.file_name())))
            }
            Op::QueryVolume { open } => self.get(open).map(|_| Reply::Volume(Box::new(volume()))),
            Op::Quotas { open, .. } => self.get(open).and(Err(NtStatus::NOT_SUPPORTED)),
            // Memory has no snapshots.
            Op::ListSnapshots { open } => self.get(open).map(|_| Reply::Snapshots(Vec::new())),
            Op::ReadReparsePoint { open } => self.read_reparse_point(open).map(Reply::ReparsePoint),
            Op::WriteReparsePoint { open, buffer } => {
                self.write_reparse_point(open, &buffer).map(done)
            }
            Op::DeleteReparsePoint { open, tag } => self.delete_reparse_point(open, tag).map(done),
            Op::Lookup { root, path } => self.lookup(root, &path).map(described),
            op @ (Op::AllocatedRanges { .. }
            | Op::CopyRange { .. }
            | Op::CopyStreams { .. }
            | Op::DuplicateExtents { .. }
            | Op::Flush { .. }
            | Op::Read { .. }
            | Op::SetAllocation { .. }
            | Op::SetCompression { .. }
            | Op::SetEndOfFile { .. }
            | Op::SetSparse { .. }
            | Op::Trim { .. }
            | Op::Write { .. }
            | Op::ZeroRange { .. }) => self.dispatch_data(op),
        }
    }

    fn open_or_stop(&mut self, request: &OpenRequest) -> ObjectResult {
        if let Some(identity) = self.leased(request) {
            return Ok(ObjectReply::Leased(identity));
        }
        match self.symbolic_link(request) {
            Some(stopped) => Ok(ObjectReply::Stopped(Box::new(stopped))),
            None => self.open(request).map(|opened| ObjectReply::Opened(Box::new(opened))),
        }
    }

    /// Serves the operations on the data of files.
    fn dispatch_data(&mut self, op: ObjectOp) -> ObjectResult {
        use {ObjectOp as Op, ObjectReply as Reply};

        let done = |()| Reply::Done;
        match op {
            Op::Read { open, offset, length, verify_locks: true, .. }
                if self.is_locked(open, (offset, length.into()), false) =>
            {
                Err(NtStatus::FILE_LOCK_CONFLICT)
            }
            Op::Read { open, offset, length, buffer, may_pipe: true, .. } if self.pipes_reads => {
                self.pipe(open, offset, length, buffer)
            }
            Op::Read { open, offset, length, buffer, .. } => {
                self.read(open, offset, length, buffer).map(Reply::Read)
            }
            Op::Write { open, offset, data, piped, verify_locks, .. } => {
                let data =
                    [&data[..], &piped.as_ref().map(piped::drain).unwrap_or_default()].concat();
                let length = u64::try_from(data.len()).expect("it fits");
                if verify_locks && self.is_locked(open, (offset, length), true) {
                    return Err(NtStatus::FILE_LOCK_CONFLICT);
                }
                self.write(open, offset, &data).map(Reply::Written)
            }
            Op::Flush { open } => self.get(open).map(|_| Reply::Done),
            Op::SetEndOfFile { open, size } => self.set_end_of_file(open, size).map(done),
            Op::SetAllocation { open, size } => self.set_allocation(open, size).map(done),
            Op::ZeroRange { open, from, to } => self.zero_range(open, from, to).map(done),
            Op::Trim { open, from, to } => self.zero_range(open, from, to).map(done),
            Op::AllocatedRanges { open, from, to, ranges_max } => {
                self.allocated_ranges(open, from, to, ranges_max).map(Reply::Ranges)
            }
            Op::SetSparse { open, sparse } => self.set_sparse(open, sparse).map(done),
            Op::SetCompression { open, compressed } => {
                self.set_compression(open, compressed).map(done)
            }
            Op::CopyRange { source, target, source_offset, target_offset, length } => self
                .copy_range((source, source_offset), (target, target_offset), length)
                .map(Reply::Written),
            Op::CopyStreams { source, target } => self.copy_streams(source, target).map(done),
            Op::DuplicateExtents { source, target, source_offset, target_offset, length } => self
                .duplicate_extents((source, source_offset), (target, target_offset), length)
                .map(done),
            other => panic!("{other:?} is not about data"),
        }
    }

    fn insert(&mut self, node: Node) -> u64 {
        self.inode_count += 1;
        self.nodes.insert(self.inode_count, node);
        self.inode_count
    }

    fn get(&self, open: LocalOpen) -> Result<&Open, NtStatus> {
        let slot = usize::try_from(open.index).ok().and_then(|index| self.opens.get(index));
        slot.filter(|slot| slot.generation == open.generation)
            .and_then(|slot| slot.open.as_ref())
            .ok_or(NtStatus::INVALID_HANDLE)
    }

    fn get_mut(&mut self, open: LocalOpen) -> Result<&mut Open, NtStatus> {
        let slot = usize::try_from(open.index).ok().and_then(|index| self.opens.get_mut(index));
        slot.filter(|slot| slot.generation == open.generation)
            .and_then(|slot| slot.open.as_mut())
            .ok_or(NtStatus::INVALID_HANDLE)
    }

    fn node(&self, open: LocalOpen) -> Result<&Node, NtStatus> {
        let inode = self.get(open)?.inode;
        Ok(self.nodes.get(&inode).expect("an open keeps its node"))
    }

    fn node_mut(&mut self, open: LocalOpen) -> Result<&mut Node, NtStatus> {
        let inode = self.get(open)?.inode;
        Ok(self.nodes.get_mut(&inode).expect("an open keeps its node"))
    }

    fn take_open(&mut self, open: LocalOpen) -> Result<Open, NtStatus> {
        self.get(open)?;
        let slot = usize::try_from(open.index).expect("looked up above");
        self.kernel_locks.release_all(open);
        Ok(self.opens[slot].open.take().expect("looked up above"))
    }

    fn put_open(&mut self, open: Open) -> Result<LocalOpen, NtStatus> {
        let free = self.opens.iter().position(|slot| slot.open.is_none());
        let index = free.unwrap_or(self.opens.len());
        if index >= OPENS_MAX {
            return Err(NtStatus::TOO_MANY_OPENED_FILES);
        }
        if free.is_none() {
            self.opens.push(Slot::default());
        }
        let node = self.nodes.get_mut(&open.inode).expect("what is opened exists");
        node.opens += 1;
        let slot = &mut self.opens[index];
        slot.generation += 1;
        slot.open = Some(open);
        let index = u32::try_from(index).expect("below OPENS_MAX");
        Ok(LocalOpen { index, generation: slot.generation })
    }
}

/// Direct access to files for tests, without the server.
impl MemoryStore {
    /// Adds a file, with the directories of its path. `/` separates components.
    ///
    /// # Panics
    /// If a file stands where a directory should.
    pub fn add_file(&mut self, root: RootId, path: &str, data: &[u8]) {
        let inode = self.add_node(root, path, Body::File(SparseBytes::default()));
        let node = self.nodes.get_mut(&inode).expect("just made");
        node.data_mut(None).expect("a file").write(0, data);
    }

    /// Adds a symbolic link of the host.
    ///
    /// # Panics
    /// If a file stands where a directory should.
    pub fn add_link(&mut self, root: RootId, path: &str, target: &str) {
        let inode = self.add_node(root, path, Body::File(SparseBytes::default()));
        let name = target.to_owned();
        let is_relative = !target.starts_with('/');
        let link =
            SymbolicLinkReparse { substitute_name: name.clone(), print_name: name, is_relative };
        let (mut data, mut buffer) = (Vec::new(), Vec::new());
        link.encode(&mut data);
        ReparseData { tag: ReparseTag::SYMLINK, data: &data }.encode(&mut buffer);
        let node = self.nodes.get_mut(&inode).expect("just made");
        node.reparse_point = Some(buffer);
        node.is_host_link = true;
    }

    /// Adds a directory, with those of its path.
    ///
    /// # Panics
    /// If a file stands where a directory should.
    pub fn add_directory(&mut self, root: RootId, path: &str) {
        self.add_node(root, path, Body::Directory(BTreeMap::new()));
    }

    /// Sets the attributes of a file or directory.
    ///
    /// # Panics
    /// If it does not exist.
    pub fn set_attributes(&mut self, root: RootId, path: &str, attributes: FileAttributes) {
        let inode = self.find(root, path).expect("it was put there");
        self.nodes.get_mut(&inode).expect("a name leads to a node").attributes = attributes;
    }

    /// Returns the attributes of a file or directory.
    #[must_use]
    pub fn attributes(&self, root: RootId, path: &str) -> Option<FileAttributes> {
        self.find(root, path).map(|inode| self.nodes[&inode].attributes)
    }

    /// Returns the data of a file, or of its stream after a colon.
    #[must_use]
    pub fn contents(&self, root: RootId, path: &str) -> Option<Vec<u8>> {
        let (path, stream) = match path.split_once(':') {
            Some((path, stream)) => (path, Some(dtyp::upcase::fold(stream))),
            None => (path, None),
        };
        let node = &self.nodes[&self.find(root, path)?];
        let data = node.data(stream.as_deref())?;
        let mut out = Vec::new();
        data.read(0, data.len(), &mut out);
        Some(out)
    }

    /// Returns the data of a file by its inode, even if it has no name.
    #[must_use]
    pub fn data_of(&self, inode: u64) -> Option<Vec<u8>> {
        let data = self.nodes.get(&inode)?.data(None)?;
        let mut out = Vec::new();
        data.read(0, data.len(), &mut out);
        Some(out)
    }

    /// True if the path exists.
    #[must_use]
    pub fn exists(&self, root: RootId, path: &str) -> bool {
        self.find(root, path).is_some()
    }

    fn find(&self, root: RootId, path: &str) -> Option<u64> {
        let path = ObjectPath::from_stored(path.to_owned(), None);
        self.locate(root, &path).ok()?.inode
    }

    fn add_node(&mut self, root: RootId, path: &str, body: Body) -> u64 {
        let now = self.now;
        let mut parent = self.roots[usize::try_from(root.0).expect("a few roots")];
        let components: Vec<&str> = path.split('/').collect();
        let (name, directories) = components.split_last().expect("a path has a name");
        for directory in directories {
            let folded = dtyp::upcase::fold(directory);
            let entries = self.nodes[&parent].entries().expect("a directory");
            parent = match entries.get(&folded) {
                Some((_, inode)) => *inode,
                None => {
                    let body = Body::Directory(BTreeMap::new());
                    let inode = self.insert(Node::new(body, FileAttributes::empty(), now));
                    self.enter_name(parent, directory, inode);
                    inode
                }
            };
        }
        let inode = self.insert(Node::new(body, FileAttributes::ARCHIVE, now));
        self.enter_name(parent, name, inode);
        inode
    }

    fn enter_name(&mut self, directory: u64, name: &str, inode: u64) {
        let directory = self.nodes.get_mut(&directory).expect("it exists");
        let entries = directory.entries_mut().expect("names are in directories");
        entries.insert(dtyp::upcase::fold(name), (name.to_owned(), inode));
    }
}

/// A name of 8.3 form is its own short name; others have none.
fn short_name(name: &str) -> Option<String> {
    let (base, extension) = name.split_once('.').unwrap_or((name, ""));
    let fits = (1..=8).contains(&base.len()) && extension.len() <= 3 && !extension.contains('.');
    fits.then(|| name.to_ascii_uppercase())
}

fn volume() -> Volume {
    Volume {
        total_bytes: 1 << 40,
        free_bytes: 1 << 39,
        available_bytes: 1 << 39,
        cluster_bytes: 4_096,
        sector_bytes: 512,
        serial_number: 0x1234_5678,
        creation_time: FileTime::ZERO,
        label: "memory".into(),
        file_system_name: "NTFS".into(),
        // Case kept, Unicode on disk, streams, sparse files, ACLs, shared storage.
        attributes: 0x0804_004E,
        component_units_max: 255,
        supports_trim: true,
    }
}

#[cfg(test)]
mod tests;
