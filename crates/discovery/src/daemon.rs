//! The process: waits for requests, for other addresses, and for its end.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use confinement::ProcessKind;
use interfaces::Changes;
use process::arguments::Start;
use process::control::{Received, ToSupervisor, ToWorker, WorkerEnd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::rand::GetRandomFlags;
use tracing::{debug, info, warn};

use super::llmnr::Query as NameQuery;
use super::mdns::Mdns;
use super::network::{Endpoint, Interface, Network, Protocol};
use super::wsd::http::{self, Progress};
use super::wsd::message::{self, Host, Identity};
use super::wsd::request::{Query, Request};
use super::{Announcement, rights, service_file, sockets, uuid, wsd};

/// Packets of one socket to take before the others have their turn.
const PACKETS_PER_TURN_MAX: usize = 32;

/// Connections of one network for the name of the host at a time. More are closed at once.
const CONNECTIONS_MAX: usize = 16;

/// Longest time for one of them.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// Interfaces to serve; more are more likely those of containers.
const NETWORKS_MAX: usize = 64;

/// Time from a change of addresses to the look at them: changes come in groups.
const SETTLING: Duration = Duration::from_secs(1);

/// Time from a greeting to its repetition. One packet of UDP may be lost.
const REPETITION: Duration = Duration::from_millis(250);

/// The process that announces the server to other machines.
#[derive(Debug)]
pub struct Discoveryd {
    announcement: Announcement,
    control: WorkerEnd,
    changes: Changes,
    networks: Vec<Network>,
    connections: Vec<Connection>,
    mdns: Option<Mdns>,
    host: Host,
    messages_sent: u64,
    /// Time of the next look at the addresses of this machine.
    update_at: Option<Instant>,
    /// Time at which networks are greeted once more.
    greet_at: Option<Instant>,
    unique_id: u64,
}

/// A client that requests the name of the host.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    /// Number of the interface that it came by.
    interface: u32,
    received: Vec<u8>,
    until: Instant,
}

