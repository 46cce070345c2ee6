//! Controls: requests to a ctdbd, each with a number and fields of its own.

use std::net::SocketAddr;

use crate::database_kind::DatabaseKind;
use crate::packet::operation;
use crate::record::RecordHeader;
use crate::socket_address;

/// Node or nodes that a control or a message is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Destination {
    /// All nodes that take part in the cluster.
    Active,
    /// The node of this number.
    Node(u32),
    /// The ctdbd at the other end of the socket.
    Own,
}

impl Destination {
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::Active => 0xF000_0003,
            Self::Node(number) => number,
            Self::Own => 0xF000_0001,
        }
    }
}

/// A record of a transaction, which replaces the one with its key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CommitRecord<'a> {
    /// Key of the record to replace.
    pub key: &'a [u8],
    /// Header of the record that is replaced, with a sequence number higher by one.
    pub header: RecordHeader,
    /// The new value; empty to delete the record.
    pub value: &'a [u8],
}

/// A request to a ctdbd.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Control<'a> {
    /// Attaches a database, and creates it on all nodes. There is no answer while the cluster
    /// recovers: ctdbd waits for up to two minutes.
    Attach {
        /// Name of the database, such as `files.tdb`.
        name: &'a str,
        /// Whether it outlives the cluster, and how it is spread.
        kind: DatabaseKind,
    },
    /// Asks whether a process of the node has registered a service.
    CheckService {
        /// Id of the process, on that node.
        process: u32,
        /// Number that it has registered.
        service: u64,
    },
    /// Carries out a transaction on a persistent or replicated database.
    Commit {
        /// Number of the database to change.
        database: u32,
        /// New records, with that of the database's sequence number.
        records: &'a [CommitRecord<'a>],
    },
    /// Tells of a client's connection to a public address: the next node to have that address
    /// resets it, so that the client reconnects at once.
    ConnectionBegun {
        /// Address of the client's end.
        client: SocketAddr,
        /// Address of the server's end.
        server: SocketAddr,
    },
    /// Tells that a connection has ended. CTDB before 4.20 does not know this.
    ConnectionEnded {
        /// Address of the client's end.
        client: SocketAddr,
        /// Address of the server's end.
        server: SocketAddr,
    },
    /// Tells that a connection is served by another process now. As [`Control::ConnectionEnded`].
    ConnectionPassed {
        /// Address of the client's end.
        client: SocketAddr,
        /// Address of the server's end.
        server: SocketAddr,
    },
    /// Asks for the flags of `tdb_open` for a database.
    DatabaseFlags(u32),
    /// Asks for the name of a database.
    DatabaseName(u32),
    /// Asks for the path of a database's file on this node.
    DatabasePath(u32),
    /// Lists the databases that are attached.
    Databases,
    /// Ends messages to a service.
    Deregister(u64),
    /// Asks for the cluster's nodes and their flags.
    Nodes,
    /// Sends this message to all nodes when the socket closes.
    Notify {
        /// Number of the service that the message is for.
        service: u64,
        /// Content of the message to send.
        data: &'a [u8],
    },
    /// Asks for the number of the node.
    OwnNumber,
    /// Lists public addresses that the node can have, and where they are.
    PublicAddresses,
    /// Asks whether the cluster recovers.
    RecoveryMode,
    /// Asks for messages to a service, until the socket closes.
    Register(u64),
    /// Asks for the phase in the life of the ctdbd.
    RunState,
    /// Has a deleted record removed from all nodes, later.
    ScheduleForDeletion {
        /// Number of the record's database.
        database: u32,
        /// Header that the empty record has.
        header: RecordHeader,
        /// Key of the deleted record.
        key: &'a [u8],
    },
    /// Asks for the sequence number of a persistent or replicated database.
    SequenceNumber(u32),
    /// Sends all records of a database, of all nodes, as messages to a service.
    Traverse {
        /// Number of the database to traverse.
        database: u32,
        /// Number of the traverse, which its messages repeat.
        traverse: u32,
        /// Service that the messages are for.
        service: u64,
    },
    /// Asks for a parameter of the ctdbd, by its name.
    Tunable(&'a str),
    /// Asks when ctdbd was started and last recovered.
    Uptime,
    /// Asks for the generation, and for the nodes that keep track of records.
    VnnMap,
}

