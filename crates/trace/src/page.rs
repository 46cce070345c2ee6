//! Page of a worker: its counters, in memory that others may read.
//!
//! A file in the directory `trace` of the lock directory, `PID-UNIQUEID` in hexadecimal. The worker
//! maps it for writing, and users with permission map it for reading, without locks or system
//! calls. All of it are atomic words; zeros mean that nothing has happened yet.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Clock;
use crate::histograms::Histograms;
use crate::memory::{PAGE_BYTES, populate_bytes};
use crate::names::{Kind as _, Phase, StoreOperation};
use crate::party::{self, Parties};
use crate::refusals::Refusals;
use crate::schema::{AllSeries, FINGERPRINT};

/// Directory of the pages, in the lock directory.
pub const DIRECTORY: &str = "trace";

/// `CHOROTRC`, at the start of each page.
const MAGIC: u64 = u64::from_le_bytes(*b"CHOROTRC");

/// Version of the layout; [`FINGERPRINT`] identifies the set of events.
const VERSION: u64 = 11;

/// Highest number of pairs of share and user with their own counters; the rest share one.
pub const PARTIES_MAX: usize = 64;

#[derive(Debug)]
#[repr(C)]
pub(crate) struct Layout {
    magic: AtomicU64,
    version: AtomicU64,
    fingerprint: AtomicU64,
    bytes: AtomicU64,
    pub(crate) pid: AtomicU64,
    pub(crate) unique_id: AtomicU64,
    /// Clock of the counters as a word, and its value when counting began.
    clock: AtomicU64,
    began: AtomicU64,
    /// Start of the worker's current phase, in ticks.
    pub(crate) since: AtomicU64,
    /// Requests that were not traced, because too many were in flight.
    pub(crate) untraced: AtomicU64,
    /// Ticks of the worker in each phase, without a request and with one. The start of a phase is
    /// subtracted from its ticks, and its end added. So the current phase is negative, and the sum
    /// of all is always `-began`.
    pub(crate) idle: PhaseTicks,
    pub(crate) served: PhaseTicks,
    /// Ticks that requests waited in each phase.
    pub(crate) waited: PhaseTicks,
    pub(crate) series: AllSeries,
    pub(crate) stores: Histograms<{ StoreOperation::NAMES.len() }>,
    gap: [AtomicU64; GAP_WORDS],
    pub(crate) refusals: Refusals,
    pub(crate) parties: Parties<PARTIES_MAX>,
}

/// Words that are left out, so that the places of shares and users lie well in their pages, with
/// the last words of the refusals before them in the same page.
const GAP_WORDS: usize = {
    let head = 10 * size_of::<AtomicU64>() + 3 * size_of::<PhaseTicks>();
    let stores = size_of::<Histograms<{ StoreOperation::NAMES.len() }>>();
    let before = head + size_of::<AllSeries>() + stores + size_of::<Refusals>();
    (party::BEGIN + PAGE_BYTES - before % PAGE_BYTES) % PAGE_BYTES / size_of::<AtomicU64>()
};
const _: () = assert!(offset_of!(Layout, parties) % PAGE_BYTES == party::BEGIN);

/// Ticks of the clock, indexed by phase.
pub(crate) type PhaseTicks = [AtomicU64; Phase::NAMES.len()];

const BYTES: usize = size_of::<Layout>();

/// Bytes of a page that have memory from the start. The rest is many times as long and mostly
/// unused: a refusal, a histogram and a place of share and user get memory at their first use.
const ALLOCATED: [Range<usize>; 2] = {
    let stores =
        offset_of!(Layout, stores) + Histograms::<{ StoreOperation::NAMES.len() }>::BYTES_ALLOCATED;
    let refusals = offset_of!(Layout, refusals) + Refusals::UNUSED_BYTES;
    let parties = offset_of!(Layout, parties) + party::BYTES_ALLOCATED;
    [0..stores, refusals..parties]
};

impl Layout {
    /// Clock of the counters; `None` before counting has begun.
    pub(crate) fn clock(&self) -> Option<Clock> {
        Clock::from_word(self.clock.load(Ordering::Acquire))
    }

    /// Start of counting, in ticks.
    pub(crate) fn began(&self) -> u64 {
        self.began.load(Ordering::Relaxed)
    }

