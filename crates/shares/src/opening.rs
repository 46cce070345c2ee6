//! The folder of a share: opened, verified, and only then served.
//!
//! Everything that asks the file system of a share is done here, on the thread that serves the
//! share: it may wait long. Snapshots are laid out for the folder that is open, and a user's share
//! is verified by it: a path could lead elsewhere a moment later.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dtyp::{NameExpression, NtStatus};
use object::{ObjectPath, RootId, UserId};
use store::{Folder, RootSettings, SnapshotSettings, Store};

use super::mount_point::Place;
use super::reach::ReachedPaths;
use super::served::{self, warn_for_user};
use super::snapshots::SnapshotOptions;
use super::usershares::FolderRules;

/// The directory of a share, to be opened.
#[derive(Clone, Debug)]
pub struct Opening {
    pub(super) share: String,
    pub settings: RootSettings,
    pub user: UserId,
    /// Way of storage operations, as configured.
    pub storage: StorageMode,
    /// Rules that the directory of a user's share must keep.
    pub(super) rules: Option<FolderRules>,
    /// Depots of streams of all shares, which may be in the directory by links and bind mounts.
    pub depots: Vec<PathBuf>,
    /// Options of its snapshots, which depend on the directory.
    pub(super) snapshots: Option<SnapshotOptions>,
    /// Directories that this process reaches; `None` for all.
    pub reached: Option<Arc<ReachedPaths>>,
    /// True for a guest, who writes no line into the log.
    pub(super) is_guest: bool,
}

/// The directory of a share, open.
#[derive(Debug)]
pub struct OpenedRoot {
    pub root: RootId,
    /// The kernel's number of its device.
    pub device: Option<u64>,
    pub(super) folder: ObjectPath,
    /// Path without links, if this process has no right to what is in the directory.
    pub unreached: Option<PathBuf>,
}

/// Threads that carry out the operations of a share ("choro:storage path").
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum StorageMode {
    /// Threads of its own for a file system that may wait long, otherwise the worker's.
    #[default]
    Auto,
    /// The worker's thread for any file system.
    Inline,
    /// Threads of its own for any file system.
    Threads,
}

impl Opening {
    /// Has no client see these names in the share.
    pub(super) fn hide(&mut self, names: &[String]) {
        let expression = match self.settings.case_sensitive {
            true => NameExpression::case_sensitive,
            false => NameExpression::new,
        };
        for name in names {
            // Most depots are found by their paths already.
            if !self.settings.vetoed.iter().any(|it| it.matches(name)) {
                self.settings.vetoed.push(expression(name));
            }
        }
    }

    /// Paths that are asked for while a client connects: the directory, one of its snapshots, and
    /// the prefixes that a user's share is compared with.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let snapshots = self.snapshots.as_ref().and_then(SnapshotOptions::absolute_directory);
        let prefixes = self.rules.iter().flat_map(FolderRules::prefixes);
        [&*self.settings.path].into_iter().chain(snapshots).chain(prefixes)
    }

    /// True for a share that a user has made.
    #[must_use]
    pub fn is_of_user(&self) -> bool {
        self.rules.is_some()
    }

    /// Returns the rule for shares of users that the directory breaks, in words; `None` if it keeps
    /// all of them, or cannot be opened.
    pub fn broken_rule(&self, store: &mut Store) -> Option<String> {
        let rules = self.rules.as_ref()?;
        let folder = store.open_share_folder(&self.settings.path, self.user).ok()?;
        let place = Place::of(&folder);
        store.revert_to_server().then_some(())?;
        rules.verify_opened(place.as_ref(), folder.owner()).err()
    }

    /// Opens the directory, and serves it.
    ///
    /// # Errors
    /// As [`Store::open_root`]; BAD_NETWORK_NAME if it breaks a rule for shares of users.
    pub fn carry_out(self, store: &mut Store) -> Result<OpenedRoot, NtStatus> {
        served::serving(self.is_guest, || self.serve(store))
    }

    fn serve(mut self, store: &mut Store) -> Result<OpenedRoot, NtStatus> {
        let (folder, place) = self.open(store)?;
        let (path, identity) = (&self.settings.path, folder.identity());
        let reached = self.reached.take();
        let has_rule = |it: &Arc<ReachedPaths>| it.have(path, identity, || folder.path());
        let mut unreached = (!reached.as_ref().is_none_or(has_rule)).then(|| folder.path());
        let snapshots = self.snapshots.zip(place);
        self.settings.snapshots = snapshots.and_then(|(options, place)| {
            // The folder that had the path then may have been another user's.
            let owner = self.rules.as_ref().and_then(FolderRules::owner);
            Some(SnapshotSettings { owner, ..options.laid_out(&place)? })
        });
        if let (Some(reached), Some(snapshots)) = (&reached, &self.settings.snapshots) {
            // The first snapshot may be newer than the rules.
            let mut found = snapshots.directories.iter().map(|it| &it.path);
            let lacks = found.find(|it| !reached.have_path(it) && it.exists());
            unreached = unreached.or_else(|| lacks.cloned());
        }
        let root = store.serve_folder(folder, self.settings, self.user)?;
        let (device, folder) = (store.device(root), store.folder(root));
        Ok(OpenedRoot { root, device, folder, unreached })
    }

    /// Opens and verifies the directory of a user's share without serving it. Returns its path
    /// without symbolic links.
    ///
    /// # Errors
    /// As [`Opening::carry_out`].
    pub fn verify(&self, store: &mut Store) -> Result<PathBuf, NtStatus> {
        let (_, place) = served::serving(self.is_guest, || self.open(store))?;
        place.map(|it| it.path).ok_or(NtStatus::BAD_NETWORK_NAME)
    }

    /// Opens the directory and verifies it. If that or its snapshots need its place, the thread has
    /// the server's rights afterwards.
    fn open(&self, store: &mut Store) -> Result<(Folder, Option<Place>), NtStatus> {
        let Self { share, settings, rules, .. } = self;
        let folder = store.open_share_folder(&settings.path, self.user).inspect_err(|status| {
            warn_for_user!("share {share}: cannot open {}: {status}", settings.path.display());
        })?;
        if rules.is_none() && self.snapshots.is_none() {
            return Ok((folder, None));
        }
        // The user could search all directories on the way, and on some storage only the user.
        let place = Place::of(&folder);
        // Prefixes that the operator denies are resolved whether or not the user could.
        if !store.revert_to_server() {
            return Err(NtStatus::ACCESS_DENIED);
        }
        let verify = |rules: &FolderRules| rules.verify_opened(place.as_ref(), folder.owner());
        if let Some(Err(fault)) = rules.as_ref().map(verify) {
            warn_for_user!("usershare {share:?} is not served: {fault}");
            return Err(NtStatus::BAD_NETWORK_NAME);
        }
        Ok((folder, place))
    }
}

impl StorageMode {
    pub(super) fn of(share: &config::Share) -> Self {
        let word = share.option("choro", "storage path").map(str::trim).unwrap_or_default();
        match word.to_ascii_lowercase().as_str() {
            "inline" => Self::Inline,
            "threads" => Self::Threads,
            "" | "auto" => Self::Auto,
            other => {
                warn_for_user!("share {}: `choro:storage path = {other}` is unknown", share.name);
                Self::Auto
            }
        }
    }
}
