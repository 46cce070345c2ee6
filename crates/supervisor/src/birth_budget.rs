//! The rate at which workers start for clients that do not become users.
//!
//! A client that connects and proves nothing costs a fork, a start and the end of a process. So
//! such clients have a budget: a token bucket for all of them, one for each address and one for
//! each network. A client takes a token of each when it is given a worker, and its logon as a user
//! gives them back. So users log on as fast as the machine can, strangers take a bounded share of
//! it, and an address without strangers in a network with few is served at any time.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::admission::{Network, Source};

/// Workers that clients without a user may have at once, before they are paced: twice the clients
/// of an address (`max clients per address`).
const BIRTHS_BURST: u32 = 128;

/// Workers that they may have for each second and processor beyond that. One costs about two
/// milliseconds of a processor, all of them a tenth of the machine.
const BIRTHS_PER_SECOND: u32 = 50;

/// Workers that an address may have at once when the budget of all is spent: a user's client, and
/// one more connection of it or another client.
const SOURCE_BURST: u32 = 2;

/// Time in which an address has another one of them.
const SOURCE_INTERVAL: Duration = Duration::from_secs(10);

/// Workers that the addresses of a network may have at once when the budget of all is spent.
const NETWORK_BURST: u32 = 16;

/// Time in which a network has another one of them.
const NETWORK_INTERVAL: Duration = Duration::from_secs(1);

/// Counted addresses, and counted networks. Further ones are served like those without strangers.
const SOURCES_MAX: usize = 4_096;

/// Time between two searches for addresses that need not be counted any more, while there is no
/// room for another one.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// Treatment of a client that connects now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pace {
    /// Its worker runs as others do.
    Normal,
    /// Its worker has only what others leave of the processors, until its logon as a user.
    Idle,
    /// The connection is reset at once.
    Refused,
}

/// The budget. Time is an argument.
#[derive(Debug)]
pub(super) struct BirthBudget {
    rate: Rate,
    all: Bucket,
    of_source: Buckets<Source>,
    of_network: Buckets<Network>,
}

impl BirthBudget {
    /// Starts with all tokens, for a machine with this many processors.
    pub(super) fn new(now: Instant, processors: u32) -> Self {
        let interval = Duration::from_secs(1) / (BIRTHS_PER_SECOND * processors.max(1));
        Self {
            rate: Rate { interval, burst: BIRTHS_BURST },
            all: Bucket { full_at: now },
            of_source: Buckets::new(OF_SOURCE, now),
            of_network: Buckets::new(OF_NETWORK, now),
        }
    }

    /// Returns the treatment of a client from this address.
    pub(super) fn pace(&self, now: Instant, source: Source) -> Pace {
        let has_own = || {
            self.of_source.has_token(now, &source) && self.of_network.has_token(now, &source.into())
        };
        if !self.is_low(now) || has_own() {
            Pace::Normal
        } else if self.all.has_token(now, self.rate) {
            Pace::Idle
        } else {
            Pace::Refused
        }
    }

    /// Takes the tokens of a client that was given a worker.
    pub(super) fn take(&mut self, now: Instant, source: Source) {
        self.all.take(now, self.rate);
        self.of_source.take(now, source);
        self.of_network.take(now, source.into());
    }

    /// Gives back the tokens of a client that has become a user.
    pub(super) fn refund(&mut self, now: Instant, source: Source) {
        self.all.refund(now, self.rate);
        self.of_source.refund(now, &source);
        self.of_network.refund(now, &source.into());
    }

    /// True while half of all tokens or more are gone: more clients come than usually log on.
    pub(super) fn is_low(&self, now: Instant) -> bool {
        self.low_until() > now
    }

    /// Returns the time at which the budget is not low any more if no further client comes.
    pub(super) fn low_until(&self) -> Instant {
        let half = self.rate.interval * (self.rate.burst / 2);
        self.all.full_at.checked_sub(half).unwrap_or(self.all.full_at)
    }
}

/// The rate of each address.
const OF_SOURCE: Rate = Rate { interval: SOURCE_INTERVAL, burst: SOURCE_BURST };

/// The rate of each network.
const OF_NETWORK: Rate = Rate { interval: NETWORK_INTERVAL, burst: NETWORK_BURST };

/// The size of a bucket, and the time in which a token comes back.
#[derive(Clone, Copy, Debug)]
struct Rate {
    interval: Duration,
    burst: u32,
}

