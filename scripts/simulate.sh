#!/usr/bin/env bash
# Sends random requests to the engine, then simulates servers with several workers and clients, one
# seed after the other, until one breaks a promise or somebody stops it. With SEED only that one.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

need_to_build
if [ -z "${SEED:-}" ]; then
    say 'sending random requests to the engine'
    FROM=${FROM:-$EPOCHSECONDS} SEEDS=2000 cargo test --quiet --locked -p proto --test random_requests
fi
say 'building the simulation'
cargo build --release --locked -p testkit --example simulate
say 'simulating; stop it with Ctrl-C'
exec cargo run --quiet --release --locked -p testkit --example simulate
