//! Rate of an unlimited requester beside a limited one: the shares and files of one connection, its
//! users, and the clients of a share.
//!
//! The limited one has 4 MiB/s and is saturated with requests.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::Serialize;
use wire::FileId;

use super::{BLOCK_BYTES, OTHER, Work, mebibytes};
use crate::client::requests::{Purpose, open, push_read, verify_read};
use crate::client::{Client, Destination, Protection, Slot};
use crate::load::fixture::{self, STREAM};
use crate::load::stream::{Direction, Stream};
use crate::server::Server;
use crate::statistics::Summary;
use crate::table::Table;

/// The slow share, and the slow user.
const SLOW: &str = "slow";

/// Limit of the slow requester, in bytes per second.
const SLOW_LIMIT: u64 = 4 << 20;

/// Address of the slow client.
const SLOW_CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Requests in flight, of the fast one and of the slow one.
const DEPTH: usize = 8;

/// Results of all cases of limits.
#[derive(Debug, Serialize)]
pub(super) struct Besides {
    rows: Vec<Beside>,
}

#[derive(Debug, Serialize)]
struct Beside {
    what: &'static str,
    /// Rate of the fast requester alone, in MiB/s.
    alone: Summary,
    /// Rate of the fast requester beside the slow one, relative to `alone`.
    of_alone: Summary,
    /// Rate of the slow requester meanwhile, relative to its limit.
    slow_of_limit: Summary,
}

pub(super) fn measure(work: &mut Work<'_>) -> Result<Besides> {
    let slow_share = work.place().join(SLOW);
    fs::create_dir_all(&slow_share)?;
    fixture::stream(&slow_share, work.options.scale())?;
    let user = rustix::process::geteuid().as_raw();
    let user = if user == 0 { "guest account = root\n" } else { "" };
    let server = work.start(&format!(
        "{user}[qos:share]\nmatch = share {SLOW}, client 127.0.0.1\nmax bandwidth = {SLOW_LIMIT}\n\
         [qos:file]\nmatch = file {OTHER}\nmax bandwidth = {SLOW_LIMIT}\n\
         [qos:user]\nmatch = user {SLOW}\nmax bandwidth = {SLOW_LIMIT}\n\
         [qos:client]\nmatch = client {SLOW_CLIENT}\nmax bandwidth = {SLOW_LIMIT}\n\
         [{SLOW}]\npath = {}\nread only = no\n",
        slow_share.display()
    ))?;
    let slow = Destination { share: SLOW.into(), ..server.destination().clone() };
    let slow_user = server.add_user(&work.choro, SLOW)?;
    let mut rows = Vec::new();
    for (what, slow) in [
        ("a share, beside another of the same connection", Slow::Share(&slow)),
        ("a file, beside another of the same share and connection", Slow::File),
        ("a user, beside another of the same connection", Slow::User(&slow_user)),
        ("a client, beside another of the same share", Slow::Client),
    ] {
        work.say(what)?;
        rows.push(beside(work, &server, what, slow)?);
    }
    Ok(Besides { rows })
}

