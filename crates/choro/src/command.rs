//! The command line. One subcommand, one file.

mod audit;
pub(crate) mod auditd;
mod bench;
mod check;
pub(crate) mod commandd;
mod completions;
pub(crate) mod discoveryd;
pub(crate) mod doctor;
mod healthcheck;
pub(crate) mod logond;
mod man;
mod message;
pub(crate) mod notifyd;
mod qos;
mod recycle;
mod serve;
mod share;
mod status;
mod system_user;
mod user;
pub(crate) mod worker;

use std::io;
use std::path::PathBuf;

use anyhow::Error;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use observe::{Metrics, Profile, Top, Trace};

/// Serve folders to Windows, macOS and Linux over SMB 2 and 3.
///
/// Reads the smb.conf that Samba reads. Without one, `choro serve` shares one folder with one user
/// and says how to reach it.
///
/// Exit codes: 0 success, 1 failure, 2 invalid command line.
#[derive(Debug, Parser)]
#[command(name = "choro", version, max_term_width = 100, arg_required_else_help = false)]
pub(crate) struct CommandLine {
    /// Configuration file [default: /etc/choro/smb.conf, else the built-in default].
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Audit(audit::Audit),
    #[command(subcommand)]
    Bench(bench::Bench),
    Check(check::Check),
    Doctor(doctor::Doctor),
    #[command(subcommand)]
    User(user::User),
    Message(message::MessageCommand),
    Metrics(Metrics),
    Profile(Profile),
    #[command(subcommand)]
    Qos(qos::Qos),
    #[command(subcommand)]
    Recycle(recycle::Recycle),
    #[command(subcommand)]
    Share(share::Share),
    Status(status::Status),
    Top(Top),
    Trace(Trace),
    Completions(completions::Completions),
    Healthcheck(healthcheck::Healthcheck),
    Man(man::Man),
}

impl CommandLine {
    /// Runs the given subcommand.
    ///
    /// # Errors
    /// The command failed; the text is for the user.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        // The user of a server is the operator's choice.
        let is_server = matches!(self.command, Command::Serve(_));
        self.carry_out().map_err(|error| match !is_server && is_for_root(&error) {
            true => error.context("run this command as root"),
            false => error,
        })
    }

    fn carry_out(self) -> anyhow::Result<()> {
        let file = self.config.as_deref();
        match self.command {
            Command::Audit(audit) => audit.run(file),
            Command::Bench(bench) => bench.run(),
            Command::Check(check) => check.run(file),
            Command::Completions(completions) => completions.run(),
            Command::Doctor(doctor) => doctor.run(file),
            Command::Healthcheck(healthcheck) => healthcheck.run(file),
            Command::Man(man) => man.run(),
            Command::Message(message) => message.run(file),
            Command::Metrics(metrics) => metrics.run(file, status::count_channels),
            Command::Profile(profile) => profile.run(file),
            Command::Qos(qos) => qos.run(file),
            Command::Recycle(recycle) => recycle.run(file),
            Command::Serve(serve) => serve.run(file),
            Command::Share(share) => share.run(file),
            Command::Status(status) => status.run(file),
            Command::Top(top) => top.run(file),
            Command::Trace(trace) => trace.run(file),
            Command::User(user) => user.run(file),
        }
    }
}

/// True for an error that root would not get.
fn is_for_root(error: &Error) -> bool {
    let is_denied = |it: &io::Error| it.kind() == io::ErrorKind::PermissionDenied;
    let mut errors = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    !rustix::process::geteuid().is_root() && errors.any(is_denied)
}

/// A usage error that clap cannot detect: a global argument that a subcommand refuses.
fn conflict(message: &str) -> Error {
    CommandLine::command().error(ErrorKind::ArgumentConflict, message).into()
}
