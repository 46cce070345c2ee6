//! CHANGE_NOTIFY, tested through requests and responses.

use std::sync::Arc;
use std::time::Duration;

use arbitration::HostPath;
use dtyp::name_expression::NameExpression;
use dtyp::{AccessMask, NtStatus};
use engine::change::{Change, ChangeKind};
use engine::effect::Effect;
use engine::inspection::Inspection;
use engine::notice::{Notice, WatchedDirectory};
use model::now::Now;
use model::watch::DEPTH_MAX;
use object::{HostChange, HostChangeKind, ObjectOp, ObjectPath, ObjectReply, RootId};
use trace::Reason;
use wire::change_notify::{
    ChangeNotifyFlags, ChangeNotifyRequest, ChangeNotifyResponse, CompletionFilter, NotifyAction,
    NotifyInformation,
};
use wire::logoff::LogoffRequest;
use wire::tree_disconnect::TreeDisconnectRequest;
use wire::write::WriteRequest;
use wire::{Command, FileId};

use crate::scene::{Answer, FOLDER, RECEIVE_BYTES, Scene, TRANSACT_MAX};

const NAMES: CompletionFilter = CompletionFilter::FILE_NAME.union(CompletionFilter::DIR_NAME);
const TREE: ChangeNotifyFlags = ChangeNotifyFlags::WATCH_TREE;
const FLAT: ChangeNotifyFlags = ChangeNotifyFlags::empty();

type NamedChanges = Vec<(NotifyAction, String)>;

fn request(file_id: FileId) -> ChangeNotifyRequest {
    ChangeNotifyRequest {
        flags: FLAT,
        output_buffer_length: 1_000,
        file_id,
        completion_filter: NAMES,
    }
}

/// Requests changes, none of which has happened yet.
#[track_caller]
fn watch(scene: &mut Scene, request: ChangeNotifyRequest) -> Answer {
    let interim = scene.ask(Command::CHANGE_NOTIFY, &request);
    assert_eq!(interim.outcome(), NtStatus::PENDING);
    interim
}

fn path(name: &str) -> ObjectPath {
    ObjectPath::parse(name).expect("tests name real paths")
}

fn file_change(name: &str, kind: ChangeKind) -> Change {
    Change { root: RootId(1), path: path(name), is_directory: false, kind }
}

fn renamed(from: &str, to: &str) -> Change {
    file_change(from, ChangeKind::Renamed { to: path(to) })
}

fn folder() -> ObjectPath {
    ObjectPath::from_stored(FOLDER.to_owned(), None)
}

/// Makes changes by this client. Its user may enter every directory.
fn happen(scene: &mut Scene, changes: impl IntoIterator<Item = Change>) {
    happen_unchecked(scene, changes);
    answer_traversals(scene, 0, |_| Some(true));
}

fn happen_unchecked(scene: &mut Scene, changes: impl IntoIterator<Item = Change>) {
    for change in changes {
        scene.server.inspect().globals.report(|| change);
    }
    scene.server.handle_timeout(Now::default());
}

/// Answers the store's questions whether the user may enter directories. Returns the directories.
fn answer_traversals(
    scene: &mut Scene,
    second: u64,
    may: impl Fn(&str) -> Option<bool>,
) -> Vec<String> {
    let now = Now { monotonic: Duration::from_secs(second), ..Now::default() };
    let mut asked = Vec::new();
    while let Some((_, effect)) = scene.server.poll_effect() {
        let Effect::Traverse(traversal) = effect else { panic!("{effect:?}") };
        let directory = traversal.directory.as_str().to_owned();
        scene.server.handle_traversed(now, &traversal, may(&directory));
        asked.push(directory);
    }
    asked
}

/// Makes changes by another worker's client.
fn happen_elsewhere(scene: &mut Scene, changes: impl IntoIterator<Item = Change>) {
    let folder = folder();
    let changes: Vec<_> = changes.into_iter().map(|it| it.to_host_change(&folder)).collect();
    scene.server.handle_changes(Now::default(), Duration::MAX, &changes);
    answer_traversals(scene, 0, |_| Some(true));
}

/// Takes the notices about watches and changes.
fn notices(scene: &mut Scene) -> Vec<Notice> {
    std::iter::from_fn(|| scene.server.poll_notice()).collect()
}

fn added(name: &str) -> Change {
    file_change(name, ChangeKind::Added)
}

fn changes_in(answer: &Answer) -> NamedChanges {
    let response: ChangeNotifyResponse<'_> = answer.body();
    NotifyInformation::iter(response.output_buffer)
        .map(|change| {
            let change = change.expect("the server sends whole entries");
            (change.action, dtyp::utf16::decode(change.file_name).expect("it is UTF-16"))
        })
        .collect()
}

fn expect(changes: &[(NotifyAction, &str)]) -> NamedChanges {
    changes.iter().map(|(action, name)| (*action, (*name).to_owned())).collect()
}

/// Returns the report to one watch of `directory` for some changes; none if the request keeps
/// waiting.
fn changes_after(
    directory: &str,
    (flags, completion_filter): (ChangeNotifyFlags, CompletionFilter),
    changes: Vec<Change>,
) -> Option<NamedChanges> {
    let mut scene = Scene::new();
    let file_id = scene.open_directory(directory);
    let interim =
        watch(&mut scene, ChangeNotifyRequest { flags, completion_filter, ..request(file_id) });
    happen(&mut scene, changes);
    let answer = scene.receive()?;
    assert_eq!(answer.header.async_id, interim.header.async_id);
    assert_eq!(answer.outcome(), NtStatus::SUCCESS);
    Some(changes_in(&answer))
}

