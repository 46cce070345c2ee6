#!/usr/bin/env python3
"""Runs a command as systemd runs what a unit file describes, on a machine where systemd runs nothing.

    scripts/under_unit.py UNIT COMMAND [ARGUMENT]...

Reads the directives of [Service] that confine a process (capabilities, system calls, address families,
namespaces, mounts, limits) and applies them to itself before it becomes the command. A directive that it
does not know is an error, so that none is taken for tested that was not. Needs root, and of the package
systemd the program systemd-analyze, which knows the groups of system calls, and libseccomp.
"""

import ctypes
import errno
import os
import re
import resource
import stat
import subprocess
import sys

# Of <linux/prctl.h>, <linux/sched.h>, <linux/mount.h> and <linux/capability.h>.
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CLONE_NEWNS, CLONE_NEWUTS = 0x00020000, 0x04000000
NAMESPACES = 0x7E020080  # every CLONE_NEW*
MS_NOSUID, MS_NOEXEC, MS_BIND, MS_MOVE, MS_REC, MS_SLAVE = 0x2, 0x8, 0x1000, 0x2000, 0x4000, 0x80000
MOUNT_SETATTR, AT_RECURSIVE, AT_FDCWD, MOUNT_ATTR_RDONLY = 442, 0x8000, -100, 1
CAPABILITIES = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE "
    "NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT "
    "SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE "
    "AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ "
    "PERFMON BPF CHECKPOINT_RESTORE"
).split()
# Of <seccomp.h>.
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
LOWER, EQUAL, GREATER, MASKED_EQUAL = 2, 4, 6, 7
SETS_NO_NEW_PRIVS = 3
# Of <sys/mman.h> and <sys/shm.h>.
PROT_WRITE, PROT_EXEC, SHM_EXEC = 2, 4, 0o100000
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16, "AF_PACKET": 17}

# What a service manager does that is no confinement of the process, or not of one process.
NOT_APPLIED = {
    "CacheDirectory", "ExecReload", "ExecStart", "KillMode", "LogRateLimitIntervalSec", "MemoryMax",
    "OOMPolicy", "Restart", "StateDirectory", "TasksMax", "TimeoutStopSec", "Type",
}

libc = ctypes.CDLL(None, use_errno=True)


def checked(result, doing):
    if result < 0:
        sys.exit(f"under_unit: {doing}: {os.strerror(ctypes.get_errno())}")


def directives(path):
    """The lines of [Service], by name; a directive may be given several times."""
    section, found = None, {}
    with open(path, encoding="utf-8") as unit:
        for line in unit:
            line = line.strip()
            if line.startswith("["):
                section = line
            elif section == "[Service]" and line and not line.startswith("#"):
                name, value = line.split("=", 1)
                found.setdefault(name, []).append(value)
    return found


class Mounts:
    """Changes to what is mounted, in a namespace of its own."""

    def __init__(self):
        checked(libc.unshare(CLONE_NEWNS), "a mount namespace")
        self.mount(None, "/", MS_REC | MS_SLAVE)

    @staticmethod
    def mount(source, target, flags, kind=None):
        source, kind = (it and it.encode() for it in (source, kind))
        flags = ctypes.c_ulong(flags)
        checked(libc.mount(source, target.encode(), kind, flags, None), f"mounting {target}")

    def protect(self, *paths):
        """Makes them read-only, and what is mounted below them."""
        for path in filter(os.path.exists, paths):
            self.set_attributes(path, MOUNT_ATTR_RDONLY, 0)

    def open(self, *paths):
        """Makes them writable again."""
        for path in filter(os.path.exists, paths):
            self.set_attributes(path, 0, MOUNT_ATTR_RDONLY)

    def set_attributes(self, path, added, removed):
        self.mount(path, path, MS_BIND | MS_REC)
        attributes = (ctypes.c_uint64 * 4)(added, removed, 0, 0)
        flags, size = ctypes.c_uint(AT_RECURSIVE), ctypes.c_size_t(32)
        result = libc.syscall(
            ctypes.c_long(MOUNT_SETATTR), AT_FDCWD, path.encode(), flags, attributes, size
        )
        checked(result, f"protecting {path}")

    def hide(self, *paths):
        for path in filter(os.path.exists, paths):
            if os.path.isdir(path):
                self.mount("tmpfs", path, 0, "tmpfs")
                os.chmod(path, 0)
            else:
                self.mount("/dev/null", path, MS_BIND)

    def private_devices(self):
        staging = "/run"
        self.mount("tmpfs", staging, MS_NOSUID | MS_NOEXEC, "tmpfs")
        for name in ("null", "zero", "full", "random", "urandom", "tty"):
            node = os.stat(f"/dev/{name}")
            os.mknod(f"{staging}/{name}", stat.S_IFCHR | 0o666, node.st_rdev)
            os.chmod(f"{staging}/{name}", 0o666)
        for name in ("pts", "shm", "mqueue"):
            if os.path.isdir(f"/dev/{name}"):
                os.mkdir(f"{staging}/{name}")
                self.mount(f"/dev/{name}", f"{staging}/{name}", MS_BIND | MS_REC)
        for name in ("fd", "stdin", "stdout", "stderr", "ptmx"):
            if os.path.islink(f"/dev/{name}"):
                os.symlink(os.readlink(f"/dev/{name}"), f"{staging}/{name}")
        self.mount(staging, "/dev", MS_MOVE)


