"""Logs on with hostile tokens, and prints the status of each SESSION_SETUP.

`pac`: a ticket as it is; one whose PAC says another user, under the service's own key, as somebody
who has no key of the controller would forge it; and one whose PAC has a changed signature.
`valid SERVICE@HOST`: a ticket for that service as it is, and a second try with another.
`garbage`: tokens that are cut, damaged, random, and as long as a token can be.
"""

import ctypes
import random
import re
import struct
import sys

from replay import Connection, token

# Key usage of a ticket's encrypted part: RFC 4120 7.5.1.
TICKET = 2


class KeyBlock(ctypes.Structure):
    _fields_ = [
        ("magic", ctypes.c_int32), ("kind", ctypes.c_int32), ("length", ctypes.c_uint),
        ("contents", ctypes.c_void_p),
    ]


class Data(ctypes.Structure):
    _fields_ = [("magic", ctypes.c_int32), ("length", ctypes.c_uint), ("data", ctypes.c_void_p)]


class EncData(ctypes.Structure):
    _fields_ = [
        ("magic", ctypes.c_int32), ("kind", ctypes.c_int32), ("version", ctypes.c_uint32),
        ("ciphertext", Data),
    ]


def aes_keys(path):
    """The keys of AES-256 in a keytab."""
    content = open(path, "rb").read()
    at = 2
    while at + 4 <= len(content):
        (length,) = struct.unpack_from(">i", content, at)
        entry = content[at + 4:at + 4 + abs(length)]
        at += 4 + abs(length)
        found = re.search(rb"\x00\x12\x00\x20(.{32})", entry, re.DOTALL)
        if length > 0 and found:
            yield found.group(1)


class Cipher:
    def __init__(self, key):
        self.library = ctypes.CDLL("libkrb5.so.3")
        self.context = ctypes.c_void_p()
        self.library.krb5_init_context(ctypes.byref(self.context))
        self.bytes = ctypes.create_string_buffer(key, len(key))
        self.key = KeyBlock(0, 18, len(key), ctypes.addressof(self.bytes))

    def run(self, function, into, source):
        source_bytes = ctypes.create_string_buffer(source, len(source))
        target_bytes = ctypes.create_string_buffer(into)
        source_data = Data(0, len(source), ctypes.addressof(source_bytes))
        target_data = Data(0, into, ctypes.addressof(target_bytes))
        if function is self.library.krb5_c_decrypt:
            source_data = EncData(0, 18, 0, source_data)
            target = target_data
        else:
            target = EncData(0, 18, 0, target_data)
        failed = function(
            self.context, ctypes.byref(self.key), TICKET, None, ctypes.byref(source_data),
            ctypes.byref(target),
        )
        length = target.length if isinstance(target, Data) else target.ciphertext.length
        return None if failed else target_bytes.raw[:length]


def changed(change):
    """A fresh token whose ticket's inside is changed and encrypted anew."""
    whole = token()
    found = re.search(rb"\xa2\x82..\x04\x82(..)", whole, re.DOTALL)
    (length,) = struct.unpack(">H", found.group(1))
    at = found.end()
    for key in aes_keys("/etc/krb5.keytab"):
        cipher = Cipher(key)
        inside = cipher.run(cipher.library.krb5_c_decrypt, length, whole[at:at + length])
        if inside is None:
            continue
        inside = inside[:length - 28]
        other = change(inside)
        assert len(other) == len(inside) and other != inside
        ticket = cipher.run(cipher.library.krb5_c_encrypt, length, other)
        return whole[:at] + ticket + whole[at + length:]
    raise KeyError("no key of the keytab fits")


def another_user(inside):
    """The name in the PAC, in UTF-16; the one outside of the PAC is in ASCII."""
    name, other = ("alice".encode("utf-16-le"), "clara".encode("utf-16-le"))
    assert name in inside
    return inside.replace(name, other)


def another_signature(inside):
    """Buffer 6 of the PAC has the signature by the service's key: [MS-PAC] 2.8."""
    begin = pac_begin(inside)
    count = struct.unpack_from("<I", inside, begin)[0]
    for index in range(count):
        kind, size, offset = struct.unpack_from("<IIQ", inside, begin + 8 + 16 * index)
        if kind == 6:
            at = begin + offset + size - 1
            return inside[:at] + bytes([inside[at] ^ 1]) + inside[at + 1:]
    raise KeyError("the PAC has no signature")


def pac_begin(inside):
    """PACTYPE begins with the number of buffers and version 0, and the first buffer's kind."""
    for at in range(len(inside) - 24):
        count, version = struct.unpack_from("<II", inside, at)
        if 4 <= count <= 16 and version == 0:
            kinds = [struct.unpack_from("<I", inside, at + 8 + 16 * it)[0]
                     for it in range(count) if at + 12 + 16 * it <= len(inside)]
            if 1 in kinds and 6 in kinds and 7 in kinds:
                return at
    raise KeyError("the ticket has no PAC")


def pac():
    Connection().session_setup(token())
    Connection().session_setup(changed(another_user))
    Connection().session_setup(changed(another_signature))


def valid():
    connection = Connection()
    session_id = connection.session_setup(token(sys.argv[2]))
    connection.session_setup(token(sys.argv[2]), session_id)


def garbage():
    fixed = random.Random(7)
    good = token()
    tokens = [good[:len(good) * part // 24] for part in range(24)]
    for _ in range(24):
        damaged = bytearray(token())
        for _ in range(8):
            damaged[fixed.randrange(len(damaged) // 2)] = fixed.randrange(256)
        tokens.append(bytes(damaged))
    head = good[:17]
    tokens += [head + fixed.randbytes(size) for size in (1, 100, 4000, 65000)]
    # Lengths that say more than there is, and as much as there can be.
    tokens += [b"\x60\x84\xff\xff\xff\xff" + good[4:], good + bytes(60000)]
    long = b"\x6e\x83\x00\xfd\xe8" + b"\x30" * 65000
    tokens.append(head[:2] + struct.pack(">H", 65015 + 4) + head[4:] + long)
    for bad in tokens:
        try:
            Connection().session_setup(bad[:65535])
        except EOFError:
            print("closed")


if __name__ == "__main__":
    {"pac": pac, "valid": valid, "garbage": garbage}[sys.argv[1]]()
