//! Access of one process to the global tables.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use dtyp::{Guid, ServerId};
use tdb::Tdb;

use crate::memory::MemoryTable;
use crate::record::{ClientRecord, SessionRecord, TreeConnectRecord};
use crate::server_lock::ServerLock;
use crate::table::{Table, TableError, TableMended};
use crate::typed_table::{Listing, TypedTable};
use crate::unique_ids::{UniqueIds, random_unique_id};

/// Access of one process to the global tables.
///
/// A process changes only its own records; the supervisor also removes those of dead processes.
#[derive(Debug)]
pub struct Registry<T = Tdb> {
    server_id: ServerId,
    supervisor: ServerId,
    ids: UniqueIds,
    clients: TypedTable<T, ClientRecord>,
    sessions: TypedTable<T, SessionRecord>,
    tree_connects: TypedTable<T, TreeConnectRecord>,
    /// After the tables: the server counts as running until its tables are closed.
    _server_lock: Option<ServerLock>,
}

/// Reason why the tables of a lock directory could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A server is running on this lock directory.
    #[error("a server runs already: its supervisor is process {}", .supervisor.pid)]
    AlreadyRunning {
        /// Supervisor of the running server.
        supervisor: ServerId,
    },
    /// A file could not be opened or created.
    #[error("{}: {source}", .path.display())]
    File {
        /// Path of the affected file.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
    /// A table of the parent process cannot be taken over after a fork.
    #[error("a table cannot be taken over: {0}")]
    Inherited(io::Error),
    /// No server is running on this lock directory.
    #[error("no server is running")]
    NotRunning,
    /// The kernel has no random number.
    #[error("no randomness: {0}")]
    Random(io::Error),
}

/// Process that claims a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Claim {
    /// Another process has the claim.
    Of(ServerId),
    /// This process has the claim.
    Ours,
}

/// Number of records of a dead process that were removed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Removed {
    /// Number of removed client records.
    pub clients: u64,
    /// Number of removed session records.
    pub sessions: u64,
    /// Number of tree connect records.
    pub tree_connects: u64,
}

/// The tables of a simulated server; each of its processes has a registry.
#[derive(Clone, Debug, Default)]
pub struct MemoryTables {
    clients: MemoryTable,
    sessions: MemoryTable,
    tree_connects: MemoryTable,
}

impl MemoryTables {
    /// Returns the registry of the simulated process `server_id`.
    #[must_use]
    pub fn registry(&self, server_id: ServerId, supervisor: ServerId) -> Registry<MemoryTable> {
        Registry {
            server_id,
            supervisor,
            ids: UniqueIds::new(server_id.unique_id),
            clients: TypedTable::new(self.clients.clone()),
            sessions: TypedTable::new(self.sessions.clone()),
            tree_connects: TypedTable::new(self.tree_connects.clone()),
            _server_lock: None,
        }
    }
}

impl Registry {
    /// Creates tables in `lock_dir`, which must exist: for the supervisor, which keeps the registry
    /// for as long as the server runs.
    ///
    /// Tables of an earlier server are replaced; a surviving worker of it keeps the old files to
    /// itself.
    ///
    /// # Errors
    /// [`RegistryError::AlreadyRunning`], or those of the file system.
    pub fn create(lock_dir: &Path) -> Result<Self, RegistryError> {
        let server_id = this_process()?;
        let at_lock = |source| RegistryError::File { path: lock_dir.to_owned(), source };
        let Some(lock) = ServerLock::take(lock_dir, server_id).map_err(at_lock)? else {
            let supervisor = ServerLock::holder(lock_dir).map_err(at_lock)?.unwrap_or_default();
            return Err(RegistryError::AlreadyRunning { supervisor });
        };
        Self::open(lock_dir, server_id, server_id, Some(lock), Tdb::create)
    }

    /// Opens the tables of the running server: for a worker, as itself.
    ///
    /// # Errors
    /// [`RegistryError::NotRunning`], or those of the file system.
    pub fn join(lock_dir: &Path) -> Result<Self, RegistryError> {
        Self::join_as(lock_dir, this_process()?)
    }

    /// As [`Registry::join`], under an id that the supervisor chose with [`random_unique_id`], to
    /// know it when the worker dies.
    ///
    /// # Errors
    /// As [`Registry::join`].
    pub fn join_as(lock_dir: &Path, server_id: ServerId) -> Result<Self, RegistryError> {
        let supervisor = running_supervisor(lock_dir)?;
        Self::open(lock_dir, server_id, supervisor, None, |path, _| Tdb::join(path))
    }

