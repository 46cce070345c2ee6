//! A worker's question for a user or group, to the process that loads the name service's modules.
//!
//! A worker connects to a socket in the lock directory for each question:
//!
//! ```text
//! worker -> logond   question: one packet, at most QUESTION_BYTES_MAX
//! logond -> worker   answer, or why there is none: one packet, at most ANSWER_BYTES_MAX
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{set_socket_send_buffer_size, socket_peercred};
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use crate::name_question::{ANSWER_BYTES_MAX, NameAnswer, NameRequest, QUESTION_BYTES_MAX};
use crate::packet;

/// Name of the socket in the lock directory.
const NAME: &str = "names";

/// Times that a question is sent, to one `logond` after the other: a question may be the cause of
/// its death.
const NAME_SENDS_MAX: u32 = 3;

/// Bytes of an answer that need no other buffer: a user in some hundred groups.
const SHORT_ANSWER_BYTES: usize = 2_048;

/// Longest packet that the kernel takes with the usual size of a socket's buffer.
const USUAL_PACKET_BYTES: usize = 64 * 1_024;

/// Makes the socket that workers send questions for names to.
///
/// # Errors
/// Those of the file system, or no descriptors are left.
pub fn listen_for_names(lock_dir: &Path) -> io::Result<OwnedFd> {
    packet::listen_at(lock_dir, NAME)
}

/// Asks `logond` about a name, and waits. A `logond` that is being started is waited for. There is
/// no time limit: callers have one.
///
/// # Errors
/// The name service has failed, or nobody has answered.
pub fn ask_for_name(lock_dir: &Path, request: &NameRequest) -> anyhow::Result<NameAnswer> {
    let packet = request.encode();
    for _ in 0..NAME_SENDS_MAX {
        let answer = exchange(lock_dir, &packet).context("cannot ask for names")?;
        if let Some(answer) = answer {
            let answer = NameAnswer::decode(&answer).context("the answer cannot be read")?;
            return answer.map_err(|reason| anyhow!(reason));
        }
    }
    bail!(
        "{NAME_SENDS_MAX} times nobody has answered: logond has ended, or takes no more questions"
    );
}

/// Sends a question and returns the answer; `None` if the other process has ended.
fn exchange(lock_dir: &Path, question: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let socket = packet::socket(SocketFlags::empty())?;
    packet::at_address(lock_dir, NAME, |address| {
        retry_on_intr(|| rustix::net::connect(&socket, address))
    })?;
    match send_and_receive(&socket, question) {
        Err(Errno::CONNRESET | Errno::PIPE) => Ok(None),
        received => {
            let answer = received?;
            // An end of the stream has no bytes, and each answer has some.
            Ok((!answer.is_empty()).then_some(answer))
        }
    }
}

fn send_and_receive(socket: &OwnedFd, question: &[u8]) -> Result<Vec<u8>, Errno> {
    retry_on_intr(|| rustix::net::send(socket, question, SendFlags::NOSIGNAL))?;
    let mut answer = vec![0; SHORT_ANSWER_BYTES];
    // The length is that of the packet, which stays there.
    let flags = RecvFlags::PEEK | RecvFlags::TRUNC;
    let (_, length) = retry_on_intr(|| rustix::net::recv(socket, &mut answer[..], flags))?;
    if length > answer.len() {
        answer.resize(length.min(ANSWER_BYTES_MAX), 0);
        retry_on_intr(|| rustix::net::recv(socket, &mut answer[..], RecvFlags::empty()))?;
    }
    answer.truncate(length);
    Ok(answer)
}

/// A worker's connection, in the process that answers.
#[derive(Debug)]
pub struct NameConnection {
    socket: OwnedFd,
    /// Process at the other end.
    pid: u32,
}

