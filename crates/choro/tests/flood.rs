//! Many clients that prove nothing, beside users who work: who is served, and whose place it is.
//!
//! One of the tests floods from networks of its own; `make nightly` has it do so with 20,000
//! connections.

#[path = "flood/familiar.rs"]
mod familiar;
mod harness;
#[path = "flood/whole.rs"]
mod whole;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZero;
use std::thread;
use std::time::Instant;

use bench::client::requests::{Purpose, close, open};
use bench::client::{Client, Protection};
use dtyp::{Guid, NtStatus};
use harness::choro::{PATIENCE, is_alive, signal_process, wait_until};
use harness::connection::{Connection, random};
use harness::smbtorture::progress;
use harness::{PASSWORD, Setup, TestServer, USER, terms};
use rustix::process::Signal;

fn server(global: &str) -> TestServer {
    let setup = Setup::new().share("data", "").share("public", "guest ok = yes");
    let server = setup.global(global).start();
    fs::write(server.share_path("data").join("file"), "data").expect("there is space");
    server
}

/// An address of the loopback network, none of which is that of the user.
fn stranger(number: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 1, number).into()
}

fn address(server: &TestServer) -> SocketAddr {
    server.site().address()
}

/// A client that has negotiated, if it is served.
fn negotiated(server: &TestServer, from: IpAddr) -> io::Result<Connection> {
    let mut stranger = Connection::connect(from, address(server), PATIENCE)?;
    stranger.negotiate(Guid(random()))?;
    Ok(stranger)
}

/// An anonymous client, if it is served.
fn anonymous(server: &TestServer, from: IpAddr) -> io::Result<Connection> {
    let mut stranger = negotiated(server, from)?;
    stranger.log_on_anonymously()?;
    Ok(stranger)
}

fn user(server: &TestServer) -> Client {
    server.connect("data", Protection::Signed)
}

#[track_caller]
fn work(user: &mut Client) {
    let file = open(user, Purpose::Stat, "file").expect("the user is served");
    close(user, file).expect("the user is served");
}

fn count_open(strangers: &[Connection]) -> usize {
    strangers.iter().filter(|stranger| stranger.is_open()).count()
}

/// Waits until at most this many strangers are connected. A stranger that makes room for another
/// may lose its connection a moment after that one is served.
#[track_caller]
fn wait_for_at_most(count: usize, strangers: &[Connection]) {
    wait_until(|| count_open(strangers) <= count, || count_open(strangers).to_string());
}

#[test]
fn one_address_has_64_places_without_a_user_and_they_come_back() {
    let server = server("");
    let mut before = user(&server);
    let mut strangers: Vec<Connection> = Vec::new();
    let mut refused = 0;
    for number in 0..200 {
        // Half of them log on as nobody, which is no way to a place either.
        let served = match number % 2 {
            0 => negotiated(&server, stranger(1)),
            _ => anonymous(&server, stranger(1)),
        };
        match served {
            Ok(served) => strangers.push(served),
            Err(_) => refused += 1,
        }
        work(&mut before);
    }
    assert_eq!((strangers.len(), refused), (64, 136), "{}", server.server().log());
    server.server().wait_for_log("`max clients per address`");
    let lines = server.server().log();
    assert!(lines.matches("refused").count() < 20, "a line for each refusal: {lines}");
    // Neither a user elsewhere nor strangers elsewhere pay for it.
    work(&mut user(&server));
    let _other = negotiated(&server, stranger(2)).expect("another address");
    strangers.clear();
    wait_until(|| anonymous(&server, stranger(1)).is_ok(), || server.server().log());
    work(&mut before);
    server.stop();
}

#[test]
fn clients_that_have_not_logged_on_leave_places_for_users_of_other_addresses() {
    let server = server("max startups = 4:30:16\n");
    let mut before = user(&server);
    let mut served = Vec::new();
    for _ in 0..20 {
        for number in 1..=8 {
            served.extend(negotiated(&server, stranger(number)));
        }
        wait_for_at_most(16, &served);
        work(&mut before);
        // The user's address has none that waits, and those of the strangers have several.
        work(&mut user(&server));
    }
    server.server().wait_for_log("`max startups`");
    drop(served);
    wait_until(
        || {
            let waiting: Vec<_> =
                (0..4).map_while(|_| negotiated(&server, stranger(1)).ok()).collect();
            waiting.len() == 4
        },
        || server.server().log(),
    );
    server.stop();
}

#[test]
fn many_addresses_with_one_client_each_keep_no_user_out() {
    let server = server("max startups = 4:30:16\n");
    let strangers: Vec<Connection> = (1..=40)
        .map(|number| negotiated(&server, stranger(number)).expect("the first of its address"))
        .collect();
    wait_for_at_most(16, &strangers);
    work(&mut user(&server));
    server.stop();
}