class Argument(ctypes.Structure):
    """struct scmp_arg_cmp"""

    _fields_ = [
        ("number", ctypes.c_uint),
        ("comparison", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    ]


class Filter:
    """A filter of system calls. The kernel asks all that were loaded and does what the strictest says."""

    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p

    def __init__(self, otherwise):
        self.otherwise = otherwise
        self.context = ctypes.c_void_p(self.library.seccomp_init(ctypes.c_uint32(otherwise)))

    def add(self, action, name, *arguments):
        number = self.library.seccomp_syscall_resolve_name(name.encode())
        if number < 0 or action == self.otherwise:  # not on this architecture, or nothing to say
            return
        array = (Argument * len(arguments))(*(Argument(*it) for it in arguments))
        action = ctypes.c_uint32(action)
        result = self.library.seccomp_rule_add_array(
            self.context, action, number, len(arguments), array
        )
        if result < 0:
            sys.exit(f"under_unit: a rule for {name}: {os.strerror(-result)}")

    def load(self):
        self.library.seccomp_attr_set(self.context, SETS_NO_NEW_PRIVS, ctypes.c_uint32(0))
        result = self.library.seccomp_load(self.context)
        if result < 0:
            sys.exit(f"under_unit: the kernel takes no filter of system calls: {os.strerror(-result)}")


def system_call_groups():
    """The groups as systemd has them, each with its members, some of which are groups."""
    groups, members = {}, None
    command = ["systemd-analyze", "--no-pager", "syscall-filter"]
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        if line.startswith("@"):
            members = groups.setdefault(line.strip(), [])
        elif line.startswith("    ") and not line.strip().startswith("#") and members is not None:
            members.append(line.strip())
    return groups


def system_calls(words, groups):
    for word in words:
        if word.startswith("@"):
            yield from system_calls(groups[word], groups)
        else:
            yield word


class Confinement:
    """What the directives come to. They are collected first, and applied when nothing is needed any more
    that they take away."""

    def __init__(self):
        self.capabilities = set(CAPABILITIES)
        self.groups = system_call_groups()
        self.filters = []
        self.mounts = Mounts()
        self.no_new_privileges = False

    def refuse(self, *calls, error=errno.EPERM):
        """A filter that refuses these calls, each a name and what is said of its arguments."""
        rules = Filter(ALLOW)
        for name, *arguments in calls:
            rules.add(ERRNO | error, name, *arguments)
        self.filters.append(rules)

    def refuse_group(self, group):
        self.refuse(*((name,) for name in system_calls([group], self.groups)))

    def apply(self, name, values):
        value = values[-1]
        limit = re.fullmatch("Limit([A-Z]+)", name)
        if name in NOT_APPLIED or value == "no":
            return
        if limit:
            self.limit(getattr(resource, f"RLIMIT_{limit[1]}"), value)
        elif name == "SystemCallFilter":
            self.system_call_filter(values)
        elif hasattr(self, name):
            getattr(self, name)(value)
        else:
            sys.exit(f"under_unit: {name}={value} is not known here; add it to scripts/under_unit.py")

    @staticmethod
    def limit(which, value):
        number = resource.RLIM_INFINITY if value == "infinity" else int(value)
        try:
            resource.setrlimit(which, (number, number))
        except ValueError:  # In some containers root may raise nothing.
            highest = resource.getrlimit(which)[1]
            resource.setrlimit(which, (highest, highest))

    def system_call_filter(self, lines):
        allowed = set(system_calls(["@default"], self.groups))
        for line in lines:
            calls = set(system_calls(line.lstrip("~").split(), self.groups))
            allowed = allowed - calls if line.startswith("~") else allowed | calls
        self.allowed = allowed

    def enforce(self):
        for number, name in enumerate(CAPABILITIES):
            if name not in self.capabilities:
                checked(libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0), f"giving up CAP_{name}")
        if self.no_new_privileges:
            checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
        for rules in self.filters:
            rules.load()
        # Last: it may forbid to load another.
        rules = Filter(ERRNO | errno.EPERM)
        for name in sorted(self.allowed):
            rules.add(ALLOW, name)
        rules.load()

    # Each directive by its name, as systemd.exec(5) describes it.

    def CapabilityBoundingSet(self, value):
        self.capabilities &= {word.removeprefix("CAP_") for word in value.split()}

    def NoNewPrivileges(self, _):
        self.no_new_privileges = True

    def UMask(self, value):
        os.umask(int(value, 8))

    def ProtectSystem(self, value):
        assert value == "full", value
        self.mounts.protect("/usr", "/boot", "/efi", "/etc")

    def ReadWritePaths(self, value):
        self.mounts.open(*(path.lstrip("-") for path in value.split()))

    def PrivateDevices(self, _):
        self.capabilities -= {"MKNOD", "SYS_RAWIO"}
        self.refuse_group("@raw-io")
        self.mounts.private_devices()

    def PrivateMounts(self, _):
        pass  # See Mounts.

    def ProtectKernelTunables(self, _):
        self.mounts.protect("/proc/sys", "/proc/sysrq-trigger", "/proc/fs", "/proc/irq", "/sys")

    def ProtectKernelModules(self, _):
        self.capabilities.discard("SYS_MODULE")
        self.refuse_group("@module")
        self.mounts.hide("/usr/lib/modules")

    def ProtectKernelLogs(self, _):
        self.capabilities.discard("SYSLOG")
        self.refuse(("syslog",))
        self.mounts.hide("/proc/kmsg", "/dev/kmsg")

    def ProtectControlGroups(self, _):
        self.mounts.protect("/sys/fs/cgroup")

    def ProtectClock(self, _):
        self.capabilities -= {"SYS_TIME", "WAKE_ALARM"}
        self.refuse_group("@clock")

    def ProtectHostname(self, _):
        checked(libc.unshare(CLONE_NEWUTS), "a namespace of names")
        self.refuse(("sethostname",), ("setdomainname",))

    def RestrictNamespaces(self, _):
        flags = [1 << bit for bit in range(32) if NAMESPACES >> bit & 1]
        calls = [(name, (0, MASKED_EQUAL, bit, bit)) for name in ("clone", "unshare") for bit in flags]
        self.refuse(*calls, ("setns",))
        # Its flags are in memory, where no filter sees them: the C library takes clone.
        self.refuse(("clone3",), error=errno.ENOSYS)

    def RestrictRealtime(self, _):
        # SCHED_OTHER 0, SCHED_BATCH 3 and SCHED_IDLE 5 are allowed.
        refused = [(1, EQUAL, policy, 0) for policy in (1, 2, 4)]
        calls = [("sched_setscheduler", it) for it in (*refused, (1, GREATER, 5, 0))]
        self.refuse(*calls, ("sched_setattr",))

    def LockPersonality(self, _):
        self.refuse(("personality", (0, GREATER, 0, 0)))

    def MemoryDenyWriteExecute(self, _):
        both = PROT_WRITE | PROT_EXEC
        self.refuse(
            ("mmap", (2, MASKED_EQUAL, both, both)),
            ("mprotect", (2, MASKED_EQUAL, PROT_EXEC, PROT_EXEC)),
            ("pkey_mprotect", (2, MASKED_EQUAL, PROT_EXEC, PROT_EXEC)),
            ("shmat", (2, MASKED_EQUAL, SHM_EXEC, SHM_EXEC)),
        )

    def RestrictAddressFamilies(self, value):
        families = {FAMILIES[word] for word in value.split()}
        first, last = min(families), max(families)
        between = [number for number in range(first, last) if number not in families]
        self.refuse(
            ("socket", (0, LOWER, first, 0)),
            ("socket", (0, GREATER, last, 0)),
            *(("socket", (0, EQUAL, number, 0)) for number in between),
        )

    def SystemCallArchitectures(self, value):
        assert value == "native", value  # as filters are made

    def SystemCallErrorNumber(self, value):
        assert value == "EPERM", value  # as in enforce


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    unit, command = sys.argv[1], sys.argv[2:]
    confinement = Confinement()
    for name, values in directives(unit).items():
        confinement.apply(name, values)
    confinement.enforce()
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"under_unit: {command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


main()
