#!/usr/bin/env bash
# Makes an image of the server for Docker, Podman and Kubernetes, in target/image/choro.tar (an OCI
# archive): from nothing but the program and the libraries that it loads. The same tree and the same
# libraries give the same image, byte for byte. CHORO_BIN names a program that was built already.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

need_to_build
need_packages buildah binutils=strip git

export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
out=$PWD/target/image
rm -rf "$out/root" "$out/choro.tar"
mkdir -p "$out"
keep_frame_pointers
# Paths of this machine are in no message and no image.
export RUSTFLAGS="$RUSTFLAGS --remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
choro=${CHORO_BIN:-}
if [ -z "$choro" ]; then
    say 'building a release (a few minutes the first time)'
    build_choro
fi

say 'gathering the program and its libraries'
root=$out/root
install -D -m 755 "$choro" "$root/usr/sbin/choro"
strip "$root/usr/sbin/choro"
# Its script is part of the program.
charts=/usr/share/doc/libjs-dygraphs/copyright
[ ! -e "$charts" ] || install -D -m 644 "$charts" "$root$charts"
for library in $(ldd "$choro" | grep -oE '/[^ ]+'); do
    # Where the program looks for it, and not where a link leads.
    install -D -m 755 "$(readlink -f "$library")" "$root$library"
    package=$(dpkg-query -S "$(readlink -f "$library")" 2>/dev/null | head -n 1 | cut -d: -f1 || true)
    [ -z "$package" ] || [ ! -e "/usr/share/doc/$package/copyright" ] ||
        install -D -m 644 "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
done
install -D -m 644 -t "$root/usr/share/doc/choro" LICENSE-APACHE LICENSE-MIT
mkdir "$root/etc"
echo 'root:x:0:0:root:/:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/:/usr/sbin/nologin' >"$root/etc/passwd"
echo 'root:x:0:
nogroup:x:65534:' >"$root/etc/group"
mkdir "$root/shares"
# A new volume takes the mode of this folder, and the server may run as anybody.
mkdir -m 1777 "$root/state"

say 'making the image'
build=(buildah --root "$out/storage" --runroot "$out/run" --storage-driver vfs)
container=$("${build[@]}" from scratch)
trap '"${build[@]}" rm "$container" >/dev/null; rm -rf "$out/storage" "$out/run" "$out/oci" "$root"' EXIT
"${build[@]}" add --quiet "$container" "$root" / >/dev/null
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
"${build[@]}" config --user 1000:1000 --workingdir / --env CHORO_CONTAINER=yes \
    --entrypoint '["/usr/sbin/choro"]' --cmd serve --port 445 --volume /state --stop-signal SIGTERM \
    --env PATH=/usr/sbin \
    --label org.opencontainers.image.title=choro \
    --label org.opencontainers.image.description='SMB 2 and 3 file server' \
    --label org.opencontainers.image.licenses='MIT OR Apache-2.0' \
    --label org.opencontainers.image.version="$version" "$container"
"${build[@]}" commit --quiet --disable-compression=false --timestamp "$SOURCE_DATE_EPOCH" "$container" \
    "oci:$out/oci:choro:$version" >/dev/null
# An archive that buildah writes has the time of now in it.
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=ustar \
    -C "$out/oci" -cf "$out/choro.tar" .
size=$(stat -c %s "$out/choro.tar")
[ "$size" -le 15000000 ] || fail "the image has $size bytes; 15,000,000 are the limit"
say "made: $out/choro.tar, $size bytes, SHA-256 $(sha256sum "$out/choro.tar" | cut -c 1-64)"
say 'load it: podman load -i target/image/choro.tar, or: skopeo copy oci-archive:target/image/choro.tar docker-daemon:choro:latest'
