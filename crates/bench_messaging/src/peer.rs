//! One of the processes between which messages are measured.
//!
//! It prints `ready` on standard output once it can receive. The answering process runs until it is
//! ended; the asking one begins with a line on standard input, and prints a line of JSON,
//! [`Outcome`], when its time is over and all pings are answered.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use dtyp::ServerId;
use messaging::transport::Settings;
use messaging::{Content, MessageKind, Messaging, SendError, TransportKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::TDB_WITHOUT_MMAP;
use super::bare::BareSocket;
use super::histogram::Histogram;
use super::stopped_peer::roles;

/// Options of one of the processes.
#[derive(Args, Clone, Debug)]
pub struct PeerOptions {
    /// Whether it asks or answers.
    #[arg(long)]
    pub role: Role,
    /// Name of the transport, or `bare`.
    #[arg(long)]
    pub carrier: String,
    /// Lock directory of the transport.
    #[arg(long)]
    pub directory: PathBuf,
    /// Unique id of this process.
    #[arg(long)]
    pub unique_id: u64,
    /// Answering processes: pid and unique id. The load has several, of which the last is stopped.
    #[arg(long, num_args = 2)]
    pub to: Vec<u64>,
    /// Sizes of the pings in bytes.
    #[arg(long)]
    pub size: Vec<usize>,
    /// Pings that may be unanswered.
    #[arg(long, default_value_t = 1)]
    pub outstanding: usize,
    /// Duration of the pings in milliseconds.
    #[arg(long, default_value_t = 0)]
    pub milliseconds: u64,
}

/// Roles of a process in a measurement.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Role {
    /// Answers each ping with the same data.
    Answer,
    /// Sends pings and counts pongs.
    Ask,
    /// Sends pings to some, and whatever there is room for to one that is stopped.
    Load,
    /// Answers, and notes when something comes.
    Witness,
}

/// Results of the asking process.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Outcome {
    /// Pings that were sent, each of which was answered.
    pub pings: u64,
    /// From the first ping to the last pong.
    pub seconds: f64,
    /// Durations of the round trips.
    pub round_trips: Histogram,
}

/// Operations that a measurement needs of a transport.
pub(super) trait Wire {
    /// Sends a ping, or a pong; whether there was room.
    fn send(&mut self, now: Instant, is_ping: bool, data: &[u8]) -> Result<bool>;

    /// Takes a message that has come, and puts its data into `data`; whether there was one.
    fn receive(&mut self, now: Instant, data: &mut Vec<u8>) -> Result<bool>;

    /// Waits until there may be something to receive, or room where there was none.
    fn wait(&self, timeout: Duration) -> Result<()>;
}

/// Plays the role of the options.
///
/// # Errors
///
/// The transport cannot be opened, or loses a message.
pub fn run(options: &PeerOptions) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .context("cannot bind to the life of the one that measures")?;
    match options.role {
        Role::Answer => answer(open(options)?.as_mut()),
        Role::Ask => {
            let mut wire = open(options)?;
            let mut line = String::new();
            io::stdin().read_line(&mut line).context("waiting for the start")?;
            ensure!(!line.is_empty(), "there is no start");
            let outcome = ask(wire.as_mut(), options)?;
            say(&serde_json::to_string(&outcome)?)
        }
        Role::Load => roles::load(&mut join_as_named(options)?, options),
        Role::Witness => roles::witness(&mut join_as_named(options)?),
    }
}

/// Opens the transport, and prints `ready`.
fn open(options: &PeerOptions) -> Result<Box<dyn Wire>> {
    let wire: Box<dyn Wire> = match options.carrier.as_str() {
        "bare" => Box::new(BareSocket::open(options)?),
        TDB_WITHOUT_MMAP => {
            let settings = Settings { use_mmap: false, ..TransportKind::Tdb.into() };
            Box::new(Ours::open(options, settings)?)
        }
        name => Box::new(Ours::open(options, TransportKind::from_name(name)?.into())?),
    };
    say("ready")?;
    Ok(wire)
}

/// Opens one of our transports as it is, and says so.
fn join_as_named(options: &PeerOptions) -> Result<Messaging> {
    let messaging = join(options, TransportKind::from_name(&options.carrier)?.into())?;
    say("ready")?;
    Ok(messaging)
}