/// Numbers of the controls, by name.
pub(crate) mod opcode {
    pub(crate) const DATABASE_PATH: u32 = 4;
    pub(crate) const VNN_MAP: u32 = 5;
    pub(crate) const DATABASES: u32 = 9;
    pub(crate) const RECOVERY_MODE: u32 = 15;
    pub(crate) const ATTACH: u32 = 18;
    pub(crate) const TRAVERSE: u32 = 20;
    pub(crate) const REGISTER: u32 = 23;
    pub(crate) const DEREGISTER: u32 = 24;
    pub(crate) const DATABASE_NAME: u32 = 25;
    pub(crate) const OWN_NUMBER: u32 = 35;
    pub(crate) const CONNECTION_BEGUN: u32 = 44;
    pub(crate) const TUNABLE: u32 = 49;
    pub(crate) const ATTACH_PERSISTENT: u32 = 61;
    pub(crate) const UPTIME: u32 = 69;
    pub(crate) const PUBLIC_ADDRESSES: u32 = 90;
    pub(crate) const NODES: u32 = 91;
    pub(crate) const NOTIFY: u32 = 114;
    pub(crate) const COMMIT: u32 = 119;
    pub(crate) const SEQUENCE_NUMBER: u32 = 120;
    pub(crate) const SCHEDULE_FOR_DELETION: u32 = 128;
    pub(crate) const RUN_STATE: u32 = 138;
    pub(crate) const DATABASE_FLAGS: u32 = 149;
    pub(crate) const ATTACH_REPLICATED: u32 = 150;
    pub(crate) const CHECK_SERVICE: u32 = 151;
    pub(crate) const CONNECTION_ENDED: u32 = 159;
    pub(crate) const CONNECTION_PASSED: u32 = 160;
}

/// Flag of a control that is not answered.
const NO_REPLY: u32 = 1;

