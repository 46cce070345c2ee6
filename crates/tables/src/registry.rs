//! The global tables as one process sees them.

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

/// The global tables as one process sees them.
///
/// A process changes only its own records; the supervisor also removes those of the dead.
#[derive(Debug)]
pub struct Registry<T = Tdb> {
    server_id: ServerId,
    supervisor: ServerId,
    ids: UniqueIds,
    clients: TypedTable<T, ClientRecord>,
    sessions: TypedTable<T, SessionRecord>,
    tree_connects: TypedTable<T, TreeConnectRecord>,
    /// After the tables: the server runs until its tables are closed.
    _server_lock: Option<ServerLock>,
}

/// Why the tables of a lock directory could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A server runs on this lock directory.
    #[error("a server runs already: its supervisor is process {}", .supervisor.pid)]
    AlreadyRunning {
        /// Its supervisor.
        supervisor: ServerId,
    },
    /// A file could not be opened or made.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was said.
        source: io::Error,
    },
    /// A table of the process that this one was forked off cannot be taken over.
    #[error("a table cannot be taken over: {0}")]
    Inherited(io::Error),
    /// No server runs on this lock directory.
    #[error("no server is running")]
    NotRunning,
    /// The kernel gave no random number.
    #[error("no randomness: {0}")]
    Random(io::Error),
}

/// Who has a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Claim {
    /// Another process.
    Of(ServerId),
    /// This process.
    Ours,
}

/// How many records of a dead process were removed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Removed {
    /// Of the clients.
    pub clients: u64,
    /// Of the sessions.
    pub sessions: u64,
    /// Of the tree connects.
    pub tree_connects: u64,
}

/// The tables of a simulated server; each of its processes makes a registry of them.
#[derive(Clone, Debug, Default)]
pub struct MemoryTables {
    clients: MemoryTable,
    sessions: MemoryTable,
    tree_connects: MemoryTable,
}

impl MemoryTables {
    /// The tables as the process `server_id` of the simulation sees them.
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
    /// Makes new tables in `lock_dir`, which exists: for the supervisor, which keeps the registry
    /// for as long as the server runs.
    ///
    /// What an earlier server left is gone; if a worker of it still lives, it keeps its old files
    /// to itself.
    ///
    /// # Errors
    /// [`RegistryError::AlreadyRunning`], or what the file system says.
    pub fn create(lock_dir: &Path) -> Result<Self, RegistryError> {
        let server_id = this_process()?;
        let at_lock = |source| RegistryError::File { path: lock_dir.to_owned(), source };
        let Some(lock) = ServerLock::take(lock_dir, server_id).map_err(at_lock)? else {
            let supervisor = ServerLock::holder(lock_dir).map_err(at_lock)?.unwrap_or_default();
            return Err(RegistryError::AlreadyRunning { supervisor });
        };
        Self::open(lock_dir, server_id, server_id, Some(lock), Tdb::create)
    }

    /// Opens the tables of the server that runs: for a worker, as itself.
    ///
    /// # Errors
    /// [`RegistryError::NotRunning`], or what the file system says.
    pub fn join(lock_dir: &Path) -> Result<Self, RegistryError> {
        Self::join_as(lock_dir, this_process()?)
    }

    /// As [`Registry::join`], under an id that the supervisor chose with [`random_unique_id`] and
    /// therefore knows when the worker dies.
    ///
    /// # Errors
    /// As [`Registry::join`].
    pub fn join_as(lock_dir: &Path, server_id: ServerId) -> Result<Self, RegistryError> {
        let supervisor = running_supervisor(lock_dir)?;
        Self::open(lock_dir, server_id, supervisor, None, |path, _| Tdb::join(path))
    }

