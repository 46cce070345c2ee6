//! What `notifyd`, `logond`, `auditd` and `commandd` have in common: a part in the server's
//! messages, and the orders of the supervisor.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use confinement::{Place, ProcessKind};
use messaging::Messaging;
use settings::Settings;
use settings::messaging_settings::messaging_settings;
use tracing::{debug, error, warn};

use crate::arguments::Start;
use crate::confining::{confine, give_up_capabilities, keep_to, ruleset_with};
use crate::control::{Received, ToSupervisor, ToWorker, WorkerEnd};
use crate::event_set::EventSet;
use crate::log;

/// A process of the server that serves workers, not clients.
#[derive(Debug)]
pub struct HelperProcess {
    name: &'static str,
    /// Kind that it is confined as; `None` if it keeps all rights.
    kind: Option<ProcessKind>,
    /// Configuration that is in effect now.
    pub settings: Settings,
    /// Its part in the server's messages.
    pub messaging: Messaging,
    /// Sources that it waits for. Tokens below [`Self::FIRST_TOKEN`] are taken.
    pub events: EventSet<u64>,
    control: WorkerEnd,
    /// Orders of the supervisor may be there.
    has_orders: bool,
}

/// An order of the supervisor that the process must carry out itself.
#[derive(Debug)]
pub enum Order {
    /// End: the supervisor says so, is gone, or has sent something that cannot be read.
    End,
    /// Serve those who connect to this socket.
    Listen(OwnedFd),
    /// Follow [`HelperProcess::settings`], which have just replaced these.
    Reloaded(Box<Settings>),
}

impl HelperProcess {
    /// Lowest token for sources of the process's own.
    pub const FIRST_TOKEN: u64 = 2;

    const MESSAGES: u64 = 0;
    const CONTROL: u64 = 1;

    /// Joins the messages of the server, with the capabilities that such a process needs.
    ///
    /// # Errors
    /// The server cannot be joined.
    pub fn join(kind: ProcessKind, start: Start) -> anyhow::Result<Self> {
        give_up_capabilities(&start.settings, kind);
        Self::begin(kind.name(), Some(kind), start)
    }

    /// Joins the messages of the server, and keeps all rights. `name` is for the log.
    ///
    /// # Errors
    /// The server cannot be joined.
    pub fn join_with_all_rights(name: &'static str, start: Start) -> anyhow::Result<Self> {
        Self::begin(name, None, start)
    }

    fn begin(name: &'static str, kind: Option<ProcessKind>, start: Start) -> anyhow::Result<Self> {
        let Start { settings, server_id, control, .. } = start;
        let how = messaging_settings(&settings.config.global)?;
        let messaging = Messaging::init(&settings.directories.lock, server_id, how)
            .context("cannot join the server's messages")?;
        let events = EventSet::new().context("cannot create the event loop")?;
        if let Some(wake) = messaging.wake_source() {
            events.add(wake, Self::MESSAGES).context("cannot poll messages")?;
        }
        events.add(&control, Self::CONTROL).context("cannot poll the supervisor")?;
        Ok(Self { name, kind, settings, messaging, events, control, has_orders: false })
    }

    /// Tells the supervisor that workers can use the process, which is set up: from now on it makes
    /// no system calls but those of its list, and opens nothing but the server's files and these.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn report_ready(&self, places: &[(Place, PathBuf)]) -> anyhow::Result<()> {
        if let Some(kind) = self.kind {
            let lock = (Place::LockDirectory, self.settings.directories.lock.clone());
            let places: Vec<_> = places.iter().cloned().chain([lock]).collect();
            let ruleset = ruleset_with(&self.settings, kind, &places);
            keep_to(ruleset.as_ref(), kind);
            confine(&self.settings, kind, &self.control);
        }
        let unique_id = self.messaging.server_id().unique_id;
        self.control.send(ToSupervisor::Ready { unique_id }).context("the supervisor is gone")
    }

    /// Waits for a source of the set, for a timeout of the messages, or until one of these times.
    /// Returns the tokens of the process's own sources that are ready.
    ///
    /// # Errors
    /// The kernel cannot wait.
    pub fn wait(&mut self, until: impl IntoIterator<Item = Instant>) -> anyhow::Result<Vec<u64>> {
        let next = self.messaging.next_timeout().into_iter().chain(until).min();
        let now = Instant::now();
        let timeout = next.map(|at| at.saturating_duration_since(now));
        let mut ready = self.events.wait(timeout).context("cannot wait for events")?;
        self.has_orders |= ready.contains(&Self::CONTROL);
        ready.retain(|token| *token >= Self::FIRST_TOKEN);
        Ok(ready)
    }

    /// Returns the next order of the supervisor that is there; carries out what all processes do
    /// alike.
    pub fn next_order(&mut self) -> Option<Order> {
        while self.has_orders {
            match self.control.receive() {
                Ok(Received::Nothing) => self.has_orders = false,
                Ok(Received::Closed | Received::Message(ToWorker::Shutdown)) => {
                    return Some(Order::End);
                }
                Ok(Received::Message(ToWorker::Reload { .. })) => {
                    if let Some(before) = self.reload() {
                        return Some(Order::Reloaded(Box::new(before)));
                    }
                }
                Ok(Received::Message(ToWorker::Connection(socket))) => {
                    return Some(Order::Listen(socket));
                }
                Ok(Received::Message(ToWorker::Log(file))) => log::continue_in(file),
                Ok(Received::Message(message)) => debug!("{message:?} is not for {}", self.name),
                Err(error) => {
                    // It may have been a socket that is to be served, for which no descriptor was
                    // left. Its clients would wait for nobody; a successor gets another one.
                    error!("{} cannot read messages of the supervisor: {error}", self.name);
                    return Some(Order::End);
                }
            }
        }
        None
    }

    /// Takes the new configuration; returns the one before it, unless the new one is invalid.
    fn reload(&mut self) -> Option<Settings> {
        match Settings::load(self.settings.source.clone()) {
            Ok(settings) => {
                if let Err(error) = log::follow_without_file(&settings) {
                    warn!("cannot change the log: {error:#}");
                }
                Some(std::mem::replace(&mut self.settings, settings))
            }
            Err(error) => {
                warn!("the old configuration stays in effect: {error:#}");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dtyp::ServerId;
    use rustix::net::{SendFlags, send};
    use settings::{Settings, Source};

    use super::{HelperProcess, Order};
    use crate::arguments::Start;
    use crate::control;

    #[test]
    fn a_process_that_may_have_missed_a_socket_ends_for_a_successor_that_gets_another_one() {
        let folder = tempfile::tempdir().expect("there is space");
        let path = folder.path().join("choro.conf");
        let lock = folder.path().display();
        std::fs::write(&path, format!("[global]\nlock directory = {lock}\n")).expect("space");
        let settings = Settings::load(Source::File(path)).expect("it can be served");
        let (supervisor_end, control) = control::pair().expect("descriptors are left");
        let (server_id, clock) = (ServerId::default(), trace::Clock::of_kernel());
        let start = Start { settings, server_id, clock, control, logon_slot: None };
        let mut process = HelperProcess::join_with_all_rights("helper", start).expect("it joins");
        send(&supervisor_end, &[0xff; 24], SendFlags::empty()).expect("there is room");
        process.wait([]).expect("something is there");
        assert!(matches!(process.next_order(), Some(Order::End)));
    }
}
