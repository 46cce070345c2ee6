//! The network interfaces of this machine: what the kernel says of them, and what clients are told.
//!
//! Everything is asked by netlink, which answers for the network that this process is in. The files
//! in `/sys` would be those of another network, if the server was put into one of its own and they
//! were not; they are read for what netlink does not know, and only if they agree on who is who.

pub(crate) mod addresses;
mod detected;
mod ethtool;
mod link;
mod netlink;
mod offer;
mod sysfs;

pub(crate) use addresses::InterfaceAddress;
pub(crate) use offer::{Offer, Offered, Origin, Said, Withheld};