    /// What the tables are open by.
    #[must_use]
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        let Self { clients, sessions, tree_connects, .. } = self;
        [clients.table(), sessions.table(), tree_connects.table()].map(Tdb::descriptor)
    }

    /// The tables of the supervisor that this process was forked off, for it as the worker `server_id`.
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

    /// Opens the tables of the server that runs for reading: for a tool like `choro status`.
    ///
    /// It takes no locks and so cannot hold up the server; what changes while it is read may be
    /// missed or counted as damaged.
    ///
    /// # Errors
    /// [`RegistryError::NotRunning`], or what the file system says.
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
    /// This process.
    #[must_use]
    pub fn server_id(&self) -> ServerId {
        self.server_id
    }

    /// The supervisor of the server.
    #[must_use]
    pub fn supervisor(&self) -> ServerId {
        self.supervisor
    }

    /// An id for a session, a persistent FileId or anything else that must be unique in the
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

    /// Claims a client for this process, whose record is a claim: all its connections are to come
    /// here. Decided under the lock of the record, so that of several processes one has it. The claim
    /// of `instead_of` counts for nothing: that process has been found to be gone.
    ///
    /// # Errors
    /// As [`Table::with_record`], and [`TableError::Full`].
    pub fn claim_client(
        &self,
        record: &ClientRecord,
        instead_of: Option<ServerId>,
    ) -> Result<Claim, TableError> {
        let other = self.clients.claim(record, instead_of)?;
        Ok(other.map_or(Claim::Ours, Claim::Of))
    }

    /// The process that claims a client.
    ///
    /// # Errors
    /// As [`Table::get`], and [`TableError::Damaged`].
    pub fn find_claim(&self, client_guid: Guid) -> Result<Option<ServerId>, TableError> {
        let record = self.clients.find(ClientRecord::claim_key_of(client_guid))?;
        Ok(record.map(|record| record.server_id))
    }

    /// Removes the record of a client of this process, its claim included; whether there was one.
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

    /// Removes the record of a session, if this process has it; whether that was so.
    ///
    /// # Errors
    /// As [`Table::with_record`].
    pub fn remove_session(&self, session_id: u64) -> Result<bool, TableError> {
        self.sessions.remove_owned(SessionRecord::key_of(session_id), self.server_id)
    }

    /// The session of this id, whichever worker has it: [MS-SMB2] 3.3.5.5.3 asks for it.
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

    /// Removes the record of a tree connect, if this process has it; whether that was so.
    ///
    /// # Errors
    /// As [`Table::with_record`].
    pub fn remove_tree_connect(&self, session_id: u64, tree_id: u32) -> Result<bool, TableError> {
        let key = TreeConnectRecord::key_of(session_id, tree_id);
        self.tree_connects.remove_owned(key, self.server_id)
    }

    /// Tree connects to a share, of all clients: Share.CurrentUses of [MS-SMB2] 3.3.1.6.
    ///
    /// `share` is compared as it stands. Reads the whole table: for TREE_CONNECT, not for less.
    ///
    /// # Errors
    /// As [`Table::for_each`].
    pub fn count_tree_connects(&self, share: &str) -> Result<usize, TableError> {
        let tree_connects = self.tree_connects.list()?.records;
        Ok(tree_connects.iter().filter(|record| record.share == share).count())
    }

    /// All clients.
    ///
    /// # Errors
    /// As [`Table::for_each`].
    pub fn list_clients(&self) -> Result<Listing<ClientRecord>, TableError> {
        self.clients.list()
    }

    /// All sessions.
    ///
    /// # Errors
    /// As [`Table::for_each`].
    pub fn list_sessions(&self) -> Result<Listing<SessionRecord>, TableError> {
        self.sessions.list()
    }

    /// All tree connects.
    ///
    /// # Errors
    /// As [`Table::for_each`].
    pub fn list_tree_connects(&self) -> Result<Listing<TreeConnectRecord>, TableError> {
        self.tree_connects.list()
    }

    /// Mends what a process left in disorder that was killed while it changed a table: for the
    /// supervisor, before anything else is done about the dead.
    pub fn mend(&self) -> Vec<TableMended> {
        vec![
            ("clients.tdb", self.clients.mend()),
            ("sessions.tdb", self.sessions.mend()),
            ("tree_connects.tdb", self.tree_connects.mend()),
        ]
    }

    /// Removes every record that a process left when it died: for the supervisor, when it has
    /// reaped it.
    ///
    /// Tree connects go first and the client last, so that nobody sees one without its session.
    ///
    /// # Errors
    /// What stopped it; calling again goes on from there.
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

/// Hash chains of a table with an entry per client or share in use. A prime.
const HASH_SIZE: u16 = 1_009;

#[cfg(test)]
mod tests;
