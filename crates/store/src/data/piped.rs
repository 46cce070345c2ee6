//! Data in pipes, which take pages themselves: from the page cache into a socket without a copy,
//! from a socket into the page cache with one instead of two, or into memory.
//!
//! The pages are taken when the file is read or the socket has received them. So it is known from
//! then on how many bytes there are, and that they are there: the file may be closed, truncated or
//! removed, the connection may end. Of a file only what the page cache has is taken, because the
//! kernel would wait for the rest.

use crate::sys::lengths::as_u64;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use object::{Pipe, Piped};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::param::page_size;
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};

use crate::model::opens::Open;
use crate::security::credentials::Impersonation;

/// Shortest READ, in bytes, that is worth a pipe.
pub const PIPED_LEN_MIN: usize = 64 * 1024;

/// Pipes of a worker, each of which has two descriptors. What finds none goes through memory. At a
/// megabyte each they are half of what the kernel gives all processes of a user that have no
/// privilege (`fs.pipe-user-pages-soft`), and that is the same user for all workers of a server
/// that has none.
const PIPES_MAX: usize = 32;

/// Time for which no pipe is requested of a size that the kernel has refused: it may be too large
/// (`fs.pipe-max-size`), or the user may have too many pages in pipes.
const REFUSED_FOR: Duration = Duration::from_secs(30);

/// Time after which the pipes of an idle client are closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// The pipes of a worker.
#[derive(Debug)]
pub(crate) struct Pipes {
    /// Pipes that are not in use.
    kept: Vec<Pipe>,
    /// Every pipe has one, wherever it is.
    counted: Arc<()>,
    /// Pages for which the kernel gave no pipe, and when.
    refused: Option<(usize, Instant)>,
    used_at: Instant,
}

impl Default for Pipes {
    fn default() -> Self {
        Self { kept: Vec::new(), counted: Arc::default(), refused: None, used_at: Instant::now() }
    }
}

impl Pipes {
    /// Whether there may be a pipe for so many bytes of a file.
    pub(crate) fn may_read(&self, open: &Open, offset: u64, length: usize) -> bool {
        !open.pipe_support.is_read_impossible.get() && !self.is_refused(pages(offset, length))
    }

    /// Reads `length` bytes at `offset`, fewer only at the end of the file. Nothing if they are not
    /// all in the page cache, or there is none before the end, or no pipe for them: then they can
    /// be read into memory.
    pub(crate) fn read(
        &mut self,
        impersonation: &mut Impersonation,
        open: &Open,
        offset: u64,
        length: usize,
    ) -> Option<Piped> {
        let pipe = self.take(impersonation, pages(offset, length))?;
        let (mut position, mut have) = (offset, 0);
        while have < length {
            let at = Some(&mut position);
            let flags = SpliceFlags::NONBLOCK;
            match splice(open.fd(), at, &pipe.input, None, length - have, flags) {
                Ok(0) => break,
                Ok(count) => have += count,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    open.pipe_support.is_read_impossible.set(errno == Errno::INVAL);
                    // The pipe is dropped with its content.
                    return None;
                }
            }
        }
        let piped = Piped::new(pipe, have);
        if have == 0 {
            self.give(piped);
            return None;
        }
        Some(piped)
    }

    /// An empty pipe for so many bytes, if their pages are full.
    pub(crate) fn lend(
        &mut self,
        impersonation: &mut Impersonation,
        bytes: usize,
    ) -> Option<Piped> {
        let pages = bytes.div_ceil(page_size());
        if self.is_refused(pages) {
            return None;
        }
        self.take(impersonation, pages).map(|pipe| Piped::new(pipe, 0))
    }

    /// Whether the kernel would give no pipe of so many pages.
    fn is_refused(&self, pages: usize) -> bool {
        self.refused.is_some_and(|(refused, at)| pages >= refused && at.elapsed() < REFUSED_FOR)
    }

    /// An empty pipe with room for so many pages.
    fn take(&mut self, impersonation: &mut Impersonation, pages: usize) -> Option<Pipe> {
        self.used_at = Instant::now();
        // The last one given is the one whose memory is still in the processor's cache.
        let fits = self.kept.iter().rposition(|it| it.pages_max >= pages);
        if let Some(position) = fits {
            return Some(self.kept.swap_remove(position));
        }
        let mut pipe = match self.kept.pop() {
            Some(pipe) => pipe,
            None if Arc::strong_count(&self.counted) > PIPES_MAX => return None,
            None => {
                let (output, input) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
                let counted = Arc::clone(&self.counted);
                Pipe { output, input, pages_max: 0, counted }
            }
        };
        match impersonation.resize_pipe(&pipe.input, pages * page_size()) {
            Ok(size) => pipe.pages_max = size / page_size(),
            Err(Errno::PERM) => self.refused = Some((pages, Instant::now())),
            Err(_) => {}
        }
        (pipe.pages_max >= pages).then_some(pipe)
    }

    /// Takes a pipe back, if nothing is left in it.
    pub(crate) fn give(&mut self, piped: Piped) {
        self.used_at = Instant::now();
        let Some(pipe) = piped.into_empty() else { return };
        // A remainder in a pipe would be sent in a later answer.
        if rustix::io::ioctl_fionread(&pipe.output) == Ok(0) {
            self.kept.push(pipe);
        }
    }

    /// Returns the time of the next call of [`Pipes::forget_idle`]; `None` if no pipe is kept.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        (!self.kept.is_empty()).then(|| self.used_at + IDLE_TIMEOUT)
    }

    /// Closes the unused pipes if none was used for a while.
    pub(crate) fn forget_idle(&mut self, now: Instant) {
        if self.used_at + IDLE_TIMEOUT <= now {
            self.kept = Vec::new();
        }
    }
}

