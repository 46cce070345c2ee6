#!/bin/bash
# Runs in the guest: copies to and from a share that has 100 KiB/s. The client asks after its server
# each second, and makes its connection anew if that is silent for three: the server must answer
# while all that it reads and writes waits.
#
# Environment: PORT, SHARE, ACCOUNT, PASSWORD, KIB: the length of the file. Ends with the first thing
# that goes wrong.
set -euo pipefail
M=/mnt/share
mkdir -p $M
head -c "${KIB}K" /dev/urandom >/tmp/source

fail() {
    printf 'failed\t%s\n' "$*"
    cat /proc/fs/cifs/DebugData >&2
    exit 1
}

mount -t cifs "//10.99.0.1/$SHARE" $M \
    -o "port=$PORT,username=$ACCOUNT,password=$PASSWORD,vers=3.1.1,echo_interval=1" || fail "mounting"
mkdir $M/copied
dd if=/tmp/source of=$M/copied/file bs=256K conv=fsync status=none || fail "writing"
# Names and attributes do not wait for bytes.
(timeout $((KIB / 50 + 120)) dd if=$M/copied/file bs=256K iflag=direct status=none | cmp - /tmp/source) &
reading=$!
for number in $(seq 20); do
    mkdir $M/directory$number && rmdir $M/directory$number || fail "directory $number"
done
wait $reading || fail "reading"
awk '/share reconnects/ { printf "reconnects\t%d\n", $1 + $3 }' /proc/fs/cifs/Stats
sha256sum /tmp/source | sed 's| .*|  copied/file|' >/job/copied.sha256
umount $M
