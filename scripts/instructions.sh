#!/usr/bin/env bash
# Counts with callgrind the instructions of the engine for each operation of a signed client, and
# compares them with those that are kept in bench/instructions.tsv: more than a tenth more is a failure.
#
#   scripts/instructions.sh           compare
#   scripts/instructions.sh --keep    keep what is counted now: `make instructions KEEP=1`
#   scripts/instructions.sh --trace   what tracing adds to each: docs/tracing.md
#   scripts/instructions.sh --rules   what 100 classes of service that do not fit add: docs/qos.md
#   scripts/instructions.sh --where OPERATION   where they go: the functions that take most
#   scripts/instructions.sh --path OPERATION    functions that docs/design/request_path.md forgets
#
# What is counted is what happens between a frame and its answer (crates/testkit/src/world/engine.rs)
# of a release over a store in memory. System calls, the loop around the engine and the store of files
# are not in it; `choro-bench --rows "system calls"` and processor time tell of those.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

KEPT=bench/instructions.tsv
COUNTED='testkit::world::engine::*'
OPERATIONS='read write open list'
# The difference of two runs is that of so many operations: what is done once drops out.
FEW=200
MANY=600

need_to_build
need_packages valgrind
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# build FEATURES: the engine as in a server (`counters`), or without tracing (``).
build() {
    local options=(--release --locked -p testkit --example engine_cost --no-default-features
        --features "$1")
    cargo build "${options[@]}"
    program=$(cargo build "${options[@]}" --message-format=json 2>/dev/null |
        sed -n 's/.*"executable":"\([^"]*\/engine_cost\)".*/\1/p' | tail -n 1)
}

# build_every_function: without optimization, so that no function is a part of another one
build_every_function() {
    local options=(--locked -p testkit --example engine_cost --no-default-features
        --features counters)
    cargo build "${options[@]}"
    program=$(cargo build "${options[@]}" --message-format=json 2>/dev/null |
        sed -n 's/.*"executable":"\([^"]*\/engine_cost\)".*/\1/p' | tail -n 1)
}

# functions: file, name and own instructions of each function of the engine in the last run
functions() {
    callgrind_annotate --auto=no --threshold=100 "$out/profile" | sed "s,$PWD/,," |
        sed -n 's,^ *\([0-9][0-9]*\(\,[0-9]*\)*\) ([^)]*)  crates/\([a-z]*/src/[a-z_/]*\.rs\):\([^[]*\).*,\3 \1 \4,p' |
        grep -E '^(arbitration|engine|model|proto|qos|wire)/' |
        awk '{ count = $2; gsub(",", "", count); name = $0; sub(/ *$/, "", name)
               sub(/::\{\{closure\}\}.*/, "", name); sub(/.*::/, "", name); sub(/.* /, "", name)
               sum[$1 " " name] += count }
             END { for (it in sum) print it, sum[it] }' | sort
}

# run OPERATION COUNT: the instructions of all of it
run() {
    valgrind --tool=callgrind --callgrind-out-file="$out/profile" --toggle-collect="$COUNTED" \
        "$program" "$@" >"$out/said" 2>&1 || fail "under callgrind: $(cat "$out/said")"
    sed -n 's/.*Collected : //p' "$out/said"
}

# each OPERATION [RULES]: the instructions of one
each() {
    local few many
    few=$(run "$1" "$FEW" "${@:2}")
    many=$(run "$1" "$MANY" "${@:2}")
    [ "${few:-0}" -gt 0 ] && [ "${many:-0}" -gt "$few" ] ||
        fail "callgrind counted nothing for $1: is $COUNTED still what it is called?"
    echo $(((many - few) / (MANY - FEW)))
}

[ "${1:-}" = --path ] || build counters
case ${1:-} in
    --keep)
        {
            echo "# Instructions of the engine for one operation: scripts/instructions.sh says which."
            echo "# $(rustc --version | cut -d ' ' -f 1-2), $(uname -m)"
            for operation in $OPERATIONS; do
                printf '%s\t%s\n' "$operation" "$(each "$operation")"
            done
        } >"$out/kept"
        cp "$out/kept" "$KEPT"
        cat "$KEPT"
        ;;
    --trace)
        for operation in $OPERATIONS; do each "$operation"; done >"$out/with"
        build ''
        for operation in $OPERATIONS; do each "$operation"; done >"$out/without"
        for operation in $OPERATIONS; do echo "$operation"; done |
            paste - "$out/without" "$out/with" |
            awk '{ printf "%s\t%d without, tracing adds %d\n", $1, $2, $3 - $2 }'
        ;;
    --rules)
        for operation in $OPERATIONS; do
            without=$(each "$operation")
            printf '%s\t%d without, 100 rules add %d\n' \
                "$operation" "$without" $(($(each "$operation" 100) - without))
        done
        ;;
    --where)
        run "${2:?which operation}" "$MANY" >/dev/null
        callgrind_annotate --auto=no "$out/profile" | sed "s,$PWD/,," | head -n 60
        ;;
    --path)
        # Instructions for each operation below which a function is taken for an accessor.
        accessor=100
        build_every_function
        run "${2:?which operation}" 20 >/dev/null
        functions >"$out/few"
        run "$2" 60 >/dev/null
        functions >"$out/many"
        awk -v least="$accessor" 'NR == FNR { few[$1 " " $2] = $3; next }
            ($3 - few[$1 " " $2]) / 40 >= least { print $1, $2, int(($3 - few[$1 " " $2]) / 40) }' \
            "$out/few" "$out/many" |
            while read -r file name count; do
                grep -qE "\`([A-Za-z]+::)?$name\`" docs/design/request_path.md ||
                    printf '%s\t%s\t%s\n' "$file" "$name" "$count"
            done
        ;;
    '')
        of=$(sed -n '2s/^# //p' "$KEPT")
        failed=
        while IFS=$'\t' read -r operation kept; do
            case $operation in '#'*) continue ;; esac
            now=$(each "$operation")
            printf '%s\t%s\tkept: %s\t%+d %%\n' "$operation" "$now" "$kept" "$(((now - kept) * 100 / kept))"
            [ $((now * 10)) -le $((kept * 11)) ] || failed="$failed $operation"
        done <"$KEPT"
        [ -z "$failed" ] || fail "more than a tenth more instructions than are kept ($of):$failed.
scripts/instructions.sh --where OPERATION shows where they go. If that is what it costs now,
'make instructions KEEP=1' keeps the new figures."
        ;;
    *) fail "there is no option $1" ;;
esac
