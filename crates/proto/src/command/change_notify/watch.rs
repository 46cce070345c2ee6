//! What an open keeps of the changes in its directory.

use dtyp::NtStatus;
use object::ObjectPath;
use wire::change_notify::{
    ChangeNotifyResponse, CompletionFilter, NotifyAction, NotifyInformation, NotifyInformationList,
};

use crate::change::{Change, ChangeKind};
use crate::response::Response;

/// Bytes that a watch keeps at most, however much its first request asks for: as much as a client
/// gets for one credit.
pub(super) const BYTES_MAX: usize = 65_536;

/// The changes in a directory that no CHANGE_NOTIFY has told yet.
///
/// Filter, depth and size are those of the first request on the open, as in Windows; the later
/// requests' are not looked at.
#[derive(Debug)]
pub struct Watch {
    filter: CompletionFilter,
    recursive: bool,
    bytes_max: usize,
    /// Bytes that `events` have when they travel.
    bytes: usize,
    events: Vec<Event>,
    /// More happened than fits: the client has to look for itself.
    overflowed: bool,
}

/// One change, as the client will see it.
#[derive(Debug)]
struct Event {
    action: NotifyAction,
    /// Relative to the directory, UTF-16LE.
    name: Vec<u8>,
}

impl Watch {
    pub(super) fn new(filter: CompletionFilter, recursive: bool, buffer_length: u32) -> Self {
        let bytes_max = usize::try_from(buffer_length).unwrap_or(BYTES_MAX).min(BYTES_MAX);
        Self { filter, recursive, bytes_max, bytes: 0, events: Vec::new(), overflowed: false }
    }

    /// Whether there is nothing to tell.
    pub(super) fn is_quiet(&self) -> bool {
        self.events.is_empty() && !self.overflowed
    }

    /// Keeps a change of the share, if the client wants to know it.
    pub(super) fn note(&mut self, directory: &ObjectPath, change: &Change) {
        let path = &change.path;
        let name_filter = name_filter(path, change.is_directory);
        let is_stream = path.stream().is_some();
        let (added, removed) = if is_stream {
            (NotifyAction::ADDED_STREAM, NotifyAction::REMOVED_STREAM)
        } else {
            (NotifyAction::ADDED, NotifyAction::REMOVED)
        };
        match &change.kind {
            ChangeKind::Added => self.push(directory, added, path, name_filter),
            ChangeKind::Removed => self.push(directory, removed, path, name_filter),
            ChangeKind::Modified(filter) => {
                let action =
                    if is_stream { NotifyAction::MODIFIED_STREAM } else { NotifyAction::MODIFIED };
                self.push(directory, action, path, *filter);
            }
            ChangeKind::Renamed { to } => {
                let (old, new) = if !is_stream && path.parent() == to.parent() {
                    (NotifyAction::RENAMED_OLD_NAME, NotifyAction::RENAMED_NEW_NAME)
                } else {
                    (removed, added)
                };
                self.push(directory, old, path, name_filter);
                self.push(directory, new, to, name_filter);
                if !change.is_directory && !self.filter.intersects(name_filter) {
                    // Windows tells those who watch attributes and not names that a renamed file
                    // has changed, because its archive bit may have.
                    let attributes = CompletionFilter::ATTRIBUTES | CompletionFilter::CREATION;
                    self.push(directory, NotifyAction::MODIFIED, to, attributes);
                }
            }
        }
    }

    fn push(
        &mut self,
        directory: &ObjectPath,
        action: NotifyAction,
        path: &ObjectPath,
        filter: CompletionFilter,
    ) {
        if self.overflowed || !self.filter.intersects(filter) {
            return;
        }
        let Some(name) = self.relative_name(directory, path) else { return };
        let name = dtyp::utf16::to_bytes(&name);
        self.bytes = self.bytes.next_multiple_of(4) + NotifyInformation::FIXED_SIZE + name.len();
        if self.bytes > self.bytes_max {
            self.clear();
            self.overflowed = true;
        } else {
            self.events.push(Event { action, name });
        }
    }

    /// The name that a path has from the directory, if it lies in it. The directory itself does
    /// not.
    fn relative_name(&self, directory: &ObjectPath, path: &ObjectPath) -> Option<String> {
        let below = if directory.is_root() {
            path.as_str()
        } else {
            path.as_str().strip_prefix(directory.as_str())?.strip_prefix('/')?
        };
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
