//! `choro metrics`.

mod answers;
mod exchange;
mod history;
mod host;
mod prometheus;
mod visitors;
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
use nix::unistd::User;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::status::count_channels;
use crate::observation::{Look, Observer};
use crate::report;
use crate::settings::Settings;
use exchange::Answer;
use history::History;
use web::WebArguments;

/// How often workers are looked at, whether anybody asks or not: one that comes and goes between
/// two looks is missed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Serve figures for Prometheus, and a page with live charts.
///
/// `/metrics` is for Prometheus, `/` for a browser, and `/data.json` is what the page shows: a point
/// for each of the last five minutes' seconds. Whoever can connect sees names of shares and users
/// and addresses of clients, so it listens on this machine alone unless told otherwise; then it
/// answers only those who ask for it by an address or as `localhost`.
///
/// A process of its own, which may run as whoever may read the workers' pages; what visitors send is read
/// by a second one, which has no rights. Counters begin when it is started; a server that is started anew
/// goes on where the last one ended.
#[derive(Args, Debug)]
pub(super) struct Metrics {
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9464")]
    listen: SocketAddr,
}

/// The user as whom root's process for visitors runs.
const NOBODY: &str = "nobody";

/// The kernel's own id for nobody, for systems whose list of users has no such name.
const NOBODY_ID: u32 = 65_534;

/// State shared by the thread that looks at the server and those that answer.
#[derive(Debug)]
struct Shared {
    settings: Settings,
    /// Held by whoever reads the server's tables, which a process cannot have open twice. With what
    /// is found there beside the looks, and when: workers are asked for it, and one that does not
    /// answer would keep everybody waiting, one after the other.
    tables: Mutex<Option<(Instant, Option<usize>)>>,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    /// None while there is no server to be looked at; then there is a reason.
    last: Result<Look, String>,
    history: History,
}

impl Metrics {
    pub(super) fn run(&self, config: Option<&Path>) -> anyhow::Result<()> {
        let settings = Settings::find(config)?;
        let mut observer = Observer::begin(&settings.directories.lock)?;
        let first = observer.look()?;
        let listener = TcpListener::bind(self.listen)
            .with_context(|| format!("cannot listen on {}", self.listen))?;
        let address = listener.local_addr().context("cannot listen")?;
        let (ours, theirs) = UnixStream::pair().context("no socket for two processes")?;
        let mut web = start_web(listener, theirs)?;
        let seen = Mutex::new(Seen { last: Ok(first), history: History::default() });
        let shared = Arc::new(Shared { settings, tables: Mutex::default(), seen });
        let of_looks = Arc::clone(&shared);
        thread::Builder::new()
            .name("looks".to_owned())
            .spawn(move || look_for_ever(&mut observer, &of_looks))
            .context("no thread to look")?;
        // Whoever asks workers has its own ideas about signals: they are to end this all the same.
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let always = Arc::new(AtomicBool::new(true));
            signal_hook::flag::register_conditional_shutdown(signal, 0, always)
                .context("cannot receive signals")?;
        }
        report::print(&format!("http://{address}/\n"))?;
        // It ends when there is nobody any more who asks, and the other way round.
        answers::serve(&shared, ours)?;
        let status = web.wait().context("cannot wait")?;
        bail!("the process for visitors has ended: {status}")
    }
}

/// Starts the process that reads what visitors send. It has the listener and the socket by which it asks,
/// and no rights to anything.
fn start_web(listener: TcpListener, asks: UnixStream) -> anyhow::Result<std::process::Child> {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("choro")
        .arg(WebArguments::NAME)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stdout(Stdio::from(OwnedFd::from(asks)));
    if rustix::process::geteuid().is_root() {
        let nobody = User::from_name(NOBODY).context("cannot look up users")?;
        let ids = nobody.map(|user| (user.uid.as_raw(), user.gid.as_raw()));
        let (uid, gid) = ids.unwrap_or((NOBODY_ID, NOBODY_ID));
        // Its other groups go as well.
        command.uid(uid).gid(gid);
    }
    command
        .spawn()
        .context("cannot start the process for visitors, which everybody must be able to")
}

fn look_for_ever(observer: &mut Observer, shared: &Shared) {
    loop {
        thread::sleep(LOOK_INTERVAL);
        let look = {
            let _tables = lock(&shared.tables);
            observer.look().map_err(|error| format!("{error:#}"))
        };
        let mut seen = shared.seen();
        if let (Ok(before), Ok(now)) = (&seen.last, &look) {
            let (before, now) = (before.clone(), now.clone());
            seen.history.add(&before, &now);
        }
        seen.last = look;
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    /// Returns the points of the charts, as JSON.
    fn charts(&self) -> Answer {
        let seen = self.seen();
        Ok(seen.history.json(seen.last.as_ref().err()).to_string())
    }

    /// Returns the metrics for Prometheus. Workers are asked, which may take a moment.
    fn figures(&self) -> Answer {
        let look = self.seen().last.clone()?;
        Ok(prometheus::text(&look, self.count_channels()))
    }

    fn count_channels(&self) -> Option<usize> {
        let mut tables = lock(&self.tables);
        match *tables {
            Some((at, channels)) if at.elapsed() < LOOK_INTERVAL => channels,
            _ => {
                let channels = count_channels(&self.settings);
                *tables = Some((Instant::now(), channels));
                channels
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
