//! DOS attributes in the permission bits of a mode: `map archive`, `map hidden`, `map system` and
//! `map readonly`, for shares that store no attributes, and file systems that keep none.
//!
//! The execute bits stand for attributes of files, as in Samba. A directory has READONLY only.

use dtyp::FileAttributes;
use object::ObjectKind;
use rustix::fs::Statx;

use crate::model::root::Root;
use crate::settings::{ReadOnlySource, RootSettings};
use crate::sys::file_kind::kind_of;
use crate::sys::xattr::Xattrs;

/// Write bits of owner, group and others.
const WRITE: u32 = 0o222;

/// Returns the attributes that an object has by its mode, or by the rights of the user.
pub(crate) fn of_object(root: &Root, status: &Statx, xattrs: Xattrs<'_>) -> Option<FileAttributes> {
    let kind = kind_of(status);
    let mode = u32::from(status.stx_mode);
    let mut found = match kind {
        ObjectKind::File => of_bits(&root.settings, mode),
        ObjectKind::Directory => FileAttributes::empty(),
        _ => return None,
    };
    let read_only = match root.settings.mode_attributes.read_only {
        ReadOnlySource::No => false,
        ReadOnlySource::Mode => mode & libc::S_IWUSR == 0,
        ReadOnlySource::Rights => xattrs.may_access(libc::W_OK).is_err(),
    };
    found.set(FileAttributes::READONLY, read_only);
    Some(found)
}

/// The execute bits of a new file with these attributes, before the share's mask.
pub(crate) fn bits_of(settings: &RootSettings, attributes: FileAttributes) -> u32 {
    let has = |(attribute, _): &(FileAttributes, u32)| attributes.contains(*attribute);
    mapped(settings).filter(has).fold(0, |bits, (_, bit)| bits | bit)
}

/// Returns the mode of an existing object that gets these attributes; the bits that stand for none
/// stay. Only the owner of a directory keeps the right to add to it in any case.
pub(crate) fn mode_with(
    settings: &RootSettings,
    mode: u32,
    attributes: FileAttributes,
    kind: ObjectKind,
) -> u32 {
    let read_only = attributes.contains(FileAttributes::READONLY);
    if kind != ObjectKind::File {
        return if read_only { mode & !WRITE | libc::S_IWUSR } else { mode };
    }
    let every = mapped(settings).fold(0, |bits, (_, bit)| bits | bit);
    let mode = mode & !every | bits_of(settings, attributes) & settings.create_mask;
    match read_only {
        true => mode & !WRITE,
        false => mode | WRITE & settings.create_mask,
    }
}

fn of_bits(settings: &RootSettings, mode: u32) -> FileAttributes {
    let has = |(_, bit): &(FileAttributes, u32)| mode & bit != 0;
    mapped(settings).filter(has).map(|(attribute, _)| attribute).collect()
}

/// The attributes that have a bit in the share.
fn mapped(settings: &RootSettings) -> impl Iterator<Item = (FileAttributes, u32)> {
    let mapped = settings.mode_attributes;
    [
        (mapped.archive, FileAttributes::ARCHIVE, libc::S_IXUSR),
        (mapped.system, FileAttributes::SYSTEM, libc::S_IXGRP),
        (mapped.hidden, FileAttributes::HIDDEN, libc::S_IXOTH),
    ]
    .into_iter()
    .filter_map(|(is_on, attribute, bit)| is_on.then_some((attribute, bit)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ModeAttributes;

    #[test]
    fn a_mode_keeps_the_bits_that_stand_for_no_attribute() {
        let mode_attributes =
            ModeAttributes { archive: true, hidden: true, ..ModeAttributes::default() };
        let settings =
            RootSettings { create_mask: 0o775, mode_attributes, ..RootSettings::new("/") };
        let with = |mode, attributes| mode_with(&settings, mode, attributes, ObjectKind::File);
        let (archive, hidden) = (FileAttributes::ARCHIVE, FileAttributes::HIDDEN);
        assert_eq!(with(0o644, archive), 0o764);
        assert_eq!(with(0o755, FileAttributes::empty()), 0o674);
        assert_eq!(with(0o644, hidden | FileAttributes::SYSTEM), 0o665, "SYSTEM has no bit");
        assert_eq!(with(0o764, archive | FileAttributes::READONLY), 0o544);
        let directory = |attributes| mode_with(&settings, 0o775, attributes, ObjectKind::Directory);
        assert_eq!(directory(FileAttributes::READONLY), 0o755);
        assert_eq!(directory(hidden), 0o775);
    }

    #[test]
    fn a_bit_that_the_mask_lacks_is_not_set() {
        let mode_attributes = ModeAttributes { system: true, ..ModeAttributes::default() };
        let settings = RootSettings { mode_attributes, ..RootSettings::new("/") };
        let system = FileAttributes::SYSTEM;
        assert_eq!(mode_with(&settings, 0o644, system, ObjectKind::File), 0o644, "0744 lacks it");
    }
}
