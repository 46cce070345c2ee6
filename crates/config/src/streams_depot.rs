//! `vfs objects = streams_depot`: the parametric options of Samba's module, with their defaults.

use std::path::PathBuf;

use crate::kind::Kind;
use crate::share::Share;
use crate::substitutions::Substitutions;

/// The module that a share names to keep named streams in a depot.
pub(crate) const MODULE: &str = "streams_depot";

/// The module that keeps them in extended attributes, as shares without either do.
pub(crate) const ATTRIBUTES: &str = "streams_xattr";

const BOOLEANS: [&str; 2] = ["check_valid", "delete_lost"];

/// Depot for the named streams of a share, as its options describe it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StreamsDepot {
    /// Path of the depot: absolute, or below the share. It may contain substitutions.
    pub directory: String,
    /// Streams of a file that is gone are removed, not renamed, if another has its inode number.
    pub delete_lost: bool,
    /// A file has streams only if an extended attribute of it says so.
    pub check_valid: bool,
}

impl StreamsDepot {
    /// The depot of a share; `None` if its `vfs objects` name none, or `streams_xattr` first: the
    /// first module decides, as in Samba.
    #[must_use]
    pub fn of(share: &Share) -> Option<Self> {
        let is = |name: &str, module: &str| name.eq_ignore_ascii_case(module);
        let mut modules = share.vfs_objects.iter();
        let first = modules.find(|name| is(name, MODULE) || is(name, ATTRIBUTES))?;
        if !is(first, MODULE) {
            return None;
        }
        let directory = share.option(MODULE, "directory").unwrap_or_default();
        let directory = directory.trim().trim_matches('"').trim_end_matches('/');
        Some(Self {
            directory: if directory.is_empty() { ".streams" } else { directory }.to_owned(),
            delete_lost: share.option_is_on(MODULE, "delete_lost", false),
            check_valid: share.option_is_on(MODULE, "check_valid", true),
        })
    }

    /// Absolute path of the depot. A relative one begins at the share, whichever of its folders is
    /// served.
    #[must_use]
    pub fn path(&self, share: &Share, substitutions: &Substitutions) -> PathBuf {
        let folder = PathBuf::from(substitutions.expand_path(&share.path));
        folder.join(substitutions.expand_path(&self.directory))
    }
}

/// Returns the names of all options.
pub(crate) fn options() -> Vec<&'static str> {
    BOOLEANS.into_iter().chain(["directory"]).collect()
}

/// Returns the fault of a known option `streams_depot:option`, in words; `None` for a good one.
pub(crate) fn fault(option: &str, value: &str) -> Option<String> {
    if option == "directory" {
        let is_bad = value.split('/').any(|it| it == "." || it == "..");
        return is_bad.then(|| "a path of a depot has neither `.` nor `..`".to_owned());
    }
    let bad = Kind::Bool.canonical(value.trim(), "").err()?;
    Some(format!("{bad}; the default is used"))
}

#[cfg(test)]
mod tests {
    use super::StreamsDepot;
    use crate::share_lines;

    fn parsed(lines: &str) -> (Option<StreamsDepot>, Vec<String>) {
        share_lines::parsed(lines, StreamsDepot::of)
    }

    #[test]
    fn a_share_has_a_depot_only_with_the_module_and_before_that_of_attributes() {
        assert_eq!(parsed("streams_depot:directory = /depot").0, None);
        assert_eq!(parsed("vfs objects = streams_xattr streams_depot").0, None);
        assert!(parsed("vfs objects = catia Streams_Depot streams_xattr").0.is_some());
    }

    #[test]
    fn the_defaults_are_those_of_samba() {
        let (depot, reported) = parsed("vfs objects = streams_depot");
        let depot = depot.expect("it has the module");
        assert_eq!(depot.directory, ".streams");
        assert!(depot.check_valid && !depot.delete_lost && reported.is_empty(), "{reported:?}");
    }

    #[test]
    fn options_are_read_as_samba_has_them() {
        let (depot, reported) = parsed(
            "vfs objects = streams_depot\nstreams_depot:directory = /srv/streams/%S/\n\
             streams_depot:delete_lost = yes\nstreams_depot:check_valid = no",
        );
        let depot = depot.expect("it has the module");
        assert_eq!(depot.directory, "/srv/streams/%S");
        assert!(depot.delete_lost && !depot.check_valid && reported.is_empty(), "{reported:?}");
    }

    #[test]
    fn an_unknown_option_and_a_bad_value_are_reported() {
        let (_, reported) = parsed(
            "vfs objects = streams_depot\nstreams_depot:directroy = /x\n\
             streams_depot:delete_lost = perhaps\nstreams_depot:directory = ../x",
        );
        assert_eq!(reported.len(), 3, "{reported:?}");
        assert!(reported[0].contains("streams_depot:directroy"), "{reported:?}");
    }
}
