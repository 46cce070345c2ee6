//! POSIX ACLs, as the kernel gives and takes them in extended attributes, and as Samba hashes them.

use rustix::fs::Statx;
use rustix::io::Errno;

use crate::security::nt_acl::Hash;
use crate::sys::file_kind::is_directory;
use crate::sys::xattr::Xattrs;

/// The ACL that decides on access.
const ACCESS: &str = "system.posix_acl_access";

/// The ACL that entries of a directory get.
const DEFAULT: &str = "system.posix_acl_default";

/// Version of the value: POSIX_ACL_XATTR_VERSION.
const VERSION: u32 = 2;

/// Id in entries that need none, for the kernel.
const NO_ID: u32 = u32::MAX;

/// User or group of an entry.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Tag {
    // In the order of the kernel and of the hash.
    Owner,
    User(u32),
    OwningGroup,
    Group(u32),
    Mask,
    Other,
}

/// Read, write and execute as in one triple of a mode.
pub(crate) type Triple = u16;

/// A list in the kernel's order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct PosixAcl {
    entries: Vec<(Tag, Triple)>,
}

impl PosixAcl {
    /// Sorted, and with the mask that the kernel demands where users or groups are named: it lets
    /// every entry have what it says.
    pub(crate) fn new(mut entries: Vec<(Tag, Triple)>) -> Self {
        let named = |tag: &Tag| matches!(tag, Tag::User(_) | Tag::Group(_));
        if entries.iter().any(|(tag, _)| named(tag)) {
            let masked = entries.iter().filter(|(tag, _)| named(tag) || *tag == Tag::OwningGroup);
            let mask = masked.fold(0, |mask, (_, triple)| mask | triple);
            entries.push((Tag::Mask, mask));
        }
        entries.sort_unstable();
        Self { entries }
    }

    pub(crate) fn from_mode(mode: u16) -> Self {
        let entries = [
            (Tag::Owner, mode >> 6 & 7),
            (Tag::OwningGroup, mode >> 3 & 7),
            (Tag::Other, mode & 7),
        ];
        Self { entries: entries.to_vec() }
    }

    /// The entries, with the mask already taken from those that it limits.
    pub(crate) fn effective(&self) -> impl Iterator<Item = (Tag, Triple)> + '_ {
        let mask = self.entries.iter().find(|(tag, _)| *tag == Tag::Mask);
        let mask = mask.map_or(7, |(_, triple)| *triple);
        self.entries.iter().filter(|(tag, _)| *tag != Tag::Mask).map(move |&(tag, triple)| {
            let limited = !matches!(tag, Tag::Owner | Tag::Other);
            (tag, if limited { triple & mask } else { triple })
        })
    }

    /// The bits of the same entries, without the mask.
    pub(crate) fn unmasked(&self) -> impl Iterator<Item = Triple> + '_ {
        self.entries.iter().filter(|(tag, _)| *tag != Tag::Mask).map(|(_, triple)| *triple)
    }

    /// The nine bits of the mode that say the same, if a mode can.
    pub(crate) fn as_mode(&self) -> Option<u16> {
        match self.entries[..] {
            [(Tag::Owner, owner), (Tag::OwningGroup, group), (Tag::Other, other)] => {
                Some(owner << 6 | group << 3 | other)
            }
            _ => None,
        }
    }

    /// Returns the nearest mode: users and groups named beside owner and owning group count as
    /// others.
    pub(crate) fn nearest_mode(&self) -> u16 {
        self.effective().fold(0, |mode, (tag, triple)| match tag {
            Tag::Owner => mode | triple << 6,
            Tag::OwningGroup => mode | triple << 3,
            Tag::Other => mode | triple,
            Tag::User(_) | Tag::Group(_) | Tag::Mask => mode,
        })
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let (version, entries) = value.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*version) != VERSION || entries.len() % 8 != 0 {
            return None;
        }
        let entry = |&[t0, t1, p0, p1, i0, i1, i2, i3]: &[u8; 8]| {
            let id = u32::from_le_bytes([i0, i1, i2, i3]);
            let tag = match u16::from_le_bytes([t0, t1]) {
                0x01 => Tag::Owner,
                0x02 => Tag::User(id),
                0x04 => Tag::OwningGroup,
                0x08 => Tag::Group(id),
                0x10 => Tag::Mask,
                0x20 => Tag::Other,
                _ => return None,
            };
            Some((tag, u16::from_le_bytes([p0, p1]) & 7))
        };
        let entries = entries.as_chunks::<8>().0.iter().map(entry).collect::<Option<_>>()?;
        Some(Self { entries })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = VERSION.to_le_bytes().to_vec();
        for (tag, triple) in &self.entries {
            let (tag, id) = match *tag {
                Tag::Owner => (0x01_u16, NO_ID),
                Tag::User(id) => (0x02, id),
                Tag::OwningGroup => (0x04, NO_ID),
                Tag::Group(id) => (0x08, id),
                Tag::Mask => (0x10, NO_ID),
                Tag::Other => (0x20, NO_ID),
            };
            out.extend_from_slice(&tag.to_le_bytes());
            out.extend_from_slice(&triple.to_le_bytes());
            out.extend_from_slice(&id.to_le_bytes());
        }
        out
    }

    /// Makes this the ACL of the object. `Err(OPNOTSUPP)` where the file system has none.
    pub(crate) fn store(&self, xattrs: Xattrs<'_>) -> Result<(), Errno> {
        xattrs.set(ACCESS, &self.encode())
    }
}

