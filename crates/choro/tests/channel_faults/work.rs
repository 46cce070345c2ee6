//! Work of the clients, and the conditions that must hold afterwards.
//!
//! A round of one client: requests for a new file with a lease, a lock and a WRITE at once over one
//! channel; then it writes the file, releases the lock, and opens a file of another client, whose
//! lease is broken; at last it increases a shared counter by one under a lock that the others wait
//! for.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock};

use dtyp::{AccessMask, Guid, NtStatus, utf16};
use wire::close::CloseRequest;
use wire::create::{
    CreateAction, CreateDisposition, CreateOptions, CreateRequest, CreateResponse,
    ImpersonationLevel, ShareAccess,
};
use wire::create_context::{CreateContextList, DurableFlags, DurableHandleRequestV2, LeaseContext};
use wire::lease::{LeaseKey, LeaseState};
use wire::lock::{LockElement, LockFlags, LockRequest, Locks};
use wire::read::{ReadRequest, ReadResponse};
use wire::write::WriteRequest;
use wire::{Command, Decode, FileId, OplockLevel};

use crate::client::{Answer, Client, Counts, Leases, Request};
use crate::harness::connection::random;

/// Clients that work at the same time.
pub(crate) const CLIENTS: usize = 4;

/// Places in a client's file that are written over and over, and the bytes of each.
const SLOTS: u64 = 8;
const SLOT_BYTES: usize = 32 * 1024;

/// Entries of the list in which a server remembers the LOCKs of an open.
const LOCK_ENTRIES: u32 = 64;

/// Files that a client keeps open, so that others may take their leases.
const KEPT_MAX: usize = 4;

/// Bytes of a small file.
const SMALL_BYTES: usize = 1000;

/// READs of a client that then receives nothing more: more bytes than the buffers of two sockets
/// hold.
const CLOG_BYTES: u32 = 65_536;
const CLOG_READS: usize = 400;

/// Shared state of the clients, and their orders.
#[derive(Debug, Default)]
pub(crate) struct Board {
    /// Held by every client while it is in a round.
    pub(crate) gate: RwLock<()>,
    /// The link on which the next rounds begin; counted up by whoever asks for that.
    pub(crate) begin_on: AtomicUsize,
    pub(crate) begin_count: AtomicUsize,
    pub(crate) is_over: AtomicBool,
    /// Clients leave the answers on the link [`Board::begin_on`] unread.
    pub(crate) is_clogged: AtomicBool,
    pub(crate) rounds: [AtomicU64; CLIENTS],
    /// Number of channels of each client.
    pub(crate) channels: [AtomicUsize; CLIENTS],
    leases: Mutex<Vec<Leases>>,
    offers: Mutex<VecDeque<Offer>>,
    increments: AtomicU64,
}

/// A file that others may open.
#[derive(Clone, Debug)]
struct Offer {
    owner: usize,
    name: String,
    lease: LeaseKey,
}

/// A finished order of a client.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) counts: Counts,
    created: Vec<String>,
    slots: HashMap<u64, u64>,
    number: usize,
}

/// A client with its files and locks.
#[derive(Debug)]
struct Worker<'a> {
    client: Client,
    board: &'a Board,
    number: usize,
    round: u64,
    /// Files of its own: one to write, one to lock.
    data: FileId,
    locks: FileId,
    counter: FileId,
    kept: VecDeque<(FileId, LeaseKey)>,
    lock_count: u32,
    /// Entries of the lock list that are not used any more.
    retired: HashSet<u32>,
    done: Done,
    is_clogged: bool,
    links: Vec<usize>,
}

/// Works until the board ends the test. `links` are those of the client's channels.
pub(crate) fn work(client: Client, board: &Board, number: usize, links: Vec<usize>) -> Done {
    board.leases.lock().expect("nobody panics with it").push(client.leases.clone());
    let mut worker = Worker::new(client, board, number, links);
    let mut begun = 0;
    while !board.is_over.load(Ordering::Relaxed) {
        // A client that waits for others answers breaks meanwhile.
        let mut in_round = None;
        worker.client.work_until(|_| {
            in_round = board.gate.try_read().ok();
            in_round.is_some()
        });
        let asked = board.begin_count.load(Ordering::Relaxed);
        let link = board.begin_on.load(Ordering::Relaxed);
        let own = worker.links.iter().position(|it| *it == link);
        match own.filter(|_| asked != begun) {
            Some(own) => worker.client.choose(own),
            None => worker.client.choose(usize::try_from(worker.round).expect("a few")),
        }
        begun = asked;
        worker.clog(own.unwrap_or_default());
        worker.round();
        drop(in_round);
        worker.report();
    }
    worker.end()
}

