//! A record with opens of a few workers, and requests for further ones.

use std::time::Duration;

use arbitration::{
    AckError, Admission, AdmissionRequest, ByteRange, ByteRangeLock, Caching, Durability,
    DurabilityKind, FileRecord, Granted, LeaseId, LockSequences, OpenFacts, OpenId, OutgoingBreak,
    RequestedCaching, ShareMode, Standing, WorkersToNotify,
};
use dtyp::{AccessMask, Guid, ServerId};

pub(crate) const R: Caching = Caching::READ;
pub(crate) const RH: Caching = Caching::READ.union(Caching::HANDLE);
pub(crate) const RW: Caching = Caching::EXCLUSIVE;
pub(crate) const RWH: Caching = Caching::BATCH;
pub(crate) const NONE: Caching = Caching::empty();

/// Time for an acknowledgment of a break.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(35);

pub(crate) const READ_WRITE: AccessMask = AccessMask::READ_DATA.union(AccessMask::WRITE_DATA);

/// A record with opens of a few workers.
#[derive(Default)]
pub(crate) struct File {
    pub(crate) record: FileRecord,
    opens: u64,
    pub(crate) now: Duration,
}

pub(crate) fn server(number: u32) -> ServerId {
    ServerId { pid: number, unique_id: number.into() }
}

pub(crate) fn lease(server: u32, key: u8) -> LeaseId {
    let client = Guid([u8::try_from(server).expect("a few workers"); 16]);
    LeaseId { client, key: [key; 16] }
}

pub(crate) fn lease_wish(server: u32, key: u8, state: Caching) -> RequestedCaching {
    RequestedCaching::Lease { id: lease(server, key), state, epoch: 0, is_v2: true, parent: None }
}

/// Requests an open of a worker that shares everything.
pub(crate) fn ask(worker: u32, caching: RequestedCaching) -> AdmissionRequest {
    let mode = ShareMode {
        granted_access: READ_WRITE,
        share_read: true,
        share_write: true,
        share_delete: true,
    };
    AdmissionRequest {
        id: OpenId { worker: server(worker), number: 0 },
        standing: Standing::User,
        stream: 0,
        mode,
        overwrites: false,
        is_new: false,
        size: 100,
        is_directory: false,
        delete_on_close: false,
        caching,
        caching_max: Caching::all(),
        shared_reading: true,
        has_waited: false,
        now: Duration::ZERO,
        deadline: TIMEOUT,
        facts: OpenFacts::default(),
    }
}

pub(crate) fn durability(kind: DurabilityKind) -> Durability {
    Durability {
        expires_at: None,
        timeout: Duration::from_secs(60),
        kind,
        create_guid: Guid::ZERO,
        owner: String::new(),
        position: 0,
        lock_sequences: LockSequences::default(),
    }
}

impl File {
    pub(crate) fn admit_with(
        &mut self,
        ask: AdmissionRequest,
        durability: Option<Durability>,
    ) -> (Admission, OpenId) {
        self.opens += 1;
        let id = OpenId { number: self.opens, ..ask.id };
        let mut facts = ask.facts.clone();
        facts.persistent = self.opens;
        let mut ask =
            AdmissionRequest { id, now: self.now, deadline: self.now + TIMEOUT, facts, ..ask };
        (self.record.admit(&mut ask, durability, &mut WorkersToNotify::default()).0, id)
    }

    pub(crate) fn admit(&mut self, ask: AdmissionRequest) -> Admission {
        self.admit_with(ask, None).0
    }

    #[track_caller]
    pub(crate) fn granted(&mut self, ask: AdmissionRequest) -> (Granted, OpenId) {
        match self.admit_with(ask, None) {
            (Admission::Granted(granted), id) => (granted, id),
            (other, _) => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn durable(&mut self, ask: AdmissionRequest, kind: DurabilityKind) -> OpenId {
        let (admission, id) = self.admit_with(ask, Some(durability(kind)));
        let Admission::Granted(granted) = admission else { panic!("{admission:?}") };
        assert!(granted.is_durable);
        id
    }

    /// Has an open lock the first ten bytes for itself.
    pub(crate) fn lock(&mut self, open: OpenId) {
        let range = ByteRange { offset: 0, length: 10 };
        let lock = ByteRangeLock { open, stream: 0, range, exclusive: true };
        self.record.acquire_locks(&[lock], Standing::User).expect("nobody else has it");
    }

    /// Asserts a worker's only break notification: from, to, and whether an acknowledgment is
    /// required.
    #[track_caller]
    pub(crate) fn notice(&mut self, worker: u32) -> (Caching, Caching, bool) {
        let sent = self.record.take_notices(server(worker), |_| true);
        let [OutgoingBreak { notice, .. }] = sent[..] else { panic!("one notice: {sent:?}") };
        (notice.from, notice.to, notice.ack_required)
    }

    pub(crate) fn acknowledge(&mut self, id: LeaseId, kept: Caching) -> Result<(), AckError> {
        let deadline = self.now + TIMEOUT;
        self.record.acknowledge_lease(id, kept, deadline, &mut WorkersToNotify::default())
    }

    #[track_caller]
    pub(crate) fn state(&self, id: LeaseId) -> Caching {
        self.record.lease(id).expect("a lease that is held").cache.state
    }
}
