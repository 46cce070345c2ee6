//! Named streams in extended attributes, as Samba's `vfs_streams_xattr` keeps them: the stream `s`
//! is the value of `user.DosStream.s:$DATA`, followed by one byte of zero.
//!
//! A stream is read and written whole. Two clients that write different parts of one stream at the
//! same moment through different processes may undo each other's change, as with Samba.

use crate::model::stream_name::{AFP_INFO, StreamName};
use bytes::BytesMut;
use dtyp::{NtStatus, upcase};
use object::{LocalOpen, Metadata, ObjectPath};
use rustix::io::Errno;
use tracing::error;

use crate::Store;
use crate::errno::{During, Operation};
use crate::metadata::afp_info::{AFP_INFO_LEN, AfpInfo};
use crate::metadata::apple_double::AppleDouble;
use crate::metadata::clusters::round_up;
use crate::model::opens::Open;
use crate::model::root::Root;
use crate::sys::lengths::as_u64;
use crate::sys::xattr::Xattrs;

/// `XATTR_SIZE_MAX` without the byte at the end. File systems may take less (ext4: a block).
pub(crate) const STREAM_BYTES_MAX: u64 = 65_535;

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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams<'a> {
    xattrs: Xattrs<'a>,
    /// The share is for Apple's clients: a stream without bytes is none, and `AFP_AfpInfo` a
    /// structure.
    is_apple: bool,
}

impl<'a> Streams<'a> {
    pub(crate) fn new(root: &Root, xattrs: Xattrs<'a>) -> Self {
        Self { xattrs, is_apple: root.settings.apple_streams }
    }

    /// Returns the names of all streams of the object.
    pub(crate) fn list(self) -> Result<Vec<StreamName>, NtStatus> {
        let names = self.xattrs.names().during(Operation::Stream)?;
        let mut streams: Vec<StreamName> =
            names.iter().filter_map(|name| StreamName::from_attribute(name)).collect();
        if self.is_apple {
            let info = StreamName::new(AFP_INFO);
            if names.iter().any(|name| name == NETATALK) && !streams.contains(&info) {
                streams.push(info);
            }
            streams.retain(|name| matches!(self.exists(name), Ok(true)));
        }
        Ok(streams)
    }

    /// The stream of that name: as it is written if possible, else without regard to case.
    pub(crate) fn find(self, name: &str) -> Result<Option<StreamName>, NtStatus> {
        let exact = StreamName::new(name);
        if self.exists(&exact)? {
            return Ok(Some(exact));
        }
        let streams = self.list()?;
        Ok(streams.into_iter().find(|stream| upcase::equal_ignoring_case(&stream.name, name)))
    }

    fn exists(self, name: &StreamName) -> Result<bool, NtStatus> {
        if self.is_apple && name.is_afp_info() {
            return Ok(self.afp_info(name)?.is_some());
        }
        match self.xattrs.length(&name.attribute) {
            Ok(length) => Ok(!self.is_apple || length > 1),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
            Err(errno) => Err(errno).during(Operation::Stream),
        }
    }

    /// Returns the structure that is stored, if it is one, or what Netatalk has stored.
    fn afp_info(self, name: &StreamName) -> Result<Option<AfpInfo>, NtStatus> {
        match self.xattrs.get(&name.attribute) {
            Ok(value) => Ok(AfpInfo::stored(&value)),
            Err(Errno::NODATA) => Ok(netatalk_info(self.xattrs)),
            Err(Errno::OPNOTSUPP) => Ok(None),
            Err(errno) => Err(errno).during(Operation::Stream),
        }
    }

    pub(crate) fn size(self, name: &StreamName) -> Result<u64, NtStatus> {
        if self.is_apple && name.is_afp_info() {
            return Ok(as_u64(AFP_INFO_LEN));
        }
        match self.xattrs.length(&name.attribute) {
            Err(Errno::NODATA) if self.is_apple => Ok(0),
            length => Ok(as_u64(length.during(Operation::Stream)?.saturating_sub(1))),
        }
    }

    pub(crate) fn load(self, name: &StreamName) -> Result<Vec<u8>, NtStatus> {
        if self.is_apple && name.is_afp_info() {
            return Ok(self.afp_info(name)?.unwrap_or_default().into());
        }
        match self.xattrs.get(&name.attribute) {
            Err(Errno::NODATA) if self.is_apple => Ok(Vec::new()),
            value => {
                let mut value = value.during(Operation::Stream)?;
                value.pop();
                Ok(value)
            }
        }
    }

    pub(crate) fn save(self, name: &StreamName, mut value: Vec<u8>) -> Result<(), NtStatus> {
        let says_nothing = || name.is_afp_info() && AfpInfo::stored(&value).is_none();
        if self.is_apple && (value.is_empty() || says_nothing()) {
            return self.remove(name);
        }
        value.push(0);
        self.xattrs.set(&name.attribute, &value).during(Operation::Stream)?;
        self.forget_netatalk(name);
        Ok(())
    }

