//! `choro metrics`, a web page and an endpoint for Prometheus.

mod answers;
mod exchange;
mod history;
mod host;
mod http_connections;
mod page;
mod prometheus;
pub(crate) mod web;

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use confinement::Mode;
use nix::unistd::User;
use process::confinement_mode;
use settings::Settings;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::observation::{Observer, Snapshot};
use crate::report;
use exchange::Answer;
use history::History;
use web::WebArguments;

/// Sampling interval of the workers' pages, with or without clients. A worker that starts and ends
/// between two samples is missed.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// Serve metrics for Prometheus, and a web page with live charts.
///
/// `/metrics` is for Prometheus, `/` for a browser, and `/data.json` is the data of the page: a
/// point for each second of the last quarter of an hour. All of them show names of shares and users
/// and addresses of clients, so the default is to listen on this machine only; then only requests
/// by IP address or as `localhost` are answered.
///
/// Runs as a process of its own, under any user who may read the workers' pages; a second process
/// without privileges parses what clients send. Counters begin at the start of this command, and
/// continue over restarts of the server.
#[derive(Args, Debug)]
pub struct Metrics {
    /// Address and port to listen on.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9464")]
    listen: SocketAddr,
}

/// User of the process for clients, if this command runs as root.
const NOBODY: &str = "nobody";

/// The kernel's own id for nobody, for systems without that user name.
const NOBODY_ID: u32 = 65_534;

/// State shared by the sampling thread and the threads that answer.
#[derive(Debug)]
struct Shared {
    settings: Settings,
    count: CountChannels,
    /// Held while the server's tables are read, which a process cannot open twice. The value is the
    /// last number of channels and its time: workers are asked for it, and clients share the
    /// answer, so that a worker that does not answer delays them once.
    tables: Mutex<Option<(Instant, Option<usize>)>>,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    /// The last sample, or the reason why there is none.
    last: Result<Snapshot, String>,
    history: History,
}

/// Counts the channels of all sessions; `None` if a worker did not report them.
pub type CountChannels = fn(&Settings) -> Option<usize>;

impl Metrics {
    /// Serves the metrics until a signal comes.
    ///
    /// # Errors
    /// There is no server, or the address is taken.
    pub fn run(&self, config: Option<&Path>, count: CountChannels) -> anyhow::Result<()> {
        let settings = Settings::find(config)?;
        let mut observer = Observer::begin(&settings.directories.lock)?;
        let first = observer.read()?;
        let listener = TcpListener::bind(self.listen)
            .with_context(|| format!("cannot listen on {}", self.listen))?;
        let address = listener.local_addr().context("cannot listen")?;
        let (ours, theirs) = UnixStream::pair().context("cannot create a socket pair")?;
        let mut web = start_web(listener, theirs, confinement_mode(&settings.config))?;
        let seen = Mutex::new(Seen { last: Ok(first), history: History::default() });
        let shared = Arc::new(Shared { settings, count, tables: Mutex::default(), seen });
        let of_reader = Arc::clone(&shared);
        thread::Builder::new()
            .name("reader".to_owned())
            .spawn(move || read_for_ever(&mut observer, &of_reader))
            .context("cannot start the sampling thread")?;
        // The requests to workers install signal handlers; these end the process all the same.
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let always = Arc::new(AtomicBool::new(true));
            signal_hook::flag::register_conditional_shutdown(signal, 0, always)
                .context("cannot receive signals")?;
        }
        report::print(&format!("http://{address}/\n"))?;
        // Each process ends when the other one has ended.
        answers::serve(&shared, ours)?;
        let status = web.wait().context("cannot wait for the web process")?;
        bail!("the web process has ended: {status}")
    }
}

/// Starts the process that parses what clients send. It has the listener and the socket for its
/// requests, and no privileges.
fn start_web(
    listener: TcpListener,
    asks: UnixStream,
    confinement: Mode,
) -> anyhow::Result<std::process::Child> {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("choro")
        .arg(WebArguments::NAME)
        .args(["--confinement", confinement.word()])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stdout(Stdio::from(OwnedFd::from(asks)));
    if rustix::process::geteuid().is_root() {
        let nobody = User::from_name(NOBODY).context("cannot look up users")?;
        let ids = nobody.map(|user| (user.uid.as_raw(), user.gid.as_raw()));
        let (uid, gid) = ids.unwrap_or((NOBODY_ID, NOBODY_ID));
        // Drops the supplementary groups as well.
        command.uid(uid).gid(gid);
    }
    command
        .spawn()
        .context("cannot start the web process; every user must be able to execute choro")
}

fn read_for_ever(observer: &mut Observer, shared: &Shared) {
    loop {
        thread::sleep(READ_INTERVAL);
        let snapshot = {
            let _tables = lock(&shared.tables);
            observer.read().map_err(|error| format!("{error:#}"))
        };
        let mut seen = shared.seen();
        if let (Ok(before), Ok(now)) = (&seen.last, &snapshot) {
            let (before, now) = (before.clone(), now.clone());
            seen.history.add(&before, &now);
        }
        seen.last = snapshot;
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    /// Returns the points of the charts, as JSON: all of them, or the latest.
    fn points(&self, all: bool) -> Answer {
        let seen = self.seen();
        let why_not = seen.last.as_ref().err();
        Ok(if all { seen.history.all(why_not) } else { seen.history.latest(why_not) })
    }

    /// Returns the metrics for Prometheus. Asks workers, which may take a moment.
    fn figures(&self) -> Answer {
        let snapshot = self.seen().last.clone()?;
        Ok(prometheus::text(&snapshot, self.count_channels()))
    }

    fn count_channels(&self) -> Option<usize> {
        let mut tables = lock(&self.tables);
        match *tables {
            Some((at, channels)) if at.elapsed() < READ_INTERVAL => channels,
            _ => {
                let channels = (self.count)(&self.settings);
                *tables = Some((Instant::now(), channels));
                channels
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