impl Control<'_> {
    pub(crate) const fn opcode(&self) -> u32 {
        match self {
            Self::Attach { kind: DatabaseKind::Persistent, .. } => opcode::ATTACH_PERSISTENT,
            Self::Attach { kind: DatabaseKind::Replicated, .. } => opcode::ATTACH_REPLICATED,
            Self::Attach { kind: DatabaseKind::Volatile, .. } => opcode::ATTACH,
            Self::CheckService { .. } => opcode::CHECK_SERVICE,
            Self::Commit { .. } => opcode::COMMIT,
            Self::ConnectionBegun { .. } => opcode::CONNECTION_BEGUN,
            Self::ConnectionEnded { .. } => opcode::CONNECTION_ENDED,
            Self::ConnectionPassed { .. } => opcode::CONNECTION_PASSED,
            Self::DatabaseFlags(_) => opcode::DATABASE_FLAGS,
            Self::DatabaseName(_) => opcode::DATABASE_NAME,
            Self::DatabasePath(_) => opcode::DATABASE_PATH,
            Self::Databases => opcode::DATABASES,
            Self::Deregister(_) => opcode::DEREGISTER,
            Self::Nodes => opcode::NODES,
            Self::Notify { .. } => opcode::NOTIFY,
            Self::OwnNumber => opcode::OWN_NUMBER,
            Self::PublicAddresses => opcode::PUBLIC_ADDRESSES,
            Self::RecoveryMode => opcode::RECOVERY_MODE,
            Self::Register(_) => opcode::REGISTER,
            Self::RunState => opcode::RUN_STATE,
            Self::ScheduleForDeletion { .. } => opcode::SCHEDULE_FOR_DELETION,
            Self::SequenceNumber(_) => opcode::SEQUENCE_NUMBER,
            Self::Traverse { .. } => opcode::TRAVERSE,
            Self::Tunable(_) => opcode::TUNABLE,
            Self::Uptime => opcode::UPTIME,
            Self::VnnMap => opcode::VNN_MAP,
        }
    }

    /// Returns the fields behind the header of the packet.
    pub(crate) fn encode(&self, is_answered: bool) -> Vec<u8> {
        let service = match self {
            Self::Deregister(service) | Self::Register(service) => *service,
            _ => 0,
        };
        let data = self.data();
        let mut body = Vec::with_capacity(28 + data.len());
        // The opcode, and padding.
        body.extend(self.opcode().to_ne_bytes());
        body.extend([0; 4]);
        body.extend(service.to_ne_bytes());
        // The client's number, which ctdbd knows; then flags.
        body.extend([0; 4]);
        body.extend(if is_answered { 0 } else { NO_REPLY }.to_ne_bytes());
        push_counted(&mut body, &data);
        body
    }

    fn data(&self) -> Vec<u8> {
        let mut data = Vec::new();
        match *self {
            Self::Databases
            | Self::Deregister(_)
            | Self::Nodes
            | Self::OwnNumber
            | Self::PublicAddresses
            | Self::RecoveryMode
            | Self::Register(_)
            | Self::RunState
            | Self::Uptime
            | Self::VnnMap => {}
            Self::Attach { name, .. } => push_text(&mut data, name),
            // Without padding between the two.
            Self::CheckService { process, service } => {
                data.extend(process.to_ne_bytes());
                data.extend(service.to_ne_bytes());
            }
            Self::Commit { database, records } => push_commit(&mut data, database, records),
            Self::ConnectionBegun { client, server }
            | Self::ConnectionEnded { client, server }
            | Self::ConnectionPassed { client, server } => {
                socket_address::encode(&mut data, client);
                socket_address::encode(&mut data, server);
            }
            Self::DatabaseFlags(database)
            | Self::DatabaseName(database)
            | Self::DatabasePath(database) => data.extend(database.to_ne_bytes()),
            Self::Notify { service, data: content } => {
                data.extend(service.to_ne_bytes());
                push_counted(&mut data, content);
            }
            Self::ScheduleForDeletion { database, header, key } => {
                data.extend(database.to_ne_bytes());
                data.extend([0; 4]);
                header.encode(&mut data);
                push_counted(&mut data, key);
            }
            Self::SequenceNumber(database) => data.extend(u64::from(database).to_ne_bytes()),
            Self::Traverse { database, traverse, service } => {
                data.extend(database.to_ne_bytes());
                data.extend(traverse.to_ne_bytes());
                data.extend(service.to_ne_bytes());
            }
            Self::Tunable(name) => {
                let mut text = Vec::new();
                push_text(&mut text, name);
                push_counted(&mut data, &text);
            }
        }
        data
    }
}

pub(crate) const OPERATION: u32 = operation::REQ_CONTROL;

/// Adds a length and that many bytes. One that has no number makes a packet that is too long, and
/// is refused.
pub(crate) fn push_counted(output: &mut Vec<u8>, bytes: &[u8]) {
    output.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_ne_bytes());
    output.extend(bytes);
}

fn push_text(output: &mut Vec<u8>, text: &str) {
    output.extend(text.as_bytes());
    output.push(0);
}

fn push_commit(output: &mut Vec<u8>, database: u32, records: &[CommitRecord<'_>]) {
    output.extend(database.to_ne_bytes());
    output.extend(u32::try_from(records.len()).unwrap_or(u32::MAX).to_ne_bytes());
    for record in records {
        let mut stored = Vec::new();
        record.header.encode(&mut stored);
        stored.extend(record.value);
        // Four fields of four bytes; the second is a number of the request, which nobody uses.
        let length = 16 + record.key.len() + stored.len();
        let number = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes();
        output.extend(number(length));
        output.extend([0; 4]);
        output.extend(number(record.key.len()));
        output.extend(number(stored.len()));
        output.extend(record.key);
        output.extend(stored);
    }
}
