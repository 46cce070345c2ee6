//! Processes of the measurement: the sender, and its receivers.

use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use dtyp::ServerId;
use messaging::{Content, MessageKind, Messaging, SendError};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::peer::{PATIENCE, PeerOptions, say, wait_for_messages};

/// Part of the sender's work, read as a line on its standard input.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Half {
    /// Ping the living processes only.
    Without,
    /// Ask those that live, and send to the one that is stopped.
    With,
    /// The stopped process goes on: send it the queued messages.
    Afterwards,
}

impl Half {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Without => "without",
            Self::With => "with",
            Self::Afterwards => "afterwards",
        }
    }
}

/// Results of the sender, as JSON.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Loaded {
    /// Number of pings that were answered.
    pub(crate) pings: u64,
    pub(crate) seconds: f64,
    /// Number of messages accepted for the stopped process.
    pub(crate) accepted: u64,
    /// Messages for it that were not.
    pub(crate) refused: u64,
    pub(crate) dropped: u64,
    pub(crate) queued_max: u64,
    pub(crate) queued_bytes_max: u64,
    /// Processor time from one wait to the next.
    pub(crate) turn_max_us: f64,
    pub(crate) memory_peak_kib: u64,
}

/// Results of a receiver since the last request for them.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Witnessed {
    /// Between one ping and the next.
    pub(crate) gaps: Histogram,
    /// Number of messages without an answer: those to the stopped process.
    pub(crate) loads: u64,
}

/// Answers pings and notes when they come, until ended.
pub(crate) fn witness(messaging: &mut Messaging) -> Result<()> {
    let mut witnessed = Witnessed::default();
    let mut last: Option<Instant> = None;
    loop {
        let now = Instant::now();
        while let Some(message) = messaging.poll(now) {
            match message.kind {
                MessageKind::PING => {
                    let now = Instant::now();
                    if let Some(last) = last.replace(now) {
                        let gap = now.saturating_duration_since(last).as_nanos();
                        witnessed.gaps.add(u64::try_from(gap).unwrap_or(u64::MAX));
                    }
                    let pong = Content::new(MessageKind::PONG, &message.data);
                    // No more are unanswered than there is room for in any transport's queue.
                    messaging.send(now, message.sender, &pong).context("answering")?;
                }
                MessageKind::COUNT_MESSAGES => {
                    say(&serde_json::to_string(&std::mem::take(&mut witnessed))?)?;
                    last = None;
                }
                _ => witnessed.loads += 1,
            }
        }
        wait_for_messages(messaging, PATIENCE)?;
    }
}

/// One that is asked, and how many pings it has not answered.
struct Living {
    id: ServerId,
    unanswered: usize,
}

/// Executes the lines on standard input, and prints the results of each.
pub(crate) fn load(messaging: &mut Messaging, options: &PeerOptions) -> Result<()> {
    let ids = options.to.chunks_exact(2);
    let ids = ids.map(|it| Ok(ServerId { pid: u32::try_from(it[0])?, unique_id: it[1] }));
    let mut ids: Vec<ServerId> = ids.collect::<Result<_>>()?;
    let stopped = ids.pop().context("nobody is there to be stopped")?;
    let mut living: Vec<Living> = ids.into_iter().map(|id| Living { id, unanswered: 0 }).collect();
    let time = Duration::from_millis(options.milliseconds);
    for line in io::stdin().lines() {
        let line = line.context("what to do")?;
        let halves = [Half::Without, Half::With, Half::Afterwards];
        let half = halves.into_iter().find(|half| half.word() == line);
        let loaded = match half.with_context(|| format!("what is {line:?}?"))? {
            Half::Without => ask(messaging, &mut living, None, time)?,
            Half::With => ask(messaging, &mut living, Some(stopped), time)?,
            Half::Afterwards => drain(messaging, stopped)?,
        };
        say(&serde_json::to_string(&loaded)?)?;
    }
    Ok(())
}