/// All that the kernel decides access by.
#[derive(Clone, Debug)]
pub(crate) struct SystemAcl {
    /// `None` where the file system has no ACLs.
    pub(crate) access: Option<PosixAcl>,
    /// `None` for what is no directory, and where the file system has no ACLs.
    default: Option<PosixAcl>,
    uid: u32,
    gid: u32,
    mode: u16,
}

impl SystemAcl {
    /// An ACL that cannot be read is an error: it must not be taken for one that says nothing.
    pub(crate) fn read(xattrs: Xattrs<'_>, status: &Statx) -> Result<Self, Errno> {
        let access = read(xattrs, ACCESS, || PosixAcl::from_mode(status.stx_mode))?;
        let default =
            if is_directory(status) { read(xattrs, DEFAULT, PosixAcl::default)? } else { None };
        let (uid, gid) = (status.stx_uid, status.stx_gid);
        Ok(Self { access, default, uid, gid, mode: status.stx_mode })
    }

    /// The hash of Samba's NDR structure `smb_acl_wrapper`.
    pub(crate) fn hash(&self) -> Hash {
        Hash::of(&self.encode())
    }

    /// Two pointers to lists, owner, group and mode; then the lists. Ids have 64 bits, aligned so.
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        let mut referent = 0x0002_0000_u32;
        for list in [&self.access, &self.default] {
            let pointer = if list.is_some() { referent } else { 0 };
            referent += if list.is_some() { 4 } else { 0 };
            out.extend_from_slice(&pointer.to_le_bytes());
        }
        out.extend_from_slice(&u64::from(self.uid).to_le_bytes());
        out.extend_from_slice(&u64::from(self.gid).to_le_bytes());
        out.extend_from_slice(&u32::from(self.mode).to_le_bytes());
        for list in [&self.access, &self.default].into_iter().flatten() {
            push_list(&mut out, list);
        }
        out
    }
}

/// The count of entries, once as that of the array and once as a field; 0; the entries.
fn push_list(out: &mut Vec<u8>, list: &PosixAcl) {
    let align = |out: &mut Vec<u8>| out.resize(out.len().next_multiple_of(8), 0);
    let count = u32::try_from(list.entries.len()).expect("at most 64 KiB of eight bytes each");
    out.extend_from_slice(&count.to_le_bytes());
    align(out);
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    for (tag, triple) in &list.entries {
        let (tag, id) = match *tag {
            Tag::User(id) => (1_u16, Some(id)),
            Tag::Owner => (2, None),
            Tag::Group(id) => (3, Some(id)),
            Tag::OwningGroup => (4, None),
            Tag::Other => (5, None),
            Tag::Mask => (6, None),
        };
        align(out);
        // The tag, and the tag again as the discriminant of a union.
        out.extend_from_slice(&tag.to_le_bytes());
        out.extend_from_slice(&tag.to_le_bytes());
        if let Some(id) = id {
            align(out);
            out.extend_from_slice(&u64::from(id).to_le_bytes());
        }
        out.extend_from_slice(&u32::from(*triple).to_le_bytes());
    }
}

