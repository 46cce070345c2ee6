"""Kerberos session setups per second of two servers on one member, in turns.

speed.py PORT PORT: each has a line with its rate and its failures, seven times. Each setup has a
connection and a ticket of its own; tickets are made before the clock runs.
"""

import socket
import struct
import sys
import time

import replay

SETUPS = 60
ROUNDS = 7


class Connection(replay.Connection):
    def __init__(self, port):
        self.socket = socket.create_connection((replay.SERVER, port))
        self.message_id = 0
        guid = bytes(range(16))
        self.call(0, struct.pack("<HHHHI16sQH", 36, 1, 1, 0, 0, guid, 0, 0x0210))


def rate(port):
    tokens = [replay.token() for _ in range(SETUPS)]
    begun, failures = time.monotonic(), 0
    for token in tokens:
        connection = Connection(port)
        body = struct.pack("<HBBIIHHQ", 25, 0, 1, 0, 0, 64 + 24, len(token), 0) + token
        status, _ = connection.call(1, body)
        failures += status != 0
        connection.socket.close()
    return SETUPS / (time.monotonic() - begun), failures


for _ in range(ROUNDS):
    for port in map(int, sys.argv[1:]):
        setups, failures = rate(port)
        print(port, "%.1f" % setups, failures, flush=True)
