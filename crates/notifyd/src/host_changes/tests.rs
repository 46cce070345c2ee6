use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use object::{FileIdentity, HostChange, HostChangeKind, ObjectPath};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::{Coverage, FILTER_DATA, FILTER_METADATA, Folder, HostWatcher};

const ALL: u32 = 0xfff;

/// The watchers that this machine lets us have.
fn watchers() -> Vec<HostWatcher> {
    let mut watchers = vec![HostWatcher::without_fanotify()];
    let best = HostWatcher::new();
    if best.fanotify.is_some() {
        watchers.push(best);
    }
    watchers
}

fn host(path: &Path) -> String {
    path.to_str().expect("it is plain").trim_start_matches('/').to_owned()
}

fn identity(path: &Path) -> FileIdentity {
    let status = fs::metadata(path).expect("it is there");
    let (major, minor) = (libc::major(status.dev()), libc::minor(status.dev()));
    let device = u64::from(major) << 32 | u64::from(minor);
    FileIdentity { device, inode: status.ino(), ..FileIdentity::default() }
}

fn open(path: &Path) -> Folder {
    Folder::open(&host(path).into(), identity(path)).expect("it is there")
}

/// Returns the reported changes, with paths from `folder`. `Modified` in a row counts once.
fn seen(watcher: &mut HostWatcher, folder: &Path) -> Vec<(String, HostChangeKind)> {
    let folder = ObjectPath::from_stored(host(folder), None);
    let below = |path: &ObjectPath| path.relative_to(&folder).map(str::to_owned);
    let mut all: Vec<(String, HostChangeKind)> = Vec::new();
    loop {
        let events = watcher.take(|_| false);
        if events.is_empty() {
            return all;
        }
        for event in events {
            let HostChange { path, kind, .. } = event.change;
            // A mark of the file system also shows what other tests do.
            let Some(path) = below(&path) else { continue };
            let kind = match kind {
                HostChangeKind::Renamed { to } => HostChangeKind::Renamed {
                    to: ObjectPath::from_stored(below(&to).expect("it stays"), None),
                },
                kind => kind,
            };
            let seen = (path, kind);
            if all.last() != Some(&seen) {
                all.push(seen);
            }
        }
    }
}

fn names(seen: Vec<(String, HostChangeKind)>) -> Vec<(String, HostChangeKind)> {
    seen.into_iter().filter(|(_, kind)| !matches!(kind, HostChangeKind::Modified(_))).collect()
}

fn renamed(to: &str) -> HostChangeKind {
    HostChangeKind::Renamed { to: ObjectPath::from_stored(to.to_owned(), None) }
}

#[test]
fn names_come_change_and_go() {
    for mut watcher in watchers() {
        let folder = tempfile::tempdir().expect("there is space");
        let path = |name| folder.path().join(name);
        let watched = watcher.watch(open(folder.path()), false, ALL).expect("it is there");
        assert_eq!(watched, Coverage::Whole);
        fs::write(path("a"), "data").expect("there is space");
        fs::rename(path("a"), path("b")).expect("it is ours");
        fs::create_dir(path("d")).expect("it is new");
        fs::write(path("d/deep"), "").expect("there is space");
        fs::remove_file(path("b")).expect("it is ours");
        let want = [
            ("a", HostChangeKind::Added),
            ("a", renamed("b")),
            ("d", HostChangeKind::Added),
            ("b", HostChangeKind::Removed),
        ]
        .map(|(name, kind)| (name.to_owned(), kind));
        assert_eq!(names(seen(&mut watcher, folder.path())), want, "{watcher:?}");
    }
}

#[test]
fn an_object_is_reported_with_its_own_name_alone() {
    for mut watcher in watchers() {
        let folder = tempfile::tempdir().expect("there is space");
        let path = |name| folder.path().join(name);
        let _ = watcher.watch(open(folder.path()), true, ALL).expect("it is there");
        let temporary = path(".::TMPNAME:D:1:2");
        fs::create_dir(&temporary).expect("it is new");
        fs::set_permissions(&temporary, fs::Permissions::from_mode(0o700)).expect("it is ours");
        fs::rename(&temporary, path("d")).expect("it is ours");
        fs::create_dir(&temporary).expect("it is new");
        fs::remove_dir(&temporary).expect("it is ours");
        let flags = OFlags::TMPFILE | OFlags::RDWR;
        let file = rustix::fs::open(folder.path(), flags, Mode::RUSR).expect("there is space");
        rustix::fs::fchmod(&file, Mode::RWXU).expect("it is ours");
        let number = format!("#{}", rustix::fs::fstat(&file).expect("open").st_ino);
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        let follow = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(CWD, link, CWD, path("named"), follow).expect("it has no name");
        let seen = seen(&mut watcher, folder.path());
        assert!(seen.iter().all(|(name, _)| *name != number), "{seen:?}");
        let want = |name: &str| (name.to_owned(), HostChangeKind::Added);
        assert_eq!(names(seen), [want("d"), want("named")], "{watcher:?}");
        fs::write(path("d/f"), "").expect("there is space");
        assert_eq!(names(self::seen(&mut watcher, folder.path())), [want("d/f")]);
    }
}

