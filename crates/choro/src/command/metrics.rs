//! `choro metrics`.

mod history;
mod host;
mod prometheus;
mod visitors;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderName, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::status::count_channels;
use crate::observation::{Look, Observer};
use crate::report;
use crate::settings::Settings;
use history::History;
use visitors::Visitors;

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
/// A process of its own, which may run as whoever may read the workers' pages. Counters begin when
/// it is started; a server that is started anew goes on where the last one ended.
#[derive(Args, Debug)]
pub(super) struct Metrics {
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9464")]
    listen: SocketAddr,
}

/// What the thread that looks and the server that answers share.
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
        listener.set_nonblocking(true).context("cannot listen")?;
        let address = listener.local_addr().context("cannot listen")?;
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
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("no way to wait")?;
        report::print(&format!("http://{address}/\n"))?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            axum::serve(Visitors::new(listener), router(shared, address)).await
        })?;
        Ok(())
    }
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

fn router(shared: Arc<Shared>, address: SocketAddr) -> Router {
    let file =
        |kind: &'static str, text: &'static str| get(move || async move { page(kind, text) });
    Router::new()
        .route("/", file("text/html; charset=utf-8", include_str!("metrics/page.html")))
        .route("/page.css", file("text/css; charset=utf-8", include_str!("metrics/page.css")))
        .route("/page.js", file("text/javascript; charset=utf-8", include_str!("metrics/page.js")))
        .route("/data.json", get(data))
        .route("/metrics", get(metrics))
        .layer(axum::middleware::from_fn_with_state(address, host::check))
        .with_state(shared)
}

/// A part of the page. It asks nobody but us, whatever a name of a share would have it do.
fn page(kind: &'static str, text: &'static str) -> ([(HeaderName, &'static str); 3], &'static str) {
    let headers = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, "default-src 'self'; style-src 'self'; frame-ancestors 'none'"),
    ];
    (headers, text)
}

async fn data(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let seen = shared.seen();
    let json = seen.history.json(seen.last.as_ref().err());
    ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], json.to_string())
}

async fn metrics(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let look = shared.seen().last.clone();
    let kind = |kind: &'static str| [(CONTENT_TYPE, kind)];
    match look {
        // Workers are asked, which may take a moment.
        Ok(look) => {
            let channels = tokio::task::spawn_blocking(move || shared.count_channels());
            let text = prometheus::text(&look, channels.await.ok().flatten());
            (StatusCode::OK, kind("text/plain; version=0.0.4; charset=utf-8"), text)
        }
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, kind("text/plain"), format!("{why}\n")),
    }
}
