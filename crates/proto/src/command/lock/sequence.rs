//! Lock sequences: how a LOCK that is sent twice is known for one. [MS-SMB2] 3.3.1.10.

use wire::Dialect;
use wire::lock::LockRequest;

/// Entries of `Open.LockSequenceArray`.
const ENTRIES: usize = 64;

/// `Open.LockSequenceArray`: the sequence number of the last LOCK that succeeded, by index.
///
/// [MS-SMB2] 3.3.5.14 keeps it for durable opens, and for all of a server with multichannel; it
/// costs nothing to keep it for all of every server, so that no client locks twice.
#[derive(Clone, Debug, Default)]
pub struct LockSequences(Option<Box<[Option<u8>; ENTRIES]>>);

/// Where a request stands in the array, and its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockSequence {
    index: usize,
    number: u8,
}

impl LockSequence {
    /// The sequence of a request, if it takes part: 2.0.2 has none, and neither has index 0.
    pub(super) fn of(request: &LockRequest<'_>, dialect: Dialect) -> Option<Self> {
        if dialect < Dialect::SMB_2_1 {
            return None;
        }
        let index = usize::try_from(request.lock_sequence_index()).ok()?.checked_sub(1)?;
        let number = u8::try_from(request.lock_sequence_number()).expect("it has four bits");
        (index < ENTRIES).then_some(Self { index, number })
    }
}

impl LockSequences {
    /// Whether this very request has succeeded before. If it has not, the entry is free again.
    pub(super) fn is_repetition(&mut self, sequence: Option<LockSequence>) -> bool {
        let (Some(array), Some(sequence)) = (&mut self.0, sequence) else { return false };
        let entry = &mut array[sequence.index];
        if *entry == Some(sequence.number) {
            return true;
        }
        *entry = None;
        false
    }

    /// Remembers a request that succeeded.
    pub(super) fn remember(&mut self, sequence: Option<LockSequence>) {
        let Some(sequence) = sequence else { return };
        let array = self.0.get_or_insert_with(|| Box::new([None; ENTRIES]));
        array[sequence.index] = Some(sequence.number);
    }
}
