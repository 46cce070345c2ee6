//! A server with a connection, a session, two tree connects (files and pipes) and opens, made
//! without any request, for the tests of commands.

use std::collections::VecDeque;
use std::sync::Arc;

use arbitration::Standing;
use bytes::BytesMut;
use dtyp::{AccessMask, FileTime, Guid, NtStatus, Sid};
use engine::effect::{Effect, Reply};
use engine::inspection::Inspection;
use engine::server::Server;
use model::account::Account;
use model::channel_sequence::ChannelSequence;
use model::connection::{ConnectionId, Negotiated};
use model::entropy::Entropy;
use model::now::Now;
use model::open::{OPEN_BYTES, Open, OpenFile, Target};
use model::reject::Disconnect;
use model::request_id::RequestId;
use model::session::{Channel, Session, SessionState};
use model::settings::{BreakRetry, CatalogueDebug, MapToGuest, Policy, ServerSettings};
use model::share::{CheckedAccess, LocalPrograms, QuotaCommands, Share};
use model::tree_connect::TreeConnect;
use object::{
    FileIdentity, FreeSpace, LocalOpen, Metadata, ObjectOp, ObjectPath, ObjectReply, ObjectResult,
    RootId, UserId,
};
use rustc_hash::FxHashMap;
use testkit::Outcome;
use trace::Reason;
use wire::create::{CreateOptions, ShareAccess};
use wire::negotiate::{Capabilities, SecurityMode};
use wire::{Command, Decode, Dialect, Encode, FileId, Header};

/// The client of a scene.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) connection: ConnectionId,
    next_message_id: u64,
    next_local_open: u32,
    /// Responses that were taken out of turn.
    kept: VecDeque<Answer>,
}

/// A response in the form that the client gets.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) header: Header,
    pub(crate) message: Vec<u8>,
    /// Rule that the request broke.
    pub(crate) reason: Reason,
}

pub(crate) const SESSION: u64 = 9;
pub(crate) const FILES: u32 = 5;
pub(crate) const PIPES: u32 = 6;
pub(crate) const CLIENT_GUID: Guid = Guid([7; 16]);
pub(crate) const TRANSACT_MAX: u32 = 0x10_0000;
const ROOT: RootId = RootId(1);
/// Size of a buffer for received data, in bytes.
pub(crate) const RECEIVE_BYTES: usize = 64 * 1024;
/// Folder of the share on the host.
pub(crate) const FOLDER: &str = "srv/data";

#[derive(Debug)]
struct Catalogue;

impl rpc::Catalogue for Catalogue {
    fn shares(&self, _: &rpc::Caller) -> Arc<[rpc::ShareEntry]> {
        [].into()
    }

    fn server(&self) -> rpc::ServerEntry {
        rpc::ServerEntry::default()
    }

    fn domain_sid(&self) -> Sid {
        Sid::new(5, &[21, 1, 2, 3])
    }

    fn find_user(&self, _: &str) -> Option<rpc::Principal> {
        None
    }

    fn find_group(&self, _: &str) -> Option<rpc::Principal> {
        None
    }

    fn find_sid(&self, _: &Sid) -> Option<rpc::Principal> {
        None
    }

    fn now(&self) -> FileTime {
        FileTime(1)
    }
}

impl Scene {
    /// Makes a scene with dialect 3.0.
    pub(crate) fn new() -> Self {
        Self::with_dialect(Dialect::SMB_3_0)
    }

