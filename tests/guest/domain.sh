#!/bin/bash
# Runs in the guest: mounts a share of a member of a domain with a ticket and with a password, in each
# protection, writes a file and reads it back in another mount.
#
# Environment: SERVER and SHARE, ACCOUNT, DOMAIN, PASSWORD, VARIANTS (mount options, separated by
# blanks). The job has the ticket, with that for the server in it, and `krb5.conf`.
# Prints "VARIANT<tab>ok" or "VARIANT<tab>failed<tab>last words".
M=/mnt/share
mkdir -p $M
mount --bind /job/krb5.conf /etc/krb5.conf
install -m 600 /job/ticket /tmp/krb5cc_0

mount_share() {
    local options=ip=10.99.0.1,vers=3.1.1,$1
    case $1 in
        *krb5*) ;;
        *) options=$options,username=$ACCOUNT,domain=$DOMAIN,password=$PASSWORD ;;
    esac
    mount -t cifs "//$SERVER/$SHARE" $M -o "$options"
}

works() {
    local name=${1//[^a-z0-9]/_}
    mount_share "$1" || return
    echo "$1" >$M/"$name" || return
    # Another connection with a session of its own.
    umount $M && mount_share "$1" || return
    [ "$(cat $M/"$name")" = "$1" ] || return
    case $1 in
        *seal*) grep -q 'type: DISK.* encrypted' /proc/fs/cifs/DebugData ;;
        *krb5i* | *sign*) grep -q 'Dialect.* signed' /proc/fs/cifs/DebugData ;;
    esac
}

for variant in $VARIANTS; do
    if words=$(works "$variant" 2>&1); then
        printf '%s\tok\n' "$variant"
    else
        printf '%s\tfailed\t%s %s\n' "$variant" "$(tr '\n\t' '  ' <<<"$words")" \
            "$(dmesg | grep -i cifs | tail -n 3 | tr '\n\t' '  ')"
    fi
    umount $M 2>/dev/null
done
