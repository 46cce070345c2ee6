//! A client that opens, locks and caches the one file of a share, over a [`Connection`].

use std::net::{IpAddr, Ipv4Addr};

use dtyp::{AccessMask, Guid, NtStatus, utf16};
use wire::close::CloseRequest;
use wire::create::{
    CreateDisposition, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use wire::echo::EchoRequest;
use wire::header::HeaderFlags;
use wire::lock::{LockElement, LockFlags, LockRequest, Locks};
use wire::oplock_break::OplockBreak;
use wire::read::ReadRequest;
use wire::write::WriteRequest;
use wire::{Command, Decode, FileId, Header, OplockLevel};

use super::TestServer;
use super::choro::PATIENCE;
use super::connection::Connection;

/// All kinds of access by others at the same time.
pub const ALL: ShareAccess = ShareAccess::READ.union(ShareAccess::WRITE).union(ShareAccess::DELETE);

/// A client of one share.
#[derive(Debug)]
pub struct Client(pub Connection);

impl Client {
    pub fn new(server: &TestServer, share: &str, guid: u8) -> Self {
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let connection = Connection::connect(from, server.site().address(), PATIENCE);
        let mut connection = connection.expect("the server listens");
        connection.negotiate(Guid([guid; 16])).expect("the server speaks 3.0");
        connection.log_on().expect("the password is right");
        assert_eq!(connection.tree(share).expect("an answer"), NtStatus::SUCCESS);
        Self(connection)
    }

    #[track_caller]
    pub fn call(&mut self, command: Command, body: &impl wire::Encode) -> (Header, Vec<u8>) {
        let message_id = self.0.send(command, HeaderFlags::empty(), body).expect("it is connected");
        self.final_answer(message_id)
    }

    /// The next message that is no interim response.
    #[track_caller]
    pub fn next(&mut self) -> (Header, Vec<u8>) {
        loop {
            let (header, message) = self.0.receive().expect("the server answers");
            if header.status != NtStatus::PENDING {
                return (header, message);
            }
        }
    }

    #[track_caller]
    pub fn final_answer(&mut self, message_id: u64) -> (Header, Vec<u8>) {
        let (header, message) = self.next();
        assert_eq!(header.message_id, message_id);
        (header, message)
    }

    #[track_caller]
    pub fn try_open(
        &mut self,
        access: AccessMask,
        share_access: ShareAccess,
        oplock: OplockLevel,
    ) -> Result<(FileId, OplockLevel), NtStatus> {
        let message_id = self.begin_open(access, share_access, oplock);
        self.opened(message_id)
    }

    pub fn begin_open(
        &mut self,
        access: AccessMask,
        share_access: ShareAccess,
        oplock: OplockLevel,
    ) -> u64 {
        let name = utf16::to_bytes("file");
        let request = CreateRequest {
            requested_oplock_level: oplock,
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: access,
            share_access,
            create_disposition: CreateDisposition::OPEN,
            name: &name,
            ..CreateRequest::default()
        };
        self.0.send(Command::CREATE, HeaderFlags::empty(), &request).expect("it is connected")
    }

    #[track_caller]
    pub fn opened(&mut self, message_id: u64) -> Result<(FileId, OplockLevel), NtStatus> {
        let (header, message) = self.final_answer(message_id);
        if header.status.is_error() {
            return Err(header.status);
        }
        let response = CreateResponse::decode(&message).expect("well-formed");
        Ok((response.file_id, response.oplock_level))
    }

    #[track_caller]
    pub fn open(&mut self) -> FileId {
        self.open_with(OplockLevel::NONE)
    }

    #[track_caller]
    pub fn open_with(&mut self, oplock: OplockLevel) -> FileId {
        let opened = self.try_open(AccessMask::FILE_ALL, ALL, oplock).expect("it may");
        assert_eq!(opened.1, oplock);
        opened.0
    }

    pub fn begin_lock(&mut self, file_id: FileId, locks: &[(u64, u64, LockFlags)]) -> u64 {
        let elements: Vec<_> = locks
            .iter()
            .map(|&(offset, length, flags)| LockElement { offset, length, flags })
            .collect();
        let request = LockRequest { lock_sequence: 0, file_id, locks: Locks::new(&elements) };
        self.0.send(Command::LOCK, HeaderFlags::empty(), &request).expect("it is connected")
    }

    #[track_caller]
    pub fn lock(&mut self, file_id: FileId, locks: &[(u64, u64, LockFlags)]) -> NtStatus {
        let message_id = self.begin_lock(file_id, locks);
        self.final_answer(message_id).0.status
    }

    #[track_caller]
    pub fn unlock(&mut self, file_id: FileId, offset: u64, length: u64) {
        let unlocked = self.lock(file_id, &[(offset, length, LockFlags::UNLOCK)]);
        assert_eq!(unlocked, NtStatus::SUCCESS);
    }

    #[track_caller]
    pub fn read(&mut self, file_id: FileId, offset: u64, length: u32) -> NtStatus {
        let request = ReadRequest { offset, length, file_id, ..ReadRequest::default() };
        self.call(Command::READ, &request).0.status
    }

    #[track_caller]
    pub fn write(&mut self, file_id: FileId, offset: u64) -> NtStatus {
        self.call(Command::WRITE, &WriteRequest::new(file_id, offset, b"w")).0.status
    }

    #[track_caller]
    pub fn close(&mut self, file_id: FileId) {
        let request = CloseRequest { file_id, ..CloseRequest::default() };
        assert_eq!(self.call(Command::CLOSE, &request).0.status, NtStatus::SUCCESS);
    }

    #[track_caller]
    pub fn echo(&mut self) {
        assert_eq!(self.call(Command::ECHO, &EchoRequest).0.status, NtStatus::SUCCESS);
    }

    /// Takes the notification of a break to no caching at all.
    #[track_caller]
    pub fn broken(&mut self, file_id: FileId) {
        let (header, message) = self.next();
        assert_eq!(header.command, Command::OPLOCK_BREAK);
        let body = OplockBreak::decode(&message).expect("well-formed");
        assert_eq!(body, OplockBreak { oplock_level: OplockLevel::NONE, file_id });
    }

    #[track_caller]
    pub fn acknowledge(&mut self, file_id: FileId) {
        let body = OplockBreak { oplock_level: OplockLevel::NONE, file_id };
        assert_eq!(self.call(Command::OPLOCK_BREAK, &body).0.status, NtStatus::SUCCESS);
    }
}