impl<'a> Worker<'a> {
    fn new(mut client: Client, board: &'a Board, number: usize, links: Vec<usize>) -> Self {
        let mut open = |name: &str| {
            let request = create(name, CreateDisposition::OPEN_IF, LeaseKey::ZERO);
            let answer = client.call(request);
            assert_eq!(answer.status, NtStatus::SUCCESS);
            created(&answer).file_id
        };
        let (data, locks) = (open(&format!("data{number}")), open(&format!("locks{number}")));
        let counter = open("counter");
        let done = Done { number, ..Done::default() };
        Self {
            client,
            board,
            number,
            round: 0,
            data,
            locks,
            counter,
            kept: VecDeque::new(),
            lock_count: 0,
            retired: HashSet::new(),
            done,
            is_clogged: false,
            links,
        }
    }

    fn report(&mut self) {
        self.board.rounds[self.number].fetch_add(1, Ordering::Relaxed);
        self.board.channels[self.number].store(self.client.channels(), Ordering::Relaxed);
    }

    fn clog(&mut self, link: usize) {
        let wanted = self.board.is_clogged.load(Ordering::Relaxed);
        if wanted && !self.is_clogged {
            for slot in 0..2 {
                self.write_slot(slot);
            }
            // Each brings credits for more requests.
            for _ in 0..CLOG_READS / 16 {
                self.client.choose(link);
                self.client.call(Request::new(Command::ECHO, &wire::echo::EchoRequest));
            }
            let read = ReadRequest { file_id: self.data, length: CLOG_BYTES, ..Default::default() };
            self.client.stop_reading(link, &Request::new(Command::READ, &read), CLOG_READS);
        } else if !wanted && self.is_clogged {
            self.client.listen();
        }
        self.is_clogged = wanted;
    }

    fn write_slot(&mut self, slot: u64) {
        let generation = self.next_generation(slot);
        let data = content(self.number, slot, generation, SLOT_BYTES);
        let offset = slot * u64::try_from(SLOT_BYTES).expect("64 bits");
        let write = WriteRequest::new(self.data, offset, &data);
        let answer = self.client.call(Request::new(Command::WRITE, &write));
        assert_eq!(answer.status, NtStatus::SUCCESS, "WRITE");
        self.done.slots.insert(slot, generation);
    }

    fn next_generation(&self, slot: u64) -> u64 {
        self.done.slots.get(&slot).copied().unwrap_or_default() + 1
    }

    fn round(&mut self) {
        self.round += 1;
        let (slot, round) = (self.round % SLOTS, self.round);
        let generation = self.next_generation(slot);
        let data = content(self.number, slot, generation, SLOT_BYTES);
        let offset = slot * u64::try_from(SLOT_BYTES).expect("64 bits");
        let name = format!("f{}-{round}", self.number);
        let key = LeaseKey(random());
        let at_once = LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY;
        let (index, lock) = self.lock(self.locks, round * 10, at_once);
        let [made, locked, written] = self.client.call_all([
            create(&name, CreateDisposition::CREATE, key),
            lock,
            Request::new(Command::WRITE, &WriteRequest::new(self.data, offset, &data)),
        ]);
        assert_eq!(made.status, NtStatus::SUCCESS, "CREATE, {made:?}");
        assert_eq!(created(&made).create_action, CreateAction::CREATED);
        self.locked(index, &locked);
        assert_eq!(written.status, NtStatus::SUCCESS, "WRITE, {written:?}");
        self.done.created.push(name.clone());
        self.done.slots.insert(slot, generation);
        let file = created(&made).file_id;
        self.client.leases.lock().expect("nobody panics with it").insert(key, lease_of(&made));

        let small = content(self.number, SLOTS + round, 0, SMALL_BYTES);
        let (index, unlock) = self.lock(self.locks, round * 10, LockFlags::UNLOCK);
        let write = WriteRequest::new(file, 0, &small);
        let [written, unlocked] =
            self.client.call_all([Request::new(Command::WRITE, &write), unlock]);
        assert_eq!(written.status, NtStatus::SUCCESS, "WRITE, {written:?}");
        self.locked(index, &unlocked);
        self.kept.push_back((file, key));
        let offer = Offer { owner: self.number, name, lease: key };
        self.board.offers.lock().expect("nobody panics with it").push_back(offer);

        self.take_offer();
        self.increase();
        while self.kept.len() > KEPT_MAX {
            self.close_oldest();
        }
    }