    /// Makes a stream without bytes, as far as there is such a thing.
    pub(crate) fn create(self, name: &StreamName) -> Result<(), NtStatus> {
        if self.is_apple { Ok(()) } else { self.save(name, Vec::new()) }
    }

    /// Removes what Netatalk has stored, once it was replaced by a stream.
    fn forget_netatalk(self, name: &StreamName) {
        if self.is_apple && name.is_afp_info() {
            let _ = self.xattrs.remove(NETATALK);
        }
    }

    pub(crate) fn remove(self, name: &StreamName) -> Result<(), NtStatus> {
        self.forget_netatalk(name);
        match self.xattrs.remove(&name.attribute) {
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
        self,
        old: &StreamName,
        new: &StreamName,
        replaced: Option<&StreamName>,
    ) -> Result<(), NtStatus> {
        let before = self.values_of([Some(old), Some(new), replaced].into_iter().flatten())?;
        let value = self.load(old)?;
        let others = || [Some(old), replaced].into_iter().flatten().filter(move |it| *it != new);
        let remove_others = || others().try_for_each(|name| self.remove_if_there(name));
        let renamed = match self.save(new, value.clone()) {
            Err(NtStatus::DISK_FULL) => {
                // Replacing a value may take room beside it as well.
                let make_room = remove_others().and_then(|()| self.remove_if_there(new));
                make_room.and_then(|()| self.save(new, value))
            }
            result => result.and_then(|()| remove_others()),
        };
        renamed.inspect_err(|_| self.put_back(&before))
    }

    /// Returns the attributes of some streams, and the values of those that are there.
    fn values_of<'n>(
        self,
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
    fn put_back(self, before: &[Kept<'_>]) {
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

    fn remove_if_there(self, name: &StreamName) -> Result<(), NtStatus> {
        match self.remove(name) {
            Err(NtStatus::OBJECT_NAME_NOT_FOUND) => Ok(()),
            result => result,
        }
    }

    /// Removes a stream at the request of a client. A resource fork stays: Apple's
    /// servers ignore that request, and its clients truncate the fork instead.
    pub(crate) fn delete(self, name: &StreamName) -> Result<(), NtStatus> {
        if self.is_apple && name.is_resource_fork() { Ok(()) } else { self.remove(name) }
    }
}

/// Returns the Finder's information that Netatalk, or Samba by default, has stored.
pub(crate) fn netatalk_info(xattrs: Xattrs<'_>) -> Option<AfpInfo> {
    AppleDouble::read(&xattrs.get(NETATALK).ok()?)?.afp_info()
}

impl Open {
    pub(crate) fn streams(&self) -> Streams<'_> {
        Streams::new(&self.root, self.xattrs())
    }
}

/// Appends the data of the stream at `offset`.
pub(crate) fn read(
    open: &Open,
    name: &StreamName,
    offset: u64,
    length: u32,
    mut buffer: BytesMut,
) -> Result<BytesMut, NtStatus> {
    let value = open.streams().load(name)?;
    let offset = if open.has_afp_info() { AfpInfo::read_offset(offset) } else { offset };
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(value.len());
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let end = start.saturating_add(length).min(value.len());
    buffer.extend_from_slice(&value[start..end]);
    Ok(buffer)
}

/// Replaces the stream's bytes from `offset` on.
pub(crate) fn write(
    open: &Open,
    name: &StreamName,
    offset: u64,
    data: &[u8],
) -> Result<(), NtStatus> {
    if data.is_empty() {
        return Ok(());
    }
    let mut value = open.streams().load(name)?;
    if open.has_afp_info() {
        AfpInfo::overwrite(&mut value, offset, data)?;
        return open.streams().save(name, value);
    }
    let start = stream_bytes(offset)?;
    let end = stream_bytes(offset.saturating_add(as_u64(data.len())))?;
    if value.len() < end {
        value.resize(end, 0);
    }
    value[start..end].copy_from_slice(data);
    open.streams().save(name, value)
}

/// Truncates or extends with zeros.
pub(crate) fn resize(open: &Open, name: &StreamName, size: u64) -> Result<(), NtStatus> {
    if open.has_afp_info() {
        // A structure has one length.
        let fits = size <= as_u64(AFP_INFO_LEN);
        return if fits { Ok(()) } else { Err(NtStatus::ALLOTTED_SPACE_EXCEEDED) };
    }
    let size = stream_bytes(size)?;
    let mut value = open.streams().load(name)?;
    value.resize(size, 0);
    open.streams().save(name, value)
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
        let streams = opened.streams();
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