/// Pings the living processes as fast as they answer, and fills the stopped one's queue; with one
/// message per turn, to leave time for the pings.
fn ask(
    messaging: &mut Messaging,
    living: &mut [Living],
    stopped: Option<ServerId>,
    time: Duration,
) -> Result<Loaded> {
    let ping = Content::new(MessageKind::PING, &[b'x'; PING_BYTES]);
    let load_data = vec![b'x'; LOAD_BYTES];
    let load = Content::new(MessageKind::ANNOUNCE, &load_data);
    let mut loaded = Loaded::default();
    let begin = Instant::now();
    let mut turn_begin = processor_time();
    loop {
        let now = Instant::now();
        let is_over = now >= begin + time;
        for peer in &mut *living {
            while !is_over && peer.unanswered < UNANSWERED_MAX {
                messaging.send(now, peer.id, &ping).context("asking one that lives")?;
                peer.unanswered += 1;
            }
        }
        if let (Some(stopped), false) = (stopped, is_over) {
            match messaging.send(now, stopped, &load) {
                Ok(()) => loaded.accepted += 1,
                Err(SendError::Full) => loaded.refused += 1,
                Err(error) => return Err(error).context("sending to the one that is stopped"),
            }
        }
        let mut count = 0;
        while count < MESSAGES_PER_TURN_MAX
            && let Some(message) = messaging.poll(now)
        {
            let peer = living.iter_mut().find(|peer| peer.id == message.sender);
            peer.context("an answer of somebody else")?.unanswered -= 1;
            count += 1;
        }
        loaded.pings += count;
        let counters = messaging.counters();
        loaded.queued_max = loaded.queued_max.max(counters.queued);
        loaded.queued_bytes_max = loaded.queued_bytes_max.max(counters.queued_bytes);
        let unanswered: usize = living.iter().map(|peer| peer.unanswered).sum();
        if is_over && unanswered == 0 {
            break;
        }
        ensure!(now < begin + time + PATIENCE, "{unanswered} pings were not answered");
        let turn_end = processor_time();
        loaded.turn_max_us = loaded.turn_max_us.max((turn_end - turn_begin).as_secs_f64() * 1e6);
        turn_begin = turn_end;
        if count == 0 {
            wait_for_messages(messaging, PATIENCE)?;
        }
    }
    loaded.seconds = begin.elapsed().as_secs_f64();
    for peer in living {
        ask_received_count(messaging, peer.id)?;
    }
    loaded.dropped = messaging.counters().dropped;
    loaded.memory_peak_kib = memory_peak_kib()?;
    Ok(loaded)
}

/// Sends the messages queued for the stopped process.
fn drain(messaging: &mut Messaging, to: ServerId) -> Result<Loaded> {
    leave(messaging, 0)?;
    ask_received_count(messaging, to)?;
    Ok(Loaded { dropped: messaging.counters().dropped, ..Loaded::default() })
}

fn ask_received_count(messaging: &mut Messaging, of: ServerId) -> Result<()> {
    let waiting = messaging.counters().queued;
    let question = Content::new(MessageKind::COUNT_MESSAGES, &[]);
    messaging.send(Instant::now(), of, &question).context("asking what was seen")?;
    messaging.flush(Instant::now());
    leave(messaging, waiting)
}

/// Waits until at most `waiting` messages are queued.
fn leave(messaging: &mut Messaging, waiting: u64) -> Result<()> {
    let begin = Instant::now();
    while messaging.counters().queued > waiting {
        ensure!(begin.elapsed() < PATIENCE, "what waits for room does not leave");
        wait_for_messages(messaging, PATIENCE)?;
        messaging.flush(Instant::now());
    }
    Ok(())
}

/// Processor time of this thread so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The most memory that this process has had.
fn memory_peak_kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB")).context("no VmHWM")?;
    peak.trim().parse().context("VmHWM")
}

/// Number of bytes of a ping.
const PING_BYTES: usize = 11;

/// Pings that one may have unanswered, as in the other measurements.
const UNANSWERED_MAX: usize = 20;

/// Bytes of a message to the stopped process: enough to reach the limit of bytes, not only that of
/// messages.
const LOAD_BYTES: usize = 16 * 1024;

/// Answers that are taken in one turn.
const MESSAGES_PER_TURN_MAX: u64 = 64;
