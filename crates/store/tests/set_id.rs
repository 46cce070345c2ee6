//! No client makes anything setuid or setgid, or gives a file to a group that it is not in. Each
//! test is an attack. They need root, because they are about several users, and end at once without
//! it.

mod support;

use bytes::Bytes;
use dtyp::security_descriptor::Control;
use dtyp::{AccessMask, Ace, AceFlags, Acl, SecurityDescriptor, SecurityInformation, Sid};
use object::{Disposition, LocalOpen, ObjectPath, OpenRequest, RequestedKind};
use rustix::thread::CapabilitySet;
use std::os::unix::fs::{MetadataExt, chown};
use store::{Credentials, NtAclSettings, RootSettings};
use support::{READ, Share, WRITE, account, is_root};

/// The user of shares with `force user`, and two others.
const OWNER: u32 = 70_003;
const A: u32 = 70_001;
const B: u32 = 70_002;
/// A group of A's without any other member in these tests.
const TEAM: u32 = 70_010;
/// A group that none of them is in, as `docker` or `disk` may be.
const FOREIGN: u32 = 70_020;

const DACL: SecurityInformation = SecurityInformation::DACL;
const CONTROL: AccessMask =
    AccessMask::READ_CONTROL.union(AccessMask::WRITE_DAC).union(AccessMask::WRITE_OWNER);

/// A share whose user is somebody else than the server, as with `force user`.
fn share_of(owner: u32, change: impl FnOnce(&mut RootSettings)) -> Option<Share> {
    if !is_root() {
        return None;
    }
    let mut share = Share::with(change);
    share.user = share.store.register_user(account(owner, &[]));
    Some(share)
}

fn with_nt_acls(settings: &mut RootSettings) {
    settings.nt_acls = Some(NtAclSettings::new(true));
}

fn list(aces: Vec<Ace>) -> SecurityDescriptor {
    SecurityDescriptor {
        control: Control::SELF_RELATIVE | Control::DACL_PRESENT,
        dacl: Some(Acl::new(aces)),
        ..SecurityDescriptor::default()
    }
}

fn allow(sid: Sid, mask: AccessMask) -> Ace {
    Ace::allow(sid, mask, AceFlags::empty())
}

/// A list that says a mode outright: S-1-5-88-3-MODE.
fn saying(mode: u32) -> SecurityDescriptor {
    list(vec![allow(Sid::new(5, &[88, 3, mode]), AccessMask::empty())])
}

fn posix(path: &str) -> ObjectPath {
    ObjectPath::parse_posix(path).expect("a path")
}

fn make(share: &mut Share, change: impl FnOnce(&mut OpenRequest)) -> LocalOpen {
    let made = share.try_open("", |request| {
        request.disposition = Disposition::Create;
        request.desired_access = READ | WRITE | CONTROL;
        change(request);
    });
    made.expect("made").open
}

