//! One request of any command, sometimes damaged.

use testkit::entropy::Random;
use testkit::{Peer, Request};
use wire::echo::EchoRequest;
use wire::flush::FlushRequest;
use wire::header::HeaderFlags;
use wire::lease::LeaseState;
use wire::lock::LockFlags;
use wire::logoff::LogoffRequest;
use wire::oplock_break::{LeaseBreak, OplockBreak};
use wire::tree_disconnect::TreeDisconnectRequest;
use wire::{Command, FileId, OplockLevel};

use crate::controls::{control, remote_call};
use crate::creates::{create, lease_key};
use crate::information::{listing, query, setting};

/// Shares to connect to; the last does not exist.
const SHARES: [&str; 7] = ["data", "readonly", "sealed", "mac", "dfs", "IPC$", "nope"];

/// Returns one of a client's opens, or all ones, which in a compound is the open before.
pub(crate) fn one_open(random: &mut Random, opens: &[FileId]) -> FileId {
    match opens {
        // Several requests at one open meet more often than such at one of twelve.
        [.., newest] if random.percent(60) => *newest,
        [_, ..] if random.percent(93) => random.one_of(opens),
        _ => FileId::ANY,
    }
}

/// Returns any request of a client with these opens.
pub(crate) fn request(random: &mut Random, peer: &Peer, opens: &[FileId]) -> Request {
    let request = whole(random, peer, opens);
    changed(random, request)
}

/// Returns a request as an honest client might send it.
fn whole(random: &mut Random, peer: &Peer, opens: &[FileId]) -> Request {
    let open = one_open(random, opens);
    match random.below(26) {
        0..=6 => peer.request(Command::CREATE, &create(random)),
        7 => {
            let offset = random.one_of(&[0, 3, u64::MAX, 1 << 40]);
            peer.read_request(open, offset, random.one_of(&[0, 5, 65_536, 70_000]))
        }
        8 if random.percent(40) => remote_call(random, peer, opens),
        8 => {
            let data = vec![7; random.one_of(&[0, 4, 5_000])];
            peer.write_request(open, random.one_of(&[0, 3, 100, 1 << 62, u64::MAX]), &data)
        }
        9 | 10 => peer.close_request(open),
        11 => peer.watch_request(open),
        12 => lock(random, peer, open),
        13 => peer.request(Command::FLUSH, &FlushRequest { file_id: open }),
        14 | 15 => control(random, peer, opens),
        16 => listing(random, peer, open),
        17 | 18 => query(random, peer, open),
        19..=21 => setting(random, peer, open),
        22 => oplock_break(random, peer, open),
        23 => lease_break(random, peer),
        24 if random.percent(20) => peer.request(Command::TREE_DISCONNECT, &TreeDisconnectRequest),
        24 => peer.tree_request(random.one_of(&SHARES)),
        _ if random.percent(10) => peer.request(Command::LOGOFF, &LogoffRequest),
        _ => peer.request(Command::ECHO, &EchoRequest),
    }
}

/// Returns a request that may wait at an open, or its CLOSE, which waits for some of them.
pub(crate) fn waiting(random: &mut Random, peer: &Peer, open: FileId) -> Request {
    match random.below(7) {
        0 | 1 => peer.watch_request(open),
        2 | 3 => lock(random, peer, open),
        4 => peer.request(Command::FLUSH, &FlushRequest { file_id: open }),
        5 => listing(random, peer, open),
        _ => peer.close_request(open),
    }
}

fn lock(random: &mut Random, peer: &Peer, open: FileId) -> Request {
    let flags = random.one_of(&[
        LockFlags::SHARED_LOCK,
        LockFlags::EXCLUSIVE_LOCK,
        LockFlags::SHARED_LOCK.union(LockFlags::FAIL_IMMEDIATELY),
        LockFlags::EXCLUSIVE_LOCK.union(LockFlags::FAIL_IMMEDIATELY),
        LockFlags::UNLOCK,
        LockFlags::UNLOCK,
    ]);
    // Index in the upper 28 bits, number in the lower four: [MS-SMB2] 2.2.26.
    peer.lock_request(open, flags, random.one_of(&[0, 0x11, 0x12, 0x23]))
}

fn oplock_break(random: &mut Random, peer: &Peer, file_id: FileId) -> Request {
    let oplock_level = random.one_of(&[
        OplockLevel::NONE,
        OplockLevel::II,
        OplockLevel::EXCLUSIVE,
        OplockLevel::LEASE,
    ]);
    peer.request(Command::OPLOCK_BREAK, &OplockBreak { oplock_level, file_id })
}

fn lease_break(random: &mut Random, peer: &Peer) -> Request {
    let lease_state = random.one_of(&[
        LeaseState::empty(),
        LeaseState::READ_CACHING,
        LeaseState::READ_CACHING.union(LeaseState::HANDLE_CACHING),
    ]);
    let body = LeaseBreak { lease_key: lease_key(random), lease_state };
    peer.request(Command::OPLOCK_BREAK, &body)
}

/// Changes a few requests: one byte of the body, or a field of the header.
fn changed(random: &mut Random, mut request: Request) -> Request {
    if random.percent(8) {
        let [value] = random.bytes();
        request = request.body(|body| {
            if !body.is_empty() {
                let at = random.below(body.len());
                body[at] = value;
            }
        });
    }
    if random.percent(6) {
        request = request.flags(HeaderFlags::REPLAY_OPERATION);
    }
    if random.percent(10) {
        request = request.flags(HeaderFlags::DFS_OPERATIONS);
    }
    if random.percent(6) {
        request = request.channel_sequence(random.one_of(&[0, 1, 2, 0x8000]));
    }
    request
}