impl Discoveryd {
    /// Reads the announcement, and gives up all rights, at the end those to most system calls.
    ///
    /// # Errors
    /// Discovery is off, or the rights cannot be given up.
    pub fn prepare(start: Start) -> anyhow::Result<Self> {
        let Start { settings, server_id, control, .. } = start;
        let announcement =
            Announcement::of(&settings)?.context("the configuration announces nothing")?;
        let is_by_file = announcement.mdns && write_service_file(&announcement);
        rights::give_up()?;
        // The library for multicast DNS starts a thread.
        let ruleset = process::ruleset(&settings, ProcessKind::Discoveryd, false);
        process::keep_to(ruleset.as_ref(), ProcessKind::Discoveryd);
        drop(ruleset);
        let mdns = if announcement.mdns && !is_by_file {
            Mdns::new(&announcement).inspect_err(|error| warn!("{error:#}")).ok()
        } else {
            None
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let host = Host {
            uuid: announcement.uuid.clone(),
            name: announcement.netbios_names.first().cloned().unwrap_or_default(),
            workgroup: announcement.workgroup.clone(),
            instance: now.as_secs(),
        };
        let changes = Changes::listen().context("cannot hear of changes of addresses")?;
        process::confine(&settings, ProcessKind::Discoveryd, &control);
        Ok(Self {
            announcement,
            control,
            changes,
            networks: Vec::new(),
            connections: Vec::new(),
            mdns,
            host,
            messages_sent: 0,
            update_at: None,
            greet_at: None,
            unique_id: server_id.unique_id,
        })
    }

    /// Serves until the supervisor ends it.
    ///
    /// # Errors
    /// The supervisor is gone, or the kernel refuses to poll.
    pub fn run(&mut self) -> anyhow::Result<()> {
        let ready = ToSupervisor::Ready { unique_id: self.unique_id };
        self.control.send(ready).context("the supervisor is gone")?;
        self.update_networks();
        if self.networks.is_empty() {
            info!(
                "other machines cannot find this server: no interface leads to them. In a \
                 container, use the network of the host; or name interfaces in `interfaces`"
            );
        }
        loop {
            self.wait()?;
            if self.is_ended() {
                break;
            }
            let now = Instant::now();
            if self.changes.take() {
                self.update_at.get_or_insert(now + SETTLING);
            }
            if self.update_at.is_some_and(|at| at <= now) {
                self.update_at = None;
                self.update_networks();
            }
            if self.greet_at.is_some_and(|at| at <= now) {
                self.greet_at = None;
                self.greet();
            }
            self.take_packets();
            self.serve_connections(now);
        }
        self.say_goodbye();
        Ok(())
    }

    /// Waits until something is to be done.
    fn wait(&self) -> anyhow::Result<()> {
        let now = Instant::now();
        let times = [self.update_at, self.greet_at].into_iter().flatten();
        let next = times.chain(self.connections.iter().map(|it| it.until)).min();
        let timeout = next.map(|at| at.saturating_duration_since(now));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let endpoints = self.networks.iter().flat_map(|it| &it.endpoints);
        let listeners = self.networks.iter().flat_map(|it| &it.listeners);
        let mut sources: Vec<PollFd<'_>> = [self.control.as_fd(), self.changes.as_fd()]
            .into_iter()
            .chain(endpoints.map(|it| it.socket.as_fd()))
            .chain(listeners.map(AsFd::as_fd))
            .chain(self.connections.iter().map(|it| it.stream.as_fd()))
            .map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN))
            .collect();
        match poll(&mut sources, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait for events"),
        }
    }

    /// Reads the supervisor's messages. Returns true if this process must end.
    fn is_ended(&self) -> bool {
        loop {
            match self.control.receive() {
                Ok(Received::Nothing) => return false,
                Ok(Received::Closed | Received::Message(ToWorker::Shutdown)) => return true,
                Ok(Received::Message(message)) => debug!("{message:?} is not for discoveryd"),
                Err(error) => {
                    warn!("cannot read messages of the supervisor: {error}");
                    return true;
                }
            }
        }
    }

    /// Looks at the addresses of this machine, and serves the networks as they are now.
    fn update_networks(&mut self) {
        let addresses = match interfaces::reachable(&self.announcement.interfaces) {
            Ok(addresses) => addresses,
            Err(error) => return warn!("cannot list the addresses of this machine: {error}"),
        };
        let mut found = Interface::group(&addresses);
        found.truncate(NETWORKS_MAX);
        self.networks.retain(|it| found.contains(&it.interface));
        for interface in found {
            if !self.networks.iter().any(|it| it.interface == interface) {
                info!("this server is announced on {}", interface.name);
                self.networks.push(Network::open(interface, &self.announcement));
                self.greet_at = Some(Instant::now() + REPETITION);
            }
        }
        if self.greet_at.is_some() {
            self.greet();
        }
        let interfaces = self.networks.iter().map(|it| it.interface.name.clone()).collect();
        if let Some(mdns) = &mut self.mdns
            && let Err(error) = mdns.set_interfaces(interfaces)
        {
            warn!("multicast DNS: {error:#}");
            self.mdns = None;
        }
    }

    /// Says by multicast that the host is there.
    fn greet(&mut self) {
        self.multicast(|host, identity, network, is_v6| {
            message::hello(host, identity, &network.addresses_of(is_v6))
        });
    }

    /// Says by multicast that the host goes away.
    fn say_goodbye(&mut self) {
        self.multicast(|host, identity, _, _| message::bye(host, identity));
        if let Some(mdns) = &self.mdns {
            mdns.stop();
        }
    }

    fn multicast(&mut self, text: impl Fn(&Host, &Identity, &Network, bool) -> String) {
        for network in &self.networks {
            for endpoint in &network.endpoints {
                if endpoint.protocol != Protocol::Wsd {
                    continue;
                }
                let identity = next_identity(&mut self.messages_sent);
                let text = text(&self.host, &identity, network, endpoint.is_v6);
                let to = sockets::WSD.address(endpoint.is_v6, network.interface.index);
                if let Err(error) = endpoint.socket.send_to(text.as_bytes(), to) {
                    debug!("WS-Discovery on {}: {error}", network.interface.name);
                }
            }
        }
    }

    /// Answers the requests that have come.
    fn take_packets(&mut self) {
        // One byte more than a message may have, to see that it is too long.
        let mut buffer = vec![0; wsd::MESSAGE_BYTES_MAX + 1];
        let now = Instant::now();
        for network in &self.networks {
            for endpoint in &network.endpoints {
                for _ in 0..PACKETS_PER_TURN_MAX {
                    let (length, from) = match endpoint.socket.recv_from(&mut buffer) {
                        Ok(packet) => packet,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) => {
                            debug!("a socket on {}: {error}", network.interface.name);
                            break;
                        }
                    };
                    let packet = &buffer[..length];
                    if !network.has(from.ip()) {
                        continue;
                    }
                    let (budget, answer) = match endpoint.protocol {
                        Protocol::Llmnr => {
                            (&network.names, name_answer(&self.announcement, network, packet))
                        }
                        Protocol::Wsd => {
                            let count = &mut self.messages_sent;
                            let answer = wsd_answer(&self.host, count, network, endpoint, packet);
                            (&network.probes, answer)
                        }
                    };
                    if let Some(answer) = answer
                        && budget.take(now)
                    {
                        send(endpoint, &answer, from);
                    }
                }
            }
        }
    }

    /// Accepts clients that request the name of the host, and answers them.
    fn serve_connections(&mut self, now: Instant) {
        for network in &self.networks {
            for listener in &network.listeners {
                let Ok((stream, from)) = listener.accept() else { continue };
                let interface = network.interface.index;
                let others = self.connections.iter().filter(|it| it.interface == interface);
                let is_wanted = network.has(from.ip())
                    && others.count() < CONNECTIONS_MAX
                    && stream.set_nonblocking(true).is_ok();
                if is_wanted {
                    let until = now + CONNECTION_TIMEOUT;
                    let received = Vec::new();
                    self.connections.push(Connection { stream, interface, received, until });
                }
            }
        }
        let (host, count) = (&self.host, &mut self.messages_sent);
        self.connections.retain_mut(|connection| {
            connection.until > now && connection.serve(host, count) == Serving::On
        });
    }
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Serving {
    On,
    Ended,
}

