//! The log: its file, its level and its rate.
//!
//! Some lines contain names given by clients. No name can end a line or move a terminal's cursor,
//! lines have a longest length, and their rate in a process is limited.

mod json;
mod line;
mod rate;
mod size;

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use anyhow::Context;
use settings::Settings;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use json::JsonLines;
use rate::{Rate, SharedRate};

/// The file of the log and the rate of its lines.
static OUTPUT: Mutex<Output> =
    Mutex::new(Output { file: None, rate: None, shared_rate: None, is_json: false });

struct Output {
    /// Standard error if there is none.
    file: Option<File>,
    /// `None` where all lines are wanted.
    rate: Option<Rate>,
    /// Rate together with other processes.
    shared_rate: Option<SharedRate>,
    /// Each line is a JSON object.
    is_json: bool,
}

/// Handle that changes the level of the lines that are written.
static LEVEL: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Target of lines about logons, named as in Samba: `log level = 1 auth_audit:3` shows them all.
pub const AUTH_AUDIT: &str = "auth_audit";

/// Starts logging as the settings say.
///
/// # Errors
/// `log file` cannot be opened.
pub fn start(settings: &Settings) -> anyhow::Result<()> {
    let (filter, handle) = reload::Layer::new(configured(settings));
    limit_rate(settings.config.global.log_detail());
    open(settings)?;
    let lines = fmt::layer().with_target(false).with_ansi(false).with_writer(Sinks);
    let started = if is_json(settings) {
        output().is_json = true;
        let lines = lines.event_format(JsonLines).with_filter(filter);
        tracing::subscriber::set_global_default(Registry::default().with(lines))
    } else {
        let lines = lines.with_filter(filter);
        tracing::subscriber::set_global_default(Registry::default().with(lines))
    };
    started.context("logging was started twice")?;
    LEVEL.get_or_init(|| handle);
    Ok(())
}

/// Goes on logging as the settings now say. The file is opened again in any case, so that one that
/// was renamed is let go.
///
/// # Errors
/// `log file` cannot be opened; lines go where they went before.
pub fn follow(settings: &Settings) -> anyhow::Result<()> {
    follow_level(settings)?;
    open(settings)
}

/// Goes on logging as the settings now say, into the file that the supervisor has sent: it opens
/// the file for all processes that may not open it themselves.
///
/// # Errors
/// The level cannot be set.
pub fn follow_without_file(settings: &Settings) -> anyhow::Result<()> {
    if settings.log_file().is_none() {
        output().file = None;
    }
    follow_level(settings)
}

fn follow_level(settings: &Settings) -> anyhow::Result<()> {
    if LEVEL.get().is_some() {
        set(configured(settings))?;
        limit_rate(settings.config.global.log_detail());
    }
    Ok(())
}

/// Returns another descriptor of the log file, for other processes; `None` for standard error.
///
/// # Errors
/// No descriptors are left.
pub fn descriptor() -> io::Result<Option<OwnedFd>> {
    output().file.as_ref().map(|file| Ok(file.try_clone()?.into())).transpose()
}

/// Goes on in a file that the supervisor has opened.
pub fn continue_in(file: OwnedFd) {
    output().file = Some(file.into());
}

/// Renames the log file to `NAME.old` and begins a new one, if it has more than `max log size`.
/// Returns true if other processes have to open theirs again.
///
/// # Errors
/// The file cannot be renamed, or another one not be opened; lines go where they went before.
pub fn limit_size(settings: &Settings) -> anyhow::Result<bool> {
    let bytes_max = u64::from(settings.config.global.max_log_size) * 1_024;
    let Some(path) = settings.log_file().filter(|_| bytes_max > 0) else { return Ok(false) };
    let aside = output().file.as_ref().map(|file| size::put_aside(&path, file, bytes_max));
    let is_aside = aside.transpose();
    let is_aside = is_aside.with_context(|| format!("cannot rename {}", path.display()))?;
    if is_aside == Some(true) {
        open(settings)?;
    }
    Ok(is_aside == Some(true))
}

/// Lets go of the log file; lines go to standard error until [`follow`] is called.
pub fn close() {
    output().file = None;
}

