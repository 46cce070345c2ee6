#!/usr/bin/env bash
# Simulates servers with several workers and clients, one seed after the other, until one breaks a
# promise or somebody stops it. With SEED only that one.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

need_to_build
say 'building the simulation'
cargo build --release --locked -p testkit --example simulate
say 'simulating; stop it with Ctrl-C'
exec cargo run --quiet --release --locked -p testkit --example simulate
