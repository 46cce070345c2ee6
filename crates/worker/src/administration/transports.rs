//! Transports that the server listens on, and their clients: [MS-SRVS] 3.1.4.24.

use std::net::SocketAddr;

use dtyp::Guid;
use interfaces::Adapter;
use rpc::{Outcome, TaskFailure, TransportEntry};
use tracing::warn;

use super::in_use::unreadable;
use crate::event_loop::Worker;

/// Adapters that a list has at most: as many as the addresses that clients are offered.
const ADAPTERS_MAX: usize = 256;

/// Port of NetBIOS sessions: RFC 1002 4.3.
const NETBIOS_PORT: u16 = 139;

impl Worker {
    /// Lists the transports, with the clients of all workers.
    pub(super) fn list_transports(&self) -> Result<Outcome, TaskFailure> {
        let clients = self.registry.list_clients().map_err(unreadable)?.records;
        let local = clients.iter().filter_map(|client| client.local_address.parse().ok());
        let local: Vec<SocketAddr> = local.collect();
        let global = &self.settings.config.global;
        let adapters = if global.smb_ports.contains(&NETBIOS_PORT) {
            interfaces::adapters(global).unwrap_or_else(|error| {
                warn!("cannot list the adapters of this machine: {error}");
                Vec::new()
            })
        } else {
            Vec::new()
        };
        Ok(Outcome::Transports(transports(&global.smb_ports, &adapters, &local)))
    }
}

/// Returns the transports of a server with these ports. As with Windows, SMB over TCP is one, and
/// NetBIOS one for each adapter.
fn transports(ports: &[u16], adapters: &[Adapter], clients: &[SocketAddr]) -> Vec<TransportEntry> {
    let count = |is_one: &dyn Fn(&SocketAddr) -> bool| {
        u32::try_from(clients.iter().filter(|it| is_one(it)).count()).unwrap_or(u32::MAX)
    };
    let mut transports = Vec::new();
    if ports.iter().any(|port| *port != NETBIOS_PORT) {
        transports.push(TransportEntry {
            name: TransportEntry::DIRECT.to_owned(),
            network_address: TransportEntry::NO_ADDRESS.to_owned(),
            clients: count(&|client| client.port() != NETBIOS_PORT),
        });
    }
    if !ports.contains(&NETBIOS_PORT) {
        return transports;
    }
    transports.extend(adapters.iter().take(ADAPTERS_MAX).map(|adapter| TransportEntry {
        name: format!("{}{{{}}}", TransportEntry::NETBIOS, guid(adapter).to_uppercase()),
        network_address: adapter.hardware_address.iter().map(|it| format!("{it:02X}")).collect(),
        clients: count(&|client| {
            client.port() == NETBIOS_PORT && adapter.addresses.contains(&client.ip().to_canonical())
        }),
    }));
    transports
}

/// Returns a GUID in text form that differs for each adapter of the machine, and stays the same.
/// Linux gives adapters none, so their numbers and hardware addresses are in it.
fn guid(adapter: &Adapter) -> String {
    let [a, b, c, d, e, f] = adapter.hardware_address;
    Guid::from_fields(adapter.index, 0, 0, [0, 0, a, b, c, d, e, f]).to_string()
}

#[cfg(test)]
mod tests {
    use interfaces::Adapter;
    use rpc::TransportEntry;

    use super::transports;

    /// Name, address and clients of each transport.
    fn listed(ports: &[u16], clients: &[&str]) -> Vec<(String, String, u32)> {
        let adapter = |index, last, address: &str| Adapter {
            index,
            hardware_address: [2, 0, 0, 0, 0xAB, last],
            addresses: vec![address.parse().expect("an address")],
        };
        let adapters = [adapter(2, 1, "192.0.2.1"), adapter(3, 2, "2001:db8::1")];
        let clients: Vec<_> =
            clients.iter().map(|it| it.parse().expect("an address and a port")).collect();
        let listed = transports(ports, &adapters, &clients);
        listed.into_iter().map(|it| (it.name, it.network_address, it.clients)).collect()
    }

    #[test]
    fn smb_over_tcp_is_one_transport_on_all_adapters() {
        let direct = |clients| {
            (TransportEntry::DIRECT.to_owned(), TransportEntry::NO_ADDRESS.to_owned(), clients)
        };
        assert_eq!(listed(&[445], &[]), [direct(0)]);
        assert_eq!(listed(&[445, 4_450], &["192.0.2.1:445", "[::1]:4450"]), [direct(2)]);
        assert_eq!(listed(&[], &[]), []);
    }

    #[test]
    fn netbios_is_a_transport_of_each_adapter_with_its_clients() {
        let clients = ["192.0.2.1:139", "[::ffff:192.0.2.1]:139", "192.0.2.1:445", "127.0.0.1:139"];
        let all = listed(&[445, 139], &clients);
        assert_eq!(all.iter().map(|it| it.2).collect::<Vec<_>>(), [1, 2, 0]);
        let netbios = listed(&[139], &clients);
        assert_eq!(all[1..], netbios);
        let (name, address, _) = &netbios[0];
        assert_eq!(name, "\\Device\\NetBT_Tcpip_{00000002-0000-0000-0000-02000000AB01}");
        assert_eq!(address, "02000000AB01");
        assert!(netbios[1].0.starts_with(TransportEntry::NETBIOS) && netbios[1].0 != *name);
    }
}
