//! Which shares and users there are, and what the configuration makes of them for a client.
//!
//! The engine asks who somebody is, whether they may connect to a share, and what holds in it. The
//! answers come from the configuration, the user database and the system's name service:
//! [`accounts`] has the users, [`shares`] the tree connects, [`server_settings`] the parameters of
//! the engine, and [`name_service`] looks up names without keeping clients waiting.

#![forbid(unsafe_code)]

pub mod accounts;
pub mod added_shares;
mod administrators;
mod audit;
mod catalogue;
pub mod classes;
pub mod command_user;
mod date;
pub mod deletions;
pub mod domain_sid;
mod folder_command;
mod found_share;
pub mod free_space;
mod homes;
pub mod host_names;
mod kept_users;
pub mod mapped_names;
pub mod mount_point;
pub mod name_service;
pub mod opening;
mod own_users;
pub mod quota_commands;
pub mod reach;
mod recent_answers;
mod recycle_bin;
pub mod refusal;
pub mod requester;
mod root_settings;
pub mod samba_users;
mod served;
pub mod server_settings;
pub mod share_commands;
mod share_properties;
mod share_security;
mod share_users;
pub mod shares;
mod shares_folder;
mod snapshots;
mod streams_depot;
pub mod unix;
mod unix_user;
pub mod usershares;
