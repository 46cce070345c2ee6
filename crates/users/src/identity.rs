//! Ids of a user for the kernel, for users whom the system does not know.

use std::fmt;

/// Groups of a user. The kernel accepts 65,536; a line must stay short.
const GROUPS_MAX: usize = 64;

/// The highest id that a user or group can have: one more means "none" to the kernel.
const ID_MAX: u32 = u32::MAX - 1;

/// Ids that a user has on the server's files, whatever the system's name service says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// Id of the user. Never that of root.
    uid: u32,
    /// Id of the primary group, then those of further groups.
    gids: Vec<u32>,
}

impl Identity {
    /// Returns the identity with these ids; the first group is the primary one.
    ///
    /// # Errors
    /// An id that must not be given to clients, or too few or too many groups.
    pub fn new(uid: u32, gids: Vec<u32>) -> Result<Self, &'static str> {
        if uid == 0 {
            return Err("the user id is that of root");
        }
        if uid > ID_MAX || gids.iter().any(|gid| *gid > ID_MAX) {
            return Err("an id is too high");
        }
        match gids.len() {
            0 => Err("there is no group id"),
            count if count > GROUPS_MAX => Err("there are more than 64 group ids"),
            _ => Ok(Self { uid, gids }),
        }
    }

    /// Reads ids as they are written in lists of users: `1000` and `1000,44`.
    ///
    /// # Errors
    /// As [`Identity::new`], or a word is no number.
    pub fn parse(uid: &str, gids: &str) -> Result<Self, &'static str> {
        let id = |word: &str| word.parse::<u32>().map_err(|_| "an id is not a number");
        Self::new(id(uid)?, gids.split(',').map(id).collect::<Result<_, _>>()?)
    }

    /// Returns the id of the user.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Returns the id of the primary group.
    #[must_use]
    pub fn gid(&self) -> u32 {
        self.gids[0]
    }

    /// Returns the ids of all groups, the primary one first.
    #[must_use]
    pub fn gids(&self) -> &[u32] {
        &self.gids
    }
}

/// As [`Identity::parse`] reads it, with a space between.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gids: Vec<String> = self.gids.iter().map(u32::to_string).collect();
        write!(f, "{} {}", self.uid, gids.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::Identity;

    #[test]
    fn ids_are_read_as_they_are_written() {
        let identity = Identity::parse("1001", "100,44").expect("ids");
        assert_eq!((identity.uid(), identity.gid(), identity.gids()), (1_001, 100, &[100, 44][..]));
        assert_eq!(identity.to_string(), "1001 100,44");
    }

    #[test]
    fn nobody_is_root_by_a_list_of_users() {
        for (uid, gids) in [("0", "1"), ("x", "1"), ("1", ""), ("4294967295", "1"), ("1", "1,")] {
            assert!(Identity::parse(uid, gids).is_err(), "{uid} {gids}");
        }
        Identity::new(1, vec![1; 65]).expect_err("there are too many");
        Identity::new(1, vec![1; 64]).expect("there may be so many");
    }
}
