#!/usr/bin/env bash
# Runs what takes too long for each change: all of smbtorture, and of the newest, then random requests
# to Choro and Samba, whose answers must be the same. After that a flood of
# 20,000 connections from networks that the test makes, while a user's copy goes on. Its figures are
# for people to read: how long the user's requests take with and without the flood, and what memory
# the server has. Then three nodes of CTDB are started, stopped and killed. Then each decoder is fuzzed for a short time. Last, the Debian package: made,
# installed in a Debian of its own, and removed; and the image, run without rights.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

scripts/conformance.sh
NEWEST=yes scripts/conformance.sh
scripts/compare.sh
build_choro
export CHORO_BIN=$choro FLOOD_CONNECTIONS=20000
say 'a flood of 20,000 connections (about a minute)'
cargo test --locked -p choro --test flood -- --nocapture a_flood_from_other_networks
say 'three nodes of CTDB (a minute)'
scripts/cluster.sh test

scripts/fuzz.sh 5

scripts/deb.sh
scripts/try_deb.sh
scripts/image.sh
scripts/try_image.sh