    /// Starts counting, in the phase [`Phase::Other`].
    pub(crate) fn begin(&self, now: u64, clock: Clock) {
        self.began.store(now, Ordering::Relaxed);
        self.since.store(now, Ordering::Relaxed);
        self.idle[Phase::Other as usize].store(now.wrapping_neg(), Ordering::Relaxed);
        // A reader that sees the clock sees the fields before it.
        self.clock.store(clock.word(), Ordering::Release);
    }
}

/// A mapped page of a worker.
#[derive(Debug)]
pub(crate) struct Page {
    layout: NonNull<Layout>,
}

// SAFETY: all fields are atomic words, and a mapping belongs to no thread.
unsafe impl Send for Page {}

/// Reason why a page cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// A system call failed, with its error.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The page does not exist: no such worker, one that has ended, or one that starts now and has
    /// not written the head of its page.
    #[error("there is no such worker")]
    Gone,
    /// The file's permissions forbid it.
    #[error("you may not read it: {} belongs to user {owner} and group {group}", path.display())]
    Forbidden {
        /// Path of the page in the lock directory.
        path: PathBuf,
        /// User id of its owner.
        owner: u32,
        /// Group id of its group.
        group: u32,
    },
    /// The file is not a page.
    #[error("{} is no page of a worker", .0.display())]
    Foreign(PathBuf),
    /// The page is from another version of Choro.
    #[error(
        "its worker is of another version of Choro and counts other things; use the `choro` \
         that serves"
    )]
    OtherVersion,
}

impl Page {
    /// Creates the page of a worker. `lock_dir/trace` must exist; the page gets its group, which
    /// may read it. Without room no file is left behind.
    pub(crate) fn create(lock_dir: &Path, pid: u32, unique_id: u64) -> io::Result<Self> {
        let path = path(lock_dir, pid, unique_id);
        let mut options = OpenOptions::new();
        let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o640)
            .custom_flags(flags)
            .open(&path)?;
        let mapped = file
            .set_len(BYTES as u64)
            .and_then(|()| Self::map(&file, libc::PROT_READ | libc::PROT_WRITE))
            .and_then(|page| page.allocate().map(|()| page));
        if mapped.is_err() {
            let _ = fs::remove_file(&path);
        }
        let page = mapped?;
        page.begin(pid, unique_id);
        Ok(page)
    }

    /// Creates a page in private memory, for this process alone.
    pub(crate) fn private() -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let page = Self::map_at(protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
        page.begin(std::process::id(), 0);
        Ok(page)
    }

    /// Opens the page of a worker for reading. Returns the file, too, which shows the worker's end.
    pub(crate) fn open(path: &Path) -> Result<(Self, File), PageError> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => PageError::Gone,
            io::ErrorKind::PermissionDenied => forbidden(path),
            _ => error.into(),
        })?;
        let metadata = file.metadata()?;
        if metadata.is_file() && metadata.len() == 0 {
            return Err(PageError::Gone);
        }
        let has_head = metadata.is_file() && metadata.len() >= HEAD_BYTES as u64;
        if !has_head {
            return Err(PageError::Foreign(path.to_owned()));
        }
        let head = read_head(&file)?;
        if head[0] == 0 {
            return Err(PageError::Gone);
        }
        if head[0] != MAGIC {
            return Err(PageError::Foreign(path.to_owned()));
        }
        let expected = [VERSION, FINGERPRINT, BYTES as u64];
        if head[1..] != expected || metadata.len() != BYTES as u64 {
            return Err(PageError::OtherVersion);
        }
        let page = Self::map(&file, libc::PROT_READ)?;
        Ok((page, file))
    }

    /// Returns its contents, mapped for the life of the process.
    pub(crate) fn keep(self) -> &'static Layout {
        let page = std::mem::ManuallyDrop::new(self);
        // SAFETY: as in `layout`; it is never dropped, so it is never unmapped.
        unsafe { page.layout.as_ref() }
    }

    /// Allocates the parts of a new page that are used from the start: a write to a mapped file
    /// without memory kills the process. After posix_fallocate(3) a file system on a disk reads the
    /// page when it is first touched: 1 ms for each worker on ext4.
    fn allocate(&self) -> io::Result<()> {
        let populated = ALLOCATED.into_iter().try_for_each(|Range { start, end }| {
            let begin = self.layout.as_ptr().wrapping_byte_add(start).cast();
            populate_bytes(begin, end - start)
        });
        populated.map_err(|error| match error.raw_os_error() {
            // The file system has no room: a store would kill the process.
            Some(libc::EFAULT) => io::ErrorKind::StorageFull.into(),
            _ => error,
        })
    }

    fn begin(&self, pid: u32, unique_id: u64) {
        let layout = self.layout();
        layout.version.store(VERSION, Ordering::Relaxed);
        layout.fingerprint.store(FINGERPRINT, Ordering::Relaxed);
        layout.bytes.store(BYTES as u64, Ordering::Relaxed);
        layout.pid.store(pid.into(), Ordering::Relaxed);
        layout.unique_id.store(unique_id, Ordering::Relaxed);
        // A reader that sees the magic number sees the rest of the head.
        layout.magic.store(MAGIC, Ordering::Release);
    }

    fn map(file: &File, protection: libc::c_int) -> io::Result<Self> {
        Self::map_at(protection, libc::MAP_SHARED, file.as_raw_fd())
    }

    fn map_at(protection: libc::c_int, flags: libc::c_int, fd: libc::c_int) -> io::Result<Self> {
        // SAFETY: a new mapping, anonymous or of a file of this length; no other memory is
        // affected.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, protection, flags, fd, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let layout = NonNull::new(address.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { layout })
    }

    pub(crate) fn layout(&self) -> &Layout {
        // SAFETY: mapped until this is dropped, aligned as pages are, and all fields are atomic
        // words, which others may change at any time, and for which every value is valid. A page
        // opened for reading is only read: `Reader` has no function that stores.
        unsafe { self.layout.as_ref() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and no reference is left.
        unsafe { libc::munmap(self.layout.as_ptr().cast(), BYTES) };
    }
}

