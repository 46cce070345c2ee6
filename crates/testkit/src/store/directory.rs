//! Listing of a directory's entries.

use dtyp::NtStatus;
use object::{DirectoryEntry, EntryDetail, LocalOpen};

use super::MemoryStore;

impl MemoryStore {
    pub(super) fn read_directory(
        &mut self,
        open: LocalOpen,
        restart: bool,
        detail: EntryDetail,
        entries_max: u32,
    ) -> Result<Vec<DirectoryEntry>, NtStatus> {
        if restart || self.get(open)?.listing.is_none() {
            let listing = self.list(open)?;
            self.get_mut(open)?.listing = Some(listing.into_iter());
        }
        let entries_max = usize::try_from(entries_max).unwrap_or(usize::MAX);
        let opened = self.get_mut(open)?;
        let root = opened.root;
        let listing = opened.listing.as_mut().expect("begun above");
        let taken: Vec<_> = listing.take(entries_max).collect();
        // Skip entries that were deleted meanwhile.
        let there = taken.into_iter().filter_map(|(name, inode)| {
            let node = self.nodes.get(&inode)?;
            let metadata = (detail >= EntryDetail::Metadata).then(|| {
                let mut metadata = node.metadata(self.device(root), inode, None);
                if detail == EntryDetail::MetadataAndEaSize {
                    metadata.ea_size = node.ea_size();
                }
                metadata
            });
            let apple = (detail == EntryDetail::Apple).then(|| Box::new(node.apple_metadata()));
            Some(DirectoryEntry { name, short_name: None, metadata, apple })
        });
        Ok(there.collect())
    }

    pub(super) fn is_empty(&self, open: LocalOpen) -> Result<bool, NtStatus> {
        let entries = self.node(open)?.entries().ok_or(NtStatus::NOT_A_DIRECTORY)?;
        Ok(entries.is_empty())
    }

    fn list(&self, open: LocalOpen) -> Result<Vec<(String, u64)>, NtStatus> {
        let opened = self.get(open)?;
        let entries = self.node(open)?.entries().ok_or(NtStatus::INVALID_PARAMETER)?;
        let above = match opened.path.parent() {
            Some(parent) => self.locate(opened.root, &parent)?.inode.unwrap_or(opened.inode),
            None => opened.inode,
        };
        let dots = [(".".to_owned(), opened.inode), ("..".to_owned(), above)];
        Ok(dots.into_iter().chain(entries.values().cloned()).collect())
    }
}