    pub(crate) fn with_dialect(dialect: Dialect) -> Self {
        let entropy = Entropy::new(|bytes: &mut [u8]| bytes.fill(3));
        let records = Box::new(tables::MemoryFiles::default().handle());
        let mut server =
            Server::new(crate::COMMANDS, settings(), entropy, records, dtyp::ServerId::default());
        let address = "127.0.0.1:445".parse().expect("it is one");
        let connection = server.handle_connect(Now::default(), address, address);
        let state = server.inspect().connections.get_mut(&connection).expect("it was just made");
        state.negotiated = Some(Arc::new(negotiated(dialect)));
        state.progress.logged_on(std::time::Duration::ZERO, true);
        let mut session = Session {
            session_id: SESSION,
            state: SessionState::Valid,
            account: Some(Arc::new(account())),
            expires: None,
            owner: None,
            client_name: String::new(),
            is_anonymous: false,
            standing: Standing::User,
            user_number: account().number(),
            signing_required: false,
            encrypt_data: false,
            sealing: None,
            negotiated: Arc::new(negotiated(dialect)),
            signing_key: None,
            channels: vec![Channel {
                connection,
                signing_key: None,
                authentication: None,
                is_bound: true,
            }],
            tree_connects: FxHashMap::default(),
            next_tree_id: 1,
            party: trace::PartyId::default(),
            memory: server.inspect().globals.memory.keep_beyond_limit(0),
        };
        for (tree_id, root) in [(FILES, Some(ROOT)), (PIPES, None)] {
            let share = Arc::new(share(root));
            let maximal_access = AccessMask::FILE_ALL;
            let tree = TreeConnect {
                tree_id,
                share,
                maximal_access,
                encrypt_data: false,
                party: trace::PartyId::default(),
                classes: Arc::default(),
                memory: server.inspect().globals.memory.keep_beyond_limit(0),
            };
            session.tree_connects.insert(tree_id, tree);
        }
        server
            .inspect()
            .globals
            .folders
            .insert(ROOT, ObjectPath::from_stored(FOLDER.to_owned(), None));
        server.inspect().sessions.insert(SESSION, session);
        Self { server, connection, next_message_id: 0, next_local_open: 0, kept: VecDeque::new() }
    }

    /// Opens a file with all rights. Opens of one path are of one file.
    pub(crate) fn open(&mut self, path: &str) -> FileId {
        self.open_with(path, AccessMask::FILE_ALL, false)
    }

    /// Opens a directory with all rights.
    pub(crate) fn open_directory(&mut self, path: &str) -> FileId {
        self.open_with(path, AccessMask::FILE_ALL, true)
    }

    pub(crate) fn open_with(
        &mut self,
        path: &str,
        granted_access: AccessMask,
        is_directory: bool,
    ) -> FileId {
        self.open_sharing(path, granted_access, is_directory, ShareAccess::all())
    }

    pub(crate) fn open_sharing(
        &mut self,
        path: &str,
        granted_access: AccessMask,
        is_directory: bool,
        share_access: ShareAccess,
    ) -> FileId {
        self.next_local_open += 1;
        let identity = identity_of(path);
        let file = OpenFile {
            local_open: LocalOpen { index: self.next_local_open, generation: 0 },
            identity,
            path: ObjectPath::parse(path).expect("tests name real paths"),
            is_directory,
            share_access,
            create_options: CreateOptions::empty(),
            delete_on_close: false,
            lease: None,
            link: 0,
            parent: None,
            parent_lease: None,
            is_modified: false,
            create_id: None,
            replay: None,
            durable: None,
            position: 0,
            mode: 0,
            enumeration: None,
            attributes_listed: 0,
            next_quota_user: 0,
            watch: None,
            is_being_made: false,
            locks: self.server.inspect().globals.memory.keep_beyond_limit(0),
            checked_access: CheckedAccess::default(),
            has_kernel_lease: false,
            lock_sequences: arbitration::LockSequences::default(),
            audit: None,
        };
        let file_id = self.enter(FILES, Target::File(Box::new(file)), granted_access);
        let mode = arbitration::ShareMode {
            granted_access,
            share_read: share_access.contains(ShareAccess::READ),
            share_write: share_access.contains(ShareAccess::WRITE),
            share_delete: share_access.contains(ShareAccess::DELETE),
        };
        let files = &mut self.server.inspect().globals.files;
        let ask = arbitration::AdmissionRequest {
            id: files.open_id(file_id.volatile),
            standing: Standing::User,
            stream: identity.stream,
            mode,
            overwrites: false,
            is_new: false,
            size: 100,
            is_directory,
            delete_on_close: false,
            caching: arbitration::RequestedCaching::Nothing,
            caching_max: arbitration::Caching::all(),
            shared_reading: true,
            has_waited: false,
            now: files.now(),
            deadline: files.break_deadline(),
            facts: arbitration::OpenFacts {
                share: "data".to_owned(),
                folder: FOLDER.to_owned(),
                path: path.to_owned(),
                ..arbitration::OpenFacts::default()
            },
        };
        // Sharing is not checked, so that a test can set up any combination.
        let enter = |record: &mut arbitration::FileRecord,
                     notify: &mut arbitration::WorkersToNotify| {
            let unshared =
                arbitration::ShareMode { granted_access: AccessMask::READ_ATTRIBUTES, ..ask.mode };
            record.admit(
                &mut arbitration::AdmissionRequest { mode: unshared, ..ask.clone() },
                None,
                notify,
            );
            let open = record.open_mut(ask.id).expect("an open for attributes disturbs nobody");
            open.mode = ask.mode;
            ((), true)
        };
        files.change(model::file_key::key(identity), enter).expect("memory has room");
        file_id
    }