/// The pages that a range of a file is in.
fn pages(offset: u64, length: usize) -> usize {
    let in_page = usize::try_from(offset % as_u64(page_size())).expect("less than a page");
    (in_page + length).div_ceil(page_size())
}

/// Moves the data of a pipe into a socket that does not wait, as much as it takes; `more` follows.
///
/// # Errors
/// AGAIN if the socket has no room. Any other may be the socket's, or mean that it cannot take
/// pages.
pub fn send(piped: &mut Piped, socket: BorrowedFd<'_>, more: bool) -> Result<usize, Errno> {
    let mut flags = SpliceFlags::NONBLOCK;
    flags.set(SpliceFlags::MORE, more);
    let output = &piped.pipe().output;
    let length = piped.length();
    let sent = without_waiting(socket, || splice(output, None, socket, None, length, flags))?;
    piped.took(sent);
    // A page that cannot be had comes to nothing.
    if sent == 0 && piped.length() > 0 { Err(Errno::IO) } else { Ok(sent) }
}

/// Takes up to so many bytes that a socket has received into a pipe. Answers 0 at the end of the
/// stream.
///
/// # Errors
/// AGAIN if nothing was received, or the pipe has room for no page more. Any other is the socket's.
pub fn receive(socket: BorrowedFd<'_>, piped: &mut Piped, length: usize) -> Result<usize, Errno> {
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    let input = &piped.pipe().input;
    let came = without_waiting(socket, || splice(socket, None, input, None, length, flags))?;
    piped.came(came);
    Ok(came)
}

/// Makes a call that has no flag which keeps it from waiting for a socket: that of `splice` is
/// about the pipe, and whether the socket waits is its own affair.
fn without_waiting<T>(
    socket: BorrowedFd<'_>,
    call: impl FnOnce() -> Result<T, Errno>,
) -> Result<T, Errno> {
    ioctl_fionbio(socket, true)?;
    let result = call();
    // It fails for no socket. One that stayed so would be polled before each receive, no more.
    let _ = ioctl_fionbio(socket, false);
    result
}

/// Writes the data of a pipe to a file at an offset, which moves on with it.
///
/// # Errors
/// INVAL if the file cannot be written so; any other is as for `pwrite`.
pub(crate) fn write(
    piped: &mut Piped,
    file: BorrowedFd<'_>,
    offset: &mut u64,
) -> Result<usize, Errno> {
    let output = &piped.pipe().output;
    let written = splice(output, None, file, Some(offset), piped.length(), SpliceFlags::MOVE)?;
    piped.took(written);
    Ok(written)
}

/// Appends the data of a pipe to a buffer.
///
/// # Errors
/// It cannot be had.
pub fn read(piped: &mut Piped, buffer: &mut BytesMut) -> Result<(), Errno> {
    let mut have = buffer.len();
    buffer.resize(have + piped.length(), 0);
    while piped.length() > 0 {
        match rustix::io::read(&piped.pipe().output, &mut buffer[have..]) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => {
                have += count;
                piped.took(count);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
