//! `Store::open`, and opening what exists: [MS-FSA] 2.1.5.1.2. See [`super`] for the whole.

use crate::open::create::OpenedObject;
use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dtyp::{AccessMask, FileAttributes, NtStatus};
use object::path::join;
use object::{
    Disposition, Metadata, ObjectKind, ObjectPath, ObjectReply, ObjectResult, OpenRequest, Opened,
    RequestedKind,
};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::Store;
use crate::cache::directories::Inode;
use crate::data::kernel_claims::LOOK_TIME;
use crate::errno::{During, Operation};
use crate::metadata::apple_double_conversion;
use crate::metadata::basic::{Seen, Stored, assemble, is_hidden_by_name};
use crate::metadata::reparse;
use crate::metadata::stream::{self, Streams};
use crate::model::held_locks::HeldLocks;
use crate::model::opens::Open;
use crate::model::opens::PipeSupport;
use crate::model::place::Entry;
use crate::model::place::Place;
use crate::model::root::Root;
use crate::model::secured_object::SecuredObject;
use crate::model::stream_name::StreamName;
use crate::open::create::Created;
use crate::security::access::{self, DATA, NamedBy};
use crate::sys::system::{self, Uncached};
use crate::sys::xattr::Xattrs;

/// Attempts to open or create a name that keeps appearing or vanishing between look-up and open.
/// Others have to change it between the two each time, so few attempts suffice.
const ATTEMPTS_MAX: u32 = 4;

/// Rights that need a descriptor for reading.
const READS: AccessMask = AccessMask::READ_DATA.union(AccessMask::EXECUTE);

/// Rights that need a descriptor for writing.
const WRITES: AccessMask = AccessMask::WRITE_DATA.union(AccessMask::APPEND_DATA);

impl Store {
    /// Opens or creates the object of a path, and its stream if the path has one, with the rights
    /// of the impersonated user. Nothing is truncated here: `ObjectOp::Overwrite` does that once
    /// the open is admitted. The engine enters `delete_on_close` in the file's record.
    pub(crate) fn open(&mut self, request: &OpenRequest) -> Result<Opened, NtStatus> {
        let root = self.root(request.root)?;
        // Before the look-up: a new file would be left behind by a later refusal.
        if self.opens.is_full() {
            return Err(NtStatus::TOO_MANY_OPENED_FILES);
        }
        if root.settings.snapshots.is_some() || request.path.snapshot().is_some() {
            let (version, path) = self.version(&root, &request.path)?;
            return match path {
                Cow::Borrowed(_) => self.open_version(&version, request),
                Cow::Owned(path) => {
                    self.open_version(&version, &OpenRequest { path, ..request.clone() })
                }
            };
        }
        self.open_version(&root, request)
    }

    /// As [`Store::open`], within one version of the share: the present one, or a snapshot.
    fn open_version(&mut self, root: &Rc<Root>, request: &OpenRequest) -> Result<Opened, NtStatus> {
        if request.path.stream().is_some() {
            if !root.settings.streams {
                return Err(NtStatus::OBJECT_NAME_INVALID);
            }
            if request.kind == RequestedKind::Directory {
                return Err(NtStatus::NOT_A_DIRECTORY);
            }
        }
        let data_flags = flags_for_data(root, request);
        for attempt in 0..ATTEMPTS_MAX {
            let expects_new = request.disposition.creates() && attempt == 0;
            let link_itself = request.open_reparse_point;
            let mut place =
                self.resolve(root, &request.path, link_itself, expects_new, data_flags)?;
            if let Some(entry) = place.entry.take() {
                return self.open_existing(root, request, place, entry);
            }
            if let Some(parent) = &place.parent {
                reparse::verify_parent_not_reparse(root, parent)?;
            }
            if !request.disposition.creates() {
                return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
            }
            match self.create(root, request, &place)? {
                Created::Exists => {}
                Created::New(object) => {
                    return self.finish_open(root, request, place, object, true);
                }
            }
        }
        // The name is taken, yet there is nothing to open: a link that leads nowhere, or a race
        // that was lost each time.
        Err(NtStatus::OBJECT_NAME_COLLISION)
    }

