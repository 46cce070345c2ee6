//! `choro metrics-web`: parses, without privileges, what clients of `choro metrics` send. Started
//! by that command, never by people: standard input is the listener, standard output the socket for
//! its requests.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::routing::get;
use clap::Parser;
use confinement::{Freedom, Mode, ProcessKind, Ruleset, Signals, known_call_name};
use rustix::process::DumpableBehavior;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, mpsc};

use super::exchange::{Answer, HEADER_LEN, Question, decode};
use super::http_connections::HttpListener;
use super::{host, page};

/// Read requests of HTTP clients and answer them with data of `choro metrics`.
#[derive(Debug, Parser)]
#[command(name = "choro metrics-web")]
pub struct WebArguments {
    /// Value of the parameter `choro:confinement`.
    #[arg(long, value_parser = parse_mode, default_value = "yes")]
    confinement: Mode,
}

fn parse_mode(word: &str) -> Result<Mode, String> {
    Mode::parse(word).ok_or_else(|| "yes, log or no".to_owned())
}

/// Client side of the socket to the other process.
struct Asking {
    questions: Mutex<OwnedWriteHalf>,
    /// Answers, by request. A task holds the lock from request to answer, so that no other task
    /// sends the same request meanwhile.
    answers: [Arc<Mutex<mpsc::Receiver<Answer>>>; Question::ALL.len()],
}

impl WebArguments {
    /// Name of the subcommand that `choro metrics` starts.
    pub const NAME: &str = "metrics-web";

    /// Answers clients until `choro metrics` ends.
    ///
    /// # Errors
    /// The process was not started by `choro metrics`, or a system call failed.
    pub fn run(self) -> anyhow::Result<()> {
        confinement::give_up_capabilities(ProcessKind::MetricsWeb)
            .context("cannot give up capabilities")?;
        rustix::thread::set_no_new_privs(true).context("cannot give up privileges")?;
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .context("cannot make the process undumpable")?;
        let started = "only `choro metrics` starts this command";
        let listener = rustix::stdio::stdin().try_clone_to_owned().context(started)?;
        let socket = rustix::stdio::stdout().try_clone_to_owned().context(started)?;
        // The values that use these two close them; standard streams remain open, on /dev/null.
        let nothing = std::fs::File::options().read(true).write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdin(nothing.as_fd())?;
        rustix::stdio::dup2_stdout(nothing.as_fd())?;
        let listener = TcpListener::from(listener);
        let address = listener.local_addr().context(started)?;
        listener.set_nonblocking(true).context(started)?;
        let socket = UnixStream::from(socket);
        socket.set_nonblocking(true).context(started)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot create the event loop")?;
        if self.confinement == Mode::On
            && let Err(error) = restrict()
        {
            writeln!(io::stderr(), "choro {}: {error}", Self::NAME)?;
        }
        // Without filters in the kernel it serves all the same, as it has no rights.
        let (kind, signals) = (ProcessKind::MetricsWeb, Signals::ToItself);
        if let Err(error) = confinement::filter_calls(kind, self.confinement, signals, report) {
            writeln!(io::stderr(), "choro {}: {error}", Self::NAME)?;
        }
        runtime.block_on(answer_clients(listener, address, socket))
    }
}

/// Gives up all paths and sockets that it does not need.
fn restrict() -> io::Result<()> {
    let freedom = Freedom { all_paths: false, signals: Signals::ToItself };
    Ruleset::new(ProcessKind::MetricsWeb, freedom)?.map_or(Ok(()), |it| it.restrict())
}

/// Prints a system call that ends the process, in a signal handler.
fn report(call: u32) {
    let name = known_call_name(call).unwrap_or("of another kernel");
    for part in ["choro metrics-web: ended for the system call ", name, "\n"] {
        let _ = rustix::io::write(rustix::stdio::stderr(), part.as_bytes());
    }
}

