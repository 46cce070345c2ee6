//! Entries of a security descriptor by which Apple's clients read and change the mode.

mod support;

use dtyp::security_descriptor::Control;
use dtyp::{
    AccessMask, Ace, AceFlags, Acl, NtStatus, SecurityDescriptor, SecurityInformation, Sid,
};
use object::{LocalOpen, ObjectOp, ObjectReply};
use store::NtAclSettings;
use support::{Share, is_root};

/// An entry for S-1-5-88-KIND-VALUE, as NFS uses it.
fn entry(kind: u32, value: u32) -> Ace {
    Ace::deny(Sid::new(5, &[88, kind, value]), AccessMask::empty(), AceFlags::empty())
}

fn listed(share: &mut Share, open: LocalOpen, nfs_entries: bool) -> Vec<Ace> {
    let information = SecurityInformation::DACL.bits();
    match share.run(ObjectOp::ReadSecurity { open, information, nfs_entries }) {
        Ok(ObjectReply::Security(bytes)) => {
            let descriptor = SecurityDescriptor::decode(&bytes).expect("ours");
            descriptor.dacl.expect("it was asked for").aces
        }
        other => panic!("{other:?}"),
    }
}

fn set(share: &mut Share, open: LocalOpen, aces: Vec<Ace>) -> Result<(), NtStatus> {
    let descriptor = SecurityDescriptor {
        control: Control::DACL_PRESENT,
        dacl: Some(Acl::new(aces)),
        ..SecurityDescriptor::default()
    };
    let descriptor = descriptor.to_bytes().into();
    let information = SecurityInformation::DACL.bits();
    let op = ObjectOp::WriteSecurity { open, information, descriptor, nfs_entries: true };
    share.run(op).map(drop)
}

/// A share that keeps descriptors, and one that has modes alone.
fn shares() -> [Share; 2] {
    let keeping = Share::with(|root| root.nt_acls = Some(NtAclSettings::new(is_root())));
    [Share::new(), keeping]
}

#[test]
fn a_list_ends_with_mode_owner_and_group_if_they_are_wanted() {
    for mut share in shares() {
        share.local("f", "x");
        share.mode("f", 0o640);
        let open = share.open_for("f", AccessMask::FILE_ALL);
        let metadata = share.metadata(open);
        let plain = listed(&mut share, open, false);
        let want = [entry(3, 0o100_640), entry(1, metadata.uid), entry(2, metadata.gid)];
        assert_eq!(listed(&mut share, open, true), [&plain[..], &want].concat());
    }
}

#[test]
fn a_list_that_is_sent_back_changes_no_mode_and_keeps_no_entry_for_nfs() {
    for mut share in shares() {
        share.local("f", "x");
        share.mode("f", 0o640);
        let open = share.open_for("f", AccessMask::FILE_ALL);
        let shown = listed(&mut share, open, true);
        let more = [entry(1, 27), entry(1, 27), entry(2, 300)];
        set(&mut share, open, [&shown[..], &more].concat()).expect("set");
        assert_eq!(listed(&mut share, open, true), shown);
        assert_eq!(share.mode_of("f"), 0o640);
        set(&mut share, open, more.to_vec()).expect("nothing is left to set");
        assert_eq!(listed(&mut share, open, true), shown);
    }
}

/// No client makes a program setuid or setgid: only the permissions count.
#[test]
fn another_mode_is_set_within_the_permissions() {
    for mut share in shares() {
        share.local("f", "x");
        share.mode("f", 0o640);
        let open = share.open_for("f", AccessMask::FILE_ALL);
        let mut aces = listed(&mut share, open, false);
        aces.push(entry(3, 0o106_755));
        set(&mut share, open, aces).expect("set");
        assert_eq!(share.mode_of("f"), 0o755);
    }
}
