//! Names that directories have until they are furnished.
//!
//! A directory of a share with descriptors gets its own name with its descriptor: until then nobody
//! may open it by its mode. Samba's directories have names of this form for the same time, so each
//! of the two servers hides those of the other.

/// Beginning of the names. No client can send it, but for mapped characters and POSIX paths.
pub const TEMPORARY_PREFIX: &str = ".::TMPNAME:";

/// True for the name of an object that is not furnished yet, in small or capital letters.
#[must_use]
pub fn is_temporary(name: &[u8]) -> bool {
    let beginning = name.get(..TEMPORARY_PREFIX.len());
    beginning.is_some_and(|it| it.eq_ignore_ascii_case(TEMPORARY_PREFIX.as_bytes()))
}

/// True if a component of a path is such a name.
#[must_use]
pub fn has_temporary(path: &str) -> bool {
    path.split('/').any(|name| is_temporary(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::{has_temporary, is_temporary};

    #[test]
    fn a_temporary_name_has_small_or_capital_letters_and_any_place_in_a_path() {
        assert!(is_temporary(b".::TMPNAME:D:1"));
        assert!(is_temporary(b".::tmpname:"));
        assert!(!is_temporary(b".::TMPNAME"));
        assert!(has_temporary("a/.::TMPNAME:D:1/b"));
        assert!(!has_temporary("a/x.::TMPNAME:D:1"));
    }
}
