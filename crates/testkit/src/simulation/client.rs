//! A client that acts at random, and records the server's responses.

use std::collections::{BTreeMap, HashMap, HashSet};

use arbitration::{Caching, FileKey};
use dtyp::fscc::FileRenameInformation;
use dtyp::{AccessMask, Guid, NtStatus, ServerId};

use wire::create::{CreateDisposition, CreateOptions, CreateResponse, ShareAccess};
use wire::create_context::{
    DurableFlags, DurableHandleReconnectV2, DurableHandleRequestV2, DurableHandleResponseV2,
    LeaseContext, LeaseV2,
};
use wire::lease::{LeaseFlags, LeaseKey, LeaseState};
use wire::lock::{LockElement, LockFlags, LockRequest, Locks};
use wire::negotiate::Capabilities;
use wire::oplock_break::{BreakNotification, LeaseBreak, LeaseBreakFlags, OplockBreak};
use wire::query_info::InfoType;
use wire::read::ReadResponse;
use wire::set_info::SetInfoRequest;
use wire::{Command, Dialect, FileId, OplockLevel};

use super::check::Writes;
use crate::accounts::ALICE;
use crate::create::Create;
use crate::entropy::Random;
use crate::peer::{Offer, Peer};
use crate::response::Response;
use crate::world::World;

/// Names to open. The last but one is a stream of the first, the last a directory.
const NAMES: [&str; 5] = ["d\\a", "d\\b", "d\\c", "d\\a:s", "d"];

/// Index of the directory in [`NAMES`].
const DIRECTORY: usize = 4;

/// Number of bytes of one WRITE.
const TOKEN_BYTES: u64 = 8;

/// Number of offsets that are written.
const PLACES: usize = 4;

/// Highest number of opens of a client at once.
const OPENS_MAX: usize = 6;

/// One client with at most one connection.
#[derive(Debug)]
pub(super) struct Client {
    number: usize,
    /// True to print its requests and responses.
    is_aloud: bool,
    guid: Guid,
    wants_persistent: bool,
    pub(super) worker: ServerId,
    peer: Option<Peer>,
    pub(super) handles: Vec<Handle>,
    pub(super) holders: BTreeMap<Holder, Belief>,
    breaks: Vec<Break>,
    /// Breaks of caching that the client does not know yet.
    early: Vec<Break>,
    asked: HashMap<u64, PendingRequest>,
    /// Leases whose files may still be changed by requests from before a connection was lost. The
    /// server attributes those to the lease itself, so the client caches nothing under them.
    haunted: HashSet<[u8; 16]>,
    count: u64,
}

/// An open of this client.
#[derive(Clone, Debug)]
pub(super) struct Handle {
    pub(super) file_id: FileId,
    pub(super) file: Option<FileKey>,
    name: usize,
    access: AccessMask,
    lease: Option<[u8; 16]>,
    create_guid: Option<Guid>,
    is_persistent: bool,
    /// True once its connection is lost.
    pub(super) is_away: bool,
    /// True while it is being reclaimed or closed.
    is_busy: bool,
    locks: Vec<u64>,
}

impl Handle {
    /// True for an open of a named stream.
    pub(super) fn is_stream(&self) -> bool {
        NAMES[self.name].contains(':')
    }
}

/// Holder of caching: an open with an oplock, by its volatile id, or a lease.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Holder {
    Lease([u8; 16]),
    Oplock(u64),
}

/// Rights that a holder believes to have.
#[derive(Clone, Debug, Default)]
pub(super) struct Belief {
    pub(super) state: Caching,
    epoch: u16,
    /// Rights left once the client has acknowledged.
    pub(super) after_break: Option<Caching>,
    /// True if a CREATE was answered during a break: the rights left are unknown, or were sent when
    /// the client had forgotten the holder.
    pub(super) in_doubt: bool,
    /// Contents of the file as they were read.
    pub(super) cached: Option<Vec<u8>>,
    /// Number of events that make a pending READ useless for the cache.
    generation: u32,
}

#[derive(Clone, Copy, Debug)]
struct Break {
    holder: Holder,
    file_id: FileId,
    to: Caching,
    epoch: u16,
    ack_required: bool,
}

