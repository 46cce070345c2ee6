//! Data of the messages between workers and `notifyd` about watches and changes.
//!
//! A path is its length in bytes (4 bytes), its bytes, and the stream in the same form, with a
//! length of [`NO_STREAM`] if it has none.

use std::time::Duration;

use object::{FileIdentity, HostChange, HostChangeKind, ObjectPath};

/// The data of [`crate::MessageKind::WATCH`].
///
/// Replaces an earlier watch of the same open.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Watch {
    /// Id of the open at the sender.
    pub open: u64,
    /// The directory, from the root of the host's file system.
    pub path: ObjectPath,
    /// Device and inode of the directory, since its path may lead elsewhere by now.
    pub identity: FileIdentity,
    /// True if changes in deeper directories count, too.
    pub recursive: bool,
    /// Kinds of changes that count: [MS-SMB2] 2.2.35 CompletionFilter.
    pub filter: u32,
    /// True if changes by other programs of this host count.
    pub kernel: bool,
    /// True if the file system of the directory may wait long.
    pub may_wait: bool,
    /// True if no user has logged on to the sender: its client is a guest or anonymous.
    pub is_guest: bool,
}

impl Watch {
    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut data = self.open.to_le_bytes().to_vec();
        data.extend_from_slice(&self.filter.to_le_bytes());
        let flags = [self.recursive, self.kernel, self.may_wait, self.is_guest];
        data.push(flags.iter().rev().fold(0, |flags, flag| flags << 1 | u8::from(*flag)));
        data.extend_from_slice(&self.identity.device.to_le_bytes());
        data.extend_from_slice(&self.identity.inode.to_le_bytes());
        put_path(&mut data, &self.path);
        data
    }

    /// Reads the data; `None` unless it is complete.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        let mut data = data;
        let open = u64::from_le_bytes(take(&mut data)?);
        let filter = u32::from_le_bytes(take(&mut data)?);
        let [flags] = take(&mut data)?;
        let device = u64::from_le_bytes(take(&mut data)?);
        let inode = u64::from_le_bytes(take(&mut data)?);
        let identity = FileIdentity { device, inode, ..FileIdentity::default() };
        let path = take_path(&mut data)?;
        let recursive = flags & 1 != 0;
        let kernel = flags & 2 != 0;
        let may_wait = flags & 4 != 0;
        let is_guest = flags & 8 != 0;
        let watch = Self { open, path, identity, recursive, filter, kernel, may_wait, is_guest };
        (data.is_empty() && flags < 16).then_some(watch)
    }
}

/// The data of [`crate::MessageKind::UNWATCH`]: 8 bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unwatch {
    /// Id of the open at the sender.
    pub open: u64,
}

impl Unwatch {
    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.open.to_le_bytes().to_vec()
    }

    /// Reads the data; `None` unless it is complete.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        let open = u64::from_le_bytes(data.try_into().ok()?);
        Some(Self { open })
    }
}

/// The data of [`crate::MessageKind::CHANGED`] and [`crate::MessageKind::NOTIFY`].
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Changes {
    /// Time after the changes and before any notice of them, by the machine's monotonic clock. They
    /// do not concern a watch that began later, even if they arrive after it.
    pub at: Duration,
    /// Changes in the order of their occurrence.
    pub changes: Vec<HostChange>,
}

impl Changes {
    /// Highest number of changes in a message.
    pub const LEN_MAX: usize = 1_024;

    /// Returns the data of the message.
    #[must_use]
    pub fn encode(at: Duration, changes: &[HostChange]) -> Vec<u8> {
        let nanoseconds = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        let mut data = nanoseconds.to_le_bytes().to_vec();
        for change in changes {
            put_change(&mut data, change);
        }
        data
    }

