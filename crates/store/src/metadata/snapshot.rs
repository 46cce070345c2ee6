//! Earlier versions of a share: snapshots that an administrator takes, each a directory of its own.
//!
//! A snapshot is a root like the share's, in which nothing can be changed. The directory of the
//! snapshots has to belong to root, and links on the way are followed only if they do, since users
//! may make files beside it; within a snapshot a client stays as in the share. Rights are those of
//! the user, also on the directory that holds the snapshots. In a share of a user, the folder in a
//! snapshot must have had the owner of the share: the path may have been another user's then.

use std::borrow::Cow;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use dtyp::{FileTime, NtStatus};
use object::{FileIdentity, LocalOpen, ObjectPath};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::Store;
use crate::errno::{During, Operation};
use crate::metadata::snapshot::names::NameReader;
use crate::model::root::Root;
use crate::security::credentials::Impersonation;
use crate::settings::{SnapshotDirectory, SnapshotOrder, SnapshotSettings};
use crate::sys::entries::Entries;
use crate::sys::system;
use crate::sys::trusted_path::{self, Links};

mod names;

/// Highest number of snapshots in a list for clients: the first ones of the directory.
const SNAPSHOTS_MAX: usize = 4_096;

/// Directories of the share above a file, and the file itself, that are searched for snapshots.
/// Each costs several calls.
const LEVELS_MAX: usize = 64;

/// Place where a directory of snapshots may be.
enum Source<'s> {
    /// This path from the directory that the first components of a path lead to.
    InShare { components: usize, directory: &'s Path },
    /// A directory that the configuration names.
    Configured(&'s SnapshotDirectory),
}

/// An open directory of snapshots.
struct Holder {
    fd: OwnedFd,
    /// Links on the way from it to a snapshot that are followed.
    links: Links,
    /// Id that the image must belong to; none for any owner.
    owner: Option<u32>,
    /// Path from a snapshot to the image of `folder`.
    share: PathBuf,
    /// Directory of the share that the snapshots have an image of.
    folder: ObjectPath,
    /// Path of the file from there.
    rest: ObjectPath,
}

impl SnapshotSettings {
    /// The places where snapshots of a path with so many components may be, the nearest first.
    fn sources(&self, components: usize) -> impl Iterator<Item = Source<'_>> {
        let levels = (0..=components).rev().take(LEVELS_MAX);
        let in_share = levels.flat_map(|components| {
            let everywhere = self.everywhere.iter();
            everywhere.map(move |directory| Source::InShare { components, directory })
        });
        in_share.chain(self.directories.iter().map(Source::Configured))
    }
}

impl Holder {
    /// Opens the image of `folder` in the snapshot at this path.
    fn open(&self, snapshot: &Path) -> Result<OwnedFd, Errno> {
        let directory = self.fd.try_clone().map_err(|_| Errno::MFILE)?;
        let image = trusted_path::open_from(directory, &snapshot.join(&self.share), self.links)?;
        match self.owner {
            Some(owner) if system::status_of(image.as_fd())?.stx_uid != owner => Err(Errno::NOENT),
            _ => Ok(image),
        }
    }

    /// Passes time and path of each snapshot to `see`, until that returns true.
    fn each(
        &self,
        impersonation: &mut Impersonation,
        names: &NameReader<'_>,
        mut see: impl FnMut(FileTime, &Path) -> bool,
    ) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, c".", flags, Mode::empty())?;
        let mut entries = Entries::default();
        while let Some(name) = entries.next(fd.as_fd())? {
            let found = names.read(impersonation, fd.as_fd(), name);
            if found.is_some_and(|(time, path)| see(time, &path)) {
                break;
            }
        }
        Ok(())
    }

    /// Returns the path of the snapshot of this time.
    fn find(
        &self,
        impersonation: &mut Impersonation,
        root: &Root,
        settings: &SnapshotSettings,
        time: FileTime,
    ) -> Result<PathBuf, Errno> {
        let (seconds, _) = time.to_unix();
        if let Some(format) = settings.only_format() {
            let name = system::format_time(seconds, &format.format, format.local_time);
            return name.map(PathBuf::from).ok_or(Errno::NOENT);
        }
        let names = NameReader::new(settings);
        let is_wanted = |time: FileTime| time.to_unix().0 == seconds;
        let fd = self.fd.as_fd();
        let mut last = root.last_snapshot.borrow_mut();
        if system::status_at(fd, last.as_c_str()).is_ok()
            && let Some((time, path)) = names.read(impersonation, fd, &last)
            && is_wanted(time)
        {
            return Ok(path);
        }
        let mut found = None;
        self.each(impersonation, &names, |time, path| {
            found = is_wanted(time).then(|| path.to_owned());
            found.is_some()
        })?;
        let path = found.ok_or(Errno::NOENT)?;
        let name = path.iter().next().map(OsStr::as_bytes).unwrap_or_default();
        *last = CString::new(name).unwrap_or_default();
        Ok(path)
    }
}