    /// Opens another client's file. After that, the other client must know that it lost its cache:
    /// it received a break, or closed the file itself.
    fn take_offer(&mut self) {
        let mut offers = self.board.offers.lock().expect("nobody panics with it");
        // The newest, of which the lease is held still.
        let found = offers.iter().rposition(|it| it.owner != self.number);
        let Some(offer) = found.and_then(|at| offers.remove(at)) else { return };
        drop(offers);
        let request = create(&offer.name, CreateDisposition::OPEN, LeaseKey::ZERO);
        let answer = self.client.call(request);
        assert_eq!(answer.status, NtStatus::SUCCESS, "CREATE of another's, {answer:?}");
        for leases in self.board.leases.lock().expect("nobody panics with it").iter() {
            let leases = leases.lock().expect("nobody panics with it");
            let held = leases.get(&offer.lease).copied().unwrap_or_default();
            assert!(
                !held.contains(LeaseState::WRITE_CACHING),
                "client {} was not told that its lease of {} is broken",
                offer.owner,
                offer.name
            );
        }
        let file_id = created(&answer).file_id;
        let read = ReadRequest { file_id, length: CLOG_BYTES, ..Default::default() };
        let read = self.client.call(Request::new(Command::READ, &read));
        assert_eq!(read.status, NtStatus::SUCCESS);
        let data = ReadResponse::decode(&read.message).expect("well-formed").data;
        let round = offer.name.split('-').nth(1).and_then(|it| it.parse::<u64>().ok());
        let want = content(offer.owner, SLOTS + round.expect("of ours"), 0, SMALL_BYTES);
        assert!(data == want, "{} has other data", offer.name);
        self.close(file_id);
    }

    /// Adds one to what all count together.
    fn increase(&mut self) {
        let (index, lock) = self.lock(self.counter, 0, LockFlags::EXCLUSIVE_LOCK);
        let locked = self.client.call(lock);
        self.locked(index, &locked);
        let read = ReadRequest { file_id: self.counter, length: 8, ..Default::default() };
        let read = self.client.call(Request::new(Command::READ, &read));
        let count = match read.status {
            NtStatus::END_OF_FILE => 0,
            _ => {
                assert_eq!(read.status, NtStatus::SUCCESS, "READ");
                let data = ReadResponse::decode(&read.message).expect("well-formed").data;
                u64::from_le_bytes(data.try_into().expect("8 bytes"))
            }
        };
        let count = (count + 1).to_le_bytes();
        let write = WriteRequest::new(self.counter, 0, &count);
        let written = self.client.call(Request::new(Command::WRITE, &write));
        assert_eq!(written.status, NtStatus::SUCCESS, "WRITE, {written:?}");
        self.board.increments.fetch_add(1, Ordering::Relaxed);
        let (index, unlock) = self.lock(self.counter, 0, LockFlags::UNLOCK);
        let unlocked = self.client.call(unlock);
        self.locked(index, &unlocked);
    }

    /// A LOCK with a sequence number of its own, and the index of its entry: [MS-SMB2] 3.2.4.19.
    /// The entry is used again after all others, with the next number.
    fn lock(&mut self, file_id: FileId, offset: u64, flags: LockFlags) -> (u32, Request) {
        let (index, number) = loop {
            let count = self.lock_count;
            self.lock_count += 1;
            let index = count % LOCK_ENTRIES + 1;
            if !self.retired.contains(&index) {
                break (index, count / LOCK_ENTRIES % 16);
            }
        };
        let lock_sequence = (index << 4) | number;
        let elements = [LockElement { offset, length: 10, flags }];
        let body = LockRequest { lock_sequence, file_id, locks: Locks::new(&elements) };
        (index, Request::new(Command::LOCK, &body))
    }

    /// Handles the answer to a LOCK. Copies sent over a lost channel may arrive still: the server
    /// recognizes them as long as the entry is not used again, since the channel sequence does not
    /// reject a LOCK ([MS-SMB2] 3.3.5.2.10).
    fn locked(&mut self, index: u32, answer: &Answer) {
        assert_eq!(answer.status, NtStatus::SUCCESS, "LOCK or UNLOCK, {answer:?}");
        if answer.was_repeated {
            self.retired.insert(index);
        }
    }

