//! Vetoed entries of a directory that a client removes: `delete veto files`.

mod support;

use std::os::unix::fs::symlink;

use dtyp::{AccessMask, NameExpression, NtStatus};
use object::{LocalOpen, ObjectOp, ObjectReply};
use support::Share;

const DELETE: AccessMask = AccessMask::DELETE.union(AccessMask::READ_DATA);

/// A share whose clients do not see `.*`.
fn share() -> Share {
    Share::with(|settings| {
        settings.vetoed = vec![NameExpression::new(".*")];
        settings.remove_vetoed = true;
    })
}

#[track_caller]
fn check_empty(share: &mut Share, open: LocalOpen, want: bool) {
    match share.run(ObjectOp::IsEmpty { open }) {
        Ok(ObjectReply::Empty(empty)) => assert_eq!(empty, want),
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_keeps_no_directory_and_goes_with_it() {
    let mut share = share();
    share.local_directory("d/.trees/seen/.unseen");
    share.local("d/.trees/seen/file", "");
    share.local("d/.file", "");
    share.local("beside", "stays");
    symlink(share.host("beside"), share.host("d/.link")).expect("there is space");
    symlink(share.host(""), share.host("d/.trees/up")).expect("there is space");
    let directory = share.open_for("d", DELETE);
    check_empty(&mut share, directory, true);
    share.unlink(directory).expect("removed");
    assert!(!share.host("d").exists());
    assert_eq!(share.content("beside"), "stays", "links go, and not what they lead to");
}

#[test]
fn it_stays_while_something_that_they_see_keeps_the_directory() {
    let mut share = share();
    share.local_directory("d/seen");
    share.local("d/.file", "unseen");
    let directory = share.open_for("d", DELETE);
    check_empty(&mut share, directory, false);
    assert_eq!(share.unlink(directory), Err(NtStatus::DIRECTORY_NOT_EMPTY));
    assert_eq!(share.content("d/.file"), "unseen");
}

#[test]
fn vetoed_files_keep_their_directory_unless_the_share_permits_deletion() {
    let mut share = Share::with(|settings| settings.vetoed = vec![NameExpression::new(".*")]);
    share.local_directory("d");
    share.local("d/.file", "unseen");
    let directory = share.open_for("d", DELETE);
    check_empty(&mut share, directory, false);
    assert_eq!(share.unlink(directory), Err(NtStatus::DIRECTORY_NOT_EMPTY));
}

#[test]
fn directories_in_each_other_without_end_are_not_followed_to_it() {
    let mut share = share();
    share.local_directory(&format!("d/.deep{}", "/x".repeat(100)));
    let directory = share.open_for("d", DELETE);
    assert_eq!(share.unlink(directory), Err(NtStatus::DIRECTORY_NOT_EMPTY));
    assert!(share.host("d").exists());
}
