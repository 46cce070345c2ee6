//! `Store::open`, and opening what exists: [MS-FSA] 2.1.5.1.2. See [`super`] for the whole.

use crate::open::create::Admitted;
use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use dtyp::{AccessMask, FileAttributes, NtStatus};
use object::{Disposition, Metadata, ObjectKind, ObjectPath, OpenRequest, Opened, RequestedKind};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::Store;
use crate::cache::directories::Inode;
use crate::errno::{During, Operation};
use crate::metadata::basic::{Seen, Stored, assemble, is_hidden_by_name};
use crate::metadata::conversion;
use crate::metadata::reparse;
use crate::metadata::stream::{self, Streams};
use crate::model::opens::Knowledge;
use crate::model::opens::Open;
use crate::model::place::Entry;
use crate::model::place::Place;
use crate::model::root::Root;
use crate::model::stream_name::StreamName;
use crate::model::subject::Subject;
use crate::open::create::Created;
use crate::security::access::{self, DATA};
use crate::sys::file_kind::{is_file, kind_of};
use crate::sys::system::{self, Uncached};
use crate::sys::xattr::Attributes;

/// Attempts to open or create a name that keeps appearing or vanishing between look-up and open.
const ATTEMPTS_MAX: u32 = 4;

/// Rights that need a descriptor for reading.
const READS: AccessMask = AccessMask::READ_DATA.union(AccessMask::EXECUTE);

/// Rights that need a descriptor for writing.
const WRITES: AccessMask = AccessMask::WRITE_DATA.union(AccessMask::APPEND_DATA);

