//! `username map`: users of this system for the names from clients.

use crate::list;
use crate::user_list::{GroupKind, UserList};

/// Contents of a file of `username map`.
///
/// A line is `user = name…`: it maps each of the names to the user. Names are as in [`UserList`],
/// `*` stands for all. The last matching line decides; a matching line that begins with `!` ends
/// the search. A line that begins with `#` or `;`, or has no `=`, is ignored. A backslash at the
/// end of a line joins the next one to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsernameMap {
    lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    user: String,
    is_last: bool,
    is_for_all: bool,
    names: UserList,
}

impl UsernameMap {
    /// Reads the text of a file.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self { lines: joined(text).iter().filter_map(|text| line(text)).collect() }
    }

    /// Returns the user that a name maps to; `None` if no line matches. `is_member` tells whether
    /// the user of the name is in a group. It is called only for groups on which the result
    /// depends: no look-up where names alone decide.
    pub fn user(&self, name: &str, is_member: impl Fn(GroupKind, &str) -> bool) -> Option<&str> {
        let fits = |line: &Line| line.is_for_all || line.names.contains(name, &is_member);
        let last = self.lines.iter().position(|line| line.is_last && fits(line));
        let line = match last {
            Some(index) => self.lines.get(index),
            None => self.lines.iter().rev().find(|line| !line.is_last && fits(line)),
        };
        line.map(|line| line.user.as_str())
    }
}

impl UsernameMap {
    /// Returns all users that [`Self::user`] may return for a name, by whatever groups the name is
    /// in, and `None` if it may return that: one result where names alone decide.
    #[must_use]
    pub fn candidates(&self, name: &str) -> Vec<Option<&str>> {
        let fits =
            |line: &Line, member| line.is_for_all || line.names.contains(name, |_, _| member);
        let mut found = Vec::new();
        let last = self.lines.iter().filter(|line| line.is_last);
        let others = self.lines.iter().rev().filter(|line| !line.is_last);
        for line in last.chain(others).filter(|line| fits(line, true)) {
            let user = Some(line.user.as_str());
            if !found.contains(&user) {
                found.push(user);
            }
            if fits(line, false) {
                return found;
            }
        }
        found.push(None);
        found
    }
}

fn joined(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for text in text.lines() {
        let begun = text.trim_end().strip_suffix('\\');
        if let Some(line) = lines.last_mut() {
            line.push_str(begun.unwrap_or(text));
        }
        if begun.is_none() {
            lines.push(String::new());
        }
    }
    lines
}

fn line(text: &str) -> Option<Line> {
    let text = text.trim();
    if text.starts_with(['#', ';']) {
        return None;
    }
    let (user, names) = text.split_once('=')?;
    let (user, is_last) = match user.strip_prefix('!') {
        Some(user) => (user.trim(), true),
        None => (user.trim(), false),
    };
    if user.is_empty() {
        return None;
    }
    let names = list::words(names);
    let is_for_all = names.iter().any(|name| name == "*");
    Some(Line { user: user.to_owned(), is_last, is_for_all, names: UserList::new(names) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps with everyone in the system's group `staff`.
    #[track_caller]
    fn check(text: &str, name: &str, want: Option<&str>) {
        let is_member = |kind, group: &str| kind == GroupKind::Unix && group == "staff";
        assert_eq!(UsernameMap::parse(text).user(name, is_member), want, "{name} in {text:?}");
    }

    #[test]
    fn names_are_found_without_case_and_between_quotes() {
        let text = "root = admin Administrator\nanna = \"Anna Blume\", ann";
        check(text, "ADMINISTRATOR", Some("root"));
        check(text, "anna blume", Some("anna"));
        check(text, "Anna", None);
        check(text, "", None);
    }

    #[test]
    fn the_last_line_that_fits_decides_unless_one_before_says_that_it_does() {
        check("a = x\nb = x y", "x", Some("b"));
        check("!a = x\nb = x y", "x", Some("a"));
        check("!a = x\nb = x y", "y", Some("b"));
        check(" ! a = x\nguest = *", "x", Some("a"));
    }

    #[test]
    fn a_star_is_everybody_and_a_group_its_members() {
        check("guest = *", "who", Some("guest"));
        check("works = @staff", "who", Some("works"));
        check("works = @others", "who", None);
    }

    #[test]
    fn groups_are_looked_up_only_if_names_alone_do_not_decide() {
        let never = |_: GroupKind, group: &str| panic!("{group} was asked for");
        for text in [
            "works = @staff\nanna = ann",
            "!anna = ann\nworks = @staff\n!bob = @others",
            "anna = @staff ann",
        ] {
            assert_eq!(UsernameMap::parse(text).user("ann", never), Some("anna"), "{text:?}");
        }
        let is_member = |_, group: &str| {
            assert_ne!(group, "one", "a later line decides");
            group == "two"
        };
        let map = UsernameMap::parse("a = @one\nb = @two\nc = @three");
        assert_eq!(map.user("x", is_member), Some("b"));
    }

    #[test]
    fn the_candidates_of_a_name_include_all_users_mapped_by_groups() {
        let candidates = |text: &str| {
            let map = UsernameMap::parse(text);
            let found = map.candidates("ann").into_iter().map(|it| it.map(str::to_owned));
            found.collect::<Vec<Option<String>>>()
        };
        let users = |names: &[&str]| names.iter().map(|it| Some((*it).to_owned())).collect();
        let or_itself = |names: &[&str]| {
            let mut found: Vec<Option<String>> = users(names);
            found.push(None);
            found
        };
        assert_eq!(candidates(""), or_itself(&[]));
        assert_eq!(candidates("anna = ann\n"), users(&["anna"]));
        assert_eq!(candidates("bob = carl\nworks = @staff\n"), or_itself(&["works"]));
        assert_eq!(candidates("anna = ann\nworks = @staff\n"), users(&["works", "anna"]));
        assert_eq!(candidates("works = @staff\nanna = ann\n"), users(&["anna"]));
        assert_eq!(candidates("!anna = ann\nworks = @staff\n"), users(&["anna"]));
        let lines = "!chiefs = @chiefs\nworks = @staff @more\nworks = @others\nguest = *\n";
        assert_eq!(candidates(lines), users(&["chiefs", "guest"]));
    }

    #[test]
    fn a_backslash_at_its_end_joins_the_next_line() {
        let text =
            "anna = ann \\\n  \"Anna Blume\" \\ \n annie\n# bob = b \\\nbob = bobby\nc = d \\";
        for name in ["ann", "Anna Blume", "annie"] {
            check(text, name, Some("anna"));
        }
        check(text, "bobby", None);
        check(text, "d", Some("c"));
    }

    #[test]
    fn lines_that_say_nothing_map_nobody() {
        check("# a = x\n; b = x\nx\n= x\n! = x\n\nc =", "x", None);
    }
}
