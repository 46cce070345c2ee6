//! Limits of credits: [MS-SMB2] 3.3.1.2.

use crate::controller::ONE;

/// Lowest number of credits of a connection. Clients are known to hang below: they need some for a
/// directory listing during reads.
pub const FLOOR: u32 = 64;

/// Share of one connection in the credits of all clients: equal for every client and for every
/// connection of a client, but at least [`FLOOR`].
#[must_use]
pub fn part(total: u32, clients: u32, connections: u32) -> u32 {
    (total / clients.max(1) / connections.max(1)).max(FLOOR)
}

/// Credits of each connection of a client that may have `limit` of them. At least [`FLOOR`] unless
/// `limit` is less.
#[must_use]
pub fn part_of_client(limit: u32, connections: u32) -> u32 {
    (limit / connections.max(1)).max(FLOOR).min(limit)
}

/// Credits of a client while storage is saturated, reduced to `parts` of [`ONE`]. At least
/// [`FLOOR`] unless `credits` is less.
#[must_use]
pub fn lowered(credits: u32, parts: u64) -> u32 {
    let lowered = u64::from(credits) * parts.min(ONE) / ONE;
    u32::try_from(lowered).unwrap_or(u32::MAX).max(FLOOR).min(credits)
}

#[cfg(test)]
mod tests {
    use super::{FLOOR, ONE, lowered, part, part_of_client};

    #[test]
    fn a_total_is_for_all_and_leaves_nobody_with_too_little() {
        assert_eq!(part(8192, 0, 0), 8192);
        assert_eq!(part(8192, 4, 1), 2048);
        assert_eq!(part(8192, 4, 4), 512);
        assert_eq!(part(8192, 1000, 1), FLOOR);
    }

    #[test]
    fn the_limit_of_a_client_is_divided_among_its_connections() {
        assert_eq!(part_of_client(512, 0), 512);
        assert_eq!(part_of_client(512, 1), 512);
        assert_eq!(part_of_client(512, 4), 128);
        assert_eq!(part_of_client(512, 32), FLOOR);
        assert_eq!(part_of_client(16, 4), 16);
    }

    #[test]
    fn lowered_credits_keep_a_minimum_and_are_never_more() {
        assert_eq!(lowered(8192, ONE), 8192);
        assert_eq!(lowered(8192, ONE / 16), 512);
        assert_eq!(lowered(512, ONE / 16), FLOOR);
        assert_eq!(lowered(16, ONE / 16), 16);
        assert_eq!(lowered(8192, 10 * ONE), 8192);
    }
}
