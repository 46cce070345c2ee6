//! `vfs objects = shadow_copy2`: the parametric options of Samba's module, with their defaults, and
//! `shadow:auto`.

use crate::kind::Kind;
use crate::share::Share;

/// The module that a share names to have snapshots.
pub(crate) const MODULE: &str = "shadow_copy2";

/// Prefix of the options' names, without the colon.
pub(crate) const OPTIONS: &str = "shadow";

const BOOLEANS: [&str; 6] =
    ["auto", "crossmountpoints", "fixinodes", "localtime", "snapdirseverywhere", "sscanf"];
const TEXTS: [&str; 8] = [
    "basedir",
    "delimiter",
    "format",
    "mountpoint",
    "snapdir",
    "snapprefix",
    "snapsharepath",
    "sort",
];

/// Bytes of `shadow:snapprefix`. A name has no more.
const EXPRESSION_BYTES_MAX: usize = 255;

/// Snapshots of a share, as its options describe them. `shadow:fixinodes` needs not be followed:
/// files in snapshots always have numbers of their own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ShadowCopy {
    /// Layouts and names of common tools are found.
    pub auto: bool,
    /// Root of the file system, if it is not to be detected.
    pub mount_point: Option<String>,
    /// Directory that holds the snapshots.
    pub directory: Option<String>,
    /// Directory that the snapshots are of.
    pub base: Option<String>,
    /// Path of the share in a snapshot.
    pub share_path: Option<String>,
    /// Each directory of the share, and each one above it, may have a directory of snapshots.
    pub everywhere: bool,
    /// Directories above the root of the file system count, too.
    pub cross_mount_points: bool,
    /// Form of names; `None` without one if layouts are found.
    pub format: Option<String>,
    /// Basic regular expression for the text of a name before the delimiter.
    pub prefix: Option<String>,
    /// Text that the format begins with, behind a prefix.
    pub delimiter: String,
    /// Names tell local time, not UTC.
    pub local_time: bool,
    /// Word for the order of snapshots.
    pub sort: String,
}

impl ShadowCopy {
    /// The default of `shadow:format`: what clients call a snapshot, too.
    pub const FORMAT: &'static str = "@GMT-%Y.%m.%d-%H.%M.%S";

    /// The snapshots of a share; `None` if its `vfs objects` name none, or if an option does not
    /// say which directories are snapshots.
    #[must_use]
    pub fn of(share: &Share) -> Option<Self> {
        if !share.has_module(MODULE) {
            return None;
        }
        let text = |option| share.option(OPTIONS, option).map(str::to_owned);
        let is_on = |option, default| share.option_is_on(OPTIONS, option, default);
        let prefix = text("snapprefix");
        if prefix.as_deref().is_some_and(|it| fault_of_expression(it).is_some()) {
            return None;
        }
        let auto = is_on("auto", false);
        let given = text("format");
        let format = given.or_else(|| (!auto || prefix.is_some()).then(|| Self::FORMAT.to_owned()));
        // strptime(3) and strftime(3) have the seconds since 1970 as a local time.
        let counts_seconds = is_on("sscanf", false);
        let replace = |format: String| format.replace("%lu", "%s");
        Some(Self {
            auto,
            mount_point: text("mountpoint"),
            directory: text("snapdir"),
            base: text("basedir"),
            share_path: text("snapsharepath"),
            everywhere: is_on("snapdirseverywhere", auto),
            cross_mount_points: is_on("crossmountpoints", false),
            format: if counts_seconds { format.map(replace) } else { format },
            prefix,
            delimiter: text("delimiter").unwrap_or_else(|| "_GMT".to_owned()),
            local_time: counts_seconds || is_on("localtime", false),
            sort: text("sort").unwrap_or_else(|| "desc".to_owned()),
        })
    }
}

/// Returns the names of all options.
pub(crate) fn options() -> Vec<&'static str> {
    BOOLEANS.into_iter().chain(TEXTS).collect()
}

/// Returns the fault of an option `shadow:option`, in words; `None` for a good one.
pub(crate) fn fault(option: &str, value: &str) -> Option<String> {
    match option {
        "format" if value.contains('/') => {
            Some("a name has no `/`, so there are no snapshots".to_owned())
        }
        "mountpoint" | "basedir" if !value.starts_with(['/', '%']) => {
            Some("an absolute path is expected; the default is used".to_owned())
        }
        "snapsharepath" if value.starts_with('/') => {
            Some("a relative path is expected; the default is used".to_owned())
        }
        "snapprefix" => {
            fault_of_expression(value).map(|fault| format!("{fault}, so there are no snapshots"))
        }
        _ if BOOLEANS.contains(&option) => {
            let bad = Kind::Bool.canonical(value.trim(), "").err()?;
            Some(format!("{bad}; the default is used"))
        }
        _ => None,
    }
}

