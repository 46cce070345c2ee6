//! Links libtdb, which every distribution packages. It is LGPL: dynamically, therefore.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-lib=tdb");
}
