//! Changes of a file's record that concern this worker.

use std::sync::Arc;

use arbitration::{Caching, FileKey};
use model::caching::lease_name;
use model::open::Open;
use object::{ObjectOp, ObjectPath};

use crate::effect::{ByClose, Effect};
use crate::server::Server;
use crate::watches;

/// An open of this worker, as a file's record describes it.
struct OwnOpen {
    volatile: u64,
    path: String,
    link: u64,
    caching: Caching,
}

impl Server {
    /// Handles a change of a file's record: sends breaks to clients, closes and deletes, and wakes
    /// waiting requests.
    pub(crate) fn check_file(&mut self, file: FileKey) {
        let opens = &self.opens;
        // A client gets no break for an open that it does not know yet.
        let knows = |volatile| {
            let open: Option<&Open> = opens.get(&volatile);
            open.is_none_or(|it| it.file().is_ok_and(|file| !file.is_being_made))
        };
        let files = &mut self.globals.files;
        let (own, now) = (files.worker(), files.now());
        let seen = files.change(file, |record, notify| {
            let expired = record.expire(now, notify);
            let outgoing = record.take_notices(own, knows);
            let evicted: Vec<u64> = record
                .opens
                .iter()
                .filter(|it| it.id.worker == own && it.evicted)
                .map(|it| it.id.number)
                .collect();
            let own_opens = record.opens.iter().filter(|it| it.id.worker == own);
            let own_opens: Vec<OwnOpen> = own_opens
                .map(|it| OwnOpen {
                    volatile: it.id.number,
                    path: it.facts.path.clone(),
                    link: it.facts.link,
                    caching: record.cache_of(it).state,
                })
                .collect();
            let inherited = record.take_delegated(own);
            let changed = expired || !outgoing.is_empty() || !inherited.is_empty();
            ((outgoing, evicted, own_opens, inherited, record.next_deadline()), changed)
        });
        let waiting = files.take_waiting(file);
        self.globals.outbox.requests_to_wake.extend(waiting);
        // A record that cannot be read has no breaks to send; waiting requests run into the error
        // themselves.
        let Ok((outgoing, evicted, own_opens, inherited, deadline)) = seen else { return };
        self.globals.files.set_deadline(file, deadline);
        for outgoing in outgoing {
            self.notify_of_break(&outgoing);
        }
        for OwnOpen { volatile, path, link, caching } in own_opens {
            self.follow_rename(volatile, &path, link);
            self.follow_caching(volatile, caching);
        }
        for volatile in evicted {
            if let Some(open) = self.opens.remove(&volatile) {
                self.globals.close_for_server(open);
            }
        }
        for deleter in inherited {
            self.globals.remove(file, deleter, ByClose::Nothing);
        }
    }

    /// Adapts an open to the rights to cache that breaks have left.
    fn follow_caching(&mut self, volatile: u64, caching: Caching) {
        let Some(open) = self.opens.get_mut(&volatile) else { return };
        open.note_caching(caching);
        if !caching.contains(Caching::WRITE) {
            self.globals.end_kernel_lease(open);
        }
    }

    /// Gives an open the new name of its file, after a rename by another worker.
    fn follow_rename(&mut self, volatile: u64, path: &str, link: u64) {
        let Some(open) = self.opens.get_mut(&volatile) else { return };
        let (user, share) = (open.user, Arc::clone(&open.share));
        let Ok(file) = open.file_mut() else { return };
        file.link = link;
        if file.path.to_windows() == path {
            return;
        }
        let is_posix = file.path.is_posix();
        let stored = if is_posix { Some(path) } else { path.split(':').next() };
        let stored = stored.unwrap_or_default().replace('\\', "/");
        let path = ObjectPath::from_stored(stored, file.path.stream().map(str::to_owned));
        file.path = path.meant_as(&file.path);
        if let Some(lease) = file.lease {
            self.globals.files.rename_lease(lease, lease_name(&share, &file.path));
        }
        let op = ObjectOp::Relocate { open: file.local_open, path: file.path.clone().into() };
        self.globals.outbox.effects.push_back((None, Effect::Object { user, op }));
        watches::follow(self, volatile);
    }
}