#[track_caller]
fn check(
    directory: &str,
    how: (ChangeNotifyFlags, CompletionFilter),
    changes: Vec<Change>,
    want: &[(NotifyAction, &str)],
) {
    let want = (!want.is_empty()).then(|| expect(want));
    assert_eq!(changes_after(directory, how, changes), want);
}

#[test]
fn a_request_that_waits_lets_go_of_the_buffer_that_it_came_in() {
    let mut scene = Scene::new();
    let directory = scene.open_directory("dir");
    watch(&mut scene, request(directory));
    let message = scene.server.inspect().in_flight.take_message().expect("it waits");
    let kept = message.try_into_mut().expect("nobody else has it").capacity();
    assert!(kept < RECEIVE_BYTES / 2, "{kept} bytes");
}

#[test]
fn names_are_relative_to_the_directory() {
    let want = [(NotifyAction::ADDED, "new")];
    check("a\\b", (FLAT, NAMES), vec![added("a\\b\\new")], &want);
    check("", (FLAT, NAMES), vec![added("new")], &want);
}

#[test]
fn deeper_changes_are_reported_to_watchers_of_the_tree() {
    let deep = || vec![added("a\\b\\c\\new")];
    check("a", (TREE, NAMES), deep(), &[(NotifyAction::ADDED, "b\\c\\new")]);
    check("", (TREE, NAMES), deep(), &[(NotifyAction::ADDED, "a\\b\\c\\new")]);
    check("a", (FLAT, NAMES), deep(), &[]);
}

#[test]
fn neither_the_directory_itself_nor_one_of_a_longer_name_is_inside() {
    let attributes = ChangeKind::Modified(CompletionFilter::ATTRIBUTES);
    let itself = file_change("a", attributes);
    check("a", (TREE, CompletionFilter::ATTRIBUTES), vec![itself], &[]);
    check("a", (TREE, NAMES), vec![added("ab\\new"), added("b")], &[]);
}

#[test]
fn another_share_is_another_tree() {
    let elsewhere = Change { root: RootId(2), ..added("a\\new") };
    check("a", (TREE, NAMES), vec![elsewhere], &[]);
}

/// Watches the tree of `directory` for names.
fn watch_tree(directory: &str) -> (Scene, FileId) {
    let mut scene = Scene::new();
    let file_id = scene.open_directory(directory);
    watch(&mut scene, ChangeNotifyRequest { flags: TREE, ..request(file_id) });
    (scene, file_id)
}

/// Returns the changes in the response to a pending request; none without a response.
fn changes_now(scene: &mut Scene) -> Option<NamedChanges> {
    scene.receive().map(|answer| changes_in(&answer))
}

#[test]
fn changes_in_a_directory_the_user_may_not_enter_are_not_reported() {
    let (mut scene, _) = watch_tree("a");
    let gone = file_change("a\\private\\b\\gone", ChangeKind::Removed);
    let moved = renamed("a\\private\\c", "a\\private\\d");
    happen_unchecked(&mut scene, [added("a\\private\\new"), gone, moved]);
    assert!(changes_now(&mut scene).is_none(), "nothing is told before it is permitted");
    let asked = answer_traversals(&mut scene, 0, |_| Some(false));
    assert_eq!(asked, ["a/private"], "and nothing below it");
    assert!(changes_now(&mut scene).is_none());
    // A move between an open directory and a closed one adds or removes a name.
    happen_unchecked(&mut scene, [renamed("a\\private\\e", "a\\open\\e")]);
    answer_traversals(&mut scene, 0, |directory| Some(directory == "a/open"));
    assert_eq!(changes_now(&mut scene), Some(expect(&[(NotifyAction::ADDED, "open\\e")])));
}

#[test]
fn names_below_a_directory_that_cannot_be_listed_are_not_reported() {
    let (mut scene, _) = watch_tree("a");
    happen_unchecked(&mut scene, [added("a\\b\\c\\1"), added("a\\b\\d\\2")]);
    let asked = answer_traversals(&mut scene, 0, |directory| Some(directory != "a/b"));
    assert_eq!(asked, ["a/b"]);
    assert!(changes_now(&mut scene).is_none(), "they have the name of a directory in it");
}

#[test]
fn a_directory_above_several_ones_is_asked_for_once() {
    let (mut scene, _) = watch_tree("a");
    happen_unchecked(&mut scene, [added("a\\b\\c\\1"), added("a\\b\\d\\2")]);
    let asked = answer_traversals(&mut scene, 0, |_| Some(true));
    assert_eq!(asked, ["a/b", "a/b/c", "a/b/d"]);
}

#[test]
fn of_a_name_in_very_deep_directories_only_the_change_is_told() {
    let deep = |directories: usize| format!("a{}\\name", "\\d".repeat(directories));
    for (directories, asked, status) in
        [(DEPTH_MAX, DEPTH_MAX, NtStatus::SUCCESS), (DEPTH_MAX + 1, 0, NtStatus::NOTIFY_ENUM_DIR)]
    {
        let (mut scene, _) = watch_tree("a");
        happen_unchecked(&mut scene, [added(&deep(directories))]);
        assert_eq!(answer_traversals(&mut scene, 0, |_| Some(true)).len(), asked);
        let answer = scene.receive().expect("there was a change");
        assert_eq!(answer.outcome(), status, "{directories}");
    }
}

