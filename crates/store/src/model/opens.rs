//! The opens: slots that are used again, told apart by generations.

use crate::model::secured_object::SecuredObject;
use crate::sys::kernel_locks;
use crate::sys::xattr::Xattrs;
use rustix::fs::{OFlags, Statx};
use rustix::io::Errno;
use std::cell::Cell;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dtyp::{AccessMask, NtStatus};
use object::{INDICES_MAX, LocalOpen, ObjectKind, ObjectPath, RootId, StoreNumber};

use crate::cache::directories::{Directory, Inode};
use crate::model::held_locks::HeldLocks;
use crate::model::listing::Listing;
use crate::model::root::Root;
use crate::model::stream_name::StreamName;
use crate::sys::system::Uncached;

/// Results of earlier attempts to pipe the data of an open file.
#[derive(Debug, Default)]
pub(crate) struct PipeSupport {
    /// The file system cannot read into a pipe.
    pub(crate) is_read_impossible: Cell<bool>,
    /// The file system cannot write out of a pipe.
    pub(crate) is_write_impossible: Cell<bool>,
}

/// An object that is open.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) root: Rc<Root>,
    pub(crate) root_id: RootId,
    /// Shared with operations in flight, which outlive the open.
    pub(crate) fd: Arc<OwnedFd>,
    /// `fd` was opened with O_PATH: it gives no access to the data.
    pub(crate) path_only: bool,
    pub(crate) kind: ObjectKind,
    pub(crate) inode: Inode,
    pub(crate) granted_access: AccessMask,
    /// Directory of its name; `None` for the root of the share.
    pub(crate) parent: Option<Rc<Directory>>,
    /// Its name as stored on disk.
    pub(crate) name: OsString,
    /// Inode of the name itself: the link, if one was followed.
    pub(crate) name_inode: Inode,
    pub(crate) path: ObjectPath,
    pub(crate) stream: Option<StreamName>,
    /// File of the stream, where the share keeps streams in files: its data are read and written as
    /// those of other files.
    pub(crate) stream_file: Option<Arc<OwnedFd>>,
    pub(crate) write_through: bool,
    /// Handling of uncached data. The first read finds out: file systems in memory lack RWF_NOWAIT.
    pub(crate) uncached: Cell<Uncached>,
    /// O_NONBLOCK is cleared: see [`Open::let_ring_wait`].
    pub(crate) ring_waits: Cell<bool>,
    /// Results of attempts to use pipes for its data.
    pub(crate) pipe_support: PipeSupport,
    /// The file had no ARCHIVE attribute when it was opened: the first write sets it.
    pub(crate) archive_on_write: bool,
    /// Nothing that this open does changes the last write time: `Open.UserSetModificationTime` of
    /// [MS-FSA] 2.1.1.6. Other opens change it.
    pub(crate) keeps_write_time: bool,
    pub(crate) listing: Option<Box<Listing>>,
    /// Byte-range locks that local programs see.
    pub(crate) locks: HeldLocks,
    /// Time until which no program is expected to have locked bytes of the file: it had no lock
    /// shortly before, or is new.
    pub(crate) unlocked_until: Cell<Duration>,
    /// The kernel reports the opens of other programs: see `data::kernel_claims`.
    pub(crate) has_lease: bool,
}

impl Open {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Descriptor of the data: the object itself, or the file of its stream. Without meaning for
    /// [another stream](Self::stored_stream).
    pub(crate) fn data_file(&self) -> &Arc<OwnedFd> {
        self.stream_file.as_ref().unwrap_or(&self.fd)
    }

