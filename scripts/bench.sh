#!/usr/bin/env bash
# Measures Choro and Debian's Samba in turn in one run and prints a table of ratios. Arguments go to
# the load generator.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

need_to_build
need_packages procps=ps samba=smbd samba-common-bin=testparm smbclient strace util-linux=taskset
say 'building releases of the server and the load generator'
cargo build --release --locked -p choro -p bench
exec cargo run --quiet --release --locked -p bench -- "$@"
