//! The policy that admits a client or turns it away, by its address and the clients that are
//! served.
//!
//! Each client costs a process, and at accept nobody knows its user. So clients without a user, not
//! yet or as guests, have few places, in total and for each address, and one of them makes room for
//! an address that has none. A guest makes room for a client that may be a user.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;

use config::Startups;
use tables::Logon;

/// The address by which clients are counted: an IPv4 address, or an IPv6 network of 64 bits,
/// because one machine has all of its addresses. An address from which a user has logged on is
/// counted apart from its network.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct Source {
    address: IpAddr,
    is_familiar: bool,
}

impl Source {
    /// Returns a source of its own for an address from which a user has logged on.
    pub(super) fn familiar(address: IpAddr) -> Self {
        Self { address: address.to_canonical(), is_familiar: true }
    }

    /// Returns the source of a stranger from the same address.
    pub(super) fn as_stranger(self) -> Self {
        self.address.into()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { address: IpAddr::V6(network), is_familiar: false } => write!(f, "{network}/64"),
            Self { address, .. } => write!(f, "{address}"),
        }
    }
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        let address = match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
            address => address,
        };
        Self { address, is_familiar: false }
    }
}

/// The network of a [`Source`] that one provider gives to one site: 24 bits of an IPv4 address, 48
/// of an IPv6 one. So the 65,536 networks of 64 bits in it are not as many strangers. An address
/// from which a user has logged on is its own network.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Network(Source);

impl From<Source> for Network {
    fn from(source: Source) -> Self {
        let address = match source.address {
            address if source.is_familiar => address,
            IpAddr::V4(address) => IpAddr::V4((address.to_bits() >> 8 << 8).into()),
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 80 << 80).into()),
        };
        Self(Source { address, ..source })
    }
}

/// Numbers of clients that are served, by their logon.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Count {
    pub(super) nobody: usize,
    pub(super) guests: usize,
    pub(super) users: usize,
}

impl Count {
    pub(super) fn all(self) -> usize {
        self.nobody + self.guests + self.users
    }
}

/// Limits set by the configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Highest number of clients: `max smbd processes`.
    pub(super) clients: usize,
    /// Highest number of guests: `max guest clients`.
    pub(super) guests: usize,
    /// `max clients per address`; none for no limit.
    pub(super) per_address: Option<NonZeroU32>,
    /// Limits for clients without a logon: `max startups`.
    pub(super) startups: Startups,
    /// True if the client's address, and all addresses, have no tokens of the
    /// [`BirthBudget`](super::birth_budget::BirthBudget).
    pub(super) is_budget_spent: bool,
}

/// Reasons to turn a client away.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Refusal {
    /// `hosts allow` or `hosts deny` excludes it.
    Hosts,
    /// Its address has as many clients without a user as it may have.
    Address,
    /// Its machine has three quarters of all places.
    AddressShare,
    /// Too many others have not logged on.
    Startups,
    /// Too many clients without a user came in the last seconds, some of them from its address.
    Births,
    /// All places are taken, and no guest has one.
    Full,
    /// Workers that served clients of this address have crashed.
    Crashes,
    /// No worker could take it.
    NoWorker,
}

/// The policy's decision on a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// Assign the connection to a worker.
    Admit,
    /// A worker serves it, and another client with this logon makes room.
    AdmitInsteadOf(Logon),
    /// Reset the connection, for this reason.
    Refuse(Refusal),
}

impl Limits {
    /// True if one machine has three quarters of all places. It may have all addresses of an IPv6
    /// network, familiar ones among them.
    pub(super) fn is_share_taken(&self, of_machine: usize) -> bool {
        of_machine >= without_quarter(self.clients)
    }

