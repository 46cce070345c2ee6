//! Changes on their way to the watches that CHANGE_NOTIFY has begun: [MS-FSA] 2.1.4.1.

use std::iter;
use std::time::Duration;

use model::file_key;
use model::open::{Open, Target};
use model::traversals::Traversal;
use object::{HostChange, HostChangeKind, ObjectPath, StoreNumber};

use crate::effect::Effect;
use crate::notice::{Notice, WatchedDirectory};
use crate::server::Server;

/// Makes the notice of an open's watch for other workers.
pub fn announce(open: &Open) -> Option<Notice> {
    let Target::File(file) = &open.target else { return None };
    let watch = file.watch.as_ref()?;
    Some(Notice::Watched(Box::new(WatchedDirectory {
        volatile: open.file_id.volatile,
        path: watch.directory.clone(),
        identity: file.identity,
        recursive: watch.recursive,
        filter: watch.filter.bits(),
        kernel: open.share.kernel_change_notify,
        may_wait: file.local_open.store() != StoreNumber::default(),
    })))
}

/// Sets the time from which other workers report changes to a watch. A watch that has only moved
/// keeps its earlier time.
pub(crate) fn begun(server: &mut Server, at: Duration, volatile: u64) {
    let Some(open) = server.opens.get_mut(&volatile) else { return };
    if let Target::File(file) = &mut open.target
        && let Some(watch) = &mut file.watch
    {
        watch.begun_at.get_or_insert(at);
    }
}

/// Lets the watch of an open follow its directory, whose new path another worker has set in the
/// file's record. The report of that rename may come sooner or later than the record's, or be
/// missed among others.
pub(crate) fn follow(server: &mut Server, volatile: u64) {
    let Some(open) = server.opens.get_mut(&volatile) else { return };
    let folder = &open.share.folder;
    let Target::File(file) = &mut open.target else { return };
    let Some(watch) = &mut file.watch else { return };
    if watch.follow(file.path.below(folder)) {
        server.globals.traversals.doubt_all();
        server.globals.outbox.notices.extend(announce(open));
        report_permitted(server, volatile);
    }
}

/// Hands this client's changes to its watches and, if another worker has a watch, to the worker.
pub(crate) fn deliver(server: &mut Server) {
    let changes = std::mem::take(&mut server.globals.outbox.changes);
    if changes.is_empty() {
        return;
    }
    for change in &changes {
        report(server, change, None);
    }
    if server.globals.is_watched_elsewhere {
        server.globals.outbox.notices.push_back(Notice::Changed(changes));
    }
}

/// Hands a change to the watches, and wakes the oldest request of each watch with changes to
/// report; all requests, if the directory is removed. Watches that began after `at`, the time of
/// another worker's change, do not get it.
pub(crate) fn report(server: &mut Server, change: &HostChange, at: Option<Duration>) {
    if change.is_directory {
        let paths = iter::once(&change.path).chain(change.new_path());
        paths.for_each(|path| server.globals.traversals.doubt(path));
    }
    let is_missed = change.kind == HostChangeKind::Missed; // A rename may be among those.
    let may_move = change.is_directory && (is_missed || change.new_path().is_some());
    for volatile in server.globals.watchers.clone() {
        let open = server.opens.get_mut(&volatile).expect("a watch ends with its open");
        let share = &open.share;
        let Target::File(file) = &mut open.target else { continue };
        let Some(watch) = &mut file.watch else { continue };
        let mut has_moved = false;
        if may_move {
            let path = file.path.below(&share.folder);
            has_moved = watch.directory != path;
            watch.directory = path;
        }
        let is_younger = at.is_some_and(|at| watch.begun_at.is_some_and(|begun| at < begun));
        if !is_younger {
            watch.is_delete_pending |= match change.kind {
                HostChangeKind::DeletePending(identity) => {
                    file_key::key(identity) == file_key::key(file.identity)
                }
                HostChangeKind::Removed => change.path == watch.directory,
                _ => false,
            };
            watch.note(change, &share.veto_files);
        }
        if has_moved {
            server.globals.outbox.notices.extend(announce(open));
        }
        report_permitted(server, volatile);
    }
}

/// Takes the store's answer to [`Effect::Traverse`]; none if the directory is gone.
pub(crate) fn traversed(server: &mut Server, traversal: &Traversal, may: Option<bool>) {
    let now = server.globals.files.now();
    server.globals.traversals.answer(now, traversal, may);
    for volatile in server.globals.watchers.clone() {
        let file = server.opens.get(&volatile).and_then(|open| open.file().ok());
        if file.and_then(|file| file.watch.as_ref()).is_some_and(|watch| watch.has_unchecked()) {
            report_permitted(server, volatile);
        }
    }
}

/// Permits a watch's changes up to the first one without a verdict, wakes the oldest pending
/// request if there are any, and asks the store about the others.
fn report_permitted(server: &mut Server, volatile: u64) {
    let open = server.opens.get_mut(&volatile).expect("a watch ends with its open");
    let (user, root) = (open.user, open.share.root);
    let Target::File(file) = &mut open.target else { return };
    let (Some(watch), Some(root)) = (&mut file.watch, root) else { return };
    let (traversals, now) = (&mut server.globals.traversals, server.globals.files.now());
    let watched = file.path.components().count();
    watch.permit(|directory| {
        let directory = ObjectPath::from_stored(directory.to_owned(), None).below(&file.path);
        traversals.find(now, &Traversal { user, root, watched, directory }, &open.share.folder)
    });
    for traversal in traversals.take_questions() {
        server.globals.outbox.effects.push_back((None, Effect::Traverse(Box::new(traversal))));
    }
    let (is_delete_pending, is_quiet) = (watch.is_delete_pending, watch.is_quiet());
    if is_quiet && !is_delete_pending {
        return;
    }
    let mut waiting = server.in_flight.suspended_on(volatile);
    if !is_delete_pending {
        waiting.truncate(1);
    }
    server.globals.outbox.requests_to_wake.extend(waiting);
}
