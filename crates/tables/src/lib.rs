//! The global tables: clients, sessions, tree connects and opens of all workers.
//!
//! Whatever must be known beyond one worker lies here, one record per thing, each with the
//! [`ServerId`](dtyp::ServerId) of the process that owns it. The supervisor creates the tables and
//! holds them open for the life of the server; workers join; `choro status` observes. [`Registry`]
//! is the way in; [`Table`] is what it stands on: libtdb in a server, memory in a simulation.
//!
//! No table waits for anything but the short lock of one hash chain. Waiting for another process
//! is done by messages, never by holding a lock.

mod codec;
mod failed_logon_page;
mod files;
mod fork;
mod logon_page;
mod memory;
mod qos_page;
mod record;
mod registry;
mod server_lock;
mod shared_memory;
mod table;
mod typed_table;
mod unique_ids;
mod watch_page;

pub use codec::{RecordError, TEXT_BYTES_MAX};
pub use failed_logon_page::FailedLogonPage;
pub use files::{FileTable, MemoryFiles, Restored, Scavenged};
pub use fork::{Forked, close_all_but, fork, leaves_nothing_open};
pub use logon_page::{LOGON_SLOTS, Logon, LogonPage};
pub use memory::MemoryTable;
pub use qos_page::QosPage;
pub use record::{ClientRecord, Key, Record, SessionRecord, TreeConnectRecord};
pub use registry::{Claim, MemoryTables, Registry, RegistryError, Removed};
pub use table::{Table, TableError, TableMended};
pub use tdb::{Change, Mended, RECORD_BYTES_MAX, Tdb};
pub use typed_table::{Listing, RECORDS_PER_PROCESS_MAX};
pub use unique_ids::random_unique_id;
pub use watch_page::WatchPage;
