//! Changes in a watched directory, kept by its open.

use std::collections::VecDeque;
use std::time::Duration;

use dtyp::NtStatus;
use dtyp::name_expression::NameExpression;
use object::{HostChange, HostChangeKind, ObjectPath};
use wire::change_notify::{
    CompletionFilter, NotifyAction, NotifyInformation, NotifyInformationList,
};

use crate::memory_account::{Charge, MemoryAccount};
use crate::reject::Reject;
use crate::traversals::Verdict;

/// Highest size of a watch in bytes, whatever its first request demands: the payload that one
/// credit covers.
pub const BYTES_MAX: usize = 65_536;

/// Highest number of directories between a watched one and a name. The store is asked about each,
/// one after the other.
pub const DEPTH_MAX: usize = 64;

/// Memory of a watch in bytes, without its directory's path and its changes: itself, and its
/// entries in the tables of change reporters.
const WATCH_BYTES: usize = size_of::<Watch>() + 1_024;

/// Changes in a directory that no CHANGE_NOTIFY has reported yet.
///
/// Filter, depth and size are those of the first request on the open, as in Windows; those of later
/// requests are ignored.
#[derive(Debug)]
pub struct Watch {
    pub filter: CompletionFilter,
    pub recursive: bool,
    /// The directory, from the root of the host's file system.
    pub directory: ObjectPath,
    /// True if the directory is gone or delete pending.
    pub is_delete_pending: bool,
    /// Time from which other workers report changes; earlier changes are not reported.
    pub begun_at: Option<Duration>,
    bytes_max: usize,
    /// Length of `events` in a response.
    bytes: usize,
    events: Vec<Event>,
    /// Changes below a directory that the user may be unable to enter, and all later ones: changes
    /// are reported in order.
    unchecked: VecDeque<Event>,
    unchecked_bytes: usize,
    /// True if more happened than fits: the client must list the directory itself.
    overflowed: bool,
    /// Memory charged for the watch and its changes.
    memory: Charge,
}

/// Contents of a response to CHANGE_NOTIFY.
#[derive(Debug)]
pub struct ChangeList {
    /// STATUS_NOTIFY_ENUM_DIR, without changes, where they do not fit.
    pub status: NtStatus,
    /// Changes in the order in which they happened.
    pub changes: NotifyInformationList,
}

/// One change, in the form that the client will get.
#[derive(Debug)]
struct Event {
    action: NotifyAction,
    /// Name relative to the directory, in UTF-16LE.
    name: Vec<u8>,
    /// Directory of the name, relative to the watched one; empty for the watched one itself, and
    /// once the change is permitted.
    directory: String,
}

