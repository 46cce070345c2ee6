//! Share of the opens or locks that one client may take.

/// Standing of a client that takes a place among the opens or locks of a file, or of all files.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Standing {
    /// A user with an account on the server.
    #[default]
    User,
    /// A guest or anonymous user: anyone can be that, so it gets a quarter of a user's share.
    Guest,
}

impl Standing {
    /// True if a client with `own` of `max` places may take `wanted` more beside `others`.
    ///
    /// Its share is one of `parts` of the places that other clients left, not of `max`: so many
    /// greedy clients still leave places to a new one. There can be far more guests than users, so
    /// together they leave a quarter of `max` to users.
    #[must_use]
    pub fn permits(
        self,
        (max, parts): (usize, usize),
        (others, own, wanted): (usize, usize, usize),
    ) -> bool {
        let (parts, reserved) = match self {
            Self::User => (parts, 0),
            Self::Guest => (parts * 4, max / 4),
        };
        let left = max.saturating_sub(others);
        own + wanted <= (left / parts).min(left.saturating_sub(reserved))
    }
}

#[cfg(test)]
mod tests {
    use super::Standing;

    /// Returns the number of places that a client can take, one after the other.
    fn fill(standing: Standing, max: usize, parts: usize, others: usize) -> usize {
        (0..).find(|own| !standing.permits((max, parts), (others, *own, 1))).expect("it ends")
    }

    #[test]
    fn any_number_of_guests_leaves_a_quarter_to_users() {
        let (max, parts) = (16_384, 16);
        let mut taken = 0;
        for _ in 0..10_000 {
            taken += fill(Standing::Guest, max, parts, taken);
        }
        assert!(taken > max / 2, "{taken}");
        assert!(fill(Standing::User, max, parts, taken) >= max / 4 / parts, "{taken}");
    }

    #[test]
    fn users_beyond_three_quarters_leave_none_to_guests() {
        assert_eq!(fill(Standing::Guest, 1_000, 4, 750), 0);
        assert_eq!(fill(Standing::User, 1_000, 4, 750), 62);
    }
}
