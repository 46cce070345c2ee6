//! Limit on the rate of password guesses.
//!
//! Each client has a process of its own, so the counts of failed logons lie in memory that all
//! workers share: numbers without a lock, which a dying worker cannot leave half changed. One
//! number is the state of an address or of a user: the time by which all its failed logons are
//! forgotten. Each failed logon adds `FORGOTTEN_AFTER` to that time. So its distance from now tells
//! the number of failed logons that still count, and that number decides the delay of the next
//! logon.
//!
//! A logon counts as failed before its proof is checked, and the count is taken back if the proof
//! is right. So logons at the same time, over one connection or several, are delayed one behind the
//! other.
//!
//! A ticket names its user only after its check, so it counts for its address alone, like those of
//! one user without a name. Right ones come in bursts, from a terminal server or over all channels
//! of a client: they count beforehand only while wrong ones would delay them.
//!
//! An attacker who knows a user's name can delay that user by `USER_WAIT_MAX`, and no longer. A
//! user who has logged on from an address before is *familiar* there, and has a separate count: no
//! failed logon delays them, neither under their name from elsewhere nor under another name from
//! the same address.
//!
//! The memory is bounded: the hash of a number's key selects `WAYS` slots, one of which holds the
//! number with 24 bits of the hash; a new number replaces the one that would be forgotten first. So
//! failed logons under many names displace some earlier numbers, but a guesser gains nothing by
//! that, because the address is throttled, too. Two keys share a number once in two million.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use trace::LogonOutcome;

/// Memory that all workers share.
pub trait Slots: std::fmt::Debug + Send {
    /// Returns all slots; they begin as zeros. A server without slots throttles no logon.
    fn slots(&self) -> &[AtomicU64];

    /// Returns a secret of all workers. With it nobody can choose names whose numbers displace that
    /// of another user.
    fn key(&self) -> u64 {
        0
    }

    /// Counts a logon for the server's metrics.
    fn count(&self, _: LogonOutcome) {}
}

impl Slots for Vec<AtomicU64> {
    fn slots(&self) -> &[AtomicU64] {
        self
    }
}

/// Settings of the administrator for the throttle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ThrottleSettings {
    /// `logon delay`: true if logons are delayed after failed ones.
    pub delays: bool,
    /// `logon failures max`: number of failed logons after which an address is refused; 0 for
    /// never.
    pub failures_max: u32,
    /// `logon refusal time`: duration of that refusal.
    pub refusal_time: Duration,
}

impl Default for ThrottleSettings {
    fn default() -> Self {
        Self { delays: true, failures_max: 0, refusal_time: Duration::from_secs(300) }
    }
}

/// Decision on checking a proof.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admission {
    /// Check the proof at once.
    Now,
    /// Check the proof after this time.
    After(Duration),
    /// Do not check it: too many logons have failed.
    Refused,
}

/// The counts of failed logons.
#[derive(Debug)]
pub struct LogonThrottle {
    slots: Box<dyn Slots>,
}

/// The name for all tickets of an address, which is no user's.
const TICKET: &str = "";
/// Time after which a failed logon is forgotten; several are forgotten one after the other.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);
/// Failed logons without a delay: people mistype, and programs try stored passwords.
const FREE: u32 = 8;
/// Additional delay of the next logon from an address for each further failed one. So logons at the
/// same time are delayed one behind the other.
const ADDRESS_STEP: Duration = Duration::from_secs(1);
/// Longest delay of an address, so that clients do not give up; beyond it logons are refused. An
/// address can then have one proof checked every [`FORGOTTEN_AFTER`].
const ADDRESS_WAIT_MAX: Duration = Duration::from_secs(20);
/// Additional delay of a user's next logon for each further failed one.
const USER_STEP: Duration = Duration::from_millis(250);
/// Longest delay of a user. Users are never refused, because anybody can fail in their name.
const USER_WAIT_MAX: Duration = Duration::from_secs(2);
/// Time for which a user stays familiar at an address after a logon.
const FAMILIAR_FOR: Duration = Duration::from_secs(14 * 86_400);

/// Highest distance of the times of an address and of a user from now.
const ADDRESS_LIMIT: Duration = limit(ADDRESS_WAIT_MAX, ADDRESS_STEP);
const USER_LIMIT: Duration = limit(USER_WAIT_MAX, USER_STEP);

#[expect(clippy::cast_possible_truncation, reason = "the constants above make a few steps")]
const fn limit(wait_max: Duration, step: Duration) -> Duration {
    let steps = (wait_max.as_millis() / step.as_millis()) as u32;
    FORGOTTEN_AFTER.saturating_mul(FREE + steps)
}

