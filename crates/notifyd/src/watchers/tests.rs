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
    let (kernel, may_wait, is_guest) = (true, false, false);
    Watch { open, path, identity, recursive, filter: NAMES, kernel, may_wait, is_guest }
}

fn change(name: &str, kind: HostChangeKind) -> HostChange {
    HostChange { path: path(name), is_directory: false, kind }
}

/// Whether Alice, who watches `directory`, hears of a change that Carol made.
fn receives(directory: &str, recursive: bool, change: &HostChange) -> bool {
    let mut watchers = Watchers::default();
    watchers.watch(ALICE, &watch(1, directory, recursive));
    watchers.receivers(change, Source::Worker(CAROL)).workers.contains(&ALICE)
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
        assert_eq!(receives(directory, false, &added), flat, "{directory}");
        assert_eq!(receives(directory, true, &added), tree, "{directory}");
    }
}

#[test]
fn a_rename_concerns_both_places() {
    let renamed = change("a/f", HostChangeKind::Renamed { to: path("b/f") });
    assert!(receives("a", false, &renamed));
    assert!(receives("b", false, &renamed));
    assert!(!receives("c", false, &renamed));
}

#[test]
fn the_watcher_of_a_directory_is_told_of_its_removal() {
    let removed = HostChange { is_directory: true, ..change("a/d", HostChangeKind::Removed) };
    assert!(receives("a/d", false, &removed));
}

#[test]
fn changes_that_nobody_wants_are_reported_to_nobody() {
    let size = CompletionFilter::SIZE.bits();
    assert!(!receives("a", false, &change("a/f", HostChangeKind::Modified(size))));
    assert!(receives("a", false, &change("a/f", HostChangeKind::Modified(size | NAMES))));
}

#[test]
fn a_missed_change_concerns_watches_above_and_below() {
    for (directory, is_concerned) in [
        ("", true),
        ("a", true),
        ("a/b", true),
        ("a/b/c", true),
        ("a/b-c", false),
        ("a/bc", false),
        ("b", false),
    ] {
        let missed = |at| receives(directory, false, &HostChange::missed(path(at)));
        assert_eq!(missed("a/b"), is_concerned, "{directory}");
        assert!(missed(""), "{directory}");
    }
}

#[test]
fn a_worker_is_told_changes_of_the_kernel_and_not_its_own() {
    let mut watchers = Watchers::default();
    watchers.watch(ALICE, &watch(1, "a", false));
    watchers.watch(BOB, &Watch { kernel: false, ..watch(1, "a", false) });
    let added = change("a/f", HostChangeKind::Added);
    let mut receivers = |source| Vec::from_iter(watchers.receivers(&added, source).workers);
    assert_eq!(receivers(Source::Worker(ALICE)), [BOB]);
    assert_eq!(receivers(Source::Worker(CAROL)), [ALICE, BOB]);
    assert_eq!(receivers(Source::Kernel), [ALICE]);
}

#[test]
fn a_watch_ends_with_its_open_or_its_worker() {
    let mut watchers = Watchers::default();
    assert_eq!(watchers.watch(ALICE, &watch(1, "a", false)), Watched::Added);
    assert_eq!(watchers.watch(ALICE, &watch(1, "b", false)), Watched::Replaced);
    assert_eq!(watchers.watch(ALICE, &watch(2, "c", false)), Watched::Added);
    assert_eq!(watchers.watch(BOB, &watch(1, "b", true)), Watched::Added);
    assert_eq!(watchers.unwatch(ALICE, 3), None);
    assert_eq!(watchers.kernel_watch("a"), None);
    let wanted = |recursive| {
        let identity = watch(1, "b", recursive).identity;
        Some(WatchParameters { identity, recursive, filter: NAMES, may_wait: false })
    };
    assert_eq!(watchers.kernel_watch("b"), wanted(true));
    assert_eq!(watchers.unwatch(BOB, 1), Some(("b".into(), 4)));
    assert!(!watchers.has(BOB));
    assert_eq!(watchers.kernel_watch("b"), wanted(false));
    let (count, directories) = watchers.remove_worker(ALICE);
    assert_eq!((count, Vec::from_iter(directories)), (2, vec!["b".into(), "c".into()]));
    assert_eq!(watchers.count, 0);
    assert!(watchers.directories.is_empty() && watchers.workers.is_empty());
    assert!(watchers.paths.is_empty() && watchers.account.is_empty());
}

