//! A load like dbench's: file operations of an office program, one request at a time.
//!
//! A round has the operations of dbench's usual load in their proportions: of 4 opens one is of a
//! missing name and one creates a file; 2 writes to 6 reads; 4 queries by path, one by handle, one
//! of the file system and one listing; a rename now and then, a deletion, and a flush in every
//! fourth round. Each client has its own directory, as in dbench. The result counts the bytes
//! written and read.

use std::fs;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use dtyp::{FileInformationClass, NtStatus, utf16};
use wire::flush::FlushRequest;
use wire::query_info::{InfoType, QueryInfoRequest};
use wire::set_info::SetInfoRequest;
use wire::{Command, FileId};

use super::{Done, Limit, Load};
use crate::client::requests::{
    Purpose, close, listed, open, push_query_directory, push_query_info, push_read, push_set_basic,
    push_stat, push_write, verify_read,
};
use crate::client::{Client, Protection, Slot};
use crate::server::Server;

/// Bytes of a write, two of which make a file.
const WRITE_BYTES: usize = 24 << 10;

/// Bytes of a read, three of which read a file.
const READ_BYTES: usize = 16 << 10;

/// Bytes of an answer to a listing.
const LISTING_BYTES: usize = 64 << 10;

/// Files that a client keeps; an older one goes with each that is new.
const FILES: u64 = 20;

/// FileFsFullSizeInformation: [MS-FSCC] 2.5.4.
const FULL_SIZE: u8 = 7;

/// One client of the load. An operation is a request that was answered.
#[derive(Debug)]
pub struct Dbench {
    client: Client,
    directory: String,
    share_path: PathBuf,
    data: Vec<u8>,
    rounds: u64,
    done: Done,
}

