#!/usr/bin/env bash
# Builds a release of the server and says where it is. With MESSAGING, only with those ways for its
# processes to talk.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

need_to_build
features=$(choro_features)
say 'building a release (a few minutes the first time)'
# shellcheck disable=SC2086
cargo build --release --locked -p choro $features
# shellcheck disable=SC2086
choro=$(cargo build --release --locked -p choro $features --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*\/choro\)".*/\1/p' | tail -n 1)
say "built: $choro"
