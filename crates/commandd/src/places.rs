//! Places for commands, of which each user has a part.
//!
//! A killed command keeps its place until the kernel has ended all of its processes, which it may
//! not do while storage hangs; and a user can provide such storage.

use std::collections::HashMap;

use arbitration::Standing;
use process::has_processes;
use rustix::process::Pid;

/// Divisor of the places that other users have left: a user may have one such part. All guests
/// are one user.
const USER_PARTS: usize = 16;

/// Places that are taken, by user.
#[derive(Debug)]
pub(super) struct Places {
    max: usize,
    taken: HashMap<String, usize>,
    total: usize,
    /// Killed commands whose shells have ended, by user, and the groups of their other processes.
    remaining: Vec<(String, Pid)>,
}

impl Places {
    pub(super) fn new(max: usize) -> Self {
        Self { max, taken: HashMap::new(), total: 0, remaining: Vec::new() }
    }

    /// Takes a place for a user. Returns false if the user has its part already.
    pub(super) fn take(&mut self, user: &str) -> bool {
        self.free_ended();
        let own = self.taken.get(user).copied().unwrap_or_default();
        if !Standing::User.permits((self.max, USER_PARTS), (self.total - own, own, 1)) {
            return false;
        }
        self.taken.insert(user.to_owned(), own + 1);
        self.total += 1;
        true
    }

    /// Frees a place of a user as soon as the group has no process any more.
    pub(super) fn free_after(&mut self, user: &str, group: Pid) {
        self.remaining.push((user.to_owned(), group));
    }

    fn free_ended(&mut self) {
        let ended = self.remaining.extract_if(.., |(_, group)| !has_processes(*group));
        for (user, _) in ended.collect::<Vec<_>>() {
            self.free(&user);
        }
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
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use rustix::process::Pid;

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

    /// The attack: a shell ends at once, and its child hangs in the kernel.
    #[test]
    fn a_process_that_outlives_its_shell_keeps_the_place() {
        let mut child = Command::new("sleep").arg("600").process_group(0).spawn().expect("sleep");
        let mut places = Places::new(USER_PARTS);
        assert!(places.take("mallory"), "the only place of its part");
        places.free_after("mallory", Pid::from_child(&child));
        assert!(!places.take("mallory"), "it is not free yet");
        child.kill().and_then(|()| child.wait()).expect("it was started here");
        assert!(places.take("mallory"), "it is free now");
        assert_eq!(places.remaining, []);
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
