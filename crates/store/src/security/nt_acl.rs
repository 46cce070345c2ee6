//! NT security descriptors in the extended attribute `security.NTACL`, in Samba's encoding.
//!
//! The value is NDR of Samba's own structure `xattr_NTACL`: a version, the version again as the
//! discriminant of a union, and what the version has. Versions 3 and 4 carry hashes of what the
//! mode and the POSIX ACL said when the descriptor was stored: who finds other ones knows that
//! somebody changed them locally, and that the descriptor no longer holds. We write version 4 and
//! read 1 to 4.
//!
//! The offsets inside the descriptor count from the beginning of the value, not from the beginning
//! of the descriptor as in its packet form.

use aws_lc_rs::digest;
use dtyp::SecurityDescriptor;

/// Bytes of a hash field: SHA-256 fills the first half.
const HASH_FIELD_LEN: usize = 64;

/// Samba's number of the hash type: XATTR_SD_HASH_TYPE_SHA256.
const HASH_TYPE_SHA256: u16 = 1;

/// Description of the source of the second hash in version 4. Samba writes the same.
const DESCRIPTION: &[u8] = b"posix_acl\0";

/// Longest description, in bytes; a longer one makes the value invalid.
const DESCRIPTION_LEN_MAX: usize = 256;

/// Offset of the descriptor in version 3.
const DESCRIPTOR_AT_V3: usize = 80;

/// Offset of the descriptor in the version 4 that Choro writes.
const DESCRIPTOR_AT_V4: usize = 160;

/// NDR's referents of the two pointers.
const REFERENTS: [u32; 2] = [0x0002_0000, 0x0002_0004];

/// SHA-256 of a descriptor or an ACL.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Hash([u8; 32]);

impl Hash {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let digest = digest::digest(&digest::SHA256, bytes);
        Self(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// Of a descriptor, as the form that Samba hashes: version 3 without a hash in it.
    pub(crate) fn of_descriptor(descriptor: &SecurityDescriptor) -> Self {
        Self::of(&encode_v3(descriptor))
    }

    fn push(self, out: &mut Vec<u8>) {
        let end = out.len() + HASH_FIELD_LEN;
        out.extend_from_slice(&self.0);
        out.resize(end, 0);
    }

    /// `None` if the second half is in use, which no SHA-256 does.
    fn read(field: &[u8]) -> Option<Self> {
        let (hash, rest) = field.split_first_chunk::<32>()?;
        rest.iter().all(|byte| *byte == 0).then_some(Self(*hash))
    }
}

/// State of the object that a stored descriptor depends on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Basis {
    /// Versions 1 and 2 hold whatever happens to the mode.
    None,
    /// A hash of a kind that we do not know: as good as changed.
    Unknown,
    /// Version 3: the descriptor that mode and POSIX ACL amounted to.
    Descriptor(Hash),
    /// Version 4: that, and mode and POSIX ACL themselves. One that is the same is enough.
    System { descriptor: Hash, system: Hash },
}

/// A descriptor as it is stored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct StoredDescriptor {
    pub(crate) descriptor: SecurityDescriptor,
    pub(crate) basis: Basis,
}

/// Version 4. `descriptor_hash` and `system_hash` are of what holds once the descriptor is applied.
pub(crate) fn encode(
    descriptor: &SecurityDescriptor,
    descriptor_hash: Hash,
    system_hash: Hash,
) -> Vec<u8> {
    let mut out = header(4);
    descriptor_hash.push(&mut out);
    out.extend_from_slice(DESCRIPTION);
    out.resize(out.len().next_multiple_of(8), 0);
    // A time that is always zero.
    out.extend_from_slice(&[0; 8]);
    system_hash.push(&mut out);
    push_descriptor(&mut out, descriptor, DESCRIPTOR_AT_V4);
    out
}

fn encode_v3(descriptor: &SecurityDescriptor) -> Vec<u8> {
    let mut out = header(3);
    Hash([0; 32]).push(&mut out);
    push_descriptor(&mut out, descriptor, DESCRIPTOR_AT_V3);
    out
}

/// All that stands before the first hash.
fn header(version: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(&version.to_le_bytes());
    for referent in REFERENTS {
        out.extend_from_slice(&referent.to_le_bytes());
    }
    out.extend_from_slice(&HASH_TYPE_SHA256.to_le_bytes());
    out
}

fn push_descriptor(out: &mut Vec<u8>, descriptor: &SecurityDescriptor, at: usize) {
    out.resize(out.len().next_multiple_of(4), 0);
    assert_eq!(out.len(), at, "the parts before have a fixed length");
    descriptor.encode(out);
    let shift = u32::try_from(at).expect("one of two small constants");
    for part in 0..4 {
        let place = at + 4 + 4 * part;
        let field = out[place..].first_chunk_mut::<4>().expect("a descriptor has 20 bytes");
        let offset = u32::from_le_bytes(*field);
        if offset != 0 {
            *field = (offset + shift).to_le_bytes();
        }
    }
}

/// `None` if it is none of the four versions, or not whole.
pub(crate) fn decode(value: &[u8]) -> Option<StoredDescriptor> {
    let u16_at = |at: usize| Some(u16::from_le_bytes(*value.get(at..)?.first_chunk()?));
    let hash_at = |at: usize| Hash::read(value.get(at..at.checked_add(HASH_FIELD_LEN)?)?);
    let version = u16_at(0)?;
    if u16_at(2)? != version {
        return None;
    }
    let is_sha256 = matches!(version, 3 | 4) && u16_at(12)? == HASH_TYPE_SHA256;
    let (at, basis) = match version {
        // Version, a pointer, the descriptor.
        1 => (8, Basis::None),
        // Version, two pointers, 16 bytes of a hash that was never used.
        2 => (28, Basis::None),
        3 if is_sha256 => (DESCRIPTOR_AT_V3, Basis::Descriptor(hash_at(14)?)),
        3 => (DESCRIPTOR_AT_V3, Basis::Unknown),
        4 => {
            let rest = value.get(78..)?;
            let end = rest.iter().take(DESCRIPTION_LEN_MAX).position(|byte| *byte == 0)?;
            let hash = (78 + end + 1).next_multiple_of(8) + 8;
            let basis = if is_sha256 {
                Basis::System { descriptor: hash_at(14)?, system: hash_at(hash)? }
            } else {
                Basis::Unknown
            };
            (hash + HASH_FIELD_LEN, basis)
        }
        _ => return None,
    };
    let descriptor = decode_descriptor(value, at)?;
    Some(StoredDescriptor { descriptor, basis })
}

/// The descriptor at `at`, whose offsets count from the beginning of `value`.
fn decode_descriptor(value: &[u8], at: usize) -> Option<SecurityDescriptor> {
    let mut packed = value.get(at..)?.to_vec();
    let shift = u32::try_from(at).ok()?;
    for part in 0..4 {
        let field = packed.get_mut(4 + 4 * part..)?.first_chunk_mut::<4>()?;
        let offset = u32::from_le_bytes(*field);
        if offset != 0 {
            *field = offset.checked_sub(shift)?.to_le_bytes();
        }
    }
    SecurityDescriptor::decode(&packed)
}

#[cfg(test)]
mod tests;
