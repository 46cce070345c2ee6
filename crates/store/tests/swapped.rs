//! A directory is opened by its name after it was made, and somebody may have put another one there
//! in between. One that gets a descriptor has a temporary name then, which can be foreseen. The
//! tests need root, because they are about several users, and end at once without it.

mod support;

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use dtyp::security_descriptor::Control;
use dtyp::{AccessMask, Ace, AceFlags, Acl, NtStatus, SecurityDescriptor, Sid};
use object::{Disposition, RequestedKind};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::thread::{Uid, set_thread_groups, set_thread_res_uid};
use store::{InheritOwner, NtAclSettings, RootSettings};
use support::{READ, Share, account, is_root};

const ATTACKER: u32 = 70_001;
const VICTIM: u32 = 70_002;

/// Of the directory of the victim, which others may write to and not change.
const MODE: u32 = 0o757;

/// Temporary names that this process has used. Only one test at a time makes directories.
static TEMPORARY_NAMES: Mutex<AtomicU64> = Mutex::new(AtomicU64::new(0));

/// Directories that are made, until one is put in the place of another at the right moment.
const ATTEMPTS_MAX: u32 = 2_000;

/// Takes the rights that make a difference, and a list that opens what it is given to.
fn make(share: &mut Share, path: &str) -> Result<(), NtStatus> {
    let everyone = Ace::allow(Sid::everyone(), AccessMask::FILE_ALL, AceFlags::empty());
    let descriptor = SecurityDescriptor {
        control: Control::SELF_RELATIVE | Control::DACL_PRESENT,
        dacl: Some(Acl::new(vec![everyone])),
        ..SecurityDescriptor::default()
    };
    let made = share.try_open(path, |request| {
        request.disposition = Disposition::Create;
        request.kind = RequestedKind::Directory;
        request.desired_access = READ | AccessMask::WRITE_DAC | AccessMask::WRITE_OWNER;
        request.security = Some(Bytes::from(descriptor.to_bytes()));
    })?;
    share.close(made.open);
    Ok(())
}

/// Temporary path of the next new directory, in this one.
fn temporary(directory: &Path, used: &AtomicU64) -> PathBuf {
    let number = used.load(Ordering::Relaxed);
    directory.join(format!(".::TMPNAME:D:{}:{number}", std::process::id()))
}

/// Exchanges the victim's directory with a new one as often as it can, as a local process of the
/// attacker's, until told to stop.
fn exchange(directory: &Path, used: &AtomicU64, stop: &AtomicBool) {
    let uid = Uid::from_raw(ATTACKER);
    set_thread_groups(&[]).expect("root");
    set_thread_res_uid(uid, uid, uid).expect("root");
    let theirs = directory.join("theirs");
    while !stop.load(Ordering::Relaxed) {
        let ours = temporary(directory, used);
        let _ = renameat_with(CWD, &theirs, CWD, &ours, RenameFlags::EXCHANGE);
    }
}

/// Owner and mode of the victim's directory, which has one of the names, and gets its own one back;
/// others are removed.
fn victims(share: &mut Share, names: &[PathBuf], victim: u64) -> (u32, u32) {
    share.store.revert_to_server();
    let mut seen = None;
    while seen.is_none() {
        for name in names {
            match std::fs::metadata(name) {
                Ok(found) if found.ino() == victim => {
                    seen = Some((name, found.uid(), found.permissions().mode() & 0o7777));
                }
                _ => drop(std::fs::remove_dir(name)),
            }
        }
    }
    let (name, uid, mode) = seen.expect("it was looked for until then");
    if !names[0].exists() {
        std::fs::rename(name, &names[0]).expect("nobody has anything to exchange");
    }
    (uid, mode)
}

/// Stops the thread also when the attack has succeeded, which is a panic.
struct StopAtTheEnd<'a>(&'a AtomicBool);

impl Drop for StopAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn attack(settings: impl FnOnce(&mut RootSettings)) {
    attack_on(ATTACKER, VICTIM, settings);
}

/// Attacks directories that a user makes, with one of a victim.
fn attack_on(user: u32, victims_uid: u32, settings: impl FnOnce(&mut RootSettings)) {
    if !is_root() {
        return;
    }
    let mut share = Share::with(settings);
    share.user = share.store.register_user(account(user, &[]));
    share.local_directory("d/theirs");
    chown(share.host("d"), Some(ATTACKER), None).expect("root");
    chown(share.host("d/theirs"), Some(victims_uid), Some(victims_uid)).expect("root");
    share.mode("d/theirs", MODE);
    let (directory, theirs) = (share.host("d"), share.host("d/theirs"));
    // A file inside keeps the directory from removal.
    share.local("d/theirs/f", "");
    let victim = std::fs::metadata(&theirs).expect("there").ino();
    let used = TEMPORARY_NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| exchange(&directory, &used, &stop));
        let _stop = StopAtTheEnd(&stop);
        for _ in 0..ATTEMPTS_MAX {
            let names = [theirs.clone(), share.host("d/ours"), temporary(&directory, &used)];
            let made = make(&mut share, "d\\ours");
            used.fetch_add(1, Ordering::Relaxed);
            let seen = victims(&mut share, &names, victim);
            assert_eq!(seen, (victims_uid, MODE), "taken: {made:?}");
            if made == Err(NtStatus::ACCESS_DENIED) {
                return;
            }
        }
    });
}

#[test]
fn a_directory_that_somebody_put_in_the_place_of_a_new_one_stays_its_owners() {
    attack(|settings| settings.nt_acls = Some(NtAclSettings::new(true)));
}

#[test]
fn nor_does_it_get_the_owner_that_new_directories_get() {
    attack(|settings| settings.inherit_owner = InheritOwner::UnixOnly);
}

#[test]
fn a_client_as_root_changes_no_directory_that_replaced_a_new_one() {
    attack_on(0, VICTIM, |settings| settings.nt_acls = Some(NtAclSettings::new(true)));
}

#[test]
fn a_client_as_root_changes_no_mode_of_a_directory_that_replaced_a_new_one() {
    attack_on(0, VICTIM, |_| ());
}

/// Root's own directories and those of the attacker look like new ones of root, but for what is in
/// them.
#[test]
fn a_client_as_root_opens_no_directory_that_replaced_a_new_one() {
    attack_on(0, 0, |settings| settings.nt_acls = Some(NtAclSettings::new(true)));
}
