use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::{Admission, Kind, LogonThrottle, Parties, Slots, ThrottleSettings, WAYS};

#[derive(Clone, Debug)]
struct Shared(Arc<[AtomicU64]>);

/// Memory whose numbers have this key in their hashes.
#[derive(Debug)]
struct Keyed(u64, Shared);

impl Slots for Keyed {
    fn slots(&self) -> &[AtomicU64] {
        self.1.slots()
    }

    fn key(&self) -> u64 {
        self.0
    }
}

impl Slots for Shared {
    fn slots(&self) -> &[AtomicU64] {
        &self.0
    }
}

fn memory() -> Shared {
    Shared((0..4_096).map(|_| AtomicU64::new(0)).collect())
}

fn address(text: &str) -> SocketAddr {
    SocketAddr::new(text.parse().expect("an address"), 40_000)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const SETTINGS: ThrottleSettings =
    ThrottleSettings { delays: true, failures_max: 0, refusal_time: Duration::from_secs(300) };
/// A time long after the machine's start.
const NOW: Duration = Duration::from_secs(1_000_000);

/// Begins a logon and lets it fail.
fn fail(throttle: &LogonThrottle, now: Duration, client: SocketAddr, user: &str) -> Admission {
    let admission = throttle.begin(&SETTINGS, now, client, user);
    throttle.fail(&SETTINGS, now, client, user);
    admission
}

#[test]
fn a_user_is_one_by_all_names_of_the_domain() {
    let throttle = LogonThrottle::new(Box::new(memory()));
    let names = ["anna", "Anna@adlab", "anna@ad.lab.test", "ANNA@AD.LAB.TEST"];
    for number in 0..12 {
        let client = address(&format!("198.51.100.{number}"));
        fail(&throttle, NOW, client, names[number % names.len()]);
    }
    for name in names {
        let client = address("192.0.2.7");
        let admission = throttle.begin(&SETTINGS, NOW, client, name);
        assert_eq!(admission, Admission::After(Duration::from_millis(1_250)), "{name}");
        throttle.excuse(NOW, client, name);
    }
    throttle.succeed(NOW, address("192.0.2.9"), "anna@ad.lab.test");
    let admission = throttle.begin(&SETTINGS, NOW, address("192.0.2.9"), "anna");
    assert_eq!(admission, Admission::Now, "she is familiar there");
}

/// The attack: a guesser makes the server forget a user's failed logons by others under names that
/// displace them.
#[test]
fn names_that_displace_a_user_cannot_be_chosen_without_the_key() {
    let is_delayed_after_attack = |key| {
        let throttle = LogonThrottle::new(Box::new(Keyed(key, memory())));
        for number in 0..12 {
            fail(&throttle, NOW, address(&format!("198.51.100.{number}")), "anna");
        }
        let client = address("203.0.113.1");
        let buckets = (throttle.region(Kind::User).len() / WAYS) as u64;
        let bucket = |name: &str| Parties::of(0, client, name).user % buckets;
        let names = (0..).map(|it| format!("name{it}")).filter(|it| bucket(it) == bucket("anna"));
        for (number, name) in names.take(WAYS).enumerate() {
            for _ in 0..20 {
                fail(&throttle, NOW, address(&format!("203.0.113.{number}")), &name);
            }
        }
        throttle.begin(&SETTINGS, NOW, address("192.0.2.7"), "anna") != Admission::Now
    };
    assert!(!is_delayed_after_attack(0), "to these names, this key is known");
    assert!([1, 2, 3].into_iter().any(is_delayed_after_attack));
}

/// Checks a wrong ticket of an address.
fn forge(throttle: &LogonThrottle, now: Duration, client: SocketAddr) -> Admission {
    let admission = throttle.begin_ticket(&SETTINGS, now, client);
    if admission != Admission::Refused {
        throttle.fail_ticket(&SETTINGS, now, client, admission != Admission::Now);
    }
    admission
}

#[test]
fn wrong_tickets_count_for_their_address_as_passwords_do() {
    let throttle = LogonThrottle::new(Box::new(memory()));
    let client = address("192.0.2.7");
    let waits: Vec<_> = (0..30).map(|_| forge(&throttle, NOW, client)).collect();
    assert_eq!(waits[..8], [Admission::Now; 8]);
    let later: Vec<_> = (1..=20).map(|time| Admission::After(seconds(time))).collect();
    assert_eq!(waits[8..28], later);
    assert_eq!(waits[28..], [Admission::Refused; 2]);
    assert_eq!(throttle.begin(&SETTINGS, NOW, client, "anna"), Admission::Refused);
    let elsewhere = address("192.0.2.8");
    assert_eq!(forge(&throttle, NOW, elsewhere), Admission::Now);
    assert_eq!(throttle.begin(&SETTINGS, NOW, elsewhere, "anna"), Admission::Now);
}

#[test]
fn right_tickets_delay_nobody_however_many_come_at_once() {
    let throttle = LogonThrottle::new(Box::new(memory()));
    let client = address("192.0.2.7");
    for _ in 0..100 {
        assert_eq!(throttle.begin_ticket(&SETTINGS, NOW, client), Admission::Now);
    }
    for _ in 0..100 {
        throttle.succeed_ticket(NOW, client, false);
    }
    assert_eq!(forge(&throttle, NOW, client), Admission::Now);
}

#[test]
fn where_tickets_were_right_before_wrong_passwords_do_not_delay_them() {
    let throttle = LogonThrottle::new(Box::new(memory()));
    let client = address("192.0.2.7");
    throttle.succeed_ticket(NOW, client, false);
    for number in 0..40 {
        fail(&throttle, NOW, client, &format!("user{number}"));
    }
    assert_eq!(throttle.begin_ticket(&SETTINGS, NOW, client), Admission::Now);
}

#[test]
fn a_delayed_ticket_that_is_right_or_cannot_be_checked_is_no_failure() {
    let throttle = LogonThrottle::new(Box::new(memory()));
    let client = address("192.0.2.7");
    for _ in 0..8 {
        forge(&throttle, NOW, client);
    }
    let delayed = Admission::After(seconds(1));
    for _ in 0..3 {
        assert_eq!(throttle.begin_ticket(&SETTINGS, NOW, client), delayed);
        throttle.excuse_ticket(NOW, client);
    }
    assert_eq!(throttle.begin_ticket(&SETTINGS, NOW, client), delayed);
    throttle.succeed_ticket(NOW, client, true);
    assert_eq!(throttle.begin_ticket(&SETTINGS, NOW, client), Admission::Now, "it is familiar");
    assert_eq!(fail(&throttle, NOW, client, "anna"), delayed, "the others still count");
}

#[test]
fn all_workers_count_together_and_each_failure_is_forgotten_after_ten_seconds() {
    let memory = memory();
    let workers = [(); 2].map(|()| LogonThrottle::new(Box::new(memory.clone())));
    let client = address("192.0.2.7");
    let mut waits = Vec::new();
    for number in 0..12 {
        waits.push(fail(&workers[number % 2], NOW, client, &format!("user{number}")));
    }
    assert_eq!(waits[..8], [Admission::Now; 8]);
    let later = [1, 2, 3, 4].map(|time| Admission::After(seconds(time)));
    assert_eq!(waits[8..], later);
    let elsewhere = address("192.0.2.8");
    assert_eq!(fail(&workers[0], NOW, elsewhere, "other"), Admission::Now);
    let now = NOW + seconds(40);
    assert_eq!(fail(&workers[0], now, client, "user"), Admission::After(seconds(1)));
    assert_eq!(fail(&workers[0], NOW + seconds(1_000), client, "user"), Admission::Now);
}

#[test]
fn nobody_waits_longer_than_clients_do() {
    let throttle = LogonThrottle::new(Box::new(memory()));
    let client = address("192.0.2.7");
    let admissions: Vec<_> =
        (0..100).map(|number| fail(&throttle, NOW, client, &number.to_string())).collect();
    let refused = admissions.iter().filter(|it| **it == Admission::Refused).count();
    assert_eq!(refused, 72, "8 at once and 20 that wait");
    assert_eq!(admissions[27], Admission::After(seconds(20)));
    // From then on one proof is checked every ten seconds.
    let looked_at = (1..=100).filter(|second| {
        fail(&throttle, NOW + seconds(*second), client, "x") != Admission::Refused
    });
    assert_eq!(looked_at.count(), 10);
}

#[test]
fn a_network_of_ipv6_is_one_address_and_a_mapped_one_is_that_of_ipv4() {
    let throttle = LogonThrottle::new(Box::new(memory()));
    for number in 0..8 {
        fail(&throttle, NOW, address(&format!("2001:db8:0:1::{number:x}")), &number.to_string());
        fail(&throttle, NOW, address("192.0.2.7"), &format!("v4 {number}"));
    }
    let next = |client: &str| throttle.begin(&SETTINGS, NOW, address(client), "x");
    assert_eq!(next("2001:db8:0:2::1"), Admission::Now);
    assert_eq!(next("2001:db8:0:1:ffff::1"), Admission::After(seconds(1)));
    assert_eq!(next("::ffff:192.0.2.7"), Admission::After(seconds(1)));
}

#[test]
fn others_delay_a_user_by_two_seconds_at_most_and_a_familiar_user_not_at_all() {
    let throttle = LogonThrottle::new(Box::new(memory()));
    let desk = address("192.0.2.1");
    assert_eq!(throttle.begin(&SETTINGS, NOW, desk, "anna"), Admission::Now);
    throttle.succeed(NOW, desk, "anna");
    for number in 0..1_000 {
        fail(&throttle, NOW, address(&format!("198.51.{}.{}", number / 250, number % 250)), "ANNA");
        fail(&throttle, NOW, desk, &format!("name {number}"));
    }
    let elsewhere = throttle.begin(&SETTINGS, NOW, address("203.0.113.1"), "anna");
    assert_eq!(elsewhere, Admission::After(seconds(2)));
    assert_eq!(throttle.begin(&SETTINGS, NOW, desk, "anna"), Admission::Now);
    assert_eq!(throttle.begin(&SETTINGS, NOW, desk, "berta"), Admission::Refused);
    // Guesses at a familiar user's password are delayed all the same.
    let guesses: Vec<_> = (0..60).map(|_| fail(&throttle, NOW, desk, "anna")).collect();
    assert_eq!(guesses[59], Admission::Refused);
}

#[test]
fn a_right_proof_and_one_that_need_not_be_right_are_not_counted() {
    let throttle = LogonThrottle::new(Box::new(memory()));
    let client = address("192.0.2.7");
    for number in 0..100 {
        let user = format!("user {number}");
        assert_eq!(throttle.begin(&SETTINGS, NOW, client, &user), Admission::Now);
        throttle.succeed(NOW, client, &user);
        assert_eq!(throttle.begin(&SETTINGS, NOW, client, "guest"), Admission::Now);
        throttle.excuse(NOW, client, "guest");
    }
}

#[test]
fn an_address_that_failed_too_often_is_refused_for_the_time_that_is_set() {
    let throttle = LogonThrottle::new(Box::new(memory()));
    let settings = ThrottleSettings { failures_max: 3, delays: false, ..SETTINGS };
    let client = address("192.0.2.7");
    let fail = |now| {
        let admission = throttle.begin(&settings, now, client, "anna");
        if admission != Admission::Refused {
            throttle.fail(&settings, now, client, "anna");
        }
        admission
    };
    assert_eq!(
        [0; 4].map(|_| fail(NOW)),
        [Admission::Now, Admission::Now, Admission::Now, Admission::Refused]
    );
    assert_eq!(fail(NOW + seconds(299)), Admission::Refused);
    assert_eq!(fail(NOW + seconds(301)), Admission::Now);
    assert_eq!(fail(NOW + seconds(302)), Admission::Refused);
}

#[test]
fn without_delays_and_refusals_nobody_waits_until_clients_would_give_up() {
    let throttle = LogonThrottle::new(Box::new(memory()));
    let settings = ThrottleSettings { delays: false, ..SETTINGS };
    for number in 0..1_000 {
        let admission = throttle.begin(&settings, NOW, address("192.0.2.7"), &number.to_string());
        assert_eq!(admission, Admission::Now);
    }
}

#[test]
fn a_hundred_thousand_names_take_no_memory_and_the_address_waits_all_the_same() {
    let throttle = LogonThrottle::new(Box::new(memory()));
    let client = address("192.0.2.7");
    let refused = (0..100_000)
        .filter(|number| fail(&throttle, NOW, client, &number.to_string()) == Admission::Refused);
    assert_eq!(refused.count(), 100_000 - 28);
}

#[test]
fn lines_about_an_address_are_bounded_far_above_the_count_for_a_ban() {
    let throttle = LogonThrottle::new(Box::new(memory()));
    let client = address("192.0.2.7");
    let lines = (0..1_000).filter(|_| throttle.may_log(NOW, client)).count();
    assert_eq!(lines, 40);
    assert!(throttle.may_log(NOW, address("192.0.2.8")));
    assert!(throttle.may_log(NOW + seconds(5), client));
    assert!(!throttle.may_log(NOW + seconds(5), client));
}

#[test]
fn failures_without_a_line_are_counted_and_logged_at_a_common_rate_of_all_workers() {
    let memory = memory();
    let [one, other] = [(); 2].map(|()| LogonThrottle::new(Box::new(memory.clone())));
    let (client, neighbour) = (address("192.0.2.7"), address("192.0.2.8"));
    while one.may_log(NOW, client) {}
    for worker in [&one, &other, &other] {
        worker.count_unlogged(client);
    }
    assert_eq!(one.unlogged_to_log(NOW, client), 0, "no line is left");
    assert_eq!(one.take_unlogged(neighbour), 0, "that address has none");
    let later = NOW + seconds(5);
    assert_eq!(one.unlogged_to_log(later, client), 3);
    other.count_unlogged(client);
    assert_eq!(other.unlogged_to_log(later, client), 0, "the line went to the first");
    assert_eq!(other.take_unlogged(client), 1);
    assert_eq!(one.take_unlogged(client), 0);
}

#[test]
fn a_worker_with_nothing_unlogged_takes_no_line_of_its_address() {
    let throttle = LogonThrottle::new(Box::new(memory()));
    let client = address("192.0.2.7");
    for _ in 0..100 {
        assert_eq!(throttle.unlogged_to_log(NOW, client), 0);
    }
    assert!(throttle.may_log(NOW, client));
}

#[test]
fn lines_that_an_address_causes_are_limited_over_all_workers() {
    let memory = memory();
    let workers = [(); 2].map(|()| LogonThrottle::new(Box::new(memory.clone())));
    let client = address("192.0.2.7");
    let written = (0..2_000).filter(|number| workers[number % 2].may_write(NOW, client, 1)).count();
    assert_eq!(written, 1_000);
    assert!(workers[0].may_write(NOW, address("192.0.2.8"), 24), "others have their own");
    assert!(workers[1].may_log(NOW, client), "lines about logons, too");
    let later = NOW + Duration::from_millis(20);
    assert!(workers[0].may_write(later, client, 24), "a long one is paid for afterwards");
    assert!(!workers[1].may_write(later + Duration::from_millis(400), client, 1));
}
