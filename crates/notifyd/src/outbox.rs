//! Changes to send, by worker.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use dtyp::ServerId;
use messaging::{Changes, Content, MessageKind, Messaging, SendError};
use object::HostChange;
use tracing::debug;

/// Highest number of queued changes for one worker. Beyond it they are dropped, and its clients
/// must list their directories.
const CHANGES_MAX: usize = 8_192;

/// Changes to send, by worker.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: HashMap<ServerId, Vec<Waiting>>,
}

/// A change, and the time by which it had happened: see [`Changes::at`].
type Waiting = (Duration, HostChange);

impl Outbox {
    /// Queues a change for a worker, to be sent with the next [`Outbox::flush`].
    pub(super) fn push(&mut self, worker: ServerId, at: Duration, change: HostChange) {
        let waiting = self.waiting.entry(worker).or_default();
        waiting.push((at, change));
        if waiting.len() > CHANGES_MAX {
            forget(waiting);
        }
    }

    /// Sends the queued changes. Returns the workers that are gone. Changes for a worker without
    /// room are dropped, and the next flush tells it so.
    pub(super) fn flush(&mut self, messaging: &mut Messaging) -> Vec<ServerId> {
        let mut gone = Vec::new();
        self.waiting.retain(|worker, waiting| match send(messaging, *worker, waiting) {
            Ok(()) => false,
            Err(SendError::NoSuchProcess) => {
                gone.push(*worker);
                false
            }
            Err(error) => {
                debug!("changes for worker {} are dropped: {error}", worker.pid);
                forget(waiting);
                true
            }
        });
        gone
    }

    /// True if changes for some worker could not be sent.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

fn send(messaging: &mut Messaging, worker: ServerId, waiting: &[Waiting]) -> Result<(), SendError> {
    for together in waiting.chunk_by(|(at, _), (next, _)| at == next) {
        for some in together.chunks(Changes::LEN_MAX) {
            let (at, _) = some[0];
            let changes: Vec<_> = some.iter().map(|(_, change)| change.clone()).collect();
            let data = Changes::encode(at, &changes);
            let content = Content::new(MessageKind::NOTIFY, &data);
            messaging.send(Instant::now(), worker, &content)?;
        }
    }
    Ok(())
}

fn forget(waiting: &mut Vec<Waiting>) {
    let last = waiting.iter().map(|(at, _)| *at).max().unwrap_or_default();
    let missed = HostChange::missed_instead_of(waiting.iter().map(|(_, change)| change));
    *waiting = vec![(last, missed)];
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dtyp::ServerId;
    use object::{HostChange, HostChangeKind, ObjectPath};

    use super::{CHANGES_MAX, Outbox};

    #[test]
    fn more_changes_than_the_limit_become_one_that_sends_clients_to_look() {
        let worker = ServerId { pid: 1, unique_id: 2 };
        let added = HostChange {
            path: ObjectPath::from_stored("srv/f".to_owned(), None),
            is_directory: false,
            kind: HostChangeKind::Added,
        };
        let mut outbox = Outbox::default();
        let (early, late) = (Duration::from_secs(1), Duration::from_secs(2));
        for _ in 0..CHANGES_MAX {
            outbox.push(worker, early, added.clone());
        }
        assert_eq!(outbox.waiting[&worker].len(), CHANGES_MAX);
        outbox.push(worker, late, added);
        let directory = ObjectPath::from_stored("srv".to_owned(), None);
        assert_eq!(outbox.waiting[&worker], [(late, HostChange::missed(directory))]);
    }
}
