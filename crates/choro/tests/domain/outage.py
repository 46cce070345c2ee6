"""What users with tickets notice while the controller is cut off.

outage.py SECONDS BEGIN END PAUSE_MS, beside replay.py in the lab's namespace of the server: reads a
file again and again over a session that was set up before, and logs on with tickets that are at
hand; prints how long both took, without and with the controller. `ip -n lab-dc link set vmb down`
cuts the controller off BEGIN seconds after the start, `up` connects it again at END.

Reads are in a process of their own: threads would wait for each other's interpreter. Without a
pause, both wait for the processors that they share with the server.
"""

import multiprocessing
import statistics
import struct
import sys
import time

import gssapi
import replay

# GSS_C_INQ_SSPI_SESSION_KEY.
SESSION_KEY = gssapi.OID.from_int_seq("1.2.840.113554.1.2.2.5.5")
SECONDS, BEGIN, END, PAUSE_MS = map(float, sys.argv[1:])
LENGTH = 65536


class Connection(replay.Connection):
    """With a session, a tree connect and a file."""

    def request(self, command, body):
        answer = self.exchange(command, body, self.session_id)
        (status,) = struct.unpack_from("<I", answer, 8)
        if status:
            raise OSError("command %d: %x" % (command, status))
        return answer

    def log_on(self):
        name = gssapi.Name("cifs@" + replay.SERVER, gssapi.NameType.hostbased_service)
        context = gssapi.SecurityContext(
            name=name, mech=gssapi.MechType.kerberos, usage="initiate",
            flags=gssapi.RequirementFlag.integrity,
        )
        token = context.step()
        body = struct.pack("<HBBIIHHQ", 25, 0, 1, 0, 0, 64 + 24, len(token), 0) + token
        status, self.session_id = self.call(1, body)
        if status:
            raise OSError("no logon: %x" % status)
        self.key = gssapi.raw.inquire_sec_context_by_oid(context, SESSION_KEY)[0][:16]

    def open(self):
        path = ("\\\\%s\\data" % replay.SERVER).encode("utf-16-le")
        body = struct.pack("<HHHH", 9, 0, 64 + 8, len(path)) + path
        self.tree_id = struct.unpack_from("<I", self.request(3, body), 36)[0]
        name = "outage".encode("utf-16-le")
        body = struct.pack(
            "<HBBIQQIIIIIHHII", 57, 0, 0, 2, 0, 0, 0x0012019F, 0x80, 7, 3, 0x40, 64 + 56,
            len(name), 0, 0,
        ) + name
        self.file_id = self.request(5, body)[64 + 64:64 + 80]
        body = struct.pack("<HHIQ16sIIHHI", 49, 64 + 48, LENGTH, 0, self.file_id, 0, 0, 0, 0, 0)
        self.request(9, body + bytes(LENGTH))

    def read(self):
        body = struct.pack("<HBBIQ16sIIIHH", 49, 0, 0, LENGTH, 0, self.file_id, 0, 0, 0, 0, 0)
        self.request(8, body + b"\0")


def measure(act, started):
    """Acts until the end; returns when each one began, and how long it took."""
    times = []
    while (at := time.monotonic() - started) < SECONDS:
        begun = time.monotonic()
        act()
        times.append((at, time.monotonic() - begun))
        time.sleep(PAUSE_MS / 1000)
    return times


def log_on():
    connection = Connection()
    connection.log_on()
    connection.socket.close()


def read_all(pipe):
    reader = Connection()
    reader.log_on()
    reader.open()
    pipe.send("ready")
    pipe.send(measure(reader.read, pipe.recv()))


def main():
    pipe, end_of_reader = multiprocessing.Pipe()
    reader = multiprocessing.Process(target=read_all, args=(end_of_reader,))
    reader.start()
    pipe.recv()
    started = time.monotonic()
    pipe.send(started)
    logons = measure(log_on, started)
    reads = pipe.recv()
    reader.join()
    for name, times in (("read 64 KiB", reads), ("logon with a ticket", logons)):
        for when, is_in in (("with", False), ("without", True)):
            found = sorted(took * 1000 for at, took in times if (BEGIN <= at < END) == is_in)
            print("%s, %s the controller: %d, median %.2f ms, longest %s ms"
                  % (name, when, len(found), statistics.median(found),
                     ", ".join("%.1f" % took for took in found[:-4:-1])))


main()
