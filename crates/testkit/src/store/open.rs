//! Opening, overwriting and closing: [MS-FSA] 2.1.5.1, 2.1.5.5.

use std::collections::BTreeMap;

use dtyp::fscc::{ReparseData, ReparseTag, SymbolicLinkReparse};
use dtyp::upcase::fold;
use dtyp::{AccessMask, FileAttributes, FileTime, NtStatus};
use object::{
    Disposition, ExtendedAttribute, FileIdentity, LocalOpen, Metadata, ObjectPath, ObjectReply,
    ObjectResult, OpenRequest, Opened, RequestedKind, RootId, SymbolicLink,
};

use super::MemoryStore;
use super::node::{Body, Node, Stream, merge_extended_attributes};
use super::sparse::SparseBytes;

/// An open of a file, a directory or a stream.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) root: RootId,
    pub(super) inode: u64,
    /// Path of the file as stored.
    pub(super) path: ObjectPath,
    /// Folded name of the stream, if named.
    pub(super) stream: Option<String>,
    /// Remaining entries of a listing that has begun.
    pub(super) listing: Option<std::vec::IntoIter<(String, u64)>>,
    /// LastWriteTime to keep in spite of writes through this open.
    pub(super) kept_write_time: Option<FileTime>,
}

/// Result of looking up a path.
#[derive(Debug)]
pub(super) struct Place {
    /// Directory that contains the object; the root contains itself.
    pub(super) parent: u64,
    /// Inode of the object, if it exists.
    pub(super) inode: Option<u64>,
    /// Path in the stored spelling, up to a last name that does not exist.
    pub(super) path: String,
}

impl MemoryStore {
    pub(super) fn root_inode(&self, root: RootId) -> Result<u64, NtStatus> {
        let index = usize::try_from(root.0).map_err(|_| NtStatus::BAD_NETWORK_NAME)?;
        self.roots.get(index).copied().ok_or(NtStatus::BAD_NETWORK_NAME)
    }

    /// Device number for the file system of a root.
    pub(super) fn device(&self, root: RootId) -> u64 {
        self.devices[usize::try_from(root.0).expect("a few roots")]
    }

    pub(super) fn locate(&self, root: RootId, path: &ObjectPath) -> Result<Place, NtStatus> {
        let mut parent = self.root_inode(root)?;
        let mut inode = Some(parent);
        let mut stored = String::new();
        for component in path.components() {
            parent = inode.ok_or(NtStatus::OBJECT_PATH_NOT_FOUND)?;
            let directory = &self.nodes[&parent];
            let entries = directory.entries().ok_or(NtStatus::OBJECT_PATH_NOT_FOUND)?;
            let found = entries.get(&fold(component));
            inode = found.map(|(_, inode)| *inode);
            if !stored.is_empty() {
                stored.push('/');
            }
            stored.push_str(found.map_or(component, |(name, _)| name));
        }
        Ok(Place { parent, inode, path: stored })
    }

    pub(super) fn open(&mut self, request: &OpenRequest) -> Result<Opened, NtStatus> {
        if request.path.stream().is_some() && request.kind == RequestedKind::Directory {
            return Err(NtStatus::NOT_A_DIRECTORY);
        }
        if request.path.snapshot().is_some() {
            return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
        }
        if request.desired_access.contains(AccessMask::ACCESS_SYSTEM_SECURITY) {
            return Err(NtStatus::PRIVILEGE_NOT_HELD);
        }
        let place = self.locate(request.root, &request.path)?;
        let (inode, file_created) = match place.inode {
            Some(inode) => {
                verify_existing(request, &self.nodes[&inode])?;
                (inode, false)
            }
            None => (self.create(request, &place)?, true),
        };
        let maximal_access = request.share_access_max;
        let device = self.device(request.root);
        let node = self.nodes.get_mut(&inode).expect("found or made above");
        let granted_access = grant(request, node, file_created)?;
        let (stream, created) = match request.path.stream() {
            Some(wanted) => {
                let (folded, is_new) = open_stream(request.disposition, node, wanted)?;
                (Some(folded), is_new)
            }
            None => (None, file_created),
        };
        let stored_stream = stream.as_ref().map(|folded| node.streams[folded].name.clone());
        let metadata = node.metadata(device, inode, stream.as_deref());
        let path = ObjectPath::from_stored(place.path, stored_stream).meant_as(&request.path);
        let open = Open {
            root: request.root,
            inode,
            path: path.clone(),
            stream,
            listing: None,
            kept_write_time: None,
        };
        let open = self.put_open(open)?;
        let parent = (!request.path.is_root()).then(|| FileIdentity {
            device,
            inode: place.parent,
            ..FileIdentity::default()
        });
        Ok(Opened {
            open,
            created,
            granted_access,
            maximal_access,
            path,
            path_on_disk: None,
            parent,
            metadata,
        })
    }