#[test]
fn a_user_is_not_refused_for_guests() {
    let server = server("max smbd processes = 12\nmap to guest = Bad User\n");
    let mut before = user(&server);
    let mut guests = Vec::new();
    for number in 1..=11 {
        let mut guest = anonymous(&server, stranger(number)).expect("there is room");
        assert_eq!(guest.tree("public").expect("it is served"), NtStatus::SUCCESS);
        guests.push(guest);
    }
    assert_eq!(count_open(&guests), 11);
    let mut users: Vec<Client> = (0..5).map(|_| user(&server)).collect();
    users.iter_mut().for_each(work);
    wait_until(|| count_open(&guests) == 6, || server.server().log());
    assert!(guests[0].is_open() && !guests[10].is_open(), "who came first stays");
    work(&mut before);
    server.stop();
}

#[test]
fn guests_beyond_the_limit_are_disconnected_from_the_busiest_address_first() {
    let server = server("max guest clients = 4\nmap to guest = Bad User\n");
    let alone = anonymous(&server, stranger(1)).expect("there is room");
    let mut many = Vec::new();
    for _ in 0..20 {
        many.extend(anonymous(&server, stranger(2)));
    }
    // One more comes, and the supervisor sees how many there are.
    wait_until(
        || {
            drop(negotiated(&server, stranger(3)));
            count_open(&many) <= 3
        },
        || server.server().log(),
    );
    assert!(alone.is_open());
    work(&mut user(&server));
    server.stop();
}

#[test]
fn an_address_with_crashing_workers_waits_and_others_do_not() {
    let server = server("");
    let mut before = user(&server);
    let users = server.worker_of(&before);
    let idle = || server.server().workers();
    for _ in 0..9 {
        wait_until(|| idle().len() == 4, || format!("{:?}", idle()));
        let known = idle();
        let victim = negotiated(&server, stranger(1)).expect("it is served");
        // One of the idle workers has become the stranger's.
        let serving = serving_of(&server, &known, users);
        signal_process(serving, Signal::KILL);
        wait_until(|| !is_alive(serving) && !victim.is_open(), || server.server().log());
    }
    server.server().wait_for_log("9 crashes; no client is served for 100ms");
    work(&mut before);
    work(&mut user(&server));
    wait_until(|| negotiated(&server, stranger(1)).is_ok(), || server.server().log());
    server.stop();
}

/// The scheduling policies of a process in the order of /proc/PID/stat.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Policy {
    Other,
    Idle,
    Unknown,
}

fn policy_of(pid: u32) -> Policy {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Fields count from 1, and the name in the second may have spaces.
    let policy = stat.rsplit(')').next().and_then(|it| it.split_whitespace().nth(41 - 3));
    match policy {
        Some("0") => Policy::Other,
        Some("5") => Policy::Idle,
        _ => Policy::Unknown,
    }
}

fn idle_workers(server: &TestServer) -> Vec<u32> {
    let workers = server.server().workers().into_iter();
    workers.filter(|pid| policy_of(*pid) == Policy::Idle).collect()
}

/// Workers of this server may have idle priority: they may leave it again.
fn may_yield(server: &TestServer) -> bool {
    let read = |file: &str, line: &str| {
        let text = fs::read_to_string(format!("/proc/{}/{file}", server.server().pid()));
        let text = text.expect("it lives");
        let line = text.lines().find_map(|it| it.strip_prefix(line)).expect("it is Linux");
        line.split_whitespace().next().expect("it is Linux").to_owned()
    };
    let limit = read("limits", "Max nice priority").parse::<u32>();
    let capabilities = u64::from_str_radix(&read("status", "CapEff:"), 16).expect("a number");
    // CAP_SYS_NICE is the 23rd.
    limit.is_ok_and(|limit| limit >= 20) || capabilities & (1 << 23) != 0
}

/// Strangers come from a few addresses until workers have idle priority. Returns false on a machine
/// that is too busy for a flood: tokens come back as fast as its workers start.
fn flood_until_workers_yield(server: &TestServer, strangers: &mut Vec<Connection>) -> bool {
    let begin = Instant::now();
    let mut seen = HashSet::new();
    while idle_workers(server).is_empty() {
        strangers.retain(Connection::is_open);
        let connect = |number| Connection::connect(stranger(number), address(server), PATIENCE);
        strangers.extend((0..32).filter_map(|number| connect(1 + number % 8).ok()));
        seen.extend(server.server().workers());
        if begin.elapsed() > PATIENCE {
            let processors = thread::available_parallelism().map_or(1, NonZero::get);
            let tokens = processors * 50 * usize::try_from(PATIENCE.as_secs()).expect("seconds");
            assert!(seen.len() < 2 * tokens, "{} workers: {}", seen.len(), server.server().log());
            progress("this machine is too busy for a flood");
            return false;
        }
    }
    true
}

#[test]
fn workers_of_a_flood_have_idle_priority_until_it_is_over_and_a_users_has_not() {
    let server = server("");
    if !may_yield(&server) {
        return progress("workers may not leave idle priority here");
    }
    let mut before = user(&server);
    let mut strangers = Vec::new();
    if !flood_until_workers_yield(&server, &mut strangers) {
        return server.stop();
    }
    let mut meanwhile = user(&server);
    for user in [&before, &meanwhile] {
        assert_eq!(policy_of(server.worker_of(user)), Policy::Other);
    }
    assert_eq!(policy_of(server.server().pid()), Policy::Other);
    [&mut before, &mut meanwhile].into_iter().for_each(work);
    // Its strangers are still there.
    wait_until(|| idle_workers(&server).is_empty(), || format!("{:?}", idle_workers(&server)));
    assert!(count_open(&strangers) > 0);
    server.stop();
}

