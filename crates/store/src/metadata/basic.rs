//! Metadata: what the kernel and `user.DOSATTRIB` know of an object, in the form of [MS-FSCC].

use crate::metadata::clusters::round_up;
use crate::metadata::reparse_attribute::stored_tag;
use crate::metadata::reparse_attribute::stored_type;
use crate::sys::file_kind::kind_of;
use std::ffi::OsStr;
use std::os::fd::AsFd;

use dtyp::fscc::ReparseTag;
use dtyp::{FileAttributes, FileTime, NtStatus};
use object::{BasicChange, LocalOpen, Metadata, ObjectKind};
use rustix::fs::{Statx, StatxAttributes};
use rustix::io::Errno;

use crate::Store;
use crate::errno::{During, Operation};
use crate::metadata::dos_attributes::{self, DosAttributes};
use crate::metadata::extended_attributes;
use crate::metadata::mode_attributes;
use crate::metadata::snapshot;
use crate::metadata::stream::{self, Streams};
use crate::model::place::Entry;
use crate::model::root::Root;
use crate::security::credentials::Permissions;
use crate::sys::system;
use crate::sys::times;
use crate::sys::xattr::{Listed, Xattrs};

/// Attributes that are taken from the extended attribute; the others follow from the object.
const STORED: FileAttributes = FileAttributes::SETTABLE
    .union(FileAttributes::SPARSE_FILE)
    .union(FileAttributes::REPARSE_POINT);

/// Makes metadata of an object's status and its extended attribute.
pub(crate) fn assemble(
    root: &Root,
    name: impl AsRef<OsStr>,
    kind: ObjectKind,
    status: &Statx,
    dos: DosAttributes,
) -> Metadata {
    let mut attributes = attributes_of(root, name.as_ref(), kind, dos);
    if status.stx_attributes.contains(StatxAttributes::COMPRESSED) {
        attributes = (attributes | FileAttributes::COMPRESSED).shown();
    }
    let directory = kind == ObjectKind::Directory;
    let end_of_file = if kind == ObjectKind::File { status.stx_size } else { 0 };
    let sparse = attributes.contains(FileAttributes::SPARSE_FILE);
    let reparse_tag = match kind {
        ObjectKind::File | ObjectKind::Directory => dos.reparse_tag.unwrap_or_default(),
        ObjectKind::SymbolicLink => ReparseTag::SYMLINK,
        _ => ReparseTag::NFS,
    };
    let inode = crate::cache::directories::Inode::of(status);
    let mut identity = inode.identity();
    identity.birth = times::birth(status).map_or(0, times::nanoseconds);
    if let Some(time) = root.snapshot {
        snapshot::mark(&mut identity, time);
    }
    Metadata {
        identity,
        kind,
        creation_time: dos.creation_time.unwrap_or_else(|| creation_time(status)),
        last_access_time: times::file_time(&status.stx_atime),
        last_write_time: times::last_write(status),
        change_time: times::change(status),
        end_of_file,
        allocation_size: if kind == ObjectKind::File { allocation_size(status, sparse) } else { 0 },
        attributes,
        number_of_links: if directory { 1 } else { status.stx_nlink },
        ea_size: 0,
        reparse_tag: reparse_tag.0,
        mode: match (kind, dos.reparse_type) {
            (ObjectKind::File | ObjectKind::Directory, Some(posix)) => {
                posix | u32::from(status.stx_mode) & 0o7777
            }
            _ => u32::from(status.stx_mode),
        },
        uid: status.stx_uid,
        gid: status.stx_gid,
    }
}

/// Returns the creation time of an object that has none stored. Without a birth time the oldest of
/// the others is the best guess, as in Samba.
pub(crate) fn creation_time(status: &Statx) -> FileTime {
    times::birth(status).map_or_else(|| times::oldest(status), times::file_time)
}

