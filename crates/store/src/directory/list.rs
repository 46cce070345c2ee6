//! Listing a directory: [MS-FSA] 2.1.5.6.3.
//!
//! "." and ".." come first. The root of a share is its own "..": clients see nothing above
//! it. Names that no client could send back are shown by their short names; where
//! there are none (`mangled names = no`) they are left out and counted.

use crate::model::listing::Listing;
use crate::model::listing::Next;
use std::borrow::Cow;
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use dtyp::fscc::ReparseTag;
use dtyp::{AccessMask, FileAttributes, NtStatus};
use object::path::join;
use object::{DirectoryEntry, EntryDetail, LocalOpen, Metadata, ObjectKind, is_temporary};
use rustix::fs::{OFlags, Statx};
use rustix::io::Errno;

use crate::Store;
use crate::directory::apple::AppleReader;
use crate::errno::{During, Operation};
use crate::metadata::basic::{Stored, assemble, stored_attributes};
use crate::metadata::dos_attributes::DosAttributes;
use crate::metadata::extended_attributes;
use crate::metadata::reparse;
use crate::model::opens::Open;
use crate::model::root::Root;
use crate::model::secured_object::SecuredObject;
use crate::names::short_name::{self, shown};
use crate::open::lookup::follow;
use crate::security::access;
use crate::security::credentials::Impersonation;
use crate::settings::Hide;
use crate::sys::ahead::Ahead;
use crate::sys::file_kind::is_link;
use crate::sys::file_kind::kind_of;
use crate::sys::system;
use crate::sys::xattr::Xattrs;

/// Entries between two looks at the clock, which cost as much as a twentieth of an entry.
const CLOCK_INTERVAL: u32 = 4;

/// Entries of a part that pauses below which each may wait for the disk. Then the clock is looked
/// at before each.
const SLOW_ENTRIES_MAX: usize = 32;

/// Limits of one part of a listing.
#[derive(Clone, Copy, Debug)]
struct Limits {
    entries_max: u32,
    /// Time after which it pauses.
    time_max: Duration,
}

/// One part of a listing.
#[derive(Debug)]
struct Listed {
    entries: Vec<DirectoryEntry>,
    /// Number of names that no client can use.
    left_out: u64,
    /// Whether it ended for the time that it took.
    is_paused: bool,
}

/// Reads the metadata of entries.
struct Reader<'a> {
    open: &'a Open,
    directory: BorrowedFd<'a>,
    detail: EntryDetail,
}