    fn close_oldest(&mut self) {
        let Some((file, key)) = self.kept.pop_front() else { return };
        self.client.leases.lock().expect("nobody panics with it").remove(&key);
        self.close(file);
    }

    fn close(&mut self, file_id: FileId) {
        let request = CloseRequest { file_id, ..CloseRequest::default() };
        let answer = self.client.call(Request::new(Command::CLOSE, &request));
        let was_closed = answer.was_repeated && answer.status == NtStatus::FILE_CLOSED;
        assert!(was_closed || answer.status == NtStatus::SUCCESS, "CLOSE, {answer:?}");
    }

    fn end(mut self) -> Done {
        while !self.kept.is_empty() {
            self.close_oldest();
        }
        for file in [self.data, self.locks, self.counter] {
            self.close(file);
        }
        self.done.counts = self.client.counts;
        self.done
    }
}

impl Board {
    /// Verifies that all acknowledged data are on disk, and no others.
    #[track_caller]
    pub(crate) fn verify(&self, share: &Path, done: &[Done]) {
        let read =
            |name: &str| fs::read(share.join(name)).unwrap_or_else(|it| panic!("{name}: {it}"));
        let mut names: Vec<String> = vec!["counter".to_owned()];
        for done in done {
            let data = read(&format!("data{}", done.number));
            for (slot, generation) in &done.slots {
                let start = usize::try_from(*slot).expect("a few") * SLOT_BYTES;
                let want = content(done.number, *slot, *generation, SLOT_BYTES);
                let is = &data[start..start + SLOT_BYTES];
                assert!(is == want, "a WRITE of client {} to slot {slot} is lost", done.number);
            }
            for name in &done.created {
                let round = name.split('-').nth(1).and_then(|it| it.parse::<u64>().ok());
                let slot = SLOTS + round.expect("of ours");
                assert!(read(name) == content(done.number, slot, 0, SMALL_BYTES), "{name}");
            }
            names.extend(done.created.iter().cloned());
            names.extend([format!("data{}", done.number), format!("locks{}", done.number)]);
        }
        let count = u64::from_le_bytes(read("counter").try_into().expect("8 bytes"));
        assert_eq!(count, self.increments.load(Ordering::Relaxed), "increments");
        let mut there: Vec<String> = fs::read_dir(share)
            .expect("it is there")
            .map(|it| it.expect("it is there").file_name().into_string().expect("ASCII"))
            .collect();
        there.sort();
        names.sort();
        assert_eq!(there, names);
    }
}

/// A CREATE that can be repeated; with a lease if it has a key.
fn create(name: &str, create_disposition: CreateDisposition, lease_key: LeaseKey) -> Request {
    let name = utf16::to_bytes(name);
    let mut contexts = CreateContextList::new();
    let flags = DurableFlags::empty();
    contexts.push(&DurableHandleRequestV2 { timeout_ms: 0, flags, create_guid: Guid(random()) });
    let wants_lease = lease_key != LeaseKey::ZERO;
    if wants_lease {
        let lease_state =
            LeaseState::READ_CACHING | LeaseState::WRITE_CACHING | LeaseState::HANDLE_CACHING;
        contexts.push(&LeaseContext { lease_key, lease_state, ..LeaseContext::default() });
    }
    let request = CreateRequest {
        requested_oplock_level: if wants_lease { OplockLevel::LEASE } else { OplockLevel::NONE },
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: AccessMask::READ_DATA | AccessMask::WRITE_DATA,
        share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
        create_disposition,
        create_options: CreateOptions::NON_DIRECTORY_FILE,
        name: &name,
        create_contexts: contexts.contexts(),
        ..CreateRequest::default()
    };
    Request::new(Command::CREATE, &request)
}

fn created(answer: &Answer) -> CreateResponse<'_> {
    CreateResponse::decode(&answer.message).expect("well-formed")
}

/// The lease that was granted.
fn lease_of(answer: &Answer) -> LeaseState {
    let lease: Option<LeaseContext> = created(answer).create_contexts.find().expect("well-formed");
    lease.expect("nobody else has the file").lease_state
}

/// Bytes that are nobody else's.
fn content(client: usize, place: u64, generation: u64, length: usize) -> Vec<u8> {
    let client = u64::try_from(client).expect("a few");
    let mut state = (client + 1) << 48 ^ place << 24 ^ generation ^ 0x9E37_79B9_7F4A_7C15;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(length).collect()
}
