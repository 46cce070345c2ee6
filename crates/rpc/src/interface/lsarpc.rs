//! The local security authority: SIDs of names and names of SIDs ([MS-LSAT]), and the server's
//! domain ([MS-LSAD]).
//!
//! Read only: a policy handle grants queries at most. LsarLookupNames4 and LsarLookupSids3 are for
//! domain controllers, over TCP and a secure channel ([MS-LSAT] 3.1.4.5, 3.1.4.9): they are
//! refused, as by Samba's member servers.

mod lookup_names;
mod lookup_sids;
mod policy;
mod referenced_domains;
mod resolve;
#[cfg(test)]
mod tests;
mod well_known;

use dtyp::Guid;

use super::{Environment, Interface};
use crate::ndr::Reader;
use crate::pdu::{Fault, SyntaxId};

pub(super) static INTERFACE: Interface = Interface {
    name: "lsarpc",
    syntax: SyntaxId {
        uuid: Guid::from_fields(
            0x1234_5778,
            0x1234,
            0xABCD,
            [0xEF, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xAB],
        ),
        major: 0,
        minor: 0,
    },
    operations: &[
        (0, policy::close),
        (6, policy::open_policy),
        (7, policy::query_information_policy),
        (13, policy::enumerate_trusted_domains),
        (14, lookup_names::lookup_names),
        (15, lookup_sids::lookup_sids),
        (44, policy::open_policy2),
        (45, policy::get_user_name),
        (46, policy::query_information_policy),
        (50, policy::enumerate_trusted_domains),
        (57, lookup_sids::lookup_sids2),
        (58, lookup_names::lookup_names2),
        (68, lookup_names::lookup_names3),
        (76, for_domain_controllers),
        (77, for_domain_controllers),
    ],
    // LsarLookupNames, LsarLookupSids and their successors.
    asking: &[14, 15, 57, 58, 68],
};

fn for_domain_controllers(_: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    Err(Fault::AccessDenied)
}