impl Connection {
    /// Reads the received bytes, and answers a whole request.
    fn serve(&mut self, host: &Host, count: &mut u64) -> Serving {
        let mut buffer = [0; 4_096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Serving::Ended,
                Ok(length) => self.received.extend(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Serving::On,
                Err(_) => return Serving::Ended,
            }
            let path = format!("/{}", host.uuid);
            let response = match http::parse(&self.received, &path) {
                Progress::More if self.received.len() <= http::REQUEST_BYTES_MAX => continue,
                Progress::Whole(message) => metadata_answer(host, count, message),
                Progress::More | Progress::Refused => None,
            };
            let response = response.as_deref().unwrap_or(http::REFUSAL);
            // It fits into the socket's buffer; a client that has none gets nothing.
            let _ = self.stream.write_all(response);
            return Serving::Ended;
        }
    }
}

fn metadata_answer(host: &Host, count: &mut u64, message: &[u8]) -> Option<Vec<u8>> {
    let request = Request::parse(message).filter(|it| it.query == Query::Get)?;
    let text = message::metadata(host, &next_identity(count), request.message_id);
    Some(http::response(&text))
}

fn name_answer(announcement: &Announcement, network: &Network, packet: &[u8]) -> Option<Vec<u8>> {
    let query = NameQuery::parse(packet)?;
    let mut names = announcement.netbios_names.iter();
    let is_ours = names.any(|name| name.eq_ignore_ascii_case(query.name()));
    is_ours.then(|| query.answer(&network.addresses()))
}

fn wsd_answer(
    host: &Host,
    count: &mut u64,
    network: &Network,
    endpoint: &Endpoint,
    packet: &[u8],
) -> Option<Vec<u8>> {
    let request = Request::parse(packet)?;
    let addresses = network.addresses_of(endpoint.is_v6);
    let text = match request.query {
        Query::Probe { is_for_computers: true } => {
            message::probe_matches(host, &next_identity(count), request.message_id, &addresses)
        }
        Query::Resolve(urn) if urn.eq_ignore_ascii_case(&format!("urn:uuid:{}", host.uuid)) => {
            message::resolve_matches(host, &next_identity(count), request.message_id, &addresses)
        }
        Query::Get | Query::Probe { .. } | Query::Resolve(_) => return None,
    };
    Some(text.into_bytes())
}

fn send(endpoint: &Endpoint, answer: &[u8], to: SocketAddr) {
    if let Err(error) = endpoint.socket.send_to(answer, to) {
        debug!("an answer to {to}: {error}");
    }
}

/// Version of a UUID of random bits: RFC 9562 5.4.
const RANDOM: u8 = 4;

/// Makes the identity of the next message.
fn next_identity(count: &mut u64) -> Identity {
    *count += 1;
    let mut random = [0; 16];
    // Enough randomness is there once the machine has started.
    let _ = rustix::rand::getrandom(&mut random[..], GetRandomFlags::empty());
    Identity { uuid: uuid::text(random, RANDOM), number: *count }
}

/// Hands the records of multicast DNS to another responder, if there is one. Returns false if this
/// process is to be the responder.
fn write_service_file(announcement: &Announcement) -> bool {
    if !service_file::is_port_taken() {
        return false;
    }
    match service_file::write(announcement) {
        Ok(paths) if paths.is_empty() => false,
        Ok(paths) => {
            info!("multicast DNS is left to another program, by {paths:?}");
            true
        }
        Err(error) => {
            warn!("multicast DNS is left to another program, without a service file: {error}");
            true
        }
    }
}
