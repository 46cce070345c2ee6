//! A worker's connection: one command, from its request to its end.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;

use process::{CommandAnswer, CommandRequest, OUTPUT_BYTES_MAX, REQUEST_BYTES_MAX, Shell};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::Pid;
use tracing::{debug, warn};

use crate::permission::Permissions;
use crate::places::Places;

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
    /// User who has the place of its command.
    user: Option<String>,
    /// The worker sends nothing more: the command was killed.
    is_killed: bool,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, shell: None, user: None, is_killed: false }
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Descriptor that is readable when its command has ended.
    pub(super) fn end_source(&self) -> Option<BorrowedFd<'_>> {
        self.shell.as_ref().map(Shell::end_source)
    }

    /// User whose place its command has.
    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Processes of a killed command whose shell has ended before them.
    pub(super) fn remaining_group(&self) -> Option<Pid> {
        self.shell.as_ref().filter(|_| self.is_killed).and_then(Shell::remaining_group)
    }

    /// Kills the command, if it runs.
    pub(super) fn kill(&mut self) {
        self.shell.iter_mut().for_each(Shell::kill);
    }

    /// Takes what the worker has sent, and the end of the command.
    pub(super) fn go_on(&mut self, permissions: &Permissions, places: &mut Places) -> Progress {
        match &mut self.shell {
            None => self.begin(permissions, places),
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
    fn begin(&mut self, permissions: &Permissions, places: &mut Places) -> Progress {
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
        let CommandRequest { script, variables, identity, requester, keeps_output } = &request;
        if !places.take(requester) {
            let why = "too many commands of its user run, or hang in the kernel";
            return self.answer(&CommandAnswer::Refused(why.to_owned()));
        }
        self.user = Some(requester.clone());
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::fd::OwnedFd;

    use process::{CommandAnswer, CommandRequest};
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, socketpair,
    };

    use super::{Connection, Permissions, Places, Progress};

    const WAITS: &str = "exec sleep 600";

    /// A worker's end of a connection with this command, and the connection.
    fn connect(script: &str, requester: &str) -> (OwnedFd, Connection) {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (worker, own) = socketpair(AddressFamily::UNIX, kind, flags, None).expect("room");
        let (script, requester) = (script.to_owned(), requester.to_owned());
        let variables = BTreeMap::new();
        let identity = None;
        let request =
            CommandRequest { script, variables, identity, requester, keeps_output: false };
        rustix::net::send(&worker, &request.encode(), SendFlags::empty()).expect("there is room");
        (worker, Connection::new(own))
    }

    /// Goes on with a connection until its command has ended.
    fn finish(connection: &mut Connection, permissions: &Permissions, places: &mut Places) {
        while connection.go_on(permissions, places) != Progress::Done {
            let end = connection.end_source().expect("it was started");
            poll(&mut [PollFd::new(&end, PollFlags::IN)], None).expect("it ends");
        }
    }

    fn answer(worker: &OwnedFd) -> Option<CommandAnswer> {
        let mut packet = [0; 1_024];
        let (length, _) = rustix::net::recv(worker, &mut packet[..], RecvFlags::DONTWAIT).ok()?;
        CommandAnswer::decode(&packet[..length])
    }

    /// The attack: commands that do not end, as those that look into storage that hangs.
    #[test]
    fn a_user_with_hanging_commands_is_refused_more_and_keeps_nobody_else_from_one() {
        let permissions = Permissions::of_scripts([WAITS, "true"]);
        let mut places = Places::new(32);
        let mut hanging: Vec<_> = (0..2).map(|_| connect(WAITS, "mallory")).collect();
        for (_, connection) in &mut hanging {
            assert_eq!(connection.go_on(&permissions, &mut places), Progress::Started);
        }
        // Killed ones, which the kernel has not ended, count as well.
        let (worker, connection) = &mut hanging[0];
        rustix::net::shutdown(&*worker, Shutdown::Write).expect("it is connected");
        let (refused, mut connection_refused) = connect("true", "mallory");
        assert_eq!(connection_refused.go_on(&permissions, &mut places), Progress::Done);
        let answered = answer(&refused);
        let is_refused = |it: &CommandAnswer| match it {
            CommandAnswer::Refused(why) => why.contains("hang in the kernel"),
            CommandAnswer::Ended(..) => false,
        };
        assert!(answered.as_ref().is_some_and(is_refused), "{answered:?}");
        assert_eq!(connection_refused.user(), None, "it has no place");

        let (anna, mut connection_of_anna) = connect("true", "anna");
        assert_eq!(connection_of_anna.go_on(&permissions, &mut places), Progress::Started);
        finish(&mut connection_of_anna, &permissions, &mut places);
        assert_eq!(answer(&anna), Some(CommandAnswer::Ended(0, Vec::new())));
        places.free("anna");

        assert_eq!(connection.go_on(&permissions, &mut places), Progress::Killed);
        finish(connection, &permissions, &mut places);
        places.free(connection.user().expect("it has a place"));
        assert!(places.take("mallory"), "the place of an ended command is free");
        hanging[1].1.kill();
        finish(&mut hanging[1].1, &permissions, &mut places);
    }
}
