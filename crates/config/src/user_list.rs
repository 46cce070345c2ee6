//! Lists of users and groups.

use crate::substitutions::Substitutions;

/// The users that a parameter names.
///
/// A word is a user, or with a prefix a group: `+group` of the system, `&group` a netgroup,
/// `@group` either, netgroup first; `+&` and `&+` say the order. Names are compared without case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserList {
    entries: Vec<Entry>,
}

/// Database for the lookup of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupKind {
    /// The netgroups, through the name service.
    Netgroup,
    /// The groups of the system.
    Unix,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// Databases to look in, in order; empty for a user.
    kinds: &'static [GroupKind],
    prefix: &'static str,
    name: String,
}

impl UserList {
    /// The list made of these words.
    #[must_use]
    pub fn new(words: Vec<String>) -> Self {
        Self { entries: words.iter().map(|word| entry(word)).collect() }
    }

    /// True if the list has no word, which for `valid users` means everyone.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The words, as they were written.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        self.entries.iter().map(|entry| format!("{}{}", entry.prefix, entry.name)).collect()
    }

    /// Returns the names of users, without the groups.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter(|entry| entry.kinds.is_empty()).map(|entry| &*entry.name)
    }

    /// Returns the names of groups, each with the databases of its look-up.
    pub fn groups(&self) -> impl Iterator<Item = (&'static [GroupKind], &str)> {
        let groups = self.entries.iter().filter(|entry| !entry.kinds.is_empty());
        groups.map(|entry| (entry.kinds, &*entry.name))
    }

    /// Returns true if the user is named, or is a member of a named group. `is_member` looks the
    /// group up; names come first, since look-ups take time.
    pub fn contains(&self, user: &str, is_member: impl Fn(GroupKind, &str) -> bool) -> bool {
        let user = user.to_lowercase();
        // A substitution may leave an empty name. It matches nobody, but the list is not empty
        // either: an empty `valid users` would admit everyone.
        let named = || self.entries.iter().filter(|entry| !entry.name.is_empty());
        let is_in = |entry: &Entry| entry.kinds.iter().any(|kind| is_member(*kind, &entry.name));
        named().any(|entry| entry.kinds.is_empty() && entry.name.to_lowercase() == user)
            || named().any(is_in)
    }

    /// Returns the list with its substitutions done. The operator's text has decided which words
    /// are users and which are groups: a client that calls itself `@wheel` is not a group. A word
    /// that becomes empty stays, and names nobody. Users of the server may be written with its name
    /// or the system's domain: `SERVER\anna`, `Unix User\anna`.
    #[must_use]
    pub fn expanded(&self, substitutions: &Substitutions) -> Self {
        let entries = self.entries.iter();
        let expanded = |entry: &Entry| Entry {
            kinds: entry.kinds,
            prefix: entry.prefix,
            name: substitutions.expand(match entry.kinds {
                [] => local(&entry.name, &substitutions.server_name),
                _ => &entry.name,
            }),
        };
        Self { entries: entries.map(expanded).collect() }
    }
}

/// Returns the name of a user without the domain, if the domain is this server's or the system's.
#[must_use]
pub fn local<'a>(name: &'a str, server: &str) -> &'a str {
    match name.split_once('\\') {
        Some((domain, user))
            if [server, "Unix User"].iter().any(|it| domain.eq_ignore_ascii_case(it)) =>
        {
            user
        }
        _ => name,
    }
}

fn entry(word: &str) -> Entry {
    let (prefix, kinds) =
        PREFIXES.iter().find(|(prefix, _)| word.starts_with(prefix)).copied().unwrap_or(("", &[]));
    Entry { kinds, prefix, name: word[prefix.len()..].to_owned() }
}

/// Prefixes of groups, longer ones first.
const PREFIXES: &[(&str, &[GroupKind])] = &[
    ("+&", &[GroupKind::Unix, GroupKind::Netgroup]),
    ("&+", &[GroupKind::Netgroup, GroupKind::Unix]),
    ("@", &[GroupKind::Netgroup, GroupKind::Unix]),
    ("+", &[GroupKind::Unix]),
    ("&", &[GroupKind::Netgroup]),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Everyone is in the system's group `staff` and in the netgroup `hosts`.
    fn member(kind: GroupKind, group: &str) -> bool {
        matches!((kind, group), (GroupKind::Unix, "staff") | (GroupKind::Netgroup, "hosts"))
    }

    fn list(words: &[&str]) -> UserList {
        UserList::new(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[track_caller]
    fn check(words: &[&str], want: bool) {
        assert_eq!(list(words).contains("Bob", member), want, "{words:?}");
    }

    #[test]
    fn users_are_compared_without_case() {
        check(&["alice", "bOB"], true);
        check(&["alice"], false);
        check(&[], false);
    }

    #[test]
    fn prefixes_select_the_databases_of_groups() {
        check(&["+staff"], true);
        check(&["&staff"], false);
        check(&["@staff"], true);
        check(&["+hosts"], false);
        check(&["&hosts"], true);
        check(&["@hosts"], true);
        check(&["+&hosts"], true);
        check(&["&+staff"], true);
        check(&["staff"], false);
    }

    #[test]
    fn a_user_cannot_name_himself_into_a_group() {
        let hostile = Substitutions { user: "@staff".to_owned(), ..Substitutions::default() };
        let expanded = list(&["%U"])
            .expanded(&Substitutions { requested_user: "+staff".to_owned(), ..hostile.clone() });
        assert!(!expanded.contains("bob", member));
        assert!(!list(&["%u"]).expanded(&hostile).contains("bob", member));
        assert!(
            list(&["+%u"])
                .expanded(&Substitutions { user: "staff".to_owned(), ..Substitutions::default() })
                .contains("bob", member)
        );
    }

    #[test]
    fn an_empty_substitution_names_nobody() {
        let expanded = list(&["%U"]).expanded(&Substitutions::default());
        assert!(!expanded.is_empty(), "an empty list would admit everyone");
        assert!(!expanded.contains("", member));
        assert!(!expanded.contains("bob", member));
    }

    #[test]
    fn users_of_the_server_are_also_called_by_its_name() {
        let here = Substitutions { server_name: "NAS".to_owned(), ..Substitutions::default() };
        let check = |word, want| {
            let expanded = list(&[word]).expanded(&here);
            assert_eq!(expanded.contains("bob", member), want, "{word}");
        };
        for word in ["NAS\\bob", "nas\\Bob", "Unix User\\bob"] {
            check(word, true);
        }
        for word in ["DOMAIN\\bob", "\\bob", "NAS\\alice", "NAS\\"] {
            check(word, false);
        }
        // A domain in a client's own user name makes nobody local.
        let hostile = Substitutions { user: "NAS\\bob".to_owned(), ..here.clone() };
        assert!(!list(&["%u"]).expanded(&hostile).contains("bob", member));
    }

    #[test]
    fn words_are_given_back_as_written() {
        assert_eq!(list(&["a", "@b", "+&c d"]).words(), ["a", "@b", "+&c d"]);
    }
}
