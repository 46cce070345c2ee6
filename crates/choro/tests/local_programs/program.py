"""A program of the server's machine that locks and opens one file, as its input says.

Usage: program.py FILE; each line of the input is a command, answered by a line:

    posix KIND START LENGTH    a lock of the process (lockf); KIND: shared, exclusive, none
    ofd KIND START LENGTH      a lock of the open file description
    flock KIND                 a lock of the whole file
    open                       opens the file once more, for writing, and closes it
    write START TEXT           writes

The answers are "yes", or "no" if a lock of somebody else conflicts.
"""

import fcntl
import os
import struct
import sys

KINDS = {"shared": fcntl.LOCK_SH, "exclusive": fcntl.LOCK_EX, "none": fcntl.LOCK_UN}
TYPES = {"shared": fcntl.F_RDLCK, "exclusive": fcntl.F_WRLCK, "none": fcntl.F_UNLCK}
F_OFD_SETLK = 37

path = sys.argv[1]
file = os.open(path, os.O_RDWR)
print("ready", flush=True)
for line in sys.stdin:
    command, *words = line.split()
    try:
        if command == "posix":
            start, length = int(words[1]), int(words[2])
            flag = 0 if words[0] == "none" else fcntl.LOCK_NB
            fcntl.lockf(file, KINDS[words[0]] | flag, length, start)
        elif command == "ofd":
            start, length = int(words[1]), int(words[2])
            lock = struct.pack("hhqqi4x", TYPES[words[0]], os.SEEK_SET, start, length, 0)
            fcntl.fcntl(file, F_OFD_SETLK, lock)
        elif command == "flock":
            fcntl.flock(file, KINDS[words[0]] | fcntl.LOCK_NB)
        elif command == "open":
            os.close(os.open(path, os.O_WRONLY))
        elif command == "write":
            os.pwrite(file, words[1].encode(), int(words[0]))
        print("yes", flush=True)
    except (BlockingIOError, PermissionError):
        print("no", flush=True)
