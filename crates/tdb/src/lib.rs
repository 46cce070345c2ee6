//! Tables in files of libtdb, with keys and values of bytes. Every process maps the file; each hash
//! chain has a lock.
//!
//! The locks are robust mutexes in the file, so a process that is killed while it holds one does
//! not stop the others; on a system without them, libtdb's `fcntl` locks serve.
//!
//! Files of two kinds: those of [`Tdb::create`] and [`Tdb::shared`] last as long as one run of the
//! server, and their content is worthless after the last process has ended. Those of
//! [`Tdb::stable`] outlive it.
//!
//! POSIX drops all `fcntl` locks of a process on a file when *any* descriptor of it is closed, so a
//! process must open a file only once. [`Tdb`] refuses a second time; no other code may open it.
//! For the same reason a forked process calls [`Tdb::inherit`]: it has the mapping, but none of the
//! locks.
//!
//! A thread of idle priority has normal priority while it waits for a lock or holds one. Users wait
//! for most of these locks.

mod chain_lock;
mod collect;
mod ffi;
mod mend;

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_int, c_uint, c_void};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Mutex;

use chain_lock::ChainLock;
use collect::Collected;
use confinement::priority::with_normal_priority;
use ffi::TdbData;
use zeroize::{Zeroize, Zeroizing};

pub use mend::Mended;

/// Highest number of bytes of a record's value.
///
/// The largest record is that of a file with very many opens and locks.
pub const RECORD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Change to a record, decided while it is locked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Change {
    /// Removes the record, if there is one.
    Delete,
    /// Leaves the record as it is.
    Keep,
    /// Replaces the record by these bytes, or adds it.
    Store(Vec<u8>),
    /// The same for secrets: nothing of the old record stays in the file, and no copy in memory.
    Erase(Zeroizing<Vec<u8>>),
}

impl Change {
    /// Returns a change that erases the record, and stores these bytes instead.
    #[must_use]
    pub fn erase(new: Vec<u8>) -> Self {
        Self::Erase(Zeroizing::new(new))
    }

    /// Whether the old record must be kept until the new one is stored.
    fn replaces(&self, old: &[u8]) -> bool {
        match self {
            Self::Delete | Self::Keep => false,
            Self::Store(new) => new.len() > old.len(),
            Self::Erase(_) => true,
        }
    }
}

/// Reason why a table could not carry out a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TdbError {
    /// Another process holds the lock of the record.
    #[error("the record is locked")]
    Busy,
    /// A record with this key exists already.
    #[error("a record with this key exists")]
    Exists,
    /// No room is left: on the disk, in memory, or below the highest size of the file.
    #[error("the table is full")]
    Full,
    /// The lock of the record could not be taken.
    #[error("the record could not be locked")]
    Lock,
    /// The table was opened for reading only.
    #[error("the table is open for reading only")]
    ReadOnly,
    /// The value is larger than [`RECORD_BYTES_MAX`].
    #[error("a record of {0} bytes is too large")]
    RecordTooLarge(usize),
    /// The table's file is damaged or could not be read or written.
    #[error("the table's file is damaged or unreadable")]
    Storage,
}

/// A table in a file, open in this process once.
#[derive(Debug)]
pub struct Tdb {
    context: NonNull<ffi::TdbContext>,
    file: FileIdentity,
    access: Access,
    /// Buffer for the next traverse; empty between traverses.
    collected: RefCell<Collected>,
}

/// Access to a table. It decides on the locks as well.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Access {
    /// Changes a file of another program's server, with that server's flags.
    Managed(c_int),
    /// Reads without locks, so that a tool that is stopped halfway blocks no other process.
    Observe,
    /// Changes a file that outlives the server. Its locks are those of `fcntl`: libtdb keeps
    /// mutexes only in files that the first process empties.
    Stable,
    /// As `Update`, by system calls alone. libtdb has no mutexes without a mapping.
    Unmapped,
    Update,
}

/// Way of reading and writing a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mapping {
    /// By a mapping into memory, with mutexes.
    Mapped,
    /// By system calls alone, as `use mmap = no` demands.
    Unmapped,
}

/// Device and inode of a file.
type FileIdentity = (u64, u64);