fn attributes_of(
    root: &Root,
    name: &OsStr,
    kind: ObjectKind,
    dos: DosAttributes,
) -> FileAttributes {
    let default = match kind {
        ObjectKind::Directory => FileAttributes::empty(),
        _ => dos_attributes::DEFAULT_FILE,
    };
    let mut attributes = dos.attributes.unwrap_or(default) & STORED;
    attributes.set(FileAttributes::DIRECTORY, kind == ObjectKind::Directory);
    // Only its reparse point tells a client that an object is no plain file or directory.
    let is_reparse_point = match kind {
        ObjectKind::File | ObjectKind::Directory => dos.reparse_tag.is_some(),
        _ => true,
    };
    attributes.set(FileAttributes::REPARSE_POINT, is_reparse_point);
    let begins_with_dot = name.as_encoded_bytes().starts_with(b".");
    if (begins_with_dot || !root.settings.hide_files.is_empty()) && is_hidden_by_name(root, name) {
        attributes |= FileAttributes::HIDDEN;
    }
    attributes.shown()
}

/// Whether a name makes its object HIDDEN, regardless of stored attributes.
pub(crate) fn is_hidden_by_name(root: &Root, name: &OsStr) -> bool {
    if name.is_empty() || name == "." || name == ".." {
        return false;
    }
    let settings = &root.settings;
    settings.hide_dot_files && name.as_encoded_bytes().starts_with(b".")
        || !settings.hide_files.is_empty() && {
            let shown = root.shown(name);
            settings.hide_files.iter().any(|pattern| pattern.matches(&shown))
        }
}

/// Storage in whole clusters. Data that the kernel has not placed yet counts as placed, because
/// clients expect that a file which is not sparse has at least the storage for its size.
fn allocation_size(status: &Statx, sparse: bool) -> u64 {
    let placed = round_up(status.stx_blocks.saturating_mul(512));
    if sparse { placed } else { placed.max(round_up(status.stx_size)) }
}

/// DOS attributes stored with an object.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stored {
    pub(crate) dos: DosAttributes,
    /// It is known to have no extended attribute in `user.`, of ours or of a client.
    pub(crate) lacks_xattrs: bool,
}

impl Stored {
    /// Finds the stored attributes. Those that cannot be read count as absent: the file may belong
    /// to another user, the file system may have no extended attributes.
    ///
    /// Most objects of most shares have nothing stored with them, and a list of no names says so
    /// for clients' attributes, too. In a share that came from Samba all have something, and to
    /// read it is enough. So the result for the previous object decides which call comes first.
    /// `status` is the object's status before this call, if it is known.
    pub(crate) fn find(root: &Root, status: Option<&Statx>, xattrs: Xattrs<'_>) -> Self {
        if root.has_mode_attributes {
            let status = status.copied().or_else(|| xattrs.status().ok());
            let found = status.and_then(|it| mode_attributes::of_object(root, &it, xattrs));
            let dos = DosAttributes { attributes: found, ..DosAttributes::default() };
            return Self { dos, lacks_xattrs: false };
        }
        if status.is_some_and(|status| root.is_known_without_xattrs(status)) {
            return Self { lacks_xattrs: true, ..Self::default() };
        }
        Self::read(root, status, xattrs)
    }

    fn read(root: &Root, status: Option<&Statx>, xattrs: Xattrs<'_>) -> Self {
        if !root.stores_attributes.get() {
            match xattrs.listed(dos_attributes::NAME) {
                Ok(Listed::Nothing) => {
                    status.into_iter().for_each(|status| root.keep_without_xattrs(status));
                    return Self { lacks_xattrs: true, ..Self::default() };
                }
                Ok(Listed::Others) => return Self::default(),
                Ok(Listed::Wanted) | Err(_) => {}
            }
        }
        let mut value = [0; dos_attributes::SIZE_MAX];
        let length = xattrs.get_into(dos_attributes::NAME, &mut value);
        root.stores_attributes.set(length.is_ok());
        let value = length.ok().and_then(|length| value.get(..length));
        let mut dos = value.and_then(DosAttributes::decode).unwrap_or_default();
        if dos.claims_reparse_point() {
            dos.reparse_tag = stored_tag(xattrs);
            dos.reparse_type = stored_type(xattrs);
        }
        Self { dos, lacks_xattrs: false }
    }
}

/// Returns the DOS attributes alone; see [`Stored::find`].
pub(crate) fn stored_attributes(root: &Root, xattrs: Xattrs<'_>) -> DosAttributes {
    Stored::find(root, None, xattrs).dos
}

/// Metadata of an open, kept while the requests of one frame are served: CREATE, QUERY_INFO and
/// CLOSE of a compound return the same metadata.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) open: LocalOpen,
    /// Without the size of the extended attributes.
    pub(crate) metadata: Metadata,
    /// True if the object has no extended attributes.
    pub(crate) lacks_xattrs: bool,
}

