//! Where log lines go, and which.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::Context;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use crate::settings::Settings;

/// The file that lines go to; standard error if there is none.
static SINK: Mutex<Option<File>> = Mutex::new(None);

/// How to change the level of lines that are written.
static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Starts logging as the settings say.
///
/// # Errors
/// `log file` cannot be opened.
pub(crate) fn start(settings: &Settings) -> anyhow::Result<()> {
    let (filter, handle) = reload::Layer::new(level(settings.config.global.log_detail()));
    let lines = fmt::layer().with_target(false).with_ansi(false).with_writer(|| Sink);
    open(settings)?;
    tracing::subscriber::set_global_default(Registry::default().with(lines.with_filter(filter)))
        .context("logging was started twice")?;
    LEVEL.get_or_init(|| handle);
    Ok(())
}

/// Goes on logging as the settings now say. The file is opened again in any case, so that one that
/// was renamed is let go.
///
/// # Errors
/// `log file` cannot be opened; lines go where they went before.
pub(crate) fn follow(settings: &Settings) -> anyhow::Result<()> {
    if LEVEL.get().is_some() {
        set_detail(settings.config.global.log_detail())?;
    }
    open(settings)
}

/// Lets go of the log file; lines go to standard error until [`follow`] is called.
pub(crate) fn close() {
    *SINK.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Logs in this detail, as `log level` has it, until [`follow`] is called.
///
/// # Errors
/// Logging was not started.
pub(crate) fn set_detail(log_detail: u32) -> anyhow::Result<()> {
    let handle = LEVEL.get().context("logging was not started")?;
    let level = level(log_detail);
    // To set it looks at every place in the program that writes lines.
    if handle.with_current(|current| *current == level).unwrap_or(false) {
        return Ok(());
    }
    handle.reload(level).context("cannot set the level")
}

fn open(settings: &Settings) -> anyhow::Result<()> {
    let file = settings.log_file().map(|path| append_to(&path)).transpose()?;
    *SINK.lock().unwrap_or_else(PoisonError::into_inner) = file;
    Ok(())
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

/// Writes to what [`SINK`] is at the moment. Each line comes as one piece.
struct Sink;

impl Write for Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match &mut *SINK.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(file) => file.write(line),
            None => io::stderr().write(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