/// Number of slots that a key may use.
const WAYS: usize = 8;
/// Bits of a slot for a time in milliseconds (34 years) or a count.
const TIME_BITS: u32 = 40;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// Meaning of a number. Each kind has an equal part of the slots.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Kind {
    Address,
    User,
    Familiar,
    /// Lines in the log about an address.
    Line,
    /// Refused logons from an address without a line in the log.
    Unlogged,
    /// Other lines in the log that the clients of an address cause.
    Written,
    /// Records in the audit file that those without a user of an address cause.
    Recorded,
}

impl Kind {
    const COUNT: usize = 7;
}

/// Rate of log lines about one address: a burst of `LINES_AT_ONCE`, then one line every
/// `LINE_EVERY`. That is far above the number of lines that triggers a ban (fail2ban's `maxretry`
/// is 5), and more than the number of proofs that are checked.
const LINES_AT_ONCE: u32 = 40;
const LINE_EVERY: Duration = Duration::from_secs(5);

/// The same for lines of other kinds: as many as one process may write, over all workers of the
/// address's clients. A user could have any number of workers one after the other.
const WRITTEN_AT_ONCE: u32 = 1_000;
const WRITTEN_EVERY: Duration = Duration::from_millis(20);

/// The same for records in the audit file about guests and anonymous users who change nothing: it
/// has no limit of size, and they may come back any number of times.
const RECORDED_AT_ONCE: u32 = 1_000;
const RECORDED_EVERY: Duration = Duration::from_secs(5);

impl LogonThrottle {
    pub fn new(slots: Box<dyn Slots>) -> Self {
        Self { slots }
    }

    /// Counts a logon with a proof as failed, before the check, and returns the time of the check.
    pub fn begin(
        &self,
        settings: &ThrottleSettings,
        now: Duration,
        client: SocketAddr,
        user: &str,
    ) -> Admission {
        let parties = self.parties(client, user);
        let is_familiar = self.is_familiar(&parties, now);
        let limit = settings.address_limit();
        let account = parties.account(is_familiar);
        let Some(ahead) = self.add(Kind::Address, account, now, FORGOTTEN_AFTER, limit) else {
            return Admission::Refused;
        };
        let mut wait = wait(ahead, ADDRESS_STEP);
        if !is_familiar && user != TICKET {
            let ahead = self.add(Kind::User, parties.user, now, FORGOTTEN_AFTER, USER_LIMIT);
            wait = wait.max(ahead.map_or(USER_WAIT_MAX, |ahead| self::wait(ahead, USER_STEP)));
        }
        match settings.delays && !wait.is_zero() {
            true => Admission::After(wait),
            false => Admission::Now,
        }
    }

    /// Returns the time of the check of a ticket. It counts as failed from now on unless the answer
    /// is [`Admission::Now`].
    pub fn begin_ticket(
        &self,
        settings: &ThrottleSettings,
        now: Duration,
        client: SocketAddr,
    ) -> Admission {
        let parties = self.parties(client, TICKET);
        let account = parties.account(self.is_familiar(&parties, now));
        let mut ahead = Duration::ZERO;
        self.update(Kind::Address, account, now, |it| {
            ahead = it;
            None
        });
        if ahead >= settings.failures_limit() {
            return Admission::Refused;
        }
        match settings.delays && !wait(ahead, ADDRESS_STEP).is_zero() {
            true => self.begin(settings, now, client, TICKET),
            false => Admission::Now,
        }
    }

    /// Makes tickets familiar at this address because one was right; takes its count back if
    /// `is_counted`.
    pub fn succeed_ticket(&self, now: Duration, client: SocketAddr, is_counted: bool) {
        if is_counted {
            self.excuse_ticket(now, client);
        }
        self.update(Kind::Familiar, self.parties(client, TICKET).pair, now, |_| Some(FAMILIAR_FOR));
    }

    /// Takes the count of a ticket back because nobody could check it.
    pub fn excuse_ticket(&self, now: Duration, client: SocketAddr) {
        self.excuse(now, client, TICKET);
    }

    /// Counts a wrong ticket, unless it `is_counted` already.
    pub fn fail_ticket(
        &self,
        settings: &ThrottleSettings,
        now: Duration,
        client: SocketAddr,
        is_counted: bool,
    ) {
        if !is_counted {
            let parties = self.parties(client, TICKET);
            let account = parties.account(self.is_familiar(&parties, now));
            let limit = settings.address_limit();
            self.add(Kind::Address, account, now, FORGOTTEN_AFTER, limit);
        }
        self.fail(settings, now, client, TICKET);
    }

