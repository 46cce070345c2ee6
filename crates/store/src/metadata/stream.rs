//! Named streams: the meaning that they have for clients, in each form in which a share keeps them.
//!
//! A stream in an extended attribute is read and written whole. Two clients that write different
//! parts of one stream at the same moment through different processes may undo each other's change,
//! as with Samba. A stream in a depot is a file, which is read and written as other files.

use std::os::fd::{AsFd, OwnedFd};

use bytes::BytesMut;
use dtyp::{AccessMask, NtStatus, upcase};
use object::{LocalOpen, Metadata, ObjectPath};
use rustix::io::Errno;
use tracing::error;

use crate::Store;
use crate::errno::{During, Operation};
use crate::metadata::afp_info::{AFP_INFO_LEN, AfpInfo};
use crate::metadata::apple_double::AppleDouble;
use crate::metadata::clusters::round_up;
use crate::metadata::stream_form::{STREAM_BYTES_MAX, StreamForm};
use crate::model::opens::Open;
use crate::model::root::Root;
use crate::model::stream_name::{AFP_INFO, AppleNames, StreamName};
use crate::security::credentials::{DepotAccess, Impersonation};
use crate::sys::lengths::as_u64;
use crate::sys::system;
use crate::sys::xattr::Xattrs;

/// Attribute of Netatalk, and of Samba with `fruit:metadata = netatalk`, which is the default.
const NETATALK: &str = "user.org.netatalk.Metadata";

/// Name of an extended attribute, and its value if it was there.
type Kept<'n> = (&'n str, Option<Vec<u8>>);

/// Makes the metadata of a file those of its stream.
pub(crate) fn describe(metadata: &mut Metadata, name: &StreamName, size: u64) {
    metadata.identity.stream = name.identity();
    metadata.end_of_file = size;
    metadata.allocation_size = round_up(size);
}

/// The named streams of one object.
#[derive(Debug)]
pub(crate) struct Streams<'a> {
    form: StreamForm<'a>,
    /// Attributes of the object, for other forms of what Apple's clients have stored.
    xattrs: Xattrs<'a>,
    /// The share is for Apple's clients: a stream without bytes is none, and `AFP_AfpInfo` a
    /// structure.
    is_apple: bool,
}

impl<'a> Streams<'a> {
    pub(crate) fn new(user: &'a mut Impersonation, root: &'a Root, xattrs: Xattrs<'a>) -> Self {
        let form = StreamForm::new(user, root, xattrs);
        Self { form, xattrs, is_apple: root.settings.apple_streams }
    }

    /// Returns the names of all streams of the object.
    pub(crate) fn list(&mut self) -> Result<Vec<StreamName>, NtStatus> {
        let (mut streams, attributes) = self.form.names().during(Operation::Stream)?;
        if self.is_apple {
            let has_netatalk = || match &attributes {
                Some(names) => names.iter().any(|name| name == NETATALK),
                None => self.xattrs.length(NETATALK).is_ok(),
            };
            let info = StreamName::new(AFP_INFO);
            if !streams.contains(&info) && has_netatalk() {
                streams.push(info);
            }
            streams.retain(|name| matches!(self.exists(name), Ok(true)));
        }
        Ok(streams)
    }

    /// The stream of that name: as it is written if possible, else without regard to case.
    pub(crate) fn find(&mut self, name: &str) -> Result<Option<StreamName>, NtStatus> {
        let exact = StreamName::new(name);
        if self.exists(&exact)? {
            return Ok(Some(exact));
        }
        let streams = self.list()?;
        Ok(streams.into_iter().find(|stream| upcase::equal_ignoring_case(&stream.name, name)))
    }

    /// True for a stream that is a structure to clients, not what is stored.
    fn is_structure(&self, name: &StreamName) -> bool {
        self.is_apple && name.is_afp_info()
    }

    fn exists(&mut self, name: &StreamName) -> Result<bool, NtStatus> {
        if self.is_structure(name) {
            return Ok(self.afp_info(name)?.is_some());
        }
        let length = self.form.length(name).during(Operation::Stream)?;
        Ok(length.is_some_and(|length| !self.is_apple || length > 0))
    }

