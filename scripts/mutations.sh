#!/usr/bin/env bash
# Shows that tests would notice a server that does it wrong: those of failing channels, and the
# attacker's list, from whose server one layer after the other is taken. They pass with the server as
# it is, and fail with each of the mistakes of crates/mistake/src/lib.rs.
#
#   TIMES=3 scripts/mutations.sh    each mistake so often
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

need_to_test
[ "$(id -u)" -eq 0 ] || fail 'this needs root, for network namespaces'
unset CHORO_BIN

# A mistake, and the tests that have to notice it. Open memory is none: Landlock keeps a worker from
# the memory of others as well.
MISTAKES=(
    'ReplaysUndetected channel_faults answers_that_are_lost'
    'BreaksSentOnce channel_faults dropped_packets'
    'PassesUnasked channels unresponsive_worker'
    'CallsUnfiltered attacker each_attack'
    'CapabilitiesKept attacker each_attack'
    'PathsUnrestricted attacker each_attack'
    'RingUnrestricted attacker each_attack'
    'SendersUnverified attacker each_attack'
    'CommandsUnverified attacker each_attack'
    'SessionsLent attacker each_attack'
)

run() {
    CHORO_MISTAKE=$1 cargo test --locked --quiet -p choro --features mutations --test "$2" -- "$3" 2>&1
}

say 'building'
cargo test --locked --quiet -p choro --features mutations --no-run \
    --test attacker --test channels --test channel_faults
for ((time = 1; time <= ${TIMES:-1}; time++)); do
    for line in "${MISTAKES[@]}"; do
        read -r mistake program name <<<"$line"
        if ! output=$(run none "$program" "$name"); then
            printf '%s\n' "$output" >&2
            fail "$program $name fails without any mistake"
        fi
        if output=$(run "$mistake" "$program" "$name"); then
            fail "$mistake was not noticed by $program $name"
        fi
        grep -q 'test result: FAILED' <<<"$output" || fail "$mistake: $output"
        say "$time: $mistake was noticed: $(grep -m 1 -A 1 'panicked at' <<<"$output" | tail -n 1)"
    done
done
say 'every mistake was noticed'
