//! Setup of a ring, with the names of missing features.

use std::fmt;
use std::io;

use io_uring::register::{Probe, Restriction};
use io_uring::{IoUring, opcode, squeue};
use mistake::{Mistake, is_made};

use crate::driver::Limits;

/// Features that the running kernel's io_uring lacks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Unavailable {
    /// Features, by their names in `io_uring_setup(2)`.
    Features(Vec<&'static str>),
    /// Operations, by their names in `io_uring_enter(2)`.
    Operations(Vec<&'static str>),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Features(names) | Self::Operations(names)) = self;
        write!(f, "io_uring lacks {}", names.join(", "))
    }
}

impl std::error::Error for Unavailable {}

/// Highest number of entries of the submission queue. A wait that starts more operations submits
/// several times. Each entry takes 64 bytes of a worker, busy or idle.
const SUBMISSIONS_MAX: u32 = 128;

/// All operations of the driver; the ring is restricted to them, since seccomp cannot see them.
const OPERATIONS: [(&str, u8); 9] = [
    ("IORING_OP_ACCEPT", opcode::Accept::CODE),
    ("IORING_OP_ASYNC_CANCEL", opcode::AsyncCancel::CODE),
    ("IORING_OP_FSYNC", opcode::Fsync::CODE),
    ("IORING_OP_POLL_ADD", opcode::PollAdd::CODE),
    ("IORING_OP_READ", opcode::Read::CODE),
    ("IORING_OP_RECV", opcode::Recv::CODE),
    ("IORING_OP_SEND", opcode::Send::CODE),
    ("IORING_OP_SENDMSG", opcode::SendMsg::CODE),
    ("IORING_OP_WRITE", opcode::Write::CODE),
];

/// True if this process can have no ring at all: the kernel forbids it io_uring, as in most
/// containers, or lacks it.
pub(crate) fn is_forbidden() -> bool {
    let errno = IoUring::new(1).err().and_then(|error| error.raw_os_error());
    matches!(errno, Some(libc::EPERM | libc::EACCES | libc::ENOSYS))
}

/// Opens a ring for the calling thread.
pub(super) fn open(limits: Limits) -> io::Result<IoUring> {
    let ring = build(limits)?;
    verify(&ring).map_err(|lack| io::Error::new(io::ErrorKind::Unsupported, lack))?;
    let submitter = ring.submitter();
    // Kernels before 5.15 have no such limit; RLIMIT_NPROC alone bounds their io-wq.
    match submitter.register_iowq_max_workers(&mut [limits.threads_max; 2]) {
        Err(error) if error.raw_os_error() != Some(libc::EINVAL) => return Err(error),
        _ => {}
    }
    // No registration is allowed after this.
    let flags = Restriction::sqe_flags_allowed(squeue::Flags::ASYNC.bits());
    let operations = OPERATIONS.map(|(_, code)| Restriction::sqe_op(code));
    let mut restrictions: Vec<Restriction> = operations.into_iter().chain([flags]).collect();
    if !is_made(Mistake::RingUnrestricted) {
        submitter.register_restrictions(&mut restrictions)?;
    }
    submitter.register_enable_rings()?;
    Ok(ring)
}

/// Tries the cheapest way to run completions first: in a wait for them (6.1), in any system call
/// (5.19), at any time (by an interruption).
fn build(limits: Limits) -> io::Result<IoUring> {
    let operations = limits.operations_in_flight_max;
    let submissions = operations.next_power_of_two().min(SUBMISSIONS_MAX);
    // One completion for the operation and one for its cancellation.
    let completions = (2 * operations).next_power_of_two();
    let mut builder = IoUring::builder();
    builder.setup_cqsize(completions).setup_r_disabled();
    let mut cooperative = builder.clone();
    cooperative.setup_coop_taskrun().setup_submit_all();
    let mut deferred = cooperative.clone();
    deferred.setup_single_issuer().setup_defer_taskrun();
    let unknown_flag = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
    for builder in [deferred, cooperative] {
        match builder.build(submissions) {
            Err(error) if unknown_flag(&error) => {}
            built => return built,
        }
    }
    builder.build(submissions)
}

fn verify(ring: &IoUring) -> Result<(), Unavailable> {
    let parameters = ring.params();
    let features: Vec<&str> = [
        // A timeout for a wait, without a submission of its own.
        ("IORING_FEAT_EXT_ARG", parameters.is_feature_ext_arg()),
        // Sockets wait by poll and not in a thread each.
        ("IORING_FEAT_FAST_POLL", parameters.is_feature_fast_poll()),
        // Completions are never dropped.
        ("IORING_FEAT_NODROP", parameters.is_feature_nodrop()),
    ]
    .iter()
    .filter_map(|(name, present)| (!present).then_some(*name))
    .collect();
    if !features.is_empty() {
        return Err(Unavailable::Features(features));
    }
    let mut probe = Probe::new();
    // A kernel that cannot be probed (before 5.6) counts as lacking all of them.
    let asked = ring.submitter().register_probe(&mut probe).is_ok();
    let operations = missing(|code| asked && probe.is_supported(code));
    if operations.is_empty() { Ok(()) } else { Err(Unavailable::Operations(operations)) }
}

fn missing(is_supported: impl Fn(u8) -> bool) -> Vec<&'static str> {
    OPERATIONS.iter().filter_map(|(name, code)| (!is_supported(*code)).then_some(*name)).collect()
}

#[cfg(test)]
mod tests {
    use io_uring::types;

    use super::*;

    /// The ring itself must refuse operations that seccomp cannot see.
    #[test]
    fn the_ring_takes_no_other_operations_and_no_registrations() {
        if is_forbidden() {
            assert!(open(Limits::default()).is_err(), "nobody can have one");
            return;
        }
        let mut ring = open(Limits::default()).expect("io_uring is not forbidden");
        let rename = opcode::RenameAt::new(
            types::Fd(libc::AT_FDCWD),
            c"/nowhere/from".as_ptr(),
            types::Fd(libc::AT_FDCWD),
            c"/nowhere/to".as_ptr(),
        );
        // SAFETY: the names are static.
        unsafe { ring.submission().push(&rename.build()) }.expect("the queue is empty");
        ring.submit_and_wait(1).expect("submitting works");
        let answer = ring.completion().next().expect("one was waited for");
        assert_eq!(answer.result(), -libc::EACCES);
        let registered = ring.submitter().register_files(&[0]).expect_err("it is restricted");
        assert_eq!(registered.raw_os_error(), Some(libc::EACCES));
    }

    #[test]
    fn missing_operations_are_named() {
        let lacks = missing(|code| ![opcode::Read::CODE, opcode::SendMsg::CODE].contains(&code));
        assert_eq!(
            Unavailable::Operations(lacks).to_string(),
            "io_uring lacks IORING_OP_READ, IORING_OP_SENDMSG"
        );
    }
}
