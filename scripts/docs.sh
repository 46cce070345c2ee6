#!/usr/bin/env bash
# Builds all pages as a site in target/docs, with mdBook, which it installs below target/tools.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

version=0.5.4
mdbook=target/tools/bin/mdbook
if [ "$("$mdbook" --version 2>/dev/null)" != "mdbook v$version" ]; then
    need_rust
    need_packages gcc=cc libc6-dev=stdio.h
    say "installing mdBook $version (a few minutes)"
    cargo install --quiet --locked --root target/tools --no-default-features --features search \
        "mdbook@$version"
fi

# mdBook takes pages of one folder, with the contents at its top; ours are in several.
book=target/book
rm -rf "$book" target/docs
mkdir -p "$book/src"
cp docs/book.toml "$book"
cp --parents -- *.md docs/*.md docs/*/* bench/results/* "$book/src"
sed -E 's|\]\(|](docs/|; s|\(docs/\.\./|(|' docs/SUMMARY.md >"$book/src/SUMMARY.md"
"$mdbook" build "$book" --dest-dir "$PWD/target/docs"
say 'the site: target/docs/index.html'