/// Says a line to the one that measures.
pub(super) fn say(line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

fn answer(wire: &mut dyn Wire) -> Result<()> {
    // Pongs without room; bounded by the number of unanswered pings of the only asking process.
    let mut waiting: VecDeque<Vec<u8>> = VecDeque::new();
    let mut data = Vec::new();
    loop {
        let now = Instant::now();
        while let Some(data) = waiting.front() {
            if !wire.send(now, false, data)? {
                break;
            }
            waiting.pop_front();
        }
        if !wire.receive(now, &mut data)? {
            wire.wait(PATIENCE)?;
        } else if !waiting.is_empty() || !wire.send(now, false, &data)? {
            waiting.push_back(std::mem::take(&mut data));
        }
    }
}

fn ask(wire: &mut dyn Wire, options: &PeerOptions) -> Result<Outcome> {
    let data = vec![b'x'; options.size.iter().copied().max().unwrap_or(0)];
    let mut sizes = options.size.iter().copied().cycle();
    let sizes_len = options.size.len().max(1);
    ensure!(options.outstanding >= sizes_len, "fewer outstanding than there are in a pair");
    let mut round_trips = Histogram::default();
    // Answers come in the order of the questions.
    let mut sent: VecDeque<(Instant, usize)> = VecDeque::with_capacity(options.outstanding);
    let mut next = sizes.next();
    let mut pong = Vec::new();
    let mut pings: u64 = 0;
    let begin = Instant::now();
    let end = begin + Duration::from_millis(options.milliseconds);
    loop {
        let mut now = Instant::now();
        // Send whole groups of pings, as long as there is room for all of a group.
        while (now < end && sent.len() + sizes_len <= options.outstanding)
            || !pings.is_multiple_of(u64::try_from(sizes_len)?)
        {
            let Some(size) = next else { bail!("there is nothing to send") };
            if !wire.send(now, true, &data[..size])? {
                break;
            }
            sent.push_back((now, size));
            pings += 1;
            next = sizes.next();
            now = Instant::now();
        }
        if sent.is_empty() && now >= end {
            break;
        }
        ensure!(now < end + PATIENCE, "{} of {pings} pings were not answered", sent.len());
        let mut has_come = false;
        while wire.receive(now, &mut pong)? {
            // Receiving may also send, and takes time.
            now = Instant::now();
            let (at, size) = sent.pop_front().context("a pong came that nobody waits for")?;
            ensure!(size == pong.len(), "a pong of {} bytes, not {size}", pong.len());
            let after = now.saturating_duration_since(at).as_nanos();
            round_trips.add(u64::try_from(after).unwrap_or(u64::MAX));
            has_come = true;
        }
        if !has_come {
            wire.wait(PATIENCE)?;
        }
    }
    Ok(Outcome { pings, seconds: begin.elapsed().as_secs_f64(), round_trips })
}

/// Longest wait for a pong. A later one counts as lost.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A transport of crate `messaging`, with everything that a process of the server adds.
struct Ours {
    messaging: Messaging,
    /// Receiver of the messages: the answering process, or the asking one.
    to: Option<ServerId>,
}

impl Ours {
    fn open(options: &PeerOptions, settings: Settings) -> Result<Self> {
        let to = match *options.to.as_slice() {
            [pid, unique_id] => Some(ServerId { pid: u32::try_from(pid)?, unique_id }),
            _ => None,
        };
        Ok(Self { messaging: join(options, settings)?, to })
    }
}

/// Joins those that meet in the lock directory.
fn join(options: &PeerOptions, settings: Settings) -> Result<Messaging> {
    let own = ServerId { pid: std::process::id(), unique_id: options.unique_id };
    Ok(Messaging::init(&options.directory, own, settings)?)
}

impl Wire for Ours {
    fn send(&mut self, now: Instant, is_ping: bool, data: &[u8]) -> Result<bool> {
        let kind = if is_ping { MessageKind::PING } else { MessageKind::PONG };
        let to = self.to.context("nobody has asked")?;
        match self.messaging.send(now, to, &Content::new(kind, data)) {
            Ok(()) => Ok(true),
            Err(SendError::Full) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn receive(&mut self, now: Instant, data: &mut Vec<u8>) -> Result<bool> {
        let Some(message) = self.messaging.poll(now) else { return Ok(false) };
        self.to.get_or_insert(message.sender);
        *data = message.data;
        Ok(true)
    }

    fn wait(&self, timeout: Duration) -> Result<()> {
        wait_for_messages(&self.messaging, timeout)
    }
}

/// Waits until there may be something to receive, or room.
pub(super) fn wait_for_messages(messaging: &Messaging, timeout: Duration) -> Result<()> {
    let next = messaging.next_timeout();
    let next = next.map(|at| at.saturating_duration_since(Instant::now()));
    let timeout = next.map_or(timeout, |next| next.min(timeout));
    let source = messaging.wake_source().context("there is nothing to wait for")?;
    wait_for(&mut [PollFd::new(&source, PollFlags::IN)], timeout)
}

/// Waits for one of the sources.
pub(super) fn wait_for(sources: &mut [PollFd<'_>], timeout: Duration) -> Result<()> {
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    match poll(sources, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("cannot wait for events"),
    }
}