/// Requests that wait for responses.
#[derive(Clone, Debug)]
enum PendingRequest {
    Acknowledge(Holder),
    Close(FileId),
    Create { handle: Handle, oplock: bool },
    Lock { file_id: FileId, place: u64, async_id: Option<u64> },
    Name,
    Read { holder: Holder, generation: u32 },
    Reconnect(FileId),
    Unlock,
    Write { holder: Holder, token: Vec<u8> },
}

impl Client {
    pub(super) fn new(number: usize, wants_persistent: bool, is_aloud: bool) -> Self {
        Self {
            number,
            is_aloud,
            guid: Guid([0xC0 + u8::try_from(number).expect("a few clients"); 16]),
            wants_persistent,
            worker: ServerId::default(),
            peer: None,
            handles: Vec::new(),
            holders: BTreeMap::new(),
            breaks: Vec::new(),
            early: Vec::new(),
            asked: HashMap::new(),
            haunted: HashSet::new(),
            count: 0,
        }
    }

    /// Prints a line, for the analysis of failures.
    #[expect(clippy::print_stderr, reason = "somebody reads along")]
    fn say(&self, what: impl FnOnce() -> String) {
        if self.is_aloud {
            eprintln!("client {} {}", self.number, what());
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.peer.is_some()
    }

    pub(super) fn connect(&mut self, worker: ServerId, world: &World) {
        let mut peer = world.connect();
        let mut offer = Offer::dialects(&[Dialect::SMB_3_1_1]);
        offer.client_guid = self.guid;
        offer.capabilities |= Capabilities::LEASING
            | Capabilities::DIRECTORY_LEASING
            | Capabilities::PERSISTENT_HANDLES;
        peer.negotiate_with(&offer);
        peer.login(ALICE.0, ALICE.1);
        peer.tree("files");
        self.worker = worker;
        self.peer = Some(peer);
    }

    /// Ends the connection, and forgets all opens that are not durable.
    pub(super) fn cut(&mut self) {
        if let Some(peer) = self.peer.take() {
            peer.disconnect();
            self.lose();
        }
    }

    fn lose(&mut self) {
        self.say(|| "is cut off".to_owned());
        for asked in std::mem::take(&mut self.asked).into_values() {
            match asked {
                PendingRequest::Create { handle: Handle { lease: Some(key), .. }, .. }
                | PendingRequest::Write { holder: Holder::Lease(key), .. } => {
                    self.haunted.insert(key);
                }
                _ => {}
            }
        }
        self.breaks.clear();
        self.early.clear();
        self.handles.retain(|it| it.create_guid.is_some());
        for handle in &mut self.handles {
            handle.is_away = true;
            handle.is_busy = false;
            handle.locks.clear();
        }
        // A disconnected client cannot trust its cache.
        self.holders.clear();
    }

    /// Executes a random action of the client.
    pub(super) fn act(&mut self, random: &mut Random) {
        let away = self.handles.iter().position(|it| it.is_away && !it.is_busy);
        if let Some(at) = away
            && random.below(2) == 0
        {
            return self.reconnect(at);
        }
        match random.below(20) {
            0..6 => self.create(random),
            6..10 => self.acknowledge(random),
            10..12 => self.read(random),
            12..15 => self.write(random),
            15 => self.lock(random),
            16 => self.name(random),
            _ => self.close(random),
        }
    }

    fn peer(&mut self) -> &mut Peer {
        self.peer.as_mut().expect("only clients with a connection act")
    }

    fn create(&mut self, random: &mut Random) {
        if self.handles.len() >= OPENS_MAX {
            return self.close(random);
        }
        self.count += 1;
        let name = random.below(NAMES.len());
        let is_directory = name == DIRECTORY;
        let access = [
            AccessMask::READ_DATA,
            AccessMask::READ_DATA | AccessMask::WRITE_DATA,
            AccessMask::READ_DATA | AccessMask::WRITE_DATA | AccessMask::DELETE,
            AccessMask::READ_ATTRIBUTES,
        ][random.below(if is_directory { 1 } else { 4 })];
        let mut share = ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE;
        if random.below(5) == 0 {
            share = ShareAccess::from_bits_retain(u32::try_from(random.below(8)).expect("3 bits"));
        }
        let disposition = match random.below(10) {
            _ if is_directory => CreateDisposition::OPEN,
            0..6 => CreateDisposition::OPEN_IF,
            6..9 => CreateDisposition::OPEN,
            _ => CreateDisposition::OVERWRITE_IF,
        };
        let mut create =
            Create::with_disposition(NAMES[name], disposition).access(access).share(share);
        if is_directory {
            create = create.options(CreateOptions::DIRECTORY_FILE);
        }
        if !is_directory && access.contains(AccessMask::DELETE) && random.below(4) == 0 {
            create = create.delete_on_close();
        }
        let wish = random.below(6);
        let mut lease = None;
        let mut keeps_handle = false;
        let oplock = match wish {
            1 => OplockLevel::II,
            2 => OplockLevel::EXCLUSIVE,
            3 => OplockLevel::BATCH,
            4.. => {
                let key = [u8::try_from(name).expect("a few") + 1; 16];
                let state = [LeaseState::READ_CACHING, RH, RW, RWH, RWH][random.below(5)];
                create = create.context(&lease_context(key, state));
                lease = Some(key);
                keeps_handle = state.contains(LeaseState::HANDLE_CACHING);
                OplockLevel::LEASE
            }
            _ => OplockLevel::NONE,
        };
        keeps_handle |= oplock == OplockLevel::BATCH;
        let mut create_guid = None;
        if keeps_handle && !is_directory && random.below(2) == 0 {
            let guid = Guid(random.bytes());
            let mut flags = DurableFlags::empty();
            flags.set(DurableFlags::PERSISTENT, self.wants_persistent && random.below(2) == 0);
            let durable = DurableHandleRequestV2 { timeout_ms: 0, flags, create_guid: guid };
            create = create.context(&durable);
            create_guid = Some(guid);
        }
        let handle = Handle {
            file_id: FileId::default(),
            file: None,
            name,
            access,
            lease,
            create_guid,
            is_persistent: false,
            is_away: false,
            is_busy: false,
            locks: Vec::new(),
        };
        let request = self.peer().request(Command::CREATE, &create.oplock(oplock));
        let id = self.peer().send(request);
        self.say(|| format!("asks for {handle:?}, {disposition:?}"));
        let oplock = !matches!(oplock, OplockLevel::NONE | OplockLevel::LEASE);
        self.forget_cached(lease);
        self.asked.insert(id, PendingRequest::Create { handle, oplock });
    }

    /// Drops cached data: another open of the same lease may truncate the file without a break.
    fn forget_cached(&mut self, lease: Option<[u8; 16]>) {
        let belief = lease.and_then(|key| self.holders.get_mut(&Holder::Lease(key)));
        belief.into_iter().for_each(Belief::forget);
    }

    fn reconnect(&mut self, at: usize) {
        let handle = &mut self.handles[at];
        handle.is_busy = true;
        let handle = handle.clone();
        let mut flags = DurableFlags::empty();
        flags.set(DurableFlags::PERSISTENT, handle.is_persistent);
        let reconnect = DurableHandleReconnectV2 {
            file_id: handle.file_id,
            create_guid: handle.create_guid.expect("only durable opens are kept"),
            flags,
        };
        let mut create = Create::open(NAMES[handle.name]).context(&reconnect);
        match handle.lease {
            Some(key) => {
                create = create.oplock(OplockLevel::LEASE).context(&lease_context(key, RWH));
            }
            None => create = create.oplock(OplockLevel::BATCH),
        }
        let request = self.peer().request(Command::CREATE, &create);
        let id = self.peer().send(request);
        self.asked.insert(id, PendingRequest::Reconnect(handle.file_id));
    }

    /// Picks a usable open with this access.
    fn pick(&self, random: &mut Random, access: AccessMask) -> Option<Handle> {
        let usable = |it: &&Handle| {
            !it.is_away && !it.is_busy && it.access.contains(access) && it.name != DIRECTORY
        };
        let usable: Vec<&Handle> = self.handles.iter().filter(usable).collect();
        if usable.is_empty() {
            return None;
        }
        Some(usable[random.below(usable.len())].clone())
    }

    fn read(&mut self, random: &mut Random) {
        let Some(handle) = self.pick(random, AccessMask::READ_DATA) else { return };
        let holder = holder(&handle);
        let generation = self.holders.get(&holder).map_or(0, |it| it.generation);
        let length = u32::try_from(PLACES).expect("a few") * 8;
        let request = self.peer().read_request(handle.file_id, 0, length);
        let id = self.peer().send(request);
        self.asked.insert(id, PendingRequest::Read { holder, generation });
    }

    fn write(&mut self, random: &mut Random) {
        let Some(handle) = self.pick(random, AccessMask::WRITE_DATA) else { return };
        let holder = holder(&handle);
        if let Some(belief) = self.holders.get_mut(&holder) {
            belief.forget();
        }
        let place = u64::try_from(random.below(PLACES)).expect("a few") * TOKEN_BYTES;
        let token = random.next_u64().to_le_bytes().to_vec();
        let request = self.peer().write_request(handle.file_id, place, &token);
        let id = self.peer().send(request);
        self.asked.insert(id, PendingRequest::Write { holder, token });
    }

    fn lock(&mut self, random: &mut Random) {
        let Some(mut handle) = self.pick(random, AccessMask::READ_DATA) else { return };
        let place = handle.locks.pop();
        let flags = match (place, random.below(3)) {
            (Some(_), _) => LockFlags::UNLOCK,
            (None, 0) => LockFlags::SHARED_LOCK,
            (None, 1) => LockFlags::EXCLUSIVE_LOCK,
            (None, _) => LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY,
        };
        let offset =
            place.unwrap_or_else(|| u64::try_from(random.below(PLACES)).expect("a few") * 8);
        let file_id = handle.file_id;
        let locks = [LockElement { offset, length: TOKEN_BYTES, flags }];
        let lock = LockRequest { lock_sequence: 0, file_id, locks: Locks::new(&locks) };
        let request = self.peer().request(Command::LOCK, &lock);
        let id = self.peer().send(request);
        let asked = match place {
            Some(_) => PendingRequest::Unlock,
            None => PendingRequest::Lock { file_id, place: offset, async_id: None },
        };
        self.asked.insert(id, asked);
        if let Some(it) = self.handles.iter_mut().find(|it| it.file_id == file_id) {
            it.locks = handle.locks;
        }
    }

    /// Renames a file, or marks it for deletion.
    fn name(&mut self, random: &mut Random) {
        let Some(handle) = self.pick(random, AccessMask::DELETE) else { return };
        let mut buffer = Vec::new();
        let class = if random.below(2) == 0 {
            let file_name = NAMES[random.below(3)].to_owned();
            let flags = u32::from(random.below(2) == 0);
            FileRenameInformation { flags, root_directory: 0, file_name }.encode(&mut buffer);
            10
        } else {
            buffer.push(u8::from(random.below(3) > 0));
            13
        };
        let set = SetInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: class,
            file_id: handle.file_id,
            buffer: &buffer,
            ..SetInfoRequest::default()
        };
        let request = self.peer().request(Command::SET_INFO, &set);
        let id = self.peer().send(request);
        self.asked.insert(id, PendingRequest::Name);
    }

