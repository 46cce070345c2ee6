#!/usr/bin/env bash
# Tests a member of a domain: a controller, a member and a client in network namespaces, with
# Debian's clients. It takes root, and two minutes. `domain.sh WORD` runs the checks with WORD in
# their names.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

[ "$(id -u)" -eq 0 ] || fail 'network namespaces take root'
need_to_test
# The domain itself comes out of packages that scripts/domain_lab.sh installs into an overlay.
need_packages iproute2=ip util-linux=unshare
features=$(choro_features)
build_choro
lab=$(mktemp -d)
trap 'scripts/domain_lab.sh "$lab" down; rm -rf "$lab"' EXIT
# shellcheck disable=SC2086
CHORO_BIN=$choro CHORO_DOMAIN_LAB=$lab CHORO_DOMAIN_ONLY=${1:-} \
    cargo test --locked -p choro $features --test domain -- --nocapture
