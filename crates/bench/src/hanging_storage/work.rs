//! The work beside a storage that hangs: small files, and ECHOs at regular times.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use dtyp::utf16;
use serde::Serialize;
use wire::echo::EchoRequest;
use wire::{Command, FileId};

use crate::client::requests::{
    Purpose, created, push_close, push_create, push_read, push_write, verify_read,
};
use crate::client::{Client, Reply, Slot};

/// Files that are under way at once.
const FILES: usize = 1;

/// Bytes of each of the files.
const FILE_BYTES: usize = 4096;

/// Slot of the requests of ECHO.
const ECHO: Slot = Slot(FILES);

/// Time from one ECHO to the next.
const ECHO_INTERVAL: Duration = Duration::from_millis(10);

/// Length of the slices of time whose rates are compared.
const SLICE: Duration = Duration::from_secs(1);

/// Progress of each of the files.
#[derive(Debug)]
pub(super) struct Work {
    /// Begin of the names of the files.
    name: &'static str,
    files: [Progress; FILES],
}

/// Last request for a file.
#[derive(Clone, Copy, Debug)]
enum Progress {
    Create,
    Write(FileId),
    Read(FileId),
    Close,
}

/// Results of some time of work.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// Files a second in each slice of time.
    pub(super) rates: Vec<f64>,
    /// Response times of all requests of ECHO.
    pub(super) echoes: Vec<Duration>,
}

/// Response times of ECHO, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Echoes {
    /// Half of the responses took no longer.
    pub median: f64,
    /// Of 100 responses, 99 took no longer.
    pub p99: f64,
    /// The slowest response took as long.
    pub max: f64,
}

impl Work {
    /// Gathers the credits for it.
    ///
    /// # Errors
    ///
    /// The server does not grant them.
    pub(super) fn prepare(client: &mut Client, name: &'static str) -> Result<Self> {
        client.gather_credits(2 * FILES + 8, FILE_BYTES)?;
        Ok(Self { name, files: [Progress::Close; FILES] })
    }

    /// Works for this time.
    ///
    /// # Errors
    ///
    /// A request is refused, or the connection breaks.
    pub(super) fn run(
        &mut self,
        client: &mut Client,
        start: Instant,
        duration: Duration,
    ) -> Result<Measured> {
        let before = client.in_flight();
        let mut measured = Measured::default();
        let (end, slice) = (start + duration, SLICE.min(duration));
        let slices = duration.as_nanos().div_ceil(slice.as_nanos());
        let mut files = vec![0_u32; usize::try_from(slices).unwrap_or(1)];
        let (mut next_echo, mut echo) = (start, None);
        for at in 0..FILES {
            self.begin(client, at)?;
        }
        // Also what is under way at the end is waited for, except the request that hangs.
        while client.in_flight() > before {
            let now = Instant::now();
            if echo.is_none() && now >= next_echo && now < end {
                client.push(Command::ECHO, 0, &EchoRequest);
                client.flush(ECHO)?;
                echo = Some(now);
                next_echo = now + ECHO_INTERVAL;
            }
            let reply = client.receive()?;
            if reply.slot == ECHO {
                let sent: Instant = echo.take().context("no ECHO was sent")?;
                measured.echoes.push(sent.elapsed());
                continue;
            }
            if self.resume(client, &reply)? {
                let now = Instant::now();
                let at = (now - start).as_nanos() / slice.as_nanos();
                if let Some(files) = usize::try_from(at).ok().and_then(|at| files.get_mut(at)) {
                    *files += 1;
                }
                if now < end {
                    self.begin(client, reply.slot.0)?;
                }
            }
        }
        measured.rates = files.iter().map(|it| f64::from(*it) / slice.as_secs_f64()).collect();
        Ok(measured)
    }

    fn begin(&mut self, client: &mut Client, at: usize) -> Result<()> {
        push_create(client, Purpose::NewFile, &utf16::to_bytes(&format!("{}{at}", self.name)));
        self.files[at] = Progress::Create;
        client.flush(Slot(at))
    }

    /// Sends the next request for a file. True if there was none.
    fn resume(&mut self, client: &mut Client, reply: &Reply) -> Result<bool> {
        let at = reply.slot.0;
        let reply = reply.clone().succeeded()?;
        self.files[at] = match self.files[at] {
            Progress::Create => {
                let file = created(client, &reply)?;
                push_write(client, file, 0, &[b'x'; FILE_BYTES]);
                Progress::Write(file)
            }
            Progress::Write(file) => {
                push_read(client, file, 0, FILE_BYTES);
                Progress::Read(file)
            }
            Progress::Read(file) => {
                verify_read(client, &reply, FILE_BYTES)?;
                push_close(client, file);
                Progress::Close
            }
            Progress::Close => return Ok(true),
        };
        client.flush(reply.slot)?;
        Ok(false)
    }
}

impl Echoes {
    /// # Errors
    ///
    /// There was no ECHO.
    pub(super) fn of(times: &mut [Duration]) -> Result<Self> {
        times.sort_unstable();
        let last = times.len().checked_sub(1).context("no ECHO was answered")?;
        let [median, p99, max] = [last / 2, last * 99 / 100, last];
        let ms = |at: usize| times[at].as_secs_f64() * 1e3;
        Ok(Self { median: ms(median), p99: ms(p99), max: ms(max) })
    }
}