    /// Takes the count of a logon back because its proof was right, and makes the user familiar at
    /// this address.
    pub fn succeed(&self, now: Duration, client: SocketAddr, user: &str) {
        self.excuse(now, client, user);
        self.update(Kind::Familiar, self.parties(client, user).pair, now, |_| Some(FAMILIAR_FOR));
    }

    /// Takes the count of a logon back because it ended without a proof.
    pub fn excuse(&self, now: Duration, client: SocketAddr, user: &str) {
        let parties = self.parties(client, user);
        let is_familiar = self.is_familiar(&parties, now);
        self.take_back(Kind::Address, parties.account(is_familiar), now);
        if !is_familiar && user != TICKET {
            self.take_back(Kind::User, parties.user, now);
        }
    }

    /// Keeps the count of a logon because its proof was wrong. Refuses the address from now on, if
    /// the count has reached `failures_max`.
    pub fn fail(&self, settings: &ThrottleSettings, now: Duration, client: SocketAddr, user: &str) {
        let parties = self.parties(client, user);
        let account = parties.account(self.is_familiar(&parties, now));
        let limit = settings.failures_limit();
        self.update(Kind::Address, account, now, |ahead| {
            (ahead + FORGOTTEN_AFTER > limit).then(|| ahead.max(limit + settings.refusal_time))
        });
    }

    /// Counts the outcome of a logon.
    pub fn count(&self, outcome: LogonOutcome) {
        self.slots.count(outcome);
    }

    /// Returns whether one more line about this address may be written, and counts it.
    pub fn may_log(&self, now: Duration, client: SocketAddr) -> bool {
        let address = self.parties(client, "").address;
        self.add(Kind::Line, address, now, LINE_EVERY, LINE_EVERY * LINES_AT_ONCE).is_some()
    }

    /// Returns whether lines of another kind that an address has caused may be written, and counts
    /// them.
    pub fn may_write(&self, now: Duration, client: SocketAddr, lines: u32) -> bool {
        let address = self.parties(client, "").address;
        let (more, limit) = (WRITTEN_EVERY * lines, WRITTEN_EVERY * WRITTEN_AT_ONCE);
        self.add(Kind::Written, address, now, more, limit).is_some()
    }

    /// Returns whether one more record about those without a user of an address may be written, and
    /// counts it.
    pub fn may_record(&self, now: Duration, client: SocketAddr) -> bool {
        let address = self.parties(client, "").address;
        let limit = RECORDED_EVERY * RECORDED_AT_ONCE;
        self.add(Kind::Recorded, address, now, RECORDED_EVERY, limit).is_some()
    }

    /// Counts a refused logon without a line in the log.
    pub fn count_unlogged(&self, client: SocketAddr) {
        let address = self.parties(client, "").address;
        self.exchange(Kind::Unlogged, address, |count| Some(count.saturating_add(1)));
    }

    /// Returns the number of refused logons from an address without a line, of all workers, and
    /// resets it.
    pub fn take_unlogged(&self, client: SocketAddr) -> u64 {
        let address = self.parties(client, "").address;
        let mut unlogged = 0;
        self.exchange(Kind::Unlogged, address, |count| {
            unlogged = count;
            (count != 0).then_some(0)
        });
        unlogged
    }

    /// Returns the number of [`Self::take_unlogged`], if a line about the address may be written.
    pub fn unlogged_to_log(&self, now: Duration, client: SocketAddr) -> u64 {
        let address = self.parties(client, "").address;
        let mut is_any = false;
        self.exchange(Kind::Unlogged, address, |count| {
            is_any = count != 0;
            None
        });
        if is_any && self.may_log(now, client) { self.take_unlogged(client) } else { 0 }
    }

    fn parties(&self, client: SocketAddr, user: &str) -> Parties {
        Parties::of(self.slots.key(), client, user)
    }

    fn is_familiar(&self, parties: &Parties, now: Duration) -> bool {
        let mut is_familiar = false;
        self.update(Kind::Familiar, parties.pair, now, |ahead| {
            is_familiar = !ahead.is_zero();
            None
        });
        is_familiar
    }

    /// Adds `more` to a time, unless it is `limit` ahead already. Returns its distance from now
    /// before, or none if it was not changed.
    fn add(
        &self,
        kind: Kind,
        key: u64,
        now: Duration,
        more: Duration,
        limit: Duration,
    ) -> Option<Duration> {
        let mut before = None;
        self.update(kind, key, now, |ahead| {
            before = (ahead < limit).then_some(ahead);
            before.map(|ahead| ahead + more)
        });
        if self.region(kind).is_empty() { Some(Duration::ZERO) } else { before }
    }

