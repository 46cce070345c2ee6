//! Paths of objects inside a share.

use std::fmt;
use std::hash::{DefaultHasher, Hasher};

use dtyp::{FileTime, utf16};

use crate::metadata::FileIdentity;

/// A path relative to a share's root, with the stream of the object at its end, and the snapshot to
/// look in.
///
/// Invariant: the path has no empty component, no "." or "..", no NUL and no character that
/// [MS-FSCC] 2.1.5 forbids in a component; so the store can pass it to the kernel unchanged. `/`
/// separates components. The empty path is the root. A POSIX path may have those characters, and
/// its names are exact, including their case; it has no stream.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct ObjectPath {
    path: String,
    stream: Option<String>,
    snapshot: Option<FileTime>,
    posix: bool,
}

/// Separators of components in a client's name.
const SEPARATORS: [char; 2] = ['\\', '/'];

/// Reason why a name is not a path inside a share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PathError {
    /// A component has a forbidden name: OBJECT_NAME_INVALID.
    BadComponent,
    /// The stream part is not `:name`, `:name:$DATA` or `::$DATA`: OBJECT_NAME_INVALID.
    BadStream,
    /// A component before the last one is ".", which no directory is named: OBJECT_PATH_NOT_FOUND.
    DotComponent,
    /// ".." beyond the root of the share, or an absolute path: OBJECT_PATH_SYNTAX_BAD.
    Escapes,
    /// More than 255 UTF-16 units in a component, or 32,767 in total: OBJECT_NAME_INVALID.
    TooLong,
}

impl ObjectPath {
    /// Highest number of UTF-16 code units of a component: [MS-FSCC] 2.1.5.
    pub const COMPONENT_UNITS_MAX: usize = 255;
    /// Highest number of UTF-16 code units of a path.
    pub const PATH_UNITS_MAX: usize = 32_767;