/// A change looks at no open alone: filters of all opens are joined, also after one was closed.
#[test]
fn a_change_is_wanted_until_the_last_open_that_wants_it_is_closed() {
    let mut watchers = Watchers::default();
    let size = CompletionFilter::SIZE.bits();
    watchers.watch(ALICE, &Watch { kernel: false, ..watch(1, "a", true) });
    watchers.watch(ALICE, &Watch { filter: size, ..watch(2, "a", false) });
    watchers.watch(ALICE, &Watch { filter: size, may_wait: true, ..watch(3, "a", false) });
    let hears = |watchers: &mut Watchers, name: &str, kind, source| {
        watchers.receivers(&change(name, kind), source).workers.contains(&ALICE)
    };
    let (added, modified) = (HostChangeKind::Added, HostChangeKind::Modified(size));
    let carol = Source::Worker(CAROL);
    assert!(hears(&mut watchers, "a/b/f", added.clone(), carol), "of the tree");
    assert!(hears(&mut watchers, "a/f", modified.clone(), Source::Kernel));
    assert!(!hears(&mut watchers, "a/b/f", modified.clone(), carol), "not of the tree");
    assert!(!hears(&mut watchers, "a/f", added.clone(), Source::Kernel), "by clients only");
    let parameters = watchers.kernel_watch("a").expect("two want it");
    assert_eq!((parameters.identity.inode, parameters.may_wait), (3, true), "the latest");
    watchers.unwatch(ALICE, 3);
    let parameters = watchers.kernel_watch("a").expect("one wants it");
    assert_eq!((parameters.identity.inode, parameters.may_wait), (2, false));
    watchers.unwatch(ALICE, 1);
    assert!(!hears(&mut watchers, "a/b/f", added, carol));
    assert!(hears(&mut watchers, "a/f", modified.clone(), carol));
    watchers.unwatch(ALICE, 2);
    assert!(!hears(&mut watchers, "a/f", modified, carol));
    assert!(!watchers.has(ALICE) && watchers.count == 0);
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

/// The attack: many clients of one user watch as many directories with long paths as they may.
#[test]
fn watches_of_long_paths_are_refused_beyond_a_part_of_bounded_memory() {
    let mut watchers = Watchers::default();
    let long = "n".repeat(4_000);
    let mut bytes = 0;
    let mut fill = |worker, is_guest| {
        let watch = |open| Watch { is_guest, ..watch(open, &format!("{open}/{long}"), false) };
        let added = (1..=4_096).take_while(|open| {
            let watched = watchers.watch(worker, &watch(*open));
            watched == Watched::Added
        });
        let added = added.count();
        bytes += added * long.len();
        added
    };
    let counts = [(ALICE, false), (BOB, false), (CAROL, true)].map(|(it, guest)| fill(it, guest));
    assert!(bytes < 40 * 1024 * 1024, "{bytes} bytes");
    assert!(counts[1] > 2_000 && counts[2] * 3 < counts[1], "{counts:?}: a guest has less");
    let refused = watchers.watch(ALICE, &watch(9_999, "srv", false));
    assert_eq!(refused, Watched::Refused, "not of the short path either, once it is full");
    watchers.remove_worker(ALICE);
    assert_eq!(watchers.watch(ALICE, &watch(9_999, "srv", false)), Watched::Added);
}

/// The watches of a client in one directory are told apart by their places, which change.
#[test]
fn watches_of_one_directory_end_in_any_order() {
    let mut watchers = Watchers::default();
    let filters = [1, 2, 4, 8];
    for (open, filter) in (1..).zip(filters) {
        watchers.watch(ALICE, &Watch { filter, kernel: open > 1, ..watch(open, "a", false) });
    }
    let wanted = |watchers: &mut Watchers| {
        let hears = |filter| {
            let modified = change("a/f", HostChangeKind::Modified(filter));
            !watchers.receivers(&modified, Source::Kernel).workers.is_empty()
        };
        filters.map(hears)
    };
    assert_eq!(wanted(&mut watchers), [false, true, true, true]);
    watchers.join_kernel(ALICE, 1);
    assert_eq!(wanted(&mut watchers), [true; 4]);
    watchers.unwatch(ALICE, 1);
    assert_eq!(wanted(&mut watchers), [false, true, true, true]);
    watchers.unwatch(ALICE, 4);
    assert_eq!(wanted(&mut watchers), [false, true, true, false]);
    watchers.unwatch(ALICE, 2);
    assert_eq!(wanted(&mut watchers), [false, false, true, false]);
    assert_eq!(watchers.unwatch(ALICE, 3), Some(("a".into(), 3)));
    assert_eq!((wanted(&mut watchers), watchers.kernel_watch("a")), ([false; 4], None));
    assert!(watchers.directories.is_empty() && watchers.paths.is_empty());
}

/// Each look costs, so that the sender of the change can be charged.
#[test]
fn a_change_costs_by_the_watches_on_its_way_and_by_its_receivers() {
    let visits = |watching: u32| {
        let mut watchers = Watchers::default();
        for pid in 0..watching {
            let worker = ServerId { pid: 100 + pid, unique_id: 0 };
            watchers.watch(worker, &watch(1, "a", false));
        }
        let added = change("a/f", HostChangeKind::Added);
        watchers.receivers(&added, Source::Worker(CAROL)).visits
    };
    assert_eq!(visits(1_000) - visits(0), 1_000 * (1 + super::RECEIVER_VISITS));
}