    fn close(&mut self, random: &mut Random) {
        let usable: Vec<usize> = (0..self.handles.len())
            .filter(|at| !self.handles[*at].is_away && !self.handles[*at].is_busy)
            .collect();
        if usable.is_empty() {
            return;
        }
        let at = usable[random.below(usable.len())];
        let handle = &mut self.handles[at];
        handle.is_busy = true;
        let handle = handle.clone();
        self.leave(&handle);
        let request = self.peer().close_request(handle.file_id);
        let id = self.peer().send(request);
        self.asked.insert(id, PendingRequest::Close(handle.file_id));
    }

    /// Forgets an open, and with the last one of a lease its caching.
    fn leave(&mut self, handle: &Handle) {
        self.say(|| format!("leaves {handle:?}"));
        let holder = holder(handle);
        let is_other = |it: &Handle| {
            it.file_id != handle.file_id && !it.is_away && !it.is_busy && holder == self::holder(it)
        };
        if !self.handles.iter().any(is_other) {
            self.holders.remove(&holder);
        }
    }

    /// Acknowledges a break: mostly right, sometimes wrongly. Others stay unanswered.
    fn acknowledge(&mut self, random: &mut Random) {
        if self.breaks.is_empty() {
            return;
        }
        let notice = self.breaks.swap_remove(random.below(self.breaks.len()));
        let kept = match random.below(10) {
            0 => Caching::BATCH,
            1 | 2 => Caching::empty(),
            _ => notice.to,
        };
        let Some(belief) = self.holders.get_mut(&notice.holder) else { return };
        if belief.after_break != Some(notice.to) {
            return;
        }
        let is_wrong = !notice.to.contains(kept);
        if let (false, _) | (true, Holder::Oplock(_)) = (is_wrong, notice.holder) {
            belief.after_break = None;
            belief.limit(if is_wrong { Caching::empty() } else { kept });
        } else {
            // The lease's break continues.
            self.breaks.push(notice);
        }
        let request = match notice.holder {
            Holder::Lease(key) => {
                let lease_state = LeaseState::from_bits_retain(kept.bits().into());
                let body = LeaseBreak { lease_key: LeaseKey(key), lease_state };
                self.peer().request(Command::OPLOCK_BREAK, &body)
            }
            Holder::Oplock(_) => {
                let oplock_level = match kept {
                    Caching::BATCH => OplockLevel::BATCH,
                    it if it.is_empty() => OplockLevel::NONE,
                    _ => OplockLevel::II,
                };
                let body = OplockBreak { oplock_level, file_id: notice.file_id };
                self.peer().request(Command::OPLOCK_BREAK, &body)
            }
        };
        self.say(|| format!("keeps {kept:?} after {notice:?}"));
        let id = self.peer().send(request);
        self.asked.insert(id, PendingRequest::Acknowledge(notice.holder));
    }