/// Cases: the subject of the limit.
#[derive(Clone, Copy)]
enum Slow<'a> {
    Share(&'a Destination),
    File,
    User(&'a Destination),
    Client,
}

fn beside(work: &Work<'_>, server: &Server, what: &'static str, slow: Slow<'_>) -> Result<Beside> {
    let mut client = server.connect(Protection::Plain)?;
    let fast = source(&mut client, STREAM)?;
    let slow = match slow {
        Slow::Share(share) => {
            client.tree_connect(share)?;
            Some(source(&mut client, STREAM)?)
        }
        Slow::File => Some(source(&mut client, OTHER)?),
        Slow::User(user) => {
            client.log_in(user)?;
            Some(source(&mut client, STREAM)?)
        }
        Slow::Client => None,
    };
    client.gather_credits(4 * DEPTH, BLOCK_BYTES)?;
    let [alone, of_alone, slow_of_limit] = work.repeat(|| {
        let [alone, _] = mixed(work, &mut client, &[fast])?;
        let [beside, slow] = match slow {
            Some(slow) => mixed(work, &mut client, &[fast, slow])?,
            None => beside_client(work, server, &mut client, fast)?,
        };
        Ok([alone, beside / alone, slow / mebibytes(SLOW_LIMIT)])
    })?;
    Ok(Beside { what, alone, of_alone, slow_of_limit })
}

/// As [`mixed`], where the slow one is a client of its own.
fn beside_client(
    work: &Work<'_>,
    server: &Server,
    client: &mut Client,
    fast: Source,
) -> Result<[f64; 2]> {
    let (is_over, had) = (AtomicBool::new(false), AtomicU64::new(0));
    let slow = server.connect_from(SLOW_CLIENT, Protection::Plain)?;
    let what = (Direction::Read, BLOCK_BYTES, DEPTH);
    let mut slow = Stream::by(slow, STREAM, work.options.scale(), what)?;
    thread::scope(|scope| {
        let slow = scope.spawn(|| slow.read_until(&is_over, &had));
        let (start, before) = (Instant::now(), had.load(Ordering::Relaxed));
        let fast = mixed(work, client, &[fast]);
        let seconds = start.elapsed().as_secs_f64();
        let after = had.load(Ordering::Relaxed);
        is_over.store(true, Ordering::Relaxed);
        slow.join().expect("a client panicked")?;
        Ok([fast?[0], mebibytes(after - before) / seconds])
    })
}

/// A file that is read, by its session and tree connect.
#[derive(Clone, Copy)]
struct Source {
    session_id: u64,
    tree_id: u32,
    file_id: FileId,
}

fn source(client: &mut Client, name: &str) -> Result<Source> {
    let file_id = open(client, Purpose::Open, name).with_context(|| name.to_owned())?;
    let (session_id, tree_id) = (client.session_id(), client.tree_connect_id());
    Ok(Source { session_id, tree_id, file_id })
}

/// Reads from all sources at once, with the same number of requests in flight of each, and returns
/// the rate of each in MiB/s.
fn mixed(work: &Work<'_>, client: &mut Client, sources: &[Source]) -> Result<[f64; 2]> {
    let mut bytes = [0_u64; 2];
    let mut offset = 0;
    let mut ask = |client: &mut Client, at: usize| {
        let Source { session_id, tree_id, file_id } = sources[at];
        client.use_session(session_id);
        client.use_tree_connect(tree_id);
        push_read(client, file_id, offset, BLOCK_BYTES);
        offset = (offset + BLOCK_BYTES as u64) % work.options.scale().stream_bytes;
        client.flush(Slot(at))
    };
    for at in 0..sources.len() {
        for _ in 0..DEPTH {
            ask(client, at)?;
        }
    }
    let (start, duration) = (Instant::now(), work.options.duration());
    let mut took = None;
    while client.in_flight() > 0 {
        let reply = client.receive()?;
        verify_read(client, &reply, BLOCK_BYTES)?;
        let elapsed: Duration = start.elapsed();
        if elapsed >= duration {
            took.get_or_insert(elapsed);
            continue;
        }
        bytes[reply.slot.0] += BLOCK_BYTES as u64;
        ask(client, reply.slot.0)?;
    }
    let seconds = took.unwrap_or(duration).as_secs_f64();
    Ok(bytes.map(|bytes| mebibytes(bytes) / seconds))
}

impl Besides {
    pub(super) fn to_markdown(&self) -> String {
        let titles =
            ["what is limited", "fast alone, MiB/s", "beside it, of that", "slow, of its limit"];
        let mut table = Table::new(titles);
        for Beside { what, alone, of_alone, slow_of_limit } in &self.rows {
            table.push(vec![
                (*what).to_owned(),
                alone.spread(),
                of_alone.spread_of_parts(),
                slow_of_limit.spread_of_parts(),
            ]);
        }
        format!(
            "What is fast beside what may have 4 MiB/s and is saturated with requests, READs of \
             64 KiB, {DEPTH} of each in flight:\n\n{}",
            table.to_markdown()
        )
    }
}
