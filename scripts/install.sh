#!/usr/bin/env bash
# Installs program, manual pages, completions, an example configuration, the systemd service and its
# system user below DESTDIR and PREFIX.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

PREFIX=${PREFIX:-/usr/local}
root=${DESTDIR:-}$PREFIX

need_to_build
keep_frame_pointers
say 'building a release (a few minutes the first time)'
build_choro
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$choro" man --out "$work/man"
for shell in bash fish zsh; do
    "$choro" completions "$shell" >"$work/$shell"
done
sed "s|@PREFIX@|$PREFIX|" scripts/choro.service.in >"$work/choro.service"

say "installing below $root"
put() { # put MODE FROM TO
    if mkdir -p "$(dirname "$3")" 2>/dev/null && [ -w "$(dirname "$3")" ]; then
        install -m "$1" "$2" "$3"
    else
        as_root install -D -m "$1" "$2" "$3"
    fi
}
put 755 "$choro" "$root/sbin/choro"
for page in "$work"/man/*; do
    put 644 "$page" "$root/share/man/man8/$(basename "$page")"
done
put 644 "$work/bash" "$root/share/bash-completion/completions/choro"
put 644 "$work/fish" "$root/share/fish/vendor_completions.d/choro.fish"
put 644 "$work/zsh" "$root/share/zsh/site-functions/_choro"
put 644 "$work/choro.service" "$root/lib/systemd/system/choro.service"
put 644 docs/examples/smb.conf "$root/share/choro/examples/smb.conf"
put 644 scripts/fail2ban/choro.conf "$root/share/choro/fail2ban/choro.conf"
# The service cannot make users: it may not write to /etc. Only this folder is looked into for them.
put 644 scripts/choro.sysusers "${DESTDIR:-}/usr/lib/sysusers.d/choro.conf"
if [ -z "${DESTDIR:-}" ] && command -v systemd-sysusers >/dev/null; then
    as_root systemd-sysusers choro.conf
fi
say 'installed; start it with: systemctl daemon-reload && systemctl enable --now choro'
