//! Commands that most tests need.

use client::credit_charge;
use dtyp::fscc::FileInformationClass;
use dtyp::utf16;
use wire::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter};
use wire::close::{CloseFlags, CloseRequest};
use wire::create::CreateResponse;
use wire::echo::EchoRequest;
use wire::flush::FlushRequest;
use wire::lock::{LockElement, LockFlags, LockRequest, Locks};
use wire::logoff::LogoffRequest;
use wire::query_info::{InfoType, QueryInfoFlags, QueryInfoRequest};
use wire::read::{ReadRequest, ReadResponse};
use wire::tree_connect::{ShareFlags, TreeConnectRequest, TreeConnectResponse};
use wire::tree_disconnect::TreeDisconnectRequest;
use wire::write::WriteRequest;
use wire::{Command, Dialect, FileId};

use super::Peer;
use crate::create::{Create, Created};
use crate::request::Request;
use crate::response::Response;

impl Peer {
    /// Connects to a [`crate::World`] with a share: negotiated, logged on as
    /// [`crate::accounts::ALICE`], connected to `data`.
    ///
    /// # Panics
    /// If the server refuses any of it.
    #[track_caller]
    #[must_use]
    pub fn ready(world: &crate::World, dialect: Dialect) -> Self {
        let mut peer = world.connect();
        peer.negotiate([dialect]);
        peer.login_alice();
        peer.tree("data");
        peer
    }

    /// Sends ECHO, which must succeed.
    #[track_caller]
    pub fn echo(&mut self) -> Response {
        let request = self.request(Command::ECHO, &EchoRequest);
        self.call(request)
    }

    /// Sends TREE_CONNECT, keeps the tree connect for further requests, and seals if the share
    /// requires that.
    ///
    /// # Panics
    /// If the server refuses.
    #[track_caller]
    pub fn tree(&mut self, share: &str) -> u32 {
        let response = self.try_tree(share).ok();
        let body: TreeConnectResponse = response.body();
        self.tree_id = response.header.tree_id;
        self.seals |= body.share_flags.contains(ShareFlags::ENCRYPT_DATA);
        self.tree_id
    }

    /// Sends TREE_CONNECT, and returns any response.
    #[track_caller]
    pub fn try_tree(&mut self, share: &str) -> Response {
        let request = self.tree_request(share);
        self.call(request)
    }

    /// Creates a TREE_CONNECT request for a share.
    #[must_use]
    pub fn tree_request(&self, share: &str) -> Request {
        let path = utf16::to_bytes(&format!("\\\\SERVER\\{share}"));
        let body = TreeConnectRequest { path: &path, ..TreeConnectRequest::default() };
        self.request(Command::TREE_CONNECT, &body).tree(0)
    }

    /// Sends TREE_DISCONNECT for the current tree connect.
    #[track_caller]
    pub fn tree_disconnect(&mut self) -> Response {
        let request = self.request(Command::TREE_DISCONNECT, &TreeDisconnectRequest);
        self.call(request)
    }

    /// Sends LOGOFF for the current session.
    #[track_caller]
    pub fn logoff(&mut self) -> Response {
        let request = self.request(Command::LOGOFF, &LogoffRequest).tree(0);
        self.call(request)
    }

    /// Sends CREATE, which must succeed.
    ///
    /// # Panics
    /// If the server refuses.
    #[track_caller]
    pub fn create(&mut self, create: &Create) -> Created {
        let response = self.try_create(create).ok();
        let body: CreateResponse<'_> = response.body();
        Created {
            file_id: body.file_id,
            action: body.create_action,
            end_of_file: body.end_of_file,
            attributes: body.file_attributes,
        }
    }

    /// Sends CREATE, and returns any response.
    #[track_caller]
    pub fn try_create(&mut self, create: &Create) -> Response {
        let request = self.request(Command::CREATE, create);
        self.call(request)
    }

    /// Sends READ, and returns the data.
    ///
    /// # Panics
    /// If the server refuses.
    #[track_caller]
    pub fn read(&mut self, file_id: FileId, offset: u64, length: u32) -> Vec<u8> {
        let request = self.read_request(file_id, offset, length);
        self.call(request).ok().body::<ReadResponse<'_>>().data.to_vec()
    }

    /// Creates a READ request with the CreditCharge for its length.
    #[must_use]
    pub fn read_request(&self, file_id: FileId, offset: u64, length: u32) -> Request {
        let body = ReadRequest { file_id, offset, length, ..ReadRequest::default() };
        self.paid(self.request(Command::READ, &body), length)
    }

    /// Sends WRITE, and returns the response.
    #[track_caller]
    pub fn write(&mut self, file_id: FileId, offset: u64, data: &[u8]) -> Response {
        let request = self.write_request(file_id, offset, data);
        self.call(request)
    }

    /// Creates a WRITE request with the CreditCharge for its data.
    ///
    /// # Panics
    /// If the data is 4 GiB long.
    #[must_use]
    pub fn write_request(&self, file_id: FileId, offset: u64, data: &[u8]) -> Request {
        let body = WriteRequest::new(file_id, offset, data);
        let length = u32::try_from(data.len()).expect("a small write");
        self.paid(self.request(Command::WRITE, &body), length)
    }

    /// Sends FLUSH, and returns the response.
    #[track_caller]
    pub fn flush(&mut self, file_id: FileId) -> Response {
        let request = self.request(Command::FLUSH, &FlushRequest { file_id });
        self.call(request)
    }

    /// Sends CLOSE, and returns the response.
    #[track_caller]
    pub fn close(&mut self, file_id: FileId) -> Response {
        let request = self.close_request(file_id);
        self.call(request)
    }

    /// Creates a CLOSE request of an open.
    #[must_use]
    pub fn close_request(&self, file_id: FileId) -> Request {
        self.request(Command::CLOSE, &CloseRequest { flags: CloseFlags::empty(), file_id })
    }

    /// Creates a CHANGE_NOTIFY request for all changes in a directory.
    #[must_use]
    pub fn watch_request(&self, directory: FileId) -> Request {
        let body = ChangeNotifyRequest {
            flags: ChangeNotifyFlags::empty(),
            output_buffer_length: 1_000,
            file_id: directory,
            completion_filter: CompletionFilter::all(),
        };
        self.request(Command::CHANGE_NOTIFY, &body)
    }

    /// Creates a QUERY_INFO request for all that a file has: [MS-FSCC] 2.4.2.
    #[must_use]
    pub fn query_request(&self, file_id: FileId) -> Request {
        let body = QueryInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: FileInformationClass::ALL.0,
            output_buffer_length: 1_000,
            additional_information: 0,
            flags: QueryInfoFlags::empty(),
            file_id,
            input_buffer: &[],
        };
        self.request(Command::QUERY_INFO, &body)
    }

    /// Creates a LOCK request for the first ten bytes.
    #[must_use]
    pub fn lock_request(&self, file_id: FileId, flags: LockFlags, lock_sequence: u32) -> Request {
        let elements = [LockElement { offset: 0, length: 10, flags }];
        let body = LockRequest { lock_sequence, file_id, locks: Locks::new(&elements) };
        self.request(Command::LOCK, &body)
    }

    /// Sets the CreditCharge for a length: [MS-SMB2] 3.1.5.2.
    fn paid(&self, request: Request, length: u32) -> Request {
        if self.negotiated.dialect <= Dialect::SMB_2_0_2 {
            return request;
        }
        request.charge(credit_charge(usize::try_from(length).expect("32 bits fit memory")))
    }
}
