#!/usr/bin/env bash
# A domain of Active Directory, a plain Kerberos realm, a member and a client, for tests: three
# network namespaces over an overlay of this machine, which stays as it is.
#
#   domain_lab.sh DIR up             builds it: half a minute, a minute the first time
#   domain_lab.sh DIR run NAME CMD   runs a command in dc, mb or cl
#   domain_lab.sh DIR down           ends all its processes and removes it
#
# DOMAIN_LAB_ROOT: the tree of another Debian to lay it over, instead of this machine's.
# Exit code 77: this machine cannot have one, and the reason is on standard error. What a machine
# lacks of Debian's packages is installed into the overlay alone.
#
# Names: domain ADLAB (AD.LAB.TEST) with the users alice, bob and carl, groups engineers > inner >
# alice; realm REALM.LAB.TEST with carol and dave. Passwords are Passw0rd- and the name.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

W=$1
case $W in
    /*) ;;
    *)
        echo "DIR has to be absolute, as processes with another root get it: $W" >&2
        exit 2
        ;;
esac
R=$W/root
PW=Passw0rd-adm1
DC_CONF=--configfile=/srv/ad/etc/smb.conf
MB_CONF=--configfile=/srv/mb/smb.conf
NAMES=(dc mb cl)

# Each namespace has a /run of its own: winbindd's socket has a fixed path, and the winbindd of the
# controller would answer for the member.
in_namespace() {
    local name=$1
    shift
    ip netns exec "lab-$name" unshare -mu --propagation private bash -c '
        name=$1 W=$2 R=$2/root
        shift 2
        hostname "$name"
        mount --rbind /proc "$R/proc"
        mount --rbind /dev "$R/dev"
        mount --bind "$W/tmp/run.$name" "$R/run"
        mount --bind "$W/tmp/hosts.$name" "$R/etc/hosts"
        # What is built later is not seen through an overlay.
        mkdir -p "$R$PWD"
        mount --rbind "$PWD" "$R$PWD"
        exec chroot "$R" "$@"' x "$name" "$W" "$@"
}

in_background() {
    local log=$1
    shift
    setsid bash -c "$(declare -f in_namespace); W=$W; in_namespace \"\$@\"" x "$@" \
        >"$W/$log" 2>&1 </dev/null &
}

until_ok() {
    local tries
    for tries in $(seq 400); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.1
    done
    echo "gave up after $tries tries: $*" >&2
    return 1
}

cannot() {
    printf '%s\n' "$*" >&2
    exit 77
}

down() {
    local name pid
    for name in "${NAMES[@]}"; do
        for pid in $(ip netns pids "lab-$name" 2>/dev/null); do kill -9 "$pid" 2>/dev/null || true; done
        ip netns del "lab-$name" 2>/dev/null || true
    done
    umount "$R" 2>/dev/null || umount -l "$R" 2>/dev/null || true
    umount "$W/tmp" 2>/dev/null || umount -l "$W/tmp" 2>/dev/null || true
}

check_machine() {
    [ "$(id -u)" -eq 0 ] || cannot 'network namespaces take root'
    command -v ip >/dev/null || cannot 'ip is missing (in Debian'\''s package iproute2)'
    command -v apt-get >/dev/null || cannot 'this is not Debian'
    ip netns add lab-probe 2>/dev/null || cannot 'network namespaces are not allowed here'
    ip netns del lab-probe
}

install_packages() {
    DEBIAN_FRONTEND=noninteractive chroot "$R" apt-get -q -o Acquire::Retries=3 install -y \
        --no-install-recommends samba-ad-dc samba-ad-provision samba-dsdb-modules winbind \
        libnss-winbind samba-common-bin smbclient samba-testsuite krb5-kdc krb5-admin-server \
        krb5-user python3-gssapi faketime
}

make_root() {
    mkdir -p "$W/tmp" "$R"
    mount -t tmpfs -o size=3g,mode=755 lab "$W/tmp" || cannot 'no tmpfs can be mounted here'
    mkdir -p "$W/tmp/up" "$W/tmp/work"
    mount -t overlay lab -o "lowerdir=${DOMAIN_LAB_ROOT:-/},upperdir=$W/tmp/up,workdir=$W/tmp/work" "$R" ||
        cannot 'no overlay can be mounted here'
    printf '#!/bin/sh\nexit 101\n' >"$R/usr/sbin/policy-rc.d"
    chmod 755 "$R/usr/sbin/policy-rc.d"
    # The name service stays as it is: checks that need users of the domain in it say so there.
    cp "$R/etc/nsswitch.conf" "$W/nsswitch.conf"
    install_packages >"$W/apt.log" 2>&1 || {
        chroot "$R" apt-get -q update >>"$W/apt.log" 2>&1 && install_packages >>"$W/apt.log" 2>&1 ||
            cannot "packages cannot be installed: see $W/apt.log"
    }
    cp "$W/nsswitch.conf" "$R/etc/nsswitch.conf"
}

make_network() {
    local number=1 name
    for name in "${NAMES[@]}"; do
        ip netns add "lab-$name"
        ip -n "lab-$name" link set lo up
        mkdir -p "$W/tmp/run.$name/samba"
        printf '127.0.0.1 localhost\n10.97.0.%s %s.ad.lab.test %s\n' "$number" "$name" "$name" \
            >"$W/tmp/hosts.$name"
        number=$((number + 1))
    done
    # The plain realm has its controller beside the domain's, at an address of its own.
    ip -n lab-dc link add br0 type bridge
    ip -n lab-dc link set br0 up
    ip -n lab-dc addr add 10.97.0.1/24 dev br0
    ip -n lab-dc addr add 10.97.0.9/24 dev br0
    number=2
    for name in mb cl; do
        ip -n lab-dc link add "v$name" type veth peer name eth0 netns "lab-$name"
        ip -n lab-dc link set "v$name" master br0 up
        ip -n "lab-$name" addr add "10.97.0.$number/24" dev eth0
        ip -n "lab-$name" link set eth0 up
        number=$((number + 1))
    done
    rm -f "$R/etc/resolv.conf"
    printf 'search ad.lab.test\nnameserver 10.97.0.1\n' >"$R/etc/resolv.conf"
}

make_domain() {
    mkdir -p "$R/srv/ad" "$R"/srv/mb/{private,lock,state,cache,run,log}
    if [ -f "$W/ad.tar" ]; then
        tar -C "$R/srv" -xf "$W/ad.tar"
    else
        in_namespace dc samba-tool domain provision --realm=AD.LAB.TEST --domain=ADLAB \
            --server-role=dc --dns-backend=SAMBA_INTERNAL --adminpass="$PW" --host-name=dc \
            --host-ip=10.97.0.1 --targetdir=/srv/ad --use-rfc2307 \
            --option='interfaces=lo br0' --option='bind interfaces only=yes' >"$W/provision.log" 2>&1
        # It would forward to itself.
        sed -i '/dns forwarder/d' "$R/srv/ad/etc/smb.conf"
        tar -C "$R/srv" -cf "$W/ad.tar" ad
    fi
    cp "$R/srv/ad/private/krb5.conf" "$R/etc/krb5.conf"
    in_background dc.log dc samba -i -M single "$DC_CONF" --debug-stdout
    until_ok in_namespace cl sh -c "echo $PW | kinit -c /tmp/cc.adm administrator@AD.LAB.TEST"
    local user group
    for user in alice bob carl; do
        in_namespace dc samba-tool user add "$user" "Passw0rd-$user" "$DC_CONF"
    done
    for group in engineers inner; do in_namespace dc samba-tool group add "$group" "$DC_CONF"; done
    in_namespace dc samba-tool group addmembers inner alice "$DC_CONF"
    in_namespace dc samba-tool group addmembers engineers inner "$DC_CONF"
}

make_member() {
    cat >"$R/srv/mb/smb.conf" <<END
[global]
netbios name = MB
workgroup = ADLAB
realm = AD.LAB.TEST
security = ads
private dir = /srv/mb/private
lock directory = /srv/mb/lock
state directory = /srv/mb/state
cache directory = /srv/mb/cache
pid directory = /srv/mb/run
log file = /srv/mb/log/%m
kerberos method = secrets and keytab
idmap config * : backend = tdb
idmap config * : range = 3000-7999
idmap config ADLAB : backend = rid
idmap config ADLAB : range = 1000000-1999999
END
    in_namespace mb net ads join -U "administrator%$PW" "$MB_CONF"
    in_namespace mb net ads keytab create -P "$MB_CONF"
    in_background winbindd.log mb winbindd -F --no-process-group "$MB_CONF"
    until_ok in_namespace mb wbinfo -t
}

make_realm() {
    mkdir -p "$R/srv/realm"
    cat >"$R/srv/realm/krb5.conf" <<END
[libdefaults]
default_realm = REALM.LAB.TEST
dns_lookup_kdc = false
dns_canonicalize_hostname = false
rdns = false
[realms]
REALM.LAB.TEST = {
    kdc = 10.97.0.9:8888
}
END
    cat >"$R/srv/realm/kdc.conf" <<END
[kdcdefaults]
kdc_listen = 10.97.0.9:8888
kdc_tcp_listen = 10.97.0.9:8888
[realms]
REALM.LAB.TEST = {
    database_name = /srv/realm/principal
    key_stash_file = /srv/realm/stash
    max_life = 10h
}
END
    local realm=(env KRB5_CONFIG=/srv/realm/krb5.conf KRB5_KDC_PROFILE=/srv/realm/kdc.conf)
    in_namespace dc "${realm[@]}" kdb5_util create -s -P secret -r REALM.LAB.TEST
    local query queries=(
        'addprinc -pw Passw0rd-carol carol' 'addprinc -pw Passw0rd-dave dave'
        'addprinc -pw Passw0rd-carol carol/admin' 'addprinc -pw Passw0rd-root root'
        'addprinc -randkey cifs/mb.ad.lab.test' 'ktadd -k /srv/realm/keytab cifs/mb.ad.lab.test'
    )
    for query in "${queries[@]}"; do
        in_namespace dc "${realm[@]}" kadmin.local -r REALM.LAB.TEST -q "$query"
    done
    in_background kdc.log dc "${realm[@]}" krb5kdc -n -r REALM.LAB.TEST
    until_ok in_namespace cl "${realm[@]}" sh -c 'echo Passw0rd-carol | kinit -c /tmp/cc.probe carol'
    chroot "$R" useradd -m -u 4242 carol
}

case $2 in
up)
    check_machine
    trap 'status=$?; [ $status -eq 0 ] || down; exit $status' EXIT
    make_root
    make_network
    make_domain
    make_member
    make_realm
    ;;
run) in_namespace "${@:3}" ;;
down) down ;;
*) fail 'usage: domain_lab.sh DIR up | run NAME COMMAND | down' ;;
esac
