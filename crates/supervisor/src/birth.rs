//! The end of a supervisor that has become a worker.
//!
//! A worker is forked off and not exec'ed: half of what a client costs that comes and goes would be
//! to load the program and its libraries, to read the configuration and to get to know the machine,
//! each time with the same outcome. The supervisor holds no data of clients, and knows of them what
//! the tables say.

use std::mem::{forget, replace};
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Context;
use messaging::TransportKind;
use process::{log, properties};
use rustix::fs::{Mode, OFlags};
use settings::Source;
use worker::{Inherited, LogonSlot, Pages, Tables, WorkerStart};

use super::workers::Birth;
use super::{Started, Supervisor};

impl Started {
    /// Lets go of everything that is the supervisor's, of whom this process is a copy, and begins
    /// as a worker.
    ///
    /// # Errors
    /// The supervisor is gone already, the log cannot be opened, or the kernel refuses.
    // The stack of an idle worker is a part of its memory: copies of large values end with calls
    // of their own, here and in `Worker::prepare`.
    #[inline(never)]
    pub(super) fn become_worker(self, birth: Birth) -> anyhow::Result<Box<WorkerStart>> {
        let Birth { server_id, control, slot } = birth;
        let Self { supervisor, signals, pid_file } = self;
        let Supervisor { mut settings, command, registry, files, messaging, .. } = supervisor;
        let Supervisor { listeners, workers, clients, notifyd, discoveryd, .. } = supervisor;
        let Supervisor { logond, auditd, commandd, commands, names, events, .. } = supervisor;
        let Supervisor { announcement, crashes, familiar, refusals, finished, .. } = supervisor;
        let Supervisor { qos, violations, failed_logons, watches, .. } = supervisor;
        let Supervisor { prepared, mounts, path_rules, birth_budget, pressure, .. } = supervisor;
        let Supervisor { child_ended, dead, .. } = supervisor;
        let supervisor_pid = registry.server_id().pid;
        // To close them one by one takes long where there are many, and some would take back what
        // the supervisor has given out.
        forget((listeners, workers, events, signals, pid_file));
        forget((notifyd, discoveryd, logond, auditd, commandd, commands, names));
        // To free memory writes to it, and so takes it from what all workers share.
        forget((announcement, crashes, familiar, refusals, finished, violations));
        forget((birth_budget, pressure, child_ended, dead));
        match messaging.kind() {
            // A file of libtdb is opened once in a process.
            Some(TransportKind::Tdb) => drop(messaging),
            _ => forget(messaging),
        }
        let logon_slot = Some(LogonSlot { page: clients.into_page(), slot });
        log::close();
        let tables = Tables::inherit(registry, files, server_id, prepared.keeps_persistent)?;
        let own = tables.descriptors().chain(mounts.descriptor()).chain(path_rules.descriptor());
        let kept: Vec<BorrowedFd<'_>> = own.chain([control.as_fd()]).collect();
        process::close_all_but(&kept).context("cannot close descriptors of the supervisor")?;
        properties::begin(properties::WORKER, supervisor_pid)?;
        let nothing = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .context("/dev/null")?;
        rustix::stdio::dup2_stdin(&nothing).context("standard input")?;
        rustix::stdio::dup2_stdout(&nothing).context("standard output")?;
        rustix::process::chdir(c"/").context("/")?;
        forget(replace(&mut settings.source, Source::File(command.config)));
        log::follow(&settings)?;
        if let Some(log_level) = command.log_level {
            log::set_detail(log_level)?;
        }
        let pages = Pages { qos, failed_logons, watches };
        let inherited = Some(Inherited { tables, pages, prepared, mounts, path_rules });
        let clock = command.clock;
        let start = WorkerStart { settings, server_id, clock, control, inherited, logon_slot };
        Ok(Box::new(start))
    }
}
