#!/usr/bin/env bash
# run.sh SCRIPT SECONDS JOB   boots the guest, runs SCRIPT in it as root, and exits with its code.
#
# JOB is a folder that the guest sees as /job: it may hold the file `env`, and gets `stdout`,
# `stderr`, `dmesg`, `console` and whatever SCRIPT puts there. The guest's network are the tap devices
# `guest0`, `guest1` … of this network namespace, as many as GUEST_LINKS says (1); the address of
# each is 10.99.NUMBER.1, and the guest's at its other end 10.99.NUMBER.2.
# Codes: 124 when the time is up, 125 when the guest ended without one.
set -euo pipefail
script=$1 seconds=$2 job=$3
: "${GUEST_DIR:=${XDG_CACHE_HOME:-$HOME/.cache}/choro-guest}"
export GUEST_DIR job

links=()
for ((link = 0; link < ${GUEST_LINKS:-1}; link++)); do
    links+=("vec$link:transport=tap,ifname=guest$link,depth=128,gro=1")
done

cp "$script" "$job/script"
touch "$job/env"
status=0
# In namespaces of its own: the kernel runs in the guest's tree, and its helpers die with it.
# shellcheck disable=SC2016
timeout -s KILL "$seconds" unshare -m -p -f --kill-child bash -c '
    set -e
    mount --make-rprivate /
    mount --bind "$GUEST_DIR/root" /mnt
    mount --rbind /dev /mnt/dev
    mount -t proc proc /mnt/proc
    mount --bind "$GUEST_DIR" /mnt/guest
    mount --bind "$job" /mnt/job
    exec chroot /mnt env -i HOME=/root PATH=/usr/bin:/bin TMPDIR=/dev/shm "$@"' uml \
    /usr/bin/linux.uml mem=1024M ubd0r=/guest/root.ext4 root=/dev/ubda ro \
    init=/usr/sbin/choro-init con=null con0=fd:0,fd:1 seccomp=auto quiet panic=-1 \
    "${links[@]}" \
    </dev/null >"$job/console" 2>&1 &
guest=$!
while kill -0 $guest 2>/dev/null; do
    # Some kernels hang then instead of ending.
    ! grep -q 'Kernel panic' "$job/console" || pkill -KILL -P $guest || true
    sleep 0.2
done
wait $guest || status=$?
[ -s "$job/code" ] && exit "$(cat "$job/code")"
if [ "$status" -eq 137 ] && ! grep -q 'Kernel panic' "$job/console"; then
    printf 'the guest was still running after %s s\n' "$seconds" >&2
    exit 124
fi
printf 'the guest ended without an exit code (%s); its last words:\n' "$status" >&2
tail -n 20 "$job/console" >&2
exit 125