    /// Returns the symbolic link that a path leads to, if it should be followed.
    pub(super) fn symbolic_link(&self, request: &OpenRequest) -> Option<SymbolicLink> {
        let inode = self.locate(request.root, &request.path).ok()?.inode?;
        let buffer = self.nodes[&inode].reparse_point.as_deref()?;
        let point = ReparseData::decode(buffer).filter(|_| !request.open_reparse_point)?;
        let link = SymbolicLinkReparse::decode(point.data)?;
        let is_link = point.tag == ReparseTag::SYMLINK;
        is_link.then(|| SymbolicLink { link, unparsed_path: String::new() })
    }

    /// Finds a host link that belongs to a DFS namespace.
    pub(super) fn find_referral(&self, root: RootId, path: &ObjectPath) -> ObjectResult {
        let path = path.as_str();
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            let (prefix, behind) = path.split_at(end);
            let prefix = ObjectPath::from_stored(prefix.to_owned(), None);
            let inode = self.locate(root, &prefix)?.inode;
            let node = &self.nodes[&inode.ok_or(NtStatus::OBJECT_PATH_NOT_FOUND)?];
            let point = node.reparse_point.as_deref().filter(|_| node.is_host_link);
            let point = point.and_then(ReparseData::decode);
            let link = point.and_then(|point| SymbolicLinkReparse::decode(point.data));
            if let Some(link) = link.filter(|it| it.substitute_name.starts_with("msdfs:")) {
                let unparsed_path = behind.replace('/', "\\");
                let link = SymbolicLink { link, unparsed_path };
                return Ok(ObjectReply::Stopped(Box::new(link)));
            }
        }
        Err(NtStatus::OBJECT_PATH_NOT_FOUND)
    }

    fn create(&mut self, request: &OpenRequest, place: &Place) -> Result<u64, NtStatus> {
        if !request.disposition.creates() {
            return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
        }
        let adds = match request.kind {
            RequestedKind::Directory => AccessMask::APPEND_DATA,
            _ => AccessMask::WRITE_DATA,
        };
        let required = request.desired_access.difference(AccessMask::MAXIMUM_ALLOWED) | adds;
        if !request.share_access_max.contains(required) {
            return Err(NtStatus::ACCESS_DENIED);
        }
        if request.delete_on_close && request.attributes.contains(FileAttributes::READONLY) {
            return Err(NtStatus::CANNOT_DELETE);
        }
        let body = match request.kind {
            RequestedKind::Directory => Body::Directory(BTreeMap::new()),
            _ => Body::File(SparseBytes::default()),
        };
        let mut node = Node::new(body, request.attributes, self.now);
        if !node.is_directory() {
            node.attributes |= FileAttributes::ARCHIVE;
        }
        node.security = request.security.as_ref().map(|it| it.to_vec());
        merge_extended_attributes(
            &mut node.extended_attributes,
            request.extended_attributes.clone(),
        );
        let inode = self.insert(node);
        self.enter_name(place.parent, request.path.file_name(), inode);
        Ok(inode)
    }

    pub(super) fn overwrite(
        &mut self,
        open: LocalOpen,
        supersede: bool,
        attributes: FileAttributes,
        extended_attributes: Vec<ExtendedAttribute>,
    ) -> Result<Metadata, NtStatus> {
        let now = self.now;
        let stream = self.get(open)?.stream.clone();
        let node = self.node_mut(open)?;
        node.data_mut(stream.as_deref()).ok_or(NtStatus::INVALID_PARAMETER)?.set_len(0);
        if stream.is_none() {
            node.streams.clear();
            node.extended_attributes.clear();
            merge_extended_attributes(&mut node.extended_attributes, extended_attributes);
            let given = attributes & FileAttributes::SETTABLE | FileAttributes::ARCHIVE;
            if supersede {
                node.attributes = given;
                node.times.creation = now;
            } else {
                node.attributes = node.attributes.difference(FileAttributes::SPARSE_FILE) | given;
            }
        }
        node.times.last_write = now;
        node.times.change = now;
        self.metadata(open)
    }

    pub(super) fn close(&mut self, open: LocalOpen, unlink: bool) -> Result<(), NtStatus> {
        let open = self.take_open(open)?;
        let result = if unlink { self.unlink(&open) } else { Ok(()) };
        let node = self.nodes.get_mut(&open.inode).expect("an open keeps its node");
        node.opens -= 1;
        self.forget_if_unused(open.inode);
        result
    }

    pub(super) fn close_and_unlink_file(&mut self, open: LocalOpen) -> Result<(), NtStatus> {
        let mut open = self.take_open(open)?;
        open.stream = None;
        let result = self.unlink(&open);
        let node = self.nodes.get_mut(&open.inode).expect("an open keeps its node");
        node.opens -= 1;
        self.forget_if_unused(open.inode);
        result
    }

    fn unlink(&mut self, open: &Open) -> Result<(), NtStatus> {
        let node = self.nodes.get_mut(&open.inode).expect("an open keeps its node");
        if let Some(stream) = &open.stream {
            return match node.streams.remove(stream) {
                Some(_) => Ok(()),
                None => Err(NtStatus::OBJECT_NAME_NOT_FOUND),
            };
        }
        if node.entries().is_some_and(|entries| !entries.is_empty()) {
            return Err(NtStatus::DIRECTORY_NOT_EMPTY);
        }
        let place = self.locate(open.root, &open.path)?;
        if place.inode != Some(open.inode) || open.path.is_root() {
            return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
        }
        self.remove_name(place.parent, open.path.file_name());
        Ok(())
    }

    /// Removes a name; the node stays while it has other names or opens.
    pub(super) fn remove_name(&mut self, directory: u64, name: &str) {
        let entries = self.nodes.get_mut(&directory).and_then(Node::entries_mut);
        let Some((_, inode)) = entries.and_then(|entries| entries.remove(&fold(name))) else {
            return;
        };
        let node = self.nodes.get_mut(&inode).expect("a name leads to a node");
        node.links -= 1;
        self.forget_if_unused(inode);
    }

    fn forget_if_unused(&mut self, inode: u64) {
        if self.nodes.get(&inode).is_some_and(|node| node.links == 0 && node.opens == 0) {
            self.nodes.remove(&inode);
        }
    }
}

