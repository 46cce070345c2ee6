//! Memory of a mapped file: a store where the file system has no room for it kills the process.

use std::io;

/// Bytes of a page of memory on most machines, by which the counters are laid out.
pub(crate) const PAGE_BYTES: usize = 4_096;

/// Allocates memory for the first bytes of a part of a mapped page. Returns false if there is none.
pub(crate) fn populate<T>(part: &T, bytes: usize) -> bool {
    let begin = std::ptr::from_ref(part).cast::<u8>().cast_mut();
    populate_bytes(begin, bytes).is_ok()
}

/// Allocates memory for bytes of a mapped page, and maps it.
///
/// # Errors
/// There is no memory.
pub(crate) fn populate_bytes(begin: *mut u8, length: usize) -> io::Result<()> {
    let before = begin.addr() % page_bytes();
    // SAFETY: the mapping has these pages, because it has the bytes; they are only made present.
    let result = unsafe {
        let begin = begin.wrapping_byte_sub(before).cast::<libc::c_void>();
        libc::madvise(begin, before + length, libc::MADV_POPULATE_WRITE)
    };
    if result == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EINVAL) => touch(begin, length),
        error => Err(error),
    }
}

/// Does the same before Linux 5.14, which knows no such advice: the kernel adds zero to a word in
/// each page of memory, and reports where a store would kill the process.
fn touch(begin: *mut u8, length: usize) -> io::Result<()> {
    let end = begin.addr() + length;
    let mut at = begin.wrapping_byte_sub(begin.addr() % size_of::<u32>());
    while at.addr() < end {
        add_zero(at.cast())?;
        at = at.wrapping_byte_add(page_bytes() - at.addr() % page_bytes());
    }
    Ok(())
}

/// Has the kernel add zero to a word of mapped memory, which nobody waits for.
fn add_zero(word: *mut u32) -> io::Result<()> {
    let operation = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
    let add_zero = libc::FUTEX_OP_ADD << 28 | libc::FUTEX_OP_CMP_EQ << 24;
    // SAFETY: the mapping has the word, since it has a byte of the page behind it; the kernel
    // changes it atomically, and not at all.
    let result = unsafe { libc::syscall(libc::SYS_futex, word, operation, 0, 0, word, add_zero) };
    if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the size of a memory page in bytes. rustix uses the kernel's vDSO, which is missing
/// under valgrind: there it would crash.
fn page_bytes() -> usize {
    // SAFETY: numbers only.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("each system has a page size")
}
