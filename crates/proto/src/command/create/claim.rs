//! Exclusion of local programs from a file that a client opens: `kernel share modes` and `kernel
//! oplocks`.

use arbitration::Granted;
use dtyp::AccessMask;
use engine::scope::InTree;
use model::file_key::key;
use model::reject::Reject;
use model::share::Share;
use object::{FileIdentity, KernelClaim, Opened, WholeFileLock};
use wire::create::ShareAccess;

use super::Opening;

/// Returns the claim of an open that was granted beside those of other clients. Only files
/// themselves have locks and leases, not their streams.
pub(super) fn claim(
    share: &Share,
    opening: &Opening,
    opened: &Opened,
    granted: &Granted,
) -> KernelClaim {
    let programs = share.local_programs;
    let is_plain = !opened.metadata.is_directory() && opened.path.stream().is_none();
    if !is_plain || !(programs.see_share_modes || programs.break_oplocks) {
        return KernelClaim::default();
    }
    let lock = programs.see_share_modes.then(|| lock(opened.granted_access, opening.share_access));
    let has_oplock = granted.lease.is_none() && !granted.caching.is_empty();
    KernelClaim { lock: lock.flatten(), lease: programs.break_oplocks && has_oplock }
}

/// Returns the lock of the whole file that stands for a share mode. An open that lets others write
/// has none, whether it lets them read or not: flock(2) cannot express that. Nor has one without
/// access to data, which conflicts with nobody.
fn lock(granted: AccessMask, shared: ShareAccess) -> Option<WholeFileLock> {
    let data = AccessMask::READ_DATA
        | AccessMask::EXECUTE
        | AccessMask::WRITE_DATA
        | AccessMask::APPEND_DATA;
    if !granted.intersects(data) || shared.contains(ShareAccess::WRITE) {
        return None;
    }
    let is_read = shared.contains(ShareAccess::READ);
    Some(if is_read { WholeFileLock::Shared } else { WholeFileLock::Exclusive })
}

/// True if no lease of the client is granted: as in Samba, oplocks alone have leases of the kernel.
pub(super) fn excludes_leases(share: &Share, is_directory: bool) -> bool {
    share.local_programs.break_oplocks && !is_directory
}

/// Takes note of the result. An oplock without a lease is taken away: the file is open on the
/// server, too, and nobody would break the oplock for that program. The client does not know of the
/// oplock yet.
pub(super) fn leased(
    scope: &mut InTree<'_>,
    identity: FileIdentity,
    volatile: u64,
    leased: bool,
) -> Result<(), Reject> {
    let open = scope.opens.get_mut(&volatile).ok_or(Reject::NoSuchOpen)?;
    let is_wanted = open.share.local_programs.break_oplocks;
    open.file_mut()?.has_kernel_lease = leased;
    if leased || !is_wanted {
        return Ok(());
    }
    let files = &mut scope.globals.files;
    let id = files.open_id(volatile);
    files.change(key(identity), |record, notify| (record.withdraw_oplock(id, notify), true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_that_excludes_writers_locks_the_whole_file() {
        let (read, write) = (ShareAccess::READ, ShareAccess::WRITE);
        for access in [AccessMask::READ_DATA, AccessMask::WRITE_DATA, AccessMask::EXECUTE] {
            assert_eq!(lock(access, ShareAccess::empty()), Some(WholeFileLock::Exclusive));
            assert_eq!(lock(access, ShareAccess::DELETE), Some(WholeFileLock::Exclusive));
            assert_eq!(lock(access, read), Some(WholeFileLock::Shared));
            assert_eq!((lock(access, write), lock(access, read | write)), (None, None));
        }
        assert_eq!(lock(AccessMask::READ_ATTRIBUTES, ShareAccess::empty()), None);
    }
}
