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
    /// Service of the system, as systemd named it, whose own process this is.
    pub(super) service: Option<String>,
}

/// A process of a service.
#[derive(Clone, Copy, Debug)]
struct Member {
    parent: u32,
    session: u32,
    user: u32,
}

/// Process that starts services, and that processes without a parent become children of.
const INIT: u32 = 1;

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
    let service = service.filter(|it| member(pid).is_some_and(|own| own.is_main(&members(it))));
    Some(Holder { pid, program, user, service })
}

/// Returns the processes of a service.
fn members(service: &str) -> Vec<Member> {
    let is_of_service = |pid: &u32| {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        service_in(&groups).as_deref() == Some(service)
    };
    pids().filter(is_of_service).filter_map(member).collect()
}

fn member(pid: u32) -> Option<Member> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let user = field(&status, "Uid")?.split_whitespace().nth(1)?.parse().ok()?;
    let parent = field(&status, "PPid")?.parse().ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // pid (name) state parent group session …
    // The name may contain anything but the last parenthesis.
    let (_, tail) = stat.rsplit_once(") ")?;
    let session = tail.split_whitespace().nth(3)?.parse().ok()?;
    Some(Member { parent, session, user })
}

impl Member {
    /// True if the process belongs to the program that the service is there for. Programs of users
    /// that it has started, as cron does, have sessions of their own.
    fn is_main(self, members: &[Self]) -> bool {
        let mut first = members.iter().filter(|it| it.parent == INIT).peekable();
        first.peek().is_some() && first.all(|it| (it.session, it.user) == (self.session, self.user))
    }
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
    use std::io::{BufRead, BufReader, Write};
    use std::net::{Ipv4Addr, TcpListener, UdpSocket};
    use std::process::{Command, Stdio};

    use super::{INIT, Member, Protocol, holders, is_of_server, member, service_in};

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

    /// The attack: a job of a user listens at a port, and root is told to stop cron.
    #[test]
    fn a_program_that_a_service_has_started_for_a_user_is_not_the_service() {
        let process = |parent, session, user| Member { parent, session, user };
        let cron = process(INIT, 100, 0);
        let job = process(101, 102, 1_000);
        assert!(cron.is_main(&[cron, job]), "it has a port itself");
        assert!(!job.is_main(&[cron, job]));
        let job_of_root = process(101, 103, 0);
        assert!(!job_of_root.is_main(&[cron, job_of_root]));
        // One whose parent has ended, and that cron's restart has left there.
        let left = process(INIT, 104, 1_000);
        for members in [[cron, left], [left, cron]] {
            assert!(!left.is_main(&members) && !cron.is_main(&members));
        }
        let worker = process(100, 100, 33);
        assert!(!worker.is_main(&[cron, worker]), "another user than the service's");
        assert!(!job.is_main(&[]), "it has ended meanwhile");
    }

    #[test]
    fn a_process_with_a_session_of_its_own_is_seen_as_such() {
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", "echo; read end"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("there is setsid");
        let output = child.stdout.take().expect("it is a pipe");
        BufReader::new(output).read_line(&mut String::new()).expect("it says that it runs");
        let seen = member(child.id()).expect("it runs");
        child.stdin.take().expect("it is a pipe").write_all(b"\n").expect("it waits");
        child.wait().expect("it ends");
        let user = rustix::process::geteuid().as_raw();
        assert_eq!((seen.parent, seen.session), (std::process::id(), child.id()));
        assert_eq!(seen.user, user);
    }

    #[test]
    fn a_process_is_of_the_server_if_the_supervisor_is_its_parent() {
        let (own, parent) = (std::process::id(), std::os::unix::process::parent_id());
        assert!(is_of_server(own, own) && is_of_server(own, parent));
        assert!(!is_of_server(parent, own));
    }
}
