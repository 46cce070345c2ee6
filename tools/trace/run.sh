#!/bin/sh
# Runs one of the scripts beside it: run.sh SCRIPT PIDS [PROGRAM]
#
# PIDS is the pid of a worker, several with commas, or `all`: those that run now.
# bpftrace wants the path of the program in the name of each probe, so it is put in here, and so are
# the pids. The scripts are plain bpftrace otherwise. Needs root.
set -eu
if [ $# -lt 2 ]; then
    echo "usage: $0 SCRIPT PID[,PID...]|all [PROGRAM]" >&2
    exit 2
fi
script=$(dirname "$0")/$(basename "$1" .bt).bt
if [ ! -r "$script" ]; then
    echo "$0: there is no script $script" >&2
    exit 2
fi
program=${3:-}
pids=
if [ "$2" = all ]; then
    program=${program:-$(command -v choro || echo /usr/sbin/choro)}
    program=$(readlink -f "$program")
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/exe" || true)" = "$program" ] && pids="$pids ${process#/proc/}"
    done
else
    pids=$(echo "$2" | tr ',' ' ')
fi
count=0 condition='' list=''
for pid in $pids; do
    program=${program:-$(readlink "/proc/$pid/exe" || true)}
    [ -d "/proc/$pid" ] || { echo "$0: there is no process $pid" >&2; exit 1; }
    condition="$condition${condition:+ || }pid == $pid"
    list="$list @pid[$count] = $pid;"
    count=$((count + 1))
done
if [ "$count" -eq 0 ] || [ -z "$program" ]; then
    echo "$0: there is no process $2, or you may not look at it" >&2
    exit 1
fi
[ "$count" -le 16 ] || { echo "$0: more than 16 processes are too many for bpftrace" >&2; exit 1; }
command -v bpftrace >/dev/null || { echo "$0: bpftrace is not installed" >&2; exit 1; }
text=$(sed -e "s|CHORO|$program|g" -e "s/pid == PID/$condition/g" \
    -e "s/^    PIDS\$/   $list/" -e "s/COUNT/$count/g" "$script")
# The tracepoints of system calls are in tracefs, which not every machine mounts. This process mounts
# it for itself alone then.
if [ ! -d /sys/kernel/tracing/events ] && [ ! -d /sys/kernel/debug/tracing/events ] &&
    unshare --mount mount -t tracefs none /sys/kernel/tracing 2>/dev/null; then
    set -- unshare --mount sh -c 'mount -t tracefs none /sys/kernel/tracing && exec "$@"' sh bpftrace
else
    set -- bpftrace
fi
# It ends with the process, too, if there is one.
[ "$count" -eq 1 ] && exec "$@" -p "$pid" -e "$text"
exec "$@" -e "$text"
