//! Attempts of a process that was taken over.

use std::fs::{self, File};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use confinement::ProcessKind;
use io_uring::{IoUring, opcode, squeue, types};

use super::Site;

/// An attempt, and its outcome under rules.
#[derive(Debug)]
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) make: fn(&Site) -> io::Result<()>,
    /// Kinds that are stopped; others succeed.
    pub(crate) is_for: fn(ProcessKind) -> bool,
    /// Numbers of the errors with which it is stopped.
    pub(crate) errors: &'static [i32],
    /// Only root could do it without rules.
    pub(crate) takes_root: bool,
}

const fn attack(name: &'static str, make: fn(&Site) -> io::Result<()>) -> Attack {
    Attack { name, make, is_for: has_rules, errors: &[libc::EACCES], takes_root: false }
}

const fn by_root(name: &'static str, make: fn(&Site) -> io::Result<()>) -> Attack {
    Attack { takes_root: true, ..attack(name, make) }
}

/// Logond alone has no rules.
fn has_rules(kind: ProcessKind) -> bool {
    kind != ProcessKind::Logond
}

/// Notifyd alone lists directories everywhere.
fn reads_no_names(kind: ProcessKind) -> bool {
    has_rules(kind) && kind != ProcessKind::Notifyd
}

/// Discoveryd listens on addresses that the machine gets later.
fn binds_nothing(kind: ProcessKind) -> bool {
    has_rules(kind) && kind != ProcessKind::Discoveryd
}

/// Notifyd and auditd replace what others find them by.
fn replaces_nothing_of_the_server(kind: ProcessKind) -> bool {
    has_rules(kind) && !matches!(kind, ProcessKind::Notifyd | ProcessKind::Auditd)
}

pub(crate) const ALL: &[Attack] = &[
    Attack {
        is_for: replaces_nothing_of_the_server,
        ..attack("change_the_published_users", |site| fs::write(site.folder.join("lock/users"), ""))
    },
    attack("read_the_user_database", |site| read(&site.folder.join("private/users.json"))),
    by_root("read_shadow", |_| read(Path::new("/etc/shadow"))),
    Attack {
        is_for: reads_no_names,
        ..by_root("list_the_home_of_root", |_| fs::read_dir("/root").map(drop))
    },
    by_root("write_a_job_of_cron", |_| {
        let path = format!("/etc/choro-test-{}", std::process::id());
        fs::write(&path, "")?;
        fs::remove_file(path)
    }),
    attack("read_a_file_beside_a_share", |site| read(&site.beside("file"))),
    attack("write_a_file_beside_a_share", |site| fs::write(site.beside("new"), "text")),
    attack("remove_a_file_beside_a_share", |site| fs::remove_file(site.beside("file"))),
    attack("truncate_a_file_beside_a_share", |site| {
        File::options().write(true).open(site.beside("file"))?.set_len(1)
    }),
    Attack {
        errors: &[libc::EACCES, libc::EXDEV],
        ..attack("move_a_file_out_of_a_share", |site| {
            fs::rename(site.share("file"), site.beside("moved"))
        })
    },
    Attack {
        errors: &[libc::EACCES, libc::EXDEV],
        ..attack("move_a_file_into_a_share", |site| {
            fs::rename(site.beside("file"), site.share("moved"))
        })
    },
    Attack {
        errors: &[libc::EACCES, libc::EXDEV],
        ..attack("link_a_file_into_a_share", |site| {
            fs::hard_link(site.beside("file"), site.share("link"))
        })
    },
    attack("follow_a_link_out_of_a_share", |site| {
        symlink(site.beside("file"), site.share("link"))?;
        read(&site.share("link"))
    }),
    attack("open_by_a_descriptor_for_names", |site| {
        let flags = rustix::fs::OFlags::PATH;
        let opened = rustix::fs::open(site.beside("file"), flags, rustix::fs::Mode::empty())?;
        read(Path::new(&format!("/proc/self/fd/{}", opened.as_raw_fd())))
    }),
    attack("read_in_a_thread_that_starts_later", |site| {
        let path = site.beside("file");
        std::thread::spawn(move || read(&path)).join().expect("it ends")
    }),
    attack("read_by_a_ring", |site| {
        let path = c_path(&site.beside("file"));
        let open = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr());
        by_ring(&open.flags(libc::O_RDONLY).build())
    }),
    attack("read_by_a_thread_of_a_ring", |site| {
        let path = c_path(&site.beside("file"));
        let open = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr());
        by_ring(&open.flags(libc::O_RDONLY).build().flags(squeue::Flags::ASYNC))
    }),
    attack("connect_to_a_machine", |site| TcpStream::connect(("127.0.0.1", site.port)).map(drop)),
    attack("connect_by_a_ring", |site| {
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
            None,
        )?;
        let address = libc::sockaddr_in {
            sin_family: libc::sa_family_t::try_from(libc::AF_INET).expect("it is small"),
            sin_port: site.port.to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
            sin_zero: [0; 8],
        };
        let length = libc::socklen_t::try_from(size_of_val(&address)).expect("it is short");
        let socket = types::Fd(socket.as_raw_fd());
        by_ring(&opcode::Connect::new(socket, (&raw const address).cast(), length).build())
    }),
    Attack {
        is_for: binds_nothing,
        ..attack("listen_for_machines", |_| TcpListener::bind("127.0.0.1:0").map(drop))
    },
    Attack {
        errors: &[libc::EPERM],
        ..attack("signal_another_process", |_| {
            let parent = rustix::process::getppid().expect("the test runs");
            Ok(rustix::process::test_kill_process(parent)?)
        })
    },
    Attack {
        errors: &[libc::EPERM, libc::ECONNREFUSED],
        ..attack("talk_to_a_socket_without_a_file", |site| {
            let address = SocketAddr::from_abstract_name(site.socket_name())?;
            UnixDatagram::unbound()?.send_to_addr(b"text", &address).map(drop)
        })
    },
];

fn read(path: &Path) -> io::Result<()> {
    File::open(path).map(drop)
}

fn c_path(path: &Path) -> std::ffi::CString {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::CString::new(path.as_os_str().as_bytes()).expect("a path has no zero")
}

/// Makes one operation by a ring. What it refers to has to live until then.
fn by_ring(operation: &squeue::Entry) -> io::Result<()> {
    let mut ring = IoUring::new(1)?;
    // SAFETY: the caller keeps what the operation refers to, and this waits for its end.
    unsafe { ring.submission().push(operation) }.map_err(io::Error::other)?;
    ring.submit_and_wait(1)?;
    let completion = ring.completion().next().expect("it has ended");
    match completion.result() {
        0.. => Ok(()),
        errno => Err(io::Error::from_raw_os_error(-errno)),
    }
}
