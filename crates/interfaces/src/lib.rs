//! The network interfaces of this machine: the kernel's data, and the list offered to clients.
//!
//! Netlink answers for the network namespace of this process. The files in `/sys` belong to the
//! namespace of their mount, which differs if the server was moved into a namespace of its own;
//! they supply only the values that netlink lacks, and only if both agree on the interface's
//! identity.

#![forbid(unsafe_code)]

mod adapters;
pub mod addresses;
mod changes;
mod detected;
mod ethtool;
mod link;
mod multichannel;
mod netlink;
mod offer;
mod reachable;
mod sysfs;

pub use adapters::{Adapter, adapters};
pub use addresses::InterfaceAddress;
pub use changes::Changes;
pub use multichannel::{Multichannel, verify_platform};
pub use offer::{Offer, Offered, OfferedValue, Origin, Withheld};
pub use reachable::reachable;
