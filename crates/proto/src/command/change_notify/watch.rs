//! What an open keeps of the changes in its directory.

use std::time::Duration;

use dtyp::NtStatus;
use object::{HostChange, HostChangeKind, ObjectPath};
use wire::change_notify::{
    ChangeNotifyResponse, CompletionFilter, NotifyAction, NotifyInformation, NotifyInformationList,
};

use crate::memory_account::{Charge, MemoryAccount};
use crate::reject::Reject;
use crate::response::Response;

/// Bytes that a watch keeps at most, however much its first request asks for: as much as a client
/// gets for one credit.
pub(super) const BYTES_MAX: usize = 65_536;

/// Bytes of a watch without its directory's path and its changes: itself, and its place in the tables of
/// whoever sees the changes.
const WATCH_BYTES: usize = size_of::<Watch>() + 1_024;

/// The changes in a directory that no CHANGE_NOTIFY has told yet.
///
/// Filter, depth and size are those of the first request on the open, as in Windows; the later
/// requests' are not looked at.
#[derive(Debug)]
pub struct Watch {
    pub(super) filter: CompletionFilter,
    pub(super) recursive: bool,
    /// The directory, from the root of the host's file system.
    pub(super) directory: ObjectPath,
    /// The directory is gone, or goes when its last open is closed.
    pub(super) is_doomed: bool,
    /// When others knew of it: changes that had happened by then are not told.
    pub(super) begun_at: Option<Duration>,
    bytes_max: usize,
    /// Bytes that `events` have when they travel.
    bytes: usize,
    events: Vec<Event>,
    /// More happened than fits: the client has to look for itself.
    overflowed: bool,
    /// The memory that it takes.
    memory: Charge,
}

/// One change, as the client will see it.
#[derive(Debug, Eq, PartialEq)]
struct Event {
    action: NotifyAction,
    /// Relative to the directory, UTF-16LE.
    name: Vec<u8>,
}

impl Watch {
    /// # Errors
    /// The client has its limit of memory.
    pub(super) fn new(
        directory: ObjectPath,
        filter: CompletionFilter,
        recursive: bool,
        buffer_length: u32,
        memory: &MemoryAccount,
    ) -> Result<Self, Reject> {
        let memory = memory.keep(WATCH_BYTES + 2 * directory.as_str().len())?;
        let bytes_max = usize::try_from(buffer_length).unwrap_or(BYTES_MAX).min(BYTES_MAX);
        Ok(Self {
            filter,
            recursive,
            directory,
            is_doomed: false,
            begun_at: None,
            bytes_max,
            bytes: 0,
            events: Vec::new(),
            overflowed: false,
            memory,
        })
    }

    /// Whether there is nothing to tell.
    pub(super) fn is_quiet(&self) -> bool {
        self.events.is_empty() && !self.overflowed
    }

    /// Keeps a change, if the client wants to know it.
    pub(super) fn note(&mut self, change: &HostChange) {
        let path = &change.path;
        let name_filter = name_filter(path, change.is_directory);
        let is_stream = path.stream().is_some();
        let (added, removed) = if is_stream {
            (NotifyAction::ADDED_STREAM, NotifyAction::REMOVED_STREAM)
        } else {
            (NotifyAction::ADDED, NotifyAction::REMOVED)
        };
        match &change.kind {
            HostChangeKind::Added => self.push(added, path, name_filter),
            HostChangeKind::Doomed(_) => {}
            HostChangeKind::Removed => self.push(removed, path, name_filter),
            HostChangeKind::Modified(filter) => {
                let action =
                    if is_stream { NotifyAction::MODIFIED_STREAM } else { NotifyAction::MODIFIED };
                self.push(action, path, CompletionFilter::from_bits_retain(*filter));
            }
            HostChangeKind::Renamed { to } => {
                let (old, new) = if !is_stream && path.parent() == to.parent() {
                    (NotifyAction::RENAMED_OLD_NAME, NotifyAction::RENAMED_NEW_NAME)
                } else {
                    (removed, added)
                };
                self.push(old, path, name_filter);
                self.push(new, to, name_filter);
                if !change.is_directory && !self.filter.intersects(name_filter) {
                    // Windows tells those who watch attributes and not names that a renamed file
                    // has changed, because its archive bit may have.
                    let attributes = CompletionFilter::ATTRIBUTES | CompletionFilter::CREATION;
                    self.push(NotifyAction::MODIFIED, to, attributes);
                }
            }
            HostChangeKind::Uncounted => {
                let is_around = self.directory.relative_to(path).is_some();
                if is_around || self.relative_name(path).is_some() {
                    self.overflow();
                }
            }
        }
    }

    fn push(&mut self, action: NotifyAction, path: &ObjectPath, filter: CompletionFilter) {
        if self.overflowed || !self.filter.intersects(filter) {
            return;
        }
        let Some(name) = self.relative_name(path) else { return };
        let name = dtyp::utf16::to_bytes(&name);
        let event = Event { action, name };
        if action == NotifyAction::MODIFIED && self.events.last() == Some(&event) {
            return; // A client that looks once sees both.
        }
        self.bytes =
            self.bytes.next_multiple_of(4) + NotifyInformation::FIXED_SIZE + event.name.len();
        if self.bytes > self.bytes_max {
            return self.overflow();
        }
        self.events.push(event);
        if self.memory.resize(self.memory_wanted()).is_err() {
            self.overflow();
        }
    }

    /// Bytes of memory that it takes.
    fn memory_wanted(&self) -> usize {
        let path = self.directory.as_str().len();
        WATCH_BYTES + 2 * path + self.events.capacity() * size_of::<Event>() + self.bytes
    }

    fn overflow(&mut self) {
        self.clear();
        self.overflowed = true;
    }

    /// The name that a path has from the directory, if it lies in it. The directory itself does
    /// not.
    fn relative_name(&self, path: &ObjectPath) -> Option<String> {
        let below = path.relative_to(&self.directory)?;
        if below.is_empty() || (!self.recursive && below.contains('/')) {
            return None;
        }
        let stream = path.stream().map(str::to_owned);
        Some(ObjectPath::from_stored(below.to_owned(), stream).to_windows())
    }

    /// Tells all that there is to tell, in `length` bytes at most: nothing if all is quiet, and
    /// NOTIFY_ENUM_DIR if it does not fit.
    pub(super) fn take(&mut self, length: u32) -> Option<Response> {
        if self.is_quiet() {
            return None;
        }
        let length_max = usize::try_from(length).unwrap_or(usize::MAX);
        let mut list = NotifyInformationList::new();
        let fits = !self.overflowed
            && self.events.iter().all(|event| {
                let change = NotifyInformation { action: event.action, file_name: &event.name };
                list.push(&change, length_max)
            });
        self.clear();
        let (status, output_buffer) = match fits {
            true => (NtStatus::SUCCESS, list.as_bytes()),
            false => (NtStatus::NOTIFY_ENUM_DIR, &[][..]),
        };
        Some(Response::with_status(status, &ChangeNotifyResponse { output_buffer }))
    }

    fn clear(&mut self) {
        self.events = Vec::new();
        self.bytes = 0;
        self.overflowed = false;
        self.memory.set(self.memory_wanted());
    }
}

/// The filter that a new or removed name matches.
fn name_filter(path: &ObjectPath, is_directory: bool) -> CompletionFilter {
    if path.stream().is_some() {
        CompletionFilter::STREAM_NAME
    } else if is_directory {
        CompletionFilter::DIR_NAME
    } else {
        CompletionFilter::FILE_NAME
    }
}
