//! The clocks that all processes of the server agree on.

use std::time::{Duration, SystemTime};

use dtyp::FileTime;

/// The clock of the machine, which all processes of the server agree on and nobody sets:
/// deadlines in the tables are told by it.
pub fn machine_clock() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// Time of day, as a FILETIME.
pub fn wall_clock() -> FileTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    FileTime::from_unix(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos())
}
