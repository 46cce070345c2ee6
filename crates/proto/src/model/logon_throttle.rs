//! How fast passwords may be guessed.
//!
//! Each client has a process of its own, so what is known of failed logons lies in memory that all
//! workers share: numbers without a lock, of which a worker that dies leaves nothing half done. One
//! number is the state of an address or of a user: the time by which all its failed logons are
//! forgotten. Each failed logon moves that time on by `FORGOTTEN_AFTER`, so how far it is ahead of
//! now says how many are not forgotten yet, and from that follows how long the next one waits.
//!
//! A logon is counted when its proof is about to be looked at, and the count is taken back if the
//! proof is right. So the next one over another connection, or over the same, waits longer already,
//! however many come together.
//!
//! An attacker who knows a user's name can make that user wait `USER_WAIT_MAX`, and no longer. A
//! user who has logged on from an address before is *familiar* there, and counted apart: nobody
//! else makes them wait, neither under their name elsewhere nor under another name at the same
//! address.
//!
//! The memory is bounded: a number lies in one of `WAYS` places that its hash names, with 24 bits
//! of the hash beside it, and takes the place of the one that would be forgotten first. So whoever
//! fails in many names has some of them forgotten early, which makes guessing no quicker than the
//! address allows, and two that are counted as one are found once in two million.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use trace::LogonOutcome;

/// Memory that all workers share.
pub trait Slots: std::fmt::Debug + Send {
    /// Returns all slots, which begin as zeros. A server without slots throttles no logon.
    fn slots(&self) -> &[AtomicU64];

    /// Counts a logon, for those who look at the server.
    fn count(&self, _: LogonOutcome) {}
}

impl Slots for Vec<AtomicU64> {
    fn slots(&self) -> &[AtomicU64] {
        self
    }
}

/// What the administrator decided.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ThrottleSettings {
    /// `logon delay`: a logon waits after others have failed.
    pub delays: bool,
    /// `logon failures max`: failed logons after which an address is refused; 0 for never.
    pub failures_max: u32,
    /// `logon refusal time`: for how long.
    pub refusal_time: Duration,
}

impl Default for ThrottleSettings {
    fn default() -> Self {
        Self { delays: true, failures_max: 0, refusal_time: Duration::from_secs(300) }
    }
}

/// Whether a proof is looked at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admission {
    /// At once.
    Now,
    /// After this time.
    After(Duration),
    /// Not at all: too many have failed.
    Refused,
}

/// The counts of failed logons.
#[derive(Debug)]
pub(crate) struct LogonThrottle {
    slots: Box<dyn Slots>,
}

/// A failed logon is forgotten after this time; of several, one after the other.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);
/// Failed logons that cost nothing: people mistype, and programs try what they remember.
const FREE: u32 = 8;
/// How much longer each further one has the next logon from its address wait. Those that come
/// together wait one behind the other therefore.
const ADDRESS_STEP: Duration = Duration::from_secs(1);
/// More is not waited for, so that clients do not give up: the logon is refused. An address can
/// have one proof looked at every [`FORGOTTEN_AFTER`] then.
const ADDRESS_WAIT_MAX: Duration = Duration::from_secs(20);
/// How much longer each further one has the next logon of its user wait.
const USER_STEP: Duration = Duration::from_millis(250);
/// A user's logon does not wait longer than this, and is never refused: anybody can fail in their
/// name.
const USER_WAIT_MAX: Duration = Duration::from_secs(2);
/// For how long a user is familiar at an address after a logon.
const FAMILIAR_FOR: Duration = Duration::from_secs(14 * 86_400);

/// How far ahead the times of an address and of a user may be at most.
const ADDRESS_LIMIT: Duration = limit(ADDRESS_WAIT_MAX, ADDRESS_STEP);
const USER_LIMIT: Duration = limit(USER_WAIT_MAX, USER_STEP);

#[expect(clippy::cast_possible_truncation, reason = "the constants above make a few steps")]
const fn limit(wait_max: Duration, step: Duration) -> Duration {
    let steps = (wait_max.as_millis() / step.as_millis()) as u32;
    FORGOTTEN_AFTER.saturating_mul(FREE + steps)
}

/// Places that one number may have.
const WAYS: usize = 8;
/// Bits of a slot that hold a time in milliseconds, of 34 years, or a count.
const TIME_BITS: u32 = 40;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// What a number is about. Each kind has a fifth of the slots.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Kind {
    Address,
    User,
    Familiar,
    /// Lines in the log about an address.
    Line,
    /// Refused logons from an address that have no line in the log.
    Untold,
}

impl Kind {
    const COUNT: usize = 5;
}

/// How fast lines are written about one address: so many at once, and one each so often then. It is
/// far above what a ban is made of (fail2ban's `maxretry` is 5), and more than proofs are looked
/// at.
const LINES_AT_ONCE: u32 = 40;
const LINE_EVERY: Duration = Duration::from_secs(5);

impl LogonThrottle {
    pub(crate) fn new(slots: Box<dyn Slots>) -> Self {
        Self { slots }
    }

    /// Counts a logon whose proof has come, as if it had failed, and says when to look at the
    /// proof.
    pub(crate) fn begin(
        &self,
        settings: &ThrottleSettings,
        now: Duration,
        client: SocketAddr,
        user: &str,
    ) -> Admission {
        let who = Who::of(client, user);
        let is_familiar = self.is_familiar(&who, now);
        let waits_max = if settings.delays { ADDRESS_LIMIT } else { Duration::MAX / 2 };
        let limit = settings.failures_limit().min(waits_max);
        let account = who.account(is_familiar);
        let Some(ahead) = self.add(Kind::Address, account, now, FORGOTTEN_AFTER, limit) else {
            return Admission::Refused;
        };
        let mut wait = wait(ahead, ADDRESS_STEP);
        if !is_familiar {
            let ahead = self.add(Kind::User, who.user, now, FORGOTTEN_AFTER, USER_LIMIT);
            wait = wait.max(ahead.map_or(USER_WAIT_MAX, |ahead| self::wait(ahead, USER_STEP)));
        }
        match settings.delays && !wait.is_zero() {
            true => Admission::After(wait),
            false => Admission::Now,
        }
    }

