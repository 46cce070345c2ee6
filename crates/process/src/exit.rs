//! The end of a process without the steps that other programs end with.

/// Ends this process successfully, and leaves all to the kernel. The destructors of the system's
/// libraries would each copy a page of memory first, for a flag: a twentieth of a short client.
pub fn exit_at_once() -> ! {
    // SAFETY: the process ends here. The log has no buffer, and nothing registers exit handlers
    // that matter to others.
    unsafe { libc::_exit(0) }
}
