//! What the system may do to a transport: names in the lock directory, and limits.

use dtyp::ServerId;
use messaging::SendError;

use crate::bench::Bench;
use crate::each_built;
use crate::processes::Processes;

/// A file of that name that is no socket, or the socket of a process that has ended.
#[test]
fn a_name_without_a_process_is_no_process() {
    each_built(|place| {
        let mut bench = Bench::new(Box::new(Processes::new(place)));
        let msg = bench.stage.lock_dir().expect("a real one").join("msg");
        let name = |pid: u32| format!("{pid}-{:016x}", 1);
        drop(std::os::unix::net::UnixDatagram::bind(msg.join(name(999_999))).expect("free"));
        drop(std::os::unix::net::UnixListener::bind(msg.join(name(999_998))).expect("free"));
        std::fs::write(msg.join(name(999_997)), b"").expect("written");
        for pid in [999_999, 999_998, 999_997, 999_996] {
            let gone = ServerId { pid, unique_id: 1 };
            assert_eq!(bench.send(gone, b"anyone?"), Err(SendError::NoSuchProcess));
        }
    });
}

/// A queue of signals at its limit is no reason to lose a message.
#[test]
fn a_receiver_without_room_for_a_signal_loses_nothing() {
    each_built(|place| {
        let mut bench = Bench::new(Box::new(Processes::new(place)));
        let peer = bench.echo();
        bench.check_echo(peer, b"hello");
        let pid = i32::try_from(peer.pid).ok().and_then(rustix::process::Pid::from_raw);
        let resource = rustix::process::Resource::Sigpending;
        let usual = rustix::process::getrlimit(resource);
        let none = rustix::process::Rlimit { current: Some(0), ..usual };
        rustix::process::prlimit(pid, resource, none).expect("ours");
        for number in 0..10_u8 {
            assert_eq!(bench.send(peer, &[number]), Ok(()));
        }
        bench.transport.poll_send(bench.stage.now());
        rustix::process::prlimit(pid, resource, usual).expect("ours");
        for number in 0..10_u8 {
            assert_eq!(bench.receive().bytes, [number]);
        }
    });
}
