//! Places for commands, of which each user has a part.
//!
//! A killed command keeps its place until the kernel has ended it, which it may not do while
//! storage hangs; and a user can provide such storage.

use std::collections::HashMap;

use arbitration::Standing;

/// Divisor of the places that other users have left: a user may have one such part. All guests
/// are one user.
const USER_PARTS: usize = 16;

/// Places that are taken, by user.
#[derive(Debug)]
pub(super) struct Places {
    max: usize,
    taken: HashMap<String, usize>,
    total: usize,
}

impl Places {
    pub(super) fn new(max: usize) -> Self {
        Self { max, taken: HashMap::new(), total: 0 }
    }

    /// Takes a place for a user. Returns false if the user has its part already.
    pub(super) fn take(&mut self, user: &str) -> bool {
        let own = self.taken.get(user).copied().unwrap_or_default();
        if !Standing::User.permits((self.max, USER_PARTS), (self.total - own, own, 1)) {
            return false;
        }
        self.taken.insert(user.to_owned(), own + 1);
        self.total += 1;
        true
    }

    /// Frees a place of a user.
    pub(super) fn free(&mut self, user: &str) {
        if let Some(own) = self.taken.get_mut(user) {
            *own -= 1;
            self.total -= 1;
            if *own == 0 {
                self.taken.remove(user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Places, USER_PARTS};

    #[test]
    fn a_user_with_a_full_part_leaves_the_same_to_others() {
        let mut places = Places::new(1_024);
        let fill = |places: &mut Places, user: &str| (0..).find(|_| !places.take(user));
        assert_eq!(fill(&mut places, "mallory"), Some(1_024 / USER_PARTS));
        assert_eq!(fill(&mut places, "anna"), Some((1_024 - 64) / USER_PARTS));
        places.free("mallory");
        assert_eq!(fill(&mut places, "mallory"), Some(0), "others have some by now");
        for _ in 0..63 {
            places.free("mallory");
        }
        for _ in 0..60 {
            places.free("anna");
        }
        assert_eq!((places.total, places.taken.len()), (0, 0));
    }

    #[test]
    fn many_users_with_full_parts_leave_places_to_a_further_one() {
        let mut places = Places::new(4_096);
        for user in 0..40 {
            let user = user.to_string();
            while places.take(&user) {}
        }
        assert!(places.take("anna"));
    }
}
