//! Listing one large directory, again and again.

use anyhow::{Result, ensure};
use wire::{Command, FileId};

use super::fixture::{self, Scale};
use super::{Done, Limit, Load};
use crate::client::requests::{Purpose, close, listed, open, push_query_directory};
use crate::client::{Client, Protection, Slot};
use crate::server::Server;

/// QUERY_DIRECTORY of everything in a directory. An operation is one entry.
#[derive(Debug)]
pub struct Listing {
    client: Client,
    directory: &'static str,
    buffer_bytes: usize,
    entries: usize,
}

/// The directory itself and the one above it are listed too.
const DOTS: usize = 2;

impl Listing {
    /// Makes the directory and connects.
    ///
    /// # Errors
    ///
    /// When the server refuses, or takes no buffer of this size.
    pub fn prepare(
        server: &Server,
        scale: Scale,
        protection: Protection,
        buffer_bytes: usize,
    ) -> Result<Self> {
        let directory = fixture::listed(server.share_path(), scale)?;
        let mut client = server.connect(protection)?;
        ensure!(client.payload_bytes_max() >= buffer_bytes, "the server takes no such buffer");
        client.gather_credits(1, buffer_bytes)?;
        let entries = usize::try_from(scale.listed_files)? + DOTS;
        let mut listing = Self { client, directory, buffer_bytes, entries };
        listing.list()?;
        Ok(listing)
    }

    /// Lists the directory once, from the beginning.
    fn list(&mut self) -> Result<()> {
        let directory = open(&mut self.client, Purpose::List, self.directory)?;
        let entries = self.count(directory)?;
        close(&mut self.client, directory)?;
        ensure!(entries == self.entries, "{entries} entries of {} were listed", self.entries);
        Ok(())
    }

    fn count(&mut self, directory: FileId) -> Result<usize> {
        let mut entries = 0;
        // Every answer but the last has at least one entry, so this ends.
        while entries <= self.entries {
            push_query_directory(&mut self.client, directory, self.buffer_bytes);
            self.client.flush(Slot(0))?;
            let reply = self.client.receive()?;
            debug_assert_eq!(reply.header.command, Command::QUERY_DIRECTORY);
            match listed(&self.client, &reply)? {
                None => break,
                Some(count) => {
                    ensure!(count > 0, "an answer without entries");
                    entries += count;
                }
            }
        }
        Ok(entries)
    }
}

impl Load for Listing {
    /// Whole listings only. A limit of operations counts listings, not entries.
    fn run(&mut self, mut limit: Limit) -> Result<Done> {
        let mut listings = 0;
        while limit.take() {
            self.list()?;
            listings += 1;
        }
        Ok(Done { operations: listings * u64::try_from(self.entries)?, bytes: 0 })
    }

    fn client(&self) -> Option<&Client> {
        Some(&self.client)
    }
}
