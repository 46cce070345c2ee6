#!/usr/bin/env bash
# Nodes of CTDB on one machine, for tests: a network namespace for each, joined by a switch, and a
# mount namespace with its own /run, /etc/ctdb and /var/lib/ctdb. The packages stay as they are.
#
#   cluster_lab.sh DIR up COUNT     starts nodes 0, 1, …; returns when all are healthy
#   cluster_lab.sh DIR run I CMD    runs a command in node I
#   cluster_lab.sh DIR start I      starts ctdbd of node I, once it has ended
#   cluster_lab.sh DIR kill I       kills ctdbd of node I and all it has started
#   cluster_lab.sh DIR link I STATE cuts the node off from the others (down), or connects it (up)
#   cluster_lab.sh DIR down         ends all processes of the nodes and removes the namespaces
#
# Exit code 77: this machine cannot have nodes, and the reason is on standard error.
#
# Node I has the address 10.98.0.(I+1). One public address for each node, 10.98.0.(I+101), moves.
# From outside, the socket of its ctdbd is DIR/nI/run/ctdb/ctdbd.socket, and its databases are in
# DIR/nI/var. DIR/shared is the folder that all nodes see, at its own path.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

L=$1
case $L in
    /*) ;;
    *)
        echo "DIR has to be absolute, as processes with other mounts get it: $L" >&2
        exit 2
        ;;
esac

NODES_MAX=9
# They take about 11 s on an idle machine.
UP_SECONDS_MAX=120

cannot() {
    printf '%s\n' "$*" >&2
    exit 77
}

check_machine() {
    [ "$(id -u)" -eq 0 ] || cannot 'namespaces take root'
    local command
    for command in ctdb ctdbd ethtool ip unshare; do
        command -v "$command" >/dev/null || cannot "$command is missing (make test installs it)"
    done
    # A network interface has 15 bytes for its name, and other runs have namespaces, too.
    lab=choro-$$
    ip netns add "$lab-sw" 2>/dev/null || cannot 'network namespaces are not allowed here'
    echo "$lab" >"$L/lab"
}

# What runs in a node's network namespace outside its mounts.
in_network() {
    ip netns exec "$lab-$1" "${@:2}"
}

in_node() {
    local pid
    pid=$(cat "$L/n$1/holder")
    nsenter -t "$pid" -m -n -r -- "${@:2}"
}

# The mounts of a node last as long as this process, whatever becomes of its ctdbd.
hold_mounts() {
    local node=$L/n$1
    # The process must not keep pipes open that a caller waits for.
    # shellcheck disable=SC2016
    in_network "$1" setsid unshare -m --propagation private bash -c '
        set -e
        mount --bind "$1/etc" /etc/ctdb
        mount --bind "$1/var" /var/lib/ctdb
        mount --bind "$1/run" /run
        echo $$ >"$1/holder.new"
        mv "$1/holder.new" "$1/holder"
        exec sleep infinity' x "$node" >"$node/mounts.log" 2>&1 </dev/null &
    local tries
    for tries in $(seq 100); do
        [ ! -s "$node/holder" ] || return 0
        sleep 0.1
    done
    cannot "no mounts are allowed here ($tries tries): $(cat "$node/mounts.log")"
}

make_node() {
    local i=$1 node=$L/n$1
    mkdir -p "$node"/run/ctdb "$node"/var/{volatile,persistent,state,scripts}
    cp -a /etc/ctdb "$node/etc"
    cp "$L/nodes" "$node/etc/nodes"
    cp "$L/public_addresses" "$node/etc/public_addresses"
    cat >"$node/etc/ctdb.conf" <<END
[cluster]
    cluster lock = $L/shared/.ctdb/lock
    node address = 10.98.0.$((i + 1))
    leader timeout = 2
[legacy]
    realtime scheduling = false
END
    # With these, and the timeout above, it starts in half the time.
    printf '%s=1\n' RerecoveryTimeout ElectionTimeout >"$node/etc/ctdb.tunables"
    ip netns add "$lab-$i"
    ip link add "v$i" netns "$lab-sw" type veth peer name eth0 netns "$lab-$i"
    ip -n "$lab-sw" link set "v$i" master br0 up
    ip -n "$lab-$i" link set lo up
    ip -n "$lab-$i" addr add "10.98.0.$((i + 1))/24" dev eth0
    ip -n "$lab-$i" link set eth0 up
    hold_mounts "$i"
}

start() {
    in_node "$1" setsid ctdbd -i >>"$L/n$1/out" 2>&1 </dev/null &
}

# Processes of one node, without the one that holds its mounts.
processes() {
    ip netns pids "$lab-$1" 2>/dev/null | grep -vxF "$(cat "$L/n$1/holder")" || true
}

# A healthy node, and each public address on one.
is_up() {
    in_node "$1" timeout 5 ctdb nodestatus >/dev/null 2>&1 &&
        ! in_node "$1" timeout 5 ctdb ip 2>&1 | grep -q -e ' -1$'
}

up() {
    local count=$1 i tries
    [[ $count =~ ^[1-$NODES_MAX]$ ]] || fail "'$count' is no number of nodes from 1 to $NODES_MAX"
    mkdir -p "$L/shared/.ctdb"
    for i in $(seq 0 $((count - 1))); do
        echo "10.98.0.$((i + 1))"
    done >"$L/nodes"
    for i in $(seq 0 $((count - 1))); do
        echo "10.98.0.$((i + 101))/24 eth0"
    done >"$L/public_addresses"
    ip -n "$lab-sw" link add br0 type bridge
    ip -n "$lab-sw" link set br0 up
    for i in $(seq 0 $((count - 1))); do make_node "$i"; done
    for i in $(seq 0 $((count - 1))); do start "$i"; done
    for i in $(seq 0 $((count - 1))); do
        for tries in $(seq $((UP_SECONDS_MAX * 2))); do
            is_up "$i" && continue 2
            [ "$tries" -lt 20 ] || [ -n "$(processes "$i")" ] || break
            sleep 0.5
        done
        tail -n 20 "$L/n$i/out" >&2 || true
        fail "node $i is not healthy after $tries tries"
    done
}

# Returns when all of them have ended.
kill_node() {
    local pid tries
    for tries in $(seq 100); do
        for pid in $(processes "$1"); do kill -9 "$pid" 2>/dev/null || true; done
        [ -n "$(processes "$1")" ] || return 0
        sleep 0.1
    done
    fail "node $1 has processes that do not end after $tries tries"
}

down() {
    local name pid
    for name in $(ip netns list | cut -d ' ' -f 1 | grep "^$lab-" || true); do
        for pid in $(ip netns pids "$name" 2>/dev/null); do
            kill -9 "$pid" 2>/dev/null || true
        done
        ip netns del "$name" 2>/dev/null || true
    done
}

if [ "$2" = up ]; then
    check_machine
    trap 'status=$?; [ $status -eq 0 ] || down; exit $status' EXIT
    up "$3"
    exit
fi
lab=$(cat "$L/lab" 2>/dev/null) || exit 0
case $2 in
    run) in_node "${@:3}" ;;
    start) start "$3" ;;
    kill) kill_node "$3" ;;
    link) ip -n "$lab-sw" link set "v$3" "$4" ;;
    down) down ;;
    *) fail 'usage: cluster_lab.sh DIR up COUNT | run I CMD | start I | kill I | link I STATE | down' ;;
esac
