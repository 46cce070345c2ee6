//! The classes of service that a client's requests belong to.

use std::net::SocketAddr;

use config::Config;
use dtyp::Sid;
use proto::Account;
use qos::{Membership, Subject};
use tables::QosPage;

use super::share_users::is_member;

/// Returns the classes for requests of a user and an address to a share on the device with this
/// number.
pub fn membership(
    config: &Config,
    page: &QosPage,
    account: &Account,
    client: SocketAddr,
    share: &str,
    device: Option<u64>,
) -> Membership {
    if config.classes.is_empty() {
        return Membership::default();
    }
    let groups: &[Sid] = &account.groups;
    let is_in_group = |name: &str| is_member(groups, name);
    let subject =
        Subject { client: client.ip(), user: &account.user, is_in_group: &is_in_group, share };
    let classes = config.classes.iter().map(|section| &section.class);
    // A class without a slot is of a configuration that the supervisor has not put up yet, or not
    // any more: with the next one it is asked again.
    let placed = classes.filter_map(|class| Some((page.find(&class.name)?, class)));
    let device = device.and_then(|number| page.device(number));
    Membership::of(placed, subject).on(device)
}