    /// Returns the structure that is stored, if it is one, or what Netatalk has stored.
    fn afp_info(&mut self, name: &StreamName) -> Result<Option<AfpInfo>, NtStatus> {
        match self.form.load_short(name, &mut [0; AFP_INFO_LEN + 1]) {
            Ok(Some(value)) => Ok(AfpInfo::stored(&value)),
            Ok(None) => Ok(netatalk_info(self.xattrs)),
            // It is longer than any.
            Err(Errno::FBIG) => Ok(None),
            Err(errno) => Err(errno).during(Operation::Stream),
        }
    }

    /// Length of the resource fork in bytes, and the Finder's information, as a listing for Apple's
    /// clients has them. None of what cannot be read.
    pub(crate) fn apple(&mut self, names: &AppleNames) -> (u64, AfpInfo) {
        let fork = self.form.length(&names.resource).ok().flatten();
        let info = self.afp_info(&names.info).ok().flatten();
        (fork.unwrap_or(0), info.unwrap_or_default())
    }

    /// Returns the length of a stream in bytes, from its open file without another search.
    pub(crate) fn size_of(
        &mut self,
        name: &StreamName,
        file: Option<&OwnedFd>,
    ) -> Result<u64, NtStatus> {
        match file {
            Some(file) => Ok(system::status_of(file.as_fd()).during(Operation::Stream)?.stx_size),
            None => self.size(name),
        }
    }

    pub(crate) fn size(&mut self, name: &StreamName) -> Result<u64, NtStatus> {
        if self.is_structure(name) {
            return Ok(as_u64(AFP_INFO_LEN));
        }
        let length = self.form.length(name).during(Operation::Stream)?;
        self.unless_missing(length)
    }

    pub(crate) fn load(&mut self, name: &StreamName) -> Result<Vec<u8>, NtStatus> {
        if self.is_structure(name) {
            return Ok(self.afp_info(name)?.unwrap_or_default().into());
        }
        let value = self.form.load(name).during(Operation::Stream)?;
        self.unless_missing(value)
    }

    /// To Apple's clients, a stream that is not there has no bytes.
    fn unless_missing<T: Default>(&self, found: Option<T>) -> Result<T, NtStatus> {
        match found {
            None if self.is_apple => Ok(T::default()),
            found => found.ok_or(NtStatus::OBJECT_NAME_NOT_FOUND),
        }
    }

    pub(crate) fn save(&mut self, name: &StreamName, value: Vec<u8>) -> Result<(), NtStatus> {
        let says_nothing = || name.is_afp_info() && AfpInfo::stored(&value).is_none();
        if self.is_apple && (value.is_empty() || says_nothing()) {
            return self.remove(name);
        }
        self.form.save(name, value).during(Operation::Stream)?;
        self.forget_netatalk(name);
        Ok(())
    }

    /// Makes a stream without bytes, as far as there is such a thing, and opens its file; `None`
    /// for a stream that is none.
    pub(crate) fn create(&mut self, name: &StreamName) -> Result<Option<OwnedFd>, NtStatus> {
        let file = self.make_file(name)?;
        if file.is_none() && !self.is_apple {
            self.save(name, Vec::new())?;
        }
        Ok(file)
    }

    /// Opens the file of a stream for the granted rights; `None` for a stream that is none.
    pub(crate) fn open(
        &mut self,
        name: &StreamName,
        granted: AccessMask,
    ) -> Result<Option<OwnedFd>, NtStatus> {
        if self.is_structure(name) {
            return Ok(None);
        }
        let reads = granted.intersects(AccessMask::READ_DATA | AccessMask::EXECUTE);
        let writes = granted.intersects(AccessMask::WRITE_DATA | AccessMask::APPEND_DATA);
        let access = DepotAccess { reads, writes };
        match self.form.open(name, access) {
            // It has no bytes yet.
            Err(Errno::NOENT) if self.is_apple => self.form.create(name),
            opened => opened,
        }
        .during(Operation::Open)
    }