    /// Decides on a client by the numbers of all clients and of those at its address. `draw`
    /// returns a random number.
    pub(super) fn decide(
        &self,
        all: Count,
        of_source: Count,
        draw: impl FnOnce() -> u32,
    ) -> Verdict {
        let unknown = of_source.nobody + of_source.guests;
        if self.per_address.is_some_and(|max| unknown >= to_usize(max.get())) {
            return Verdict::Refuse(Refusal::Address);
        }
        let full = self.startups_full();
        let is_new = of_source.nobody == 0;
        if self.is_budget_spent {
            return Verdict::Refuse(Refusal::Births);
        }
        if is_new && all.nobody >= full {
            return Verdict::AdmitInsteadOf(Logon::Nobody);
        }
        if !is_new && self.drops(all.nobody, full, draw) {
            return Verdict::Refuse(Refusal::Startups);
        }
        match all.all() < self.clients {
            true => Verdict::Admit,
            false if all.guests > 0 => Verdict::AdmitInsteadOf(Logon::Guest),
            false if is_new && all.nobody > 0 => Verdict::AdmitInsteadOf(Logon::Nobody),
            false => Verdict::Refuse(Refusal::Full),
        }
    }

    /// Returns the number of guests above their limit.
    pub(super) fn surplus_guests(&self, all: Count) -> usize {
        all.guests.saturating_sub(self.guests)
    }

    /// Returns the number of guests of an address above three quarters of its places. The rest is
    /// for clients that may be users behind the same router.
    pub(super) fn surplus_guests_of_source(&self, of_source: Count) -> usize {
        let places = self.per_address.map(|max| without_quarter(to_usize(max.get())));
        places.map_or(0, |places| of_source.guests.saturating_sub(places))
    }

    /// Returns the number of clients that may wait for their logon. A quarter of few places stays
    /// free of them.
    fn startups_full(&self) -> usize {
        to_usize(self.startups.full).min(without_quarter(self.clients))
    }

    /// True when a further client of an address is dropped, because so many wait for their logon:
    /// never below `start`, always from `full` on, and with a growing chance in between.
    fn drops(&self, nobody: usize, full: usize, draw: impl FnOnce() -> u32) -> bool {
        let (start, rate) = (to_usize(self.startups.start), to_usize(self.startups.rate));
        if nobody >= full || nobody < start {
            return nobody >= full;
        }
        let chance = rate + (100 - rate) * (nobody - start) / (full - start);
        to_usize(draw()) % 100 < chance
    }
}

/// Returns three quarters of the places, and all of fewer than four.
fn without_quarter(places: usize) -> usize {
    places - places / 4
}