    /// File descriptors of the open tables.
    #[must_use]
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        let Self { clients, sessions, tree_connects, .. } = self;
        [clients.table(), sessions.table(), tree_connects.table()].map(Tdb::descriptor)
    }

    /// Takes over the supervisor's tables after a fork, as the worker `server_id`.
    ///
    /// # Errors
    /// [`RegistryError::Inherited`], [`RegistryError::Random`].
    pub fn inherit(self, server_id: ServerId) -> Result<Self, RegistryError> {
        let inherit = |table: Tdb| table.inherit().map_err(RegistryError::Inherited);
        Ok(Self {
            server_id,
            supervisor: self.supervisor,
            ids: UniqueIds::new(random_unique_id().map_err(RegistryError::Random)?),
            clients: TypedTable::new(inherit(self.clients.into_table())?),
            sessions: TypedTable::new(inherit(self.sessions.into_table())?),
            tree_connects: TypedTable::new(inherit(self.tree_connects.into_table())?),
            _server_lock: None,
        })
    }

    /// Opens the tables of the running server for reading: for a tool like `choro status`.
    ///
    /// It takes no locks and so cannot block the server; records that change meanwhile may be
    /// missed or counted as damaged.
    ///
    /// # Errors
    /// [`RegistryError::NotRunning`], or those of the file system.
    pub fn observe(lock_dir: &Path) -> Result<Self, RegistryError> {
        let supervisor = running_supervisor(lock_dir)?;
        Self::open(lock_dir, this_process()?, supervisor, None, |path, _| Tdb::observe(path))
    }

    fn open(
        lock_dir: &Path,
        server_id: ServerId,
        supervisor: ServerId,
        server_lock: Option<ServerLock>,
        open: impl Fn(&Path, u16) -> io::Result<Tdb>,
    ) -> Result<Self, RegistryError> {
        let open = |name: &str, hash_size| {
            let path = lock_dir.join(name);
            open(&path, hash_size).map_err(|source| RegistryError::File { path, source })
        };
        Ok(Self {
            server_id,
            supervisor,
            ids: UniqueIds::new(random_unique_id().map_err(RegistryError::Random)?),
            clients: TypedTable::new(open("clients.tdb", HASH_SIZE)?),
            sessions: TypedTable::new(open("sessions.tdb", HASH_SIZE)?),
            tree_connects: TypedTable::new(open("tree_connects.tdb", HASH_SIZE)?),
            _server_lock: server_lock,
        })
    }
}

impl<T: Table> Registry<T> {
    /// Identity of the calling process.
    #[must_use]
    pub fn server_id(&self) -> ServerId {
        self.server_id
    }

    /// Identity of the server's supervisor.
    #[must_use]
    pub fn supervisor(&self) -> ServerId {
        self.supervisor
    }

    /// Draws an id for a session, a persistent FileId or anything else that must be unique in the
    /// server. Never zero, never all ones.
    #[must_use]
    pub fn next_unique_id(&self) -> u64 {
        self.ids.next()
    }

    /// Adds or changes the record of a client.
    ///
    /// # Errors
    /// As [`Table::with_record`], and [`TableError::Full`].
    pub fn put_client(&self, record: &ClientRecord) -> Result<(), TableError> {
        self.clients.put(record)
    }

    /// Claims a client for this process; `record` must be a claim. Further connections of the
    /// client come here then. The lock of the record makes sure that one process has the claim. A
    /// claim of `instead_of`, which has ended, is ignored.
    ///
    /// # Errors
    /// As [`Table::with_record`], and [`TableError::Full`].
    pub fn claim_client(
        &self,
        record: &ClientRecord,
        instead_of: Option<ServerId>,
    ) -> Result<Claim, TableError> {
        let other = self.clients.claim(record, instead_of, |_| false)?;
        Ok(other.map_or(Claim::Ours, Claim::Of))
    }

    /// Claims a client of this process over which a user has logged on, or notes that in its claim.
    /// Takes the claim of a process without a user: anybody can have it who names the ClientGuid.
    ///
    /// # Errors
    /// As [`Table::get`] and [`Table::with_record`], [`TableError::Damaged`] and
    /// [`TableError::Full`].
    pub fn claim_client_of_user(&self, client_guid: Guid) -> Result<Option<Claim>, TableError> {
        let own = ClientRecord::key_of(client_guid, self.server_id);
        let claim = ClientRecord::claim_key_of(client_guid);
        let record = match self.clients.find(own)? {
            Some(record) => record,
            None => match self.clients.find(claim)? {
                Some(record) if record.server_id == self.server_id => record,
                _ => return Ok(None),
            },
        };
        let record = ClientRecord { is_claim: true, has_user: true, ..record };
        if let Some(other) = self.clients.claim(&record, None, |other| !other.has_user)? {
            return Ok(Some(Claim::Of(other)));
        }
        self.clients.remove_owned(own, self.server_id)?;
        Ok(Some(Claim::Ours))
    }

    /// Returns the process that claims a client.
    ///
    /// # Errors
    /// As [`Table::get`], and [`TableError::Damaged`].
    pub fn find_claim(&self, client_guid: Guid) -> Result<Option<ServerId>, TableError> {
        let record = self.clients.find(ClientRecord::claim_key_of(client_guid))?;
        Ok(record.map(|record| record.server_id))
    }

