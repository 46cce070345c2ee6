#!/bin/sh
# Counts the instructions that the engine takes for an operation, with tracing and without.
#
#   tools/engine_cost.sh             READ of 4 KiB, and CREATE with CLOSE
#
# The engine runs over a store in memory, signed, with the client that asks; so system calls are not
# counted. Needs valgrind. Optimized for each crate alone (no LTO), so a little more than a release.
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# Of the functions of these names, and what they call; of the whole program without any.
instructions() { # OPERATION COUNT [NAME]...
    operation=$1 count=$2
    shift 2
    for name; do
        set -- "$@" "--toggle-collect=$name"
        shift
    done
    valgrind --tool=callgrind --callgrind-out-file="$out/calls" "$@" \
        "$out/engine_cost" "$operation" "$count" 2>&1 | sed -n 's/.*Collected : //p'
}

# What one operation takes.
of_one() { # OPERATION [NAME]...
    operation=$1
    shift
    few=$(instructions "$operation" 100 "$@")
    many=$(instructions "$operation" 2100 "$@")
    echo $(((many - few) / 2000))
}

for features in "" counters; do
    CARGO_PROFILE_RELEASE_LTO=off cargo build --quiet --release -p testkit --example engine_cost \
        --no-default-features --features "$features"
    cp "$target/release/examples/engine_cost" "$out/"
    for operation in read open; do
        engine=$(of_one "$operation" 'proto::server::Server::handle_*' 'proto::server::Server::poll_*')
        echo "$operation, tracing=${features:-none}: engine $engine, with the client $(of_one $operation)"
    done
done