#[test]
fn a_file_that_has_a_number_for_its_name_is_reported() {
    for mut watcher in watchers() {
        let folder = tempfile::tempdir().expect("there is space");
        fs::write(folder.path().join("#12"), "").expect("there is space");
        let _ = watcher.watch(open(folder.path()), false, ALL).expect("it is there");
        fs::write(folder.path().join("#12"), "data").expect("there is space");
        assert!(seen(&mut watcher, folder.path()).iter().any(|(name, _)| name == "#12"));
    }
}

#[test]
fn data_and_metadata_match_filters_of_their_own() {
    for mut watcher in watchers() {
        let folder = tempfile::tempdir().expect("there is space");
        let file = folder.path().join("f");
        fs::write(&file, "").expect("there is space");
        let _ = watcher.watch(open(folder.path()), false, ALL).expect("it is there");
        fs::write(&file, "data").expect("there is space");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
        let all = seen(&mut watcher, folder.path());
        let mut filters = 0;
        for (name, kind) in all {
            let HostChangeKind::Modified(filter) = kind else { panic!("{kind:?}") };
            assert_eq!(name, "f");
            filters |= filter;
        }
        assert_eq!(filters, FILTER_DATA | FILTER_METADATA);
    }
}

#[test]
fn a_watched_tree_includes_directories_made_later() {
    for mut watcher in watchers() {
        let folder = tempfile::tempdir().expect("there is space");
        let path = |name| folder.path().join(name);
        fs::create_dir_all(path("a/b")).expect("it is new");
        let _ = watcher.watch(open(folder.path()), true, ALL).expect("it is there");
        fs::write(path("a/b/f"), "").expect("there is space");
        fs::create_dir(path("a/c")).expect("it is new");
        let want = |name: &str| (name.to_owned(), HostChangeKind::Added);
        assert_eq!(names(seen(&mut watcher, folder.path())), [want("a/b/f"), want("a/c")]);
        fs::write(path("a/c/g"), "").expect("there is space");
        assert_eq!(names(seen(&mut watcher, folder.path())), [want("a/c/g")]);
        fs::rename(path("a"), path("x")).expect("it is ours");
        fs::write(path("x/b/h"), "").expect("there is space");
        let moved = ("a".to_owned(), renamed("x"));
        assert_eq!(names(seen(&mut watcher, folder.path())), [moved, want("x/b/h")]);
    }
}

#[test]
fn an_unwatched_directory_sends_no_events() {
    for mut watcher in watchers() {
        for recursive in [false, true] {
            let folder = tempfile::tempdir().expect("there is space");
            let name = host(folder.path());
            let _ = watcher.watch(open(folder.path()), recursive, ALL).expect("it is there");
            watcher.unwatch(&name);
            fs::write(folder.path().join("f"), "").expect("there is space");
            assert_eq!(seen(&mut watcher, folder.path()), []);
            assert!(!watcher.lacks_pids());
        }
    }
}

#[test]
fn of_two_trees_in_one_file_system_one_stays() {
    for mut watcher in watchers() {
        let folder = tempfile::tempdir().expect("there is space");
        let path = |name| folder.path().join(name);
        for name in ["a", "b"] {
            fs::create_dir(path(name)).expect("it is new");
            let _ = watcher.watch(open(&path(name)), true, ALL).expect("it is there");
        }
        watcher.unwatch(&host(&path("a")));
        fs::create_dir(path("b/d")).expect("it is new");
        fs::write(path("b/d/f"), "").expect("there is space");
        let seen = seen(&mut watcher, &path("b"));
        assert!(seen.iter().any(|(name, _)| name == "d"), "{seen:?}");
    }
}

#[test]
fn only_fanotify_names_the_process() {
    for mut watcher in watchers() {
        let folder = tempfile::tempdir().expect("there is space");
        let _ = watcher.watch(open(folder.path()), false, ALL).expect("it is there");
        assert_eq!(watcher.lacks_pids(), watcher.fanotify.is_none());
        fs::write(folder.path().join("f"), "").expect("there is space");
        let pid = watcher.fanotify.is_some().then(std::process::id);
        assert_eq!(watcher.take(|_| false)[0].pid, pid);
        fs::write(folder.path().join("g"), "").expect("there is space");
        assert_eq!(watcher.take(|_| true).is_empty(), watcher.fanotify.is_some());
    }
}