    /// Root of the share, without a stream.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// Parses a name of CREATE or SET_INFO: components separated by `\`, optionally with
    /// `:stream[:$DATA]` at the end: [MS-FSCC] 2.1.5, 2.1.6 with [MS-SMB2] 2.2.13.
    ///
    /// `/`, which no component may contain, separates as well: some clients from Unix send it, and
    /// Samba accepts it. Several separators count as one, and those at the end as none: clients
    /// send such names, and Windows and Samba open what they lead to.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn parse(name: &str) -> Result<Self, PathError> {
        if name.starts_with(SEPARATORS) {
            return Err(PathError::Escapes);
        }
        if utf16::units(name) > Self::PATH_UNITS_MAX {
            return Err(PathError::TooLong);
        }
        let last = name.bytes().rposition(is_separator).unwrap_or(0);
        let (object, stream) = match name.bytes().skip(last).position(|byte| byte == b':') {
            Some(colon) => (&name[..last + colon], Some(&name[last + colon + 1..])),
            None => (name, None),
        };
        let mut path = String::with_capacity(object.len());
        let mut components = object.split(SEPARATORS).filter(|it| !it.is_empty()).peekable();
        while let Some(component) = components.next() {
            if component == ".." {
                // [MS-FSCC] 2.1.5.1 forbids it on the wire, and Windows resolves it. By name
                // alone: the removed component is never looked up, so no link can lead
                // elsewhere.
                let parent = path.rfind('/').unwrap_or(0);
                if path.is_empty() {
                    return Err(PathError::Escapes);
                }
                path.truncate(parent);
                continue;
            }
            // [MS-FSCC] 2.1.5.1 forbids it, too; Windows answers as if it were looked up, and so
            // does Samba (smbd's `check_path_syntax`).
            if component == "." && components.peek().is_some() {
                return Err(PathError::DotComponent);
            }
            if component == "." || component.bytes().any(is_illegal) {
                return Err(PathError::BadComponent);
            }
            if utf16::units(component) > Self::COMPONENT_UNITS_MAX {
                return Err(PathError::TooLong);
            }
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(component);
        }
        let stream = stream.map(parse_stream).transpose()?.flatten();
        Ok(Self { path, stream, ..Self::default() })
    }

    /// Returns a hash that stands for this name of a file: of the parent directory, the name as
    /// stored, and the file's birth time, since other files may have got both inode numbers by now.
    /// 0 for a file without a parent.
    #[must_use]
    pub fn link(&self, parent: Option<FileIdentity>, file: FileIdentity) -> u64 {
        let Some(parent) = parent else { return 0 };
        // This hasher has no random key: all processes of one program get the same hash.
        let mut hasher = DefaultHasher::new();
        // In as few steps as possible, because each takes longer than what it hashes.
        let mut head = [0; 16];
        head[..8].copy_from_slice(&parent.device.to_ne_bytes());
        head[8..].copy_from_slice(&parent.inode.to_ne_bytes());
        hasher.write(&head);
        hasher.write(self.file_name().as_bytes());
        // No name has this byte.
        let mut tail = [0xFF; 9];
        tail[1..].copy_from_slice(&file.birth.to_ne_bytes());
        hasher.write(&tail);
        hasher.finish()
    }

    /// Parses a name from a client with the POSIX extensions: components separated by `/`, in which
    /// only `/` and NUL are forbidden. A name without `/` may be from a client that separates by
    /// `\`.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn parse_posix(name: &str) -> Result<Self, PathError> {
        let separator = if name.contains('/') { '/' } else { '\\' };
        if name.starts_with(separator) {
            return Err(PathError::Escapes);
        }
        if utf16::units(name) > Self::PATH_UNITS_MAX {
            return Err(PathError::TooLong);
        }
        let name = name.strip_suffix(separator).unwrap_or(name);
        let components: Vec<&str> = name.split(separator).collect();
        for component in components.iter().filter(|_| !name.is_empty()) {
            match *component {
                ".." => return Err(PathError::Escapes),
                "" | "." => return Err(PathError::BadComponent),
                other if other.contains('\0') => return Err(PathError::BadComponent),
                other if utf16::units(other) > Self::COMPONENT_UNITS_MAX => {
                    return Err(PathError::TooLong);
                }
                _ => {}
            }
        }
        Ok(Self { path: components.join("/"), posix: true, ..Self::default() })
    }

    /// Returns the path of which [`ObjectPath::to_windows`] has made `name`, for an object that was
    /// opened by it: so nothing is refused. A POSIX name with a `\` is split at it.
    #[must_use]
    pub fn from_windows(name: &str, is_posix: bool) -> Self {
        let last = name.rfind('\\').map_or(0, |at| at + 1);
        let colon = name[last..].find(':').filter(|_| !is_posix).map(|at| last + at);
        let (object, stream) = match colon {
            Some(at) => (&name[..at], Some(name[at + 1..].to_owned())),
            None => (name, None),
        };
        Self { path: object.replace('\\', "/"), stream, posix: is_posix, ..Self::default() }
    }

    /// Builds a path from valid components, such as names that the store listed.
    #[must_use]
    pub fn from_stored(path: String, stream: Option<String>) -> Self {
        Self { path, stream, ..Self::default() }
    }

    /// Builds a POSIX path from valid components.
    #[must_use]
    pub fn from_stored_posix(path: String) -> Self {
        Self { path, posix: true, ..Self::default() }
    }

    /// The components joined by `/`; empty for the root.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.path
    }

    /// Name of the stream without its type; `None` for the unnamed stream.
    #[must_use]
    pub fn stream(&self) -> Option<&str> {
        self.stream.as_deref()
    }

    /// Time of the snapshot; `None` for the current files.
    #[must_use]
    pub fn snapshot(&self) -> Option<FileTime> {
        self.snapshot
    }

    /// True if its names are exact, including their case.
    #[must_use]
    pub fn is_posix(&self) -> bool {
        self.posix
    }

    /// The same path, with POSIX names exactly if `other` has them.
    #[must_use]
    pub fn meant_as(self, other: &Self) -> Self {
        Self { posix: other.posix, ..self }
    }

    /// True for the root of the share.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.path.is_empty()
    }

    /// The last component; empty for the root.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Parent directory of the object; `None` for the root. The stream is dropped.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let parent = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        Some(Self { path: parent.to_owned(), stream: None, ..self.clone() })
    }

    /// The components, from the root down.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.path.split('/').filter(|component| !component.is_empty())
    }

    /// Returns this path relative to a higher directory, in which its root lies at `folder`.
    #[must_use]
    pub fn below(&self, folder: &Self) -> Self {
        let path = match (folder.is_root(), self.is_root()) {
            (true, _) => self.path.clone(),
            (false, true) => folder.path.clone(),
            (false, false) => format!("{}/{}", folder.path, self.path),
        };
        Self { path, ..self.clone() }
    }

    /// Splits the path behind so many components: their directory, and the object from there.
    #[must_use]
    pub fn split_at(&self, components: usize) -> (Self, Self) {
        let part = |part: Vec<&str>| part.join("/");
        let directory = part(self.components().take(components).collect());
        let rest = part(self.components().skip(components).collect());
        let folder = Self { path: directory, posix: self.posix, ..Self::default() };
        (folder, Self { path: rest, ..self.clone() })
    }

    /// Returns the path relative to `directory`: empty for the directory itself, `None` outside of
    /// it. Ignores streams.
    #[must_use]
    pub fn relative_to(&self, directory: &Self) -> Option<&str> {
        if directory.is_root() {
            return Some(&self.path);
        }
        let rest = self.path.strip_prefix(directory.as_str())?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
    }

    /// The same object without its stream.
    #[must_use]
    pub fn without_stream(&self) -> Self {
        Self { stream: None, ..self.clone() }
    }

    /// The same object with this stream.
    #[must_use]
    pub fn with_stream(&self, stream: Option<String>) -> Self {
        Self { stream, ..self.clone() }
    }

    /// The same object in this snapshot.
    #[must_use]
    pub fn with_snapshot(self, snapshot: Option<FileTime>) -> Self {
        Self { snapshot, ..self }
    }

    /// The same object without the first component that names a snapshot (`@GMT-…`), in that
    /// snapshot; `None` without such a component.
    #[must_use]
    pub fn split_gmt_token(&self) -> Option<Self> {
        let index = self.components().position(|it| FileTime::from_gmt_token(it).is_some())?;
        let snapshot = self.components().nth(index).and_then(FileTime::from_gmt_token);
        let others = self.components().enumerate().filter(|(at, _)| *at != index);
        let others: Vec<&str> = others.map(|(_, component)| component).collect();
        Some(Self { path: others.join("/"), snapshot, ..self.clone() })
    }

    /// The name in the form of clients: `\` between components, `:stream` at the end.
    #[must_use]
    pub fn to_windows(&self) -> String {
        let stream = self.stream.as_ref().map_or_else(String::new, |name| format!(":{name}"));
        self.path.replace('/', "\\") + &stream
    }
}

