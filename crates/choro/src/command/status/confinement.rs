//! `choro status --confinement`: rights of each process of the server, as the kernel shows them.

use std::fs;

use anyhow::Context;
use confinement::{
    Mode, Observed, ProcessKind, has_places, kept_capabilities, names_of_capabilities,
    paths_unavailable, restricts_tcp, tcp_unavailable,
};
use observe::report::{self, Row};
use process::confinement_mode;
use settings::Settings;
use tables::Registry;
use worker::all_paths_reason;

const TITLES: &[&str] =
    &["PID", "PROCESS", "SYSTEM CALLS", "PATHS", "TCP", "PROGRAMS", "CAPABILITIES"];

/// Prefix of the names of the server's processes.
const PREFIX: &str = "choro-";

/// Name of the process that runs commands, and keeps all rights.
const COMMANDD: &str = "choro-commandd";

/// Longest name of a process, in bytes: the kernel cuts longer ones.
const NAME_BYTES_MAX: usize = 15;

/// A process of the server.
struct Process {
    pid: u32,
    name: &'static str,
    /// `None` for those that keep all rights.
    kind: Option<ProcessKind>,
    observed: Observed,
}

/// Prints the confinement of all processes.
///
/// # Errors
/// No server is running.
pub(super) fn show(settings: &Settings, json: bool) -> anyhow::Result<()> {
    let registry = Registry::observe(&settings.directories.lock)?;
    let supervisor = registry.supervisor().pid;
    let processes = list(supervisor).context("cannot list processes")?;
    let inherited = processes.iter().find(|it| it.pid == supervisor).map(|it| it.observed);
    let inherited = inherited.unwrap_or_default();
    if json {
        return report::print_json(
            processes.iter().map(|it| it.row(settings, inherited)).collect(),
        );
    }
    let cells: Vec<Vec<String>> =
        processes.iter().map(|it| it.cells(settings, inherited)).collect();
    let mut text = report::table(TITLES, &cells);
    for process in &processes {
        let Some(kind) = process.kind else { continue };
        let lacks = process.lacks(settings, inherited);
        let paths = process.all_paths(settings).filter(|_| has_places(kind));
        let paths = paths.map(|why| format!("reaches all paths: {why}"));
        let tcp = process.all_tcp(settings).filter(|_| restricts_tcp(kind));
        let tcp = tcp.map(|why| format!("connects by TCP to any machine: {why}"));
        for why in [lacks, paths, tcp].into_iter().flatten() {
            let line = format!("{}: {why}\n", kind.name());
            // Many workers have the same.
            if !text.contains(&line) {
                text.push_str(&line);
            }
        }
    }
    report::print(&text)
}

/// Lists the supervisor and its children.
fn list(supervisor: u32) -> std::io::Result<Vec<Process>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse().ok()) else { continue };
        // A process may have ended meanwhile.
        let Ok(status) = fs::read_to_string(entry.path().join("status")) else { continue };
        let value = |name: &str| {
            let mut lines = status.lines();
            lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
        };
        let is_child = value("PPid").and_then(|it| it.parse().ok()) == Some(supervisor);
        let kind = value("Name").and_then(kind_of).filter(|_| is_child);
        let name = match kind {
            Some(kind) => kind.name(),
            None if pid == supervisor => "supervisor",
            None if is_child && value("Name") == Some(COMMANDD) => "commandd",
            None => continue,
        };
        let Ok(observed) = Observed::of(pid) else { continue };
        processes.push(Process { pid, name, kind, observed });
    }
    // The supervisor first: the numbers of processes may have begun anew.
    processes.sort_unstable_by_key(|it| (it.pid != supervisor, it.pid));
    Ok(processes)
}

fn kind_of(name: &str) -> Option<ProcessKind> {
    let is = |kind: &ProcessKind| {
        let mut whole = format!("{PREFIX}{}", kind.name());
        whole.truncate(NAME_BYTES_MAX);
        whole == name
    };
    ProcessKind::ALL.into_iter().find(is)
}

impl Process {
    /// Returns true if it has its own filters, beside those that the supervisor has.
    fn has_list(&self, inherited: Observed) -> bool {
        let is_more = match (self.observed.filters, inherited.filters) {
            (Some(own), Some(inherited)) => own > inherited,
            _ => self.observed.is_filtered,
        };
        self.kind.is_some() && is_more
    }

    /// Returns the reason why it reaches all paths; `None` if it does not. The kernel shows no
    /// rules of a process: they follow from its version, the configuration, and the supervisor's
    /// note about shares.
    fn all_paths(&self, settings: &Settings) -> Option<String> {
        match self.kind {
            Some(kind) if has_places(kind) => {
                let lock = &settings.directories.lock;
                let of_shares = || all_paths_reason(lock).filter(|_| kind == ProcessKind::Worker);
                self.unruled(settings).or_else(paths_unavailable).or_else(of_shares)
            }
            Some(_) => Some("modules of the name service open files of their own".to_owned()),
            None => Some("it starts other processes".to_owned()),
        }
    }

