//! The paths that workers reach by the configuration, for the rules that the kernel keeps them to.
//!
//! A rule is for a directory and everything below it, so the paths of shares are found here without
//! knowing any client: of a path with variables, the directory before the first one counts. Where
//! the paths cannot be known, workers reach all of them, and an operator is told why.

mod home_folders;
mod reached_paths;

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use config::{Config, ShadowCopy, Share, StreamsDepot, Substitutions};
use confinement::Place;
use settings::Settings;

use super::domain_sid;
use super::mount_point::Place as FolderPlace;
use super::root_settings::allows_wide_links;
use super::served;
use super::shares_folder;
use super::snapshots::SnapshotOptions;
pub use reached_paths::{ReachedPath, ReachedPaths};

/// Places at most: each new worker has the kernel copy a rule for each of them.
const PLACES_MAX: usize = 4_096;

/// Directories with files of many programs, which are not opened for the sake of one below them.
const OF_SYSTEM: [&str; 20] = [
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib64",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/sys",
    "/tmp",
    "/usr",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/spool",
];

/// Paths of the workers of a configuration.
#[derive(Debug)]
pub struct Reach {
    /// Places with their paths, which may not exist, or be links.
    pub places: BTreeSet<(Place, PathBuf)>,
    /// Reason why workers reach all paths, with a remedy; `None` if they do not.
    pub everything: Option<String>,
}

impl Reach {
    /// Returns the paths of a configuration. `locate` finds the directory that a path leads to, and
    /// the beginning of its file system; `None` for a file system that may wait long, which is
    /// reached as a whole.
    #[must_use]
    pub fn of(settings: &Settings, locate: impl FnMut(&Path) -> Option<FolderPlace>) -> Self {
        let mut finding = Finding { settings, locate, places: BTreeSet::new(), everything: None };
        // Operators have the remarks on options when a client connects.
        served::serving(true, || finding.find());
        let Finding { places, mut everything, .. } = finding;
        if places.len() > PLACES_MAX {
            everything.get_or_insert_with(|| {
                format!("the shares have more than {PLACES_MAX} directories; use fewer parents")
            });
        }
        Self { places, everything }
    }
}

/// Collects the paths of a configuration.
struct Finding<'s, L> {
    settings: &'s Settings,
    locate: L,
    places: BTreeSet<(Place, PathBuf)>,
    everything: Option<String>,
}

