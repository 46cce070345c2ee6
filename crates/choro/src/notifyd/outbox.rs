//! What waits to be told, by worker.

use std::collections::HashMap;
use std::time::Instant;

use dtyp::ServerId;
use messaging::{Changes, Content, MessageKind, Messaging, SendError};
use object::{HostChange, ObjectPath};
use tracing::debug;

/// Changes that wait for one worker. Beyond it they are forgotten, and its clients have to look.
const CHANGES_MAX: usize = 8_192;

/// What waits to be told, by worker.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: HashMap<ServerId, Vec<HostChange>>,
}

impl Outbox {
    /// Tells a worker of a change, with the next [`Outbox::flush`].
    pub(super) fn push(&mut self, worker: ServerId, change: HostChange) {
        let waiting = self.waiting.entry(worker).or_default();
        if waiting.len() < CHANGES_MAX {
            waiting.push(change);
        } else {
            forget(waiting);
        }
    }

    /// Sends what waits; the workers that are gone. What a worker has no room for is forgotten, and
    /// that it was so is told with the next flush.
    pub(super) fn flush(&mut self, messaging: &mut Messaging) -> Vec<ServerId> {
        let mut gone = Vec::new();
        self.waiting.retain(|worker, waiting| match send(messaging, *worker, waiting) {
            Ok(()) => false,
            Err(SendError::NoSuchProcess) => {
                gone.push(*worker);
                false
            }
            Err(error) => {
                debug!("changes for {worker:?} are forgotten: {error}");
                forget(waiting);
                true
            }
        });
        gone
    }

    /// Whether something was not sent.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

fn send(
    messaging: &mut Messaging,
    worker: ServerId,
    changes: &[HostChange],
) -> Result<(), SendError> {
    for changes in changes.chunks(Changes::LEN_MAX) {
        let data = Changes::encode(changes);
        let content = Content::new(MessageKind::NOTIFY, &data);
        messaging.send(Instant::now(), worker, &content)?;
    }
    Ok(())
}

fn forget(changes: &mut Vec<HostChange>) {
    *changes = vec![HostChange::uncounted(ObjectPath::root())];
}

#[cfg(test)]
mod tests {
    use dtyp::ServerId;
    use object::{HostChange, HostChangeKind, ObjectPath};

    use super::{CHANGES_MAX, Outbox};

    #[test]
    fn more_changes_than_the_limit_become_one_that_sends_clients_to_look() {
        let worker = ServerId { pid: 1, unique_id: 2 };
        let added = HostChange {
            path: ObjectPath::from_stored("f".to_owned(), None),
            is_directory: false,
            kind: HostChangeKind::Added,
        };
        let mut outbox = Outbox::default();
        for _ in 0..CHANGES_MAX {
            outbox.push(worker, added.clone());
        }
        assert_eq!(outbox.waiting[&worker].len(), CHANGES_MAX);
        outbox.push(worker, added);
        assert_eq!(outbox.waiting[&worker], [HostChange::uncounted(ObjectPath::root())]);
    }
}
