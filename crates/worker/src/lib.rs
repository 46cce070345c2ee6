//! One client's process: the protocol engine between sockets, files, tables and messages.
//!
//! `event_loop` is the only place that waits. Everything else answers at once: a completion goes
//! into the engine, the engine's questions go to the store, the tables and the messages, and its
//! frames go out, all in one turn of the loop.

#![forbid(unsafe_code)]

mod administration;
mod arrival;
mod asked_logons;
mod asked_sessions;
mod audit;
mod channel_report;
mod clocks;
mod confirmations;
mod connection;
mod domain_ids;
mod effects;
mod event_loop;
mod framing;
mod inherited;
mod kept_offer;
mod kernel_leases;
mod lanes;
mod listings;
mod local_storage;
mod logon_slot;
mod logons;
mod messages;
mod notices;
mod orders;
mod own_names;
mod passing;
mod path_rules;
mod piping;
mod server_guid;
mod share_commands;
mod share_opening;
mod shells;
mod slow_storage;
mod storage;
mod storage_commands;
mod storage_placement;
mod storage_threads;
mod store_request;
mod tables;
mod traced;
mod traversing;
mod turn;
mod unreached_shares;
mod watches;

use std::convert::Infallible;

use dtyp::ServerId;
use process::control::WorkerEnd;
use settings::Settings;
use trace::Clock;

use event_loop::Worker;
pub use event_loop::ring_error;
pub use inherited::{Inherited, Pages, Prepared};
pub use logon_slot::LogonSlot;
pub use messages::notify_file_changed;
pub use path_rules::{PathRules, all_paths_reason};
pub use storage_threads::mounts::KeptMounts;
pub use tables::Tables;

/// Serves one client, and ends this process.
///
/// # Errors
/// The server cannot be joined, or the supervisor is gone.
pub fn serve(start: Box<WorkerStart>) -> anyhow::Result<Infallible> {
    let mut worker = Worker::prepare(start)?;
    let result = worker.run();
    worker.end();
    process::exit_at_once(result?)
}

/// Values that a worker starts with.
#[derive(Debug)]
pub struct WorkerStart {
    /// Configuration in effect at the start.
    pub settings: Settings,
    /// Our process id in the tables.
    pub server_id: ServerId,
    /// By what it measures time.
    pub clock: Clock,
    /// Our end of the control socket.
    pub control: WorkerEnd,
    /// Values that the supervisor had, if this process is a fork of it.
    pub inherited: Option<Inherited>,
    /// Its slot in the page of logons, if it serves clients.
    pub logon_slot: Option<LogonSlot>,
}

impl WorkerStart {
    /// Those of an exec'ed worker, which opens the tables itself.
    ///
    /// # Errors
    /// The page of logons cannot be opened.
    pub fn join(start: process::arguments::Start) -> anyhow::Result<Self> {
        let process::arguments::Start { settings, server_id, clock, control, logon_slot } = start;
        let join = |slot| LogonSlot::join(&settings.directories.lock, slot);
        let logon_slot = logon_slot.map(join).transpose()?;
        Ok(Self { settings, server_id, clock, control, inherited: None, logon_slot })
    }
}