    /// Returns the file of an open.
    pub(crate) fn file(&mut self, file_id: FileId) -> &mut OpenFile {
        let open = self.server.inspect().opens.get_mut(&file_id.volatile).expect("it is open");
        open.file_mut().expect("it is a file")
    }

    /// Changes the settings of the share, also for existing opens.
    pub(crate) fn change_share(&mut self, change: impl Fn(&mut Share)) {
        let Inspection { sessions, opens, .. } = self.server.inspect();
        let session = sessions.get_mut(&SESSION).expect("it is there");
        let trees = session.tree_connects.values_mut().map(|tree| &mut tree.share);
        let opens = opens.values_mut().map(|open| &mut open.share);
        for share in trees.chain(opens) {
            change(Arc::make_mut(share));
        }
    }

    /// Changes the rights that the tree connects have at most. Existing opens keep theirs.
    pub(crate) fn limit_tree_connects(&mut self, maximal_access: AccessMask) {
        let session = self.server.inspect().sessions.get_mut(&SESSION).expect("it is there");
        for tree in session.tree_connects.values_mut() {
            tree.maximal_access = maximal_access;
        }
    }

    pub(crate) fn change_account(&mut self, change: impl Fn(&mut Account)) {
        let session = self.server.inspect().sessions.get_mut(&SESSION).expect("it is there");
        let account = Arc::make_mut(session.account.as_mut().expect("it is valid"));
        change(account);
        session.standing = if account.is_guest { Standing::Guest } else { Standing::User };
    }

    /// Opens a pipe with all rights.
    pub(crate) fn open_pipe(&mut self, name: &str) -> FileId {
        let name = rpc::PipeName::from_name(name).expect("there is such a pipe");
        let globals = &self.server.inspect().globals;
        let (pipes, memory) = (&globals.pipes, &globals.memory);
        let pipe = pipes.open(memory, name, Arc::new(Catalogue), rpc::Caller::default());
        let pipe = pipe.expect("there is room");
        self.enter(PIPES, Target::Pipe(Box::new(pipe)), AccessMask::FILE_ALL)
    }

    fn enter(&mut self, tree_id: u32, target: Target, granted_access: AccessMask) -> FileId {
        let file_id = self.server.inspect().globals.allocate_file_id();
        let root = matches!(target, Target::File(_)).then_some(ROOT);
        let open = Open {
            file_id,
            session_id: SESSION,
            tree_id,
            share: Arc::new(share(root)),
            user: UserId(1),
            target,
            granted_access,
            maximal_access: AccessMask::FILE_ALL,
            channel_sequence: ChannelSequence::default(),
            classes: None,
            is_closing: false,
            memory: self.server.inspect().globals.memory.keep_beyond_limit(OPEN_BYTES),
        };
        self.server.inspect().opens.insert(file_id.volatile, open);
        file_id
    }

    /// Sets FILE_DELETE_ON_CLOSE of an open.
    pub(crate) fn delete_on_close(&mut self, file_id: FileId) {
        self.file(file_id).delete_on_close = true;
    }

    /// Sends a request to the share with files. Returns its message id.
    pub(crate) fn send(&mut self, command: Command, body: &impl Encode) -> u64 {
        self.send_in(FILES, command, body)
    }

    pub(crate) fn send_in(&mut self, tree_id: u32, command: Command, body: &impl Encode) -> u64 {
        let message_id = self.next_message_id;
        self.next_message_id += 1;
        let header = Header { message_id, tree_id, ..header(command) };
        self.deliver(&header, body);
        message_id
    }

    /// Cancels a request with this interim response.
    pub(crate) fn cancel(&mut self, interim: &Answer) {
        let async_id = interim.header.async_id;
        assert!(async_id.is_some(), "{interim:?} is not an interim response");
        let message_id = interim.header.message_id;
        let header = Header { message_id, async_id, ..header(Command::CANCEL) };
        self.deliver(&header, &wire::cancel::CancelRequest);
    }

