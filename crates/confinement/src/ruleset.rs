//! The paths and sockets of each kind of process, as rules that the kernel keeps it to.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};

use crate::access;
use crate::landlock::{self, Handled};
use crate::places::{self, Place};
use crate::process_kind::ProcessKind;
use crate::signals::Signals;

/// `LANDLOCK_ACCESS_NET_BIND_TCP` and `LANDLOCK_ACCESS_NET_CONNECT_TCP` of linux/landlock.h.
const BIND_TCP: u64 = 1;
const CONNECT_TCP: u64 = 1 << 1;

/// `LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET` and `LANDLOCK_SCOPE_SIGNAL` of linux/landlock.h.
const ABSTRACT_SOCKETS: u64 = 1;
const SIGNALS: u64 = 1 << 1;

/// Choices that depend on the configuration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Freedom {
    /// All paths may be reached.
    pub all_paths: bool,
    /// Processes that may be signalled.
    pub signals: Signals,
}

/// Rules for processes of one kind, of which forks apply the same ones.
#[derive(Debug)]
pub struct Ruleset {
    kind: ProcessKind,
    handled: Handled,
    rules: OwnedFd,
}

/// Returns the reason why the kernel cannot restrict paths; none if it can.
#[must_use]
pub fn paths_unavailable() -> Option<String> {
    unavailable_before(landlock::RENAMES, "5.19")
}

/// Returns the reason why the kernel cannot restrict TCP; none if it can.
#[must_use]
pub fn tcp_unavailable() -> Option<String> {
    unavailable_before(landlock::TCP, "6.7")
}

/// Returns the reason why Landlock is older than this version of it, which came with a Linux.
fn unavailable_before(needed: u32, linux: &str) -> Option<String> {
    match landlock::version() {
        Ok(version) if version >= needed => None,
        Ok(version) => {
            Some(format!("the kernel is too old: Landlock {version}, before Linux {linux}"))
        }
        Err(error) => Some(format!("the kernel has no Landlock: {error}")),
    }
}

/// Returns true if a kind is to make no connection over TCP.
#[must_use]
pub fn restricts_tcp(kind: ProcessKind) -> bool {
    sockets(kind) != 0
}

/// Uses of TCP that a kind does not have. Sockets that are open stay as they are.
fn sockets(kind: ProcessKind) -> u64 {
    match kind {
        ProcessKind::Auditd
        | ProcessKind::MetricsWeb
        | ProcessKind::Notifyd
        | ProcessKind::Worker => BIND_TCP | CONNECT_TCP,
        // It listens on addresses that the machine gets later.
        ProcessKind::Discoveryd => CONNECT_TCP,
        // Domain controllers, and directories of the name service.
        ProcessKind::Logond => 0,
    }
}

/// Uses of other processes that a kind does not have.
fn scopes(kind: ProcessKind, freedom: Freedom) -> u64 {
    match kind {
        // Modules of the name service have sockets of all kinds.
        ProcessKind::Logond => 0,
        _ if freedom.signals == Signals::OfMessages => ABSTRACT_SOCKETS,
        _ => ABSTRACT_SOCKETS | SIGNALS,
    }
}

/// Returns what a kernel of this version forbids a kind.
fn handled(kind: ProcessKind, freedom: Freedom, version: u32) -> Handled {
    let since = |first, rights| if version >= first { rights } else { 0 };
    let has_paths = places::has_places(kind) && !freedom.all_paths;
    Handled {
        files: since(landlock::RENAMES, if has_paths { access::known(version) } else { 0 }),
        sockets: since(landlock::TCP, sockets(kind)),
        scopes: since(landlock::SCOPES, scopes(kind, freedom)),
    }
}