    /// Returns the file whose open failed with `status` because another program holds a lease. An
    /// open that does not wait asks that program all the same; a later one succeeds.
    pub(crate) fn leased(&mut self, request: &OpenRequest, status: NtStatus) -> ObjectResult {
        if status != NtStatus::RETRY {
            return Err(status);
        }
        let found = self.lookup(request.root, &request.path)?;
        Ok(ObjectReply::Leased(found.identity))
    }

    /// Opens an object that was found, with the rights that the user has and requests.
    fn open_existing(
        &mut self,
        root: &Rc<Root>,
        request: &OpenRequest,
        place: Place,
        entry: Entry,
    ) -> Result<Opened, NtStatus> {
        let is_stream = request.path.stream().is_some();
        let kind = entry.kind;
        if kind != ObjectKind::File || is_stream || !request.accepts_file() {
            verify_kind(request, &entry)?;
        }
        if root.snapshot.is_some() && (request.disposition.overwrites() || request.delete_on_close)
        {
            return Err(NtStatus::MEDIA_WRITE_PROTECTED);
        }
        let fd = entry.fd.as_fd();
        let secured = SecuredObject { fd, path_only: true, status: &entry.status };
        let named_by = NamedBy::of(place.parent.as_ref(), entry.name_inode, &entry.status);
        let maximal = access::maximal_rights(&mut self.impersonation, root, secured, named_by)?;
        let mut maximal = maximal & request.share_access_max;
        // Removing a stream is a change of its file, and another worker may do it later, as root.
        if is_stream && !maximal.contains(AccessMask::WRITE_DATA) {
            maximal.remove(AccessMask::DELETE);
        }
        if self.impersonation.effective().uid == 0 {
            maximal |= AccessMask::ACCESS_SYSTEM_SECURITY;
        }
        let has_data = matches!(kind, ObjectKind::File | ObjectKind::Directory);
        if !has_data {
            maximal.remove(DATA);
        }
        let Stored { dos, lacks_xattrs } =
            Stored::find(root, Some(&entry.status), Xattrs::new(fd, true));
        let attributes = dos.attributes.unwrap_or_default();
        let may_be_reparse = attributes.contains(FileAttributes::REPARSE_POINT);
        if may_be_reparse && has_data && !request.open_reparse_point {
            reparse::verify_not_reparse(Xattrs::new(fd, true), attributes)?;
        }
        let metadata = assemble(root, &place.name, kind, &entry.status, dos);
        let granted_access = verify_access(root, request, &metadata, maximal)?;
        let (fd, path_only, granted_access) = match entry.data_flags {
            // Only without MAXIMUM_ALLOWED: the granted rights are the requested ones, for which
            // `flags_for_data` has chosen the flags.
            Some(_) => (entry.fd, false, granted_access),
            None if is_stream || !has_data => (entry.fd, true, granted_access),
            None => open_data(root, request, entry.fd, kind, granted_access)?,
        };
        let object = OpenedObject {
            fd,
            path_only,
            granted_access,
            maximal_access: maximal.difference(AccessMask::ACCESS_SYSTEM_SECURITY),
            metadata,
            lacks_xattrs,
            name_inode: entry.name_inode,
        };
        self.finish_open(root, request, place, object, false)
    }