#[test]
fn changes_are_reported_in_their_order_once_all_before_them_are_permitted() {
    let (mut scene, file_id) = watch_tree("a");
    happen_unchecked(&mut scene, [added("a\\b\\1"), added("a\\2"), added("a\\c\\3")]);
    assert!(changes_now(&mut scene).is_none());
    answer_traversals(&mut scene, 0, |directory| Some(directory == "a/c"));
    assert_eq!(changes_now(&mut scene), Some(expect(&[(NotifyAction::ADDED, "2")])));
    let answer = scene.ask(Command::CHANGE_NOTIFY, &request(file_id));
    assert_eq!(changes_in(&answer), expect(&[(NotifyAction::ADDED, "c\\3")]));
}

#[test]
fn whether_a_directory_may_be_entered_is_asked_again_after_a_second_or_a_change_of_one() {
    let (mut scene, _) = watch_tree("a");
    let ask = |scene: &mut Scene, second: u64, change: Change| {
        let now = Now { monotonic: Duration::from_secs(second), ..Now::default() };
        let change = change.to_host_change(&folder());
        scene.server.handle_changes(now, Duration::MAX, &[change]);
        answer_traversals(scene, second, |_| Some(false))
    };
    assert_eq!(ask(&mut scene, 10, added("a\\b\\1")), ["a/b"]);
    assert!(ask(&mut scene, 10, added("a\\b\\2")).is_empty());
    assert_eq!(ask(&mut scene, 11, added("a\\b\\3")), ["a/b"]);
    let attributes = ChangeKind::Modified(CompletionFilter::SECURITY);
    let secured = Change { is_directory: true, ..file_change("a\\b", attributes) };
    assert!(ask(&mut scene, 11, secured).is_empty());
    assert_eq!(ask(&mut scene, 11, added("a\\b\\4")), ["a/b"]);
    assert!(changes_now(&mut scene).is_none());
}

#[test]
fn a_directory_that_is_gone_counts_as_it_was_last() {
    let (mut scene, file_id) = watch_tree("a");
    let gone = |name: &str| file_change(name, ChangeKind::Removed);
    happen_unchecked(&mut scene, [gone("a\\unknown\\1")]);
    answer_traversals(&mut scene, 0, |_| None);
    assert!(changes_now(&mut scene).is_none(), "nobody can tell who might enter it");
    happen_unchecked(&mut scene, [added("a\\known\\2")]);
    answer_traversals(&mut scene, 0, |_| Some(true));
    assert_eq!(changes_now(&mut scene), Some(expect(&[(NotifyAction::ADDED, "known\\2")])));
    let directory = Change { is_directory: true, ..gone("a\\x") };
    happen_unchecked(&mut scene, [directory, gone("a\\known\\2")]);
    answer_traversals(&mut scene, 0, |_| None);
    let answer = scene.ask(Command::CHANGE_NOTIFY, &request(file_id));
    let want = [(NotifyAction::REMOVED, "x"), (NotifyAction::REMOVED, "known\\2")];
    assert_eq!(changes_in(&answer), expect(&want));
}

#[test]
fn beyond_a_limit_of_unchecked_changes_the_client_lists_again() {
    let (mut scene, _) = watch_tree("a");
    let changes = (0..4_000).map(|number| added(&format!("a\\{number}\\new")));
    let changes: Vec<_> = changes.map(|it| it.to_host_change(&folder())).collect();
    scene.server.handle_changes(Now::default(), Duration::MAX, &changes);
    let answer = scene.receive().expect("it is told that it has to look");
    assert_eq!(answer.outcome(), NtStatus::NOTIFY_ENUM_DIR);
}

#[test]
fn changes_of_vetoed_names_are_reported_to_nobody() {
    for flags in [FLAT, TREE] {
        let mut scene = Scene::new();
        let file_id = scene.open_directory("a");
        scene.change_share(|share| share.veto_files = vec![NameExpression::new("secret*")]);
        watch(&mut scene, ChangeNotifyRequest { flags, ..request(file_id) });
        let gone = file_change("a\\secret", ChangeKind::Removed);
        let below = [added("a\\secrets\\b\\new"), added("a\\b\\secret1")];
        let between = renamed("a\\secret1", "a\\secret2");
        happen(&mut scene, [added("a\\secret"), gone, between]);
        happen_elsewhere(&mut scene, below);
        assert!(changes_now(&mut scene).is_none());
        // A rename from or to a vetoed name adds or removes the other one.
        happen(&mut scene, [renamed("a\\secret3", "a\\open")]);
        assert_eq!(changes_now(&mut scene), Some(expect(&[(NotifyAction::ADDED, "open")])));
        happen(&mut scene, [renamed("a\\open", "a\\secret3")]);
        let answer = scene.ask(Command::CHANGE_NOTIFY, &request(file_id));
        assert_eq!(changes_in(&answer), expect(&[(NotifyAction::REMOVED, "open")]));
    }
}

