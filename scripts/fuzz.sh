#!/usr/bin/env bash
# Fuzzes every target of fuzz/ in turn, for so many seconds each. New inputs that reach new code stay
# in fuzz/corpus, inputs that break something in fuzz/artifacts; seeds come from fuzz/seeds.
#
# libFuzzer and the compiler's own coverage counters are all that is used, so a stable toolchain and
# a C++ compiler are enough.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

seconds=${1:-60}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "'$seconds' is not a number of seconds"

# Inputs longer than any message of interest only slow the fuzzer down.
INPUT_BYTES_MAX=65536
# A decoder that takes longer for one input, or more memory, has no bound where it needs one.
INPUT_SECONDS_MAX=10
MEMORY_MIB_MAX=1024

# What of libFuzzer's output is worth seeing.
REPORTED='^(==|SUMMARY|Test unit|stat::number_of_executed_units|thread|.*panicked)'

need_to_build
need_packages g++=c++
[ -f fuzz/Cargo.toml ] || fail 'there are no fuzz targets'

host=$(rustc -vV | sed -n 's/^host: //p')
coverage='--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4'
coverage+=' -Cllvm-args=-sanitizer-coverage-inline-8bit-counters'
coverage+=' -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares'
coverage+=' -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks'
directory=${CARGO_TARGET_DIR:-fuzz/target}/fuzz
say 'building the fuzz targets'
# With --target, build scripts and macros are not instrumented.
RUSTFLAGS=$coverage CARGO_TARGET_DIR=$directory \
    cargo build --release --manifest-path fuzz/Cargo.toml --target "$host" --bins

failed=()
targets=(fuzz/fuzz_targets/*.rs)
for index in "${!targets[@]}"; do
    name=$(basename "${targets[$index]}" .rs)
    say "$((index + 1))/${#targets[@]} $name, $seconds s"
    mkdir -p "fuzz/corpus/$name" "fuzz/artifacts/$name"
    inputs=("fuzz/corpus/$name")
    [ ! -d "fuzz/seeds/$name" ] || inputs+=("fuzz/seeds/$name")
    "$directory/$host/release/$name" -max_total_time="$seconds" -print_final_stats=1 \
        -max_len="$INPUT_BYTES_MAX" -timeout="$INPUT_SECONDS_MAX" -rss_limit_mb="$MEMORY_MIB_MAX" \
        -artifact_prefix="fuzz/artifacts/$name/" "${inputs[@]}" 2>&1 |
        { grep -E "$REPORTED" || true; } || failed+=("$name")
done
[ ${#failed[@]} -eq 0 ] || fail "inputs that break something were found: ${failed[*]}"
say 'nothing was found'
