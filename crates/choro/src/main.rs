//! Choro, an SMB3 file server.
//!
//! One executable. `choro serve` is the supervisor: it forks the workers, one for each client, and
//! starts itself once more as `choro notifyd`, `choro logond` and `choro discoveryd`, for audits as
//! `choro auditd`, for commands of shares as `choro commandd`. The other commands manage the
//! configuration, the users and a running server.

#![forbid(unsafe_code)]

mod command;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use observe::WebArguments;
use process::arguments::{
    AUDITD_COMMAND, COMMANDD_COMMAND, DISCOVERYD_COMMAND, LOGOND_COMMAND, NOTIFYD_COMMAND,
    WORKER_COMMAND,
};

use command::CommandLine;
use command::auditd::AuditdArguments;
use command::commandd::CommanddArguments;
use command::discoveryd::DiscoverydArguments;
use command::doctor::Unanswered;
use command::logond::LogondArguments;
use command::notifyd::NotifydArguments;
use command::worker::WorkerArguments;

/// Exit code of a command that failed.
const EXIT_FAILURE: u8 = 1;

/// Exit code of `choro doctor` if it cannot answer: 1 says that it has found something.
const EXIT_UNANSWERED: u8 = 2;

/// Exit code of an invalid command line.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    let mut is = |name: &str| arguments.peek().is_some_and(|first| first == name);
    let (is_worker, is_notifyd) = (is(WORKER_COMMAND), is(NOTIFYD_COMMAND));
    let is_discoveryd = is(DISCOVERYD_COMMAND);
    let is_logond = is(LOGOND_COMMAND);
    let is_auditd = is(AUDITD_COMMAND);
    let is_commandd = is(COMMANDD_COMMAND);
    let is_web = is(WebArguments::NAME);
    let done = if is_worker {
        WorkerArguments::try_parse_from(arguments).map(WorkerArguments::run)
    } else if is_notifyd {
        NotifydArguments::try_parse_from(arguments).map(NotifydArguments::run)
    } else if is_discoveryd {
        DiscoverydArguments::try_parse_from(arguments).map(DiscoverydArguments::run)
    } else if is_logond {
        LogondArguments::try_parse_from(arguments).map(LogondArguments::run)
    } else if is_auditd {
        AuditdArguments::try_parse_from(arguments).map(AuditdArguments::run)
    } else if is_commandd {
        CommanddArguments::try_parse_from(arguments).map(CommanddArguments::run)
    } else if is_web {
        WebArguments::try_parse_from(arguments).map(WebArguments::run)
    } else {
        CommandLine::try_parse().map(CommandLine::run)
    };
    let done = match done {
        Ok(done) => done,
        Err(error) => return ExitCode::from(explain(&error)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed the pipe, as `head` does.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref::<clap::Error>() {
            Some(error) => ExitCode::from(explain(error)),
            None => {
                // If standard error is closed as well, the exit code alone must do.
                let _ = writeln!(io::stderr(), "choro: {}", describe(&error));
                let is_unanswered = error.downcast_ref::<Unanswered>().is_some();
                ExitCode::from(if is_unanswered { EXIT_UNANSWERED } else { EXIT_FAILURE })
            }
        },
    }
}

/// Prints the error of a command line, or the help or version that was requested.
fn explain(error: &clap::Error) -> u8 {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return match error.print() {
            Ok(()) => 0,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Err(_) => EXIT_FAILURE,
        };
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let _ = write!(io::stderr(), "choro: {text}");
    EXIT_USAGE
}

/// Joins an error and its causes, without those that the text already contains.
fn describe(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
