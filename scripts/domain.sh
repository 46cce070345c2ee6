#!/usr/bin/env bash
# A domain of Active Directory in network namespaces, with Choro as a member and Debian's clients.
#
#   domain.sh            starts it, says how to log on, and serves until it is interrupted
#   domain.sh test WORD  runs the checks whose names contain WORD, or all, in some minutes
#
# It takes root.
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

if [ "${1:-}" = test ]; then
    # shellcheck disable=SC2086
    CHORO_BIN=$choro CHORO_DOMAIN_LAB=$lab CHORO_DOMAIN_ONLY=${2:-} \
        cargo test --workspace --locked $features --test domain -- --nocapture
    exit
fi

say 'building a domain (half a minute)'
scripts/domain_lab.sh "$lab" up >"$lab/up.log" 2>&1 || {
    tail -n 5 "$lab/up.log" >&2
    exit 1
}
install -d -m 1777 "$lab/root/srv/mb/data"
{
    cat "$lab/root/srv/mb/smb.conf"
    printf '[data]\npath = /srv/mb/data\nread only = no\n'
} >"$lab/root/srv/mb/choro.conf"
cat <<END

The member MB of the domain ADLAB (realm AD.LAB.TEST) serves the share data. Users: alice, bob and
carl, with the passwords Passw0rd-alice and so on. In another terminal, as root:

  lab='$PWD/scripts/domain_lab.sh $lab run'
  \$lab cl sh -c 'echo Passw0rd-alice | kinit alice@AD.LAB.TEST'
  \$lab cl smbclient --use-kerberos=required //mb.ad.lab.test/data    # with the ticket
  \$lab cl smbclient -U 'ADLAB\\bob' //mb.ad.lab.test/data             # with a password
  \$lab mb $choro check --domain --config /srv/mb/choro.conf

It ends with Ctrl-C. The log is $lab/root/srv/mb/log/.

END
trap : INT
scripts/domain_lab.sh "$lab" run mb "$choro" serve --config /srv/mb/choro.conf