impl Store {
    /// Opens or creates the object of a path, and its stream if the path has one. Nothing is
    /// truncated here: `ObjectOp::Overwrite` does that once the open is admitted, and the record of
    /// the file keeps `delete_on_close`.
    pub(crate) fn open(&mut self, request: &OpenRequest) -> Result<Opened, NtStatus> {
        let root = self.root(request.root)?;
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

    fn open_version(&mut self, root: &Rc<Root>, request: &OpenRequest) -> Result<Opened, NtStatus> {
        if request.path.stream().is_some() {
            if !root.settings.streams {
                return Err(NtStatus::OBJECT_NAME_INVALID);
            }
            if request.kind == RequestedKind::Directory {
                return Err(NtStatus::NOT_A_DIRECTORY);
            }
        }
        let data = data_wanted(root, request);
        for attempt in 0..ATTEMPTS_MAX {
            let expects_new = request.disposition.creates() && attempt == 0;
            let link_itself = request.open_reparse_point;
            let mut place = self.resolve(root, &request.path, link_itself, expects_new, data)?;
            if let Some(entry) = place.entry.take() {
                return self.open_existing(root, request, place, entry);
            }
            if let Some(parent) = &place.parent {
                reparse::verify_parent(root, parent)?;
            }
            if !request.disposition.creates() {
                return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
            }
            match self.create(root, request, &place)? {
                Created::Exists => {}
                Created::New(admitted) => {
                    return self.finish_open(root, request, place, admitted, true);
                }
            }
        }
        // The name is taken, yet there is nothing to open: a link that leads nowhere, or a race
        // that was lost each time.
        Err(NtStatus::OBJECT_NAME_COLLISION)
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
        if !is_file(&entry.status) || is_stream || !request.takes_file() {
            verify_kind(request, &entry)?;
        }
        if root.snapshot.is_some() && (request.disposition.overwrites() || request.delete_on_close)
        {
            return Err(NtStatus::MEDIA_WRITE_PROTECTED);
        }
        let fd = entry.fd.as_fd();
        let subject = Subject { fd, path_only: true, status: &entry.status };
        let maximal =
            access::maximal(&mut self.impersonation, root, subject, place.parent.as_ref())?;
        let mut maximal = maximal & request.share_access_max;
        if self.impersonation.effective().uid == 0 {
            maximal |= AccessMask::ACCESS_SYSTEM_SECURITY;
        }
        let kind = kind_of(&entry.status);
        let has_data = matches!(kind, ObjectKind::File | ObjectKind::Directory);
        if !has_data {
            maximal.remove(DATA);
        }
        let Stored { dos, is_bare } =
            Stored::find(root, Some(&entry.status), Attributes::new(fd, true));
        let attributes = dos.attributes.unwrap_or_default();
        let may_be_reparse = attributes.contains(FileAttributes::REPARSE_POINT);
        if may_be_reparse && has_data && !request.open_reparse_point {
            reparse::verify_not_reparse(Attributes::new(fd, true), attributes)?;
        }
        let metadata = assemble(root, &place.name, &entry.status, dos);
        let granted_access = verify_access(root, request, &metadata, maximal)?;
        let (fd, path_only, granted_access) = match entry.data {
            // `data_wanted` has asked for all granted rights.
            Some(_) => (entry.fd, false, granted_access),
            None if is_stream || !has_data => (entry.fd, true, granted_access),
            None => open_data(root, request, entry.fd, kind, granted_access)?,
        };
        let admitted = Admitted {
            fd,
            path_only,
            granted_access,
            maximal_access: maximal.difference(AccessMask::ACCESS_SYSTEM_SECURITY),
            metadata,
            is_bare,
            named: entry.named,
        };
        self.finish_open(root, request, place, admitted, false)
    }

    /// Finds or creates the stream, and puts the open into the table. `created` says if the object
    /// itself is new: then it is removed again if its stream cannot be made.
    fn finish_open(
        &mut self,
        root: &Rc<Root>,
        request: &OpenRequest,
        place: Place,
        admitted: Admitted,
        created: bool,
    ) -> Result<Opened, NtStatus> {
        let Admitted { fd, path_only, granted_access, maximal_access, is_bare, named, .. } =
            admitted;
        let mut metadata = admitted.metadata;
        let mut stream = None;
        let mut stream_created = created;
        if let Some(wanted) = request.path.stream() {
            let streams = Streams::new(root, Attributes::new(fd.as_fd(), path_only));
            let (name, is_new) = match open_stream(root, request, &place, streams, wanted) {
                Err(status) if created => {
                    self.discard(&place, named);
                    return Err(status);
                }
                result => result?,
            };
            let size = streams.size(&name)?;
            stream::describe(&mut metadata, &name, size);
            stream_created = is_new;
            stream = Some(name);
        }
        let path = match request.path.is_posix() {
            // As it is stored already: nothing else would have been found.
            true => request.path.clone(),
            false => {
                let stream = stream.as_ref().map(|stream| stream.name.clone());
                ObjectPath::from_stored(place.path(root), stream)
            }
        };
        let path = path.with_snapshot(root.snapshot);
        let archive = metadata.attributes.contains(FileAttributes::ARCHIVE);
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
            named,
            path: path.clone(),
            stream,
            write_through: request.write_through,
            uncached: Cell::new(Uncached::Refuse),
            may_wait_in_ring: Cell::new(false),
            piping: Knowledge::default(),
            archive_on_write: !archive && metadata.kind == ObjectKind::File,
            keeps_write_time: false,
            listing: None,
        });
        let created = stream_created;
        self.remember(Seen { open, metadata: metadata.clone(), is_bare });
        Ok(Opened { open, created, granted_access, maximal_access, path, parent, metadata })
    }
}

