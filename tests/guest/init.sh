#!/bin/bash
# The first process of the guest: prepares it, runs /job/script, and powers off.
# Anywhere else this would hide folders of the machine and power it off.
[ $$ -eq 1 ] || { echo 'this is the first process of a guest' >&2; exit 1; }
export PATH=/usr/sbin:/usr/bin HOME=/root LANG=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
for folder in /dev/shm /tmp /run /mnt /root; do
    mount -t tmpfs -o size=80%,mode=1777 tmpfs $folder
done
ln -sf /proc/self/fd /dev/fd 2>/dev/null
mount -t hostfs -o hostfs=/job none /job 2>/dev/null || mount -t hostfs -o /job none /job
ip link set lo up
link=0
for device in $(ls /sys/class/net | grep -E '^(vec|eth)'); do
    ip addr add "10.99.$link.2/24" dev "$device"
    ip link set "$device" up
    link=$((link + 1))
done
modprobe cifs
set -a
. /job/env
set +a
cd /root
bash /job/script </dev/null >/job/stdout 2>/job/stderr
code=$?
for mount in $(awk '$3 == "cifs" { print $2 }' /proc/mounts | tac); do
    timeout 20 umount "$mount" || umount -l "$mount"
done
dmesg >/job/dmesg
echo $code >/job/code
sync
echo o >/proc/sysrq-trigger
sleep 10
