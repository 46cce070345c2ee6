//! File systems that may wait long, found without asking them anything.
//!
//! Every system call with a path on such a file system may hang, `statfs` too. The kernel's list of
//! mounts tells the types, and the way to the directory of a share is followed link by link, up to
//! the first mount point of such a file system. In the same way the place of a depot of streams is
//! compared with that of a share: links and bind mounts give both several paths.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shares::mount_point::Place;
use shares::opening::StorageMode;
use tracing::warn;

/// The kernel's list of the mounts of this process.
const MOUNTS: &str = "/proc/self/mountinfo";

/// Types of file systems that wait for a network or another process. A type may have a subtype
/// behind a dot.
const WAITING: &[&str] = &[
    "9p", "afs", "autofs", "beegfs", "ceph", "cifs", "coda", "fuse", "fuseblk", "gfs2", "gpfs",
    "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs", "virtiofs",
];

/// Symbolic links on the way to a share, as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// The kernel's list, kept until it changes: to read it takes the kernel longer than to accept a
/// client.
#[derive(Debug, Default)]
pub struct KeptMounts {
    /// Becomes ready with each change, as proc_pid_mountinfo(5) says. `None` as long as nothing was
    /// read.
    file: Option<File>,
    mounts: Mounts,
    /// Number of times that the list was read.
    reads: u64,
}

/// The end of a path.
#[derive(Debug)]
pub(crate) enum Located {
    /// It can be asked for at once.
    At(Place),
    /// It is in a file system that may wait long.
    Waiting {
        /// Mount point, without symbolic links.
        point: PathBuf,
        /// Number of the mount, as the list has it.
        id: OsString,
    },
}

/// Mount points, the most recent ones last.
#[derive(Debug, Default)]
struct Mounts(Vec<Mount>);

#[derive(Clone, Debug, Eq, PartialEq)]
struct Mount {
    /// Number of the mount. A later one may have it, too.
    id: OsString,
    /// Device of the file system, as the list has it.
    device: OsString,
    /// Directory of that file system that is mounted.
    root: PathBuf,
    point: PathBuf,
    /// Whether its operations may wait long.
    waits: bool,
}

impl KeptMounts {
    /// Returns the mount point of the file system whose thread is to serve a directory; none if the
    /// worker's thread serves it.
    pub(crate) fn choose(&mut self, mode: StorageMode, path: &Path) -> Option<PathBuf> {
        match mode {
            StorageMode::Inline => None,
            StorageMode::Auto => waiting(path, self.now()),
            StorageMode::Threads => {
                let mounts = self.now();
                waiting(path, mounts).or_else(|| Some(mounts.of(path)?.point.clone()))
            }
        }
    }

    /// Returns the directory that a path leads to and where its file system begins, or the mount
    /// point of a file system on the way that may wait. No such file system is asked.
    pub(crate) fn locate(&mut self, path: &Path) -> Located {
        let mounts = self.now();
        match mounts.follow(path, |link| std::fs::read_link(link).ok()) {
            Ok(mount) => Located::Waiting { point: mount.point.clone(), id: mount.id.clone() },
            Err(path) => {
                let mount_point = mounts.of(&path).map(|it| it.point.clone());
                let mount_point = mount_point.unwrap_or_else(|| "/".into());
                Located::At(Place { path, mount_point })
            }
        }
    }

    /// Returns a number that is another one once file systems were mounted or unmounted.
    pub(crate) fn generation(&mut self) -> u64 {
        self.now();
        self.reads
    }

    /// Makes the list current for a fork, and returns the file with which its copy continues.
    ///
    /// The kernel reports a change once for each open file, so no two processes may share one.
    pub fn before_fork(&mut self) -> Option<File> {
        // Opened before the list is made current: changes in between are reported to both.
        let file = open();
        self.now();
        file
    }

    /// Continues in a fork, with a file of its own. The other one is closed with all descriptors of
    /// the supervisor.
    pub fn continue_in_fork(&mut self, file: Option<File>) {
        std::mem::forget(std::mem::replace(&mut self.file, file));
    }

    /// Returns the names by which depots of streams are in the folder of a share, by whatever links
    /// and bind mounts. No file system that may wait is asked.
    pub(crate) fn depots_in(&mut self, folder: &Path, depots: &[PathBuf]) -> Vec<String> {
        let read_link = |link: &Path| std::fs::read_link(link).ok();
        let mounts = self.now();
        let names = depots.iter().flat_map(|it| mounts.names_inside(folder, it, read_link));
        names.filter_map(|it| it.into_string().ok()).collect()
    }