impl Ruleset {
    /// Makes the rules of a kind, with the paths of the system that it may reach. `None` if this
    /// kernel restricts nothing for it.
    ///
    /// # Errors
    /// No descriptors or memory are left.
    pub fn new(kind: ProcessKind, freedom: Freedom) -> io::Result<Option<Self>> {
        let Ok(version) = landlock::version() else { return Ok(None) };
        let handled = handled(kind, freedom, version);
        if handled == Handled::default() {
            return Ok(None);
        }
        let ruleset = Self { kind, handled, rules: landlock::create(handled)? };
        if ruleset.restricts_paths() {
            for (place, path) in places::system_paths(kind) {
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                // A system may lack some of them.
                if let Ok(at) = rustix::fs::open(path, flags, Mode::empty()) {
                    ruleset.reach(place, at.as_fd())?;
                }
            }
        }
        Ok(Some(ruleset))
    }

    /// Returns true if only places that were given are reached.
    #[must_use]
    pub fn restricts_paths(&self) -> bool {
        self.handled.files != 0
    }

    /// Allows what the kind does in such a place: in a directory, and whatever is mounted in it
    /// now or later, or with a file. Without restricted paths there is nothing to allow.
    ///
    /// # Errors
    /// The descriptor is not one of a file or directory, or no memory is left.
    pub fn reach(&self, place: Place, at: BorrowedFd<'_>) -> io::Result<()> {
        let mode = rustix::fs::fstat(at)?.st_mode;
        match FileType::from_raw_mode(mode) {
            FileType::Directory => self.reach_directory(place, at),
            _ => self.allow(place, access::OF_FILES, at),
        }
    }

    /// As [`Self::reach`], for a directory whose file system must not be asked.
    ///
    /// # Errors
    /// The descriptor is not one of a directory, or no memory is left.
    pub fn reach_directory(&self, place: Place, at: BorrowedFd<'_>) -> io::Result<()> {
        self.allow(place, u64::MAX, at)
    }

    fn allow(&self, place: Place, fitting: u64, at: BorrowedFd<'_>) -> io::Result<()> {
        match places::access(self.kind, place) & self.handled.files & fitting {
            0 => Ok(()),
            allowed => landlock::allow(self.rules.as_fd(), at, allowed),
        }
    }

    /// Has this process keep to the rules, for good, before it has a second thread.
    ///
    /// # Errors
    /// The kernel refuses; nothing has been taken then.
    pub fn restrict(&self) -> io::Result<()> {
        // A process without privileges must not lead a privileged program by rules.
        rustix::thread::set_no_new_privs(true)?;
        landlock::restrict(self.rules.as_fd())
    }
}

impl AsFd for Ruleset {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.rules.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{ABSTRACT_SOCKETS, Freedom, SIGNALS, Signals, handled};
    use crate::landlock::Handled;
    use crate::process_kind::ProcessKind;

    const NONE: Freedom = Freedom { all_paths: false, signals: Signals::ToItself };

    #[test]
    fn a_kernel_forbids_as_much_as_it_knows() {
        let worker = |version| handled(ProcessKind::Worker, NONE, version);
        assert_eq!(worker(1), Handled::default(), "it could move no file to another directory");
        let known = |it: Handled| [it.files, it.sockets, it.scopes].map(|it| it != 0);
        assert_eq!(known(worker(2)), [true, false, false]);
        assert_eq!(known(worker(4)), [true, true, false]);
        assert_eq!(known(worker(6)), [true, true, true]);
        assert_eq!(worker(6), worker(u32::MAX));
    }

    #[test]
    fn the_configuration_decides_on_paths_and_signals_alone() {
        let all = Freedom { all_paths: true, signals: Signals::OfMessages };
        let free = handled(ProcessKind::Worker, all, 7);
        let bound = handled(ProcessKind::Worker, NONE, 7);
        assert_eq!((free.files, free.sockets), (0, bound.sockets));
        assert_eq!((free.scopes, bound.scopes), (ABSTRACT_SOCKETS, ABSTRACT_SOCKETS | SIGNALS));
    }

    #[test]
    fn logond_alone_is_free() {
        for kind in ProcessKind::ALL {
            let is_free = handled(kind, NONE, 7) == Handled::default();
            assert_eq!(is_free, kind == ProcessKind::Logond, "{}", kind.name());
        }
    }
}
