//! Work on whole shares, in the store of each: connecting, closing, and what no request waits for.

use std::os::fd::OwnedFd;

use dtyp::{AccessMask, NtStatus};
use object::{ObjectOp, ObjectReply, OpenRequest, Opened, RootId, StoreNumber, UserId};
use proto::effect::{ByClose, ConnectShare, FindReferral, Referral, Removal};
use proto::traversals::Traversal;
use proto::{Reply, RequestId, ShareRefusal};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use shares::deletions::Reopening;
use shares::opening::{OpenedRoot, Opening, StorageMode};
use shares::shares::Prepared;
use store::{Started, Store, StoreSettings};
use tracing::{debug, warn};
use uring::{Op, Token};

use super::event_loop::{STORAGE_THREADS, Worker};
use super::share_commands::queue::WaitingConnect;
use super::storage_threads::Completed;
use super::traversing::TRAVERSALS_PER_TURN;

/// Descriptors that looking a share up takes at once: a file of the configuration, and a socket or
/// two of the system's name service. A few more cost nothing.
const DESCRIPTORS_NEEDED: usize = 8;

impl Worker {
    /// Connects a share, after its commands. The directory of a user's share is verified before
    /// them, and once more when they have ended and it is opened.
    pub(super) fn connect_share(&mut self, request: Option<RequestId>, connect: &ConnectShare) {
        match self.shares().prepare(connect) {
            Ok(prepared) => match prepared.to_verify() {
                Some(opening) => self.verify_before_commands(request, prepared, opening),
                None => self.run_before_connect(request, prepared),
            },
            Err(refusal) => self.answer(request, Reply::Share(Err(refusal))),
        }
    }

    fn verify_before_commands(
        &mut self,
        request: Option<RequestId>,
        mut prepared: Box<Prepared>,
        opening: Opening,
    ) {
        let store = self.store_of(&opening);
        self.run_in(store, move |store| {
            let folder = store.and_then(|store| opening.verify(store));
            let folder = folder.map_err(|_| ShareRefusal::BadNetworkName);
            let verified = folder.and_then(|folder| prepared.set_verified(&folder));
            Box::new(move |worker| match verified {
                Ok(()) => worker.run_before_connect(request, prepared),
                Err(refusal) => worker.answer(request, Reply::Share(Err(refusal))),
            })
        });
    }

    /// Opens the directory of a share; waits for its storage on a thread of its own, if it may wait
    /// long.
    pub(super) fn open_prepared(&mut self, connect: WaitingConnect) {
        let WaitingConnect { request, mut prepared, after, free_space, quotas } = connect;
        let Some(mut opening) = prepared.take_opening() else {
            return self.share_opened(request, prepared, None);
        };
        if !opening.depots.is_empty() {
            // Users may have no right to enter the directories on the way to a depot. A server
            // without rights of its own does what it can.
            let _ = self.store.revert_to_server();
            let hidden = self.mounts.depots_in(&opening.settings.path, &opening.depots);
            prepared.hide(&mut opening, &hidden);
        }
        let path = &opening.settings.path;
        if !self.path_rules.is_mounted_as_before(path, &mut self.mounts) {
            let path = path.clone();
            return self.share_unreached(request, None, prepared.name(), path);
        }
        opening.reached = self.path_rules.reached();
        let store = self.store_of(&opening);
        self.run_in(store, move |store| {
            let opened = store.and_then(|store| opening.carry_out(store));
            Box::new(move |worker| {
                if let Ok(opened) = &opened {
                    worker.keep_commands(opened.root, after);
                    worker.storage_commands.keep(opened.root, free_space, quotas);
                }
                worker.share_opened(request, prepared, Some(opened));
            })
        });
    }

    fn share_opened(
        &mut self,
        request: Option<RequestId>,
        prepared: Box<Prepared>,
        opened: Option<Result<OpenedRoot, NtStatus>>,
    ) {
        if let Some(Ok(OpenedRoot { root, device, .. })) = &opened
            && self.storage_threads.serves(root.store())
        {
            self.storage_threads.root_opened(*root, *device);
        }
        if let Some(Ok(OpenedRoot { root, unreached: Some(path), .. })) = opened {
            return self.share_unreached(request, Some(root), prepared.name(), path);
        }
        let mut share = self.shares().finish(prepared, opened);
        share.iter_mut().for_each(|share| self.prepare_kernel_leases(share));
        self.answer(request, Reply::Share(share.map(Box::new)));
    }

