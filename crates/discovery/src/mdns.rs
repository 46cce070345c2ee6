//! Multicast DNS with DNS-SD, by the library mdns-sd, which has a thread of its own.

mod neighbors;

use std::time::Duration;

use anyhow::Context;
use mdns_sd::{IfKind, ServiceDaemon, ServiceInfo};

use super::Announcement;
use super::service_file::records;

/// Time to say good-bye. The library sends at once, and twice.
const FAREWELL: Duration = Duration::from_millis(500);

/// Longest time until the library's thread has opened its sockets.
const OPENING_MAX: Duration = Duration::from_secs(10);

/// The responder. It says good-bye when it is stopped.
pub(crate) struct Mdns {
    daemon: ServiceDaemon,
    services: Vec<ServiceInfo>,
    interfaces: Vec<String>,
}

impl std::fmt::Debug for Mdns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mdns").field("interfaces", &self.interfaces).finish_non_exhaustive()
    }
}

impl Mdns {
    /// Makes a responder that announces nothing yet.
    ///
    /// # Errors
    /// The socket cannot be opened, or a name is not fit.
    pub(crate) fn new(announcement: &Announcement) -> anyhow::Result<Self> {
        let daemon = ServiceDaemon::new().context("cannot open the port of multicast DNS")?;
        // Its thread has opened its sockets before it answers.
        daemon.status()?.recv_timeout(OPENING_MAX).context("multicast DNS does not start")?;
        neighbors::admit_only_them().context("cannot keep others from multicast DNS")?;
        daemon.disable_interface(IfKind::All).context("multicast DNS")?;
        let host = format!("{}.local.", announcement.host);
        let mut services = Vec::new();
        for (kind, port, texts) in records(announcement) {
            let texts: Vec<(&str, &str)> =
                texts.iter().filter_map(|text| text.split_once('=')).collect();
            let kind = format!("{kind}.local.");
            let service = ServiceInfo::new(&kind, &announcement.name, &host, "", port, &texts[..])
                .with_context(|| format!("{} in multicast DNS", announcement.name))?;
            services.push(service.enable_addr_auto());
        }
        Ok(Self { daemon, services, interfaces: Vec::new() })
    }

    /// Tells of the server on these interfaces, and on no other.
    ///
    /// # Errors
    /// The library's thread has ended.
    pub(crate) fn set_interfaces(&mut self, mut interfaces: Vec<String>) -> anyhow::Result<()> {
        interfaces.sort();
        interfaces.dedup();
        let kinds = |names: &[String], others: &[String]| -> Vec<IfKind> {
            let new = names.iter().filter(|name| !others.contains(name));
            new.cloned().map(IfKind::Name).collect()
        };
        let gone = kinds(&self.interfaces, &interfaces);
        let new = kinds(&interfaces, &self.interfaces);
        if !gone.is_empty() {
            self.daemon.disable_interface(gone)?;
        }
        if !new.is_empty() {
            self.daemon.enable_interface(new)?;
        }
        // Only once there is an interface, so that its probes for the names reach other machines.
        if self.interfaces.is_empty() && !interfaces.is_empty() {
            for service in self.services.drain(..) {
                self.daemon.register(service)?;
            }
        }
        self.interfaces = interfaces;
        Ok(())
    }

    /// Says good-bye, and ends the thread.
    pub(crate) fn stop(&self) {
        if let Ok(ended) = self.daemon.shutdown() {
            let _ = ended.recv_timeout(FAREWELL);
        }
    }
}
