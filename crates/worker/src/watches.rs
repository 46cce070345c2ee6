//! Watched directories and changes of this worker's client, reported to `notifyd`.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use dtyp::ServerId;
use messaging::{Changes, Content, MessageKind, Messaging, SendError, Unwatch, Watch};
use object::HostChange;
use process::clocks::machine_clock;
use proto::notice::WatchedDirectory;
use tables::WatchPage;
use tracing::debug;

/// Changes of one turn of the loop. Beyond it they are forgotten, and all who watch a directory
/// above or below them have to look: no turn takes in so many requests.
const CHANGES_MAX: usize = 16_384;

/// Watched directories and changes of this worker's client.
#[derive(Debug)]
pub(super) struct Watches {
    page: WatchPage,
    open: HashMap<u64, WatchedDirectory>,
    /// No user had logged on when the latest watch began.
    is_guest: bool,
    /// Watches that were not reported to `notifyd` yet.
    unannounced: HashSet<u64>,
    /// The `notifyd` that has the others.
    notifyd: Option<ServerId>,
    changes: Vec<HostChange>,
}

impl Watches {
    pub(super) fn new(page: WatchPage) -> Self {
        let (open, unannounced, changes) = Default::default();
        let notifyd = page.notifyd();
        Self { page, open, is_guest: true, unannounced, notifyd, changes }
    }

    /// Whether somebody watches something through another worker.
    pub(super) fn is_watched_elsewhere(&self) -> bool {
        self.page.is_wanted(u32::try_from(self.open.len()).unwrap_or(u32::MAX))
    }

    /// A directory is watched, or has another name. Told at once: before the client has its answer,
    /// and so before anyone acts on that. `is_guest`: no user has logged on here.
    pub(super) fn begin(
        &mut self,
        messaging: &mut Messaging,
        watch: WatchedDirectory,
        is_guest: bool,
    ) {
        let volatile = watch.volatile;
        self.is_guest = is_guest;
        if self.open.is_empty() {
            // While there was nothing to tell, nobody said when there was another.
            self.notifyd = self.page.notifyd();
        }
        if self.open.insert(volatile, watch).is_none() {
            self.page.add();
        }
        self.unannounced.insert(volatile);
        self.announce_watches(messaging);
    }

    /// A directory is not watched any more.
    pub(super) fn end(&mut self, messaging: &mut Messaging, volatile: u64) {
        if self.open.remove(&volatile).is_none() {
            return;
        }
        self.unannounced.remove(&volatile);
        let Some(notifyd) = self.notifyd else { return };
        let data = Unwatch { open: volatile }.encode();
        let content = Content::new(MessageKind::UNWATCH, &data);
        // A watch too many costs messages until this worker ends.
        if let Err(error) = messaging.send(Instant::now(), notifyd, &content) {
            debug!("cannot send the end of a watch to notifyd: {error}");
        }
    }

    /// There is a new `notifyd`, which knows nothing. What has changed while there was none is not
    /// known either: what the engine is to be told.
    pub(super) fn begin_again(&mut self, messaging: &mut Messaging) -> Vec<HostChange> {
        let notifyd = self.page.notifyd();
        if notifyd == self.notifyd {
            return Vec::new();
        }
        self.notifyd = notifyd;
        for volatile in self.open.keys() {
            self.page.add();
            self.unannounced.insert(*volatile);
        }
        self.announce_watches(messaging);
        self.open.values().map(|watch| HostChange::missed(watch.path.clone())).collect()
    }

    /// Keeps changes until the end of the turn.
    pub(super) fn change(&mut self, changes: Vec<HostChange>) {
        if self.changes.len() + changes.len() > CHANGES_MAX {
            self.changes = vec![HostChange::missed_instead_of(self.changes.iter().chain(&changes))];
            return;
        }
        for change in changes {
            // Writes come in rows.
            if self.changes.last() != Some(&change) {
                self.changes.push(change);
            }
        }
    }

    /// Sends what was kept. What does not go is forgotten; that it was so is told the next time.
    pub(super) fn flush(&mut self, messaging: &mut Messaging) {
        if !self.unannounced.is_empty() {
            self.announce_watches(messaging);
        }
        if self.changes.is_empty() {
            return;
        }
        let changes = std::mem::take(&mut self.changes);
        // Without one, changes are not reported; the watchers look again when it has started.
        let Some(notifyd) = self.page.notifyd() else { return };
        // No client has an answer yet to what this turn did.
        let at = machine_clock();
        for some in changes.chunks(Changes::LEN_MAX) {
            let data = Changes::encode(at, some);
            let content = Content::new(MessageKind::CHANGED, &data);
            match messaging.send(Instant::now(), notifyd, &content) {
                Ok(()) => {}
                Err(SendError::NoSuchProcess) => return,
                Err(error) => {
                    debug!("changes are dropped: {error}");
                    self.changes = vec![HostChange::missed_instead_of(&changes)];
                    return;
                }
            }
        }
    }

    /// Whether there is something to flush.
    pub(super) fn wants_flush(&self) -> bool {
        !self.changes.is_empty() || !self.unannounced.is_empty()
    }

    fn announce_watches(&mut self, messaging: &mut Messaging) {
        if self.notifyd.is_none() {
            // The first one may have begun after this worker did.
            self.notifyd = self.page.notifyd();
        }
        let Some(notifyd) = self.notifyd else { return };
        let (open, is_guest) = (&self.open, self.is_guest);
        self.unannounced.retain(|volatile| {
            let Some(watch) = open.get(volatile) else { return false };
            let data = Watch {
                open: watch.volatile,
                path: watch.path.clone(),
                identity: watch.identity,
                recursive: watch.recursive,
                filter: watch.filter,
                kernel: watch.kernel,
                may_wait: watch.may_wait,
                is_guest,
            }
            .encode();
            let content = Content::new(MessageKind::WATCH, &data);
            let sent = messaging.send(Instant::now(), notifyd, &content);
            if let Err(error) = sent {
                debug!("cannot send a watch to notifyd: {error}");
            }
            // A restarted notifyd is sent everything in any case.
            sent.is_err_and(|error| error != SendError::NoSuchProcess)
        });
    }
}
