//! `vfs objects = recycle`: the parametric options of Samba's module, with their defaults.

use crate::kind::Kind;
use crate::list;
use crate::share::Share;

/// The module that a share names to have a recycle bin.
pub(crate) const MODULE: &str = "recycle";

const BOOLEANS: [&str; 4] = ["keeptree", "touch", "touch_mtime", "versions"];
const MODES: [&str; 2] = ["directory_mode", "subdir_mode"];
const SIZES: [&str; 2] = ["maxsize", "minsize"];
const TEXTS: [&str; 4] = ["exclude", "exclude_dir", "noversions", "repository"];

const SIZE: Kind = Kind::Bytes { min: 0, max: u64::MAX };

/// Recycle bin of a share, as its options describe it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Recycle {
    /// Path of the bin below the share; may contain substitutions.
    pub repository: String,
    /// Files keep their path below the bin.
    pub keep_tree: bool,
    /// Earlier files of the same name are kept.
    pub versions: bool,
    /// The last access time becomes that of the deletion.
    pub touch: bool,
    /// The last access and last write times become that of the deletion.
    pub touch_mtime: bool,
    /// Mode of the bin's first directory.
    pub directory_mode: u32,
    /// Mode of directories below that one.
    pub subdir_mode: u32,
    /// Larger files are deleted; `None` for no limit.
    pub size_max: Option<u64>,
    /// Smaller files are deleted, not moved.
    pub size_min: u64,
    /// Patterns of files that are deleted.
    pub exclude: Vec<String>,
    /// Patterns of directories whose files are deleted.
    pub exclude_dir: Vec<String>,
    /// Patterns of files of which only the newest is kept.
    pub noversions: Vec<String>,
}

impl Recycle {
    /// The recycle bin of a share; `None` if its `vfs objects` name none. An empty `repository`
    /// means none, too.
    #[must_use]
    pub fn of(share: &Share) -> Option<Self> {
        if !share.has_module(MODULE) {
            return None;
        }
        let text = |option| share.option(MODULE, option).unwrap_or_default().trim();
        let words = |option| list::words(text(option));
        let is_on = |option| share.option_is_on(MODULE, option, false);
        let number = |option, kind: Kind, radix| {
            let text = kind.canonical(text(option), "").ok()?.text;
            u64::from_str_radix(&text, radix).ok()
        };
        let mode = |option| number(option, Kind::Mode, 8).and_then(|it| u32::try_from(it).ok());
        let directory_mode = mode("directory_mode").unwrap_or(0o700);
        let repository = share.option(MODULE, "repository").unwrap_or(".recycle").trim();
        let repository = repository.trim_matches('"').trim_matches('/');
        (!repository.is_empty()).then(|| Self {
            repository: repository.to_owned(),
            keep_tree: is_on("keeptree"),
            versions: is_on("versions"),
            touch: is_on("touch"),
            touch_mtime: is_on("touch_mtime"),
            directory_mode,
            subdir_mode: mode("subdir_mode").unwrap_or(directory_mode),
            size_max: number("maxsize", SIZE, 10).filter(|max| *max > 0),
            size_min: number("minsize", SIZE, 10).unwrap_or(0),
            exclude: words("exclude"),
            exclude_dir: words("exclude_dir"),
            noversions: words("noversions"),
        })
    }
}

/// Returns the names of all options.
pub(crate) fn options() -> Vec<&'static str> {
    BOOLEANS.into_iter().chain(MODES).chain(SIZES).chain(TEXTS).collect()
}

/// Returns the fault of a known option `recycle:option`, in words; `None` for a good one.
pub(crate) fn fault(option: &str, value: &str) -> Option<String> {
    let kind = match option {
        _ if BOOLEANS.contains(&option) => Kind::Bool,
        _ if MODES.contains(&option) => Kind::Mode,
        _ if SIZES.contains(&option) => SIZE,
        "repository" if value.split('/').any(|it| it == "." || it == "..") => {
            return Some("a path below the share has neither `.` nor `..`".to_owned());
        }
        _ => return None,
    };
    let bad = kind.canonical(value.trim(), "").err()?;
    Some(format!("{bad}; the default is used"))
}

#[cfg(test)]
mod tests {
    use super::Recycle;
    use crate::{Config, share_lines};

    fn parsed(lines: &str) -> (Option<Recycle>, Vec<String>) {
        share_lines::parsed(lines, Recycle::of)
    }

    #[test]
    fn a_share_without_the_module_has_no_bin() {
        assert_eq!(parsed("recycle:repository = bin").0, None);
        assert_eq!(parsed("vfs objects = recycle\nrecycle:repository = /").0, None);
    }

    #[test]
    fn defaults_are_those_of_samba() {
        let (recycle, reported) = parsed("vfs objects = recycle");
        let recycle = recycle.expect("it has the module");
        assert_eq!((recycle.repository.as_str(), recycle.directory_mode), (".recycle", 0o700));
        assert!(!recycle.keep_tree && !recycle.versions && !recycle.touch);
        assert_eq!((recycle.size_min, recycle.size_max), (0, None));
        assert!(reported.is_empty(), "{reported:?}");
    }

    #[test]
    fn options_are_read_as_samba_reads_them() {
        let (recycle, reported) = parsed(
            "vfs objects = Recycle\nrecycle:repository = /bin/%U/\nrecycle:keeptree = yes\n\
             recycle:directory_mode = 0777\nrecycle:maxsize = 2M\nrecycle:minsize = 1\n\
             recycle:exclude = *.tmp, ~$*\nrecycle:exclude_dir = /tmp\nrecycle:maxsize = 1k",
        );
        let recycle = recycle.expect("it has the module");
        assert_eq!(recycle.repository, "bin/%U");
        assert_eq!((recycle.directory_mode, recycle.subdir_mode), (0o777, 0o777));
        assert_eq!((recycle.size_min, recycle.size_max), (1, Some(1_024)));
        assert_eq!(recycle.exclude, ["*.tmp", "~$*"]);
        assert!(recycle.keep_tree && reported.is_empty(), "{reported:?}");
    }

    #[test]
    fn unknown_options_and_bad_values_are_reported() {
        let (_, reported) = parsed(
            "vfs objects = recycle\nrecycle:keeptre = yes\nrecycle:maxsize = big\n\
             recycle:repository = ../x",
        );
        assert_eq!(reported.len(), 3, "{reported:?}");
        assert!(
            reported[0].contains("test:4") && reported[0].contains("recycle:keeptre"),
            "{reported:?}"
        );
    }

    #[test]
    fn options_of_the_global_section_hold_for_all_shares() {
        let text = "[global]\nvfs objects = recycle\nrecycle:repository = bin\n\
                    recycle:versions = yes\n[a]\npath = /a\nrecycle:versions = no\n";
        let (config, _) = Config::parse(text, "test").expect("it is well-formed");
        let recycle = Recycle::of(&config.shares[0]).expect("it has the module");
        assert_eq!((recycle.repository.as_str(), recycle.versions), ("bin", false));
    }
}
