//! The security account manager: [MS-SAMR]. Read only: users of this server, one group of all of
//! them, and the local groups that are the same on every server.
//!
//! Users keep the SIDs of the system's users (`S-1-22-1-…`) for rights on files. In this interface
//! they have RIDs of the account domain as well, which lsarpc translates.

mod access;
mod alias;
mod denied;
mod display;
mod domain;
mod enumeration;
mod group;
mod information;
mod lookup;
mod object;
mod server;
#[cfg(test)]
mod tests;
mod user;

use dtyp::Guid;

use super::Interface;
use crate::pdu::SyntaxId;

pub(super) static INTERFACE: Interface = Interface {
    name: "samr",
    syntax: SyntaxId {
        uuid: Guid::from_fields(
            0x1234_5778,
            0x1234,
            0xABCD,
            [0xEF, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xAC],
        ),
        major: 1,
        minor: 0,
    },
    operations: &[
        (0, server::connect),
        (1, object::close),
        (2, denied::status),
        (3, object::query_security),
        (4, denied::status),
        (5, server::lookup_domain),
        (6, server::enumerate_domains),
        (7, server::open_domain),
        (8, domain::query_information),
        (9, denied::status),
        (10, denied::create),
        (11, enumeration::groups),
        (12, denied::create),
        (13, enumeration::users),
        (14, denied::create),
        (15, enumeration::aliases),
        (16, alias::membership),
        (17, lookup::names),
        (18, lookup::rids),
        (19, group::open),
        (20, group::query_information),
        (21, denied::status),
        (22, denied::status),
        (23, denied::delete),
        (24, denied::status),
        (25, group::members),
        (26, denied::status),
        (27, alias::open),
        (28, alias::query_information),
        (29, denied::status),
        (30, denied::delete),
        (31, denied::status),
        (32, denied::status),
        (33, alias::members),
        (34, user::open),
        (35, denied::delete),
        (36, user::query_information),
        (37, denied::status),
        (38, denied::status),
        (39, user::groups),
        (40, display::query),
        (44, user::password_information),
        (45, denied::status),
        (46, domain::query_information),
        (47, user::query_information),
        (48, display::query),
        (50, denied::create_user2),
        (51, display::query),
        (52, denied::status),
        (53, denied::status),
        (54, denied::status),
        (55, denied::status),
        (56, domain::password_information),
        (57, server::connect2),
        (58, denied::status),
        (61, server::connect4),
        (62, server::connect4),
        (64, server::connect5),
        (65, lookup::rid_to_sid),
        (66, denied::status),
    ],
    asking: &[],
};