    /// Finds or creates the stream, and puts the open into the table. If the object is new, it is
    /// removed again if its stream cannot be made.
    fn finish_open(
        &mut self,
        root: &Rc<Root>,
        request: &OpenRequest,
        place: Place,
        object: OpenedObject,
        is_object_new: bool,
    ) -> Result<Opened, NtStatus> {
        let OpenedObject { fd, path_only, granted_access, maximal_access, .. } = object;
        let mut metadata = object.metadata;
        let (mut stream, mut stream_file) = (None, None);
        let mut is_new = is_object_new;
        if let Some(stream_name) = request.path.stream() {
            if let Some(parent) = place.parent.as_ref().filter(|_| !request.is_to_remove()) {
                let (directory, file) = (parent.directory.fd.as_fd(), (fd.as_fd(), path_only));
                let user = &mut self.impersonation;
                apple_double_conversion::convert(user, root, directory, &place.name, file);
            }
            let xattrs = Xattrs::new(fd.as_fd(), path_only);
            let mut streams = Streams::new(&mut self.impersonation, root, xattrs);
            let may_add = is_object_new || maximal_access.contains(AccessMask::WRITE_DATA);
            let found =
                open_stream(root, request, &mut streams, (stream_name, granted_access), may_add);
            let (name, file, is_stream_new) = match found {
                Err(status) if is_object_new => {
                    self.discard(&place, object.name_inode);
                    return Err(status);
                }
                result => result?,
            };
            let size = streams.size_of(&name, file.as_ref())?;
            stream::describe(&mut metadata, &name, size);
            is_new = is_stream_new;
            stream = Some(name);
            stream_file = file.map(Arc::new);
        }
        let path = path_here(root, request, &place, stream.as_ref());
        // Nothing in a snapshot is renamed or deleted.
        let here = place.parent.as_ref().filter(|_| root.snapshot.is_none());
        let path_on_disk = here.and_then(|parent| parent.join_on_disk(&place.name, &path));
        let path = root.path_in_share(path);
        let parent = place.parent.as_ref().map(|parent| parent.directory.inode.identity());
        let open = self.opens.insert(Open {
            root: root.clone(),
            root_id: request.root,
            fd: Arc::new(fd),
            path_only,
            kind: metadata.kind,
            inode: Inode { device: metadata.identity.device, number: metadata.identity.inode },
            granted_access,
            parent: place.parent.map(|parent| parent.directory),
            name: place.name,
            name_inode: object.name_inode,
            path: path.clone(),
            stream,
            stream_file,
            write_through: request.write_through,
            uncached: Cell::new(Uncached::Refuse),
            ring_waits: Cell::new(false),
            pipe_support: PipeSupport::default(),
            archive_on_write: lacks_archive(&metadata),
            keeps_write_time: false,
            listing: None,
            locks: HeldLocks::default(),
            unlocked_until: Cell::new(unlocked_until(is_object_new)),
            has_lease: false,
        });
        let lacks_xattrs = object.lacks_xattrs;
        self.keep_for_frame(Seen { open, metadata: metadata.clone(), lacks_xattrs });
        Ok(Opened {
            open,
            created: is_new,
            granted_access,
            maximal_access,
            path,
            path_on_disk,
            parent,
            metadata,
        })
    }
}

/// Path of a new open, relative to its root: the share or a snapshot.
fn path_here(
    root: &Root,
    request: &OpenRequest,
    place: &Place,
    stream: Option<&StreamName>,
) -> ObjectPath {
    if request.path.is_posix() {
        // As it is stored already: nothing else would have been found.
        return request.path.clone();
    }
    // A name that is stored as the client has sent it is shown so. Another one may be that of a
    // former short name, which the client cannot send.
    let is_as_sent = place.name == *request.path.file_name();
    let path = match &place.parent {
        Some(parent) if is_as_sent && root.settings.character_mappings.is_empty() => {
            join(&parent.path, &place.name.to_string_lossy())
        }
        _ => place.path(root),
    };
    ObjectPath::from_stored(path, stream.map(|stream| stream.name.clone()))
}

/// True for a file whose first write has to set ARCHIVE.
fn lacks_archive(metadata: &Metadata) -> bool {
    !metadata.attributes.contains(FileAttributes::ARCHIVE) && metadata.kind == ObjectKind::File
}

/// Returns the time until which no program is expected to have locked the file: nobody can have
/// locked a new one.
fn unlocked_until(is_new: bool) -> Duration {
    if is_new { system::coarse_time() + LOOK_TIME } else { Duration::ZERO }
}

/// Verifies the conditions of [MS-FSA] 2.1.5.1 that need no rights. For FILE_CREATE, an existing
/// name is a collision, except where a file is requested and a directory has the name: phase 7.
fn verify_kind(request: &OpenRequest, entry: &Entry) -> Result<(), NtStatus> {
    let stream = request.path.stream().is_some();
    let is_wrong_kind = request.kind == RequestedKind::File && entry.is_directory();
    if request.disposition == Disposition::Create && !stream && !is_wrong_kind {
        return Err(NtStatus::OBJECT_NAME_COLLISION);
    }
    let kind = entry.kind;
    if kind == ObjectKind::SymbolicLink && !request.open_reparse_point {
        return Err(NtStatus::STOPPED_ON_SYMLINK);
    }
    if stream {
        let can_have_streams = matches!(kind, ObjectKind::File | ObjectKind::Directory);
        return if can_have_streams { Ok(()) } else { Err(NtStatus::OBJECT_NAME_NOT_FOUND) };
    }
    match (request.kind, entry.is_directory()) {
        (RequestedKind::Directory, false) => Err(NtStatus::NOT_A_DIRECTORY),
        (RequestedKind::File, true) => Err(NtStatus::FILE_IS_A_DIRECTORY),
        (_, true) if request.disposition.overwrites() => Err(NtStatus::INVALID_PARAMETER),
        _ => Ok(()),
    }
}

