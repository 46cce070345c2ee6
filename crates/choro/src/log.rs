//! Where log lines go, and which.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::Subscriber;

use crate::settings::Settings;

/// Starts logging as the settings say.
///
/// # Errors
/// `log file` cannot be opened.
pub(crate) fn start(settings: &Settings) -> anyhow::Result<()> {
    let level = level(settings.config.global.log_detail());
    let builder = Subscriber::builder().with_max_level(level).with_target(false);
    let outcome = match settings.log_file() {
        Some(path) => {
            let file = open(&path)?;
            tracing::subscriber::set_global_default(
                builder.with_ansi(false).with_writer(file).finish(),
            )
        }
        None => tracing::subscriber::set_global_default(
            builder.with_ansi(false).with_writer(std::io::stderr).finish(),
        ),
    };
    outcome.context("logging was started twice")
}

/// Appends, so that the supervisor and its workers can share a file and each line stays whole.
fn open(path: &Path) -> anyhow::Result<File> {
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
