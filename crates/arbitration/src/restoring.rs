//! Persistent opens across a restart of the server: their form on stable storage, and their
//! restoration.

use std::time::Duration;

use dtyp::ServerId;

use crate::caching::{Cache, Caching};
use crate::deletion::PendingDeletion;
use crate::file_record::{FILE_OPENS_MAX, FileRecord};
use crate::open::{Holding, OpenEntry, OpenId};

impl FileRecord {
    /// Returns the state that survives the server, one record for each persistent open: the open,
    /// its lease and its locks, without anything specific to this run.
    ///
    /// Rights in the course of a break count as removed: the requester is gone by the restart, and
    /// the holder may not have been notified.
    #[must_use]
    pub fn persistent_parts(&self) -> Vec<(u64, Self)> {
        let persistent = self.opens.iter().filter(|it| it.is_persistent());
        persistent.map(|entry| (entry.facts.persistent, self.part_of(entry))).collect()
    }

    fn part_of(&self, entry: &OpenEntry) -> Self {
        let mut part = entry.clone();
        part.id = id_of_restored(entry);
        part.evicted = false;
        part.facts.session_id = 0;
        part.facts.tree_id = 0;
        if let Some(durability) = &mut part.durability {
            durability.expires_at = None;
        }
        let mut leases = Vec::new();
        match &mut part.holding {
            Holding::Nothing => {}
            Holding::Oplock(cache) => *cache = settled(*cache),
            Holding::Lease(id) => leases.extend(self.lease(*id).copied()),
        }
        leases.iter_mut().for_each(|lease| lease.cache = settled(lease.cache));
        let own = self.locks.iter().filter(|lock| lock.open == entry.id);
        let locks = own.map(|lock| crate::ByteRangeLock { open: part.id, ..*lock }).collect();
        let own = |it: &PendingDeletion| it.mark == entry.mark() || it.mark == entry.facts.link;
        let delete_pending = self.delete_pending.iter().filter(|it| own(it)).cloned().collect();
        Self { opens: vec![part], leases, locks, delete_pending, ..Self::default() }
    }

    /// Restores opens from [`FileRecord::persistent_parts`]. They wait for their clients for the
    /// full timeout.
    pub fn restore(&mut self, part: Self, now: Duration) {
        for mut entry in part.opens {
            let Some(durability) = &mut entry.durability else { continue };
            if self.opens.len() >= FILE_OPENS_MAX || self.open(entry.id).is_some() {
                continue;
            }
            durability.expires_at = Some(now + durability.timeout);
            self.opens.push(entry);
        }
        for lease in part.leases {
            self.add_lease(lease);
        }
        self.locks.restore(&part.locks);
        for pending in part.delete_pending {
            self.mark_pending(pending);
        }
        self.forget_unused_leases();
        self.agree();
    }

    /// Resolves contradictions between parts saved at different times: among several holders, none
    /// keeps rights that it could only have alone.
    fn agree(&mut self) {
        let mut holders: Vec<_> = self.opens.iter().map(holder).collect();
        holders.sort_unstable();
        holders.dedup();
        let is_shared = |stream: u64| holders.iter().filter(|(it, ..)| *it == stream).count() > 1;
        for lease in self.leases.iter_mut().filter(|it| is_shared(it.stream)) {
            lease.cache.state -= Caching::WRITE;
        }
        for entry in self.opens.iter_mut().filter(|it| is_shared(it.stream)) {
            if let Holding::Oplock(cache) = &mut entry.holding {
                cache.state &= Caching::READ;
            }
        }
    }
}

/// Returns an id without a worker, valid until the client reconnects.
fn id_of_restored(entry: &OpenEntry) -> OpenId {
    OpenId { worker: ServerId::default(), number: entry.facts.persistent }
}

fn settled(cache: Cache) -> Cache {
    let state = cache.breaking.map_or(cache.state, |it| it.required & cache.state);
    Cache::granted(state)
}

/// Returns one key for all opens of a lease.
fn holder(entry: &OpenEntry) -> (u64, Option<crate::LeaseId>, Option<OpenId>) {
    match entry.holding {
        Holding::Lease(id) => (entry.stream, Some(id), None),
        _ => (entry.stream, None, Some(entry.id)),
    }
}

#[cfg(test)]
mod tests;