fn verify_existing(request: &OpenRequest, node: &Node) -> Result<(), NtStatus> {
    if request.path.stream().is_some() {
        return Ok(());
    }
    let is_wrong_kind = request.kind == RequestedKind::File && node.is_directory();
    if request.disposition == Disposition::Create && !is_wrong_kind {
        return Err(NtStatus::OBJECT_NAME_COLLISION);
    }
    match (request.kind, node.is_directory()) {
        (RequestedKind::Directory, false) => Err(NtStatus::NOT_A_DIRECTORY),
        (RequestedKind::File, true) => Err(NtStatus::FILE_IS_A_DIRECTORY),
        (_, true) if request.disposition.overwrites() => Err(NtStatus::INVALID_PARAMETER),
        _ => Ok(()),
    }?;
    if request.delete_on_close
        && (node.attributes.contains(FileAttributes::READONLY) || request.path.is_root())
    {
        return Err(NtStatus::CANNOT_DELETE);
    }
    if request.disposition.overwrites() {
        let marks = FileAttributes::HIDDEN | FileAttributes::SYSTEM;
        if !request.attributes.contains(node.attributes & marks) {
            return Err(NtStatus::ACCESS_DENIED);
        }
    }
    Ok(())
}

fn grant(request: &OpenRequest, node: &Node, is_new: bool) -> Result<AccessMask, NtStatus> {
    let writes = AccessMask::WRITE_DATA | AccessMask::APPEND_DATA;
    let wanted = request.desired_access.difference(AccessMask::MAXIMUM_ALLOWED);
    let overwrites = request.disposition.overwrites() && request.path.stream().is_none();
    let required = if overwrites { wanted | AccessMask::WRITE_DATA } else { wanted };
    let protected = node.attributes.contains(FileAttributes::READONLY)
        && !node.is_directory()
        && !request.is_reconnect;
    if protected && required.intersects(writes) && !is_new {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if !request.share_access_max.contains(required) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if !request.desired_access.contains(AccessMask::MAXIMUM_ALLOWED) {
        return Ok(wanted);
    }
    let taken = if protected { writes } else { AccessMask::empty() };
    Ok(request.share_access_max.difference(taken) | wanted)
}

/// Returns the stream's folded name, and true if it was created.
fn open_stream(
    disposition: Disposition,
    node: &mut Node,
    wanted: &str,
) -> Result<(String, bool), NtStatus> {
    let folded = fold(wanted);
    if node.streams.contains_key(&folded) {
        return match disposition {
            Disposition::Create => Err(NtStatus::OBJECT_NAME_COLLISION),
            _ => Ok((folded, false)),
        };
    }
    if !disposition.creates() {
        return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
    }
    let stream = Stream { name: wanted.to_owned(), data: SparseBytes::default() };
    node.streams.insert(folded.clone(), stream);
    Ok((folded, true))
}