    /// The file, which a fork keeps open.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// The mounts of this process. Without the kernel's list no file system is known to wait.
    fn now(&mut self) -> &Mounts {
        if self.has_changed() {
            self.read();
        }
        &self.mounts
    }

    fn has_changed(&self) -> bool {
        let Some(file) = &self.file else { return true };
        let mut polled = [PollFd::new(file, PollFlags::PRI)];
        poll(&mut polled, Some(&Timespec::default())).is_err()
            || polled[0].revents().intersects(PollFlags::PRI | PollFlags::ERR)
    }

    fn read(&mut self) {
        if self.file.is_none() {
            self.file = open();
        }
        self.reads += 1;
        let Some(file) = &mut self.file else { return };
        let mut list = Vec::new();
        self.mounts = match file.rewind().and_then(|()| file.read_to_end(&mut list)) {
            Ok(_) => Mounts::parse(&list),
            Err(error) => {
                warn!("cannot read {MOUNTS}: {error}");
                Mounts::default()
            }
        };
    }
}

fn open() -> Option<File> {
    File::open(MOUNTS).inspect_err(|error| warn!("cannot open {MOUNTS}: {error}")).ok()
}

/// Returns the mount point of a file system that may wait and that has the directory of a share, or
/// is mounted below it.
fn waiting(path: &Path, mounts: &Mounts) -> Option<PathBuf> {
    let way = mounts.follow(path, |link| std::fs::read_link(link).ok());
    match way {
        Ok(mount) => Some(mount.point.clone()),
        Err(folder) => {
            let mut below = mounts.0.iter().filter(|it| it.waits && it.point.starts_with(&folder));
            below.next().map(|mount| mount.point.clone())
        }
    }
}

impl Mounts {
    /// Parses the kernel's list, as proc_pid_mountinfo(5) describes it.
    fn parse(list: &[u8]) -> Self {
        let mut mounts = Self::default();
        for line in list.split(|byte| *byte == b'\n') {
            let mut fields = line.split(|byte| *byte == b' ');
            let (Some(id), Some(device), Some(root), Some(point)) =
                (fields.next(), fields.nth(1), fields.next(), fields.next())
            else {
                continue;
            };
            let Some(kind) = fields.find(|it| *it == b"-").and_then(|_| fields.next()) else {
                continue;
            };
            let options = fields.nth(1).unwrap_or_default();
            let waits = waits(kind) || kind == b"overlay" && mounts.has_waiting_layer(options);
            let [root, point] = [root, point].map(|it| PathBuf::from(unescaped(it)));
            let (id, device) = (unescaped(id), unescaped(device));
            mounts.0.push(Mount { id, device, root, point, waits });
        }
        mounts
    }

    /// True if a directory of an overlay is on a file system that waits.
    fn has_waiting_layer(&self, options: &[u8]) -> bool {
        let options = options.split(|byte| *byte == b',');
        let directories = options.filter_map(|option| {
            let mut parts = option.splitn(2, |byte| *byte == b'=');
            let name = parts.next().unwrap_or_default();
            parts.next().filter(|_| name.starts_with(b"lowerdir") || name == b"upperdir")
        });
        let mut paths = directories.flat_map(|list| list.split(|byte| *byte == b':'));
        paths.any(|path| {
            let path = PathBuf::from(unescaped(path));
            self.of(&path).is_some_and(|mount| mount.waits)
        })
    }

    /// The mount that a path without links is on.
    fn of(&self, path: &Path) -> Option<&Mount> {
        let on_the_way = self.0.iter().filter(|mount| path.starts_with(&mount.point));
        on_the_way.max_by_key(|mount| mount.point.as_os_str().len())
    }