    /// Resolves a path of a DFS namespace, as far as this user may see it.
    pub(super) fn find_referral(&mut self, request: Option<RequestId>, question: FindReferral) {
        let FindReferral { connect, path } = question;
        let opening = match self.shares().prepare(&connect) {
            Ok(mut prepared) => prepared.take_namespace(),
            Err(_) => None,
        };
        let Some(opening) = opening else {
            return self.answer(request, Reply::Referral(Err(NtStatus::NOT_FOUND)));
        };
        let store = self.store_of(&opening);
        self.run_in(store, move |store| {
            let found = store.and_then(|store| find_in(store, opening, path));
            Box::new(move |worker| worker.answer(request, Reply::Referral(found)))
        });
    }

    /// Forgets a share, once its earlier operations have ended.
    pub(super) fn close_root(&mut self, root: RootId) {
        self.storage_threads.root_closed(root);
        self.storage_commands.forget(root);
        self.run_in(Ok(root.store()), move |store| {
            store.into_iter().for_each(|store| store.close_root(root));
            Box::new(move |worker| worker.run_after_connect(root))
        });
    }

    /// Asks the store the next questions of watches; answers may lead to further ones.
    pub(super) fn continue_traversing(&mut self) {
        for _ in 0..TRAVERSALS_PER_TURN {
            let Some(traversal) = self.traversing.take() else { return };
            self.traverse(*traversal);
            self.serve_effects();
        }
    }

    fn traverse(&mut self, traversal: Traversal) {
        self.run_in(Ok(traversal.root.store()), move |store| {
            let Traversal { user, root, directory, .. } = &traversal;
            let may = store.ok().and_then(|store| store.may_list(*user, *root, directory));
            Box::new(move |worker| {
                let now = worker.now();
                worker.server.handle_traversed(now, &traversal, may);
            })
        });
    }

    /// Removes a file or a stream for the open that has marked it, in its share. Its client was
    /// granted that. If the share is no longer configured, the file stays: it may have had a
    /// recycle bin.
    pub(super) fn remove(&mut self, mut removal: Removal) {
        let user = removal.user.take();
        let is_guest = user.as_deref().is_some_and(|it| it.is_guest);
        let opening = self.shares().reopening(&removal.share, &removal.folder, user.as_deref());
        // Files and services could not be asked then.
        let opening = opening.map_err(|status| match lacks_descriptors() {
            true => NtStatus::TOO_MANY_OPENED_FILES,
            false => status,
        });
        let store =
            opening.as_ref().map_or_else(|status| Err(*status), |it| self.store_of(&it.as_server));
        removal.audit = opening.as_ref().ok().and_then(|it| it.audit.clone());
        let is_quiet = opening.as_ref().map_or(is_guest, |it| it.is_quiet);
        self.run_in(store, move |store| {
            let removed = store.and_then(|store| remove_in(store, opening?, &removal));
            Box::new(move |worker| worker.removed(&removal, removed, is_quiet))
        });
    }

    /// `is_quiet`: a guest has marked the file, or may have. Guests must not fill the log.
    fn removed(
        &mut self,
        removal: &Removal,
        removed: Result<Box<Opened>, NtStatus>,
        is_quiet: bool,
    ) {
        // A close that has tried it may have succeeded.
        let may_be_gone = removal.close == ByClose::Tried;
        let is_gone = matches!(&removed, Err(NtStatus::OBJECT_NAME_NOT_FOUND)) && may_be_gone;
        if let Err(status) = &removed
            && !is_gone
        {
            let Removal { share, path, .. } = removal;
            let path = path.to_windows();
            let reason =
                format!("share {share}: cannot delete {path:?} after its last close: {status}");
            if is_quiet { debug!("{reason}") } else { warn!("{reason}") }
        }
        let now = self.now();
        self.server.handle_watched_elsewhere(self.watches.is_watched_elsewhere());
        self.server.handle_removed(now, removal, removed.as_deref().map_err(|status| *status));
    }

    /// The store that serves a share, with its thread if the storage of the share or of its
    /// snapshots may wait long.
    fn store_of(&mut self, opening: &Opening) -> Result<StoreNumber, NtStatus> {
        let mode = opening.storage;
        if mode == StorageMode::Inline {
            self.local_storage.bind();
        }
        let Some(mount) = opening.paths().find_map(|path| self.mounts.choose(mode, path)) else {
            return Ok(StoreNumber::default());
        };
        if let Some(number) = self.storage_threads.find(&mount) {
            return Ok(number);
        }
        if !self.store.revert_to_server() {
            return Err(NtStatus::ACCESS_DENIED);
        }
        self.limit_storage_threads();
        let settings = StoreSettings {
            opens_max: self.settings.config.global.max_open_files,
            domain_ids: self.store.domain_ids(),
            ..StoreSettings::default()
        };
        let number = self.storage_threads.start(mount, settings).map_err(|error| {
            warn!("cannot start a thread for {}: {error}", opening.settings.path.display());
            NtStatus::INSUFF_SERVER_RESOURCES
        })?;
        if self.storage_threads.begins_to_be_watched() {
            self.watch_storage_threads();
        }
        Ok(number)
    }

