//! The traced workers, from the first read of their pages to the last.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::bail;
use trace::{Figures, PageError, Reader};

use super::system_calls::{self, SystemCalls};
use super::target::Target;
use crate::observation::{first_workers, live_workers, no_such_worker};

/// Unit of times in /proc: `USER_HZ`, the same on all supported machines.
const TICKS_PER_SECOND: u64 = 100;

/// The traced workers and their counts.
#[derive(Debug)]
pub(super) struct Watched {
    lock_dir: PathBuf,
    target: Target,
    workers: Vec<Worker>,
    /// Workers whose refusal was reported already.
    refused: Vec<(u32, u64)>,
    from_start: bool,
    /// System calls, or the reason why the kernel counts none; `None` if nobody wants them.
    system_calls: Option<Result<SystemCalls, String>>,
}

/// A traced worker with its counts.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) pid: u32,
    unique_id: u64,
    reader: Reader,
    /// Counts at the start of the report.
    first: Figures,
    last: Figures,
    /// Counts at the start of the interval.
    interval: Figures,
    first_processor: Processor,
    last_processor: Processor,
    has_ended: bool,
}

/// CPU time of a process, in milliseconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Processor {
    pub(super) user_ms: u64,
    pub(super) system_ms: u64,
}

impl Watched {
    /// Finds the workers to trace.
    ///
    /// # Errors
    /// There is none, or none may be traced.
    pub(super) fn begin(lock_dir: &Path, target: &Target) -> anyhow::Result<Self> {
        let mut watched = Self {
            lock_dir: lock_dir.to_owned(),
            target: target.clone(),
            workers: Vec::new(),
            refused: Vec::new(),
            from_start: true,
            system_calls: None,
        };
        if *target == Target::All {
            first_workers(lock_dir)?;
        }
        let found = watched.find()?;
        let mut refusal = None;
        for (pid, unique_id) in found {
            if let Err(error) = watched.open(pid, unique_id) {
                refusal = Some((pid, error));
            }
        }
        watched.from_start = false;
        for worker in &mut watched.workers {
            (worker.first, worker.interval) = (worker.last.clone(), worker.last.clone());
            worker.first_processor = worker.last_processor;
        }
        if !watched.workers.is_empty() {
            return Ok(watched);
        }
        match (refusal, target) {
            (Some((pid, error)), _) => bail!("worker {pid} cannot be traced: {error}"),
            (None, Target::Pid(pid)) => bail!(no_such_worker(*pid)),
            (None, Target::Client(address)) => bail!("no worker serves a client at {address}"),
            (None, Target::All) => bail!("all workers have ended"),
        }
    }

    /// Makes the report cover everything since the workers started.
    pub(super) fn count_from_the_start(&mut self) {
        for worker in &mut self.workers {
            worker.first = Figures::default();
            worker.first_processor = Processor::default();
        }
    }

    /// Begins to count system calls, if the kernel permits it.
    pub(super) fn count_system_calls(&mut self) {
        self.system_calls = Some(SystemCalls::begin(&self.pids()));
    }

    /// Takes the events of system calls from the kernel. False if they are not counted.
    pub(super) fn drain(&mut self) -> bool {
        let Some(Ok(calls)) = &mut self.system_calls else { return false };
        calls.drain();
        true
    }

    /// Returns the system calls of all workers, or the reason why there are none.
    pub(super) fn system_calls(&mut self) -> Option<Result<system_calls::Counts, String>> {
        let calls = self.system_calls.as_mut()?.as_mut();
        Some(calls.map(SystemCalls::counts).map_err(|reason| reason.clone()))
    }

    /// Returns the living workers that match the target.
    fn find(&self) -> anyhow::Result<Vec<(u32, u64)>> {
        let mut workers = live_workers(&self.lock_dir)?;
        let clients = self.target.clients(&self.lock_dir)?;
        workers.retain(|(pid, _)| self.target.means(*pid, &clients));
        Ok(workers)
    }

