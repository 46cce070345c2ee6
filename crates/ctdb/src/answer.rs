//! Answers to controls, as values.

use crate::control::opcode;
use crate::malformed::Malformed;
use crate::node::{NODES_MAX, Node, RecoveryMode, RunState};
use crate::public_address::{PUBLIC_ADDRESSES_MAX, PublicAddress};
use crate::reader::Reader;

/// Highest number of databases in one answer.
pub const DATABASES_MAX: usize = 1024;

/// Longest path or name that is read, in bytes; also of the text of an error.
const TEXT_BYTES_MAX: usize = 4096;

/// Result of a control that succeeded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer {
    /// Number of an attached database.
    Database(u32),
    /// Flags of a database for `tdb_open`.
    DatabaseFlags(u32),
    /// Name or path of a database.
    Text(String),
    /// Databases that ctdbd has attached.
    Databases(Vec<DatabaseEntry>),
    /// It is done, and there is nothing to say.
    Done,
    /// Whether the service is registered.
    IsRegistered(bool),
    /// All nodes of the cluster.
    Nodes(Vec<Node>),
    /// Number of the node that answers.
    OwnNumber(u32),
    /// Addresses that move between nodes.
    PublicAddresses(Vec<PublicAddress>),
    /// Whether the cluster recovers now.
    RecoveryMode(RecoveryMode),
    /// Phase in the life of the ctdbd.
    RunState(RunState),
    /// Sequence number of a database.
    SequenceNumber(u64),
    /// Value of a named parameter.
    Tunable(u32),
    /// Times in the life of ctdbd.
    Uptime(Uptime),
    /// Generation and lmasters of the cluster.
    VnnMap(VnnMap),
}

/// A database that is attached on a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DatabaseEntry {
    /// Its number: a hash of its name.
    pub database: u32,
    /// CTDB's flags: 1 persistent, 2 with copies for reading, 4 sticky, 8 replicated.
    pub flags: u8,
}

/// The present composition of the cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct VnnMap {
    /// Number that changes with each recovery.
    pub generation: u32,
    /// Numbers of the nodes that know where records are, each of its share of the keys.
    pub lmasters: Vec<u32>,
}

/// Times of a ctdbd, in seconds since 1970.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Uptime {
    /// Time on that node when it answered.
    pub now: u64,
    /// Time at which ctdbd was started.
    pub started: u64,
    /// Begin of the last recovery.
    pub recovery_began: u64,
    /// End of the last recovery.
    pub recovery_ended: u64,
}

/// A failure that ctdbd reports.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("ctdbd refuses with status {status}{}{text}", if text.is_empty() { "" } else { ": " })]
pub struct Refusal {
    /// Number of the failure, often -1.
    pub status: i64,
    /// Reason in words; often empty.
    pub text: String,
}

impl Refusal {
    pub(crate) fn new(status: i64, text: &[u8]) -> Self {
        let text = &text[..text.len().min(TEXT_BYTES_MAX)];
        let text = String::from_utf8_lossy(text);
        Self { status, text: text.trim_matches(['\0', ' ', '\n']).to_owned() }
    }
}

impl Answer {
    /// Reads the reply to a control of this opcode. Its status is the result in some of them; in
    /// the others the caller has made sure that it is a success.
    pub(crate) fn decode(opcode: u32, status: u32, data: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Reader::new(data);
        Ok(match opcode {
            opcode::ATTACH | opcode::ATTACH_PERSISTENT | opcode::ATTACH_REPLICATED => {
                Self::Database(fields.u32()?)
            }
            opcode::DATABASE_FLAGS => Self::DatabaseFlags(fields.u32()?),
            opcode::DATABASE_NAME | opcode::DATABASE_PATH => {
                Self::Text(fields.text(TEXT_BYTES_MAX)?)
            }
            opcode::DATABASES => {
                Self::Databases(fields.list(DATABASES_MAX, DatabaseEntry::decode)?)
            }
            opcode::NODES => Self::Nodes(fields.list(NODES_MAX, Node::decode)?),
            opcode::OWN_NUMBER => Self::OwnNumber(status),
            opcode::PUBLIC_ADDRESSES => {
                let all = fields.list(PUBLIC_ADDRESSES_MAX, PublicAddress::decode)?;
                Self::PublicAddresses(all.into_iter().flatten().collect())
            }
            opcode::RECOVERY_MODE => Self::RecoveryMode(RecoveryMode::decode(status)?),
            opcode::RUN_STATE => Self::RunState(RunState::decode(fields.u32()?)?),
            opcode::SEQUENCE_NUMBER => Self::SequenceNumber(fields.u64()?),
            opcode::TUNABLE => Self::Tunable(fields.u32()?),
            opcode::UPTIME => Self::Uptime(Uptime::decode(&mut fields)?),
            opcode::VNN_MAP => Self::VnnMap(VnnMap {
                generation: fields.u32()?,
                lmasters: fields.list(NODES_MAX, Reader::u32)?,
            }),
            _ => Self::Done,
        })
    }
}

impl DatabaseEntry {
    fn decode(fields: &mut Reader<'_>) -> Result<Self, Malformed> {
        let database = fields.u32()?;
        // The flags, and padding.
        let flags = fields.bytes(4)?[0];
        Ok(Self { database, flags })
    }
}

impl Uptime {
    fn decode(fields: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut time = || {
            let seconds = fields.u64()?;
            // The microseconds.
            fields.bytes(8)?;
            Ok(seconds)
        };
        Ok(Self {
            now: time()?,
            started: time()?,
            recovery_began: time()?,
            recovery_ended: time()?,
        })
    }
}
