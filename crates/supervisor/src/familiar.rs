//! Addresses from which users have logged on lately.
//!
//! Strangers are counted by networks, because one machine may have all addresses of a network. So a
//! machine that floods the server would keep its own network out, which at home or in an office is
//! that of the users. An address from which a user has logged on is counted apart from it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::admission::{Network, Source};

/// Time for which an address stays familiar after a logon: one day.
const FAMILIAR_TIME: Duration = Duration::from_secs(86_400);

/// Familiar addresses. The one with the oldest logon gives way to a further one.
const ADDRESSES_MAX: usize = 4_096;

/// Familiar addresses of one network, so that a user with many addresses displaces users of the own
/// network only.
const OF_NETWORK_MAX: usize = 256;

/// The addresses, with the time of the last logon. Time is an argument.
#[derive(Debug, Default)]
pub(super) struct FamiliarAddresses(HashMap<IpAddr, Instant>);

impl FamiliarAddresses {
    /// Returns the source as which a client from this address counts.
    pub(super) fn source(&self, address: IpAddr, now: Instant) -> Source {
        let address = address.to_canonical();
        match self.0.get(&address) {
            Some(at) if now.saturating_duration_since(*at) < FAMILIAR_TIME => {
                Source::familiar(address)
            }
            _ => address.into(),
        }
    }

    /// Notes the logon of a user.
    pub(super) fn note(&mut self, address: IpAddr, now: Instant) {
        let address = address.to_canonical();
        if !self.0.contains_key(&address) {
            self.evict_oldest(address);
        }
        self.0.insert(address, now);
    }

    /// Removes the oldest address if the table, or the part of its network, is full.
    fn evict_oldest(&mut self, address: IpAddr) {
        let network = |it: IpAddr| Network::from(Source::from(it));
        let own = |it: &IpAddr| network(*it) == network(address);
        let is_network_full = self.0.keys().filter(|it| own(it)).count() >= OF_NETWORK_MAX;
        if !is_network_full && self.0.len() < ADDRESSES_MAX {
            return;
        }
        let known = self.0.iter().filter(|(it, _)| !is_network_full || own(it));
        let oldest = known.min_by_key(|(_, at)| **at).map(|(it, _)| *it);
        oldest.map(|oldest| self.0.remove(&oldest));
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::{Duration, Instant};

    use super::{ADDRESSES_MAX, FAMILIAR_TIME, FamiliarAddresses, OF_NETWORK_MAX, Source};

    fn of_network(network: u128, host: u128) -> IpAddr {
        IpAddr::from((0x2001_0db8_u128 << 96 | network << 80 | host).to_be_bytes())
    }

    #[test]
    fn an_address_is_counted_apart_from_its_network_for_a_day_after_a_logon() {
        let (mut familiar, now) = (FamiliarAddresses::default(), Instant::now());
        let address = of_network(1, 1);
        assert_eq!(familiar.source(address, now), Source::from(address));
        familiar.note(address, now);
        assert_eq!(familiar.source(address, now), Source::familiar(address));
        assert_eq!(familiar.source(of_network(1, 2), now), Source::from(address));
        let last = now + FAMILIAR_TIME - Duration::from_secs(1);
        assert_eq!(familiar.source(address, last), Source::familiar(address));
        assert_eq!(familiar.source(address, now + FAMILIAR_TIME), Source::from(address));
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().expect("it is one");
        familiar.note(mapped, now);
        let plain = "192.0.2.1".parse().expect("it is one");
        assert_eq!(familiar.source(plain, now), Source::familiar(plain));
    }

    #[test]
    fn addresses_are_bounded_and_a_network_displaces_its_own() {
        let (mut familiar, now) = (FamiliarAddresses::default(), Instant::now());
        let other = of_network(1, 1);
        familiar.note(other, now);
        for host in 0..1_100 {
            familiar.note(of_network(2, host), now + Duration::from_millis(1));
        }
        assert_eq!(familiar.0.len(), 1 + OF_NETWORK_MAX);
        assert_eq!(familiar.source(other, now), Source::familiar(other));
        for network in 3..4_100 {
            familiar.note(of_network(network, 1), now + Duration::from_millis(2));
        }
        assert_eq!(familiar.0.len(), ADDRESSES_MAX);
        assert_eq!(familiar.source(other, now), Source::from(other), "it is the oldest");
    }
}
