//! The global tables: clients, sessions, tree connects and opens of all workers.
//!
//! They hold all state that other processes than its worker need, one record per object, each with
//! the [`ServerId`](dtyp::ServerId) of its owner. The supervisor creates the tables and holds them
//! open for the life of the server; workers join; `choro status` observes. [`Registry`] is the
//! entry point; a [`Table`] stores the records: libtdb in a server, memory in a simulation.
//!
//! A table waits only for the short lock of one hash chain, and for the disk when it stores a
//! persistent open. Waiting for another process is done by messages, never by holding a lock.

mod codec;
mod domain_ids;
mod failed_logon_page;
mod files;
mod logon_page;
mod memory;
mod qos_page;
mod record;
mod registry;
mod server_lock;
mod shared_memory;
mod single_process;
mod table;
mod typed_table;
mod unique_ids;
mod violation_page;
mod watch_page;

pub use codec::{RecordError, TEXT_BYTES_MAX};
pub use domain_ids::{DomainId, DomainIds};
pub use failed_logon_page::FailedLogonPage;
pub use files::{DeadWorkers, FileTable, MemoryFiles, Restored, Scavenged};
pub use logon_page::{LOGON_SLOTS, Logon, LogonPage};
pub use memory::MemoryTable;
pub use qos_page::QosPage;
pub use record::{ClientRecord, Key, Record, SessionRecord, TreeConnectRecord};
pub use registry::{Claim, MemoryTables, Registry, RegistryError, Removed};
pub use single_process::{SingleProcess, announce, announced};
pub use table::{Table, TableError, TableMended};
pub use tdb::{Change, Mended, RECORD_BYTES_MAX, Tdb};
pub use typed_table::{Listing, RECORDS_PER_PROCESS_MAX};
pub use unique_ids::random_unique_id;
pub use violation_page::ViolationPage;
pub use watch_page::WatchPage;
