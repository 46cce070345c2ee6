//! Programs that hold a port of this machine, by the kernel's lists of sockets.

use std::fs;
use std::path::Path;

/// Protocol that a port belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Protocol {
    Tcp,
    Udp,
}

/// A process with a socket at a port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Holder {
    pub(super) pid: u32,
    /// Name of the program, as the kernel knows it. A process can have itself called anything.
    pub(super) program: String,
    /// Id of the user that it runs as.
    pub(super) user: u32,
    /// Service of the system that the process is of, as systemd named it.
    pub(super) service: Option<String>,
}

/// State of a listening socket in the kernel's list.
const LISTENING: &str = "0A";

/// Processes whose descriptors are searched.
const PROCESSES_MAX: usize = 32_768;

/// Returns the processes that listen at a port. Sockets of processes that this user may not look
/// into are left out; `None` if nobody has the port.
pub(super) fn holders(protocol: Protocol, port: u16) -> Option<Vec<Holder>> {
    let files = match protocol {
        Protocol::Tcp => ["/proc/net/tcp", "/proc/net/tcp6"],
        Protocol::Udp => ["/proc/net/udp", "/proc/net/udp6"],
    };
    let texts = files.map(|path| fs::read_to_string(path).unwrap_or_default());
    let sockets: Vec<String> = texts.iter().flat_map(|text| inodes(text, protocol, port)).collect();
    (!sockets.is_empty()).then(|| owners(&sockets))
}

/// Inodes of the sockets at a port, in the form of links in `/proc/PID/fd`.
fn inodes(list: &str, protocol: Protocol, port: u16) -> Vec<String> {
    let port = format!(":{port:04X}");
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, state, ..] = fields[..] else { return None };
        let is_meant = protocol == Protocol::Udp || state == LISTENING;
        let inode = fields.get(9).filter(|_| is_meant && local.ends_with(&port))?;
        Some(format!("socket:[{inode}]"))
    };
    list.lines().skip(1).filter_map(inode).collect()
}

fn owners(sockets: &[String]) -> Vec<Holder> {
    let has_one = |pid: &u32| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
        targets.any(|target| sockets.iter().any(|socket| target == Path::new(socket)))
    };
    pids().filter(has_one).filter_map(holder).collect()
}

/// Returns the processes of this machine.
fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.take(PROCESSES_MAX)
}

/// Returns a process; `None` if it has ended.
fn holder(pid: u32) -> Option<Holder> {
    let read = |name| fs::read_to_string(format!("/proc/{pid}/{name}"));
    let status = read("status").ok()?;
    // The real, the effective and further ids.
    let user = field(&status, "Uid")?.split_whitespace().nth(1)?.parse().ok()?;
    let program = read("comm").unwrap_or_default().trim().to_owned();
    let service = service_in(&read("cgroup").unwrap_or_default());
    Some(Holder { pid, program, user, service })
}

/// Returns the service of the system that a process is of, from its list of control groups. Only
/// root, or systemd for it, makes groups directly below `system.slice` and its slices.
fn service_in(groups: &str) -> Option<String> {
    let mut paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let below = paths.find_map(|path| path.strip_prefix("/system.slice/"))?;
    let first = below.split('/').find(|group| !group.ends_with(".slice"))?;
    first.ends_with(".service").then(|| first.to_owned())
}

/// Whether a process is one of the server with this supervisor.
pub(super) fn is_of_server(pid: u32, supervisor: u32) -> bool {
    pid == supervisor || parent(pid) == Some(supervisor)
}

/// Whether the server with this supervisor has a process of this kind.
pub(super) fn has_process(supervisor: u32, kind: &str) -> bool {
    let is_kind = |pid: u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(kind.as_bytes())
    };
    pids().any(|pid| parent(pid) == Some(supervisor) && is_kind(pid))
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    field(&status, "PPid")?.parse().ok()
}

/// Returns the value of a field in the status of a process.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines();
    Some(lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?.trim())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, UdpSocket};

    use super::{Protocol, holders, is_of_server, service_in};

    #[test]
    fn the_process_that_listens_at_a_port_is_found() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let found = holders(Protocol::Tcp, port).expect("somebody listens");
        let (pid, user) = (std::process::id(), rustix::process::geteuid().as_raw());
        assert_eq!(found.iter().map(|it| (it.pid, it.user)).collect::<Vec<_>>(), [(pid, user)]);
        drop(listener);
        assert_eq!(holders(Protocol::Tcp, port), None);
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = socket.local_addr().expect("it is bound").port();
        assert!(holders(Protocol::Udp, port).is_some());
    }

    #[test]
    fn a_service_is_one_of_the_system_and_no_process_of_a_user_is_of_one() {
        let service = |groups: &str| service_in(groups);
        for (groups, wanted) in [
            ("0::/system.slice/wsdd.service\n", "wsdd.service"),
            ("0::/system.slice/system-a.slice/a@1.service/b.service\n", "a@1.service"),
            ("1:name=systemd:/system.slice/smbd.service\n", "smbd.service"),
        ] {
            assert_eq!(service(groups).as_deref(), Some(wanted));
        }
        for groups in [
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/sshd.service\n",
            "0::/system.slice/docker-1.scope/sshd.service\n",
            "0::/\n",
            "",
        ] {
            assert_eq!(service(groups), None, "{groups}");
        }
    }

    #[test]
    fn a_process_is_of_the_server_if_the_supervisor_is_its_parent() {
        let (own, parent) = (std::process::id(), std::os::unix::process::parent_id());
        assert!(is_of_server(own, own) && is_of_server(own, parent));
        assert!(!is_of_server(parent, own));
    }
}