impl Watch {
    /// Begins to watch a directory.
    ///
    /// # Errors
    /// If the client has reached its memory limit.
    pub fn new(
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
            is_delete_pending: false,
            begun_at: None,
            bytes_max,
            bytes: 0,
            events: Vec::new(),
            unchecked: VecDeque::new(),
            unchecked_bytes: 0,
            overflowed: false,
            memory,
        })
    }

    /// Sets the new path of the directory after a rename by another worker's client. What happened
    /// there between the rename and the news of it was not reported, so the client has to look.
    /// Returns false if the path is not new.
    pub fn follow(&mut self, directory: ObjectPath) -> bool {
        if self.directory == directory {
            return false;
        }
        self.directory = directory;
        self.overflow();
        true
    }

    /// True if there are no changes to report.
    pub fn is_quiet(&self) -> bool {
        self.events.is_empty() && !self.overflowed
    }

    /// Queues a change that passes the client's filter, until [`Watch::permit`] permits it. Vetoed
    /// names are left out; a rename from or to one adds or removes the other name.
    pub fn note(&mut self, change: &HostChange, vetoed: &[NameExpression]) {
        let is_hidden = |path: &ObjectPath| self.is_vetoed(path, vetoed);
        let is_listed = change.kind != HostChangeKind::Missed;
        let is_old_hidden = is_listed && is_hidden(&change.path);
        let becomes = |path: &ObjectPath, kind| HostChange {
            path: path.clone(),
            is_directory: change.is_directory,
            kind,
        };
        match (is_old_hidden, change.new_path().map(|to| (to, is_hidden(to)))) {
            (false, None | Some((_, false))) => self.note_visible(change),
            (false, Some(_)) => self.note_visible(&becomes(&change.path, HostChangeKind::Removed)),
            (true, Some((to, false))) => self.note_visible(&becomes(to, HostChangeKind::Added)),
            (true, _) => {}
        }
    }

    /// True if a component of the path, below the watched directory, is vetoed.
    fn is_vetoed(&self, path: &ObjectPath, vetoed: &[NameExpression]) -> bool {
        let below = path.relative_to(&self.directory).filter(|_| !vetoed.is_empty());
        let mut names = below.into_iter().flat_map(|below| below.split('/'));
        names.any(|name| vetoed.iter().any(|it| it.matches(name)))
    }

    fn note_visible(&mut self, change: &HostChange) {
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
            HostChangeKind::DeletePending(_) => {}
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
                    // A watch for attributes without names gets a modification of the renamed file
                    // from Windows, because a rename may change the archive bit.
                    let attributes = CompletionFilter::ATTRIBUTES | CompletionFilter::CREATION;
                    self.push(NotifyAction::MODIFIED, to, attributes);
                }
            }
            HostChangeKind::Missed => {
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
        let Some((directory, name)) = self.relative_name(path) else { return };
        if directory.split('/').count() > DEPTH_MAX {
            return self.overflow(); // The client lists the directories instead.
        }
        let event = Event { action, name: dtyp::utf16::to_bytes(&name), directory };
        let mut last = self.unchecked.back().or_else(|| self.events.last()).into_iter();
        let is_last = last.any(|it| (it.action, &it.name) == (action, &event.name));
        if action == NotifyAction::MODIFIED && is_last {
            return; // A client that reads the file once sees both changes.
        }
        self.unchecked_bytes += event.name.len() + event.directory.len();
        if self.unchecked_bytes > BYTES_MAX {
            self.overflow();
        } else {
            self.unchecked.push_back(event);
        }
    }

    /// True if changes are left for [`Watch::permit`].
    pub fn has_unchecked(&self) -> bool {
        !self.unchecked.is_empty()
    }

    /// Permits or drops changes, up to the first one without a verdict. `may_enter` decides on a
    /// directory, given relative to the watched one.
    pub fn permit(&mut self, mut may_enter: impl FnMut(&str) -> Verdict) {
        while let Some(event) = self.unchecked.front() {
            let verdict = match event.directory.as_str() {
                "" => Verdict::May,
                directory => may_enter(directory),
            };
            match verdict {
                Verdict::Pending => return self.charge(),
                Verdict::May | Verdict::MayNot => {}
            }
            let event = self.unchecked.pop_front().expect("it was just looked at");
            self.unchecked_bytes -= event.name.len() + event.directory.len();
            if verdict == Verdict::May {
                self.add_event(event);
            }
        }
    }

    fn add_event(&mut self, event: Event) {
        self.bytes =
            self.bytes.next_multiple_of(4) + NotifyInformation::FIXED_SIZE + event.name.len();
        if self.bytes > self.bytes_max {
            return self.overflow();
        }
        self.events.push(Event { directory: String::new(), ..event });
        self.charge();
    }

    fn charge(&mut self) {
        if self.memory.resize(self.memory_wanted()).is_err() {
            self.overflow();
        }
    }

    /// Returns the memory of the watch in bytes.
    fn memory_wanted(&self) -> usize {
        let path = self.directory.as_str().len();
        let events = self.events.capacity() + self.unchecked.capacity();
        WATCH_BYTES + 2 * path + events * size_of::<Event>() + self.bytes + self.unchecked_bytes
    }

    fn overflow(&mut self) {
        (self.unchecked, self.unchecked_bytes) = (VecDeque::new(), 0);
        self.clear();
        self.overflowed = true;
    }

    /// Returns the directory and the name of a path, both relative to the watched directory; none
    /// for a path outside of it, or for the directory itself.
    fn relative_name(&self, path: &ObjectPath) -> Option<(String, String)> {
        let below = path.relative_to(&self.directory)?;
        if below.is_empty() || (!self.recursive && below.contains('/')) {
            return None;
        }
        let directory = below.rsplit_once('/').map_or("", |(directory, _)| directory);
        let stream = path.stream().map(str::to_owned);
        let name = ObjectPath::from_stored(below.to_owned(), stream).to_windows();
        Some((directory.to_owned(), name))
    }

    /// Takes all changes, in at most `length` bytes: none if there are none, and NOTIFY_ENUM_DIR if
    /// they do not fit.
    pub fn take(&mut self, length: u32) -> Option<ChangeList> {
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
        Some(match fits {
            true => ChangeList { status: NtStatus::SUCCESS, changes: list },
            false => ChangeList {
                status: NtStatus::NOTIFY_ENUM_DIR,
                changes: NotifyInformationList::new(),
            },
        })
    }

    fn clear(&mut self) {
        self.events = Vec::new();
        self.bytes = 0;
        self.overflowed = false;
        self.memory.set(self.memory_wanted());
    }
}

/// Returns the filter that matches a new or removed name.
fn name_filter(path: &ObjectPath, is_directory: bool) -> CompletionFilter {
    if path.stream().is_some() {
        CompletionFilter::STREAM_NAME
    } else if is_directory {
        CompletionFilter::DIR_NAME
    } else {
        CompletionFilter::FILE_NAME
    }
}