    /// Opens the file of a stream for writing, and makes it if it is missing; `None` for a stream
    /// that is none.
    pub(crate) fn make_file(&mut self, name: &StreamName) -> Result<Option<OwnedFd>, NtStatus> {
        if self.is_structure(name) {
            return Ok(None);
        }
        self.form.create(name).during(Operation::Stream)
    }

    /// Removes what Netatalk has stored, once it was replaced by a stream.
    fn forget_netatalk(&self, name: &StreamName) {
        if self.is_structure(name) {
            let _ = self.xattrs.remove(NETATALK);
        }
    }

    pub(crate) fn remove(&mut self, name: &StreamName) -> Result<(), NtStatus> {
        self.forget_netatalk(name);
        match self.form.remove(name) {
            Err(Errno::NODATA) if self.is_apple => Ok(()),
            result => result.during(Operation::Stream),
        }
    }

    /// Gives a stream another name, under which it replaces `replaced`. Both are as before if that
    /// fails.
    ///
    /// The new value comes first. If there is no room for it beside the old ones, those go first:
    /// the end of this process in that moment would lose them.
    fn rename(
        &mut self,
        old: &StreamName,
        new: &StreamName,
        replaced: Option<&StreamName>,
    ) -> Result<(), NtStatus> {
        if self.form.rename(old, new).during(Operation::Rename)? {
            self.forget_netatalk(new);
            // The new name has replaced the same one.
            let other = replaced.filter(|name| *name != new);
            return other.map_or(Ok(()), |name| self.remove_if_there(name));
        }
        let before = self.values_of([Some(old), Some(new), replaced].into_iter().flatten())?;
        let value = self.load(old)?;
        let others = || [Some(old), replaced].into_iter().flatten().filter(move |it| *it != new);
        let mut renamed = self.save(new, value.clone());
        if renamed == Err(NtStatus::DISK_FULL) {
            // Replacing a value may take room beside it as well.
            let mut in_the_way = others().chain([new]);
            renamed = in_the_way.try_for_each(|name| self.remove_if_there(name));
            renamed = renamed.and_then(|()| self.save(new, value));
        } else {
            renamed =
                renamed.and_then(|()| others().try_for_each(|name| self.remove_if_there(name)));
        }
        renamed.inspect_err(|_| self.put_back(&before))
    }

    /// Returns the attributes of some streams, and the values of those that are there.
    fn values_of<'n>(
        &self,
        names: impl Iterator<Item = &'n StreamName>,
    ) -> Result<Vec<Kept<'n>>, NtStatus> {
        let netatalk = self.is_apple.then_some(NETATALK);
        let attributes = names.map(|name| &*name.attribute).chain(netatalk);
        let value = |attribute| match self.xattrs.get(attribute) {
            Err(Errno::NODATA) => Ok((attribute, None)),
            value => Ok((attribute, Some(value.during(Operation::Stream)?))),
        };
        attributes.map(value).collect()
    }

    /// Restores attributes: new ones are removed first, to make room for the others.
    fn put_back(&self, before: &[Kept<'_>]) {
        for (attribute, _) in before.iter().filter(|(_, value)| value.is_none()) {
            let _ = self.xattrs.remove(attribute);
        }
        for (attribute, value) in before {
            let Some(value) = value else { continue };
            if self.xattrs.get(attribute).as_ref() == Ok(value) {
                continue;
            }
            if let Err(errno) = self.xattrs.set(attribute, value) {
                error!("cannot restore {attribute:?} of a file, which is lost: {errno}");
            }
        }
    }

    fn remove_if_there(&mut self, name: &StreamName) -> Result<(), NtStatus> {
        match self.remove(name) {
            Err(NtStatus::OBJECT_NAME_NOT_FOUND) => Ok(()),
            result => result,
        }
    }

    /// Removes a stream at the request of a client. A resource fork stays: Apple's
    /// servers ignore that request, and its clients truncate the fork instead.
    pub(crate) fn delete(&mut self, name: &StreamName) -> Result<(), NtStatus> {
        if self.is_apple && name.is_resource_fork() { Ok(()) } else { self.remove(name) }
    }
}

/// Returns the Finder's information that Netatalk, or Samba by default, has stored.
fn netatalk_info(xattrs: Xattrs<'_>) -> Option<AfpInfo> {
    AppleDouble::read(&xattrs.get(NETATALK).ok()?)?.afp_info()
}