/// Logs in this detail, as `log level` has it, until [`follow`] is called.
///
/// # Errors
/// Logging was not started.
pub fn set_detail(log_detail: u32) -> anyhow::Result<()> {
    set(Targets::new().with_default(level(log_detail)))?;
    limit_rate(log_detail);
    Ok(())
}

/// From now on, lines of this process also need the consent of `shared`, which gets their number: a
/// long one counts as several.
pub fn share_rate(shared: impl Fn(u32) -> bool + Send + 'static) {
    output().shared_rate = Some(Box::new(shared));
}

/// Whether each line of the log is a JSON object (`choro:log format = json`). Takes effect with a
/// restart.
fn is_json(settings: &Settings) -> bool {
    let format = settings.config.global.option("choro", "log format");
    format.is_some_and(|format| format.trim().eq_ignore_ascii_case("json"))
}

fn configured(settings: &Settings) -> Targets {
    let global = &settings.config.global;
    let audit = level(global.log_detail_of(AUTH_AUDIT));
    Targets::new().with_default(level(global.log_detail())).with_target(AUTH_AUDIT, audit)
}

fn set(targets: Targets) -> anyhow::Result<()> {
    let handle = LEVEL.get().context("logging was not started")?;
    // To set it looks at every place in the program that writes lines.
    if handle.with_current(|current| *current == targets).unwrap_or(false) {
        return Ok(());
    }
    handle.reload(targets).context("cannot set the level")
}

fn open(settings: &Settings) -> anyhow::Result<()> {
    let file = settings.log_file().map(|path| append_to(&path)).transpose()?;
    output().file = file;
    Ok(())
}

fn output() -> MutexGuard<'static, Output> {
    OUTPUT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Limits the rate of lines, unless the level is one for finding mistakes.
fn limit_rate(log_detail: u32) {
    let is_limited = level(log_detail) <= LevelFilter::INFO;
    let mut output = output();
    match (&output.rate, is_limited) {
        (None, true) => output.rate = Some(Rate::new(Instant::now())),
        (Some(_), false) => output.rate = None,
        _ => {}
    }
}

/// Appends, so that the supervisor and its workers can share a file and each line stays whole.
fn append_to(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .open(path)
        .with_context(|| format!("cannot open the log file {}", path.display()))
}

/// `log level` has ten steps. Samba's habit is: 0 what must be seen, 1 what an operator wants to
/// see, 3 what helps to find a mistake, 10 everything.
fn level(log_detail: u32) -> LevelFilter {
    match log_detail {
        0 => LevelFilter::WARN,
        1 | 2 => LevelFilter::INFO,
        3..=9 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// Makes a [`Sink`] for each line.
struct Sinks;

impl MakeWriter<'_> for Sinks {
    type Writer = Sink;

    fn make_writer(&self) -> Sink {
        Sink { is_limited: true }
    }

    /// Lines about refused logons have a rate of their own, by address. A client could hide its own
    /// ones behind lines of other kinds otherwise, and guess passwords unseen.
    fn make_writer_for(&self, line: &Metadata<'_>) -> Sink {
        let is_refused_logon = line.target() == AUTH_AUDIT && *line.level() == Level::WARN;
        Sink { is_limited: !is_refused_logon }
    }
}

/// Writes to what [`OUTPUT`] is at the moment. Each line comes as one piece.
struct Sink {
    /// The line counts for the rate of this process.
    is_limited: bool,
}

impl Write for Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut output = output();
        // The texts of an object are escaped and cut already, in another way.
        let text = if output.is_json { Cow::Borrowed(line) } else { line::escaped(line) };
        let Output { rate, shared_rate, .. } = &mut *output;
        let left_out = match rate.as_mut().filter(|_| self.is_limited) {
            Some(rate) => match rate.take(Instant::now(), text.len(), shared_rate.as_ref()) {
                Some(left_out) => left_out,
                None => return Ok(line.len()),
            },
            None => 0,
        };
        if left_out > 0 {
            let text = format!("{left_out} log lines were dropped: this process exceeded its rate");
            let note = if output.is_json { json::note(&text) } else { format!("{text}\n") };
            output.write(note.as_bytes())?;
        }
        output.write(&text)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output {
    /// In one call, so that the lines of several processes stay whole.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some(file) => file.write(line),
            None => io::stderr().write(line),
        }
    }
}
