//! Characters that are other ones on disk than for clients: Samba's `vfs_catia`.

use std::borrow::Cow;

/// Pairs of a character on disk and its replacement for clients.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CharacterMappings {
    pairs: Vec<(char, char)>,
}

/// Pairs of one share; there are some forty characters that clients cannot use.
const PAIRS_MAX: usize = 256;

impl CharacterMappings {
    /// Reads `catia:mappings`: `0x22:0xa8,0x2a:0xa4`, the character on disk first. Entries that are
    /// no pair are left out, as are those that would change how a path is read: with a separator,
    /// NUL or dot in them.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let pairs = text.split(',').filter_map(|pair| {
            let (disk, client) = pair.trim().split_once(':')?;
            Some((character(disk)?, character(client)?))
        });
        Self { pairs: pairs.take(PAIRS_MAX).collect() }
    }

    /// True if no character is mapped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// A name on disk as clients see it.
    pub(crate) fn to_client<'a>(&self, name: &'a str) -> Cow<'a, str> {
        self.map(name, |c| self.pairs.iter().find(|pair| pair.0 == c).map(|pair| pair.1))
    }

    /// A name or path of a client as it is on disk.
    pub(crate) fn to_disk<'a>(&self, name: &'a str) -> Cow<'a, str> {
        self.map(name, |c| self.pairs.iter().find(|pair| pair.1 == c).map(|pair| pair.0))
    }

    fn map<'a>(&self, name: &'a str, other: impl Fn(char) -> Option<char>) -> Cow<'a, str> {
        if self.is_empty() || !name.chars().any(|c| other(c).is_some()) {
            return Cow::Borrowed(name);
        }
        Cow::Owned(name.chars().map(|c| other(c).unwrap_or(c)).collect())
    }
}

fn character(text: &str) -> Option<char> {
    let text = text.trim();
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let number = match digits {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    char::from_u32(number.ok()?).filter(|c| !matches!(c, '\0' | '/' | '.'))
}

#[cfg(test)]
mod tests {
    use super::CharacterMappings;

    #[test]
    fn characters_are_exchanged_in_both_directions() {
        let mappings = CharacterMappings::parse("0x22:0xa8, 0x3a:0xf022");
        assert_eq!(mappings.to_client("a\"b:c"), "a¨b\u{f022}c");
        assert_eq!(mappings.to_disk("x/a¨b\u{f022}c"), "x/a\"b:c");
        assert_eq!(mappings.to_client("plain"), "plain");
    }

    #[test]
    fn no_pair_changes_how_a_path_is_read() {
        assert!(CharacterMappings::parse("0x2f:0xf02f,0x2e:0xf029,0:1,0xd800:0x41,x").is_empty());
    }
}
