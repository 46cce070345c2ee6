#!/bin/bash
# Runs in the guest: copies a tree of small files to a share, lists it, reads it and removes it, each
# after a mount anew, while the host counts the server's system calls.
#
# Environment: PORT, SHARE, ACCOUNT, PASSWORD; FILES in each of FOLDERS.
# It makes the file /job/begin-NAME, waits for /job/counting-NAME, works, makes /job/end-NAME, and
# waits for /job/counted-NAME. Ends with the first thing that goes wrong.
set -euo pipefail
M=/mnt/share
mkdir -p $M
for ((folder = 0; folder < FOLDERS; folder++)); do
    mkdir -p /tmp/source/directory$folder
    for ((file = 0; file < FILES; file++)); do
        head -c 4096 /dev/zero >/tmp/source/directory$folder/file$file
    done
done

wait_for() {
    for ((tick = 0; tick < 600; tick++)); do
        [ ! -e "/job/$1" ] || return 0
        sleep 0.1
    done
    echo "the host never made $1" >&2
    exit 1
}

counted() {
    local name=$1
    shift
    mount -t cifs "//10.99.0.1/$SHARE" $M \
        -o "port=$PORT,username=$ACCOUNT,password=$PASSWORD,vers=3.1.1"
    touch "/job/begin-$name"
    wait_for "counting-$name"
    "$@" >/tmp/said
    # The client closes files late, some of them only now.
    umount $M
    touch "/job/end-$name"
    wait_for "counted-$name"
}

counted cp cp -r /tmp/source $M/copied
counted ls ls -lR $M/copied
counted cat bash -c "find $M/copied -type f -print0 | xargs -0 cat | cksum"
counted rm rm -r $M/copied