    fn deliver(&mut self, header: &Header, body: &impl Encode) {
        let mut message = Vec::new();
        header.encode(&mut message);
        body.encode(&mut message);
        // As after a receive: the frame is a part of a larger buffer.
        let mut frame = BytesMut::with_capacity(RECEIVE_BYTES);
        frame.extend_from_slice(&message);
        self.server.handle_frame(self.connection, Now::default(), frame);
    }

    /// Takes the next response, if any.
    pub(crate) fn receive(&mut self) -> Option<Answer> {
        if let Some(kept) = self.kept.pop_front() {
            return Some(kept);
        }
        let transmit = self.server.poll_transmit()?;
        let message = transmit.frame[4..].to_vec();
        let header = Header::decode(&message).expect("the server sends headers");
        assert_eq!(header.next_command, 0, "no test here sends compounds");
        let refused = transmit.answered.refused();
        let reason = refused.first().map_or(Reason::NotRefused, |(_, reason)| *reason);
        Some(Answer { header, message, reason })
    }

    /// Sends a request to the share with files, and takes the only response, which is immediate.
    #[track_caller]
    pub(crate) fn ask(&mut self, command: Command, body: &impl Encode) -> Answer {
        self.ask_in(FILES, command, body)
    }

    #[track_caller]
    pub(crate) fn ask_in(&mut self, tree_id: u32, command: Command, body: &impl Encode) -> Answer {
        let message_id = self.send_in(tree_id, command, body);
        let answer = self.receive().expect("the request is answered at once");
        assert_eq!(answer.header.message_id, message_id);
        answer
    }

    /// Takes the next operation for the store.
    #[track_caller]
    pub(crate) fn op(&mut self) -> (Option<RequestId>, ObjectOp) {
        match self.server.poll_effect().expect("the store is asked") {
            (id, Effect::Object { op, .. }) => (id, op),
            (_, other) => panic!("{other:?} is not for the store"),
        }
    }

    /// Replies in place of the store.
    pub(crate) fn reply(&mut self, id: Option<RequestId>, result: ObjectResult) {
        let id = id.expect("a request waits for it");
        self.server.handle_reply(Now::default(), id, Reply::Object(result));
    }

    /// Replies in place of the command for the free space of a path.
    #[track_caller]
    pub(crate) fn reply_to_free_space(&mut self, path: &str, free_space: Option<FreeSpace>) {
        let (id, effect) = self.server.poll_effect().expect("the command is asked");
        let Effect::FindFreeSpace { path: asked, .. } = effect else { panic!("{effect:?}") };
        assert_eq!(asked.as_str(), path);
        let id = id.expect("a request waits for it");
        self.server.handle_reply(Now::default(), id, Reply::FreeSpace(free_space));
    }

    /// Closes an open, and takes the response to that. Other responses remain.
    pub(crate) fn close(&mut self, file_id: FileId) {
        let close = wire::close::CloseRequest { file_id, ..wire::close::CloseRequest::default() };
        self.send(Command::CLOSE, &close);
        let (id, op) = self.op();
        assert!(matches!(op, ObjectOp::Close { .. }), "{op:?}");
        // Responses to other requests come before the store has closed the file.
        let waiting: Vec<Answer> = std::iter::from_fn(|| self.receive()).collect();
        self.reply(id, Ok(ObjectReply::Done));
        let closed = self.receive().expect("a close is answered");
        assert_eq!(closed.header.status, NtStatus::SUCCESS);
        self.kept.extend(waiting);
    }

    /// Returns the reason for which the server ended the connection.
    pub(crate) fn disconnected(&mut self) -> Option<Disconnect> {
        self.server.poll_close().map(|(_, reason, _)| reason)
    }
}

impl Answer {
    /// Decodes the body of the response.
    #[track_caller]
    pub(crate) fn body<'a, T: Decode<'a>>(&'a self) -> T {
        T::decode(&self.message).expect("the body is the command's")
    }

    pub(crate) fn status(&self) -> NtStatus {
        self.header.status
    }

    /// Outcome of the request: a refusal by its reason, anything else by its status.
    pub(crate) fn outcome(&self) -> Outcome {
        Outcome::of(self.status(), self.reason)
    }
}

/// Returns the identity of a path's file: the same in every scene, and the same file for a stream
/// of it.
pub(crate) fn identity_of(path: &str) -> FileIdentity {
    let step = |sum: u64, byte: u8| sum.wrapping_mul(31).wrapping_add(u64::from(byte));
    let hash = |text: &str| text.bytes().fold(1, step);
    let (object, stream) = path.split_once(':').unwrap_or((path, ""));
    let stream = if stream.is_empty() { 0 } else { hash(stream) };
    FileIdentity { device: 1, inode: hash(object), birth: 1, stream }
}