/// A token bucket, in the form of one time: when all tokens are there again.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    full_at: Instant,
}

impl Bucket {
    fn has_token(self, now: Instant, Rate { interval, burst }: Rate) -> bool {
        self.full_at.saturating_duration_since(now) <= interval * (burst - 1)
    }

    /// Takes a token, if need be one that is not there yet. No more than a bucketful is owed, so
    /// that others are not turned away for long.
    fn take(&mut self, now: Instant, Rate { interval, burst }: Rate) {
        self.full_at = (self.full_at.max(now) + interval).min(now + interval * (2 * burst));
    }

    fn refund(&mut self, now: Instant, Rate { interval, .. }: Rate) {
        self.full_at = self.full_at.checked_sub(interval).unwrap_or(now).max(now);
    }
}

/// Buckets of one rate, up to [`SOURCES_MAX`]. A missing bucket is full.
#[derive(Debug)]
struct Buckets<K> {
    rate: Rate,
    by_key: HashMap<K, Bucket>,
    /// Time before which full buckets are not searched again.
    search_from: Instant,
}

impl<K: Eq + Hash> Buckets<K> {
    fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, by_key: HashMap::new(), search_from: now }
    }

    fn has_token(&self, now: Instant, key: &K) -> bool {
        self.by_key.get(key).is_none_or(|it| it.has_token(now, self.rate))
    }

    fn take(&mut self, now: Instant, key: K) {
        if self.has_free_bucket(now) || self.by_key.contains_key(&key) {
            self.by_key.entry(key).or_insert(Bucket { full_at: now }).take(now, self.rate);
        }
    }

    fn refund(&mut self, now: Instant, key: &K) {
        if let Some(bucket) = self.by_key.get_mut(key) {
            bucket.refund(now, self.rate);
            if bucket.full_at <= now {
                self.by_key.remove(key);
            }
        }
    }

    fn has_free_bucket(&mut self, now: Instant) -> bool {
        if self.by_key.len() >= SOURCES_MAX && self.search_from <= now {
            self.search_from = now + SEARCH_INTERVAL;
            self.by_key.retain(|_, bucket| bucket.full_at > now);
        }
        self.by_key.len() < SOURCES_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::{Duration, Instant};

    use super::{
        BIRTHS_BURST, BIRTHS_PER_SECOND, BirthBudget, NETWORK_BURST, Pace, SOURCE_BURST,
        SOURCE_INTERVAL, SOURCES_MAX, Source,
    };

    /// The only address of its network.
    fn source(number: u32) -> Source {
        IpAddr::from((number << 8).to_be_bytes()).into()
    }

    fn start(processors: u32) -> (BirthBudget, Instant) {
        let now = Instant::now();
        (BirthBudget::new(now, processors), now)
    }

    /// A client of this address connects, and has a worker or not.
    fn connect(budget: &mut BirthBudget, now: Instant, from: Source) -> Pace {
        let pace = budget.pace(now, from);
        if pace != Pace::Refused {
            budget.take(now, from);
        }
        pace
    }

    #[test]
    fn beyond_the_burst_so_many_strangers_have_a_worker_each_second_as_the_processors_bear() {
        for processors in [1, 2, 8] {
            let (mut budget, start) = start(processors);
            let times = (0..100_000).map(|number| start + Duration::from_micros(100 * number));
            let paces = times.map(|now| connect(&mut budget, now, source(1)));
            let served = paces.filter(|it| *it != Pace::Refused).count();
            let expected = BIRTHS_BURST + 10 * BIRTHS_PER_SECOND * processors;
            let expected = usize::try_from(expected).expect("it is small");
            assert!((expected - 1..=expected + 1).contains(&served), "{served}, {expected}");
        }
    }

    #[test]
    fn the_workers_of_strangers_give_way_before_any_is_refused() {
        let (mut budget, now) = start(1);
        let paces: Vec<Pace> = (0..200).map(|_| connect(&mut budget, now, source(1))).collect();
        let count = |pace| u32::try_from(paces.iter().filter(|it| **it == pace).count());
        assert_eq!(count(Pace::Normal), Ok(BIRTHS_BURST / 2 + 1));
        assert_eq!(count(Pace::Idle), Ok(BIRTHS_BURST / 2 - 1));
        assert!(paces.is_sorted_by_key(|it| *it as u8), "{paces:?}");
    }

    #[test]
    fn workers_of_users_are_started_without_a_delay() {
        let (mut budget, now) = start(2);
        for _ in 0..10_000 {
            assert_eq!(connect(&mut budget, now, source(1)), Pace::Normal);
            budget.refund(now, source(1));
        }
        assert!(budget.of_source.by_key.is_empty(), "an address without strangers is not counted");
        budget.refund(now, source(1));
        let served = (0..1_000).filter(|_| connect(&mut budget, now, source(1)) != Pace::Refused);
        let burst = usize::try_from(BIRTHS_BURST).expect("it is small");
        assert_eq!(served.count(), burst, "no token was given back twice");
    }

    #[test]
    fn an_address_without_strangers_is_served_at_once_in_any_flood() {
        let (mut budget, now) = start(1);
        while connect(&mut budget, now, source(1)) != Pace::Refused {}
        for number in 2..1_000 {
            for _ in 0..SOURCE_BURST {
                assert_eq!(connect(&mut budget, now, source(number)), Pace::Normal);
            }
            assert_eq!(connect(&mut budget, now, source(number)), Pace::Refused);
        }
        budget.refund(now, source(2));
        assert_eq!(connect(&mut budget, now, source(2)), Pace::Normal, "its user has logged on");
        assert_eq!(connect(&mut budget, now, source(2)), Pace::Refused);
    }

    #[test]
    fn many_addresses_of_one_network_have_few_workers_in_a_flood() {
        let (mut budget, now) = start(1);
        while connect(&mut budget, now, source(1)) != Pace::Refused {}
        let of_one = |number: u128| {
            let subnet = 0x2001_0db8_0001_u128 << 80 | number << 64;
            Source::from(IpAddr::from(subnet.to_be_bytes()))
        };
        let paces = (0..1_000).map(|number| connect(&mut budget, now, of_one(number)));
        let served = paces.filter(|it| *it != Pace::Refused).count();
        assert_eq!(u32::try_from(served), Ok(NETWORK_BURST));
        assert_eq!(connect(&mut budget, now, source(2)), Pace::Normal, "another network");
    }

    #[test]
    fn strangers_do_not_keep_users_of_their_own_network_out() {
        let (mut budget, now) = start(1);
        let address = |host: u128| IpAddr::from((0x2001_0db8_u128 << 96 | host).to_be_bytes());
        while connect(&mut budget, now, address(1).into()) != Pace::Refused {}
        assert_eq!(connect(&mut budget, now, address(2).into()), Pace::Refused, "a stranger");
        let user = Source::familiar(address(2));
        for _ in 0..1_000 {
            assert_eq!(connect(&mut budget, now, user), Pace::Normal);
            budget.refund(now, user);
        }
        let office = |host: u8| Source::familiar(IpAddr::from([192, 0, 2, host]));
        for host in 0..=255 {
            assert_eq!(connect(&mut budget, now, office(host)), Pace::Normal, "{host}");
        }
        let without_logon = (0..100).filter(|_| connect(&mut budget, now, user) == Pace::Normal);
        let burst = usize::try_from(SOURCE_BURST).expect("it is small");
        assert_eq!(without_logon.count(), burst, "it has one that strangers cannot use up");
    }

    #[test]
    fn a_flood_is_over_in_seconds_however_many_addresses_it_had() {
        let (mut budget, now) = start(1);
        (0..100_000).for_each(|number| budget.take(now, source(number)));
        assert!(budget.is_low(now));
        let owed = Duration::from_secs((2 * BIRTHS_BURST / BIRTHS_PER_SECOND + 1).into());
        assert!(!budget.is_low(now + owed));
        assert!(budget.low_until() <= now + owed);
    }

    #[test]
    fn addresses_are_counted_up_to_a_limit_and_forgotten_when_they_have_all_tokens() {
        let (mut budget, now) = start(1);
        (0..100_000).for_each(|number| budget.take(now, source(number)));
        assert_eq!(budget.of_source.by_key.len(), SOURCES_MAX);
        assert_eq!(budget.of_network.by_key.len(), SOURCES_MAX);
        budget.take(now + SOURCE_INTERVAL, source(1_000_000));
        assert_eq!(budget.of_source.by_key.len(), 1);
        assert_eq!(budget.of_network.by_key.len(), 1);
    }
}
