#!/usr/bin/env bash
# Makes Debian's package of the server, in target/deb, with a list of what was built in (SBOM, CycloneDX).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

need_to_build
need_packages debhelper=dh dpkg-dev=dpkg-buildpackage fakeroot lintian git

out=$PWD/target/deb
rm -rf "$out"
mkdir -p "$out"
# dpkg-buildpackage writes beside the source, so the source gets a folder of its own. It holds what
# git knows, as it is now; cargo's folder is shared.
tree=$out/choro
git ls-files -z | while IFS= read -r -d '' file; do
    [ -e "$file" ] && printf '%s\0' "$file"
done | tar --null --files-from - -c | (mkdir "$tree" && tar -x -C "$tree")
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target/deb-build}
(cd "$tree" && dpkg-buildpackage --build=binary --no-sign --no-check-builddeps)
say 'listing what was built in'
if ! command -v cargo-cyclonedx >/dev/null && [ ! -x target/tools/bin/cargo-cyclonedx ]; then
    CARGO_TARGET_DIR=target/tools/build cargo install -q --locked --root target/tools cargo-cyclonedx
    rm -rf target/tools/build
fi
PATH=$PATH:$PWD/target/tools/bin
(cd "$tree" && cargo cyclonedx -q --format json --manifest-path crates/choro/Cargo.toml)
mv "$tree"/crates/choro/choro.cdx.json "$out"
rm -rf "$tree"
lintian --fail-on error "$out"/*.changes
say "made: $(echo "$out"/choro_*.deb)"
