//! State that [MS-SMB2] 3.3.1 describes, and the rules that need nothing else.

#![forbid(unsafe_code)]

pub mod account;
pub mod audit;
pub mod buffer_pool;
pub mod caching;
pub mod channel_sequence;
pub mod connection;
pub mod disconnect;
pub mod entropy;
pub mod enumeration;
pub mod file_key;
pub mod logon;
pub mod logon_throttle;
pub mod memory_account;
pub mod now;
pub mod open;
pub mod pipe;
pub mod posix;
pub mod reject;
pub mod request_id;
pub mod sequence_window;
pub mod session;
pub mod settings;
pub mod share;
pub mod storage_load;
pub mod traversals;
pub mod tree_connect;
pub mod watch;
