//! A view of this machine that a server under test may have for itself: mounts that nobody else
//! sees, and that are gone with the process that holds them, however the test ends.
//!
//! It needs root, a loop device and mkfs.ext4; mkfs.xfs for files that share blocks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::namespace::Namespace;
use super::{OTHER_USER, USER, runs_as_root};

/// Script that makes the view, run in a mount namespace of its own: $1 is a working directory and
/// $2 the mount point of the new file system.
///
/// Inodes of 1 KiB and values in inodes of their own: extended attributes with streams and ACLs
/// then take no block of the file, which would count into its allocation size. The image is sparse.
const SETUP: &str = r#"
    truncate -s 8G "$1/image"
    mkfs.ext4 -q -F -I 1024 -O ea_inode,^has_journal "$1/image"
    mount -o loop "$1/image" "$2"
    rm "$1/image"
    for name in passwd group hosts; do mount --bind "$1/$name" /etc/$name; done"#;

/// Script that mounts a file system whose files can share blocks, in the same view: $1 is its
/// image and $2 its mount point. XFS needs 300 MiB at least; the image is sparse.
const MOUNT_CLONES: &str = r#"
    set -e
    PATH=$PATH:/usr/sbin:/sbin
    mkdir -p "$2"
    truncate -s 512M "$1"
    mkfs.xfs -q -m reflink=1 "$1"
    mount -o loop "$1" "$2"
    rm "$1""#;

/// A first id for users that the machine does not have.
const FIRST_ID: u32 = 61_001;

/// Mount namespace with its own file system.
#[derive(Debug)]
pub struct Machine {
    view: Namespace,
    owner: (u32, u32),
}

impl Machine {
    /// A file system of its own on a folder, and the users of the tests in the system's lists.
    ///
    /// # Errors
    /// Says why this machine does not allow it.
    pub fn new(work: &Path, mount_point: &Path) -> Result<Self, String> {
        if !runs_as_root() {
            return Err("it needs root".to_owned());
        }
        fs::create_dir_all(work).expect("there is space");
        fs::create_dir_all(mount_point).expect("there is space");
        let owner = write_lists(work);
        let view = Namespace::of_mounts(SETUP, &[work, mount_point])?;
        Ok(Self { view, owner })
    }

    /// Mounts a file system whose files can share blocks, on a folder of this view.
    ///
    /// # Errors
    /// Says why this machine does not allow it.
    pub fn mount_clones(&self, work: &Path, mount_point: &Path) -> Result<(), String> {
        let launcher = self.launcher();
        let output = Command::new(&launcher[0])
            .args(&launcher[1..])
            .args(["sh", "-c", MOUNT_CLONES, "sh"])
            .args([&work.join("clones"), mount_point])
            .output()
            .map_err(|error| error.to_string())?;
        let printed = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if output.status.success() { Ok(()) } else { Err(printed) }
    }

    /// The command that runs another one in this view, without a process of its own.
    pub fn launcher(&self) -> Vec<String> {
        self.view.launcher()
    }

    /// A file of the view, as everybody else can reach it.
    pub fn outside(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.view.id()));
        root.join(path.strip_prefix("/").expect("paths of a view begin at its root"))
    }

    /// User and group id of [`USER`].
    pub fn owner(&self) -> (u32, u32) {
        self.owner
    }
}

/// Lists of users, groups and hosts with ours in them; returns the ids of [`USER`].
fn write_lists(work: &Path) -> (u32, u32) {
    let read = |name: &str| {
        let mut list = fs::read_to_string(Path::new("/etc").join(name)).unwrap_or_default();
        if !list.is_empty() && !list.ends_with('\n') {
            list.push('\n');
        }
        list
    };
    let (mut users, mut groups, mut hosts) = (read("passwd"), read("group"), read("hosts"));
    for (id, user) in (FIRST_ID..).zip([USER, OTHER_USER]) {
        if ids_of(&users, user).is_none() {
            users.push_str(&format!("{user}:x:{id}:{id}::/:/usr/sbin/nologin\n"));
            groups.push_str(&format!("{user}:x:{id}:\n"));
        }
    }
    // smbtorture looks up the address of the machine it runs on.
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    hosts.push_str(&format!("127.0.0.1 {host}\n"));
    let owner = ids_of(&users, USER).expect("it was put there");
    for (name, list) in [("passwd", users), ("group", groups), ("hosts", hosts)] {
        fs::write(work.join(name), list).expect("there is space");
    }
    owner
}

/// User and group of a user, by a list of the form of /etc/passwd.
fn ids_of(list: &str, user: &str) -> Option<(u32, u32)> {
    let line = list.lines().find(|line| line.split(':').next() == Some(user))?;
    let mut ids = line.split(':').skip(2).map_while(|id| id.parse().ok());
    Some((ids.next()?, ids.next()?))
}
