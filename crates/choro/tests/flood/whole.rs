//! A flood from networks of its own, while a user's copy goes on.
//!
//! Strangers and user run on the machine of the server. Threads of strangers have idle priority and
//! those of the user normal priority.

use std::fs::{self, File, Permissions};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use bench::client::requests::{self, Purpose, close, open, push_read};
use bench::client::{Client, Destination, Protection, Slot};
use dtyp::Guid;
use process::Priority;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::harness::choro::{Over, wait_until};
use crate::harness::connection::{Connection, random};
use crate::harness::namespace::Namespace;
use crate::harness::smbtorture::progress;
use crate::harness::{PASSWORD, Setup, TestServer, USER, terms};

/// Networks from which strangers come; one more is the user's.
const NETWORKS: u8 = 4;

/// Strangers who connect at the same time from one network.
const THREADS: u8 = 16;

/// Addresses of each of them.
const ADDRESSES: u8 = 6;

/// Connections, unless the environment says how many.
const CONNECTIONS: usize = 1_600;

/// Connections of all strangers in a second: more than a server of two processors can give workers
/// to. Strangers who are turned away would come faster, and the figures be those of another flood.
const CONNECTIONS_PER_SECOND: u32 = 1_000;

/// Time that a stranger gives the server to answer.
const STRANGERS_PATIENCE: Duration = Duration::from_secs(5);

/// Time in which a user's requests are measured before the flood, and after it.
const ALONE: Duration = Duration::from_secs(2);

/// Time between two logons of users in the flood: they cost as much as a stranger's.
const LOGON_INTERVAL: Duration = Duration::from_millis(500);

/// Bytes that the server may have while the strangers are there.
const MEMORY_MAX: u64 = 1 << 30;

/// Bytes of one READ of the copy, and READs of it.
const READ_BYTES: usize = 64 * 1024;
const READS: u64 = 16;

/// The user's network is 10.100.0.0/24, those of strangers follow. Of each, 10.x.128.0/17 are
/// addresses of the client as well.
fn network(number: u8) -> u8 {
    100 + number
}

fn user_address() -> Ipv4Addr {
    Ipv4Addr::new(10, network(0), 0, 2)
}

/// Makes a client's network, and joins it to that of the server.
fn join(server: &Namespace, number: u8) -> Namespace {
    let net = network(number);
    let client = Namespace::of_network(&format!(
        "ip link add v type veth peer name s{number} netns {}\n\
         ip addr add 10.{net}.0.2/24 dev v\nip link set v up\n\
         ip route add local 10.{net}.128.0/17 dev lo",
        server.id(),
    ));
    let client = client.expect("the server's network could be made");
    let (link, address) = (format!("s{number}"), format!("10.{net}.0.1/24"));
    for command in [
        &["ip", "addr", "add", &address, "dev", &link][..],
        &["ip", "link", "set", &link, "up"],
        &["ip", "route", "add", &format!("10.{net}.128.0/17"), "via", &format!("10.{net}.0.2")],
    ] {
        server.run(command).expect("it is ours");
    }
    client
}

fn enter(network: &Namespace) {
    let file = File::open(format!("/proc/{}/ns/net", network.id())).expect("it lives");
    let kind = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(file.as_fd(), kind).expect("we are root");
}

/// Connects, negotiates, or logs on anonymously: a third of the strangers each.
fn come(number: usize, from: IpAddr, to: SocketAddr) -> io::Result<Connection> {
    let mut stranger = Connection::connect(from, to, STRANGERS_PATIENCE)?;
    if !number.is_multiple_of(3) {
        stranger.negotiate(Guid(random()))?;
    }
    if number % 3 > 1 {
        stranger.log_on_anonymously()?;
    }
    Ok(stranger)
}

/// The strangers of one thread. Those that are served stay.
fn flood(network: (&Namespace, u8), thread: u8, connections: usize, port: u16) -> Vec<Connection> {
    enter(network.0);
    // A real flood comes from other machines, and this one is the server's and the user's. So the
    // strangers have only what both leave of it, and the figures are those of the server.
    process::set_thread_priority(0, Priority::Idle).expect("less is always allowed");
    let net = self::network(network.1);
    let server = SocketAddr::from(([10, net, 0, 1], port));
    let addresses = usize::from(ADDRESSES);
    let come = |number: usize| {
        let last = u8::try_from(number % addresses).expect("there are few");
        come(number, Ipv4Addr::new(10, net, 128 + thread, last).into(), server).ok()
    };
    let began = Instant::now();
    let interval =
        Duration::from_secs(1) * u32::from(NETWORKS) * u32::from(THREADS) / CONNECTIONS_PER_SECOND;
    let come_in_time = |number: usize| {
        let at = began + interval * u32::try_from(number).expect("there are few");
        thread::sleep(at.saturating_duration_since(Instant::now()));
        come(number)
    };
    (0..connections).filter_map(come_in_time).collect()
}