    /// Handles all responses that have arrived.
    pub(super) fn receive(&mut self, writes: &Writes) {
        let Some(peer) = &mut self.peer else { return };
        let is_open = peer.is_open();
        if is_open {
            peer.confirm();
        }
        let responses = peer.receive();
        for response in responses {
            if response.header.message_id == u64::MAX {
                self.take_break(&response);
            } else if response.is_interim() {
                let asked = self.asked.get_mut(&response.header.message_id);
                if let Some(PendingRequest::Lock { async_id, .. }) = asked {
                    *async_id = response.header.async_id;
                }
            } else {
                let asked = self.asked.remove(&response.header.message_id);
                self.answered(asked.expect("the peer knows what was asked"), &response, writes);
            }
        }
        if !is_open {
            self.peer = None;
            self.lose();
        }
    }

    fn answered(&mut self, asked: PendingRequest, response: &Response, writes: &Writes) {
        let is_done = response.status().is_success();
        self.say(|| format!("has {} for {asked:?}", response.status()));
        match asked {
            PendingRequest::Acknowledge(holder) => {
                // Too late: the break had expired.
                let is_lost = !is_done && response.status() != NtStatus::REQUEST_NOT_ACCEPTED;
                if let Some(belief) = self.holders.get_mut(&holder).filter(|_| is_lost) {
                    belief.after_break = None;
                    belief.limit(Caching::empty());
                }
            }
            PendingRequest::Close(file_id) => self.handles.retain(|it| it.file_id != file_id),
            PendingRequest::Create { handle, oplock } => {
                self.forget_cached(handle.lease);
                if is_done {
                    self.opened(handle, oplock, response);
                }
            }
            PendingRequest::Lock { file_id, place, .. } if is_done => {
                let mut handles = self.handles.iter_mut();
                if let Some(handle) = handles.find(|it| it.file_id == file_id) {
                    handle.locks.push(place);
                }
            }
            PendingRequest::Read { holder, generation } if is_done => {
                let data = response.body::<ReadResponse<'_>>().data.to_vec();
                let is_haunted =
                    matches!(holder, Holder::Lease(key) if self.haunted.contains(&key));
                if let Some(belief) = self.holders.get_mut(&holder)
                    && !is_haunted
                    && belief.generation == generation
                    && belief.after_break.is_none()
                    && !belief.in_doubt
                    && belief.state.contains(Caching::READ)
                {
                    belief.cached = Some(data);
                }
            }
            PendingRequest::Reconnect(file_id) => self.taken_up(file_id, response),
            PendingRequest::Write { holder, token } => {
                writes.answer(&token, is_done);
                // A concurrent READ may have been before or after it.
                if let Some(belief) = self.holders.get_mut(&holder) {
                    belief.forget();
                }
            }
            _ => {}
        }
    }

