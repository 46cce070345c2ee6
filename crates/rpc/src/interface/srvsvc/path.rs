//! Paths of Windows, as its network functions name them: [MS-SRVS] 3.1.4.29 to 3.1.4.31. Their
//! rules concern the text alone; no file is looked at.
//!
//! Types are told by the table of [MS-SRVS] 2.2.2.9. The algorithm of 3.1.1.9 differs: it knows
//! `\\.\` and `\DEV`, and neither system objects nor relative paths on drives. Canonical paths have
//! the drive in upper case, where Windows keeps it; and comparisons tell no order.

use std::borrow::Cow;

use dtyp::upcase::equal_ignoring_case;
use dtyp::utf16;

use super::name::{BUFFER_ELEMENTS_MAX, comparison, verify_flags};
use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;
use crate::win32::Win32Error;

/// Code units of a path, at most.
const PATH_UNITS_MAX: usize = 260;
/// Code units of a path by the rules of MS-DOS, at most.
const OLD_PATH_UNITS_MAX: usize = 128;

/// NetprPathType: the rules of MS-DOS. NetprPathCompare: both paths are canonical already.
const FLAG: u32 = 0x0000_0001;

/// Characters that no path has. Control characters are invalid, too.
const INVALID: &str = "\"<>|";

/// Type of a path: [MS-SRVS] 2.2.2.9.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct PathType(u32);

impl PathType {
    /// `\\server`.
    const COMPUTER: Self = Self(4_144);
    /// `\\*`: all computers.
    const COMPUTERS: Self = Self(4_145);
    /// `\\server\share`, with or without more.
    const UNC: Self = Self(4_096);
    /// `\folder`.
    const ABSOLUTE: Self = Self(8_194);
    /// `X:\folder`.
    const ABSOLUTE_WITH_DRIVE: Self = Self(8_198);
    /// `folder`.
    const RELATIVE: Self = Self(8_192);
    /// `X:folder`.
    const RELATIVE_WITH_DRIVE: Self = Self(8_196);
    /// `X:`.
    const DRIVE: Self = Self(16_384);
    /// Bit of the types of paths with `?` or `*`.
    const WILDCARD: u32 = 1;
    /// Bit of the types of system names without a path.
    const NAME_ALONE: u32 = 0x8000;

    /// Types of the beginnings that stand for system objects: on a server, and on this machine.
    const SYSTEM: &[(&str, u32, u32)] = &[
        ("COMM", 0, 11_266),
        ("MAILSLOT", 6_144, 10_242),
        ("PIPE", 6_912, 11_010),
        ("PRINT", 0, 11_522),
        ("QUEUES", 7_680, 11_778),
        ("SEM", 6_400, 10_498),
        ("SHAREMEM", 6_656, 10_754),
    ];

    /// Returns the type of a path without `/`.
    fn of(path: &str) -> Result<Self, Win32Error> {
        verify(path)?;
        if let Some(unc) = path.strip_prefix("\\\\") {
            return Self::of_unc(unc);
        }
        let wildcard = if path.contains(['?', '*']) { Self::WILDCARD } else { 0 };
        let (drive, rest) = split_drive(path);
        let is_absolute = rest.starts_with('\\');
        match (drive, is_absolute) {
            (true, true) => Ok(Self(Self::ABSOLUTE_WITH_DRIVE.0 | wildcard)),
            (true, false) if rest.is_empty() => Ok(Self::DRIVE),
            (true, false) => Ok(Self(Self::RELATIVE_WITH_DRIVE.0 | wildcard)),
            (false, true) => {
                let system = Self::system(&rest[1..]).map(|(_, here, is_alone)| {
                    Self(here | if is_alone { Self::NAME_ALONE } else { 0 })
                });
                Ok(system.unwrap_or(Self(Self::ABSOLUTE.0 | wildcard)))
            }
            (false, false) => Ok(Self::device(rest).unwrap_or(Self(Self::RELATIVE.0 | wildcard))),
        }
    }

    /// Returns the type of what follows `\\`.
    fn of_unc(unc: &str) -> Result<Self, Win32Error> {
        let (server, rest) = match unc.split_once('\\') {
            Some((server, rest)) => (server, Some(rest)),
            None => (unc, None),
        };
        let Some(rest) = rest else {
            return match server {
                "*" => Ok(Self::COMPUTERS),
                "" => Err(Win32Error::INVALID_NAME),
                _ if server.contains(['?', '*']) => Err(Win32Error::INVALID_NAME),
                _ => Ok(Self::COMPUTER),
            };
        };
        let share = rest.split('\\').next().unwrap_or_default();
        if server.is_empty() || share.is_empty() || rest.ends_with('\\') {
            return Err(Win32Error::INVALID_NAME);
        }
        if [server, share].iter().any(|it| it.contains(['?', '*'])) {
            return Err(Win32Error::INVALID_NAME);
        }
        let system = Self::system(rest).filter(|(there, _, is_alone)| *there != 0 && !is_alone);
        let wildcard = if rest.contains(['?', '*']) { Self::WILDCARD } else { 0 };
        Ok(Self(system.map_or(Self::UNC.0 | wildcard, |(there, _, _)| there)))
    }

