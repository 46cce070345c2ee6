#!/bin/bash
# Runs in the guest: copies to and from a share that is mounted over two links, while the host takes
# the second of them down. Not the first: while the client makes its first connection anew, it refuses
# to open files (EAGAIN), whatever others it has.
#
# Environment: PORT, SHARE, ACCOUNT, PASSWORD. The host takes the link down when there is /job/lose1,
# and makes /job/lost1 when that is done; and up again with /job/heal1 and /job/healed1. Ends with the
# first thing that goes wrong.
set -euo pipefail
M=/mnt/share
# The client asks after its server each second, and gives a connection up that is silent for three.
options="vers=3.1.1,multichannel,max_channels=2,echo_interval=1,hard"
# What is copied before the link is lost, and after it, in files of 4 MiB.
BEFORE=8 AFTER=16
mkdir -p $M /tmp/source
for number in $(seq 4); do
    head -c 4M /dev/urandom >/tmp/source/$number
done

fail() {
    printf 'failed\t%s\n' "$*"
    cat /proc/fs/cifs/DebugData >&2
    exit 1
}

channels() {
    # The first one is that of the session itself, and not numbered.
    echo $((1 + $(grep -c '^[[:space:]]*Channel: ' /proc/fs/cifs/DebugData)))
}

# One file to the share and back.
copy() {
    local number=$1 source=/tmp/source/$(($1 % 4 + 1))
    timeout 120 dd if="$source" of="$D/$number" bs=1M conv=fsync status=none || fail "writing $number"
    # From the server, not from the client's cache.
    timeout 120 dd if="$D/$number" bs=1M iflag=direct status=none | cmp - "$source" ||
        fail "reading $number"
    sha256sum "$source" | sed "s| .*|  copied/$number|" >>/job/copied.sha256
}

: >/job/copied.sha256
mount -t cifs "//10.99.0.1/$SHARE" $M \
    -o "port=$PORT,username=$ACCOUNT,password=$PASSWORD,$options" || fail "mounting"
# Further channels are made in the background.
for _ in $(seq 100); do
    [ "$(channels)" -lt 2 ] || break
    sleep 0.1
done
printf 'channels\t%s\n' "$(channels)"
D=$M/copied
mkdir "$D"
number=0
while [ $number -lt $BEFORE ]; do
    copy $number
    number=$((number + 1))
done
# The link goes while a file is being copied, and the host says so when it is gone.
touch /job/lose1
until [ -e /job/lost1 ]; do
    copy $number
    number=$((number + 1))
done
last=$((number + AFTER))
while [ $number -lt $last ]; do
    copy $number
    number=$((number + 1))
done
printf 'lost\t%s files\n' $number
touch /job/heal1
until [ -e /job/healed1 ]; do sleep 0.05; done
umount $M