    fn opened(&mut self, mut handle: Handle, oplock: bool, response: &Response) {
        let body: CreateResponse<'_> = response.body();
        handle.file_id = body.file_id;
        handle.file = self.file_of(body.file_id);
        let contexts = body.create_contexts;
        let durable = contexts.find::<DurableHandleResponseV2>().expect("it is well-formed");
        handle.create_guid = handle.create_guid.filter(|_| durable.is_some());
        handle.is_persistent =
            durable.is_some_and(|it| it.flags.contains(DurableFlags::PERSISTENT));
        let lease = contexts.find::<LeaseContext>().expect("it is well-formed");
        self.believe(&handle, oplock.then_some(body.oplock_level), lease);
        self.handles.push(handle);
    }

    fn taken_up(&mut self, before: FileId, response: &Response) {
        let Some(at) = self.handles.iter().position(|it| it.file_id == before) else { return };
        if !response.status().is_success() {
            self.handles.remove(at);
            return;
        }
        let body: CreateResponse<'_> = response.body();
        assert_eq!(body.file_id.persistent, before.persistent, "the same open");
        let mut handle = self.handles.remove(at);
        handle.file_id = body.file_id;
        handle.file = self.file_of(body.file_id);
        (handle.is_away, handle.is_busy) = (false, false);
        let lease = body.create_contexts.find::<LeaseContext>().expect("it is well-formed");
        let oplock = handle.lease.is_none().then_some(body.oplock_level);
        self.believe(&handle, oplock, lease);
        self.handles.push(handle);
    }

