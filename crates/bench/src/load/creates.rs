//! Making files in one directory, which holds nothing else or very many.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use dtyp::utf16;
use wire::Command;

use super::fixture::{self, Scale};
use super::{Done, Limit, Load};
use crate::client::pipeline::{self, Job, Progress};
use crate::client::requests::{Purpose, created, push_close, push_create};
use crate::client::{Client, Protection, Reply, Slot};
use crate::server::Server;

/// Contents of the directory beforehand.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Crowd {
    /// No files: the directory is empty.
    Nobody,
    /// As many files as [`Scale::crowding_files`].
    Many,
}

/// CREATE of a file that is not there, and CLOSE, one after the other.
#[derive(Debug)]
pub struct Creates {
    client: Client,
    crowd: Crowd,
    folder: PathBuf,
    directory: String,
    made: u64,
}

impl Creates {
    /// Makes the directory and connects.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub fn prepare(
        server: &Server,
        scale: Scale,
        protection: Protection,
        crowd: Crowd,
    ) -> Result<Self> {
        let mut client = server.connect(protection)?;
        client.gather_credits(1, 0)?;
        let directory = match crowd {
            Crowd::Many => fixture::crowded(server.share_path(), scale)?.to_owned(),
            Crowd::Nobody => {
                let name = format!("new {}", client.local_port()?);
                fs::create_dir(server.share_path().join(&name))?;
                name
            }
        };
        let folder = server.share_path().join(&directory);
        let mut creates = Self { client, crowd, folder, directory, made: 0 };
        creates.run(Limit::Operations(1))?;
        Ok(creates)
    }
}

fn file_name(number: u64) -> String {
    format!("New File {number:06}.dat")
}

impl Load for Creates {
    fn run(&mut self, mut limit: Limit) -> Result<Done> {
        let Self { client, directory, made, .. } = self;
        let operations = pipeline::run(client, 1, || {
            let name = format!(r"{directory}\{}", file_name(*made));
            *made += 1;
            limit.take().then(|| Create { name: utf16::to_bytes(&name) })
        })?;
        Ok(Done { operations, bytes: 0 })
    }

    fn client(&self) -> Option<&Client> {
        Some(&self.client)
    }
}

impl Drop for Creates {
    /// Restores the directory for the next measurement. Files left behind are removed with the
    /// server's directory.
    fn drop(&mut self) {
        match self.crowd {
            Crowd::Nobody => drop(fs::remove_dir_all(&self.folder)),
            Crowd::Many => (0..self.made).for_each(|number| {
                drop(fs::remove_file(self.folder.join(file_name(number))));
            }),
        }
    }
}

struct Create {
    name: Vec<u8>,
}

impl Job for Create {
    fn start(&mut self, client: &mut Client, slot: Slot) -> Result<()> {
        push_create(client, Purpose::NewFile, &self.name);
        client.flush(slot)
    }

    fn advance(&mut self, client: &mut Client, slot: Slot, reply: &Reply) -> Result<Progress> {
        if reply.header.command == Command::CREATE {
            let file_id = created(client, reply)?;
            push_close(client, file_id);
            client.flush(slot)?;
            return Ok(Progress::More);
        }
        reply.clone().succeeded()?;
        Ok(Progress::Done)
    }
}
