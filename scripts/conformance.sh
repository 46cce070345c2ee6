#!/usr/bin/env bash
# Runs every test of smbtorture that says something about a server, also those that `make test`
# leaves out because they mostly wait, and compares the results with the list in tests/smbtorture.
# Arguments are words: with one, the tests whose name contains it. IO_URING=no runs the server where
# io_uring is forbidden. NEWEST=yes runs the smbtorture of Debian's unstable distribution, in a chroot,
# instead of the installed one.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

need_to_test
launcher=$(io_uring_launcher)
say 'building a release (a few minutes the first time)'
cargo build --release --locked -p choro
CHORO_BIN=$(cargo build --release --locked -p choro --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*\/choro\)".*/\1/p' | tail -n 1)
case ${NEWEST:-} in
    '' | no) ;;
    yes)
        need_newest_smbtorture
        export SMBTORTURE_ROOT=$smbtorture_root
        ;;
    *) fail "NEWEST: yes and no are understood, '$NEWEST' is not" ;;
esac
export CHORO_BIN SMBTORTURE_ALL=1 SMBTORTURE_ONLY=${1:-}
say 'smbtorture against the release (about ten minutes)'
$launcher cargo test --workspace --locked --test smbtorture
# Those that need another server, if they are meant.
case multichannel in
*"$SMBTORTURE_ONLY"*) $launcher cargo test --workspace --locked --test smbtorture_apart ;;
esac
