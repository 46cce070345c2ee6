//! Names that a share can have, where others than the operator choose them.

use crate::lines::is_read_as_written;

/// Characters that no name of a share has: Samba's, and those around the name of a section.
const INVALID: &str = "%<>*?|/\\+=;:\",[]";

/// Sections that are no share of their name.
const RESERVED: [&str; 5] = ["global", "globals", "homes", "ipc$", "printers"];

/// Returns whether a section with this name is the share of this name.
#[must_use]
pub fn is_share_name(name: &str) -> bool {
    let is_invalid = |c: char| INVALID.contains(c) || c.is_control();
    !name.is_empty()
        && name.trim() == name
        && is_read_as_written(name)
        && !name.contains(is_invalid)
        && !RESERVED.iter().any(|it| name.eq_ignore_ascii_case(it))
}

#[cfg(test)]
mod tests {
    use super::is_share_name;

    #[test]
    fn names_of_shares_are_no_paths_and_no_other_sections() {
        for name in ["films", "anna's films", "ä", "a.b", "x$", "print$", "B & C (2026)"] {
            assert!(is_share_name(name), "{name}");
        }
        let bad = [
            "", " a", "a/b", "a\\b", "a:b", "a\nb", "a%U", "[a]", "Homes", "IPC$", "globals",
            "a  b", "a \u{a0}", "a b  c",
        ];
        for name in bad {
            assert!(!is_share_name(name), "{name}");
        }
    }
}
