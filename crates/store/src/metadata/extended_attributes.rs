//! Extended attributes of SMB in those of the host, as Samba maps them: the attribute `n` of SMB is
//! `user.n` with the same value. Those that the server itself uses are hidden.

use std::collections::HashMap;

use crate::model::stream_name::PREFIX;
use dtyp::NtStatus;
use object::{ExtendedAttribute, LocalOpen};
use rustix::io::Errno;

use crate::Store;
use crate::errno::{During, Operation};
use crate::metadata::reparse_attribute;
use crate::model::root::Root;
use crate::sys::xattr::Xattrs;

/// Names that servers keep their own things in, compared without case so that no client can make
/// one that a case-insensitive file system takes for ours.
const RESERVED: [&str; 7] = [
    "user.DOSATTRIB",
    "user.NTACL",
    "user.SAMBA_PAI",
    "user.SAMBA_STREAMS",
    "user.org.netatalk.",
    reparse_attribute::NAME,
    PREFIX,
];

/// The name on the host, if it may be shown and set.
fn host_name(root: &Root, name: &str) -> Result<String, NtStatus> {
    let legal = !name.is_empty() && name.len() <= 249 && name.bytes().all(|byte| byte >= b' ');
    if !legal {
        return Err(NtStatus::INVALID_EA_NAME);
    }
    let host = format!("user.{name}");
    if is_reserved(root, &host) { Err(NtStatus::ACCESS_DENIED) } else { Ok(host) }
}

fn is_reserved(root: &Root, host: &str) -> bool {
    let begins = |reserved: &str| {
        host.get(..reserved.len()).is_some_and(|start| start.eq_ignore_ascii_case(reserved))
    };
    // "security_acl_name" can be a name in `user.`.
    let own = root.settings.nt_acls.as_ref().map(|settings| settings.attribute.as_str());
    RESERVED.into_iter().any(begins) || own.is_some_and(|own| own.eq_ignore_ascii_case(host))
}

/// The attributes that clients see, by their names on the host.
fn shown(root: &Root, names: Vec<String>) -> impl Iterator<Item = String> {
    let visible =
        move |name: &String| !is_reserved(root, name) && name.is_ascii() && name.len() > 5;
    names.into_iter().filter(visible)
}

/// Bytes in FILE_FULL_EA_INFORMATION form, given the lengths of names and values: [MS-FSCC] 2.4.16.
/// All entries but the last are padded to four bytes.
fn packed_size(lengths: impl Iterator<Item = (usize, usize)>) -> u32 {
    let total = lengths
        .fold(0usize, |total, (name, value)| total.next_multiple_of(4) + 8 + name + 1 + value);
    u32::try_from(total).unwrap_or(u32::MAX)
}

/// As [`Metadata::ea_size`](object::Metadata::ea_size) wants it; 0 if it cannot be known.
pub(crate) fn size_of_all(root: &Root, xattrs: Xattrs<'_>) -> u32 {
    if !root.settings.ea_support {
        return 0;
    }
    let names = xattrs.names().unwrap_or_default();
    let lengths = |name: String| Some((name.len() - 5, xattrs.length(&name).ok()?));
    packed_size(shown(root, names).filter_map(lengths))
}

/// Removes all that clients see: a file that is overwritten starts anew.
pub(crate) fn remove_all(root: &Root, xattrs: Xattrs<'_>) -> Result<(), NtStatus> {
    let names = xattrs.names().during(Operation::WriteExtendedAttribute)?;
    for name in shown(root, names) {
        match xattrs.remove(&name) {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(errno) => return Err(errno).during(Operation::WriteExtendedAttribute),
        }
    }
    Ok(())
}

/// Sets, or removes those with an empty value. Names, and the size of all together, are checked
/// before anything is changed: [MS-FSA] 2.1.5.15.5.
pub(crate) fn set_all(
    root: &Root,
    xattrs: Xattrs<'_>,
    wanted: &[ExtendedAttribute],
) -> Result<(), NtStatus> {
    if wanted.is_empty() {
        return Ok(());
    }
    for attribute in wanted {
        host_name(root, &attribute.name)?;
    }
    let existing = xattrs.names().during(Operation::WriteExtendedAttribute)?;
    verify_size(root, xattrs, &existing, wanted)?;
    for attribute in wanted {
        let host = host_name(root, &attribute.name)?;
        // Windows compares the names without case, the host does not.
        let stored = existing.iter().find(|name| name.eq_ignore_ascii_case(&host));
        let name = stored.unwrap_or(&host);
        let result = if attribute.value.is_empty() {
            match xattrs.remove(name) {
                Err(Errno::NODATA) => Ok(()),
                result => result,
            }
        } else {
            xattrs.set(name, &attribute.value)
        };
        result.during(Operation::WriteExtendedAttribute)?;
    }
    Ok(())
}