impl Store {
    pub(crate) fn read_directory(
        &mut self,
        open: LocalOpen,
        restart: bool,
        detail: EntryDetail,
        entries_max: u32,
    ) -> Result<Vec<DirectoryEntry>, NtStatus> {
        let opened = self.opens.get(open)?;
        if !opened.is_directory() {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let apple = match detail {
            EntryDetail::Apple => Some(self.apple_reader(open)?),
            _ => None,
        };
        let opened = self.opens.get_mut(open)?;
        let mut listing = match opened.listing.take() {
            Some(listing) => listing,
            None => Box::new(Listing::new(opened.fd()).during(Operation::List)?),
        };
        if restart {
            (listing.next, listing.ahead) = (Next::Dot, Ahead::default());
            listing.found.clear();
            listing.entries.rewind(listing.fd.as_fd()).during(Operation::List)?;
        }
        let hidden =
            Hidden { hide: opened.root.settings.hide, impersonation: &mut self.impersonation };
        let limits = Limits { entries_max, time_max: self.settings.listing_time };
        let listed = list(opened, &mut listing, detail, limits, (apple, hidden))?;
        opened.listing = Some(listing);
        self.names_left_out = self.names_left_out.saturating_add(listed.left_out);
        self.listing_paused = listed.is_paused;
        Ok(listed.entries)
    }

    /// Gives the entries of a part that paused back. The next part of this open's listing appends
    /// to them, and counts them.
    pub fn continue_listing(&mut self, open: LocalOpen, found: Vec<DirectoryEntry>) {
        let opened = self.opens.get_mut(open).ok();
        if let Some(listing) = opened.and_then(|it| it.listing.as_mut()) {
            listing.found = found;
        }
    }

    /// The name of 8.3 form: [MS-FSCC] 2.4.5.
    pub(crate) fn query_short_name(&mut self, open: LocalOpen) -> Result<Option<String>, NtStatus> {
        let open = self.opens.get(open)?;
        let name = short_name::alternate(&open.root.settings, &open.name);
        let shortened =
            name.as_ref().filter(|name| open.name.to_ascii_uppercase() != name.as_str());
        if let (Some(short), Some(parent)) = (shortened, &open.parent) {
            self.names.cache_short_name(parent, short, &open.name);
        }
        Ok(name)
    }
}

fn list(
    open: &Open,
    listing: &mut Listing,
    detail: EntryDetail,
    limits: Limits,
    (apple, mut hidden): (Option<AppleReader>, Hidden<'_>),
) -> Result<Listed, NtStatus> {
    let entries_max = usize::try_from(limits.entries_max).unwrap_or(usize::MAX);
    let mut entries = std::mem::take(&mut listing.found);
    let found_before = entries.len();
    entries.reserve(entries_max.saturating_sub(found_before).min(1_024));
    let mut left_out = 0;
    let (mut entries_read, began) = (0_u32, Instant::now());
    let mut is_paused = false;
    let clock_interval = if listing.is_slow { 1 } else { CLOCK_INTERVAL };
    let Listing { fd, next, entries: names, ahead, is_slow, .. } = listing;
    let mut reads_ahead = *is_slow && detail > EntryDetail::Name;
    let reader = Reader { open, directory: fd.as_fd(), detail };
    while entries.len() < entries_max {
        entries_read = entries_read.wrapping_add(1);
        // An empty batch would be the end.
        if entries_read.is_multiple_of(clock_interval)
            && entries.len() > found_before
            && began.elapsed() >= limits.time_max
        {
            is_paused = true;
            break;
        }
        let entry = match *next {
            Next::Dot => {
                *next = Next::DotDot;
                reader.special(".", open.fd())
            }
            Next::DotDot => {
                *next = Next::Entry;
                let above = match &open.parent {
                    Some(parent) => parent.fd.as_fd(),
                    None => open.fd(),
                };
                reader.special("..", above)
            }
            Next::Entry => {
                if reads_ahead {
                    ahead.fill(fd.as_fd(), names, entries_max - entries.len());
                    reads_ahead = ahead.has_waited();
                }
                let Some(name) = names.next(fd.as_fd()).during(Operation::List)? else { break };
                let stored = OsStr::from_bytes(name.to_bytes());
                let visible = match open.path.is_posix() {
                    _ if is_temporary(name.to_bytes()) => continue,
                    // A name that is not UTF-8 cannot be sent, and POSIX has no short names.
                    true => stored.to_str().map(Cow::Borrowed),
                    false => shown(&open.root.settings, stored),
                };
                match visible {
                    Some(text) => {
                        let seen = !hidden.applies()
                            || hidden.shows(open, reader.directory, stored, &text);
                        let status = ahead.take(name);
                        let entry = if seen { reader.entry(name, &text, status) } else { None };
                        entry.map(|entry| DirectoryEntry {
                            apple: apple.as_ref().and_then(|apple| {
                                apple.of(hidden.impersonation, &open.root, reader.directory, stored)
                            }),
                            ..entry
                        })
                    }
                    None => {
                        left_out += 1;
                        None
                    }
                }
            }
        };
        entries.extend(entry);
    }
    *is_slow = is_paused && entries.len() - found_before < SLOW_ENTRIES_MAX;
    Ok(Listed { entries, left_out, is_paused })
}

/// Filter of the entries that the share's settings hide from the requester ("hide unreadable" and
/// others).
struct Hidden<'a> {
    hide: Hide,
    impersonation: &'a mut Impersonation,
}

impl Hidden<'_> {
    fn applies(&self) -> bool {
        self.hide != Hide::default()
    }

