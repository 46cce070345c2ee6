//! Locks and leases of the kernel, by which SMB clients and local programs respect each other.

/// A range of bytes as a client names it. May end beyond 2^63.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileRange {
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes, or zero.
    pub length: u64,
}

/// A byte-range lock of an open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RangeLock {
    /// Range of bytes that it covers.
    pub range: FileRange,
    /// True if it excludes all other locks of these bytes.
    pub exclusive: bool,
}

/// A lock of a whole file: flock(2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WholeFileLock {
    /// Programs with the same kind of lock may use the file, too.
    Shared,
    /// No other program has a lock of the file.
    Exclusive,
}

/// Exclusion of local programs from a file while an open of a client uses it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct KernelClaim {
    /// Lock that stands for the share mode, if it can be expressed.
    pub lock: Option<WholeFileLock>,
    /// Whether to take a lease, which reports that a local program opens the file.
    pub lease: bool,
}

impl KernelClaim {
    /// True if nothing has to be claimed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
