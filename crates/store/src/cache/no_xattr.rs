//! Objects without extended attributes: nearly all in most shares.
//!
//! To find that out takes a system call, as long as `statx` does. A new attribute changes the
//! change time of its object. So where the file system gives each change its own time, the answer
//! holds until the change time differs.
//!
//! A listing that a client repeats finds all of a large directory here. So an object takes only
//! eight bytes: a hash, with a key, of its inode and its change time.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU64;

use rustix::fs::Statx;

use crate::cache::directories::Inode;
use crate::sys::times;

/// Highest number of objects kept.
const OBJECTS_MAX: usize = 65_536;

/// Places for objects at first.
const OBJECTS_MIN: usize = 256;

/// Objects in a row: those of a cache line.
const ROW_LEN: usize = 8;

type Row = [Option<NonZeroU64>; ROW_LEN];

/// Objects that had no attributes, with their change times.
#[derive(Debug, Default)]
pub(crate) struct NoXattr {
    key: RandomState,
    /// Hashes, each in the row that its lowest bits say. Their number is a power of two.
    rows: Vec<Row>,
    len: usize,
}

impl NoXattr {
    /// Whether an object that looks like `status` was seen to have none.
    pub(crate) fn contains(&self, status: &Statx) -> bool {
        if self.rows.is_empty() {
            return false;
        }
        let hash = self.hash(status);
        self.rows[index_of(hash.get(), self.rows.len())].contains(&Some(hash))
    }

    /// Records that an object had no attributes after its status was `status`. One without a birth
    /// time is left out: small inodes of ext4 have no change times within a second either.
    pub(crate) fn keep(&mut self, status: &Statx) {
        if times::birth(status).is_none() {
            return;
        }
        let hash = self.hash(status);
        if self.len >= self.rows.len() * ROW_LEN / 2 {
            self.grow();
        }
        self.put(hash);
    }

    fn hash(&self, status: &Statx) -> NonZeroU64 {
        let hash = self.key.hash_one((Inode::of(status), times::change(status)));
        NonZeroU64::new(hash).unwrap_or(NonZeroU64::MIN)
    }

    /// Doubles the places, up to the highest number.
    fn grow(&mut self) {
        let rows = (2 * self.rows.len()).max(OBJECTS_MIN / ROW_LEN);
        if rows * ROW_LEN > OBJECTS_MAX {
            return;
        }
        let before = std::mem::replace(&mut self.rows, vec![Row::default(); rows]);
        self.len = 0;
        before.into_iter().flatten().flatten().for_each(|hash| self.put(hash));
    }

    /// Puts a hash into its row. In a full one it replaces another.
    fn put(&mut self, hash: NonZeroU64) {
        let index = index_of(hash.get(), self.rows.len());
        let row = &mut self.rows[index];
        if row.contains(&Some(hash)) {
            return;
        }
        let free = row.iter().position(Option::is_none);
        self.len += usize::from(free.is_some());
        row[free.unwrap_or_else(|| index_of(hash.get() >> 32, ROW_LEN))] = Some(hash);
    }
}

/// Index of a hash among so many, a power of two.
fn index_of(hash: u64, count: usize) -> usize {
    usize::try_from(hash & (count as u64 - 1)).expect("it is less than the count")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;

    use rustix::fs::{Statx, StatxFlags};

    use super::{NoXattr, OBJECTS_MAX, OBJECTS_MIN, ROW_LEN};
    use crate::sys::system;

    /// Status of some file, with this number and change time.
    fn status(number: u64, second: i64) -> Statx {
        let file = fs::File::open("/dev/null").expect("it is there");
        let status = system::status_of(file.as_fd()).expect("it is open");
        of(&status, number, second)
    }

    fn of(status: &Statx, number: u64, second: i64) -> Statx {
        let mut status = *status;
        status.stx_mask |= StatxFlags::BTIME.bits();
        status.stx_ino = number;
        status.stx_ctime.tv_sec = second;
        status
    }

    #[test]
    fn an_object_is_known_until_its_change_time_differs() {
        let mut cache = NoXattr::default();
        assert!(!cache.contains(&status(1, 1)));
        cache.keep(&status(1, 1));
        assert!(cache.contains(&status(1, 1)));
        assert!(!cache.contains(&status(1, 2)) && !cache.contains(&status(2, 1)));
        cache.keep(&status(1, 2));
        assert!(cache.contains(&status(1, 2)));
    }

    #[test]
    fn an_object_without_a_birth_time_is_not_remembered() {
        let mut cache = NoXattr::default();
        let mut small = status(1, 1);
        small.stx_mask &= !StatxFlags::BTIME.bits();
        cache.keep(&small);
        assert!(!cache.contains(&small), "it may get an attribute in the same second");
    }

    #[test]
    fn a_listing_of_a_large_directory_fits() {
        let mut cache = NoXattr::default();
        let any = status(0, 1);
        let count = OBJECTS_MAX as u64 / 2;
        (0..count).for_each(|number| cache.keep(&of(&any, number, 1)));
        let known = (0..count).filter(|number| cache.contains(&of(&any, *number, 1))).count();
        assert!(known as u64 * 100 > count * 95, "{known} of {count}");
        assert!((0..count).all(|number| !cache.contains(&of(&any, number, 2))));
    }

    #[test]
    fn few_objects_take_little_and_many_take_no_more_than_the_limit() {
        let mut cache = NoXattr::default();
        let any = status(0, 1);
        cache.keep(&any);
        assert_eq!(cache.rows.len() * ROW_LEN, OBJECTS_MIN);
        for number in 0..3 * OBJECTS_MAX as u64 {
            cache.keep(&of(&any, number, 1));
            assert!(cache.contains(&of(&any, number, 1)), "the newest one");
        }
        assert_eq!(cache.rows.len() * ROW_LEN, OBJECTS_MAX);
    }

    #[test]
    fn an_object_that_is_kept_again_takes_no_other_place() {
        let mut cache = NoXattr::default();
        (0..1_000).for_each(|_| cache.keep(&status(7, 7)));
        assert_eq!((cache.len, cache.rows.len() * ROW_LEN), (1, OBJECTS_MIN));
    }
}