/// uid, gid and mode of something, as the host has them.
fn found(share: &mut Share, path: &str) -> (u32, u32, u32) {
    share.store.revert_to_server();
    let found = std::fs::symlink_metadata(share.host(path)).expect("there");
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

#[test]
fn a_list_that_says_a_mode_makes_no_program_setuid_or_setgid() {
    let Some(mut share) = share_of(OWNER, |_| {}) else { return };
    let open = share.create("f");
    for (said, want) in [(0o4755, 0o755), (0o2775, 0o775), (0o7711, 0o711)] {
        share.write_security(open, DACL, &saying(said)).expect("the owner may");
        assert_eq!(found(&mut share, "f"), (OWNER, OWNER, want), "{said:o}");
    }
}

#[test]
fn a_list_that_says_a_mode_makes_none_through_the_posix_extensions_either() {
    let Some(mut share) = share_of(OWNER, with_nt_acls) else { return };
    let open = make(&mut share, |request| request.path = posix("f"));
    share.write_security(open, DACL, &saying(0o6755)).expect("the owner may");
    assert_eq!(found(&mut share, "f"), (OWNER, OWNER, 0o755));
}

#[test]
fn a_list_in_a_create_makes_none() {
    for nt_acls in [false, true] {
        let settings = |it: &mut RootSettings| {
            if nt_acls {
                with_nt_acls(it)
            }
        };
        let Some(mut share) = share_of(OWNER, settings) else { return };
        for (path, kind) in [("f", RequestedKind::File), ("d", RequestedKind::Directory)] {
            make(&mut share, |request| {
                request.path = posix(path);
                request.kind = kind;
                request.security = Some(Bytes::from(saying(0o6755).to_bytes()));
            });
            assert_eq!(found(&mut share, path).2 & 0o6000, 0, "{path}");
        }
    }
}

#[test]
fn the_posix_context_of_a_create_makes_none() {
    let Some(mut share) = share_of(OWNER, |_| {}) else { return };
    let kinds = [("f", RequestedKind::File, 0), ("d", RequestedKind::Directory, 0o1000)];
    for (name, kind, sticky) in kinds {
        // A mode without the owner's write bit is set last.
        for (said, want) in [(0o7755, 0o755), (0o7555, 0o555)] {
            let path = format!("{name}{said:o}");
            make(&mut share, |request| {
                request.path = posix(&path);
                request.kind = kind;
                request.posix_mode = Some(said);
            });
            assert_eq!(found(&mut share, &path), (OWNER, OWNER, want | sticky), "{path}");
        }
    }
}

#[test]
fn the_modes_that_a_share_forces_make_none() {
    let settings = |it: &mut RootSettings| {
        (it.force_create_mode, it.masks_given_modes) = (0o6700, true);
        it.create_mask = 0o7777;
    };
    let Some(mut share) = share_of(OWNER, settings) else { return };
    for (path, mode) in [("plain", None), ("posix", Some(0o6711))] {
        make(&mut share, |request| {
            request.path = posix(path);
            request.posix_mode = mode;
        });
        assert_eq!(found(&mut share, path).2 & 0o7000, 0, "{path}");
    }
}

#[test]
fn the_masks_hold_for_given_modes_of_another_users_files() {
    let settings = |it: &mut RootSettings| {
        it.masks_given_modes = true;
        (it.create_mask, it.force_create_mode) = (0o750, 0o004);
        (it.directory_mask, it.force_directory_mode) = (0o1770, 0o001);
    };
    let Some(mut share) = share_of(OWNER, settings) else { return };
    let kinds = [("f", RequestedKind::File, 0o754), ("d", RequestedKind::Directory, 0o1771)];
    for (name, kind, want) in kinds {
        make(&mut share, |request| {
            (request.path, request.kind) = (posix(name), kind);
            request.posix_mode = Some(0o7777);
        });
        let said = format!("said {name}");
        make(&mut share, |request| {
            (request.path, request.kind) = (posix(&said), kind);
            request.security = Some(Bytes::from(saying(0o7777).to_bytes()));
        });
        assert_eq!(found(&mut share, name).2, want, "{name}");
        assert_eq!(found(&mut share, &said).2, want, "{said}");
    }
}

/// A change of the list removes bits that a local process set, for the owner as for others.
#[test]
fn a_new_list_takes_setuid_and_setgid_from_a_file() {
    for nt_acls in [false, true] {
        let settings = |it: &mut RootSettings| {
            if nt_acls {
                with_nt_acls(it)
            }
        };
        let Some(mut share) = share_of(OWNER, settings) else { return };
        let open = share.create("f");
        share.close(open);
        let owner = account(OWNER, &[]);
        for mode in [0o4755, 0o2755, 0o2744, 0o6755] {
            share.local_mode(&owner, "f", None, mode);
            let open = share.open_for("f", CONTROL);
            let everyone = list(vec![allow(Sid::everyone(), READ | WRITE)]);
            share.write_security(open, DACL, &everyone).expect("the owner may");
            share.close(open);
            assert_eq!(found(&mut share, "f").2 & 0o6000, 0, "{mode:o}");
        }
    }
}

/// A list of A's that leaves B the ownership, and that a mode says: rwx for the owner, rw- for
/// others.
fn bait() -> SecurityDescriptor {
    let owner_rights = Sid::new(3, &[4]);
    list(vec![
        allow(owner_rights, AccessMask::FILE_GENERIC_EXECUTE),
        allow(Sid::everyone(), READ | WRITE | CONTROL),
    ])
}

fn owners(uid: u32, gid: u32) -> SecurityDescriptor {
    SecurityDescriptor {
        owner: Some(Sid::unix_user(uid)),
        group: Some(Sid::unix_group(gid)),
        ..SecurityDescriptor::default()
    }
}

/// A makes a file that is setgid and not executable by its group; B takes it, with a group that
/// neither is in; A sets a list with which the group may execute it.
#[test]
fn two_users_make_no_program_setgid_of_a_group_that_neither_is_in() {
    let Some(mut share) = share_of(A, with_nt_acls) else { return };
    let (a, b) = (share.user, share.store.register_user(account(B, &[])));
    let open = share.create("f");
    share.close(open);
    share.local_mode(&account(A, &[TEAM]), "f", Some(TEAM), 0o2766);
    let open = share.open_for("f", CONTROL);
    share.write_security(open, DACL, &bait()).expect("its owner");
    share.close(open);
    // A local process may do it again at any time.
    share.local_mode(&account(A, &[TEAM]), "f", None, 0o2766);
    share.user = b;
    let open = share.open_for("f", CONTROL);
    let both = SecurityInformation::OWNER | SecurityInformation::GROUP;
    let taken = share.write_security(open, both, &owners(B, FOREIGN));
    assert!(taken.is_ok(), "ownership is granted: {taken:?}");
    share.close(open);
    let (uid, gid, mode) = found(&mut share, "f");
    assert_eq!((uid, gid), (B, TEAM), "the group is nobody's to give");
    assert_eq!(mode & 0o6000, 0, "{mode:o}");
    share.user = a;
    let open = share.open_for("f", CONTROL);
    let full = list(vec![allow(Sid::everyone(), AccessMask::FILE_ALL)]);
    share.write_security(open, DACL, &full).expect("granted to everyone");
    let (uid, gid, mode) = found(&mut share, "f");
    assert_eq!((uid, gid, mode & 0o6000), (B, TEAM, 0), "{mode:o}");
}

/// The kernel leaves S_ISGID to a file that its group may not execute, where the thread is in the
/// group; with the server's rights that is root's.
#[test]
fn a_file_with_a_new_owner_is_neither_setuid_nor_setgid() {
    for (group, mode) in [(0, 0o2766), (TEAM, 0o2766), (TEAM, 0o6766), (A, 0o4766)] {
        let Some(mut share) = share_of(A, with_nt_acls) else { return };
        let open = share.create("f");
        share.close(open);
        let local = account(A, &[0, TEAM]);
        share.local_mode(&local, "f", Some(group), 0o766);
        let open = share.open_for("f", CONTROL);
        share.write_security(open, DACL, &bait()).expect("its owner");
        share.close(open);
        share.local_mode(&local, "f", None, mode);
        share.user = share.store.register_user(account(B, &[]));
        let open = share.open_for("f", CONTROL);
        share.write_security(open, SecurityInformation::OWNER, &owners(B, B)).expect("granted");
        assert_eq!(found(&mut share, "f"), (B, group, 0o766), "{mode:o}");
    }
}

#[test]
fn a_new_owner_may_set_one_of_its_own_groups() {
    let Some(mut share) = share_of(A, with_nt_acls) else { return };
    let b = share.store.register_user(account(B, &[TEAM]));
    for (name, group, want) in [("own", B, B), ("other", TEAM, TEAM), ("foreign", FOREIGN, A)] {
        share.user = share.store.register_user(account(A, &[]));
        let open = make(&mut share, |request| request.path = posix(name));
        share.write_security(open, DACL, &bait()).expect("its owner");
        share.close(open);
        share.user = b;
        let open = share.open_for(name, CONTROL);
        let both = SecurityInformation::OWNER | SecurityInformation::GROUP;
        share.write_security(open, both, &owners(B, group)).expect("granted");
        let (uid, gid, _) = found(&mut share, name);
        assert_eq!((uid, gid), (B, want), "{name}");
    }
}

/// The descriptor names a group then that is not the file's.
#[test]
fn rights_of_another_group_are_not_given_to_the_group_of_the_file() {
    let Some(mut share) = share_of(A, with_nt_acls) else { return };
    let open = make(&mut share, |request| request.path = posix("f"));
    share.write_security(open, DACL, &bait()).expect("its owner");
    share.user = share.store.register_user(account(B, &[]));
    let open = share.open_for("f", CONTROL);
    let both = SecurityInformation::OWNER | SecurityInformation::GROUP;
    share.write_security(open, both, &owners(B, FOREIGN)).expect("granted");
    let given = list(vec![
        allow(Sid::unix_user(B), AccessMask::FILE_ALL),
        allow(Sid::unix_group(FOREIGN), READ | WRITE),
    ]);
    share.write_security(open, DACL, &given).expect("its owner");
    let path = share.host("f");
    let may_read =
        |share: &mut Share, who| share.locally(&who, || std::fs::File::open(&path).is_ok());
    assert!(may_read(&mut share, account(70_030, &[FOREIGN])));
    assert!(!may_read(&mut share, account(70_030, &[A])), "the file's group");
}

#[test]
fn an_owner_gives_its_file_to_no_group_that_it_is_not_in() {
    for nt_acls in [false, true] {
        let settings = |it: &mut RootSettings| {
            if nt_acls {
                with_nt_acls(it)
            }
        };
        let Some(mut share) = share_of(A, settings) else { return };
        let open = make(&mut share, |request| request.path = posix("f"));
        let both = SecurityInformation::OWNER | SecurityInformation::GROUP;
        for part in [SecurityInformation::GROUP, both] {
            assert!(share.write_security(open, part, &owners(A, FOREIGN)).is_err());
        }
        let made = share.try_open("g", |request| {
            request.disposition = Disposition::Create;
            request.security = Some(Bytes::from(owners(A, FOREIGN).to_bytes()));
        });
        assert!(made.is_err(), "not made with it either");
        assert_eq!(found(&mut share, "f").1, A);
    }
}

/// With CAP_FSETID the kernel would leave the bits: on a share with `force user = root` a client
/// would put another program in the place of one that is there.
#[test]
fn writing_to_a_program_clears_its_setuid_bit_for_root_too() {
    let Some(mut share) = share_of(0, |_| {}) else { return };
    for (mode, want) in [(0o4755, 0o755), (0o6755, 0o755)] {
        share.local("f", "a program");
        share.mode("f", mode);
        let open = share.open_for("f", READ | WRITE);
        share.write(open, 0, b"another");
        share.close(open);
        assert_eq!(found(&mut share, "f"), (0, 0, want), "{mode:o}");
    }
}

#[test]
fn cap_fsetid_is_gone_for_good() {
    let Some(mut share) = share_of(A, |_| {}) else { return };
    share.create("f");
    for as_server in [false, true] {
        if as_server {
            assert!(share.store.revert_to_server());
        }
        let sets = rustix::thread::capabilities(None).expect("our own");
        assert!(!sets.permitted.contains(CapabilitySet::FSETID));
        assert!(!sets.effective.contains(CapabilitySet::FSETID));
        assert_eq!(sets.effective.contains(CapabilitySet::CHOWN), as_server);
    }
}

/// A directory of the host that is setgid, for `TEAM`.
fn team_directory(share: &mut Share, owner: u32) {
    share.local_directory("team");
    let path = share.host("team");
    chown(&path, Some(owner), Some(TEAM)).expect("root");
    share.local_mode(&account(owner, &[TEAM]), "team", None, 0o2777);
}

fn members() -> Credentials {
    account(A, &[TEAM])
}

#[test]
fn files_in_a_setgid_directory_have_its_group_and_directories_are_setgid_too() {
    // One who is in the group, one who is not, and root, who lacks CAP_FSETID.
    for (user, nt_acls, said) in [members(), account(B, &[]), account(0, &[])]
        .into_iter()
        .flat_map(|user| [(user.clone(), false), (user, true)])
        .flat_map(|(user, nt_acls)| [None, Some(0o755)].map(|said| (user.clone(), nt_acls, said)))
    {
        let settings = |it: &mut RootSettings| {
            if nt_acls {
                with_nt_acls(it)
            }
        };
        let Some(mut share) = share_of(OWNER, settings) else { return };
        team_directory(&mut share, 0);
        share.user = share.store.register_user(user.clone());
        for (path, kind, bit) in
            [("team/f", RequestedKind::File, 0), ("team/d", RequestedKind::Directory, 0o2000)]
        {
            make(&mut share, |request| {
                (request.path, request.kind) = (posix(path), kind);
                request.posix_mode = said;
            });
            let (uid, gid, mode) = found(&mut share, path);
            assert_eq!((uid, gid, mode & 0o6000), (user.uid, TEAM, bit), "{path} {user:?}");
        }
    }
}

#[test]
fn a_setgid_directory_stays_so_when_a_member_or_root_sets_its_permissions() {
    for (user, nt_acls) in [(members(), false), (members(), true), (account(0, &[]), false)]
        .into_iter()
        .chain([(account(0, &[]), true)])
    {
        let settings = |it: &mut RootSettings| {
            if nt_acls {
                with_nt_acls(it)
            }
        };
        let Some(mut share) = share_of(OWNER, settings) else { return };
        team_directory(&mut share, user.uid);
        share.user = share.store.register_user(user.clone());
        let open = share.open_for("team", CONTROL);
        let everyone = list(vec![allow(Sid::everyone(), READ | WRITE)]);
        for given in [everyone, saying(0o755), saying(0o1755)] {
            share.write_security(open, DACL, &given).expect("its owner");
            let (uid, gid, mode) = found(&mut share, "team");
            assert_eq!((uid, gid, mode & 0o6000), (user.uid, TEAM, 0o2000), "{user:?}");
        }
    }
}

#[test]
fn a_setgid_directory_stays_so_after_a_granted_change_of_its_acl() {
    let Some(mut share) = share_of(A, with_nt_acls) else { return };
    share.user = share.store.register_user(members());
    team_directory(&mut share, A);
    let open = share.open_for("team", CONTROL);
    // One that needs a POSIX ACL, and one that a mode says.
    let named = allow(Sid::unix_user(OWNER), AccessMask::FILE_ALL);
    let everyone = allow(Sid::everyone(), AccessMask::FILE_ALL);
    share.write_security(open, DACL, &list(vec![everyone.clone()])).expect("its owner");
    share.close(open);
    share.user = share.store.register_user(account(B, &[]));
    for aces in [vec![named, everyone.clone()], vec![everyone]] {
        let open = share.open_for("team", CONTROL);
        share.write_security(open, DACL, &list(aces)).expect("granted");
        share.close(open);
        let (uid, gid, mode) = found(&mut share, "team");
        assert_eq!((uid, gid, mode & 0o6000), (A, TEAM, 0o2000));
    }
}

#[test]
fn no_client_makes_a_directory_setgid() {
    let Some(mut share) = share_of(A, |_| {}) else { return };
    let open = share.create_directory("d");
    share.close(open);
    let open = share.open_for("d", CONTROL);
    share.write_security(open, DACL, &saying(0o7755)).expect("its owner");
    assert_eq!(found(&mut share, "d"), (A, A, 0o1755), "sticky is a permission");
}
