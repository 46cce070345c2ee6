#!/usr/bin/env bash
# Writes crates/choro/link/function_order.ld anew: the functions that the linker puts together at the
# start of the program's code. They are those that perf sees while a release serves rows of the
# benchmark: first those of connections that do nothing else, then those of requests.
#
# Worth doing after the path of a connection has changed much. A function that the list lacks, or that
# is gone, costs nothing but its place.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

ORDER=crates/choro/link/function_order.ld
CONNECTIONS=('connect + session')
# None of the rows that count system calls: those trace the server.
REQUESTS=('small-file copy, depth 4' 'open + close, depth 16' echo 'create, empty' 'listing, 1 MiB'
    'read 64 KiB, depth 16' 'write 64 KiB, depth 16' random 'channel lost: reset' 'read 1 MiB, 2 ch')

need_to_build
need_packages linux-perf=perf samba=smbd iproute2=ip util-linux=unshare
[ "$(id -u)" -eq 0 ] || fail 'perf has to be run as root to see all processes'
cargo build --release --locked -p choro -p bench
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# without_build: takes from names what differs from build to build.
without_build() {
    sed -E 's/17h[0-9a-f]{16}E(\.llvm\.[0-9]+)?$/17h*/; s/Cs[0-9A-Za-z]+_/Cs*_/g; s/\.llvm\.[0-9]+$/*/'
}

# The same name stands for all types that a generic function is made for; where those are many, most
# of them are of no use here.
nm target/release/choro | sed -nE 's/^[0-9a-f]+ [tT] (_(ZN|R)\S+)$/\1/p' | without_build |
    LC_ALL=C sort | uniq -c | awk '$1 <= 4 { print $2 }' | LC_ALL=C sort >"$out/of_few_types"

# functions ROW...: the functions of the server that are seen at least twice: what it does once, it
# does at its start.
functions() {
    local rows=() row
    for row in "$@"; do rows+=(--rows "$row"); done
    perf record -q -a -e cpu-clock -F 8000 -g -o "$out/samples" -- \
        target/release/choro-bench --choro target/release/choro --only choro --repetitions 4 \
        --seconds 1 --results "$out" "${rows[@]}" >&2
    perf script -i "$out/samples" -F ip,sym,dso --no-demangle 2>/dev/null |
        sed -nE 's/^\s+[0-9a-f]+ (_(ZN|R)\S+) \(\S*\/choro\)$/\1/p' | without_build |
        LC_ALL=C sort | uniq -c | awk '$1 > 1 { print $2 }' | LC_ALL=C sort |
        LC_ALL=C comm -12 - "$out/of_few_types"
}

functions "${CONNECTIONS[@]}" >"$out/connections"
functions "${REQUESTS[@]}" | LC_ALL=C comm -23 - "$out/connections" >"$out/requests"
{
    cat <<'END'
/* Functions that a client needs, at the start of the code: see build.rs.
   Written by scripts/function_order.sh. */
SECTIONS
{
  .text.of_clients :
  {
END
    for part in connections requests; do
        printf '    /* Of %s. */\n' "$part"
        sed 's/.*/    *(.text.&)/' "$out/$part"
    done
    printf '  }\n}\nINSERT BEFORE .text;\n'
} >"$out/order"
mv "$out/order" "$ORDER"
say "$(wc -l <"$out/connections") functions of connections and $(wc -l <"$out/requests") of requests"
