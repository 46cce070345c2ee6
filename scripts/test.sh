#!/usr/bin/env bash
# Runs every test: first those of the crates, which end with the black-box suites of the server,
# then a few seconds of each fuzz target.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

FUZZ_SMOKE_SECONDS=5

need_to_test
say '1/3 building the server and the tests (a few minutes the first time)'
cargo test --workspace --locked --no-run
say '2/3 tests'
cargo test --workspace --locked --no-fail-fast
if [ -d fuzz ]; then
    say "3/3 fuzz targets, $FUZZ_SMOKE_SECONDS s each"
    scripts/fuzz.sh "$FUZZ_SMOKE_SECONDS"
else
    say '3/3 no fuzz targets'
fi
say 'all tests passed'
