//! Commands of the configuration that a worker has another process run.
//!
//! A worker executes no program: it may not, and a program would inherit what it may not. It passes
//! each command to `commandd`, over a connection of its own to a socket in the lock directory:
//!
//! ```text
//! worker -> commandd   request: one packet, at most REQUEST_BYTES_MAX
//! worker -> commandd   the end of its direction: kill the command
//! commandd -> worker   answer: one packet, at most ANSWER_BYTES_MAX, when the command has ended
//! ```
//!
//! Numbers have four bytes, little-endian; a text or list is its length and its content.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketFlags};

use crate::packet::{self, put_length, put_number, put_text, take_flag, take_number, take_text};
use crate::shell::Identity;

/// Bytes of a request: a user in 16,384 groups, and a long text.
pub const REQUEST_BYTES_MAX: usize = 128 * 1_024;

/// Highest number of bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1_024;

/// Bytes of a command's output that an answer has.
pub const OUTPUT_BYTES_MAX: usize = 256;

/// Name of the socket in the lock directory.
const NAME: &str = "commands";

/// A command to be run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CommandRequest {
    /// Text that the shell executes.
    pub script: String,
    /// Variables of the shell's environment.
    pub variables: BTreeMap<String, String>,
    /// User to run it; none for that of the server.
    pub identity: Option<Identity>,
    /// Key of the user (`Account::identity`) whose tree connect it is for: each has a part of the
    /// places for commands.
    pub requester: String,
    /// The answer has the beginning of the output.
    pub keeps_output: bool,
}

/// The end of a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CommandAnswer {
    /// Ended, with a status as `wait` reports it, and its output.
    Ended(i32, Vec<u8>),
    /// It was not started, for a reason in words.
    Refused(String),
}

/// Makes the socket that workers pass commands to.
///
/// # Errors
/// Those of the file system, or no descriptors are left.
pub fn listen_for_commands(lock_dir: &Path) -> io::Result<OwnedFd> {
    packet::listen_at(lock_dir, NAME)
}

/// A command that runs in the care of `commandd`, or has ended and waits to be asked.
#[derive(Debug)]
pub struct PassedCommand {
    socket: OwnedFd,
    output: Vec<u8>,
}

impl PassedCommand {
    /// Has a command run.
    ///
    /// # Errors
    /// The server has no process for commands, too many wait for it, or the command is too long.
    pub fn start(lock_dir: &Path, request: &CommandRequest) -> io::Result<Self> {
        let packet = request.encode();
        if packet.len() > REQUEST_BYTES_MAX {
            return Err(io::Error::other("the command and its values are too long"));
        }
        let socket = packet::socket(SocketFlags::NONBLOCK)?;
        packet::at_address(lock_dir, NAME, |address| rustix::net::connect(&socket, address))?;
        let sent = rustix::net::send(&socket, &packet, SendFlags::NOSIGNAL)?;
        assert_eq!(sent, packet.len(), "a packet is sent whole");
        Ok(Self { socket, output: Vec::new() })
    }

    /// Descriptor that is readable when the command has ended.
    #[must_use]
    pub fn end_source(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns how the command has ended; `None` while it runs.
    ///
    /// # Errors
    /// It was refused, or the process that ran it is gone.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let mut packet = vec![0; ANSWER_BYTES_MAX];
        let length = match rustix::net::recv(&self.socket, &mut packet[..], RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            received => received?.0,
        };
        match CommandAnswer::decode(&packet[..length]) {
            Some(CommandAnswer::Ended(status, output)) => {
                self.output = output;
                Ok(Some(ExitStatus::from_raw(status)))
            }
            Some(CommandAnswer::Refused(why)) => Err(io::Error::other(why)),
            None => Err(io::Error::other("the process for commands has ended")),
        }
    }

    /// Returns the first bytes of its output; empty if none is kept, or while it runs.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Has the command ended. It still has to be waited for.
    pub fn kill(&mut self) {
        // Fails if the other process is gone, which ends commands as well.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }
}

impl CommandRequest {
    /// Encodes it for a packet.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self { script, variables, identity, requester, keeps_output } = self;
        let mut packet = Vec::new();
        put_number(&mut packet, u32::from(*keeps_output));
        put_text(&mut packet, requester);
        put_text(&mut packet, script);
        put_length(&mut packet, variables.len());
        for (name, value) in variables {
            put_text(&mut packet, name);
            put_text(&mut packet, value);
        }
        put_number(&mut packet, u32::from(identity.is_some()));
        if let Some(Identity { uid, gid, groups }) = identity {
            put_number(&mut packet, *uid);
            put_number(&mut packet, *gid);
            put_length(&mut packet, groups.len());
            groups.iter().for_each(|group| put_number(&mut packet, *group));
        }
        packet
    }