    fn take_back(&self, kind: Kind, key: u64, now: Duration) {
        self.update(kind, key, now, |ahead| {
            (!ahead.is_zero()).then(|| ahead.saturating_sub(FORGOTTEN_AFTER))
        });
    }

    /// Changes the distance of a time from now, unless `change` returns none.
    fn update(
        &self,
        kind: Kind,
        key: u64,
        now: Duration,
        mut change: impl FnMut(Duration) -> Option<Duration>,
    ) {
        let now = milliseconds(now);
        self.exchange(kind, key, |time| {
            let ahead = change(Duration::from_millis(time.saturating_sub(now)))?;
            Some(now.saturating_add(milliseconds(ahead)))
        });
    }

    /// Changes a number (0 if it has no slot), unless `change` returns none. Calls `change` again
    /// if another worker changed the number meanwhile.
    fn exchange(&self, kind: Kind, key: u64, mut change: impl FnMut(u64) -> Option<u64>) {
        let region = self.region(kind);
        let buckets = (region.len() / WAYS) as u64;
        if buckets == 0 {
            return;
        }
        let tag = key >> TIME_BITS;
        let bucket = usize::try_from(key % buckets).expect("less than there are") * WAYS;
        let bucket = &region[bucket..bucket + WAYS];
        loop {
            let held = bucket.iter().map(|slot| (slot, slot.load(Ordering::Acquire)));
            // The key's own slot, or else the one with the lowest number: for times, the one
            // forgotten first.
            let by_rank = |(_, value): &(_, u64)| (value >> TIME_BITS != tag, value & TIME_MASK);
            let (slot, value) = held.min_by_key(by_rank).expect("there are several ways");
            let is_own = value >> TIME_BITS == tag;
            let number = if is_own { value & TIME_MASK } else { 0 };
            let Some(number) = change(number) else { return };
            let new = tag << TIME_BITS | number.min(TIME_MASK);
            if slot.compare_exchange(value, new, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return;
            }
        }
    }

    fn region(&self, kind: Kind) -> &[AtomicU64] {
        let slots = self.slots.slots();
        let size = slots.len() / Kind::COUNT;
        &slots[kind as usize * size..][..size]
    }
}

impl ThrottleSettings {
    /// Returns the distance from now beyond which a logon of an address does not count any more.
    fn address_limit(&self) -> Duration {
        let waits_max = if self.delays { ADDRESS_LIMIT } else { Duration::MAX / 2 };
        self.failures_limit().min(waits_max)
    }

    /// Returns the distance from now at which an address is refused.
    fn failures_limit(&self) -> Duration {
        match self.failures_max {
            0 => Duration::MAX / 2,
            max => FORGOTTEN_AFTER * max,
        }
    }
}

/// Returns the delay of a logon, given the distance of the time by which all failed ones are
/// forgotten.
fn wait(ahead: Duration, step: Duration) -> Duration {
    let failures = ahead.as_millis().div_ceil(FORGOTTEN_AFTER.as_millis());
    step * u32::try_from(failures).unwrap_or(u32::MAX).saturating_sub(FREE - 1)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Hashes of the parties for which a logon is counted.
struct Parties {
    address: u64,
    user: u64,
    pair: u64,
}

impl Parties {
    /// Hashes both names. An IPv6 address counts as its network of 64 bits, since one machine may
    /// have all of them.
    fn of(key: u64, client: SocketAddr, user: &str) -> Self {
        let network = match client.ip().to_canonical() {
            IpAddr::V4(address) => u64::from(u32::from(address)),
            IpAddr::V6(address) => (u128::from(address) >> 64) as u64,
        };
        let is_v4 = client.ip().to_canonical().is_ipv4();
        let user = without_domain(user).to_lowercase();
        Self {
            address: hash(&(key, Kind::Address, is_v4, network)),
            user: hash(&(key, Kind::User, &user)),
            pair: hash(&(key, Kind::Familiar, is_v4, network, &user)),
        }
    }

    /// Returns the key that a failed logon is counted for. A familiar user has one of their own,
    /// which keeps them from delaying others behind the same proxy, and from being delayed by them.
    fn account(&self, is_familiar: bool) -> u64 {
        if is_familiar { self.pair } else { self.address }
    }
}

/// Returns a user's name without the domain, which has several names. So `anna`, `anna@ad.lab.test`
/// and an Anna of another domain are one user.
fn without_domain(user: &str) -> &str {
    match user.split_once('@') {
        Some((name, _)) if !name.is_empty() => name,
        _ => user,
    }
}

/// Returns the same hash in all processes.
fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