/// A second tree connect, or a share of a folder above or below, has a root of its own.
#[test]
fn a_directory_is_the_same_through_each_share() {
    let mut scene = Scene::new();
    let file_id = scene.open_directory("a");
    watch(&mut scene, request(file_id));
    for (root, place, name) in [(2, "", "a\\1"), (3, "a", "2"), (4, "a\\b", "3")] {
        let place = path(place).below(&folder());
        scene.server.inspect().globals.folders.insert(RootId(root), place);
        happen(&mut scene, [Change { root: RootId(root), ..added(name) }]);
    }
    assert_eq!(
        changes_in(&scene.receive().expect("an answer")),
        expect(&[(NotifyAction::ADDED, "1")])
    );
    let answer = scene.ask(Command::CHANGE_NOTIFY, &request(file_id));
    assert_eq!(changes_in(&answer), expect(&[(NotifyAction::ADDED, "2")]));
}

#[test]
fn changes_by_others_are_reported_like_those_of_the_client_itself() {
    let mut scene = Scene::new();
    let file_id = scene.open_directory("a");
    let watch_tree = ChangeNotifyRequest { flags: TREE, ..request(file_id) };
    watch(&mut scene, watch_tree);
    happen_elsewhere(&mut scene, [renamed("a\\x", "a\\y"), added("b"), renamed("a\\z", "z")]);
    let want = [(NotifyAction::RENAMED_OLD_NAME, "x"), (NotifyAction::RENAMED_NEW_NAME, "y")];
    assert_eq!(changes_in(&scene.receive().expect("an answer")), expect(&want));
    let answer = scene.ask(Command::CHANGE_NOTIFY, &request(file_id));
    assert_eq!(changes_in(&answer), expect(&[(NotifyAction::REMOVED, "z")]));
}

/// A directory may be deleted by another worker after CHANGE_NOTIFY has opened it, and before that
/// worker knows of the watch.
#[test]
fn a_directory_is_looked_at_again_once_others_know_of_the_watch() {
    let mut scene = Scene::new();
    let file_id = scene.open_directory("d");
    watch(&mut scene, request(file_id));
    scene.server.handle_watched(Now::default(), Duration::ZERO, file_id.volatile);
    assert!(scene.receive().is_none(), "nothing has happened");
    let identity = crate::scene::identity_of("d");
    let files = &mut scene.server.inspect().globals.files;
    files.set_delete_pending(identity, 0, true, None).expect("it is open");
    scene.server.handle_watched(Now::default(), Duration::ZERO, file_id.volatile);
    assert_eq!(scene.receive().map(|it| it.status()), Some(NtStatus::DELETE_PENDING));
}

/// Changes by another worker's client pass through two more processes. They may arrive after this
/// client has begun another watch of the same directory.
#[test]
fn a_watch_is_not_told_of_changes_before_it_began() {
    let mut scene = Scene::new();
    let file_id = scene.open_directory("d");
    watch(&mut scene, request(file_id));
    let begun = Duration::from_secs(7);
    scene.server.handle_watched(Now::default(), begun, file_id.volatile);
    let changed =
        |name, kind| HostChange { path: path(name).below(&folder()), is_directory: true, kind };
    let before = begun - Duration::from_nanos(1);
    let old = ["d\\old", "d"].map(|name| changed(name, HostChangeKind::Removed));
    scene.server.handle_changes(Now::default(), before, &old);
    assert!(scene.receive().is_none(), "of an earlier directory of that name");
    let new = [changed("d\\new", HostChangeKind::Removed)];
    scene.server.handle_changes(Now::default(), begun, &new);
    let changes = changes_in(&scene.receive().expect("an answer"));
    assert_eq!(changes, expect(&[(NotifyAction::REMOVED, "new")]));
}

#[test]
fn others_hear_of_a_watch_when_it_begins_moves_and_ends() {
    let mut scene = Scene::new();
    let file_id = scene.open_directory("a\\b");
    watch(&mut scene, ChangeNotifyRequest { flags: TREE, ..request(file_id) });
    let identity = scene.file(file_id).identity;
    let called = |name| WatchedDirectory {
        volatile: file_id.volatile,
        path: path(name).below(&folder()),
        identity,
        recursive: true,
        filter: NAMES.bits(),
        kernel: true,
        may_wait: false,
    };
    let [Notice::Watched(reported)] = &notices(&mut scene)[..] else { panic!("one watch began") };
    assert_eq!(**reported, called("a\\b"));
    scene.file(file_id).path = path("c\\b");
    happen(&mut scene, [Change { is_directory: true, ..renamed("a", "c") }]);
    let [Notice::Watched(reported)] = &notices(&mut scene)[..] else { panic!("one watch moved") };
    assert_eq!(**reported, called("c\\b"));
    scene.file(file_id).path = path("d\\b");
    scene.server.handle_changes(Now::default(), Duration::MAX, &[HostChange::missed(folder())]);
    let [Notice::Watched(reported)] = &notices(&mut scene)[..] else { panic!("one watch moved") };
    assert_eq!(**reported, called("d\\b"));
    scene.receive().expect("it has to look");
    scene.close(file_id);
    let reported = notices(&mut scene);
    assert!(
        matches!(reported[..], [Notice::Unwatched { volatile }] if volatile == file_id.volatile)
    );
}