impl Store {
    /// Returns the version of the share that a path names, and the path in it. Of several snapshots
    /// of one time, the nearest one that has the path counts.
    pub(crate) fn version<'a>(
        &mut self,
        root: &Rc<Root>,
        path: &'a ObjectPath,
    ) -> Result<(Rc<Root>, Cow<'a, ObjectPath>), NtStatus> {
        let Some(settings) = &root.settings.snapshots else {
            return match path.snapshot() {
                // A share without snapshots has no version of the file from then.
                Some(_) => Err(NtStatus::OBJECT_NAME_NOT_FOUND),
                None => Ok((root.clone(), Cow::Borrowed(path))),
            };
        };
        let path = match path.snapshot() {
            Some(_) => Cow::Borrowed(path),
            None => path.split_gmt_token().map_or(Cow::Borrowed(path), Cow::Owned),
        };
        let Some(time) = path.snapshot() else { return Ok((root.clone(), path)) };
        let is_only = settings.everywhere.is_empty() && settings.directories.len() == 1;
        let mut nearest = Err(Errno::NOENT);
        for source in settings.sources(path.components().count()) {
            let version = self.version_at(root, settings, &source, (&path, time));
            match version {
                Ok((version, rest)) => {
                    let has_path = |store: &mut Self| {
                        let place = store.locate(&version, &rest, true);
                        place.is_ok_and(|place| place.entry.is_some())
                    };
                    if is_only || has_path(self) {
                        return Ok((version, Cow::Owned(rest)));
                    }
                    nearest = nearest.or(Ok((version, rest)));
                }
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => nearest = nearest.or(Err(errno)),
            }
        }
        let (version, rest) = nearest.during(Operation::Open)?;
        Ok((version, Cow::Owned(rest)))
    }

    /// The version of the share that one directory of snapshots has, and the path in it.
    fn version_at(
        &mut self,
        root: &Rc<Root>,
        settings: &SnapshotSettings,
        source: &Source<'_>,
        (path, time): (&ObjectPath, FileTime),
    ) -> Result<(Rc<Root>, ObjectPath), Errno> {
        let holder = self.holder(root, source, path)?;
        let snapshot = holder.find(&mut self.impersonation, root, settings, time)?;
        let fd = holder.open(&snapshot)?;
        let status = system::status_of(fd.as_fd())?;
        let directory = self.directories.intern(fd, &status);
        let (settings, files) = (root.settings.clone(), Rc::clone(&root.files));
        let mut version = Root::new(settings, directory, Some(time), files);
        version.folder = holder.folder;
        Ok((Rc::new(version), holder.rest))
    }

    /// Opens a directory of snapshots.
    fn holder(
        &mut self,
        root: &Root,
        source: &Source<'_>,
        path: &ObjectPath,
    ) -> Result<Holder, Errno> {
        let owner = root.settings.snapshots.as_ref().and_then(|settings| settings.owner);
        let holder = match *source {
            Source::InShare { components, directory } => {
                let (folder, rest) = path.split_at(components);
                let place = self.locate(root, &folder, false).map_err(|_| Errno::NOENT)?;
                let shown =
                    if folder.is_posix() { folder.as_str().to_owned() } else { place.path(root) };
                let folder = ObjectPath::from_stored(shown, None);
                let entry = place.entry.filter(|it| it.is_directory()).ok_or(Errno::NOENT)?;
                // The image of a folder in the share is compared with that folder.
                let owner = owner.map(|_| entry.status.stx_uid);
                // Whoever may write the share could have made any other link.
                let links = Links::OfRoot;
                let fd = trusted_path::open_from(entry.fd, directory, links)?;
                Holder { fd, links, owner, share: PathBuf::new(), folder, rest }
            }
            Source::Configured(SnapshotDirectory { path: directory, share, is_in_share }) => {
                let links = if *is_in_share { Links::OfRoot } else { Links::OfServer };
                let fd = trusted_path::open(directory, links)?;
                let (folder, rest) = (ObjectPath::root(), path.clone());
                Holder { fd, links, owner, share: share.clone(), folder, rest }
            }
        };
        if trusted_path::is_owned(&holder.fd)? { Ok(holder) } else { Err(Errno::NOENT) }
    }

    /// The snapshots in which the path of an open exists, in the nearest directory of snapshots.
    pub(crate) fn list_snapshots(&mut self, open: LocalOpen) -> Result<Vec<FileTime>, NtStatus> {
        let open = self.opens.get(open)?;
        let path = open.path.without_stream();
        let root = self.root(open.root_id)?;
        let Some(settings) = &root.settings.snapshots else { return Ok(Vec::new()) };
        let mut holder = Err(Errno::NOENT);
        for source in settings.sources(path.components().count()) {
            holder = self.holder(&root, &source, &path);
            if !matches!(holder, Err(Errno::NOENT | Errno::NOTDIR)) {
                break;
            }
        }
        let holder = match holder {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Vec::new()),
            holder => holder.during(Operation::List)?,
        };
        let mut snapshots = Vec::new();
        let listed =
            holder.each(&mut self.impersonation, &NameReader::new(settings), |time, snapshot| {
                let image = holder.open(snapshot);
                if image.is_ok_and(|image| exists(image, holder.rest.as_str())) {
                    snapshots.push(time);
                }
                snapshots.len() == SNAPSHOTS_MAX
            });
        listed.during(Operation::List)?;
        match settings.order {
            SnapshotOrder::Ascending => snapshots.sort_unstable(),
            SnapshotOrder::Descending => snapshots.sort_unstable_by(|a, b| b.cmp(a)),
            SnapshotOrder::Listed => {}
        }
        // Clients cannot tell two of one time apart.
        snapshots.dedup();
        Ok(snapshots)
    }
}

/// Whether an image has something at `path`.
fn exists(image: OwnedFd, path: &str) -> bool {
    system::open_beneath(image.as_fd(), path, OFlags::PATH, 0, true).is_ok()
}

/// Distinguishes a file in a snapshot from the present one: snapshots below the file system have
/// the same inode numbers, and clients take equal numbers for one file. FNV-1a over the number and
/// the time.
pub(crate) fn mark(identity: &mut FileIdentity, time: FileTime) {
    let bytes = identity.inode.to_le_bytes().into_iter().chain(time.0.to_le_bytes());
    identity.inode = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
}
