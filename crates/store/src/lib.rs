//! POSIX files as the object store: names, opens, extended attributes, streams.
//!
//! [`Store::start`] does one [`ObjectOp`] for one user. What can be done without waiting for a disk
//! is done at once; the rest comes back as an operation for the ring, and [`Store::finish`] reads
//! its outcome. A store belongs to one thread, whose credentials it changes.
//!
//! Needs Linux with `/proc` mounted. `open::lookup` keeps paths inside a share,
//! `security::credentials` impersonates users, `errno` chooses the statuses.

mod cache;
mod data;
mod directory;
pub mod errno;
mod metadata;
mod model;
mod moving;
mod names;
mod open;
mod security;
mod settings;
mod sys;

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dtyp::NtStatus;
use object::{
    INDICES_MAX, LocalOpen, ObjectKind, ObjectOp, ObjectPath, ObjectReply, ObjectResult, Piped,
    RootId, UserId,
};
use rustix::fs::{Mode, OFlags};

pub use data::piped;
pub use data::range::FoundRanges;
pub use model::folder::Folder;
pub use moving::MovingStore;
pub use names::character_mappings::CharacterMappings;
pub use security::credentials::take_server_rights;
pub use security::host_rights::{HostEntry, HostRights};
pub use settings::{
    Credentials, DefaultStyle, DepotSettings, DomainIds, Hide, InheritOwner, LockChecks,
    MangledNames, ModeAttributes, NameFormat, NamePrefix, NewCase, NtAclSettings, Piping,
    ReadOnlySource, RecycleSettings, RootSettings, SnapshotDirectory, SnapshotNames, SnapshotOrder,
    SnapshotSettings, StoreSettings, Touch, Trustee,
};
pub use sys::system::has_fine_times;

use crate::cache::directories::Directories;
use crate::cache::file_caches::FileCaches;
use crate::cache::name_hashes::NameHashes;
use crate::data::piped::Pipes;
use crate::data::read_write::{self, ReadOptions, WriteOptions};
use crate::errno::{During, Operation};
use crate::metadata::basic::Seen;
use crate::model::folder;
use crate::model::opens::Opens;
use crate::model::root::Root;
use crate::open::overwrite::Overwrite;
use crate::security::credentials::Impersonation;
use crate::sys::system;
use crate::sys::system::Extents;

/// The object store of one worker.
#[derive(Debug)]
pub struct Store {
    settings: StoreSettings,
    impersonation: Impersonation,
    roots: Vec<Option<Rc<Root>>>,
    opens: Opens,
    directories: Directories,
    files: Rc<FileCaches>,
    names: NameHashes,
    names_left_out: u64,
    listing_paused: bool,
    more_waits: bool,
    serves_frame: bool,
    seen: Option<Seen>,
    pipes: Pipes,
}

/// Result of starting an operation.
#[derive(Debug)]
#[must_use]
pub enum Started {
    /// The operation is finished, with this result.
    Done(ObjectResult),
    /// The ring is to do this; its outcome and the continuation belong to [`Store::finish`].
    Submit(uring::Op, Continuation),
}

/// State of an operation that the ring works on. Keeps the file open until the ring is done.
#[derive(Debug)]
#[must_use]
pub struct Continuation {
    pending: read_write::Pending,
}

impl Store {
    /// Makes a store without shares and users.
    ///
    /// Clears the umask of this thread, because the settings of shares alone decide the modes of
    /// created files. Whatever else this thread creates must name its mode.
    #[must_use]
    pub fn new(settings: StoreSettings) -> Self {
        system::leave_umask_of_process();
        rustix::process::umask(Mode::empty());
        Self {
            impersonation: Impersonation::new(settings.impersonate_users)
                .with_domain_ids(settings.domain_ids.clone()),
            roots: Vec::new(),
            opens: Opens::new(settings.opens_max, settings.number),
            directories: Directories::default(),
            files: Rc::default(),
            names: NameHashes::default(),
            names_left_out: 0,
            listing_paused: false,
            more_waits: false,
            serves_frame: false,
            seen: None,
            pipes: Pipes::default(),
            settings,
        }
    }

