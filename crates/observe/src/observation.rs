//! All workers of a server, seen from outside: what `choro top` and `choro metrics` show.

mod interval;
mod workers;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::bail;
use confinement::ProcessKind;
use qos::Slots as _;
use qos::slot::Figures as ClassFigures;
use tables::{ClientRecord, FailedLogonPage, QosPage, Registry, SessionRecord, ViolationPage};
use trace::{Figures, LogonOutcome, PageError, Reader};

pub(crate) use interval::{Interval, Row, percent};
pub(crate) use workers::{first_workers, live_workers, no_such_worker};

/// Reads the pages of all workers at intervals.
#[derive(Debug)]
pub(crate) struct Observer {
    lock_dir: PathBuf,
    workers: Vec<Worker>,
    /// Counts of workers that have ended.
    gone: Figures,
    /// Why something is left out.
    remark: Option<String>,
}

#[derive(Debug)]
struct Worker {
    pid: u32,
    unique_id: u64,
    reader: Reader,
    client: String,
    user: String,
}

/// All counts up to one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) at: Instant,
    /// Workers that have a client, or had one and ended since the look before.
    pub(crate) workers: Vec<WorkerSnapshot>,
    /// All workers since the first look, those that have ended included.
    pub(crate) total: Figures,
    pub(crate) classes: Vec<(String, ClassFigures)>,
    /// Logons by outcome, counted since the lock directory was made.
    pub(crate) logons: Vec<(LogonOutcome, u64)>,
    /// Processes that were ended for a system call, by kind, counted since the lock directory was
    /// made.
    pub(crate) violations: Vec<(ProcessKind, u64)>,
    /// Not there if that is not known.
    pub(crate) sessions: Option<usize>,
    /// Connections of the server's clients: bound and first ones.
    pub(crate) clients: Option<usize>,
    /// Parts that are missing, and the reason.
    pub(crate) remark: Option<String>,
}

/// One worker at that moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerSnapshot {
    pub(crate) pid: u32,
    pub(crate) unique_id: u64,
    /// The address of its client; empty before it has one.
    pub(crate) client: String,
    /// The user of the first session.
    pub(crate) user: String,
    pub(crate) figures: Figures,
    /// Resident memory of the worker, in bytes.
    pub(crate) memory: u64,
}

impl Observer {
    /// # Errors
    /// No server is running, or its pages may not be looked at.
    pub(crate) fn begin(lock_dir: &Path) -> anyhow::Result<Self> {
        first_workers(lock_dir)?;
        let lock_dir = lock_dir.to_owned();
        let (workers, gone) = (Vec::new(), Figures::default());
        let mut observer = Self { lock_dir, workers, gone, remark: None };
        observer.read()?;
        if observer.workers.is_empty()
            && let Some(remark) = &observer.remark
        {
            bail!("{remark}");
        }
        Ok(observer)
    }

    /// Reads the present counts.
    ///
    /// # Errors
    /// No server has run, or its pages may not be read.
    pub(crate) fn read(&mut self) -> anyhow::Result<Snapshot> {
        self.remark = None;
        self.find()?;
        let connected = self.connected();
        if let Err(why) = &connected {
            self.remark(format!("clients and sessions are unknown: {why:#}"));
        }
        let is_known = connected.is_ok();
        let (clients, sessions) = connected.unwrap_or_default();
        let mut total = self.gone.clone();
        let mut snapshots = Vec::new();
        for worker in &mut self.workers {
            let is_its =
                |pid: u32, unique_id: u64| (worker.pid, worker.unique_id) == (pid, unique_id);
            if let Some(client) =
                clients.iter().find(|it| is_its(it.server_id.pid, it.server_id.unique_id))
            {
                let address: Option<SocketAddr> = client.client_address.parse().ok();
                worker.client = address.map_or_else(
                    || client.client_address.clone(),
                    |it| SocketAddr::new(it.ip().to_canonical(), it.port()).to_string(),
                );
            }
            if let Some(session) =
                sessions.iter().find(|it| is_its(it.server_id.pid, it.server_id.unique_id))
            {
                worker.user.clone_from(&session.user);
            }
            snapshots.push(WorkerSnapshot {
                pid: worker.pid,
                unique_id: worker.unique_id,
                client: worker.client.clone(),
                user: worker.user.clone(),
                figures: worker.reader.read(),
                memory: resident_bytes(worker.pid),
            });
        }
        snapshots.iter().for_each(|snapshot| total.merge(&snapshot.figures));
        // This sample has their last counts; later ones include them in `gone`.
        let gone = &mut self.gone;
        self.workers.retain(|worker| {
            let has_ended = worker.reader.has_ended();
            if has_ended {
                gone.merge(&worker.reader.read());
            }
            !has_ended
        });
        let classes = self.classes().unwrap_or_else(|why| {
            self.remark(format!("classes of service are unknown: {why}"));
            Vec::new()
        });
        Ok(Snapshot {
            at: Instant::now(),
            clients: is_known.then(|| clients.iter().filter(|it| it.dialect != 0).count()),
            sessions: is_known.then_some(sessions.len()),
            workers: snapshots,
            total,
            classes,
            logons: self.logons(),
            violations: self.violations(),
            remark: self.remark.clone(),
        })
    }

    /// Says what is left out, and why.
    fn remark(&mut self, what: String) {
        let before = self.remark.take().map_or_else(String::new, |before| before + "; ");
        self.remark = Some(before + &what);
    }

    /// The clients and sessions that are in the server's tables.
    fn connected(&self) -> anyhow::Result<(Vec<ClientRecord>, Vec<SessionRecord>)> {
        let registry = Registry::observe(&self.lock_dir)?;
        Ok((registry.list_clients()?.records, registry.list_sessions()?.records))
    }

    /// Takes in workers that have come.
    fn find(&mut self) -> anyhow::Result<()> {
        for (pid, unique_id) in live_workers(&self.lock_dir)? {
            let is_known = self.workers.iter().any(|it| (it.pid, it.unique_id) == (pid, unique_id));
            if is_known {
                continue;
            }
            match Reader::open(&self.lock_dir, pid, unique_id) {
                Ok(reader) => self.workers.push(Worker {
                    pid,
                    unique_id,
                    reader,
                    client: String::new(),
                    user: String::new(),
                }),
                // It has ended, or starts now: then the next look finds it.
                Err(PageError::Gone) => {}
                Err(error) => {
                    self.remark(format!("cannot read the page of worker {pid}: {error}"));
                }
            }
        }
        Ok(())
    }

    /// Nothing before the first worker.
    fn logons(&self) -> Vec<(LogonOutcome, u64)> {
        let counts = FailedLogonPage::join(&self.lock_dir).map(|page| page.outcomes());
        LogonOutcome::ALL.iter().copied().zip(counts.unwrap_or_default()).collect()
    }

    /// Nothing before the server has started.
    fn violations(&self) -> Vec<(ProcessKind, u64)> {
        ViolationPage::join(&self.lock_dir).map(|page| page.counts()).unwrap_or_default()
    }

    fn classes(&self) -> io::Result<Vec<(String, ClassFigures)>> {
        let page = QosPage::join(&self.lock_dir)?;
        let slots = page.slots().iter();
        let mut classes: Vec<_> =
            slots.filter_map(|slot| Some((slot.name()?, slot.figures()))).collect();
        classes.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(classes)
    }
}

/// Returns the resident memory of a process; zero if it has ended.
fn resident_bytes(pid: u32) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    pages * u64::try_from(rustix::param::page_size()).unwrap_or(4_096)
}