    /// The names that this depot has in the folder of a share, or in a mount below it. They may
    /// be others than that of the configured path, which can be a link or a bind mount.
    fn names_inside(
        &self,
        folder: &Path,
        depot: &Path,
        read_link: impl Fn(&Path) -> Option<PathBuf>,
    ) -> BTreeSet<OsString> {
        let [folder, depot] = [folder, depot].map(|path| match self.follow(path, &read_link) {
            Ok(_) => path.to_owned(),
            Err(path) => path,
        });
        let (Some(own), Some(other)) = (self.place(&folder), self.place(&depot)) else {
            return BTreeSet::new();
        };
        let below = self.0.iter().filter(|it| it.point.starts_with(&folder));
        let below = below.map(|it| (&it.device, it.root.as_path(), it.point.as_path()));
        let places = below.chain([(own.0, &*own.1, &*folder)]);
        let has_it = |(device, root, _): &(&OsString, &Path, &Path)| {
            *device == other.0 && other.1.starts_with(root)
        };
        let names = places.filter(has_it).filter_map(|(_, root, point)| {
            let at = point.join(other.1.strip_prefix(root).ok()?);
            // The folder of a share that is itself the depot has no name in it.
            at.strip_prefix(&folder).ok()?.file_name().map(OsStr::to_owned)
        });
        names.collect()
    }

    /// Returns the device and the path on it of a path without links.
    fn place(&self, path: &Path) -> Option<(&OsString, PathBuf)> {
        let mount = self.of(path)?;
        Some((&mount.device, mount.root.join(path.strip_prefix(&mount.point).ok()?)))
    }

    /// Returns the first mount that waits on the way of a path, or the path without links.
    fn follow(
        &self,
        path: &Path,
        read_link: impl Fn(&Path) -> Option<PathBuf>,
    ) -> Result<&Mount, PathBuf> {
        let (mut reached, mut links) = (PathBuf::from("/"), 0);
        let mut rest: VecDeque<OsString> = names(path).collect();
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                reached.pop();
                continue;
            }
            let next = reached.join(&name);
            if let Some(mount) = self.of(&next).filter(|mount| mount.waits) {
                return Ok(mount);
            }
            match read_link(&next).filter(|_| links < LINKS_MAX) {
                Some(target) => {
                    links += 1;
                    if target.is_absolute() {
                        reached = PathBuf::from("/");
                    }
                    rest = names(&target).chain(rest).collect();
                }
                None => reached = next,
            }
        }
        Err(reached)
    }
}

/// Names of a path, and its "..".
fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

fn waits(kind: &[u8]) -> bool {
    let main = kind.split(|byte| *byte == b'.').next().unwrap_or_default();
    WAITING.iter().any(|name| name.as_bytes() == main)
}

/// Replaces the escapes of the list, such as `\040` for a space.
fn unescaped(text: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, others)) = rest.split_first() {
        let digits = others.first_chunk::<3>().filter(|_| *first == b'\\');
        let code = digits.and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &others[3..];
            }
            None => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &[u8] = b"\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
