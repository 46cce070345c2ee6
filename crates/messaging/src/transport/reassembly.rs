//! Frames of which more is to come.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use dtyp::ServerId;

use super::packet::Entry;
use crate::transport::{FRAME_BYTES_MAX, Frame};

/// Frames of which more is to come: at most one of each sender.
///
/// A sender sends one frame after the other, so the first fragment of the next says that the rest
/// of the one before never comes.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    partials: HashMap<ServerId, Partial>,
    /// Bytes of all of them.
    bytes: usize,
}

/// A frame of which more is to come.
#[derive(Debug)]
struct Partial {
    message_id: u64,
    total: usize,
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
    /// When it is given up, unless more comes.
    deadline: Instant,
}

/// A frame or a part of one, as it came.
#[derive(Debug)]
pub(super) struct Fragment<'a> {
    pub(super) sender: ServerId,
    pub(super) entry: Entry,
    pub(super) bytes: &'a [u8],
    /// Those that came with its packet.
    pub(super) descriptors: Vec<OwnedFd>,
}

/// What a fragment made of its frame.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is whole.
    Whole(Frame),
    /// More is to come.
    More,
    /// It belongs to no frame that is kept; the frame, if it was, is given up.
    Refused,
}

impl Reassembly {
    /// Adds a fragment. `incomplete` counts frames that are given up by that.
    pub(super) fn add(
        &mut self,
        now: Instant,
        fragment: Fragment<'_>,
        incomplete: &mut u64,
    ) -> Outcome {
        let Fragment { sender, entry, bytes: fragment, descriptors } = fragment;
        let total = entry.total as usize;
        let partial = self.take(sender);
        let mut partial = match partial {
            Some(partial)
                if partial.message_id == entry.message_id
                    && partial.total == total
                    && partial.bytes.len() == entry.offset as usize
                    && descriptors.is_empty() =>
            {
                partial
            }
            other => {
                *incomplete += u64::from(other.is_some());
                if entry.offset != 0 || total > FRAME_BYTES_MAX {
                    return Outcome::Refused;
                }
                let message_id = entry.message_id;
                Partial { message_id, total, bytes: Vec::new(), descriptors, deadline: now }
            }
        };
        if fragment.len() == total {
            let Partial { descriptors, .. } = partial;
            let bytes = fragment.to_vec();
            return Outcome::Whole(Frame { sender, bytes, descriptors });
        }
        let bytes = self.bytes + partial.bytes.len() + fragment.len();
        if self.partials.len() >= PARTIALS_MAX || bytes > PARTIAL_BYTES_MAX {
            *incomplete += 1;
            return Outcome::Refused;
        }
        if partial.bytes.capacity() < partial.bytes.len() + fragment.len() {
            // As much as there is to be, if that is not much more than has come.
            let missing = total - partial.bytes.len();
            partial
                .bytes
                .reserve_exact(missing.min(GROWTH * (partial.bytes.len() + fragment.len())));
        }
        partial.bytes.extend_from_slice(fragment);
        if partial.bytes.len() == total {
            let Partial { bytes, descriptors, .. } = partial;
            return Outcome::Whole(Frame { sender, bytes, descriptors });
        }
        partial.deadline = now + PARTIAL_TIMEOUT;
        self.bytes += partial.bytes.len();
        self.partials.insert(sender, partial);
        Outcome::More
    }

    /// Gives up frames of which nothing has come for too long; how many.
    pub(super) fn expire(&mut self, now: Instant) -> u64 {
        if self.partials.is_empty() {
            return 0;
        }
        let before = self.partials.len();
        let bytes = &mut self.bytes;
        self.partials.retain(|_, partial| {
            let keep = partial.deadline > now;
            *bytes -= if keep { 0 } else { partial.bytes.len() };
            keep
        });
        (before - self.partials.len()) as u64
    }

    /// When [`Reassembly::expire`] has something to do.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.partials.values().map(|partial| partial.deadline).min()
    }

    fn take(&mut self, sender: ServerId) -> Option<Partial> {
        if self.partials.is_empty() {
            return None;
        }
        let partial = self.partials.remove(&sender)?;
        self.bytes -= partial.bytes.len();
        Some(partial)
    }
}

/// Frames of which more may be to come at once; each is of another process.
pub(super) const PARTIALS_MAX: usize = 256;

/// Bytes of frames of which more is to come, of all senders. Four frames of the largest size.
pub(super) const PARTIAL_BYTES_MAX: usize = 4 * FRAME_BYTES_MAX;

/// How many times what has come of a frame is allocated for what is to come.
const GROWTH: usize = 3;

/// How long the next fragment may take. The sender sends it as soon as there is room, so this is
/// how long the sender may be held up.
pub(super) const PARTIAL_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