#[test]
fn a_path_that_leads_to_another_folder_is_not_followed() {
    let site = tempfile::tempdir().expect("there is space");
    let path = |name: &str| site.path().join(name);
    fs::create_dir_all(path("a/b")).expect("it is new");
    fs::create_dir_all(path("private/b")).expect("it is new");
    let found = Folder::open(&host(&path("a/b")).into(), identity(&path("a/b")));
    assert!(found.is_ok(), "{found:?}");
    let opened = identity(&path("a/b"));
    fs::rename(path("a"), path("moved")).expect("it is ours");
    let gone = || Folder::open(&host(&path("a/b")).into(), opened).map(|it| it.path().to_string());
    assert_eq!(gone(), Err(Errno::NOENT), "nothing is there");
    symlink(path("private"), path("a")).expect("it is new");
    assert_eq!(gone(), Err(Errno::NOENT), "another folder is there");
    fs::remove_file(path("a")).expect("it is ours");
    fs::write(path("a"), "").expect("there is space");
    assert_eq!(gone(), Err(Errno::NOENT), "a file is on the way");
    fs::remove_file(path("a")).expect("it is ours");
    // A link of the administrator leads to the folder itself.
    symlink(path("moved"), path("a")).expect("it is new");
    assert_eq!(gone(), Ok(host(&path("a/b"))));
}

/// A client moves a directory above its own away, and puts a link to somebody else's there.
#[test]
fn a_tree_is_watched_and_not_the_target_of_a_link_in_its_place() {
    for mut watcher in watchers() {
        let site = tempfile::tempdir().expect("there is space");
        let path = |name: &str| site.path().join(name);
        fs::create_dir_all(path("a/tree")).expect("it is new");
        fs::create_dir_all(path("private/tree/new/below")).expect("it is new");
        let _ = watcher.watch(open(&path("a/tree")), true, ALL).expect("it is there");
        fs::rename(path("a"), path("moved")).expect("it is ours");
        symlink(path("private"), path("a")).expect("it is new");
        fs::create_dir(path("moved/tree/new")).expect("it is new");
        let events = seen(&mut watcher, site.path());
        assert!(!events.is_empty(), "the tree is watched where it is");
        fs::write(path("private/tree/new/secret"), "").expect("there is space");
        fs::write(path("private/tree/new/below/secret"), "").expect("there is space");
        // fanotify tells of the file system; what lies where is for whoever asked to compare.
        let events = seen(&mut watcher, site.path());
        let is_secret = |(name, _): &&(String, HostChangeKind)| {
            name.starts_with("a/") && name.ends_with("secret")
        };
        assert_eq!(events.iter().find(is_secret), None, "{watcher:?}");
    }
}

/// With inotify for what fanotify has no room for, `notifyd` would look at each change of each
/// client.
#[test]
fn a_folder_without_a_descriptor_is_refused_and_not_watched_by_inotify() {
    let mut watcher = HostWatcher::new();
    let Some(fanotify) = &mut watcher.fanotify else { return };
    fanotify.set_folders_max(1);
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("there is space"));
    let first = host(folders[0].path());
    let _ = watcher.watch(open(folders[0].path()), false, ALL).expect("it is there");
    let refused =
        watcher.watch(open(folders[1].path()), false, ALL).expect_err("it is one too many");
    assert_eq!(refused.raw_os_error(), Some(libc::EMFILE));
    assert!(!watcher.lacks_pids());
    // The one that is there can be watched otherwise, and its place is given back.
    let _ = watcher.watch(open(folders[0].path()), true, ALL).expect("it is there");
    watcher.unwatch(&first);
    let _ = watcher.watch(open(folders[1].path()), false, ALL).expect("there is a place");
}

#[test]
fn nothing_lacks_pids_once_inotify_watches_no_folder_any_more() {
    let mut watcher = HostWatcher::without_fanotify();
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("there is space"));
    for recursive in [false, true] {
        for folder in &folders {
            let _ = watcher.watch(open(folder.path()), recursive, ALL).expect("it is there");
        }
    }
    for folder in &folders {
        assert!(watcher.lacks_pids());
        watcher.unwatch(&host(folder.path()));
        watcher.unwatch(&host(folder.path()));
    }
    assert!(!watcher.lacks_pids());
}

#[test]
fn a_tree_that_is_given_up_leaves_the_trees_beside_and_within_it() {
    let mut watcher = HostWatcher::without_fanotify();
    let folder = tempfile::tempdir().expect("there is space");
    let path = |name| folder.path().join(name);
    for name in ["a/b/c", "a!/b", "a0/b"] {
        fs::create_dir_all(path(name)).expect("it is new");
    }
    for (name, recursive) in
        [("a", true), ("a/b", false), ("a/b/c", true), ("a!", true), ("a0", true)]
    {
        let _ = watcher.watch(open(&path(name)), recursive, ALL).expect("it is there");
    }
    watcher.unwatch(&host(&path("a")));
    for name in ["a/f", "a/b/f", "a/b/c/f", "a!/b/f", "a0/b/f"] {
        fs::write(path(name), "").expect("there is space");
    }
    let seen: Vec<String> =
        names(seen(&mut watcher, folder.path())).into_iter().map(|(name, _)| name).collect();
    assert_eq!(seen, ["a/b/f", "a/b/c/f", "a!/b/f", "a0/b/f"]);
}
