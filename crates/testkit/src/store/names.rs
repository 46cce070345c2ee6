//! Renaming and linking: [MS-FSA] 2.1.5.15.12 and 2.1.5.15.6.

use dtyp::upcase::fold;
use dtyp::{FileAttributes, NtStatus};
use object::{LocalOpen, ObjectPath, RootId};

use super::MemoryStore;

impl MemoryStore {
    pub(super) fn rename(
        &mut self,
        open: LocalOpen,
        target: &ObjectPath,
        replace: bool,
    ) -> Result<ObjectPath, NtStatus> {
        let opened = self.get(open)?;
        if opened.stream.is_some() {
            return self.rename_stream(open, target, replace);
        }
        if opened.path.is_root() {
            return Err(NtStatus::ACCESS_DENIED);
        }
        if target.is_root() || target.stream().is_some() {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let (root, inode, old) = (opened.root, opened.inode, opened.path.without_stream());
        let from = self.locate(root, &old)?;
        if from.inode != Some(inode) {
            return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
        }
        let to = self.locate(root, target)?;
        if self.nodes[&to.parent].entries().is_none() {
            return Err(NtStatus::OBJECT_PATH_NOT_FOUND);
        }
        if is_beneath(&to.path, old.as_str()) && self.nodes[&inode].is_directory() {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let itself = to.parent == from.parent && fold(target.file_name()) == fold(old.file_name());
        if let Some(there) = to.inode
            && !itself
        {
            self.verify_replaceable(there, replace, self.nodes[&inode].is_directory())?;
            self.remove_name(to.parent, target.file_name());
        }
        // The new name first, so that the node always has one.
        self.nodes.get_mut(&inode).expect("it is open").links += 1;
        self.remove_name(from.parent, old.file_name());
        self.enter_name(to.parent, target.file_name(), inode);
        let parent = to.path.rsplit_once('/').map(|(parent, _)| parent);
        let path = match parent {
            Some(parent) => format!("{parent}/{}", target.file_name()),
            None => target.file_name().to_owned(),
        };
        self.update_opens(root, old.as_str(), &path);
        Ok(ObjectPath::from_stored(path, None))
    }

    fn rename_stream(
        &mut self,
        open: LocalOpen,
        target: &ObjectPath,
        replace: bool,
    ) -> Result<ObjectPath, NtStatus> {
        let opened = self.get(open)?;
        let old = opened.stream.clone().expect("asked by the caller");
        // The unnamed stream cannot be exchanged with a named one here.
        let wanted = target.stream().ok_or(NtStatus::INVALID_PARAMETER)?.to_owned();
        let new = fold(&wanted);
        let path = opened.path.with_stream(Some(wanted.clone()));
        let node = self.node_mut(open)?;
        if new != old && node.streams.contains_key(&new) && !replace {
            return Err(NtStatus::OBJECT_NAME_COLLISION);
        }
        let mut stream = node.streams.remove(&old).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
        stream.name = wanted;
        node.streams.insert(new.clone(), stream);
        let opened = self.get_mut(open)?;
        opened.stream = Some(new);
        opened.path = path.clone();
        Ok(path)
    }

    pub(super) fn link(
        &mut self,
        open: LocalOpen,
        target: &ObjectPath,
        replace: bool,
    ) -> Result<(), NtStatus> {
        let opened = self.get(open)?;
        let (root, inode) = (opened.root, opened.inode);
        if self.nodes[&inode].is_directory() {
            return Err(NtStatus::FILE_IS_A_DIRECTORY);
        }
        if target.is_root() || target.stream().is_some() {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let place = self.locate(root, target)?;
        if let Some(there) = place.inode {
            self.verify_replaceable(there, replace, false)?;
        }
        self.nodes.get_mut(&inode).expect("it is open").links += 1;
        self.remove_name(place.parent, target.file_name());
        self.enter_name(place.parent, target.file_name(), inode);
        Ok(())
    }

    fn verify_replaceable(
        &self,
        there: u64,
        replace: bool,
        is_directory: bool,
    ) -> Result<(), NtStatus> {
        let node = &self.nodes[&there];
        if !replace {
            return Err(NtStatus::OBJECT_NAME_COLLISION);
        }
        let protected = node.attributes.contains(FileAttributes::READONLY);
        if is_directory || node.is_directory() || node.opens > 0 || protected {
            return Err(NtStatus::ACCESS_DENIED);
        }
        Ok(())
    }

    /// Updates the paths of opens by the old name, and of those beneath a renamed directory.
    fn update_opens(&mut self, root: RootId, old: &str, new: &str) {
        for open in self.opens.iter_mut().filter_map(|slot| slot.open.as_mut()) {
            let path = open.path.as_str();
            if open.root != root || !(path == old || is_beneath(path, old)) {
                continue;
            }
            let moved = format!("{new}{}", &path[old.len()..]);
            let stream = open.path.stream().map(str::to_owned);
            open.path = ObjectPath::from_stored(moved, stream);
        }
    }
}

fn is_beneath(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}