/// Refuses attributes that would make those of a file larger than all may be. Local programs may
/// have set more: then clients can only remove some, or make them smaller.
fn verify_size(
    root: &Root,
    xattrs: Xattrs<'_>,
    existing: &[String],
    wanted: &[ExtendedAttribute],
) -> Result<(), NtStatus> {
    let mut lengths: HashMap<String, usize> = shown(root, existing.to_vec())
        .filter_map(|name| Some((name[5..].to_ascii_uppercase(), xattrs.length(&name).ok()?)))
        .collect();
    let size = |lengths: &HashMap<String, usize>| {
        packed_size(lengths.iter().map(|(name, value)| (name.len(), *value)))
    };
    let before = size(&lengths);
    for attribute in wanted {
        match attribute.value.len() {
            0 => lengths.remove(&attribute.name.to_ascii_uppercase()),
            length => lengths.insert(attribute.name.to_ascii_uppercase(), length),
        };
    }
    match size(&lengths) > before.max(SET_BYTES_MAX) {
        true => Err(NtStatus::EA_TOO_LARGE),
        false => Ok(()),
    }
}

/// Highest size of the extended attributes that clients can give to a file, in the form of
/// FILE_FULL_EA_INFORMATION: 64 KiB less 5 bytes, [MS-FSA] 2.1.5.15.5.
const SET_BYTES_MAX: u32 = 65_531;

/// Bytes of values after which no more are read: local programs may have set hundreds of megabytes.
/// Clients do not see the rest.
const READ_BYTES_MAX: usize = 1024 * 1024;

/// Reads the values of attributes, up to [`READ_BYTES_MAX`].
fn read_all(
    names: impl Iterator<Item = String>,
    read: impl Fn(&str) -> Result<Vec<u8>, Errno>,
) -> Vec<ExtendedAttribute> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    for name in names {
        if bytes >= READ_BYTES_MAX {
            break;
        }
        // One that vanished meanwhile is left out.
        let Ok(mut value) = read(&name) else { continue };
        value.shrink_to_fit();
        bytes += value.len();
        found.push(ExtendedAttribute { flags: 0, name: name[5..].to_owned(), value });
    }
    found
}

impl Store {
    pub(crate) fn read_extended_attributes(
        &self,
        open: LocalOpen,
    ) -> Result<Vec<ExtendedAttribute>, NtStatus> {
        let known = self.seen.as_ref().filter(|seen| seen.open == open);
        let open = self.opens.get(open)?;
        if !open.root.settings.ea_support {
            return Err(NtStatus::EAS_NOT_SUPPORTED);
        }
        if known.is_some_and(|seen| seen.lacks_xattrs) {
            return Ok(Vec::new());
        }
        let xattrs = open.xattrs();
        let names = xattrs.names().during(Operation::Query)?;
        Ok(read_all(shown(&open.root, names), |name| xattrs.get(name)))
    }

    pub(crate) fn write_extended_attributes(
        &self,
        open: LocalOpen,
        wanted: &[ExtendedAttribute],
    ) -> Result<(), NtStatus> {
        let open = self.opens.get(open)?;
        if !open.root.settings.ea_support {
            return Err(NtStatus::EAS_NOT_SUPPORTED);
        }
        open.root.verify_changeable()?;
        set_all(&open.root, open.xattrs(), wanted)
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::{READ_BYTES_MAX, read_all};

    #[test]
    fn values_are_read_up_to_a_mebibyte() {
        let names = (0..2_500).map(|number| format!("user.{number}"));
        let found = read_all(names, |name| match name {
            "user.1" => Err(Errno::NODATA),
            _ => {
                let mut value = Vec::with_capacity(65_536);
                value.resize(60_000, 0);
                Ok(value)
            }
        });
        assert_eq!(found.len(), READ_BYTES_MAX.div_ceil(60_000));
        assert_eq!([&found[0].name, &found[1].name], ["0", "2"], "one that is gone is left out");
        assert!(found.iter().all(|it| it.value.capacity() == 60_000), "no memory is kept");
    }
}
