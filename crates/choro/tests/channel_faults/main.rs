//! Channels that fail in every way that a network has, while four clients write, lock, create and
//! hold leases over two to four channels each: nothing that was acknowledged is lost, nothing is
//! done twice, every break reaches its client, and what channels are left go on.
//!
//! The server is on a machine of its own, in a network namespace, and so are its clients; several
//! links are between them. That needs root; without it these tests say so and pass.

#[path = "../harness/mod.rs"]
mod harness;

mod client;
mod connection;
mod network;
mod relay;
mod work;

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use client::{Client, PATIENCE};
use harness::choro::Server;
use harness::smbtorture::progress;
use harness::{Setup, TestServer};
use network::Network;
use relay::Relay;
use work::{Board, CLIENTS, Done, work};

/// Links between the two machines.
const LINKS: usize = 4;

/// Rounds that every client makes between one event and the next.
const ROUNDS: u64 = 3;

/// Number of times that each fault occurs.
const TIMES: usize = 2;

/// Time for which a channel is frozen; `CHORO_FREEZE_SECONDS` overrides it, and must be shorter
/// than the time for a break's acknowledgment.
const FREEZE: Duration = Duration::from_secs(4);

/// A fault of a network link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    /// The requests arrive, and their answers do not.
    AnswersLost,
    /// Nothing arrives any more, in either direction.
    Blackholed,
    /// Nothing is read from the clients' end.
    Clogged,
    /// The server's interface is down.
    Down,
    /// Nothing is forwarded for a while, and everything then.
    Frozen,
    /// The connections of the link are reset.
    Reset,
}

impl Fault {
    /// Whether breaks that are told on the link go nowhere, and nobody says so.
    fn loses_breaks(self) -> bool {
        matches!(self, Self::AnswersLost | Self::Blackholed | Self::Clogged | Self::Down)
    }
}

/// A server, its network, and the clients that work.
struct Scene<'a> {
    server: &'a Server,
    network: &'a Network,
    relay: &'a Relay,
    board: &'a Board,
}

/// The links of a client's channels, the oldest first, if the one with the number 0 fails.
fn links(client: usize, fault: Fault) -> Vec<usize> {
    // A break is told on the oldest channel. One that was taken by a relay waits in it.
    match (client, fault) {
        (0, Fault::Frozen) => vec![1, 0],
        (1, Fault::Frozen) => vec![1, 0, 2],
        (0, _) => vec![0, 1],
        (1, _) => vec![0, 1, 2],
        (2, _) => vec![1, 0, 2, 3],
        _ => vec![2, 0],
    }
}

/// Lets a link fail while the clients work, again and again.
fn check(fault: Fault) {
    let network = match Network::new(LINKS) {
        Ok(network) => network,
        Err(reason) => return progress(&format!("no machines of its own: {reason}")),
    };
    let server = start(&network);
    let mut destinations = network.destinations(server.port());
    let board = Board::default();
    let done = thread::scope(|scope| {
        // Sockets of this thread belong to the clients' machine.
        let done = scope.spawn(|| {
            network.enter_clients();
            let relay = Relay::new(destinations[0]);
            if fault == Fault::Frozen {
                destinations[0] = relay.address();
            }
            let workers: Vec<_> = (0..CLIENTS)
                .map(|number| {
                    let links = links(number, fault);
                    let addresses: Vec<_> = links.iter().map(|link| destinations[*link]).collect();
                    let client = Client::new(&addresses).expect("nothing is broken yet");
                    let board = &board;
                    scope.spawn(move || {
                        let over = Over(board);
                        let done = work(client, board, number, links);
                        std::mem::forget(over);
                        done
                    })
                })
                .collect();
            let (network, relay, board) = (&network, &relay, &board);
            let scene = Scene { server: server.server(), network, relay, board };
            scene.run(fault);
            board.is_over.store(true, Ordering::Relaxed);
            workers.into_iter().map(|it| it.join().expect("see above")).collect::<Vec<Done>>()
        });
        done.join().expect("see above")
    });
    finish(server, &board, &done, fault);
}

/// Ends the work of all if one of them panics.
struct Over<'a>(&'a Board);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

fn start(network: &Network) -> TestServer {
    let addresses: Vec<String> =
        (0..LINKS).map(|link| network.server_address(link).to_string()).collect();
    let interfaces = format!("interfaces = 127.0.0.1 {}", addresses.join(" "));
    Setup::new().launch_with(&network.launcher()).global(&interfaces).share("data", "").start()
}