/// Renames an open directory as another worker's client does: in the file's record.
fn rename_elsewhere(scene: &mut Scene, opened: &str, (old, new): (&str, &str)) {
    let file = model::file_key::key(crate::scene::identity_of(opened));
    let files = &mut scene.server.inspect().globals.files;
    files
        .change(file, |record, notify| {
            let at = |path| HostPath { folder: FOLDER, path, on_disk: None };
            record.renamed(at(old), at(new), notify);
            ((), true)
        })
        .expect("memory has room");
    scene.server.handle_file_changed(Now::default(), file);
    let (_, op) = scene.op();
    assert!(matches!(op, ObjectOp::Relocate { .. }), "{op:?}");
}

/// The change that tells of the rename may be missed among many. The record of the directory tells
/// of it in any case, though not in the order of changes.
#[test]
fn a_watch_follows_its_directory_although_the_report_of_the_rename_was_missed() {
    for is_record_first in [true, false] {
        let mut scene = Scene::new();
        let file_id = scene.open_directory("d");
        watch(&mut scene, request(file_id));
        scene.server.handle_watched(Now::default(), Duration::ZERO, file_id.volatile);
        notices(&mut scene);
        let missed = [HostChange::missed(folder())];
        if is_record_first {
            rename_elsewhere(&mut scene, "d", ("d", "e"));
            scene.server.handle_changes(Now::default(), Duration::MAX, &missed);
        } else {
            scene.server.handle_changes(Now::default(), Duration::MAX, &missed);
            rename_elsewhere(&mut scene, "d", ("d", "e"));
        }
        let answer = scene.receive().expect("it is told that it has to look");
        assert_eq!(answer.outcome(), NtStatus::NOTIFY_ENUM_DIR);
        let [Notice::Watched(moved)] = &notices(&mut scene)[..] else { panic!("it has moved") };
        assert_eq!(moved.path, path("e").below(&folder()));
        // Something else has happened since the first answer.
        let answer = scene.ask(Command::CHANGE_NOTIFY, &request(file_id));
        assert_eq!(answer.outcome(), NtStatus::NOTIFY_ENUM_DIR);
        watch(&mut scene, request(file_id));
        happen_elsewhere(&mut scene, [added("d\\old"), added("e\\new")]);
        assert_eq!(changes_now(&mut scene), Some(expect(&[(NotifyAction::ADDED, "new")])));
    }
}

/// The report of the rename comes before the record's, or after it.
#[test]
fn a_watch_follows_its_directory_in_either_order_of_the_reports() {
    for is_record_first in [true, false] {
        let mut scene = Scene::new();
        let file_id = scene.open_directory("d");
        watch(&mut scene, request(file_id));
        let moved = || [Change { is_directory: true, ..renamed("d", "e") }];
        if is_record_first {
            rename_elsewhere(&mut scene, "d", ("d", "e"));
            happen_elsewhere(&mut scene, moved());
        } else {
            happen_elsewhere(&mut scene, moved());
            rename_elsewhere(&mut scene, "d", ("d", "e"));
        }
        let answer = scene.receive().expect("it is told that it has to look");
        assert_eq!(answer.outcome(), NtStatus::NOTIFY_ENUM_DIR);
        watch(&mut scene, request(file_id));
        happen_elsewhere(&mut scene, [added("e\\new")]);
        assert_eq!(changes_now(&mut scene), Some(expect(&[(NotifyAction::ADDED, "new")])));
    }
}

#[test]
fn a_change_leaves_the_worker_only_if_another_process_watches() {
    let mut scene = Scene::new();
    let file_id = scene.open_directory("");
    watch(&mut scene, request(file_id));
    notices(&mut scene);
    happen(&mut scene, [added("1")]);
    assert_eq!(notices(&mut scene).len(), 0);
    scene.server.handle_watched_elsewhere(true);
    happen(&mut scene, [added("2"), added("3")]);
    let [Notice::Changed(changes)] = &notices(&mut scene)[..] else { panic!("an answer at once") };
    let paths: Vec<_> = changes.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, ["srv/data/2", "srv/data/3"]);
    // Changes from elsewhere are not sent back.
    happen_elsewhere(&mut scene, [added("4")]);
    assert_eq!(notices(&mut scene).len(), 0);
}

#[test]
fn a_missed_change_makes_watchers_around_it_list_again() {
    for (directory, lost, looks) in [
        ("a", "", true),
        ("a", "a", true),
        ("a\\b", "a", true),
        ("a", "a\\b", true),
        ("a", "b", false),
        ("a", "ab", false),
    ] {
        let mut scene = Scene::new();
        let file_id = scene.open_directory(directory);
        watch(&mut scene, ChangeNotifyRequest { flags: TREE, ..request(file_id) });
        let lost = HostChange::missed(path(lost).below(&folder()));
        scene.server.handle_changes(Now::default(), Duration::MAX, &[lost]);
        let status = scene.receive().map(|answer| answer.status());
        assert_eq!(status, looks.then_some(NtStatus::NOTIFY_ENUM_DIR), "{directory}");
    }
}

#[test]
fn a_directory_that_somebody_else_deletes_ends_all_requests() {
    let identity = crate::scene::identity_of("d");
    for kind in [HostChangeKind::Removed, HostChangeKind::DeletePending(identity)] {
        let mut scene = Scene::new();
        let file_id = scene.open_directory("d");
        let interims = [(); 2].map(|()| watch(&mut scene, request(file_id)));
        let gone = HostChange { path: path("d").below(&folder()), is_directory: true, kind };
        scene.server.handle_changes(Now::default(), Duration::MAX, &[gone]);
        for _ in interims {
            let answer = scene.receive().expect("answered");
            assert_eq!(answer.outcome(), Reason::DeletePending);
        }
        let answer = scene.ask(Command::CHANGE_NOTIFY, &request(file_id));
        assert_eq!(answer.outcome(), Reason::DeletePending);
    }
}