/// [MS-FSA] 2.1.5.1.2.1, and the attributes that forbid to overwrite in 2.1.5.1.2. Returns the
/// granted rights.
fn verify_access(
    root: &Root,
    request: &OpenRequest,
    metadata: &Metadata,
    maximal: AccessMask,
) -> Result<AccessMask, NtStatus> {
    let overwrites = request.disposition.overwrites();
    let required = request.desired_access.difference(AccessMask::MAXIMUM_ALLOWED);
    let writes = required.intersects(WRITES) || overwrites;
    let read_only = metadata.attributes.contains(FileAttributes::READONLY);
    if read_only && !metadata.is_directory() && writes && !request.is_reconnect {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if request.delete_on_close {
        let protected = read_only && !root.settings.delete_readonly;
        if protected || request.path.is_root() && request.path.stream().is_none() {
            return Err(NtStatus::CANNOT_DELETE);
        }
    }
    if required.difference(maximal).contains(AccessMask::ACCESS_SYSTEM_SECURITY) {
        return Err(NtStatus::PRIVILEGE_NOT_HELD);
    }
    let needed = if overwrites { required | AccessMask::WRITE_DATA } else { required };
    if !maximal.contains(needed) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if overwrites && request.path.stream().is_none() {
        let marks = FileAttributes::HIDDEN | FileAttributes::SYSTEM;
        let mut kept = metadata.attributes & marks;
        if is_hidden_by_name(root, OsStr::new(request.path.file_name())) {
            kept.remove(FileAttributes::HIDDEN);
        }
        if !request.attributes.contains(kept) {
            return Err(NtStatus::ACCESS_DENIED);
        }
    }
    if !request.desired_access.contains(AccessMask::MAXIMUM_ALLOWED) {
        return Ok(required);
    }
    // MAXIMUM_ALLOWED does not grant ACCESS_SYSTEM_SECURITY.
    let mut granted = maximal.difference(AccessMask::ACCESS_SYSTEM_SECURITY) | required;
    if read_only && !metadata.is_directory() {
        granted.remove(WRITES | AccessMask::DELETE_CHILD);
    }
    // Delete on close requires DELETE even so: another worker may carry out the deletion later, as
    // root.
    if request.delete_on_close && !granted.contains(AccessMask::DELETE) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    Ok(granted)
}

/// Returns the flags to open a file for its data; `None` if it is neither read nor written.
fn open_flags(reads: bool, writes: bool) -> Option<OFlags> {
    let flags = [[None, Some(OFlags::WRONLY)], [Some(OFlags::RDONLY), Some(OFlags::RDWR)]];
    flags[usize::from(reads)][usize::from(writes)]
}

/// Returns the flags with which a granted request opens the data of a file. Returns `None`, for a
/// look-up with O_PATH first, in two cases: the flags depend on the file; or the request is refused
/// for any file, and an open would have side effects on this machine (it breaks a lease, inotify
/// reports it, and in an overlay an open for writing copies the file).
fn flags_for_data(root: &Root, request: &OpenRequest) -> Option<OFlags> {
    let mut access = request.desired_access;
    if request.disposition.overwrites() {
        access |= AccessMask::WRITE_DATA;
    }
    let writes = access.intersects(WRITES);
    let is_refused = !request.share_access_max.contains(access & DATA)
        || writes && root.settings.read_only
        || request.disposition == Disposition::Create
        || request.kind == RequestedKind::Directory;
    let depends_on_file = access.contains(AccessMask::MAXIMUM_ALLOWED)
        || request.path.stream().is_some()
        || root.snapshot.is_some();
    if is_refused || depends_on_file { None } else { open_flags(access.intersects(READS), writes) }
}

/// Opens the object for the granted rights. If the kernel refuses, tries again without those that
/// the request does not require: rights that MAXIMUM_ALLOWED added, and EXECUTE. Returns the
/// descriptor, whether it was opened with O_PATH, and the rights that are left.
fn open_data(
    root: &Root,
    request: &OpenRequest,
    fd: OwnedFd,
    kind: ObjectKind,
    granted: AccessMask,
) -> Result<(OwnedFd, bool, AccessMask), NtStatus> {
    if kind == ObjectKind::Directory {
        // Everything but listing works with O_PATH, and a listing opens a descriptor of its own.
        // The directory is opened here nevertheless, so that no listing is refused later, and for
        // FLUSH.
        if !granted.contains(AccessMask::READ_DATA) {
            return Ok((fd, true, granted));
        }
        let opened = system::reopen(fd.as_fd(), OFlags::RDONLY | OFlags::DIRECTORY);
        return opened.during(Operation::Open).map(|fd| (fd, false, granted));
    }
    if root.snapshot.is_some() {
        // Rights to write are granted, too, but the descriptor is for reading: writes fail. A
        // snapshot of hard links has present files, with leases of other programs.
        return Ok(match system::reopen(fd.as_fd(), OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(fd) => (fd, false, granted),
            Err(_) if !granted.contains(AccessMask::READ_DATA) => (fd, true, granted),
            Err(errno) => return Err(errno).during(Operation::Open),
        });
    }
    let must_write = request.desired_access.intersects(WRITES) || request.disposition.overwrites();
    let must_read = request.desired_access.contains(AccessMask::READ_DATA);
    let reads = granted.intersects(READS);
    let writes = granted.intersects(WRITES) || must_write;
    // Each opens for reading or not, for writing or not, and gives up some rights.
    let attempts = [
        (reads, writes, AccessMask::empty()),
        (reads, must_write, WRITES),
        (must_read, writes, AccessMask::READ_DATA | AccessMask::EXECUTE),
    ];
    let required = request.desired_access;
    let mut refused = Errno::ACCESS;
    for (index, (reads, writes, lost)) in attempts.into_iter().enumerate() {
        // Not without rights that the request requires; EXECUTE alone may be lost even so.
        if index > 0 && (required.intersects(lost & DATA & !AccessMask::EXECUTE)) {
            continue;
        }
        let Some(flags) = open_flags(reads, writes) else {
            return Ok((fd, true, granted.difference(lost)));
        };
        // A lease of another program must not keep this thread: see `Store::leased`.
        match system::reopen(fd.as_fd(), flags | OFlags::NONBLOCK) {
            Ok(fd) => return Ok((fd, false, granted.difference(lost))),
            Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY)) => {
                if index == 0 {
                    refused = errno;
                }
            }
            Err(errno) => return Err(errno).during(Operation::Open),
        }
    }
    Err(refused).during(Operation::Open)
}