    /// Returns the file of an open, by knowledge that no client has.
    fn file_of(&self, file_id: FileId) -> Option<FileKey> {
        let opens = self.peer.as_ref()?.world().file_opens();
        opens.into_iter().find(|(_, it)| *it == file_id.volatile).map(|(file, _)| file)
    }

    fn believe(
        &mut self,
        handle: &Handle,
        oplock: Option<OplockLevel>,
        lease: Option<LeaseContext>,
    ) {
        let holder = holder(handle);
        self.say(|| format!("opened {handle:?}: {oplock:?} {lease:?}"));
        if let Some(level) = oplock {
            let state = match level {
                OplockLevel::BATCH => Caching::BATCH,
                OplockLevel::EXCLUSIVE => Caching::EXCLUSIVE,
                OplockLevel::II => Caching::READ,
                _ => Caching::empty(),
            };
            self.holders.insert(holder, Belief { state, ..Belief::default() });
        }
        if let Some(lease) = lease {
            let bits = u8::try_from(lease.lease_state.bits()).expect("three bits");
            let state = Caching::from_bits_truncate(bits);
            let epoch = lease.v2.map_or(0, |it| it.epoch);
            let belief = self.holders.entry(holder).or_insert_with(|| Belief {
                state,
                epoch,
                ..Belief::default()
            });
            if is_newer(epoch, belief.epoch) {
                (belief.state, belief.epoch) = (state, epoch);
            }
            // The name leads to another file than the lease's.
            let is_elsewhere = state.is_empty() && !belief.state.is_empty();
            let is_breaking = lease.lease_flags.contains(LeaseFlags::BREAK_IN_PROGRESS);
            if (is_breaking || is_elsewhere) && belief.after_break.is_none() {
                belief.in_doubt = true;
            }
        }
        let (now, later) = self.early.drain(..).partition(|it: &Break| it.holder == holder);
        self.early = later;
        now.into_iter().for_each(|it| self.apply_break(it));
    }

