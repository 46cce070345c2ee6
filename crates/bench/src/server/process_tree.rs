//! A process and all its descendants, as /proc shows them: proc(5).

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Fields of /proc/PID/stat of a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Stat {
    parent: u32,
    /// User and system time of the process and of the children that it has waited for, in ticks.
    cpu_ticks: u64,
    /// The children's part of it.
    reaped_ticks: u64,
    /// Tells a process from a later one with the same id.
    start_ticks: u64,
}

/// A server's processes at one moment.
#[derive(Clone, Debug)]
pub struct ProcessTree {
    processes: BTreeMap<u32, Stat>,
}

impl ProcessTree {
    /// The process `root` and its descendants.
    ///
    /// # Errors
    ///
    /// When /proc cannot be read. Processes that end meanwhile are left out.
    pub fn of(root: u32) -> Result<Self> {
        let mut all = BTreeMap::new();
        for entry in fs::read_dir("/proc").context("reading /proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            if let Some(stat) = Stat::of(pid) {
                all.insert(pid, stat);
            }
        }
        Ok(Self { processes: descendants(&all, root) })
    }

    /// Ids of the processes, in no order.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.processes.keys().copied()
    }

    /// The processor time that they have used, with that of children that have ended.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        let ticks: u64 = self.processes.values().map(|stat| stat.cpu_ticks).sum();
        ticks_to_time(ticks)
    }

    /// The processor time that each of their threads has used, those of the kernel for them
    /// included. A thread is known by its id.
    #[must_use]
    pub fn cpu_of_threads(&self) -> BTreeMap<u32, Duration> {
        let mut threads = BTreeMap::new();
        for pid in self.pids() {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            for task in tasks {
                let stat = fs::read_to_string(task.path().join("stat")).ok();
                let id = task.file_name().to_str().and_then(|name| name.parse().ok());
                if let Some((id, stat)) = id.zip(stat.and_then(|text| Stat::parse(&text))) {
                    threads.insert(id, ticks_to_time(stat.cpu_ticks - stat.reaped_ticks));
                }
            }
        }
        threads
    }

    /// Memory in bytes that only these processes use, and that their end would free.
    #[must_use]
    pub fn private_bytes(&self) -> u64 {
        let of = |pid| fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok();
        self.pids().filter_map(of).map(|text| private_kib(&text) * 1024).sum()
    }

    /// Restricts the processes and their future children to these processors.
    pub fn run_on(&self, processors: &CpuSet) {
        for pid in self.pids() {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            for task in tasks {
                let name = task.file_name();
                let id = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
                // Threads that the kernel keeps for io_uring may refuse, and any may have ended.
                let _ = id.map(|id| sched_setaffinity(Some(id), processors));
            }
        }
    }

    /// The process that has the server's end of the connection from `client_port`.
    #[must_use]
    pub fn serving(&self, server: SocketAddr, client_port: u16) -> Option<u32> {
        let table = fs::read_to_string("/proc/net/tcp").ok()?;
        let inode = socket_inode(&table, server.port(), client_port)?;
        let wanted = format!("socket:[{inode}]");
        self.pids().find(|pid| {
            let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            entries
                .filter_map(|entry| fs::read_link(entry.path()).ok())
                .any(|target| target.to_str() == Some(wanted.as_str()))
        })
    }

    /// Kills those that still run.
    pub fn kill_survivors(&self) {
        for (&pid, stat) in &self.processes {
            let same = Stat::of(pid).is_some_and(|now| now.start_ticks == stat.start_ticks);
            let id = i32::try_from(pid).ok().and_then(Pid::from_raw).filter(|_| same);
            // An error means that it has ended already.
            let _ = id.map(|id| kill_process(id, Signal::KILL));
        }
    }
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name stands in parentheses and may contain any, so fields are counted behind the last.
    fn parse(text: &str) -> Option<Self> {
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        // The first of them is field 3, state.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let times = [field(14)?, field(15)?, field(16)?, field(17)?];
        Some(Self {
            parent: u32::try_from(field(4)?).ok()?,
            cpu_ticks: times.iter().sum(),
            reaped_ticks: times[2..].iter().sum(),
            start_ticks: field(22)?,
        })
    }
}

/// The processor time of the children that this process has waited for.
///
/// # Errors
///
/// When /proc does not know this process.
pub fn reaped_cpu() -> Result<Duration> {
    let stat = Stat::of(std::process::id()).context("reading /proc/self/stat")?;
    Ok(ticks_to_time(stat.reaped_ticks))
}

fn ticks_to_time(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second();
    Duration::from_micros(ticks * 1_000_000 / per_second.max(1))
}

fn descendants(all: &BTreeMap<u32, Stat>, root: u32) -> BTreeMap<u32, Stat> {
    let mut found = BTreeMap::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        let Some(stat) = all.get(&pid) else { continue };
        if found.insert(pid, *stat).is_none() {
            open.extend(all.iter().filter(|(_, stat)| stat.parent == pid).map(|(pid, _)| *pid));
        }
    }
    found
}

/// Private_Clean and Private_Dirty of an smaps file.
fn private_kib(text: &str) -> u64 {
    let private = text.lines().filter(|line| line.starts_with("Private_"));
    private.filter_map(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()).sum()
}

/// The inode of the socket with this local and remote port in /proc/net/tcp.
fn socket_inode(table: &str, local: u16, remote: u16) -> Option<u64> {
    let port = |address: &str| u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok();
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let matches = port(fields.get(1)?)? == local && port(fields.get(2)?)? == remote;
        if matches { fields.get(9)?.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::{ProcessTree, Stat, descendants, private_kib, socket_inode};

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let text = "42 (a) b (c) S 7 1 1 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 999 5 6";
        let stat = Stat::parse(text).expect("it is whole");
        assert_eq!(stat, Stat { parent: 7, cpu_ticks: 100, reaped_ticks: 70, start_ticks: 999 });
        assert_eq!(Stat::parse("42 (a) S 7"), None);
    }

    #[test]
    fn descendants_are_those_of_the_root_alone() {
        let stat = |parent| Stat { parent, cpu_ticks: 1, reaped_ticks: 0, start_ticks: 0 };
        let all = [(1, 0), (5, 1), (6, 5), (7, 6), (8, 1)].map(|(pid, up)| (pid, stat(up)));
        let found = descendants(&all.into(), 5);
        assert_eq!(found.into_keys().collect::<Vec<_>>(), [5, 6, 7]);
    }

    #[test]
    fn this_process_is_in_its_own_tree_and_has_memory() {
        let tree = ProcessTree::of(std::process::id()).expect("/proc is there");
        assert!(tree.pids().any(|pid| pid == std::process::id()));
        assert!(tree.private_bytes() > 0);
    }

    #[test]
    fn private_memory_is_clean_and_dirty() {
        let text = "Rss: 100 kB\nShared_Clean: 50 kB\nPrivate_Clean:  8 kB\nPrivate_Dirty: 20 kB\n";
        assert_eq!(private_kib(text), 28);
    }

    #[test]
    fn a_socket_is_found_by_both_ports() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when \
            retrnsmt   uid  timeout inode\n\
            0: 0100007F:1162 0100007F:C350 01 00000000:00000000 00:00000000 00000000     \
            0        0 111 1\n\
            1: 0100007F:1162 0100007F:C351 01 00000000:00000000 00:00000000 00000000     \
            0        0 222 1\n";
        assert_eq!(socket_inode(table, 0x1162, 0xC351), Some(222));
        assert_eq!(socket_inode(table, 0x1162, 0xC352), None);
    }
}