    fn open(&mut self, pid: u32, unique_id: u64) -> Result<(), PageError> {
        let reader = Reader::open(&self.lock_dir, pid, unique_id)?;
        self.workers.push(Worker {
            pid,
            unique_id,
            last: reader.read(),
            reader,
            first: Figures::default(),
            interval: Figures::default(),
            first_processor: Processor::default(),
            last_processor: Processor::of(pid).unwrap_or_default(),
            has_ended: false,
        });
        Ok(())
    }

    /// Announces on standard error that tracing goes on until ^C.
    pub(super) fn announce(&self) {
        // Without standard error, the report still comes.
        let _ = writeln!(io::stderr(), "Collecting data of {}, press ^C to stop...", self.names());
    }

    /// Names the workers in a phrase.
    pub(super) fn names(&self) -> String {
        match &self.workers[..] {
            [worker] => format!("worker {}", worker.pid),
            workers => format!("{} workers", workers.len()),
        }
    }

    /// Reads all pages, and adds new workers.
    pub(super) fn read(&mut self) {
        for worker in &mut self.workers {
            worker.read();
        }
        if !matches!(self.target, Target::Pid(_)) {
            self.add_new_workers();
        }
        let pids = self.pids();
        if let Some(Ok(calls)) = &mut self.system_calls {
            calls.follow(&pids);
        }
    }

    /// Adds new workers that match the target.
    fn add_new_workers(&mut self) {
        // A worker that starts and ends between two reads is missed, like those before the first.
        for (pid, unique_id) in self.find().unwrap_or_default() {
            let is_known = self.workers.iter().any(|it| (it.pid, it.unique_id) == (pid, unique_id))
                || self.refused.contains(&(pid, unique_id));
            if !is_known && self.open(pid, unique_id).is_err() {
                self.refused.push((pid, unique_id));
            }
        }
    }

    /// True once all traced workers have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.target != Target::All && self.workers.iter().all(|it| it.has_ended)
    }

    /// Returns the counts since the last interval.
    pub(super) fn take_interval(&mut self) -> Figures {
        let mut sum = Figures::default();
        for worker in &mut self.workers {
            let last = worker.last.clone();
            sum.merge(&last.since(&worker.interval));
            worker.interval = last;
        }
        sum
    }

    /// Returns the sums of all workers.
    pub(super) fn figures(&self) -> Figures {
        let mut sum = Figures::default();
        for worker in &self.workers {
            sum.merge(&worker.last.since(&worker.first));
        }
        sum
    }

    /// Returns the CPU time of all workers.
    pub(super) fn processor(&self) -> Processor {
        let mut sum = Processor::default();
        for worker in &self.workers {
            let (last, first) = (worker.last_processor, worker.first_processor);
            sum.user_ms += last.user_ms.saturating_sub(first.user_ms);
            sum.system_ms += last.system_ms.saturating_sub(first.system_ms);
        }
        sum
    }

    /// Pids of all traced workers.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.workers.iter().map(|it| it.pid).collect()
    }

    /// Pids of workers that ended meanwhile.
    pub(super) fn ended(&self) -> Vec<u32> {
        self.workers.iter().filter(|it| it.has_ended).map(|it| it.pid).collect()
    }
}

impl Worker {
    fn read(&mut self) {
        if self.has_ended {
            return;
        }
        // Checked before the last read, so that no count is lost.
        self.has_ended = self.reader.has_ended();
        self.last = self.reader.read();
        if let Some(processor) = Processor::of(self.pid) {
            self.last_processor = processor;
        }
    }
}

impl Processor {
    /// Reads /proc/PID/stat; `None` if the process has ended.
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // pid (name) state …: user time is the 14th field, and the name may contain anything.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
        let mut next = || Some(fields.next()?.parse::<u64>().ok()? * 1_000 / TICKS_PER_SECOND);
        Some(Self { user_ms: next()?, system_ms: next()? })
    }
}
