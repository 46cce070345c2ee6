//! Attacks on the kernel, by calls that change it. Their arguments are invalid: without a filter
//! nothing would happen either.

use libc::c_long;

use crate::attack::{Attack, Layer, stopped};

macro_rules! calls {
    ($($name:literal, $call:expr, $arguments:expr;)*) => {
        &[$(stopped($name, Layer::Filter, |scene| {
            let call: c_long = $call;
            scene.worker.call(call, &$arguments)
        }),)*]
    };
}

const NONE: u64 = u64::MAX;

/// A flag that no namespace has.
const INVALID: u64 = 1;

pub(crate) const ATTACKS: &[Attack] = calls! {
    "mount", libc::SYS_mount, [0; 5];
    "unmount", libc::SYS_umount2, [0; 2];
    "move a mount", libc::SYS_move_mount, [NONE, 0, NONE, 0, 0];
    "open a file system", libc::SYS_fsopen, [0; 2];
    "make a namespace of mounts", libc::SYS_unshare, [0x0002_0000 | INVALID];
    "make a namespace of users", libc::SYS_unshare, [0x1000_0000 | INVALID];
    "enter a namespace", libc::SYS_setns, [NONE, 0];
    "change the root directory", libc::SYS_chroot, [0];
    "exchange the root directory", libc::SYS_pivot_root, [0; 2];
    "load a program into the kernel (BPF)", libc::SYS_bpf, [NONE, 0, 0];
    "load a module", libc::SYS_init_module, [0; 3];
    "load a module by a descriptor", libc::SYS_finit_module, [NONE, 0, 0];
    "load another kernel", libc::SYS_kexec_load, [NONE, 0, 0, NONE];
    "count events of the processor", libc::SYS_perf_event_open, [0, 0, 0, NONE, NONE];
    "handle page faults of its own", libc::SYS_userfaultfd, [NONE];
    "load another filter", libc::SYS_seccomp, [NONE, 0, 0];
    "take another personality", libc::SYS_personality, [0xffff_ffff];
    "add a key", libc::SYS_add_key, [0; 5];
    "read keys", libc::SYS_keyctl, [NONE, 0, 0, 0, 0];
    "restart the machine", libc::SYS_reboot, [0; 4];
    "swap to a file", libc::SYS_swapon, [0; 2];
    "turn quotas off", libc::SYS_quotactl_fd, [NONE, 0x8000_0300, 0, 0];
    "give a ring the rights of another", libc::SYS_io_uring_register, [NONE, 9, 0, 0];
    "type into a terminal", libc::SYS_ioctl, [NONE, 0x5412, 0];
    "set the clock", libc::SYS_clock_settime, [NONE, 0];
};