    /// Returns the types of a system object on a server and here, and whether no path follows.
    fn system(path: &str) -> Option<(u32, u32, bool)> {
        let (name, rest) = path.split_once('\\').unwrap_or((path, ""));
        let (_, there, here) =
            Self::SYSTEM.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name))?;
        Some((*there, *here, rest.is_empty()))
    }

    /// Returns the type of the name of a device, with or without a colon.
    fn device(name: &str) -> Option<Self> {
        let name = name.strip_suffix(':').unwrap_or(name).to_ascii_uppercase();
        match name.as_str() {
            "CON" => return Some(Self(16_448)),
            "NUL" => return Some(Self(16_464)),
            "PRN" => return Some(Self(16_400)),
            _ => {}
        }
        let is_number = |text: &str| matches!(text.as_bytes(), [b'1'..=b'9']);
        if name.strip_prefix("LPT").is_some_and(is_number) {
            return Some(Self(16_400));
        }
        name.strip_prefix("COM").is_some_and(is_number).then_some(Self(16_416))
    }
}

fn verify(path: &str) -> Result<(), Win32Error> {
    let has_invalid = path.contains(|it| it < ' ' || INVALID.contains(it));
    let is_valid = !path.is_empty() && utf16::units(path) <= PATH_UNITS_MAX && !has_invalid;
    if is_valid { Ok(()) } else { Err(Win32Error::INVALID_NAME) }
}

/// Whether a path begins with a drive, and the rest behind it.
fn split_drive(path: &str) -> (bool, &str) {
    match path.as_bytes() {
        [letter, b':', ..] if letter.is_ascii_alphabetic() => (true, &path[2..]),
        _ => (false, path),
    }
}

/// True for a path by the rules of MS-DOS: eight letters, and three behind a dot.
fn is_old(path: &str) -> bool {
    let is_old_name = |name: &str| {
        let (base, extension) = name.split_once('.').unwrap_or((name, ""));
        let is_dots = matches!(name, "." | "..");
        is_dots
            || utf16::units(base) <= 8 && utf16::units(extension) <= 3 && !extension.contains('.')
    };
    utf16::units(path) <= OLD_PATH_UNITS_MAX && split_drive(path).1.split('\\').all(is_old_name)
}

/// Returns a path with `\` for each `/`.
fn with_backslashes(path: &str) -> Cow<'_, str> {
    if path.contains('/') { Cow::Owned(path.replace('/', "\\")) } else { Cow::Borrowed(path) }
}

