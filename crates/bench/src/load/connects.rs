//! Clients that come and go.

use anyhow::Result;

use super::{Done, Limit, Load};
use crate::client::{Client, Destination, Protection, Terms};
use crate::server::Server;

/// TCP connect, NEGOTIATE, SESSION_SETUP with NTLM, TREE_CONNECT, LOGOFF, one after the other.
#[derive(Debug)]
pub struct Connects {
    destination: Destination,
}

impl Connects {
    /// Prepares the load without a connection.
    #[must_use]
    pub fn prepare(server: &Server) -> Self {
        Self { destination: server.destination().clone() }
    }
}

impl Load for Connects {
    fn run(&mut self, mut limit: Limit) -> Result<Done> {
        let terms = Terms { dialect: wire::Dialect::SMB_3_1_1, protection: Protection::Plain };
        let mut operations = 0;
        while limit.take() {
            Client::connect(&self.destination, terms)?.logoff()?;
            operations += 1;
        }
        Ok(Done { operations, bytes: 0 })
    }

    fn client(&self) -> Option<&Client> {
        None
    }
}