#[test]
fn a_worker_of_a_flood_has_normal_priority_again_when_its_client_logs_on_as_a_user() {
    let server = server("");
    if !may_yield(&server) {
        return progress("workers may not leave idle priority here");
    }
    let mut strangers = Vec::new();
    let log_on_in_a_flood = || {
        strangers.clear();
        if !flood_until_workers_yield(&server, &mut strangers) {
            return true;
        }
        let Ok(mut one_of_them) = negotiated(&server, stranger(1)) else { return false };
        let yielding = idle_workers(&server);
        if one_of_them.guess(USER, PASSWORD).is_err() {
            return false;
        }
        let text = server.site().run(&["status", "--json"]).succeeds();
        let rows: Vec<serde_json::Value> = serde_json::from_str(&text).expect("an array");
        let pid = rows.iter().find_map(|row| row["pid"].as_u64().filter(|_| row["user"] == USER));
        let pid = u32::try_from(pid.expect("its session is shown")).expect("a pid");
        let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it lives").flatten();
        for thread in threads.filter_map(|it| it.file_name().to_str()?.parse().ok()) {
            assert_eq!(policy_of(thread), Policy::Other);
        }
        // The flood may have been over before.
        yielding.contains(&pid) && !idle_workers(&server).is_empty()
    };
    wait_until(log_on_in_a_flood, || server.server().log());
    server.stop();
}

/// The worker that has a client now, of those that were `known`, but for the one of the user.
fn serving_of(server: &TestServer, known: &[u32], users: u32) -> u32 {
    let listed = || {
        let rows: Vec<serde_json::Value> =
            serde_json::from_str(&server.site().run(&["status", "--json"]).succeeds())
                .expect("an array");
        let pids = rows.iter().filter_map(|row| row["pid"].as_u64());
        let pids = pids.filter_map(|pid| u32::try_from(pid).ok());
        pids.filter(|pid| known.contains(pid) && *pid != users).collect::<Vec<u32>>()
    };
    wait_until(|| !listed().is_empty(), || server.server().log());
    listed()[0]
}

#[test]
fn strangers_with_a_users_client_guid_take_few_places_beside_it() {
    let server = server("");
    let destination = server.destination("data");
    let mut user = Client::connect(&destination, terms(Protection::Signed)).expect("it may");
    let guid = client_guid_of(&server);
    let mut strangers = Vec::new();
    for _ in 0..10 {
        let mut stranger =
            Connection::connect(stranger(1), address(&server), PATIENCE).expect("it");
        stranger.negotiate(guid).expect("it is served somewhere");
        strangers.push(stranger);
    }
    let sockets = sockets_of(server.worker_of(&user));
    assert_eq!(sockets.0, 5, "the user's and four: {sockets:?}");
    // Those that turn out to be nobody's are not served beside the user at all.
    let left: Vec<bool> = strangers.iter_mut().map(|it| it.log_on_anonymously().is_ok()).collect();
    assert_eq!(left.iter().filter(|is_served| **is_served).count(), 6, "{left:?}");
    wait_until(|| sockets_of(server.worker_of(&user)).0 == 1, || server.server().log());
    work(&mut user);
    server.stop();
}

/// The ClientGuid that `choro status` shows.
fn client_guid_of(server: &TestServer) -> Guid {
    let text = server.site().run(&["status", "--json"]).succeeds();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).expect("an array");
    let guid = rows.iter().find_map(|row| row["client_guid"].as_str()).expect("there is one");
    let digits: String = guid.chars().filter(char::is_ascii_hexdigit).collect();
    let bytes: Vec<u8> = (0..16)
        .map(|index| u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).expect("hex"))
        .collect();
    let mut guid: [u8; 16] = bytes.try_into().expect("16 bytes");
    // Its first three parts are numbers of the other byte order.
    guid[..4].reverse();
    guid[4..6].reverse();
    guid[6..8].reverse();
    Guid(guid)
}

/// TCP sockets that a process has open, and all of its descriptors.
fn sockets_of(pid: u32) -> (usize, Vec<String>) {
    let tcp = fs::read_to_string(format!("/proc/{pid}/net/tcp")).expect("it lives");
    let inodes: Vec<&str> = tcp.lines().filter_map(|it| it.split_whitespace().nth(9)).collect();
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives");
    let links: Vec<String> = descriptors
        .flatten()
        .filter_map(|it| fs::read_link(it.path()).ok())
        .map(|link| link.to_string_lossy().into_owned())
        .collect();
    let is_tcp = |link: &&String| {
        let inode = link.strip_prefix("socket:[").and_then(|it| it.strip_suffix(']'));
        inode.is_some_and(|inode| inodes.contains(&inode))
    };
    (links.iter().filter(is_tcp).count(), links)
}