    /// Runs work in a store: at once if it is the worker's, or if there is none.
    pub(super) fn run_in(
        &mut self,
        number: Result<StoreNumber, NtStatus>,
        work: impl FnOnce(Result<&mut Store, NtStatus>) -> Completed<Self> + Send + 'static,
    ) {
        let completed = match number {
            Err(status) => work(Err(status)),
            Ok(number) if !self.storage_threads.serves(number) => work(Ok(&mut self.store)),
            // What referred to it has ended.
            Ok(number) if !self.storage_threads.has(number) => work(Err(NtStatus::FILE_CLOSED)),
            Ok(number) => {
                let call = Box::new(|store: &mut Store| work(Ok(store)));
                let now = self.turn.monotonic;
                return self.storage_threads.call((&self.store, now), number, call);
            }
        };
        completed(self);
    }

    pub(super) fn watch_storage_threads(&mut self) {
        if let Some(fd) = self.storage_threads.wake_source() {
            self.submit(Token(STORAGE_THREADS), Op::PollReadable { fd });
        }
    }
}

/// Whether this process could not open a few files more.
fn lacks_descriptors() -> bool {
    // That needs no right to read.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let open = |_| rustix::fs::open("/", flags, Mode::empty());
    let opened: Result<Vec<OwnedFd>, Errno> = (0..DESCRIPTORS_NEEDED).map(open).collect();
    matches!(opened, Err(Errno::MFILE | Errno::NFILE))
}

/// Removes a file with the rights of the user who has marked it; with those of the server, if the
/// user is not known, or lacks them by now.
fn remove_in(
    store: &mut Store,
    Reopening { as_user, as_server, .. }: Reopening,
    removal: &Removal,
) -> Result<Box<Opened>, NtStatus> {
    let removed = as_user.map(|opening| remove_with(store, opening, removal, true));
    match removed {
        Some(Ok(opened)) => Ok(opened),
        // The server would have no more of them.
        Some(Err(status)) if Removal::is_for_another_worker(status) => Err(status),
        _ => remove_with(store, as_server, removal, false),
    }
}

/// Opens the target of a removal, checks its identity, and closes it for good. `is_user`: with the
/// rights of the user who has marked it.
fn remove_with(
    store: &mut Store,
    opening: Opening,
    removal: &Removal,
    is_user: bool,
) -> Result<Box<Opened>, NtStatus> {
    let user = opening.user;
    let OpenedRoot { root, .. } = opening.carry_out(store)?;
    let removed = remove_from(store, (root, user), removal, is_user);
    store.close_root(root);
    removed
}

fn remove_from(
    store: &mut Store,
    (root, user): (RootId, UserId),
    removal: &Removal,
    is_user: bool,
) -> Result<Box<Opened>, NtStatus> {
    let mut perform = |op| match store.start(user, op) {
        Started::Done(result) => result,
        Started::Submit(..) => unreachable!("names are opened and removed at once"),
    };
    let plain = OpenRequest::to_remove(root, removal.path.clone());
    // A descriptor may grant the user more than the mode of the directory, in the recycle bin, too;
    // and the mode more than a descriptor that has changed meanwhile. Streams are in no bin.
    let granted =
        OpenRequest { desired_access: plain.desired_access | AccessMask::DELETE, ..plain.clone() };
    let granted = Some(granted).filter(|it| is_user && it.path.stream().is_none());
    let granted = granted.and_then(|it| perform(ObjectOp::Open(Box::new(it))).ok());
    let opened = match granted {
        Some(opened) => opened,
        None => perform(ObjectOp::Open(Box::new(plain)))?,
    };
    let ObjectReply::Opened(opened) = opened else {
        // A link that leads out of the share, in the place of a directory.
        return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
    };
    let unlink = removal.is_of(&opened);
    perform(ObjectOp::Close { open: opened.open, unlink })?;
    if unlink { Ok(opened) } else { Err(NtStatus::OBJECT_NAME_NOT_FOUND) }
}

/// Finds the link of a namespace in a path.
fn find_in(
    store: &mut Store,
    opening: Opening,
    path: object::ObjectPath,
) -> Result<Referral, NtStatus> {
    let user = opening.user;
    let OpenedRoot { root, .. } = opening.carry_out(store).map_err(|_| NtStatus::NOT_FOUND)?;
    let found = match path.is_root() {
        true => Ok(Referral::Root),
        false => match store.start(user, ObjectOp::FindReferral { root, path: path.into() }) {
            Started::Done(Ok(ObjectReply::Stopped(link))) => Ok(Referral::Link(link)),
            Started::Done(Err(_)) => Err(NtStatus::NOT_FOUND),
            other => panic!("{other:?} does not answer a question for a referral"),
        },
    };
    store.close_root(root);
    found
}