#[test]
fn without_change_notify_there_is_none() {
    let mut scene = Scene::new();
    let mut settings = (*scene.server.inspect().globals.settings).clone();
    settings.change_notify = false;
    scene.server.handle_settings(Arc::new(settings));
    let file_id = scene.open_directory("");
    let answer = scene.ask(Command::CHANGE_NOTIFY, &request(file_id));
    assert_eq!(answer.outcome(), Reason::ChangeNotifyOff);
}

#[test]
fn writes_that_follow_each_other_are_reported_once() {
    let write = || file_change("f", ChangeKind::Modified(CompletionFilter::SIZE));
    let want = [(NotifyAction::MODIFIED, "f")];
    check("", (FLAT, CompletionFilter::SIZE), vec![write(), write(), write()], &want);
}

#[test]
fn files_and_directories_have_a_filter_each() {
    let directory = || vec![Change { is_directory: true, ..added("new") }];
    let (files, directories) = (CompletionFilter::FILE_NAME, CompletionFilter::DIR_NAME);
    let want = [(NotifyAction::ADDED, "new")];
    check("", (FLAT, files), vec![added("new")], &want);
    check("", (FLAT, directories), vec![added("new")], &[]);
    check("", (FLAT, directories), directory(), &want);
    check("", (FLAT, files), directory(), &[]);
}

#[test]
fn modifications_match_the_filter_by_their_kind() {
    let size = || vec![file_change("f", ChangeKind::Modified(CompletionFilter::SIZE))];
    check("", (FLAT, CompletionFilter::SIZE), size(), &[(NotifyAction::MODIFIED, "f")]);
    check("", (FLAT, CompletionFilter::EA), size(), &[]);
}

#[test]
fn streams_have_actions_of_their_own() {
    let stream = || vec![added("f:s"), file_change("f:s", ChangeKind::Removed)];
    let want = [(NotifyAction::ADDED_STREAM, "f:s"), (NotifyAction::REMOVED_STREAM, "f:s")];
    check("", (FLAT, CompletionFilter::STREAM_NAME), stream(), &want);
    check("", (FLAT, NAMES), stream(), &[]);
}

#[test]
fn a_rename_reports_both_names() {
    let want = [(NotifyAction::RENAMED_OLD_NAME, "x"), (NotifyAction::RENAMED_NEW_NAME, "y")];
    check("a", (FLAT, NAMES), vec![renamed("a\\x", "a\\y")], &want);
}

#[test]
fn a_move_is_a_removal_and_an_addition() {
    let moved = || vec![renamed("a\\b\\x", "a\\y")];
    let want = [(NotifyAction::REMOVED, "b\\x"), (NotifyAction::ADDED, "y")];
    check("a", (TREE, NAMES), moved(), &want);
    check("a", (FLAT, NAMES), moved(), &want[1..]);
    check("a\\b", (FLAT, NAMES), moved(), &[(NotifyAction::REMOVED, "x")]);
}

#[test]
fn watchers_of_attributes_alone_see_a_renamed_file_change() {
    let attributes = CompletionFilter::ATTRIBUTES;
    let want = [(NotifyAction::MODIFIED, "y")];
    check("", (FLAT, attributes), vec![renamed("x", "y")], &want);
    let directory = Change { is_directory: true, ..renamed("x", "y") };
    check("", (FLAT, attributes), vec![directory], &[]);
}

#[test]
fn changes_between_requests_are_kept() {
    let mut scene = Scene::new();
    let file_id = scene.open_directory("");
    watch(&mut scene, request(file_id));
    happen(&mut scene, [added("1")]);
    assert_eq!(
        changes_in(&scene.receive().expect("an answer")),
        expect(&[(NotifyAction::ADDED, "1")])
    );
    happen(&mut scene, [added("2"), file_change("2", ChangeKind::Removed)]);
    assert!(scene.receive().is_none());
    let answer = scene.ask(Command::CHANGE_NOTIFY, &request(file_id));
    let want = [(NotifyAction::ADDED, "2"), (NotifyAction::REMOVED, "2")];
    assert_eq!((answer.status(), changes_in(&answer)), (NtStatus::SUCCESS, expect(&want)));
}

#[test]
fn changes_before_the_first_request_are_not_kept() {
    let mut scene = Scene::new();
    let file_id = scene.open_directory("");
    happen(&mut scene, [added("1")]);
    watch(&mut scene, request(file_id));
}

#[test]
fn the_first_request_fixes_filter_and_depth() {
    let mut scene = Scene::new();
    let file_id = scene.open_directory("");
    let interim = watch(&mut scene, ChangeNotifyRequest { flags: TREE, ..request(file_id) });
    scene.cancel(&interim);
    assert_eq!(scene.receive().map(|answer| answer.status()), Some(NtStatus::CANCELLED));
    let other_filter = CompletionFilter::SECURITY;
    watch(&mut scene, ChangeNotifyRequest { completion_filter: other_filter, ..request(file_id) });
    happen(&mut scene, [added("a\\1")]);
    assert_eq!(
        changes_in(&scene.receive().expect("an answer")),
        expect(&[(NotifyAction::ADDED, "a\\1")])
    );
}