/// Returns the shortest path of the same meaning, with its type.
fn canonicalize(path: &str, prefix: &str) -> Result<(String, PathType), Win32Error> {
    let (path, prefix) = (with_backslashes(path), with_backslashes(prefix));
    let whole = if prefix.is_empty() {
        path.into_owned()
    } else {
        let is_whole = path.starts_with("\\\\") || split_drive(&path).0;
        if path.is_empty() || is_whole {
            return Err(Win32Error::INVALID_NAME);
        }
        format!("{}\\{}", prefix.trim_end_matches('\\'), path.trim_start_matches('\\'))
    };
    verify(&whole)?;
    let (drive, rest) = split_drive(&whole);
    let (root, rest, kept) = if let Some(unc) = whole.strip_prefix("\\\\") {
        // Server and share are no folders that `..` leads out of.
        ("\\\\".to_owned(), unc, 2)
    } else {
        let is_absolute = rest.starts_with('\\');
        let drive = if drive { whole[..2].to_ascii_uppercase() } else { String::new() };
        (format!("{drive}{}", if is_absolute { "\\" } else { "" }), rest, 0)
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in rest.split('\\') {
        match part {
            "" | "." => {}
            ".." if parts.len() > kept => drop(parts.pop()),
            ".." => return Err(Win32Error::INVALID_NAME),
            _ => parts.push(part),
        }
    }
    let canonical = format!("{root}{}", parts.join("\\"));
    let path_type = PathType::of(&canonical)?;
    Ok((canonical, path_type))
}

/// NetprPathType: [MS-SRVS] 3.1.4.29.
pub(super) fn path_type(
    reader: &mut Reader<'_>,
    _: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let (_server_name, path) = (reader.unique_string()?, reader.string()?);
    let flags = reader.u32()?;
    let found = || {
        verify_flags(flags, FLAG)?;
        let path = with_backslashes(&path);
        let path_type = PathType::of(&path)?;
        let is_allowed = flags & FLAG == 0 || is_old(&path);
        if is_allowed { Ok(path_type) } else { Err(Win32Error::INVALID_NAME) }
    };
    let found = found();
    let mut writer = Writer::default();
    writer.u32(found.map_or(0, |it| it.0));
    Ok(writer.finish(found.err().unwrap_or(Win32Error::SUCCESS)))
}

/// NetprPathCanonicalize: [MS-SRVS] 3.1.4.30.
pub(super) fn path_canonicalize(
    reader: &mut Reader<'_>,
    _: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let (_server_name, path) = (reader.unique_string()?, reader.string()?);
    let buffer_len = reader.u32()?;
    let prefix = reader.string()?;
    let (expected_type, flags) = (reader.u32()?, reader.u32()?);
    if buffer_len > BUFFER_ELEMENTS_MAX {
        return Err(Fault::BadStub);
    }
    let done = verify_flags(flags, 0).and_then(|()| canonicalize(&path, &prefix));
    let done = done.and_then(|(canonical, path_type)| {
        let len = utf16::encoded_len(&canonical) + 2;
        let fits = usize::try_from(buffer_len).is_ok_and(|room| len <= room);
        if fits { Ok((canonical, path_type)) } else { Err(Win32Error::BUFFER_TOO_SMALL) }
    });
    let mut writer = Writer::default();
    match done {
        Ok((canonical, path_type)) => {
            writer.text_buffer(buffer_len, 1, &canonical);
            writer.u32(path_type.0);
            Ok(writer.finish(Win32Error::SUCCESS))
        }
        Err(error) => {
            writer.text_buffer(buffer_len, 1, "");
            writer.u32(expected_type);
            Ok(writer.finish(error))
        }
    }
}

/// NetprPathCompare: [MS-SRVS] 3.1.4.31.
pub(super) fn path_compare(
    reader: &mut Reader<'_>,
    _: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let (one, other) = (reader.string()?, reader.string()?);
    let (_path_type, flags) = (reader.u32()?, reader.u32()?);
    let compare = || {
        verify_flags(flags, FLAG)?;
        if flags & FLAG != 0 {
            return Ok(equal_ignoring_case(&one, &other));
        }
        let ((one, _), (other, _)) = (canonicalize(&one, "")?, canonicalize(&other, "")?);
        Ok(equal_ignoring_case(&one, &other))
    };
    Ok(Writer::default().finish(comparison(compare())))
}

#[cfg(test)]
mod tests {
    use super::{PathType, canonicalize, is_old};

    #[test]
    fn a_path_has_the_type_of_its_form() {
        for (path, wanted) in [
            ("\\\\server", 4_144),
            ("\\\\*", 4_145),
            ("\\\\server\\share\\a.txt", 4_096),
            ("\\\\server\\share\\*.txt", 4_097),
            ("\\\\server\\pipe\\srvsvc", 6_912),
            ("\\\\server\\pipe", 4_096),
            ("C:", 16_384),
            ("c:\\a", 8_198),
            ("c:\\a?", 8_199),
            ("c:a", 8_196),
            ("\\a", 8_194),
            ("\\pipe\\a", 11_010),
            ("\\PIPE", 43_778),
            ("a\\b", 8_192),
            ("a*", 8_193),
            ("lpt1:", 16_400),
            ("COM9", 16_416),
            ("com10", 8_192),
            ("con", 16_448),
        ] {
            assert_eq!(PathType::of(path), Ok(PathType(wanted)), "{path}");
        }
        for path in ["", "\\\\", "\\\\\\a", "\\\\s\\", "\\\\s\\a\\", "\\\\s*\\a", "a<b", "a\tb"] {
            assert!(PathType::of(path).is_err(), "{path:?}");
        }
        assert!(PathType::of(&"a".repeat(260)).is_ok() && PathType::of(&"a".repeat(261)).is_err());
    }

    #[test]
    fn a_canonical_path_has_no_dots_and_stays_below_its_root() {
        for (path, prefix, wanted) in [
            ("\\pagefile.sys", "c:", "C:\\pagefile.sys"),
            ("a/./b//c", "", "a\\b\\c"),
            ("a\\..\\b", "", "b"),
            ("c:\\a\\..\\..\\b", "", ""),
            ("..\\b", "", ""),
            ("\\\\s\\d\\a\\..\\b", "", "\\\\s\\d\\b"),
            ("\\\\s\\d\\..\\b", "", ""),
            ("c:\\b", "d:", ""),
            ("\\\\s\\d", "d:", ""),
            ("", "", ""),
            ("", "c:", ""),
        ] {
            let canonical = canonicalize(path, prefix).map(|(path, _)| path);
            let wanted = Some(wanted.to_owned()).filter(|it| !it.is_empty());
            assert_eq!(canonical.ok(), wanted, "{path:?} {prefix:?}");
        }
    }

    #[test]
    fn old_names_have_eight_letters_and_three() {
        assert!(is_old("c:\\pagefile.sys") && is_old("a\\..\\b.c"));
        assert!(!is_old("pagefiles.sys") && !is_old("a.text") && !is_old("a.b.c"));
        assert!(!is_old(&"a\\".repeat(65)));
    }
}
