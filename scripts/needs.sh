# What the other scripts need of the machine. Sourced, not run.
#
#   need_packages NAME[=PROBE]...   Debian packages; elsewhere, the probes are looked for instead
#   need_rust                       a Rust toolchain that is new enough
#   need_room GIB                   disk for what is built
#   debian_mirror                   prints the archive of this machine
#   need_newest_smbtorture          a chroot with it, whose path is then in smbtorture_root
#
# A probe is a command, a path, or a file under /usr/include if it contains a dot.

say() {
    printf '==> %s\n' "$*" >&2
}

fail() {
    printf 'choro: %s\n' "$*" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        fail "root is needed to install packages, and there is no sudo; as root: $*"
    fi
}

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

has_probe() {
    case $1 in
        /*) [ -e "$1" ] ;;
        *.*) [ -e "/usr/include/$1" ] || [ -e "/usr/local/include/$1" ] ;;
        *) command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ] ;;
    esac
}

need_packages() {
    local wanted package missing=()
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        for wanted in "$@"; do
            has_probe "${wanted#*=}" || missing+=("${wanted#*=} (in Debian's package ${wanted%%=*})")
        done
        [ ${#missing[@]} -eq 0 ] && return
        printf 'choro: this is not Debian; please install:\n' >&2
        printf '  %s\n' "${missing[@]}" >&2
        exit 1
    fi
    for wanted in "$@"; do
        package=${wanted%%=*}
        is_installed "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    say "installing ${missing[*]}"
    as_root apt-get -q -o Acquire::Retries=3 update
    install_quietly "${missing[@]}"
}

# The first line of the policy below, by which a later run knows it for its own.
policy_mark='#!/bin/sh # of choro, while it installs packages; can be removed'

# Debian starts what it installs. A Samba that is only here to be compared with must not take the
# SMB port, now or at the next boot. The policy that prevents it must not stay either, or no service
# would be started again after an upgrade: it goes however this ends, and if that was impossible,
# with the next run.
install_quietly() {
    local policy=/usr/sbin/policy-rc.d status=0
    (
        if [ ! -e "$policy" ] || grep -qxF "$policy_mark" "$policy"; then
            trap 'as_root rm -f "$policy"' EXIT
            trap 'exit 130' HUP INT TERM
            printf '%s\nexit 101\n' "$policy_mark" | as_root tee "$policy" >/dev/null
            as_root chmod 755 "$policy"
        fi
        as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get -q -o Acquire::Retries=3 install -y --no-install-recommends "$@"
    ) || status=$?
    [ "$status" -eq 0 ] || fail "these packages could not be installed: $*"
    case " $* " in
        *' samba '*)
            if command -v systemctl >/dev/null; then
                as_root systemctl disable --quiet smbd nmbd samba-ad-dc 2>/dev/null || true
            fi
            ;;
    esac
    # Nor must a CTDB that is only here for tests take this machine into a cluster.
    case " $* " in
        *' ctdb '*)
            if command -v systemctl >/dev/null; then
                as_root systemctl disable --quiet ctdb 2>/dev/null || true
            fi
            ;;
    esac
}

# The mirror that this machine uses, since it may be the only one within reach; nothing if it says
# none, and debootstrap takes its own.
debian_mirror() {
    local uri
    uri=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
        grep -oE '^(URIs:|deb)[^#]*' | grep -oE '[a-z]+://[^ ]+/debian/?( |$)' | head -n 1) || true
    printf '%s' "$uri"
}

# Makes a chroot with the newest smbtorture, of Debian's unstable distribution, below target, unless it
# is there, and sets `smbtorture_root`. A gigabyte, a few minutes; for root.
need_newest_smbtorture() {
    local root=$PWD/target/smbtorture-sid version
    [ "$(id -u)" -eq 0 ] || fail 'the newest smbtorture runs in a chroot, which only root may make'
    need_packages debootstrap
    if [ ! -e "$root/made" ]; then
        say 'making a chroot with the newest smbtorture (a few minutes, the first time)'
        rm -rf --one-file-system "$root"
        # Packages that fail to configure there do not keep smbtorture from running.
        # shellcheck disable=SC2046
        debootstrap --variant=minbase --include=samba-testsuite sid "$root" $(debian_mirror) \
            >target/smbtorture-sid.log 2>&1 || true
        chroot "$root" smbtorture --version >/dev/null 2>&1 ||
            fail 'there is no newest smbtorture: see target/smbtorture-sid.log'
        # smbtorture looks up the address of the machine it runs on.
        printf '127.0.0.1 localhost %s\n' "$(cat /proc/sys/kernel/hostname)" >"$root/etc/hosts"
        touch "$root/made"
    fi
    version=$(chroot "$root" smbtorture --version | grep -oE '4\.[0-9]+' | head -n 1)
    [ -f "tests/smbtorture/expected-$version.tsv" ] ||
        fail "sid has smbtorture $version, and there is no tests/smbtorture/expected-$version.tsv"
    # shellcheck disable=SC2034
    smbtorture_root=$root
}

need_rust() {
    local wanted found oldest
    wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    # A toolchain that was installed a moment ago is not in the PATH of this shell yet.
    if ! command -v cargo >/dev/null && [ -x "$HOME/.cargo/bin/cargo" ]; then
        PATH=$HOME/.cargo/bin:$PATH
    fi
    if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
        fail "there is no Rust toolchain; Choro needs Rust $wanted or later: see rustup.rs"
    fi
    found=$(rustc --version | cut -d ' ' -f 2)
    oldest=$(printf '%s\n%s\n' "$wanted" "${found%%-*}" | sort -V | head -n 1)
    if [ "$oldest" != "$wanted" ]; then
        fail "Rust $found is too old; Choro needs $wanted or later: 'rustup update', or see rustup.rs"
    fi
}

# Warns if there are less than so many GiB for what is built; what is built already counts as free. A
# linker on a full disk says many things, but not that it is full.
need_room() {
    local target=${CARGO_TARGET_DIR:-target} taken=0 free
    if [ -d "$target" ]; then
        taken=$(du -s --block-size=1M "$target" | cut -f 1)
        free=$(df --output=avail --block-size=1M "$target" | tail -n 1)
    else
        free=$(df --output=avail --block-size=1M . | tail -n 1)
    fi
    if [ $((free + taken)) -lt $(($1 * 1024)) ]; then
        say "this takes $1 GiB of disk, and there are $(((free + taken) / 1024)): it may fail"
    fi
}

# The options of cargo that build what MESSAGING lists, a set of tdb, dgram and stream; none, and with
# that all of them, if it is empty.
choro_features() {
    local word words features=
    [ -n "${MESSAGING:-}" ] || return 0
    IFS=', ' read -r -a words <<<"$MESSAGING"
    for word in "${words[@]}"; do
        case $word in
            tdb | dgram | stream) features=$features,choro/messaging-$word ;;
            *) fail "MESSAGING: there is no messaging type '$word'; there are tdb, dgram and stream" ;;
        esac
    done
    printf -- '--no-default-features --features choro/counters%s\n' "$features"
}

# What it takes to build: aws-lc-sys compiles C, tdb links libtdb, observe has a library of charts in it.
need_to_build() {
    local charts=/usr/share/javascript/dygraphs/dygraph.min.js
    need_rust
    need_packages gcc=cc libc6-dev=stdio.h libtdb-dev=tdb.h
    # CHORO_DYGRAPHS is its folder where no package has it.
    [ -n "${CHORO_DYGRAPHS:-}" ] || need_packages "libjs-dygraphs=$charts"
}

# What stands before a command that is to do without io_uring, if IO_URING says no.
io_uring_launcher() {
    case ${IO_URING:-yes} in
        yes) ;;
        no) echo scripts/without_io_uring.py ;;
        *) fail "IO_URING: yes and no are understood, '$IO_URING' is not" ;;
    esac
}

# Builds a release of the server with what MESSAGING lists, and sets `choro` to its path.
build_choro() {
    local options=(--release --locked -p choro) features
    features=$(choro_features)
    # shellcheck disable=SC2206
    options+=($features)
    cargo build "${options[@]}"
    # shellcheck disable=SC2034
    choro=$(cargo build "${options[@]}" --message-format=json 2>/dev/null |
        sed -n 's/.*"executable":"\([^"]*\/choro\)".*/\1/p' | tail -n 1)
}

# What is built from here on can be asked at any time who called what: `choro profile`. Cargo keeps such
# a build apart from others.
keep_frame_pointers() {
    export RUSTFLAGS="${RUSTFLAGS:-} -C force-frame-pointers=yes"
}

# What it takes to run all tests.
need_to_test() {
    need_to_build
    need_packages acl=setfacl attr=setfattr bpftrace chromium ctdb=ctdbd debootstrap e2fsprogs=mkfs.ext4 \
        ethtool fail2ban=fail2ban-regex git iproute2=ip linux-perf=perf passwd=useradd procps=ps python3 python3-zeroconf=python3 \
        samba=smbd samba-common-bin=testparm samba-testsuite=smbtorture samba-vfs-modules=smbd smbclient strace systemd=systemd-analyze \
        tdb-tools=tdbdump util-linux=unshare valgrind xfsprogs=mkfs.xfs
}