23 22 0:21 / /proc rw - proc proc rw\n\
24 22 0:40 / /mnt/my\\040music rw shared:7 - fuse.sshfs host: rw,user_id=0\n\
25 22 0:41 / /net rw - autofs /etc/auto.net rw\n\
26 22 0:42 / /srv/nfs rw - nfs4 host:/ rw\n\
27 26 8:2 / /srv/nfs/local rw - xfs /dev/sdb rw\n\
28 22 0:43 / /merged rw - overlay overlay rw,lowerdir=/srv/nfs/lower:/usr,upperdir=/up\n\
29 22 0:44 / /plain rw - overlay overlay rw,lowerdir=/usr,upperdir=/up,workdir=/work\n";

    fn found(path: &str, links: &[(&str, &str)]) -> Option<PathBuf> {
        let mounts = Mounts::parse(LIST);
        let link = |path: &Path| {
            let found = links.iter().find(|(from, _)| Path::new(from) == path);
            found.map(|(_, to)| PathBuf::from(to))
        };
        mounts.follow(Path::new(path), link).ok().map(|it| it.point.clone())
    }

    #[test]
    fn the_type_of_the_mount_on_the_way_decides() {
        for (path, mount) in [
            ("/srv/data", None),
            ("/srv/nfs", Some("/srv/nfs")),
            ("/srv/nfs/home/anna", Some("/srv/nfs")),
            ("/srv/nfsdata", None),
            ("/mnt/my music/a", Some("/mnt/my music")),
            ("/net/host/export", Some("/net")),
            ("/merged/a", Some("/merged")),
            ("/plain/a", None),
        ] {
            assert_eq!(found(path, &[]), mount.map(PathBuf::from), "{path}");
        }
    }

    /// True if the list is kept. Other programs may mount, too, but not all the time.
    fn is_kept(list: &mut KeptMounts) -> bool {
        (0..1_000).any(|_| {
            list.now();
            !list.has_changed()
        })
    }

    #[test]
    fn a_list_is_kept_until_something_is_mounted() {
        let mut own = KeptMounts::default();
        assert!(own.has_changed(), "nothing was read");
        assert!(!own.now().0.is_empty());
        let mut of_fork = KeptMounts { mounts: Mounts::parse(LIST), ..KeptMounts::default() };
        of_fork.continue_in_fork(own.before_fork());
        assert!(is_kept(&mut own) && is_kept(&mut of_fork));
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let point = tempfile::tempdir().expect("there is space");
        let mount = |program: &str, words: &[&str]| {
            let status = std::process::Command::new(program).args(words).arg(point.path()).status();
            assert!(status.expect("it is installed").success(), "{program}");
        };
        mount("mount", &["-t", "tmpfs", "none"]);
        let has_point = |mounts: &Mounts| mounts.0.iter().any(|it| it.point == point.path());
        let is_seen = [&mut own, &mut of_fork].map(|list| has_point(list.now()));
        mount("umount", &[]);
        assert_eq!(is_seen, [true, true]);
        assert!(!has_point(own.now()));
    }

    #[test]
    fn links_are_followed_up_to_a_mount_that_waits() {
        let links = [("/home", "srv/nfs/home"), ("/a", "/b"), ("/b", "../mnt/../a")];
        assert_eq!(found("/home/anna", &links), Some(PathBuf::from("/srv/nfs")));
        // One that leads to itself ends.
        assert_eq!(found("/a", &links), None);
    }

    #[test]
    fn a_depot_is_inside_by_links_and_by_bind_mounts_with_the_name_of_its_place() {
        const BOUND: &[u8] = b"\
22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
23 22 8:1 /srv/data /mnt/bound rw - ext4 /dev/sda1 rw\n\
24 22 8:1 /srv/data/sub /mnt/sub rw - ext4 /dev/sda1 rw\n\
25 22 8:2 / /other rw - ext4 /dev/sdb rw\n\
26 22 0:42 / /srv/nfs rw - nfs4 host:/ rw\n";
        let mounts = Mounts::parse(BOUND);
        let links = [
            ("/alias", "/srv/data"),
            ("/mnt/alias", "bound"),
            ("/depot", "/mnt/bound/.real"),
            ("/srv/data/link", ".real"),
        ];
        let link = |path: &Path| {
            let found = links.iter().find(|(from, _)| Path::new(from) == path);
            found.map(|(_, to)| PathBuf::from(to))
        };
        let streams = &[".streams"][..];
        for (folder, depot, names) in [
            ("/srv/data", "/srv/data/.streams", streams),
            ("/alias", "/srv/data/.streams", streams),
            ("/srv/data", "/alias/.streams", streams),
            ("/mnt/bound", "/srv/data/.streams", streams),
            ("/srv/data", "/mnt/alias/.streams", streams),
            ("/mnt", "/srv/data/.streams", streams),
            ("/mnt/sub", "/srv/data/.streams", &[]),
            ("/srv/data/other", "/srv/data/.streams", &[]),
            ("/srv/dat", "/srv/data/.streams", &[]),
            ("/other", "/srv/data/.streams", &[]),
            ("/srv/nfs", "/srv/nfs/.streams", streams),
            // The name is that of the place, whatever the last name of the configured path is.
            ("/srv/data", "/depot", &[".real"]),
            ("/srv/data", "/srv/data/link", &[".real"]),
            ("/srv/data", "/mnt/sub", &["sub"]),
            ("/mnt", "/srv/data/sub", &["sub"]),
            ("/mnt", "/srv/data", &["bound"]),
            ("/srv/data", "/srv/data", &[]),
        ] {
            let found = mounts.names_inside(Path::new(folder), Path::new(depot), link);
            let found: Vec<_> = found.iter().collect();
            assert_eq!(found, names, "{depot} in {folder}");
        }
    }

    #[test]
    fn a_mount_below_the_share_counts() {
        let mounts = Mounts::parse(LIST);
        assert_eq!(waiting(Path::new("/srv"), &mounts), Some(PathBuf::from("/srv/nfs")));
        assert_eq!(waiting(Path::new("/usr"), &mounts), None);
    }
}