impl Dbench {
    /// Connects, and makes the directory and the files that a client finds.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub fn prepare(server: &Server) -> Result<Self> {
        let mut client = server.connect(Protection::Plain)?;
        client.gather_credits(1, LISTING_BYTES)?;
        let directory = format!("client {}", client.local_port()?);
        let made = open(&mut client, Purpose::NewDirectory, &directory)?;
        close(&mut client, made)?;
        let share_path = server.share_path().to_owned();
        let data = vec![0x5A; WRITE_BYTES];
        let (rounds, done) = Default::default();
        let mut load = Self { client, directory, share_path, data, rounds, done };
        for file in 0..FILES {
            load.make(file)?;
        }
        load.rounds = FILES;
        Ok(load)
    }

    /// Makes a change in the share that a client has nothing to do with otherwise.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub fn change(&mut self) -> Result<()> {
        let path = format!(r"{}\change", self.directory);
        let made = open(&mut self.client, Purpose::NewDirectory, &path)?;
        close(&mut self.client, made)
    }

    fn path(&self, file: u64) -> String {
        format!(r"{}\document {file:06}.txt", self.directory)
    }

    /// One round: 30 requests and some.
    fn round(&mut self) -> Result<()> {
        let new = self.rounds;
        let (near, far) = (new - 1, new - FILES / 2);
        self.miss(&format!(r"{}\none {new}.tmp", self.directory))?;
        self.make(new)?;
        for file in [new, near, far, near] {
            self.ask(file)?;
        }
        self.ask_for_space(new)?;
        for file in [near, far] {
            self.read(file)?;
        }
        self.list()?;
        self.delete(new - FILES)?;
        self.rounds += 1;
        Ok(())
    }

    /// Opens a name that does not exist.
    fn miss(&mut self, path: &str) -> Result<()> {
        self.done.operations += 1;
        let name = utf16::to_bytes(path);
        let reply = self.client.call(Command::CREATE, 0, &Purpose::Open.request(&name))?;
        let status = reply.header.status;
        ensure!(status == NtStatus::OBJECT_NAME_NOT_FOUND, "{path} was answered with {status:?}");
        Ok(())
    }

    fn make(&mut self, file: u64) -> Result<()> {
        let path = self.path(file);
        let (made, final_path) = match file % 6 {
            // Written under another name first, as programs do that mind a loss.
            0 => (format!("{path}.new"), Some(path)),
            _ => (path, None),
        };
        let id = self.open(Purpose::NewFile, &made)?;
        for offset in [0, WRITE_BYTES] {
            push_write(&mut self.client, id, u64::try_from(offset)?, &self.data);
            self.answer()?;
            self.done.bytes += u64::try_from(WRITE_BYTES)?;
        }
        if file.is_multiple_of(4) {
            self.client.push(Command::FLUSH, 0, &FlushRequest { file_id: id });
            self.answer()?;
        }
        if file.is_multiple_of(3) {
            push_set_basic(&mut self.client, id);
            self.answer()?;
        }
        push_query_info(&mut self.client, id);
        self.answer()?;
        self.close(id)?;
        match final_path {
            Some(path) => self.rename(&made, &path),
            None => Ok(()),
        }
    }

    /// Asks about a file by its path.
    fn ask(&mut self, file: u64) -> Result<()> {
        let name = utf16::to_bytes(&self.path(file));
        push_stat(&mut self.client, &name);
        self.client.flush(Slot(0))?;
        for _ in 0..3 {
            self.done.operations += 1;
            self.client.receive()?.succeeded()?;
        }
        Ok(())
    }

    fn ask_for_space(&mut self, file: u64) -> Result<()> {
        let id = self.open(Purpose::Stat, &self.path(file))?;
        let request = QueryInfoRequest {
            info_type: InfoType::FILESYSTEM,
            file_info_class: FULL_SIZE,
            output_buffer_length: 64,
            file_id: id,
            ..QueryInfoRequest::default()
        };
        self.client.push(Command::QUERY_INFO, 0, &request);
        self.answer()?;
        self.close(id)
    }

    fn read(&mut self, file: u64) -> Result<()> {
        let id = self.open(Purpose::Open, &self.path(file))?;
        for offset in [0, READ_BYTES, 2 * READ_BYTES] {
            push_read(&mut self.client, id, u64::try_from(offset)?, READ_BYTES);
            self.client.flush(Slot(0))?;
            let reply = self.client.receive()?;
            verify_read(&self.client, &reply, READ_BYTES)?;
            self.done.operations += 1;
            self.done.bytes += u64::try_from(READ_BYTES)?;
        }
        self.close(id)
    }

    fn list(&mut self) -> Result<()> {
        let directory = self.directory.clone();
        let id = self.open(Purpose::List, &directory)?;
        loop {
            push_query_directory(&mut self.client, id, LISTING_BYTES);
            self.client.flush(Slot(0))?;
            let reply = self.client.receive()?;
            self.done.operations += 1;
            if listed(&self.client, &reply)?.is_none() {
                break;
            }
        }
        self.close(id)
    }

    /// FileRenameInformation: [MS-FSCC] 2.4.43.2.
    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let id = self.open(Purpose::Change, from)?;
        let name = utf16::to_bytes(to);
        let mut buffer = vec![0; 16];
        buffer.extend_from_slice(&u32::try_from(name.len())?.to_le_bytes());
        buffer.extend_from_slice(&name);
        self.set_info(id, FileInformationClass::RENAME, &buffer)?;
        self.close(id)
    }

    fn delete(&mut self, file: u64) -> Result<()> {
        let id = self.open(Purpose::Change, &self.path(file))?;
        self.set_info(id, FileInformationClass::DISPOSITION, &[1])?;
        self.close(id)
    }

    fn set_info(&mut self, id: FileId, class: FileInformationClass, buffer: &[u8]) -> Result<()> {
        let request = SetInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: class.0,
            additional_information: 0,
            file_id: id,
            buffer,
        };
        self.client.push(Command::SET_INFO, 0, &request);
        self.answer()
    }

    fn open(&mut self, purpose: Purpose, path: &str) -> Result<FileId> {
        self.done.operations += 1;
        open(&mut self.client, purpose, path)
    }

    fn close(&mut self, id: FileId) -> Result<()> {
        self.done.operations += 1;
        close(&mut self.client, id)
    }

    /// Sends the gathered requests, and waits for their responses.
    fn answer(&mut self) -> Result<()> {
        self.client.flush(Slot(0))?;
        self.client.receive()?.succeeded()?;
        self.done.operations += 1;
        Ok(())
    }
}

impl Load for Dbench {
    /// Whole rounds only. A limit of operations counts rounds.
    fn run(&mut self, mut limit: Limit) -> Result<Done> {
        self.done = Done::default();
        while limit.take() {
            self.round()?;
        }
        Ok(self.done)
    }

    fn client(&self) -> Option<&Client> {
        Some(&self.client)
    }
}

impl Drop for Dbench {
    fn drop(&mut self) {
        // One that is left behind goes with the directory of the server.
        let _ = fs::remove_dir_all(self.share_path.join(&self.directory));
    }
}