/// Bytes of magic number, version, fingerprint and length.
const HEAD_BYTES: usize = 32;

fn read_head(file: &File) -> io::Result<[u64; 4]> {
    let mut head = [0; HEAD_BYTES];
    file.read_exact_at(&mut head, 0)?;
    let (words, _) = head.as_chunks::<8>();
    Ok(std::array::from_fn(|index| u64::from_ne_bytes(words[index])))
}

fn forbidden(path: &Path) -> PageError {
    let (owner, group) = fs::metadata(path).map(|it| (it.uid(), it.gid())).unwrap_or_default();
    PageError::Forbidden { path: path.to_owned(), owner, group }
}

/// Path of the page of a worker.
#[must_use]
pub fn path(lock_dir: &Path, pid: u32, unique_id: u64) -> PathBuf {
    lock_dir.join(DIRECTORY).join(format!("{pid}-{unique_id:016x}"))
}

/// Returns pid and unique id of each worker with a page, ordered by pid.
///
/// # Errors
/// The directory cannot be read.
pub fn workers(lock_dir: &Path) -> io::Result<Vec<(u32, u64)>> {
    let mut workers = Vec::new();
    for entry in fs::read_dir(lock_dir.join(DIRECTORY))? {
        let name = entry?.file_name();
        let parts = name.to_str().and_then(|name| name.split_once('-'));
        let id = parts.and_then(|(pid, unique_id)| {
            Some((pid.parse().ok()?, u64::from_str_radix(unique_id, 16).ok()?))
        });
        workers.extend(id);
    }
    workers.sort_unstable();
    Ok(workers)
}

/// Removes the page of a worker that has ended. Readers that have it open can still read it.
///
/// # Errors
/// The file exists and cannot be removed.
pub fn remove(lock_dir: &Path, pid: u32, unique_id: u64) -> io::Result<()> {
    match fs::remove_file(path(lock_dir, pid, unique_id)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Creates the directory of the pages, and removes pages of an earlier server.
///
/// An existing directory keeps its group and mode, with which the administrator decides who may
/// trace.
///
/// # Errors
/// The directory or a page cannot be created, read or removed.
pub fn prepare(lock_dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let directory = lock_dir.join(DIRECTORY);
    match fs::DirBuilder::new().mode(0o750).create(&directory) {
        // Set-group-ID: new pages get the directory's group, whichever it is by then.
        Ok(()) => fs::set_permissions(&directory, Permissions::from_mode(0o2750))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    for (pid, unique_id) in workers(lock_dir)? {
        remove(lock_dir, pid, unique_id)?;
    }
    Ok(())
}