fn to_usize(number: u32) -> usize {
    usize::try_from(number).expect("there are 32 bits")
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use config::Startups;
    use tables::Logon;

    use super::{Count, Limits, Refusal, Source, Verdict};

    fn limits() -> Limits {
        let startups = Startups { start: 100, rate: 50, full: 400 };
        Limits {
            clients: 1_000,
            guests: 200,
            per_address: 20.try_into().ok(),
            startups,
            is_budget_spent: false,
        }
    }

    const fn count(nobody: usize, guests: usize, users: usize) -> Count {
        Count { nobody, guests, users }
    }

    const NOTHING: Count = count(0, 0, 0);

    fn decide(all: Count, of_source: Count, draw: u32) -> Verdict {
        limits().decide(all, of_source, || draw)
    }

    #[test]
    fn an_address_is_an_ipv4_address_or_an_ipv6_network_of_64_bits() {
        let source = |text: &str| Source::from(text.parse::<IpAddr>().expect("it is one"));
        assert_eq!(source("192.0.2.1"), source("::ffff:192.0.2.1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
        assert_eq!(source("2001:db8:1:2::1"), source("2001:db8:1:2:ffff::"));
        assert_ne!(source("2001:db8:1:2::1"), source("2001:db8:1:3::1"));
    }

    #[test]
    fn an_address_has_its_places_for_clients_without_a_user_and_users_do_not_count() {
        let all = count(15, 5, 500);
        assert_eq!(decide(all, count(14, 5, 500), 0), Verdict::Admit);
        let refused = Verdict::Refuse(Refusal::Address);
        assert_eq!(decide(all, count(15, 5, 0), 0), refused);
        assert_eq!(decide(all, count(0, 20, 0), 0), refused);
        let unlimited = Limits { per_address: None, ..limits() };
        assert_eq!(unlimited.decide(all, count(15, 5, 0), || 0), Verdict::Admit);
    }

    #[test]
    fn no_machine_has_the_last_quarter_of_all_places() {
        assert!(limits().is_share_taken(750));
        assert!(!limits().is_share_taken(749));
    }

    #[test]
    fn the_more_have_not_logged_on_the_more_often_one_is_dropped() {
        let dropped = Verdict::Refuse(Refusal::Startups);
        let one = count(1, 0, 0);
        for (nobody, below) in [(99, 0), (100, 50), (250, 75), (399, 99), (400, 100), (500, 100)] {
            let admitted =
                (0..100).filter(|draw| decide(count(nobody, 0, 0), one, *draw) != dropped);
            assert_eq!(admitted.count(), 100 - below, "{nobody}");
        }
    }

    #[test]
    fn an_address_without_tokens_is_turned_away_after_its_other_limits_were_looked_at() {
        let limits = Limits { is_budget_spent: true, ..limits() };
        let decide = |of_source| limits.decide(of_source, of_source, || 99);
        assert_eq!(decide(NOTHING), Verdict::Refuse(Refusal::Births));
        assert_eq!(decide(count(19, 0, 0)), Verdict::Refuse(Refusal::Births));
        assert_eq!(decide(count(20, 0, 0)), Verdict::Refuse(Refusal::Address));
    }

    #[test]
    fn an_address_without_a_waiting_client_is_not_dropped_and_has_the_place_of_another() {
        assert_eq!(decide(count(399, 0, 0), NOTHING, 0), Verdict::Admit);
        assert_eq!(decide(count(399, 0, 0), count(0, 3, 3), 0), Verdict::Admit);
        let instead = Verdict::AdmitInsteadOf(Logon::Nobody);
        assert_eq!(decide(count(400, 0, 0), NOTHING, 0), instead);
        assert_eq!(
            decide(count(400, 0, 0), count(1, 0, 0), 99),
            Verdict::Refuse(Refusal::Startups)
        );
    }

    #[test]
    fn every_configuration_leaves_places_for_users() {
        let startups = Startups { start: 5_000, rate: 1, full: 5_000 };
        let limits = Limits { clients: 8, startups, ..limits() };
        assert_eq!(limits.decide(count(5, 0, 0), NOTHING, || 99), Verdict::Admit);
        let full = limits.decide(count(6, 0, 0), count(1, 0, 0), || 99);
        assert_eq!(full, Verdict::Refuse(Refusal::Startups));
        for clients in 1..4 {
            let limits = Limits { clients, ..limits };
            let all = count(clients - 1, 0, 0);
            assert_eq!(limits.decide(all, NOTHING, || 0), Verdict::Admit);
            assert_eq!(limits.decide(all, all, || 99), Verdict::Admit, "{clients}");
        }
    }

    #[test]
    fn a_client_that_may_be_a_user_is_not_refused_for_a_guest() {
        let guests = count(0, 999, 1);
        assert_eq!(decide(guests, NOTHING, 0), Verdict::AdmitInsteadOf(Logon::Guest));
        assert_eq!(decide(count(0, 0, 1_000), NOTHING, 0), Verdict::Refuse(Refusal::Full));
        assert_eq!(decide(count(0, 1, 999), NOTHING, 0), Verdict::AdmitInsteadOf(Logon::Guest));
        assert_eq!(limits().surplus_guests(count(0, 201, 0)), 1);
        assert_eq!(limits().surplus_guests(count(0, 200, 700)), 0);
    }

    #[test]
    fn if_all_places_are_taken_a_waiting_connection_is_closed_for_another_address() {
        let all = count(1, 0, 999);
        assert_eq!(decide(all, NOTHING, 99), Verdict::AdmitInsteadOf(Logon::Nobody));
        assert_eq!(decide(all, count(1, 0, 0), 99), Verdict::Refuse(Refusal::Full));
    }

    #[test]
    fn guests_of_an_address_leave_a_quarter_of_its_places_for_users() {
        assert_eq!(limits().surplus_guests_of_source(count(5, 15, 0)), 0);
        assert_eq!(limits().surplus_guests_of_source(count(0, 20, 3)), 5);
        let unlimited = Limits { per_address: None, ..limits() };
        assert_eq!(unlimited.surplus_guests_of_source(count(0, 200, 0)), 0);
    }
}