/// Rights that the file of a stream is opened for: writes to a snapshot fail later.
fn granted_here(root: &Root, granted: AccessMask) -> AccessMask {
    if root.snapshot.is_some() { granted.difference(WRITES) } else { granted }
}

/// Opens the stream. Returns its name, its file if it is one, and whether it was created: [MS-FSA]
/// 2.1.5.1.1 adds one to a file that the user may write.
fn open_stream(
    root: &Root,
    request: &OpenRequest,
    streams: &mut Streams<'_>,
    (stream_name, granted): (&str, AccessMask),
    may_add: bool,
) -> Result<(StreamName, Option<OwnedFd>, bool), NtStatus> {
    match streams.find(stream_name)? {
        Some(_) if request.disposition == Disposition::Create => {
            Err(NtStatus::OBJECT_NAME_COLLISION)
        }
        Some(found) => {
            let file = streams.open(&found, granted_here(root, granted))?;
            Ok((found, file, false))
        }
        None if request.disposition.creates() => {
            root.verify_changeable()?;
            if !may_add {
                return Err(NtStatus::ACCESS_DENIED);
            }
            let name = StreamName::new(stream_name);
            let file = streams.create(&name)?;
            Ok((name, file, true))
        }
        None => Err(NtStatus::OBJECT_NAME_NOT_FOUND),
    }
}
