//! A directory is opened by its name after it was made, and somebody may have put another one there
//! in between: also another one of the same user. One that gets a descriptor has a temporary name
//! then, which the attacker finds in the folder. The tests need root, because they are about
//! several users, and end at once without it.

mod support;

use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use dtyp::security_descriptor::Control;
use dtyp::{AccessMask, Ace, AceFlags, Acl, NtStatus, SecurityDescriptor, Sid};
use object::{Disposition, RequestedKind};
use rustix::fs::{RawDir, RenameFlags, SeekFrom, renameat_with};
use rustix::thread::{Uid, set_thread_groups, set_thread_res_uid};
use store::{InheritOwner, NtAclSettings, RootSettings};
use support::{READ, Share, account, is_root};

const ATTACKER: u32 = 70_001;
const VICTIM: u32 = 70_002;

/// Of the directory of the victim, which others may write to and not change.
const MODE: u32 = 0o757;

/// Two exchanges at once would keep each other from the right moment.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

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

/// Paths of what is in a directory.
fn paths_in(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(directory).expect("it is there");
    entries.filter_map(|it| Some(it.ok()?.path()))
}

/// Exchanges the victim's directory with a new one as often as it can, as a local process of the
/// attacker's, until told to stop.
fn exchange(directory: &Path, stop: &AtomicBool) {
    let uid = Uid::from_raw(ATTACKER);
    set_thread_groups(&[]).expect("root");
    set_thread_res_uid(uid, uid, uid).expect("root");
    let directory = File::open(directory).expect("everybody may read it");
    while !stop.load(Ordering::Relaxed) {
        // Few calls, because the time between making and opening is short.
        rustix::fs::seek(&directory, SeekFrom::Start(0)).expect("a directory");
        let mut buffer = Vec::with_capacity(4_096);
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(Ok(entry)) = entries.next() {
            let name = entry.file_name();
            if name.to_bytes().starts_with(b".::TMPNAME:") {
                let exchange = RenameFlags::EXCHANGE;
                let _ = renameat_with(&directory, c"theirs", &directory, name, exchange);
                break;
            }
        }
    }
}

/// Owner and mode of the victim's directory, which gets its own name back; others are removed.
fn victims(share: &mut Share, directory: &Path, victim: u64) -> (u32, u32) {
    share.store.revert_to_server();
    let theirs = directory.join("theirs");
    loop {
        for path in paths_in(directory) {
            let found = std::fs::metadata(&path).ok();
            let Some(found) = found.filter(|it| it.ino() == victim) else {
                drop(std::fs::remove_dir(path));
                continue;
            };
            // Until a temporary name is gone it may be exchanged once more.
            if path == theirs || std::fs::rename(path, &theirs).is_ok() {
                return (found.uid(), found.permissions().mode() & 0o7777);
            }
        }
    }
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
    let directory = share.host("d");
    // A file inside keeps the directory from removal.
    share.local("d/theirs/f", "");
    let victim = std::fs::metadata(share.host("d/theirs")).expect("there").ino();
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| exchange(&directory, &stop));
        let _stop = StopAtTheEnd(&stop);
        for _ in 0..ATTEMPTS_MAX {
            let made = make(&mut share, "d\\ours");
            let seen = victims(&mut share, &directory, victim);
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

#[test]
fn nor_does_another_directory_of_the_same_user_get_the_descriptor_of_a_new_one() {
    attack_on(VICTIM, VICTIM, |settings| settings.nt_acls = Some(NtAclSettings::new(true)));
}

#[test]
fn nor_does_another_directory_of_the_same_user_get_the_owner_that_new_directories_get() {
    attack_on(VICTIM, VICTIM, |settings| {
        settings.nt_acls = Some(NtAclSettings::new(true));
        settings.inherit_owner = InheritOwner::UnixOnly;
    });
}

/// Root's own directories and those of the attacker look like new ones of root, but for what is in
/// them.
#[test]
fn a_client_as_root_opens_no_directory_that_replaced_a_new_one() {
    attack_on(0, 0, |settings| settings.nt_acls = Some(NtAclSettings::new(true)));
}
