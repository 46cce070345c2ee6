//! The server service: [MS-SRVS].
//!
//! Administrators see sessions and open files, end them, and change shares; other parts of the
//! server carry that out ([`crate::Task`]).

mod alias;
mod device;
mod dfs;
mod in_use;
mod name;
mod path;
mod server;
mod share;
mod share_change;
mod tasks;
#[cfg(test)]
mod tests;
mod transport;

pub(super) use server::PLATFORM_NT;

use super::{Interface, unsupported};
use crate::pdu::SyntaxId;
use dtyp::Guid;

pub(super) static INTERFACE: Interface = Interface {
    name: "srvsvc",
    syntax: SyntaxId {
        uuid: Guid::from_fields(
            0x4B32_4FC8,
            0x1670,
            0x01D3,
            [0x12, 0x78, 0x5A, 0x47, 0xBF, 0x6E, 0xE1, 0x88],
        ),
        major: 3,
        minor: 0,
    },
    operations: &[
        (0, device::device_enum),
        (1, device::device_get_info),
        (2, unsupported::for_all),
        (3, device::queue_enum),
        (4, device::queue_get_info),
        (5, unsupported::value),
        (6, unsupported::for_all),
        (7, unsupported::for_all),
        (8, in_use::connection_enum),
        (9, in_use::file_enum),
        (10, in_use::file_get_info),
        (11, in_use::file_close),
        (12, in_use::session_enum),
        (13, in_use::session_del),
        (14, share_change::share_add),
        (15, share::share_enum),
        (16, share::share_get_info),
        (17, share_change::share_set_info),
        (18, share_change::share_del),
        (19, share_change::share_del),
        (20, share_change::share_check),
        (21, server::server_get_info),
        (22, share_change::server_set_info),
        (23, server::server_disk_enum),
        (24, server::server_statistics_get),
        (25, unsupported::change),
        (26, transport::server_transport_enum),
        (27, unsupported::change),
        (28, server::remote_time_of_day),
        (29, unsupported::local),
        (30, path::path_type),
        (31, path::path_canonicalize),
        (32, path::path_compare),
        (33, name::name_validate),
        (34, name::name_canonicalize),
        (35, name::name_compare),
        (36, share::share_enum_sticky),
        (37, share_change::share_del_start),
        (38, share_change::share_del_commit),
        // Clients read and set descriptors of files by SMB.
        (39, unsupported::value),
        (40, unsupported::for_all),
        (41, unsupported::change),
        (42, unsupported::local),
        (43, unsupported::value),
        (44, unsupported::for_all),
        (45, unsupported::for_all),
        (46, unsupported::for_all),
        (47, unsupported::for_all),
        (48, dfs::create_exit_point),
        (49, unsupported::for_all),
        (50, unsupported::for_all),
        (51, unsupported::for_all),
        (52, unsupported::value),
        (53, unsupported::change),
        (54, unsupported::change),
        (55, alias::server_alias_enum),
        (56, unsupported::change),
        (57, share_change::share_del_ex),
    ],
    asking: &[8, 9, 10, 11, 12, 13, 14, 17, 18, 19, 26, 38, 57],
};
