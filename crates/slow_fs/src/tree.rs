//! The files and directories, in memory.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::time::SystemTime;

use fuser::{FileAttr, FileType, INodeNo};

/// Block size that is reported.
const BLOCK_BYTES: u32 = 4096;

/// One file or directory, without its name.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) is_directory: bool,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) modified: SystemTime,
    pub(crate) changed: SystemTime,
    pub(crate) data: Vec<u8>,
    pub(crate) entries: BTreeMap<OsString, u64>,
    pub(crate) attributes: BTreeMap<OsString, Vec<u8>>,
}

/// All nodes, removed ones included: tests are short.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: BTreeMap<u64, Node>,
}

/// Errno of a failed operation.
pub(crate) type Failure = i32;

impl Node {
    fn new(is_directory: bool, mode: u32, (uid, gid): (u32, u32)) -> Self {
        let now = SystemTime::now();
        Self {
            is_directory,
            mode: mode & 0o7777,
            uid,
            gid,
            modified: now,
            changed: now,
            data: Vec::new(),
            entries: BTreeMap::new(),
            attributes: BTreeMap::new(),
        }
    }

    fn kind(&self) -> FileType {
        if self.is_directory { FileType::Directory } else { FileType::RegularFile }
    }

    /// Sets the length of the data.
    pub(crate) fn resize(&mut self, size: u64) -> Result<(), Failure> {
        self.data.resize(usize::try_from(size).map_err(|_| libc::EFBIG)?, 0);
        Ok(())
    }
}

impl Tree {
    /// An empty root of this user and group.
    pub(crate) fn new(uid: u32, gid: u32) -> Self {
        let root = Node::new(true, 0o777, (uid, gid));
        Self { nodes: BTreeMap::from([(INodeNo::ROOT.0, root)]) }
    }

    pub(crate) fn node(&self, number: INodeNo) -> Result<&Node, Failure> {
        self.nodes.get(&number.0).ok_or(libc::ESTALE)
    }

    pub(crate) fn node_mut(&mut self, number: INodeNo) -> Result<&mut Node, Failure> {
        self.nodes.get_mut(&number.0).ok_or(libc::ESTALE)
    }

    pub(crate) fn find(&self, parent: INodeNo, name: &OsStr) -> Result<INodeNo, Failure> {
        self.node(parent)?.entries.get(name).map(|number| INodeNo(*number)).ok_or(libc::ENOENT)
    }

    pub(crate) fn make(
        &mut self,
        parent: INodeNo,
        name: &OsStr,
        (is_directory, mode): (bool, u32),
        owner: (u32, u32),
    ) -> Result<INodeNo, Failure> {
        if self.find(parent, name).is_ok() {
            return Err(libc::EEXIST);
        }
        let number = self.nodes.keys().next_back().map_or(2, |last| last + 1);
        self.nodes.insert(number, Node::new(is_directory, mode, owner));
        self.touch(parent)?.entries.insert(name.to_owned(), number);
        Ok(INodeNo(number))
    }

    pub(crate) fn remove(
        &mut self,
        parent: INodeNo,
        name: &OsStr,
        is_directory: bool,
    ) -> Result<(), Failure> {
        let node = self.node(self.find(parent, name)?)?;
        match (is_directory, node.is_directory) {
            (true, false) => return Err(libc::ENOTDIR),
            (false, true) => return Err(libc::EISDIR),
            _ if !node.entries.is_empty() => return Err(libc::ENOTEMPTY),
            _ => {}
        }
        self.touch(parent)?.entries.remove(name);
        Ok(())
    }

    pub(crate) fn rename(
        &mut self,
        (from, name): (INodeNo, &OsStr),
        (to, new_name): (INodeNo, &OsStr),
        may_replace: bool,
    ) -> Result<(), Failure> {
        let number = self.find(from, name)?;
        if !may_replace && self.find(to, new_name).is_ok() {
            return Err(libc::EEXIST);
        }
        self.touch(from)?.entries.remove(name);
        self.touch(to)?.entries.insert(new_name.to_owned(), number.0);
        Ok(())
    }

    /// The entries of a directory from a position on, with the position behind each.
    pub(crate) fn list(
        &self,
        directory: INodeNo,
        from: u64,
    ) -> Result<Vec<(INodeNo, u64, FileType, OsString)>, Failure> {
        let special = [".", ".."].map(|name| (OsString::from(name), directory.0));
        let entries = &self.node(directory)?.entries;
        let all = special.into_iter().chain(entries.iter().map(|(n, it)| (n.clone(), *it)));
        let listed = (1..).zip(all).filter(|(position, _)| *position > from);
        let entry = |(position, (name, number))| {
            let number = INodeNo(number);
            Ok((number, position, self.node(number)?.kind(), name))
        };
        listed.map(entry).collect()
    }

    pub(crate) fn status(&self, number: INodeNo) -> Result<FileAttr, Failure> {
        let node = self.node(number)?;
        let size = u64::try_from(node.data.len()).map_err(|_| libc::EFBIG)?;
        Ok(FileAttr {
            ino: number,
            size,
            blocks: size.div_ceil(512),
            atime: node.modified,
            mtime: node.modified,
            ctime: node.changed,
            crtime: node.modified,
            kind: node.kind(),
            perm: u16::try_from(node.mode).map_err(|_| libc::EINVAL)?,
            nlink: if node.is_directory { 2 } else { 1 },
            uid: node.uid,
            gid: node.gid,
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        })
    }

    fn touch(&mut self, directory: INodeNo) -> Result<&mut Node, Failure> {
        let node = self.node_mut(directory)?;
        node.modified = SystemTime::now();
        node.changed = node.modified;
        Ok(node)
    }
}
