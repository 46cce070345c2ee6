#!/usr/bin/env python3
"""Runs a command, and all that it starts, where io_uring is forbidden, as it is in most containers.

    scripts/without_io_uring.py COMMAND [ARGUMENT]...

The three system calls of io_uring fail with EPERM for them, and for nobody else on the machine. It
needs no rights; only who has none can become nobody else from there on (`sudo` does not work).
"""

import ctypes
import errno
import os
import struct
import sys

# The same on every architecture: io_uring_setup, io_uring_enter, io_uring_register.
FIRST, LAST = 425, 427

# Of <linux/prctl.h>, <linux/seccomp.h> and <linux/filter.h>.
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
SECCOMP_MODE_FILTER = 2
SECCOMP_RET_ERRNO, SECCOMP_RET_ALLOW = 0x00050000, 0x7FFF0000
LOAD, JUMP_IF_GREATER_OR_EQUAL, JUMP_IF_GREATER, RETURN = 0x20, 0x35, 0x25, 0x06

# Code, how many lines to skip if it is so and if not, and a number.
FILTER = [
    (LOAD, 0, 0, 0),  # the number of the system call
    (JUMP_IF_GREATER_OR_EQUAL, 0, 2, FIRST),
    (JUMP_IF_GREATER, 1, 0, LAST),
    (RETURN, 0, 0, SECCOMP_RET_ERRNO | errno.EPERM),
    (RETURN, 0, 0, SECCOMP_RET_ALLOW),
]


class Program(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = [("length", ctypes.c_ushort), ("lines", ctypes.c_char_p)]


def forbid():
    libc = ctypes.CDLL(None, use_errno=True)

    def prctl(option, *arguments):
        return libc.prctl(option, *map(ctypes.c_ulong, arguments)) == 0

    lines = b"".join(struct.pack("=HBBI", *line) for line in FILTER)
    program = Program(len(FILTER), lines)
    install = (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(program), 0, 0)
    if prctl(*install):
        return
    # Who is not privileged has to promise never to be.
    if not prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or not prctl(*install):
        reason = os.strerror(ctypes.get_errno())
        sys.exit(f"without_io_uring: the kernel takes no filter of system calls: {reason}")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    forbid()
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        print(f"without_io_uring: {sys.argv[1]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


main()
