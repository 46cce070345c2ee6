//! Names of 8.3 form for names that are not: `mangling method = hash2`.
//!
//! The same name as under Samba, so that what a client remembers leads to the same file when a
//! share moves between the two. It is made of the name alone: the first `prefix` letters, a hash of
//! all that stands before the extension in base 36 with `~` before its last digit, and the
//! extension. Nothing is stored, and two names of one directory may in theory have the same; then
//! the first is found.

use crate::settings::NewCase;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::ffi::OsString;

use dtyp::upcase;

use crate::settings::{MangledNames, RootSettings};

/// The device names of DOS, which no Windows client can use as a file's: alone or before a dot.
/// Windows has some more of them; these are Samba's.
const RESERVED: [&str; 11] =
    ["AUX", "COM1", "COM2", "COM3", "COM4", "CON", "LPT1", "LPT2", "LPT3", "NUL", "PRN"];

/// Of FNV-1, with which Samba hashes; the first is a hash itself.
const HASH_FIRST: u32 = 0xA6B9_3095;
const HASH_PRIME: u32 = 0x0100_0193;

const DIGITS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Letters of the base of an 8.3 name.
const BASE_LEN: usize = 8;

/// Longest extension of an 8.3 name.
const EXTENSION_LEN: usize = 3;

/// Index of the `~` in the base.
const MARK_AT: usize = 6;

/// Returns the name under which clients see an entry stored as `stored`: `stored` itself if clients
/// can use it, else its short name. `None` if clients see no such entry, because mangling is off or
/// the long name is vetoed.
pub(crate) fn shown<'a>(settings: &RootSettings, stored: &'a OsStr) -> Option<Cow<'a, str>> {
    let name = client_name(settings, stored);
    let mangles = settings.mangled_names != MangledNames::No;
    match name {
        Ok(name) if !mangles && !name.bytes().any(is_forbidden) => Some(name),
        Ok(name) if mangles && is_legal(&name) => Some(name),
        _ if !mangles || is_vetoed(settings, stored) => None,
        Ok(name) => Some(Cow::Owned(shorten(name.as_bytes(), settings.mangle_prefix))),
        Err(bytes) => Some(Cow::Owned(shorten(bytes, settings.mangle_prefix))),
    }
}

/// Returns the short name of the entry `stored`, if it has one beside the shown name.
pub(crate) fn short_name(settings: &RootSettings, stored: &OsStr) -> Option<String> {
    if settings.mangled_names == MangledNames::No {
        return None;
    }
    match client_name(settings, stored) {
        Ok(name) if is_legal(&name) && is_8_3(name.as_bytes()) => None,
        Ok(name) => Some(shorten(name.as_bytes(), settings.mangle_prefix)),
        Err(bytes) => Some(shorten(bytes, settings.mangle_prefix)),
    }
}

/// Returns the short name for a listing, beside the long one: only if all long names have one, as
/// in Samba.
pub(crate) fn listed(settings: &RootSettings, stored: &OsStr) -> Option<String> {
    if settings.mangled_names != MangledNames::Yes {
        return None;
    }
    let is_shown = client_name(settings, stored).is_ok_and(|name| is_legal(&name));
    if is_shown { short_name(settings, stored) } else { None }
}

/// Returns the name for FileAlternateNameInformation: the short name, which may be the name itself.
pub(crate) fn alternate(settings: &RootSettings, stored: &OsStr) -> Option<String> {
    let own = || {
        let name = client_name(settings, stored).ok()?;
        let fits = is_legal(&name) && is_8_3(name.as_bytes()) && !name.is_empty();
        fits.then(|| name.to_ascii_uppercase())
    };
    short_name(settings, stored).or_else(own)
}

/// Returns whether the entry `stored` is vetoed, by any of its names for clients.
pub(crate) fn is_vetoed(settings: &RootSettings, stored: &OsStr) -> bool {
    if settings.vetoed.is_empty() {
        return false;
    }
    let name = client_name(settings, stored).unwrap_or_else(|_| stored.to_string_lossy());
    settings.vetoed.iter().any(|it| it.matches(&name))
}

/// The name with its characters as clients write them; the bytes if they are not UTF-8.
fn client_name<'a>(settings: &RootSettings, stored: &'a OsStr) -> Result<Cow<'a, str>, &'a [u8]> {
    let name = stored.to_str().ok_or(stored.as_encoded_bytes())?;
    Ok(settings.character_mappings.to_client(name))
}

/// Whether a name that a client sent may be a short name: in Samba's words, is mangled.
pub(crate) fn is_like_short_name(settings: &RootSettings, name: &str) -> bool {
    let bytes = name.as_bytes();
    let prefix = prefix_len(settings.mangle_prefix);
    if settings.mangled_names == MangledNames::No
        || !(BASE_LEN..=BASE_LEN + 1 + EXTENSION_LEN).contains(&bytes.len())
    {
        return false;
    }
    let (base, rest) = bytes.split_at(BASE_LEN);
    base[MARK_AT] == b'~'
        && base[..prefix].iter().all(|byte| is_plain(*byte))
        && base[prefix..MARK_AT].iter().all(u8::is_ascii_alphanumeric)
        && base[MARK_AT + 1].is_ascii_alphanumeric()
        && rest.first().is_none_or(|first| *first == b'.')
        && rest.iter().skip(1).all(|byte| is_plain(*byte))
}

