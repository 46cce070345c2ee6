//! Client of ctdbd, the daemon of CTDB that each node of a cluster runs.
//!
//! ctdbd moves the records of a clustered table between nodes: a node reads and changes a record
//! in a local file of libtdb ([`Database`]) while it is the record's *dmaster*, and asks ctdbd for
//! it otherwise ([`Call`]). It also carries messages between processes of all nodes, and tells
//! which nodes belong to the cluster ([`ClusterState`]).
//!
//! [`Exchange`] is the protocol without a socket or a clock, [`Connection`] has the socket. None of
//! them waits: ctdbd may be slow, stand still during a recovery, or never answer. So each request
//! has a deadline, and no queue grows without a limit. Only [`Observation`] waits, for commands.
//!
//! Protocol and facts: docs/design/cluster.md.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod answer;
mod attachment;
mod call;
mod cluster_state;
mod connection;
mod control;
mod database;
mod database_kind;
mod exchange;
mod malformed;
mod message;
mod node;
mod observation;
mod packet;
mod public_address;
mod reader;
mod record;
mod socket_address;

pub use answer::{Answer, DATABASES_MAX, DatabaseEntry, Refusal, Uptime, VnnMap};
pub use attachment::{AttachError, Attached, Attachment};
pub use call::{Call, Function};
pub use cluster_state::{ClusterState, News, Standing};
pub use connection::{Connection, Lost};
pub use control::{CommitRecord, Control, Destination};
pub use database::{Access, Database, RecordChange};
pub use database_kind::DatabaseKind;
pub use exchange::{Event, Exchange, Failure, OUTPUT_BYTES_MAX, REQUESTS_MAX, RequestId, Unsent};
pub use malformed::Malformed;
pub use message::{Message, TraversedRecord, service};
pub use node::{NODES_MAX, Node, NodeFlags, RecoveryMode, RunState};
pub use observation::{Keepalive, NoDaemon, Observation};
pub use packet::{Header, PACKET_BYTES_MAX, Packet, whole_length};
pub use public_address::{PUBLIC_ADDRESSES_MAX, PublicAddress};
pub use record::{RECORD_HEADER_BYTES, Record, RecordHeader};

/// Socket of ctdbd where no other is named: that of Debian's package, and of a plain build.
pub const SOCKET: &str = "/run/ctdb/ctdbd.socket";
