//! Upper case in Windows' comparison of names: [MS-UCODEREF] 3.1.5.3.
//!
//! The mapping is from one UTF-16 code unit to one UTF-16 code unit, so it is neither
//! `str::to_uppercase` (which maps ß to SS) nor Unicode case folding. Microsoft publishes it as
//! "Windows 8 Upper Case Mapping Table", which is the default upcase table of that and later
//! versions. The table in `upcase/table.rs` has the same content, by a rule that can be derived
//! again from the Unicode character database, version 5.1:
//!
//! - a unit maps to its simple uppercase if both are in the basic plane and assigned in 5.1, and
//! - only if the uppercase's simple lowercase is the unit again.
//!
//! The second condition causes the surprising exceptions: µ (U+00B5), dotless ı (U+0131), long ſ
//! (U+017F), final ς (U+03C2), the Greek symbols ϐ ϑ ϕ ϖ ϰ ϱ ϵ, the titlecase digraphs (U+01C5 and
//! others) and ẛ (U+1E9B) stay. ß, ŉ, the ligatures and all letters outside the basic plane
//! (Deseret) have no one-unit uppercase and stay too.
//!
//! The upcase table of an exFAT volume, and that of NTFS volumes made by older systems, differ in a
//! few letters; this crate follows the one in the protocol documents.

mod table;

use std::borrow::Cow;

/// The upper case of one UTF-16 code unit.
#[must_use]
pub fn upcase_unit(unit: u16) -> u16 {
    let [page, index] = unit.to_be_bytes();
    table::PAGES[usize::from(table::PAGE_OF[usize::from(page)])][usize::from(index)]
        .wrapping_add(unit)
}

/// The upper case of a character; characters outside the basic plane have none.
#[must_use]
pub fn upcase(character: char) -> char {
    match u16::try_from(u32::from(character)) {
        Ok(unit) => char::from_u32(u32::from(upcase_unit(unit)))
            .expect("a character never maps to a surrogate"),
        Err(_) => character,
    }
}

/// Returns `name` in upper case. Results are equal exactly if Windows treats the names as the same.
#[must_use]
pub fn fold(name: &str) -> String {
    if name.is_ascii() { name.to_ascii_uppercase() } else { name.chars().map(upcase).collect() }
}

/// [`fold`] without a copy of a name that is in upper case already.
#[must_use]
pub fn fold_cow(name: &str) -> Cow<'_, str> {
    let folded = |name: &str| {
        if name.is_ascii() {
            !name.bytes().any(|byte| byte.is_ascii_lowercase())
        } else {
            name.chars().all(|character| upcase(character) == character)
        }
    };
    if folded(name) { Cow::Borrowed(name) } else { Cow::Owned(fold(name)) }
}

/// True if Windows treats `a` and `b` as the same name.
#[must_use]
pub fn equal_ignoring_case(a: &str, b: &str) -> bool {
    match (a.is_ascii(), b.is_ascii()) {
        (true, true) => a.eq_ignore_ascii_case(b),
        // No other unit maps into ASCII (dotless ı and long ſ stay), so these differ.
        (true, false) | (false, true) => false,
        (false, false) => a.chars().map(upcase).eq(b.chars().map(upcase)),
    }
}

#[cfg(test)]
mod tests;
