#!/usr/bin/env bash
# Three nodes of CTDB on this machine, in namespaces, for trying and testing what Choro knows of a
# cluster. It takes root.
#
#   cluster.sh           starts them, says how to reach them, and ends them at ^C
#   cluster.sh test      runs the tests that need three nodes, in a minute
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

[ "$(id -u)" -eq 0 ] || fail 'namespaces take root'
need_to_build
need_packages ctdb=ctdbd ethtool iproute2=ip util-linux=unshare

if [ "${1:-}" = test ]; then
    CHORO_CLUSTER_NODES=3 cargo test --locked -p choro --test cluster -- --nocapture
    exit
fi
[ $# -eq 0 ] || fail "usage: cluster.sh [test]"

build_choro
lab=$(mktemp -d)
# What ends the terminal ends the nodes as well.
trap 'exit 130' HUP INT TERM
trap 'scripts/cluster_lab.sh "$lab" down; rm -rf --one-file-system "$lab"' EXIT
say 'starting three nodes (a quarter of a minute)'
scripts/cluster_lab.sh "$lab" up 3
cat <<END

Three nodes, 0 to 2, with the addresses 10.98.0.1 to 3, and a folder that all of them see:
$lab/shared. In another terminal, as root:

  lab='$PWD/scripts/cluster_lab.sh $lab'
  \$lab run 0 ctdb status                      # any command on node 0
  \$lab run 1 $choro status --cluster
  \$lab run 0 ctdb attach x.tdb                # then: writekey and readkey x.tdb KEY, on any node
  \$lab run 0 ctdb moveip 10.98.0.103 1
  \$lab run 2 ctdb stop                        # and: continue
  \$lab kill 2                                 # its ctdbd dies; \$lab start 2 starts it again
  \$lab link 2 down                            # it falls silent; \$lab link 2 up

They end with Ctrl-C. Logs of ctdbd are in $lab/n0/out, n1 and n2.

END
# A wait that a signal ends, unlike that for a command in the foreground.
sleep infinity &
sleep=$!
trap 'kill "$sleep" 2>/dev/null; scripts/cluster_lab.sh "$lab" down; rm -rf --one-file-system "$lab"' EXIT
wait "$sleep"
