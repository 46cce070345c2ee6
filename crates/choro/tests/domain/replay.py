"""Logs on with raw tokens of Kerberos, and prints the status of each SESSION_SETUP.

A token; the same token in another session; once more there, as the second try; a token with its
last byte changed, in a session of its own; and once more there.
"""

import hashlib
import hmac
import socket
import struct

import gssapi

SERVER = "mb.ad.lab.test"
SIGNED = 8
PENDING = 0x103


def token(service="cifs@" + SERVER):
    name = gssapi.Name(service, gssapi.NameType.hostbased_service)
    kerberos = gssapi.MechType.kerberos
    context = gssapi.SecurityContext(name=name, mech=kerberos, usage="initiate")
    return context.step()


class Connection:
    key = None
    tree_id = 0

    def __init__(self):
        self.socket = socket.create_connection((SERVER, 445))
        self.message_id = 0
        # Dialect 2.1, which needs no contexts.
        guid = bytes(range(16))
        self.call(0, struct.pack("<HHHHI16sQH", 36, 1, 1, 0, 0, guid, 0, 0x0210))

    def call(self, command, body, session_id=0):
        answer = self.exchange(command, body, session_id)
        (status,) = struct.unpack_from("<I", answer, 8)
        (session_id,) = struct.unpack_from("<Q", answer, 40)
        return status, session_id

    def exchange(self, command, body, session_id):
        """Sends a request, signed if there is a key, and returns its last response."""
        header = struct.pack(
            "<4sHHIHHIIQIIQ16s", b"\xfeSMB", 64, 1, 0, command, 31, SIGNED if self.key else 0, 0,
            self.message_id, 0, self.tree_id, session_id, bytes(16),
        )
        self.message_id += 1
        if self.key:
            signature = hmac.new(self.key, header + body, hashlib.sha256).digest()
            header = header[:48] + signature[:16]
        message = header + body
        self.socket.sendall(struct.pack(">I", len(message)) + message)
        status = PENDING
        while status == PENDING:
            (length,) = struct.unpack(">I", self.receive(4))
            answer = self.receive(length)
            (status,) = struct.unpack_from("<I", answer, 8)
        return answer

    def receive(self, length):
        data = b""
        while len(data) < length:
            more = self.socket.recv(length - len(data))
            if not more:
                raise EOFError("the server has closed the connection")
            data += more
        return data

    def session_setup(self, token, session_id=0):
        body = struct.pack("<HBBIIHHQ", 25, 0, 1, 0, 0, 64 + 24, len(token), 0) + token
        status, session_id = self.call(1, body, session_id)
        print("%x" % status)
        return session_id


def main():
    first = token()
    Connection().session_setup(first)
    connection = Connection()
    session_id = connection.session_setup(first)
    connection.session_setup(first, session_id)
    changed = bytearray(token())
    changed[-1] ^= 1
    connection = Connection()
    session_id = connection.session_setup(bytes(changed))
    connection.session_setup(bytes(changed), session_id)


if __name__ == "__main__":
    main()
