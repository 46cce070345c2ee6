//! A store moves to another thread and back, with all that it has open.

mod support;

use object::{LocalOpen, ObjectOp, ObjectReply, UserId};
use store::{MovingStore, Started, Store};
use support::{Share, is_root};

/// Puts an empty store in the place of the share's, which leaves this thread.
fn leave(share: &mut Share) -> MovingStore {
    let empty = share.store.empty_copy();
    std::mem::replace(&mut share.store, empty).leave().expect("the thread has the server's rights")
}

fn write(store: &mut Store, user: UserId, open: LocalOpen, text: &'static str) {
    let data = text.as_bytes().into();
    let op = ObjectOp::Write {
        open,
        offset: 0,
        data,
        piped: None,
        write_through: false,
        verify_locks: false,
    };
    let started = store.start(user, op);
    assert!(matches!(started, Started::Done(Ok(ObjectReply::Written(_)))), "{started:?}");
}

#[test]
fn opens_and_listings_go_on_after_a_move() {
    let mut share = Share::new();
    share.local("a", "");
    share.local("b", "");
    let file = share.create("c");
    let directory = share.open("");
    let first = share.entries(directory, true, 3);
    let moving = leave(&mut share);
    let user = share.user;
    let moving = std::thread::spawn(move || {
        let mut store = moving.arrive();
        write(&mut store, user, file, "from there");
        store.leave().expect("the thread has the server's rights")
    });
    share.store = moving.join().expect("no panic").arrive();
    let rest = share.entries(directory, false, 10);
    let mut names: Vec<_> = first.iter().chain(&rest).map(|it| it.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, [".", "..", "a", "b", "c"]);
    assert_eq!(share.read(file, 0, 100), b"from there");
    write(&mut share.store, user, file, "from here.");
    assert_eq!(share.content("c"), "from here.");
}

#[test]
fn each_thread_has_the_rights_of_its_own_users() {
    if !is_root() {
        return;
    }
    let mut share = Share::new();
    let stranger = share.stranger().expect("we are root");
    // This thread has the stranger's rights when the store leaves.
    share.user = stranger;
    share.create("mine");
    let moving = leave(&mut share);
    assert!(rustix::process::geteuid().is_root());
    let (user, root) = (share.user, share.root);
    let moving = std::thread::spawn(move || {
        let mut store = moving.arrive();
        let mut request = support::request(root, "private");
        request.disposition = object::Disposition::Create;
        let started = store.start(user, ObjectOp::Open(Box::new(request)));
        assert!(matches!(started, Started::Done(Ok(ObjectReply::Opened(_)))), "{started:?}");
        assert_eq!(rustix::process::geteuid().as_raw(), 12_345);
        store.leave().expect("the thread has the server's rights")
    });
    share.store = moving.join().expect("no panic").arrive();
    share.mode("private", 0o600);
    assert_eq!(
        std::os::unix::fs::MetadataExt::uid(
            &std::fs::metadata(share.host("private")).expect("it is there")
        ),
        12_345
    );
    share.open("private");
    assert_eq!(rustix::process::geteuid().as_raw(), 12_345);
}
