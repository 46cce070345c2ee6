//! Nodes: files and directories in memory.

use std::collections::BTreeMap;

use dtyp::fscc::{ReparseData, ReparseTag};
use dtyp::upcase::fold;
use dtyp::{AccessMask, FileAttributes, FileTime};
use object::{AppleMetadata, ExtendedAttribute, FileIdentity, Metadata, ObjectKind};

use super::sparse::SparseBytes;

/// A file or directory, under any number of names.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) body: Body,
    pub(super) attributes: FileAttributes,
    pub(super) times: Times,
    pub(super) extended_attributes: Vec<ExtendedAttribute>,
    /// Data of its reparse point, if any.
    pub(super) reparse_point: Option<Vec<u8>>,
    /// True for a symbolic link of the host, false for one that a client made.
    pub(super) is_host_link: bool,
    /// Self-relative security descriptor, once set.
    pub(super) security: Option<Vec<u8>>,
    /// Named streams, keyed by folded name.
    pub(super) streams: BTreeMap<String, Stream>,
    /// Number of names in directories.
    pub(super) links: u32,
    /// Number of opens; a file without names lives until the last one is closed.
    pub(super) opens: u32,
}

/// A named stream of a file.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) name: String,
    pub(super) data: SparseBytes,
}

/// Contents of a node, by its type.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// Entries by folded name: stored name and node.
    Directory(BTreeMap<String, (String, u64)>),
    File(SparseBytes),
}

/// The four times of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) creation: FileTime,
    pub(super) last_access: FileTime,
    pub(super) last_write: FileTime,
    pub(super) change: FileTime,
}

impl Node {
    pub(super) fn new(body: Body, attributes: FileAttributes, now: FileTime) -> Self {
        let times = Times { creation: now, last_access: now, last_write: now, change: now };
        Self {
            body,
            attributes: attributes & FileAttributes::SETTABLE,
            times,
            extended_attributes: Vec::new(),
            reparse_point: None,
            is_host_link: false,
            security: None,
            streams: BTreeMap::new(),
            links: 1,
            opens: 0,
        }
    }

    pub(super) fn reparse_tag(&self) -> Option<ReparseTag> {
        let buffer = self.reparse_point.as_deref()?;
        Some(ReparseData::decode(buffer).expect("verified when it was written").tag)
    }

    pub(super) fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory(_))
    }

    pub(super) fn entries(&self) -> Option<&BTreeMap<String, (String, u64)>> {
        match &self.body {
            Body::Directory(entries) => Some(entries),
            Body::File(_) => None,
        }
    }

    pub(super) fn entries_mut(&mut self) -> Option<&mut BTreeMap<String, (String, u64)>> {
        match &mut self.body {
            Body::Directory(entries) => Some(entries),
            Body::File(_) => None,
        }
    }

    /// Returns the data of an open: those of the unnamed stream, or of a named one.
    pub(super) fn data(&self, stream: Option<&str>) -> Option<&SparseBytes> {
        match (stream, &self.body) {
            (Some(stream), _) => self.streams.get(stream).map(|it| &it.data),
            (None, Body::File(data)) => Some(data),
            (None, Body::Directory(_)) => None,
        }
    }

    pub(super) fn data_mut(&mut self, stream: Option<&str>) -> Option<&mut SparseBytes> {
        match (stream, &mut self.body) {
            (Some(stream), _) => self.streams.get_mut(stream).map(|it| &mut it.data),
            (None, Body::File(data)) => Some(data),
            (None, Body::Directory(_)) => None,
        }
    }

    /// Bytes of all extended attributes as FILE_FULL_EA_INFORMATION: [MS-FSCC] 2.4.16.
    pub(super) fn ea_size(&self) -> u32 {
        let size = self.extended_attributes.iter().fold(0_usize, |size, ea| {
            size.next_multiple_of(4) + 8 + ea.name.len() + 1 + ea.value.len()
        });
        u32::try_from(size).expect("a few attributes")
    }

    /// Returns metadata for Apple's clients, from the streams that they use.
    pub(super) fn apple_metadata(&self) -> AppleMetadata {
        let stream = |name: &str| self.streams.get(&fold(name)).map(|stream| &stream.data);
        let mut info = Vec::new();
        if let Some(data) = stream("AFP_AfpInfo") {
            data.read(16, 32, &mut info);
        }
        let mut finder_info = [0; 32];
        finder_info[..info.len()].copy_from_slice(&info);
        AppleMetadata {
            maximal_access: AccessMask::FILE_ALL,
            resource_fork_size: stream("AFP_Resource").map_or(0, SparseBytes::len),
            finder_info,
        }
    }

    pub(super) fn metadata(&self, device: u64, inode: u64, stream: Option<&str>) -> Metadata {
        let data = self.data(stream);
        let mut attributes = self.attributes;
        attributes.set(FileAttributes::DIRECTORY, self.is_directory() && stream.is_none());
        attributes.set(FileAttributes::REPARSE_POINT, self.reparse_point.is_some());
        Metadata {
            // No inode number is used twice here.
            identity: FileIdentity {
                device,
                inode,
                birth: 1,
                stream: stream.map_or(0, stream_hash),
            },
            kind: if self.is_directory() && stream.is_none() {
                ObjectKind::Directory
            } else {
                ObjectKind::File
            },
            creation_time: self.times.creation,
            last_access_time: self.times.last_access,
            last_write_time: self.times.last_write,
            change_time: self.times.change,
            end_of_file: data.map_or(0, SparseBytes::len),
            allocation_size: data.map_or(0, SparseBytes::allocated),
            attributes: attributes.shown(),
            number_of_links: self.links.max(1),
            ea_size: 0,
            reparse_tag: self.reparse_tag().unwrap_or_default().0,
            mode: if self.is_directory() { 0o40_755 } else { 0o100_644 },
            uid: 1_000,
            gid: 1_000,
        }
    }
}

/// FNV-1a; never 0, which stands for the unnamed stream.
fn stream_hash(folded: &str) -> u64 {
    let hash = folded.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    hash.max(1)
}

/// Merges extended attributes; an empty value removes one.
pub(super) fn merge_extended_attributes(
    held: &mut Vec<ExtendedAttribute>,
    new: Vec<ExtendedAttribute>,
) {
    for ea in new {
        held.retain(|it| fold(&it.name) != fold(&ea.name));
        if !ea.value.is_empty() {
            held.push(ea);
        }
    }
}