    /// Returns the registered users in the order of their ids. Another store that registers the
    /// same credentials in the same order assigns the same ids.
    pub fn users(&self) -> impl ExactSizeIterator<Item = &Credentials> {
        self.impersonation.users()
    }

    /// Returns the ids of the domain, for another store of this process.
    #[must_use]
    pub fn domain_ids(&self) -> Option<Arc<dyn DomainIds>> {
        self.settings.domain_ids.clone()
    }

    /// Registers a user. The same credentials always get the same id.
    pub fn register_user(&mut self, credentials: Credentials) -> UserId {
        self.impersonation.register(credentials)
    }

    /// Reverts the thread to the server's own rights, for work that is not a user's. Returns
    /// whether it has them; without `impersonate_users` it always has.
    pub fn revert_to_server(&mut self) -> bool {
        self.impersonation.revert_to_server() || !self.settings.impersonate_users
    }

    /// Opens the directory of a share and serves it, with the rights of `user`. A directory that
    /// the user may not enter is served as well, but no file in it can be opened.
    ///
    /// # Errors
    /// Those of [`Store::open_share_folder`] and [`Store::serve_folder`].
    pub fn open_root(&mut self, settings: RootSettings, user: UserId) -> Result<RootId, NtStatus> {
        let folder = self.open_share_folder(&settings.path, user)?;
        self.serve_folder(folder, settings, user)
    }

