//! Granting credits: [MS-SMB2] 3.3.1.2 and 3.3.4.1.2.

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

/// Credits that a client requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Demand {
    /// `CreditRequest` of the request being answered.
    pub credit_request: u16,
}

/// State of the client's window at the time of the response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Window {
    /// Message ids that the client has and has not used.
    pub unused: u32,
    /// Message ids between the lowest unused one and the end of the window, used ones included.
    pub span: u32,
    /// Highest value that `span` may reach.
    pub max: u32,
}

impl Window {
    /// Returns the window of a client with at most `limit` ids. A client with more ids gets none,
    /// or one if it has used all of them.
    #[must_use]
    pub fn limited_to(self, limit: u32) -> Self {
        let least = self.span + u32::from(self.unused == 0);
        Self { max: self.max.min(limit.max(least)), ..self }
    }
}

/// Returns the number of credits for a response.
///
/// Promises: `span + grant <= max`, and a client is never left without any credit, because it could
/// never ask for more.
#[must_use]
pub fn grant(demand: Demand, window: Window) -> u16 {
    debug_assert!(window.max > 0, "a window of nothing would strand every client");
    debug_assert!(window.unused <= window.span, "unused ids lie inside the window");
    let room = window.max.saturating_sub(window.span);
    // A request for zero credits asks to keep the present number; it consumes a credit of its own,
    // so the last one is granted again.
    let wanted = u32::from(demand.credit_request).max(u32::from(window.unused == 0));
    let granted = u16::try_from(wanted.min(room)).unwrap_or(u16::MAX);
    assert!(window.unused + u32::from(granted) > 0, "the client is stranded");
    granted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Demand, FLOOR, ONE, Window, grant, lowered, part, part_of_client};

    #[track_caller]
    fn check(credit_request: u16, unused: u32, span: u32, want: u16) {
        let window = Window { unused, span, max: 512 };
        assert_eq!(grant(Demand { credit_request }, window), want);
    }

    #[test]
    fn what_is_asked_for_is_granted_while_there_is_room() {
        check(33, 10, 10, 33);
        check(u16::MAX, 0, 0, 512);
        check(10, 505, 505, 7);
    }

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
    fn what_is_lowered_leaves_enough_and_is_never_more() {
        assert_eq!(lowered(8192, ONE), 8192);
        assert_eq!(lowered(8192, ONE / 16), 512);
        assert_eq!(lowered(512, ONE / 16), FLOOR);
        assert_eq!(lowered(16, ONE / 16), 16);
        assert_eq!(lowered(8192, 10 * ONE), 8192);
    }

    #[test]
    fn a_client_with_nothing_left_gets_one() {
        check(0, 0, 0, 1);
        check(0, 1, 1, 0);
    }

    #[test]
    fn a_client_above_its_limit_gets_nothing_until_it_is_below() {
        let of = |unused, span| {
            let window = Window { unused, span, max: 512 }.limited_to(64);
            grant(Demand { credit_request: 100 }, window)
        };
        assert_eq!(of(10, 10), 54);
        assert_eq!(of(200, 200), 0);
        assert_eq!(of(0, 200), 1);
        assert_eq!(of(0, 0), 64);
    }

    proptest! {
        #[test]
        fn promises_hold(
            credit_request: u16,
            unused in 0_u32..600,
            holes in 0_u32..600,
            max in 1_u32..9000,
        ) {
            let span = if unused == 0 { 0 } else { unused + holes };
            let window = Window { unused, span, max };
            let granted = u32::from(grant(Demand { credit_request }, window));
            prop_assert!(span + granted <= max.max(span));
            prop_assert!(unused + granted > 0);
        }
    }
}