    /// Decodes it; `None` if it is not well-formed.
    #[must_use]
    pub fn decode(packet: &[u8]) -> Option<Self> {
        let mut rest = packet;
        let keeps_output = take_flag(&mut rest)?;
        let requester = take_text(&mut rest)?;
        let script = take_text(&mut rest)?;
        let count = take_number(&mut rest)?;
        let variables: Option<BTreeMap<String, String>> =
            (0..count).map(|_| Some((take_text(&mut rest)?, take_text(&mut rest)?))).collect();
        let identity = match take_flag(&mut rest)? {
            false => None,
            true => {
                let (uid, gid) = (take_number(&mut rest)?, take_number(&mut rest)?);
                let count = take_number(&mut rest)?;
                let groups: Option<Vec<u32>> = (0..count).map(|_| take_number(&mut rest)).collect();
                Some(Identity { uid, gid, groups: groups? })
            }
        };
        let variables = variables?;
        let request = Self { script, variables, identity, requester, keeps_output };
        rest.is_empty().then_some(request)
    }
}

impl CommandAnswer {
    /// Encodes it for a packet.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut packet = Vec::new();
        match self {
            Self::Ended(status, output) => {
                put_number(&mut packet, 0);
                put_number(&mut packet, status.cast_unsigned());
                packet.extend(&output[..output.len().min(OUTPUT_BYTES_MAX)]);
            }
            Self::Refused(why) => {
                put_number(&mut packet, 1);
                packet.extend(why.bytes().take(OUTPUT_BYTES_MAX));
            }
        }
        packet
    }

    /// Decodes it; `None` if it is not well-formed.
    #[must_use]
    pub fn decode(packet: &[u8]) -> Option<Self> {
        let mut rest = packet;
        match take_number(&mut rest)? {
            0 => Some(Self::Ended(take_number(&mut rest)?.cast_signed(), rest.to_vec())),
            1 => Some(Self::Refused(String::from_utf8_lossy(rest).into_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{
        ANSWER_BYTES_MAX, CommandAnswer, CommandRequest, PassedCommand, REQUEST_BYTES_MAX,
        listen_for_commands,
    };
    use crate::shell::Identity;

    fn request() -> CommandRequest {
        let variables = [("CHORO_U", "anna"), ("CHORO_P", "")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        CommandRequest {
            script: "mkdir \"${CHORO_U}\"".to_owned(),
            variables: BTreeMap::from(variables),
            identity: Some(Identity { uid: 1_000, gid: 100, groups: vec![100, 4] }),
            requester: "S-1-22-1-1000".to_owned(),
            keeps_output: true,
        }
    }

    #[test]
    fn a_request_is_read_as_it_was_sent_and_no_part_of_it_is_one() {
        let without = CommandRequest { identity: None, ..CommandRequest::default() };
        for request in [request(), without] {
            let packet = request.encode();
            assert_eq!(CommandRequest::decode(&packet), Some(request));
            for length in 0..packet.len() {
                assert_eq!(CommandRequest::decode(&packet[..length]), None, "{length}");
            }
            let longer = [packet.as_slice(), &[0]].concat();
            assert_eq!(CommandRequest::decode(&longer), None);
        }
        assert_eq!(CommandRequest::decode(&[0xff; 64]), None);
    }

    #[test]
    fn an_answer_is_read_as_it_was_sent_and_is_never_too_long() {
        let long = CommandAnswer::Refused("no ".repeat(ANSWER_BYTES_MAX));
        assert!(long.encode().len() <= ANSWER_BYTES_MAX);
        for answer in
            [CommandAnswer::Ended(-1, b"1 2".to_vec()), CommandAnswer::Refused("x".into())]
        {
            assert_eq!(CommandAnswer::decode(&answer.encode()), Some(answer));
        }
        assert_eq!(
            [CommandAnswer::decode(&[]), CommandAnswer::decode(&[9, 0, 0, 0])],
            [None, None]
        );
    }

    #[test]
    fn a_lock_directory_may_have_a_path_that_is_too_long_for_the_address_of_a_socket() {
        let folder = tempfile::tempdir().expect("there is space");
        let lock_dir = folder.path().join("x".repeat(120));
        std::fs::create_dir(&lock_dir).expect("there is space");
        let _listener = listen_for_commands(&lock_dir).expect("there is space");
        let mut command = PassedCommand::start(&lock_dir, &request()).expect("it can wait");
        assert!(command.try_wait().expect("nobody has refused it").is_none());
    }

    #[test]
    fn nobody_waits_where_no_process_runs_commands() {
        let folder = tempfile::tempdir().expect("there is space");
        let refused = PassedCommand::start(folder.path(), &request());
        refused.expect_err("nobody listens");
        let script = "x".repeat(REQUEST_BYTES_MAX);
        let refused = PassedCommand::start(folder.path(), &CommandRequest { script, ..request() });
        assert!(refused.expect_err("it is too long").to_string().contains("too long"));
    }
}
