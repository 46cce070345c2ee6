//! Effects of the system on a transport: names in the lock directory, and limits.

use std::ffi::{CStr, CString};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use dtyp::ServerId;
use messaging::SendError;

use crate::bench::{Bench, frame};
use crate::each_built;
use crate::part::Role;
use crate::processes::Processes;
use crate::stage::Stage;

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

/// Connected peers go on; others get an error; frames without room wait.
#[test]
fn a_full_lock_directory_keeps_new_processes_out_and_harms_no_other() {
    each_built(|place| {
        let mut processes = Processes::new(place);
        let lock_dir = processes.lock_dir().expect("a real one").to_owned();
        let small = match SmallFileSystem::mount(&lock_dir) {
            Ok(small) => small,
            Err(error) => {
                // To the terminal, past the test's own output, which nobody sees if it passes.
                let _ = writeln!(std::io::stderr(), "skipped, no file system of its own: {error}");
                return;
            }
        };
        let mut transport = processes.open();
        let peers = [(); 2].map(|()| processes.start());
        peers.iter().for_each(|peer| processes.start_role(*peer, Role::Echo));
        fill(&lock_dir);

        let kept_out = processes.try_start().expect_err("there is no room for its socket");
        let begins = kept_out.starts_with(&lock_dir.display().to_string());
        assert!(begins && kept_out.contains("No space left on device"), "{kept_out}");

        let large = frame(20_000, 3);
        for peer in peers {
            assert_eq!(transport.send(processes.now(), peer, &large, &[]), Ok(()));
        }
        let mut bench = Bench { stage: Box::new(processes), transport };
        let mut came = 0;
        if bench.counters().queued == 0 {
            // Sockets need no room there.
            for _ in peers {
                assert!(bench.receive().bytes == large);
                came += 1;
            }
            peers.iter().for_each(|peer| bench.check_echo(*peer, b"still there"));
        }
        std::fs::remove_file(lock_dir.join(FILLER)).expect("it is ours");
        while came < peers.len() {
            assert!(bench.receive().bytes == large);
            came += 1;
        }
        peers.iter().for_each(|peer| bench.check_echo(*peer, b"and on"));
        let counters = bench.counters();
        assert_eq!((counters.lost, counters.dropped, counters.malformed), (0, 0, 0));
        // Unmounts before the removal of its mount point.
        drop(small);
    });
}

/// A file system with little room, which only this thread and its children see.
struct SmallFileSystem(CString);

impl SmallFileSystem {
    fn mount(on: &Path) -> std::io::Result<Self> {
        let on = CString::new(on.as_os_str().as_bytes()).expect("no NUL");
        // SAFETY: concerns this thread alone, which goes by absolute paths and by descriptors.
        check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
        mount(c"none", c"/", libc::MS_PRIVATE | libc::MS_REC, c"")?;
        mount(c"tmpfs", &on, 0, c"size=16M,nr_inodes=32,mode=700")?;
        Ok(Self(on))
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        // SAFETY: the path is a string that lives.
        let _ = check(unsafe { libc::umount2(self.0.as_ptr(), libc::MNT_DETACH) });
    }
}

fn mount(kind: &CStr, on: &CStr, flags: libc::c_ulong, options: &CStr) -> std::io::Result<()> {
    let (kind, options) = (kind.as_ptr(), options.as_ptr());
    // SAFETY: all are strings that live, and the kernel only reads them.
    check(unsafe { libc::mount(kind, on.as_ptr(), kind, flags, options.cast()) })
}

fn check(result: libc::c_int) -> std::io::Result<()> {
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Leaves no room in a directory.
fn fill(directory: &Path) {
    let mut filler = std::fs::File::create(directory.join(FILLER)).expect("there is room");
    for size in [1 << 20, 4_096, 1] {
        while filler.write_all(&vec![0; size]).is_ok() {}
    }
    let full = |number: u32| std::fs::File::create(directory.join(format!("{FILLER}{number}")));
    let refused = (0..).find_map(|number| full(number).err()).expect("some time");
    assert_eq!(refused.kind(), ErrorKind::StorageFull);
}

const FILLER: &str = "filler";
