//! Events in the life of a file.

use proptest::prelude::*;

/// A CREATE, as small numbers with a meaning in the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) worker: usize,
    pub(crate) stream: u64,
    pub(crate) access: usize,
    pub(crate) shares: [bool; 3],
    /// 0: nothing; 1: an oplock; more: a lease of that key.
    pub(crate) wish: u8,
    pub(crate) caching: u8,
    /// 0: no; else one of the kinds.
    pub(crate) durable: usize,
    pub(crate) overwrites: bool,
    pub(crate) delete_on_close: bool,
}

/// One event. Opens, workers and breaks are picked from the existing ones.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Acknowledge {
        pick: usize,
        kept: u8,
    },
    RemoveWorker {
        worker: usize,
    },
    Cancel {
        pick: usize,
    },
    Close {
        pick: usize,
    },
    Deleted {
        pick: usize,
    },
    Disconnect {
        pick: usize,
    },
    MarkForDeletion {
        pick: usize,
        pending: bool,
    },
    Evict {
        pick: usize,
    },
    Lock {
        pick: usize,
        offset: u64,
        length: u64,
        exclusive: bool,
    },
    /// A worker receives a notification to read the record.
    WorkersToNotify {
        pick: usize,
    },
    Open(Wanted),
    Pass {
        seconds: u64,
    },
    Rename {
        pick: usize,
    },
    Scavenge,
    TakeUp {
        pick: usize,
        worker: usize,
    },
    Unlock {
        pick: usize,
    },
    Write {
        pick: usize,
    },
}

impl Step {
    pub(crate) fn any() -> impl Strategy<Value = Self> {
        let pick = 0..64usize;
        prop_oneof![
            8 => wanted().prop_map(Self::Open),
            6 => pick.clone().prop_map(|pick| Self::WorkersToNotify { pick }),
            4 => (pick.clone(), 0..8u8).prop_map(|(pick, kept)| Self::Acknowledge { pick, kept }),
            3 => pick.clone().prop_map(|pick| Self::Close { pick }),
            2 => pick.clone().prop_map(|pick| Self::Disconnect { pick }),
            2 => (pick.clone(), 0..3usize).prop_map(|(pick, worker)| Self::TakeUp { pick, worker }),
            2 => pick.clone().prop_map(|pick| Self::Write { pick }),
            2 => (pick.clone(), 0..4u64, 0..4u64, any::<bool>()).prop_map(
                |(pick, offset, length, exclusive)| Self::Lock { pick, offset, length, exclusive }
            ),
            1 => pick.clone().prop_map(|pick| Self::Unlock { pick }),
            1 => pick.clone().prop_map(|pick| Self::Rename { pick }),
            1 => pick.clone().prop_map(|pick| Self::Evict { pick }),
            1 => (pick.clone(), any::<bool>())
                .prop_map(|(pick, pending)| Self::MarkForDeletion { pick, pending }),
            1 => pick.clone().prop_map(|pick| Self::Deleted { pick }),
            1 => pick.prop_map(|pick| Self::Cancel { pick }),
            1 => (0..3usize).prop_map(|worker| Self::RemoveWorker { worker }),
            1 => (1..50u64).prop_map(|seconds| Self::Pass { seconds }),
            1 => Just(Self::Scavenge),
        ]
    }
}

fn wanted() -> impl Strategy<Value = Wanted> {
    (
        (0..3usize, prop_oneof![4 => Just(0u64), 1 => Just(5)]),
        0..7usize,
        [prop::bool::weighted(0.8), prop::bool::weighted(0.8), prop::bool::weighted(0.8)],
        (0..4u8, prop_oneof![2 => Just(7u8), 1 => 0..8u8]),
        0..5usize,
        (prop::bool::weighted(0.15), prop::bool::weighted(0.1)),
    )
        .prop_map(|((worker, stream), access, shares, (wish, caching), durable, flags)| {
            Wanted {
                worker,
                stream,
                access,
                shares,
                wish,
                caching,
                durable,
                overwrites: flags.0,
                delete_on_close: flags.1,
            }
        })
}
