#!/usr/bin/env bash
# Builds a release of the server and starts it. With CONFIG, on that configuration; otherwise it
# shares one folder, SHARE or the default, and prints how to reach it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

need_to_build
keep_frame_pointers
say 'building a release (a few minutes the first time)'
build_choro
if [ -n "${CONFIG:-}" ]; then
    arguments=(--config "$CONFIG")
else
    if [ -z "${SHARE:-}" ]; then
        if [ "$(id -u)" -eq 0 ]; then SHARE=/srv/choro; else SHARE=$HOME/ChoroShare; fi
    fi
    arguments=(--share "$SHARE")
fi
say 'starting'
exec "$choro" serve "${arguments[@]}"
