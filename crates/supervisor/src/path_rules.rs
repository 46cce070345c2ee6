//! Rules for the paths of workers, made again when a worker lacks one.

use std::time::{Duration, Instant};

use confinement::{Mode, ProcessKind};
use process::control::ToWorker;
use worker::PathRules;

use super::{Supervisor, workers};

/// Time from one attempt to make other rules to the next. Clients cause them, by shares whose
/// directories cannot have a rule.
const INTERVAL: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Makes the filter of workers and the rules for their paths, and tells the operator if
    /// processes cannot have them. The files that workers read are made by then.
    pub(super) fn prepare_confinement(&mut self) {
        let settings = &self.settings;
        let mode = process::confinement_mode(&settings.config);
        if mode == Mode::Off {
            tracing::info!("processes keep all rights: choro:confinement = no");
        } else {
            match confinement::unavailable() {
                Some(why) => tracing::warn!("processes may make all system calls: {why}"),
                None => {
                    let signals = process::signals_of(&settings.config);
                    confinement::prepare(ProcessKind::Worker, mode, signals);
                }
            }
        }
        let lacks = confinement::paths_unavailable().or_else(confinement::tcp_unavailable);
        if let Some(why) = lacks.filter(|_| mode == Mode::On) {
            tracing::info!("paths or TCP of processes are not restricted: {why}");
        }
        let number = self.path_rules.number() + 1;
        self.path_rules = PathRules::of(settings, &mut self.mounts, number);
        self.path_rules.report(&settings.directories.lock);
    }

    /// Answers a worker that has rules of this number, and lacks one. Directories may have been
    /// made or mounted since; then later workers have other rules.
    pub(super) fn renew_path_rules(&mut self, pid: u32, number: u64, now: Instant) {
        let mut are_newer = number < self.path_rules.number();
        if !are_newer && self.path_rules_from <= now {
            self.path_rules_from = now + INTERVAL;
            are_newer = self.make_path_rules_again();
        }
        if let Some(worker) = self.workers.get_mut(pid) {
            workers::send_to(pid, worker, &ToWorker::PathRules { are_newer });
        }
    }

    /// Makes other rules before a client gets a worker, if directories of the configuration have
    /// been made or mounted since. It would have to connect twice otherwise.
    pub(super) fn follow_new_paths(&mut self) {
        if self.path_rules.may_be_outdated(&mut self.mounts) {
            self.make_path_rules_again();
        }
    }

    /// Returns false if the rules stay as they are.
    fn make_path_rules_again(&mut self) -> bool {
        let next = self.path_rules.number() + 1;
        let made = PathRules::of(&self.settings, &mut self.mounts, next);
        let are_others = !made.are_as(&self.path_rules);
        if are_others {
            made.report(&self.settings.directories.lock);
            self.path_rules = made;
            // Clients would get one with the old rules.
            self.workers.dismiss_idle();
        }
        are_others
    }
}
