//! `auditd`: the process that writes the records of audits.
//!
//! Workers send their records by messages and never wait. Only this process waits for the disk, so
//! no client does: while it cannot write, messages wait in the queues of the workers, which are
//! bounded. What has no room there is lost, and counted in the file as soon as it can be written.

#![forbid(unsafe_code)]

mod outputs;
mod record_file;
mod senders;
mod socket;

use std::time::Instant;

use anyhow::Context;
use confinement::{Place, ProcessKind};
use messaging::{AuditEntries, Message, MessageKind};
use process::arguments::Start;
use process::{HelperProcess, Order, administration};
use tables::{SingleProcess, announce};
use tracing::warn;

use outputs::Outputs;
use senders::Senders;

/// Highest number of messages to take before their records are written.
const MESSAGES_PER_TURN_MAX: usize = 256;

/// State of the process `auditd`.
#[derive(Debug)]
pub struct Auditd {
    process: HelperProcess,
    senders: Senders,
    outputs: Outputs,
}

impl Auditd {
    /// Joins the messages of the server.
    ///
    /// # Errors
    /// The server cannot be joined.
    pub fn prepare(start: Start) -> anyhow::Result<Self> {
        let process = HelperProcess::join(ProcessKind::Auditd, start)?;
        let outputs = Outputs::new(process.settings.config.audit_outputs());
        Ok(Self { process, senders: Senders::default(), outputs })
    }

    /// Serves until the supervisor ends it, and then writes what has come.
    ///
    /// # Errors
    /// The supervisor is gone, or workers cannot be told of this process.
    pub fn run(&mut self) -> anyhow::Result<()> {
        let server_id = self.process.messaging.server_id();
        announce(&self.process.settings.directories.lock, SingleProcess::Auditd, server_id)
            .context("cannot tell workers of this process")?;
        let records = self.outputs.folder().map(|it| (Place::AuditRecords, it.to_owned()));
        self.process.report_ready(records.as_slice())?;
        loop {
            self.process.wait(self.outputs.retry_at())?;
            let is_ending = self.follow_orders();
            while self.take_messages() && is_ending {}
            self.process.messaging.flush(Instant::now());
            if is_ending {
                return Ok(());
            }
        }
    }

    /// Carries out the supervisor's orders. Returns true if this process must end.
    fn follow_orders(&mut self) -> bool {
        while let Some(order) = self.process.next_order() {
            match order {
                Order::End => return true,
                Order::Listen(_) => {}
                Order::Reloaded(_) => {
                    let outputs = self.process.settings.config.audit_outputs();
                    // This process may not write to another directory; its successor may.
                    if outputs.file.as_ref().and_then(|it| it.parent()) != self.outputs.folder() {
                        return true;
                    }
                    self.outputs.follow(outputs);
                }
            }
        }
        false
    }

    /// Takes messages and writes their records. Returns whether there were any.
    fn take_messages(&mut self) -> bool {
        let mut count = 0;
        while count < MESSAGES_PER_TURN_MAX
            && !self.outputs.is_full()
            && let Some(message) = self.process.messaging.poll(Instant::now())
        {
            self.take(&message);
            count += 1;
        }
        self.outputs.write(Instant::now());
        count > 0
    }

    fn take(&mut self, message: &Message) {
        if message.kind != MessageKind::AUDIT {
            administration::read(&mut self.process.messaging, message);
            return;
        }
        let Some(AuditEntries { first, entries }) = AuditEntries::decode(&message.data) else {
            return warn!("{:?} sent records that cannot be read", message.sender);
        };
        let messaging = &mut self.process.messaging;
        let living = || {
            let listed = messaging.members();
            listed.inspect_err(|error| warn!("cannot list the living workers: {error}")).ok()
        };
        let lost = self.senders.take(message.sender, (first, entries.len()), living);
        if lost > 0 {
            self.outputs.lost(lost, Some(message.sender.pid));
        }
        entries.into_iter().for_each(|entry| self.outputs.take(entry));
    }
}
