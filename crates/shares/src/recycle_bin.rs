//! Recycle bin of a share: the options of Samba's `vfs_recycle`.

use std::path::{Component, PathBuf};

use config::{Recycle, Share, Substitutions};
use dtyp::NameExpression;
use store::{RecycleSettings, Touch};

use super::served::warn_for_user;

/// The settings of a share's recycle bin; `None` if it has none.
pub(super) fn recycle_settings(
    share: &Share,
    substitutions: &Substitutions,
) -> Option<RecycleSettings> {
    let recycle = Recycle::of(share)?;
    let repository = PathBuf::from(substitutions.expand_path(&recycle.repository));
    // A value that is trusted in paths, such as a home, can be a path from the root.
    if !repository.components().all(|it| matches!(it, Component::Normal(_))) {
        warn_for_user!(
            "share {}: no recycle bin: {repository:?} is not below the share",
            share.name
        );
        return None;
    }
    Some(RecycleSettings {
        repository,
        keep_tree: recycle.keep_tree,
        versions: recycle.versions,
        touch: match (recycle.touch_mtime, recycle.touch) {
            (true, _) => Touch::BothTimes,
            (false, true) => Touch::AccessTime,
            (false, false) => Touch::Nothing,
        },
        directory_mode: recycle.directory_mode,
        subdirectory_mode: recycle.subdir_mode,
        size_min: recycle.size_min,
        size_max: recycle.size_max,
        excluded: expressions(&recycle.exclude),
        excluded_directories: expressions(&recycle.exclude_dir),
        unversioned: expressions(&recycle.noversions),
        gives_directories: false,
        is_quiet: false,
    })
}

/// Patterns ignore case, as in Samba. Each is for one component of a path.
fn expressions(patterns: &[String]) -> Vec<NameExpression> {
    patterns.iter().map(|pattern| NameExpression::new(pattern.trim_matches('/'))).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use config::{Config, Substitutions};

    use super::recycle_settings;

    #[test]
    fn no_name_of_a_user_leads_the_bin_out_of_the_share() {
        let text = "[a]\npath = /a\nvfs objects = recycle\nrecycle:repository = .bin/%U\n";
        let (config, _) = Config::parse(text, "test").expect("it is well-formed");
        for (user, path) in [("ann", ".bin/ann"), ("..", ".bin/_"), ("", ".bin/_")] {
            let substitutions =
                Substitutions { requested_user: user.to_owned(), ..Substitutions::default() };
            let settings = recycle_settings(&config.shares[0], &substitutions).expect("a bin");
            assert_eq!(settings.repository, Path::new(path));
        }
    }

    #[test]
    fn a_bin_outside_of_the_share_is_none() {
        let text = "[a]\npath = /a\nvfs objects = recycle\nrecycle:repository = %H/bin\n";
        let (config, _) = Config::parse(text, "test").expect("it is well-formed");
        let home = "/home/ann".to_owned();
        let substitutions = Substitutions { home, ..Substitutions::default() };
        assert!(recycle_settings(&config.shares[0], &substitutions).is_none());
    }
}
