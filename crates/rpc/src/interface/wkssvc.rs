//! The workstation service: [MS-WKST]. The server has no redirector, no connections to others, and
//! no users at a console; the operator makes it a member of a domain, or renames it.

mod membership;
mod redirector;
#[cfg(test)]
mod tests;
mod workstation;

use super::{Interface, unsupported};
use crate::pdu::SyntaxId;
use dtyp::Guid;

pub(super) static INTERFACE: Interface = Interface {
    name: "wkssvc",
    syntax: SyntaxId {
        uuid: Guid::from_fields(
            0x6BFF_D098,
            0xA112,
            0x3610,
            [0x98, 0x33, 0x46, 0xC3, 0xF8, 0x7E, 0x34, 0x5A],
        ),
        major: 1,
        minor: 0,
    },
    operations: &[
        (0, workstation::get_info),
        (1, unsupported::change_with_parameter),
        (2, workstation::user_enum),
        // 3, 4, 12, 14 to 19 and 21 are reserved for local use: [MS-WKST] 3.2.4. Windows' result is
        // documented for 16 to 19 and 21 only.
        (3, workstation::user_get_info),
        (4, unsupported::value),
        (5, redirector::transport_enum),
        (6, redirector::transport_add),
        (7, unsupported::change),
        (8, redirector::use_add),
        (9, redirector::use_get_info),
        (10, redirector::use_del),
        (11, redirector::use_enum),
        (12, unsupported::for_all),
        (13, redirector::statistics_get),
        (14, unsupported::for_all),
        (15, unsupported::for_all),
        (16, unsupported::for_all),
        (17, unsupported::for_all),
        (18, unsupported::for_all),
        (19, unsupported::for_all),
        (20, membership::get_join_information),
        (21, membership::get_joinable_ous),
        (22, unsupported::change),
        (23, unsupported::change),
        (24, unsupported::change),
        (25, membership::validate_name),
        (26, membership::get_joinable_ous2),
        (27, unsupported::change),
        (28, unsupported::change),
        (29, unsupported::change),
        (30, membership::enumerate_computer_names),
        // The same as 22 to 25 and 27 to 29, with passwords that AES encrypts.
        (31, unsupported::change),
        (32, unsupported::change),
        (33, unsupported::change),
        (34, membership::validate_name),
        (35, unsupported::change),
        (36, unsupported::change),
        (37, unsupported::change),
    ],
    asking: &[],
};