    /// Borrows the descriptor of the data: see [`Open::data_file`].
    pub(crate) fn data_fd(&self) -> BorrowedFd<'_> {
        self.data_file().as_fd()
    }

    /// Returns its stream, if that is no file but read and written whole.
    pub(crate) fn stored_stream(&self) -> Option<&StreamName> {
        self.stream.as_ref().filter(|_| self.stream_file.is_none())
    }

    /// Clears O_NONBLOCK, with which a file may have been opened
    /// ([`regular_files`](crate::cache::regular_files)). System calls on a file ignore it, but
    /// io_uring would fail a READ instead of waiting for the disk.
    pub(crate) fn let_ring_wait(&self) -> Result<(), Errno> {
        if !self.ring_waits.get() && self.stream_file.is_none() {
            rustix::fs::fcntl_setfl(&self.fd, OFlags::empty())?;
            self.ring_waits.set(true);
        }
        Ok(())
    }

    /// Releases the locks that local programs see, although operations in flight may keep the
    /// descriptor for a while.
    pub(crate) fn release_locks(&self) {
        if !self.locks.is_empty() {
            let _ = kernel_locks::release_all(self.fd());
        }
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind == ObjectKind::Directory
    }

    pub(crate) fn xattrs(&self) -> Xattrs<'_> {
        Xattrs::new(self.fd(), self.path_only)
    }

    /// True if its stream is the structure `AFP_AfpInfo`, as Apple's clients know it.
    pub(crate) fn has_afp_info(&self) -> bool {
        let is_it = |name: &StreamName| name.is_afp_info();
        self.root.settings.apple_streams && self.stream.as_ref().is_some_and(is_it)
    }

    /// Returns whether the server may set attributes for the user, whose own rights by POSIX do not
    /// suffice: the open was granted that.
    pub(crate) fn may_set_attributes(&self) -> bool {
        self.granted_access.contains(AccessMask::WRITE_ATTRIBUTES)
    }

    /// Returns the object, for its security descriptor.
    pub(crate) fn secured<'a>(&'a self, status: &'a Statx) -> SecuredObject<'a> {
        SecuredObject { fd: self.fd(), path_only: self.path_only, status }
    }
}

/// The table of opens, of at most `max`.
#[derive(Debug)]
pub(crate) struct Opens {
    slots: Vec<Slot>,
    free: Vec<u32>,
    max: u32,
    /// Index of the first slot, as others know it.
    first: u32,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    open: Option<Box<Open>>,
}

impl Opens {
    /// An empty table of the store with this number.
    pub(crate) fn new(max: u32, store: StoreNumber) -> Self {
        let (max, first) = (max.min(INDICES_MAX), store.first_index());
        Self { slots: Vec::new(), free: Vec::new(), max, first }
    }

    /// The place of an open in the table; past its end for an open of another store.
    fn place(&self, open: LocalOpen) -> usize {
        usize::try_from(open.index.wrapping_sub(self.first)).unwrap_or(usize::MAX)
    }

    /// Whether there is no room for one more.
    pub(crate) fn is_full(&self) -> bool {
        self.slots.len() - self.free.len() >= usize::try_from(self.max).unwrap_or(usize::MAX)
    }

    pub(crate) fn insert(&mut self, open: Open) -> LocalOpen {
        let open = Some(Box::new(open));
        if let Some(index) = self.free.pop() {
            let place = self.place(LocalOpen { index, generation: 0 });
            let slot = &mut self.slots[place];
            slot.open = open;
            return LocalOpen { index, generation: slot.generation };
        }
        let index = self.first + u32::try_from(self.slots.len()).expect("at most `max` slots");
        self.slots.push(Slot { generation: 0, open });
        LocalOpen { index, generation: 0 }
    }

    pub(crate) fn get(&self, open: LocalOpen) -> Result<&Open, NtStatus> {
        let slot = self.slots.get(self.place(open));
        let slot = slot.filter(|slot| slot.generation == open.generation);
        slot.and_then(|slot| slot.open.as_deref()).ok_or(NtStatus::FILE_CLOSED)
    }

    pub(crate) fn get_mut(&mut self, open: LocalOpen) -> Result<&mut Open, NtStatus> {
        let place = self.place(open);
        let slot = self.slots.get_mut(place);
        let slot = slot.filter(|slot| slot.generation == open.generation);
        slot.and_then(|slot| slot.open.as_deref_mut()).ok_or(NtStatus::FILE_CLOSED)
    }

    pub(crate) fn remove(&mut self, open: LocalOpen) -> Result<Box<Open>, NtStatus> {
        self.get(open)?;
        let place = self.place(open);
        let slot = &mut self.slots[place];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(open.index);
        slot.open.take().ok_or(NtStatus::FILE_CLOSED)
    }

    /// All opens, with their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LocalOpen, &Open)> {
        self.slots.iter().zip(self.first..).filter_map(|(slot, index)| {
            let place = LocalOpen { index, generation: slot.generation };
            slot.open.as_deref().map(|open| (place, open))
        })
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Open> {
        self.slots.iter_mut().filter_map(|slot| slot.open.as_deref_mut())
    }

    pub(crate) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
