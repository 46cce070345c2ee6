#!/usr/bin/env bash
# Installs the package of target/deb in a new Debian below target/deb-chroot, serves a file from there,
# upgrades, removes and purges it, and looks at what is left. For root; needs Debian's archive.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

[ "$(id -u)" -eq 0 ] || fail 'only root may make a chroot'
need_packages debootstrap smbclient util-linux=unshare procps=ps python3
package=$(echo "$PWD"/target/deb/choro_*.deb)
[ -f "$package" ] || fail 'there is no package: make deb'

chroot=$PWD/target/deb-chroot
base=$PWD/target/deb-base.tar
if [ ! -e "$base" ]; then
    say 'making a Debian (a minute, the first time)'
    rm -rf "$chroot"
    suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    # shellcheck disable=SC2046
    debootstrap --variant=minbase --include=libtdb1,systemd-standalone-sysusers \
        "$suite" "$chroot" $(debian_mirror) >target/deb-base.log ||
        fail 'debootstrap failed: see target/deb-base.log'
    tar -C "$chroot" -cf "$base.part" .
    mv "$base.part" "$base"
fi
rm -rf "$chroot"
mkdir "$chroot"
tar -C "$chroot" -xf "$base"

server=
stop() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" 2>/dev/null || true
    server=
}
trap 'stop; rm -rf "$chroot"' EXIT

listing() {
    (cd "$chroot" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp \) -prune \
        -o -print | sort)
}

inside() {
    chroot "$chroot" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"
}

listing >target/deb-before
cp "$package" "$chroot/tmp/choro.deb"
say 'installing'
inside dpkg -i /tmp/choro.deb
inside id -u choro-share >/dev/null || fail 'the package made no user choro-share'
inside id -u choro-discovery >/dev/null || fail 'the package made no user choro-discovery'

say 'serving'
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
echo 'from the package' >"$chroot/tmp/file"
inside mkdir -p /srv/files
cat >"$chroot/etc/choro/smb.conf" <<EOF
[global]
	smb ports = $port
	interfaces = 127.0.0.1
	bind interfaces only = yes
[files]
	path = /srv/files
	read only = no
	force user = choro-share
EOF
inside chown choro-share /srv/files
echo secret | inside choro user add anna --password-stdin
mount_proc() { unshare --mount sh -c 'mount -t proc proc "$1/proc" && shift && exec "$@"' sh "$chroot" "$@"; }
mount_proc chroot "$chroot" /usr/sbin/choro serve >target/deb-serve.log 2>&1 &
server=$!
for _ in $(seq 100); do
    grep -q 'listening on' target/deb-serve.log && break
    kill -0 "$server" || fail "the server did not start: $(cat target/deb-serve.log)"
    sleep 0.1
done
client() { smbclient -U anna%secret -p "$port" //127.0.0.1/files -c "$1" >target/deb-client.log 2>&1; }
client "put $chroot/tmp/file name; get name $chroot/tmp/back" || fail "$(cat target/deb-client.log)"
cmp "$chroot/tmp/file" "$chroot/tmp/back"
stop

say 'installing again, removing, purging'
inside dpkg -i /tmp/choro.deb
inside dpkg --remove choro
# A removed service stays masked, and its state of deb-systemd-helper stays, until it is purged.
kept='^\./(var/(lib|cache)/choro|etc/choro|srv/|run/choro|var/lib/dpkg|var/log|var/cache/(man|ldconfig|debconf)'
kept+='|etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$'
of_systemd='etc/systemd/system|var/lib/systemd/deb-systemd-helper-'
left=$(listing | comm -13 target/deb-before - | grep -vE "$kept|$of_systemd)" || true)
[ -z "$left" ] || fail "left after removal: $left"
[ -e "$chroot/var/lib/choro/private/users" ] || fail 'removal took the users along'
inside dpkg --purge choro
[ ! -e "$chroot/var/lib/choro" ] || fail 'purge left the state'
[ -e "$chroot/srv/files/name" ] || fail 'purge took a shared file along'
left=$(listing | comm -13 target/deb-before - | grep -E '^\./(etc|var/lib)/systemd/.*choro' || true)
[ -z "$left" ] || fail "left after purge: $left"
say 'the package installs, serves, and goes'