impl Open {
    pub(crate) fn streams<'a>(&'a self, user: &'a mut Impersonation) -> Streams<'a> {
        Streams::new(user, &self.root, self.xattrs())
    }

    /// Length of the open's stream in bytes.
    pub(crate) fn stream_size(
        &self,
        user: &mut Impersonation,
        name: &StreamName,
    ) -> Result<u64, NtStatus> {
        self.streams(user).size_of(name, self.stream_file.as_deref())
    }
}

/// Appends the data of a stream that is no file, at `offset`.
pub(crate) fn read(
    user: &mut Impersonation,
    (open, name): (&Open, &StreamName),
    offset: u64,
    length: u32,
    mut buffer: BytesMut,
) -> Result<BytesMut, NtStatus> {
    let value = open.streams(user).load(name)?;
    let offset = if open.has_afp_info() { AfpInfo::read_offset(offset) } else { offset };
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(value.len());
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let end = start.saturating_add(length).min(value.len());
    buffer.extend_from_slice(&value[start..end]);
    Ok(buffer)
}

/// Replaces bytes of a stream that is no file, from `offset` on.
pub(crate) fn write(
    user: &mut Impersonation,
    (open, name): (&Open, &StreamName),
    offset: u64,
    data: &[u8],
) -> Result<(), NtStatus> {
    if data.is_empty() {
        return Ok(());
    }
    let mut streams = open.streams(user);
    let mut value = streams.load(name)?;
    if open.has_afp_info() {
        AfpInfo::overwrite(&mut value, offset, data)?;
        return streams.save(name, value);
    }
    let start = stream_bytes(offset)?;
    let end = stream_bytes(offset.saturating_add(as_u64(data.len())))?;
    if value.len() < end {
        value.resize(end, 0);
    }
    value[start..end].copy_from_slice(data);
    streams.save(name, value)
}

/// Truncates a stream that is no file, or extends it with zeros.
pub(crate) fn resize(
    user: &mut Impersonation,
    (open, name): (&Open, &StreamName),
    size: u64,
) -> Result<(), NtStatus> {
    if open.has_afp_info() {
        // A structure has one length.
        let fits = size <= as_u64(AFP_INFO_LEN);
        return if fits { Ok(()) } else { Err(NtStatus::ALLOTTED_SPACE_EXCEEDED) };
    }
    let size = stream_bytes(size)?;
    let mut streams = open.streams(user);
    let mut value = streams.load(name)?;
    value.resize(size, 0);
    streams.save(name, value)
}

fn stream_bytes(size: u64) -> Result<usize, NtStatus> {
    let size = (size <= STREAM_BYTES_MAX).then(|| usize::try_from(size).ok()).flatten();
    size.ok_or(NtStatus::DISK_FULL)
}

impl Store {
    /// [MS-FSA] 2.1.5.15.12: a stream keeps to its file, and its file to its unnamed stream.
    pub(crate) fn rename_stream(
        &mut self,
        open: LocalOpen,
        target: &ObjectPath,
        replace: bool,
    ) -> Result<ObjectPath, NtStatus> {
        let opened = self.opens.get(open)?;
        let old = opened.stream.clone().ok_or(NtStatus::INVALID_PARAMETER)?;
        let wanted = target.stream().ok_or(NtStatus::INVALID_PARAMETER)?;
        let new = StreamName::new(wanted);
        let mut streams = opened.streams(&mut self.impersonation);
        let replaced = streams.find(wanted)?.filter(|found| *found != old);
        if replaced.is_some() && !replace {
            return Err(NtStatus::OBJECT_NAME_COLLISION);
        }
        if new != old {
            streams.rename(&old, &new, replaced.as_ref())?;
        }
        let inode = opened.inode;
        let path = opened.path.with_stream(Some(new.name.clone()));
        for other in self.opens.iter_mut() {
            if other.inode == inode && other.stream.as_ref() == Some(&old) {
                other.path = other.path.with_stream(Some(new.name.clone()));
                other.stream = Some(new.clone());
            }
        }
        Ok(path)
    }
}