/// Makes metadata of a file with this size.
pub(crate) fn metadata_of(end_of_file: u64) -> ObjectReply {
    ObjectReply::Metadata(Box::new(Metadata { end_of_file, ..Metadata::default() }))
}

fn header(command: Command) -> Header {
    Header { command, credit_charge: 1, credits: 8, session_id: SESSION, ..Header::default() }
}

fn account() -> Account {
    Account {
        user: "alice".to_owned(),
        requested_user: "alice".to_owned(),
        domain: "WORKGROUP".to_owned(),
        unix: UserId(1),
        identity: "alice".to_owned(),
        sid: Sid::unix_user(1000),
        groups: Arc::default(),
        is_guest: false,
    }
}

fn share(root: Option<RootId>) -> Share {
    Share {
        name: "data".to_owned(),
        requested_name: "data".to_owned(),
        comment: String::new(),
        root,
        user: UserId(1),
        access_max: AccessMask::FILE_ALL,
        encryption: Policy::Off,
        case_sensitive: false,
        durable_handles: true,
        is_ca: false,
        capabilities: 0,
        caching_max: arbitration::Caching::all(),
        shared_reading: true,
        is_dfs_root: false,
        directory_caching_max: arbitration::Caching::all(),
        caching: 0,
        extended_attributes: true,
        named_streams: true,
        delete_readonly: false,
        veto_files: Vec::new(),
        sync_always: false,
        apple: None,
        audit: None,
        requester: None,
        folder: ObjectPath::from_stored(FOLDER.to_owned(), None),
        kernel_change_notify: true,
        checks_directory: false,
        has_free_space_command: false,
        quota_commands: QuotaCommands::default(),
        volume_bytes_max: None,
        local_programs: LocalPrograms::default(),
        classes: Arc::default(),
    }
}

fn negotiated(dialect: Dialect) -> Negotiated {
    Negotiated {
        dialect,
        client_guid: CLIENT_GUID,
        client_capabilities: Capabilities::LARGE_MTU,
        client_security_mode: SecurityMode::SIGNING_ENABLED,
        client_dialects: vec![Dialect::SMB_2_0_2, Dialect::SMB_2_1, dialect],
        server_capabilities: Capabilities::LARGE_MTU,
        server_security_mode: SecurityMode::SIGNING_ENABLED,
        cipher: None,
        signing_algorithm: crypto::SigningAlgorithm::of_dialect(dialect.0, None),
        posix_extensions: false,
        max_read_size: TRANSACT_MAX,
        max_write_size: TRANSACT_MAX,
        max_transact_size: TRANSACT_MAX,
        supports_multi_credit: dialect > Dialect::SMB_2_0_2,
    }
}

fn settings() -> Arc<ServerSettings> {
    let catalogue: Arc<dyn CatalogueDebug> = Arc::new(Catalogue);
    Arc::new(ServerSettings {
        server_guid: Guid([8; 16]),
        netbios_name: "CHORO".to_owned(),
        workgroup: "WORKGROUP".to_owned(),
        dns_name: "choro".to_owned(),
        dns_domain: String::new(),
        mechanisms: auth::Mechanisms::default(),
        is_member: false,
        interim_delay: std::time::Duration::ZERO,
        dialect_min: Dialect::SMB_2_0_2,
        dialect_max: Dialect::SMB_3_1_1,
        signing: Policy::Enabled,
        logon_throttle: model::logon_throttle::ThrottleSettings::default(),
        encryption: Policy::Off,
        ciphers: Vec::new(),
        signing_algorithms: Vec::new(),
        map_to_guest: MapToGuest::Never,
        posix_extensions: false,
        multi_channel: true,
        persistent_handles: true,
        max_read_size: TRANSACT_MAX,
        max_write_size: TRANSACT_MAX,
        max_transact_size: TRANSACT_MAX,
        credits_max: 512,
        credits_total: 0,
        client_memory_max: 256 << 20,
        guest_memory_max: 16 << 20,
        smbtorture_hooks: false,
        replay_detection: true,
        break_retry: BreakRetry::All,
        lock_sequence_checking: true,
        dfs: false,
        is_audited: false,
        change_notify: true,
        leases: true,
        directory_leases: true,
        started: FileTime(1),
        catalogue,
    })
}
