//! Memory of the caches of a client with many tree connects.

mod support;

#[path = "../../messaging/tests/contract/memory.rs"]
mod memory;

use object::RootId;
use store::RootSettings;
use support::Share;

/// Bytes that the caches of all roots may have together: 16,384 names at 18, 4,096 objects at 60.
const CACHES_BYTES: isize = 540 << 10;

/// Bytes of a root without its caches.
const ROOT_BYTES: isize = 2 << 10;

/// A directory with this number of names of one file.
fn fill(share: &mut Share, directory: &str, names: usize) {
    share.local_directory(directory);
    for name in 0..names {
        let link = share.host(directory).join(name.to_string());
        std::fs::hard_link(share.host("file"), link).expect("fewer links than there may be");
    }
}

/// Opens a share of a directory.
fn connect(share: &mut Share, directory: &str) -> RootId {
    let settings = RootSettings::new(share.host(directory));
    share.store.open_root(settings, share.user).expect("the directory is there")
}

/// Lists the top directory of a share, and opens some of its files.
fn use_all(share: &mut Share, root: RootId, names: usize) {
    share.root = root;
    assert_eq!(share.names("").len(), names + 2, "with . and ..");
    for name in 0..names / 10 {
        let open = share.open(&name.to_string());
        share.close(open);
    }
}

#[test]
fn tree_connects_to_one_share_have_the_caches_of_one() {
    const NAMES: usize = 4_000;
    const ROOTS: isize = 24;
    let mut share = Share::new();
    share.local("file", "");
    fill(&mut share, "d", NAMES);
    let before = memory::bytes();
    for _ in 0..ROOTS {
        let root = connect(&mut share, "d");
        use_all(&mut share, root, NAMES);
    }
    let bytes = memory::bytes() - before;
    assert!(bytes < CACHES_BYTES + ROOTS * ROOT_BYTES, "{bytes} bytes");
}

#[test]
fn many_shares_have_the_caches_of_one() {
    const NAMES: usize = 1_800;
    const ROOTS: isize = 24;
    let mut share = Share::new();
    share.local("file", "");
    let directories: Vec<String> = (0..ROOTS).map(|number| format!("d{number}")).collect();
    directories.iter().for_each(|directory| fill(&mut share, directory, NAMES));
    let before = memory::bytes();
    for directory in &directories {
        let root = connect(&mut share, directory);
        use_all(&mut share, root, NAMES);
    }
    let bytes = memory::bytes() - before;
    assert!(bytes < CACHES_BYTES + ROOTS * ROOT_BYTES, "{bytes} bytes");
}