    /// Whether an entry is listed. One whose rights cannot be read is left out.
    fn shows(&mut self, open: &Open, directory: BorrowedFd<'_>, name: &OsStr, text: &str) -> bool {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let entry = system::open_beneath(directory, name, flags, 0, false)
            .and_then(|fd| system::status_of(fd.as_fd()).map(|status| (fd, status)));
        let Ok((mut fd, mut status)) = entry else { return false };
        if is_link(&status) {
            match follow(&open.root, directory, name, &path_of(open, text)) {
                Ok(target) => (fd, status) = target,
                // Shows as itself: its mode says nothing.
                Err(_) => return true,
            }
        }
        let kind = kind_of(&status);
        let plain = matches!(kind, ObjectKind::File | ObjectKind::Directory);
        if self.hide.special && !plain {
            return false;
        }
        if !self.hide.unreadable && !self.hide.unwriteable {
            return true;
        }
        let secured = SecuredObject { fd: fd.as_fd(), path_only: true, status: &status };
        let Ok(rights) = access::object_rights(self.impersonation, &open.root, secured) else {
            return false;
        };
        let readable = !self.hide.unreadable || rights.contains(access::TO_SEE);
        let writeable = !self.hide.unwriteable
            || kind == ObjectKind::Directory
            || rights.contains(AccessMask::WRITE_DATA);
        readable && writeable
    }
}

/// The path of an entry from the root that the directory was opened in.
fn path_of(open: &Open, name: &str) -> String {
    join(open.root.path_from_here(&open.path), name)
}

impl Reader<'_> {
    fn root(&self) -> &Root {
        &self.open.root
    }

    /// Returns the entry of "." or "..".
    fn special(&self, name: &str, fd: BorrowedFd<'_>) -> Option<DirectoryEntry> {
        let mut entry =
            DirectoryEntry { name: name.to_owned(), short_name: None, metadata: None, apple: None };
        if self.detail > EntryDetail::Name {
            let status = system::status_of(fd).ok()?;
            let stored = stored_attributes(self.root(), Xattrs::new(fd, true));
            entry.metadata = Some(assemble(self.root(), name, kind_of(&status), &status, stored));
        }
        Some(entry)
    }

    /// Returns an entry, whose metadata may be known. `None` if it vanished meanwhile.
    fn entry(
        &self,
        name: &CStr,
        text: &str,
        status: Option<Result<Statx, Errno>>,
    ) -> Option<DirectoryEntry> {
        let stored = OsStr::from_bytes(name.to_bytes());
        let short_name = short_name::listed(&self.root().settings, stored);
        let mut entry =
            DirectoryEntry { name: text.to_owned(), short_name, metadata: None, apple: None };
        if self.detail > EntryDetail::Name {
            let status = status.unwrap_or_else(|| system::status_at(self.directory, name)).ok()?;
            // To POSIX a link is a thing of its own.
            entry.metadata = Some(if is_link(&status) && !self.open.path.is_posix() {
                self.link(stored, text, &status)
            } else {
                self.plain(name, &status)
            });
        }
        Some(entry)
    }

    fn plain(&self, name: &CStr, status: &Statx) -> Metadata {
        let xattrs = Xattrs::at(self.directory, name);
        let Stored { dos, lacks_xattrs } = Stored::find(self.root(), Some(status), xattrs);
        let stored = OsStr::from_bytes(name.to_bytes());
        let kind = kind_of(status);
        if kind == ObjectKind::File {
            self.root().files.regular.borrow_mut().keep_listed(self.open.inode, stored);
        }
        let mut metadata = assemble(self.root(), stored, kind, status, dos);
        if self.detail == EntryDetail::MetadataAndEaSize && !lacks_xattrs {
            metadata.ea_size = extended_attributes::size_of_all(self.root(), xattrs);
        }
        metadata
    }

    /// Returns the metadata of a link's target. Those of the link itself, if its target is missing
    /// or outside the share, or may not be followed: so it can be seen and removed.
    fn link(&self, name: &OsStr, text: &str, status: &Statx) -> Metadata {
        match follow(self.root(), self.directory, name, &path_of(self.open, text)) {
            Ok((fd, status)) => {
                let stored = stored_attributes(self.root(), Xattrs::new(fd.as_fd(), true));
                assemble(self.root(), name, kind_of(&status), &status, stored)
            }
            Err(_) => {
                let (kind, nothing) = (ObjectKind::SymbolicLink, DosAttributes::default());
                let mut link = assemble(self.root(), name, kind, status, nothing);
                if reparse::is_referral_at(self.root(), self.directory, name) {
                    // To clients it is a directory, whose contents are elsewhere.
                    link.attributes |= FileAttributes::DIRECTORY;
                    link.reparse_tag = ReparseTag::DFS.0;
                }
                link
            }
        }
    }
}
