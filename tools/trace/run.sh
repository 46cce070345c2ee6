#!/bin/sh
# Runs one of the scripts beside it: run.sh SCRIPT PID [PROGRAM]
#
# bpftrace wants the path of the program in the name of each probe, so it is put in here. The scripts
# are plain bpftrace otherwise. Needs root.
set -eu
if [ $# -lt 2 ]; then
    echo "usage: $0 SCRIPT PID [PROGRAM]" >&2
    exit 2
fi
script=$(dirname "$0")/$(basename "$1" .bt).bt
if [ ! -r "$script" ]; then
    echo "$0: there is no script $script" >&2
    exit 2
fi
pid=$2
program=${3:-$(readlink "/proc/$pid/exe" || true)}
if [ -z "$program" ]; then
    echo "$0: there is no process $pid, or you may not look at it" >&2
    exit 1
fi
command -v bpftrace >/dev/null || { echo "$0: bpftrace is not installed" >&2; exit 1; }
text=$(sed -e "s|CHORO|$program|g" -e "s|pid == PID|pid == $pid|g" "$script")
# It ends with the process, too.
exec bpftrace -p "$pid" -e "$text"
