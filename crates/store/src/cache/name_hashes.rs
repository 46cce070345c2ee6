//! Finding names without regard to case, and by their short names.
//!
//! For Linux `a` and `A` are two names, so a name that does not exist in this spelling must be
//! looked for among all names of its directory. So that creating many files does not read the
//! directory for each of them, hashes of the folded names of a few directories are kept. A hash
//! that is absent is an answer; one that is present leads to a look into the directory itself.
//! So are those of short names, once a name that looks like one was looked for: such names are
//! rare, but a client that sends nothing else must not have the directory read for each of them.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::hash::BuildHasher;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use dtyp::upcase;
use object::is_temporary;
use rustc_hash::FxHashSet;
use rustix::fs::{OFlags, Statx};
use rustix::io::Errno;

use crate::cache::directories::{Directory, Inode};
use crate::names::character_mappings::CharacterMappings;
use crate::names::short_name::{is_like_short_name, is_vetoed, short_name};
use crate::settings::{MangledNames, RootSettings};
use crate::sys::entries::Entries;
use crate::sys::system;

/// Directories whose names are kept.
const DIRECTORIES_MAX: usize = 8;

/// Names kept of one directory; a larger one is read each time. At nine bytes a name and half-full
/// tables this bounds the memory at some 40 MiB.
const NAMES_MAX: usize = 262_144;

/// Names of a directory whose short names are kept, too. This adds some 10 MiB.
const SHORT_HASHES_MAX: usize = 65_536;

/// Highest number of cached short names; one more clears the cache.
const SHORT_NAMES_MAX: usize = 4_096;

/// Shortest time for which an answer holds, although another process may have changed the directory
/// within the granularity of its modification time.
const BELIEVED: Duration = Duration::from_secs(1);

/// Additional time for which an answer holds, as a multiple of the time that reading the directory
/// took.
const BELIEVED_FACTOR: u32 = 50;

/// Hashes of the names of a few directories, the most recently used first.
#[derive(Debug, Default)]
pub(crate) struct NameHashes {
    known: Vec<Known>,
    /// The names that short ones stood for, by directory and short name in upper case.
    short_names: HashMap<(Inode, String), OsString>,
    hasher: RandomState,
    /// Number of directories that were read.
    #[cfg(test)]
    passes: u32,
}

#[derive(Debug)]
struct Known {
    inode: Inode,
    modified: Modified,
    read_at: Instant,
    cost: Duration,
    hashes: FxHashSet<u64>,
    short: Option<ShortHashes>,
}

/// Hashes of the short names of all names in a directory, in upper case.
#[derive(Debug)]
struct ShortHashes {
    form: ShortForm,
    hashes: FxHashSet<u64>,
}

/// Settings of a share that its short names depend on.
#[derive(Clone, Debug, Eq, PartialEq)]
struct ShortForm(MangledNames, u8, CharacterMappings);

impl ShortForm {
    fn of(settings: &RootSettings) -> Self {
        let RootSettings { mangled_names, mangle_prefix, character_mappings, .. } = settings;
        Self(*mangled_names, *mangle_prefix, character_mappings.clone())
    }

    fn is_of(&self, settings: &RootSettings) -> bool {
        let RootSettings { mangled_names, mangle_prefix, character_mappings, .. } = settings;
        (&self.0, &self.1, &self.2) == (mangled_names, mangle_prefix, character_mappings)
    }
}

/// A name to find in a directory.
struct SoughtName<'a> {
    /// The name in upper case.
    folded: &'a str,
    /// It may be a short name.
    short: bool,
    settings: &'a RootSettings,
}

impl SoughtName<'_> {
    /// True for a short name of `stored`, unless clients do not see that.
    fn is_short_name(&self, name: &str, stored: &OsStr) -> bool {
        name == self.folded && !is_vetoed(self.settings, stored) && !is_temporary(stored.as_bytes())
    }
}

/// The modification time of a directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Modified(i64, u32);

impl Modified {
    fn of(status: &Statx) -> Self {
        Self(status.stx_mtime.tv_sec, status.stx_mtime.tv_nsec)
    }
}

impl NameHashes {
    /// The name in `directory` that clients of a share may mean by `name`, which is not there as it
    /// is written: it differs in case, or has `name` as its short name. A directory that may be
    /// passed though not read has no such names. `status` is what the directory looks like now.
    pub(crate) fn find(
        &mut self,
        directory: &Directory,
        status: &Statx,
        name: &str,
        settings: &RootSettings,
    ) -> Result<Option<OsString>, Errno> {
        let short = is_like_short_name(settings, name);
        if settings.case_sensitive && !short {
            return Ok(None);
        }
        let folded = upcase::fold_cow(name);
        let wanted = SoughtName { folded: &folded, short, settings };
        if self.lacks_folded(directory, status, &wanted) {
            return Ok(None);
        }
        self.forget(directory);
        match self.read(directory, Modified::of(status), &wanted) {
            Err(Errno::ACCESS) => Ok(None),
            result => result,
        }
    }

    /// Whether a directory that looks like `status` is known to have no such name, in whatever
    /// case. Another process may have made one within the granularity of modification times.
    pub(crate) fn lacks(
        &mut self,
        directory: &Directory,
        status: &Statx,
        name: &str,
        settings: &RootSettings,
    ) -> bool {
        // A short name may have stood for a long one, which its file gets again.
        if self.known_of(directory).is_none() || is_like_short_name(settings, name) {
            return false;
        }
        let wanted = SoughtName { folded: &upcase::fold_cow(name), short: false, settings };
        self.lacks_folded(directory, status, &wanted)
    }

