//! Names of users, computers, shares and others: [MS-SRVS] 3.1.4.32 to 3.1.4.34. Their rules tell
//! nothing of this server.
//!
//! Lengths and characters are those of the specification. The rest of it is simplified: canonical
//! names are in upper case, where Windows keeps the case of most types; there are no rules of LAN
//! Manager; and comparisons tell no order.

use dtyp::upcase::{equal_ignoring_case, fold};
use dtyp::utf16;

use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;
use crate::win32::Win32Error;

/// Flag for the rules of LAN Manager 2.x. It is accepted, and has no effect.
const LAN_MANAGER: u32 = 0x8000_0000;
/// NetprNameCanonicalize: the buffer must have room for the longest name of its type.
/// NetprNameCompare: both names are canonical already.
const FLAG: u32 = 0x0000_0001;

/// Characters that are invalid in most names: [MS-SRVS] 2.2.2.8. So are control characters.
const INVALID: &str = "\"/\\[]:|<>+=;,?";

/// Elements of a buffer for a name, at most: the range of OutbufLen.
pub(super) const BUFFER_ELEMENTS_MAX: u32 = 64_000;

/// Rules for names of one type: [MS-SRVS] 2.2.2.8.
#[derive(Clone, Copy, Debug)]
struct NameType {
    /// Code units at least and at most.
    length: (usize, usize),
    kind: NameKind,
}

/// Characters that a name may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum NameKind {
    /// Those of a computer: no `*`, and no blank at its ends.
    Computer,
    /// Those of a domain: no `*`, and no blank.
    Domain,
    /// Destination of messages: `*` as the last character only.
    Destination,
    /// All but [`INVALID`] ones, and not dots and blanks alone.
    Other,
    /// All; and a password is no name: it has a case.
    Password,
}

impl NameType {
    fn from_number(number: u32) -> Result<Self, Win32Error> {
        let (min, max, kind) = match number {
            1 | 3 => (1, 256, NameKind::Other),
            2 => (0, 256, NameKind::Password),
            4 => (1, 260, NameKind::Computer),
            5 => (1, 16, NameKind::Other),
            6 => (1, 15, NameKind::Domain),
            7 | 9 => (1, 80, NameKind::Other),
            8 => (1, 260, NameKind::Other),
            10 | 13 => (1, 15, NameKind::Other),
            11 => (1, 260, NameKind::Destination),
            12 => (0, 8, NameKind::Password),
            _ => return Err(Win32Error::INVALID_PARAMETER),
        };
        Ok(Self { length: (min, max), kind })
    }

    fn validate(self, name: &str) -> Result<(), Win32Error> {
        let len = utf16::units(name);
        let (min, max) = self.length;
        let is_valid = len >= min && len <= max && self.has_valid_characters(name, len == max);
        if is_valid { Ok(()) } else { Err(Win32Error::INVALID_NAME) }
    }

    fn has_valid_characters(self, name: &str, is_longest: bool) -> bool {
        let is_common = |name: &str| !name.contains(|it| it < ' ' || INVALID.contains(it));
        match self.kind {
            NameKind::Computer => is_common(name) && !name.contains('*') && name.trim() == name,
            NameKind::Domain => is_common(name) && !name.contains(['*', ' ']),
            NameKind::Destination => {
                let before = name.strip_suffix('*');
                is_common(name)
                    && !before.unwrap_or(name).contains('*')
                    && (before.is_some() || !is_longest)
            }
            NameKind::Other => is_common(name) && !name.trim_matches(['.', ' ']).is_empty(),
            NameKind::Password => true,
        }
    }

    /// Returns the form that names have in common if they are equal.
    fn canonicalize(self, name: &str) -> String {
        if self.kind == NameKind::Password { name.to_owned() } else { fold(name) }
    }

    fn are_equal(self, one: &str, other: &str) -> bool {
        if self.kind == NameKind::Password { one == other } else { equal_ignoring_case(one, other) }
    }
}

/// NetprNameValidate: [MS-SRVS] 3.1.4.32. Windows accepts the flag for LAN Manager, too.
pub(super) fn name_validate(
    reader: &mut Reader<'_>,
    _: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let (_server_name, name) = (reader.unique_string()?, reader.string()?);
    let (name_type, flags) = (reader.u32()?, reader.u32()?);
    let validate = || {
        verify_flags(flags, LAN_MANAGER)?;
        NameType::from_number(name_type)?.validate(&name)
    };
    Ok(Writer::default().finish(validate().err().unwrap_or(Win32Error::SUCCESS)))
}

