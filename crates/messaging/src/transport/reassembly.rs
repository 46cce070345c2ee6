//! Reassembly of frames from several packets.

use std::borrow::Cow;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use dtyp::ServerId;
use zeroize::Zeroizing;

use super::packet::Entry;
use crate::transport::{FRAME_BYTES_MAX, Frame};

/// Incomplete frames, at most one of each sender.
///
/// A sender sends frames one after the other, so the first part of the next frame means that the
/// rest of an incomplete one never comes.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    partials: HashMap<ServerId, Partial>,
    /// Bytes of all incomplete frames.
    bytes: usize,
}

/// A frame whose last part has not arrived.
#[derive(Debug)]
struct Partial {
    message_id: u64,
    total: usize,
    /// Possibly of a key, so erased if the rest does not come.
    bytes: Zeroizing<Vec<u8>>,
    descriptors: Vec<OwnedFd>,
    /// Time at which it is dropped, unless more arrives.
    deadline: Instant,
}

/// A frame or a part of one, as received.
#[derive(Debug)]
pub(super) struct Fragment<'a> {
    pub(super) sender: ServerId,
    pub(super) entry: Entry,
    pub(super) bytes: Cow<'a, [u8]>,
    /// Descriptors that came with its packet.
    pub(super) descriptors: Vec<OwnedFd>,
}

/// State of a frame after a part was added.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The frame is complete, and taken out.
    Whole(Frame),
    /// More parts of it are missing.
    More,
    /// The part belongs to no frame that is kept; its sender's incomplete frame is dropped.
    Refused,
}

impl Reassembly {
    /// Adds a part. `incomplete` counts frames that are dropped by that.
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
                let bytes = Zeroizing::default();
                Partial { message_id, total, bytes, descriptors, deadline: now }
            }
        };
        if fragment.len() == total {
            let Partial { descriptors, .. } = partial;
            let bytes = fragment.into_owned();
            return Outcome::Whole(Frame { sender, bytes, descriptors });
        }
        let bytes = self.bytes + partial.bytes.len() + fragment.len();
        if self.partials.len() >= PARTIALS_MAX || bytes > PARTIAL_BYTES_MAX {
            *incomplete += 1;
            return Outcome::Refused;
        }
        if partial.bytes.capacity() < partial.bytes.len() + fragment.len() {
            // Allocate for the whole frame, unless that is far more than has arrived.
            let missing = total - partial.bytes.len();
            let arrived = partial.bytes.len() + fragment.len();
            partial.bytes.reserve_exact(missing.min(GROWTH * arrived));
        }
        partial.bytes.extend_from_slice(&fragment);
        if partial.bytes.len() == total {
            let Partial { mut bytes, descriptors, .. } = partial;
            let bytes = std::mem::take(&mut *bytes);
            return Outcome::Whole(Frame { sender, bytes, descriptors });
        }
        partial.deadline = now + PARTIAL_TIMEOUT;
        self.bytes += partial.bytes.len();
        self.partials.insert(sender, partial);
        Outcome::More
    }

    /// Drops frames without a new part for too long, and returns their number.
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

    /// Time at which [`Reassembly::expire`] has work.
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

/// Highest number of incomplete frames; each is of another process.
pub(super) const PARTIALS_MAX: usize = 256;

/// Highest number of bytes of all incomplete frames: four of the largest size.
pub(super) const PARTIAL_BYTES_MAX: usize = 4 * FRAME_BYTES_MAX;

/// Factor between the bytes received of a frame and those allocated for it.
const GROWTH: usize = 3;

/// Longest time until the next part. The sender sends it as soon as there is room, so this bounds
/// how long a sender may be stopped.
pub(super) const PARTIAL_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