/// Files that this process has open; also the lock for libtdb's own list of them.
static OPEN_FILES: Mutex<Vec<FileIdentity>> = Mutex::new(Vec::new());

// SAFETY: a context has no tie to the thread that opened it. Mutexes of chains do belong to a
// thread, but they are held only by a `ChainLock`, which borrows the `Tdb` and cannot leave its
// thread because `Tdb` is not `Sync`.
unsafe impl Send for Tdb {}

impl Tdb {
    /// Creates a file with `hash_size` chains. An existing one is replaced, and processes that have
    /// it open keep the old file to themselves.
    ///
    /// # Errors
    /// Those of the file system and of libtdb.
    pub fn create(path: &Path, hash_size: u16) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        Self::open(path, hash_size, Access::Update, flags | libc::O_NOFOLLOW)
    }

    /// Opens a file that another process created and holds open.
    ///
    /// # Errors
    /// Those of the file system and of libtdb; `ResourceBusy` if this process has it open already.
    pub fn join(path: &Path) -> io::Result<Self> {
        Self::open(path, 0, Access::Update, libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW)
    }

    /// Opens a file for reading, without locks: records may change while they are read.
    ///
    /// # Errors
    /// As [`Tdb::join`].
    pub fn observe(path: &Path) -> io::Result<Self> {
        Self::open(path, 0, Access::Observe, libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOFOLLOW)
    }

    /// Opens a file that outlives the server, and creates it if it does not exist.
    ///
    /// # Errors
    /// As [`Tdb::join`]; and for a file that is no table.
    pub fn stable(path: &Path, hash_size: u16) -> io::Result<Self> {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        Self::open(path, hash_size, Access::Stable, flags)
    }

    /// Opens a file that all processes of a server open in this way, each when it starts: the first
    /// one empties it. All must pass the same `mapping`; without one, every access is a system
    /// call, and locks are those of `fcntl`.
    ///
    /// # Errors
    /// As [`Tdb::join`].
    pub fn shared(path: &Path, hash_size: u16, mapping: Mapping) -> io::Result<Self> {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        let access = match mapping {
            Mapping::Mapped => Access::Update,
            Mapping::Unmapped => Access::Unmapped,
        };
        Self::open(path, hash_size, access, flags)
    }

    /// Opens a file that another program's server has created and holds open, such as ctdbd, with
    /// the flags of `tdb_open` that this server tells: all processes must lock and hash alike.
    ///
    /// The file is emptied if that server has ended, and the flags say that the first one does so.
    ///
    /// # Errors
    /// As [`Tdb::join`]; `InvalidInput` for flags that would make another file, or none at all.
    pub fn managed(path: &Path, flags: u32) -> io::Result<Self> {
        let flags = c_int::try_from(flags).map_err(|_| io::ErrorKind::InvalidInput)?;
        if flags & !MANAGED_FLAGS != 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let open_flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        Self::open(path, 0, Access::Managed(flags), open_flags)
    }

    /// File descriptor of the open file.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open, and its descriptor stays open as long.
        unsafe { BorrowedFd::borrow_raw(ffi::tdb_fd(self.context.as_ptr())) }
    }

    /// Takes over the table of the parent process after a fork: the child has the mapping, but none
    /// of the `fcntl` locks.
    ///
    /// # Errors
    /// Those of the file system and of libtdb.
    pub fn inherit(self) -> io::Result<Self> {
        // SAFETY: the context is open, no lock of it is held (a `ChainLock` borrows the table), and
        // a failed call closes it, after which it is not used again.
        if unsafe { ffi::tdb_reopen(self.context.as_ptr()) } == 0 {
            return Ok(self);
        }
        let error = io::Error::last_os_error();
        let mut open_files = OPEN_FILES.lock().expect("nothing panics while it is held");
        open_files.retain(|file| *file != self.file);
        std::mem::forget(self);
        Err(error)
    }

    fn open(path: &Path, hash_size: u16, access: Access, open_flags: c_int) -> io::Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        let mut open_files = OPEN_FILES.lock().expect("nothing panics while it is held");
        if let Ok(file) = identity(path)
            && open_files.contains(&file)
        {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let tdb_flags = match access {
            Access::Managed(flags) => flags,
            Access::Observe => ffi::TDB_DEFAULT,
            Access::Stable => ffi::TDB_INCOMPATIBLE_HASH,
            Access::Unmapped => VOLATILE_FLAGS | ffi::TDB_NOMMAP,
            Access::Update => update_flags(),
        };
        // SAFETY: `name` is a C string that outlives the call; `OPEN_FILES` is held, so nothing
        // else is in libtdb's list of open files.
        let context = unsafe {
            ffi::tdb_open(name.as_ptr(), c_int::from(hash_size), tdb_flags, open_flags, 0o600)
        };
        let context = NonNull::new(context).ok_or_else(io::Error::last_os_error)?;
        let collected = RefCell::default();
        let mut table = Self { context, file: (0, 0), access, collected };
        table.file = descriptor_identity(&table)?;
        open_files.push(table.file);
        Ok(table)
    }

    /// Reason of the last failure that libtdb reports.
    fn error(&self) -> TdbError {
        // SAFETY: the context is open.
        match unsafe { ffi::tdb_error(self.context.as_ptr()) } {
            ffi::TDB_ERR_EXISTS => TdbError::Exists,
            ffi::TDB_ERR_LOCK | ffi::TDB_ERR_NOLOCK | ffi::TDB_ERR_LOCK_TIMEOUT => TdbError::Lock,
            ffi::TDB_ERR_OOM => TdbError::Full,
            ffi::TDB_ERR_RDONLY => TdbError::ReadOnly,
            _ => TdbError::Storage,
        }
    }

    fn has_no_error(&self) -> bool {
        // SAFETY: the context is open.
        unsafe { ffi::tdb_error(self.context.as_ptr()) == ffi::TDB_SUCCESS }
    }

    fn is_absent(&self) -> bool {
        // SAFETY: the context is open.
        unsafe { ffi::tdb_error(self.context.as_ptr()) == ffi::TDB_ERR_NOEXIST }
    }

    fn store(&self, key: &[u8], value: &[u8], flag: c_int) -> Result<(), TdbError> {
        if value.len() > RECORD_BYTES_MAX {
            return Err(TdbError::RecordTooLarge(value.len()));
        }
        // SAFETY: the context is open, and libtdb only reads key and value, which outlive the call.
        let result = unsafe { ffi::tdb_store(self.context.as_ptr(), data(key), data(value), flag) };
        match result {
            0 => Ok(()),
            // libtdb has no error of its own for a full file system: it reports only a missing
            // record.
            _ if self.is_absent() || self.has_no_error() => Err(TdbError::Full),
            _ => Err(self.error()),
        }
    }

    /// Calls `parse` with the record in the mapping, with its chain locked.
    fn parse<R>(&self, key: &[u8], parse: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, TdbError> {
        let mut call = ParseCall::Waiting(parse);
        let private_data = (&raw mut call).cast::<c_void>();
        let callback = callback_of(&call);
        // SAFETY: the context is open, the key outlives the call, and `callback` is the one that
        // expects exactly `call`, which nothing else touches until the call returns.
        let result = unsafe {
            ffi::tdb_parse_record(self.context.as_ptr(), data(key), callback, private_data)
        };
        match call {
            ParseCall::Done(value) => Ok(Some(value)),
            ParseCall::Panicked(panic) => resume_unwind(panic),
            ParseCall::Running => unreachable!("the callback always leaves another state"),
            ParseCall::Waiting(_) if result != 0 && !self.is_absent() => Err(self.error()),
            ParseCall::Waiting(_) => Ok(None),
        }
    }

    /// Returns a copy of the record that libtdb made without looking at a lock. It may be a secret,
    /// of which no further copy stays in memory.
    fn fetch(&self, key: &[u8]) -> Result<Option<Zeroizing<Vec<u8>>>, TdbError> {
        // SAFETY: the context is open and the key outlives the call.
        let value = unsafe { ffi::tdb_fetch(self.context.as_ptr(), data(key)) };
        if value.dptr.is_null() {
            return if self.is_absent() { Ok(None) } else { Err(self.error()) };
        }
        // SAFETY: libtdb says that these bytes are ours, allocated by `malloc`.
        let record = unsafe { std::slice::from_raw_parts_mut(value.dptr, value.dsize) };
        let copy = Zeroizing::new(record.to_vec());
        record.zeroize();
        // SAFETY: as above; `copy` does not borrow from them.
        unsafe { libc::free(value.dptr.cast()) };
        Ok(Some(copy))
    }

    /// Copies all records of one hash chain, under its lock.
    ///
    /// A reader without locks may meet a chain in the middle of a change and follow a stale link.
    /// That is not damage; it tries again, up to [`OBSERVE_ATTEMPTS`] times.
    fn collect_chain(&self, chain: c_uint, collected: &mut Collected) -> Result<(), TdbError> {
        let attempts = if self.access == Access::Observe { OBSERVE_ATTEMPTS } else { 1 };
        for _ in 0..attempts {
            collected.clear();
            let private_data = std::ptr::from_mut(collected).cast::<c_void>();
            // SAFETY: the context is open, `chain` is below the hash size, and `collect` expects
            // exactly this `Collected`, which nothing else touches until the call returns.
            let result = unsafe {
                ffi::tdb_traverse_chain(
                    self.context.as_ptr(),
                    chain,
                    collect::collect,
                    private_data,
                )
            };
            if result >= 0 {
                return Ok(());
            }
        }
        Err(self.error())
    }

    /// Calls `decide` with the record of `key`, and carries out the change that it returns, with
    /// the record locked.
    ///
    /// Other processes wait for the lock meanwhile: `decide` must be short and must not touch this
    /// table again.
    ///
    /// # Errors
    /// [`TdbError`]; the record is unchanged then, also if there is no room for it to grow.
    pub fn with_record<R>(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<&[u8]>) -> (Change, R),
    ) -> Result<R, TdbError> {
        if self.access == Access::Observe {
            return Err(TdbError::ReadOnly);
        }
        with_normal_priority(|| {
            let lock = ChainLock::take(self, key)?;
            self.decide(&lock, key, decide)
        })
    }

    /// As [`Tdb::with_record`], but never waits for the lock.
    ///
    /// # Errors
    /// [`TdbError::Busy`] if another process has it; and as [`Tdb::with_record`].
    pub fn try_with_record<R>(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<&[u8]>) -> (Change, R),
    ) -> Result<R, TdbError> {
        if self.access == Access::Observe {
            return Err(TdbError::ReadOnly);
        }
        with_normal_priority(|| {
            let lock = ChainLock::try_take(self, key)?;
            self.decide(&lock, key, decide)
        })
    }

    fn decide<R>(
        &self,
        _lock: &ChainLock<'_>,
        key: &[u8],
        decide: impl FnOnce(Option<&[u8]>) -> (Change, R),
    ) -> Result<R, TdbError> {
        let mut decide = Some(decide);
        // libtdb deletes a record that needs more room before it looks for that room.
        let mut before = None;
        let found = self.parse(key, |value| {
            let decided = decide.take().map(|decide| decide(Some(value)));
            if decided.as_ref().is_some_and(|(change, _)| change.replaces(value)) {
                before = Some(Zeroizing::new(value.to_vec()));
            }
            decided
        })?;
        let (change, result) = match (found.flatten(), decide) {
            (Some(decided), _) => decided,
            (None, Some(decide)) => decide(None),
            (None, None) => unreachable!("taking it yields an answer"),
        };
        match change {
            Change::Delete => _ = self.delete(key)?,
            Change::Keep => {}
            Change::Store(value) => self.replace(key, &value, before.as_deref())?,
            Change::Erase(value) => {
                if let Some(before) = &before {
                    // In its place, as it is as long.
                    self.store(key, &vec![0; before.len()], ffi::TDB_REPLACE)?;
                }
                self.replace(key, &value, before.as_deref())?;
            }
        }
        Ok(result)
    }

    /// Replaces a record, which is as `before` if that fails.
    fn replace(&self, key: &[u8], new: &[u8], before: Option<&Vec<u8>>) -> Result<(), TdbError> {
        let Err(error) = self.store(key, new, ffi::TDB_REPLACE) else { return Ok(()) };
        if let Some(before) = before {
            // Cannot fail for want of room: the old record freed as much in this locked chain.
            self.store(key, before, ffi::TDB_REPLACE)?;
        }
        Err(error)
    }

    /// Calls `parse` with the record of `key`, if there is one, under the rules that
    /// [`Tdb::with_record`] has for `decide`.
    ///
    /// # Errors
    /// [`TdbError`], without a call of `parse`.
    pub fn get<R>(
        &self,
        key: &[u8],
        parse: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TdbError> {
        match self.access {
            Access::Observe => Ok(self.fetch(key)?.map(|value| parse(&value))),
            Access::Managed(_) | Access::Stable | Access::Unmapped | Access::Update => {
                with_normal_priority(|| self.parse(key, parse))
            }
        }
    }

    /// Adds a record under a new key, in one step.
    ///
    /// # Errors
    /// [`TdbError::Exists`] if the key is taken; else any other [`TdbError`].
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), TdbError> {
        with_normal_priority(|| self.store(key, value, ffi::TDB_INSERT))
    }

    /// Removes the record of `key`. Returns whether there was one.
    ///
    /// # Errors
    /// Any [`TdbError`] of a lock or of the file.
    pub fn delete(&self, key: &[u8]) -> Result<bool, TdbError> {
        // SAFETY: the context is open and the key outlives the call.
        let delete = || unsafe { ffi::tdb_delete(self.context.as_ptr(), data(key)) };
        match with_normal_priority(delete) {
            0 => Ok(true),
            _ if self.is_absent() => Ok(false),
            _ => Err(self.error()),
        }
    }

    /// Waits until all changes are on stable storage, if the file is [`Tdb::stable`]; returns at
    /// once otherwise.
    ///
    /// # Errors
    /// [`TdbError::Storage`] if the write failed.
    pub fn sync(&self) -> Result<(), TdbError> {
        if self.access != Access::Stable {
            return Ok(());
        }
        // SAFETY: the context is open, and so is its descriptor. Changes made through the mapping
        // are written out as well.
        match unsafe { libc::fdatasync(ffi::tdb_fd(self.context.as_ptr())) } {
            0 => Ok(()),
            _ => Err(TdbError::Storage),
        }
    }

    /// Calls `visit` with every record, as `(key, value)`, in no order.
    ///
    /// `visit` sees copies and runs without a lock, so it may change the table. A record that is
    /// added or removed meanwhile may or may not be seen; no other is missed or seen twice.
    ///
    /// Returns the number of hash chains that are damaged and could not be read.
    ///
    /// # Errors
    /// [`TdbError::Lock`] if a chain could not be locked.
    pub fn for_each(&self, visit: impl FnMut(&[u8], &[u8])) -> Result<u64, TdbError> {
        self.for_each_of(0..self.chains(), visit)
    }

    /// As [`Tdb::for_each`], for the records of some hash chains.
    ///
    /// # Errors
    /// As [`Tdb::for_each`].
    pub fn for_each_of(
        &self,
        chains: Range<u32>,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, TdbError> {
        // Raised once, and not for each of thousands of chains.
        with_normal_priority(|| self.visit_chains(chains, visit))
    }

    /// Number of hash chains. A record stays in its chain.
    #[must_use]
    pub fn chains(&self) -> u32 {
        // SAFETY: the context is open.
        let chains = unsafe { ffi::tdb_hash_size(self.context.as_ptr()) };
        u32::try_from(chains).unwrap_or(0)
    }

    fn visit_chains(
        &self,
        chains: Range<u32>,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, TdbError> {
        // Taken out, so that `visit` may start a traverse of its own.
        let mut collected = self.collected.take();
        let mut damaged = 0;
        for chain in chains.start..chains.end.min(self.chains()) {
            match self.collect_chain(chain, &mut collected) {
                Ok(()) => {}
                Err(TdbError::Lock) => return Err(TdbError::Lock),
                Err(_) => damaged += 1,
            }
            collected.records().for_each(|(key, value)| visit(key, value));
        }
        collected.clear();
        self.collected.replace(collected);
        Ok(damaged)
    }
}

impl Drop for Tdb {
    fn drop(&mut self) {
        let mut open_files = OPEN_FILES.lock().expect("nothing panics while it is held");
        // SAFETY: the context is open, no lock of it is held (a `ChainLock` borrows the table),
        // and it is not used again.
        unsafe { ffi::tdb_close(self.context.as_ptr()) };
        open_files.retain(|file| *file != self.file);
    }
}

/// Progress of a call of [`Tdb::parse`].
enum ParseCall<F, R> {
    Done(R),
    Panicked(Box<dyn Any + Send>),
    Running,
    Waiting(F),
}

/// The callback for a `ParseCall` of the type of `_call`.
fn callback_of<F: FnOnce(&[u8]) -> R, R>(_call: &ParseCall<F, R>) -> ffi::Parse {
    parse_callback::<F, R>
}

/// Runs the parser. A panic is kept until the C frames are left, and resumed there.
unsafe extern "C" fn parse_callback<F: FnOnce(&[u8]) -> R, R>(
    _key: TdbData,
    value: TdbData,
    private_data: *mut c_void,
) -> c_int {
    // SAFETY: `Tdb::parse` passes a `ParseCall` of these types and leaves it alone meanwhile.
    let call = unsafe { &mut *private_data.cast::<ParseCall<F, R>>() };
    let ParseCall::Waiting(parse) = std::mem::replace(call, ParseCall::Running) else {
        return -1;
    };
    // SAFETY: the chain is locked, so libtdb's bytes do not change until this function returns.
    let value = unsafe { bytes(value) };
    *call = match catch_unwind(AssertUnwindSafe(|| parse(value))) {
        Ok(result) => ParseCall::Done(result),
        Err(panic) => ParseCall::Panicked(panic),
    };
    0
}

/// Turns `bytes` into the argument type of libtdb, which does not write through the pointer in any
/// call used here.
fn data(bytes: &[u8]) -> TdbData {
    TdbData { dptr: bytes.as_ptr().cast_mut(), dsize: bytes.len() }
}

/// Borrows the bytes of `data`.
///
/// # Safety
/// `data` must point to valid memory that does not change while the result is in use.
unsafe fn bytes<'a>(data: TdbData) -> &'a [u8] {
    if data.dptr.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data.dptr, data.dsize) }
}