/// Serves HTTP; returns when the other process has ended.
async fn answer_clients(
    listener: TcpListener,
    address: SocketAddr,
    socket: UnixStream,
) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let (answers, questions) = tokio::net::UnixStream::from_std(socket)?.into_split();
    let [charts, latest, figures] = Question::ALL.map(|_| mpsc::channel(1));
    let asking = Arc::new(Asking {
        questions: Mutex::new(questions),
        answers: [charts.1, latest.1, figures.1].map(|answers| Arc::new(Mutex::new(answers))),
    });
    let serving = axum::serve(HttpListener::new(listener), router(asking, address));
    tokio::select! {
        served = serving => Ok(served?),
        () = receive(answers, [charts.0, latest.0, figures.0]) => Ok(()),
    }
}

/// Passes each answer of the socket to the task that waits for it, until the socket is closed.
async fn receive(stream: OwnedReadHalf, to: [mpsc::Sender<Answer>; Question::ALL.len()]) {
    loop {
        let mut header = [0; HEADER_LEN];
        let Some(()) = read_exact(&stream, &mut header).await else { return };
        let Some((question, is_known, len)) = decode(header) else { return };
        let Ok(len) = usize::try_from(len) else { return };
        let mut text = vec![0; len];
        let Some(()) = read_exact(&stream, &mut text).await else { return };
        let text = String::from_utf8_lossy(&text).into_owned();
        let place = Question::ALL.iter().position(|it| *it == question).expect("all are in it");
        if to[place].send(if is_known { Ok(text) } else { Err(text) }).await.is_err() {
            return;
        }
    }
}

/// Fills the buffer; `None` at the end of the stream.
async fn read_exact(stream: &OwnedReadHalf, mut to: &mut [u8]) -> Option<()> {
    while !to.is_empty() {
        stream.readable().await.ok()?;
        match stream.try_read(to) {
            Ok(0) => return None,
            Ok(count) => to = &mut to[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
    Some(())
}

impl Asking {
    /// Sends a request and waits for its answer, one task at a time. Goes on if the client leaves:
    /// the answer would otherwise be taken for that of the next request.
    async fn ask(self: &Arc<Self>, question: Question) -> Answer {
        let place = Question::ALL.iter().position(|it| *it == question).expect("all are in it");
        let mut answers = Arc::clone(&self.answers[place]).lock_owned().await;
        let asking = Arc::clone(self);
        let asked = tokio::spawn(async move {
            asking.send(question).await?;
            answers.recv().await.ok_or_else(gone)?
        });
        asked.await.unwrap_or_else(|_| Err(gone()))
    }

    async fn send(&self, question: Question) -> Result<(), String> {
        let questions = self.questions.lock().await;
        loop {
            questions.writable().await.map_err(|_| gone())?;
            match questions.try_write(&[question.byte()]) {
                Ok(0) => {}
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(gone()),
            }
        }
    }
}

fn gone() -> String {
    "choro metrics is exiting".to_owned()
}

fn router(asking: Arc<Asking>, address: SocketAddr) -> Router {
    page::add_to(Router::new())
        .route("/data.json", get(|State(asking)| points(asking, Question::Charts)))
        .route("/latest.json", get(|State(asking)| points(asking, Question::Latest)))
        .route("/metrics", get(metrics))
        .layer(axum::middleware::from_fn_with_state(address, host::check))
        .with_state(asking)
}

async fn points(asking: Arc<Asking>, question: Question) -> impl IntoResponse {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    match asking.ask(question).await {
        Ok(json) => (StatusCode::OK, headers, json),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, headers, "{}".to_owned()),
    }
}

async fn metrics(State(asking): State<Arc<Asking>>) -> impl IntoResponse {
    let kind = |kind: &'static str| [(CONTENT_TYPE, kind)];
    match asking.ask(Question::Figures).await {
        Ok(text) => (StatusCode::OK, kind("text/plain; version=0.0.4; charset=utf-8"), text),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, kind("text/plain"), format!("{why}\n")),
    }
}
