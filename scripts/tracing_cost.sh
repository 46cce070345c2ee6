#!/usr/bin/env bash
# What seeing into a worker costs: one that is built without it, one that counts, one that `choro trace`
# looks at, and one that bpftrace is attached to, for some operations.
#
#   scripts/tracing_cost.sh                   processor time of the first three, in turn (tracing_time.py)
#   scripts/tracing_cost.sh --seconds N       for so long; 420 if it is not said
#   scripts/tracing_cost.sh --probes          of the one with bpftrace, too
#   scripts/tracing_cost.sh --instructions    instructions instead, those of the kernel too
#   scripts/tracing_cost.sh --instructions --rounds N --count N
#                                             so many rounds, so many operations of each kind
#   scripts/tracing_cost.sh … COUNTING PLAIN  compare these two builds, and build none
#
# Instructions are counted where no processor lets us: by qemu, whose clock then goes on by a nanosecond
# with each instruction of a Debian kernel with the two builds in it, on one processor, so that the
# kernel's account of run time is a number of instructions. `beside` is what `choro trace` runs each
# second, in which the processor runs 1,000,000,000.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

rounds=2 count=1000 seconds=420 instructions='' probes='' builds=()
while [ $# -gt 0 ]; do
    case $1 in
        --rounds) rounds=$2 && shift ;;
        --count) count=$2 && shift ;;
        --seconds) seconds=$2 && shift ;;
        --instructions) instructions=yes ;;
        --probes) probes=yes ;;
        -*) fail "there is no option $1" ;;
        *) builds+=("$(realpath "$1")") ;;
    esac
    shift
done

need_to_build
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# executable PATTERN OPTION...: what cargo has built, by its path
executable() {
    local pattern=$1
    shift
    cargo build --release --locked "$@"
    cargo build --release --locked "$@" --message-format=json 2>/dev/null |
        sed -n "s/.*\"executable\":\"\([^\"]*\/$pattern\)\".*/\1/p" | tail -n 1
}

cost=$(executable cost -p bench --example cost)
if [ ${#builds[@]} -eq 2 ]; then
    cp "${builds[0]}" "$work/counting"
    cp "${builds[1]}" "$work/plain"
else
    cp "$(executable choro -p choro)" "$work/counting"
    cp "$(executable choro -p choro --no-default-features \
        --features messaging-dgram,messaging-stream,messaging-tdb)" "$work/plain"
fi

# In a virtual machine: its first process does the same, and prints what it finds.
if [ -n "$instructions" ]; then
    need_packages qemu-system-x86=qemu-system-x86_64 busybox-static=busybox cpio
    root=$work/root
    mkdir -p "$root"/{bin,etc,proc,sys,dev,tmp,run}
    kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image\)/\1/p' | head -n 1)
    (cd "$work" && apt-get -q download "$kernel" >/dev/null && dpkg-deb -x linux-image*.deb kernel)
    cp "$(command -v busybox)" "$root/bin/busybox"
    cp "$work/counting" "$work/plain" "$cost" "$root/bin/"
    for name in sh id mount ip sleep poweroff; do ln -s busybox "$root/bin/$name"; done
    for program in counting plain; do
        ldd "$work/$program" | grep -oE '/[^ ]+' | while read -r library; do
            install -D "$library" "$root$library"
        done
    done
    printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' >"$root/etc/passwd"
    printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
    cat >"$root/init" <<INIT
#!/bin/sh
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mount -t tmpfs tmpfs /tmp; mount -t tmpfs tmpfs /run
ip link set lo up
# What firmware has left in the first line ends here.
echo
for round in \$(busybox seq $rounds); do
    for build in plain counting; do
        cost /bin/\$build /tmp/\$build\$round $count 2>&1 | busybox sed "s/^/RESULT \$build /"
    done
done
cost /bin/counting /tmp/traced $count \
    "with=/bin/counting --config /tmp/traced/smb.conf trace PID --interval 1" 2>&1 |
    busybox sed "s/^/RESULT traced /"
poweroff -f
INIT
    chmod +x "$root/init"
    (cd "$root" && find . | cpio -o -H newc --quiet) | gzip -1 >"$work/disk"
    # A processor with the instructions for ciphers: without them they would be most of what is counted.
    qemu-system-x86_64 -accel tcg -cpu max -icount shift=0,sleep=off -smp 1 -m 1024 \
        -nographic -no-reboot \
        -kernel "$work"/kernel/boot/vmlinuz-* -initrd "$work/disk" \
        -append 'console=ttyS0 quiet panic=-1 clocksource=tsc tsc=reliable' </dev/null |
        tr -d '\r' | sed -n 's/^RESULT //p' >"$work/found"
else
    need_packages python3
    variants=("plain=$work/plain=" "counting=$work/counting="
        "traced=$work/counting=$work/counting --config SITE/smb.conf trace PID --interval 1")
    if [ -n "$probes" ]; then
        need_packages bpftrace
        # A file of its own: a probe belongs to a file.
        cp "$work/counting" "$work/probed"
        variants+=("probed=$work/probed=tools/trace/run.sh tsmbd PID $work/probed")
    fi
    unshare --mount sh -c 'mount -t tracefs none /sys/kernel/tracing 2>/dev/null
        exec "$@"' sh python3 scripts/tracing_time.py "$cost" "$seconds" "${variants[@]}"
    exit
fi

[ -s "$work/found" ] || fail "nothing was measured"
# Medians, and the median of what each variant adds to the plain one of the same round.
python3 - "$work/found" <<'PYTHON'
import statistics, sys
found = {}
for line in open(sys.argv[1]):
    words = line.split()
    if len(words) == 3 and words[2].isdigit():
        found.setdefault(words[1], {}).setdefault(words[0], []).append(int(words[2]))
    else:
        print(line.rstrip(), file=sys.stderr)
for kind, variants in found.items():
    plain = variants.get("plain", [])
    print(kind, end="")
    for name, values in variants.items():
        print(f"\t{name} {statistics.median(values):.0f}", end="")
        if plain and name != "plain":
            adds = sorted((b / a - 1) * 100 for a, b in zip(plain, values))
            print(f" ({statistics.median(adds):+.2f} %, {adds[0]:+.2f} to {adds[-1]:+.2f})", end="")
    print()
PYTHON
