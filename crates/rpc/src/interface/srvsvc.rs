//! The server service: [MS-SRVS].
//!
//! Administrators see sessions and open files, end them, and change shares; other parts of the
//! server carry that out ([`crate::Task`]).

mod enumeration;
mod in_use;
mod server;
mod share;
mod share_change;
#[cfg(test)]
mod tests;
mod transport;

pub(super) use server::PLATFORM_NT;

use super::Interface;
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
        (26, transport::server_transport_enum),
        (28, server::remote_time_of_day),
        (36, share::share_enum_sticky),
    ],
    asking: &[8, 9, 10, 11, 12, 13, 14, 17, 18, 19, 26],
};
