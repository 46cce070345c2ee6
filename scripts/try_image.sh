#!/usr/bin/env bash
# Runs the image of target/image as the user 1000 without capabilities, under the seccomp profile of
# containers, and reaches a share of it. For root; buildah with chroot isolation needs no more.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

[ "$(id -u)" -eq 0 ] || fail 'only root may run the image so'
need_packages buildah smbclient procps=ps python3
image=$PWD/target/image/choro.tar
[ -f "$image" ] || fail 'there is no image: make image'

work=$(mktemp -d)
log=$work/log
build=(buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs)
container=
server=
stop() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" 2>/dev/null || true
    server=
}
trap 'stop; [ -z "$container" ] || "${build[@]}" rm "$container" >/dev/null; rm -rf "$work"' EXIT
mkdir -p "$work/files" "$work/state"
chown 1000:1000 "$work/files" "$work/state"
chmod 755 "$work"
echo 'secret of the image' >"$work/secret"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
container=$("${build[@]}" from "oci-archive:$image")
# buildah would put a volume of its own over ours.
"${build[@]}" config --volume /state- --env CHORO_PORT="$port" --env CHORO_USER_ANNA_FILE=/secret "$container"
inside() {
    "${build[@]}" run --isolation chroot --cap-drop all --user 1000:1000 --network host \
        --volume "$work/files:/shares/files" --volume "$work/state:/state" \
        --volume "$work/secret:/secret:ro" "$container" -- /usr/sbin/choro "$@"
}

say 'serving'
inside serve >"$log" 2>&1 &
server=$!
for _ in $(seq 300); do
    grep -q 'listening on' "$log" && break
    kill -0 "$server" || fail "the server did not start: $(cat "$log")"
    sleep 0.1
done
grep -q 'served through epoll and threads' "$log" || fail "io_uring is not forbidden: $(cat "$log")"
pid=$(sed -n 's/.*"pid":\([0-9]*\),"message":"listening on.*/\1/p' "$log" | head -n 1)
status=$(cat "/proc/$pid/status")
for line in 'CapEff:.0000000000000000' 'CapPrm:.0000000000000000' 'Seccomp:.2' 'Uid:.1000.1000'; do
    grep -q "^$line" <<<"$status" || fail "the server has other rights than $line: $status"
done
echo 'through the image' >"$work/file"
smbclient -U 'anna%secret of the image' -p "$port" //127.0.0.1/files \
    -c "put $work/file name; get name $work/back" >"$work/client" 2>&1 || fail "$(cat "$work/client" "$log")"
cmp "$work/file" "$work/back"
[ "$(stat -c %u "$work/files/name")" = 1000 ] || fail 'the file belongs to somebody else'
inside healthcheck >"$work/health" 2>&1 || fail "the health check fails: $(cat "$work/health")"
kill "$pid"
wait "$server" || fail "it did not stop as it should: $(cat "$log")"
server=
if inside healthcheck >"$work/health" 2>&1; then
    fail 'the health check does not notice that the server is gone'
fi
say 'the image serves, as a user without rights'
