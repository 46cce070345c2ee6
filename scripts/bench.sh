#!/usr/bin/env bash
# Measures Choro and Debian's Samba in turn in one run and prints a table of ratios. Arguments go to
# the load generator; `--help` lists them, `--truth` checks it against other people's clients.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

need_to_build
need_packages samba=smbd samba-common-bin=testparm linux-perf=perf iproute2=ip util-linux=unshare
case " $* " in
    *' --kernel-client '*) need_packages debootstrap e2fsprogs=mkfs.ext4 ;;
    *' --truth '*) need_packages smbclient samba-testsuite=smbtorture ;;
esac
[ "$(id -u)" -eq 0 ] || fail "make bench has to be run as root: Samba's smbd runs for nobody else"
say 'building releases of the server and the load generator (a few minutes the first time)'
cargo build --release --locked -p choro -p bench
exec cargo run --quiet --release --locked -p bench -- "$@"
