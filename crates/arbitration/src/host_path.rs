//! Paths of files on the host, by which a directory above a file is recognized, through whatever
//! shares both were opened.

use dtyp::upcase::upcase;

/// Path of a file on the host, in two parts: folder of a share, and path beneath the share.
#[derive(Clone, Copy, Debug)]
pub struct HostPath<'p> {
    /// Path of the share's root on the host.
    pub folder: &'p str,
    /// The path beneath the share as its clients see it, with `\`.
    pub path: &'p str,
    /// The path beneath the share on disk, with `/`, if that is another.
    pub on_disk: Option<&'p str>,
}

impl<'p> HostPath<'p> {
    /// Returns whether the file is beneath a directory: a folder may have several shares, with
    /// other rules for names, and that of one may be in that of another.
    ///
    /// Names that differ in case alone count as the same, since they are on some file systems, and
    /// a path has the case of its client there.
    #[must_use]
    pub fn is_beneath(self, directory: Self) -> bool {
        let mut own = self.characters();
        let behind = (!directory.path.is_empty()).then_some('/');
        directory.characters().chain(behind).all(|it| own.next() == Some(it))
    }

    fn characters(self) -> impl Iterator<Item = char> {
        let separator = (!self.folder.is_empty()).then_some('/');
        let path = self.on_disk.unwrap_or(self.path).chars();
        let all = self.folder.chars().chain(separator).chain(path);
        all.map(|it| if it == '\\' { '/' } else { upcase(it) })
    }

    /// Returns the new path of a file, and the one on disk if that is another, after a rename of
    /// the directory `old` to `new`. `None` if the path does not begin with that of the directory:
    /// for clients of this share the file is not beneath it.
    #[must_use]
    pub fn moved(self, old: Self, new: Self) -> Option<(String, Option<String>)> {
        let rest = self.beneath(old)?;
        let path = format!("{}\\{rest}", new.path);
        if [self, old, new].iter().all(|it| it.on_disk.is_none()) {
            return Some((path, None));
        }
        let [own, old, new] = [self, old, new]
            .map(|it| it.on_disk.map_or_else(|| it.path.replace('\\', "/"), str::to_owned));
        let rest = own.strip_prefix(&old)?.strip_prefix('/')?;
        let on_disk = format!("{new}/{rest}");
        let is_other = on_disk != path.replace('\\', "/");
        Some((path, is_other.then_some(on_disk)))
    }

    /// Returns whether a rename of the directory gives the file its new path: see
    /// [`HostPath::moved`].
    #[must_use]
    pub fn moves_with(self, directory: Self) -> bool {
        self.moved(directory, directory).is_some()
    }

    /// Returns the rest of the path behind that of a directory of the same folder.
    fn beneath(self, directory: Self) -> Option<&'p str> {
        let path = Some(self.path).filter(|_| self.folder == directory.folder)?;
        path.strip_prefix(directory.path)?.strip_prefix('\\')
    }
}

#[cfg(test)]
mod tests {
    use super::HostPath;

    fn at<'p>(folder: &'p str, path: &'p str, on_disk: Option<&'p str>) -> HostPath<'p> {
        HostPath { folder, path, on_disk }
    }

    #[test]
    fn a_file_is_beneath_the_directories_of_its_path_on_the_host() {
        let file = at("srv/data", "a\\b\\f:stream", None);
        for (directory, want) in [
            (at("srv/data", "a\\b", None), true),
            (at("srv/data", "a", None), true),
            (at("srv", "data", None), true),
            (at("", "srv\\data\\a", None), true),
            (at("srv/data/a", "b", None), true),
            (at("srv/data", "", None), true),
            (at("srv/data", "a\\b\\f", None), false),
            (at("srv/data", "a\\", None), false),
            (at("srv/data", "b", None), false),
            (at("srv/data2", "a", None), false),
        ] {
            assert_eq!(file.is_beneath(directory), want, "{directory:?}");
        }
    }

    #[test]
    fn names_on_disk_are_compared_and_not_those_of_clients() {
        let file = at("srv/data", "CSHOFG~F\\f", Some("CON/f"));
        assert!(file.is_beneath(at("srv/data", "CON", None)));
        assert!(file.is_beneath(at("srv/data", "a\u{f022}b", Some("CON"))));
        assert!(!file.is_beneath(at("srv/data", "CSHOFG~F", None)), "another directory");
    }

    #[test]
    fn a_directory_may_have_another_case() {
        assert!(at("srv/data", "a\\SUB\\f", None).is_beneath(at("srv/data", "A\\sub", None)));
        assert!(at("srv/data", "\u{e4}\\f", None).is_beneath(at("srv/data", "\u{c4}", None)));
    }

    #[test]
    fn a_path_moves_with_the_directory_that_it_begins_with() {
        let moved = |file: HostPath<'_>, old, new| {
            assert_eq!(file.moves_with(old), file.moved(old, new).is_some());
            file.moved(old, new)
        };
        let file = at("srv/data", "a\\b\\f:s", None);
        let (old, new) = (at("srv/data", "a", None), at("srv/data", "c", None));
        assert_eq!(moved(file, old, new), Some(("c\\b\\f:s".to_owned(), None)));
        let mapped = at("srv/data", "c\u{f022}", Some("c:"));
        let want = ("c\u{f022}\\b\\f:s".to_owned(), Some("c:/b/f:s".to_owned()));
        assert_eq!(moved(file, old, mapped), Some(want));
        let back = at("srv/data", "c\u{f022}\\f", Some("c:/f"));
        assert_eq!(moved(back, mapped, old), Some(("a\\f".to_owned(), None)));
        // These are beneath it, by paths that stay.
        for file in [
            at("srv/data/a", "b\\f", None),
            at("srv/data", "A\\b\\f", None),
            at("srv/data", "SHORT~1\\f", Some("a/f")),
        ] {
            assert!(file.is_beneath(old));
            assert_eq!(moved(file, old, new), None, "{file:?}");
        }
    }
}