/// Returns the reason why an expression is not compared with names. One that refers back to a part
/// of itself can take a time that doubles with each byte of a name.
fn fault_of_expression(expression: &str) -> Option<String> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Some(format!("an expression has at most {EXPRESSION_BYTES_MAX} bytes"));
    }
    let mut bytes = expression.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'\\' && bytes.next().is_some_and(|it| it.is_ascii_digit()) {
            return Some("references such as `\\1` are not supported".to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::ShadowCopy;
    use crate::share_lines;

    fn parsed(lines: &str) -> (Option<ShadowCopy>, Vec<String>) {
        share_lines::parsed(lines, ShadowCopy::of)
    }

    #[test]
    fn a_share_without_the_module_has_no_snapshots() {
        assert_eq!(parsed("shadow:snapdir = .zfs/snapshot").0, None);
    }

    #[test]
    fn defaults_are_those_of_samba() {
        let (found, warnings) = parsed("vfs objects = shadow_copy2");
        let found = found.expect("it has the module");
        assert_eq!(found.format.as_deref(), Some("@GMT-%Y.%m.%d-%H.%M.%S"));
        assert_eq!((found.delimiter.as_str(), found.sort.as_str()), ("_GMT", "desc"));
        assert_eq!((found.directory, found.prefix), (None, None));
        assert!(!found.everywhere && !found.cross_mount_points && !found.local_time);
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn all_options_of_samba_are_understood() {
        let (found, warnings) = parsed(
            "vfs objects = shadow_copy2\nshadow: snapdir = .zfs/snapshot\nshadow: sort = asc\n\
             shadow: format = _%Y-%m-%d_%H:%M:%S\nshadow: snapprefix = ^autosnap\n\
             shadow: delimiter = _\nshadow: localtime = yes\nshadow:snapdirseverywhere = yes\n\
             shadow:crossmountpoints = yes\nshadow:fixinodes = yes\nshadow:mountpoint = /a\n\
             shadow:basedir = /a\nshadow:snapsharepath = b",
        );
        let found = found.expect("it has the module");
        assert_eq!(found.prefix.as_deref(), Some("^autosnap"));
        assert_eq!((found.delimiter.as_str(), found.sort.as_str()), ("_", "asc"));
        assert!(found.everywhere && found.cross_mount_points && found.local_time);
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn a_number_of_seconds_is_a_format_of_strptime() {
        let (found, _) =
            parsed("vfs objects = shadow_copy2\nshadow:sscanf = yes\nshadow:format = snap-%lu");
        let found = found.expect("it has the module");
        assert_eq!((found.format.as_deref(), found.local_time), (Some("snap-%s"), true));
    }

    #[test]
    fn found_layouts_need_no_format_and_are_looked_for_everywhere() {
        let (found, _) = parsed("vfs objects = shadow_copy2\nshadow:auto = yes");
        let found = found.expect("it has the module");
        assert_eq!((found.auto, found.everywhere, found.format), (true, true, None));
    }

    #[test]
    fn an_expression_is_short_and_refers_to_no_part_of_itself() {
        let long = "a".repeat(256);
        for bad in ["\\(a*\\)\\1", long.as_str()] {
            let (found, warnings) =
                parsed(&format!("vfs objects = shadow_copy2\nshadow:snapprefix = {bad}"));
            assert_eq!(found, None);
            assert!(warnings.len() == 1 && warnings[0].contains("no snapshots"), "{warnings:?}");
        }
        let (found, warnings) = parsed("vfs objects = shadow_copy2\nshadow:snapprefix = a\\\\1");
        assert!(found.is_some() && warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn unknown_options_and_bad_values_are_reported() {
        let (_, warnings) = parsed(
            "vfs objects = shadow_copy2\nshadow:snapdirs = x\nshadow:auto = zfs\n\
             shadow:format = a/b\nshadow:basedir = data\nshadow:snapsharepath = /data",
        );
        assert_eq!(warnings.len(), 5, "{warnings:?}");
        assert!(
            warnings[0].contains("test:4") && warnings[0].contains("shadow:snapdirs"),
            "{warnings:?}"
        );
    }
}
