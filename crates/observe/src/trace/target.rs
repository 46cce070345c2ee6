//! Workers to trace, as named on the command line.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::str::FromStr;

use tables::Registry;

/// Workers to trace, as named on the command line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Target {
    All,
    Client(IpAddr),
    Pid(u32),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        if let Ok(pid) = text.parse() {
            return Ok(Self::Pid(pid));
        }
        text.parse()
            .map(Self::Client)
            .map_err(|_| "expected a pid, the address of a client, or `all`".to_owned())
    }
}

impl Target {
    /// True if a worker is to be traced.
    pub(super) fn means(&self, pid: u32, clients: &[(u32, IpAddr)]) -> bool {
        match self {
            Self::All => true,
            Self::Client(address) => clients.contains(&(pid, *address)),
            Self::Pid(wanted) => *wanted == pid,
        }
    }

    /// Returns the clients of all workers, if the target depends on them.
    ///
    /// # Errors
    /// No server is running, or its tables cannot be read.
    pub(super) fn clients(&self, lock_dir: &Path) -> anyhow::Result<Vec<(u32, IpAddr)>> {
        if !matches!(self, Self::Client(_)) {
            return Ok(Vec::new());
        }
        let clients = Registry::observe(lock_dir)?.list_clients()?.records;
        let address = |text: &str| text.parse().ok().map(|it: SocketAddr| it.ip().to_canonical());
        Ok(clients
            .iter()
            .filter_map(|client| Some((client.server_id.pid, address(&client.client_address)?)))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn a_target_is_a_pid_an_address_or_all() {
        assert_eq!("all".parse(), Ok(Target::All));
        assert_eq!("17".parse(), Ok(Target::Pid(17)));
        let client = Target::Client("192.0.2.1".parse().expect("an address"));
        assert_eq!("192.0.2.1".parse(), Ok(client.clone()));
        "somebody".parse::<Target>().expect_err("a name of nothing");
        let clients = [(3, "192.0.2.1".parse().expect("an address"))];
        assert!(client.means(3, &clients) && !client.means(4, &clients));
        assert!(Target::Pid(4).means(4, &clients) && Target::All.means(5, &clients));
    }
}
