//! Copy of many small files.
//!
//! The requests of the Linux client for `cp -r` of 10,000 files of 10 KB in 101 directories: for
//! each file CREATE, QUERY_INFO, WRITE and CLOSE, for each directory CREATE, SET_INFO and CLOSE.
//! Each request of a file needs the response to the one before; several files may be in progress.

use std::fs;
use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use dtyp::utf16;
use wire::{Command, FileId};

use super::fixture::{FILES_PER_DIRECTORY, Scale};
use super::{Done, Limit, Load};
use crate::client::pipeline::{self, Job, Progress};
use crate::client::requests::{
    Purpose, close, created, open, push_close, push_create, push_query_info, push_set_basic,
    push_write,
};
use crate::client::{Client, Protection, Reply, Slot};
use crate::server::Server;

/// Number of bytes of each file.
pub const FILE_BYTES: usize = 10_000;

/// Copies files into a tree of its own, which is deleted afterwards. An operation is one file.
#[derive(Debug)]
pub struct SmallFiles {
    client: Client,
    depth: usize,
    share_path: PathBuf,
    trees: u32,
    files_max: u32,
}

impl SmallFiles {
    /// Connects.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub fn prepare(
        server: &Server,
        scale: Scale,
        protection: Protection,
        depth: usize,
    ) -> Result<Self> {
        let mut client = server.connect(protection)?;
        client.gather_credits(depth, FILE_BYTES)?;
        let share_path = server.share_path().to_owned();
        Ok(Self { client, depth, share_path, trees: 0, files_max: scale.copied_files })
    }

    fn make_directory(&mut self, name: &str) -> Result<()> {
        let directory = open(&mut self.client, Purpose::NewDirectory, name)?;
        push_set_basic(&mut self.client, directory);
        self.client.flush(Slot(0))?;
        self.client.receive()?.succeeded()?;
        close(&mut self.client, directory)
    }
}

impl Load for SmallFiles {
    fn run(&mut self, mut limit: Limit) -> Result<Done> {
        self.trees += 1;
        let root = format!("copy {} {}", self.client.local_port()?, self.trees);
        self.make_directory(&root)?;
        let data = vec![0xA5; FILE_BYTES];
        let mut operations = 0;
        let mut more = true;
        for directory in 0..self.files_max.div_ceil(FILES_PER_DIRECTORY) {
            if !more {
                break;
            }
            let directory = format!(r"{root}\directory {directory:03}");
            self.make_directory(&directory)?;
            let mut files = 0..FILES_PER_DIRECTORY;
            operations += pipeline::run(&mut self.client, self.depth, || {
                let file = files.next()?;
                more = limit.take();
                let name = format!(r"{directory}\small file {file:05}.txt");
                more.then(|| Copy::new(utf16::to_bytes(&name), &data))
            })?;
        }
        let bytes = operations * u64::try_from(FILE_BYTES)?;
        Ok(Done { operations, bytes })
    }

    fn client(&self) -> Option<&Client> {
        Some(&self.client)
    }
}

impl Drop for SmallFiles {
    /// The copies would take memory from later rows.
    fn drop(&mut self) {
        let Ok(port) = self.client.local_port() else { return };
        for tree in 1..=self.trees {
            // One that is left behind goes with the directory of the server.
            let _ = fs::remove_dir_all(self.share_path.join(format!("copy {port} {tree}")));
        }
    }
}

/// The copy of one file.
struct Copy<'a> {
    name: Vec<u8>,
    data: &'a [u8],
    file_id: FileId,
}

impl<'a> Copy<'a> {
    fn new(name: Vec<u8>, data: &'a [u8]) -> Self {
        Self { name, data, file_id: FileId::ANY }
    }
}

impl Job for Copy<'_> {
    fn start(&mut self, client: &mut Client, slot: Slot) -> Result<()> {
        push_create(client, Purpose::NewFile, &self.name);
        client.flush(slot)
    }

    fn advance(&mut self, client: &mut Client, slot: Slot, reply: &Reply) -> Result<Progress> {
        let reply = reply.clone().succeeded()?;
        match reply.header.command {
            Command::CREATE => {
                self.file_id = created(client, &reply)?;
                push_query_info(client, self.file_id);
            }
            Command::QUERY_INFO => push_write(client, self.file_id, 0, self.data),
            Command::WRITE => push_close(client, self.file_id),
            Command::CLOSE => return Ok(Progress::Done),
            other => bail!("{other:?} was not asked for"),
        }
        ensure!(self.file_id != FileId::ANY, "a file without an open");
        client.flush(slot)?;
        Ok(Progress::More)
    }
}