impl NameConnection {
    /// Takes a connection that waits; `None` if there is none. One of another user than the
    /// server's is closed.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn accept(listener: &OwnedFd) -> io::Result<Option<Self>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            match rustix::net::accept_with(listener, flags) {
                Ok(socket) => {
                    if let Some(connection) = Self::of(socket)? {
                        return Ok(Some(connection));
                    }
                }
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A connection with a process of the server's user.
    ///
    /// # Errors
    /// It is no connected socket.
    pub fn of(socket: OwnedFd) -> io::Result<Option<Self>> {
        let peer = socket_peercred(&socket)?;
        let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).map_err(io::Error::other)?;
        Ok((peer.uid == rustix::process::geteuid()).then_some(Self { socket, pid }))
    }

    /// Descriptor that is readable when the question is there.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the pid of the process that asks.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Reads the question; `None` if it is not there yet.
    ///
    /// # Errors
    /// The other end is closed, or has sent something else.
    pub fn receive(&self) -> io::Result<Option<NameRequest>> {
        // One byte more than a question has, so that a longer one is noticed.
        let mut packet = [0; QUESTION_BYTES_MAX + 1];
        let length = match rustix::net::recv(&self.socket, &mut packet[..], RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            received => received?.0,
        };
        let request = packet.get(..length).filter(|it| it.len() <= QUESTION_BYTES_MAX);
        let request = request.and_then(NameRequest::decode);
        request.map(Some).ok_or_else(|| io::Error::other("no question that can be read"))
    }

    /// Sends the answer, or why there is none, and closes the connection. It never waits.
    ///
    /// # Errors
    /// The other end is closed, or the kernel has no room for the answer.
    pub fn answer(self, answer: &Result<NameAnswer, String>) -> io::Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let packet = NameAnswer::encode(answer);
        if packet.len() > USUAL_PACKET_BYTES {
            set_socket_send_buffer_size(&self.socket, packet.len())?;
        }
        rustix::net::send(&self.socket, &packet, flags)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    use messaging::GROUPS_MAX;

    use super::{NAME, NAME_SENDS_MAX, NameConnection, ask_for_name, listen_for_names};
    use crate::name_question::{NameAnswer, NamePurpose, NameQuestion, NameRequest, SystemUser};

    fn question() -> NameRequest {
        let question = NameQuestion::User("anna".to_owned());
        NameRequest { question, purpose: NamePurpose::Guest }
    }

    /// Waits for a connection with a question.
    fn accept(listener: &std::os::fd::OwnedFd) -> (NameConnection, NameRequest) {
        let connection = loop {
            match NameConnection::accept(listener).expect("descriptors are left") {
                Some(connection) => break connection,
                None => thread::yield_now(),
            }
        };
        let question = loop {
            match connection.receive().expect("a question is sent") {
                Some(question) => break question,
                None => thread::yield_now(),
            }
        };
        (connection, question)
    }

    #[test]
    fn a_user_in_as_many_groups_as_the_kernel_takes_fits_into_an_answer() {
        let folder = tempfile::tempdir().expect("there is space");
        let listener = listen_for_names(folder.path()).expect("there is space");
        for count in [1, 500, GROUPS_MAX] {
            let groups = vec![7; count];
            let user = SystemUser { name: "anna".to_owned(), groups, ..SystemUser::default() };
            let answer = NameAnswer::User(Some(user));
            thread::scope(|scope| {
                let asked = scope.spawn(|| ask_for_name(folder.path(), &question()));
                let (connection, asked_for) = accept(&listener);
                assert_eq!((asked_for, connection.pid()), (question(), std::process::id()));
                connection.answer(&Ok(answer.clone())).expect("there is room");
                let found = asked.join().expect("it returns").expect("it is answered");
                assert!(found == answer, "{count} groups");
            });
        }
    }

    #[test]
    fn a_lock_directory_may_have_a_path_that_is_too_long_for_the_address_of_a_socket() {
        let folder = tempfile::tempdir().expect("there is space");
        let lock_dir = folder.path().join("x".repeat(120));
        std::fs::create_dir(&lock_dir).expect("there is space");
        // The second server finds the socket of the first one.
        drop(listen_for_names(&lock_dir).expect("there is space"));
        let listener = listen_for_names(&lock_dir).expect("there is space");
        let socket = std::fs::metadata(lock_dir.join(NAME)).expect("it is in that folder");
        assert_eq!(socket.permissions().mode() & 0o777, 0o600, "nobody else asks");
        thread::scope(|scope| {
            let asked = scope.spawn(|| ask_for_name(&lock_dir, &question()));
            let (connection, _) = accept(&listener);
            connection.answer(&Ok(NameAnswer::Membership(true))).expect("there is room");
            let answer = asked.join().expect("it returns").expect("it is answered");
            assert_eq!(answer, NameAnswer::Membership(true));
        });
    }

    #[test]
    fn a_question_that_ends_each_process_is_not_sent_for_ever() {
        let folder = tempfile::tempdir().expect("there is space");
        let listener = listen_for_names(folder.path()).expect("there is space");
        thread::scope(|scope| {
            let asked = scope.spawn(|| ask_for_name(folder.path(), &question()));
            for _ in 0..NAME_SENDS_MAX {
                drop(accept(&listener));
            }
            let error = asked.join().expect("it returns").expect_err("nobody has answered");
            assert!(error.to_string().contains("has ended"), "{error}");
        });
        drop(listener);
        ask_for_name(folder.path(), &question()).expect_err("nobody listens");
    }

    #[test]
    fn a_failure_is_none_of_the_answers_and_its_reason_is_told() {
        let folder = tempfile::tempdir().expect("there is space");
        let listener = listen_for_names(folder.path()).expect("there is space");
        thread::scope(|scope| {
            let asked = scope.spawn(|| ask_for_name(folder.path(), &question()));
            let (connection, _) = accept(&listener);
            connection.answer(&Err("the directory is away".to_owned())).expect("there is room");
            let error = asked.join().expect("it returns").expect_err("it has failed");
            assert_eq!(error.to_string(), "the directory is away");
        });
    }
}