    /// Reads the data; `None` unless it is complete.
    #[must_use]
    pub fn decode(mut data: &[u8]) -> Option<Self> {
        let at = Duration::from_nanos(u64::from_le_bytes(take(&mut data)?));
        let mut changes = Vec::new();
        while !data.is_empty() {
            if changes.len() >= Self::LEN_MAX {
                return None;
            }
            changes.push(take_change(&mut data)?);
        }
        Some(Self { at, changes })
    }
}

fn put_change(data: &mut Vec<u8>, change: &HostChange) {
    let kind = match change.kind {
        HostChangeKind::Added => ADDED,
        HostChangeKind::DeletePending(_) => DELETE_PENDING,
        HostChangeKind::Modified(_) => MODIFIED,
        HostChangeKind::Removed => REMOVED,
        HostChangeKind::Renamed { .. } => RENAMED,
        HostChangeKind::Missed => MISSED,
    };
    data.extend_from_slice(&[kind, u8::from(change.is_directory)]);
    put_path(data, &change.path);
    match &change.kind {
        HostChangeKind::DeletePending(FileIdentity { device, inode, .. }) => {
            data.extend_from_slice(&device.to_le_bytes());
            data.extend_from_slice(&inode.to_le_bytes());
        }
        HostChangeKind::Modified(filter) => data.extend_from_slice(&filter.to_le_bytes()),
        HostChangeKind::Renamed { to } => put_path(data, to),
        HostChangeKind::Added | HostChangeKind::Removed | HostChangeKind::Missed => {}
    }
}

fn take_change(data: &mut &[u8]) -> Option<HostChange> {
    let [kind, is_directory] = take(data)?;
    let path = take_path(data)?;
    let kind = match kind {
        ADDED => HostChangeKind::Added,
        DELETE_PENDING => {
            let device = u64::from_le_bytes(take(data)?);
            let inode = u64::from_le_bytes(take(data)?);
            HostChangeKind::DeletePending(FileIdentity { device, inode, ..FileIdentity::default() })
        }
        MODIFIED => HostChangeKind::Modified(u32::from_le_bytes(take(data)?)),
        REMOVED => HostChangeKind::Removed,
        RENAMED => HostChangeKind::Renamed { to: take_path(data)? },
        MISSED => HostChangeKind::Missed,
        _ => return None,
    };
    Some(HostChange { path, is_directory: is_directory != 0, kind })
}

fn put_path(data: &mut Vec<u8>, path: &ObjectPath) {
    put_text(data, path.as_str());
    match path.stream() {
        Some(stream) => put_text(data, stream),
        None => data.extend_from_slice(&NO_STREAM.to_le_bytes()),
    }
}

fn put_text(data: &mut Vec<u8>, text: &str) {
    let len = u32::try_from(text.len()).expect("paths are bounded");
    data.extend_from_slice(&len.to_le_bytes());
    data.extend_from_slice(text.as_bytes());
}

fn take_path(data: &mut &[u8]) -> Option<ObjectPath> {
    let path = take_text(data)??;
    let stream = take_text(data)?;
    Some(ObjectPath::from_stored(path, stream))
}

/// Takes a text; `Some(None)` stands for an absent one.
#[expect(clippy::option_option, reason = "the outer one is the result of all readers here")]
fn take_text(data: &mut &[u8]) -> Option<Option<String>> {
    let len = u32::from_le_bytes(take(data)?);
    if len == NO_STREAM {
        return Some(None);
    }
    let len = usize::try_from(len).ok().filter(|len| *len <= PATH_BYTES_MAX)?;
    let (text, rest) = data.split_at_checked(len)?;
    *data = rest;
    Some(Some(std::str::from_utf8(text).ok()?.to_owned()))
}

fn take<const N: usize>(data: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = data.split_first_chunk()?;
    *data = rest;
    Some(*bytes)
}

/// Length that marks an absent text.
const NO_STREAM: u32 = u32::MAX;

/// Highest number of bytes of a path: a share's folder, and three bytes for each unit of a path in
/// it.
const PATH_BYTES_MAX: usize = 4_096 + 3 * ObjectPath::PATH_UNITS_MAX;

