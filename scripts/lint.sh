#!/usr/bin/env bash
# Checks everything that is not a test: form, lints, documentation, scripts and dependencies.
#
#   scripts/lint.sh          check
#   scripts/lint.sh --keep   lower the ceilings of the rules of form: `make lint KEEP=1`
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

case ${1:-} in
    --keep)
        need_rust
        cargo run --quiet --locked -p lint -- --keep
        exit
        ;;
    '') ;;
    *) fail "there is no option $1" ;;
esac

need_to_build
need_packages python3
say 'form'
cargo fmt --all --check
say 'comments, functions, layers and commits'
cargo run --quiet --locked -p lint
say 'lints'
cargo clippy --workspace --all-targets --locked -- -D warnings
# What MESSAGING leaves out must not leave anything useless behind.
for transport in tdb dgram stream; do
    say "lints of a build with messaging type $transport alone"
    # shellcheck disable=SC2046
    cargo clippy -p messaging -p bench_messaging -p settings -p process -p notifyd -p worker \
        -p supervisor -p choro --all-targets --locked \
        $(MESSAGING=$transport choro_features) -- -D warnings
done
say 'documentation'
scripts/ratio_chart.py --check
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked --quiet --document-private-items
say 'scripts'
for script in scripts/*.sh .ci/run; do
    bash -n "$script"
done
if command -v shellcheck >/dev/null; then
    shellcheck -x scripts/*.sh .ci/run
fi

say 'dependencies'
# Every dependency that is not ours has its reason in deny.toml, and every reason its dependency.
direct=$(sed -n '/^\[workspace.dependencies\]/,/^\[/s/^\([a-z0-9_-]*\) = .*/\1/p' Cargo.toml |
    while read -r name; do [ -d "crates/$name" ] || echo "$name"; done | sort)
reasoned=$(sed -n 's/^#   \([a-z0-9_-]*\): ..*/\1/p' deny.toml | sort)
if ! difference=$(diff <(echo "$direct") <(echo "$reasoned")); then
    printf '%s\n' "$difference" >&2
    fail 'the dependencies (<) and their reasons in deny.toml (>) are not the same'
fi
if cargo deny --version >/dev/null 2>&1; then
    cargo deny --locked check bans licenses sources
else
    say 'cargo-deny is not installed: licences and duplicates were not checked'
fi
say 'no complaints'