impl fmt::Display for ObjectPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_windows())
    }
}

/// Returns the path of a name in a directory; the root is the empty one.
#[must_use]
pub fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// True for a byte that stands for a character forbidden by [MS-FSCC] 2.1.5.2: a control character
/// or one of `" * / : < > ? |`. In UTF-8 no other character has it.
fn is_illegal(byte: u8) -> bool {
    byte < b' ' || matches!(byte, b'"' | b'*' | b'/' | b':' | b'<' | b'>' | b'?' | b'|')
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b'\\' | b'/')
}

/// [MS-FSCC] 2.1.5.3 and 2.1.5.4: `name`, `name:$DATA`, or `:$DATA` for the unnamed stream.
fn parse_stream(stream: &str) -> Result<Option<String>, PathError> {
    let (name, kind) = match stream.split_once(':') {
        Some((name, kind)) => (name, Some(kind)),
        None => (stream, None),
    };
    if kind.is_some_and(|kind| !kind.eq_ignore_ascii_case("$DATA")) {
        return Err(PathError::BadStream);
    }
    if name.is_empty() {
        return if kind.is_some() { Ok(None) } else { Err(PathError::BadStream) };
    }
    if name.contains(['\\', '/', '\0']) {
        return Err(PathError::BadStream);
    }
    if utf16::units(name) > ObjectPath::COMPONENT_UNITS_MAX {
        return Err(PathError::TooLong);
    }
    Ok(Some(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::hash::Hash;

    use super::{DefaultHasher, FileIdentity, Hasher, ObjectPath, PathError};

    #[track_caller]
    fn check(name: &str, want: Result<(&str, Option<&str>), PathError>) {
        let parsed = ObjectPath::parse(name);
        let got =
            parsed.as_ref().map(|path| (path.as_str(), path.stream())).map_err(|error| *error);
        assert_eq!(got, want, "{name}");
    }

    #[test]
    fn a_link_is_the_hash_of_its_parts() {
        let parent = FileIdentity { device: 1, inode: 2, birth: 0, stream: 0 };
        let file = FileIdentity { birth: 3, ..parent };
        for name in ["a", "a name of several blocks", "\u{e4}"] {
            let path = ObjectPath::from_stored(format!("folder/{name}"), None);
            let mut hasher = DefaultHasher::new();
            (parent.device, parent.inode, name, file.birth).hash(&mut hasher);
            assert_eq!(path.link(Some(parent), file), hasher.finish());
        }
    }

    #[test]
    fn components_are_joined_by_slashes() {
        check("", Ok(("", None)));
        check("a\\b c\\d", Ok(("a/b c/d", None)));
        check("a/b c\\d/e:s", Ok(("a/b c/d/e", Some("s"))));
        check("a/", Ok(("a", None)));
        check("a\\", Ok(("a", None)));
    }

    #[test]
    fn a_stream_is_split_off_the_last_component() {
        check("a\\b:s", Ok(("a/b", Some("s"))));
        check("b:s:$DATA", Ok(("b", Some("s"))));
        check("b::$data", Ok(("b", None)));
        check("b:", Err(PathError::BadStream));
        check("b:s:$INDEX", Err(PathError::BadStream));
        check("a:s\\b", Err(PathError::BadComponent));
    }

    #[test]
    fn nothing_leads_out_of_the_share() {
        check("..", Err(PathError::Escapes));
        check("a\\..\\..", Err(PathError::Escapes));
        check("a\\..\\..\\b", Err(PathError::Escapes));
        check("\\a", Err(PathError::Escapes));
        check("/a", Err(PathError::Escapes));
        check("a/../../b", Err(PathError::Escapes));
        check("a\\\\..\\\\..\\b", Err(PathError::Escapes));
    }

    #[test]
    fn empty_components_are_left_out() {
        for name in ["a\\b", "a\\\\b", "a//b", "a\\/b\\", "a\\b\\\\", "a\\x\\\\..\\b"] {
            check(name, Ok(("a/b", None)));
        }
        check("a\\\\b:s", Ok(("a/b", Some("s"))));
        check("a\\\\", Ok(("a", None)));
    }

    #[test]
    fn a_dot_is_no_directory_on_the_way_and_no_name_at_the_end() {
        check("a\\.\\b", Err(PathError::DotComponent));
        check(".\\b", Err(PathError::DotComponent));
        check("a\\.\\..\\b", Err(PathError::DotComponent));
        check("a\\.", Err(PathError::BadComponent));
        check("a\\.\\", Err(PathError::BadComponent));
        check(".", Err(PathError::BadComponent));
    }

    #[test]
    fn a_path_is_had_from_its_form_for_clients_again() {
        let stored = |path: &str, stream: Option<&str>| {
            ObjectPath::from_stored(path.to_owned(), stream.map(str::to_owned))
        };
        for path in [stored("", None), stored("a/b", None), stored("a/b", Some("s"))] {
            assert_eq!(ObjectPath::from_windows(&path.to_windows(), false), path);
        }
        let path = ObjectPath::parse_posix("a:b/c:d*").expect("a name");
        assert_eq!(ObjectPath::from_windows(&path.to_windows(), true), path);
        // As a share without short names shows it.
        let path = stored("a:b/c*", Some("s"));
        assert_eq!(ObjectPath::from_windows(&path.to_windows(), false), path);
    }

    #[test]
    fn a_path_below_a_folder_is_found_from_it() {
        let path = |name| ObjectPath::parse(name).expect("it is one");
        let file = path("b\\f:s").below(&path("a"));
        assert_eq!((file.as_str(), file.stream()), ("a/b/f", Some("s")));
        assert_eq!(file.relative_to(&path("a")), Some("b/f"));
        assert_eq!(file.relative_to(&path("")), Some("a/b/f"));
        assert_eq!(file.relative_to(&path("a\\b\\f")), Some(""));
        assert_eq!(file.relative_to(&path("a\\b\\")), Some("f"));
        assert_eq!(path("ab").relative_to(&path("a")), None);
        assert_eq!(path("").below(&path("a")), path("a"));
        assert_eq!(path("a").below(&path("")), path("a"));
    }

    #[test]
    fn a_path_is_split_behind_a_directory_and_keeps_its_stream() {
        let path = ObjectPath::parse("a\\b\\c:s").expect("a path");
        for (components, directory, rest) in
            [(0, "", "a\\b\\c:s"), (2, "a\\b", "c:s"), (3, "a\\b\\c", ":s"), (9, "a\\b\\c", ":s")]
        {
            let (found, below) = path.split_at(components);
            assert_eq!((found.to_windows(), below.to_windows()), (directory.into(), rest.into()));
            assert_eq!(below.below(&found), path);
        }
    }

    #[test]
    fn a_component_may_name_a_snapshot() {
        let time = dtyp::FileTime::from_unix(0, 0);
        for (name, want) in [
            ("@GMT-1970.01.01-00.00.00", ""),
            ("a\\@GMT-1970.01.01-00.00.00\\b:s", "a\\b:s"),
            ("@gmt-1970.01.01-00.00.00\\a", "a"),
        ] {
            let path = ObjectPath::parse(name).expect("a path");
            let want = ObjectPath::parse(want).expect("a path").with_snapshot(Some(time));
            assert_eq!(path.split_gmt_token(), Some(want), "{name}");
        }
        for name in ["", "a", "@GMT-1970.01.01", "x@GMT-1970.01.01-00.00.00"] {
            assert_eq!(ObjectPath::parse(name).expect("a path").split_gmt_token(), None);
        }
    }

    #[test]
    fn two_dots_take_back_the_component_before_them() {
        check("a\\..", Ok(("", None)));
        check("a\\b\\..\\c", Ok(("a/c", None)));
        check("a\\b\\..\\..\\c:s", Ok(("c", Some("s"))));
        check("a\\...", Ok(("a/...", None)));
        check("a*\\..", Err(PathError::BadComponent));
    }

    #[test]
    fn posix_names_are_taken_as_they_are() {
        for (name, want) in [
            ("", Ok("")),
            ("a/b:c\\d*?", Ok("a/b:c\\d*?")),
            ("a\\b\"|", Ok("a/b\"|")),
            ("a/", Ok("a")),
            ("trail. ", Ok("trail. ")),
            ("a/../b", Err(PathError::Escapes)),
            ("..", Err(PathError::Escapes)),
            ("/a", Err(PathError::Escapes)),
            ("a//b", Err(PathError::BadComponent)),
            ("a/./b", Err(PathError::BadComponent)),
            ("a\0b", Err(PathError::BadComponent)),
        ] {
            let parsed = ObjectPath::parse_posix(name);
            assert_eq!(parsed.as_ref().map(ObjectPath::as_str).map_err(|error| *error), want);
        }
        let path = ObjectPath::parse_posix("a/b:c").expect("good");
        assert!(path.is_posix() && path.stream().is_none());
        assert!(path.parent().is_some_and(|parent| parent.is_posix()));
        assert_eq!(ObjectPath::parse_posix(&"x".repeat(256)), Err(PathError::TooLong));
    }

    #[test]
    fn a_component_has_at_most_255_units() {
        let longest = "x".repeat(255);
        check(&longest, Ok((&longest, None)));
        check(&"x".repeat(256), Err(PathError::TooLong));
    }
}