impl Store {
    /// Returns the metadata of an open; the size of its extended attributes only `with_ea_size`.
    pub(crate) fn query_metadata(
        &mut self,
        open: LocalOpen,
        with_ea_size: bool,
    ) -> Result<Metadata, NtStatus> {
        let seen = match self.seen.take().filter(|seen| seen.open == open) {
            Some(seen) => seen,
            None => self.read_metadata(open)?,
        };
        let mut metadata = seen.metadata.clone();
        if with_ea_size && !seen.lacks_xattrs {
            let opened = self.opens.get(open)?;
            metadata.ea_size = extended_attributes::size_of_all(&opened.root, opened.xattrs());
        }
        self.keep_for_frame(seen);
        Ok(metadata)
    }

    fn read_metadata(&mut self, open: LocalOpen) -> Result<Seen, NtStatus> {
        let opened = self.opens.get(open)?;
        let status = system::status_of(opened.fd()).during(Operation::Query)?;
        let Stored { dos, lacks_xattrs } =
            Stored::find(&opened.root, Some(&status), opened.xattrs());
        let mut metadata = assemble(&opened.root, &opened.name, kind_of(&status), &status, dos);
        if let Some(name) = &opened.stream {
            let size = opened.stream_size(&mut self.impersonation, name)?;
            stream::describe(&mut metadata, name, size);
        }
        Ok(Seen { open, metadata, lacks_xattrs })
    }

    /// Returns the metadata of an object after its look-up.
    pub(crate) fn metadata_of(
        &mut self,
        root: &Root,
        name: &OsStr,
        entry: &Entry,
        stream: Option<&str>,
    ) -> Result<Metadata, NtStatus> {
        let xattrs = Xattrs::new(entry.fd.as_fd(), true);
        let stored = stored_attributes(root, xattrs);
        let mut metadata = assemble(root, name, entry.kind, &entry.status, stored);
        if let Some(stream) = stream {
            let mut streams = Streams::new(&mut self.impersonation, root, xattrs);
            let name = streams.find(stream)?.ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
            stream::describe(&mut metadata, &name, streams.size(&name)?);
        }
        Ok(metadata)
    }

    /// [MS-FSA] 2.1.5.15.2.
    pub(crate) fn set_basic(
        &mut self,
        open: LocalOpen,
        basic: BasicChange,
    ) -> Result<(), NtStatus> {
        let opened = self.opens.get(open)?;
        if let Some(attributes) = basic.attributes {
            let directory = opened.is_directory();
            if attributes.contains(FileAttributes::DIRECTORY) && !directory
                || attributes.contains(FileAttributes::TEMPORARY) && directory
            {
                return Err(NtStatus::INVALID_PARAMETER);
            }
        }
        opened.root.verify_changeable()?;
        if basic.attributes.is_some() || basic.creation_time.is_some() {
            self.change_dos_attributes(open, |attributes, creation_time| {
                if let Some(wanted) = basic.attributes {
                    let kept = attributes.difference(FileAttributes::SETTABLE);
                    *attributes = kept | (wanted & FileAttributes::SETTABLE);
                }
                *creation_time = basic.creation_time.unwrap_or(*creation_time);
            })?;
        }
        if basic.last_access_time.is_some() || basic.last_write_time.is_some() {
            self.set_times(open, basic.last_access_time, basic.last_write_time)?;
        }
        if let Some(keep) = basic.keep_last_write_time {
            self.opens.get_mut(open)?.keeps_write_time = keep;
        }
        if let Some(keep) = basic.keep_last_access_time {
            self.keep_access_time(open, keep)?;
        }
        Ok(())
    }

    /// Returns the last write time, if this open is to leave it alone.
    pub(crate) fn write_time_to_keep(&self, open: LocalOpen) -> Option<FileTime> {
        let opened = self.opens.get(open).ok().filter(|opened| opened.keeps_write_time)?;
        Some(times::last_write(&system::status_of(opened.fd()).ok()?))
    }

    /// Gives the file its last write time back. That the data are written matters more than their
    /// time.
    pub(crate) fn keep_write_time(&mut self, open: LocalOpen, kept: FileTime) {
        let _ = self.set_times(open, None, Some(kept));
    }

