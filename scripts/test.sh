#!/usr/bin/env bash
# Runs every test: first those of the crates, which end with the black-box suites of the server,
# some of which are run without io_uring and some confined as the service is, too, then what the engine's work costs, then a few seconds of
# each fuzz target. With IO_URING=no all tests of the crates where io_uring is forbidden, and no more:
# the rest has no use for it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

FUZZ_SMOKE_SECONDS=5
# Suites that are run once more without io_uring, in a minute or so.
TOO_WITHOUT_IO_URING=(
    --test attacker --test channels --test contract --test durable --test receivefile
    --test sendfile --test smbclient
)

# Suites that are run once more with a server that is confined as its unit file says: those with Debian's
# clients, and those of what takes privileges.
TOO_UNDER_UNIT=(
    --test dfs --test identities --test logons --test notify --test share_names --test short_names
    --test smbclient --test snapshots
)

need_to_test
need_room 6
features=$(choro_features)
launcher=$(io_uring_launcher)
say '1/4 building the server and the tests (some minutes the first time)'
# shellcheck disable=SC2086
cargo test --workspace --locked --no-run $features
# The suites that start the real server start a release: that is what people run, and a gigabyte
# through a debug build takes minutes.
build_choro
export CHORO_BIN=$choro
say '2/4 tests'
# shellcheck disable=SC2086
$launcher cargo test --workspace --locked --no-fail-fast $features
if [ -n "$launcher" ]; then
    say 'all tests passed without io_uring'
    exit
fi
say '2/4 what shows most of the server, where io_uring is forbidden'
# shellcheck disable=SC2086
scripts/without_io_uring.py \
    cargo test --workspace --locked --no-fail-fast $features "${TOO_WITHOUT_IO_URING[@]}"
say '2/4 what shows most of the server, confined as its service is'
if [ "$(id -u)" -eq 0 ]; then
    # shellcheck disable=SC2086
    CHORO_LAUNCHER="$PWD/scripts/under_unit.py $PWD/scripts/choro.service.in" \
        cargo test --workspace --locked --no-fail-fast $features "${TOO_UNDER_UNIT[@]}"
else
    say '    left out: confining takes root'
fi
# It waits most of its minutes, so what only counts or compiles runs beside it.
domain=
output=$(mktemp)
trap '[ -z "$domain" ] || kill "$domain" 2>/dev/null || true; rm -f "$output"' EXIT
if [ "$(id -u)" -eq 0 ]; then
    say '2/4 a member of a domain, with a controller in network namespaces; its lines come at its end'
    scripts/domain.sh test >"$output" 2>&1 &
    domain=$!
else
    say '2/4 a member of a domain is left out: network namespaces take root'
fi
say '3/4 instructions of the engine'
scripts/instructions.sh
if [ -d fuzz ]; then
    say "4/4 fuzz targets, $FUZZ_SMOKE_SECONDS s each"
    scripts/fuzz.sh "$FUZZ_SMOKE_SECONDS"
else
    say '4/4 no fuzz targets'
fi
if [ -n "$domain" ]; then
    say '    waiting for the member of a domain'
    passed=yes
    wait "$domain" || passed=no
    domain=
    cat "$output"
    [ "$passed" = yes ] || fail 'the tests of a member of a domain failed'
fi
say 'all tests passed'