#[test]
fn requests_are_answered_in_order_of_arrival() {
    let mut scene = Scene::new();
    let file_id = scene.open_directory("");
    let interims = [(); 3].map(|()| watch(&mut scene, request(file_id)));
    for (interim, name) in interims.iter().zip(["1", "2", "3"]) {
        happen(&mut scene, [added(name)]);
        let answer = scene.receive().expect("the oldest request is answered");
        assert_eq!(answer.header.async_id, interim.header.async_id);
        assert_eq!(changes_in(&answer), expect(&[(NotifyAction::ADDED, name)]));
        assert!(scene.receive().is_none());
    }
}

#[test]
fn every_open_is_notified() {
    let mut scene = Scene::new();
    let opens = [scene.open_directory("a"), scene.open_directory("a")];
    for file_id in opens {
        watch(&mut scene, request(file_id));
    }
    happen(&mut scene, [added("a\\1")]);
    for _ in opens {
        let answer = scene.receive().expect("both are told");
        assert_eq!(changes_in(&answer), expect(&[(NotifyAction::ADDED, "1")]));
    }
}

#[test]
fn an_answer_that_does_not_fit_sends_the_client_to_look() {
    let mut scene = Scene::new();
    let file_id = scene.open_directory("");
    // 12 bytes, and one character of two.
    watch(&mut scene, request(file_id));
    happen(&mut scene, [added("1")]);
    scene.receive().expect("an answer");
    for (output_buffer_length, status) in [(14, NtStatus::SUCCESS), (13, NtStatus::NOTIFY_ENUM_DIR)]
    {
        watch(&mut scene, ChangeNotifyRequest { output_buffer_length, ..request(file_id) });
        happen(&mut scene, [added("1")]);
        let answer = scene.receive().expect("answered");
        assert_eq!(answer.outcome(), status);
        assert_eq!(changes_in(&answer).is_empty(), status == NtStatus::NOTIFY_ENUM_DIR);
    }
}

#[test]
fn more_changes_than_the_first_request_has_room_for_are_forgotten() {
    let mut scene = Scene::new();
    let file_id = scene.open_directory("");
    let interim =
        watch(&mut scene, ChangeNotifyRequest { output_buffer_length: 32, ..request(file_id) });
    scene.cancel(&interim);
    scene.receive().expect("cancelled");
    happen(&mut scene, [added("1"), added("2"), added("3")]);
    let answer = scene.ask(Command::CHANGE_NOTIFY, &request(file_id));
    assert_eq!(answer.outcome(), NtStatus::NOTIFY_ENUM_DIR);
    // After that, the watch begins anew.
    watch(&mut scene, request(file_id));
    happen(&mut scene, [added("4")]);
    assert_eq!(
        changes_in(&scene.receive().expect("an answer")),
        expect(&[(NotifyAction::ADDED, "4")])
    );
}

#[test]
fn a_watch_keeps_no_more_than_its_limit() {
    let mut scene = Scene::new();
    let file_id = scene.open_directory("");
    let output_buffer_length = u32::try_from(2 * model::watch::BYTES_MAX).expect("it is small");
    let large = ChangeNotifyRequest { output_buffer_length, ..request(file_id) };
    // Such a response needs two credits; one is not enough.
    assert_eq!(scene.ask(Command::CHANGE_NOTIFY, &large).outcome(), Reason::CreditChargeTooSmall);
    let memory = &scene.server.inspect().globals.memory;
    let mut watch = super::Watch::new(folder(), NAMES, false, output_buffer_length, memory)
        .expect("there is room");
    let change = added("1").to_host_change(&folder());
    let entry = model::watch::BYTES_MAX / 16;
    for _ in 0..entry {
        watch.note(&change, &[]);
        watch.permit(|_| unreachable!("it is in the directory itself"));
    }
    let fits = watch.take(output_buffer_length).expect("there are changes");
    assert_eq!(fits.status, NtStatus::SUCCESS);
    for _ in 0..=entry {
        watch.note(&change, &[]);
        watch.permit(|_| unreachable!("it is in the directory itself"));
    }
    let overflowed = watch.take(output_buffer_length).expect("there were changes");
    assert_eq!(overflowed.status, NtStatus::NOTIFY_ENUM_DIR);
}

#[test]
fn a_request_is_checked_before_it_waits() {
    let mut scene = Scene::new();
    let directory = scene.open_directory("d");
    let (length, max) = (TRANSACT_MAX + 1, Reason::LengthAboveMax);
    let too_long = ChangeNotifyRequest { output_buffer_length: length, ..request(directory) };
    assert_eq!(scene.ask(Command::CHANGE_NOTIFY, &too_long).outcome(), max);
    let file = scene.open("f");
    let answer = scene.ask(Command::CHANGE_NOTIFY, &request(file));
    assert_eq!(answer.outcome(), Reason::NotDirectory);
    let blind = scene.open_with("d", AccessMask::READ_ATTRIBUTES, true);
    let answer = scene.ask(Command::CHANGE_NOTIFY, &request(blind));
    assert_eq!(answer.outcome(), Reason::AccessNotGranted);
}