    /// Opens the directory of a share with the rights of `user`, which the thread has afterwards.
    ///
    /// # Errors
    /// BAD_NETWORK_NAME if it is not there or no directory, ACCESS_DENIED if the user does not get
    /// that far.
    pub fn open_share_folder(&mut self, path: &Path, user: UserId) -> Result<Folder, NtStatus> {
        self.impersonation.impersonate(user)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty());
        let fd = fd.during(Operation::Parent).map_err(|status| {
            let missing = status == NtStatus::OBJECT_PATH_NOT_FOUND;
            if missing { NtStatus::BAD_NETWORK_NAME } else { status }
        })?;
        let status = system::status_of(fd.as_fd()).during(Operation::Parent)?;
        Ok(Folder { fd, status })
    }

    /// Serves a directory as the root of a share.
    ///
    /// # Errors
    /// INSUFF_SERVER_RESOURCES above `roots_max`, ACCESS_DENIED if the user cannot be impersonated.
    pub fn serve_folder(
        &mut self,
        folder: Folder,
        settings: RootSettings,
        user: UserId,
    ) -> Result<RootId, NtStatus> {
        let free = self.roots.iter().position(Option::is_none).unwrap_or(self.roots.len());
        let id = u32::try_from(free).unwrap_or(u32::MAX);
        if id >= self.settings.roots_max.min(INDICES_MAX) {
            return Err(NtStatus::INSUFF_SERVER_RESOURCES);
        }
        self.impersonation.impersonate(user)?;
        let directory = self.directories.intern(folder.fd, &folder.status);
        let root = Some(Rc::new(Root::new(settings, directory, None, Rc::clone(&self.files))));
        if free == self.roots.len() {
            self.roots.push(root);
        } else {
            self.roots[free] = root;
        }
        Ok(RootId(self.settings.number.first_index() + id))
    }

    fn root_place(&self, root: RootId) -> usize {
        let index = root.0.wrapping_sub(self.settings.number.first_index());
        usize::try_from(index).unwrap_or(usize::MAX)
    }

    fn root_at(&self, root: RootId) -> Option<&Rc<Root>> {
        self.roots.get(self.root_place(root))?.as_ref()
    }

    /// Forgets a share. Opens in it stay usable until they are closed.
    pub fn close_root(&mut self, root: RootId) {
        let place = self.root_place(root);
        if let Some(slot) = self.roots.get_mut(place) {
            *slot = None;
        }
    }

    /// The kernel's number of the device that a share is on.
    #[must_use]
    pub fn device(&self, root: RootId) -> Option<u64> {
        Some(self.root_at(root)?.directory.inode.device)
    }

    /// Returns the path of a share's directory from the root of the host's file system, with all
    /// symbolic links resolved, as the kernel names it.
    #[must_use]
    pub fn folder(&self, root: RootId) -> ObjectPath {
        let Some(root) = self.root_at(root) else { return ObjectPath::root() };
        let path = folder::path_of(root.directory.fd.as_fd());
        let path = path.to_string_lossy();
        ObjectPath::from_stored(path.trim_start_matches('/').to_owned(), None)
    }

    /// Returns whether it has neither opens nor roots.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.opens.count() == 0 && self.roots.iter().all(Option::is_none)
    }

    /// Returns the number of existing opens.
    #[must_use]
    pub fn opens_count(&self) -> usize {
        self.opens.count()
    }

    /// Names that listings left out because no client could send them back.
    #[must_use]
    pub fn names_left_out(&self) -> u64 {
        self.names_left_out
    }

    /// Returns whether the last listing paused for the time that it took, and forgets that. The
    /// same operation without `restart` goes on with it.
    pub fn take_paused_listing(&mut self) -> bool {
        std::mem::take(&mut self.listing_paused)
    }

    /// Sets whether other requests wait while the next operation runs. If so, a thread of the ring
    /// copies the data of a large READ out of the page cache.
    pub fn set_more_waits(&mut self, more_waits: bool) {
        self.more_waits = more_waits;
    }

    /// Returns the share of an open, and whether the share lets data be read into pipes. `None` for
    /// an object without such data.
    #[must_use]
    pub fn piping(&self, open: LocalOpen) -> Option<(RootId, Piping)> {
        let opened = self.opens.get(open).ok()?;
        let is_file = opened.kind == ObjectKind::File && opened.stream.is_none();
        is_file.then_some((opened.root_id, opened.root.settings.piping))
    }

    /// Returns the share of an open if data for it may be written from a pipe.
    #[must_use]
    pub fn takes_pipes(&self, open: LocalOpen) -> Option<RootId> {
        let opened = self.opens.get(open).ok()?;
        let is_file = opened.kind == ObjectKind::File && opened.stream.is_none();
        (is_file && !opened.pipe_support.is_write_impossible.get()).then_some(opened.root_id)
    }

    /// Lends a pipe for this number of bytes to write; `None` if no pipe can be had.
    #[must_use]
    pub fn lend_pipe(&mut self, bytes: usize) -> Option<Piped> {
        self.pipes.lend(&mut self.impersonation, bytes)
    }

    /// Takes back a pipe that came with [`ObjectReply::Piped`], or from [`Store::lend_pipe`].
    pub fn give_back(&mut self, piped: Piped) {
        self.pipes.give(piped);
    }

    /// Returns the time of the next call of [`Store::forget_idle`]; `None` if nothing is kept.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.pipes.next_timeout()
    }

    /// Closes pipes that an idle client does not need.
    pub fn forget_idle(&mut self, now: Instant) {
        self.pipes.forget_idle(now);
    }

    /// Begins the requests of a frame. Metadata that one of them reads also serve the next one,
    /// unless a request in between changes an object.
    pub fn begin_frame(&mut self) {
        self.serves_frame = true;
    }

    /// Ends the requests of a frame: later ones read metadata anew.
    pub fn end_frame(&mut self) {
        self.serves_frame = false;
        self.seen = None;
    }

    /// Keeps metadata for the next request of the frame, and no longer.
    fn keep_for_frame(&mut self, seen: Seen) {
        self.seen = self.serves_frame.then_some(seen);
    }

    /// Begins an operation with the rights of `user`.
    pub fn start(&mut self, user: UserId, op: ObjectOp) -> Started {
        self.begin(user, op).unwrap_or_else(|status| Started::Done(Err(status)))
    }

    fn begin(&mut self, user: UserId, op: ObjectOp) -> Result<Started, NtStatus> {
        if !self.impersonation.is_for(user) && needs_rights(&op) {
            self.impersonation.impersonate(user)?;
        }
        match op {
            ObjectOp::Read { open, offset, length, buffer, may_pipe, verify_locks } => {
                self.seen = None;
                self.read(open, offset, length, buffer, ReadOptions { may_pipe, verify_locks })
            }
            ObjectOp::Open(request) => {
                self.seen = None;
                let opened = self.open(&request).map(|it| ObjectReply::Opened(Box::new(it)));
                let opened = opened.or_else(|status| self.stopped(&request, status));
                Ok(Started::Done(opened.or_else(|status| self.leased(&request, status))))
            }
            other => self.begin_other(other),
        }
    }

    fn begin_other(&mut self, op: ObjectOp) -> Result<Started, NtStatus> {
        let only_asks =
            matches!(op, ObjectOp::QueryMetadata { .. } | ObjectOp::ReadExtendedAttributes { .. });
        if !only_asks {
            self.seen = None;
        }
        let changed = data_changed_by(&op);
        let kept = changed.and_then(|open| Some((open, self.write_time_to_keep(open)?)));
        let started = match op {
            ObjectOp::Write { open, offset, data, piped, write_through, verify_locks } => {
                let options = WriteOptions { write_through, verify_locks };
                self.write(open, offset, data, piped, options)
            }
            ObjectOp::Flush { open } => self.flush(open),
            other => Ok(Started::Done(self.run(other))),
        };
        if let Some((open, kept)) = kept {
            self.keep_write_time(open, kept);
        }
        started
    }

    /// Takes the outcome of the ring's part of an operation.
    pub fn finish(
        &mut self,
        continuation: Continuation,
        op: uring::Op,
        result: io::Result<usize>,
    ) -> Started {
        read_write::finish(continuation.pending, op, result)
    }

    /// Runs an operation that finishes at once.
    fn run(&mut self, op: ObjectOp) -> ObjectResult {
        use {ObjectOp as Op, ObjectReply as Reply};
        match op {
            Op::AllocatedRanges { open, from, to, ranges_max } => {
                let found = self.allocated_ranges(open, (from, to), ranges_max, Duration::MAX);
                found.map(|found| Reply::Ranges(found.ranges))
            }
            Op::Close { open, unlink } => self.close(open, unlink).map(done),
            Op::Claim { open, claim } => self.claim(open, claim),
            Op::CloseAndUnlinkFile { open } => self.close_and_unlink_file(open).map(done),
            Op::CopyRange { source, target, source_offset, target_offset, length } => self
                .copy_range(source, target, (source_offset, target_offset), length)
                .map(Reply::Written),
            Op::CopyStreams { source, target } => self.copy_all_streams(source, target).map(done),
            Op::DeleteReparsePoint { open, tag } => self.delete_reparse_point(open, tag).map(done),
            Op::DuplicateExtents { source, target, source_offset, target_offset, length } => {
                let extents = Extents { source_offset, target_offset, length };
                self.duplicate_extents(source, target, extents).map(done)
            }
            Op::EndLease { open } => self.end_lease(open).map(done),
            Op::FindReferral { root, path } => self.find_referral(root, &path),
            Op::IsEmpty { open } => self.is_empty(open).map(Reply::Empty),
            Op::Link { open, target, replace } => self.link(open, &target, replace).map(done),
            Op::ListSnapshots { open } => self.list_snapshots(open).map(Reply::Snapshots),
            Op::ListStreams { open } => self.list_streams(open).map(Reply::Streams),
            Op::Lock { open, locks } => self.lock(open, &locks).map(done),
            Op::Lookup { root, path } => self.lookup(root, &path).map(metadata),
            Op::Overwrite { open, supersede, attributes, extended_attributes, allocation_size } => {
                let extended_attributes = &extended_attributes;
                let wanted =
                    Overwrite { supersede, attributes, extended_attributes, allocation_size };
                self.overwrite(open, &wanted).map(metadata)
            }
            Op::QueryMetadata { open, with_ea_size } => {
                self.query_metadata(open, with_ea_size).map(metadata)
            }
            Op::Quotas { open, op } => self.run_on_quotas(open, op),
            Op::QueryShortName { open } => self.query_short_name(open).map(Reply::ShortName),
            Op::QueryVolume { open } => {
                self.query_volume(open).map(|volume| Reply::Volume(Box::new(volume)))
            }
            Op::ReadDirectory { open, restart, detail, entries_max } => {
                self.read_directory(open, restart, detail, entries_max).map(Reply::Entries)
            }
            Op::ReadExtendedAttributes { open } => {
                self.read_extended_attributes(open).map(Reply::ExtendedAttributes)
            }
            Op::ReadSecurity { open, information, nfs_entries } => {
                self.read_security(open, information, nfs_entries).map(Reply::Security)
            }
            Op::ReadReparsePoint { open } => self.read_reparse_point(open).map(Reply::ReparsePoint),
            Op::Rename { open, target, replace } => self
                .rename(open, &target, replace)
                .map(|(path, on_disk)| Reply::Renamed(path, on_disk)),
            Op::Relocate { open, path } => self.relocate(open, &path).map(done),
            Op::SetAllocation { open, size } => self.set_allocation(open, size).map(done),
            Op::SetBasic { open, basic } => self.set_basic(open, *basic).map(done),
            Op::SetCompression { open, compressed } => {
                self.set_compression(open, compressed).map(done)
            }
            Op::SetEndOfFile { open, size } => self.set_end_of_file(open, size).map(done),
            Op::SetSparse { open, sparse } => self.set_sparse(open, sparse).map(done),
            Op::Trim { open, from, to } => self.trim(open, from, to).map(done),
            Op::Unlock { open, ranges } => self.unlock(open, &ranges).map(done),
            Op::WriteExtendedAttributes { open, attributes } => {
                self.write_extended_attributes(open, &attributes).map(done)
            }
            Op::WriteReparsePoint { open, buffer } => {
                self.write_reparse_point(open, &buffer).map(done)
            }
            Op::WriteSecurity { open, information, descriptor, nfs_entries } => {
                self.write_security(open, information, &descriptor, nfs_entries).map(done)
            }
            Op::ZeroRange { open, from, to } => self.zero_range(open, from, to).map(done),
            // Taken by `begin` and `begin_other`.
            Op::Flush { .. } | Op::Open(_) | Op::Read { .. } | Op::Write { .. } => {
                Err(NtStatus::INTERNAL_ERROR)
            }
        }
    }
}

fn metadata(metadata: object::Metadata) -> ObjectReply {
    ObjectReply::Metadata(Box::new(metadata))
}

fn done((): ()) -> ObjectReply {
    ObjectReply::Done
}

/// Returns the open through which an operation changes data, and so the last write time.
fn data_changed_by(op: &ObjectOp) -> Option<LocalOpen> {
    match op {
        ObjectOp::CopyRange { target, .. } => Some(*target),
        ObjectOp::SetAllocation { open, .. }
        | ObjectOp::SetEndOfFile { open, .. }
        | ObjectOp::Write { open, .. }
        | ObjectOp::ZeroRange { open, .. } => Some(*open),
        _ => None,
    }
}

/// False for a close and the like: they must succeed even if the user can no longer be
/// impersonated.
fn needs_rights(op: &ObjectOp) -> bool {
    let releases = matches!(op, ObjectOp::EndLease { .. } | ObjectOp::Unlock { .. });
    !releases && !matches!(op, ObjectOp::Close { unlink: false, .. })
}
