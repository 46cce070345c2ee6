#!/bin/bash
# Runs in the guest: copies a tree of small files to a share, lists it, reads it and removes it, and
# says how many seconds each took.
#
# Environment: PORT, SHARE, ACCOUNT, PASSWORD; FILES of BYTES each, FILES_PER_DIRECTORY (a part of
# them) in each folder.
# Ends with the first thing that goes wrong.
set -euo pipefail
M=/mnt/share
mkdir -p $M /tmp/source
mkdir /tmp/source/directory0
for ((file = 0; file < FILES_PER_DIRECTORY; file++)); do
    head -c "$BYTES" /dev/zero >/tmp/source/directory0/file$file
done
for ((folder = 1; folder < FILES / FILES_PER_DIRECTORY; folder++)); do
    cp -r /tmp/source/directory0 /tmp/source/directory$folder
done

# As at first: nothing of the share is known.
mount_anew() {
    ! mountpoint -q $M || umount $M
    mount -t cifs "//10.99.0.1/$SHARE" $M \
        -o "port=$PORT,username=$ACCOUNT,password=$PASSWORD,vers=3.1.1"
}

timed() {
    local name=$1 begin=$EPOCHREALTIME end
    shift
    "$@" >/tmp/said
    end=$EPOCHREALTIME
    printf '%s\t%d.%06d\n' "$name" \
        $(((${end/./} - ${begin/./}) / 1000000)) $(((${end/./} - ${begin/./}) % 1000000))
}

mount_anew
timed copy cp -r /tmp/source $M/copied
mount_anew
timed list ls -lR $M/copied
mount_anew
timed read bash -c "find $M/copied -type f -print0 | xargs -0 cat | cksum"
[ "$(cat /tmp/said)" = "$(head -c $((FILES * BYTES)) /dev/zero | cksum)" ]
mount_anew
timed remove rm -r $M/copied
umount $M
