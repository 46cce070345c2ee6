//! Links libtdb, which every distribution packages. Dynamically, because its licence is the LGPL.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-lib=tdb");
}
