//! FSCTL_QUERY_NETWORK_INTERFACE_INFO: [MS-SMB2] 3.3.5.15.11.

use engine::effect::{Effect, Reply};
use model::reject::Reject;
use wire::ioctl::{FsctlCode, IoctlRequest, NetworkInterfaceList};
use wire::negotiate::Capabilities;

use super::{Fsctl, Output, Progress, WithoutOpen};

/// Reports the server's other addresses to a client.
///
/// They are looked up for each query of another second: clients repeat it every few minutes to
/// learn of links that went down or came up.
pub(crate) struct QueryNetworkInterfaceInfo;

/// A query while the worker lists the addresses.
#[derive(Debug)]
pub(crate) struct Pending;

impl Fsctl for QueryNetworkInterfaceInfo {
    const CODE: FsctlCode = FsctlCode::QUERY_NETWORK_INTERFACE_INFO;
    type Scope<'s> = WithoutOpen<'s>;
    type Pending = Pending;

    fn start(scope: WithoutOpen<'_>, _: &IoctlRequest<'_>) -> Result<Progress<Pending>, Reject> {
        let capabilities = scope.connection.negotiated().server_capabilities;
        if !capabilities.contains(Capabilities::MULTI_CHANNEL) {
            return Err(Reject::MultichannelNotNegotiated);
        }
        scope.connection.asked_for_interfaces = true;
        Ok(Progress::Wait(Effect::ListNetworkInterfaces, Pending))
    }

    fn resume(
        _: WithoutOpen<'_>,
        Pending: Pending,
        reply: Reply,
    ) -> Result<Progress<Pending>, Reject> {
        let Reply::NetworkInterfaces(interfaces) = reply else {
            panic!("the addresses were asked for, and {reply:?} came back")
        };
        let mut list = NetworkInterfaceList::new();
        // Interfaces without an index must not be reported.
        for interface in interfaces.iter().filter(|interface| interface.if_index != 0) {
            list.push(interface);
        }
        Ok(Progress::Done(Output::new(list.as_bytes().to_vec())))
    }
}
