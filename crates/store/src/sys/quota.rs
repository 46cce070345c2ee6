//! Quotas of users by the kernel: quotactl_fd(2), since Linux 5.14. XFS answers the same calls as
//! ext4.
//!
//! The kernel tells users their own quota, and all others with CAP_SYS_ADMIN only. Older kernels
//! know the call by a path to the device alone; on them there are no quotas here.

use std::mem::offset_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use object::{Quota, QuotaLimits, QuotaState};
use rustix::io::Errno;

use crate::sys::system;

/// Bytes of the blocks in which limits are counted: QIF_DQBLKSIZE of linux/quota.h.
const BLOCK_BYTES: u64 = QuotaLimits::BLOCK_BYTES;

/// Commands of linux/quota.h and linux/dqblk_xfs.h, for quotas of users.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Command {
    Get = of_users(0x80_0007),
    Set = of_users(0x80_0008),
    GetNext = of_users(0x80_0009),
    GetState = of_users(0x5805),
}

/// QCMD of linux/quota.h with USRQUOTA, which is 0.
const fn of_users(command: u32) -> u32 {
    command << 8
}

/// `struct if_nextdqblk`, which begins as `struct if_dqblk`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
struct Block {
    hard_blocks: u64,
    soft_blocks: u64,
    used_bytes: u64,
    hard_files: u64,
    soft_files: u64,
    used_files: u64,
    block_time: u64,
    file_time: u64,
    valid: u32,
    uid: u32,
}

/// QIF_BLIMITS: the limits of blocks are set, and nothing else.
const BLOCK_LIMITS: u32 = 1;

/// First fields of `struct fs_quota_stat`, and room for its other fields.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct State {
    version: i8,
    flags: u16,
    rest: [u64; 12],
}

const _: () = assert!(offset_of!(State, flags) == 2 && size_of::<Block>() == 72);

/// FS_QUOTA_UDQ_ACCT and FS_QUOTA_UDQ_ENFD of linux/dqblk_xfs.h.
const TRACKED: u16 = 1;
const ENFORCED: u16 = 2;

/// Returns the quota of a user on the file system of an object.
pub(crate) fn get(object: BorrowedFd<'_>, uid: u32) -> Result<Quota, Errno> {
    let mut block = Block::default();
    match call(object, Command::Get, uid, &mut block) {
        // XFS keeps nothing of users without files and limits.
        Err(Errno::NOENT) => Ok(Quota::default()),
        result => result.map(|()| quota(&block)),
    }
}

/// Returns the first user with a quota whose id is `uid` or higher; `None` behind the last.
pub(crate) fn get_next(object: BorrowedFd<'_>, uid: u32) -> Result<Option<(u32, Quota)>, Errno> {
    let mut block = Block::default();
    match call(object, Command::GetNext, uid, &mut block) {
        Err(Errno::NOENT) => Ok(None),
        result => result.map(|()| Some((block.uid, quota(&block)))),
    }
}

/// Sets the limits of a user's storage. Those of the number of files stay.
pub(crate) fn set(object: BorrowedFd<'_>, uid: u32, limits: QuotaLimits) -> Result<(), Errno> {
    let [soft_blocks, hard_blocks] = limits.in_blocks();
    let mut block = Block { hard_blocks, soft_blocks, valid: BLOCK_LIMITS, ..Block::default() };
    call(object, Command::Set, uid, &mut block)
}

/// Returns the state of the quotas of users on the file system of an object.
pub(crate) fn state(object: BorrowedFd<'_>) -> Result<QuotaState, Errno> {
    let mut state = State::default();
    match call(object, Command::GetState, 0, &mut state) {
        // It takes no right: a filter of system calls, such as that of a container, refuses it.
        Err(Errno::PERM) => return Err(Errno::NOSYS),
        result => result?,
    }
    let is = |flag: u16| state.flags & flag != 0;
    Ok(match (is(TRACKED), is(ENFORCED)) {
        (false, false) => QuotaState::Off,
        (true, false) => QuotaState::Tracked,
        (_, true) => QuotaState::Enforced,
    })
}

fn call<T>(
    object: BorrowedFd<'_>,
    command: Command,
    uid: u32,
    argument: &mut T,
) -> Result<(), Errno> {
    let argument: *mut T = argument;
    // SAFETY: the kernel reads or writes one structure of the command behind the pointer, which has
    // room for it: `if_dqblk`, `if_nextdqblk` or `fs_quota_stat`. Each bit pattern of the integers
    // in it is valid.
    let result = unsafe {
        libc::syscall(libc::SYS_quotactl_fd, object.as_raw_fd(), command as u32, uid, argument)
    };
    if result == 0 { Ok(()) } else { Err(system::last_errno()) }
}

fn quota(block: &Block) -> Quota {
    let files = [block.soft_files, block.hard_files];
    Quota {
        used_bytes: block.used_bytes,
        limits: QuotaLimits {
            soft_bytes: bytes(block.soft_blocks),
            hard_bytes: bytes(block.hard_blocks),
        },
        is_out_of_files: Quota::has_most_files(block.used_files, files),
    }
}

fn bytes(blocks: u64) -> Option<u64> {
    match blocks {
        0 => None,
        // No storage at all: see `QuotaLimits::in_blocks`.
        1 => Some(0),
        blocks => Some(blocks.saturating_mul(BLOCK_BYTES)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use dtyp::NtStatus;

    use super::{Block, bytes, quota};
    use crate::errno::{Operation, status_from_errno};
    use object::QuotaLimits;
    use rustix::io::Errno;

    #[test]
    fn limits_are_blocks_of_1024_bytes_and_zero_is_none() {
        let blocks =
            |limit| QuotaLimits { soft_bytes: limit, ..QuotaLimits::default() }.in_blocks()[0];
        assert_eq!((bytes(0), bytes(1), bytes(2)), (None, Some(0), Some(2_048)));
        assert_eq!(bytes(u64::MAX), Some(u64::MAX), "no overflow");
        assert_eq!((blocks(None), blocks(Some(0)), blocks(Some(1_024))), (0, 1, 1));
        assert_eq!((blocks(Some(1_025)), blocks(Some(u64::MAX))), (2, 1 << 54));
        for limit in [None, Some(0), Some(2_048), Some(1 << 40)] {
            assert_eq!(bytes(blocks(limit)), limit);
        }
    }

    #[test]
    fn a_user_is_out_of_files_at_either_limit_of_them() {
        let of = |soft_files, hard_files| {
            quota(&Block { used_files: 10, soft_files, hard_files, ..Block::default() })
        };
        assert!(!of(0, 0).is_out_of_files && !of(11, 11).is_out_of_files);
        assert!(of(10, 0).is_out_of_files && of(0, 10).is_out_of_files);
    }

    /// /proc has none, whatever the kernel can do otherwise.
    #[test]
    fn a_file_system_without_quotas_is_told_from_a_failure() {
        let folder = std::fs::File::open("/proc/self").expect("it is mounted");
        let errno = super::state(folder.as_fd()).expect_err("there are no quotas");
        let status = status_from_errno(Operation::Quota, errno);
        assert_eq!(status, NtStatus::NOT_SUPPORTED, "{errno}");
        let errno = super::get(folder.as_fd(), 0).expect_err("there are no quotas");
        let status = status_from_errno(Operation::Quota, errno);
        // A container may refuse the call.
        assert!(errno == Errno::PERM || status == NtStatus::NOT_SUPPORTED, "{errno}");
    }
}