    /// Removes the record of a client of this process, and its claim. Returns whether one existed.
    ///
    /// # Errors
    /// As [`Table::with_record`].
    pub fn remove_client(&self, client_guid: Guid) -> Result<bool, TableError> {
        let claim = ClientRecord::claim_key_of(client_guid);
        let had_claim = self.clients.remove_owned(claim, self.server_id)?;
        let own = self.clients.remove(ClientRecord::key_of(client_guid, self.server_id))?;
        Ok(had_claim || own)
    }

    /// Adds or changes the record of a session.
    ///
    /// # Errors
    /// As [`Table::with_record`], and [`TableError::Full`].
    pub fn put_session(&self, record: &SessionRecord) -> Result<(), TableError> {
        self.sessions.put(record)
    }

    /// Removes the record of a session of this process. Returns whether it did.
    ///
    /// # Errors
    /// As [`Table::with_record`].
    pub fn remove_session(&self, session_id: u64) -> Result<bool, TableError> {
        self.sessions.remove_owned(SessionRecord::key_of(session_id), self.server_id)
    }

    /// Returns the session with this id, of any worker, for [MS-SMB2] 3.3.5.5.3.
    ///
    /// # Errors
    /// As [`Table::get`], and [`TableError::Damaged`].
    pub fn find_session(&self, session_id: u64) -> Result<Option<SessionRecord>, TableError> {
        self.sessions.find(SessionRecord::key_of(session_id))
    }

    /// Adds or changes the record of a tree connect.
    ///
    /// # Errors
    /// As [`Table::with_record`], and [`TableError::Full`].
    pub fn put_tree_connect(&self, record: &TreeConnectRecord) -> Result<(), TableError> {
        self.tree_connects.put(record)
    }

    /// Removes the record of a tree connect of this process. Returns whether it did.
    ///
    /// # Errors
    /// As [`Table::with_record`].
    pub fn remove_tree_connect(&self, session_id: u64, tree_id: u32) -> Result<bool, TableError> {
        let key = TreeConnectRecord::key_of(session_id, tree_id);
        self.tree_connects.remove_owned(key, self.server_id)
    }

    /// Tree connects to a share, of all clients: Share.CurrentUses of [MS-SMB2] 3.3.1.6.
    ///
    /// Compares `share` with its case. Reads the whole table: for TREE_CONNECT, not for more
    /// frequent commands.
    ///
    /// # Errors
    /// As [`Table::for_each`].
    pub fn count_tree_connects(&self, share: &str) -> Result<usize, TableError> {
        let tree_connects = self.tree_connects.list()?.records;
        Ok(tree_connects.iter().filter(|record| record.share == share).count())
    }

    /// Lists all clients of the server.
    ///
    /// # Errors
    /// As [`Table::for_each`].
    pub fn list_clients(&self) -> Result<Listing<ClientRecord>, TableError> {
        self.clients.list()
    }

    /// Lists all sessions of the server.
    ///
    /// # Errors
    /// As [`Table::for_each`].
    pub fn list_sessions(&self) -> Result<Listing<SessionRecord>, TableError> {
        self.sessions.list()
    }

    /// Lists all tree connects of the server.
    ///
    /// # Errors
    /// As [`Table::for_each`].
    pub fn list_tree_connects(&self) -> Result<Listing<TreeConnectRecord>, TableError> {
        self.tree_connects.list()
    }

    /// Repairs tables after a process was killed while it changed one: for the supervisor, before
    /// any other handling of the death.
    pub fn mend(&self) -> Vec<TableMended> {
        vec![
            ("clients.tdb", self.clients.mend()),
            ("sessions.tdb", self.sessions.mend()),
            ("tree_connects.tdb", self.tree_connects.mend()),
        ]
    }

    /// Removes all records of dead processes: for the supervisor, when it has reaped them.
    ///
    /// Tree connects are removed first and the client last, so that no process sees one without its
    /// session.
    ///
    /// # Errors
    /// Those of the tables; a second call continues.
    pub fn remove_all_of(&self, dead: &[ServerId]) -> Result<Removed, TableError> {
        Ok(Removed {
            tree_connects: self.tree_connects.remove_all_of(dead)?,
            sessions: self.sessions.remove_all_of(dead)?,
            clients: self.clients.remove_all_of(dead)?,
        })
    }
}

fn this_process() -> Result<ServerId, RegistryError> {
    let unique_id = random_unique_id().map_err(RegistryError::Random)?;
    Ok(ServerId { pid: std::process::id(), unique_id })
}

fn running_supervisor(lock_dir: &Path) -> Result<ServerId, RegistryError> {
    let at_lock = |source| RegistryError::File { path: lock_dir.to_owned(), source };
    ServerLock::holder(lock_dir).map_err(at_lock)?.ok_or(RegistryError::NotRunning)
}

/// Hash chains of a table with an entry per client or per share in use. A prime.
const HASH_SIZE: u16 = 1_009;

#[cfg(test)]
mod tests;