impl Scene<'_> {
    fn run(&self, fault: Fault) {
        self.wait_for_rounds("at the beginning");
        for time in 0..TIMES {
            // Once between two rounds, so that the next begins on the link that fails; and once in
            // the middle of whatever happens.
            let between_rounds = (time == 0).then(|| self.board.gate.write().expect("see above"));
            let lost = self.breaks_lost();
            self.board.begin_count.fetch_add(1, Ordering::Relaxed);
            self.begin(fault);
            drop(between_rounds);
            let began = Instant::now();
            self.wait_for_rounds("while a link fails");
            // A channel that was made anew is not the oldest any more, on which breaks are told.
            if fault.loses_breaks() && time == 0 {
                self.wait_until(|| self.breaks_lost() > lost, || "no break was lost".to_owned());
            }
            if fault == Fault::Frozen {
                // Longer than it takes the clients to go on over other links.
                thread::sleep(freeze().saturating_sub(began.elapsed()));
            }
            self.end(fault);
            self.wait_for_channels(fault);
            self.wait_for_rounds("afterwards");
        }
    }

    fn begin(&self, fault: Fault) {
        match fault {
            Fault::AnswersLost => self.network.drop_packets(0, false),
            Fault::Blackholed => self.network.drop_packets(0, true),
            Fault::Clogged => self.board.is_clogged.store(true, Ordering::Relaxed),
            Fault::Down => self.network.set_up(0, false),
            Fault::Frozen => self.relay.freeze(true),
            Fault::Reset => self.network.reset(0),
        }
    }

    fn end(&self, fault: Fault) {
        match fault {
            Fault::AnswersLost | Fault::Blackholed => self.network.heal_packets(0),
            Fault::Clogged => self.board.is_clogged.store(false, Ordering::Relaxed),
            Fault::Down => self.network.set_up(0, true),
            Fault::Frozen => self.relay.freeze(false),
            Fault::Reset => {}
        }
    }

    /// Connections that the server has given up because they took no break.
    fn breaks_lost(&self) -> usize {
        self.server.log().matches("a break notification was not acknowledged").count()
    }

    /// Waits until every client makes progress.
    fn wait_for_rounds(&self, when: &str) {
        let rounds = || self.board.rounds.each_ref().map(|it| it.load(Ordering::Relaxed));
        let before = rounds();
        let went_on = || rounds().iter().zip(before).all(|(now, before)| *now >= before + ROUNDS);
        self.wait_until(went_on, || format!("{when}: {:?} rounds after {before:?}", rounds()));
    }

    /// Every client has all of its channels again.
    fn wait_for_channels(&self, fault: Fault) {
        let channels = || self.board.channels.each_ref().map(|it| it.load(Ordering::Relaxed));
        let wanted: [usize; CLIENTS] = std::array::from_fn(|it| links(it, fault).len());
        self.wait_until(|| channels() == wanted, || format!("{:?} channels", channels()));
    }

    fn wait_until(&self, is_so: impl Fn() -> bool, complaint: impl Fn() -> String) {
        let began = Instant::now();
        while !is_so() {
            assert!(!self.board.is_over.load(Ordering::Relaxed), "a client has failed");
            assert!(began.elapsed() < PATIENCE, "{}", complaint());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        // Whatever happens, the clients come to an end.
        self.board.is_over.store(true, Ordering::Relaxed);
    }
}

fn freeze() -> Duration {
    let seconds = std::env::var("CHORO_FREEZE_SECONDS").ok().and_then(|it| it.parse().ok());
    seconds.map_or(FREEZE, Duration::from_secs)
}

fn finish(server: TestServer, board: &Board, done: &[Done], fault: Fault) {
    board.verify(&server.share_path("data"), done);
    let counts: Vec<_> = done.iter().map(|it| it.counts).collect();
    progress(&format!("{fault:?}: {counts:?}"));
    let of = |count: fn(&client::Counts) -> u64| counts.iter().map(count).sum::<u64>();
    assert!(of(|it| it.breaks) > 0, "no lease was ever taken");
    assert!(of(|it| it.channels_lost) > 0, "no channel was ever lost");
    if matches!(fault, Fault::AnswersLost | Fault::Blackholed | Fault::Frozen) {
        assert!(of(|it| it.repeated) > 0, "nothing was ever repeated");
    }
    let status = || server.site().run(&["status", "--json"]).succeeds();
    let is_closed = || !status().contains(r#""open""#);
    harness::choro::wait_until(is_closed, || format!("opens are left: {}", status()));
    server.stop();
}

#[test]
fn answers_that_are_lost_are_given_again_and_nothing_is_done_twice() {
    check(Fault::AnswersLost);
}

#[test]
fn a_client_goes_on_without_a_channel_of_dropped_packets() {
    check(Fault::Blackholed);
}

#[test]
fn a_channel_that_is_reset_is_done_without() {
    check(Fault::Reset);
}

#[test]
fn late_requests_of_a_frozen_channel_change_nothing() {
    check(Fault::Frozen);
}

#[test]
fn an_interface_that_is_down_takes_no_other_channel_with_it() {
    check(Fault::Down);
}

#[test]
fn a_channel_that_is_not_read_holds_up_no_other() {
    check(Fault::Clogged);
}
