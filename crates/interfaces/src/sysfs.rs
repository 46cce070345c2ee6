//! The kernel's files on interfaces, for kernels without ethtool over netlink, and for values that
//! drivers do not report over it.

use std::fs;
use std::path::{Path, PathBuf};

use super::link::Link;

/// Directory with an entry for each interface.
const INTERFACES: &str = "/sys/class/net";

/// The files on all interfaces.
#[derive(Debug)]
pub(super) struct Sysfs(PathBuf);

impl Sysfs {
    /// The running kernel's own directory.
    pub(super) fn of_kernel() -> Self {
        Self(INTERFACES.into())
    }

    /// Speed in bits per second.
    pub(super) fn speed(&self, link: &Link) -> Option<u64> {
        const MEGABIT: u64 = 1_000_000;
        let speed: i64 = read(&self.folder(link)?, "speed")?.parse().ok()?;
        // -1 and 0 mean that the driver does not know.
        u64::try_from(speed).ok().filter(|speed| *speed > 0)?.checked_mul(MEGABIT)
    }

    /// Queues among which received packets are spread.
    pub(super) fn receive_queues(&self, link: &Link) -> Option<u32> {
        let queues = fs::read_dir(self.folder(link)?.join("queues")).ok()?;
        let names = queues.filter_map(|queue| queue.ok()?.file_name().into_string().ok());
        u32::try_from(names.filter(|name| name.starts_with("rx-")).count()).ok()
    }

    /// The files on an interface; nothing if they are on another one, of another network.
    fn folder(&self, link: &Link) -> Option<PathBuf> {
        // The name is one that the kernel gave, and so has no `/`.
        let folder = self.0.join(&link.name);
        let index: u32 = read(&folder, "ifindex")?.parse().ok()?;
        (index == link.index).then_some(folder)
    }
}

fn read(folder: &Path, name: &str) -> Option<String> {
    Some(fs::read_to_string(folder.join(name)).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::link::LinkKind;
    use super::*;

    fn link(index: u32) -> Link {
        let (name, kind) = ("eth0".to_owned(), LinkKind::Single);
        Link { index, name, is_up: true, kind, port_of: None, hardware_address: None }
    }

    /// A folder as `/sys/class/net`, with `eth0` of number 2 in it.
    fn sysfs(speed: &str, queues: &[&str]) -> (tempfile::TempDir, Sysfs) {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("eth0");
        for queue in queues {
            fs::create_dir_all(folder.join("queues").join(queue)).expect("a folder");
        }
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("ifindex"), "2\n").expect("a file");
        fs::write(folder.join("speed"), speed).expect("a file");
        let sysfs = Sysfs(root.path().to_owned());
        (root, sysfs)
    }

    #[test]
    fn speeds_are_in_megabits() {
        for (speed, want) in
            [("25000\n", Some(25_000_000_000)), ("-1\n", None), ("0\n", None), ("", None)]
        {
            let (_root, sysfs) = sysfs(speed, &[]);
            assert_eq!(sysfs.speed(&link(2)), want, "{speed:?}");
        }
    }

    #[test]
    fn only_queues_that_receive_count() {
        let (_root, sysfs) = sysfs("", &["rx-0", "rx-1", "tx-0", "tx-1", "tx-2"]);
        assert_eq!(sysfs.receive_queues(&link(2)), Some(2));
    }

    #[test]
    fn files_on_an_interface_of_another_network_say_nothing() {
        let (_root, sysfs) = sysfs("1000\n", &["rx-0"]);
        assert_eq!((sysfs.speed(&link(3)), sysfs.receive_queues(&link(3))), (None, None));
        assert!(sysfs.speed(&link(2)).is_some());
    }
}