/// The checks of [MS-FSA] 2.1.5.1 that need no rights: an existing name is a collision for CREATE
/// whatever kind it has.
fn verify_kind(request: &OpenRequest, entry: &Entry) -> Result<(), NtStatus> {
    let stream = request.path.stream().is_some();
    if request.disposition == Disposition::Create && !stream {
        return Err(NtStatus::OBJECT_NAME_COLLISION);
    }
    let kind = kind_of(&entry.status);
    if kind == ObjectKind::SymbolicLink && !request.open_reparse_point {
        return Err(NtStatus::STOPPED_ON_SYMLINK);
    }
    if stream {
        let may = matches!(kind, ObjectKind::File | ObjectKind::Directory);
        return if may { Ok(()) } else { Err(NtStatus::OBJECT_NAME_NOT_FOUND) };
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
    let overwrites = request.disposition.overwrites() && request.path.stream().is_none();
    let required = request.desired_access.difference(AccessMask::MAXIMUM_ALLOWED);
    let writes = required.intersects(WRITES) || request.disposition.overwrites();
    let read_only = metadata.attributes.contains(FileAttributes::READONLY);
    if read_only && !metadata.is_directory() && writes && !request.takes_up {
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
    if overwrites {
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
    // Asking for the maximum does not ask for the SACL.
    let mut granted = maximal.difference(AccessMask::ACCESS_SYSTEM_SECURITY) | required;
    if read_only && !metadata.is_directory() {
        granted.remove(WRITES | AccessMask::DELETE_CHILD);
    }
    // Asking for the maximum does not grant the deletion, which others may carry out as root.
    if request.delete_on_close && !granted.contains(AccessMask::DELETE) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    Ok(granted)
}

/// Returns the flags to open a file for its data; `None` if neither is needed.
fn data_flags(reads: bool, writes: bool) -> Option<OFlags> {
    let flags = [[None, Some(OFlags::WRONLY)], [Some(OFlags::RDONLY), Some(OFlags::RDWR)]];
    flags[usize::from(reads)][usize::from(writes)]
}

/// Returns the flags with which a granted request opens the data of a file. `None` where they
/// depend on the file, and where the request is refused for any file: an open has side effects on
/// this machine (it breaks a lease, inotify reports it), and in an overlay an open for writing
/// copies the file.
fn data_wanted(root: &Root, request: &OpenRequest) -> Option<OFlags> {
    let mut access = request.desired_access;
    if request.disposition.overwrites() {
        access |= AccessMask::WRITE_DATA;
    }
    let writes = access.intersects(WRITES);
    let is_refused = !request.share_access_max.contains(access & DATA)
        || writes && root.settings.read_only
        || request.disposition == Disposition::Create
        || request.kind == RequestedKind::Directory;
    let is_other = access.contains(AccessMask::MAXIMUM_ALLOWED)
        || request.path.stream().is_some()
        || root.snapshot.is_some();
    if is_refused || is_other { None } else { data_flags(access.intersects(READS), writes) }
}

/// Opens the object for what was granted. Rights that the kernel refuses and the request does not
/// require (MAXIMUM_ALLOWED grants such), and EXECUTE, are taken from the granted rights instead.
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
        // Rights to write are granted like others, and come to nothing.
        return Ok(match system::reopen(fd.as_fd(), OFlags::RDONLY) {
            Ok(fd) => (fd, false, granted),
            Err(_) if !granted.contains(AccessMask::READ_DATA) => (fd, true, granted),
            Err(errno) => return Err(errno).during(Operation::Open),
        });
    }
    let must_write = request.desired_access.intersects(WRITES) || request.disposition.overwrites();
    let must_read = request.desired_access.contains(AccessMask::READ_DATA);
    let reads = granted.intersects(READS);
    let writes = granted.intersects(WRITES) || must_write;
    let attempts = [
        (reads, writes, AccessMask::empty()),
        (reads, must_write, WRITES),
        (must_read, writes, AccessMask::READ_DATA | AccessMask::EXECUTE),
    ];
    let required = request.desired_access;
    let mut refused = Errno::ACCESS;
    for (index, (reads, writes, lost)) in attempts.into_iter().enumerate() {
        if index > 0 && (required.intersects(lost & DATA & !AccessMask::EXECUTE)) {
            continue;
        }
        let Some(flags) = data_flags(reads, writes) else {
            return Ok((fd, true, granted.difference(lost)));
        };
        match system::reopen(fd.as_fd(), flags) {
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

/// The stream, and whether it was created.
fn open_stream(
    root: &Root,
    request: &OpenRequest,
    place: &Place,
    streams: Streams<'_>,
    wanted: &str,
) -> Result<(StreamName, bool), NtStatus> {
    if let Some(parent) = &place.parent {
        conversion::convert(root, parent.directory.fd.as_fd(), &place.name, streams);
    }
    match streams.find(wanted)? {
        Some(_) if request.disposition == Disposition::Create => {
            Err(NtStatus::OBJECT_NAME_COLLISION)
        }
        Some(found) => Ok((found, false)),
        None if request.disposition.creates() => {
            root.verify_changeable()?;
            let name = StreamName::new(wanted);
            streams.create(&name)?;
            Ok((name, true))
        }
        None => Err(NtStatus::OBJECT_NAME_NOT_FOUND),
    }
}