/// Copies a file again and again, and says how long each request took, in microseconds.
fn copy(user: &mut Client, is_over: impl Fn() -> bool) -> Vec<u128> {
    let mut times = Vec::new();
    let mut timed = |work: &mut dyn FnMut()| {
        let began = Instant::now();
        work();
        times.push(began.elapsed().as_micros());
    };
    while !is_over() {
        let mut file = None;
        timed(&mut || file = Some(open(user, Purpose::Open, "copied").expect("it is served")));
        let file = file.expect("it is open");
        for number in 0..READS {
            timed(&mut || {
                let offset = number * u64::try_from(READ_BYTES).expect("it is small");
                push_read(user, file, offset, READ_BYTES);
                user.flush(Slot(0)).expect("the server takes it");
                let reply = user.receive().expect("the server answers");
                requests::verify_read(user, &reply, READ_BYTES).expect("it is read");
            });
        }
        timed(&mut || close(user, file).expect("it is closed"));
    }
    times
}

fn copy_for(user: &mut Client, time: Duration) -> Vec<u128> {
    let began = Instant::now();
    copy(user, || began.elapsed() > time)
}

fn percentile(times: &mut [u128], percent: usize) -> u128 {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}

/// Bytes that the processes of the server have, what they share counted once.
fn memory(server: &TestServer) -> u64 {
    let server = server.server();
    let pids = server.workers().into_iter().chain(server.notifyd()).chain([server.pid()]);
    let kibibytes = |pid: u32| {
        // It may have ended since it was listed.
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:").map(str::to_owned));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    pids.map(kibibytes).sum::<u64>() * 1024
}

/// Lets this process have as many connections as it may: those that are served stay open.
fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("it is allowed");
}

fn connect_as_user(network: &Namespace, port: u16) -> Client {
    let connect = || {
        enter(network);
        let destination = Destination {
            address: SocketAddr::from(([10, self::network(0), 0, 1], port)),
            share: "data".to_owned(),
            user: USER.to_owned(),
            password: PASSWORD.to_owned(),
        };
        Client::connect_from(user_address(), &destination, terms(Protection::Signed))
    };
    thread::scope(|scope| scope.spawn(connect).join().expect("it ends")).expect("a user is served")
}

#[test]
fn a_flood_from_other_networks_takes_no_place_of_a_user_and_little_memory() {
    let own = match Namespace::of_network("") {
        Ok(own) => own,
        Err(reason) => return progress(&format!("no networks of their own: {reason}")),
    };
    let clients: Vec<Namespace> = (0..=NETWORKS).map(|number| join(&own, number)).collect();
    let connections = std::env::var("FLOOD_CONNECTIONS").ok().and_then(|it| it.parse().ok());
    let connections = connections.unwrap_or(CONNECTIONS);
    raise_descriptor_limit();
    let server = Setup::new()
        .share("data", "")
        .global("interfaces =\nbind interfaces only = no")
        .launch_with(&own.launcher())
        .start();
    let (port, file) = (server.port(), server.share_path("data").join("copied"));
    fs::write(&file, vec![7; READ_BYTES * 16]).expect("there is space");
    fs::set_permissions(&file, Permissions::from_mode(0o666)).expect("it is ours");
    let mut user = connect_as_user(&clients[0], port);
    let mut alone = copy_for(&mut user, ALONE);

    let is_over = AtomicBool::new(false);
    let (flooding, ended) = channel::<()>();
    let threads = usize::from(NETWORKS) * usize::from(THREADS);
    let (mut flooded, strangers) = thread::scope(|scope| {
        let copying = scope.spawn(|| copy(&mut user, || is_over.load(Ordering::Relaxed)));
        let over = Over(&is_over);
        let began = Instant::now();
        let floods: Vec<_> = (1..=NETWORKS)
            .flat_map(|number| (0..THREADS).map(move |thread| (number, thread)))
            .map(|(number, thread)| {
                let network = (&clients[usize::from(number)], number);
                let flooding = flooding.clone();
                scope.spawn(move || {
                    let served = flood(network, thread, connections / threads, port);
                    drop(flooding);
                    served
                })
            })
            .collect();
        // Others log on in the middle of it.
        let mut users = 0;
        drop(flooding);
        while ended.recv_timeout(LOGON_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            drop(connect_as_user(&clients[0], port));
            users += 1;
        }
        let served: Vec<Connection> =
            floods.into_iter().flat_map(|it| it.join().expect("it ends")).collect();
        let served: Vec<Connection> = served.into_iter().filter(Connection::is_open).collect();
        progress(&format!(
            "{connections} connections in {:?}, {} of them served, {users} logons meanwhile",
            began.elapsed(),
            served.len()
        ));
        drop(over);
        (copying.join().expect("the user's copy goes on"), served)
    });
    let bytes = memory(&server);
    let workers = server.server().workers().len();
    progress(&format!("{workers} workers with {} MiB", bytes >> 20));
    assert!(bytes < MEMORY_MAX, "{bytes} bytes in {workers} workers");
    drop(strangers);
    wait_until(|| server.server().workers().len() == 4, || server.server().log());
    // Other work on the machine changes: the second figure tells how much.
    let mut again = copy_for(&mut user, ALONE);
    let measured =
        [("alone", &mut alone), ("in the flood", &mut flooded), ("alone again", &mut again)];
    for (name, times) in measured {
        let [middle, p99] = [50, 99].map(|percent| percentile(times, percent));
        progress(&format!("{name}: {} requests, {middle} us, p99 {p99} us", times.len()));
    }
    drop(user);
    wait_until(|| server.server().workers().len() == 3, || server.server().log());
    drop(connect_as_user(&clients[0], port));
    server.stop();
}