/// Whether every client can use the name: [MS-FSCC] 2.1.5.2, and what Win32 forbids beyond it.
pub(crate) fn is_legal(name: &str) -> bool {
    if matches!(name, "." | "..") {
        return true;
    }
    let ends_well = !name.ends_with(['.', ' ']);
    ends_well && !name.bytes().any(is_forbidden) && !is_reserved(name)
}

fn is_forbidden(byte: u8) -> bool {
    /// Looked up, because every byte of every name of a listing is.
    const FORBIDDEN: [bool; 256] = {
        let (marks, mut table, mut at) = (b"\"*/:<>?\\|", [false; 256], 0);
        while at < b' ' as usize {
            table[at] = true;
            at += 1;
        }
        at = 0;
        while at < marks.len() {
            table[marks[at] as usize] = true;
            at += 1;
        }
        table
    };
    FORBIDDEN[usize::from(byte)]
}

fn is_reserved(name: &str) -> bool {
    let base = name.split_once('.').map_or(name, |(base, _)| base);
    matches!(base.len(), 3 | 4)
        && RESERVED.iter().any(|reserved| base.eq_ignore_ascii_case(reserved))
}

/// Whether a legal name is its own short name.
pub(crate) fn is_8_3(name: &[u8]) -> bool {
    if matches!(name, b"." | b"..") {
        return true;
    }
    let mut parts = name.split(|byte| *byte == b'.');
    let base = parts.next().unwrap_or_default();
    let extension = parts.next();
    let extension_fits = extension.is_none_or(|part| (1..=EXTENSION_LEN).contains(&part.len()));
    base.len() <= BASE_LEN
        && extension_fits
        && parts.next().is_none()
        && name.iter().all(|byte| *byte <= b'~' && !b" +,[];=".contains(byte))
}

/// The short name of any name.
pub(crate) fn shorten(name: &[u8], prefix: u8) -> String {
    let prefix = prefix_len(prefix);
    let (base, extension) = split_extension(name);
    let mut short = [0; BASE_LEN];
    for (at, place) in short.iter_mut().take(prefix).enumerate() {
        let byte = name.get(at).copied().filter(|byte| is_plain(*byte));
        *place = byte.unwrap_or(b'_').to_ascii_uppercase();
    }
    short[MARK_AT] = b'~';
    let mut rest = hash(base);
    for place in short[prefix..].iter_mut().rev().filter(|place| **place == 0) {
        let digit = usize::try_from(rest % 36).expect("below 36");
        *place = DIGITS[digit];
        rest /= 36;
    }
    let mut text = String::with_capacity(BASE_LEN + 1 + EXTENSION_LEN);
    text.extend(short.iter().map(|byte| char::from(*byte)));
    if !extension.is_empty() {
        text.push('.');
        text.extend(extension.iter().map(|byte| char::from(byte.to_ascii_uppercase())));
    }
    text
}

/// Splits a name into base and extension, without the dot; a last part that cannot be an extension
/// belongs to the base.
fn split_extension(name: &[u8]) -> (&[u8], &[u8]) {
    let Some(dot) = name.iter().rposition(|byte| *byte == b'.') else { return (name, &[]) };
    let extension = &name[dot + 1..];
    let fits = (1..=EXTENSION_LEN).contains(&extension.len())
        && extension.iter().all(|byte| is_plain(*byte));
    if fits { (&name[..dot], extension) } else { (name, &[]) }
}

/// The hash of a name in upper case, 31 bits.
fn hash(name: &[u8]) -> u32 {
    let folded = |bytes: &[u8]| {
        // Samba's characters are signed where it is used most, so bytes from 0x80 on reach into the
        // upper bits.
        bytes.iter().fold(HASH_FIRST, |hash, byte| {
            hash.wrapping_mul(HASH_PRIME) ^ i32::from(byte.cast_signed()).cast_unsigned()
        })
    };
    let value = match std::str::from_utf8(name) {
        Ok(text) => folded(upcase::fold_cow(text).as_bytes()),
        // Bytes that are not UTF-8 have no upper case beyond ASCII, to Samba either.
        Err(_) => folded(&name.to_ascii_uppercase()),
    };
    value & 0x7FFF_FFFF
}

/// Letters and digits, and what else Samba leaves in a short name.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-$~".contains(&byte)
}

fn prefix_len(prefix: u8) -> usize {
    usize::from(prefix.clamp(1, 6))
}

impl RootSettings {
    /// Returns the name of a new entry that a client calls `asked`.
    pub(crate) fn new_name(&self, asked: &str) -> OsString {
        let case = if is_8_3(asked.as_bytes()) && self.new_case == NewCase::Kept {
            self.new_short_case
        } else {
            self.new_case
        };
        match case {
            NewCase::Kept => asked.into(),
            NewCase::Lower => asked.to_lowercase().into(),
            NewCase::Upper => upcase::fold(asked).into(),
        }
    }
}

#[cfg(test)]
mod tests;
