#!/usr/bin/env bash
# Runs every test: first those of the crates, which end with the black-box suites of the server,
# then a few seconds of each fuzz target.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

FUZZ_SMOKE_SECONDS=5

need_to_test
say '1/3 building the server and the tests (some minutes the first time)'
cargo test --workspace --locked --no-run
# The suites that start the real server start a release: that is what people run, and a gigabyte
# through a debug build takes minutes.
cargo build --release --locked -p choro
CHORO_BIN=$(cargo build --release --locked -p choro --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*\/choro\)".*/\1/p' | tail -n 1)
export CHORO_BIN
say '2/3 tests'
cargo test --workspace --locked --no-fail-fast
if [ -d fuzz ]; then
    say "3/3 fuzz targets, $FUZZ_SMOKE_SECONDS s each"
    scripts/fuzz.sh "$FUZZ_SMOKE_SECONDS"
else
    say '3/3 no fuzz targets'
fi
say 'all tests passed'
