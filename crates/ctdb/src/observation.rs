//! One look at the cluster, for commands. It waits for answers.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::answer::Answer;
use crate::cluster_state::ClusterState;
use crate::connection::{Connection, Lost};
use crate::control::{Control, Destination};
use crate::exchange::{Event, Failure, RequestId, Unsent};
use crate::node::NodeFlags;

/// Reason why there is nothing to see.
#[derive(Debug, thiserror::Error)]
pub enum NoDaemon {
    /// The socket does not exist, or no process listens on it.
    #[error("ctdbd is not running")]
    Absent(#[source] io::Error),
    /// The socket cannot be used.
    #[error("the socket of ctdbd cannot be used")]
    Unreachable(#[source] io::Error),
    /// It accepts connections, and answers nothing.
    #[error("ctdbd does not answer")]
    Silent,
    /// It refuses what each ctdbd tells.
    #[error(transparent)]
    Refused(#[from] Failure),
    /// The connection ended before the answers.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// There were too many questions.
    #[error(transparent)]
    Unsent(#[from] Unsent),
}

/// Time after which the others notice that a node has fallen silent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Keepalive {
    /// Parameter `KeepaliveInterval`, a number of seconds.
    pub interval: u32,
    /// Parameter `KeepaliveLimit`: intervals without a packet.
    pub limit: u32,
}

impl Keepalive {
    /// Shortest and longest time in seconds: the silence may begin right after a packet.
    #[must_use]
    pub fn seconds(self) -> (u64, u64) {
        let (interval, limit) = (u64::from(self.interval), u64::from(self.limit));
        (interval.saturating_mul(limit), interval.saturating_mul(limit.saturating_add(1)))
    }
}

/// What the ctdbd of this node tells of the cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Observation {
    /// Nodes, generation and recovery of the cluster.
    pub state: ClusterState,
    /// Addresses that move, with the node that has each.
    pub public_addresses: BTreeMap<IpAddr, Option<u32>>,
    /// Names of attached databases, in alphabetical order.
    pub databases: Vec<String>,
    /// When a silent node is noticed; `None` if ctdbd did not tell.
    pub keepalive: Option<Keepalive>,
    /// Questions without an answer, in words.
    pub unanswered: Vec<String>,
}

/// Parameters whose product is the time until a silent node is noticed.
const INTERVAL: &str = "KeepaliveInterval";
const LIMIT: &str = "KeepaliveLimit";

/// A question, in words for reports.
#[derive(Clone, Debug)]
enum Question {
    Addresses(u32),
    Name(u32),
    Other(&'static str),
}

impl Question {
    fn words(&self) -> String {
        match self {
            Self::Addresses(node) => format!("public addresses of node {node}"),
            Self::Name(database) => format!("name of database {database:#010x}"),
            Self::Other(words) => (*words).to_owned(),
        }
    }
}

/// An observation that is being made.
struct Observer {
    connection: Connection,
    deadline: Instant,
    open: BTreeMap<RequestId, Question>,
    seen: Observation,
    interval: Option<u32>,
    limit: Option<u32>,
}

impl Observation {
    /// Asks the ctdbd at `socket`, and waits for answers for as long as `patience`.
    ///
    /// # Errors
    /// There is no ctdbd, or it does not even tell its number.
    pub fn take(socket: &Path, patience: Duration) -> Result<Self, NoDaemon> {
        let connection = Connection::open(socket).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => NoDaemon::Absent(error),
            // Its queue of connections is full.
            io::ErrorKind::WouldBlock => NoDaemon::Silent,
            _ => NoDaemon::Unreachable(error),
        })?;
        let mut observer = Observer {
            connection,
            deadline: Instant::now() + patience,
            open: BTreeMap::new(),
            seen: Self::default(),
            interval: None,
            limit: None,
        };
        observer.ask_first()?;
        while !observer.open.is_empty() {
            let now = Instant::now();
            match observer.connection.next_event(now)? {
                Some(Event::Answered(request, result)) => observer.take(request, result)?,
                Some(_) => {}
                None => {
                    let waited = observer.connection.wait(observer.deadline, now);
                    waited.map_err(Lost::from)?;
                }
            }
        }
        let mut seen = observer.seen;
        if seen.state.own_number.is_none() {
            return Err(NoDaemon::Silent);
        }
        if let (Some(interval), Some(limit)) = (observer.interval, observer.limit) {
            seen.keepalive = Some(Keepalive { interval, limit });
        }
        seen.databases.sort_unstable();
        Ok(seen)
    }
}

impl Observer {
    fn ask_first(&mut self) -> Result<(), Unsent> {
        let words = ["own number", "nodes", "generation", "recovery mode", "run state"];
        for (control, words) in ClusterState::QUESTIONS.iter().zip(words) {
            self.ask(Destination::Own, control, Question::Other(words))?;
        }
        let rest = [
            (Control::Databases, "databases"),
            (Control::Tunable(INTERVAL), INTERVAL),
            (Control::Tunable(LIMIT), LIMIT),
        ];
        for (control, words) in &rest {
            self.ask(Destination::Own, control, Question::Other(words))?;
        }
        Ok(())
    }

    fn ask(
        &mut self,
        destination: Destination,
        control: &Control<'_>,
        question: Question,
    ) -> Result<(), Unsent> {
        let request = self.connection.exchange().ask(destination, control, self.deadline)?;
        self.open.insert(request, question);
        Ok(())
    }

    fn take(
        &mut self,
        request: RequestId,
        result: Result<Answer, Failure>,
    ) -> Result<(), NoDaemon> {
        let Some(question) = self.open.remove(&request) else { return Ok(()) };
        let answer = match (result, &question) {
            (Ok(answer), _) => answer,
            // The node may have left since.
            (Err(_), Question::Addresses(_)) | (Err(Failure::Expired), _) => {
                self.seen.unanswered.push(question.words());
                return Ok(());
            }
            // The database may have been detached since.
            (Err(Failure::Refused(_)), Question::Name(_)) => return Ok(()),
            (Err(failure), _) => return Err(failure.into()),
        };
        self.seen.state.learn(&answer);
        match answer {
            Answer::Nodes(nodes) => {
                let connected = nodes.iter().filter(|it| !it.flags.has(NodeFlags::DISCONNECTED));
                for node in connected.filter(|it| !it.flags.has(NodeFlags::DELETED)) {
                    let question = Question::Addresses(node.number);
                    let destination = Destination::Node(node.number);
                    self.ask(destination, &Control::PublicAddresses, question)?;
                }
            }
            Answer::Databases(databases) => {
                for entry in databases {
                    let number = entry.database;
                    let question = Question::Name(number);
                    self.ask(Destination::Own, &Control::DatabaseName(number), question)?;
                }
            }
            Answer::PublicAddresses(addresses) => {
                for found in addresses {
                    let node = self.seen.public_addresses.entry(found.address).or_default();
                    *node = found.node.or(*node);
                }
            }
            Answer::Text(name) => self.seen.databases.push(name),
            Answer::Tunable(value) => match question {
                Question::Other(INTERVAL) => self.interval = Some(value),
                _ => self.limit = Some(value),
            },
            _ => {}
        }
        Ok(())
    }
}