impl<L: FnMut(&Path) -> Option<FolderPlace>> Finding<'_, L> {
    fn find(&mut self) {
        let Settings { config, directories, .. } = self.settings;
        self.add(Place::LockDirectory, directories.lock.clone());
        self.add(Place::AddedShares, shares_folder::path_of(&directories.state));
        self.add(Place::Identity, domain_sid::path_of(&directories.state));
        self.add_username_map(config);
        for share in config.shares.iter().chain(&config.homes) {
            self.add_share(config, share);
        }
        self.add_usershares(config);
        if config.has_client_files() {
            self.open(
                "the configuration includes files for single clients, whose shares are not known \
                 before; name their shares in the main file"
                    .to_owned(),
            );
        }
    }

    fn add(&mut self, place: Place, path: PathBuf) {
        self.places.insert((place, path));
    }

    /// Has workers reach everything; the first reason stays.
    fn open(&mut self, why: String) {
        self.everything.get_or_insert(why);
    }

    /// An editor replaces the file, so its directory is read.
    fn add_username_map(&mut self, config: &Config) {
        let map = config.substitutions().expand_path(&config.global.username_map);
        let map = Path::new(map.trim_start_matches('!'));
        let Some(folder) = map.parent().filter(|_| map.is_absolute()) else { return };
        if self.is_of_system(folder) {
            return self.open(format!(
                "`username map` is in {}, with files of others; give it a directory of its own",
                folder.display()
            ));
        }
        self.add(Place::UsernameMap, folder.to_owned());
    }

    fn add_share(&mut self, config: &Config, share: &Share) {
        let name = &share.name;
        if share.path.is_empty() || is_home(&share.path) {
            // Only `[homes]` is served without a path.
            if is_home(&share.path) || config.homes.as_ref().is_some_and(|it| it.name == *name) {
                self.add_homes(config, name);
            }
            return;
        }
        let folder = fixed_part(&share.path);
        if is_root(&folder) {
            return self.open(format!("the path of share {name} is `{}`", share.path));
        }
        if share.wide_links && share.follow_symlinks && allows_wide_links(&config.global) {
            return self.open(format!("links lead out of share {name}: `wide links = yes`"));
        }
        self.add_depot(share);
        self.add_snapshots(config, share, &folder);
        self.add(Place::Share, folder);
    }

    fn add_homes(&mut self, config: &Config, share: &str) {
        match home_folders::of_system(&config.global) {
            Ok(homes) => {
                for home in homes {
                    let parent = home.parent().filter(|it| !self.is_of_system(it));
                    // A home may be a link that leads to another place.
                    let folders: Vec<_> = [parent, Some(&*home)].into_iter().flatten().collect();
                    folders.into_iter().for_each(|it| self.add(Place::Share, it.to_owned()));
                }
            }
            Err(why) => self.open(format!(
                "homes of users are not known before they connect [{share}], because {why}; a \
                 path such as `path = /home/%S` there restricts them"
            )),
        }
    }

    fn add_depot(&mut self, share: &Share) {
        let Some(StreamsDepot { directory, .. }) = StreamsDepot::of(share) else { return };
        // Others are in the share.
        if directory.starts_with('/') {
            let folder = fixed_part(&directory);
            if is_root(&folder) {
                let name = &share.name;
                return self.open(format!("streams of share {name} are in `{directory}`"));
            }
            self.add(Place::Depot, folder);
        }
    }

    fn add_snapshots(&mut self, config: &Config, share: &Share, folder: &Path) {
        let Some(options) = ShadowCopy::of(share) else { return };
        let ShadowCopy { mount_point, directory, base, share_path, .. } = &options;
        let texts = [mount_point, directory, base, share_path];
        let has_variable = |it: &&String| Substitutions::parts_around_variables(it).len() > 1;
        if texts.into_iter().flatten().any(|it| has_variable(&it)) {
            for text in [directory, mount_point].into_iter().flatten() {
                let folder = Some(fixed_part(text)).filter(|it| it.is_absolute() && !is_root(it));
                folder.into_iter().for_each(|it| self.add(Place::Snapshots, it));
            }
            return;
        }
        let Some(place) = (self.locate)(folder) else { return };
        let options = SnapshotOptions::of(share, &config.substitutions());
        let folders = options.and_then(|it| it.directories(&place)).unwrap_or_default();
        folders.into_iter().for_each(|it| self.add(Place::Snapshots, it));
    }

    /// Users may share any folder, and do so while the server runs.
    fn add_usershares(&mut self, config: &Config) {
        let global = &config.global;
        if global.usershare_max_shares == 0 {
            return;
        }
        self.add(Place::Usershares, PathBuf::from(&global.usershare_path));
        let allowed = &global.usershare_prefix_allow_list;
        if allowed.is_empty() || allowed.iter().any(|it| is_root(Path::new(it))) {
            return self.open(
                "users may share any folder; `usershare prefix allow list` restricts them"
                    .to_owned(),
            );
        }
        if config.usershare_template().is_some_and(|it| it.wide_links && it.follow_symlinks)
            && allows_wide_links(global)
        {
            return self.open("links lead out of shares of users: `wide links = yes`".to_owned());
        }
        allowed.iter().for_each(|it| self.add(Place::Share, PathBuf::from(it)));
    }

    /// Returns true for a directory that has files of many programs, or the server's secrets.
    fn is_of_system(&self, folder: &Path) -> bool {
        OF_SYSTEM.iter().any(|it| folder == Path::new(it))
            || self.settings.directories.private.starts_with(folder)
    }
}

/// Returns the directory before the first variable of a path: all that is known of it before.
fn fixed_part(text: &str) -> PathBuf {
    let parts = Substitutions::parts_around_variables(text);
    match &parts[..] {
        [first, _, ..] => match first.rsplit_once('/') {
            Some(("", _)) | None => PathBuf::from("/"),
            Some((folder, _)) => PathBuf::from(folder),
        },
        [whole] => PathBuf::from(whole),
        [] => PathBuf::from("/"),
    }
}

/// Returns true for a path that begins in the home of the user.
fn is_home(path: &str) -> bool {
    path.starts_with("%H")
}

/// Returns true for every spelling of `/`, and for paths that may lead to it.
fn is_root(folder: &Path) -> bool {
    let is_name = |it: Component<'_>| matches!(it, Component::Normal(_));
    let leads_up = |it: Component<'_>| it == Component::ParentDir;
    !folder.components().any(is_name) || folder.components().any(leads_up)
}

#[cfg(test)]
mod tests;
