//! A share in a temporary directory, and requests to it in short form.

#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(unreachable_pub, reason = "a module of several test binaries")]

pub mod depot;
pub mod posix_acl;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use dtyp::{AccessMask, FileAttributes, NtStatus, SecurityDescriptor, SecurityInformation};
use object::{
    BasicChange, DirectoryEntry, Disposition, EntryDetail, LocalOpen, Metadata, ObjectOp,
    ObjectPath, ObjectReply, ObjectResult, OpenRequest, Opened, RequestedKind, RootId, StreamEntry,
    UserId,
};
use rustix::thread::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use store::{Credentials, RootSettings, Started, Store, StoreSettings};
use tempfile::TempDir;
use uring::Op;

pub const READ: AccessMask = AccessMask::FILE_GENERIC_READ;
pub const WRITE: AccessMask = AccessMask::FILE_GENERIC_WRITE;
pub const DELETE: AccessMask = AccessMask::DELETE;

pub struct Share {
    pub store: Store,
    pub root: RootId,
    pub user: UserId,
    pub folder: TempDir,
}

/// Request that tests begin with: open an existing object for reading.
pub fn request(root: RootId, path: &str) -> OpenRequest {
    OpenRequest {
        root,
        path: ObjectPath::parse(path).expect("a path"),
        disposition: Disposition::Open,
        kind: RequestedKind::Any,
        desired_access: READ,
        share_access_max: AccessMask::FILE_ALL,
        attributes: FileAttributes::empty(),
        allocation_size: 0,
        open_reparse_point: false,
        delete_on_close: false,
        write_through: false,
        is_reconnect: false,
        security: None,
        posix_mode: None,
        extended_attributes: Vec::new(),
    }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub fn me() -> Credentials {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    Credentials { uid: uid.as_raw(), gid: gid.as_raw(), ..Credentials::default() }
}

/// Somebody whom only numbers stand for, in a group of the same number and in `groups`.
pub fn account(id: u32, groups: &[u32]) -> Credentials {
    Credentials { uid: id, gid: id, groups: groups.to_vec(), ..Credentials::default() }
}

impl Share {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// A share with other settings than the default ones.
    pub fn with(change: impl FnOnce(&mut RootSettings)) -> Self {
        // A busy machine pauses no listing.
        let settings = StoreSettings { listing_time: Duration::MAX, ..StoreSettings::default() };
        Self::in_store(settings, change)
    }

    /// The same in a store with settings of its own.
    pub fn in_store(store: StoreSettings, change: impl FnOnce(&mut RootSettings)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let shared = folder.path().join("share");
        std::fs::create_dir(&shared).expect("a directory");
        for path in [folder.path(), &shared] {
            let mode = std::fs::Permissions::from_mode(0o777);
            std::fs::set_permissions(path, mode).expect("our own directory");
        }
        let mut settings = RootSettings::new(shared);
        change(&mut settings);
        let mut store = Store::new(store);
        let user = store.register_user(me());
        let root = store.open_root(settings, user).expect("the directory is there");
        Self { store, root, user, folder }
    }

    /// The path of something in the share on the host.
    pub fn host(&self, path: &str) -> PathBuf {
        self.folder.path().join("share").join(path)
    }

    /// Something made by a local process, not through the store.
    pub fn local(&mut self, path: &str, content: &str) {
        self.store.revert_to_server();
        std::fs::write(self.host(path), content).expect("writing as the server");
    }

    pub fn local_directory(&mut self, path: &str) {
        self.store.revert_to_server();
        std::fs::create_dir_all(self.host(path)).expect("creating as the server");
    }

    pub fn mode(&mut self, path: &str, mode: u32) {
        self.store.revert_to_server();
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(self.host(path), mode).expect("as the server");
    }

    /// Returns the permission bits of an object of the share.
    pub fn mode_of(&mut self, path: &str) -> u32 {
        self.store.revert_to_server();
        let metadata = std::fs::metadata(self.host(path)).expect("it is there");
        metadata.permissions().mode() & 0o7777
    }

    /// Does what a local process of somebody's would do, on a thread that has their rights.
    pub fn locally<T: Send>(&mut self, who: &Credentials, act: impl FnOnce() -> T + Send) -> T {
        self.store.revert_to_server();
        let (uid, gid) = (Uid::from_raw(who.uid), Gid::from_raw(who.gid));
        let groups: Vec<_> = who.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        let act = move || {
            set_thread_groups(&groups).expect("root");
            set_thread_res_gid(gid, gid, gid).expect("root");
            set_thread_res_uid(uid, uid, uid).expect("root");
            act()
        };
        std::thread::scope(|scope| scope.spawn(act).join().expect("no panic"))
    }

    /// `chmod` and `chgrp` by a local process: the group first, or it would take bits of the mode.
    pub fn local_mode(&mut self, who: &Credentials, path: &str, group: Option<u32>, mode: u32) {
        let path = self.host(path);
        self.locally(who, || {
            std::os::unix::fs::chown(&path, None, group).expect("its owner is in the group");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))
                .expect("its owner");
        });
    }

    /// Changes a part of a descriptor.
    pub fn write_security(
        &mut self,
        open: LocalOpen,
        information: SecurityInformation,
        descriptor: &SecurityDescriptor,
    ) -> Result<(), NtStatus> {
        let descriptor = Bytes::from(descriptor.to_bytes());
        let information = information.bits();
        self.run(ObjectOp::WriteSecurity { open, information, descriptor, nfs_entries: false })
            .map(drop)
    }

    pub fn content(&mut self, path: &str) -> String {
        self.store.revert_to_server();
        std::fs::read_to_string(self.host(path)).expect("it is there")
    }

    /// Another user, if we may be others.
    pub fn stranger(&mut self) -> Option<UserId> {
        let groups = vec![12_346];
        let stranger = Credentials { uid: 12_345, gid: 12_345, groups, ..Credentials::default() };
        is_root().then(|| self.store.register_user(stranger))
    }

    pub fn run(&mut self, op: ObjectOp) -> ObjectResult {
        let started = self.store.start(self.user, op);
        self.drive(started)
    }

    pub fn drive(&mut self, mut started: Started) -> ObjectResult {
        loop {
            match started {
                Started::Done(result) => return result,
                Started::Submit(op, continuation) => {
                    let (op, result) = perform(op);
                    started = self.store.finish(continuation, op, result);
                }
            }
        }
    }

    pub fn request(&self, path: &str) -> OpenRequest {
        request(self.root, path)
    }

    pub fn try_open(
        &mut self,
        path: &str,
        change: impl FnOnce(&mut OpenRequest),
    ) -> Result<Opened, NtStatus> {
        let mut request = self.request(path);
        change(&mut request);
        match self.run(ObjectOp::Open(Box::new(request)))? {
            ObjectReply::Opened(opened) => Ok(*opened),
            ObjectReply::Stopped(_) => Err(NtStatus::STOPPED_ON_SYMLINK),
            other => panic!("an open answers with {other:?}"),
        }
    }

    #[track_caller]
    pub fn open(&mut self, path: &str) -> LocalOpen {
        self.try_open(path, |_| {}).expect("it can be opened").open
    }

    #[track_caller]
    pub fn open_for(&mut self, path: &str, access: AccessMask) -> LocalOpen {
        self.try_open(path, |request| request.desired_access = access)
            .expect("it can be opened")
            .open
    }

    /// Creates a file and leaves it open for everything.
    #[track_caller]
    pub fn create(&mut self, path: &str) -> LocalOpen {
        let created = self.try_open(path, |request| {
            request.disposition = Disposition::Create;
            request.desired_access = READ | WRITE | DELETE;
        });
        created.expect("it can be created").open
    }

    #[track_caller]
    pub fn create_directory(&mut self, path: &str) -> LocalOpen {
        let created = self.try_open(path, |request| {
            request.disposition = Disposition::Create;
            request.kind = RequestedKind::Directory;
            request.desired_access = READ | WRITE | DELETE;
        });
        created.expect("it can be created").open
    }

    #[track_caller]
    pub fn status_of(&mut self, path: &str, change: impl FnOnce(&mut OpenRequest)) -> NtStatus {
        match self.try_open(path, change) {
            Ok(opened) => {
                self.close(opened.open);
                NtStatus::SUCCESS
            }
            Err(status) => status,
        }
    }

    #[track_caller]
    pub fn close(&mut self, open: LocalOpen) {
        self.done(ObjectOp::Close { open, unlink: false });
    }

    pub fn unlink(&mut self, open: LocalOpen) -> Result<(), NtStatus> {
        self.run(ObjectOp::Close { open, unlink: true }).map(drop)
    }

    #[track_caller]
    pub fn done(&mut self, op: ObjectOp) {
        match self.run(op) {
            Ok(ObjectReply::Done) => {}
            other => panic!("not done: {other:?}"),
        }
    }

    #[track_caller]
    pub fn write(&mut self, open: LocalOpen, offset: u64, data: &[u8]) {
        let data = Bytes::copy_from_slice(data);
        let op = ObjectOp::Write {
            open,
            offset,
            data,
            piped: None,
            write_through: false,
            verify_locks: false,
        };
        match self.run(op) {
            Ok(ObjectReply::Written(_)) => {}
            other => panic!("not written: {other:?}"),
        }
    }

    #[track_caller]
    pub fn read(&mut self, open: LocalOpen, offset: u64, length: u32) -> Vec<u8> {
        let buffer = BytesMut::with_capacity(usize::try_from(length).expect("64 bits"));
        match self.run(ObjectOp::Read {
            open,
            offset,
            length,
            buffer,
            may_pipe: false,
            verify_locks: false,
        }) {
            Ok(ObjectReply::Read(buffer)) => buffer.to_vec(),
            other => panic!("not read: {other:?}"),
        }
    }

    #[track_caller]
    pub fn metadata(&mut self, open: LocalOpen) -> Metadata {
        match self.run(ObjectOp::QueryMetadata { open, with_ea_size: true }) {
            Ok(ObjectReply::Metadata(metadata)) => *metadata,
            other => panic!("no metadata: {other:?}"),
        }
    }

    #[track_caller]
    pub fn set(&mut self, open: LocalOpen, basic: BasicChange) {
        self.done(ObjectOp::SetBasic { open, basic: basic.into() });
    }

    pub fn rename(
        &mut self,
        open: LocalOpen,
        target: &str,
        replace: bool,
    ) -> Result<String, NtStatus> {
        let target = ObjectPath::parse(target).expect("a path");
        match self.run(ObjectOp::Rename { open, target: target.into(), replace })? {
            ObjectReply::Renamed(path, _) => Ok(path.to_windows()),
            other => panic!("a rename answers with {other:?}"),
        }
    }

    #[track_caller]
    pub fn entries(&mut self, open: LocalOpen, restart: bool, max: u32) -> Vec<DirectoryEntry> {
        let detail = EntryDetail::Metadata;
        match self.run(ObjectOp::ReadDirectory { open, restart, detail, entries_max: max }) {
            Ok(ObjectReply::Entries(entries)) => entries,
            other => panic!("no entries: {other:?}"),
        }
    }

    #[track_caller]
    pub fn names(&mut self, path: &str) -> Vec<String> {
        let open = self.open(path);
        let mut names = Vec::new();
        loop {
            let entries = self.entries(open, false, 100);
            if entries.is_empty() {
                self.close(open);
                names.sort();
                return names;
            }
            names.extend(entries.into_iter().map(|entry| entry.name));
        }
    }

    #[track_caller]
    pub fn streams(&mut self, open: LocalOpen) -> Vec<StreamEntry> {
        match self.run(ObjectOp::ListStreams { open }) {
            Ok(ObjectReply::Streams(streams)) => streams,
            other => panic!("no streams: {other:?}"),
        }
    }

    /// An extended attribute as the host has it.
    pub fn attribute(&mut self, path: &str, name: &str) -> Option<Vec<u8>> {
        self.store.revert_to_server();
        let mut value = vec![0; 65_536];
        let length = rustix::fs::getxattr(self.host(path), name, &mut value[..]).ok()?;
        value.truncate(length);
        Some(value)
    }

    pub fn set_attribute(&mut self, path: &str, name: &str, value: &[u8]) {
        self.store.revert_to_server();
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(self.host(path), name, value, flags).expect("as the server");
    }
}

/// Performs the ring's operations by plain system calls.
fn perform(op: Op) -> (Op, std::io::Result<usize>) {
    use std::os::fd::BorrowedFd;
    match op {
        Op::ReadAt { file, offset, mut buffer, length, in_thread } => {
            // SAFETY: the continuation keeps the file open.
            let fd = unsafe { BorrowedFd::borrow_raw(file) };
            let mut data = vec![0; length];
            let result = rustix::io::pread(fd, &mut data[..], offset).map_err(Into::into);
            if let Ok(count) = result {
                buffer.extend_from_slice(&data[..count]);
            }
            (Op::ReadAt { file, offset, buffer, length, in_thread }, result)
        }
        Op::Sync { file, data_only } => {
            // SAFETY: the continuation keeps the file open.
            let fd = unsafe { BorrowedFd::borrow_raw(file) };
            let result = rustix::fs::fsync(fd).map(|()| 0).map_err(Into::into);
            (Op::Sync { file, data_only }, result)
        }
        other => panic!("the store does not submit {other:?}"),
    }
}