    fn lacks_folded(
        &mut self,
        directory: &Directory,
        status: &Statx,
        wanted: &SoughtName<'_>,
    ) -> bool {
        let place = self.known.iter().position(|known| known.inode == directory.inode);
        let Some(at) = place else { return false };
        let known = &self.known[at];
        let believed = BELIEVED + known.cost * BELIEVED_FACTOR;
        let holds = known.modified == Modified::of(status) && known.read_at.elapsed() < believed;
        let hash = self.hasher.hash_one(wanted.folded);
        let lacks_short = || {
            let mut short = known.short.iter();
            short.any(|it| it.form.is_of(wanted.settings) && !it.hashes.contains(&hash))
        };
        let lacks = holds && !known.hashes.contains(&hash) && (!wanted.short || lacks_short());
        if lacks {
            self.known[..=at].rotate_right(1);
        }
        lacks
    }

    /// Drops the hashes of a directory, because they were wrong or are read anew.
    pub(crate) fn forget(&mut self, directory: &Directory) {
        self.known.retain(|known| known.inode != directory.inode);
    }

    /// Returns the former long name of a short name, for a new file: a program that uses short
    /// names alone replaces a file by removing and creating it, and expects the same long name.
    pub(crate) fn former_long_name(&self, directory: &Directory, short: &str) -> Option<OsString> {
        if self.short_names.is_empty() {
            return None;
        }
        self.short_names.get(&(directory.inode, upcase::fold(short))).cloned()
    }

    /// Caches the long name of a short name that a client uses or has received.
    pub(crate) fn cache_short_name(&mut self, directory: &Directory, short: &str, stored: &OsStr) {
        if self.short_names.len() >= SHORT_NAMES_MAX {
            self.short_names.clear();
        }
        self.short_names.insert((directory.inode, upcase::fold(short)), stored.to_owned());
    }

    /// Reads all names, keeps their hashes, and returns the one looked for.
    fn read(
        &mut self,
        directory: &Directory,
        modified: Modified,
        wanted: &SoughtName<'_>,
    ) -> Result<Option<OsString>, Errno> {
        #[cfg(test)]
        {
            self.passes += 1;
        }
        let read_at = Instant::now();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = system::open_beneath(directory.fd.as_fd(), ".", flags, 0, false)?;
        let mut entries = Entries::default();
        let mut hashes = FxHashSet::default();
        let mut short_hashes = FxHashSet::default();
        let (mut found, mut found_short) = (None, None);
        while let Some(name) = entries.next(fd.as_fd())? {
            let stored = OsStr::from_bytes(name.to_bytes());
            if wanted.short
                && let Some(short) = short_name(wanted.settings, stored)
            {
                if found_short.is_none() && wanted.is_short_name(&short, stored) {
                    found_short = Some(stored.to_owned());
                }
                if short_hashes.len() <= SHORT_HASHES_MAX {
                    short_hashes.insert(self.hasher.hash_one(&*short));
                }
            }
            let Ok(name) = name.to_str() else { continue };
            let candidate = upcase::fold_cow(name);
            if hashes.len() <= NAMES_MAX {
                hashes.insert(self.hasher.hash_one(&*candidate));
            }
            let equal = !wanted.settings.case_sensitive && candidate == wanted.folded;
            if found.is_none() && equal {
                found = Some(OsString::from(name));
            }
        }
        if hashes.len() <= NAMES_MAX {
            self.known.truncate(DIRECTORIES_MAX - 1);
            let (inode, cost) = (directory.inode, read_at.elapsed());
            let form = || ShortForm::of(wanted.settings);
            let short = (wanted.short && short_hashes.len() <= SHORT_HASHES_MAX)
                .then(|| ShortHashes { form: form(), hashes: short_hashes });
            self.known.insert(0, Known { inode, modified, read_at, cost, hashes, short });
        }
        if let (None, Some(stored)) = (&found, &found_short) {
            self.cache_short_name(directory, wanted.folded, stored);
        }
        Ok(found.or(found_short))
    }

    /// Returns whether the hashes of a directory are current. Called before a change by this
    /// process.
    pub(crate) fn verified(&self, directory: &Directory) -> bool {
        self.known_of(directory).is_some()
            && system::status_of(directory.fd.as_fd())
                .is_ok_and(|status| self.holds(directory, &status))
    }

    /// As [`verified`](Self::verified), if the directory looks like `status` now.
    pub(crate) fn holds(&self, directory: &Directory, status: &Statx) -> bool {
        self.known_of(directory).is_some_and(|known| known.modified == Modified::of(status))
    }

    fn known_of(&self, directory: &Directory) -> Option<&Known> {
        self.known.iter().find(|known| known.inode == directory.inode)
    }

    /// Keeps the hashes after a change by this process, if they were current before it.
    /// A name that was removed stays known, which costs a look into the directory and no more.
    pub(crate) fn changed(
        &mut self,
        directory: &Directory,
        verified: bool,
        added: Option<(&OsStr, &RootSettings)>,
    ) {
        let text = added.and_then(|(name, _)| name.to_str());
        let hash = text.map(|name| self.hasher.hash_one(&*upcase::fold_cow(name)));
        let known = self.known.iter_mut().find(|known| known.inode == directory.inode);
        if let (true, Some(known)) = (verified, known)
            && let Ok(status) = system::status_of(directory.fd.as_fd())
        {
            known.modified = Modified::of(&status);
            known.hashes.extend(hash);
            if let (Some(short), Some((name, settings))) = (&mut known.short, added) {
                let hash = short_name(settings, name).map(|it| self.hasher.hash_one(&*it));
                short.hashes.extend(hash);
                if !short.form.is_of(settings) || short.hashes.len() > SHORT_HASHES_MAX {
                    known.short = None;
                }
            }
            if known.hashes.len() > NAMES_MAX {
                self.forget(directory);
            }
        }
    }
}

#[cfg(test)]
mod tests;
