//! A client that watches the whole share, as a file manager watches visible folders.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use wire::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter};
use wire::{Command, FileId};

use crate::client::requests::{Purpose, close, open};
use crate::client::{Client, Protection, Slot};
use crate::server::Server;

/// Bytes of changes in an answer; more than these, and the client is sent to look for itself.
const CHANGES_BYTES: usize = 32 << 10;

/// A client that asks for changes, and asks again.
#[derive(Debug)]
pub struct Watcher {
    client: Client,
    root: FileId,
}

impl Watcher {
    /// Connects, and asks for the first change.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub fn begin(server: &Server) -> Result<Self> {
        let mut client = server.connect(Protection::Plain)?;
        client.gather_credits(1, CHANGES_BYTES)?;
        let root = open(&mut client, Purpose::List, "")?;
        let mut watcher = Self { client, root };
        watcher.ask()?;
        Ok(watcher)
    }

    fn ask(&mut self) -> Result<()> {
        let request = ChangeNotifyRequest {
            flags: ChangeNotifyFlags::WATCH_TREE,
            output_buffer_length: u32::try_from(CHANGES_BYTES)?,
            file_id: self.root,
            completion_filter: CompletionFilter::FILE_NAME
                | CompletionFilter::DIR_NAME
                | CompletionFilter::SIZE
                | CompletionFilter::LAST_WRITE,
        };
        self.client.push(Command::CHANGE_NOTIFY, CHANGES_BYTES, &request);
        self.client.flush(Slot(0))
    }

    /// Takes changes until one comes after `is_over` was set.
    ///
    /// # Errors
    ///
    /// When the server refuses to go on, or no change comes.
    pub fn run(mut self, is_over: &AtomicBool) -> Result<()> {
        loop {
            self.client.receive()?.succeeded()?;
            if is_over.load(Ordering::Relaxed) {
                return close(&mut self.client, self.root);
            }
            self.ask()?;
        }
    }
}
