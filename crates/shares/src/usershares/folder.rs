//! Folders that users may share.

use std::io;
use std::path::{Component, Path, PathBuf};

use config::Global;

use crate::mount_point::Place;

/// Rules for the folder of a user's share.
#[derive(Clone, Debug, Default)]
pub struct FolderRules {
    /// Id that the folder must belong to; none for any owner.
    owner: Option<u32>,
    allowed: Vec<String>,
    denied: Vec<String>,
}

impl FolderRules {
    /// Returns the rules for the user who has written a file.
    pub(super) fn of(global: &Global, uid: u32) -> Self {
        Self {
            owner: (global.usershare_owner_only && uid != 0).then_some(uid),
            allowed: global.usershare_prefix_allow_list.clone(),
            denied: global.usershare_prefix_deny_list.clone(),
        }
    }

    /// Returns the id that the folder must belong to.
    pub(crate) fn owner(&self) -> Option<u32> {
        self.owner
    }

    /// Returns the prefixes that are resolved to verify the folder.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = &Path> {
        self.denied.iter().chain(&self.allowed).map(Path::new)
    }

    /// Verifies a path as its user wrote it.
    pub(super) fn verify_written(&self, path: &str) -> Result<(), String> {
        let path = Path::new(path);
        let leads_up = |it: Component<'_>| it == Component::ParentDir;
        if !path.is_absolute() || path.components().any(leads_up) {
            return Err("its path is not absolute, or has `..` in it".to_owned());
        }
        self.verify_lists(path, |prefix| Ok(vec![PathBuf::from(prefix)]))
    }

    /// Verifies the folder that was opened: its place and its owner. The thread must have the
    /// server's rights: the lists mean the same for every client.
    ///
    /// # Errors
    /// The fault, in words.
    pub(crate) fn verify_opened(&self, place: Option<&Place>, owner: u32) -> Result<(), String> {
        if self.owner.is_some_and(|wanted| wanted != owner) {
            return Err("its folder does not belong to the owner of its file".to_owned());
        }
        let place = place.ok_or("no path without symbolic links leads to its folder")?;
        self.verify_lists(&place.path, |prefix| {
            let plain = PathBuf::from(prefix);
            // The operator may have named a link, such as `/home`.
            match plain.canonicalize() {
                Ok(resolved) => Ok(vec![resolved, plain]),
                Err(error) if leads_nowhere(&error) => Ok(vec![plain]),
                Err(error) => Err(error),
            }
        })
    }

    /// `forms` returns the paths that a prefix stands for. A denied one without an answer could
    /// stand for any path.
    fn verify_lists(
        &self,
        path: &Path,
        forms: impl Fn(&str) -> io::Result<Vec<PathBuf>>,
    ) -> Result<(), String> {
        let is_below = |prefix: &str| {
            forms(prefix).map(|forms| forms.iter().any(|form| path.starts_with(form)))
        };
        for prefix in &self.denied {
            match is_below(prefix) {
                Ok(false) => {}
                Ok(true) => {
                    return Err("its path is denied by `usershare prefix deny list`".to_owned());
                }
                Err(error) => {
                    return Err(format!("{prefix} of `usershare prefix deny list`: {error}"));
                }
            }
        }
        let is_allowed = |prefix: &String| is_below(prefix).unwrap_or(false);
        if !self.allowed.is_empty() && !self.allowed.iter().any(is_allowed) {
            return Err("its path is not in `usershare prefix allow list`".to_owned());
        }
        Ok(())
    }
}

/// True if nothing has a path, so that it stands for no other one.
fn leads_nowhere(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use config::Config;

    use super::{FolderRules, Place};

    fn place(path: &str) -> Place {
        Place { path: path.into(), mount_point: "/".into() }
    }

    fn rules(lines: &str, uid: u32) -> FolderRules {
        let (config, _) = Config::parse(&format!("[global]\n{lines}\n"), "test").expect("valid");
        FolderRules::of(&config.global, uid)
    }

    #[test]
    fn lists_of_prefixes_and_the_owner_decide_on_a_folder() {
        let lists =
            "usershare prefix allow list = /srv /home\nusershare prefix deny list = /srv/no";
        let lists = rules(lists, 1_000);
        for (path, want) in [
            ("/srv/films", true),
            ("/home", true),
            ("/srv/no", false),
            ("/srv/no/films", false),
            ("/srv/nothing", true),
            ("/srvs", false),
            ("/etc", false),
            ("/srv/../etc", false),
            ("srv", false),
            ("", false),
        ] {
            assert_eq!(lists.verify_written(path).is_ok(), want, "{path}");
        }
        // A link in the path leads out of the allowed folders.
        lists.verify_opened(Some(&place("/etc")), 1_000).expect_err("elsewhere");
        let films = place("/srv/films");
        lists.verify_opened(Some(&films), 1_000).expect("allowed");
        for owner in [0, 1_001] {
            lists.verify_opened(Some(&films), owner).expect_err("another owner");
        }
        lists.verify_opened(None, 1_000).expect_err("it has no path");
        let any = rules("usershare owner only = no", 1_000);
        any.verify_opened(Some(&place("/etc")), 0).expect("any owner");
        rules("", 0).verify_opened(Some(&place("/etc")), 7).expect("root shares any");
    }

    #[test]
    fn a_denied_prefix_is_all_that_it_may_stand_for() {
        let folder = tempfile::tempdir().expect("there is space");
        let folder = folder.path().canonicalize().expect("it was just made");
        let path = |name: &str| folder.join(name).to_str().expect("a name of ours").to_owned();
        std::fs::create_dir(path("meant")).expect("there is space");
        std::os::unix::fs::symlink("meant", path("link")).expect("there is space");
        std::os::unix::fs::symlink("loop", path("loop")).expect("there is space");
        let verify = |denied: &str| {
            let denied = rules(&format!("usershare prefix deny list = {}", path(denied)), 1_000);
            denied.verify_opened(Some(&place(&path("meant"))), 1_000)
        };
        verify("link").expect_err("it leads there");
        verify("missing").expect("nothing is there");
        let fault = verify("loop").expect_err("it cannot be resolved");
        assert!(fault.contains("loop of `usershare prefix deny list`"), "{fault}");
    }
}
