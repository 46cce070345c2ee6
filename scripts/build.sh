#!/usr/bin/env bash
# Builds a release of the server and says where it is. With MESSAGING, only with those ways for its
# processes to talk.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

need_to_build
keep_frame_pointers
say 'building a release (a few minutes the first time)'
build_choro
say "built: $choro"
