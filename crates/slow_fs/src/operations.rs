//! The operations of FUSE, each through the gate.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};

use crate::gate::{Gate, Operation};
use crate::tree::{Failure, Tree};

/// Lifetime of names and attributes in the kernel's caches.
const NO_TIME: Duration = Duration::ZERO;

/// The tree, behind its gate.
#[derive(Debug)]
pub(crate) struct Served {
    tree: Mutex<Tree>,
    gate: Arc<Gate>,
}

impl Served {
    pub(crate) fn new(tree: Tree, gate: Arc<Gate>) -> Self {
        Self { tree: Mutex::new(tree), gate }
    }

    /// Carries an operation out once its gate lets it pass.
    fn run<T: Debug>(
        &self,
        operation: Operation,
        work: impl FnOnce(&mut Tree) -> Result<T, Failure>,
    ) -> Result<T, Errno> {
        let result = self.gate.pass(operation).and_then(|()| work(&mut self.lock()));
        result.map_err(Errno::from_i32)
    }

    fn lock(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn owner(request: &Request) -> (u32, u32) {
    (request.uid(), request.gid())
}

fn answer_entry(result: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match result {
        Ok(status) => reply.entry(&NO_TIME, &status, Generation(0)),
        Err(errno) => reply.error(errno),
    }
}

fn answer_status(result: Result<FileAttr, Errno>, reply: ReplyAttr) {
    match result {
        Ok(status) => reply.attr(&NO_TIME, &status),
        Err(errno) => reply.error(errno),
    }
}

fn answer_empty(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn answer_open(result: Result<(), Errno>, reply: ReplyOpen) {
    match result {
        Ok(()) => reply.opened(FileHandle(0), FopenFlags::empty()),
        Err(errno) => reply.error(errno),
    }
}

/// Answers with a value, or with its length if there is no room for anything.
fn answer_value(result: Result<Vec<u8>, Errno>, size: u32, reply: ReplyXattr) {
    match result {
        Err(errno) => reply.error(errno),
        Ok(value) => match u32::try_from(value.len()) {
            Ok(length) if size == 0 => reply.size(length),
            Ok(length) if length <= size => reply.data(&value),
            _ => reply.error(Errno::ERANGE),
        },
    }
}

/// A range of data as indices.
fn index(offset: u64) -> Result<usize, Failure> {
    usize::try_from(offset).map_err(|_| libc::EFBIG)
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Otherwise the kernel looks up one name of a directory after the other. Old ones do so in
        // any case.
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let find = |tree: &mut Tree| tree.status(tree.find(parent, name)?);
        answer_entry(self.run(Operation::Lookup, find), reply);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        answer_status(self.run(Operation::GetAttributes, |tree| tree.status(number)), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = |tree: &mut Tree| {
            let node = tree.node_mut(number)?;
            node.mode = mode.map_or(node.mode, |mode| mode & 0o7777);
            node.uid = uid.unwrap_or(node.uid);
            node.gid = gid.unwrap_or(node.gid);
            if let Some(size) = size {
                node.resize(size)?;
            }
            node.changed = SystemTime::now();
            match modified {
                Some(TimeOrNow::SpecificTime(time)) => node.modified = time,
                Some(TimeOrNow::Now) => node.modified = node.changed,
                None => {}
            }
            tree.status(number)
        };
        answer_status(self.run(Operation::SetAttributes, change), reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let make = |tree: &mut Tree| {
            let number = tree.make(parent, name, (true, mode & !umask), owner(request))?;
            tree.status(number)
        };
        answer_entry(self.run(Operation::MakeDirectory, make), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = |tree: &mut Tree| tree.remove(parent, name, false);
        answer_empty(self.run(Operation::Unlink, remove), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = |tree: &mut Tree| tree.remove(parent, name, true);
        answer_empty(self.run(Operation::Unlink, remove), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let may_replace = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        let rename =
            |tree: &mut Tree| tree.rename((parent, name), (new_parent, new_name), may_replace);
        answer_empty(self.run(Operation::Rename, rename), reply);
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let open = |tree: &mut Tree| {
            if flags.0 & libc::O_TRUNC != 0 {
                tree.node_mut(number)?.resize(0)?;
            }
            tree.node(number).map(drop)
        };
        answer_open(self.run(Operation::Open, open), reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let make = |tree: &mut Tree| {
            let number = tree.make(parent, name, (false, mode & !umask), owner(request))?;
            tree.status(number)
        };
        match self.run(Operation::Create, make) {
            Ok(status) => {
                let (generation, handle) = (Generation(0), FileHandle(0));
                reply.created(&NO_TIME, &status, generation, handle, FopenFlags::empty());
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = |tree: &mut Tree| {
            let rest = tree.node(number)?.data.get(index(offset)?..).unwrap_or_default();
            Ok(rest[..rest.len().min(index(u64::from(size))?)].to_vec())
        };
        match self.run(Operation::Read, read) {
            Ok(data) => reply.data(&data),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let write = |tree: &mut Tree| {
            let node = tree.node_mut(number)?;
            let start = index(offset)?;
            let end = start.checked_add(data.len()).ok_or(libc::EFBIG)?;
            if node.data.len() < end {
                node.data.resize(end, 0);
            }
            node.data[start..end].copy_from_slice(data);
            node.modified = SystemTime::now();
            node.changed = node.modified;
            u32::try_from(data.len()).map_err(|_| libc::EINVAL)
        };
        match self.run(Operation::Write, write) {
            Ok(count) => reply.written(count),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer_empty(self.run(Operation::Sync, |_| Ok(())), reply);
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let open = |tree: &mut Tree| tree.node(number).map(drop);
        answer_open(self.run(Operation::OpenDirectory, open), reply);
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.run(Operation::ReadDirectory, |tree| tree.list(number, offset)) {
            Err(errno) => reply.error(errno),
            Ok(entries) => {
                for (number, next, kind, name) in entries {
                    if reply.add(number, next, kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.run(Operation::FileSystemStatus, |_| Ok(())) {
            Ok(()) => reply.statfs(1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 19, 4096, 255, 4096),
            Err(errno) => reply.error(errno),
        }
    }

    fn setxattr(
        &self,
        _: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        _: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let set = |tree: &mut Tree| {
            let node = tree.node_mut(number)?;
            node.attributes.insert(name.to_owned(), value.to_vec());
            node.changed = SystemTime::now();
            Ok(())
        };
        answer_empty(self.run(Operation::SetExtendedAttribute, set), reply);
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let get =
            |tree: &mut Tree| tree.node(number)?.attributes.get(name).cloned().ok_or(libc::ENODATA);
        answer_value(self.run(Operation::GetExtendedAttribute, get), size, reply);
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let list = |tree: &mut Tree| {
            let names = tree.node(number)?.attributes.keys();
            Ok(names.flat_map(|name| [name.as_encoded_bytes(), b"\0"].concat()).collect())
        };
        answer_value(self.run(Operation::ListExtendedAttributes, list), size, reply);
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = |tree: &mut Tree| {
            let node = tree.node_mut(number)?;
            node.changed = SystemTime::now();
            node.attributes.remove(name).map(drop).ok_or(libc::ENODATA)
        };
        answer_empty(self.run(Operation::RemoveExtendedAttribute, remove), reply);
    }
}
