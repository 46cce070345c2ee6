//! Metadata of files: attributes, times, security.

use dtyp::fscc::{ReparseData, ReparseTag};
use dtyp::{AccessMask, Ace, AceFlags, Acl, FileAttributes, NtStatus};
use dtyp::{SecurityDescriptor, SecurityInformation, Sid};
use object::{
    BasicChange, ExtendedAttribute, LocalOpen, Metadata, ObjectPath, RootId, StreamEntry,
};

use super::MemoryStore;
use super::node::merge_extended_attributes;

impl MemoryStore {
    pub(super) fn metadata(&self, open: LocalOpen) -> Result<Metadata, NtStatus> {
        let opened = self.get(open)?;
        let node = self.node(open)?;
        let mut metadata =
            node.metadata(self.device(opened.root), opened.inode, opened.stream.as_deref());
        metadata.ea_size = node.ea_size();
        Ok(metadata)
    }

    pub(super) fn lookup(&self, root: RootId, path: &ObjectPath) -> Result<Metadata, NtStatus> {
        let inode = self.locate(root, path)?.inode.ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
        let stream = path.stream().map(dtyp::upcase::fold);
        let node = &self.nodes[&inode];
        if stream.as_ref().is_some_and(|stream| !node.streams.contains_key(stream)) {
            return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
        }
        Ok(node.metadata(self.device(root), inode, stream.as_deref()))
    }

    pub(super) fn set_basic(
        &mut self,
        open: LocalOpen,
        basic: BasicChange,
    ) -> Result<(), NtStatus> {
        let now = self.now;
        let last_write = self.node(open)?.times.last_write;
        if let Some(keep) = basic.keep_last_write_time {
            let kept = basic.last_write_time.unwrap_or(last_write);
            self.get_mut(open)?.kept_write_time = keep.then_some(kept);
        }
        let node = self.node_mut(open)?;
        if let Some(attributes) = basic.attributes {
            let kept = node.attributes.difference(FileAttributes::SETTABLE);
            node.attributes = attributes & FileAttributes::SETTABLE | kept;
        }
        node.times.change = basic.change_time.unwrap_or(now);
        for (time, new) in [
            (&mut node.times.creation, basic.creation_time),
            (&mut node.times.last_access, basic.last_access_time),
            (&mut node.times.last_write, basic.last_write_time),
        ] {
            *time = new.unwrap_or(*time);
        }
        Ok(())
    }

    pub(super) fn write_extended_attributes(
        &mut self,
        open: LocalOpen,
        attributes: Vec<ExtendedAttribute>,
    ) -> Result<(), NtStatus> {
        merge_extended_attributes(&mut self.node_mut(open)?.extended_attributes, attributes);
        Ok(())
    }

    pub(super) fn list_streams(&self, open: LocalOpen) -> Result<Vec<StreamEntry>, NtStatus> {
        let node = self.node(open)?;
        let unnamed = node.data(None).map(|data| (String::new(), data));
        let named = node.streams.values().map(|stream| (stream.name.clone(), &stream.data));
        Ok(unnamed
            .into_iter()
            .chain(named)
            .map(|(name, data)| StreamEntry {
                name,
                size: data.len(),
                allocation_size: data.allocated(),
            })
            .collect())
    }

    pub(super) fn read_security(
        &self,
        open: LocalOpen,
        information: u32,
    ) -> Result<Vec<u8>, NtStatus> {
        let information = SecurityInformation::from_bits_retain(information);
        Ok(self.security(open)?.select(information).to_bytes())
    }

    pub(super) fn write_security(
        &mut self,
        open: LocalOpen,
        information: u32,
        descriptor: &[u8],
    ) -> Result<(), NtStatus> {
        let information = SecurityInformation::from_bits_retain(information);
        let new = SecurityDescriptor::decode(descriptor).ok_or(NtStatus::INVALID_SECURITY_DESCR)?;
        let mut security = self.security(open)?;
        security.replace(information, new);
        self.node_mut(open)?.security = Some(security.to_bytes());
        Ok(())
    }

    /// Grants all rights to everyone until a descriptor is set.
    fn security(&self, open: LocalOpen) -> Result<SecurityDescriptor, NtStatus> {
        let stored = self.node(open)?.security.as_deref().and_then(SecurityDescriptor::decode);
        Ok(stored.unwrap_or_else(|| {
            let everyone = Ace::allow(Sid::everyone(), AccessMask::FILE_ALL, AceFlags::empty());
            SecurityDescriptor {
                owner: Some(Sid::unix_user(1_000)),
                group: Some(Sid::unix_group(1_000)),
                dacl: Some(Acl::new(vec![everyone])),
                ..SecurityDescriptor::default()
            }
        }))
    }

    pub(super) fn read_reparse_point(&self, open: LocalOpen) -> Result<Vec<u8>, NtStatus> {
        self.node(open)?.reparse_point.clone().ok_or(NtStatus::NOT_A_REPARSE_POINT)
    }

    pub(super) fn write_reparse_point(
        &mut self,
        open: LocalOpen,
        buffer: &[u8],
    ) -> Result<(), NtStatus> {
        let is_empty = self.is_empty(open).unwrap_or(true);
        let node = self.node_mut(open)?;
        if node.is_host_link {
            return Err(NtStatus::ACCESS_DENIED);
        }
        if node.is_directory() && !is_empty {
            return Err(NtStatus::DIRECTORY_NOT_EMPTY);
        }
        let new = ReparseData::decode(buffer).ok_or(NtStatus::IO_REPARSE_DATA_INVALID)?;
        if node.reparse_tag().is_some_and(|tag| tag != new.tag) {
            return Err(NtStatus::IO_REPARSE_TAG_MISMATCH);
        }
        node.reparse_point = Some(buffer.to_vec());
        Ok(())
    }

    pub(super) fn delete_reparse_point(
        &mut self,
        open: LocalOpen,
        tag: ReparseTag,
    ) -> Result<(), NtStatus> {
        let node = self.node_mut(open)?;
        match node.reparse_tag() {
            _ if node.is_host_link => Err(NtStatus::NOT_A_REPARSE_POINT),
            None => Err(NtStatus::NOT_A_REPARSE_POINT),
            Some(other) if other != tag => Err(NtStatus::IO_REPARSE_TAG_MISMATCH),
            Some(_) => {
                node.reparse_point = None;
                Ok(())
            }
        }
    }
}
