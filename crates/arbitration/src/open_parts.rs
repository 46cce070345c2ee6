//! Parts of a file's opens that one client, one user and all guests may have.
//!
//! Each change of a record reads and writes all opens of the file, and others wait for that. So
//! nobody has so many that the file is slow for others, or full.

use std::iter;

use crate::admission::AdmissionRequest;
use crate::file_record::{FILE_BYTES_MAX, FILE_OPENS_MAX, FileRecord};
use crate::open::{Durability, OpenEntry, OpenFacts};
use crate::standing::Standing;

/// Number of equal parts of the opens left by other clients; a client may have one part: 1,024
/// opens of an otherwise unused file.
const OPEN_PARTS: usize = 16;

/// The same of those left by other users, of which all clients of a user together may have one, and
/// all guests: what two clients take.
const USER_OPEN_PARTS: usize = 8;

/// Opens of a file that each client may have, although all clients of its user together, or all
/// guests, have their part: more than a client at rest has of a folder. So one account serves as
/// many machines as there are clients.
const CLIENT_OPENS_MIN: usize = 8;

/// Bytes of an open in a record beside its path: more than most have.
const OPEN_BYTES: usize = 256;

/// Opens of a file, and the bytes that they take in its record.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    opens: usize,
    bytes: usize,
}

impl Places {
    fn add(&mut self, bytes: usize) {
        self.opens += 1;
        self.bytes += bytes;
    }
}

/// Places of a file, by those who have them.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    /// Those of the requesting client.
    client: Places,
    /// Those of all other clients.
    other_clients: Places,
    /// Those of all clients of the requesting user.
    user: Places,
    /// Those of all other users.
    other_users: Places,
}

impl FileRecord {
    /// True if the client may have one more open of the file, by their number and by the bytes that
    /// they take in the record, and all clients of its user together, too. Each of them has few all
    /// the same. A client is identified by its worker, since anybody can send the ClientGuid of
    /// another client.
    pub(crate) fn permits_open(&self, request: &AdmissionRequest) -> bool {
        let taken = self.taken(request);
        let wanted = bytes_of(&request.facts, self.opens.last().map(|it| &it.facts));
        let permits = |standing: Standing, parts: usize, others: Places, own: Places| {
            let (opens, bytes) = ((others.opens, own.opens, 1), (others.bytes, own.bytes, wanted));
            standing.permits((FILE_OPENS_MAX, parts), opens)
                && standing.permits((FILE_BYTES_MAX, parts), bytes)
        };
        // All guests together are as one user.
        let permits_user =
            || permits(Standing::User, USER_OPEN_PARTS, taken.other_users, taken.user);
        permits(request.standing, OPEN_PARTS, taken.other_clients, taken.client)
            && (taken.client.opens < CLIENT_OPENS_MIN || permits_user())
    }

    /// Counts the opens of the file. Disconnected durable opens of others do not count: they are
    /// removed once the file is full.
    fn taken(&self, request: &AdmissionRequest) -> Taken {
        let mut taken = Taken::default();
        let before = iter::once(None).chain(self.opens.iter().map(|it| Some(&it.facts)));
        for (open, before) in self.opens.iter().zip(before) {
            let bytes = bytes_of_open(open, before);
            match (open.id.worker == request.id.worker, open.excludes()) {
                (true, _) => taken.client.add(bytes),
                (false, true) => taken.other_clients.add(bytes),
                (false, false) => {}
            }
            match (open.facts.user == request.facts.user, open.excludes()) {
                (true, _) => taken.user.add(bytes),
                (false, true) => taken.other_users.add(bytes),
                (false, false) => {}
            }
        }
        taken
    }

    /// Bytes that the opens take in the record, about.
    pub(crate) fn bytes_of_opens(&self) -> usize {
        let before = iter::once(None).chain(self.opens.iter().map(|it| Some(&it.facts)));
        self.opens.iter().zip(before).map(|(it, before)| bytes_of_open(it, before)).sum()
    }
}

/// Returns the bytes that an open behind another takes in a record, about: a path that is the same
/// is kept once.
fn bytes_of(facts: &OpenFacts, before: Option<&OpenFacts>) -> usize {
    match before.is_some_and(|it| it.has_path_of(facts)) {
        true => OPEN_BYTES,
        false => {
            let on_disk = facts.path_on_disk.as_ref().map_or(0, String::len);
            OPEN_BYTES + facts.share.len() + facts.folder.len() + facts.path.len() + on_disk
        }
    }
}

/// Returns the bytes that an open of a record takes in it, about.
fn bytes_of_open(open: &OpenEntry, before: Option<&OpenFacts>) -> usize {
    let of_durability = |it: &Durability| it.owner.len() + 2 * it.lock_sequences.as_slice().len();
    bytes_of(&open.facts, before) + open.durability.as_ref().map_or(0, of_durability)
}
