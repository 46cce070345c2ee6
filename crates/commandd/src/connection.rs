//! A worker's connection: one command, from its request to its end.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;

use process::{CommandAnswer, CommandRequest, OUTPUT_BYTES_MAX, REQUEST_BYTES_MAX, Shell};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use tracing::{debug, warn};

use crate::permission::Permissions;

/// State of a connection after a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Progress {
    /// Its request has not arrived, or its command still runs.
    Waiting,
    /// Its command has just started; its end has to be polled.
    Started,
    /// Its command was killed; its socket must not be polled any more.
    Killed,
    /// It has its answer, or nobody wants one.
    Done,
}

/// Connection of a worker, with its command.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    shell: Option<Shell>,
    /// The worker sends nothing more: the command was killed.
    is_killed: bool,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, shell: None, is_killed: false }
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Descriptor that is readable when its command has ended.
    pub(super) fn end_source(&self) -> Option<BorrowedFd<'_>> {
        self.shell.as_ref().map(Shell::end_source)
    }

    /// Kills the command, if it runs.
    pub(super) fn kill(&mut self) {
        self.shell.iter_mut().for_each(Shell::kill);
    }

    /// Takes what the worker has sent, and the end of the command.
    pub(super) fn go_on(&mut self, permissions: &Permissions) -> Progress {
        match &mut self.shell {
            None => self.begin(permissions),
            Some(shell) => {
                let ended = match shell.try_wait() {
                    Ok(None) => None,
                    Ok(Some(status)) => {
                        let output = shell.read_output(OUTPUT_BYTES_MAX);
                        Some(CommandAnswer::Ended(status.into_raw(), output))
                    }
                    Err(error) => Some(CommandAnswer::Refused(error.to_string())),
                };
                match ended {
                    Some(answer) => self.answer(&answer),
                    None => self.kill_if_unwanted(),
                }
            }
        }
    }

    /// Reads the request, and starts its command.
    fn begin(&mut self, permissions: &Permissions) -> Progress {
        // One byte more than a request has, so that a longer one is noticed.
        let mut packet = vec![0; REQUEST_BYTES_MAX + 1];
        let length = match rustix::net::recv(&self.socket, &mut packet[..], RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => return Progress::Waiting,
            Err(error) => {
                debug!("cannot read a command: {error}");
                return Progress::Done;
            }
            Ok((0, _)) => return Progress::Done,
            Ok((length, _)) => length,
        };
        let request = packet.get(..length).filter(|it| it.len() <= REQUEST_BYTES_MAX);
        let Some(request) = request.and_then(CommandRequest::decode) else {
            warn!("a worker has sent a command that cannot be read");
            return Progress::Done;
        };
        if let Err(why) = permissions.verify(&request) {
            warn!("a worker has sent a command that is not run: {why}");
            return self.answer(&CommandAnswer::Refused(why.to_owned()));
        }
        let CommandRequest { script, variables, identity, keeps_output } = &request;
        let started = match keeps_output {
            true => Shell::start_with_output(script, variables, identity.as_ref()),
            false => Shell::start(script, variables, identity.as_ref()),
        };
        match started {
            Ok(shell) => {
                self.shell = Some(shell);
                Progress::Started
            }
            Err(error) => self.answer(&CommandAnswer::Refused(error.to_string())),
        }
    }

    /// Kills the command if its worker is gone, or wants it killed.
    fn kill_if_unwanted(&mut self) -> Progress {
        if self.is_killed {
            return Progress::Waiting;
        }
        // A second packet is against the protocol.
        let is_wanted = rustix::net::recv(&self.socket, &mut [0; 1], RecvFlags::DONTWAIT);
        if !matches!(is_wanted, Err(Errno::AGAIN | Errno::INTR)) {
            self.is_killed = true;
            self.kill();
            return Progress::Killed;
        }
        Progress::Waiting
    }

    fn answer(&self, answer: &CommandAnswer) -> Progress {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if let Err(error) = rustix::net::send(&self.socket, &answer.encode(), flags) {
            debug!("a worker does not learn of the end of its command: {error}");
        }
        Progress::Done
    }
}