    /// Lets reads of this open change the last access time, or not. The kernel lets only owners
    /// decide that; for others it stays with what the file system was mounted with.
    fn keep_access_time(&mut self, open: LocalOpen, keep: bool) -> Result<(), NtStatus> {
        let opened = self.opens.get(open)?;
        if opened.path_only {
            return Ok(());
        }
        let _ = self.impersonation.keep_access_time(opened.fd(), keep, opened.may_set_attributes());
        Ok(())
    }

    pub(crate) fn set_times(
        &mut self,
        open: LocalOpen,
        last_access: Option<FileTime>,
        last_write: Option<FileTime>,
    ) -> Result<(), NtStatus> {
        let opened = self.opens.get(open)?;
        let times = times::timestamps(last_access, last_write);
        // POSIX lets owners only choose times; with NT it is who may write the attributes. The open
        // was granted that because the kernel let the user write.
        let granted = opened.may_set_attributes();
        self.impersonation.set_times(opened.fd(), &times, granted).during(Operation::SetMetadata)
    }

    /// Changes what is stored, beginning with what holds now. Where the file system has no extended
    /// attributes the change is forgotten, as in Samba: the client could do nothing about it.
    pub(crate) fn change_dos_attributes(
        &mut self,
        open: LocalOpen,
        change: impl FnOnce(&mut FileAttributes, &mut FileTime),
    ) -> Result<(), NtStatus> {
        let opened = self.opens.get(open)?;
        if opened.root.has_mode_attributes {
            return self.change_mode_attributes(open, change);
        }
        let status = system::status_of(opened.fd()).during(Operation::Query)?;
        let stored = stored_attributes(&opened.root, opened.xattrs());
        let nothing = DosAttributes::default();
        let default = assemble(&opened.root, "", kind_of(&status), &status, nothing);
        let mut attributes = stored.attributes.unwrap_or(default.attributes);
        let mut creation_time = stored.creation_time.unwrap_or(default.creation_time);
        change(&mut attributes, &mut creation_time);
        // Samba stores DIRECTORY with directories, and never NORMAL.
        attributes = attributes & STORED | (default.attributes & FileAttributes::DIRECTORY);
        let value = DosAttributes {
            attributes: Some(attributes),
            creation_time: Some(creation_time),
            reparse_tag: None,
            reparse_type: None,
        };
        let value = value.encode();
        let (of, granted) = (opened.xattrs(), opened.may_set_attributes());
        let result = self.impersonation.store_attributes(of, dos_attributes::NAME, &value, granted);
        result
            .or_else(|errno| if errno == Errno::OPNOTSUPP { Ok(()) } else { Err(errno) })
            .during(Operation::SetMetadata)?;
        let archive = attributes.contains(FileAttributes::ARCHIVE);
        self.opens.get_mut(open)?.archive_on_write = !archive;
        Ok(())
    }

    /// Changes the mode for what it can say of the attributes; the rest is forgotten. POSIX lets
    /// the owner do that, `dos filemode` every user who may write. Where only the file system is at
    /// fault, the client can do nothing about a mode that it does not keep either.
    fn change_mode_attributes(
        &mut self,
        open: LocalOpen,
        change: impl FnOnce(&mut FileAttributes, &mut FileTime),
    ) -> Result<(), NtStatus> {
        let opened = self.opens.get(open)?;
        let settings = &opened.root.settings;
        let status = system::status_of(opened.fd()).during(Operation::Query)?;
        let now = mode_attributes::of_object(&opened.root, &status, opened.xattrs());
        let Some(mut attributes) = now else { return Ok(()) };
        change(&mut attributes, &mut creation_time(&status));
        let before = u32::from(status.stx_mode) & 0o7777;
        let mode = mode_attributes::mode_with(settings, before, attributes, opened.kind);
        if mode == before {
            return Ok(());
        }
        let granted = settings.writers_change_permissions && opened.may_set_attributes();
        let (secured, is_wanted) = (opened.secured(&status), !settings.store_dos_attributes);
        let permissions = Permissions::Mode(mode);
        let changed = self.impersonation.change_permissions(secured, permissions, granted);
        changed
            .or_else(|errno| if is_wanted { Err(errno) } else { Ok(()) })
            .during(Operation::SetMetadata)?;
        let archive = attributes.contains(FileAttributes::ARCHIVE);
        self.opens.get_mut(open)?.archive_on_write = !archive;
        Ok(())
    }
}
