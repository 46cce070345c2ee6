#!/usr/bin/env bash
# Builds a small Debian with Linux's own SMB client, for a User-Mode Linux kernel to boot. What is
# there already is kept. Needs root and debootstrap; about 500 MB of packages and files.
#
#   $GUEST_DIR/root       the file tree, with the kernel in usr/bin/linux.uml
#   $GUEST_DIR/root.ext4  the same as a disk, which every guest has read-only
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../scripts/needs.sh"
: "${GUEST_DIR:=${XDG_CACHE_HOME:-$HOME/.cache}/choro-guest}"

# The guest's kernel runs in the guest's own tree, so that the machine's C library may be an older
# one.
RELEASE=trixie
# Before Linux 6.13, User-Mode Linux does not start on a processor that has AMX.
KERNEL_RELEASE=forky
PACKAGES=(attr cifs-utils diffutils git iproute2 keyutils kmod procps python3-minimal util-linux)
root=$GUEST_DIR/root

step() {
    printf 'guest: %s\n' "$*" >&2
}

in_root() {
    DEBIAN_FRONTEND=noninteractive LC_ALL=C chroot "$root" "$@"
}

# Only a tree that this made is ever removed.
made=$GUEST_DIR/made_for_guests
if [ -e "$root" ] && [ ! -e "$made" ] && [ ! -e "$root.done" ]; then
    step "$root is not of this script: GUEST_DIR should name another folder"
    exit 1
fi
mkdir -p "$GUEST_DIR"
touch "$made"
exec 9>"$GUEST_DIR/lock"
flock 9

# Half a tree from an attempt that was broken off is of no use.
if [ ! -e "$root.done" ]; then
    rm -rf --one-file-system "$root"
    step "1/4 a minimal Debian $RELEASE (a few minutes, the first time only)"
    # shellcheck disable=SC2046
    debootstrap --variant=minbase "$RELEASE" "$root" $(debian_mirror) >"$GUEST_DIR/debootstrap.log" 2>&1 || {
        tail -n 5 "$GUEST_DIR/debootstrap.log" >&2
        exit 1
    }
    printf 'path-exclude /usr/share/man/*\npath-exclude /usr/share/locale/*\n' \
        >"$root/etc/dpkg/dpkg.cfg.d/choro"
    touch "$root.done"
fi

wanted="$RELEASE ${PACKAGES[*]}, kernel of $KERNEL_RELEASE"
if [ "$(cat "$GUEST_DIR/packages" 2>/dev/null)" != "$wanted" ]; then
    step "2/4 packages: ${PACKAGES[*]}"
    # Beside the script, because what stands before || is not left when a command fails.
    {
        in_root apt-get -q update
        # An earlier attempt may have been broken off in the middle of a package.
        in_root dpkg --configure -a
        in_root apt-get -q --fix-broken install -y
        in_root apt-get -q install -y --no-install-recommends "${PACKAGES[@]}"
        step '3/4 the kernel' 2>&3
        sed "s/ $RELEASE / $KERNEL_RELEASE /" "$root/etc/apt/sources.list" >"$root/tmp/kernel.list"
        # A mirror may be some weeks behind.
        in_root apt-get -q -o Dir::Etc::sourcelist=/tmp/kernel.list \
            -o Acquire::Check-Valid-Until=false update
        rm -f "$root"/tmp/*.deb
        in_root sh -c 'cd /tmp && apt-get -q -o Dir::Etc::sourcelist=/tmp/kernel.list \
            download user-mode-linux'
        # Unpacked, not installed: nothing of the package's dependencies is needed.
        rm -rf "$GUEST_DIR/kernel" "$root/usr/lib/modules"
        dpkg-deb -x "$root"/tmp/user-mode-linux*.deb "$GUEST_DIR/kernel"
        cp "$GUEST_DIR/kernel/usr/bin/linux.uml" "$root/usr/bin/"
        mkdir -p "$root/usr/lib/modules"
        cp -a "$GUEST_DIR"/kernel/usr/lib/uml/modules/. "$root/usr/lib/modules/"
        in_root depmod "$(ls "$GUEST_DIR/kernel/usr/lib/uml/modules")"
        rm -rf "$GUEST_DIR/kernel"
        in_root apt-get clean
        rm -rf "$root"/tmp/* "$root"/var/lib/apt/lists/*
    } 3>&2 >"$GUEST_DIR/packages.log" 2>&1 &
    wait $! || {
        tail -n 5 "$GUEST_DIR/packages.log" >&2
        exit 1
    }
    printf '%s' "$wanted" >"$GUEST_DIR/packages"
    rm -f "$root.ext4"
fi

if [ ! -e "$root.ext4" ] || [ "$here/init.sh" -nt "$root.ext4" ] || [ "$here/build.sh" -nt "$root.ext4" ]; then
    step '4/4 the disk'
    install -m 755 "$here/init.sh" "$root/usr/sbin/choro-init"
    mkdir -p "$root/job" "$root/guest"
    # A job may put its own there.
    touch "$root/etc/krb5.conf"
    printf '127.0.0.1 localhost guest\n10.99.0.1 host\n' >"$root/etc/hosts"
    rm -f "$root.ext4.new"
    size=$(($(du -sm "$root" | cut -f 1) + 200))
    mke2fs -q -F -t ext4 -O ^has_journal -m 0 -d "$root" "$root.ext4.new" "${size}M"
    # A guest that runs keeps the file it has.
    mv "$root.ext4.new" "$root.ext4"
fi