    /// Returns the reason why it connects to other machines; `None` if it does not.
    fn all_tcp(&self, settings: &Settings) -> Option<String> {
        match self.kind {
            Some(kind) if restricts_tcp(kind) => self.unruled(settings).or_else(tcp_unavailable),
            Some(_) => Some("it asks the domain and the name service".to_owned()),
            None => Some("it starts other processes".to_owned()),
        }
    }

    /// Returns the reason why it has no rules at all, whatever the kernel can do.
    fn unruled(&self, settings: &Settings) -> Option<String> {
        match confinement_mode(&settings.config) {
            Mode::Off => Some("choro:confinement = no".to_owned()),
            Mode::Log => Some("choro:confinement = log restricts no paths and no TCP".to_owned()),
            // Rules are taken together with this promise.
            Mode::On if !self.observed.no_new_privileges => Some(OLDER.to_owned()),
            Mode::On => None,
        }
    }

    fn cells(&self, settings: &Settings, inherited: Observed) -> Vec<String> {
        let calls = match (self.has_list(inherited), self.observed.is_filtered) {
            (true, _) => "its list",
            (false, true) => "those of the service",
            (false, false) => "all",
        };
        let programs =
            if self.observed.no_new_privileges { "give no rights" } else { "give rights" };
        vec![
            self.pid.to_string(),
            self.name.to_owned(),
            calls.to_owned(),
            if self.all_paths(settings).is_none() { "its own" } else { "all" }.to_owned(),
            if self.all_tcp(settings).is_none() { "no connections" } else { "all" }.to_owned(),
            programs.to_owned(),
            match self.kind {
                Some(_) => capabilities(self.observed.capabilities),
                None => "those of the service".to_owned(),
            },
        ]
    }

    fn row(&self, settings: &Settings, inherited: Observed) -> Row {
        let why = self.kind.and_then(|_| self.lacks(settings, inherited));
        vec![
            ("kind", "process".into()),
            ("pid", self.pid.into()),
            ("process", self.name.into()),
            ("has_list", self.has_list(inherited).into()),
            ("no_new_privileges", self.observed.no_new_privileges.into()),
            ("capabilities", capabilities(self.observed.capabilities).into()),
            ("bounding", capabilities(self.observed.bounding).into()),
            ("not_confined_because", why.into()),
            ("all_paths_because", self.all_paths(settings).into()),
            ("all_tcp_because", self.all_tcp(settings).into()),
        ]
    }

    /// Returns the confinement that does not hold, and why; `None` if all of it holds.
    fn lacks(&self, settings: &Settings, inherited: Observed) -> Option<String> {
        let kind = self.kind?;
        let more = self.observed.capabilities & !kept_capabilities(kind);
        let has_list = self.has_list(inherited);
        if has_list && more == 0 {
            return None;
        }
        let why = match confinement_mode(&settings.config) {
            Mode::Off => "choro:confinement = no".to_owned(),
            Mode::Log => {
                "choro:confinement = log: the kernel logs calls outside the list".to_owned()
            }
            Mode::On => {
                confinement::unavailable().filter(|_| !has_list).unwrap_or_else(|| OLDER.to_owned())
            }
        };
        let lacks = match (has_list, more) {
            (false, _) => "not confined".to_owned(),
            (true, more) => format!("could not give up {}", capabilities(more)),
        };
        Some(format!("{lacks}: {why}"))
    }
}

const OLDER: &str = "it was started before the configuration changed, or the kernel refused";

fn capabilities(bits: u64) -> String {
    match bits {
        0 => "none".to_owned(),
        bits => names_of_capabilities(bits).join(" "),
    }
}

#[cfg(test)]
mod tests {
    use confinement::{Observed, ProcessKind};

    use super::{Process, kind_of};

    #[test]
    fn processes_are_known_by_their_names_as_the_kernel_cuts_them() {
        assert_eq!(kind_of("choro-worker"), Some(ProcessKind::Worker));
        assert_eq!(kind_of("choro-discovery"), Some(ProcessKind::Discoveryd));
        assert_eq!([kind_of("choro"), kind_of("smbd"), kind_of("choro-workers")], [None; 3]);
    }

    #[test]
    fn a_filter_of_the_service_is_no_list_of_a_process() {
        let of = |filters| Observed { is_filtered: true, filters, ..Observed::default() };
        let process = |filters| Process {
            pid: 1,
            name: "worker",
            kind: Some(ProcessKind::Worker),
            observed: of(filters),
        };
        assert!(process(Some(3)).has_list(of(Some(1))));
        assert!(!process(Some(1)).has_list(of(Some(1))));
        assert!(process(None).has_list(Observed::default()), "an old kernel tells no number");
    }
}