const ADDED: u8 = 1;
const DELETE_PENDING: u8 = 2;
const MODIFIED: u8 = 3;
const REMOVED: u8 = 4;
const RENAMED: u8 = 5;
const MISSED: u8 = 6;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use object::{FileIdentity, HostChange, HostChangeKind, ObjectPath};

    use super::{Changes, Unwatch, Watch};

    /// Bytes of the time field before the changes.
    const AT_LEN: usize = 8;

    /// Decodes a message from the bytes of its changes.
    fn decode(changes: &[u8]) -> Option<Changes> {
        Changes::decode(&[&[0; AT_LEN], changes].concat())
    }

    fn path(path: &str, stream: Option<&str>) -> ObjectPath {
        ObjectPath::from_stored(path.to_owned(), stream.map(str::to_owned))
    }

    #[test]
    fn watches_round_trip_and_every_other_length_is_refused() {
        for flags in 0..16 {
            let [recursive, kernel, may_wait, is_guest] = [1, 2, 4, 8].map(|bit| flags & bit != 0);
            let identity = FileIdentity { device: 8, inode: 9, ..FileIdentity::default() };
            let path = path("srv/ä", None);
            let (open, filter) = (7, 0x17);
            let watch =
                Watch { open, path, identity, recursive, filter, kernel, may_wait, is_guest };
            let mut data = watch.encode();
            assert_eq!(Watch::decode(&data), Some(watch));
            for len in 0..data.len() {
                assert_eq!(Watch::decode(&data[..len]), None);
            }
            data.push(0);
            assert_eq!(Watch::decode(&data), None);
        }
        let unwatch = Unwatch { open: 7 };
        assert_eq!(Unwatch::decode(&unwatch.encode()), Some(unwatch));
        assert_eq!(Unwatch::decode(&[0; 7]), None);
    }

    #[test]
    fn changes_round_trip_and_cut_ones_are_refused() {
        let kinds = [
            HostChangeKind::Added,
            HostChangeKind::DeletePending(FileIdentity {
                device: 1,
                inode: 2,
                ..FileIdentity::default()
            }),
            HostChangeKind::Modified(0x18),
            HostChangeKind::Removed,
            HostChangeKind::Renamed { to: path("b", Some("")) },
            HostChangeKind::Missed,
        ];
        for kind in kinds {
            for is_directory in [false, true] {
                let path = path("srv/f", Some("stream"));
                let change = HostChange { path, is_directory, kind: kind.clone() };
                let at = Duration::from_nanos(7);
                let changes = vec![change.clone(), change];
                let data = Changes::encode(at, &changes);
                assert_eq!(Changes::decode(&data), Some(Changes { at, changes }));
                let ends = [AT_LEN, AT_LEN.midpoint(data.len())];
                for len in (0..data.len()).filter(|len| !ends.contains(len)) {
                    assert_eq!(Changes::decode(&data[..len]), None, "{len}");
                }
            }
        }
    }

    #[test]
    fn rubbish_is_refused() {
        assert_eq!(decode(&[]), Some(Changes::default()));
        assert_eq!(decode(&[9, 0, 0, 0, 0, 0, 255, 255, 255, 255]), None);
        let no_path = [1, 0, 255, 255, 255, 255, 255, 255, 255, 255];
        assert_eq!(decode(&no_path), None);
        let not_utf8 = [1, 0, 1, 0, 0, 0, 0xff, 255, 255, 255, 255];
        assert_eq!(decode(&not_utf8), None);
        let too_long = [1, 0, 255, 255, 255, 127];
        assert_eq!(decode(&too_long), None);
        let change = HostChange::missed(path("a", None));
        let most = vec![change.clone(); Changes::LEN_MAX];
        let at = Duration::ZERO;
        assert!(Changes::decode(&Changes::encode(at, &most)).is_some());
        let too_many = [&most[..], &[change]].concat();
        assert_eq!(Changes::decode(&Changes::encode(at, &too_many)), None);
    }
}