#[test]
fn the_close_of_the_directory_cleans_up() {
    let mut scene = Scene::new();
    let file_id = scene.open_directory("d");
    let interims = [(); 2].map(|()| watch(&mut scene, request(file_id)));
    scene.close(file_id);
    for interim in interims {
        let answer = scene.receive().expect("answered");
        assert_eq!(answer.outcome(), Reason::NotifyCleanup);
        assert_eq!(answer.header.async_id, interim.header.async_id);
    }
    assert!(scene.server.inspect().globals.watchers.is_empty());
}

#[test]
fn the_end_of_the_tree_connect_or_session_cleans_up() {
    for logs_off in [false, true] {
        let mut scene = Scene::new();
        let file_id = scene.open_directory("d");
        watch(&mut scene, request(file_id));
        let ended = match logs_off {
            true => scene.ask(Command::LOGOFF, &LogoffRequest),
            false => scene.ask(Command::TREE_DISCONNECT, &TreeDisconnectRequest),
        };
        assert_eq!(ended.outcome(), NtStatus::SUCCESS);
        let answer = scene.receive().expect("answered");
        assert_eq!(answer.outcome(), Reason::NotifyCleanup);
    }
}

#[test]
fn the_deletion_of_the_directory_ends_all_requests() {
    let mut scene = Scene::new();
    let watcher = scene.open_directory("d");
    let interims = [(); 2].map(|()| watch(&mut scene, request(watcher)));
    let deleter = scene.open_directory("d");
    scene.delete_on_close(deleter);
    scene.close(deleter);
    for interim in interims {
        let answer = scene.receive().expect("answered");
        assert_eq!(answer.outcome(), Reason::DeletePending);
        assert_eq!(answer.header.async_id, interim.header.async_id);
    }
    let answer = scene.ask(Command::CHANGE_NOTIFY, &request(watcher));
    assert_eq!(answer.outcome(), Reason::DeletePending);
}

#[test]
fn the_last_close_of_a_deleted_file_is_reported() {
    let mut scene = Scene::new();
    let directory = scene.open_directory("d");
    watch(&mut scene, request(directory));
    let (deleter, other) = (scene.open("d\\f"), scene.open("d\\f"));
    scene.delete_on_close(deleter);
    scene.close(deleter);
    assert!(scene.receive().is_none(), "it is still open");
    scene.close(other);
    let answer = scene.receive().expect("an answer");
    assert_eq!(changes_in(&answer), expect(&[(NotifyAction::REMOVED, "f")]));
}

#[test]
fn a_write_is_reported() {
    let mut scene = Scene::new();
    let directory = scene.open_directory("d");
    let completion_filter = CompletionFilter::SIZE;
    watch(&mut scene, ChangeNotifyRequest { completion_filter, ..request(directory) });
    let file = scene.open("d\\f");
    scene.send(Command::WRITE, &WriteRequest::new(file, 0, b"data"));
    let (id, _) = scene.op();
    scene.reply(id, Ok(ObjectReply::Written(4)));
    let written = scene.receive().expect("answered");
    assert_eq!(written.outcome(), NtStatus::SUCCESS);
    let answer = scene.receive().expect("an answer");
    assert_eq!(changes_in(&answer), expect(&[(NotifyAction::MODIFIED, "f")]));
}

#[test]
fn changes_without_a_watcher_are_not_kept() {
    let mut scene = Scene::new();
    let file = scene.open("f");
    let Inspection { globals, opens, .. } = scene.server.inspect();
    let open = opens.get_mut(&file.volatile).expect("it is open");
    globals.report_written(open, 1);
    globals.report(|| unreachable!("nobody watches"));
    assert!(globals.outbox.changes.is_empty());
}

#[test]
fn a_change_that_finds_no_memory_has_to_be_looked_up() {
    let memory = crate::MemoryAccount::new(16 << 10);
    let mut watch =
        super::Watch::new(folder(), NAMES, false, 65_536, &memory).expect("it has room");
    let change = added("1").to_host_change(&folder());
    for _ in 0..1_000 {
        watch.note(&change, &[]);
        watch.permit(|_| unreachable!("it is in the directory itself"));
    }
    assert!(memory.taken() <= 8 << 10, "{} bytes", memory.taken());
    let reported = watch.take(65_536).expect("there were changes");
    assert_eq!(reported.status, NtStatus::NOTIFY_ENUM_DIR);
    watch.note(&change, &[]);
    watch.permit(|_| unreachable!("it is in the directory itself"));
    assert_eq!(watch.take(65_536).expect("a change").status, NtStatus::SUCCESS);
    let refused = super::Watch::new(folder(), NAMES, false, 65_536, &crate::MemoryAccount::new(0));
    assert_eq!(refused.map(drop), Err(crate::Reject::TooMuchMemory));
}

#[test]
fn a_guest_watches_fewer_directories_than_a_user() {
    let mut scene = Scene::new();
    let last = scene.open_directory("");
    let sessions = &mut scene.server.inspect().sessions;
    sessions.values_mut().for_each(|session| session.standing = arbitration::Standing::Guest);
    scene.server.inspect().globals.watchers = vec![0; super::GUEST_WATCHES_MAX];
    let answer = scene.ask(Command::CHANGE_NOTIFY, &request(last));
    assert_eq!(answer.outcome(), Reason::TooManyWatches);
    scene.server.inspect().globals.watchers.pop();
    watch(&mut scene, request(last));
}