/// Flags of a file that lasts as long as one run of the server.
///
/// The dead records that `TDB_VOLATILE` keeps in their chain spare most inserts and deletes the
/// list of free space, which has one lock for the whole file.
const VOLATILE_FLAGS: c_int =
    ffi::TDB_CLEAR_IF_FIRST | ffi::TDB_INCOMPATIBLE_HASH | ffi::TDB_NOSYNC | ffi::TDB_VOLATILE;

/// Flags that [`Tdb::managed`] accepts: they are about locks, hashes, and writes to the disk.
const MANAGED_FLAGS: c_int = ffi::TDB_ALLOW_NESTING
    | ffi::TDB_CLEAR_IF_FIRST
    | ffi::TDB_DISALLOW_NESTING
    | ffi::TDB_INCOMPATIBLE_HASH
    | ffi::TDB_MUTEX_LOCKING
    | ffi::TDB_NOMMAP
    | ffi::TDB_NOSYNC
    | ffi::TDB_SEQNUM
    | ffi::TDB_VOLATILE;

/// Flags of a process that changes the table.
fn update_flags() -> c_int {
    // SAFETY: `OPEN_FILES` is held, so the first call, which probes in a child process and
    // remembers the result, is alone.
    match unsafe { ffi::tdb_runtime_check_for_robust_mutexes() } {
        true => VOLATILE_FLAGS | ffi::TDB_MUTEX_LOCKING,
        false => VOLATILE_FLAGS,
    }
}

fn identity(path: &Path) -> io::Result<FileIdentity> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

fn descriptor_identity(table: &Tdb) -> io::Result<FileIdentity> {
    // SAFETY: an all-zero `stat` is a valid one.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the context is open, so its descriptor is too; `stat` is ours to write.
    match unsafe { libc::fstat(ffi::tdb_fd(table.context.as_ptr()), &raw mut stat) } {
        0 => Ok((stat.st_dev, stat.st_ino)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Attempts of a reader without locks to read a changing chain.
const OBSERVE_ATTEMPTS: usize = 16;
