#!/bin/bash
# Runs in the guest: uses shares of several servers on one network, as a user or a guest.
#
# /job/shares has a line for each: address, share, account (`-` for a guest), `rw` or `ro`, separated
# by tabs. Environment: PASSWORD.
# Prints "ADDRESS<tab>SHARE<tab>ok", or "ADDRESS<tab>SHARE<tab>failed<tab>last words".
M=/mnt/share
mkdir -p $M
device=$(ls /sys/class/net | grep -E '^(vec|eth)' | head -n 1)
ip addr add 192.168.0.2/24 dev "$device"
head -c 300000 /dev/urandom >/tmp/source

mount_share() {
    local who=username=$account,password=$PASSWORD
    [ "$account" != - ] || who=guest,sec=none
    mount -t cifs "//$address/$share" $M -o "$who,vers=3.1.1"
}

# From the server, not from the client's cache.
again() {
    umount $M && mount_share
}

works() {
    mount_share || return
    ls -l $M || return
    if [ "$access" = ro ]; then
        ! touch $M/refused || return
        return 0
    fi
    mkdir $M/folder && cp /tmp/source $M/folder/file && again || return
    cmp /tmp/source $M/folder/file || return
    [ "$(ls $M/folder)" = file ] || return
    mv $M/folder/file "$M/folder/other name" && again || return
    cmp /tmp/source "$M/folder/other name" || return
    [ "$(ls $M/folder)" = 'other name' ] || return
    rm "$M/folder/other name" && rmdir $M/folder && again || return
    [ ! -e $M/folder ]
}

while IFS=$'\t' read -r address share account access; do
    if words=$(works 2>&1 </dev/null); then
        printf '%s\t%s\tok\n' "$address" "$share"
    else
        printf '%s\t%s\tfailed\t%s %s\n' "$address" "$share" "$(tail -n 3 <<<"$words" | tr '\n\t' '  ')" \
            "$(dmesg | grep -i cifs | tail -n 3 | tr '\n\t' '  ')"
    fi
    umount $M 2>/dev/null
done </job/shares
