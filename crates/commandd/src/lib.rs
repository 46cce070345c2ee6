//! `commandd`: the process that runs commands of shares: `preexec`, `dfree command` and the like.
//!
//! Workers may execute nothing, so they pass commands on (`process::PassedCommand`). This process
//! has all of the server's rights, as commands need them. So it trusts no worker more than it has
//! to: it runs texts of the configuration only, and those of root as root alone.
//!
//! A command whose worker is gone, or does not want it any more, is killed. The kernel may not end
//! it while storage hangs, so each user has a part of the places for commands.

#![forbid(unsafe_code)]

mod connection;
mod permission;
mod places;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::Instant;

use anyhow::Context;
use process::arguments::Start;
use process::{HelperProcess, Order, administration};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use tracing::warn;

use connection::{Connection, Progress};
use permission::Permissions;
use places::Places;

/// Commands that run or are to be run at a time: two of each of some thousand clients. More wait in
/// the socket, or are refused where one user has them.
const CONNECTIONS_MAX: usize = 4_096;

/// Messages taken in one turn; commands go on in between.
const MESSAGES_PER_TURN_MAX: usize = 64;

const LISTENER: u64 = HelperProcess::FIRST_TOKEN;
/// Tokens of connections: for each number one for its socket, and one for the end of its command.
const CONNECTIONS: u64 = 1 << 32;

/// State of the process `commandd`.
#[derive(Debug)]
pub struct Commandd {
    process: HelperProcess,
    permissions: Permissions,
    places: Places,
    /// The socket that workers connect to, once the supervisor has passed it.
    listener: Option<OwnedFd>,
    connections: HashMap<u64, Connection>,
    last: u64,
}

impl Commandd {
    /// Joins the server.
    ///
    /// # Errors
    /// The server cannot be joined.
    pub fn prepare(start: Start) -> anyhow::Result<Self> {
        let process = HelperProcess::join_with_all_rights("commandd", start)?;
        let permissions = Permissions::of(&process.settings.config);
        let (places, connections) = (Places::new(CONNECTIONS_MAX), HashMap::new());
        Ok(Self { process, permissions, places, listener: None, connections, last: 0 })
    }

    /// Serves until the supervisor ends it.
    ///
    /// # Errors
    /// The supervisor is gone, or the kernel cannot wait.
    pub fn run(&mut self) -> anyhow::Result<()> {
        self.process.report_ready(&[])?;
        loop {
            let ready = self.process.wait(None)?;
            while let Some(order) = self.process.next_order() {
                match order {
                    Order::End => {
                        self.connections.values_mut().for_each(Connection::kill);
                        return Ok(());
                    }
                    Order::Listen(socket) => self.listen(socket)?,
                    Order::Reloaded(_) => {
                        self.permissions = Permissions::of(&self.process.settings.config);
                    }
                }
            }
            for _ in 0..MESSAGES_PER_TURN_MAX {
                let Some(message) = self.process.messaging.poll(Instant::now()) else { break };
                administration::read(&mut self.process.messaging, &message);
            }
            self.process.messaging.flush(Instant::now());
            for token in ready {
                match token {
                    LISTENER => self.accept(),
                    token => self.go_on((token - CONNECTIONS) / 2),
                }
            }
        }
    }

    fn listen(&mut self, socket: OwnedFd) -> anyhow::Result<()> {
        self.process.events.add(&socket, LISTENER).context("cannot wait for commands")?;
        self.listener = Some(socket);
        Ok(())
    }

    fn accept(&mut self) {
        while let Some(listener) = &self.listener
            && self.connections.len() < CONNECTIONS_MAX
        {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match rustix::net::accept_with(listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(error) => return warn!("cannot take a command: {error}"),
            };
            self.last += 1;
            let number = self.last;
            match self.process.events.add(&socket, CONNECTIONS + 2 * number) {
                Ok(()) => {
                    self.connections.insert(number, Connection::new(socket));
                    self.go_on(number);
                }
                Err(error) => warn!("cannot wait for a command: {error}"),
            }
        }
        self.watch_listener();
    }

    /// Goes on with a connection whose socket or command may have something new.
    fn go_on(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        match connection.go_on(&self.permissions, &mut self.places) {
            Progress::Waiting => {}
            Progress::Started => {
                let ended = connection
                    .end_source()
                    .map(|end| self.process.events.add(end, CONNECTIONS + 2 * number + 1));
                if let Some(Err(error)) = ended {
                    warn!("cannot wait for the end of a command: {error}");
                    self.remove(number);
                }
            }
            // It would be ready all the time from now on.
            Progress::Killed => self.process.events.remove(connection.socket()),
            Progress::Done => {
                self.remove(number);
                self.watch_listener();
            }
        }
    }

    fn remove(&mut self, number: u64) {
        let Some(connection) = self.connections.remove(&number) else { return };
        // A child that has just been forked may have copies, and epoll forgets a descriptor only
        // with its last copy.
        self.process.events.remove(connection.socket());
        if let Some(end) = connection.end_source() {
            self.process.events.remove(end);
        }
        if let Some(user) = connection.user() {
            match connection.remaining_group() {
                Some(group) => self.places.free_after(user, group),
                None => self.places.free(user),
            }
        }
    }

    /// Waits for further connections, if there is room.
    fn watch_listener(&self) {
        let has_room = self.connections.len() < CONNECTIONS_MAX;
        if let Some(listener) = &self.listener
            && let Err(error) = self.process.events.enable(listener, LISTENER, has_room)
        {
            warn!("cannot wait for commands: {error}");
        }
    }
}
