//! SID: [MS-DTYP] 2.4.2.

use std::fmt;

/// A security identifier, with at most 15 subauthorities, as in the packet form.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Sid {
    authority: u64,
    count: u8,
    subauthorities: [u32; Self::SUBAUTHORITIES_MAX],
}

impl Sid {
    /// Highest number of subauthorities of a SID.
    pub const SUBAUTHORITIES_MAX: usize = 15;

    /// S-1-1-0, Everyone: users of any kind.
    #[must_use]
    pub fn everyone() -> Self {
        Self::new(1, &[0])
    }

    /// S-1-3-0, CREATOR OWNER: replaced in inheritance.
    #[must_use]
    pub fn creator_owner() -> Self {
        Self::new(3, &[0])
    }

    /// S-1-3-1, CREATOR GROUP: replaced in inheritance.
    #[must_use]
    pub fn creator_group() -> Self {
        Self::new(3, &[1])
    }

    /// S-1-3-4, OWNER RIGHTS: the owner of the object.
    #[must_use]
    pub fn owner_rights() -> Self {
        Self::new(3, &[4])
    }

    /// S-1-5-2, NETWORK: users logged on over the network.
    #[must_use]
    pub fn network() -> Self {
        Self::new(5, &[2])
    }

    /// S-1-5-7, ANONYMOUS LOGON: users without a name.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::new(5, &[7])
    }

    /// S-1-5-11, Authenticated Users: all users but guests and anonymous ones.
    #[must_use]
    pub fn authenticated_users() -> Self {
        Self::new(5, &[11])
    }

    /// S-1-5-18, SYSTEM: the operating system.
    #[must_use]
    pub fn system() -> Self {
        Self::new(5, &[18])
    }

    /// S-1-5-32-544, Administrators, of the local machine.
    #[must_use]
    pub fn administrators() -> Self {
        Self::new(5, &[32, 544])
    }

    /// S-1-5-32-545, Users, of the local machine.
    #[must_use]
    pub fn users() -> Self {
        Self::new(5, &[32, 545])
    }

    /// S-1-5-32-546, Guests, of the local machine.
    #[must_use]
    pub fn guests() -> Self {
        Self::new(5, &[32, 546])
    }

    /// S-1-22-1-UID, Samba's SID of a Unix user without one of its own.
    #[must_use]
    pub fn unix_user(uid: u32) -> Self {
        Self::new(22, &[1, uid])
    }

    /// S-1-22-2-GID, Samba's SID of a Unix group without one of its own.
    #[must_use]
    pub fn unix_group(gid: u32) -> Self {
        Self::new(22, &[2, gid])
    }

    /// Builds a SID of revision 1.
    ///
    /// # Panics
    /// If there are more than 15 subauthorities or the authority needs more than 48 bits.
    #[must_use]
    pub fn new(authority: u64, subauthorities: &[u32]) -> Self {
        assert!(authority < 1 << 48, "an authority has 48 bits");
        let mut all = [0; Self::SUBAUTHORITIES_MAX];
        all[..subauthorities.len()].copy_from_slice(subauthorities);
        let count = u8::try_from(subauthorities.len()).expect("at most 15, copied above");
        Self { authority, count, subauthorities: all }
    }

    /// Reads the string form, such as `S-1-5-32-544`: [MS-DTYP] 2.4.2.1, with a decimal authority.
    /// `None` for other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix("S-1-").or_else(|| text.strip_prefix("s-1-"))?;
        // A sign would be a number to Rust.
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        let mut numbers = text.split('-').filter(|_| is_plain);
        let authority = numbers.next()?.parse().ok().filter(|it: &u64| *it < 1 << 48)?;
        let mut subauthorities = Vec::new();
        for number in numbers {
            if subauthorities.len() == Self::SUBAUTHORITIES_MAX {
                return None;
            }
            subauthorities.push(number.parse().ok()?);
        }
        (!subauthorities.is_empty()).then(|| Self::new(authority, &subauthorities))
    }

    /// The identifier authority, a 48-bit number.
    #[must_use]
    pub fn authority(&self) -> u64 {
        self.authority
    }

    /// The subauthorities; the last is the RID.
    #[must_use]
    pub fn subauthorities(&self) -> &[u32] {
        &self.subauthorities[..usize::from(self.count)]
    }

    /// Length of the packet form in bytes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        8 + 4 * usize::from(self.count)
    }

    /// Appends the packet form: [MS-DTYP] 2.4.2.2.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[1, self.count]);
        out.extend_from_slice(&self.authority.to_be_bytes()[2..]);
        for subauthority in self.subauthorities() {
            out.extend_from_slice(&subauthority.to_le_bytes());
        }
    }

    /// Reads the packet form from the front of `bytes`; `None` if it is incomplete, not of revision
    /// 1, or has more than 15 subauthorities. Further bytes are ignored.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[revision, count, a0, a1, a2, a3, a4, a5], rest) = bytes.split_first_chunk::<8>()?;
        if revision != 1 || usize::from(count) > Self::SUBAUTHORITIES_MAX {
            return None;
        }
        let mut subauthorities = [0; Self::SUBAUTHORITIES_MAX];
        let packed = rest.get(..4 * usize::from(count))?;
        for (to, from) in subauthorities.iter_mut().zip(packed.as_chunks::<4>().0) {
            *to = u32::from_le_bytes(*from);
        }
        let authority = u64::from_be_bytes([0, 0, a0, a1, a2, a3, a4, a5]);
        Some(Self { authority, count, subauthorities })
    }
}

impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.authority >= 1 << 32 {
            write!(f, "S-1-{:#014x}", self.authority)?;
        } else {
            write!(f, "S-1-{}", self.authority)?;
        }
        self.subauthorities().iter().try_for_each(|subauthority| write!(f, "-{subauthority}"))
    }
}

impl fmt::Debug for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::Sid;

    #[test]
    fn the_string_form_is_read_and_nothing_else() {
        for sid in [Sid::everyone(), Sid::administrators(), Sid::new((1 << 32) - 1, &[u32::MAX])] {
            assert_eq!(Sid::parse(&sid.to_string()), Some(sid));
        }
        let long = |count| format!("S-1-5{}", "-7".repeat(count));
        assert_eq!(Sid::parse(&long(15)), Some(Sid::new(5, &[7; 15])));
        let bad = ["", "S-1", "S-1-", "S-1-5", "S-2-5-7", "S-1-5-", "S-1-5--7", "S-1-5-+7"];
        for text in bad.into_iter().chain(["S-1-5-4294967296", "S-1-281474976710656-1", &long(16)])
        {
            assert_eq!(Sid::parse(text), None, "{text}");
        }
    }

    #[test]
    fn packet_form_round_trips() {
        for sid in [Sid::everyone(), Sid::administrators(), Sid::unix_user(1000), Sid::new(5, &[])]
        {
            let mut bytes = Vec::new();
            sid.encode(&mut bytes);
            assert_eq!(bytes.len(), sid.encoded_len());
            assert_eq!(Sid::decode(&bytes), Some(sid.clone()));
            for cut in 0..bytes.len() {
                assert_eq!(Sid::decode(&bytes[..cut]), None);
            }
        }
    }

    #[test]
    fn text_form_is_the_usual_one() {
        assert_eq!(Sid::administrators().to_string(), "S-1-5-32-544");
    }

    #[test]
    fn sixteen_subauthorities_are_refused() {
        let mut bytes = vec![1, 16, 0, 0, 0, 0, 0, 5];
        bytes.extend_from_slice(&[0; 64]);
        assert_eq!(Sid::decode(&bytes), None);
    }
}