/// `None` where the file system has no ACLs.
fn read(
    xattrs: Xattrs<'_>,
    name: &str,
    absent: impl FnOnce() -> PosixAcl,
) -> Result<Option<PosixAcl>, Errno> {
    match xattrs.get(name) {
        Ok(value) if value.is_empty() => Ok(Some(absent())),
        Ok(value) => PosixAcl::decode(&value).map(Some).ok_or(Errno::INVAL),
        Err(Errno::NODATA) => Ok(Some(absent())),
        Err(Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Whether entries of this directory get an ACL of their own from the kernel.
pub(crate) fn has_default(xattrs: Xattrs<'_>) -> bool {
    xattrs.length(DEFAULT).is_ok_and(|length| length > 4)
}

#[cfg(test)]
mod tests {
    use super::{PosixAcl, SystemAcl, Tag};

    #[test]
    fn a_named_entry_brings_a_mask_that_lets_it_through() {
        let acl = PosixAcl::new(vec![
            (Tag::Other, 0),
            (Tag::User(7), 6),
            (Tag::OwningGroup, 1),
            (Tag::Owner, 4),
        ]);
        let want = [
            (Tag::Owner, 4),
            (Tag::User(7), 6),
            (Tag::OwningGroup, 1),
            (Tag::Mask, 7),
            (Tag::Other, 0),
        ];
        assert_eq!(acl.entries, want);
        assert_eq!(PosixAcl::decode(&acl.encode()), Some(acl.clone()));
        assert_eq!(acl.as_mode(), None);
        assert_eq!(PosixAcl::from_mode(0o100_751).as_mode(), Some(0o751));
    }

    #[test]
    fn the_mask_limits_all_but_owner_and_others() {
        let entries = vec![(Tag::Owner, 7), (Tag::OwningGroup, 7), (Tag::Mask, 4), (Tag::Other, 5)];
        let effective: Vec<_> = PosixAcl { entries }.effective().collect();
        assert_eq!(effective, [(Tag::Owner, 7), (Tag::OwningGroup, 4), (Tag::Other, 5)]);
    }

    #[test]
    fn no_value_makes_it_panic() {
        let acl = PosixAcl::new(vec![(Tag::Owner, 7), (Tag::User(1), 7)]).encode();
        for cut in 0..acl.len() {
            let whole = cut % 8 == 4;
            assert_eq!(PosixAcl::decode(&acl[..cut]).is_some(), whole, "cut at {cut}");
        }
        for at in 0..acl.len() {
            let mut value = acl.clone();
            value[at] ^= 0xFF;
            // Whatever it is, it is an answer.
            let _ = PosixAcl::decode(&value);
        }
    }

    /// As Samba 4.17 encodes them.
    #[test]
    fn the_hashed_form_is_sambas() {
        let hex =
            |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let mut system = SystemAcl {
            access: Some(PosixAcl::new(vec![
                (Tag::Owner, 6),
                (Tag::User(1001), 4),
                (Tag::OwningGroup, 4),
                (Tag::Group(1002), 7),
                (Tag::Other, 4),
            ])),
            default: None,
            uid: 1001,
            gid: 1002,
            mode: 0o100_674,
        };
        assert_eq!(
            hex(system.encode()),
            "0000020000000000e903000000000000ea03000000000000bc810000\
             060000000600000000000000\
             0200020006000000\
             0100010000000000e9030000000000000400000000000000\
             0400040004000000\
             0300030000000000ea030000000000000700000000000000\
             0600060007000000\
             0500050004000000"
        );
        system.access = Some(PosixAcl::from_mode(0o755));
        system.default = Some(PosixAcl::default());
        system.mode = 0o040_755;
        assert_eq!(
            hex(system.encode()),
            "0000020004000200e903000000000000ea03000000000000ed410000\
             030000000300000000000000\
             020002000700000004000400050000000500050005000000\
             00000000000000000000000000000000"
        );
        (system.access, system.default, system.mode) = (None, None, 0o100_644);
        let want = "0000000000000000e903000000000000ea03000000000000a4810000";
        assert_eq!(hex(system.encode()), want);
    }

    #[test]
    fn hashes_differ_by_each_thing_that_access_depends_on() {
        let system = SystemAcl {
            access: Some(PosixAcl::from_mode(0o644)),
            default: None,
            uid: 1,
            gid: 2,
            mode: 0o100_644,
        };
        let others = [
            SystemAcl { uid: 2, ..system.clone() },
            SystemAcl { gid: 1, ..system.clone() },
            SystemAcl { mode: 0o100_645, ..system.clone() },
            SystemAcl { access: None, ..system.clone() },
            SystemAcl { default: Some(PosixAcl::default()), ..system.clone() },
            SystemAcl { access: Some(PosixAcl::from_mode(0o640)), ..system.clone() },
        ];
        for other in others {
            assert_ne!(other.hash(), system.hash(), "{other:?}");
        }
    }
}
