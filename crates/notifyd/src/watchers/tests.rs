use dtyp::ServerId;
use messaging::Watch;
use object::{FileIdentity, HostChange, HostChangeKind, ObjectPath};
use wire::change_notify::CompletionFilter;

use super::{Source, WatchParameters, Watched, Watchers};

const ALICE: ServerId = ServerId { pid: 1, unique_id: 11 };
const BOB: ServerId = ServerId { pid: 2, unique_id: 12 };
const CAROL: ServerId = ServerId { pid: 3, unique_id: 13 };
const NAMES: u32 = CompletionFilter::FILE_NAME.union(CompletionFilter::DIR_NAME).bits();

fn path(path: &str) -> ObjectPath {
    ObjectPath::from_stored(path.to_owned(), None)
}

fn watch(open: u64, directory: &str, recursive: bool) -> Watch {
    let identity = FileIdentity { inode: open, ..FileIdentity::default() };
    let path = path(directory);
    let (kernel, may_wait) = (true, false);
    Watch { open, path, identity, recursive, filter: NAMES, kernel, may_wait }
}

fn change(name: &str, kind: HostChangeKind) -> HostChange {
    HostChange { path: path(name), is_directory: false, kind }
}

/// Whether Alice, who watches `directory`, hears of a change that Carol made.
fn hears(directory: &str, recursive: bool, change: &HostChange) -> bool {
    let mut watchers = Watchers::default();
    watchers.watch(ALICE, &watch(1, directory, recursive));
    watchers.concerned(change, Source::Worker(CAROL)).contains(&ALICE)
}

#[test]
fn watchers_of_the_directory_and_of_trees_above_it_are_told() {
    let added = change("srv/a/b/f", HostChangeKind::Added);
    for (directory, flat, tree) in [
        ("srv/a/b", true, true),
        ("srv/a", false, true),
        ("srv", false, true),
        ("", false, true),
        ("srv/a/b/c", false, false),
        ("srv/a/bb", false, false),
    ] {
        assert_eq!(hears(directory, false, &added), flat, "{directory}");
        assert_eq!(hears(directory, true, &added), tree, "{directory}");
    }
}

#[test]
fn a_rename_concerns_both_places() {
    let renamed = change("a/f", HostChangeKind::Renamed { to: path("b/f") });
    assert!(hears("a", false, &renamed));
    assert!(hears("b", false, &renamed));
    assert!(!hears("c", false, &renamed));
}

#[test]
fn the_watcher_of_a_directory_is_told_of_its_removal() {
    let removed = HostChange { is_directory: true, ..change("a/d", HostChangeKind::Removed) };
    assert!(hears("a/d", false, &removed));
}

#[test]
fn changes_that_nobody_wants_are_told_to_nobody() {
    let size = CompletionFilter::SIZE.bits();
    assert!(!hears("a", false, &change("a/f", HostChangeKind::Modified(size))));
    assert!(hears("a", false, &change("a/f", HostChangeKind::Modified(size | NAMES))));
}

#[test]
fn an_uncounted_change_concerns_watches_above_and_below() {
    for (directory, is_concerned) in [("a", true), ("a/b", true), ("a/b/c", true), ("b", false)] {
        assert_eq!(hears(directory, false, &HostChange::uncounted(path("a/b"))), is_concerned);
    }
}

#[test]
fn a_worker_is_told_changes_of_the_kernel_and_not_its_own() {
    let mut watchers = Watchers::default();
    watchers.watch(ALICE, &watch(1, "a", false));
    watchers.watch(BOB, &Watch { kernel: false, ..watch(1, "a", false) });
    let added = change("a/f", HostChangeKind::Added);
    let heard = |source| watchers.concerned(&added, source).into_iter().collect::<Vec<_>>();
    assert_eq!(heard(Source::Worker(ALICE)), [BOB]);
    assert_eq!(heard(Source::Worker(CAROL)), [ALICE, BOB]);
    assert_eq!(heard(Source::Kernel), [ALICE]);
}

#[test]
fn a_watch_ends_with_its_open_or_its_worker() {
    let mut watchers = Watchers::default();
    assert_eq!(watchers.watch(ALICE, &watch(1, "a", false)), Watched::Added);
    assert_eq!(watchers.watch(ALICE, &watch(1, "b", false)), Watched::Replaced);
    assert_eq!(watchers.watch(ALICE, &watch(2, "c", false)), Watched::Added);
    assert_eq!(watchers.watch(BOB, &watch(1, "b", true)), Watched::Added);
    assert_eq!(watchers.unwatch(ALICE, 3), None);
    assert_eq!(watchers.wish("a"), None);
    let wish = |recursive| {
        let identity = watch(1, "b", recursive).identity;
        Some(WatchParameters { identity, recursive, filter: NAMES, may_wait: false })
    };
    assert_eq!(watchers.wish("b"), wish(true));
    assert_eq!(watchers.unwatch(BOB, 1).as_deref(), Some("b"));
    assert!(!watchers.has(BOB));
    assert_eq!(watchers.wish("b"), wish(false));
    let mut left = watchers.forget(ALICE);
    left.sort_unstable();
    assert_eq!(left, ["b", "c"]);
    assert_eq!(watchers.count, 0);
    assert!(watchers.directories.is_empty() && watchers.workers.is_empty());
}

#[test]
fn a_worker_at_its_limit_of_watches_leaves_room_for_later_workers() {
    let mut watchers = Watchers::new(1_600);
    let mut fill = |worker| {
        let mut watch =
            |open: &u64| watchers.watch(worker, &watch(*open, &format!("d{open}"), false));
        (1..2_000).find(|open| watch(open) == Watched::Refused).map(|open| open - 1)
    };
    let watched = [ALICE, BOB, CAROL].map(|worker| fill(worker).expect("not all of it"));
    assert_eq!(watched[0], 1_600 / 16);
    assert!(watched[2] > 80, "{watched:?}");
    assert_eq!(watchers.count as u64, watched.iter().sum::<u64>());
}