/// NetprNameCanonicalize: [MS-SRVS] 3.1.4.33.
pub(super) fn name_canonicalize(
    reader: &mut Reader<'_>,
    _: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let (_server_name, name) = (reader.unique_string()?, reader.string()?);
    let buffer_len = reader.u32()?;
    let (name_type, flags) = (reader.u32()?, reader.u32()?);
    if buffer_len > BUFFER_ELEMENTS_MAX {
        return Err(Fault::BadStub);
    }
    let canonicalize = || {
        verify_flags(flags, LAN_MANAGER | FLAG)?;
        let name_type = NameType::from_number(name_type)?;
        name_type.validate(&name)?;
        let canonical = name_type.canonicalize(&name);
        let (_, max) = name_type.length;
        let wanted = if flags & FLAG != 0 { max } else { utf16::units(&canonical) };
        // With the NUL behind it.
        let fits = usize::try_from(buffer_len).is_ok_and(|len| wanted < len);
        if fits { Ok(canonical) } else { Err(Win32Error::BUFFER_TOO_SMALL) }
    };
    let done = canonicalize();
    let mut writer = Writer::default();
    writer.text_buffer(buffer_len, 2, done.as_deref().unwrap_or_default());
    Ok(writer.finish(done.err().unwrap_or(Win32Error::SUCCESS)))
}

/// NetprNameCompare: [MS-SRVS] 3.1.4.34.
pub(super) fn name_compare(
    reader: &mut Reader<'_>,
    _: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let (one, other) = (reader.string()?, reader.string()?);
    let (name_type, flags) = (reader.u32()?, reader.u32()?);
    let compare = || {
        verify_flags(flags, LAN_MANAGER | FLAG)?;
        let name_type = NameType::from_number(name_type)?;
        name_type.validate(&one)?;
        name_type.validate(&other)?;
        Ok(name_type.are_equal(&one, &other))
    };
    Ok(Writer::default().finish(comparison(compare())))
}

/// Result of a comparison: zero for equal ones, one for others, or an error.
pub(super) fn comparison(are_equal: Result<bool, Win32Error>) -> Win32Error {
    match are_equal {
        Ok(true) => Win32Error::SUCCESS,
        Ok(false) => Win32Error(1),
        Err(error) => error,
    }
}

/// Refuses flags other than these.
pub(super) fn verify_flags(flags: u32, allowed: u32) -> Result<(), Win32Error> {
    if flags & !allowed == 0 { Ok(()) } else { Err(Win32Error::INVALID_PARAMETER) }
}

#[cfg(test)]
mod tests {
    use super::NameType;

    #[track_caller]
    fn check(name_type: u32, valid: &[&str], invalid: &[&str]) {
        let name_type = NameType::from_number(name_type).expect("it is a type");
        for name in valid {
            assert_eq!(name_type.validate(name), Ok(()), "{name:?}");
        }
        for name in invalid {
            assert!(name_type.validate(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_name_has_the_length_and_the_characters_of_its_type() {
        let (long, longest) = ("a".repeat(81), "a".repeat(80));
        check(1, &["Anna", "a b", "ä"], &["", "a/b", "a\u{1}", "a,b", ". .", &"a".repeat(257)]);
        check(2, &["", "a/b"], &[&"a".repeat(257)]);
        check(4, &["pc", "p c"], &[" pc", "pc ", "p*"]);
        check(6, &["HOUSE"], &["A HOUSE", "HOUSE*", &"a".repeat(16)]);
        check(9, &["films", "c$", &longest], &["", "a\\b", &long]);
        check(11, &["anna", "an*", &format!("{}*", "a".repeat(259))], &["a*n", &"a".repeat(260)]);
        check(12, &["", "12345678"], &["123456789"]);
        for number in [0, 14, u32::MAX] {
            assert!(NameType::from_number(number).is_err(), "{number}");
        }
    }

    #[test]
    fn names_are_compared_without_case_and_passwords_with_it() {
        let of = |number| NameType::from_number(number).expect("it is a type");
        assert!(of(9).are_equal("Films", "fILMS") && !of(9).are_equal("films", "film"));
        assert!(!of(2).are_equal("Secret", "secret"));
        assert_eq!(
            (of(9).canonicalize("Films"), of(2).canonicalize("Se")),
            ("FILMS".into(), "Se".into())
        );
    }
}