    /// The proof was right: takes the count back, and knows the user at this address from now on.
    pub(crate) fn succeed(&self, now: Duration, client: SocketAddr, user: &str) {
        self.excuse(now, client, user);
        self.update(Kind::Familiar, Who::of(client, user).pair, now, |_| Some(FAMILIAR_FOR));
    }

    /// There was no proof to be right or wrong: takes the count back.
    pub(crate) fn excuse(&self, now: Duration, client: SocketAddr, user: &str) {
        let who = Who::of(client, user);
        let is_familiar = self.is_familiar(&who, now);
        self.take_back(Kind::Address, who.account(is_familiar), now);
        if !is_familiar {
            self.take_back(Kind::User, who.user, now);
        }
    }

    /// The proof was wrong. If it was one too many, the address is refused from now on.
    pub(crate) fn fail(
        &self,
        settings: &ThrottleSettings,
        now: Duration,
        client: SocketAddr,
        user: &str,
    ) {
        let who = Who::of(client, user);
        let account = who.account(self.is_familiar(&who, now));
        let limit = settings.failures_limit();
        self.update(Kind::Address, account, now, |ahead| {
            (ahead + FORGOTTEN_AFTER > limit).then(|| ahead.max(limit + settings.refusal_time))
        });
    }

    /// Counts what became of a logon.
    pub(crate) fn count(&self, outcome: LogonOutcome) {
        self.slots.count(outcome);
    }

    /// Whether one more line about this address may be written.
    pub(crate) fn may_log(&self, now: Duration, client: SocketAddr) -> bool {
        let address = Who::of(client, "").address;
        self.add(Kind::Line, address, now, LINE_EVERY, LINE_EVERY * LINES_AT_ONCE).is_some()
    }

    /// Counts a refused logon that has no line in the log.
    pub(crate) fn leave_untold(&self, client: SocketAddr) {
        let address = Who::of(client, "").address;
        self.exchange(Kind::Untold, address, |count| Some(count.saturating_add(1)));
    }

    /// Returns the number of refused logons from an address that have no line, in all workers, and
    /// begins to count anew.
    pub(crate) fn take_untold(&self, client: SocketAddr) -> u64 {
        let address = Who::of(client, "").address;
        let mut untold = 0;
        self.exchange(Kind::Untold, address, |count| {
            untold = count;
            (count != 0).then_some(0)
        });
        untold
    }

    /// Returns what [`Self::take_untold`] does, if a line about the address may be written for it.
    pub(crate) fn untold_to_log(&self, now: Duration, client: SocketAddr) -> u64 {
        let address = Who::of(client, "").address;
        let mut is_any = false;
        self.exchange(Kind::Untold, address, |count| {
            is_any = count != 0;
            None
        });
        if is_any && self.may_log(now, client) { self.take_untold(client) } else { 0 }
    }

    fn is_familiar(&self, who: &Who, now: Duration) -> bool {
        let mut is_familiar = false;
        self.update(Kind::Familiar, who.pair, now, |ahead| {
            is_familiar = !ahead.is_zero();
            None
        });
        is_familiar
    }

    /// Moves a time on, unless it is `limit` ahead already. Returns how far ahead it was, if it was
    /// moved.
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

    /// Changes how far ahead of now a time is, if `change` wants that.
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

    /// Changes a number, which is 0 if it has no slot, if `change` wants that. Others may change it
    /// meanwhile: then `change` is asked again.
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
            // Its own place, or else that of the lowest: for times, the one that is forgotten
            // first.
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
    /// How far ahead the time of an address that is refused is.
    fn failures_limit(&self) -> Duration {
        match self.failures_max {
            0 => Duration::MAX / 2,
            max => FORGOTTEN_AFTER * max,
        }
    }
}

/// How long a logon waits when the time by which all failed ones are forgotten is so far ahead.
fn wait(ahead: Duration, step: Duration) -> Duration {
    let failures = ahead.as_millis().div_ceil(FORGOTTEN_AFTER.as_millis());
    step * u32::try_from(failures).unwrap_or(u32::MAX).saturating_sub(FREE - 1)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Whom a logon is counted for: hashes.
struct Who {
    address: u64,
    user: u64,
    pair: u64,
}

impl Who {
    /// An IPv6 address counts as its network of 64 bits, all of which one machine can have.
    fn of(client: SocketAddr, user: &str) -> Self {
        let network = match client.ip().to_canonical() {
            IpAddr::V4(address) => u64::from(u32::from(address)),
            IpAddr::V6(address) => (u128::from(address) >> 64) as u64,
        };
        let is_v4 = client.ip().to_canonical().is_ipv4();
        let user = user.to_lowercase();
        Self {
            address: hash(&(Kind::Address, is_v4, network)),
            user: hash(&(Kind::User, &user)),
            pair: hash(&(Kind::Familiar, is_v4, network, &user)),
        }
    }

    /// On whose account it fails. Somebody familiar does on their own, so that neither makes others
    /// wait who come from the same address, as behind a proxy, nor waits for them.
    fn account(&self, is_familiar: bool) -> u64 {
        if is_familiar { self.pair } else { self.address }
    }
}

/// The same in all processes: this hasher has no secret.
fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