    /// Handles a break notification of the server.
    fn take_break(&mut self, response: &Response) {
        let notice = match response.body() {
            BreakNotification::Lease(it) => Break {
                holder: Holder::Lease(it.lease_key.0),
                file_id: FileId::default(),
                to: Caching::from_bits_truncate(
                    u8::try_from(it.new_lease_state.bits()).expect("three bits"),
                ),
                epoch: it.new_epoch,
                ack_required: it.flags.contains(LeaseBreakFlags::ACK_REQUIRED),
            },
            BreakNotification::Oplock(it) => Break {
                holder: Holder::Oplock(it.file_id.volatile),
                file_id: it.file_id,
                to: if it.oplock_level == OplockLevel::II {
                    Caching::READ
                } else {
                    Caching::empty()
                },
                epoch: 0,
                ack_required: true,
            },
        };
        self.apply_break(notice);
    }

    fn apply_break(&mut self, notice: Break) {
        self.say(|| {
            format!("gives way: {notice:?}, thinks {:?}", self.holders.get(&notice.holder))
        });
        let Some(belief) = self.holders.get_mut(&notice.holder) else {
            // The response to the CREATE has not arrived, or the open is being closed.
            let creates = |it: &PendingRequest| {
                matches!(it, PendingRequest::Create { .. } | PendingRequest::Reconnect(_))
            };
            if self.asked.values().any(creates) {
                self.early.push(notice);
            }
            return;
        };
        if let Holder::Lease(_) = notice.holder {
            if is_newer(notice.epoch, belief.epoch) {
                belief.epoch = notice.epoch;
            } else if belief.after_break.is_some() {
                return;
            }
        }
        belief.in_doubt = false;
        let from_reading = belief.state == Caching::READ;
        let is_oplock = matches!(notice.holder, Holder::Oplock(_));
        if !notice.ack_required || (is_oplock && from_reading) {
            let left = belief.state & notice.to;
            belief.limit(left);
        } else {
            belief.after_break = Some(notice.to);
            belief.forget();
            self.breaks.push(notice);
        }
    }

    /// True if a request waits for other clients.
    pub(super) fn awaits_others(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Releases all locks that it may have; it is not certain, because locks survive a connection.
    pub(super) fn release_locks(&mut self) {
        let here: Vec<FileId> =
            self.handles.iter().filter(|it| !it.is_away).map(|it| it.file_id).collect();
        for (file_id, place) in here.iter().flat_map(|id| (0..PLACES).map(move |at| (*id, at))) {
            let offset = u64::try_from(place).expect("a few") * 8;
            let locks = [LockElement { offset, length: TOKEN_BYTES, flags: LockFlags::UNLOCK }];
            let lock = LockRequest { lock_sequence: 0, file_id, locks: Locks::new(&locks) };
            let request = self.peer().request(Command::LOCK, &lock);
            let id = self.peer().send(request);
            self.asked.insert(id, PendingRequest::Unlock);
        }
    }

    pub(super) fn assert_answered(&self) {
        let outstanding = self.peer.as_ref().map_or(0, Peer::outstanding);
        assert_eq!(outstanding, 0, "client {} has no answer: {:?}", self.number, self.asked);
    }
}

impl Belief {
    fn limit(&mut self, state: Caching) {
        self.state = state;
        self.forget();
    }

    fn forget(&mut self) {
        self.cached = None;
        self.generation += 1;
    }
}

const RH: LeaseState = LeaseState::READ_CACHING.union(LeaseState::HANDLE_CACHING);
const RW: LeaseState = LeaseState::READ_CACHING.union(LeaseState::WRITE_CACHING);
const RWH: LeaseState = RH.union(RW);

pub(super) fn holder(handle: &Handle) -> Holder {
    match handle.lease {
        Some(key) => Holder::Lease(key),
        None => Holder::Oplock(handle.file_id.volatile),
    }
}

fn lease_context(key: [u8; 16], lease_state: LeaseState) -> LeaseContext {
    LeaseContext {
        lease_key: LeaseKey(key),
        lease_state,
        lease_flags: LeaseFlags::empty(),
        v2: Some(LeaseV2 { parent_lease_key: LeaseKey::ZERO, epoch: 0 }),
    }
}

/// True if an epoch is newer than another one, modulo 2^16.
fn is_newer(epoch: u16, than: u16) -> bool {
    epoch.wrapping_sub(than) < 0x8000 && epoch != than
}
