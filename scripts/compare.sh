#!/usr/bin/env bash
# Sends the same random requests to Choro and to Debian's Samba, over shares with random parameters,
# and lists the answers and files that differ. Those in tests/compare/explanations.tsv are known.
# Arguments go to the program; `--help` lists them, `--seed 7` makes other shares and requests.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

need_to_build
need_packages samba=smbd samba-common-bin=testparm
[ "$(id -u)" -eq 0 ] || fail "make compare has to be run as root: Samba's smbd runs for nobody else"
say 'building releases of the server and the comparison (a few minutes the first time)'
cargo build --release --locked -p choro -p bench
exec cargo run --quiet --release --locked -p bench --bin choro-compare -- "$@"
