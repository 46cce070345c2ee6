use std::thread;

use super::*;

/// Makes `io_uring_setup` fail with EPERM for the calling thread, as container runtimes do.
fn forbid_io_uring() {
    let setup = u32::try_from(libc::SYS_io_uring_setup).expect("system call numbers are small");
    let statement = |code: u32, jt, jf, k| libc::sock_filter {
        code: u16::try_from(code).expect("instructions are 16 bits"),
        jt,
        jf,
        k,
    };
    let errno = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    let mut filter = [
        // The first word of `seccomp_data` is the number of the system call.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, setup),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, errno),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: `program` describes `filter`, and both outlive the call. Only this thread is
    // affected.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

#[test]
fn auto_takes_the_fallback_if_io_uring_is_forbidden() {
    let test = || {
        forbid_io_uring();
        assert_eq!(Backend::available(), [Backend::Fallback]);
        let ring = Driver::new(Backend::Ring, Limits::default()).expect_err("it is forbidden");
        assert_eq!(ring.raw_os_error(), Some(libc::EPERM));

        let mut driver = Driver::new(Backend::Auto, Limits::default()).expect("epoll is allowed");
        assert_eq!(driver.backend(), Backend::Fallback);
        let reason = driver.ring_error().expect("the fallback has a reason");
        assert_eq!(reason.raw_os_error(), Some(libc::EPERM));
        let file = tempfile::tempfile().expect("a temporary file");
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        driver.submit(Token(1), Op::Sync { file: fd, data_only: false }).expect("there is room");
        let mut completions = Vec::new();
        driver.wait(None, &mut completions).expect("it works");
        assert!(matches!(completions[..], [Completion { token: Token(1), result: Ok(0), .. }]));
    };
    thread::spawn(test).join().expect("the test passed in its thread");
}

#[test]
fn auto_takes_the_ring_unless_it_is_forbidden() {
    let driver = Driver::new(Backend::Auto, Limits::default()).expect("one of them works");
    assert_eq!(Some(&driver.backend()), Backend::available().first());
    assert_eq!(driver.ring_error().is_some(), driver.backend() == Backend::Fallback);
}

#[test]
fn limits_out_of_range_are_refused() {
    #[track_caller]
    fn check(operations_in_flight_max: u32, threads_max: u32, want: bool) {
        let limits = Limits { operations_in_flight_max, threads_max };
        for backend in Backend::available() {
            assert_eq!(Driver::new(backend, limits).is_ok(), want, "{limits:?}");
        }
    }
    check(0, 1, false);
    check(1, 0, false);
    check(1, 1, true);
    check(OPERATIONS_IN_FLIGHT_MAX, 1, true);
    check(OPERATIONS_IN_FLIGHT_MAX + 1, 1, false);
}

/// A driver on another thread could not reap, and the compiler prevents the move.
#[test]
fn a_driver_stays_on_its_thread() {
    trait AmbiguousIfSend<T> {
        fn check() {}
    }
    impl<T: ?Sized> AmbiguousIfSend<()> for T {}
    impl<T: ?Sized + Send> AmbiguousIfSend<u8> for T {}
    <Driver as AmbiguousIfSend<_>>::check();
}
